"""The box in which a problem is posed: an interval per axis."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..core import InputError, finite, listed, nearest, whole
from .places import Lattice

# words that mean something else where an axis is named: attributes of a field (`u.d(x=2)`, `u.value`) and options that
# stand beside coordinates (`solution.integral("x", points=64, t=ts)`)
RESERVED = (
    "self",
    "d",
    "value",
    "shape",
    "linear",
    "weights",
    "points",
    "field",
    "reference",
    "boundary",
    "units",
    "at",
)
SIDES = ("-", "+")


class Box:
    """A box with named axes: `Box(t=(0, 10), x=(-1, 1), y=(-1, 1))`.

    The order of the axes is the order in which they are written; it is the order of the dimensions of every array
    on a lattice and of the columns of scattered points. `t` is time: `Initial` acts on its lower face, and
    `Dirichlet` and `Neumann` on every face of every other axis.
    """

    def __init__(self, /, **bounds: tuple[float, float]):
        if not bounds:
            raise InputError("Box needs at least one axis: write e.g. Box(t=(0, 1), x=(-1, 1))")
        checked: dict[str, tuple[float, float]] = {}
        for name, pair in bounds.items():
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise InputError(
                    f"Box: axis name {name!r} cannot be a parameter of your functions: write e.g. {'x'!r} or {'theta'!r}"
                )
            if name in RESERVED:
                raise InputError(
                    f"Box: axis name {name!r} means something else in separax (reserved: {listed(RESERVED)}): choose another name"
                )
            if (
                isinstance(pair, (str, bytes))
                or not isinstance(pair, Iterable)
                or len(ends := tuple(pair)) != 2
            ):
                raise InputError(
                    f"Box: {name} must be a pair (lower, upper), got {pair!r}: write {name}=(0, 1)"
                )
            lower, upper = (finite(f"Box: a bound of {name}", end) for end in ends)
            if not lower < upper:
                kind = "equal" if lower == upper else "reversed"
                raise InputError(
                    f"Box: the bounds of {name} are {kind}, got {ends!r}: write the lower first, {name}=({min(lower, upper):g}, {max(lower, upper + (lower == upper)):g})"
                )
            checked[name] = (lower, upper)
        self._bounds = checked

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self._bounds)

    @property
    def space(self) -> tuple[str, ...]:
        """Every axis but time."""
        return tuple(axis for axis in self.axes if axis != "t")

    @property
    def dimension(self) -> int:
        return len(self._bounds)

    @property
    def volume(self) -> float:
        return math.prod(upper - lower for lower, upper in self._bounds.values())

    def __getitem__(self, axis: str) -> tuple[float, float]:
        return self._bounds[self.check_axis(axis, "Box")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and tuple(self._bounds.items()) == tuple(
            other._bounds.items()
        )

    def __hash__(self) -> int:
        return hash(tuple(self._bounds.items()))

    def __repr__(self) -> str:
        return f"Box({', '.join(f'{axis}=({low:g}, {high:g})' for axis, (low, high) in self._bounds.items())})"

    def _repr_html_(self) -> str:
        from ..output import of_box

        return of_box(self)

    def check_axis(self, axis: str, argument: str) -> str:
        if axis not in self._bounds:
            raise InputError(
                f"{argument}: there is no axis {axis!r} in {self!r}.{nearest(axis, self.axes)}"
            )
        return axis

    def index(self, axis: str) -> int:
        return self.axes.index(axis)

    def counts(
        self, points: int | Mapping[str, int] | Sequence[int], argument: str = "points"
    ) -> dict[str, int]:
        """Points per axis from one number for all, a mapping by axis name, or one number per axis in order."""
        if isinstance(points, Mapping):
            for axis in points:
                self.check_axis(axis, argument)
            if missing := [axis for axis in self.axes if axis not in points]:
                raise InputError(
                    f"{argument}: no number of points for {listed(missing)}: write {argument}=dict({', '.join(f'{a}=32' for a in self.axes)})"
                )
            return {axis: whole(f"{argument}[{axis!r}]", points[axis]) for axis in self.axes}
        if isinstance(points, np.ndarray) and points.ndim == 1:
            points = points.tolist()
        if isinstance(points, Sequence) and not isinstance(points, str):
            if len(points) != self.dimension:
                raise InputError(
                    f"{argument}: {len(points)} numbers for {self.dimension} axes ({listed(self.axes)}): write one per axis, or a single one for all"
                )
            return {axis: whole(f"{argument}[{axis!r}]", n) for axis, n in zip(self.axes, points)}
        return dict.fromkeys(self.axes, whole(argument, points))

    def faces(self, on: str | Sequence[str], argument: str = "on") -> dict[str, str]:
        """Faces by name as {axis: sides}: "x" is both faces of x ("-+"), "x-" the lower one, "x+" the upper one."""
        found: dict[str, str] = {}
        if not isinstance(on, (str, Sequence)):
            raise InputError(
                f"{argument} must name a face or several, got {on!r}: write e.g. {self.axes[0] + '-'!r}"
            )
        for name in [on] if isinstance(on, str) else on:
            if not isinstance(name, str):
                raise InputError(
                    f"{argument}: a face is a name, got {name!r}: write e.g. {self.axes[0] + '-'!r}"
                )
            axis, sides = (name[:-1], name[-1]) if name[-1:] in SIDES else (name, "-+")
            if axis not in self._bounds:
                known = [axis + side for axis in self.axes for side in ("", *SIDES)]
                raise InputError(
                    f"{argument}: there is no face {name!r} in {self!r}; its faces are {listed(known)}.{nearest(name, known)}"
                )
            found[axis] = "".join(side for side in SIDES if side in found.get(axis, "") + sides)
        return found

    def check_inside(self, axis: str, coordinates: Any, argument: str) -> None:
        """Refuses coordinates outside the axis (but for rounding) and those that are not numbers."""
        if isinstance(coordinates, jax.core.Tracer) or np.size(coordinates) == 0:  # pyright: ignore[reportAttributeAccessIssue]
            return
        lower, upper = self._bounds[axis]
        slack = 1e-5 * (upper - lower)
        least, most = float(np.min(coordinates)), float(np.max(coordinates))
        if not (least >= lower - slack and most <= upper + slack):
            raise InputError(
                f"{argument}: {axis} runs over ({lower:g}, {upper:g}), got values from {least:g} to {most:g}: stay inside the box"
            )

    def ends(self, axis: str, sides: str) -> tuple[float, ...]:
        lower, upper = self._bounds[axis]
        return tuple({"-": lower, "+": upper}[side] for side in sides)

    def lattice(self, points: int | Mapping[str, int] | Sequence[int]) -> Lattice:
        """A regular lattice, both ends of every axis included (the middle where an axis has one point)."""
        counts = self.counts(points)
        return Lattice(
            weights=None,
            **{
                a: np.linspace(*self._bounds[a], n)
                if (n := counts[a]) > 1
                else np.mean(self._bounds[a], keepdims=True)
                for a in self.axes
            },
        )


TIME = "t"
