"""A solution as data that the browser evaluates: small enough to travel in a page, exact enough to
compute every value from there.

Fields and what is linear in their derivatives (a vorticity v_x - u_y) share the series of the
derivatives they need; anything else that is computed point by point (a speed √(u² + v²)) is a
formula of those.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core import in_float64
from ...domain import TIME
from ...equations import Formula, Problem, formula_of
from ...separable import Key
from ...solution import Derivatives, LinearOutput, Solution, linear_outputs, sum_columns
from .series import NODES, Kept, kept

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
