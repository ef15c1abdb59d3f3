"""A network with a core, made small: few columns per axis, and a core no larger than they need.

    u = Σ_abc G_abc f_a(t) g_b(x) h_c(y)

By the higher-order singular value decomposition: the columns of an axis become orthonormal and come in the order of what they add to u,
so that leaving out the last ones leaves out the least. The windows of a march share the core and their columns in space; only the
columns in time are each window's own. Where a flow changes slowly that is a small part of what the windows hold one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .loss import TIME
from .networks import SeparableNetwork
from .solution import Solution

EXACT = 1e-13  # relative: smaller columns are rounding
MOST_CORE = 2**24  # numbers in a core while it is made
TINY = 1e-300


@dataclass(frozen=True)
class Tucker:
    """`factors` are, per axis, columns and their derivatives (orders, rows, columns): values on points, or coefficients of series."""

    factors: Sequence[np.ndarray]
    core: np.ndarray


def has_core(network: Any) -> bool:
    """Whether a network is best written with its core. What is built in is a sum of products, whose columns join every axis."""
    if not isinstance(network, SeparableNetwork) or not network.merge.core:
        return False
    more = 0 if network.lift is None else network.lift.rank
    return math.prod(rank + more for rank in network.merge.ranks) <= MOST_CORE


def in_double(window: Solution, coordinates: Sequence[np.ndarray]) -> tuple[Any, tuple[Any, ...]]:
    """The network of a window and the coordinates as it counts them, in float64 whatever the precision of the training was: what
    rounding adds to a column has no short series. Inside `jax.enable_x64`."""
    network = jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, window.model.network)
    at = zip(window.problem.box.axes, coordinates)
    return network, tuple(jnp.asarray(c - (window.since if axis == TIME else 0.0)) for axis, c in at)


def columns(window: Solution, coordinates: Sequence[np.ndarray], order: int) -> list[Tucker]:
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
    return network.unmerged(coordinates, order), None if network.lift is None else network.lift.jets(coordinates, order)


def joined(parts: Sequence[Tucker], along: int) -> list[Tucker]:
    """The same functions with one core for all and the same columns on every axis but `along`, orthonormal in their rows and by
    decreasing size; those of `along` are orthonormal over the rows of all parts together."""
    axes = range(parts[0].core.ndim)
    triangles = [[_triangle(f[0]) for f in part.factors] for part in parts]
    rows = sum(len(own[along]) for own in triangles)
    most = int((MOST_CORE / rows) ** (1 / max(1, len(axes) - 1)))
    shared: dict[int, np.ndarray] = {}
    for axis in axes:
        if axis != along:
            weighed = [
                part.factors[axis] @ _left(times(part.core, {i: r for i, r in enumerate(own) if i != axis}), axis)
                for part, own in zip(parts, triangles)
            ]
            shared[axis] = _orthonormal(np.concatenate(weighed, -1), most)
    cores = [times(p.core, {axis: basis[0].T @ p.factors[axis][0] for axis, basis in shared.items()}) for p in parts]
    flat = [unfolded(core, along) for core in cores]
    _, sizes, right = np.linalg.svd(np.concatenate([own[along] @ f for own, f in zip(triangles, flat)]), full_matrices=False)
    kept = _number(sizes)
    turn = right[:kept].T / np.maximum(sizes[:kept], TINY)
    rest = [shared[axis].shape[-1] for axis in shared]
    core = np.moveaxis((sizes[:kept, None] * right[:kept]).reshape(kept, *rest), 0, along)
    return [
        Tucker([part.factors[axis] @ (f @ turn) if axis == along else shared[axis] for axis in axes], core)
        for part, f in zip(parts, flat)
    ]


def shortened(parts: Sequence[Tucker], tolerance: float) -> list[Tucker]:
    """What `joined` made, without the last columns: along each axis they add less than `tolerance` of the whole."""
    core = parts[0].core
    allowed = tolerance * float(np.linalg.norm(core))
    ranks = []
    for axis in range(core.ndim):
        left = np.sqrt(np.cumsum(np.sum(unfolded(core, axis) ** 2, 1)[::-1])[::-1])  # [n]: the size of all but n columns
        ranks.append(max(1, int(np.sum(left > allowed))))
    core = core[tuple(map(slice, ranks))]
    return [Tucker([f[..., :rank] for f, rank in zip(part.factors, ranks)], core) for part in parts]


def summed(parts: Sequence[Tucker]) -> Tucker:
    """A sum of functions without derivatives, sampled in the same rows, as one."""
    if len(parts) == 1:
        return parts[0]
    bases, triangles = [], []
    for each in zip(*(part.factors for part in parts)):
        basis, triangle = np.linalg.qr(np.concatenate([f[0] for f in each], 1))
        bases.append(basis[None])
        triangles.append(np.split(triangle, np.cumsum([f.shape[-1] for f in each])[:-1], axis=1))
    cores = [times(part.core, dict(enumerate(own))) for part, own in zip(parts, zip(*triangles))]
    return Tucker(bases, np.sum(cores, axis=0))


def times(core: np.ndarray, matrices: Mapping[int, np.ndarray]) -> np.ndarray:
    """A core multiplied along some of its axes."""
    for axis, matrix in matrices.items():
        core = np.moveaxis(np.tensordot(matrix, core, (1, axis)), 0, axis)
    return core


def unfolded(core: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1)


def _left(core: np.ndarray, axis: int) -> np.ndarray:
    """What stands left of orthonormal rows in the (very wide) unfolding along an axis."""
    return _triangle(unfolded(core, axis).T).T


def _triangle(matrix: np.ndarray) -> np.ndarray:
    """The matrix in terms of an orthonormal basis of its columns."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _number(sizes: np.ndarray) -> int:
    return max(1, int(np.sum(sizes > EXACT * sizes[0])))


def _orthonormal(jets: np.ndarray, most: int) -> np.ndarray:
    """Orthonormal combinations of the columns (orders, rows, columns), the largest first; derivatives follow."""
    left, sizes, right = np.linalg.svd(jets[0], full_matrices=False)
    kept = min(_number(sizes), most)
    made = jets @ (right[:kept].T / np.maximum(sizes[:kept], TINY))
    made[0] = left[:, :kept]  # the same, but for rounding: combinations as small as that are not orthogonal
    return made
