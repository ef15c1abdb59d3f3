"""Evaluating a solution: at top level in compiled slabs, inside a transformation as plain JAX.

At top level a solution is evaluated in its own precision, also where JAX does not allow float64.
Inside `jit`, `grad` or `vmap` the caller's precision counts: where JAX does not allow float64
there, a float64 solution is evaluated in float32.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import (
    InputError,
    as_varying,
    check_fits,
    default_device,
    in_callers_precision,
    in_float64,
    is_traced,
    listed,
    options_for_few_runs,
    precision_for,
    to_device,
    tuning,
)
from ..domain import TIME, Box, Lattice, Place, Points, slabs
from ..equations import START, Inputs, Problem, values_of
from ..residuals import Model
from ..separable import AbstractValues
from .operators import AbstractOperator

if TYPE_CHECKING:
    from .solution import Solution

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")  # of an exported program

AnyPlace = TypeVar("AnyPlace", bound=Place)
Values = dict[str, Array]


class Piece(eqx.Module):
    """A trained model, and the instant from which its network counts time.

    Attributes:
        model: the network and the unknown coefficients.
        time_origin: an array, so that pieces of equal structure share a program.
    """

    model: Model
    time_origin: Any

    @classmethod
    def of(cls, model: Model, time_origin: float = 0.0) -> Piece:
        """With the origin in float64, whatever JAX allows."""
        return cls(model, np.asarray(time_origin, np.float64))

    @property
    def dtype(self) -> Any:
        """The precision of the network."""
        return self.model.network.dtype

    @property
    def is_separable(self) -> bool:
        """Whether its network is a sum of products of functions of single coordinates."""
        return self.model.network.is_separable

    def own_time(self, place: AnyPlace) -> AnyPlace:
        """A place in the network's precision, with time as the network counts it."""
        dtype = self.dtype
        moved = [
            jnp.asarray(c - self.time_origin if axis == TIME else c, dtype)
            for axis, c in zip(place.axes, place.coordinates)
        ]
        place = eqx.tree_at(lambda p: p.coordinates, place, tuple(moved))
        return jax.tree.map(lambda a: jnp.asarray(a, dtype), place)

    def in_double(self) -> Piece:
        """The same with all its numbers in float64. Inside `jax.enable_x64`."""
        return jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, self)


def source_and_expressions(
    piece: Piece, operator: AbstractOperator, problem: Problem, place: Place
) -> tuple[AbstractValues, dict[str, Any]]:
    """An operator's expressions on a place whose time is that of the problem."""
    own, extra = piece.own_time(place), {}
    if TIME in place.axes:
        extra = {START: jnp.asarray(piece.time_origin, piece.dtype)}
    (source,) = piece.model.network.sources([own], [operator.needs])
    unknowns = piece.model.unknowns
    coordinates = Inputs(unknowns, extra).coordinates(own)
    return source, operator(problem, problem.field_map(source), coordinates, unknowns)


def evaluate(piece: Piece, operator: AbstractOperator, problem: Problem, place: Place) -> Values:
    """The values of an operator on a place, by name; not a number outside the problem's shape.

    Arguments:
        piece: the model.
        operator: what is evaluated of it.
        problem: the fields, derived quantities and the shape.
        place: a lattice or scattered points, in the problem's time.

    Returns: arrays of the place's shape.
    """
    source, found = source_and_expressions(piece, operator, problem, place)
    values = {k: values_of(e, source.shape, "of") for k, e in found.items()}
    if problem.shape is None:
        return values
    inside = problem.shape.mask({a: jnp.asarray(c, piece.dtype) for a, c in place.arrays().items()})
    return {k: jnp.where(inside, v, jnp.nan) for k, v in values.items()}


# By problem, so that programs go when their problem does. Pieces of equal structure share them.
_programs: weakref.WeakKeyDictionary[Problem, dict[str, Callable[..., Values]]]
_programs = weakref.WeakKeyDictionary()


