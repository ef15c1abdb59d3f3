"""Least squares for splines: residuals at Gauss's points of the cells, conditions at points of the
boundary, and the banded normal equations of both.

What is made small is, over all cells and all places of conditions,

    Σ w (residual)² + Σ W (condition)²,

where a condition weighs as much as a residual that the same change of one cell would leave: for a
second derivative and a given value that is W ~ w / h³.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.polynomial import legendre

from ...separable import Key
from .functions import Splines
from .steady import MANY, Steady, SteadyCondition, places_of

CONDITION = 20.0  # how much more conditions weigh than what a residual would leave
RIDGE = 1e-14  # of the scaled normal equations: for functions that hardly reach into the domain
FELT = 1e-5  # of the largest change in a row: a function that no row feels more is left out
REFINEMENTS = 12
DONE = 1e-15
BALANCE = 1e6  # between equations, at most


@dataclass(frozen=True, eq=False)
class SplineSpace:
    """Products of splines: by field and axis the splines, which share their edges.

    Attributes:
        axes: by field and axis.
    """

    axes: tuple[tuple[Splines, ...], ...]

    @property
    def grid(self) -> tuple[Splines, ...]:
        """The splines of the first field: their edges are those of all."""
        return self.axes[0]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """By field the number of functions of every axis."""
        return [tuple(s.number for s in own) for own in self.axes]

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where the coefficients of every field begin, and their number."""
        return np.r_[0, np.cumsum([int(np.prod(shape)) for shape in self.shapes])]

    @property
    def number(self) -> int:
        """The number of coefficients."""
        return int(self.offsets[-1])

    @cached_property
    def order(self) -> np.ndarray:
        """The coefficients, so that those of neighbours stand close together."""
        most = np.argsort([-s.number for s in self.grid], kind="stable")
        keys = []
        for field, own in enumerate(self.axes):
            at = np.meshgrid(*(s.averages for s in own), indexing="ij")
            each = [at[a].ravel() for a in most]
            keys.append(np.stack([*each, np.full(each[0].size, float(field))]))
        return np.lexsort(np.concatenate(keys, 1)[::-1])

    def functions(self, field: int, cells: np.ndarray) -> np.ndarray:
        """The coefficients of a field that count in cells, (cells, functions of a cell)."""
        found = np.zeros((len(cells), 1), int)
        for a, s in enumerate(self.axes[field]):
            own = s.functions[cells[:, a]]
            found = (found[:, :, None] * s.number + own[:, None, :]).reshape(len(cells), -1)
        return found + self.offsets[field]

    def split(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """Coefficients by field and axis."""
        each = np.split(coefficients, self.offsets[1:-1])
        return [c.reshape(shape) for c, shape in zip(each, self.shapes)]

    def from_coarser(self, coarse: SplineSpace, coefficients: np.ndarray) -> np.ndarray:
        """The coefficients of the same functions of a coarser space."""
        found = []
        for own, other, c in zip(self.axes, coarse.axes, coarse.split(coefficients)):
            for a, (fine, before) in enumerate(zip(own, other)):
                c = np.moveaxis(np.tensordot(fine.from_coarser(before), c, (1, a)), 0, a)
            found.append(c.ravel())
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of the least squares: by cell, or by point of a condition.

    Attributes:
        functions: the coefficients that they depend on, (cells, functions).
        matrix: how they change with those, (cells, rows, functions).
        left: what is left, (cells, rows).
    """

    functions: np.ndarray
    matrix: np.ndarray
    left: np.ndarray


@dataclass(frozen=True, eq=False)
class Group:
    """Points in cells, as many in each.

    Attributes:
        cells: the number of each cell by axis, (cells, axes).
        points: by axis, (cells, points).
        weights: of each in the least squares, (cells, points).
        bases: by field, axis and order the functions at them: (cells, points along it, functions).
    """

    cells: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    bases: dict[tuple[int, int, int], np.ndarray]

    def part(self, which: slice) -> Group:
        """Some of the cells."""
        bases = {key: basis[which] for key, basis in self.bases.items()}
        return Group(self.cells[which], self.points[:, which], self.weights[which], bases)

    def products(self, key: Key) -> np.ndarray:
        """A derivative of the functions of every cell, (cells, points, functions)."""
        field, orders = key

        def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            shape = (len(a), a.shape[1] * b.shape[1], a.shape[2] * b.shape[2])
            return (a[:, :, None, :, None] * b[:, None, :, None, :]).reshape(shape)

        return functools.reduce(product, (self.bases[field, a, o] for a, o in enumerate(orders)))


class SplineSystem:
    """The least-squares problem of one resolution.

    Arguments:
        steady: the problem.
        space: the functions.
        corners: points (n, axes) near which residuals count less, the closer the less: there the
            solution has derivatives that are not square-integrable.
        points: along each axis of a cell.
    """

    def __init__(
        self,
        steady: Steady,
        space: SplineSpace,
        corners: np.ndarray | None = None,
        points: int = 3,
        power: float = 1.0,
    ):
        self.steady, self.space, self.power = steady, space, power
        self.corners = np.zeros((0, len(space.grid))) if corners is None else corners
        self.unit, self.rule = legendre.leggauss(points)

    # --- where ---------------------------------------------------------------------------------

    @cached_property
    def inside(self) -> Group:
        """Gauss's points of the cells; those outside a shape have no weight, and cells that are
        outside as a whole are left out."""
        grid, box = self.space.grid, self.steady.problem.box
        cells = np.stack(
            [g.ravel() for g in np.meshgrid(*(np.arange(s.cells) for s in grid), indexing="ij")], 1
        )
        slowest = np.argsort([s.number for s in grid], kind="stable")
        cells = cells[np.lexsort([cells[:, a] for a in slowest])]
        at = [s.edges[:-1, None] + s.lengths[:, None] * (self.unit + 1) / 2 for s in grid]
        share = [s.lengths[:, None] * self.rule / 2 for s in grid]
        points, weights = self._lattices(at, cells), self._lattices(share, cells).prod(0)
        shape = self.steady.problem.shape
        if shape is not None:
            own = np.stack([points[box.index(a)].ravel() for a in shape.axes], 1)
            here = shape.contains(own).reshape(weights.shape)
            kept = here.any(1)
            cells, points, weights = cells[kept], points[:, kept], np.where(here, weights, 0)[kept]
        bases = {}
        for f, own in enumerate(self.space.axes):
            for a, s in enumerate(own):
                for o in {0, *(orders[a] for k, orders in self.steady.keys if k == f)}:
                    bases[f, a, o] = s.in_cells(self.unit, o)[cells[:, a]]
        return Group(cells, points, np.sqrt(weights) * self._damping(points), bases)

    @cached_property
    def areas(self) -> np.ndarray:
        """What each point inside stands for, (cells, points)."""
        return (self.inside.weights / self._damping(self.inside.points)) ** 2

    @staticmethod
    def _lattices(each: Sequence[np.ndarray], cells: np.ndarray) -> np.ndarray:
        number = len(each)
        found = []
        for a, own in enumerate(each):
            shape = [len(cells)] + [own.shape[1] if b == a else 1 for b in range(number)]
            full = [len(cells)] + [e.shape[1] for e in each]
            found.append(np.broadcast_to(own[cells[:, a]].reshape(shape), full))
        return np.stack(found).reshape(number, len(cells), -1)

    def _damping(self, points: np.ndarray) -> np.ndarray:
        """What residuals count near corners: the distance to the closest, of the size of the box,
        to some power."""
        if not len(self.corners):
            return np.ones(points.shape[1:])
        size = max(s.edges[-1] - s.edges[0] for s in self.space.grid)
        apart = [
            np.sqrt(sum((x - c) ** 2 for x, c in zip(points, corner))) for corner in self.corners
        ]
        return np.minimum(1.0, np.min(apart, axis=0) / (0.25 * size)) ** self.power

    @cached_property
    def at_conditions(self) -> list[tuple[SteadyCondition, Group, np.ndarray]]:
        """By condition its points, each as a cell of its own, and the normals there."""
        grid, problem = self.space.grid, self.steady.problem
        number = self.space.grid[0].degree + 1 if len(grid) < 3 else len(self.unit)
        unit, rule = legendre.leggauss(number)
        lines = [
            (
                (s.edges[:-1, None] + s.lengths[:, None] * (unit + 1) / 2).ravel(),
                (s.lengths[:, None] * rule / 2).ravel(),
            )
            for s in grid
        ]
        nodes = [
            np.r_[(s.edges[:-1, None] + s.lengths[:, None] * np.arange(4) / 4).ravel(), s.edges[-1]]
            for s in grid
        ]
        found = []
        for condition in self.steady.conditions:
            points, normals, area = places_of(condition, problem, lines, nodes)
            cells = np.stack([s.cell_of(points[:, a]) for a, s in enumerate(grid)], 1)
            order = np.argsort(cells[:, np.argmax([s.number for s in grid])], kind="stable")
            points, normals, area, cells = (x[order] for x in (points, normals, area, cells))
            h = np.stack([s.lengths[cells[:, a]] for a, s in enumerate(grid)], 1)
            across = 1 / np.maximum(np.sum(np.abs(normals) / h, 1), 1e-300)
            weights = np.where(area > 0, area * across, np.prod(h, 1))
            keys = {*self.steady.keys, *condition.keys}
            bases = {}
            for f, own in enumerate(self.space.axes):
                for a, s in enumerate(own):
                    for o in {0, *(orders[a] for k, orders in keys if k == f)}:
                        bases[f, a, o] = s.at(points[:, a], o, cells[:, a])[:, None]
            weights = np.sqrt(CONDITION * weights) * self._damping(points.T)
            found.append(
                (condition, Group(cells, points.T[:, :, None], weights[:, None], bases), normals)
            )
        return found

    def values(self, coefficients: np.ndarray, field: int) -> np.ndarray:
        """A field at the points inside, (cells, points)."""
        group, found = self.inside, []
        step = max(1, MANY // group.weights.shape[1])
        for first in range(0, len(group.cells), step):
            part = group.part(slice(first, first + step))
            own = self.space.functions(field, part.cells)
            products = part.products((field, (0,) * len(self.space.grid)))
            found.append((products @ coefficients[own][..., None])[..., 0])
        return np.concatenate(found)

    # --- rows ----------------------------------------------------------------------------------

    def rows(self, coefficients: np.ndarray, share: float = 1.0) -> list[Rows]:
        """All rows at these coefficients.

        Arguments:
            coefficients: of all fields.
            share: of what is not linear.
        """
        return [*self._rows_inside(coefficients, share), *self._rows_at(coefficients, share)]

    def _functions(self, group: Group) -> list[np.ndarray]:
        return [self.space.functions(f, group.cells) for f in range(len(self.space.axes))]

    @staticmethod
    def _table(
        keys: Sequence[Key],
        products: dict[Key, np.ndarray],
        own: Sequence[np.ndarray],
        coefficients: np.ndarray,
    ) -> np.ndarray:
        return np.stack([(products[k] @ coefficients[own[k[0]]][..., None])[..., 0] for k in keys])

    def _sizes(self, keys: Sequence[Key], cells: np.ndarray) -> np.ndarray:
        """By derivative and cell, how large it is for a change of size one in the cell."""
        h = [s.lengths[cells[:, a]] for a, s in enumerate(self.space.grid)]
        return np.stack(
            [np.prod([x ** -float(o) for x, o in zip(h, orders)], axis=0) for _, orders in keys]
        )

    def _rows_inside(self, coefficients: np.ndarray, share: float) -> Iterator[Rows]:
        steady, keys = self.steady, self.steady.keys
        step = max(1, MANY // self.inside.weights.shape[1])
        for first in range(0, len(self.inside.cells), step):
            group = self.inside.part(slice(first, first + step))
            own = self._functions(group)
            products = {key: group.products(key) for key in keys}
            table = self._table(keys, products, own, coefficients)
            shape = table.shape[1:]
            points = group.points.reshape(len(group.points), -1)
            left, slopes = steady.inside(table.reshape(len(keys), -1), *points, share=share)
            left = left.reshape(-1, *shape)
            slopes = slopes.reshape(*slopes.shape[:2], *shape)
            size = self._sizes(keys, group.cells)
            each = np.einsum("rkcq,kc->rc", np.abs(slopes), size)
            scale = _balance(each)[..., None] * group.weights
            yield self._made(keys, products, own, slopes, left, scale)

    def _rows_at(self, coefficients: np.ndarray, share: float) -> Iterator[Rows]:
        steady = self.steady
        for condition, group, normals in self.at_conditions:
            if not len(group.cells):
                continue
            keys = condition.keys
            own = self._functions(group)
            products = {key: group.products(key) for key in {*keys, *steady.keys}}
            points = group.points[..., 0]
            table = self._table(steady.keys, products, own, coefficients)
            _, slopes = steady.inside(table[..., 0], *points, share=share)
            size = self._sizes(steady.keys, group.cells)
            each = np.abs(slopes) * size
            balance = _balance(each.sum(1))
            fields = {key[0] for key in keys}
            of_fields = [k for k, key in enumerate(steady.keys) if key[0] in fields]
            felt = (balance[:, None] * each[:, of_fields]).sum(1).max(0)
            table = self._table(keys, products, own, coefficients)
            left, slopes = condition.program(table[..., 0], points, normals.T)
            ours = (np.abs(slopes[0]) * self._sizes(keys, group.cells)).sum(0)
            scale = group.weights * (felt / np.maximum(ours, 1e-300))[:, None]
            yield self._made(keys, products, own, slopes[..., None], left[..., None], scale[None])

    def _made(
        self,
        keys: Sequence[Key],
        products: dict[Key, np.ndarray],
        own: Sequence[np.ndarray],
        slopes: np.ndarray,
        left: np.ndarray,
        scale: np.ndarray,
    ) -> Rows:
        fields = [c for c in range(len(own)) if any(k[0] == c for k in keys)]
        rows, cells, points = left.shape
        widths = np.r_[0, np.cumsum([own[c].shape[1] for c in fields])]
        matrix = np.zeros((cells, rows, points, widths[-1]))
        for number, key in enumerate(keys):
            at = fields.index(key[0])
            for r in range(rows):
                slope = (slopes[r, number] * scale[r])[..., None]
                if np.any(slope):
                    matrix[:, r, :, widths[at] : widths[at + 1]] += slope * products[key]
        left = np.moveaxis(left * scale, 0, 1).reshape(cells, -1)
        functions = np.concatenate([own[c] for c in fields], 1)
        return Rows(functions, matrix.reshape(cells, rows * points, -1), left)


def _balance(sizes: np.ndarray) -> np.ndarray:
    """Factors of equations (equations, cells) with which all feel a change of a cell alike."""
    return np.minimum(sizes.max(0) / np.maximum(sizes, 1e-300), BALANCE)


class NormalEquations:
    """The normal equations of rows, scaled and factorised.

    Arguments:
        rows: of the least squares.
        order: of the coefficients; those that no row feels are zero.
    """

    def __init__(self, rows: Sequence[Rows], order: np.ndarray):
        self.rows, number = rows, len(order)
        squares, felt = np.zeros((2, number))
        for r in rows:
            own = np.abs(r.matrix)
            np.add.at(squares, r.functions, np.einsum("crf,crf->cf", own, own))
            largest = np.maximum(own.max(2, keepdims=True), 1e-300)
            np.maximum.at(felt, r.functions, (own / largest).max(1))
        # what hardly reaches into the domain would only be known to rounding
        self.used = order[felt[order] > FELT]
        self.scale = np.zeros(number)
        self.scale[self.used] = 1 / np.sqrt(squares[self.used])
        place = np.zeros(number, int)
        place[self.used] = np.arange(len(self.used))
        self.band = max(self._width(place, r) for r in rows)
        bands = np.zeros((len(self.used), self.band + 1))
        for r in rows:
            self._add(bands, place, r)
        ridge = RIDGE
        while True:
            try:
                matrix = bands.T.copy(order="F")
                matrix[0] += ridge
                self.factor = scipy.linalg.cholesky_banded(
                    matrix, overwrite_ab=True, lower=True, check_finite=False
                )
                break
            except np.linalg.LinAlgError:
                ridge *= 30
                if ridge > 1e-6:
                    raise

    def _seen(self, r: Rows) -> np.ndarray:
        return self.scale[r.functions] > 0

    def _width(self, place: np.ndarray, r: Rows) -> int:
        at, seen = place[r.functions], self._seen(r)
        high = np.where(seen, at, 0).max(1)
        low = np.where(seen, at, len(place)).min(1)
        return int(max(0, np.max(high - low)))

    def _add(self, bands: np.ndarray, place: np.ndarray, r: Rows) -> None:
        at, scale = place[r.functions], self.scale[r.functions]
        lowest, highest = int(at[scale > 0].min()), int(at.max())
        width = bands.shape[1]
        flat = bands[lowest : highest + 1].reshape(-1)
        step = max(1, 4_000_000 // r.functions.shape[1] ** 2)
        for first in range(0, len(at), step):
            one = slice(first, first + step)
            scaled = r.matrix[one] * scale[one, None, :]
            local = np.swapaxes(scaled, 1, 2) @ scaled
            row, column = at[one, :, None], at[one, None, :]
            kept = (row >= column) & (local != 0)
            number = ((column - lowest) * width + row - column)[kept]
            low = int(number.min(initial=0))
            found = np.bincount(number - low, local[kept])
            flat[low : low + len(found)] += found

    def transposed(self, left: Sequence[np.ndarray]) -> np.ndarray:
        """The transposed rows times a number for each of them."""
        found = np.zeros(len(self.scale))
        for r, x in zip(self.rows, left):
            own = (x[:, None, :] @ r.matrix)[:, 0]
            found += np.bincount(r.functions.ravel(), own.ravel(), len(found))
        return found

    def times(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """The rows times coefficients."""
        return [(r.matrix @ coefficients[r.functions][..., None])[..., 0] for r in self.rows]

    def _solved(self, right: np.ndarray) -> np.ndarray:
        found, at, scale = np.zeros(len(right)), self.used, self.scale[self.used]
        found[at] = scale * scipy.linalg.cho_solve_banded(
            (self.factor, True), scale * right[at], check_finite=False
        )
        return found

    def step(self, left: Sequence[np.ndarray], refinements: int = REFINEMENTS) -> np.ndarray:
        """The change of the coefficients that makes the rows smallest: conjugate gradients, which
        the factor makes quick; rounding in the normal equations is then no matter.

        Arguments:
            left: of the rows.
            refinements: steps of that method.
        """
        left = [-x for x in left]
        found = np.zeros(len(self.scale))
        right = self.transposed(left)
        first = last = 0.0
        direction = np.zeros_like(found)
        for number in range(refinements):
            solved = self._solved(right)
            size = float(right @ solved)
            if not size > DONE**2 * first:
                break
            first = first or size
            direction = solved + (size / last if number else 0.0) * direction
            change = self.times(direction)
            length = size / max(sum(float(np.vdot(c, c)) for c in change), 1e-300)
            found += length * direction
            left = [a - length * c for a, c in zip(left, change)]
            right, last = self.transposed(left), size
        return found


def cost(space: SplineSpace) -> float:
    """About the multiplications that the factor of a space needs."""
    longest = int(np.argmax([s.number for s in space.grid]))
    band = 0
    for own in space.axes:
        others = [s.number for a, s in enumerate(own) if a != longest]
        band += own[longest].degree * int(np.prod(others))
    return float(space.number) * band**2
