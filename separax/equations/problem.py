"""A problem: an equation in a box with its conditions, checked as a whole before anything is computed."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, as_array, call, finite, fits, listed, nearest, parameters
from ..domain import Box, Shape
from ..networks import KnownPart
from ..separable import Key
from .conditions import Condition
from .field import Field
from .hard_conditions import built_in
from .terms import Resolver
from .tracing import Tracer, by_name, values_of


class Problem:
    """An equation, its box and its conditions.

    Arguments:
        box: where it holds.
        residual: a function of fields, coordinates and unknown coefficients, by name, that is zero where the equation
            holds. For a system, a function that returns a dict of such, or a dict of functions.
        conditions: `Initial`, `Dirichlet`, `Neumann`, `Robin`, `Periodic`, `Data`, or `Condition` for anything else.
        fields: the names of the unknown functions.
        reference: the true solution, a function of coordinates by name (for a system a dict of functions, or a
            function returning a dict, of as many of the fields and derived quantities as are known); used to measure errors,
            never for training.
        unknowns: names and first guesses of unknown coefficients, found together with the solution.
        derived: further quantities of interest, functions of the fields by name, {"w": lambda u, v: v.x - u.y}: evaluated with
            the solution, and known to `reference`.
        inside: for a domain that is not a box: a function of coordinates by name that is true inside, or negative (a signed
            distance); `box` is then its bounding box, and conditions without `on` are on its boundary.
        name: what to call it in reports.
        equation: the equation in one line of text, for reports; found by tracing the residual where it is left out.
    """

    def __init__(
        self,
        box: Box,
        residual: Callable[..., Any] | Mapping[str, Callable[..., Any]],
        conditions: Sequence[Condition] = (),
        *,
        fields: Sequence[str] = ("u",),
        reference: Any = None,
        unknowns: Mapping[str, float] | None = None,
        derived: Mapping[str, Callable[..., Any]] | None = None,
        inside: Callable[..., Any] | None = None,
        name: str | None = None,
        equation: str | None = None,
    ):
        if not isinstance(box, Box):
            raise InputError(
                f"Problem: box must be a Box, got {box!r}: write Box(t=(0, 1), x=(-1, 1))"
            )
        several = isinstance(residual, Mapping)
        functions = (
            {f"residual[{k!r}]": f for k, f in residual.items()}
            if several
            else {"residual": residual}
        )
        for which, function in functions.items():
            if not callable(function):
                raise InputError(
                    f"Problem: {which} must be a function of the fields and coordinates, got {function!r}"
                )
        self.box, self.residual = box, residual
        if not isinstance(fields, (str, Sequence)):
            raise InputError(
                f"Problem: fields must be names, got {fields!r}: write fields=('u', 'v')"
            )
        if not isinstance(unknowns or {}, Mapping):
            raise InputError(
                f"Problem: unknowns must be a dict of first guesses, got {unknowns!r}: write unknowns={{'kappa': 1.0}}"
            )
        self.shape = None if inside is None else Shape(inside, box)
        self.fields = (fields,) if isinstance(fields, str) else tuple(fields)
        self.unknowns = {
            k: finite(f"Problem: unknowns[{k!r}]", v) for k, v in (unknowns or {}).items()
        }
        self.reference, self.derived, self.equation = reference, dict(derived or {}), equation
        self.name = name or getattr(residual, "__name__", "problem").strip("<>")
        self._check_names()
        self._functions = {
            which: (f, parameters(f, self._pool, which)) for which, f in functions.items()
        }
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
        self._check_derived()
        resolver = Resolver(self)
        built = built_in(resolver)
        self.periodic, self.walls, self.given, self.lift = (
            built.periodic,
            built.walls,
            built.given,
            built.lift,
        )
        self.terms = resolver.terms()
        self._check_used()
        self._check_reference()

    @classmethod
    def without_functions(
        cls,
        box: Box,
        name: str,
        *,
        fields: Sequence[str],
        terms: Sequence[str],
        unknowns: Mapping[str, float],
        periodic: Sequence[str],
        walls: Sequence[Sequence[str]],
        shape: Shape | None,
        lift: KnownPart | None,
        derived: Mapping[str, Callable[..., Any]],
        left_out: Sequence[str],
        fingerprint: str,
    ) -> Problem:
        """A problem of which the functions are not at hand, as it is loaded from the folder of a run:
        its solutions can be evaluated, and it cannot be solved.

        Arguments:
            box, name, fields, unknowns: as ever.
            terms: the names of the terms of its loss.
            periodic, walls, lift: what is built into its networks.
            shape: of its domain, where that is no box.
            derived: functions of all fields and coordinates by name.
            left_out: names of derived quantities that could not be kept.
            fingerprint: of the problem with its functions.
        """
        problem = cls.__new__(cls)
        problem.box, problem.name, problem.shape, problem.lift = box, name, shape, lift
        problem.fields, problem.unknowns = tuple(fields), dict(unknowns)
        problem.periodic, problem.walls = tuple(periodic), tuple(map(tuple, walls))
        problem.residual = problem.reference = problem.equation = None
        problem.given = problem.conditions = problem.terms = problem.asked = ()
        problem.needs = problem.multiplied = frozenset()
        problem.residuals, problem.left_out = tuple(terms), tuple(left_out)
        arguments = [(each, False) for each in (*fields, *box.axes)]
        problem.derived = dict(derived)
        problem._derived_arguments = dict.fromkeys(derived, arguments)
        problem._functions, problem._fingerprint = {}, fingerprint
        return problem

    # --- names and functions -----------------------------------------------------------------------------------

    @property
    def _pool(self) -> dict[str, tuple[str, ...]]:
        return {
            "field": self.fields,
            "coordinate": self.box.axes,
            "unknown coefficient": tuple(self.unknowns),
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the loss terms: residuals first, then conditions."""
        return self.residuals + tuple(dict.fromkeys(term.name for term in self.terms))

    def _check_names(self) -> None:
        if not self.fields:
            raise InputError(
                "Problem: fields is empty: name at least one unknown function, fields=('u',)"
            )
        seen: dict[str, str] = {}
        for kind, names in {**self._pool, "derived quantity": tuple(self.derived)}.items():
            for name in names:
                if not isinstance(name, str) or not name.isidentifier():
                    raise InputError(
                        f"Problem: {name!r} cannot name a {kind}: write a plain word such as 'u'"
                    )
                if name in seen:
                    raise InputError(
                        f"Problem: {name!r} names both a {seen[name]} and a {kind}: rename one of them"
                    )
                seen[name] = kind

    def _check_used(self) -> None:
        used = {c for needs in (self.needs, *(t.needs for t in self.terms)) for c, _ in needs}
        if unused := [name for i, name in enumerate(self.fields) if i not in used]:
            raise InputError(
                f"Problem: the field {unused[0]!r} appears in no residual and no condition: use it, or leave it out of fields"
            )

    def fingerprint(self) -> str:
        """The same for two problems whose residuals and conditions compute the same thing."""
        if self._fingerprint is not None:
            return self._fingerprint
        tracer, coordinates, unknowns = self._example()
        seen: list[str] = []

        def run(c: Any, k: Any) -> list[Any]:
            values = [
                values_of(e, tracer.shape, n) for n, e in self.expressions(tracer, c, k).items()
            ]
            fields = self.field_map(tracer)
            for term in self.terms:
                values += [values_of(term.operator(fields, c, k), tracer.shape, term.name)]
                values += [term.value(c, k)] if term.fixed is None else []
                values += [] if term.where is None else [term.where(c)]
            values += [given.value(c) for given in self.given if given.value is not None]
            return [*values, *([] if self.shape is None else [self.shape.mask(c)])]

        tracer.note = lambda terms: seen.append(
            repr(sorted((key, str(c)) for key, c in terms.items()))
        )
        with jax.enable_x64(True):  # the same whatever the caller's precision is
            closed = jax.make_jaxpr(run)(coordinates, unknowns)
        text = str(closed.jaxpr) + "".join(seen)
        text += "".join(
            hashlib.sha256(np.asarray(c, np.float64).tobytes()).hexdigest() for c in closed.consts
        )
        for term in self.terms:
            arrays = [] if term.fixed is None else [*term.fixed.coordinates, term.value({}, {})]
            text += f"{term.name} {term.axis} {term.sides} {term.boundary} {term.condition.weight} {term.condition.mix} {term.condition.jump}"
            text += "".join(
                hashlib.sha256(np.asarray(a, np.float64).tobytes()).hexdigest() for a in arrays
            )
        text += "".join(f"{g.component} {g.place}" for g in self.given if g.value is not None)
        text += f"{self.box} {self.periodic} {self.walls} {self.unknowns}"
        return hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", text).encode()).hexdigest()[:16]

    def field_map(self, source: Any) -> dict[str, Field]:
        """The fields by name, reading their values from `source`."""
        zero = (0,) * self.box.dimension
        return {
            name: Field(source, {(i, zero): 1.0}, name=name) for i, name in enumerate(self.fields)
        }

    @property
    def outputs(self) -> tuple[str, ...]:
        """What a solution gives by name: the fields, then what is derived from them."""
        return (*self.fields, *self.derived)

    def quantities(
        self,
        fields: Mapping[str, Any],
        coordinates: Mapping[str, Array],
        unknowns: Mapping[str, Array],
    ) -> dict[str, Any]:
        """The fields and what is derived from them."""
        found = dict(fields)
        for name, function in self.derived.items():
            given = {**fields, **coordinates, **unknowns}
            found[name] = call(function, self._derived_arguments[name], given, f"derived[{name!r}]")
        return found

    def _check_derived(self) -> None:
        for name, function in self.derived.items():
            if not callable(function):
                raise InputError(
                    f"Problem: derived[{name!r}] must be a function of the fields, got {function!r}: write {name}=lambda"
                    f" {self.fields[0]}: {self.fields[0]}.{self.box.axes[-1]}"
                )
        self._derived_arguments = {
            k: parameters(f, self._pool, f"derived[{k!r}]") for k, f in self.derived.items()
        }
        tracer, coordinates, unknowns = self._example()

        def run(c: Any, k: Any) -> list[Array]:
            found = self.quantities(self.field_map(tracer), c, k)
            return [
                values_of(found[name], tracer.shape, f"derived[{name!r}]") for name in self.derived
            ]

        jax.eval_shape(run, coordinates, unknowns)

    def expressions(
        self, source: Any, coordinates: Mapping[str, Array], unknowns: Mapping[str, Array]
    ) -> dict[str, Any]:
        """The residuals by name, as the user's function returns them: fields, or arrays of the source's shape."""
        if self.residual is None:
            raise InputError(
                f"{self.name} was loaded from its run, which does not keep the functions of the"
                " problem: make the problem anew to solve it"
            )
        given = {**self.field_map(source), **coordinates, **unknowns}
        found = [call(f, names, given, which) for which, (f, names) in self._functions.items()]
        return by_name(
            dict(zip(self.residual, found)) if isinstance(self.residual, Mapping) else found[0]
        )

    def _example(self) -> tuple[Tracer, dict[str, Any], dict[str, Any]]:
        """A lattice of a different length along each axis, to run functions on without computing anything."""
        shape = tuple(range(2, 2 + self.box.dimension))
        lattice = {
            a: jax.ShapeDtypeStruct(
                tuple(n if i == j else 1 for j in range(len(shape))), jnp.float32
            )
            for i, (a, n) in enumerate(zip(self.box.axes, shape))
        }
        return (
            Tracer(self.box.axes, shape),
            lattice,
            {k: jax.ShapeDtypeStruct((), jnp.float32) for k in self.unknowns},
        )

    def _trace_residual(self) -> None:
        tracer, coordinates, unknowns = self._example()

        names: list[str] = []
        multiplied: set[frozenset[Key]] = set()

        def values(c, k):
            found = self.expressions(tracer, c, k)
            names.extend(found)
            multiplied.update(tracer.merged)
            multiplied.update(
                frozenset(r._terms)
                for r in found.values()
                if isinstance(r, Field) and r._terms and not r.linear
            )
            return {name: values_of(r, tracer.shape, name) for name, r in found.items()}

        jax.eval_shape(values, coordinates, unknowns)
        self.residuals: tuple[str, ...] = tuple(names)
        self.needs, self.asked = tracer.needs, tuple(tracer.asked)
        self.multiplied = frozenset(
            multiplied
        )  # the merges that residuals which are not linear are made of
        if not self.needs:
            raise InputError(
                f"residual depends on no field; it must be an expression of {listed(self.fields)} that is zero where the equation holds"
            )

    def _check_reference(self) -> None:
        if self.reference is None or getattr(
            self.reference, "lazy", False
        ):  # computed when it is first asked for
            return
        _, coordinates, _ = self._example()
        shape = tuple(range(2, 2 + self.box.dimension))
        jax.eval_shape(lambda c: self.reference_values(c, shape, self.reference), coordinates)

    def reference_values(
        self, coordinates: Mapping[str, Array], shape: tuple[int, ...], reference: Any
    ) -> dict[str, Array]:
        """A reference (a function or a dict of them) by field name, at coordinates that broadcast to `shape`."""

        def one(function: Any, argument: str) -> Any:
            if not callable(function):
                raise InputError(
                    f"{argument} must be a function of the coordinates, got {function!r}: write reference=lambda x: …"
                )
            return call(
                function,
                parameters(function, {"coordinate": self.box.axes}, argument),
                coordinates,
                argument,
            )

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
            if k not in self.outputs:
                raise InputError(
                    f"reference: {k!r} is not a field; the fields are {listed(self.outputs)}.{nearest(k, self.outputs)}"
                )
        return {
            k: jnp.broadcast_to(fits(as_array(v, "reference"), shape, f"reference {k!r}"), shape)
            for k, v in found.items()
        }

    def no_reference(self) -> str:
        """Why there is nothing to measure errors against, and what to do."""
        if self.residual is None:
            return (
                f"{self.name} was loaded from its run, which does not keep the functions of the"
                " problem: give the reference, solution.relative_l2(exact)"
            )
        return "the problem has no reference: give one, Problem(…, reference=exact) or solution.relative_l2(exact)"

    left_out: tuple[str, ...] = ()  # names of derived quantities that a folder could not keep
    _fingerprint: str | None = None  # where the functions are not at hand
    _whole: Problem | None = None  # of a part of the interval of time

    @property
    def whole(self) -> Problem:
        """The problem that this is a part of in time: itself, if it is none."""
        return self if self._whole is None else self._whole

    def during(self, start: float, end: float) -> Problem:
        """The same problem on a part of the interval of time; its terms stay those of the whole."""
        part = copy.copy(self)
        part._whole = self.whole
        part.box = Box(
            **{
                axis: (float(start), float(end)) if axis == "t" else self.box[axis]
                for axis in self.box.axes
            }
        )
        part.shape = None if self.shape is None else self.shape.along(part.box)
        return part

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, {self.box!r}, fields={self.fields}, terms={self.names})"

    def _repr_html_(self) -> str:
        from ..output import of_problem

        return of_problem(self)
