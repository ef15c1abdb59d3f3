"""A solution as data that the browser evaluates: small enough to travel in a page, exact enough to
compute every value from there.

Fields and what is linear in their derivatives (a vorticity v_x - u_y) share the series of the
derivatives they need; anything else that is computed point by point (a speed √(u² + v²)) is a
formula of those.

Every factor becomes a Chebyshev series along its axis, cut where the rest would change the values
by no more than a small part of the largest: a smooth factor needs a few dozen numbers where a table
would need thousands, and the series can be evaluated anywhere, not only on nodes. Every window has
the series of a plain sum of products for itself; networks with a core are joined, so that windows
share it and everything but the factors of time.
"""

from __future__ import annotations

import base64
import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.polynomial.chebyshev import chebval

from ..core import in_float64
from ..domain import TIME
from ..equations import Formula, Problem, formula_of
from ..separable import Key, Tucker, join, multiply_core, unfold
from ..solution import (
    Derivatives,
    LinearOutput,
    Solution,
    has_core,
    linear_outputs,
    sum_columns,
    tucker_columns,
)

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
    coefficients = np.asarray(scipy.fft.dct(values, type=2, axis=-2)) / NODES
    coefficients[..., 0, :] /= 2
    return coefficients


def _enough(left: np.ndarray, tolerance: float) -> int:
    small = np.flatnonzero(left <= tolerance)
    return max(1, int(small[0])) if small.size else len(left)


# --- what the browser evaluates -------------------------------------------------------------------

RANGE_POINTS = 2**17  # of the lattice on which the range of a field is found
MASK_BITS = 2**19


def payload(solution: Solution) -> dict[str, Any] | None:
    """All a page needs to compute a solution; None where there are no factors, or nothing but a
    line to look at."""
    problem, windows, box = solution.problem, solution.windows, solution.problem.box
    separable = solution.model.network.is_separable
    if box.dimension < 2 or not separable or not (outputs := linear_outputs(solution)):
        return None
    formulas = {
        k: formula_of(problem, k, solution.unknowns) for k in problem.outputs if k not in outputs
    }
    ranges = value_ranges(solution, list(problem.outputs))
    found = {k: f for k, f in formulas.items() if f is not None and k in ranges}
    outputs = {k: o for k, o in outputs.items() if k in ranges}
    inputs = {key: LinearOutput({key: 1.0}, 0.0) for f in found.values() for key in _derivatives(f)}
    if inputs:
        derivatives = solution.of_operator(Derivatives(tuple(inputs)))
        ranges |= value_ranges(derivatives, list(inputs))
    scales = {k: max(map(abs, each)) or 1.0 for k, each in ranges.items()}
    held = kept(windows, {**outputs, **inputs}, scales)
    # one after the other; what several windows share is there once
    arrays = {id(a): a for each in (held.cores, *held.windows) for a in each.values()}
    starts = itertools.accumulate((a.size for a in arrays.values()), initial=0)
    start = dict(zip(arrays, starts))
    tables = []
    for window, own in zip(windows, held.windows):
        low, high = window.problem.box[TIME] if TIME in box.axes else (0.0, 0.0)
        placed = [[*key, start[id(a)], *a.shape] for key, a in own.items()]
        tables.append({"low": low, "high": high, "arrays": placed})
    shown = {k: _sum(k, o) for k, o in outputs.items()}
    shown |= {k: _formula(k, f, problem) for k, f in found.items()}
    unknown = [k for k, f in formulas.items() if f is None]
    return {
        "name": problem.name,
        "axes": [{"name": a, "low": box[a][0], "high": box[a][1]} for a in box.axes],
        "outputs": [{**shown[k], "range": list(ranges[k])} for k in problem.outputs if k in shown],
        "left_out": [*getattr(problem, "left_out", ()), *unknown],
        "error": measured(windows, held, outputs, found, scales),
        "windows": tables,
        "cores": [[c, start[id(core)], *core.shape] for c, core in held.cores.items()],
        "mask": mask(problem),
        "numbers": base64.b64encode(b"".join(a.tobytes() for a in arrays.values())).decode(),
    }


def _derivatives(formula: Formula) -> list[Key]:
    """The inputs of a formula that are no coordinates."""
    return [key for key in formula.inputs if not isinstance(key, str)]


def _sum(name: str, output: LinearOutput) -> dict[str, Any]:
    terms = [[component, list(orders), c] for (component, orders), c in output.terms.items()]
    return {"name": name, "constant": output.constant, "terms": terms}