def _program(problem: Problem) -> Callable[..., Values]:
    """`evaluate` for a problem, compiled once for pieces, operators and places of equal
    structure."""
    platform, known = default_device().platform, _programs.setdefault(problem, {})
    if platform not in known:
        reference = weakref.ref(problem)

        def compute(piece: Piece, operator: AbstractOperator, place: Place) -> Values:
            of = reference()
            assert of is not None  # who evaluates holds the problem
            return evaluate(piece, operator, of, place)

        options = options_for_few_runs()
        known[platform] = eqx.filter_jit(compute, compiler_options=options)  # pyright: ignore[reportCallIssue]
    return known[platform]


def values_at(solution: Solution, place: Place, host: Any = None) -> Values:
    """The values of a solution, of one piece or of several that follow each other in time.

    Arguments:
        solution: whose operator is evaluated.
        place: a lattice or scattered points, in the problem's time.
        host: the device that computes, if not the default one.

    Returns: arrays of the place's shape, by name.
    """
    operator, problem = solution.operator, solution.problem.whole

    def compute(piece: Piece, part: Place) -> Values:
        if is_traced(piece, part):
            return evaluate(piece, operator, problem, part)
        return _in_slabs(piece, operator, problem, part, host)

    along = place.axes.index(TIME) if TIME in place.axes and isinstance(place, Lattice) else 0
    return by_piece(solution.pieces, solution.edges, place, along, compute)


def by_piece(
    pieces: Sequence[Piece],
    edges: Sequence[float],
    place: Place,
    along: int,
    compute: Callable[[Piece, Any], Values],
) -> Values:
    """What `compute(piece, place)` finds, where every instant belongs to one of the pieces.

    At top level each piece computes its own instants alone. Inside a transformation every piece
    computes all of them, and each value is chosen from the piece it belongs to.

    Arguments:
        pieces, edges: the models, and the instants between which each of them holds.
        place: a lattice or scattered points, in the problem's time.
        along: the dimension of the results that is time.
        compute: from a piece and a place to arrays by name.

    Returns: arrays by name.
    """
    with precision_for(pieces, place) as traced:
        if traced:
            pieces = in_callers_precision(list(pieces))
        if len(pieces) == 1:
            return compute(pieces[0], place)
        at = place.axes.index(TIME)
        if traced:
            return _chosen(pieces, edges, place, at, along, compute)
        owner = _owners(edges, np.asarray(place.coordinates[at]))
        asked = [(number, np.flatnonzero(owner == number)) for number in np.unique(owner)]
        parts = [compute(pieces[number], _taken(place, at, here)) for number, here in asked]
        back = np.argsort(np.concatenate([here for _, here in asked]))
        joined = {k: jnp.concatenate([p[k] for p in parts], along) for k in parts[0]}
        return {k: jnp.take(v, back, along) for k, v in joined.items()}


def _in_slabs(
    piece: Piece, operator: AbstractOperator, problem: Problem, place: Place, host: Any
) -> Values:
    piece = piece if host is None else to_device(piece, host)
    # times are moved to the piece's own before they are rounded to its precision
    place = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), place)
    check_fits(
        f"a lattice of {' × '.join(map(str, place.shape))} values",
        2 * math.prod(place.shape) * np.dtype(piece.dtype).itemsize,
        "evaluate fewer points at a time",
    )
    program = _program(problem)
    parts = [
        program(piece, operator, s) for s in slabs(place, tuning.POINTS_AT_ONCE[piece.is_separable])
    ]
    if len(parts) == 1:
        return parts[0]
    return {k: jnp.concatenate([p[k] for p in parts]) for k in parts[0]}


def _chosen(
    pieces: Sequence[Piece],
    edges: Sequence[float],
    place: Place,
    at: int,
    along: int,
    compute: Callable[[Piece, Any], Values],
) -> Values:
    times = jnp.asarray(place.coordinates[at])
    owner, limits = _owners(edges, times), jnp.asarray(edges, times.dtype)
    # windows are one problem to the compiler: their networks differ in their arrays alone
    dynamic, static = zip(*(eqx.partition(piece, eqx.is_array) for piece in pieces))
    stacked = jax.tree.map(lambda *each: jnp.stack(each), *dynamic)
    shapes = jax.eval_shape(lambda: compute(pieces[0], place))

    def body(total: Values, one: tuple[Array, Piece]) -> tuple[Values, None]:
        number, piece = one[0], eqx.combine(one[1], static[0])
        here = owner == number
        # a piece is not asked beyond its own interval: what it says there may not be finite
        inside = jnp.where(here, times, 0.5 * (limits[number] + limits[number + 1]))
        found = compute(piece, eqx.tree_at(lambda p: p.coordinates[at], place, inside))
        for k, v in found.items():
            mask = here.reshape([-1 if i == along else 1 for i in range(v.ndim)])
            total = total | {k: jnp.where(mask, v, total[k])}
        return total, None

    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    begin = as_varying(nothing, place, stacked)
    return jax.lax.scan(body, begin, (jnp.arange(len(pieces)), stacked))[0]


