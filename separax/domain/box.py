"""The box in which a problem is posed: an interval per axis."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.core import Tracer

from ..core import InputError, finite, listed, nearest, shown, whole
from .places import Lattice

# words that mean something else where an axis is named: attributes of a field (`u.d(x=2)`,
# `u.value`) and options that stand beside coordinates (`solution.integral("x", points=64, t=ts)`)
RESERVED = tuple(
    "self d value shape linear polynomial evaluate source terms is_formal known_polynomial"
    " known_values varying_terms weights points field reference boundary units at".split()
)
SIDES = ("-", "+")
TIME = "t"


class Box:
    """A box with named axes: `Box(t=(0, 10), x=(-1, 1), y=(-1, 1))`.

    The order of the axes is the order in which they are written; it is the order of the dimensions
    of every array on a lattice and of the columns of scattered points. `t` is time: `Initial` acts
    on its lower face, and `Dirichlet` and `Neumann` on every face of every other axis.

    Arguments:
        bounds: the lower and the upper bound of every axis, by its name.
    """

    def __init__(self, /, **bounds: tuple[float, float]):
        if not bounds:
            raise InputError("Box needs at least one axis: write e.g. Box(t=(0, 1), x=(-1, 1))")
        checked: dict[str, tuple[float, float]] = {}
        for name, pair in bounds.items():
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise InputError(
                    f"Box: axis name {name!r} cannot be a parameter of your functions: write e.g."
                    f" {'x'!r} or {'theta'!r}"
                )
            if name in RESERVED:
                raise InputError(
                    f"Box: axis name {name!r} means something else in separax (reserved:"
                    f" {listed(RESERVED)}): choose another name"
                )
            ends = tuple(pair) if isinstance(pair, Iterable) else ()
            if isinstance(pair, (str, bytes)) or len(ends) != 2:
                raise InputError(
                    f"Box: {name} must be a pair (lower, upper), got {shown(pair)}: write"
                    f" {name}=(0, 1)"
                )
            lower, upper = (finite(f"Box: a bound of {name}", end) for end in ends)
            if not lower < upper:
                kind, right = "reversed", (upper, lower)
                if lower == upper:
                    kind, right = "equal", (lower, lower + 1)
                raise InputError(
                    f"Box: the bounds of {name} are {kind}, got {shown(ends)}: write the lower"
                    f" first, {name}=({right[0]:g}, {right[1]:g})"
                )
            checked[name] = (lower, upper)
        self._bounds = checked

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(self._bounds)

    @property
    def space(self) -> tuple[str, ...]:
        """Every axis but time."""
        return tuple(axis for axis in self.axes if axis != TIME)

    @property
    def dimension(self) -> int:
        """The number of axes."""
        return len(self._bounds)

    @property
    def volume(self) -> float:
        """The product of the lengths of all axes."""
        return math.prod(upper - lower for lower, upper in self._bounds.values())

    def __getitem__(self, axis: str) -> tuple[float, float]:
        return self._bounds[self.check_axis(axis, "Box")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return tuple(self._bounds.items())  # the order of the axes counts

    def __repr__(self) -> str:
        each = (f"{axis}=({low:g}, {high:g})" for axis, (low, high) in self._bounds.items())
        return f"Box({', '.join(each)})"

    def _repr_html_(self) -> str:
        from ..output import of_box

        return of_box(self)

    def check_axis(self, axis: str, argument: str) -> str:
        """Refuses an axis that the box does not have.

        Arguments:
            axis: its name.
            argument: what it is called in refusals.

        Returns:
            The name.
        """
        if axis not in self._bounds:
            raise InputError(
                f"{argument}: there is no axis {axis!r} in {self!r}.{nearest(axis, self.axes)}"
            )
        return axis

    def index(self, axis: str) -> int:
        """The place of an axis among all of them.

        Arguments:
            axis: its name.
        """
        return self.axes.index(axis)

    def counts(
        self, points: int | Mapping[str, int] | Sequence[int], argument: str = "points"
    ) -> dict[str, int]:
        """The number of points along each axis.

        Arguments:
            points: one number for all, numbers by axis name, or one per axis in order.
            argument: what it is called in refusals.

        Returns:
            Numbers by axis.
        """
        if isinstance(points, Mapping):
            for axis in points:
                self.check_axis(axis, argument)
            if missing := [axis for axis in self.axes if axis not in points]:
                raise InputError(
                    f"{argument}: no number of points for {listed(missing)}: write"
                    f" {argument}=dict({', '.join(f'{a}=32' for a in self.axes)})"
                )
            return {axis: whole(f"{argument}[{axis!r}]", points[axis]) for axis in self.axes}
        if isinstance(points, np.ndarray) and points.ndim == 1:
            points = points.tolist()
        if isinstance(points, Sequence) and not isinstance(points, str):
            if len(points) != self.dimension:
                raise InputError(
                    f"{argument}: {len(points)} numbers for {self.dimension} axes"
                    f" ({listed(self.axes)}): write one per axis, or a single one for all"
                )
            return {axis: whole(f"{argument}[{axis!r}]", n) for axis, n in zip(self.axes, points)}
        return dict.fromkeys(self.axes, whole(argument, points))

    def faces(self, on: str | Sequence[str], argument: str = "on") -> dict[str, str]:
        """The faces that a name or several stand for.

        Arguments:
            on: "x" for both faces of x, "x-" for the lower, "x+" for the upper one.
            argument: what it is called in refusals.

        Returns:
            The sides by axis: {"x": "-+"}.
        """
        found: dict[str, str] = {}
        names = [on] if isinstance(on, str) else on
        if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
            raise InputError(
                f"{argument} must name a face or several, got {shown(on)}: write e.g."
                f" {self.axes[0] + '-'!r}"
            )
        for each in names:
            name = self._face_at(each, argument)
            axis, sides = (name[:-1], name[-1]) if name[-1:] in SIDES else (name, "-+")
            if axis not in self._bounds:
                known = [axis + side for axis in self.axes for side in ("", *SIDES)]
                raise InputError(
                    f"{argument}: there is no face {name!r} in {self!r}; its faces are"
                    f" {listed(known)}.{nearest(name, known)}"
                )
            found[axis] = "".join(side for side in SIDES if side in found.get(axis, "") + sides)
        return found

    def _face_at(self, name: str, argument: str) -> str:
        """A face that is given by where it is: "x=0" is "x-" where x begins at 0."""
        axis, equals, place = (part.strip() for part in name.partition("="))
        if not equals or axis not in self._bounds:
            return name
        lower, upper = self._bounds[axis]
        try:
            at = float(place)
        except ValueError:
            at = math.nan
        for side, end in zip(SIDES, (lower, upper)):
            if math.isclose(at, end, abs_tol=1e-9 * (upper - lower)):
                return axis + side
        raise InputError(
            f"{argument}: {name!r} is no end of {axis}, which runs over ({lower:g}, {upper:g}):"
            f" write {axis + '-'!r} for {axis} = {lower:g}, {axis + '+'!r} for {axis} = {upper:g}."
            " Values inside are measurements, sx.Data(points, values)"
        )

    def check_inside(self, axis: str, coordinates: Any, argument: str) -> None:
        """Refuses coordinates that lie outside an axis, but for rounding, or are no numbers.

        Arguments:
            axis: the name of the axis.
            coordinates: an array.
            argument: what they are called in refusals.
        """
        if isinstance(coordinates, Tracer) or np.size(coordinates) == 0:
            return
        lower, upper = self._bounds[axis]
        slack = 1e-5 * (upper - lower)
        least, most = float(np.min(coordinates)), float(np.max(coordinates))
        if not (least >= lower - slack and most <= upper + slack):
            raise InputError(
                f"{argument}: {axis} runs over ({lower:g}, {upper:g}), got values from {least:g} to"
                f" {most:g}: stay inside the box"
            )

    def ends(self, axis: str, sides: str) -> tuple[float, ...]:
        """The coordinates of faces of an axis.

        Arguments:
            axis: its name.
            sides: "-", "+" or "-+".
        """
        lower, upper = self._bounds[axis]
        return tuple({"-": lower, "+": upper}[side] for side in sides)

    def lattice(self, points: int | Mapping[str, int] | Sequence[int]) -> Lattice:
        """A regular lattice with both ends of every axis.

        Arguments:
            points: one number for all axes, numbers by axis name, or one per axis in order. A
                single point is in the middle.
        """
        counts = self.counts(points)
        each = {
            axis: np.linspace(*ends, counts[axis])
            if counts[axis] > 1
            else np.array([np.mean(ends)])
            for axis, ends in self._bounds.items()
        }
        return Lattice(weights=None, **each)
