"""The equations of one slab of time in several axes of space, and Newton's method for them.

The unknowns are the values V of every field at the points of space and at Radau's points of the
slab. A derivative is a product of matrices, one for each axis,

    ∂ᵏ∂ᵃu = (∂ₜᵏ ⊗ D_x ⊗ D_y) V + what the conditions on faces add,

and a residual holds at every point. A step of Newton's method is solved for by GMRES, with the
inverse of an averaged operator before it (`averaged`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from ..elements import TimeRule
from ..slabs.one_slab import NoSlab
from .evolution_in_space import SpaceEvolution
from .grids import FieldAxis, Grid

Array = np.ndarray
Tables = dict[tuple[int, tuple[int, ...]], Array]  # by field and orders along the axes of space

NEWTON = 14  # steps
CLOSE = 0.02  # of what a slab may be off: what Newton's method may leave
SMALL = 1e-9  # of all fields together: one that is smaller is zero but for rounding
TINY = 1e-300
LINEAR = 0.02  # of a change: what GMRES may leave of it
MOST = 80  # of its iterations
PROBES = 41  # instants at which it is seen whether conditions ask for zero


def along(matrix: Array, values: Array, axis: int) -> Array:
    """A matrix applied along one axis of an array."""
    shape = values.shape
    after = math.prod(shape[axis + 1 :])
    if after == 1:
        return (values.reshape(-1, shape[axis]) @ matrix.T).reshape(
            *shape[:axis], -1, *shape[axis + 1 :]
        )
    found = matrix @ values.reshape(-1, shape[axis], after)
    return found.reshape(*shape[:axis], matrix.shape[0], *shape[axis + 1 :])


@dataclass(frozen=True, eq=False)
class Space:
    """The points of space, and what every field is on them.

    Attributes:
        evolution: what is solved.
        grids: the points of the axes.
    """

    evolution: SpaceEvolution
    grids: tuple[Grid, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Points per axis."""
        return tuple(g.number for g in self.grids)

    @functools.cached_property
    def axes(self) -> list[list[FieldAxis]]:
        """By field and axis."""
        return self.evolution.field_axes(self.grids)

    @functools.cached_property
    def weights(self) -> Array:
        """Of a mean over space."""
        return functools.reduce(np.multiply.outer, [g.weights for g in self.grids])

    @functools.cached_property
    def coordinates(self) -> list[Array]:
        """Of every point, axis by axis."""
        return [a.ravel() for a in np.meshgrid(*(g.points for g in self.grids), indexing="ij")]

    def norms(self, values: Array) -> Array:
        """Root mean squares over space of (…, points)."""
        axes = tuple(range(-len(self.grids), 0))
        return np.sqrt(np.sum(values**2 * self.weights, axes))

    def derivative(self, c: int, orders: Sequence[int], values: Array) -> Array:
        """A derivative in space of values (…, points) of a field with zero on its faces."""
        first = values.ndim - len(self.grids)
        for i, order in enumerate(orders):
            if order:
                values = along(self.axes[c][i].derivative(order), values, first + i)
        return values

    # --- faces ---------------------------------------------------------------------------------

    @functools.cached_property
    def lifted(self) -> tuple[bool, ...]:
        """By field, whether anything but zero is asked for on its faces."""
        of = self.evolution
        low, high = of.problem.box["t"]
        found = [False] * of.fields
        for (c, axis, end), face in of.faces.items():
            if face.value is None or found[c]:
                continue
            i = of.space.index(axis)
            each = [np.linspace(*g.bounds, 23)[1:-1] for g in self.grids]
            each[i] = np.array([self.grids[i].bounds[end]])
            instants = low + (high - low) * np.linspace(0, 1, PROBES) ** 1.1
            found[c] = bool(np.any(of.values(face.value, instants, each)))
        return tuple(found)

    def extended(self, c: int, values: Array, times: Array) -> Array:
        """The values (instants, points) of a field, and after them along each axis those of its
        conditions; unchanged where these are all zero."""
        if not self.lifted[c]:
            return values
        of, axes = self.evolution, self.axes[c]
        found = np.zeros([len(times), *(a.number for a in axes)])
        found[(slice(None), *(slice(n) for n in self.shape))] = values
        for which in itertools.product([False, True], repeat=len(axes)):
            last = max((i for i, w in enumerate(which) if w), default=0)
            parts = []
            for end, side in enumerate(axes[last].sides):
                if side is None or not any(which):
                    continue
                face = of.faces[c, of.space[last], end]
                each = [g.points for g in self.grids]
                each[last] = np.array([self.grids[last].bounds[end]])
                g = np.zeros([len(times), *map(len, each)])
                if face.value is not None:
                    g = of.values(face.value, times, each)
                for i, w in enumerate(which):
                    if w and i != last:
                        g = along(self._conditions[c][i], g, i + 1)
                parts.append(g)
            if parts:
                cut = [slice(n, None) if w else slice(n) for w, n in zip(which, self.shape)]
                found[(slice(None), *cut)] = np.concatenate(parts, last + 1)
        return found

    @functools.cached_property
    def _conditions(self) -> list[list[Array]]:
        """The conditions of a field along an axis, from values at the points alone."""
        found = []
        for own in self.axes:
            found.append([])
            for axis in own:
                plain, rows = FieldAxis(axis.grid), []
                for end, side in enumerate(axis.sides):
                    if side is not None:
                        value = plain.at(np.array([axis.grid.bounds[end]]))[0][0]
                        slope = (2 * end - 1) * plain.slopes_at_ends()[end]
                        rows.append(side[0] * value + side[1] * slope)
                found[-1].append(np.array(rows).reshape(-1, axis.grid.number))
        return found

    def of_extended(self, c: int, orders: Sequence[int], values: Array) -> Array:
        """A derivative at the points, from what `extended` gives."""
        first = values.ndim - len(self.grids)
        for i, order in enumerate(orders):
            own = self.axes[c][i]
            if own.grid.periodic or values.shape[first + i] == own.grid.number:
                matrix = own.derivative(order)
            else:
                matrix = np.concatenate([own.derivative(order), own.of_conditions(order)], 1)
            values = along(matrix, values, first + i)
        return values

    def moved(self, values: Array, to: Sequence[Grid], c: int, t: float | None = None) -> Array:
        """Values (…, points) of a field on other points.

        Arguments:
            t: the instant, where conditions that are not zero are to be met; of one array alone.
        """
        if t is not None and self.lifted[c]:
            values = self.extended(c, values[None], np.array([t]))[0]
        first = values.ndim - len(self.grids)
        for i, grid in enumerate(to):
            if grid != self.grids[i]:
                inside, ends = self.axes[c][i].at(grid.points)
            elif values.shape[first + i] != grid.number:
                inside, ends = np.eye(grid.number), np.zeros((grid.number, 2))
                ends = ends[:, : values.shape[first + i] - grid.number]
            else:
                continue
            if values.shape[first + i] != self.grids[i].number:
                inside = np.concatenate([inside, ends], 1)
            values = along(inside, values, first + i)
        return values


