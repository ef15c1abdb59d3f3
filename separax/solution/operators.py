"""Operators on a solution: what is evaluated of it.

An operator turns the fields of a problem into named expressions. It is hashable, so that evaluating
two solutions with equal operators compiles once.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ..core import InputError, call, parameters
from ..equations import AtPlace, Field, Problem, values_of
from ..separable import Key

Expressions = dict[str, Any]


@dataclass(frozen=True)
class AbstractOperator:
    """From fields, coordinates and unknown coefficients to expressions by name.

    Attributes:
        names: of the expressions; "" where there is one without a name.
        needs: the derivatives that they are made of.
    """

    names: tuple[str, ...] = field(default=(), kw_only=True)
    needs: frozenset[Key] = field(default=frozenset(), kw_only=True)

    @abstractmethod
    def __call__(
        self,
        problem: Problem,
        fields: Mapping[str, Field],
        coordinates: Mapping[str, Any],
        unknowns: Mapping[str, Any],
    ) -> Expressions:
        """The expressions by name."""

    def traced(self, problem: Problem) -> Self:
        """The operator with its `names` and `needs`, found by running it on nothing. What cannot be
        evaluated is refused here."""

        def run(at: AtPlace) -> tuple[str, ...]:
            coordinates = at.inputs.coordinates(at.place)
            found = self(problem, at.fields, coordinates, at.unknowns)
            for expression in found.values():
                values_of(expression, at.source.shape, "of")
            return tuple(found)

        trace = problem.trace(run)
        return dataclasses.replace(self, names=trace.result, needs=trace.derivatives)


@dataclass(frozen=True)
class Outputs(AbstractOperator):
    """The fields themselves and the quantities derived from them."""

    def __call__(self, problem, fields, coordinates, unknowns) -> Expressions:
        return problem.quantities(fields, coordinates, unknowns)


@dataclass(frozen=True)
class Derivative(AbstractOperator):
    """A partial derivative of what another operator gives: `orders` are pairs (axis, order)."""

    of: AbstractOperator
    orders: tuple[tuple[str, int], ...]

    def __call__(self, problem, fields, coordinates, unknowns) -> Expressions:
        found = self.of(problem, fields, coordinates, unknowns)
        orders = dict(self.orders)
        return {k: e.d(**orders) for k, e in found.items() if isinstance(e, Field)}


@dataclass(frozen=True)
class Applied(AbstractOperator):
    """A user's function of the fields, coordinates and unknown coefficients that it names."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, problem: Problem, function: Callable[..., Any]) -> Applied:
        """The operator of a function; names that the problem does not know are refused."""
        pool = {**problem.known_names, "derived quantity": tuple(problem.derived)}
        return cls(function, tuple(parameters(function, pool, "of")))

    def __call__(self, problem, fields, coordinates, unknowns) -> Expressions:
        known = problem.quantities(fields, coordinates, unknowns)
        given = {**known, **coordinates, **unknowns}
        found = call(self.function, list(self.arguments), given, "of")
        return found if isinstance(found, dict) else {"": found}


@dataclass(frozen=True)
class Selected(AbstractOperator):
    """Some of the expressions of another operator."""

    of: AbstractOperator
    wanted: tuple[str, ...]

    def __call__(self, problem, fields, coordinates, unknowns) -> Expressions:
        found = self.of(problem, fields, coordinates, unknowns)
        return {name: found[name] for name in self.wanted}


@dataclass(frozen=True)
class Derivatives(AbstractOperator):
    """Single derivatives of the fields, by their keys (component, orders)."""

    keys: tuple[Key, ...]

    def __call__(self, problem, fields, coordinates, unknowns) -> Expressions:
        source = next(iter(fields.values())).source
        return {str(key): Field(source, {key: 1.0}) for key in self.keys}


def check_not_applied(operator: AbstractOperator, what: str, instead: str) -> None:
    """Refuses `what` of anything but the fields of a solution."""
    if not isinstance(operator, Outputs):
        raise InputError(f"{what}: this is an operator of the solution already: {instead}")
