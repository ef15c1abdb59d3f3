"""The factors of a solution, small enough to travel in a page, exact enough to compute every value from there.

Every factor becomes a Chebyshev series along its axis, cut where the rest would change no value by more than a small part of
the largest: a smooth factor needs a few dozen numbers where a table would need thousands, and the series can be evaluated
anywhere, not only on nodes. Fields and what is linear in their derivatives (a vorticity v_x - u_y) share the factors of the
derivatives they need; anything else that is computed point by point (a speed √(u² + v²)) is a formula of those.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.fft import dct

from ..fields import Field, Key
from ..formulas import Formula, formula_of
from ..loss import TIME
from ..networks import SeparableNetwork
from .equation import example

if TYPE_CHECKING:
    from ..domain import Lattice
    from ..problem import Problem
    from ..solution import Solution

NODES = 256  # per axis: the longest series
TOLERANCES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of the largest value; the first whose series fit is taken
MOST_NUMBERS = 400_000  # 1.6 MB as float32, 2.1 MB in a page
RANGE_POINTS = 2**17  # of the lattice on which the range of a field is found
MASK_BITS = 2**19

Array = tuple[int, int, int]  # which factors: component, axis, order of the derivative


@dataclass(frozen=True)
class Output:
    """What can be looked at: Σ coefficient · ∂^orders of the components, plus a number."""

    terms: Mapping[Key, float]
    constant: float


def linear_outputs(solution: Solution) -> dict[str, Output]:
    """The fields and derived quantities that are linear in the unknowns' derivatives, with numbers in front."""
    problem = solution.problem
    tracer, coordinates = example(problem)
    with jax.enable_x64(True):
        unknowns = {k: jnp.asarray(v, jnp.float64) for k, v in solution.unknowns.items()}
        found = solution._expressions(problem.field_map(tracer), coordinates, unknowns)
    outputs = {}
    for name, expression in found.items():
        if isinstance(expression, Field) and expression.linear and not np.ndim(plain := expression._part.plain):  # pyright: ignore[reportOptionalMemberAccess]
            terms = {key: float(c) for key, c in expression._terms.items()}
            outputs[name] = Output(terms, 0.0 if plain is None else float(plain))
    return outputs


def windows_of(solution: Solution) -> Sequence[Solution]:
    return getattr(solution, "windows", [solution])


def is_separable(solution: Solution) -> bool:
    return isinstance(windows_of(solution)[0].model.network, SeparableNetwork)


def jets_at(window: Solution, coordinates: Sequence[np.ndarray], order: int) -> list[np.ndarray]:
    """Per axis the factors (components, orders, points, rank), in float64 whatever the precision of the training was: what
    rounding adds to a factor has no short series."""
    at = window.problem.box.axes
    with jax.enable_x64(True):
        model: Any = jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, window.model)
        own = tuple(jnp.asarray(c - (window.since if a == TIME else 0.0)) for a, c in zip(at, coordinates))
        return [np.asarray(jet) for jet in _jets(model.network, own, order)]


@eqx.filter_jit
def _jets(network: SeparableNetwork, coordinates: tuple[Any, ...], order: int) -> Any:
    return network.jets(coordinates, order)


def series(window: Solution, needed: Sequence[Array]) -> dict[Array, np.ndarray]:
    """The Chebyshev coefficients (NODES, rank) of all the factors needed."""
    nodes = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    box = window.problem.box
    places = [low + (nodes + 1) * (high - low) / 2 for low, high in (box[a] for a in box.axes)]
    jets = jets_at(window, places, max(order for *_, order in needed))
    found = {}
    for component, axis, order in needed:
        coefficients = np.asarray(dct(jets[axis][component, order], type=2, axis=0)) / NODES
        coefficients[0] /= 2
        found[component, axis, order] = coefficients
    return found


def lengths(
    found: Mapping[Array, np.ndarray], outputs: Mapping[Any, Output], scales: Mapping[Any, float], tolerance: float
) -> list[int]:
    """How many coefficients each axis needs: what cutting its series leaves out, times the usual size of the other factors,
    stays below `tolerance` of the scale of every output."""
    axes = 1 + max(axis for _, axis, _ in found)
    tails = {k: np.sqrt(np.cumsum(c[::-1] ** 2, axis=0)[::-1]) for k, c in found.items()}  # [n]: the size of all but n terms
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


