"""The factors of a solution, in float64: what is kept and shown of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..domain import Lattice
from ..networks import SeparableNetwork
from ..separable import MOST_CORE, Tucker
from .solution import Solution


def has_core(network: Any) -> bool:
    """Whether a network is best written with its core. What is built in is a sum of products, whose columns join every axis."""
    if not network.is_separable or not network.separable.merge.has_core:
        return False
    more = 0 if network.known_part is None else network.known_part.rank
    return math.prod(rank + more for rank in network.merge.ranks) <= MOST_CORE


def in_double(window: Solution, coordinates: Sequence[np.ndarray]) -> tuple[Any, tuple[Any, ...]]:
    """The network of a window and the coordinates as it counts them, in float64 whatever the precision of the training was: what
    rounding adds to a column has no short series. Inside `jax.enable_x64`."""
    piece, axes = window.pieces[0].in_double(), window.problem.box.axes
    place = Lattice(weights=None, **dict(zip(axes, coordinates)))
    return piece.model.network, piece.own_time(place).coordinates


def tucker_columns(window: Solution, coordinates: Sequence[np.ndarray], order: int) -> list[Tucker]:
    """The columns of a network with a core and their derivatives up to `order`, by component; what is built in comes last."""
    with jax.enable_x64(True):
        network, own = in_double(window, coordinates)
        found, known = jax.tree.map(np.asarray, _columns(network, own, order))
    cores = np.asarray(network.core, np.float64)
    if known is None:
        return [Tucker([f[i] for f in found], core) for i, core in enumerate(cores)]
    more = known[0].shape[-1]
    made = []
    for i, core in enumerate(cores):
        wide = np.pad(core, [(0, more)] * core.ndim)
        wide[tuple(np.arange(more) + n for n in core.shape)] = 1.0
        made.append(Tucker([np.concatenate([f[i], k[i]], -1) for f, k in zip(found, known)], wide))
    return made


@eqx.filter_jit
def _columns(network: SeparableNetwork, coordinates: tuple[Any, ...], order: int) -> Any:
    known = network.known_part
    own = network.columns(coordinates, order)
    return own, None if known is None else known.factors(coordinates, order)
