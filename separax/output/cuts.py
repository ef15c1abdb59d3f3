"""Where to cut a solution so that it can be looked at: one or two axes are shown, the others held."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import InputError, in_float64, listed, nearest, shown
from ..domain import TIME

if TYPE_CHECKING:
    from ..domain import Box
    from ..equations import Problem
    from ..solution import Solution

MOST_PICTURES = 12
STRIP = 3  # a plane this many times longer than wide, or more, is not drawn to scale: nothing would be seen of it
Kept = Mapping[
    str, np.ndarray
]  # a reference's pictures by `Picture.key`, where the reference itself is gone


@dataclass(frozen=True)
class Cut:
    """The axes shown, and the values of the others, once for every picture."""

    shown: tuple[str, ...]
    held: list[dict[str, float]]


@dataclass(frozen=True)
class Picture:
    """A field on the shown axes, and the reference there, where it is known."""

    field: str  # "" where it has no name: an operator applied to a field
    held: dict[str, float]
    axes: dict[str, np.ndarray]  # coordinates of the shown axes
    values: np.ndarray
    reference: np.ndarray | None = None

    @property
    def difference(self) -> np.ndarray | None:
        return None if self.reference is None else self.values - self.reference

    @property
    def where(self) -> str:
        return ", ".join(f"{axis} = {value:.3g}" for axis, value in self.held.items())

    @property
    def proportion(self) -> float | None:
        """Height over width, where the axes shown are a plane of space, which is drawn to scale."""
        width, height = (float(c[-1] - c[0]) for c in self.axes.values())
        return (
            height / width if TIME not in self.axes and 1 / STRIP < height / width < STRIP else None
        )

    @property
    def key(self) -> str:
        """What this picture is of."""
        return "|".join(
            [
                self.field,
                *(f"{a}={v:.9g}" for a, v in self.held.items()),
                *(f"{a}:{len(c)}" for a, c in self.axes.items()),
            ]
        )


def part(box: Box, axis: str, fraction: float) -> float:
    low, high = box[axis]
    return low + fraction * (high - low)


def shown_axes(box: Box, held: Iterable[str] = ()) -> tuple[str, ...]:
    """Two axes to look at among those that are not held: the last two of space, or time and space."""
    free = [a for a in box.axes if a not in set(held)]
    space = [a for a in free if a in box.space]
    return tuple(space[-2:]) if len(space) >= 2 else tuple(free[-2:])


def default_held(box: Box, shown: Sequence[str]) -> Cut:
    """Time at its start, middle and end, or the first hidden axis at three places; the rest at one. Places in space are
    uneven parts of an axis, since even ones are often where a manufactured solution is zero."""
    hidden = [a for a in box.axes if a not in shown]
    if not hidden:
        return Cut(tuple(shown), [{}])
    moved = "t" if "t" in hidden else hidden[0]
    rest = {a: part(box, a, 0.82) for a in hidden}
    fractions = (0.0, 0.5, 1.0) if moved == "t" else (0.17, 0.45, 0.82)
    return Cut(tuple(shown), [rest | {moved: part(box, moved, f)} for f in fractions])


def chosen(box: Box, x: Any, y: Any, at: Mapping[str, Any] | None, held: Mapping[str, Any]) -> Cut:
    """A cut from what a person wrote: `x="x", y="y", t=0.5`. A word after x or y names the axis to show there; numbers hold
    the axis of that name, and several numbers make several pictures."""
    values = dict(at or {}) | dict(held)
    names: dict[str, str] = {}
    for role, given in {"x": x, "y": y}.items():
        if isinstance(given, str):
            names[role] = box.check_axis(given, f"plot: {role}")
        elif given is not None:
            values[role] = given
    if "y" in names and "x" not in names:
        raise InputError(
            f"plot: y={names['y']!r} names the upward axis alone: name the other too, x={_other(box, names['y'])!r}"
        )
    if len(set(names.values())) < len(names):
        raise InputError(
            f"plot: {names['x']!r} is shown twice: write x and y differently, y={_other(box, names['x'])!r}"
        )
    for axis in values:
        box.check_axis(axis, "plot")
        if axis in names.values():
            raise InputError(
                f"plot: {axis} is shown and held at {values[axis]!r}: leave one of the two out"
            )
    shown = tuple(names.values()) or shown_axes(box, values)
    if not shown:
        raise InputError(
            f"plot: every axis is held: leave one of {listed(box.axes)} free, or call the solution itself"
        )
    if not values and not names:
        return default_held(box, shown)
    return Cut(shown, _combined(box, shown, {a: _numbers(box, a, v) for a, v in values.items()}))


def _other(box: Box, axis: str) -> str:
    return next((a for a in box.axes if a != axis), axis)


def _numbers(box: Box, axis: str, given: Any) -> list[float]:
    several = (
        given if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    )
    found = list(np.ravel(np.asarray(list(several), dtype=object)))
    if not found or not all(
        isinstance(v, numbers.Real) or (np.ndim(v) == 0 and hasattr(v, "dtype")) for v in found
    ):
        raise InputError(
            f"plot: {axis} must be a number or several, got {shown(given)}: write {axis}={part(box, axis, 0.5):g}"
        )
    for value in found:
        box.check_inside(axis, float(value), "plot")
    return [float(v) for v in found]


def _combined(
    box: Box, shown: Sequence[str], values: Mapping[str, Sequence[float]]
) -> list[dict[str, float]]:
    several = [a for a, v in values.items() if len(v) > 1]
    if len(several) > 1:
        raise InputError(
            f"plot: several values of both {several[0]} and {several[1]}: give several of one axis only"
        )
    number = max((len(v) for v in values.values()), default=1)
    if number > MOST_PICTURES:
        raise InputError(
            f"plot: {number} values of {several[0]}: at most {MOST_PICTURES} fit in a figure; see solution.animate"
        )
    hidden = [a for a in box.axes if a not in shown]
    start = {a: part(box, a, 0.0 if a == "t" else 0.82) for a in hidden}
    return [start | {a: v[min(i, len(v) - 1)] for a, v in values.items()} for i in range(number)]


# --- pictures ---------------------------------------------------------------------------------------------------------


def field_name(view: Solution, field: str | None) -> str:
    """The field to look at: the one asked for, or the first whose truth is known."""
    names = outputs(view)
    if field is None:
        reference = view.problem.reference
        known = reference if isinstance(reference, Mapping) else names
        return next((name for name in names if name in known), names[0])
    if field not in names:
        raise InputError(
            f"plot: there is no field {field!r}; the fields are {listed(names)}.{nearest(field, names)}"
        )
    return field


def outputs(view: Solution) -> tuple[str, ...]:
    """What a solution, or an operator applied to one, gives by name; the only thing an operator gives has none."""
    return view.names


def values_on(view: Solution, field: str, coordinates: Mapping[str, Any]) -> np.ndarray:
    found = view(**coordinates)
    return np.asarray(found[field] if isinstance(found, dict) else found)


def has_reference(view: Solution, field: str) -> bool:
    """Whether the truth about a field is known. What is derived from a solution has none."""
    from ..solution import Outputs

    reference = view.problem.reference
    if not isinstance(view.operator, Outputs) or reference is None:
        return False
    return not isinstance(reference, Mapping) or field in reference


def reference_on(view: Solution, field: str, coordinates: Mapping[str, Any]) -> np.ndarray | None:
    from ..solution import reference_on as values

    lattice, dropped = view.lattice((), coordinates)
    with in_float64():
        # where the solution is evaluated, to the last digit, but in double precision: the difference is the solution's error
        place = jax.tree.map(lambda c: jnp.asarray(c, view.dtype).astype(jnp.float64), lattice)
        found = values(view.problem, None, place)
        return np.squeeze(np.asarray(found[field]), dropped) if field in found else None


def pictures(
    view: Solution,
    field: str,
    cut: Cut,
    points: int,
    reference: bool = True,
    kept: Kept | None = None,
) -> list[Picture]:
    """The field on every cut, with the reference's where it is known or was kept."""
    known = reference and has_reference(view, field)
    axes = {a: np.linspace(*view.problem.box[a], points) for a in cut.shown}
    found = []
    for held in cut.held:
        picture = Picture(
            field,
            held,
            axes,
            _upright(view.problem, cut.shown, values_on(view, field, {**held, **axes})),
        )
        true = (kept or {}).get(picture.key) if reference else None
        if known:
            true = reference_on(view, field, {**held, **axes})
            true = None if true is None else _upright(view.problem, cut.shown, true)
        found.append(Picture(field, held, axes, picture.values, true))
    return found


def _upright(problem: Problem, shown: Sequence[str], values: np.ndarray) -> np.ndarray:
    """The first shown axis first, whatever the order of the box."""
    order = sorted(shown, key=problem.box.axes.index)
    return values if len(shown) < 2 or order == list(shown) else values.T


def limits(found: Sequence[np.ndarray]) -> tuple[float, float]:
    """One colour scale for several pictures; nothing is known outside a shape."""
    values = [v[np.isfinite(v)] for v in found]
    low = min((float(v.min()) for v in values if v.size), default=0.0)
    high = max((float(v.max()) for v in values if v.size), default=0.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def largest(found: Sequence[np.ndarray]) -> float:
    """The scale of differences: symmetric, so that zero is in the middle."""
    return (
        max((float(np.nanmax(np.abs(v))) for v in found if np.isfinite(v).any()), default=0.0)
        or 1.0
    )
