"""B-splines along an axis: polynomials in cells that meet smoothly, less smoothly where that is
asked for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.polynomial import legendre

from ..elements import derivatives_at


@dataclass(frozen=True, eq=False)
class Splines:
    """The functions of one axis, in every cell polynomials of one degree.

    Attributes:
        edges: of the cells.
        repeats: by edge how often it is a knot; a function has `degree - repeats` continuous
            derivatives there. At the ends of an axis that is not periodic it counts nothing.
        degree: of the polynomials.
        periodic: whether the last cell meets the first.
    """

    edges: np.ndarray
    repeats: np.ndarray
    degree: int
    periodic: bool = False

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.edges) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """The lengths of the cells."""
        return np.diff(self.edges)

    @cached_property
    def knots(self) -> np.ndarray:
        """All knots, with those beyond the ends."""
        p, (first, *_, last) = self.degree, self.edges
        if not self.periodic:
            inner = np.repeat(self.edges[1:-1], self.repeats[1:-1])
            return np.r_[[first] * (p + 1), inner, [last] * (p + 1)]
        round_once = np.repeat(self.edges[:-1], self.repeats[:-1])
        first_of = int(self.repeats[0])
        before, after = round_once[-p - 1 + first_of :], round_once[: p + 1]
        return np.r_[before - (last - first), round_once, after + (last - first)]

    @property
    def number(self) -> int:
        """The number of functions."""
        if self.periodic:
            return int(self.repeats[:-1].sum())
        return self.degree + 1 + int(self.repeats[1:-1].sum())

    @cached_property
    def _local(self) -> tuple[np.ndarray, np.ndarray]:
        p = self.degree
        unit = np.cos(np.pi * (np.arange(p + 1) + 0.5) / (p + 1))
        x = (self.edges[:-1, None] + self.lengths[:, None] * (unit + 1) / 2).ravel()
        found = scipy.interpolate.BSpline.design_matrix(x, self.knots, p)
        values = found.data.reshape(self.cells, p + 1, p + 1)
        first = found.indices.reshape(self.cells, p + 1, p + 1)[:, 0, 0]
        pieces = np.linalg.solve(legendre.legvander(unit, p), values)
        return pieces, (first[:, None] + np.arange(p + 1)) % self.number

    @property
    def pieces(self) -> np.ndarray:
        """Every cell's functions as Legendre series: (cells, polynomials, functions of a cell)."""
        return self._local[0]

    @property
    def functions(self) -> np.ndarray:
        """The numbers of the functions of every cell, (cells, degree + 1)."""
        return self._local[1]

    def in_cells(self, unit: np.ndarray, order: int) -> np.ndarray:
        """The derivative of this order at the same points of [-1, 1] in every cell.

        Returns: (cells, points, functions of a cell).
        """
        found = derivatives_at(unit, self.degree + 1, order) @ self.pieces
        return found * (2 / self.lengths[:, None, None]) ** order

    def cell_of(self, x: np.ndarray) -> np.ndarray:
        """The cell that each point is in."""
        return np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, self.cells - 1)

    def at(self, x: np.ndarray, order: int, cell: np.ndarray | None = None) -> np.ndarray:
        """The derivative of this order at points: (points, functions of the point's cell)."""
        cell = self.cell_of(x) if cell is None else cell
        unit = 2 * (x - self.edges[cell]) / self.lengths[cell] - 1
        found = derivatives_at(unit, self.degree + 1, order)
        found = np.einsum("nb,nbf->nf", found, self.pieces[cell])
        return found * (2 / self.lengths[cell, None]) ** order

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """The values of all functions at points, (points, functions)."""
        found = np.zeros((len(x), self.number))
        rows = np.arange(len(x))[:, None]
        np.add.at(found, (rows, self.functions[self.cell_of(x)]), self.at(x, 0))
        return found

    @cached_property
    def averages(self) -> np.ndarray:
        """By function a point at which it is large: the mean of its inner knots (Greville's)."""
        p = self.degree
        each = [self.knots[i + 1 : i + 1 + p].mean() for i in range(self.number)]
        return np.array(each)

    def refined(self, counts: Sequence[int] | np.ndarray) -> Splines:
        """With every cell cut into so many equal ones; what these functions are, the others are,
        too."""
        edges = [self.edges[:1]]
        repeats = [self.repeats[:1]]
        for a, b, repeat, n in zip(self.edges[:-1], self.edges[1:], self.repeats[1:], counts):
            edges.append(np.r_[np.linspace(a, b, n + 1)[1:-1], b])
            repeats.append(np.r_[np.ones(n - 1, int), repeat])
        return Splines(np.concatenate(edges), np.concatenate(repeats), self.degree, self.periodic)

    def from_coarser(self, coarse: Splines) -> np.ndarray:
        """The matrix from coefficients of coarser splines to those of the same function."""
        x = self.averages
        if self.periodic:
            first, last = self.edges[0], self.edges[-1]
            x = first + (x - first) % (last - first)
        return np.linalg.solve(self.matrix(x), coarse.matrix(x))

    def as_pieces(self) -> np.ndarray:
        """All functions as Legendre series: (cells, polynomials, functions)."""
        found = np.zeros((self.cells, self.degree + 1, self.number))
        rows = np.arange(self.cells)[:, None]
        for b in range(self.degree + 1):
            np.add.at(found[:, b], (rows, self.functions), self.pieces[:, b])
        return found


def splines_between(
    bounds: tuple[float, float],
    cells: int,
    degree: int,
    marks: Mapping[float, int] | None = None,
    periodic: bool = False,
) -> Splines:
    """Splines in about equal cells, with an edge at each mark.

    Arguments:
        bounds: of the axis.
        cells: how many, at least.
        degree: of the polynomials.
        marks: places that are to be edges, and how often each is a knot.
        periodic: whether the axis is.
    """
    first, last = bounds
    repeated = {first: 1, last: 1} | {m: r for m, r in (marks or {}).items() if first < m < last}
    inside = sorted(repeated)[1:-1]
    ends = np.array([first, *inside, last])
    edges, repeats = [np.array([first])], [np.ones(1, int)]
    for a, b in itertools.pairwise(ends):
        n = max(1, round(cells * (b - a) / (last - first)))
        edges.append(np.r_[np.linspace(a, b, n + 1)[1:-1], b])
        repeats.append(np.r_[np.ones(n - 1, int), repeated[b]])
    return Splines(np.concatenate(edges), np.concatenate(repeats), degree, periodic)
