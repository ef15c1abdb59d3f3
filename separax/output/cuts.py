"""Where to cut a solution so that it can be looked at: one or two axes are shown, the others
held."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import InputError, in_float64, listed, nearest, shown
from ..domain import TIME, Box
from ..solution import Outputs, Solution
from ..solution import reference_on as reference_values

MOST_PICTURES = 12
STRIP = 3  # a plane this many times longer than wide is not drawn to scale: nothing would be seen
Kept = Mapping[str, np.ndarray]  # a reference by `Picture.key`, where its function is gone


@dataclass(frozen=True)
class Cut:
    """The axes shown, and the values of the others, once for every picture."""

    shown: tuple[str, ...]
    held: list[dict[str, float]]


@dataclass(frozen=True)
class Picture:
    """A field on the shown axes, and the reference there, where it is known.

    Attributes:
        field: its name; "" where it has none, as an operator applied to a field.
        held: the values of the axes that are not shown.
        axes: the coordinates of those that are.
        values, reference: with a dimension for each axis shown, in their order.
    """

    field: str
    held: dict[str, float]
    axes: dict[str, np.ndarray]
    values: np.ndarray
    reference: np.ndarray | None = None

    @property
    def difference(self) -> np.ndarray | None:
        """The solution less the reference."""
        return None if self.reference is None else self.values - self.reference

    @property
    def where(self) -> str:
        """The held axes in words."""
        return ", ".join(f"{axis} = {value:.3g}" for axis, value in self.held.items())

    @property
    def proportion(self) -> float | None:
        """Height over width, where the axes shown are a plane of space, which is drawn to scale."""
        width, height = (float(c[-1] - c[0]) for c in self.axes.values())
        ratio = height / width
        return ratio if TIME not in self.axes and 1 / STRIP < ratio < STRIP else None

    @property
    def key(self) -> str:
        """What this picture is of."""
        held = [f"{a}={v:.9g}" for a, v in self.held.items()]
        return "|".join([self.field, *held, *(f"{a}:{len(c)}" for a, c in self.axes.items())])


def part(box: Box, axis: str, fraction: float) -> float:
    """The coordinate at a fraction of an axis."""
    low, high = box[axis]
    return low + fraction * (high - low)


def shown_axes(box: Box, held: Iterable[str] = ()) -> tuple[str, ...]:
    """Two axes to look at among those that are not held: the last two of space, or time and
    space."""
    free = [a for a in box.axes if a not in set(held)]
    space = [a for a in free if a in box.space]
    return tuple(space[-2:]) if len(space) >= 2 else tuple(free[-2:])


def default_held(box: Box, shown: Sequence[str]) -> Cut:
    """Time at its start, middle and end, or the first hidden axis at three places; the rest at one.

    Places in space are uneven parts of an axis, since even ones are often where a manufactured
    solution is zero.
    """
    hidden = [a for a in box.axes if a not in shown]
    if not hidden:
        return Cut(tuple(shown), [{}])
    moved = TIME if TIME in hidden else hidden[0]
    rest = {a: part(box, a, 0.82) for a in hidden}
    fractions = (0.0, 0.5, 1.0) if moved == TIME else (0.17, 0.45, 0.82)
    return Cut(tuple(shown), [rest | {moved: part(box, moved, f)} for f in fractions])


def chosen(box: Box, x: Any, y: Any, at: Mapping[str, Any] | None, held: Mapping[str, Any]) -> Cut:
    """A cut from what a person wrote: `x="x", y="y", t=0.5`. A word after x or y names the axis to
    show there; numbers hold the axis of that name, and several numbers make several pictures."""
    values = dict(at or {}) | dict(held)
    names: dict[str, str] = {}
    for role, given in {"x": x, "y": y}.items():
        if isinstance(given, str):
            names[role] = box.check_axis(given, f"plot: {role}")
        elif given is not None:
            values[role] = given
    if "y" in names and "x" not in names:
        raise InputError(
            f"plot: y={names['y']!r} names the upward axis alone: name the other too,"
            f" x={_other(box, names['y'])!r}"
        )
    if len(set(names.values())) < len(names):
        raise InputError(
            f"plot: {names['x']!r} is shown twice: write x and y differently,"
            f" y={_other(box, names['x'])!r}"
        )
    for axis in values:
        box.check_axis(axis, "plot")
        if axis in names.values():
            raise InputError(
                f"plot: {axis} is shown and held at {values[axis]!r}: leave one of the two out"
            )
    axes = tuple(names.values()) or shown_axes(box, values)
    if not axes:
        raise InputError(
            f"plot: every axis is held: leave one of {listed(box.axes)} free, or call the solution"
            " itself"
        )
    if not values and not names:
        return default_held(box, axes)
    return Cut(axes, _combined(box, axes, {a: _numbers(box, a, v) for a, v in values.items()}))


def _other(box: Box, axis: str) -> str:
    return next((a for a in box.axes if a != axis), axis)


def _numbers(box: Box, axis: str, given: Any) -> list[float]:
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    found = np.ravel(np.asarray(list(given) if several else [given], dtype=object))
    real = [isinstance(v, numbers.Real) or (np.ndim(v) == 0 and hasattr(v, "dtype")) for v in found]
    if not real or not all(real):
        raise InputError(
            f"plot: {axis} must be a number or several, got {shown(given)}: write"
            f" {axis}={part(box, axis, 0.5):g}"
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
            f"plot: several values of both {several[0]} and {several[1]}: give several of one axis"
            " only"
        )
    number = max((len(v) for v in values.values()), default=1)
    if number > MOST_PICTURES:
        raise InputError(
            f"plot: {number} values of {several[0]}: at most {MOST_PICTURES} fit in a figure; see"
            " solution.animate"
        )
    hidden = [a for a in box.axes if a not in shown]
    start = {a: part(box, a, 0.0 if a == TIME else 0.82) for a in hidden}
    return [start | {a: v[min(i, len(v) - 1)] for a, v in values.items()} for i in range(number)]


# --- pictures -----------------------------------------------------------------------------------


def field_name(view: Solution, field: str | None) -> str:
    """The field to look at: the one asked for, or the first whose reference is known."""
    if field is None:
        reference = view.problem.reference
        known = reference if isinstance(reference, Mapping) else view.names
        return next((name for name in view.names if name in known), view.names[0])
    if field not in view.names:
        raise InputError(
            f"plot: there is no field {field!r}; the fields are"
            f" {listed(view.names)}.{nearest(field, view.names)}"
        )
    return field


def has_reference(view: Solution, field: str) -> bool:
    """Whether the reference of a field is known. What is derived from a solution has none."""
    reference = view.problem.reference
    if not isinstance(view.operator, Outputs) or reference is None:
        return False
    return not isinstance(reference, Mapping) or field in reference


def values_on(
    view: Solution, field: str, coordinates: Mapping[str, Any], order: Sequence[str]
) -> np.ndarray:
    """The values of a field on a lattice.

    Arguments:
        view: a solution, or an operator of one.
        field: its name.
        coordinates: arrays by axis; numbers where an axis is held.
        order: the axes that are dimensions of the result.
    """
    found = view(**coordinates)
    return _turned(view, np.asarray(found[field] if isinstance(found, dict) else found), order)


def _reference_on(
    view: Solution, field: str, coordinates: Mapping[str, Any], order: Sequence[str]
) -> np.ndarray | None:
    lattice, dropped = view.lattice((), coordinates)
    with in_float64():
        # where the solution is evaluated, to the last digit, but in double precision: the
        # difference is the solution's error
        place = jax.tree.map(lambda c: jnp.asarray(c, view.dtype).astype(jnp.float64), lattice)
        found = reference_values(view.problem, None, place)
        if field not in found:
            return None
        return _turned(view, np.squeeze(np.asarray(found[field]), dropped), order)


def _turned(view: Solution, values: np.ndarray, order: Sequence[str]) -> np.ndarray:
    """Values whose dimensions are in the order of the box, in another order."""
    as_they_are = sorted(order, key=view.problem.box.index)
    return np.transpose(values, [as_they_are.index(axis) for axis in order])


def pictures(
    view: Solution,
    field: str,
    cut: Cut,
    points: int,
    reference: bool = True,
    kept: Kept | None = None,
) -> list[Picture]:
    """A field on every cut.

    Arguments:
        view: a solution, or an operator of one.
        field: its name.
        cut: the axes shown, and the values of the others.
        points: along each axis shown.
        reference: whether the reference is wanted, where it is known.
        kept: where else it may be known from.
    """
    known = reference and has_reference(view, field)
    axes = {a: np.linspace(*view.problem.box[a], points) for a in cut.shown}
    found = []
    for held in cut.held:
        where = {**held, **axes}
        picture = Picture(field, held, axes, values_on(view, field, where, cut.shown))
        true = (kept or {}).get(picture.key) if reference else None
        if known:
            true = _reference_on(view, field, where, cut.shown)
        if true is not None:  # outside of a shape it says nothing, either
            true = np.where(np.isfinite(picture.values), true, np.nan)
        found.append(dataclasses.replace(picture, reference=true))
    return found


def limits(found: Sequence[np.ndarray]) -> tuple[float, float]:
    """One colour scale for several pictures; nothing is known outside a shape."""
    values = [v[np.isfinite(v)] for v in found]
    low = min((float(v.min()) for v in values if v.size), default=0.0)
    high = max((float(v.max()) for v in values if v.size), default=0.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def largest(found: Sequence[np.ndarray]) -> float:
    """The scale of differences: symmetric, so that zero is in the middle."""
    finite = [np.abs(v[np.isfinite(v)]) for v in found]
    return max((float(v.max()) for v in finite if v.size), default=0.0) or 1.0
