"""Conditions as a problem resolves them to terms of the loss, with one place each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, as_array, call, finite, fits, listed, parameters
from ..domain import BOUNDARY, Lattice, Points
from ..separable import Key
from .conditions import Condition
from .field import Field
from .tracing import values_of

if TYPE_CHECKING:
    from .problem import Problem

ALONG = 33  # points per axis of a face at which it is looked whether a condition is there at all


@dataclass(frozen=True, eq=False)
class Term:
    """A condition as a problem has resolved it: one place, one operator, one value."""

    condition: Condition
    name: str
    axis: (
        str | None
    )  # the axis whose faces this is on; None: scattered points, of data or on the boundary of a shape
    sides: str
    operator: Callable[[Mapping[str, Field], Mapping[str, Array], Mapping[str, Array]], Field]
    value: Callable[[Mapping[str, Array], Mapping[str, Array]], Array | np.ndarray]
    fixed: Lattice | Points | None  # where the values of an array lie
    needs: frozenset[Key] = field(default=frozenset())
    boundary: bool = False
    where: Callable[[Mapping[str, Array]], Array] | None = (
        None  # true on the part of its place that counts
    )


class Resolver:
    """Reads the conditions of a problem, and turns those that are not built into the network into what a loss adds up."""

    def __init__(self, problem: Problem):
        self.box, self.fields, self.unknowns, self.conditions = (
            problem.box,
            problem.fields,
            problem.unknowns,
            problem.conditions,
        )
        self.shape, self.residuals = problem.shape, problem.residuals
        self._pool, self._example, self.field_map = (
            problem._pool,
            problem._example,
            problem.field_map,
        )

    def _on_boundary(self, condition: Condition) -> bool:
        """Whether a condition is on the boundary of a shape: all of it, or among other faces."""
        named = condition.on == BOUNDARY or (
            isinstance(condition.on, (list, tuple)) and BOUNDARY in condition.on
        )
        if named and self.shape is None:
            raise InputError(
                f"{condition.name}: on={BOUNDARY!r} is the boundary of a shape, but this problem fills its box: name faces, e.g."
                f" on={self.box.axes[-1]!r}, or give the problem a shape, inside=lambda x, y: …"
            )
        if named and condition.jump:
            raise InputError(
                f"{condition.name}: the boundary of a shape has no opposite side: name an axis, on={self.box.axes[-1]!r}"
            )
        return self.shape is not None and not condition.jump and (condition.on is None or named)

    def _faces(self, condition: Condition) -> dict[str, str]:
        curved = () if self.shape is None else self.shape.axes
        if condition.on is None:
            if not self.box.space:
                raise InputError(
                    f"{condition.name}: {self.box!r} has no axis but t; say where, on='t-'"
                )
            flat = [axis for axis in self.box.space if axis not in curved]
            if not flat and condition.jump:
                raise InputError(
                    f"{condition.name}: the shape depends on every axis of space, so that none is periodic: leave it out"
                )
            return self.box.faces(flat)
        if self._on_boundary(condition):
            left = (
                []
                if isinstance(condition.on, str)
                else [name for name in condition.on if name != BOUNDARY]
            )
            return self.box.faces(left, f"{condition.name}: on")
        if condition.on == "t-" and "t" not in self.box.axes:
            raise InputError(
                f"{condition.name}: there is no time axis 't' in {self.box!r}; say which face it is on, e.g. on={self.box.axes[0] + '-'!r}"
            )
        faces = self.box.faces(condition.on, f"{condition.name}: on")
        if condition.jump and (cut := [axis for axis in faces if axis in curved]):
            raise InputError(
                f"{condition.name}: on={condition.on!r}: the shape depends on {listed(cut)}, and a shape has no opposite faces: leave"
                " it out, or write inside as a function of other axes"
            )
        if not faces:
            raise InputError(
                f"{condition.name}: on names no face, got {condition.on!r}: write e.g. on={self.box.axes[0] + '-'!r}"
            )
        return faces

    def _operator(self, condition: Condition) -> Callable[..., Field]:
        if condition.of is None:
            if len(self.fields) > 1:
                raise InputError(
                    f"{condition.name}: which of the fields {listed(self.fields)}? Write of=lambda {self.fields[0]}: {self.fields[0]}"
                )
            return lambda fields, coordinates, unknowns: fields[self.fields[0]]
        if isinstance(condition.of, str):
            if condition.of not in self.fields:
                raise InputError(
                    f"{condition.name}: of must be a function of the fields or the name of one ({listed(self.fields)}), got"
                    f" {condition.of!r}: write of=lambda {self.fields[0]}: {self.fields[0]}.{self.box.axes[0]}"
                )
            return lambda fields, coordinates, unknowns: fields[condition.of]
        if not callable(condition.of):
            raise InputError(
                f"{condition.name}: of must be a function of the fields, got {condition.of!r}: write of=lambda {self.fields[0]}: {self.fields[0]}.{self.box.axes[0]}"
            )
        of, names = condition.of, parameters(condition.of, self._pool, f"{condition.name}: of")
        return lambda fields, coordinates, unknowns: call(
            of, names, {**fields, **coordinates, **unknowns}, f"{condition.name}: of"
        )

    def _trace_operator(
        self, condition: Condition, operator: Callable[..., Field], axis: str | None
    ) -> tuple[frozenset[Key], dict[Key, float] | None]:
        """What an operator needs, and its terms if it is a plain combination of derivatives."""
        tracer, coordinates, unknowns = self._example()
        plain: list[dict[Key, float] | None] = []

        def run(c, k):
            result = operator(self.field_map(tracer), c, k)
            plain.append(
                dict(result._terms) if isinstance(result, Field) and result._formal else None
            )
            values_of(result, tracer.shape, f"{condition.name}: of")
            if axis is not None and (condition.mix[1] or condition.jump):
                if not condition.mix[0] and not condition.jump:
                    tracer.asked.clear()  # a slope alone: the value was looked at and is not needed
                if not isinstance(result, Field):
                    raise InputError(
                        f"{condition.name}: of must return a field, so that it can be differentiated along the normal; got {result!r}"
                    )
                values_of(result.d(**{axis: 1}), tracer.shape, f"{condition.name}: of")
            return 0

        jax.eval_shape(run, coordinates, unknowns)
        if not tracer.needs:
            raise InputError(
                f"{condition.name}: of depends on no field; write an expression of {listed(self.fields)}"
            )
        return frozenset(tracer.needs), plain[0]

    def terms(self) -> tuple[Term, ...]:
        """Conditions as loss terms, one per axis they act on."""
        found: list[Term] = []
        used = set(self.residuals)
        for condition in (c for c in self.conditions if not c.hard):
            operator = self._operator(condition)
            name, n = condition.name, 1
            while name in used:
                n += 1
                name = f"{condition.name} {n}"
            used.add(name)
            if condition.points is not None:
                needs, _ = self._trace_operator(condition, operator, None)
                if condition.jump or condition.mix[1]:
                    raise InputError(
                        f"{name}: scattered points have no faces: write Data(points, values, of=lambda u: u.x)"
                    )
                points = Points.of(self.box, condition.points, f"{name}: points")
                if not points.shape[0]:
                    raise InputError(f"{name}: points is empty: give at least one")
                for axis, c in zip(points.axes, points.coordinates):
                    self.box.check_inside(axis, c, f"{name}: points")
                self._check_inside_shape(points, f"{name}: points")
                try:
                    values = np.asarray(condition.value, dtype=float)
                except (TypeError, ValueError):
                    raise InputError(
                        f"{name}: values must be numbers, got {condition.value!r}"
                    ) from None
                if not np.all(np.isfinite(values)):
                    raise InputError(f"{name}: values holds numbers that are not finite")
                if values.shape != points.shape:
                    raise InputError(
                        f"{name}: {points.shape[0]} points but values of shape {values.shape}: give one number per point, shape ({points.shape[0]},)"
                    )
                found.append(
                    Term(
                        condition, name, None, "", operator, lambda c, k, v=values: v, points, needs
                    )
                )
                continue
            faces = self._faces(condition)
            where = self._where(condition, name, faces)
            if self._on_boundary(condition):
                found.append(replace(self._boundary_term(condition, name, operator), where=where))
            for axis, sides in faces.items():
                if condition.jump:
                    check_both(name, axis, sides)
                needs, _ = self._trace_operator(condition, operator, axis)
                value, fixed = self._value(replace(condition, name=name), faces, axis, sides)
                found.append(
                    Term(condition, name, axis, sides, operator, value, fixed, needs, where=where)
                )
        return tuple(found)

    def _where(
        self, condition: Condition, name: str, faces: Mapping[str, str]
    ) -> Callable[[Mapping[str, Array]], Array] | None:
        """The function that tells which part of its faces a condition is on; refused if that is none."""
        if condition.where is None:
            return None
        where, argument = condition.where, f"{name}: where"
        if not callable(where):
            raise InputError(
                f"{argument} must be a function of coordinates, got {where!r}: write where=lambda x, y: x > 0"
            )
        names = parameters(where, {"coordinate": self.box.axes}, argument)

        def evaluate(c: Mapping[str, Any]) -> Array:
            return as_array(call(where, names, c, argument), argument)

        seen = []
        for place in self._samples(faces, self._on_boundary(condition)):
            found = evaluate(place)
            if found.dtype != bool:
                raise InputError(
                    f"{argument} must be true or false, got numbers of type {found.dtype}: write where=lambda x, y: x > 0"
                )
            seen.append(bool(jnp.any(found)))
        if not any(seen):
            places = [
                *(["the boundary"] if self._on_boundary(condition) else []),
                *(a + s for a, s in faces.items()),
            ]
            raise InputError(
                f"{argument} is true nowhere on {listed(places)}: check it and the box"
            )
        return evaluate

    def _samples(self, faces: Mapping[str, str], boundary: bool) -> Iterator[dict[str, Array]]:
        """Coordinates on every face, and on the boundary of the shape."""
        line = {axis: jnp.linspace(*self.box[axis], ALONG) for axis in self.box.axes}
        for axis, sides in faces.items():
            ends = [
                jnp.asarray(self.box.ends(axis, sides)) if a == axis else line[a]
                for a in self.box.axes
            ]
            yield dict(zip(self.box.axes, jnp.meshgrid(*ends, indexing="ij", sparse=True)))
        if boundary and self.shape is not None:
            points = self.shape.boundary()[0]
            own = {axis: jnp.asarray(points[:, i]) for i, axis in enumerate(self.shape.axes)}
            yield {
                axis: own.get(axis, jnp.resize(line[axis], (len(points),)))
                for axis in self.box.axes
            }

    def _check_inside_shape(self, points: Points, argument: str) -> None:
        if self.shape is None:
            return
        outside = int(np.sum(~np.asarray(self.shape.mask(points.arrays()))))
        if outside:
            raise InputError(
                f"{argument}: {outside} of {points.shape[0]} points are outside the shape: leave them out"
            )

    def _boundary_term(
        self, condition: Condition, name: str, operator: Callable[..., Field]
    ) -> Term:
        assert self.shape is not None  # only then is there a boundary
        needs: frozenset[Key] = frozenset()
        for axis in self.shape.axes if condition.mix[1] else [None]:
            needs |= self._trace_operator(condition, operator, axis)[0]
        value, argument = condition.value, f"{name}: value"
        if not callable(value):
            if np.ndim(value):
                raise InputError(
                    f"{argument} is an array, but the boundary of a shape has no lattice: write a function of coordinates, or Data(points, values)"
                )
            number = finite(argument, value)
            return Term(
                condition,
                name,
                None,
                "",
                operator,
                lambda c, k: jnp.asarray(number),
                None,
                needs,
                True,
            )
        names = parameters(
            value,
            {"coordinate": self.box.axes, "unknown coefficient": tuple(self.unknowns)},
            argument,
        )

        def evaluate(c: Any, k: Any) -> Array:
            return as_array(call(value, names, {**c, **k}, argument), argument)

        scattered = {axis: jax.ShapeDtypeStruct((7,), jnp.float32) for axis in self.box.axes}
        fits(jax.eval_shape(evaluate, scattered, self._example()[2]), (7,), argument)
        return Term(condition, name, None, "", operator, evaluate, None, needs, True)

    def _value(
        self, condition: Condition, faces: dict[str, str], axis: str, sides: str
    ) -> tuple[Callable[..., Array], Lattice | None]:
        value, name = condition.value, f"{condition.name}: value"
        if callable(value):
            names = parameters(
                value,
                {"coordinate": self.box.axes, "unknown coefficient": tuple(self.unknowns)},
                name,
            )
            tracer, coordinates, unknowns = self._example()
            place = self.box.index(axis)
            coordinates[axis] = jax.ShapeDtypeStruct((1,) * self.box.dimension, jnp.float32)
            shape = tuple(1 if i == place else n for i, n in enumerate(tracer.shape))

            def evaluate(c, k):
                return as_array(call(value, names, {**c, **k}, name), name)

            fits(jax.eval_shape(evaluate, coordinates, unknowns), shape, name)
            return evaluate, None
        try:
            array = np.asarray(value, dtype=None if value is None else float).astype(
                float, casting="safe"
            )
        except (TypeError, ValueError):
            raise InputError(
                f"{name} must be a number, a function of coordinates or an array, got {value!r}"
            ) from None
        if not np.all(np.isfinite(array)):
            raise InputError(f"{name} holds numbers that are not finite")
        if array.ndim == 0:
            return (lambda c, k: jnp.asarray(array)), None
        others = [a for a in self.box.axes if a != axis]
        if len(faces) > 1 or len(sides) > 1:
            raise InputError(
                f"{name} is an array, which belongs to one face; this condition is on {listed(a + s for a, ss in faces.items() for s in ss)}: write one condition per face"
            )
        given = condition.lattice
        if given is None:
            if array.ndim != len(others):
                raise InputError(
                    f"{name} is an array of shape {array.shape}, but the face {axis + sides} has the axes {listed(others)}: give it one dimension per axis, in this order"
                )
            periodic = {a for c in self.conditions if c.jump for a in self._faces(c)}
            grid = {
                a: np.linspace(*self.box[a], n, endpoint=a not in periodic)
                for a, n in zip(others, array.shape)
            }
        else:
            by_axis = (
                dict(zip(given.axes, given.coordinates))
                if isinstance(given, Lattice)
                else dict(given)
            )
            if set(by_axis) - {axis} != set(others):
                raise InputError(
                    f"{condition.name}: lattice names {listed(by_axis)}, but the face {axis + sides} has the axes {listed(others)}"
                )
            grid = {a: np.asarray(by_axis[a], dtype=float) for a in others}
            for a, c in grid.items():
                self.box.check_inside(a, c, f"{condition.name}: lattice")
            shape = tuple(len(c) for c in grid.values())
            if array.shape != shape:
                raise InputError(
                    f"{name} has shape {array.shape}, but its lattice ({listed(others)}) has {shape}: give one number per lattice point"
                )
        coordinates = grid | {axis: np.array(self.box.ends(axis, sides))}
        full = np.expand_dims(array, self.box.index(axis))
        return (lambda c, k: jnp.asarray(full)), Lattice(
            weights=None, **{a: coordinates[a] for a in self.box.axes}
        )


def check_both(name: str, axis: str, sides: str) -> None:
    if sides != "-+":
        raise InputError(
            f"{name}: periodic along {axis} needs both of its faces: write on={axis!r}"
        )
