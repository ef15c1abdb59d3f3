"""The factors of a solution, small enough to travel in a page, exact enough to compute every value from there.

Fields and what is linear in their derivatives (a vorticity v_x - u_y) share the series of the derivatives they need (`series`, `cores`);
anything else that is computed point by point (a speed √(u² + v²)) is a formula of those.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...domain import TIME
from ...equations import Field, Formula, example, formula_of
from ...separable import Key
from ...solution import Derivatives, has_core
from .series import NODES, Kept, Output, jets_at, plain, with_cores

if TYPE_CHECKING:
    from ...domain import Lattice
    from ...equations import Problem
    from ...solution import Solution

RANGE_POINTS = 2**17  # of the lattice on which the range of a field is found
MASK_BITS = 2**19


def linear_outputs(solution: Solution) -> dict[str, Output]:
    """The fields and derived quantities that are linear in the unknowns' derivatives, with numbers in front."""
    problem = solution.problem
    tracer, coordinates = example(problem)
    with jax.enable_x64(True):
        unknowns = {k: jnp.asarray(v, jnp.float64) for k, v in solution.unknowns.items()}
        found = solution.operator(problem, problem.field_map(tracer), coordinates, unknowns)
    outputs = {}
    for name, expression in found.items():
        if (
            isinstance(expression, Field)
            and expression.linear
            and not np.ndim(plain := expression.known_polynomial.plain)  # pyright: ignore[reportOptionalMemberAccess]
        ):
            terms = {key: float(c) for key, c in expression.terms.items()}
            outputs[name] = Output(terms, 0.0 if plain is None else float(plain))
    return outputs


def is_separable(solution: Solution) -> bool:
    return solution.windows[0].model.network.is_separable


def payload(solution: Solution) -> dict[str, Any] | None:
    """All a page needs to compute the solution; None where there are no factors, or nothing but a line to look at."""
    if (
        solution.problem.box.dimension < 2
        or not is_separable(solution)
        or not (outputs := linear_outputs(solution))
    ):
        return None
    problem, windows = solution.problem, solution.windows
    formulas = {
        k: formula_of(problem, k, solution.unknowns) for k in problem.outputs if k not in outputs
    }
    ranges = value_ranges(solution, list(problem.outputs))
    found = {k: f for k, f in formulas.items() if f is not None and k in ranges}
    outputs = {k: o for k, o in outputs.items() if k in ranges}
    inputs = {
        key: Output({key: 1.0}, 0.0)
        for f in found.values()
        for key in f.inputs
        if not isinstance(key, str)
    }
    ranges |= input_ranges(solution, list(inputs))
    scales = {k: max(map(abs, each)) or 1.0 for k, each in ranges.items()}
    held = kept(windows, {**outputs, **inputs}, scales)
    numbers = Numbers()
    tables = []
    for window, arrays in zip(windows, held.windows):
        low, high = window.problem.box[TIME] if TIME in problem.box.axes else (0.0, 0.0)
        tables.append(
            {
                "low": low,
                "high": high,
                "arrays": [[*key, numbers.place(a), *a.shape] for key, a in arrays.items()],
            }
        )
    shown = {k: _sum(k, o) for k, o in outputs.items()} | {
        k: _formula(k, f, problem) for k, f in found.items()
    }
    return {
        "name": problem.name,
        "axes": [
            {"name": a, "low": problem.box[a][0], "high": problem.box[a][1]}
            for a in problem.box.axes
        ],
        "outputs": [{**shown[k], "range": list(ranges[k])} for k in problem.outputs if k in shown],
        "left_out": [
            *getattr(problem, "left_out", ()),
            *(k for k, f in formulas.items() if f is None),
        ],
        "error": measured(windows, held, outputs, found, scales),
        "windows": tables,
        "cores": [
            [component, numbers.place(core), *core.shape] for component, core in held.cores.items()
        ],
        "mask": mask(problem),
        "numbers": numbers.text(),
    }


class Numbers:
    """Arrays one after the other; those that are used twice are there once."""

    def __init__(self):
        self._arrays: dict[int, tuple[int, np.ndarray]] = {}
        self._end = 0

    def place(self, array: np.ndarray) -> int:
        if id(array) not in self._arrays:
            self._arrays[id(array)] = self._end, array
            self._end += array.size
        return self._arrays[id(array)][0]

    def text(self) -> str:
        return base64.b64encode(
            b"".join(np.ascontiguousarray(a, "<f4").tobytes() for _, a in self._arrays.values())
        ).decode()


def _sum(name: str, output: Output) -> dict[str, Any]:
    terms = [[component, list(orders), c] for (component, orders), c in output.terms.items()]
    return {"name": name, "constant": output.constant, "terms": terms}


def _formula(name: str, formula: Formula, problem: Problem) -> dict[str, Any]:
    """A formula of other outputs, which have no name in the viewer, and of axes."""
    inputs = [
        {"axis": problem.box.index(key)}
        if isinstance(key, str)
        else _sum(f"∂{key}", Output({key: 1.0}, 0.0))
        for key in formula.inputs
    ]
    return {"name": name, **formula.plain(), "inputs": inputs}


