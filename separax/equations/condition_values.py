"""What conditions are given (operators, faces, functions, arrays): read, and refused where it does
not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, as_array, call, finite, fits, listed, parameters, shown
from ..domain import Lattice
from .field import Field
from .terms import SEVERAL, example_lattice

if TYPE_CHECKING:
    from .problem import Problem

Of = Callable[..., Field] | str | None
ALONG = 33  # points per axis of a face at which it is looked whether a condition is there at all

Operator = Callable[[Mapping[str, Field], Mapping[str, Array], Mapping[str, Array]], Field]
OfCoordinates = Callable[[Mapping[str, Array], Mapping[str, Array]], Array]  # and of unknowns


def where_function(
    name: str,
    where: Callable[..., Any] | None,
    problem: Problem,
    faces: Mapping[str, str],
    on_boundary: bool,
) -> Callable[[Mapping[str, Array]], Array] | None:
    """The function that tells which part of its faces a condition is on.

    Arguments:
        name: of the condition.
        where: a function of coordinates by name; None: all of the faces.
        problem: of the condition.
        faces: the faces that the condition is on.
        on_boundary: whether it is on the boundary of the problem's shape, too.

    Returns:
        From coordinates to true or false; refused if it is true nowhere.
    """
    if where is None:
        return None
    argument = f"{name}: where"
    if not callable(where):
        raise InputError(
            f"{argument} must be a function of coordinates, got {shown(where)}: write"
            " where=lambda x, y: x > 0"
        )
    names = parameters(where, {"coordinate": problem.box.axes}, argument)

    def evaluate(c: Mapping[str, Any]) -> Array:
        return as_array(call(where, names, c, argument), argument)

    seen = []
    for place in _samples(problem, faces, on_boundary):
        found = evaluate(place)
        if found.dtype != bool:
            raise InputError(
                f"{argument} must be true or false, got numbers of type {found.dtype}: write"
                " where=lambda x, y: x > 0"
            )
        seen.append(bool(jnp.any(found)))
    if not any(seen):
        places = [*(["the boundary"] if on_boundary else []), *(a + s for a, s in faces.items())]
        raise InputError(f"{argument} is true nowhere on {listed(places)}: check it and the box")
    return evaluate


def _samples(
    problem: Problem, faces: Mapping[str, str], on_boundary: bool
) -> Iterator[dict[str, Array]]:
    """Coordinates on every face, and on the boundary of the shape."""
    box, shape = problem.box, problem.shape
    line = {axis: jnp.linspace(*box[axis], ALONG) for axis in box.axes}
    for axis, sides in faces.items():
        ends = [jnp.asarray(box.ends(axis, sides)) if a == axis else line[a] for a in box.axes]
        yield dict(zip(box.axes, jnp.meshgrid(*ends, indexing="ij", sparse=True)))
    if on_boundary and shape is not None:
        points = shape.boundary()[0]
        own = {axis: jnp.asarray(points[:, i]) for i, axis in enumerate(shape.axes)}
        yield {a: own.get(a, jnp.resize(line[a], (len(points),))) for a in box.axes}


def _of_coordinates(
    value: Any, problem: Problem, argument: str, example: Mapping[str, Any], shape: tuple[int, ...]
) -> OfCoordinates:
    """A user's function of coordinates and unknowns, checked against the shape of a place."""
    pool = {"coordinate": problem.box.axes, "unknown coefficient": tuple(problem.unknowns)}
    names = parameters(value, pool, argument)

    def evaluate(c: Mapping[str, Array], k: Mapping[str, Array]) -> Array:
        return as_array(call(value, names, {**c, **k}, argument), argument)

    unknowns = {k: jax.ShapeDtypeStruct((), jnp.float32) for k in problem.unknowns}
    fits(jax.eval_shape(evaluate, example, unknowns), shape, argument)
    return evaluate


def value_on_boundary(name: str, value: Any, problem: Problem) -> OfCoordinates:
    """The value of a condition on the boundary of a shape, as a function of coordinates.

    Arguments:
        name: of the condition.
        value: a number, or a function of coordinates by name.
        problem: of the condition.
    """
    argument = f"{name}: value"
    if callable(value):
        scattered = {a: jax.ShapeDtypeStruct((SEVERAL,), jnp.float32) for a in problem.box.axes}
        return _of_coordinates(value, problem, argument, scattered, (SEVERAL,))
    if np.ndim(value):
        raise InputError(
            f"{argument} is an array, but the boundary of a shape has no lattice: write a function"
            " of coordinates, or Data(points, values)"
        )
    number = finite(argument, value)
    return lambda c, k: jnp.asarray(number)


