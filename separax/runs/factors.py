"""The factors of a solution on a regular lattice, for any other tool: what `factors.npz` holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..domain import TIME, Lattice
from ..separable import Key, Tucker, join, shorten, sum_of_tuckers
from ..solution import Solution, has_core, tucker_columns
from .describing import combinations

NODES = 256  # per axis
TOLERANCE = 1e-7  # relative: what columns and cores leave out, as much as float32 does

Terms = tuple[tuple[Key, float], ...]  # derivatives of fields, and their coefficients


def factors(solution: Solution) -> dict[str, np.ndarray] | None:
    """The factors of every field on a lattice of 256 nodes per axis, in float32:

        u = Σ_r u.x[:, r] u.y[:, r]
        u = Σ_ab u.core[a, b] u.x[:, a] u.y[:, b]        where the network has a core

    The windows of a march have factors of their own, whose names begin with the number of the
    window: `2.u.x`. Where there is a core they share it, and everything but the factors of time.

    Arguments:
        solution: of which quantities that are sums of derivatives have factors, too.
    Returns: arrays by name, with the nodes of each axis, `nodes.x`; None where the network is not
        separable.
    """
    windows = solution.windows
    network = solution.model.network
    if not network.is_separable:
        return None
    if has_core(network):
        return _with_cores(windows)
    return {
        prefix + name: array
        for prefix, window in zip(_prefixes(windows), windows)
        for name, array in _without_core(window).items()
    }


def _prefixes(windows: Sequence[Solution]) -> list[str]:
    """What the names begin with that a window has for itself."""
    return [f"{number + 1}." if len(windows) > 1 else "" for number in range(len(windows))]


def _sums(solution: Solution) -> dict[str, tuple[Terms, float]]:
    """Fields, and what is derived from them by sums of derivatives: terms and a constant."""
    zero = (0,) * solution.problem.box.dimension
    found: dict[str, tuple[Terms, float]] = {
        name: ((((i, zero), 1.0),), 0.0) for i, name in enumerate(solution.problem.fields)
    }
    for name, each in combinations(solution)[0].items():
        if "terms" in each:  # what is no sum of derivatives has no factors
            terms = tuple(((component, tuple(orders)), c) for component, orders, c in each["terms"])
            found[name] = terms, each["constant"]
    return found


def _without_core(solution: Solution) -> dict[str, np.ndarray]:
    box, sums = solution.problem.box, _sums(solution)
    lattice = box.lattice(NODES)
    found = {f"nodes.{axis}": np.asarray(lattice[axis], np.float32) for axis in box.axes}
    with jax.enable_x64(True):
        place = solution.pieces[0].own_time(lattice)
        each = _sampled(solution.model.network, place, tuple(terms for terms, _ in sums.values()))
    for (name, (_, constant)), made in zip(sums.items(), each):
        for i, (axis, factor) in enumerate(zip(box.axes, made)):
            column = np.full((len(factor), 1), 1.0 if i else constant, np.float32)
            found[f"{name}.{axis}"] = np.concatenate(
                [np.asarray(factor, np.float32)] + [column] * bool(constant), 1
            )
    return found


@eqx.filter_jit
def _sampled(network: Any, place: Lattice, sums: tuple[Terms, ...]) -> list[list[Array]]:
    """By sum the columns of each axis. Compiled once for all windows."""
    (source,) = network.sources([place], [{key for terms in sums for key, _ in terms}])
    return [source.factors(dict(terms)) for terms in sums]


def _with_cores(windows: Sequence[Solution]) -> dict[str, np.ndarray]:
    axes, sums = windows[0].problem.box.axes, _sums(windows[0])
    along = axes.index(TIME) if len(windows) > 1 else 0
    order = max(order for terms, _ in sums.values() for (_, orders), _ in terms for order in orders)
    nodes = [[np.linspace(*window.problem.box[axis], NODES) for axis in axes] for window in windows]
    sampled = [tucker_columns(window, places, order) for window, places in zip(windows, nodes)]
    found: dict[str, Any] = {}

    def add(name: str, each: Sequence[Sequence[np.ndarray]]) -> None:
        """Arrays by window and axis: those of one axis differ."""
        for prefix, arrays in zip(_prefixes(windows), each):
            for i, (axis, array) in enumerate(zip(axes, arrays)):
                found[f"{prefix if i == along else ''}{name}.{axis}"] = np.asarray(
                    array, np.float32
                )

    add("nodes", nodes)
    for name, (terms, constant) in sums.items():
        made = join([_summed(components, terms, constant) for components in sampled], along)
        short = shorten(made, TOLERANCE)
        add(name, [[factor[0] for factor in each.factors] for each in short])
        found[f"{name}.core"] = np.asarray(short[0].core, np.float32)
    return found


def _summed(components: Sequence[Tucker], terms: Terms, constant: float) -> Tucker:
    """A sum of derivatives and a number."""
    parts = [
        Tucker(
            [f[order : order + 1] for f, order in zip(components[c].factors, orders)],
            factor * components[c].core,
        )
        for (c, orders), factor in terms
    ]
    if constant:
        one = components[0]
        parts.append(
            Tucker(
                [np.ones((1, f.shape[1], 1)) for f in one.factors],
                np.full((1,) * one.core.ndim, constant),
            )
        )
    return sum_of_tuckers(parts)