def kept(
    windows: Sequence[Solution], outputs: Mapping[Any, Output], scales: Mapping[Any, float]
) -> Kept:
    """The most exact series that fit in a page."""
    needed = sorted(
        {
            (c, axis, order)
            for o in outputs.values()
            for c, orders in o.terms
            for axis, order in enumerate(orders)
        }
    )
    way = with_cores if has_core(windows[0].model.network) else plain
    return way(windows, needed, outputs, scales)


def measured(
    windows: Sequence[Solution],
    held: Kept,
    outputs: Mapping[str, Output],
    formulas: Mapping[str, Formula],
    scales: Mapping[Any, float],
) -> float:
    """The largest error of what is kept, at random points of every window, relative to the largest value of each output."""
    box = windows[0].problem.box
    at = np.random.default_rng(0).uniform(-1, 1, (box.dimension, NODES))
    keys = {key for output in outputs.values() for key in output.terms}
    keys |= {
        key for formula in formulas.values() for key in formula.inputs if not isinstance(key, str)
    }
    order = max(order for _, orders in keys for order in orders)
    errors = []
    for number, window in enumerate(windows):
        ends = [window.problem.box[axis] for axis in box.axes]
        places = {
            a: low + (s + 1) * (high - low) / 2 for a, s, (low, high) in zip(box.axes, at, ends)
        }
        jets = jets_at(window, list(places.values()), order)
        true = {
            k: np.sum(np.prod([jets[axis][k[0], o] for axis, o in enumerate(k[1])], axis=0), axis=1)
            for k in keys
        }
        ours = {k: held.derivative(number, k, list(at)) for k in keys}
        for name, output in outputs.items():
            off = sum(c * (true[key] - ours[key]) for key, c in output.terms.items())
            errors.append(np.max(np.abs(off)) / scales[name])
        for name, formula in formulas.items():
            with jax.enable_x64(True):
                one, other = (
                    np.asarray(
                        formula(
                            [places[k] if isinstance(k, str) else values[k] for k in formula.inputs]
                        )
                    )
                    for values in (true, ours)
                )
            finite = np.isfinite(one) & np.isfinite(other)
            errors.append(np.max(np.abs(one - other)[finite], initial=0.0) / scales[name])
    return float(max(errors))


def value_ranges(solution: Solution, names: Sequence[str]) -> dict[Any, tuple[float, float]]:
    """The lowest and highest value of each field on a lattice; fields without a finite value are left out."""
    found = solution(_coarse(solution))
    return _ends(found if isinstance(found, dict) else {names[0]: found})


def input_ranges(solution: Solution, keys: Sequence[Key]) -> dict[Any, tuple[float, float]]:
    """The same of derivatives."""
    if not keys:
        return {}
    found = solution.of_operator(Derivatives(tuple(keys)))(_coarse(solution))
    return _ends(dict(zip(keys, [found] if len(keys) == 1 else found.values())))


def _coarse(solution: Solution) -> Lattice:
    box = solution.problem.box
    return box.lattice(max(2, min(128, int(RANGE_POINTS ** (1 / box.dimension)))))


def _ends(found: Mapping[Any, Any]) -> dict[Any, tuple[float, float]]:
    finite = {k: np.asarray(v) for k, v in found.items()}
    finite = {k: v[np.isfinite(v)] for k, v in finite.items()}
    return {k: (float(v.min()), float(v.max())) for k, v in finite.items() if v.size}


def mask(problem: Problem) -> dict[str, Any] | None:
    """Which cells of a regular grid lie inside the problem's shape, one bit each."""
    shape = problem.shape
    if shape is None:
        return None
    n = max(2, min(256, int(MASK_BITS ** (1 / len(shape.axes)))))
    grids = np.meshgrid(*(np.linspace(*problem.box[a], n) for a in shape.axes), indexing="ij")
    inside = shape.contains(np.stack([g.ravel() for g in grids], axis=1))
    bits = np.packbits(inside, bitorder="little")
    return {
        "axes": list(shape.axes),
        "points": n,
        "bits": base64.b64encode(bits.tobytes()).decode(),
    }


def largest_products(
    solution: Solution, field: str, number: int = 5
) -> tuple[dict[str, Any], list[float]]:
    """Per axis the coordinates and the factors (NODES, number) of a field's largest products, each scaled to at most one;
    and the sizes of the products. Of a march: the first window's."""
    window = solution.windows[0]
    box, fields = window.problem.box, window.problem.fields
    component = fields.index(field) if field in fields else 0
    places = [np.linspace(*box[a], NODES) for a in box.axes]
    factors = [jet[component, 0] for jet in jets_at(window, places, 0)]
    sizes = np.prod([np.max(np.abs(f), axis=0) for f in factors], axis=0)
    top = np.argsort(-sizes)[:number]

    def scaled(f: np.ndarray) -> np.ndarray:
        columns = f[:, top]
        return columns / np.maximum(np.max(np.abs(columns), axis=0), 1e-300)

    return {a: (x, scaled(f)) for a, x, f in zip(box.axes, places, factors)}, [
        float(s) for s in sizes[top]
    ]
