"""Integrals, norms and errors of solutions: from the factors where they are separable, by
quadrature on a lattice elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core import add_up, check_fits, in_callers_precision, precision_for
from ..domain import TIME, Lattice, Points, Shape, quadrature
from ..equations import Field, Problem, values_of
from ..separable import AbstractValues, Separable
from .evaluation import Piece, Values, by_piece, evaluate, source_and_expressions

if TYPE_CHECKING:
    from .solution import Solution


import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from ..core import InputError, doing, is_traced, listed, nearest, on_cpu, to_device

if TYPE_CHECKING:
    from .solution import Solution


def integral_of(
    solution: Solution, axes: Sequence[str], points: int, given: Mapping[str, Any]
) -> Values:
    """Integrals over some axes, by Gauss-Legendre quadrature.

    Arguments:
        solution: whose operator is integrated.
        axes: those integrated over.
        points: of quadrature, along each of these, in each window of time.
        given: one-dimensional coordinates of the other axes.

    Returns: by name, arrays with a dimension for each axis that is left.
    """
    problem, box = solution.problem, solution.problem.box
    pieces, edges = solution.pieces, solution.edges
    rule = quadrature(box, points)

    def lattice(**changed: Any) -> Lattice:
        used = {a: rule[a] if a in axes else given[a] for a in box.axes} | changed
        weights = {a: rule.weights[box.index(a)] for a in axes}
        return Lattice(weights=weights, **used)

    def compute(piece: Piece, place: Lattice) -> Values:
        source, found = source_and_expressions(piece, solution.operator, problem.whole, place)
        weights = tuple(None if w is None else jnp.asarray(w, source.dtype) for w in place.weights)
        return {
            name: _integral(source, expression, place, weights, axes, problem.shape)
            for name, expression in found.items()
        }

    if len(pieces) == 1 or TIME not in axes:
        kept = [a for a in box.axes if a not in axes]
        along = kept.index(TIME) if TIME in kept else 0
        return by_piece(pieces, edges, lattice(), along, compute)
    each = []
    for number, piece in enumerate(pieces):  # an interval of its own for each
        low, high = edges[number : number + 2]
        own = quadrature(problem.during(low, high).box, points)
        place = lattice(**{TIME: own[TIME]})
        scale = (high - low) / (box[TIME][1] - box[TIME][0])
        found = by_piece([piece], (low, high), place, 0, compute)
        each.append({name: scale * values for name, values in found.items()})
    return {name: add_up(one[name] for one in each) for name in each[0]}


def norms_of(solution: Solution, points: int) -> Values:
    """The L2 norm √∫u² of each expression, where `points` are of quadrature along each axis."""
    spans = [window.problem for window in solution.windows]
    with precision_for(solution) as traced:
        pieces = in_callers_precision(solution.pieces) if traced else solution.pieces
        squares = [_squares(solution, *each, points) for each in zip(pieces, spans)]
        return {name: jnp.sqrt(add_up(each[name] for each in squares)) for name in squares[0]}


def _squares(solution: Solution, piece: Piece, span: Problem, points: int) -> Values:
    """∫u² of each expression over one interval of time."""
    problem, rule = solution.problem.whole, quadrature(span.box, points)
    source, found = source_and_expressions(piece, solution.operator, problem, rule)
    weights = tuple(jnp.asarray(w, source.dtype) for w in rule.weights)
    out = {}
    for name, expression in found.items():
        factors = _factors(source, expression, rule, weights, problem.shape)
        if factors is not None:
            out[name] = factors.norm() ** 2
        else:
            values = evaluate(piece, solution.operator, problem, rule)[name]
            out[name] = rule.mean(jnp.nan_to_num(values) ** 2) * span.box.volume
    return out


def _integral(
    source: AbstractValues,
    expression: Any,
    lattice: Lattice,
    weights: Sequence[Array | None],
    gone: Sequence[str],
    shape: Shape | None,
) -> Array:
    factors = _factors(source, expression, lattice, weights, shape)
    if factors is not None:
        rest = factors.integral(*gone)
        return rest.values() if isinstance(rest, Separable) else rest
    check_fits("the lattice of this integral", math.prod(lattice.shape) * 8, "use fewer points=")
    values = values_of(expression, source.shape, "of")
    if shape is not None:
        values = jnp.where(shape.mask(lattice.arrays()), values, 0.0)
    for at in reversed(range(len(lattice.axes))):
        weight = weights[at]
        if lattice.axes[at] in gone and weight is not None:
            values = jnp.tensordot(values, weight, ([at], [0]), precision="highest")
    return values


def _factors(
    source: AbstractValues,
    expression: Any,
    lattice: Lattice,
    weights: Sequence[Array | None],
    shape: Shape | None,
) -> Separable | None:
    """An expression as a sum of products; None where it is none, or the domain is no box."""
    formal = isinstance(expression, Field) and expression.linear and expression.is_formal
    found = source.factors(expression.terms) if formal and shape is None else None
    return None if found is None else Separable(lattice.axes, (f[None] for f in found), weights)


# --- errors ---------------------------------------------------------------------------------------

CHECKED = {True: 2**20, False: 2**16}  # points on which errors are measured, separable or not
MOST_AXES = 5  # of a lattice
SCATTERED = 2**13  # points, where there are more


class Errors(NamedTuple):
    """How far a solution is from a reference: relative in L2, and the root mean square."""

    relative_l2: Any
    rmse: Any


class KnownValues(NamedTuple):
    """A lattice, and a reference's values there by field."""

    lattice: Lattice | Points
    values: dict[str, Array]


