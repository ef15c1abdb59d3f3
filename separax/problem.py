"""A problem: an equation in a box with its conditions, checked as a whole before anything is computed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .calling import as_array, by_name, call, fits, parameters, values_of
from .conditions import Condition
from .domain import Box, Lattice, Points
from .errors import InputError, finite, listed, nearest
from .fields import Field, Key


@dataclass(frozen=True, eq=False)
class Term:
    """A condition as a problem has resolved it: one place, one operator, one value."""

    condition: Condition
    name: str
    axis: str | None  # the axis whose faces this is on; None: scattered points
    sides: str
    operator: Callable[[Mapping[str, Field], Mapping[str, Array], Mapping[str, Array]], Field]
    value: Callable[[Mapping[str, Array], Mapping[str, Array]], Array | np.ndarray]
    fixed: Lattice | Points | None  # where the values of an array lie
    needs: frozenset[Key] = field(default=frozenset())


class Tracer:
    """A source of values that only writes down what is asked of it."""

    def __init__(self, axes: tuple[str, ...], shape: tuple[int, ...]):
        self.axes, self.shape, self.dtype = axes, shape, jnp.float32
        self.needs: set[Key] = set()
        self.merged: list[frozenset[Key]] = []
        self.opened = False  # whether plain values of a field were handed out
        self.note: Callable[[Mapping[Key, Any]], None] = lambda terms: None

    def exposed(self) -> None:
        self.opened = True

    def values(self, terms: Mapping[Key, Any]) -> Array:
        self.needs |= set(terms)
        self.merged.append(frozenset(terms))
        self.note(terms)
        return jnp.zeros(self.shape, self.dtype)


class Problem:
    """An equation, its box and its conditions.

    Arguments:
        box: where it holds.
        residual: a function of fields, coordinates and unknown coefficients, by name, that is zero where the equation
            holds; a dict of such for a system.
        conditions: `Initial`, `Dirichlet`, `Neumann`, `Robin`, `Periodic`, `Data`, or `Condition` for anything else.
        fields: the names of the unknown functions.
        reference: the true solution, a function of coordinates by name (for a system a dict of functions, or a
            function returning a dict); used to measure errors, never for training.
        unknowns: names and first guesses of unknown coefficients, found together with the solution.
        name: what to call it in reports.
    """

    def __init__(
        self,
        box: Box,
        residual: Callable[..., Any],
        conditions: Sequence[Condition] = (),
        *,
        fields: Sequence[str] = ("u",),
        reference: Any = None,
        unknowns: Mapping[str, float] | None = None,
        name: str | None = None,
    ):
        if not isinstance(box, Box):
            raise InputError(f"Problem: box must be a Box, got {box!r}: write Box(t=(0, 1), x=(-1, 1))")
        if not callable(residual):
            raise InputError(f"Problem: residual must be a function of the fields and coordinates, got {residual!r}")
        self.box, self.residual = box, residual
        if not isinstance(fields, (str, Sequence)):
            raise InputError(f"Problem: fields must be names, got {fields!r}: write fields=('u', 'v')")
        if not isinstance(unknowns or {}, Mapping):
            raise InputError(
                f"Problem: unknowns must be a dict of first guesses, got {unknowns!r}: write unknowns={{'kappa': 1.0}}"
            )
        self.fields = (fields,) if isinstance(fields, str) else tuple(fields)
        self.unknowns = {k: finite(f"Problem: unknowns[{k!r}]", v) for k, v in (unknowns or {}).items()}
        self.reference = reference
        self.name = name or getattr(residual, "__name__", "problem").strip("<>")
        self._check_names()
        self._arguments = parameters(residual, self._pool, "residual")
        if isinstance(conditions, Condition):
            conditions = (conditions,)
        if isinstance(conditions, str) or not isinstance(conditions, Sequence):
            raise InputError(
                f"Problem: conditions must be a list, got {conditions!r}: write conditions=[Initial(f), Dirichlet(0)]"
            )
        self.conditions = tuple(conditions)
        for condition in self.conditions:
            if not isinstance(condition, Condition):
                raise InputError(
                    f"Problem: conditions holds {condition!r}: write e.g. Initial(f), Dirichlet(0) or Condition(value, on='x-')"
                )
        self._trace_residual()
        self.periodic, self.walls = self._built_in()
        self.terms = self._resolve()
        self._check_used()
        self._check_reference()

    # --- names and functions -----------------------------------------------------------------------------------

    @property
    def _pool(self) -> dict[str, tuple[str, ...]]:
        return {"field": self.fields, "coordinate": self.box.axes, "unknown coefficient": tuple(self.unknowns)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the loss terms: residuals first, then conditions."""
        return self.residuals + tuple(dict.fromkeys(term.name for term in self.terms))

    def _check_names(self) -> None:
        if not self.fields:
            raise InputError("Problem: fields is empty: name at least one unknown function, fields=('u',)")
        seen: dict[str, str] = {}
        for kind, names in self._pool.items():
            for name in names:
                if not isinstance(name, str) or not name.isidentifier():
                    raise InputError(f"Problem: {name!r} cannot name a {kind}: write a plain word such as 'u'")
                if name in seen:
                    raise InputError(f"Problem: {name!r} names both a {seen[name]} and a {kind}: rename one of them")
                seen[name] = kind

    def _check_used(self) -> None:
        used = {c for needs in (self.needs, *(t.needs for t in self.terms)) for c, _ in needs}
        if unused := [name for i, name in enumerate(self.fields) if i not in used]:
            raise InputError(
                f"Problem: the field {unused[0]!r} appears in no residual and no condition: use it, or leave it out of fields"
            )

    def fingerprint(self) -> str:
        """The same for two problems whose residuals and conditions compute the same thing."""
        tracer, coordinates, unknowns = self._example()
        seen: list[str] = []

        def run(c: Any, k: Any) -> list[Any]:
            values = [values_of(e, tracer.shape, n) for n, e in self.expressions(tracer, c, k).items()]
            fields = self.field_map(tracer)
            for term in self.terms:
                values += [values_of(term.operator(fields, c, k), tracer.shape, term.name)]
                values += [term.value(c, k)] if term.fixed is None else []
            return values

        tracer.note = lambda terms: seen.append(repr(sorted((key, str(c)) for key, c in terms.items())))
        text = str(jax.make_jaxpr(run)(coordinates, unknowns)) + "".join(seen)
        for term in self.terms:
            arrays = [] if term.fixed is None else [*term.fixed.coordinates, term.value({}, {})]
            text += f"{term.name} {term.axis} {term.sides} {term.condition.weight} {term.condition.mix} {term.condition.jump}"
            text += "".join(hashlib.sha256(np.asarray(a, np.float64).tobytes()).hexdigest() for a in arrays)
        text += f"{self.box} {self.periodic} {self.walls} {self.unknowns}"
        return hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", text).encode()).hexdigest()[:16]

    def field_map(self, source: Any) -> dict[str, Field]:
        """The fields by name, reading their values from `source`."""
        zero = (0,) * self.box.dimension
        return {name: Field(source, {(i, zero): 1.0}, name=name) for i, name in enumerate(self.fields)}

    def expressions(self, source: Any, coordinates: Mapping[str, Array], unknowns: Mapping[str, Array]) -> dict[str, Any]:
        """The residuals by name, as the user's function returns them: fields, or arrays of the source's shape."""
        result = call(self.residual, self._arguments, {**self.field_map(source), **coordinates, **unknowns}, "residual")
        return by_name(result)

    def _example(self) -> tuple[Tracer, dict[str, Any], dict[str, Any]]:
        """A lattice of a different length along each axis, to run functions on without computing anything."""
        shape = tuple(range(2, 2 + self.box.dimension))
        lattice = {
            a: jax.ShapeDtypeStruct(tuple(n if i == j else 1 for j in range(len(shape))), jnp.float32)
            for i, (a, n) in enumerate(zip(self.box.axes, shape))
        }
        return Tracer(self.box.axes, shape), lattice, {k: jax.ShapeDtypeStruct((), jnp.float32) for k in self.unknowns}

    def _trace_residual(self) -> None:
        tracer, coordinates, unknowns = self._example()

        names: list[str] = []

        def values(c, k):
            found = self.expressions(tracer, c, k)
            names.extend(found)
            return {name: values_of(r, tracer.shape, name) for name, r in found.items()}

        jax.eval_shape(values, coordinates, unknowns)
        self.residuals: tuple[str, ...] = tuple(names)
        self.needs = frozenset(tracer.needs)
        self.merges = tuple(tracer.merged)
        if not self.needs:
            raise InputError(
                f"residual depends on no field; it must be an expression of {listed(self.fields)} that is zero where the equation holds"
            )

    def _check_reference(self) -> None:
        if self.reference is None:
            return
        _, coordinates, _ = self._example()
        shape = tuple(range(2, 2 + self.box.dimension))
        jax.eval_shape(lambda c: self.reference_values(c, shape, self.reference), coordinates)

    def reference_values(self, coordinates: Mapping[str, Array], shape: tuple[int, ...], reference: Any) -> dict[str, Array]:
        """A reference (a function or a dict of them) by field name, at coordinates that broadcast to `shape`."""

        def one(function: Any, argument: str) -> Any:
            if not callable(function):
                raise InputError(
                    f"{argument} must be a function of the coordinates, got {function!r}: write reference=lambda x: …"
                )
            return call(function, parameters(function, {"coordinate": self.box.axes}, argument), coordinates, argument)

        if isinstance(reference, Mapping):
            found = {k: one(f, f"reference[{k!r}]") for k, f in reference.items()}
        else:
            found = one(reference, "reference")
            if not isinstance(found, Mapping):
                if len(self.fields) > 1:
                    raise InputError(
                        f"reference: one function for the fields {listed(self.fields)}: write a dict, reference={{{self.fields[0]!r}: …}}, or let it return one"
                    )
                found = dict.fromkeys(self.fields, found)
        for k in found:
            if k not in self.fields:
                raise InputError(
                    f"reference: {k!r} is not a field; the fields are {listed(self.fields)}.{nearest(k, self.fields)}"
                )
        return {k: jnp.broadcast_to(fits(as_array(v, "reference"), shape, f"reference {k!r}"), shape) for k, v in found.items()}

    # --- conditions --------------------------------------------------------------------------------------------

    def _faces(self, condition: Condition) -> dict[str, str]:
        if condition.on is None:
            if not self.box.space:
                raise InputError(f"{condition.name}: {self.box!r} has no axis but t; say where, on='t-'")
            return self.box.faces(self.box.space)
        if condition.on == "t-" and "t" not in self.box.axes:
            raise InputError(
                f"{condition.name}: there is no time axis 't' in {self.box!r}; say which face it is on, e.g. on={self.box.axes[0] + '-'!r}"
            )
        faces = self.box.faces(condition.on, f"{condition.name}: on")
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
            plain.append(dict(result._terms) if isinstance(result, Field) and result._known is None else None)
            values_of(result, tracer.shape, f"{condition.name}: of")
            if axis is not None and (condition.mix[1] or condition.jump):
                if not isinstance(result, Field):
                    raise InputError(
                        f"{condition.name}: of must return a field, so that it can be differentiated along the normal; got {result!r}"
                    )
                values_of(result.d(**{axis: 1}), tracer.shape, f"{condition.name}: of")
            return 0

        jax.eval_shape(run, coordinates, unknowns)
        if not tracer.needs:
            raise InputError(f"{condition.name}: of depends on no field; write an expression of {listed(self.fields)}")
        return frozenset(tracer.needs), plain[0]

    def _built_in(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Hard conditions: the periodic axes, and per axis and field the sides on which it is zero by construction."""
        periodic: list[str] = []
        walls = [[""] * len(self.fields) for _ in self.box.axes]
        for condition in (c for c in self.conditions if c.hard):
            faces = self._faces(condition)
            if condition.jump:
                for axis, sides in faces.items():
                    _check_both(condition.name, axis, sides)
                if condition.of is not None:
                    raise InputError(
                        f"{condition.name}: built in, it makes every field periodic; for one operator alone write hard=False"
                    )
                periodic += [axis for axis in faces if axis not in periodic]
                continue
            operator = self._operator(condition)
            _, plain = self._trace_operator(condition, operator, None)
            zero = (0,) * self.box.dimension
            if (
                not (np.isscalar(condition.value) and condition.value == 0)
                or condition.mix != (1.0, 0.0)
                or plain is None
                or len(plain) != 1
                or next(iter(plain))[1] != zero
            ):
                raise InputError(
                    f"{condition.name}: hard=True builds in the value 0 of one field only: write Dirichlet(0, hard=True), or hard=False for other values"
                )
            component = next(iter(plain))[0]
            for axis, sides in faces.items():
                place = walls[self.box.index(axis)]
                place[component] = "".join(s for s in "-+" if s in place[component] + sides)
        for axis in periodic:
            if any(walls[self.box.index(axis)]):
                raise InputError(
                    f"conditions: {axis} is both periodic and zero on a face by construction: use hard=False for one of the two"
                )
        return tuple(periodic), tuple(tuple(w) for w in walls)

    def _resolve(self) -> tuple[Term, ...]:
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
                    raise InputError(f"{name}: scattered points have no faces: write Data(points, values, of=lambda u: u.x)")
                points = Points.of(self.box, condition.points, f"{name}: points")
                if not points.shape[0]:
                    raise InputError(f"{name}: points is empty: give at least one")
                for axis, c in zip(points.axes, points.coordinates):
                    self.box.check_inside(axis, c, f"{name}: points")
                try:
                    values = np.asarray(condition.value, dtype=float)
                except (TypeError, ValueError):
                    raise InputError(f"{name}: values must be numbers, got {condition.value!r}") from None
                if not np.all(np.isfinite(values)):
                    raise InputError(f"{name}: values holds numbers that are not finite")
                if values.shape != points.shape:
                    raise InputError(
                        f"{name}: {points.shape[0]} points but values of shape {values.shape}: give one number per point, shape ({points.shape[0]},)"
                    )
                found.append(Term(condition, name, None, "", operator, lambda c, k, v=values: v, points, needs))
                continue
            faces = self._faces(condition)
            for axis, sides in faces.items():
                if condition.jump:
                    _check_both(name, axis, sides)
                needs, _ = self._trace_operator(condition, operator, axis)
                value, fixed = self._value(replace(condition, name=name), faces, axis, sides)
                found.append(Term(condition, name, axis, sides, operator, value, fixed, needs))
        return tuple(found)

    def _value(
        self, condition: Condition, faces: dict[str, str], axis: str, sides: str
    ) -> tuple[Callable[..., Array], Lattice | None]:
        value, name = condition.value, f"{condition.name}: value"
        if callable(value):
            names = parameters(value, {"coordinate": self.box.axes, "unknown coefficient": tuple(self.unknowns)}, name)
            tracer, coordinates, unknowns = self._example()
            place = self.box.index(axis)
            coordinates[axis] = jax.ShapeDtypeStruct((1,) * self.box.dimension, jnp.float32)
            shape = tuple(1 if i == place else n for i, n in enumerate(tracer.shape))

            def evaluate(c, k):
                return as_array(call(value, names, {**c, **k}, name), name)

            fits(jax.eval_shape(evaluate, coordinates, unknowns), shape, name)
            return evaluate, None
        try:
            array = np.asarray(value, dtype=None if value is None else float).astype(float, casting="safe")
        except (TypeError, ValueError):
            raise InputError(f"{name} must be a number, a function of coordinates or an array, got {value!r}") from None
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
            grid = {a: np.linspace(*self.box[a], n, endpoint=a not in periodic) for a, n in zip(others, array.shape)}
        else:
            by_axis = dict(zip(given.axes, given.coordinates)) if isinstance(given, Lattice) else dict(given)
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
        return (lambda c, k: jnp.asarray(full)), Lattice(weights=None, **{a: coordinates[a] for a in self.box.axes})

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, {self.box!r}, fields={self.fields}, terms={self.names})"


def _check_both(name: str, axis: str, sides: str) -> None:
    if sides != "-+":
        raise InputError(f"{name}: periodic along {axis} needs both of its faces: write on={axis!r}")
