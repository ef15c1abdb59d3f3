"""Integrals and norms of solutions: from the factors where they are separable, by quadrature on a
lattice elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core import add_up, check_fits, in_callers_precision, precision_for
from ..domain import TIME, Lattice, Shape, quadrature
from ..equations import Field, Problem, values_of
from ..separable import AbstractValues, Separable
from .evaluation import Piece, Values, by_piece, evaluate, source_and_expressions

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
