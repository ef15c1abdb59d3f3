"""The Chebyshev series of a solution's factors, as many of them as a page has room for.

Every factor becomes a Chebyshev series along its axis, cut where the rest would change no value by more than a small part of
the largest: a smooth factor needs a few dozen numbers where a table would need thousands, and the series can be evaluated
anywhere, not only on nodes. Here are those of a plain sum of products, which every window has for itself; of a network with a core, see
`cores`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.fft import dct

from ...domain import TIME
from ...networks import SeparableNetwork
from ...separable import Key, Tucker, join, multiply_core, unfold
from ...solution import in_double, tucker_columns

if TYPE_CHECKING:
    from ...solution import Solution

NODES = 256  # per axis: the longest series
MOST_NUMBERS = 400_000  # 1.6 MB as float32, 2.1 MB in a page
TOLERANCES = (
    1e-7,
    1e-6,
    1e-5,
    1e-4,
    1e-3,
    1e-2,
)  # of the largest value; the first whose series fit is taken

Array = tuple[int, int, int]  # which factors: component, axis, order of the derivative


@dataclass(frozen=True)
class Output:
    """What can be looked at: Σ coefficient · ∂^orders of the components, plus a number."""

    terms: Mapping[Key, float]
    constant: float


Outputs = Mapping[Any, Output]
Scales = Mapping[Any, float]


@dataclass(frozen=True)
class Kept:
    """What a page has of a solution: by window the series (length, columns) of all the factors needed, and by component the core that
    joins their columns. Without cores it is a plain sum of products. An array may serve several windows."""

    windows: Sequence[Mapping[Array, np.ndarray]]
    cores: Mapping[int, np.ndarray]

    def derivative(self, window: int, key: Key, at: Sequence[np.ndarray]) -> np.ndarray:
        """At points of a window, their coordinates from -1 to 1."""
        component, orders = key
        series = [self.windows[window][component, axis, order] for axis, order in enumerate(orders)]
        rows = [chebval(s, c, tensor=True).T for s, c in zip(at, series)]
        if not self.cores:
            return np.sum(functools.reduce(operator.mul, rows), axis=1)
        values = np.tensordot(rows[0], self.cores[component], 1)
        for row in rows[1:]:
            values = np.einsum("nb...,nb->n...", values, row)
        return values


def nodes(window: Solution) -> list[np.ndarray]:
    unit = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    box = window.problem.box
    return [low + (unit + 1) * (high - low) / 2 for low, high in (box[a] for a in box.axes)]


def through(values: np.ndarray) -> np.ndarray:
    """The Chebyshev coefficients of values (…, nodes, columns)."""
    coefficients = np.asarray(dct(values, type=2, axis=-2)) / NODES
    coefficients[..., 0, :] /= 2
    return coefficients


# --- a plain sum of products -------------------------------------------------------------------------------------------


def jets_at(window: Solution, coordinates: Sequence[np.ndarray], order: int) -> list[np.ndarray]:
    """Per axis the factors (components, orders, points, rank) of the plain sum of products that any separable network is."""
    with jax.enable_x64(True):
        network, own = in_double(window, coordinates)
        return [np.asarray(jet) for jet in _jets(network, own, order)]


@eqx.filter_jit
def _jets(network: SeparableNetwork, coordinates: tuple[Any, ...], order: int) -> Any:
    return network.factors(coordinates, order)


def series(window: Solution, needed: Sequence[Array]) -> dict[Array, np.ndarray]:
    """The Chebyshev coefficients (NODES, rank) of all the factors needed."""
    jets = jets_at(window, nodes(window), max(order for *_, order in needed))
    return {
        (component, axis, order): through(jets[axis][component, order])
        for component, axis, order in needed
    }


def lengths(
    found: Mapping[Array, np.ndarray], outputs: Outputs, scales: Scales, tolerance: float
) -> list[int]:
    """How many coefficients each axis needs: what cutting its series leaves out, times the usual size of the other factors,
    stays below `tolerance` of the scale of every output."""
    axes = 1 + max(axis for _, axis, _ in found)
    tails = {
        k: np.sqrt(np.cumsum(c[::-1] ** 2, axis=0)[::-1]) for k, c in found.items()
    }  # [n]: the size of all but n terms
    needed = [1] * axes
    for name, output in outputs.items():
        errors = np.zeros((axes, NODES))
        for (component, orders), coefficient in output.terms.items():
            sizes = [tails[component, axis, order] for axis, order in enumerate(orders)]
            for axis in range(axes):
                others = np.prod([s[0] for i, s in enumerate(sizes) if i != axis], axis=0)
                errors[axis] += np.sum((coefficient * sizes[axis] * others) ** 2, axis=1)
        allowed = (tolerance * scales[name]) ** 2
        for axis in range(axes):
            enough = np.flatnonzero(errors[axis] <= allowed)
            needed[axis] = max(needed[axis], int(enough[0]) if enough.size else NODES)
    return needed


def plain(
    windows: Sequence[Solution], needed: Sequence[Array], outputs: Outputs, scales: Scales
) -> Kept:
    """The factors of every window, as exact as they fit in a page."""
    every = [series(window, needed) for window in windows]
    short = [
        {key: c[: count[key[1]]].astype("<f4") for key, c in found.items()}
        for found, count in zip(every, _that_fit(every, outputs, scales))
    ]
    return Kept(short, {})


def _that_fit(
    every: Sequence[Mapping[Array, np.ndarray]], outputs: Outputs, scales: Scales
) -> list[list[int]]:
    """The lengths of the series by window and axis, for the smallest tolerance with which they fit in a page."""

    def size(counts: Sequence[Sequence[int]]) -> int:
        return sum(
            count[axis] * c.shape[1]
            for found, count in zip(every, counts)
            for (_, axis, _), c in found.items()
        )

    for tolerance in TOLERANCES:
        counts = [lengths(found, outputs, scales, tolerance) for found in every]
        if size(counts) <= MOST_NUMBERS:
            return counts
    part = MOST_NUMBERS / size(counts)  # very many windows or products: all series are cut alike
    return [[max(2, int(n * part)) for n in count] for count in counts]


CORE_TOLERANCES = 10.0 ** np.arange(
    -7, 0.01, 0.125
)  # of the largest value, in the mean; the first with which it all fits is taken

Left = dict[
    Any, np.ndarray
]  # what is left out by keeping n = 0, 1, … of something, relative to the largest value


def with_cores(
    windows: Sequence[Solution], needed: Sequence[Array], outputs: Outputs, scales: Scales
) -> Kept:
    """The most exact columns and cores that fit in a page."""
    axes = windows[0].problem.box.axes
    along = axes.index(TIME) if TIME in axes else 0
    order = max(order for *_, order in needed)
    parts = [tucker_columns(window, nodes(window), order) for window in windows]
    found = {
        c: join(
            [Tucker([through(f) for f in part[c].factors], part[c].core) for part in parts], along
        )
        for c in sorted({component for component, *_ in needed})
    }
    columns, rows = _left_out(found, along, outputs, scales)
    for tolerance in CORE_TOLERANCES:
        ranks, lengths = (
            {k: _enough(left, tolerance) for k, left in each.items()} for each in (columns, rows)
        )
        cores = {
            c: parts[0].core[tuple(slice(ranks[c, axis]) for axis in range(len(axes)))]
            for c, parts in found.items()
        }
        copies = {k: len(windows) if k[1] == along else 1 for k in needed}
        size = sum(core.size for core in cores.values()) + sum(
            copies[k] * lengths[k] * ranks[k[:2]] for k in needed
        )
        if size <= MOST_NUMBERS:
            break

    def short(window: int, key: Array) -> np.ndarray:
        component, axis, order = key
        return (
            found[component][window]
            .factors[axis][order, : lengths[key], : ranks[component, axis]]
            .astype("<f4")
        )

    shared = {key: short(0, key) for key in needed if key[1] != along}
    own = [{key: short(i, key) for key in needed if key[1] == along} for i in range(len(windows))]
    return Kept(
        [shared | each for each in own], {c: core.astype("<f4") for c, core in cores.items()}
    )


def _left_out(
    found: Mapping[int, Sequence[Tucker]], along: int, outputs: Outputs, scales: Scales
) -> tuple[Left, Left]:
    """By component and axis what the columns after the first n add to an output, and by array what the coefficients after the first n of
    its series do; of all outputs the most."""
    made: dict[Key, list[tuple[np.ndarray, np.ndarray]]] = {}
    columns: Left = {}
    rows: Left = {}
    for name, output in outputs.items():
        here: tuple[Left, Left] = {}, {}
        for key, coefficient in output.terms.items():
            component, orders = key
            if key not in made:
                made[key] = _of_derivative(found[component], along, orders)
            for axis, (left, order) in enumerate(zip(made[key], orders)):
                for each, place, size in zip(
                    here, ((component, axis), (component, axis, order)), left
                ):
                    each[place] = each.get(place, 0.0) + abs(coefficient) / scales[name] * size
        for every, each in zip((columns, rows), here):
            every |= {
                place: np.maximum(every.get(place, 0.0), left) for place, left in each.items()
            }
    return columns, rows


def _of_derivative(
    parts: Sequence[Tucker], along: int, orders: Sequence[int]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per axis the size of a derivative's part in the columns after the first n, and in the coefficients after the first n."""
    core = parts[0].core
    series = [
        np.stack([part.factors[axis][order] for part in (parts if axis == along else parts[:1])])
        for axis, order in enumerate(orders)
    ]
    grams = [np.einsum("wmr,wms->rs", s, s, optimize=True) / len(s) for s in series]
    found = []
    for axis, (own, gram) in enumerate(zip(series, grams)):
        others = multiply_core(core, {i: g for i, g in enumerate(grams) if i != axis})
        inner = (
            unfold(core, axis) @ unfold(others, axis).T
        )  # what the columns of this axis are multiplied by, squared
        dropped = np.cumsum(np.cumsum((inner * gram)[::-1, ::-1], 0), 1).diagonal()[::-1]
        cut = np.cumsum(np.sum((own @ inner) * own, axis=(0, 2))[::-1])[::-1] / len(own)
        found.append(tuple(np.sqrt(np.maximum(each, 0.0)) for each in (dropped, cut)))
    return found


def _enough(left: np.ndarray, tolerance: float) -> int:
    small = np.flatnonzero(left <= tolerance)
    return max(1, int(small[0])) if small.size else len(left)
