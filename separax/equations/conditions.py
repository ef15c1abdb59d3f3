"""Conditions: what holds on the faces of a box, and at scattered points in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core import InputError, finite
from ..domain import Lattice
from .field import Field

Value = Any  # a number, a function of coordinates by name, or an array on a lattice


@dataclass(frozen=True, eq=False)
class Condition:
    """`of` the fields equals `value` on the faces `on`: `Condition(0, on="x-", of=lambda u: u.x)`.

    Arguments:
        value: a number, a function of coordinates by name, or an array. An array lies on `lattice`, or, without one, on
            the regular grid of the face (both ends included; one dimension per other axis, in the box's order).
        on: a face or several: "x" both faces of x, "x-" the lower, "x+" the upper one. None: every face of every axis
            but t.
        of: a function of the fields (and coordinates) by name, or the name of a field; the field itself if there is only one.
        weight: factor of this term in the loss.
        name: its name in the loss history.
        hard: build the condition into the network exactly instead of penalising it: periodicity; a field's value on faces, a number or
            a smooth function; and its slope along the normal of a face whose value is built in, too. "root" for zero values that a
            field leaves like the root of the distance: where diffusion fades with the field, u_t = ∇·(u ∇u).
        lattice: the coordinates of an array `value`, by axis.
        mix: (a, b): the condition is a·F + b·∂F/∂n with the outward normal n, F being `of`.
        jump: compare the two faces of an axis with each other instead of with a value.
        points: scattered points, of shape (n, axes), instead of faces.
        where: a function of coordinates by name that is true on the part of the faces, or of a shape's boundary, that is meant.
    """

    value: Value = 0.0
    on: str | Sequence[str] | None = None
    of: Callable[..., Field] | str | None = None
    weight: float = 1.0
    name: str = "condition"
    hard: bool | Literal["root"] = False
    lattice: Lattice | Mapping[str, Any] | None = None
    mix: tuple[float, float] = (1.0, 0.0)
    jump: bool = False
    points: Any = None
    where: Callable[..., Any] | None = None

    def __post_init__(self):
        if finite(f"{self.name}: weight", self.weight) < 0:
            raise InputError(f"{self.name}: weight must not be negative, got {self.weight!r}")
        if not isinstance(self.hard, (bool, np.bool_)) and self.hard != "root":
            raise InputError(f'{self.name}: hard must be True, False or "root", got {self.hard!r}')
        for number in self.mix:
            finite(f"{self.name}: a coefficient", number)
        if self.where is not None and (self.hard or self.jump or self.points is not None):
            what = "built in" if self.hard else "periodic" if self.jump else "of scattered points"
            raise InputError(
                f"{self.name}: where is for a part of faces, and this condition is {what}: leave one of the two out"
            )


def Initial(
    value: Value,
    of: Callable[..., Field] | str | None = None,
    *,
    on: str = "t-",
    weight: float = 1.0,
    hard: bool = False,
    lattice: Any = None,
    name: str = "initial",
) -> Condition:
    """A value at the start of time; of its derivative with `of=lambda u: u.t`. `hard=True` builds a smooth value into the network,
    and with it the derivative."""
    return Condition(value, on, of, weight, name, hard, lattice)


def Dirichlet(
    value: Value,
    on: str | Sequence[str] | None = None,
    of: Callable[..., Field] | str | None = None,
    *,
    weight: float = 1.0,
    hard: bool | Literal["root"] = False,
    lattice: Any = None,
    name: str = "dirichlet",
    where: Callable[..., Any] | None = None,
) -> Condition:
    """A value on faces (all of space unless `on` says), or on the part of them `where` a function is true. `hard=True` builds it into the network, which is exact and usually much
    more accurate than a penalty: zero, a number, or a smooth function of coordinates."""
    return Condition(value, on, of, weight, name, hard, lattice, where=where)


def Neumann(
    value: Value,
    on: str | Sequence[str] | None = None,
    of: Callable[..., Field] | str | None = None,
    *,
    weight: float = 1.0,
    lattice: Any = None,
    name: str = "neumann",
    where: Callable[..., Any] | None = None,
) -> Condition:
    """The derivative along the outward normal on faces: u.x on "x+", -u.x on "x-"."""
    return Condition(value, on, of, weight, name, False, lattice, mix=(0.0, 1.0), where=where)


def Robin(
    value: Value,
    a: float,
    b: float,
    on: str | Sequence[str] | None = None,
    of: Callable[..., Field] | str | None = None,
    *,
    weight: float = 1.0,
    lattice: Any = None,
    name: str = "robin",
    where: Callable[..., Any] | None = None,
) -> Condition:
    """a·u + b·∂u/∂n = value on faces, n the outward normal."""
    return Condition(value, on, of, weight, name, False, lattice, mix=(a, b), where=where)


def Periodic(
    on: str | Sequence[str] | None = None,
    *,
    hard: bool = True,
    of: Callable[..., Field] | str | None = None,
    weight: float = 1.0,
    name: str = "periodic",
) -> Condition:
    """The same on both faces of an axis: exactly, through the encoding of the axis, or (`hard=False`) as a penalty on the
    jumps of the value and of its normal derivative."""
    return Condition(0.0, on, of, weight, name, hard, jump=True)


def Data(
    points: Any,
    values: Any,
    of: Callable[..., Field] | str | None = None,
    *,
    weight: float = 1.0,
    name: str = "data",
) -> Condition:
    """Measured values at scattered points, shapes (n, axes) and (n,): for inverse problems, with `unknowns`."""
    return Condition(values, None, of, weight, name, points=points)
