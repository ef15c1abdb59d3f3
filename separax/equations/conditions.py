"""Conditions: what holds besides the equation, on faces, on the boundary of a shape, at points."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np

from ..core import InputError, finite, listed, shown
from ..domain import BOUNDARY, Lattice, Points
from .condition_values import (
    Of,
    divided,
    named_faces,
    operator_of,
    single_derivative,
    straight_axes,
    value_on_boundary,
    value_on_face,
    where_function,
)
from .hard_conditions import BoundaryData, BuiltIn, value_to_build_in
from .terms import AbstractTerm, JumpTerm, ValueTerm

if TYPE_CHECKING:
    from .problem import Problem

Value = Any  # a number, a function of coordinates by name, or an array on a lattice


class AbstractCondition(eqx.Module):
    """Something that holds besides the equation. A condition of your own says which terms it adds
    to the loss; nothing else of separax asks what kind it is.
    """

    @abstractmethod
    def terms(self, problem: "Problem") -> Sequence[AbstractTerm]:
        """The terms of the loss, one for each place; none where the condition is built in.

        Arguments:
            problem: its `box`, `shape`, `fields` and `unknowns` are known by now.
        """

    def built_in(self, problem: "Problem") -> BuiltIn | None:
        """What the network is to have by construction; None where the condition is a penalty.

        Arguments:
            problem: its `box`, `shape`, `fields` and `unknowns` are known by now.
        """
        return None


class Condition(AbstractCondition):
    """a F + b ∂F/∂n = g on faces, or on the boundary of a shape; n is the outward normal.

    `Condition(0, on="x-", of=lambda u: u.x)` says that u_x = 0 on the lower face of x.

    Attributes:
        value: g, a number, a function of coordinates by name, or an array. An array lies on
            `lattice`, or, without one, on the regular grid of the face (both ends included; one
            dimension per other axis, in the box's order).
        on: a face or several: "x" both faces of x, "x-" the lower, "x+" the upper one, "boundary"
            the boundary of a shape. None: every face of every axis but t.
        of: F, a function of the fields (and coordinates) by name, or the name of a field; the field
            itself if there is only one.
        weight: factor of this term in the loss.
        name: its name in the loss history.
        hard: build the condition into the network exactly instead of penalising it: a field's value
            on faces, a number or a smooth function; and its slope along the normal of a face whose
            value is built in, too. "root" for zero values that a field leaves like the root of the
            distance: where diffusion fades with the field, u_t = ∇·(u ∇u).
        lattice: the coordinates of an array `value`, by axis.
        mix: (a, b).
        where: a function of coordinates by name that is true on the part of the faces, or of a
            shape's boundary, that is meant.
    """

    value: Value = 0.0
    on: str | Sequence[str] | None = None
    of: Of = None
    weight: float = 1.0
    name: str = "condition"
    hard: bool | Literal["root"] = False
    lattice: Lattice | Mapping[str, Any] | None = None
    mix: tuple[float, float] = (1.0, 0.0)
    where: Callable[..., Any] | None = None

    def __check_init__(self):
        _check_weight(self)
        _check_hard(self, (True, False, "root"))
        for number in self.mix:
            finite(f"{self.name}: a coefficient", number)
        if self.where is not None and self.hard:
            raise InputError(
                f"{self.name}: where is for a part of faces, and this condition is built in: leave"
                " one of the two out"
            )

    def terms(self, problem: "Problem") -> list[AbstractTerm]:
        if self.hard:
            return []
        operator, faces = operator_of(self.name, self.of, problem), self._faces(problem)
        on_boundary = self._is_on_boundary(problem)
        known: dict[str, Any] = {
            "name": self.name,
            "weight": self.weight,
            "operator": operator,
            "value_factor": self.mix[0],
            "normal_factor": self.mix[1],
            "where": where_function(self.name, self.where, problem, faces, on_boundary),
        }
        found: list[AbstractTerm] = []
        if on_boundary:
            value = value_on_boundary(self.name, self.value, problem)
            found.append(ValueTerm(value=value, boundary=True, **known))
        for axis, sides in faces.items():
            value, fixed = self._value(problem, faces, axis)
            found.append(ValueTerm(value=value, fixed=fixed, axis=axis, sides=sides, **known))
        return found

    def _value(self, problem: "Problem", faces: Mapping[str, str], axis: str) -> Any:
        periodic = [
            a for c in problem.conditions if isinstance(c, Periodic) for a in c.faces(problem)
        ]
        return value_on_face(self.name, self.value, self.lattice, problem, faces, axis, periodic)

    def built_in(self, problem: "Problem") -> BuiltIn | None:
        if not self.hard:
            return None
        if self._is_on_boundary(problem):
            raise InputError(
                f"{self.name}: hard=True builds values into the faces of a box; on the boundary of"
                " a shape write hard=False"
            )
        name, faces = self.name, self._faces(problem)
        operator = operator_of(self.name, self.of, problem)
        (component, orders), coefficient = single_derivative(operator, problem)
        along = [a for a, order in zip(problem.box.axes, orders) if order]
        # a value, or a slope along the one axis whose faces these are
        other = self.mix != (1.0, 0.0) or (along and list(faces) != along)
        if sum(orders) > 1 or other:
            raise InputError(
                f"{name}: hard=True builds in the value of one field, or its slope along the normal"
                " of a face: write Dirichlet(f, hard=True), Initial(g, of=lambda u: u.t,"
                " hard=True),"
                " or hard=False for other operators"
            )
        value = self.value
        zero = not callable(value) and np.ndim(value) == 0 and value == 0
        if self.hard == "root" and not (zero and not along):
            raise InputError(
                f'{name}: hard="root" is for values of zero: write hard=True, or the value 0'
            )
        given = []
        for axis, sides in faces.items():
            known = None
            if not zero:
                value_to_build_in(name, value, coefficient, problem)
                evaluate, _ = self._value(problem, faces, axis)
                known = divided(evaluate, coefficient)
            root = self.hard == "root"
            given += [
                BoundaryData(name, component, axis, side, sum(orders), known, root)
                for side in sides
            ]
        return BuiltIn(given=tuple(given))

    def _is_on_boundary(self, problem: "Problem") -> bool:
        """Whether this is on the boundary of a shape: all of it, or among other faces."""
        named = self.on == BOUNDARY or (isinstance(self.on, (list, tuple)) and BOUNDARY in self.on)
        if named and problem.shape is None:
            raise InputError(
                f"{self.name}: on={BOUNDARY!r} is the boundary of a shape, but this problem fills"
                f" its box: name faces, e.g. on={problem.box.axes[-1]!r}, or give the problem a"
                " shape, inside=lambda x, y: …"
            )
        return problem.shape is not None and (self.on is None or named)

    def _faces(self, problem: "Problem") -> dict[str, str]:
        """The faces of the box that this is on, {axis: sides}."""
        box = problem.box
        if self.on is None:
            return box.faces(straight_axes(self.name, problem))
        if self._is_on_boundary(problem):
            rest = (
                [] if isinstance(self.on, str) else [name for name in self.on if name != BOUNDARY]
            )
            return box.faces(rest, f"{self.name}: on")
        if self.on == "t-" and "t" not in box.axes:
            raise InputError(
                f"{self.name}: there is no time axis 't' in {box!r}; say which face it is on, e.g."
                f" on={box.axes[0] + '-'!r}"
            )
        return named_faces(self.name, self.on, problem)


class Periodic(AbstractCondition):
    """The same on both faces of an axis, F and ∂F/∂x.

    Attributes:
        on: an axis or several; None: every axis but t.
        hard: exactly, through the encoding of the axis; False: as a penalty on the jumps of the
            value and of its normal derivative.
        of: F, a function of the fields by name, or the name of a field; the field itself if there
            is only one. For `hard=False` alone.
        weight: factor of the term in the loss.
        name: its name in the loss history.
    """

    on: str | Sequence[str] | None = None
    hard: bool = eqx.field(default=True, kw_only=True)
    of: Of = eqx.field(default=None, kw_only=True)
    weight: float = eqx.field(default=1.0, kw_only=True)
    name: str = eqx.field(default="periodic", kw_only=True)

    def __check_init__(self):
        _check_weight(self)
        _check_hard(self, (True, False))

    def terms(self, problem: "Problem") -> list[AbstractTerm]:
        if self.hard:
            return []
        operator = operator_of(self.name, self.of, problem)
        return [
            JumpTerm(name=self.name, weight=self.weight, axis=axis, sides=sides, operator=operator)
            for axis, sides in self.faces(problem).items()
        ]

    def built_in(self, problem: "Problem") -> BuiltIn | None:
        if not self.hard:
            return None
        axes = tuple(self.faces(problem))
        if self.of is not None:
            raise InputError(
                f"{self.name}: built in, it makes every field periodic; for one operator alone"
                " write hard=False"
            )
        return BuiltIn(periodic=axes)

    def faces(self, problem: "Problem") -> dict[str, str]:
        """The axes, each with both of its sides.

        Arguments:
            problem: of the condition; periodic axes of a shape are those it does not depend on.
        """
        box, shape = problem.box, problem.shape
        if self.on is None:
            flat = straight_axes(self.name, problem)
            if not flat:
                raise InputError(
                    f"{self.name}: the shape depends on every axis of space, so that none is"
                    " periodic: leave it out"
                )
            return box.faces(flat)
        if self.on == BOUNDARY or (not isinstance(self.on, str) and BOUNDARY in self.on):
            raise InputError(
                f"{self.name}: the boundary of a shape has no opposite side: name an axis,"
                f" on={box.axes[-1]!r}"
            )
        faces = named_faces(self.name, self.on, problem)
        if shape is not None and (cut := [axis for axis in faces if axis in shape.axes]):
            raise InputError(
                f"{self.name}: on={self.on!r}: the shape depends on {listed(cut)}, and a shape has"
                " no opposite faces: leave it out, or write inside as a function of other axes"
            )
        for axis, sides in faces.items():
            if sides != "-+":
                raise InputError(
                    f"{self.name}: periodic along {axis} needs both of its faces: write on={axis!r}"
                )
        return faces


class Data(AbstractCondition):
    """Measured values at scattered points: for inverse problems, with `unknowns`.

    Attributes:
        points: an array of shape (n, axes), a column per axis of the box.
        values: an array of shape (n,).
        of: what was measured, a function of the fields by name, or the name of a field; the field
            itself if there is only one.
        weight: factor of the term in the loss.
        name: its name in the loss history.
    """

    points: Any
    values: Any
    of: Of = None
    weight: float = eqx.field(default=1.0, kw_only=True)
    name: str = eqx.field(default="data", kw_only=True)

    def __check_init__(self):
        _check_weight(self)

    def terms(self, problem: "Problem") -> list[AbstractTerm]:
        name, operator = self.name, operator_of(self.name, self.of, problem)
        points = Points.of(problem.box, self.points, f"{name}: points")
        if not points.shape[0]:
            raise InputError(f"{name}: points is empty: give at least one")
        for axis, c in zip(points.axes, points.coordinates):
            problem.box.check_inside(axis, c, f"{name}: points")
        if problem.shape is not None:
            outside = int(np.sum(~np.asarray(problem.shape.mask(points.arrays()))))
            if outside:
                raise InputError(
                    f"{name}: points: {outside} of {points.shape[0]} points are outside the shape:"
                    " leave them out"
                )
        try:
            values = np.asarray(self.values, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"{name}: values must be numbers, got {shown(self.values)}") from None
        if not np.all(np.isfinite(values)):
            raise InputError(f"{name}: values holds numbers that are not finite")
        if values.shape != points.shape:
            raise InputError(
                f"{name}: {points.shape[0]} points but values of shape {values.shape}: give one"
                f" number per point, shape ({points.shape[0]},)"
            )
        return [
            ValueTerm(
                name=name,
                weight=self.weight,
                operator=operator,
                value=lambda c, k: values,
                fixed=points,
                is_measured=True,
            )
        ]


def Initial(
    value: Value,
    of: Of = None,
    *,
    on: str = "t-",
    weight: float = 1.0,
    hard: bool = False,
    lattice: Any = None,
    name: str = "initial",
) -> Condition:
    """A value at the start of time, u = g; of its derivative, u_t = g, with `of=lambda u: u.t`.

    Arguments:
        value: g, as in `Condition`.
        of: what it is the value of; the field itself if there is only one.
        on: the face where time starts.
        weight: factor of the term in the loss.
        hard: build a smooth value into the network, and with it the derivative.
        lattice: the coordinates of an array `value`, by axis.
        name: its name in the loss history.
    """
    return Condition(value, on, of, weight, name, hard, lattice)


def Dirichlet(
    value: Value,
    on: str | Sequence[str] | None = None,
    of: Of = None,
    *,
    weight: float = 1.0,
    hard: bool | Literal["root"] = False,
    lattice: Any = None,
    name: str = "dirichlet",
    where: Callable[..., Any] | None = None,
) -> Condition:
    """A value on faces, u = g.

    Arguments:
        value: g, as in `Condition`.
        on: the faces; None: all of space.
        of: what it is the value of; the field itself if there is only one.
        weight: factor of the term in the loss.
        hard: build the value into the network, which is exact and usually much more accurate than
            a penalty: zero, a number, or a smooth function of coordinates.
        lattice: the coordinates of an array `value`, by axis.
        name: its name in the loss history.
        where: a function of coordinates that is true on the part of the faces that is meant.
    """
    return Condition(value, on, of, weight, name, hard, lattice, where=where)


def Neumann(
    value: Value,
    on: str | Sequence[str] | None = None,
    of: Of = None,
    *,
    weight: float = 1.0,
    lattice: Any = None,
    name: str = "neumann",
    where: Callable[..., Any] | None = None,
) -> Condition:
    """The derivative along the outward normal, ∂u/∂n = g: u.x on "x+", -u.x on "x-".

    Arguments:
        value: g, as in `Condition`.
        on: the faces; None: all of space.
        of: what is differentiated; the field itself if there is only one.
        weight: factor of the term in the loss.
        lattice: the coordinates of an array `value`, by axis.
        name: its name in the loss history.
        where: a function of coordinates that is true on the part of the faces that is meant.
    """
    return Condition(value, on, of, weight, name, False, lattice, mix=(0.0, 1.0), where=where)


def Robin(
    value: Value,
    a: float,
    b: float,
    on: str | Sequence[str] | None = None,
    of: Of = None,
    *,
    weight: float = 1.0,
    lattice: Any = None,
    name: str = "robin",
    where: Callable[..., Any] | None = None,
) -> Condition:
    """a u + b ∂u/∂n = g on faces, n the outward normal.

    Arguments:
        value: g, as in `Condition`.
        a: factor of the value.
        b: factor of the derivative along the normal.
        on: the faces; None: all of space.
        of: what stands for u; the field itself if there is only one.
        weight: factor of the term in the loss.
        lattice: the coordinates of an array `value`, by axis.
        name: its name in the loss history.
        where: a function of coordinates that is true on the part of the faces that is meant.
    """
    return Condition(value, on, of, weight, name, False, lattice, mix=(a, b), where=where)


def _check_weight(condition: Condition | Periodic | Data) -> None:
    if finite(f"{condition.name}: weight", condition.weight) < 0:
        raise InputError(
            f"{condition.name}: weight must not be negative, got {shown(condition.weight)}"
        )


def _check_hard(condition: Condition | Periodic, known: tuple[Any, ...]) -> None:
    hard = condition.hard
    is_known = isinstance(hard, (bool, np.bool_)) or (isinstance(hard, str) and hard in known)
    if not is_known:
        written = 'True, False or "root"' if "root" in known else "True or False"
        raise InputError(f"{condition.name}: hard must be {written}, got {shown(hard)}")