def _formula(name: str, formula: Formula, problem: Problem) -> dict[str, Any]:
    """A formula of other outputs, which have no name in the viewer, and of axes."""
    inputs = [
        {"axis": problem.box.index(key)}
        if isinstance(key, str)
        else _sum(f"∂{key}", LinearOutput({key: 1.0}, 0.0))
        for key in formula.inputs
    ]
    return {"name": name, **formula.plain(), "inputs": inputs}


def measured(
    windows: Sequence[Solution],
    held: Kept,
    outputs: Mapping[str, LinearOutput],
    formulas: Mapping[str, Formula],
    scales: Mapping[Any, float],
) -> float:
    """The largest error of what is kept, at random points of every window, relative to the largest
    value of each output."""
    box = windows[0].problem.box
    at = np.random.default_rng(0).uniform(-1, 1, (box.dimension, NODES))
    keys = {key for output in outputs.values() for key in output.terms}
    keys |= {key for formula in formulas.values() for key in _derivatives(formula)}
    order = max(order for _, orders in keys for order in orders)
    errors = []
    for number, window in enumerate(windows):
        ends = [window.problem.box[axis] for axis in box.axes]
        places = [low + (s + 1) * (high - low) / 2 for s, (low, high) in zip(at, ends)]
        jets = sum_columns(window, places, order)
        both: tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]] = {}, {}
        for c, orders in keys:
            rows = [jet[c, order] for jet, order in zip(jets, orders)]
            both[0][c, orders] = np.sum(np.prod(rows, axis=0), axis=1)
            both[1][c, orders] = held.derivative(number, (c, orders), list(at))
        for values in both:
            values |= dict(zip(box.axes, places))
            for name, output in outputs.items():
                values[name] = np.sum([c * values[key] for key, c in output.terms.items()], axis=0)
            with in_float64():
                found = {k: f([values[i] for i in f.inputs]) for k, f in formulas.items()}
            values |= {name: np.asarray(value) for name, value in found.items()}
        for name in (*outputs, *formulas):
            off = np.abs(both[0][name] - both[1][name])
            errors.append(np.max(off[np.isfinite(off)], initial=0.0) / scales[name])
    return float(max(errors))


def value_ranges(solution: Solution, names: Sequence[Any]) -> dict[Any, tuple[float, float]]:
    """The lowest and highest value of everything that is evaluated, on a lattice; what has no
    finite value is left out."""
    box = solution.problem.box
    lattice = box.lattice(max(2, min(128, int(RANGE_POINTS ** (1 / box.dimension)))))
    found = solution.values(lattice)
    values = {k: np.asarray(found[own]) for k, own in zip(names, solution.names)}
    finite = {k: v[np.isfinite(v)] for k, v in values.items()}
    return {k: (float(v.min()), float(v.max())) for k, v in finite.items() if v.size}


def mask(problem: Problem) -> dict[str, Any] | None:
    """Which cells of a regular grid lie inside the problem's shape, one bit each."""
    shape = problem.shape
    if shape is None:
        return None
    n = max(2, min(256, int(MASK_BITS ** (1 / len(shape.axes)))))
    grids = np.meshgrid(*(np.linspace(*problem.box[a], n) for a in shape.axes), indexing="ij")
    inside = shape.contains(np.stack([g.ravel() for g in grids], axis=1))
    bits = base64.b64encode(np.packbits(inside, bitorder="little").tobytes()).decode()
    return {"axes": list(shape.axes), "points": n, "bits": bits}


def largest_products(
    solution: Solution, field: str, number: int = 5
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[float]]:
    """The largest products of a field; of a march, those of the first window.

    Returns: per axis the coordinates and the factors (NODES, number), each scaled to at most one;
        and the sizes of the products.
    """
    window = solution.windows[0]
    box, component = window.problem.box, window.problem.fields.index(field)
    places = [np.linspace(*box[a], NODES) for a in box.axes]
    factors = [jet[component, 0] for jet in sum_columns(window, places, 0)]
    largest = [np.max(np.abs(f), axis=0) for f in factors]
    sizes = np.prod(largest, axis=0)
    top = np.argsort(-sizes)[:number]
    scaled = [(f / np.maximum(most, 1e-300))[:, top] for f, most in zip(factors, largest)]
    curves = {a: (x, f) for a, x, f in zip(box.axes, places, scaled)}
    return curves, [float(s) for s in sizes[top]]
