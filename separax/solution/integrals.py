"""Integrals and norms of solutions: from the factors where they are separable, by quadrature on a
lattice elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core import add_up, check_fits, in_callers_precision, precision_for
from ..domain import TIME, Lattice, Shape, quadrature
from ..equations import Field, Problem, values_of
from ..separable import AbstractValues, Separable
from .evaluation import Piece, Values, by_piece, evaluate, source_and_expressions
from .operators import AbstractOperator


def integral_of(
    pieces: Sequence[Piece],
    edges: Sequence[float],
    operator: AbstractOperator,
    problem: Problem,
    axes: Sequence[str],
    points: int,
    given: Mapping[str, Any],
) -> Values:
    """Integrals over some axes, by Gauss-Legendre quadrature.

    Arguments:
        pieces, edges: the models, and the instants between which each of them holds.
        operator: what is integrated.
        problem: the fields and the shape.
        axes: those integrated over.
        points: of quadrature, along each of these.
        given: one-dimensional coordinates of the other axes.

    Returns: by name, arrays with a dimension for each axis that is left.
    """
    box = problem.box
    rule = quadrature(box, points)

    def lattice(**changed: Any) -> Lattice:
        used = {a: rule[a] if a in axes else given[a] for a in box.axes} | changed
        weights = {a: rule.weights[box.index(a)] for a in axes}
        return Lattice(weights=weights, **used)

    def compute(piece: Piece, place: Lattice) -> Values:
        source, found = source_and_expressions(piece, operator, problem.whole, place)
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


def _integral(
    source: AbstractValues,
    expression: Any,
    lattice: Lattice,
    weights: Sequence[Array | None],
    gone: Sequence[str],
    shape: Shape | None,
) -> Array:
    formal = isinstance(expression, Field) and expression.linear and expression.is_formal
    factors = source.factors(expression.terms) if formal and shape is None else None
    if factors is not None:
        rest = Separable(lattice.axes, (f[None] for f in factors), weights).integral(*gone)
        return rest.values() if isinstance(rest, Separable) else rest
    check_fits("the lattice of this integral", math.prod(lattice.shape) * 8, "use fewer points=")
    values = values_of(expression, source.shape, "of")
    if shape is not None:
        values = jnp.where(shape.mask(lattice.arrays()), values, 0.0)
    for axis in sorted(set(gone), key=lattice.axes.index, reverse=True):
        at = lattice.axes.index(axis)
        weight = weights[at]
        assert weight is not None  # every axis that is integrated over has a rule
        values = jnp.tensordot(values, weight, ([at], [0]), precision="highest")
    return values


def norms_of(
    pieces: Sequence[Piece],
    edges: Sequence[float],
    operator: AbstractOperator,
    problem: Problem,
    points: int,
) -> Values:
    """The L2 norm √∫u² of each expression, where `points` are of quadrature along each axis."""
    spans = [problem]
    if len(pieces) > 1:
        spans = [problem.during(*edges[i : i + 2]) for i in range(len(pieces))]
    with precision_for(pieces) as traced:
        pieces = in_callers_precision(list(pieces)) if traced else pieces
        squares = [_squares(*each, operator, points) for each in zip(pieces, spans)]
        return {name: jnp.sqrt(add_up(each[name] for each in squares)) for name in squares[0]}


def _squares(piece: Piece, problem: Problem, operator: AbstractOperator, points: int) -> Values:
    """∫u² of each expression over one interval of time."""
    rule = quadrature(problem.box, points)
    source, found = source_and_expressions(piece, operator, problem.whole, rule)
    weights = tuple(jnp.asarray(w, source.dtype) for w in rule.weights)
    out = {}
    for name, expression in found.items():
        formal = isinstance(expression, Field) and expression.linear and expression.is_formal
        factors = source.factors(expression.terms) if formal and problem.shape is None else None
        if factors is not None:
            out[name] = Separable(rule.axes, (f[None] for f in factors), weights).norm() ** 2
        else:
            values = jnp.nan_to_num(evaluate(piece, operator, problem.whole, rule)[name])
            out[name] = rule.mean(values**2) * problem.box.volume
    return out
