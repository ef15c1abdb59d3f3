"""Where a solution is wanted, and its values there piece by piece, so that a lattice larger than
memory can be written."""

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
    """A lattice, and what is wanted on it.

    Attributes:
        view: a solution, or an operator of one.
        coordinates: by axis, in the order of the box.
        held: the axes at one number, which are no dimension of the result.
        fields: the names of what is wanted.
        units: of fields and axes.
    """

    view: Solution
    coordinates: dict[str, np.ndarray]
    held: tuple[str, ...]
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
        """The values in pieces, one after the other as they lie in an array whose dimensions are in
        the given `order`; each with its place in that array."""
        order = tuple(self.axes if order is None else order)
        back = [self.axes.index(axis) for axis in order]
        lengths = [len(self.coordinates[axis]) for axis in order]
        for place in pieces(lengths, tuning.POINTS_AT_ONCE[self.view.is_separable]):
            part = self.values(**{a: self.coordinates[a][cut] for a, cut in zip(order, place)})
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
    if field is not None and field not in fields:
        why = ""
        if field in getattr(view.problem, "left_out", ()):
            why = " (it is not computed point by point, and so was not kept with the run)"
        raise InputError(
            f"field: there is no {field!r}{why}; there are"
            f" {listed(fields)}.{nearest(field, fields)}"
        )
    known = (*fields, *box.axes)
    for name in units or {}:
        if name not in known:
            raise InputError(
                f"units: {name!r} is neither a field nor an axis; there are"
                f" {listed(known)}.{nearest(name, known)}"
            )
    usual = min(PER_AXIS, int(MOST ** (1 / box.dimension) + 1e-9))
    regular = box.lattice(usual if points is None else points)
    given = dict(zip(regular.axes, regular.coordinates)) | dict(coordinates)
    lattice, dropped = view.lattice((), {k: np.asarray(v) for k, v in given.items()})
    found = {axis: np.asarray(c, np.float64) for axis, c in zip(lattice.axes, lattice.coordinates)}
    whole = Grid(view, found, tuple(box.axes[i] for i in dropped), fields, dict(units or {}))
    return whole if field is None else whole.only(field)
