"""Marching in slabs of time that are chosen on the way.

Every slab is solved from the end of the last one: polynomials in elements along the axis, Radau's
points in time, Newton's method with the derivatives of the user's own residual. What the last
polynomials of a slab still add says how long the next one may be, and where elements are halved or
joined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.polynomial import legendre

from .elements import (
    Ends,
    SpaceRule,
    TimeRule,
    derivatives_at,
    joined,
    restricted,
    solve_elements,
    space_rule,
    time_rule,
)
from .evolution import Evolution

Coefficients = list[np.ndarray]  # by field
State = list[list[np.ndarray]]  # by field and order in time

DEPTH = 26  # how often the first elements can be halved
ABRUPT = 1e-9  # the same: the first slab, where a start is not smooth in time, is as short
SMALLEST = 1e-13  # length of a slab, as a part of the interval
GROWTH = 3.0  # of a slab's length, at most
SHRINK = 0.2
CLOSE = 0.02  # of what a slab may be off: what Newton's method may leave
NEWTON = 12  # steps
EARLY = 0.3  # of what an element may be off: it is halved for the next slab
MERGED = 0.05  # of the same: two elements are joined
CHECKED = 5  # points of an element between those that fitted its start
TINY = 1e-300


@dataclass(frozen=True)
class Precision:
    """How finely a march computes.

    Attributes:
        tolerance: what a slab may be off by its last polynomials, relative to the largest size of
            each field so far.
        stages: points in time of a slab.
        points: of an element.
        elements: at the start, before any is halved.
        most: elements.
        slabs: at most.
    """

    tolerance: float
    stages: int
    points: int
    elements: int
    most: int = 500
    slabs: int = 20_000


@dataclass(frozen=True)
class Mesh:
    """Elements that came from halving equal ones: their first cells and lengths, in whole cells."""

    bounds: tuple[float, float]
    elements: int
    first: np.ndarray
    sizes: np.ndarray

    @classmethod
    def equal(cls, bounds: tuple[float, float], elements: int) -> Mesh:
        cells = 2**DEPTH * np.arange(elements)
        return cls(bounds, elements, cells, np.full(elements, 2**DEPTH))

    @property
    def edges(self) -> np.ndarray:
        lower, upper = self.bounds
        cells = np.r_[self.first, self.elements * 2**DEPTH]
        return lower + (upper - lower) * (cells / (self.elements * 2**DEPTH))

    @property
    def lengths(self) -> np.ndarray:
        lower, upper = self.bounds
        return (upper - lower) * (self.sizes / (self.elements * 2**DEPTH))

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


@dataclass(frozen=True)
class Slab:
    """A part of the solution.

    Attributes:
        start, end: its interval of time.
        edges: of the elements.
        modes: by field, Legendre coefficients (elements, in time, along the axis).
        newton: steps that it took.
    """

    start: float
    end: float
    edges: np.ndarray
    modes: Coefficients
    newton: int

    @property
    def length(self) -> float:
        return self.end - self.start

    def at_times(self, t: np.ndarray) -> Coefficients:
        """By field, the coefficients along the axis at instants: (elements, instants, functions)."""
        unit = 2 * (t - self.start) / self.length - 1
        return [legendre.legvander(unit, m.shape[1] - 1) @ m for m in self.modes]


class NoSlab(Exception):
    """A slab that could not be solved: it is tried again with a shorter one."""


@dataclass
class March:
    """A march through the slabs of an evolution.

    Arguments:
        evolution: what is solved.
        precision: how finely.
    """

    evolution: Evolution
    precision: Precision
    slabs: list[Slab] = field(default_factory=list)
    trouble: str = ""

    def __post_init__(self) -> None:
        of, how = self.evolution, self.precision
        axis = of.axis is not None
        self.time: TimeRule = time_rule(how.stages)
        points = max(how.points, max(of.orders)) if axis else 1
        self.rules: list[SpaceRule] = [space_rule(points, q) for q in of.orders]
        self.periodic = of.periodic
        self.sizes = np.zeros(len(of.times))
        self._slopes: list[np.ndarray | None] = [None] * len(of.times)

    # --- the march ---------------------------------------------------------------------------------

    def run(self, stopped: Callable[[float], bool] = lambda t: False) -> March:
        """Solves slab after slab, up to the end or to where it is told to stop."""
        of, how = self.evolution, self.precision
        first, last = of.problem.box["t"]
        mesh, state = self._start()
        t, h, guess = first, (last - first) / 50, None
        while t < last and not stopped(t):
            if len(self.slabs) >= how.slabs or len(mesh.sizes) > how.most:
                self.trouble = (
                    "too many slabs" if len(mesh.sizes) <= how.most else "too many elements"
                )
                break
            left = last - t
            # the last slabs are of equal length
            h = left if h > 0.99 * left else min(h, left / 2) if h > left / 2 else h
            if h < SMALLEST * (last - first):
                self.trouble = "stuck"
                break
            try:
                if guess is None:
                    guess = self._first_guess(t, h, mesh, state)
                values, newton = self._solved(t, h, mesh, state, guess)
            except (NoSlab, np.linalg.LinAlgError, FloatingPointError):
                h, guess = h / 4, None
                continue
            sizes = self._sizes(mesh, values)
            scales = self._scales(h, mesh, state, values, sizes)
            off = self._off_in_time(mesh, state, values, scales)
            if t == first and h < ABRUPT * (last - first):
                off = min(off, how.tolerance)
            share = (
                SHRINK
                if not off < math.inf
                else 0.9 * (how.tolerance / max(off, TINY)) ** (1 / (how.stages + 1))
            )
            if off > how.tolerance:
                shorter = h * min(0.9, max(SHRINK, share))
                guess = self._shortened(state, values, shorter / h)
                h = shorter
                continue
            fine = self._off_in_elements(mesh, state, values, scales)
            bad = mesh.can_be_halved & (fine > how.tolerance / math.sqrt(len(fine)))
            if np.any(bad) and of.axis is not None:
                finer = mesh.halved(bad)
                state = self._state_on(mesh, finer, state)
                guess = [self._moved(mesh, finer, v, c) for c, v in enumerate(values)]
                mesh = finer
                continue
            self.sizes = sizes
            modes, state = self._output(h, state, values)
            self.slabs.append(Slab(t, last if h == left else t + h, mesh.edges, modes, newton))
            t = self.slabs[-1].end
            before, h, guess = h, h * min(GROWTH, max(SHRINK, share)), None
            if of.axis is not None:
                mesh, state, modes = self._adapted(mesh, state, modes, fine)
            self._last = (mesh, modes, before)
        return self

    def _moved(self, old: Mesh, new: Mesh, coefficients: np.ndarray, c: int) -> np.ndarray:
        return restricted(old.edges, new.edges, coefficients, self.rules[c])

    def _state_on(self, old: Mesh, new: Mesh, state: State) -> State:
        """The state, and the slopes at which the last slab ended, on other elements."""
        self._slopes = [
            v if v is None else self._moved(old, new, v, c) for c, v in enumerate(self._slopes)
        ]
        return [[self._moved(old, new, w, c) for w in ws] for c, ws in enumerate(state)]

    # --- start and guesses ---------------------------------------------------------------------------

    def _start(self) -> tuple[Mesh, State]:
        """The elements on which the start is as smooth as it must be, and the start on them."""
        of, how = self.evolution, self.precision
        mesh = Mesh.equal(of.bounds, how.elements if of.axis else 1)
        while True:
            state, bad = [], np.zeros(len(mesh.sizes), bool)
            middle = (mesh.edges[1:] + mesh.edges[:-1]) / 2
            sizes = np.zeros(len(of.times))
            for c, rule in enumerate(self.rules):
                fit, _ = legendre.leggauss(rule.number)
                checks = np.cos(
                    np.pi
                    * (np.arange(2 * rule.number + CHECKED) + 0.5)
                    / (2 * rule.number + CHECKED)
                )
                own = []
                for k in range(of.times[c]):
                    at = lambda unit: middle[:, None] + mesh.lengths[:, None] / 2 * unit  # noqa: B023, E731
                    known = of.start(c, k, at(fit))
                    w = known @ np.linalg.inv(legendre.legvander(fit, rule.number - 1)).T
                    if of.axis is not None:
                        w = joined(mesh.edges, w, rule, self.periodic)
                    true = of.start(c, k, at(checks))
                    found = w @ legendre.legvander(checks, rule.number - 1).T
                    share = mesh.lengths / mesh.lengths.sum()
                    size = math.sqrt(np.mean(true**2, 1) @ share) or 1.0
                    if k == 0:
                        sizes[c] = size
                    off = np.sqrt(np.mean((true - found) ** 2, 1) * share) / size
                    bad |= off > EARLY * how.tolerance / math.sqrt(len(share))
                    own.append(w)
                state.append(own)
            # what jumps is halved until it is within the tolerance, or as far as numbers go
            bad &= mesh.can_be_halved
            if of.axis is None or not np.any(bad) or len(mesh.sizes) > how.most:
                return mesh, state
            mesh = mesh.halved(bad)

    def _first_guess(self, t: float, h: float, mesh: Mesh, state: State) -> Coefficients:
        """The best of several extrapolations of the last slab, by what is left of the residual."""
        s = self.time.stages
        plain = [
            np.repeat(ws[0][:, None], s, 1) if ws else np.zeros((len(mesh.sizes), s, rule.number))
            for ws, rule in zip(state, self.rules)
        ]
        if not self.slabs:
            return plain
        last_mesh, modes, before = self._last
        assert last_mesh is mesh or np.array_equal(last_mesh.first, mesh.first)
        unit = 1 + 2 * self.time.points * h / before
        best, least = plain, self._left(t, h, mesh, state, plain)
        for degree in {1, 2, 3, 5, 8, modes[0].shape[1] - 1}:
            if degree >= modes[0].shape[1]:
                continue
            kept = [m[:, : degree + 1] for m in modes]
            basis = legendre.legvander(unit, degree)
            end = np.ones(degree + 1)
            trial = [basis @ m for m in kept]
            trial = [
                v + (p[:, :1] - (end @ m)[:, None]) if ws else v
                for v, p, m, ws in zip(trial, plain, kept, state)
            ]
            left = self._left(t, h, mesh, state, trial)
            if left < least:
                best, least = trial, left
        return best

    def _left(self, t: float, h: float, mesh: Mesh, state: State, values: Coefficients) -> float:
        with np.errstate(all="ignore"):
            left, _ = self._residuals(t, h, mesh, state, values)
        found = float(np.sqrt(np.sum(left**2 * mesh.lengths[:, None, None])))
        return found if math.isfinite(found) else math.inf

    def _shortened(self, state: State, values: Coefficients, share: float) -> Coefficients:
        """What was found for a slab, at the points of a shorter one."""
        unit = 2 * share * self.time.points - 1
        basis = legendre.legvander(unit, self.time.stages) @ self.time.modes
        found = []
        for ws, v in zip(state, values):
            begin = ws[0] if ws else v[:, 0]
            found.append(basis @ np.concatenate([begin[:, None], v], 1))
        return found

    # --- one slab ------------------------------------------------------------------------------------

    def _in_time(self, h: float, state: State, values: Coefficients) -> State:
        """By field, its derivatives in time at the points."""
        found = []
        for ws, v in zip(state, values):
            own = [v]
            for w in ws:
                own.append(self.time.derivative(own[-1], w, h))
            found.append(own)
        return found

    def _residuals(
        self, t: float, h: float, mesh: Mesh, state: State, values: Coefficients
    ) -> tuple[np.ndarray, np.ndarray]:
        """What is left at the points: (elements, residuals, points of a slab of an element); and how
        it changes with the derivatives there."""
        of, s = self.evolution, self.time.stages
        points = self.rules[0].points
        each = self._in_time(h, state, values)
        table = []
        for key in of.keys:
            time, space = of.order_of(key)
            basis = derivatives_at(points, self.rules[key[0]].number, space)
            scale = (2 / mesh.lengths[:, None, None]) ** space
            table.append(scale * (each[key[0]][time] @ basis.T))
        shape = (len(mesh.sizes), s, len(points))
        middle = (mesh.edges[1:] + mesh.edges[:-1]) / 2
        x = middle[:, None] + mesh.lengths[:, None] / 2 * points
        times = np.broadcast_to((t + h * self.time.points)[None, :, None], shape)
        left, slopes = of.linearised(
            np.stack(table).reshape(len(table), -1),
            times.ravel(),
            np.broadcast_to(x[:, None], shape).ravel(),
        )
        number = len(left)
        return (
            np.moveaxis(left.reshape(number, *shape), 0, 1).reshape(shape[0], number, -1),
            slopes.reshape(number, len(table), *shape),
        )

    def _solved(
        self, t: float, h: float, mesh: Mesh, state: State, guess: Coefficients
    ) -> tuple[Coefficients, int]:
        """The values at the points of a slab, by Newton's method."""
        # changes are smooth from element to element: what jumps before would stay
        values, before = self._joined(mesh, guess), math.inf
        for step in range(1, NEWTON + 1):
            change = self._newton(t, h, mesh, state, values)
            values = [v + c for v, c in zip(values, change)]
            sizes = np.maximum(self._sizes(mesh, values), TINY)
            moved = max(self._norms(mesh, c).max() / size for c, size in zip(change, sizes))
            if not math.isfinite(moved) or (step > 3 and moved > 2 * before) or moved > 1e8:
                raise NoSlab
            rate = min(1.0, moved / before) if step > 1 else 1.0
            if moved * rate < CLOSE * self.precision.tolerance or moved < 1e-14:
                return values, step
            before = moved
        raise NoSlab

    def _joined(self, mesh: Mesh, values: Coefficients) -> Coefficients:
        if self.evolution.axis is None:
            return values
        each = zip(values, self.rules)
        return [joined(mesh.edges, v, rule, self.periodic) for v, rule in each]

    def _newton(
        self, t: float, h: float, mesh: Mesh, state: State, values: Coefficients
    ) -> Coefficients:
        of, s = self.evolution, self.time.stages
        left, slopes = self._residuals(t, h, mesh, state, values)
        elements, points = len(mesh.sizes), len(self.rules[0].points)
        if not np.all(np.isfinite(left)) or not np.all(np.isfinite(slopes)):
            raise NoSlab
        nodes = self._node_scales(mesh)
        lower, upper, inside = [], [], []
        for c, rule in enumerate(self.rules):
            columns = np.zeros((elements, left.shape[1], s, points, rule.number, s))
            for number, key in enumerate(of.keys):
                if key[0] != c:
                    continue
                time, space = of.order_of(key)
                basis = derivatives_at(rule.points, rule.number, space) @ rule.functions.T
                step = np.linalg.matrix_power(self.time.inner / h, time)
                scale = (2 / mesh.lengths) ** space
                weights = np.moveaxis(slopes[:, number] * scale[:, None, None], 0, 1)
                if time:
                    columns += np.einsum("erij,jb,ia->erijba", weights, basis, step)
                else:
                    diagonal = np.einsum("erijbi->erijb", columns)
                    diagonal += weights[..., None] * basis
            flat = columns.reshape(elements, -1, rule.number, s)
            q = rule.continuity
            lower.append(
                (flat[:, :, :q] * nodes[c][0][:, None, :, None]).reshape(*flat.shape[:2], -1)
            )
            upper.append(
                (flat[:, :, q : 2 * q] * nodes[c][1][:, None, :, None]).reshape(*flat.shape[:2], -1)
            )
            inside.append(flat[:, :, 2 * q :].reshape(*flat.shape[:2], -1))
        ends = self._ends(t, h, mesh, state, values, nodes)
        found, bubbles = solve_elements(
            np.concatenate(lower, -1),
            np.concatenate(upper, -1),
            np.concatenate(inside, -1),
            -left.reshape(elements, -1),
            ends,
        )
        change, at_node, at_inside = [], 0, 0
        for c, rule in enumerate(self.rules):
            q, more = rule.continuity, rule.number - 2 * rule.continuity
            own = found[:, at_node : at_node + q * s].reshape(len(found), q, s)
            bubble = bubbles[:, at_inside : at_inside + more * s].reshape(elements, more, s)
            at_node, at_inside = at_node + q * s, at_inside + more * s
            local = np.concatenate(
                [own[:-1] * nodes[c][0][..., None], own[1:] * nodes[c][1][..., None], bubble], 1
            )
            change.append(np.einsum("ebs,bf->esf", local, rule.functions))
        return change

    def _node_scales(self, mesh: Mesh) -> list[tuple[np.ndarray, np.ndarray]]:
        """By field: what a node's derivatives are in the coordinate of the element above and below;
        a node counts them by the mean length of its elements."""
        lengths = mesh.lengths
        padded = np.r_[
            lengths[-1] if self.periodic else lengths[0],
            lengths,
            lengths[0] if self.periodic else lengths[-1],
        ]
        own = np.sqrt(padded[1:] * padded[:-1])
        return [
            (
                (lengths[:, None] / own[:-1, None]) ** np.arange(rule.continuity),
                (lengths[:, None] / own[1:, None]) ** np.arange(rule.continuity),
            )
            for rule in self.rules
        ]

    def _ends(
        self,
        t: float,
        h: float,
        mesh: Mesh,
        state: State,
        values: Coefficients,
        nodes: list[tuple[np.ndarray, np.ndarray]],
    ) -> Ends | None:
        of, s = self.evolution, self.time.stages
        if self.periodic:
            return None
        unknowns = sum(rule.continuity for rule in self.rules) * s
        if not of.ends:
            return Ends(np.zeros((0, unknowns)), np.zeros((0, unknowns)), np.zeros(0))
        each = self._in_time(h, state, values)
        table = np.empty((len(of.end_keys), 2, s))
        for number, key in enumerate(of.end_keys):
            time, space = of.order_of(key)
            basis = derivatives_at(np.array([-1.0, 1.0]), self.rules[key[0]].number, space)
            for side, e in enumerate((0, -1)):
                table[number, side] = (2 / mesh.lengths[e]) ** space * (
                    each[key[0]][time][e] @ basis[side]
                )
        left, slopes = of.linearised_ends(table, t + h * self.time.points)
        sides = np.zeros((2, len(left), s, unknowns))
        begin = np.r_[0, np.cumsum([rule.continuity * s for rule in self.rules])]
        for number, key in enumerate(of.end_keys):
            time, space = of.order_of(key)
            step = np.linalg.matrix_power(self.time.inner / h, time)
            for side, e in enumerate((0, -1)):
                scale = (2 / mesh.lengths[e]) ** space * nodes[key[0]][side][e, space]
                at = begin[key[0]] + space * s
                sides[side, :, :, at : at + s] += scale * slopes[:, number, side, :, None] * step
        return Ends(*sides.reshape(2, -1, unknowns), -left.ravel())

    def _output(self, h: float, state: State, values: Coefficients) -> tuple[Coefficients, State]:
        """The slab as polynomials in time, with the slopes at its ends; and the state at its end."""
        modes, ends = [], []
        each = self._in_time(h, state, values)
        for c, (ws, own) in enumerate(zip(state, each)):
            ends.append([one[:, -1] for one in own[: len(ws)]])
            if not ws:
                basis = np.linalg.inv(
                    legendre.legvander(2 * self.time.points - 1, self.time.stages - 1)
                )
                found = basis @ own[0]
                modes.append(np.pad(found, ((0, 0), (0, 3), (0, 0))))
                continue
            nodes = np.concatenate([ws[0][:, None], own[0]], 1)
            plain = np.pad(self.time.modes @ nodes, ((0, 0), (0, 2), (0, 0)))
            first = ws[1] if len(ws) > 1 else self._slopes[c]
            if first is None:
                modes.append(plain)
                continue
            both = np.stack([h * first, h * own[1][:, -1]], 1)
            modes.append(self.time.output @ np.concatenate([nodes, both], 1))
        self._slopes = [own[1][:, -1] if ws else None for ws, own in zip(state, each)]
        return modes, ends

    # --- how far off -----------------------------------------------------------------------------------

    def _norms(self, mesh: Mesh, coefficients: np.ndarray) -> np.ndarray:
        """Root mean squares over the axis of (elements, instants, functions)."""
        number = coefficients.shape[-1]
        share = mesh.lengths / mesh.lengths.sum()
        return np.sqrt(
            np.einsum("esf,e,f->s", coefficients**2, share, 1 / (2 * np.arange(number) + 1))
        )

    def _sizes(self, mesh: Mesh, values: Coefficients) -> np.ndarray:
        """By field the largest it has been."""
        return np.maximum(self.sizes, [self._norms(mesh, v).max() for v in values])

    def _scales(
        self, h: float, mesh: Mesh, state: State, values: Coefficients, sizes: np.ndarray
    ) -> np.ndarray:
        """By field the size that errors are measured by. A field that begins at zero counts by what
        it would grow to at the rate it has, as far as other fields are as large."""
        first, last = self.evolution.problem.box["t"]
        slopes = [
            self._norms(mesh, one[1]).max() if len(one) > 1 else 0.0
            for one in self._in_time(h, state, values)
        ]
        return np.maximum(sizes, np.minimum((last - first) * np.array(slopes), sizes.max()))

    def _off_in_time(
        self, mesh: Mesh, state: State, values: Coefficients, sizes: np.ndarray
    ) -> float:
        """What the next polynomials in time would add, as far as the last ones tell."""
        worst = 0.0
        for ws, v, size in zip(state, values, sizes):
            if not ws:
                continue
            modes = self.time.modes @ np.concatenate([ws[0][:, None], v], 1)
            norms = self._norms(mesh, modes)
            last, before = norms[-2:].max(), norms[-4:-2].max()
            rate = min(1.0, last / max(before, TINY))
            worst = max(worst, float(last * max(rate, 1e-2) / max(size, TINY)))
        return worst

    def _off_in_elements(
        self, mesh: Mesh, state: State, values: Coefficients, sizes: np.ndarray
    ) -> np.ndarray:
        """By element, what the next polynomials along the axis would add."""
        share = mesh.lengths / mesh.lengths.sum()
        worst = np.zeros(len(share))
        for ws, v, size, rule in zip(state, values, sizes, self.rules):
            if rule.number < 4:
                continue
            every = np.abs(np.concatenate([ws[0][:, None], v], 1) if ws else v).max(1)
            worst = np.maximum(worst, _tails(every, share) / max(size, TINY))
        return worst

    def _adapted(
        self, mesh: Mesh, state: State, modes: Coefficients, fine: np.ndarray
    ) -> tuple[Mesh, State, Coefficients]:
        """Elements halved that will soon be too long, and joined that are too short."""
        how = self.precision
        allowed = how.tolerance / math.sqrt(len(fine))
        new = mesh.halved(fine > EARLY * allowed)
        if len(new.sizes) == len(mesh.sizes) and len(low := mesh.pairs()):
            joined_mesh = mesh.without(low)
            share = joined_mesh.lengths / joined_mesh.lengths.sum()
            owner = np.searchsorted(joined_mesh.first, mesh.first, side="right") - 1
            worst = np.zeros(len(share))
            for c, (m, size) in enumerate(zip(modes, self.sizes)):
                coarse = self._moved(mesh, joined_mesh, m, c)
                # with its ends kept, a joined element may be off by more than its last functions
                lost = np.abs(restricted(joined_mesh.edges, mesh.edges, coarse) - m).sum(1)
                lost = (
                    lost**2
                    @ (1 / (2 * np.arange(m.shape[2]) + 1))
                    * mesh.lengths
                    / sum(mesh.lengths)
                )
                off = np.sqrt(np.bincount(owner, lost)) + _tails(np.abs(coarse).max(1), share)
                worst = np.maximum(worst, off / max(size, TINY))
            there = np.searchsorted(joined_mesh.first, mesh.first[low])
            new = mesh.without(low[worst[there] < MERGED * allowed])
        if len(new.sizes) == len(mesh.sizes):
            return mesh, state, modes
        moved = self._state_on(mesh, new, state)
        return new, moved, [self._moved(mesh, new, m, c) for c, m in enumerate(modes)]


def _tails(largest: np.ndarray, share: np.ndarray) -> np.ndarray:
    """By element, what comes after Legendre coefficients of these sizes, as a root mean square."""
    last, before = largest[:, -2:].max(1), largest[:, -4:-2].max(1)
    rate = np.minimum(1.0, last / np.maximum(before, TINY))
    return last * np.sqrt(rate * share / (2 * largest.shape[1] + 1))