def payload(solution: Solution) -> dict[str, Any] | None:
    """All a page needs to compute the solution; None where there are no factors, or nothing but a line to look at."""
    if solution.problem.box.dimension < 2 or not is_separable(solution) or not (outputs := linear_outputs(solution)):
        return None
    problem, windows = solution.problem, windows_of(solution)
    formulas = {k: formula_of(problem, k, solution.unknowns) for k in problem.outputs if k not in outputs}
    ranges = value_ranges(solution, list(problem.outputs))
    found = {k: f for k, f in formulas.items() if f is not None and k in ranges}
    outputs = {k: o for k, o in outputs.items() if k in ranges}
    inputs = {key: Output({key: 1.0}, 0.0) for f in found.values() for key in f.inputs if not isinstance(key, str)}
    ranges |= input_ranges(solution, list(inputs))
    scales = {k: max(map(abs, each)) or 1.0 for k, each in ranges.items()}
    every, counts = series_that_fit(windows, {**outputs, **inputs}, scales)
    error = max(measured(w, f, c, outputs, found, scales) for w, f, c in zip(windows, every, counts))
    numbers, tables, offset = [], [], 0
    for window, each, count in zip(windows, every, counts):
        arrays = []
        for key, coefficients in each.items():
            kept = coefficients[: count[key[1]]]
            arrays.append([*key, offset, len(kept)])
            numbers.append(np.ascontiguousarray(kept, "<f4"))
            offset += kept.size
        low, high = window.problem.box[TIME] if TIME in problem.box.axes else (0.0, 0.0)
        tables.append({"low": low, "high": high, "arrays": arrays})
    shown = {k: _sum(k, o) for k, o in outputs.items()} | {k: _formula(k, f, problem) for k, f in found.items()}
    return {
        "name": problem.name,
        "axes": [{"name": a, "low": problem.box[a][0], "high": problem.box[a][1]} for a in problem.box.axes],
        "outputs": [{**shown[k], "range": list(ranges[k])} for k in problem.outputs if k in shown],
        "left_out": [*getattr(problem, "left_out", ()), *(k for k, f in formulas.items() if f is None)],
        "rank": next(iter(every[0].values())).shape[1],
        "error": error,
        "windows": tables,
        "mask": mask(problem),
        "numbers": base64.b64encode(b"".join(n.tobytes() for n in numbers)).decode(),
    }


def _sum(name: str, output: Output) -> dict[str, Any]:
    terms = [[component, list(orders), c] for (component, orders), c in output.terms.items()]
    return {"name": name, "constant": output.constant, "terms": terms}


def _formula(name: str, formula: Formula, problem: Problem) -> dict[str, Any]:
    """A formula of other outputs, which have no name in the viewer, and of axes."""
    inputs = [
        {"axis": problem.box.index(key)} if isinstance(key, str) else _sum(f"∂{key}", Output({key: 1.0}, 0.0))
        for key in formula.inputs
    ]
    return {"name": name, **formula.plain(), "inputs": inputs}


def series_that_fit(
    windows: Sequence[Solution], outputs: Mapping[Any, Output], scales: Mapping[Any, float]
) -> tuple[list[dict[Array, np.ndarray]], list[list[int]]]:
    """The series of every window, and how many coefficients of them a page has room for."""
    needed = sorted({(c, axis, order) for o in outputs.values() for c, orders in o.terms for axis, order in enumerate(orders)})
    every = [series(window, needed) for window in windows]
    return every, _that_fit(every, outputs, scales)


def _that_fit(
    every: Sequence[Mapping[Array, np.ndarray]], outputs: Mapping[Any, Output], scales: Mapping[Any, float]
) -> list[list[int]]:
    """The lengths of the series by window and axis, for the smallest tolerance with which they fit in a page."""

    def size(counts: Sequence[Sequence[int]]) -> int:
        return sum(count[axis] * c.shape[1] for found, count in zip(every, counts) for (_, axis, _), c in found.items())

    for tolerance in TOLERANCES:
        counts = [lengths(found, outputs, scales, tolerance) for found in every]
        if size(counts) <= MOST_NUMBERS:
            return counts
    part = MOST_NUMBERS / size(counts)  # very many windows or products: all series are cut alike
    return [[max(2, int(n * part)) for n in count] for count in counts]


