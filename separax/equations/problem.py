"""A problem: an equation in a box with its conditions, checked as a whole before anything is
computed."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import (
    InputError,
    as_array,
    call,
    finite,
    fits,
    listed,
    nearest,
    parameters,
    shown,
)
from ..domain import Box, Place, Shape
from ..networks import KnownPart
from ..separable import Key
from .conditions import AbstractCondition
from .field import Field
from .hard_conditions import construction_of
from .identity import fingerprint, name_of
from .terms import AbstractTerm, check_derivatives, example_lattice
from .tracing import AtPlace, Inputs, Trace, Tracer, by_name, values_of


class Problem:
    """An equation, its box and its conditions: N(u) = 0 in the box, B(u) = g on its faces.

    A problem does not change once it is made: `during` and `with_terms` make others.

    Arguments:
        box: where it holds.
        residual: a function of fields, coordinates and unknown coefficients, by name, that is zero
            where the equation holds. For a system, a function that returns a dict of such, or a
            dict of functions.
        conditions: `Initial`, `Dirichlet`, `Neumann`, `Robin`, `Periodic`, `Data`, `Condition` for
            other operators, or an `AbstractCondition` of your own.
        fields: the names of the unknown functions.
        reference: the true solution, a function of coordinates by name (for a system a dict of
            functions, or a function returning a dict, of as many of the fields and derived
            quantities as are known); used to measure errors, never for training.
        unknowns: names and first guesses of unknown coefficients, found together with the solution.
        derived: further quantities of interest, functions of the fields by name,
            {"w": lambda u, v: v.x - u.y}: evaluated with the solution, and known to `reference`.
        inside: for a domain that is not a box: a function of coordinates by name that is true
            inside, or negative (a signed distance); `box` is then its bounding box, and conditions
            without `on` are on its boundary.
        name: what to call it in reports; the name of the residual function where that is one, the
            name of the file that makes the problem otherwise.
        equation: the equation in one line of text, for reports; found by tracing the residual where
            it is left out.
    """

    def __init__(
        self,
        box: Box,
        residual: Callable[..., Any] | Mapping[str, Callable[..., Any]],
        conditions: Sequence[AbstractCondition] = (),
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
                f"Problem: box must be a Box, got {shown(box)}: write Box(t=(0, 1), x=(-1, 1))"
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
                    f"Problem: {which} must be a function of the fields and coordinates, got"
                    f" {shown(function)}"
                )
        self.box, self.residual = box, residual
        if not isinstance(fields, (str, Sequence)):
            raise InputError(
                f"Problem: fields must be names, got {shown(fields)}: write fields=('u', 'v')"
            )
        if not isinstance(unknowns or {}, Mapping):
            raise InputError(
                "Problem: unknowns must be a dict of first guesses, got"
                f" {shown(unknowns)}: write unknowns={{'kappa': 1.0}}"
            )
        self.shape = None if inside is None else Shape(inside, box)
        self.fields = (fields,) if isinstance(fields, str) else tuple(fields)
        self.unknowns = {
            k: finite(f"Problem: unknowns[{k!r}]", v) for k, v in (unknowns or {}).items()
        }
        self.reference, self.derived, self.equation = reference, dict(derived or {}), equation
        self.name = name or name_of(residual)
        self._check_names()
        self._functions = {
            which: (f, parameters(f, self.known_names, which, self._how_to_name))
            for which, f in functions.items()
        }
        if isinstance(conditions, AbstractCondition):
            conditions = (conditions,)
        if isinstance(conditions, str) or not isinstance(conditions, Sequence):
            raise InputError(
                f"Problem: conditions must be a list, got {shown(conditions)}: write"
                " conditions=[Initial(f), Dirichlet(0)]"
            )
        self.conditions = tuple(conditions)
        for condition in self.conditions:
            if not isinstance(condition, AbstractCondition):
                raise InputError(
                    f"Problem: conditions holds {shown(condition)}: write e.g. Initial(f),"
                    " Dirichlet(0) or Condition(value, on='x-')"
                )
        self._trace_residual()
        self._check_derived()
        built = construction_of(self)
        self.periodic, self.walls = built.periodic, built.walls
        self.given, self.lift = built.given, built.lift
        self.terms = tuple(self._resolved())
        self._check_used()
        self._check_reference()
        self._arguments = {
            "box": box,
            "residual": residual,
            "conditions": self.conditions,
            "fields": self.fields,
            "reference": reference,
            "unknowns": unknowns,
            "derived": derived,
            "inside": inside,
            "name": self.name,
            "equation": equation,
        }
        self._is_made = True

    _is_made = False
    _whole: Problem | None = None  # of a part of the interval of time
    _fingerprint: str | None = None  # where the functions are not at hand
    left_out: tuple[str, ...] = ()  # names of derived quantities that a folder could not keep

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_made:
            raise AttributeError(
                f"a problem does not change once it is made: write Problem(…, {name}=…)"
            )
        super().__setattr__(name, value)

    def _changed(self, **changes: Any) -> Problem:
        other = object.__new__(type(self))
        vars(other).update(vars(self) | changes)
        return other

    def __copy__(self) -> Problem:
        return self

    def __deepcopy__(self, memo: Any) -> Problem:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self._is_made or self.residual is None:
            return super().__reduce_ex__(protocol)
        # its terms hold functions made here, which no file can hold: it is made again
        times = None if self._whole is None else self.box["t"]
        return _made_again, (self.whole._arguments, times)

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
        """A problem of which the functions are not at hand, as it is loaded from the folder of a
        run: its solutions can be evaluated, and it cannot be solved.

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
        problem.derivatives = problem.factors_of_products = frozenset()
        problem.residuals, problem.left_out = tuple(terms), tuple(left_out)
        arguments = [(each, False) for each in (*fields, *box.axes)]
        problem.derived = dict(derived)
        problem._derived_arguments = dict.fromkeys(derived, arguments)
        problem._functions, problem._fingerprint = {}, fingerprint
        problem._is_made = True
        return problem

    # --- parts and variants ----------------------------------------------------------------------

    @property
    def whole(self) -> Problem:
        """The problem that this is a part of in time: itself, if it is none."""
        return self if self._whole is None else self._whole

    def during(self, start: float, end: float) -> Problem:
        """The same problem on a part of the interval of time; its terms stay those of the whole.

        Arguments:
            start: where the part begins.
            end: where it ends.
        """
        times = (float(start), float(end))
        box = Box(**{axis: times if axis == "t" else self.box[axis] for axis in self.box.axes})
        shape = None if self.shape is None else self.shape.along(box)
        return self._changed(box=box, shape=shape, _whole=self.whole)

    def with_terms(self, terms: Iterable[AbstractTerm]) -> Problem:
        """The same problem with other terms in place of those of its conditions.

        Arguments:
            terms: of the loss, besides those of the residuals.
        """
        return self._changed(terms=tuple(terms))

    # --- names and functions ---------------------------------------------------------------------

    @property
    def known_names(self) -> dict[str, tuple[str, ...]]:
        """The names that functions of the problem may ask for, by what they are."""
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
        for kind, names in {**self.known_names, "derived quantity": tuple(self.derived)}.items():
            for name in names:
                if not isinstance(name, str) or not name.isidentifier():
                    raise InputError(
                        f"Problem: {shown(name)} cannot name a {kind}: write a plain word such as"
                        " 'u'"
                    )
                if name in seen:
                    raise InputError(
                        f"Problem: {name!r} names both a {seen[name]} and a {kind}: rename one of"
                        " them"
                    )
                seen[name] = kind

    def _how_to_name(self, name: str) -> str:
        """What to write for a parameter of a residual that is not known."""
        fields, unknowns = (*self.fields, name), {**self.unknowns, name: 1.0}
        return (
            f" Is it an unknown coefficient? Write unknowns={unknowns!r}, with a first guess. A"
            f" second field? Write fields={fields!r}. A number that you know? Leave it out of the"
            " parameters"
        )

    def _check_used(self) -> None:
        ours = [
            c
            for c in self.conditions
            if type(c).__module__.startswith(AbstractCondition.__module__)
        ]
        functions = [f for f, _ in self._functions.values()]
        functions += [v for c in ours for v in vars(c).values() if inspect.isfunction(v)]
        named = {name for f in functions for name in inspect.signature(f).parameters}
        unused = [name for name in self.unknowns if name not in named]
        if unused and len(ours) == len(self.conditions):
            raise InputError(
                f"Problem: the unknown coefficient {unused[0]!r} is named by no residual and no"
                " condition, so that nothing could fix it: use it, lambda u,"
                f" {unused[0]}: …, or leave it out of unknowns"
            )
        each = (self.derivatives, *(term.derivatives for term in self.terms))
        used = {component for derivatives in each for component, _ in derivatives}
        if unused := [name for i, name in enumerate(self.fields) if i not in used]:
            raise InputError(
                f"Problem: the field {unused[0]!r} appears in no residual and no condition: use it,"
                " or leave it out of fields"
            )

    # --- running its functions on nothing --------------------------------------------------------

    def trace(
        self,
        function: Callable[[AtPlace], Any],
        place: Place | None = None,
        accepts: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda *shapes: False,
    ) -> Trace:
        """Runs a function of the fields on nothing, to find out what it asks for.

        Arguments:
            function: of the fields at a place.
            place: where; a lattice of a different length along each axis, if it is left out.
            accepts: which coefficients, by their shape and that of the place, stay formal.

        Returns:
            What it returned and what it asked for.
        """
        place = example_lattice(self.box.axes) if place is None else place
        tracer = Tracer(self.box.axes, place.shape, accepts=accepts)
        results: list[Any] = []

        def run(place: Place, unknowns: Mapping[str, Array]) -> int:
            results.append(function(AtPlace(self, place, tracer, Inputs(unknowns, {}))))
            return 0

        jax.eval_shape(run, place, self.no_unknowns())
        (result,), asked = results, tuple(tracer.asked)
        return Trace(result, asked, tracer.derivatives, tracer.uses_plain_values)

    def no_unknowns(self) -> dict[str, Any]:
        """The shapes of the unknown coefficients, by name."""
        return {k: jax.ShapeDtypeStruct((), jnp.float32) for k in self.unknowns}

    def _trace_residual(self) -> None:
        factors: set[frozenset[Key]] = set()

        def run(at: AtPlace) -> list[str]:
            found = self.expressions(at.source, at.coordinates, at.unknowns)
            factors.update(
                frozenset(r.terms)
                for r in found.values()
                if isinstance(r, Field) and r.terms and not r.linear
            )
            factors.update(frozenset(terms) for terms in at.source.asked)  # pyright: ignore[reportAttributeAccessIssue]
            for name, r in found.items():
                values_of(r, at.source.shape, name)
            return list(found)

        trace = self.trace(run)
        self.residuals: tuple[str, ...] = tuple(trace.result)
        self.derivatives, self.asked = trace.derivatives, trace.asked
        # the merges that residuals which are not linear are made of
        self.factors_of_products = frozenset(factors)
        if not self.derivatives:
            raise InputError(
                f"residual depends on no field; it must be an expression of {listed(self.fields)}"
                " that is zero where the equation holds"
            )

    def _resolved(self) -> Iterable[AbstractTerm]:
        """The terms of all conditions, each under a name of its own."""
        used = set(self.residuals)
        for condition in self.conditions:
            own = list(condition.terms(self))
            names: dict[str, str] = {}
            for name in dict.fromkeys(term.name for term in own):
                number, names[name] = 1, name
                while names[name] in used:
                    number += 1
                    names[name] = f"{name} {number}"
                used.add(names[name])
            for term in own:
                named = dataclasses.replace(term, name=names[term.name])
                trace = self.trace(named.parts, named.example(self.box.axes))
                check_derivatives(named, self.fields, trace.derivatives)
                yield dataclasses.replace(named, derivatives=trace.derivatives)

    def fingerprint(self) -> str:
        """The same for two problems whose residuals and conditions compute the same thing."""
        return self._fingerprint or fingerprint(self)

    # --- evaluating its functions ----------------------------------------------------------------

    def field_map(self, source: Any) -> dict[str, Field]:
        """The fields by name.

        Arguments:
            source: where their values come from.
        """
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
        """The fields and what is derived from them, by name.

        Arguments:
            fields: by name.
            coordinates: by name.
            unknowns: the unknown coefficients by name.
        """
        given = {**fields, **coordinates, **unknowns}
        return dict(fields) | {name: self.derived_quantity(name, given) for name in self.derived}

    def derived_quantity(self, name: str, given: Mapping[str, Any]) -> Any:
        """One of the derived quantities.

        Arguments:
            name: which.
            given: fields, coordinates and unknowns by name.
        """
        arguments = self._derived_arguments[name]
        return call(self.derived[name], arguments, given, f"derived[{name!r}]")

    def _check_derived(self) -> None:
        for name, function in self.derived.items():
            if not callable(function):
                raise InputError(
                    f"Problem: derived[{name!r}] must be a function of the fields, got"
                    f" {shown(function)}: write {name}=lambda"
                    f" {self.fields[0]}: {self.fields[0]}.{self.box.axes[-1]}"
                )
        self._derived_arguments = {
            k: parameters(f, self.known_names, f"derived[{k!r}]") for k, f in self.derived.items()
        }

        def run(at: AtPlace) -> None:
            found = self.quantities(at.fields, at.coordinates, at.unknowns)
            for name in self.derived:
                values_of(found[name], at.source.shape, f"derived[{name!r}]")

        self.trace(run)

    def expressions(
        self, source: Any, coordinates: Mapping[str, Array], unknowns: Mapping[str, Array]
    ) -> dict[str, Any]:
        """The residuals by name, as the user's function returns them: fields, or arrays of the
        source's shape.

        Arguments:
            source: where the values of the fields come from.
            coordinates: by name.
            unknowns: the unknown coefficients by name.
        """
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

    def _check_reference(self) -> None:
        # a lazy one is computed when it is first asked for
        if self.reference is None or getattr(self.reference, "lazy", False):
            return
        self.trace(
            lambda at: self.reference_values(
                at.inputs.coordinates(at.place), at.place.shape, self.reference
            )
        )

    def reference_values(
        self, coordinates: Mapping[str, Array], shape: tuple[int, ...], reference: Any
    ) -> dict[str, Array]:
        """The values of a reference by the name of the field.

        Arguments:
            coordinates: by name, arrays that broadcast to `shape`.
            shape: of the values.
            reference: a function of coordinates, or a dict of them.
        """

        def one(function: Any, argument: str) -> Any:
            if not callable(function):
                raise InputError(
                    f"{argument} must be a function of the coordinates, got {shown(function)}:"
                    " write reference=lambda x: …"
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
                        f"reference: one function for the fields {listed(self.fields)}: write a"
                        f" dict, reference={{{self.fields[0]!r}: …}}, or let it return one"
                    )
                found = dict.fromkeys(self.fields, found)
        for k in found:
            if k not in self.outputs:
                raise InputError(
                    f"reference: {k!r} is not a field; the fields are"
                    f" {listed(self.outputs)}.{nearest(k, self.outputs)}"
                )
        return {
            k: jnp.broadcast_to(fits(as_array(v, "reference"), shape, f"reference {k!r}"), shape)
            for k, v in found.items()
        }

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, {self.box!r}, fields={self.fields}, terms={self.names})"

    def _repr_html_(self) -> str:
        from ..output import of_problem

        return of_problem(self)


def _made_again(arguments: Mapping[str, Any], times: tuple[float, float] | None) -> Problem:
    whole = Problem(**arguments)
    return whole if times is None else whole.during(*times)
