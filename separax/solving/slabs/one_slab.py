"""The equations of one slab of time, and Newton's method for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import legendre

from ..elements import (
    Ends,
    SpaceRule,
    TimeRule,
    at_ends,
    at_points,
    joined,
    restricted,
    solve_elements,
)
from .evolution import Evolution

Coefficients = list[np.ndarray]  # by field: (elements, instants, functions)

DEPTH = 26  # how often the first elements can be halved
CLOSE = 0.02  # of what a slab may be off: what Newton's method may leave
NEWTON = 12  # steps
SMALL = 1e-9  # of all fields together: one that is smaller is zero but for rounding
TINY = 1e-300


class NoSlab(Exception):
    """A slab that could not be solved: a shorter one is tried."""


@dataclass(frozen=True)
class Mesh:
    """Elements that came from halving equal ones: their first cells and lengths, in whole cells."""

    bounds: tuple[float, float]
    elements: int
    first: np.ndarray
    sizes: np.ndarray

    @classmethod
    def equal(cls, bounds: tuple[float, float], elements: int) -> Mesh:
        """Elements of one length."""
        cells = 2**DEPTH * np.arange(elements)
        return cls(bounds, elements, cells, np.full(elements, 2**DEPTH))

    @property
    def edges(self) -> np.ndarray:
        """Of the elements."""
        lower, upper = self.bounds
        cells = np.r_[self.first, self.elements * 2**DEPTH]
        return lower + (upper - lower) * (cells / (self.elements * 2**DEPTH))

    @property
    def lengths(self) -> np.ndarray:
        """Of the elements."""
        lower, upper = self.bounds
        return (upper - lower) * (self.sizes / (self.elements * 2**DEPTH))

    @property
    def shares(self) -> np.ndarray:
        """The lengths as parts of the axis."""
        return self.sizes / (self.elements * 2**DEPTH)

    def points(self, unit: np.ndarray) -> np.ndarray:
        """The points of every element at these of [-1, 1]: (elements, points)."""
        middle = (self.edges[1:] + self.edges[:-1]) / 2
        return middle[:, None] + self.lengths[:, None] / 2 * unit

    @property
    def can_be_halved(self) -> np.ndarray:
        """Whether an element is not among the smallest."""
        return self.sizes > 1

    def halved(self, which: np.ndarray) -> Mesh:
        """With some elements halved."""
        which = which & self.can_be_halved
        half = self.sizes[which] // 2
        first = np.r_[self.first[~which], self.first[which], self.first[which] + half]
        order = np.argsort(first)
        sizes = np.r_[self.sizes[~which], half, half]
        return replace(self, first=first[order], sizes=sizes[order])

    def pairs(self) -> np.ndarray:
        """The elements that are the lower half of one that was halved, the upper being next."""
        same = self.sizes[:-1] == self.sizes[1:]
        lower = self.first[:-1] % (2 * self.sizes[:-1]) == 0
        return np.flatnonzero(same & lower & (self.sizes[:-1] < 2**DEPTH))

    def without(self, lower: np.ndarray) -> Mesh:
        """With these pairs joined."""
        sizes = self.sizes.copy()
        sizes[lower] *= 2
        return replace(
            self, first=np.delete(self.first, lower + 1), sizes=np.delete(sizes, lower + 1)
        )

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        """Root mean squares over the axis, by instant."""
        weights = 1 / (2 * np.arange(coefficients.shape[-1]) + 1)
        return np.sqrt(np.einsum("esf,e,f->s", coefficients**2, self.shares, weights))


@dataclass(frozen=True)
class State:
    """Where a slab begins.

    Attributes:
        mesh: the elements.
        values: by field its value and derivatives in time, below the highest in the equation.
        slopes: by field its derivative in time where the last slab ended; None at the first.
    """

    mesh: Mesh
    values: list[list[np.ndarray]]
    slopes: list[np.ndarray | None]

    def on(self, mesh: Mesh, rules: Sequence[SpaceRule]) -> State:
        """The same on other elements."""

        def moved(w: np.ndarray, rule: SpaceRule) -> np.ndarray:
            return restricted(self.mesh.edges, mesh.edges, w, rule)

        values = [[moved(w, rule) for w in ws] for ws, rule in zip(self.values, rules)]
        slopes = [None if v is None else moved(v, rule) for v, rule in zip(self.slopes, rules)]
        return State(mesh, values, slopes)


@dataclass(frozen=True)
class OneSlab:
    """A slab of time that is to be solved.

    Attributes:
        evolution: what is solved.
        time, rules: the points in time, and the functions along the axis by field.
        start, length: its interval of time.
        state: where it begins.
    """

    evolution: Evolution
    time: TimeRule
    rules: Sequence[SpaceRule]
    start: float
    length: float
    state: State

    @property
    def mesh(self) -> Mesh:
        """The elements."""
        return self.state.mesh

    def constant(self) -> Coefficients:
        """A first guess: the state, for ever."""
        elements, stages = len(self.mesh.sizes), self.time.stages
        return [
            np.repeat(ws[0][:, None], stages, 1) if ws else np.zeros((elements, stages, r.number))
            for ws, r in zip(self.state.values, self.rules)
        ]

    def shortened(self, values: Coefficients, share: float) -> Coefficients:
        """What was found for a slab, at the points of a part of it."""
        unit = 2 * share * self.time.points - 1
        basis = legendre.legvander(unit, self.time.stages) @ self.time.modes
        return [basis @ nodes for nodes in self.nodes(values)]

    def nodes(self, values: Coefficients) -> Coefficients:
        """The values at the start and at the points."""
        return [
            np.concatenate([(ws[0] if ws else v[:, 0])[:, None], v], 1)
            for ws, v in zip(self.state.values, values)
        ]

    def derivatives(self, values: Coefficients) -> list[Coefficients]:
        """By field the values and derivatives in time, at the points."""
        found = []
        for ws, v in zip(self.state.values, values):
            own = [v]
            for w in ws:
                own.append(self.time.derivative(own[-1], w, self.length))
            found.append(own)
        return found

    def residuals(self, values: Coefficients) -> tuple[np.ndarray, np.ndarray]:
        """What is left at the points, and how it changes with the derivatives there.

        Returns: (elements, residuals, points in time, points of an element), and the same with the
            derivatives after the residuals.
        """
        of, points, lengths = self.evolution, self.rules[0].points, self.mesh.lengths
        each = self.derivatives(values)
        table = []
        for key in of.keys:
            time, space = of.order_of(key)
            basis = at_points(len(points), self.rules[key[0]].continuity, space)
            table.append((2 / lengths[:, None, None]) ** space * (each[key[0]][time] @ basis.T))
        shape = (len(lengths), self.time.stages, len(points))
        x = np.broadcast_to(self.mesh.points(points)[:, None], shape)
        t = np.broadcast_to((self.start + self.length * self.time.points)[:, None], shape)
        flat = np.stack(table).reshape(len(table), -1)
        left, slopes = of.linearised(flat, t.ravel(), x.ravel())
        return (
            np.moveaxis(left.reshape(-1, *shape), 1, 0),
            np.moveaxis(slopes.reshape(len(left), -1, *shape), 2, 0),
        )

    def left(self, values: Coefficients) -> float:
        """The size of the residuals; infinite where they are no numbers."""
        left, _ = self.residuals(values)
        found = float(np.sqrt(np.sum(left**2 * self.mesh.lengths[:, None, None, None])))
        return found if math.isfinite(found) else math.inf

    # --- Newton's method -----------------------------------------------------------------------

    def solved(self, guess: Coefficients, tolerance: float) -> tuple[Coefficients, int]:
        """The values at the points, and the steps that were taken; `NoSlab` where there are none.

        Arguments:
            guess: where to begin.
            tolerance: what the slab may be off, relative to the size of each field.
        """
        mesh, before = self.mesh, math.inf
        values = guess
        if self.evolution.axis is not None:
            # changes are smooth from element to element: what jumps before would stay
            periodic = self.evolution.periodic
            values = [joined(mesh.edges, v, r, periodic) for v, r in zip(guess, self.rules)]
        for step in range(1, NEWTON + 1):
            change = self.change(values)
            values = [v + c for v, c in zip(values, change)]
            sizes = np.array([mesh.norms(v).max() for v in values])
            sizes = np.maximum(sizes, SMALL * sizes.max() + TINY)
            moved = max(mesh.norms(c).max() / size for c, size in zip(change, sizes))
            if not math.isfinite(moved) or (step > 3 and moved > 2 * before) or moved > 1e8:
                raise NoSlab
            rate = min(1.0, moved / before) if step > 1 else 1.0
            if moved * rate < CLOSE * tolerance or moved < 1e-14:
                return values, step
            before = moved
        raise NoSlab

    def change(self, values: Coefficients) -> Coefficients:
        """A step of Newton's method."""
        left, slopes = self.residuals(values)
        if not np.all(np.isfinite(left)) or not np.all(np.isfinite(slopes)):
            raise NoSlab
        elements, stages = len(left), self.time.stages
        below, above = self._node_scales()
        lower, upper, inside = [], [], []
        for c, rule in enumerate(self.rules):
            columns = self._columns(c, slopes).reshape(elements, -1, rule.number, stages)
            q = rule.continuity
            parts = (
                (lower, columns[:, :, :q] * below[:, None, :q, None]),
                (upper, columns[:, :, q : 2 * q] * above[:, None, :q, None]),
                (inside, columns[:, :, 2 * q :]),
            )
            for found, part in parts:
                found.append(part.reshape(*part.shape[:2], -1))
        nodes, insides = solve_elements(
            np.concatenate(lower, -1),
            np.concatenate(upper, -1),
            np.concatenate(inside, -1),
            -left.reshape(elements, -1),
            self._ends(values, below, above),
        )
        change, node, bubble = [], 0, 0
        for rule in self.rules:
            q, more = rule.continuity, rule.number - 2 * rule.continuity
            own = nodes[:, node : node + q * stages].reshape(elements + 1, q, stages)
            free = insides[:, bubble : bubble + more * stages].reshape(elements, more, stages)
            node, bubble = node + q * stages, bubble + more * stages
            local = [own[:-1] * below[:, :q, None], own[1:] * above[:, :q, None], free]
            change.append(np.einsum("ebs,bf->esf", np.concatenate(local, 1), rule.functions))
        return change

    def _columns(self, c: int, slopes: np.ndarray) -> np.ndarray:
        """How the residuals change with the functions of a field: (elements, residuals, points in
        time, points of an element, functions, points in time)."""
        of, rule, lengths = self.evolution, self.rules[c], self.mesh.lengths
        elements, residuals, _, stages, points = slopes.shape
        found = np.zeros((elements, residuals, stages, points, rule.number, stages))
        for number, key in enumerate(of.keys):
            if key[0] != c:
                continue
            time, space = of.order_of(key)
            basis = at_points(points, rule.continuity, space) @ rule.functions.T
            weights = slopes[:, :, number] * ((2 / lengths) ** space)[:, None, None, None]
            if time:
                step = np.linalg.matrix_power(self.time.inner / self.length, time)
                found += np.einsum("erij,jb,ia->erijba", weights, basis, step)
            else:
                diagonal = np.einsum("erijbi->erijb", found)  # a view
                diagonal += weights[..., None] * basis
        return found

    def _node_scales(self) -> tuple[np.ndarray, np.ndarray]:
        """What the derivatives that nodes have are in the coordinate of an element, by element and
        order, at its lower and its upper node. A node has the mean scale of its elements."""
        lengths = self.mesh.lengths
        ends = lengths[[-1, 0]] if self.evolution.periodic else lengths[[0, -1]]
        padded = np.r_[ends[0], lengths, ends[1]]
        own = np.sqrt(padded[1:] * padded[:-1])
        orders = np.arange(max(rule.continuity for rule in self.rules) + 1)
        return (lengths / own[:-1])[:, None] ** orders, (lengths / own[1:])[:, None] ** orders

    def _ends(self, values: Coefficients, below: np.ndarray, above: np.ndarray) -> Ends | None:
        """The conditions at the ends of the axis, for a change."""
        of, stages, lengths = self.evolution, self.time.stages, self.mesh.lengths
        if of.periodic:
            return None
        begin = np.r_[0, np.cumsum([rule.continuity * stages for rule in self.rules])]
        if not of.ends:
            nothing = np.zeros((0, begin[-1]))
            return Ends(nothing, nothing, np.zeros(0))
        each = self.derivatives(values)
        table = np.empty((len(of.end_keys), 2, stages))
        for number, key in enumerate(of.end_keys):
            time, space = of.order_of(key)
            basis = at_ends(self.rules[key[0]].number, space)
            for side, e in enumerate((0, -1)):
                here = each[key[0]][time][e] @ basis[side]
                table[number, side] = (2 / lengths[e]) ** space * here
        left, slopes = of.linearised_ends(table, self.start + self.length * self.time.points)
        sides = np.zeros((2, len(left), stages, begin[-1]))
        for number, key in enumerate(of.end_keys):
            time, space = of.order_of(key)
            step = np.linalg.matrix_power(self.time.inner / self.length, time)
            at = begin[key[0]] + space * stages
            for side, (e, scales) in enumerate(((0, below), (-1, above))):
                scale = (2 / lengths[e]) ** space * scales[e, space]
                changes = scale * slopes[:, number, side, :, None] * step
                sides[side, :, :, at : at + stages] += changes
        first, last = sides.reshape(2, -1, begin[-1])
        return Ends(first, last, -left.ravel())

    # --- what comes out ------------------------------------------------------------------------

    def output(self, values: Coefficients) -> tuple[Coefficients, State]:
        """The slab as Legendre coefficients in time, with the slopes at its ends; and its end."""
        modes, each = [], self.derivatives(values)
        for ws, own, nodes, slope in zip(
            self.state.values, each, self.nodes(values), self.state.slopes
        ):
            first = ws[1] if len(ws) > 1 else slope
            if not ws:
                at = legendre.legvander(2 * self.time.points - 1, self.time.stages - 1)
                found, more = np.linalg.inv(at) @ own[0], 3
            elif first is None:
                found, more = self.time.modes @ nodes, 2
            else:
                both = np.stack([self.length * first, self.length * own[1][:, -1]], 1)
                found, more = self.time.output @ np.concatenate([nodes, both], 1), 0
            modes.append(np.pad(found, ((0, 0), (0, more), (0, 0))))
        ends = [[v[:, -1] for v in own[: len(ws)]] for ws, own in zip(self.state.values, each)]
        slopes = [own[1][:, -1] if len(own) > 1 else None for own in each]
        return modes, State(self.mesh, ends, slopes)