def measured(
    window: Solution,
    found: Mapping[Array, np.ndarray],
    count: Sequence[int],
    outputs: Mapping[str, Output],
    formulas: Mapping[str, Formula],
    scales: Mapping[Any, float],
) -> float:
    """The largest error of the series that are kept, at random points, relative to the largest value of each output."""
    box = window.problem.box
    at = np.random.default_rng(0).uniform(-1, 1, (box.dimension, NODES))
    places = {a: box[a][0] + (s + 1) * (box[a][1] - box[a][0]) / 2 for a, s in zip(box.axes, at)}
    jets = jets_at(window, list(places.values()), max(order for *_, order in found))
    kept = {k: chebval(at[k[1]], c[: count[k[1]]].astype(np.float32), tensor=True).T for k, c in found.items()}

    def derivative(key: Key, factors: Callable[[int, int, int], np.ndarray]) -> np.ndarray:
        return np.sum(np.prod([factors(key[0], axis, order) for axis, order in enumerate(key[1])], axis=0), axis=1)

    errors = []
    ways = (lambda c, axis, order: jets[axis][c, order], lambda c, axis, order: kept[c, axis, order])
    for name, output in outputs.items():
        true, ours = (sum(c * derivative(key, way) for key, c in output.terms.items()) for way in ways)
        errors.append(np.max(np.abs(true - ours)) / scales[name])
    for name, formula in formulas.items():
        with jax.enable_x64(True):
            true, ours = (
                np.asarray(formula([places[k] if isinstance(k, str) else derivative(k, way) for k in formula.inputs]))
                for way in ways
            )
        finite = np.isfinite(true) & np.isfinite(ours)
        errors.append(np.max(np.abs(true - ours)[finite], initial=0.0) / scales[name])
    return float(max(errors))


def value_ranges(solution: Solution, names: Sequence[str]) -> dict[Any, tuple[float, float]]:
    """The lowest and highest value of each field on a lattice; fields without a finite value are left out."""
    found = solution(_coarse(solution))
    return _ends(found if isinstance(found, dict) else {names[0]: found})


def input_ranges(solution: Solution, keys: Sequence[Key]) -> dict[Any, tuple[float, float]]:
    """The same of derivatives."""
    if not keys:
        return {}

    def each(fields: Mapping[str, Field], *_: Any) -> dict[str, Any]:
        return {str(key): Field(fields[solution.problem.fields[0]]._source, {key: 1.0}) for key in keys}

    found = solution._view(each)(_coarse(solution))
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
    inside = shape._mask_at(np.stack([g.ravel() for g in grids], axis=1))
    bits = np.packbits(inside, bitorder="little")
    return {"axes": list(shape.axes), "points": n, "bits": base64.b64encode(bits.tobytes()).decode()}


def largest_products(solution: Solution, field: str, number: int = 5) -> tuple[dict[str, Any], list[float]]:
    """Per axis the coordinates and the factors (NODES, number) of a field's largest products, each scaled to at most one;
    and the sizes of the products. Of a march: the first window's."""
    window = windows_of(solution)[0]
    box, fields = window.problem.box, window.problem.fields
    component = fields.index(field) if field in fields else 0
    places = [np.linspace(*box[a], NODES) for a in box.axes]
    factors = [jet[component, 0] for jet in jets_at(window, places, 0)]
    sizes = np.prod([np.max(np.abs(f), axis=0) for f in factors], axis=0)
    top = np.argsort(-sizes)[:number]

    def scaled(f: np.ndarray) -> np.ndarray:
        columns = f[:, top]
        return columns / np.maximum(np.max(np.abs(columns), axis=0), 1e-300)

    return {a: (x, scaled(f)) for a, x, f in zip(box.axes, places, factors)}, [float(s) for s in sizes[top]]
