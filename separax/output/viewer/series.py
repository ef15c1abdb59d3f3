"""The Chebyshev series of a solution's factors, as many of them as a page has room for.

Every factor becomes a Chebyshev series along its axis, cut where the rest would change the values
by no more than a small part of the largest: a smooth factor needs a few dozen numbers where a table
would need thousands, and the series can be evaluated anywhere, not only on nodes. Every window has
the series of a plain sum of products for itself; networks with a core are joined, so that windows
share it and everything but the factors of time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.fft import dct

from ...domain import TIME
from ...separable import Key, Tucker, join, multiply_core, unfold
from ...solution import LinearOutput, Solution, has_core, sum_columns, tucker_columns

NODES = 256  # per axis: the longest series
MOST_NUMBERS = 400_000  # 1.6 MB as float32, 2.1 MB in a page
# of the largest value, in the mean; the first with which it all fits is taken
TOLERANCES = 10.0 ** np.arange(-7, 0.01, 0.125)

Array = tuple[int, int, int]  # which factors: component, axis, order of the derivative
Outputs = Mapping[Any, LinearOutput]
Scales = Mapping[Any, float]
LeftOut = dict[Any, np.ndarray]  # [n]: what is left out by keeping n of something


@dataclass(frozen=True)
class Kept:
    """What a page has of a solution: by window the series (length, columns) of all the factors
    needed, and by component the core that joins their columns. Without cores it is a plain sum of
    products. An array may serve several windows."""

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


@dataclass(frozen=True)
class Group:
    """The series of windows that are cut alike.

    Attributes:
        series: by component, per axis an array (windows, orders, NODES, columns), with one window
            where all share it.
        cores: by component; empty for plain sums of products.
        windows: their number.
    """

    series: Mapping[int, Sequence[np.ndarray]]
    cores: Mapping[int, np.ndarray]
    windows: int = 1

    def left_out(self, outputs: Outputs, scales: Scales) -> tuple[LeftOut, LeftOut]:
        """What cutting adds to an output in the mean, relative to its largest value; of all outputs
        the most.

        Returns: by component and axis that of the columns after the first n, where there are cores;
            and by array that of the coefficients after the first n of its series.
        """
        made: dict[Key, list[tuple[np.ndarray, np.ndarray]]] = {}
        most: tuple[LeftOut, LeftOut] = {}, {}
        for name, output in outputs.items():
            here: tuple[LeftOut, LeftOut] = {}, {}
            for key, coefficient in output.terms.items():
                component, orders = key
                made[key] = made.get(key) or self._sizes(component, orders)
                share = abs(coefficient) / scales[name]
                for axis, (order, sizes) in enumerate(zip(orders, made[key])):
                    places = (component, axis), (component, axis, order)
                    for each, place, size in zip(here, places, sizes):
                        each[place] = each.get(place, 0.0) + share * size
            for every, each in zip(most, here):
                every |= {k: np.maximum(every.get(k, 0.0), left) for k, left in each.items()}
        return most if self.cores else ({}, most[1])

    def _sizes(self, component: int, orders: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per axis the size of a derivative's part in the columns after the first n, and in the
        coefficients after the first n."""
        series = [s[:, order] for s, order in zip(self.series[component], orders)]
        grams = [np.einsum("wmr,wms->rs", s, s, optimize=True) / len(s) for s in series]
        found = []
        for axis, (own, gram) in enumerate(zip(series, grams)):
            others = {i: g for i, g in enumerate(grams) if i != axis}
            # what the columns of this axis are multiplied by, squared
            if self.cores:
                core = self.cores[component]
                inner = unfold(core, axis) @ unfold(multiply_core(core, others), axis).T
            else:
                inner = functools.reduce(operator.mul, others.values(), np.ones_like(gram))
            dropped = np.cumsum(np.cumsum((inner * gram)[::-1, ::-1], 0), 1).diagonal()[::-1]
            cut = np.cumsum(np.sum((own @ inner) * own, axis=(0, 2))[::-1])[::-1] / len(own)
            found.append((np.sqrt(np.maximum(dropped, 0.0)), np.sqrt(np.maximum(cut, 0.0))))
        return found

    def shortened(self, columns: LeftOut, lengths: LeftOut, tolerance: float) -> Kept:
        """What is left where the rest is smaller than a tolerance."""

        def series(window: int, key: Array) -> np.ndarray:
            component, axis, order = key
            width = _enough(columns[key[:2]], tolerance) if self.cores else None
            every = self.series[component][axis]
            return every[window, order, : _enough(lengths[key], tolerance), :width].astype("<f4")

        shared = {key: series(0, key) for key in lengths if len(self.series[key[0]][key[1]]) == 1}
        windows = [
            shared | {key: series(i, key) for key in lengths if key not in shared}
            for i in range(self.windows)
        ]
        cores = {
            c: core[tuple(slice(_enough(columns[c, a], tolerance)) for a in range(core.ndim))]
            for c, core in self.cores.items()
        }
        return Kept(windows, {c: core.astype("<f4") for c, core in cores.items()})