@dataclass(frozen=True)
class State:
    """Where a slab begins.

    Attributes:
        space: the points.
        values: by field its value and derivatives in time, below the highest in the equation.
        slopes: by field its derivative in time where the last slab ended; None at the first.
    """

    space: Space
    values: list[list[Array]]
    slopes: list[Array | None]

    def on(self, space: Space, t: float) -> State:
        """The same on other points."""

        def moved(c: int, w: Array, at: float | None) -> Array:
            return self.space.moved(w, space.grids, c, at)

        values = [
            [moved(c, w, None if k else t) for k, w in enumerate(ws)]
            for c, ws in enumerate(self.values)
        ]
        # a slope of what is lifted is not known where its conditions are not: left out
        slopes = [
            None if v is None or self.space.lifted[c] else moved(c, v, None)
            for c, v in enumerate(self.slopes)
        ]
        return State(space, values, slopes)


@dataclass(frozen=True)
class LargeSlab:
    """A slab of time that is to be solved.

    Attributes:
        time: the points in time.
        start, length: its interval of time.
        state: where it begins.
    """

    time: TimeRule
    start: float
    length: float
    state: State

    @property
    def space(self) -> Space:
        """The points of space."""
        return self.state.space

    @property
    def of(self) -> SpaceEvolution:
        """What is solved."""
        return self.state.space.evolution

    @property
    def instants(self) -> Array:
        """The points in time."""
        return self.start + self.length * self.time.points

    def constant(self) -> Array:
        """A first guess: the state, for ever: (fields, instants, points)."""
        shape = (self.time.stages, *self.space.shape)
        each = [ws[0] if ws else np.zeros(self.space.shape) for ws in self.state.values]
        return np.stack([np.broadcast_to(w, shape) for w in each])

    def nodes(self, c: int, values: Array) -> Array:
        """The values of a field at the start and at the points."""
        ws = self.state.values[c]
        return np.concatenate([(ws[0] if ws else values[c, 0])[None], values[c]])

    def shortened(self, values: Array, share: float) -> Array:
        """What was found for a slab, at the points of a part of it."""
        unit = 2 * share * self.time.points - 1
        basis = legendre.legvander(unit, self.time.stages) @ self.time.modes
        return np.stack([along(basis, self.nodes(c, values), 0) for c in range(len(values))])

    def in_time(self, c: int, values: Array) -> list[Array]:
        """The values and derivatives in time of a field, at the points."""
        found, ws = [values[c]], self.state.values[c]
        for w in ws:
            step = along(self.time.inner, found[-1], 0)
            first = self.time.start.reshape(-1, *(1,) * w.ndim)
            found.append((step + first * w) / self.length)
        return found

    @functools.cached_property
    def _lifts(self) -> Tables:
        """What the conditions on faces add to each derivative in space."""
        found: Tables = {}
        zeros = np.zeros((self.time.stages, *self.space.shape))
        for c in range(self.of.fields):
            if self.space.lifted[c]:
                whole = self.space.extended(c, zeros, self.instants)
                for key in self.of.keys:
                    time, orders = self.of.orders(key)
                    if key[0] == c and not time and (c, orders) not in found:
                        found[c, orders] = self.space.of_extended(c, orders, whole)
        return found

    def residuals(self, values: Array) -> tuple[Array, Array]:
        """What is left at the points, and how it changes with the derivatives there.

        Returns: (residuals, instants, points), and the same with the derivatives after the
            residuals.
        """
        of, shape = self.of, (self.time.stages, *self.space.shape)
        each = [self.in_time(c, values) for c in range(of.fields)]
        table = np.empty((len(of.keys), *shape))
        for number, key in enumerate(of.keys):
            time, orders = of.orders(key)
            table[number] = self.space.derivative(key[0], orders, each[key[0]][time])
            if time == 0 and (lift := self._lifts.get((key[0], orders))) is not None:
                table[number] += lift
        points = math.prod(self.space.shape)
        t = np.repeat(self.instants, points)
        x = [np.tile(a, self.time.stages) for a in self.space.coordinates]
        given = list(of.coordinates(t, x).values())
        left, slopes = of.inside(table.reshape(len(table), -1), *given)
        return left.reshape(-1, *shape), slopes.reshape(len(left), -1, *shape)

    def left(self, values: Array) -> float:
        """The size of the residuals; infinite where they are no numbers."""
        found = float(np.max(self.space.norms(self.residuals(values)[0])))
        return found if math.isfinite(found) else math.inf

    # --- Newton's method -----------------------------------------------------------------------

    def changed(self, slopes: Array, change: Array) -> Array:
        """How the residuals change with the values."""
        found, made = None, {}
        for number, key in enumerate(self.of.keys):
            time, orders = self.of.orders(key)
            c = key[0]
            if (c, time) not in made:
                step = np.linalg.matrix_power(self.time.inner / self.length, time)
                made[c, time] = along(step, change[c], 0) if time else change[c]
            term = slopes[:, number] * self.space.derivative(c, orders, made[c, time])
            found = term if found is None else np.add(found, term, out=found)
        assert found is not None
        return found

    def solved(
        self,
        guess: Array,
        tolerance: float,
        precondition: Callable[[LargeSlab, Array, int], Callable[[Array], Array]],
    ) -> tuple[Array, int]:
        """The values at the points, and the iterations that it took; `NoSlab` where there are none.

        Arguments:
            guess: where to begin.
            tolerance: what the slab may be off, relative to the size of each field.
            precondition: from the slab, the slopes and the iterations of the step before to
                something near the inverse of how residuals change.
        """
        values, before, total, last = guess, math.inf, 0, 0
        for step in range(1, NEWTON + 1):
            left, slopes = self.residuals(values)
            if not np.all(np.isfinite(left)) or not np.all(np.isfinite(slopes)):
                raise NoSlab
            inverse = precondition(self, slopes, last)
            change, last = gmres(lambda v, s=slopes: self.changed(s, v), inverse, -left, LINEAR)
            total += last
            values = values + change
            sizes = np.max(self.space.norms(values), 1)
            sizes = np.maximum(sizes, SMALL * sizes.max() + TINY)
            moved = float(np.max(np.max(self.space.norms(change), 1) / sizes))
            if not math.isfinite(moved) or (step > 3 and moved > 2 * before) or moved > 1e8:
                raise NoSlab
            rate = min(1.0, moved / before) if step > 1 else 1.0
            if moved * max(rate, LINEAR) < CLOSE * tolerance or moved < 1e-14:
                return values, total
            before = moved
        raise NoSlab

    # --- what comes out ------------------------------------------------------------------------

    def output(self, values: Array) -> tuple[list[Array], State]:
        """The slab by field as Legendre coefficients in time, with the slopes at its ends, of the
        values that `extended` gives; and its end."""
        modes, slopes, space = [], [], self.space
        for c, ws in enumerate(self.state.values):
            times = np.r_[self.start, self.instants]
            nodes = space.extended(c, self.nodes(c, values), times)
            if not ws:
                at = np.linalg.inv(legendre.legvander(2 * self.time.points - 1, len(times) - 2))
                found, more = along(at, nodes[1:], 0), 3
                slopes.append(None)
            else:
                last = (
                    along(self.time.inner[-1:], nodes[1:], 0)[0] + self.time.start[-1] * nodes[0]
                ) / self.length
                first = self.state.slopes[c]
                if len(ws) > 1 and not space.lifted[c]:
                    first = ws[1]
                if first is None:
                    found, more = along(self.time.modes, nodes, 0), 2
                else:
                    both = np.stack([self.length * first, self.length * last])
                    found, more = along(self.time.output, np.concatenate([nodes, both]), 0), 0
                slopes.append(last)
            modes.append(np.pad(found, [(0, more)] + [(0, 0)] * (found.ndim - 1)))
        ends = [
            [v[-1] for v in self.in_time(c, values)[: len(ws)]]
            for c, ws in enumerate(self.state.values)
        ]
        return modes, State(space, ends, slopes)