def value_on_face(
    name: str,
    value: Any,
    lattice: Lattice | Mapping[str, Any] | None,
    problem: Problem,
    faces: Mapping[str, str],
    axis: str,
    periodic: Sequence[str],
) -> tuple[OfCoordinates, Lattice | None]:
    """The value of a condition on the faces of one axis, as a function of coordinates.

    Arguments:
        name: of the condition.
        value: a number, a function of coordinates by name, or an array.
        lattice: the coordinates of an array.
        problem: of the condition.
        faces: all faces that the condition is on.
        axis: the one whose faces are meant.
        periodic: the axes whose upper end is their lower one, where an array has no point.

    Returns:
        The function; and the lattice of an array, None otherwise.
    """
    argument, box, sides = f"{name}: value", problem.box, faces[axis]
    if callable(value):
        place = example_lattice(box.axes, {axis: 1})
        example = {
            a: jax.ShapeDtypeStruct([n if b == a else 1 for b in box.axes], jnp.float32)
            for a, n in zip(box.axes, place.shape)
        }
        return _of_coordinates(value, problem, argument, example, place.shape), None
    try:
        array = np.asarray(value, dtype=None if value is None else float)
        array = array.astype(float, casting="safe")
    except (TypeError, ValueError):
        raise InputError(
            f"{argument} must be a number, a function of coordinates or an array, got"
            f" {shown(value)}"
        ) from None
    if not np.all(np.isfinite(array)):
        raise InputError(f"{argument} holds numbers that are not finite")
    if array.ndim == 0:
        return (lambda c, k: jnp.asarray(array)), None
    others = [a for a in box.axes if a != axis]
    if len(faces) > 1 or len(sides) > 1:
        named = listed(a + s for a, ss in faces.items() for s in ss)
        raise InputError(
            f"{argument} is an array, which belongs to one face; this condition is on {named}:"
            " write one condition per face"
        )
    if lattice is None:
        if array.ndim != len(others):
            raise InputError(
                f"{argument} is an array of shape {array.shape}, but the face {axis + sides} has"
                f" the axes {listed(others)}: give it one dimension per axis, in this order"
            )
        grid = {
            a: np.linspace(*box[a], n, endpoint=a not in periodic)
            for a, n in zip(others, array.shape)
        }
    else:
        given = (
            dict(zip(lattice.axes, lattice.coordinates))
            if isinstance(lattice, Lattice)
            else dict(lattice)
        )
        if set(given) - {axis} != set(others):
            raise InputError(
                f"{name}: lattice names {listed(given)}, but the face {axis + sides} has the axes"
                f" {listed(others)}"
            )
        grid = {a: np.asarray(given[a], dtype=float) for a in others}
        for a, c in grid.items():
            box.check_inside(a, c, f"{name}: lattice")
        shape = tuple(len(c) for c in grid.values())
        if array.shape != shape:
            raise InputError(
                f"{argument} has shape {array.shape}, but its lattice ({listed(others)}) has"
                f" {shape}: give one number per lattice point"
            )
    coordinates = grid | {axis: np.array(box.ends(axis, sides))}
    full = np.expand_dims(array, box.index(axis))
    place = Lattice(weights=None, **{a: coordinates[a] for a in box.axes})
    return (lambda c, k: jnp.asarray(full)), place


def operator_of(name: str, of: Of, problem: Problem) -> Operator:
    """What a condition is about, as a function of fields, coordinates and unknowns.

    Arguments:
        name: of the condition, for refusals.
        of: a function of the fields by name, the name of a field, or None for the only field.
        problem: whose fields these are.
    """
    fields, first = problem.fields, problem.fields[0]
    if of is None:
        if len(fields) > 1:
            raise InputError(
                f"{name}: which of the fields {listed(fields)}? Write of=lambda {first}: {first}"
            )
        of = first
    written = f"of=lambda {first}: {first}.{problem.box.axes[0]}"
    if isinstance(of, str):
        if of not in fields:
            raise InputError(
                f"{name}: of must be a function of the fields or the name of one"
                f" ({listed(fields)}), got {shown(of)}: write {written}"
            )
        return lambda fields, coordinates, unknowns: fields[of]
    if not callable(of):
        raise InputError(
            f"{name}: of must be a function of the fields, got {shown(of)}: write {written}"
        )
    names = parameters(of, problem.known_names, f"{name}: of")
    return lambda fields, coordinates, unknowns: call(
        of, names, {**fields, **coordinates, **unknowns}, f"{name}: of"
    )


def single_derivative(operator: Operator, problem: Problem) -> Any:
    """The one derivative that a condition is about, and its coefficient; of order two, which no
    condition builds in, where it is about anything else."""
    trace = problem.trace(lambda at: operator(at.fields, at.coordinates, at.unknowns))
    found = trace.result
    plain = found.terms if isinstance(found, Field) and found.is_formal else {}
    return next(iter(plain.items())) if len(plain) == 1 else ((0, (2,)), 0.0)


def divided(evaluate: OfCoordinates, coefficient: float) -> Callable[..., Any]:
    """The value of a field, from that of a multiple of it."""
    return lambda coordinates: evaluate(coordinates, {}) / coefficient


def straight_axes(name: str, problem: Problem) -> list[str]:
    """The axes of space that the problem's shape does not depend on."""
    if not problem.box.space:
        raise InputError(f"{name}: {problem.box!r} has no axis but t; say where, on='t-'")
    curved = () if problem.shape is None else problem.shape.axes
    return [axis for axis in problem.box.space if axis not in curved]


def named_faces(name: str, on: str | Sequence[str], problem: Problem) -> dict[str, str]:
    faces = problem.box.faces(on, f"{name}: on")
    if not faces:
        raise InputError(
            f"{name}: on names no face, got {shown(on)}: write e.g."
            f" on={problem.box.axes[0] + '-'!r}"
        )
    return faces