def error_lattice(problem: Problem, most: int) -> Lattice | Points:
    """Where errors are measured: a regular lattice of up to 256 points per axis, `most` in all;
    along more than five axes scattered points."""
    if problem.box.dimension > MOST_AXES:
        low, high = np.transpose([problem.box[a] for a in problem.box.axes])
        size = (SCATTERED, problem.box.dimension)
        return Points.of(problem.box, np.random.default_rng(0).uniform(low, high, size))
    return problem.box.lattice(max(2, min(256, int(most ** (1 / problem.box.dimension) + 1e-9))))


def known_values(
    solution: Solution, reference: Any = None, coordinates: Mapping[str, Any] | None = None
) -> KnownValues:
    """A reference, or the problem's own, where a solution is compared with it: on the lattice of
    the coordinates given or on a regular one, rounded to the solution's precision."""
    problem = solution.problem
    with _measuring(solution, coordinates) as host:
        if coordinates:
            lattice = solution.lattice((), coordinates)[0]
        else:
            lattice = error_lattice(problem, CHECKED[solution.is_separable])
        dtype = jax.dtypes.canonicalize_dtype(solution.dtype)
        lattice = jax.tree.map(lambda a: jnp.asarray(a, dtype), lattice)
        found = KnownValues(lattice, reference_on(problem, reference, lattice))
        return found if host is None else KnownValues(*(to_device(each, host) for each in found))


def errors_against(
    solution: Solution,
    reference: Any,
    field: str | None,
    coordinates: Mapping[str, Any],
    known: KnownValues | None = None,
) -> Errors:
    """The errors of a solution against a reference, or against the problem's own."""
    problem = solution.problem
    if reference is None and problem.reference is None:
        why = (
            "the problem has no reference: give one, Problem(…, reference=exact) or"
            if problem.residual is not None
            else f"{problem.name} was loaded from its run, which does not keep the functions of the"
            " problem: give the reference,"
        )
        raise InputError(f"relative_l2: {why} solution.relative_l2(exact)")
    if field is not None and field not in problem.outputs:
        raise InputError(
            f"relative_l2: there is no field {field!r}; the fields are"
            f" {listed(problem.outputs)}.{nearest(field, problem.outputs)}"
        )
    lattice, true = known_values(solution, reference, coordinates) if known is None else known
    with _measuring(solution, lattice) as host:
        ours = solution.values(lattice, host)
        names, wide = [field] if field else list(true), jnp.result_type(float)
        pair = [{k: jnp.asarray(v[k], wide) for k in names} for v in (ours, true)]
        difference, size, number = squares(problem, lattice, *pair)
        relative = jnp.where(size > 0, jnp.sqrt(difference / size), jnp.inf)
        found = Errors(relative, jnp.sqrt(difference / number))
    return found if is_traced(found) else Errors(*map(float, found))