def gmres(
    apply: Callable[[Array], Array],
    inverse: Callable[[Array], Array],
    right: Array,
    tolerance: float,
) -> tuple[Array, int]:
    """A solution of A x = b, with something near A⁻¹ from the left, and the iterations it took.

    Arguments:
        apply, inverse: A, and what is near its inverse.
        right: b.
        tolerance: what may be left of b, both seen through the inverse.
    """
    shape, first = right.shape, inverse(right).ravel()
    size = float(np.linalg.norm(first))
    if size == 0.0 or not math.isfinite(size):
        return first.reshape(shape), 0
    basis = np.empty((MOST + 1, first.size))
    basis[0] = first / size
    matrix = np.zeros((MOST + 1, MOST))
    number, solved = 0, np.zeros(0)
    for number in range(1, MOST + 1):
        new = inverse(apply(basis[number - 1].reshape(shape))).ravel()
        for _ in range(2):
            parts = basis[:number] @ new
            new -= parts @ basis[:number]
            matrix[:number, number - 1] += parts
        norm = matrix[number, number - 1] = np.linalg.norm(new)
        goal = np.zeros(number + 1)
        goal[0] = size
        solved = np.linalg.lstsq(matrix[: number + 1, :number], goal)[0]
        rest = np.linalg.norm(matrix[: number + 1, :number] @ solved - goal)
        if rest < tolerance * size or norm < 1e-14 * size or not math.isfinite(norm):
            break
        basis[number] = new / norm
    return (solved @ basis[:number]).reshape(shape), number