def _owners(edges: Sequence[float], times: Any) -> Any:
    """The number of the piece that each instant belongs to; an edge is of the piece it ends.
    Coordinates of single precision may lie a little beside an edge that they mean."""
    inner, lengths = np.asarray(edges[1:-1]), np.diff(edges)
    slack = min(
        4 * np.finfo(np.float32).eps * float(np.max(np.abs(edges))), 1e-3 * float(np.min(lengths))
    )
    if isinstance(times, np.ndarray):
        return np.searchsorted(inner + slack, times, side="left")
    return jnp.searchsorted(jnp.asarray(inner + slack, times.dtype), times, side="left")


def _taken(place: Place, at: int, here: np.ndarray) -> Place:
    """The part of a place at some of its instants: a slice of a lattice, some scattered points."""
    if isinstance(place, Points):
        return Points(place.axes, tuple(c[here] for c in place.coordinates))
    changed = place.coordinates[at][here]
    return eqx.tree_at(lambda p: p.coordinates[at], place, changed)


def lattice_from(
    box: Box, arguments: Sequence[Any], coordinates: Mapping[str, Any]
) -> tuple[Lattice, tuple[int, ...]]:
    """A lattice from what a user writes.

    Arguments:
        box: whose axes they are.
        arguments: a `Lattice`, or coordinates in the order of the axes.
        coordinates: by axis, arrays or numbers.

    Returns: the lattice, and the places of the axes given as numbers, which a result does not keep.
    """
    if len(arguments) == 1 and isinstance(arguments[0], Lattice):
        coordinates, arguments = dict(zip(arguments[0].axes, arguments[0].coordinates)), ()
    given = dict(zip(box.axes, arguments)) | dict(coordinates)
    if len(arguments) > box.dimension:
        raise InputError(
            f"solution: {len(arguments)} arrays for {box.dimension} axes ({listed(box.axes)})"
        )
    for axis in given:
        box.check_axis(axis, "solution")
    if missing := [axis for axis in box.axes if axis not in given]:
        raise InputError(
            f"solution: no coordinates for {listed(missing)}: write"
            f" solution({', '.join(f'{a}={a}s' for a in box.axes)}) with one array or number per"
            " axis"
        )
    for axis, c in given.items():
        if np.ndim(c) > 1:
            raise InputError(
                f"solution: {axis} must be a number or a one-dimensional array, got shape"
                f" {np.shape(c)}; for scattered points use solution.at(points)"
            )
    dropped = tuple(i for i, axis in enumerate(box.axes) if np.ndim(given[axis]) == 0)
    flat = {
        a: jnp.reshape(given[a], -1) if isinstance(given[a], jax.Array) else np.ravel(given[a])
        for a in box.axes
    }
    return Lattice(weights=None, **flat), dropped


def exported_program(solution: Solution) -> bytes:
    """The evaluation at scattered points, (n, axes) → (n,) for any n, as a serialised program that
    runs without separax: `jax.export.deserialize(bytes).call(points)`. Where an operator gives
    several fields, it returns a dict."""
    axes = solution.problem.box.axes

    def at(point: Float[Array, " axes"]) -> Any:
        place = Points(axes, tuple(point[i : i + 1] for i in range(len(axes))))
        found = {k: v[0] for k, v in values_at(solution, place).items()}
        return found if len(found) > 1 else next(iter(found.values()))

    with in_float64(solution.dtype == np.float64):
        (number,) = jax.export.symbolic_shape("n")
        points = jax.ShapeDtypeStruct((number, len(axes)), solution.dtype)
        program = jax.export.export(jax.jit(jax.vmap(at)), platforms=PLATFORMS)(points)
        return bytes(program.serialize())
