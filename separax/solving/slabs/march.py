"""Marching in slabs of time that are chosen on the way.

Every slab is solved from the end of the last one (`one_slab`). What the last polynomials of a slab
still add says how long the next one may be, and where elements are halved or joined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.polynomial import legendre

from ...domain import TIME
from ..elements import SpaceRule, TimeRule, joined, restricted, space_rule, time_rule
from .evolution import Evolution
from .one_slab import SMALL, TINY, Coefficients, Mesh, NoSlab, OneSlab, State

ABRUPT = 1e-9  # of the interval: the first slab, where a start is not smooth in time, is as short
SMALLEST = 1e-13  # the same: no slab is shorter
FIRST = 0.02  # the same: of the first slab that is tried
GROWTH = 3.0  # of a slab's length, at most
SHRINK = 0.2
EARLY = 0.3  # of what an element may be off: it is halved for the next slab
MERGED = 0.05  # of the same: two elements are joined
DEGREES = (1, 2, 3, 5, 8)  # to which the last slab is extrapolated
SEEN = 2048  # points at which a start is looked at, at least


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
        """Of the interval."""
        return self.end - self.start

    def at_times(self, t: np.ndarray) -> Coefficients:
        """By field the coefficients along the axis: (elements, instants, functions)."""
        unit = 2 * (t - self.start) / self.length - 1
        return [legendre.legvander(unit, m.shape[1] - 1) @ m for m in self.modes]


@dataclass
class March:
    """A march through the slabs of an evolution.

    Attributes:
        evolution: what is solved.
        precision: how finely.
        slabs: those that are done.
        trouble: why it ended before the end, if it did.
    """

    evolution: Evolution
    precision: Precision
    slabs: list[Slab] = field(default_factory=list)
    trouble: str = ""

    def __post_init__(self) -> None:
        of, how = self.evolution, self.precision
        points = 1 if of.axis is None else max(how.points, *of.orders)
        self.time: TimeRule = time_rule(how.stages)
        self.rules: list[SpaceRule] = [space_rule(points, q) for q in of.orders]
        self.sizes = np.zeros(len(of.times))  # the largest of every field so far

    @property
    def end(self) -> float:
        """The time up to which it is done."""
        return self.slabs[-1].end if self.slabs else self.evolution.problem.box[TIME][0]

    @property
    def count(self) -> int:
        """The slabs that are done."""
        return len(self.slabs)

    def run(self, stopped: Callable[[float], bool] = lambda t: False) -> March:
        """Solves slab after slab, up to the end or to where it is told to stop."""
        tolerance, order = self.precision.tolerance, self.precision.stages + 1
        first, last = self.evolution.problem.box[TIME]
        state, t, h, guess = self._start(), first, FIRST * (last - first), None
        while t < last and not stopped(t):
            left = last - t
            # the last two are of equal length
            h = left if h > 0.99 * left else min(h, left / 2)
            self.trouble = self._trouble(state, h / (last - first))
            if self.trouble:
                break
            slab = OneSlab(self.evolution, self.time, self.rules, t, h, state)
            try:
                guess = self._guess(slab) if guess is None else guess
                values, newton = slab.solved(guess, tolerance)
            except (NoSlab, np.linalg.LinAlgError):
                h, guess = h / 4, None
                continue
            sizes = np.maximum(self.sizes, [state.mesh.norms(v).max() for v in values])
            scales = self._scales(slab, values, sizes)
            off = self._off_in_time(slab, values, scales)
            if t == first and h < ABRUPT * (last - first):
                off = min(off, tolerance)
            share = 0.9 * (tolerance / max(off, TINY)) ** (1 / order) if off < math.inf else SHRINK
            if off > tolerance:
                share = min(0.9, max(SHRINK, share))
                h, guess = h * share, slab.shortened(values, share)
                continue
            fine = self._off_in_elements(slab, values, scales)
            bad = state.mesh.can_be_halved & (fine > tolerance / math.sqrt(len(fine)))
            if np.any(bad):
                finer = state.mesh.halved(bad)
                edges = state.mesh.edges, finer.edges
                guess = [restricted(*edges, v, rule) for v, rule in zip(values, self.rules)]
                state = state.on(finer, self.rules)
                continue
            self.sizes = sizes
            modes, end = slab.output(values)
            done = Slab(t, last if h == left else t + h, state.mesh.edges, modes, newton)
            self.slabs.append(done)
            state = end.on(self._adapted(slab, modes, fine), self.rules)
            t, h, guess = done.end, h * min(GROWTH, max(SHRINK, share)), None
        return self

    def _trouble(self, state: State, share: float) -> str:
        if len(self.slabs) >= self.precision.slabs:
            return "too many slabs"
        if len(state.mesh.sizes) > self.precision.most:
            return "too many elements"
        return "stuck" if share < SMALLEST else ""

    # --- start and guesses ---------------------------------------------------------------------

    def _start(self) -> State:
        """The start, on elements that are short enough for it: what jumps is in the shortest."""
        of, how = self.evolution, self.precision
        mesh = Mesh.equal(of.bounds, 1 if of.axis is None else how.elements)
        while True:
            values, bad = [], np.zeros(len(mesh.sizes), bool)
            for c, rule in enumerate(self.rules):
                each = [self._fitted(mesh, c, k, rule) for k in range(of.times[c])]
                values.append([w for w, _ in each])
                for _, off in each:
                    bad |= off > EARLY * how.tolerance / math.sqrt(len(off))
            bad &= mesh.can_be_halved
            if of.axis is None or not np.any(bad) or len(mesh.sizes) > how.most:
                return State(mesh, values, [None] * len(values))
            mesh = mesh.halved(bad)

    def _fitted(
        self, mesh: Mesh, c: int, order: int, rule: SpaceRule
    ) -> tuple[np.ndarray, np.ndarray]:
        """What a field begins with, and by element how far off that is, relative to its size."""
        of = self.evolution
        points = legendre.leggauss(rule.number)[0]
        inverse = np.linalg.inv(legendre.legvander(points, rule.number - 1))
        found = of.start(c, order, mesh.points(points)) @ inverse.T
        if of.axis is not None:
            found = joined(mesh.edges, found, rule, of.periodic)
        between = max(3 * rule.number, SEEN // len(mesh.sizes))
        checks = np.cos(np.pi * (np.arange(between) + 0.5) / between)
        true = of.start(c, order, mesh.points(checks))
        off = true - found @ legendre.legvander(checks, rule.number - 1).T
        size = math.sqrt(np.mean(true**2, 1) @ mesh.shares) or 1.0
        return found, np.sqrt(np.mean(off**2, 1) * mesh.shares) / size

    def _guess(self, slab: OneSlab) -> Coefficients:
        """The best of several extrapolations of the last slab, by what is left of the residual."""
        plain = slab.constant()
        if not self.slabs:
            return plain
        last = self.slabs[-1]
        modes = [
            restricted(last.edges, slab.mesh.edges, m, rule)
            for m, rule in zip(last.modes, self.rules)
        ]
        unit = 1 + 2 * self.time.points * slab.length / last.length
        most = modes[0].shape[1] - 1
        trials = [plain]
        for degree in sorted({*(d for d in DEGREES if d < most), most}):
            kept = [m[:, : degree + 1] for m in modes]
            # shifted so that it begins where the last slab ended
            trials.append(
                [
                    legendre.legvander(unit, degree) @ m + (p[:, :1] - m.sum(1, keepdims=True))
                    if ws
                    else legendre.legvander(unit, degree) @ m
                    for m, p, ws in zip(kept, plain, slab.state.values)
                ]
            )
        return min(trials, key=slab.left)

    # --- how far off ---------------------------------------------------------------------------

    def _scales(self, slab: OneSlab, values: Coefficients, sizes: np.ndarray) -> np.ndarray:
        """By field the size that errors are measured by. A field that begins at zero counts by what
        it would grow to at the rate it has, as far as other fields are as large."""
        first, last = self.evolution.problem.box[TIME]
        rates = [
            slab.mesh.norms(own[1]).max() if len(own) > 1 else 0.0
            for own in slab.derivatives(values)
        ]
        largest = sizes.max()
        grown = np.minimum((last - first) * np.array(rates), largest)
        return np.maximum(np.maximum(sizes, grown), SMALL * largest + TINY)

    def _off_in_time(self, slab: OneSlab, values: Coefficients, scales: np.ndarray) -> float:
        """What the next polynomials in time would add, as far as the last ones tell."""
        worst = 0.0
        for ws, nodes, scale in zip(slab.state.values, slab.nodes(values), scales):
            if ws:
                norms = slab.mesh.norms(self.time.modes @ nodes)
                last, before = norms[-2:].max(), norms[-4:-2].max()
                rate = min(1.0, last / max(before, TINY))
                worst = max(worst, float(last * max(rate, 1e-2) / scale))
        return worst

    def _off_in_elements(
        self, slab: OneSlab, values: Coefficients, scales: np.ndarray
    ) -> np.ndarray:
        """By element, what the next polynomials along the axis would add."""
        worst = np.zeros(len(slab.mesh.sizes))
        if self.evolution.axis is not None:
            for nodes, scale in zip(slab.nodes(values), scales):
                worst = np.maximum(worst, _tails(np.abs(nodes).max(1), slab.mesh.shares) / scale)
        return worst

    def _adapted(self, slab: OneSlab, modes: Coefficients, fine: np.ndarray) -> Mesh:
        """Elements for the next slab: too long ones are halved, too short ones joined."""
        mesh, allowed = slab.mesh, self.precision.tolerance / math.sqrt(len(fine))
        if np.any(long := mesh.can_be_halved & (fine > EARLY * allowed)):
            return mesh.halved(long)
        if not len(lower := mesh.pairs()):
            return mesh
        coarse = mesh.without(lower)
        owner = np.searchsorted(coarse.first, mesh.first, side="right") - 1
        worst = np.zeros(len(coarse.sizes))
        for m, rule, size in zip(modes, self.rules, self.sizes):
            both = restricted(mesh.edges, coarse.edges, m, rule)
            # with its ends kept, a joined element may be off by more than its last functions
            lost = np.abs(restricted(coarse.edges, mesh.edges, both) - m).sum(1) ** 2
            lost = lost @ (1 / (2 * np.arange(m.shape[2]) + 1)) * mesh.shares
            off = np.sqrt(np.bincount(owner, lost)) + _tails(np.abs(both).max(1), coarse.shares)
            worst = np.maximum(worst, off / max(size, SMALL * self.sizes.max() + TINY))
        return mesh.without(lower[worst[owner[lower]] < MERGED * allowed])


def _tails(largest: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """By element, what comes after Legendre coefficients of these sizes, as a root mean square."""
    last, before = largest[:, -2:].max(1), largest[:, -4:-2].max(1)
    rate = np.minimum(1.0, last / np.maximum(before, TINY))
    return last * np.sqrt(rate * shares / (2 * largest.shape[1] + 1))
