"""Marching in large slabs of time: their lengths, and the points of space, chosen on the way.

What the last polynomials of a slab still add says how long the next one may be; what the last
functions of an axis add says whether it has points enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial import legendre

from ...domain import TIME
from ..elements import TimeRule, time_rule
from ..slabs.one_slab import NoSlab
from .averaged import (
    MOST_DENSE,
    Alternating,
    Averaged,
    Dense,
    can_be_averaged,
    equations_of_fields,
)
from .evolution_in_space import SpaceEvolution
from .grids import Grid
from .slab import SMALL, TINY, Array, LargeSlab, Space, State, along

ABRUPT = 1e-9  # of the interval: the first slab, where a start is not smooth in time, is as short
SMALLEST = 1e-13  # the same: no slab is shorter
FIRST = {False: 0.01, True: 0.006}  # the same: of the first slab that is tried, of both sets
GROWTH, SHRINK = 3.0, 0.2  # of a slab's length, at most
KEPT = 1.3  # a slab that might be longer by less stays as long: what was factorised serves it
EARLY = 0.3  # of what an axis may be off: it gets more points for the next slab
SPARE = 1e-3  # of the same: it gets fewer
# points of an axis, by whether it is periodic, and of which set
SIZES = {
    (True, False): (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024),
    (True, True): (40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280),
    (False, False): (6, 8, 10, 12, 16, 20, 26, 34, 44, 58, 76, 98, 128, 166, 216, 280, 364),
    (False, True): (5, 7, 9, 14, 18, 23, 30, 39, 51, 67, 87, 112, 146, 190, 248, 322, 418),
}
BEGUN, FEWEST = {True: 1, False: 4}, {True: 1, False: 3}  # of these, to begin with and at least
DEGREES = (2,)  # to which the last slab is extrapolated, besides all and none of it
SLOW = 12  # iterations from which what is near the inverse is made anew
COSTLY, SHORTER = 40, 0.6  # iterations of a slab from which shorter ones are tried
MOST_LINES = 2**23  # numbers of the matrices of all lines along an axis
OLD = 1.25  # lengths apart by more: the same


@dataclass(frozen=True)
class LargePrecision:
    """How finely a march computes.

    Attributes:
        tolerance: what a slab may be off by its last polynomials, relative to the largest size of
            each field so far.
        stages: points in time of a slab.
        most: points of space, at most.
        odd: whether it has the second of two sets of numbers of points, and of first slabs: two
            marches that have these in common would be off alike.
        slabs: at most.
    """

    tolerance: float
    stages: int
    most: int
    odd: bool = False
    slabs: int = 20_000


@dataclass(frozen=True)
class LargeSlabDone:
    """A part of the solution.

    Attributes:
        start, end: its interval of time.
        space: the points.
        modes: by field, Legendre coefficients in time of what `Space.extended` gives.
        iterations: that it took.
    """

    start: float
    end: float
    space: Space
    modes: list[Array]
    iterations: int

    @property
    def length(self) -> float:
        """Of the interval."""
        return self.end - self.start

    def inside(self, c: int) -> Array:
        """The coefficients of a field at the points of space alone."""
        return self.modes[c][(slice(None), *(slice(n) for n in self.space.shape))]


@dataclass
class LargeMarch:
    """A march through the large slabs of an evolution.

    Attributes:
        evolution: what is solved.
        precision: how finely.
        done: is given every slab that is done.
        end: up to where it went.
        slabs, iterations, points: how many there were, of points the most.
        trouble: why it ended before the end, if it did.
    """

    evolution: SpaceEvolution
    precision: LargePrecision
    done: Callable[[LargeSlabDone], None]
    end: float = 0.0
    count: int = 0
    iterations: int = 0
    points: int = 0
    trouble: str = ""
    _inverse: Averaged | Alternating | Dense | None = None
    _fresh: bool = False  # whether it was made for the step before
    _needed: dict[Any, int] = field(default_factory=dict)  # iterations, by kind
    _worth: float = 0.0  # of the time that an iteration went ahead, when a slab was last shortened

    def __post_init__(self) -> None:
        self.time: TimeRule = time_rule(self.precision.stages)
        self.sizes = np.zeros(self.evolution.fields)  # the largest of every field so far
        self.end = self.evolution.problem.box[TIME][0]

    def run(self, stopped: Callable[[float], bool] = lambda t: False) -> LargeMarch:
        """Solves slab after slab, up to the end or to where it is told to stop."""
        tolerance, order = self.precision.tolerance, self.precision.stages + 1
        first, last = self.evolution.problem.box[TIME]
        t, h, guess = first, FIRST[self.precision.odd] * (last - first), None
        try:
            state = self._start()
        except NoSlab:
            self.trouble = "stuck"
            return self
        before: LargeSlabDone | None = None
        while t < last and not stopped(t):
            left = last - t
            h = left if h > 0.99 * left else min(h, left / 2)
            self.trouble = self._trouble(h / (last - first))
            if self.trouble:
                break
            slab = LargeSlab(self.time, t, h, state)
            try:
                guess = self._guess(slab, before) if guess is None else guess
                values, iterations = slab.solved(guess, tolerance, self._precondition)
            except (NoSlab, np.linalg.LinAlgError, ValueError):
                h, guess = h / 4, None
                self._inverse = None
                continue
            self.iterations += iterations
            sizes = np.maximum(self.sizes, np.max(state.space.norms(values), 1))
            scales = self._scales(slab, values, sizes)
            off = self._off_in_time(slab, values, scales)
            if t == first and h < ABRUPT * (last - first):
                off = min(off, tolerance)
            share = 0.9 * (tolerance / max(off, TINY)) ** (1 / order) if off < math.inf else SHRINK
            if off > tolerance:
                share = min(0.9, max(SHRINK, share))
                h, guess = h * share, slab.shortened(values, share)
                continue
            tails = self._tails(state.space, values, scales)
            finer = self._finer(state.space, tails, tolerance)
            if finer is not state.space:
                guess = np.stack(
                    [state.space.moved(v, finer.grids, c) for c, v in enumerate(values)]
                )
                if any(state.space.lifted):
                    guess = None
                state = self._restarted(finer) if t == first else state.on(finer, t)
                continue
            self.sizes = sizes
            modes, end = slab.output(values)
            before = LargeSlabDone(t, last if h == left else t + h, state.space, modes, iterations)
            self.done(before)
            self.count, self.end = self.count + 1, before.end
            self.points = max(self.points, math.prod(state.space.shape))
            space = self._finer(state.space, tails, EARLY * tolerance)
            if space is state.space:
                space = self._coarser(state.space, tails, SPARE * tolerance)
            t = before.end
            state, guess = end if space is state.space else end.on(space, t), None
            share = self._affordable(min(GROWTH, max(SHRINK, share)), h, iterations)
            h *= share if not 1.0 < share < KEPT else 1.0
        return self

    def _affordable(self, share: float, h: float, iterations: int) -> float:
        """By what the next slab may be longer: less where that costs too many iterations, as long
        as iterations go ahead the further for it."""
        worth = h / (iterations + SLOW)
        if iterations < COSTLY or self._worth < 0:
            return share
        if self._worth and worth < self._worth:
            self._worth = -1.0  # shorter slabs have not helped
            return share
        self._worth = worth
        return min(share, SHORTER)

    def _trouble(self, share: float) -> str:
        if self.count >= self.precision.slabs:
            return "too many slabs"
        return "stuck" if share < SMALLEST else ""

    # --- the start -----------------------------------------------------------------------------

    def _start(self) -> State:
        """The start, on points enough for it."""
        of = self.evolution
        at = {a: BEGUN[p] for a, p in zip(of.space, of.periodic)}
        sizes = [SIZES[p, self.precision.odd] for p in of.periodic]
        while math.prod(n[i] for n, i in zip(sizes, at.values())) > self.precision.most:
            at = {a: i - 1 for a, i in at.items()}
            if min(at.values()) < 0:
                raise NoSlab
        each = zip(of.space, of.periodic, sizes)
        grids = [Grid(of.problem.box[a], own[at[a]], p) for a, p, own in each]
        space = Space(of, tuple(grids))
        while True:
            state = self._restarted(space)
            sizes = np.array(
                [max(space.norms(w) for w in ws) if ws else 0.0 for ws in state.values]
            )
            tails = np.zeros(len(space.grids))
            for ws in state.values:
                for w in ws:
                    size = max(float(space.norms(w)), SMALL * sizes.max() + TINY)
                    tails = np.maximum(tails, self._tails(space, w[None], np.array([size])))
            finer = self._finer(space, tails, EARLY * self.precision.tolerance)
            if finer is space:
                return state
            space = finer

    def _restarted(self, space: Space) -> State:
        """The start at the points of a space."""
        of = self.evolution
        values = [[np.zeros(space.shape) for _ in range(k)] for k in of.times]
        if all(of.periodic):
            for time in range(max(of.times)):
                _by_waves(space, time, values)
        else:
            first = of.problem.box[TIME][0]
            for start in of.starts:
                ((key, factor),) = start.terms.items()
                time, orders = of.orders(key)
                if not any(orders) and time < of.times[key[0]]:
                    values[key[0]][time] = _sampled(space, start, first) / factor
        return State(space, values, [None] * of.fields)

    def _guess(self, slab: LargeSlab, before: LargeSlabDone | None) -> Array:
        """The best of several extrapolations of the last slab, by what is left of the residual."""
        plain = slab.constant()
        if before is None:
            return plain
        unit = 1 + 2 * self.time.points * slab.length / before.length
        modes = []
        for c in range(self.evolution.fields):
            own = before.inside(c)
            modes.append(before.space.moved(own, slab.space.grids, c))
        most, trials = len(modes[0]) - 1, [plain]
        for degree in (*DEGREES, most - 2):
            basis = legendre.legvander(unit, degree)
            each = []
            for c, m in enumerate(modes):
                found = along(basis, m[: degree + 1], 0)
                if slab.state.values[c]:
                    # shifted so that it begins where the last slab ended
                    found += plain[c][:1] - m[: degree + 1].sum(0)
                each.append(found)
            trials.append(np.stack(each))
        return min(trials, key=slab.left)

    # --- what is near the inverse --------------------------------------------------------------

    def _precondition(self, slab: LargeSlab, slopes: Array, last: int) -> Callable[..., Array]:
        """What is before GMRES: that of the last step as long as it does, then a new one, of the
        kind that needed the fewest iterations."""
        had = self._inverse
        if had is not None:
            if last:
                self._needed[type(had)] = last
            near = max(had.length / slab.length, slab.length / had.length) < OLD
            if had.space is slab.space and near and (last < SLOW or self._fresh):
                self._fresh = False
                return had
        kinds = self._kinds(slab, slopes)
        kind = min(kinds, key=lambda one: self._needed.get(one, SLOW))
        made = self._inverse = kind(slab, slopes)
        self._fresh = True
        return made

    def _kinds(self, slab: LargeSlab, slopes: Array) -> list[Any]:
        points = math.prod(slab.space.shape)
        found: list[Any] = [Averaged] if can_be_averaged(slab.space) else []
        if equations_of_fields(slab, slopes) and points * max(slab.space.shape) <= MOST_LINES:
            found.append(Alternating)
        if not found and points * self.evolution.fields <= MOST_DENSE:
            found.append(Dense)
        if not found:
            raise NoSlab
        return found

    # --- how far off ---------------------------------------------------------------------------

    def _scales(self, slab: LargeSlab, values: Array, sizes: Array) -> Array:
        """By field the size that errors are measured by. A field that begins at zero counts by what
        it would grow to at the rate it has, as far as other fields are as large."""
        first, last = self.evolution.problem.box[TIME]
        rates = [
            slab.space.norms(own[1]).max() if len(own) > 1 else 0.0
            for own in (slab.in_time(c, values) for c in range(len(values)))
        ]
        largest = sizes.max()
        grown = np.minimum((last - first) * np.array(rates), largest)
        return np.maximum(np.maximum(sizes, grown), SMALL * largest + TINY)

    def _off_in_time(self, slab: LargeSlab, values: Array, scales: Array) -> float:
        """What the next polynomials in time would add, as far as the last ones tell."""
        worst = 0.0
        for c, (ws, scale) in enumerate(zip(slab.state.values, scales)):
            if ws:
                norms = slab.space.norms(along(self.time.modes[-4:], slab.nodes(c, values), 0))
                last, before = norms[-2:].max(), norms[:2].max()
                rate = min(1.0, last / max(before, TINY))
                worst = max(worst, float(last * max(rate, 1e-2) / scale))
        return worst

    def _tails(self, space: Space, values: Array, scales: Array) -> Array:
        """By axis, what its next functions would add, as far as the last ones tell."""
        found = np.zeros(len(space.grids))
        for i, grid in enumerate(space.grids):
            for own, scale in zip(values, scales):
                whole = own if own.ndim > len(space.grids) else own[None]
                # the first and the last instant
                ends = np.stack([whole[0], whole[-1]])
                sizes = grid.sizes(ends, i + 1)
                number = len(sizes)
                last = math.sqrt(np.sum(sizes[int(0.85 * number) :] ** 2))
                middle = math.sqrt(np.sum(sizes[int(0.7 * number) : int(0.85 * number)] ** 2))
                rate = min(1.0, last / max(middle, TINY))
                found[i] = max(found[i], last * rate / scale)
        return found

    def _finer(self, space: Space, tails: Array, allowed: float) -> Space:
        """More points along the axes that are too coarse, as far as there may be more."""
        grids = list(space.grids)
        for i in np.argsort(-tails):
            if tails[i] > allowed:
                finer = self._beside(grids[i], 1)
                others = math.prod(g.number for g in grids) // grids[i].number
                if others * finer.number <= self.precision.most:
                    grids[i] = finer
        return space if tuple(grids) == space.grids else Space(self.evolution, tuple(grids))

    def _coarser(self, space: Space, tails: Array, allowed: float) -> Space:
        grids = [
            self._beside(grid, -1) if tail < allowed else grid
            for grid, tail in zip(space.grids, tails)
        ]
        return space if tuple(grids) == space.grids else Space(self.evolution, tuple(grids))

    def _beside(self, grid: Grid, steps: int) -> Grid:
        """A grid with more points, or with fewer."""
        sizes = SIZES[grid.periodic, self.precision.odd]
        here = sizes.index(grid.number)
        least = min(here, FEWEST[grid.periodic])
        at = min(max(here + steps, least), len(sizes) - 1)
        return Grid(grid.bounds, sizes[at], grid.periodic)


def _sampled(space: Space, start, first: float) -> Array:
    """What is given at the start, at the points."""
    of = space.evolution
    if start.lattice is None:
        return of.values(start.value, np.array([first]), [g.points for g in space.grids])[0]
    found = start.value
    for i, (axis, grid) in enumerate(zip(of.space, space.grids)):
        given = start.lattice[axis]
        found = along(_from_table(given, grid), found, i)
    return found


def _from_table(given: Array, grid: Grid) -> Array:
    """From values at given places of an axis to those at points."""
    steps = np.diff(given)
    regular = np.ptp(steps) < 1e-6 * abs(steps.mean())
    if grid.periodic and regular:
        closed = abs(given[-1] - given[0] - grid.length) < 0.5 * steps.mean()
        own = Grid((given[0], given[0] + grid.length), len(given) - closed, True)
        if abs(own.length / own.number - steps.mean()) < 1e-6 * steps.mean():
            from .grids import FieldAxis

            found = FieldAxis(own).at(grid.points)[0]
            return np.pad(found, [(0, 0), (0, int(closed))])
    raise NoSlab


def _by_waves(space: Space, time: int, values: list[list[Array]]) -> None:
    """The start from all that is known of it, wave by wave: the least change that meets it."""
    of = space.evolution
    first = of.problem.box[TIME][0]
    own = [c for c, k in enumerate(of.times) if k > time]
    rows, rights = [], []
    for start in of.starts:
        orders = {of.orders(key)[0] for key in start.terms}
        if orders != {time}:
            continue
        row = np.zeros((*space.shape, len(own)), complex)
        for key, factor in start.terms.items():
            if key[0] in own:
                modes = [g.symbol(o) for g, o in zip(space.grids, of.orders(key)[1])]
                row[..., own.index(key[0])] += factor * _outer(modes)
        rows.append(row)
        rights.append(np.fft.fftn(_sampled(space, start, first)))
    matrix, right = np.stack(rows, -2), np.stack(rights, -1)
    scale = np.maximum(np.abs(matrix).max((-1, -2), keepdims=True), TINY)
    found = (np.linalg.pinv(matrix / scale, rcond=1e-10) / scale) @ right[..., None]
    for i, c in enumerate(own):
        values[c][time] = np.fft.ifftn(found[..., i, 0]).real


def _outer(each: list[Array]) -> Array:
    found = each[0]
    for one in each[1:]:
        found = np.multiply.outer(found, one)
    return found
