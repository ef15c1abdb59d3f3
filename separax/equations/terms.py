"""Terms: what a loss adds up besides the residuals. A condition becomes one term for each of its
places.

    term = Σ over its parts of  factor · mean of (what the part leaves)²
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, add_up, listed, shown
from ..domain import TIME, Lattice, Place, Points
from ..separable import AbstractValues, Key, Square, separate
from .field import Field
from .tracing import AtPlace, values_of

SIGNS = {"-": -1.0, "+": 1.0}  # of the outward normal
SEVERAL = 7  # points of a place that a term is tried on


@dataclass(frozen=True)
class Part:
    """What is left at the points of a place; it adds `factor` times the mean of its squares.

    Attributes:
        name: of the term that it belongs to.
        place: a lattice or points.
        values: one per point of the place.
        factor: what the mean is multiplied by.
    """

    name: str
    place: Place
    values: Array
    factor: float = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class AbstractTerm(ABC):
    """One place of a condition, and what the condition leaves there.

    Without `axis`, `boundary` and `fixed` the place is where the residual is: inside.

    Attributes:
        name: in the history of the loss. Terms of one name are added up.
        weight: factor of the term in the loss.
        axis: the axis whose faces the place is on.
        sides: which of them, "-", "+" or "-+".
        boundary: whether the place is the boundary of the problem's shape.
        fixed: points or a lattice, where the place is not drawn.
        is_measured: whether the term compares with measurements. These are as uncertain as they
            are: `emphasis` does not multiply them.
        derivatives: the derivatives that the term is made of; found by tracing.
    """

    name: str
    weight: float = 1.0
    axis: str | None = None
    sides: str = ""
    boundary: bool = False
    fixed: Lattice | Points | None = None
    is_measured: bool = False
    derivatives: frozenset[Key] = frozenset()

    argument: ClassVar[str] = "of"  # what a refusal calls the function of the fields

    @property
    @abstractmethod
    def couples_points(self) -> bool:
        """Whether what is left at one point depends on the fields at others, too."""

    @abstractmethod
    def parts(self, at: AtPlace) -> list[Part]:
        """What the term leaves of the fields at its place.

        Arguments:
            at: the fields, coordinates and unknowns there.
        """

    def squares(self, at: AtPlace) -> list[Square] | None:
        """The parts as squares of sums of products, whose means add up to the term, so that no
        lattice is needed; None where they are no such sums.

        Arguments:
            at: a lattice, with the fields of a separable network.
        """
        return None

    @property
    def is_start(self) -> bool:
        """Whether the term says what the fields are at the start of time: what one window of time
        hands on to the next."""
        return False

    def example(self, axes: Sequence[str]) -> Place:
        """A place like that of the term, without numbers, to try the term on."""
        if self.fixed is not None:
            return self.fixed
        if self.boundary:
            each = tuple(jax.ShapeDtypeStruct((SEVERAL,), jnp.float32) for _ in axes)
            return Points(tuple(axes), each, normals=each)  # pyright: ignore[reportArgumentType]
        return example_lattice(axes, {self.axis: len(self.sides)} if self.axis else {})

    def _differentiable(self, expression: Any) -> Field:
        if not isinstance(expression, Field):
            raise InputError(
                f"{self.name}: of must return a field, so that it can be differentiated along the"
                f" normal; got {shown(expression)}"
            )
        return expression


def example_lattice(axes: Sequence[str], counts: Mapping[str, int] | None = None) -> Lattice:
    """A lattice without numbers and with another length along each axis, to run functions on
    without computing anything.

    Arguments:
        axes: their names.
        counts: the number of points along some of them.
    """
    lengths = {axis: 2 + i for i, axis in enumerate(axes)} | dict(counts or {})
    return Lattice(
        weights=None, **{a: jax.ShapeDtypeStruct((n,), jnp.float32) for a, n in lengths.items()}
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Term(AbstractTerm):
    """A term of any kind.

    Attributes:
        residual: from the fields at the place (`at.fields`, `at.coordinates`, `at.unknowns`) to
            what is left: a field or an array with one value per point, or a `Part` at another
            place, as an integral over one of the axes has it.
        couples_points: False where what is left at a point depends on the fields there alone; the
            output layers of a network can be solved for only then.
    """

    residual: Callable[[AtPlace], Field | Array | Part]
    couples_points: bool = True  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    argument: ClassVar[str] = "residual"

    def parts(self, at: AtPlace) -> list[Part]:
        found = self.residual(at)
        if isinstance(found, Part):
            return [Part(self.name, found.place, found.values, found.factor)]
        values = values_of(found, at.source.shape, f"{self.name}: residual")
        return [Part(self.name, at.place, at.inside(values.astype(at.source.dtype)))]


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueTerm(AbstractTerm):
    """a F + b ∂F/∂n = g at every point of the place, n being the outward normal.

    Attributes:
        operator: from fields, coordinates and unknowns to F.
        value: from coordinates and unknowns to g.
        value_factor: a.
        normal_factor: b.
        where: from coordinates to whether a point of the place counts.
    """

    operator: Callable[[Mapping[str, Field], Mapping[str, Array], Mapping[str, Array]], Field]
    value: Callable[[Mapping[str, Array], Mapping[str, Array]], Array | np.ndarray]
    value_factor: float = 1.0
    normal_factor: float = 0.0
    where: Callable[[Mapping[str, Array]], Array] | None = None

    @property
    def couples_points(self) -> bool:
        return False

    @property
    def is_start(self) -> bool:
        return self.axis == TIME and self.sides == "-" and self._is_of_value

    @property
    def _is_of_value(self) -> bool:
        """Whether F itself is given, everywhere on the place."""
        return (self.value_factor, self.normal_factor) == (1.0, 0.0) and self.where is None

    def parts(self, at: AtPlace) -> list[Part]:
        field = self.operator(at.fields, at.coordinates, at.unknowns)
        found: Any = 0.0
        if self.value_factor:
            scaled = field * self.value_factor if self.value_factor != 1.0 else field
            values = values_of(scaled, at.source.shape, f"{self.name}: of")
            found = values.astype(at.source.dtype)
        if self.normal_factor:
            slope = self._normal_derivative(self._differentiable(field), at)
            found = found + self.normal_factor * slope
        residual = found - self._target(at, at.coordinates, at.unknowns)
        where = None if self.where is None else self.where(at.inputs.coordinates(at.place))
        factor = float(max(1, len(self.sides)))
        return [Part(self.name, at.place, at.inside(residual, where), factor)]

    def _target(
        self, at: AtPlace, coordinates: Mapping[str, Array], unknowns: Mapping[str, Array]
    ) -> Array:
        given = self.value(coordinates, unknowns) if at.tabulated is None else at.tabulated
        return jnp.asarray(given, at.source.dtype)

    def _normal_derivative(self, field: Field, at: AtPlace) -> Array:
        place = at.place
        if self.boundary:
            assert isinstance(place, Points)
            assert place.normals is not None
            assert at.problem.shape is not None
            normals = dict(zip(place.axes, place.normals))
            return add_up(
                normals[axis] * field.d(**{axis: 1}).evaluate() for axis in at.problem.shape.axes
            )
        assert self.axis is not None  # scattered points have no normal
        signs = jnp.asarray([SIGNS[side] for side in self.sides], at.source.dtype)
        if isinstance(place, Lattice):
            outward = place.along(self.axis, signs)
        else:
            outward = jnp.repeat(signs, place.shape[0] // len(self.sides))
        return outward * field.d(**{self.axis: 1}).evaluate()

    def squares(self, at: AtPlace) -> list[Square] | None:
        source, place = at.source, at.place
        assert isinstance(place, Lattice)
        field = self.operator(at.fields, at.coordinates, at.unknowns)
        if self.where is not None or not isinstance(field, Field):
            return None
        of_value = linear_factors(source, field) if self.value_factor else None
        of_slope = None
        if self.normal_factor:
            assert self.axis is not None  # scattered points have no normal
            of_slope = linear_factors(source, field.d(**{self.axis: 1}))
        if (self.value_factor and of_value is None) or (self.normal_factor and of_slope is None):
            return None
        target = separate(
            lambda c, k: self._target(at, c, k),
            at.coordinates,
            at.unknowns,
            dimension=len(place.axes),
        )
        if target is None:
            return None
        axis = 0 if self.axis is None else place.axes.index(self.axis)
        made: list[Sequence[Array]] = []
        for factor, columns in ((self.value_factor, of_value), (self.normal_factor, of_slope)):
            if columns is not None:
                along = columns[axis]
                if columns is of_slope:
                    along = jnp.asarray([[SIGNS[s]] for s in self.sides], source.dtype) * along
                made.append(_scaled(columns, axis, along, factor))
        given = [
            [
                (-1.0 if i == 0 else 1.0)
                * jnp.broadcast_to(p[i], (n,)).astype(source.dtype)[:, None]
                for i, n in enumerate(place.shape)
            ]
            for p in target
        ]
        factors = [jnp.concatenate(each, 1) for each in zip(*made, *given)]
        # a term adds up the means of its faces
        scale = math.sqrt(max(1, len(self.sides)))
        return [(_scaled(factors, 0, factors[0], scale), place.weights)]

    def prescribed_field(self, at: AtPlace) -> int | None:
        """The number of the field whose value is prescribed on faces; None if something else is."""
        if self.axis is None or self.fixed is not None or not self._is_of_value:
            return None
        found = self.operator(at.fields, at.coordinates, at.unknowns)
        nothing = (0,) * len(at.source.axes)
        plain = found.terms if isinstance(found, Field) else {}
        numbers = range(len(at.problem.fields))
        return next((c for c in numbers if plain == {(c, nothing): 1.0}), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class JumpTerm(AbstractTerm):
    """F and ∂F/∂x are the same on both faces of the axis x.

    Attributes:
        operator: from fields, coordinates and unknowns to F.
    """

    operator: Callable[[Mapping[str, Field], Mapping[str, Array], Mapping[str, Array]], Field]

    @property
    def couples_points(self) -> bool:
        return True

    def _compared(self, at: AtPlace) -> tuple[Field, Field]:
        """F and its derivative along the axis."""
        assert self.axis is not None  # only faces lie opposite each other
        field = self._differentiable(self.operator(at.fields, at.coordinates, at.unknowns))
        return field, field.d(**{self.axis: 1})

    def parts(self, at: AtPlace) -> list[Part]:
        assert self.axis is not None  # only faces lie opposite each other
        found = []
        for field in self._compared(at):
            values = values_of(field, at.source.shape, f"{self.name}: of")
            lower, upper = at.on_faces(values, self.axis)
            found.append(Part(self.name, at.lower_face(self.axis), upper - lower))
        return found

    def squares(self, at: AtPlace) -> list[Square] | None:
        assert self.axis is not None  # only faces lie opposite each other
        assert isinstance(at.place, Lattice)
        axis = at.place.axes.index(self.axis)
        weights = [None if i == axis else w for i, w in enumerate(at.place.weights)]
        found = []
        for field in self._compared(at):
            if (factors := linear_factors(at.source, field)) is None:
                return None
            jump = jnp.diff(factors[axis], axis=0)
            found.append((_scaled(factors, axis, jump, 1.0), weights))
        return found


def linear_factors(source: AbstractValues, field: Field) -> list[Array] | None:
    """The factors of a field that is a plain combination of derivatives.

    Arguments:
        source: where the values of the field come from.
        field: the field.

    Returns:
        Per axis an array (points, columns); None where the field is something else, or no sum of
        products.
    """
    polynomial = field.polynomial
    if polynomial is None or polynomial.pairs or polynomial.plain is not None:
        return None
    return source.factors(polynomial.terms)


def _scaled(factors: Sequence[Array], axis: int, along: Array, scale: float) -> list[Array]:
    """Factors with those of one axis replaced, times a number."""
    own = along if scale == 1.0 else scale * along
    return [own if i == axis else f for i, f in enumerate(factors)]


def check_derivatives(term: AbstractTerm, fields: Sequence[str], found: frozenset[Key]) -> None:
    """Refuses a term that depends on no field."""
    if not found:
        raise InputError(
            f"{term.name}: {term.argument} depends on no field; write an expression of"
            f" {listed(fields)}"
        )
