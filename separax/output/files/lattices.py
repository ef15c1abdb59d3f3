"""Where a solution is wanted, and its values there piece by piece, so that a lattice larger than memory can be written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import InputError, listed, nearest, tuning
from ...domain import Lattice
from ...solution import Selected, Solution

MOST = 2**21  # points of a lattice that nobody described
PER_AXIS = 256  # and along each of its axes


@dataclass(frozen=True)
class Grid:
    """A lattice, and what is wanted on it."""

    view: Solution
    coordinates: dict[str, np.ndarray]  # by axis, in the order of the box
    held: tuple[str, ...]  # axes at one number, which are no dimension of the result
    fields: tuple[str, ...]
    units: Mapping[str, str]

    @property
    def axes(self) -> tuple[str, ...]:
        """Those that are dimensions of the result."""
        return tuple(axis for axis in self.coordinates if axis not in self.held)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.coordinates[axis]) for axis in self.axes)

    @property
    def dtype(self) -> np.dtype:
        return self.view.dtype

    @property
    def title(self) -> str:
        return self.view.problem.name

    def values(self, **changed: np.ndarray) -> dict[str, np.ndarray]:
        """By field, on the lattice or on another part of it."""
        coordinates = self.coordinates | changed
        found = self.view.values(Lattice(weights=None, **coordinates))
        gone = tuple(i for i, axis in enumerate(coordinates) if axis in self.held)
        return {
            name: np.squeeze(np.asarray(found[key]), gone)
            for name, key in zip(self.fields, self.view.names)
        }

    def blocks(
        self, order: Sequence[str] | None = None
    ) -> Iterator[tuple[tuple[slice, ...], dict[str, np.ndarray]]]:
        """The values in pieces, one after the other as they lie in an array whose dimensions are in the given `order`; each with
        its place in that array."""
        order = tuple(self.axes if order is None else order)
        back = [self.axes.index(axis) for axis in order]
        lengths = [len(self.coordinates[axis]) for axis in order]
        for place in pieces(lengths, tuning.POINTS_AT_ONCE[self.view.is_separable]):
            part = self.values(
                **{axis: self.coordinates[axis][cut] for axis, cut in zip(order, place)}
            )
            yield place, {name: np.transpose(values, back) for name, values in part.items()}

    def only(self, field: str) -> Grid:
        """The same for one field, which is then all that is computed."""
        if len(self.fields) == 1:
            return self
        key = self.view.names[self.fields.index(field)]
        alone = self.view.of_operator(Selected(self.view.operator, (key,)))
        return Grid(alone, self.coordinates, self.held, (field,), self.units)

    def unit(self, name: str) -> dict[str, str]:
        return {"units": self.units[name]} if name in self.units else {}


def pieces(lengths: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """An array cut into pieces of at most `most` elements that follow each other in memory."""
    if not lengths:
        yield ()
        return
    rest = math.prod(lengths[1:])
    rows = most // max(1, rest)
    if rows:
        for start in range(0, lengths[0], rows):
            yield (slice(start, min(start + rows, lengths[0])), *(slice(0, n) for n in lengths[1:]))
        return
    for start in range(lengths[0]):
        for inner in pieces(lengths[1:], most):
            yield (slice(start, start + 1), *inner)


def grid(
    view: Solution,
    coordinates: Mapping[str, Any],
    points: int | Mapping[str, int] | None = None,
    field: str | None = None,
    units: Mapping[str, str] | None = None,
) -> Grid:
    """A lattice from coordinates by axis; an axis that is not given has `points` of them."""
    box = view.problem.box
    fields = tuple(name or "value" for name in view.names)
    for name in [field] if field is not None else []:
        if name not in fields:
            left_out = getattr(view.problem, "left_out", ())
            why = (
                " (it is no formula that is computed point by point, and so was not kept with the run)"
                if name in left_out
                else ""
            )
            raise InputError(
                f"field: there is no {name!r}{why}; there are {listed(fields)}.{nearest(name, fields)}"
            )
    for name in units or {}:
        if name not in (*fields, *box.axes):
            raise InputError(
                f"units: {name!r} is neither a field nor an axis; there are {listed((*fields, *box.axes))}.{nearest(name, (*fields, *box.axes))}"
            )
    number = (
        points if points is not None else min(PER_AXIS, int(MOST ** (1 / box.dimension) + 1e-9))
    )
    regular = box.lattice(number)
    given = {axis: np.asarray(regular[axis]) for axis in box.axes} | {
        k: np.asarray(v) for k, v in coordinates.items()
    }
    lattice, dropped = view.lattice((), given)
    found = {axis: np.asarray(c, np.float64) for axis, c in zip(lattice.axes, lattice.coordinates)}
    whole = Grid(view, found, tuple(box.axes[i] for i in dropped), fields, dict(units or {}))
    return whole if field is None else whole.only(field)
