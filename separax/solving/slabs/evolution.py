"""Problems that evolve, in t alone or in t and one more axis, as a march in slabs of time wants
them: what begins, what holds at the ends of the other axis, the residual as a function of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...domain import TIME, Points
from ...equations import (
    AtPlace,
    Field,
    Inputs,
    JumpTerm,
    Problem,
    TabulatedValues,
    ValueTerm,
)
from ...separable import Key
from ..programs import Linearised, residuals_of

SIZES = tuple(2**k for k in range(6, 18))  # points of a compiled program
FACE = 32  # instants of a compiled program for the ends
SIDES = "-+"

Values = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class EndCondition:
    """What holds at one end of the axis besides time.

    Attributes:
        sides: the ends, "-", "+" or both.
        keys: the derivatives that it is made of.
        residual: from the place, the table of derivatives there, to what is left.
    """

    sides: str
    keys: tuple[Key, ...]
    residual: Callable[[Points, dict[Key, Any]], Any]


@dataclass(frozen=True, eq=False)
class Evolution:
    """A problem that evolves.

    Attributes:
        problem: it.
        axis: the axis besides time; None where there is none.
        keys: the derivatives in its residuals.
        times: by field, the order of its highest derivative in time.
        orders: by field, that of its highest derivative along the axis.
        starts: by field and order in time, the values at the start, a function of the axis.
        ends: the conditions at the ends of the axis; none where it is periodic.
        periodic: whether it is.
    """

    problem: Problem
    axis: str | None
    keys: tuple[Key, ...]
    times: tuple[int, ...]
    orders: tuple[int, ...]
    starts: dict[tuple[int, int], Values]
    ends: tuple[EndCondition, ...]
    periodic: bool

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the axis; those of an element where there is none."""
        return (-1.0, 1.0) if self.axis is None else self.problem.box[self.axis]

    def order_of(self, key: Key) -> tuple[int, int]:
        """The orders of a derivative, in time and along the axis."""
        by_axis = dict(zip(self.problem.box.axes, key[1]))
        return by_axis[TIME], 0 if self.axis is None else by_axis[self.axis]

    def points(self, t: Any, x: Any) -> Points:
        """Scattered points."""
        each = {TIME: t} if self.axis is None else {TIME: t, self.axis: x}
        return Points(self.problem.box.axes, tuple(each[a] for a in self.problem.box.axes))

    # --- residuals and what they change with ---------------------------------------------------

    def linearised(
        self, table: np.ndarray, t: np.ndarray, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The residuals at points, and how they change with every derivative.

        Arguments:
            table: the derivatives in `keys`, (keys, points).
            t, x: the points.

        Returns: (residuals, points) and (residuals, keys, points).
        """
        coordinates: Any = self.points(t, x).coordinates
        return self.inside(table, *coordinates)

    @cached_property
    def inside(self) -> Linearised:
        """The residuals at points."""
        return Linearised(residuals_of(self.problem, self.keys), SIZES)

    @property
    def compiling(self) -> float:
        """The seconds that were spent compiling."""
        return self.inside.seconds + self.at_ends.seconds

    @property
    def end_keys(self) -> tuple[Key, ...]:
        """The derivatives in the conditions at the ends."""
        return tuple(sorted({key for end in self.ends for key in end.keys}))

    def linearised_ends(self, table: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for the conditions at the ends.

        Arguments:
            table: the derivatives in `end_keys` at both ends, (keys, 2, instants).
            t: the instants.

        Returns: (conditions, instants) and (conditions, keys, 2, instants).
        """
        return self.at_ends(table, t)

    @cached_property
    def at_ends(self) -> Linearised:
        """The conditions at the ends."""

        def residuals(table: Any, t: Any) -> Any:
            rows = []
            for end in self.ends:
                at = [SIDES.index(side) for side in end.sides]
                place = self.points(
                    jnp.concatenate([t] * len(at)),
                    jnp.concatenate([jnp.full_like(t, self.bounds[i]) for i in at]),
                )
                known = {
                    key: jnp.concatenate([table[self.end_keys.index(key), i] for i in at])
                    for key in end.keys
                }
                left = jnp.broadcast_to(end.residual(place, known), place.shape)
                rows += jnp.split(left, len(at))
            return jnp.stack(rows)

        return Linearised(residuals, (FACE,))

    def start(self, field: int, order: int, x: np.ndarray) -> np.ndarray:
        """The values that a field begins with, or its derivatives in time."""
        flat = x.ravel()
        wide = 2 ** int(np.ceil(np.log2(max(SIZES[0], flat.size))))
        found = self.starts[field, order](np.pad(flat, (0, wide - flat.size), "edge"))
        return np.broadcast_to(found, (wide,))[: flat.size].reshape(x.shape)


# --- from a problem --------------------------------------------------------------------------


def evolution_of(problem: Problem) -> Evolution | None:
    """A problem as an evolution; None where it is none: no start that is given whole, another
    number of conditions at the ends than derivatives, measurements, unknowns, a shape, more axes.
    """
    space = problem.box.space
    if (
        TIME not in problem.box.axes
        or TIME in problem.periodic
        or len(space) > 1
        or problem.unknowns
        or problem.shape is not None
        or len(problem.residuals) != len(problem.fields)
    ):
        return None
    axis = space[0] if space else None
    keys = tuple(sorted(problem.derivatives))
    number = range(len(problem.fields))
    at = {a: i for i, a in enumerate(problem.box.axes)}

    def highest(along: str | None) -> tuple[int, ...]:
        found = [[o[at[along]] for k, o in keys if k == c] if along else [] for c in number]
        return tuple(max(each, default=0) for each in found)

    times, orders = highest(TIME), highest(axis)
    starts, ends, same = {}, [], set()
    for term in problem.terms:
        if isinstance(term, JumpTerm) and term.axis == axis:
            same |= {_plain_field(problem, term, TIME)}
        elif not isinstance(term, ValueTerm) or term.axis is None or term.where is not None:
            return None
        elif term.axis != TIME and term.fixed is None:
            ends.append(_end_of_term(problem, term))
        elif (found := _start_of(problem, term)) is None:
            return None
        else:
            starts[found[0]] = found[1]
    for given in problem.given:
        if given.is_root or (given.axis, given.side) == (TIME, "+"):
            return None
        if given.axis == TIME:
            starts[given.component, given.order] = _known(problem, given.value)
        else:
            ends.append(_end_of_given(problem, given))
    periodic = axis is not None and (axis in problem.periodic or same == set(number))
    asked = {(c, k) for c in number for k in range(times[c])}
    count = sum(len(end.sides) for end in ends)
    # a node has the derivatives of each field below its highest
    beyond = any(o[at[axis or TIME]] >= orders[c] for end in ends for c, o in end.keys)
    if set(starts) != asked or not asked or beyond or count != (0 if periodic else sum(orders)):
        return None
    if periodic and max(orders) == 0:
        return None
    return Evolution(problem, axis, keys, times, orders, starts, tuple(ends), periodic)


def _plain_field(problem: Problem, term: ValueTerm | JumpTerm, along: str) -> Any:
    """The number of the field that a term is about, and with its derivative in time the order."""
    found = problem.trace(lambda at: term.operator(at.fields, at.coordinates, at.unknowns)).result
    if not isinstance(found, Field) or not found.is_formal or len(found.terms) != 1:
        return None
    ((component, orders), coefficient), *_ = found.terms.items()
    time = orders[problem.box.axes.index(TIME)]
    if sum(orders) != time or not isinstance(coefficient, float):
        return None
    return component if isinstance(term, JumpTerm) else (component, time, coefficient)


def _start_of(problem: Problem, term: ValueTerm) -> tuple[tuple[int, int], Values] | None:
    plain = _plain_field(problem, term, TIME)
    other = (term.value_factor, term.normal_factor) != (1.0, 0.0) or term.fixed is not None
    if plain is None or other or term.axis != TIME or term.sides != "-":
        return None
    component, order, coefficient = plain
    return (component, order), _known(problem, lambda c: term.value(c, {}) / coefficient)


def _known(problem: Problem, value: Callable[..., Any] | None) -> Values:
    first = problem.box[TIME][0]

    def at(x: np.ndarray) -> np.ndarray:
        if value is None:
            return np.zeros_like(x)
        each = dict.fromkeys(problem.box.axes, jnp.asarray(x)) | {TIME: jnp.full(x.shape, first)}
        return np.asarray(value(each))

    return at


def _end_of_term(problem: Problem, term: ValueTerm) -> EndCondition:
    def residual(place: Points, table: dict[Key, Any]) -> Any:
        (part,) = term.parts(AtPlace(problem, place, TabulatedValues(place, table), Inputs({}, {})))
        return part.values

    return EndCondition(term.sides, tuple(sorted(term.derivatives)), residual)


def _end_of_given(problem: Problem, given: Any) -> EndCondition:
    orders = tuple(given.order if a == given.axis else 0 for a in problem.box.axes)
    key = (given.component, orders)

    def residual(place: Points, table: dict[Key, Any]) -> Any:
        return table[key] - (0.0 if given.value is None else given.value(place.arrays()))

    return EndCondition(given.side, (key,), residual)
