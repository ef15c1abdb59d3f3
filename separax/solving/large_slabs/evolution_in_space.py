"""Problems that evolve in two or more axes of space, as a march in large slabs wants them: what
begins, what holds on the faces, the residual as a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core import options_for_few_runs
from ...domain import TIME, Lattice, Points, flatten
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
from .grids import FieldAxis, Grid, field_axis

SIZES = (2**11, 2**15)  # points of a compiled program

Values = Callable[..., Any]  # of coordinates by name


@dataclass(frozen=True)
class FaceCondition:
    """a u + b ∂u/∂n = g on one face, for one field.

    Attributes:
        side: a and b.
        value: g; None: zero.
    """

    side: tuple[float, float]
    value: Values | None


@dataclass(frozen=True)
class Start:
    """What is known at the start: Σ c ∂ᵃu = g.

    Attributes:
        terms: the coefficients c by derivative.
        value: g, or an array of it.
        lattice: by axis the coordinates of an array; None: `value` is a function.
    """

    terms: dict[Key, float]
    value: Any
    lattice: dict[str, np.ndarray] | None


@dataclass(frozen=True, eq=False)
class SpaceEvolution:
    """A problem that evolves in several axes of space.

    Attributes:
        problem: it.
        space: the axes besides time.
        keys: the derivatives in its residuals.
        times: by field, the order of its highest derivative in time.
        starts: what is known at the start.
        faces: the conditions on faces, by field, axis and end.
        periodic: by axis of space, whether it is periodic.
    """

    problem: Problem
    space: tuple[str, ...]
    keys: tuple[Key, ...]
    times: tuple[int, ...]
    starts: tuple[Start, ...]
    faces: dict[tuple[int, str, int], FaceCondition]
    periodic: tuple[bool, ...]

    @property
    def fields(self) -> int:
        """How many there are."""
        return len(self.times)

    def orders(self, key: Key) -> tuple[int, tuple[int, ...]]:
        """The orders of a derivative, in time and along the axes of space."""
        by_axis = dict(zip(self.problem.box.axes, key[1]))
        return by_axis[TIME], tuple(by_axis[a] for a in self.space)

    def field_axes(self, grids: Sequence[Grid]) -> list[list[FieldAxis]]:
        """By field and axis, what differentiates; those that are alike are shared."""

        def one(c: int, axis: str, grid: Grid) -> FieldAxis:
            first, last = (self.faces.get((c, axis, end)) for end in range(2))
            return field_axis(grid, (first and first.side, last and last.side))

        return [[one(c, a, g) for a, g in zip(self.space, grids)] for c in range(self.fields)]

    # --- numbers -------------------------------------------------------------------------------

    def coordinates(self, t: Any, each: Sequence[Any]) -> dict[str, Any]:
        """By name."""
        found = {TIME: t, **dict(zip(self.space, each))}
        return {a: found[a] for a in self.problem.box.axes}

    @cached_property
    def inside(self) -> Linearised:
        """The residuals at points."""
        return Linearised(residuals_of(self.problem, self.keys), SIZES)

    def values(self, function: Values, times: np.ndarray, each: Sequence[np.ndarray]) -> np.ndarray:
        """A function of coordinates at these instants, on the lattice of these coordinates of
        space."""
        lattice = np.meshgrid(times, *each, indexing="ij")
        shape, number = lattice[0].shape, lattice[0].size
        # a program serves numbers of points up to the next power of two
        wide = max(SIZES[0], 2 ** int(np.ceil(np.log2(number))))
        flat = [np.pad(a.ravel(), (0, wide - number), "edge") for a in lattice]
        if function not in self._programs:
            self._programs[function] = jax.jit(
                lambda t, *x: function(self.coordinates(t, x)),
                compiler_options=options_for_few_runs(),
            )
        found = self._programs[function](*flat)
        return np.broadcast_to(np.asarray(found, float), (wide,))[:number].reshape(shape)

    @cached_property
    def _programs(self) -> dict[Values, Callable[..., Any]]:
        return {}


# --- from a problem ---------------------------------------------------------------------------


def evolution_in_space(problem: Problem) -> SpaceEvolution | None:
    """A problem as an evolution in several axes of space; None where it is none, or has conditions
    on faces that are not a u + b ∂u/∂n = g for one field."""
    box = problem.box
    if (
        TIME not in box.axes
        or TIME in problem.periodic
        or not 2 <= len(box.space) <= 3
        or problem.unknowns
        or problem.shape is not None
        or len(problem.residuals) != len(problem.fields)
    ):
        return None
    keys = tuple(sorted(problem.derivatives))
    number = range(len(problem.fields))
    first = box.axes.index(TIME)
    times = tuple(max((o[first] for k, o in keys if k == c), default=0) for c in number)
    starts: list[Start] = []
    faces: dict[tuple[int, str, int], FaceCondition] = {}
    same: set[tuple[int, str]] = set()
    for term in problem.terms:
        terms = _formal(problem, term)
        if terms is None or term.axis is None:
            return None
        if isinstance(term, JumpTerm):
            if len(terms) != 1:
                return None
            ((c, orders),) = terms
            if sum(orders) == 0:
                same.add((c, term.axis))
        elif not isinstance(term, ValueTerm) or term.where is not None:
            return None
        elif term.axis == TIME:
            if (start := _start(problem, term, terms)) is None:
                return None
            starts.append(start)
        elif (found := _face(problem, term, terms)) is None:
            return None
        else:
            for key, condition in found.items():
                if key in faces:
                    return None
                faces[key] = condition
    for given in problem.given:
        value: Any = given.value
        if given.is_root or (given.axis, given.side) == (TIME, "+"):
            return None
        if given.axis == TIME:
            orders = tuple(given.order if a == TIME else 0 for a in box.axes)
            starts.append(Start({(given.component, orders): 1.0}, value or _nothing, None))
        else:
            end = "-+".index(given.side)
            side = (1.0, 0.0) if given.order == 0 else (0.0, 2.0 * end - 1.0)
            key = (given.component, given.axis, end)
            if key in faces:
                return None
            faces[key] = FaceCondition(side, value)
            if value is not None and side[1]:
                faces[key] = FaceCondition(side, _scaled(value, side[1]))
    periodic = tuple(
        a in problem.periodic or all((c, a) in same for c in number) for a in box.space
    )
    found = SpaceEvolution(problem, box.space, keys, times, tuple(starts), faces, periodic)
    return found if _is_whole(found) else None


def _is_whole(of: SpaceEvolution) -> bool:
    """Whether there are as many starts as derivatives in time, and enough conditions on faces."""
    if max(of.times) == 0 or not of.starts:
        return False
    plain = {key for s in of.starts if len(s.terms) == 1 for key in s.terms}
    first = of.problem.box.axes.index(TIME)
    for c, time_order in enumerate(of.times):
        for k in range(time_order):
            orders = tuple(k if i == first else 0 for i in range(len(of.problem.box.axes)))
            if (c, orders) not in plain and not all(of.periodic):
                return False
        for axis, periodic, i in zip(of.space, of.periodic, range(len(of.space))):
            order = max((of.orders(key)[1][i] for key in of.keys if key[0] == c), default=0)
            given = sum((c, axis, end) in of.faces for end in range(2))
            if periodic:
                if given:
                    return False
            elif order > 2 or (time_order and order > given):
                return False
    return True


def _nothing(coordinates: Mapping[str, Any]) -> Any:
    return 0.0


def _scaled(value: Values, factor: float) -> Values:
    return lambda coordinates: factor * value(coordinates)


def _formal(problem: Problem, term: Any) -> dict[Key, float] | None:
    """The plain combination of derivatives that a term is about; None if it is something else."""
    if not isinstance(term, (ValueTerm, JumpTerm)):
        return None
    found = problem.trace(lambda at: term.operator(at.fields, at.coordinates, at.unknowns)).result
    if not isinstance(found, Field) or not found.linear:
        return None
    if not found.is_formal and not (isinstance(term, ValueTerm) and term.axis == TIME):
        return None
    plain = all(isinstance(c, float) for c in found.terms.values())
    return dict(found.terms) if plain else None


def _start(problem: Problem, term: ValueTerm, terms: dict[Key, float]) -> Start | None:
    if (term.value_factor, term.normal_factor) != (1.0, 0.0) or term.sides != "-":
        return None

    def known(coordinates: Any) -> Any:
        """What the fields have to do with nothing, of an operator like 1 + u."""
        place = Points(problem.box.axes, tuple(jnp.ravel(c) for c in coordinates.values()))
        nothing = TabulatedValues(place, {key: jnp.zeros(place.shape) for key in terms})
        at = AtPlace(problem, place, nothing, Inputs({}, {}))
        return term.operator(at.fields, at.coordinates, {}).evaluate()  # pyright: ignore

    if term.fixed is None:
        return Start(terms, lambda c: term.value(c, {}) - known(c), None)
    if not isinstance(term.fixed, Lattice):
        return None
    lattice = {a: np.asarray(term.fixed[a]) for a in problem.box.space}
    value = np.broadcast_to(np.asarray(term.value(term.fixed.arrays(), {})), term.fixed.shape)
    more = np.asarray(known(flatten(term.fixed).arrays())).reshape(term.fixed.shape)
    at_start = problem.box.axes.index(TIME)
    return Start(terms, np.take(value - more, 0, at_start), lattice)


def _face(
    problem: Problem, term: ValueTerm, terms: dict[Key, float]
) -> dict[tuple[int, str, int], FaceCondition] | None:
    if term.fixed is not None or len(terms) != 1 or term.axis is None:
        return None
    (((c, orders), factor),) = terms.items()
    at = problem.box.axes.index(term.axis)
    if sum(orders) != orders[at] or orders[at] > 1 or (orders[at] and term.normal_factor):
        return None
    found = {}
    for sign in term.sides:
        end = "-+".index(sign)
        pair = (term.value_factor * factor, term.normal_factor * factor)
        if orders[at]:
            pair = (0.0, (2.0 * end - 1.0) * pair[0])
        found[c, term.axis, end] = FaceCondition(pair, lambda each: term.value(each, {}))
    return found