def kept(windows: Sequence[Solution], outputs: Outputs, scales: Scales) -> Kept:
    """The most exact series that fit in a page.

    Arguments:
        windows: of a solution.
        outputs: what is to be shown, by name.
        scales: the largest value of each.
    """
    keys = {key for output in outputs.values() for key in output.terms}
    order = max(order for _, orders in keys for order in orders)
    components = sorted({component for component, _ in keys})
    if has_core(windows[0].model.network):
        groups = [_joined(windows, components, order)]
    else:
        groups = [_separate(window, components, order) for window in windows]
    left = [group.left_out(outputs, scales) for group in groups]
    parts: list[Kept] = []
    for tolerance in TOLERANCES:
        parts = [g.shortened(*each, tolerance) for g, each in zip(groups, left)]
        arrays = [a for p in parts for each in (p.cores, *p.windows) for a in each.values()]
        if sum(a.size for a in {id(a): a for a in arrays}.values()) <= MOST_NUMBERS:
            break
    return Kept([window for part in parts for window in part.windows], parts[0].cores)


def _separate(window: Solution, components: Sequence[int], order: int) -> Group:
    """A window as a plain sum of products."""
    columns = sum_columns(window, nodes(window), order)
    return Group({c: [_through(jet[c])[None] for jet in columns] for c in components}, {})


def _joined(windows: Sequence[Solution], components: Sequence[int], order: int) -> Group:
    """Windows with a core, which they share with all factors but those of time."""
    axes = windows[0].problem.box.axes
    along = axes.index(TIME) if TIME in axes else 0
    parts = [tucker_columns(window, nodes(window), order) for window in windows]
    series, cores = {}, {}
    for c in components:
        each = [Tucker([_through(f) for f in part[c].factors], part[c].core) for part in parts]
        found = join(each, along)
        series[c] = [
            np.stack([part.factors[axis] for part in (found if axis == along else found[:1])])
            for axis in range(len(axes))
        ]
        cores[c] = found[0].core
    return Group(series, cores, len(windows))


def nodes(window: Solution) -> list[np.ndarray]:
    """The Chebyshev nodes of every axis of a window."""
    unit = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    box = window.problem.box
    return [low + (unit + 1) * (high - low) / 2 for low, high in (box[a] for a in box.axes)]


def _through(values: np.ndarray) -> np.ndarray:
    """The Chebyshev coefficients of values (…, nodes, columns)."""
    coefficients = np.asarray(dct(values, type=2, axis=-2)) / NODES
    coefficients[..., 0, :] /= 2
    return coefficients


def _enough(left: np.ndarray, tolerance: float) -> int:
    small = np.flatnonzero(left <= tolerance)
    return max(1, int(small[0])) if small.size else len(left)