@contextlib.contextmanager
def _measuring(*trees: Any) -> Iterator[Any]:
    """In float64 on the processor, which is yielded; in a transformation of JAX as the caller
    does."""
    with precision_for(*trees) as traced:
        if traced:
            yield None
            return
        with on_cpu() as host:
            yield host


def squares(
    problem: Problem,
    lattice: Lattice | Points,
    ours: Mapping[str, Array],
    true: Mapping[str, Array],
) -> tuple[Array, Array, Array]:
    """Σ (û - u)², Σ u² and the number of values, over the fields in `true` and the part of a
    lattice inside the shape."""
    here = jnp.ones((), bool) if problem.shape is None else problem.shape.mask(lattice.arrays())
    difference = add_up(jnp.sum(jnp.where(here, ours[k] - v, 0.0) ** 2) for k, v in true.items())
    size = add_up(jnp.sum(jnp.where(here, v, 0.0) ** 2) for v in true.values())
    return difference, size, len(true) * jnp.sum(jnp.broadcast_to(here, lattice.shape))


def reference_on(problem: Problem, reference: Any, lattice: Lattice | Points) -> dict[str, Array]:
    """A reference's values by field, on a lattice."""
    given = reference.values() if isinstance(reference, Mapping) else [reference]
    if reference is None or any(map(callable, given)):
        function = problem.reference if reference is None else reference
        doing("computing the reference")
        return problem.reference_values(lattice.arrays(), lattice.shape, function)
    arrays = dict(reference) if isinstance(reference, Mapping) else {problem.fields[0]: reference}
    for name, values in arrays.items():
        if name not in problem.outputs:
            raise InputError(
                f"reference: {name!r} is not a field; the fields are"
                f" {listed(problem.outputs)}.{nearest(name, problem.outputs)}"
            )
        if [n for n in np.shape(values) if n > 1] != [n for n in lattice.shape if n > 1]:
            where = ", ".join(f"{a}={a}s" for a in problem.box.axes)
            raise InputError(
                f"reference: an array of shape {np.shape(values)} on a lattice of {lattice.shape}:"
                f" give the coordinates it lies on, solution.relative_l2(values, {where})"
            )
    return {k: jnp.reshape(jnp.asarray(v), lattice.shape) for k, v in arrays.items()}


def jumps_of(solution: Solution, points: int) -> dict[str, np.ndarray]:
    """How far apart windows are where they meet.

    Arguments and returns: as of `Solution.jumps`.
    """
    box, windows = solution.problem.box, solution.windows
    space = {a: np.linspace(*box[a], points) for a in box.space}
    found: dict[str, list[float]] = {}
    for before, after, edge in zip(windows, windows[1:], solution.edges[1:]):
        lattice = Lattice(weights=None, **{a: space.get(a, np.array([edge])) for a in box.axes})
        one, other = before.values(lattice), after.values(lattice)
        for name in one:
            values = np.asarray(one[name], np.float64)
            difference = values - np.asarray(other[name], np.float64)
            size, jump = (math.sqrt(np.nanmean(each**2)) for each in (values, difference))
            found.setdefault(name, []).append(jump / (size or 1.0))
    return {name: np.array(each) for name, each in found.items()}
