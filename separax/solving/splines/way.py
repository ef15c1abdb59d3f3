"""Solving a problem without time by splines: where its solution is rough, in smaller and smaller
cells.

    splines ─► least squares ─► how far from the last resolution? ─► cells cut where tails are long
      ▲                                                                        │
      └────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core import in_float64, threads_for
from ...equations import Problem
from ...solution import Solution, Timing
from ...training import Progress
from ..pieces import Products, low_rank, piecewise_solution
from ..trained import Context
from ..ways import ROUNDED, AbstractWay, Turn
from .functions import splines_between
from .rough_places import RoughPlaces, has_holes, rough_places
from .steady import Steady, steady_of
from .system import NormalEquations, SplineSpace, SplineSystem, cost

FIRST_CELLS = {1: 16, 2: 16, 3: 8}  # along each axis
HIGHER = {1: 5, 2: 3, 3: 2}  # degree beyond the order of the equation
LEVELS = 12
GAIN = 0.7  # an estimate that is no less than this part of the best one brought nothing
FINER = 1.6  # how much less the tails may be, in steps
OF_USE = 1.15  # times the functions, at least
AIM = 0.1  # of the tolerance: what the tails of all cells together may leave out
GROWTH = {
    1: (1.5, 8.0),
    2: (1.5, 5.0),
    3: (1.4, 4.0),
}  # of the number of functions from level to level
FAR, LARGER = 20.0, 1.35  # times the tolerance: an estimate that asks for larger steps
MOST_CUTS = 4  # of a cell from level to level
MOST_WORK, MOST_NUMBERS = 2e11, 1.5e8  # multiplications and numbers of a factor
FINE, CHEAP = 5e-7, 1.2e10  # an estimate, and multiplications of a factor that it is worth
NEWTON, STEPS_BACK = 25, 6
LAST_STEP = 1e-2  # of the tolerance: Newton's method ends with such a step
LEAST_SHARE = 1e-3
CAREFUL = 2.0  # an estimate against what it is made from
SLOWEST = 1.5  # times the last change: the estimate where nothing converges
AGAIN = 2  # times that it begins again, with more functions, where Newton's method fails
CLOSE = 0.03  # a step, against the solution
GRADED, STEEP = 3, 3.0  # cells in a row towards a corner, each so many times shorter
SLOWLY = 8  # steps of Newton's method after which it may end without reaching zero
POWER = 1.25  # of the distance from a corner that residuals are multiplied by
BAD = 0.2  # of the squares of the residual: that much near a corner is too much
FELT_BY_NONE = 1e-3  # of a random function: what is left of it where there are many solutions
SLOW, MUCH = 0.6, 0.1  # a residual, against the one before and against that of nothing
NEAR = 0.05  # of the box: what counts as being at a corner with two values
SMALL = 1e-9  # of all fields together: one that is smaller is zero but for rounding
CUT = 1e-2  # of the estimate: what compressing may add


@dataclass(frozen=True)
class SplineLevel:
    """One resolution.

    Attributes:
        cells: by axis.
        functions: that were solved for.
        left: the root of what is left of the least squares.
        change: from the resolution before, in the relative L2 norm of the worst field.
        estimate: of the relative L2 error.
        newton: steps of Newton's method.
        seconds: that it took.
    """

    cells: tuple[int, ...]
    functions: int
    left: float
    change: float
    estimate: float
    newton: int
    seconds: float


class SplineWay(AbstractWay):
    """Splines in cells, for problems without time."""

    def suits(self, problem: Problem) -> bool:
        return _known(problem) is not None

    def turn(self, problem: Problem) -> Turn:
        # what is smooth on a box is had by polynomials in a moment, and more exactly
        known = _known(problem)
        rough = known is not None and not known[1].none
        with_holes = problem.shape is not None and has_holes(problem.shape)
        return Turn.FIRST if rough or with_holes else Turn.SECOND

    def solve(self, problem: Problem, tolerance: float, context: Context) -> Solution | None:
        known = _known(problem)
        if known is None:
            return None
        # a banded factor is done in small blocks: the threads would wait for each other
        with np.errstate(all="ignore"), threads_for(1):
            try:
                return _Refinement(*known, tolerance, context).go()
            except ManySolutions:
                return None  # polynomials say more about that


@functools.lru_cache(1)  # asked several times about one problem
def _known(problem: Problem) -> tuple[Steady, RoughPlaces] | None:
    with in_float64():
        steady = steady_of(problem)
        return None if steady is None else (steady, rough_places(steady))


Solved = tuple[np.ndarray, list[np.ndarray], int]  # coefficients, what is left, steps


class ManySolutions(Exception):
    """The conditions leave more than one solution."""


class NotConverged(Exception):
    """Newton's method did not converge."""


class _Refinement:
    def __init__(self, steady: Steady, places: RoughPlaces, tolerance: float, context: Context):
        self.steady, self.places = steady, places
        self.tolerance, self.context = tolerance, context
        self.levels: list[SplineLevel] = []
        self.corners, self.damped_anew = places.corners, False
        self.nothing = 0.0  # what u = 0 leaves of the first least squares

    def go(self) -> Solution | None:
        begun = time.perf_counter()
        begin: SplineSpace | None = _first_space(self.steady, self.places)
        space, again = begin, 0
        last: tuple[SplineSpace, np.ndarray] | None = None
        best: tuple[SplineSpace, np.ndarray] | None = None
        estimate, worse = math.inf, 0
        while space is not None and len(self.levels) < LEVELS and worse < 2:
            began = time.perf_counter()
            system = self._system(space)
            start = np.zeros(space.number) if last is None else space.from_coarser(*last)
            try:
                if last is None:
                    self.nothing = _size([r.left for r in system.rows(start)])
                found, left, steps = self._solved(system, start)
            except (NotConverged, np.linalg.LinAlgError):
                # too few functions to see where it goes: with more it may find its way
                if begin is None or again == AGAIN or len(self.levels) > AGAIN:
                    break
                space = begin = _evenly(begin)
                last, best, estimate, again = None, None, math.inf, again + 1
                self.levels.clear()
                continue
            change = math.inf if last is None else self._change(system, found, start)
            corners = self._bad_corners(system, left)
            left = _size(left)
            now = self._estimate(left, change)
            last = space, found
            # rounding is the limit where more functions leave more of the residual
            no_gain = self.levels and now > GAIN * estimate and left > self.levels[-1].left
            worse = worse + 1 if no_gain else 0
            if now <= estimate:
                best, estimate = last, now
            self._note(space, left, change, now, steps, began)
            if estimate <= min(self.tolerance, FINE) or self.context.interrupt.asked:
                break
            space = self._finer(system, found)
            # what costs next to nothing is done beyond the tolerance, too
            cheap = CHEAP if self.steady.is_linear else CHEAP / 4
            if estimate <= self.tolerance and (space is None or cost(space) > cheap):
                break
            if len(corners):
                self.corners = np.concatenate([self.corners, corners])
                self.damped_anew = True
        if best is None:
            return None
        seconds = time.perf_counter() - begun
        compiling = min(self.steady.compiling, seconds)
        timing = Timing(compiling, seconds - compiling, sum(level.newton for level in self.levels))
        cut = min(max(CUT * min(estimate, 1.0), 1e-15), 1e-6)
        solution = piecewise_solution(
            self.steady.problem,
            [_products(self.steady.problem, *best, cut)],
            timing,
            estimate,
            self.levels,
            self.context.interrupt.asked,
        )
        return solution.with_outcome(advice=self._advice(estimate))

    def _system(self, space: SplineSpace) -> SplineSystem:
        degree = space.grid[0].degree
        many = any(self.places.jumps) or len(space.grid) == 1
        points = degree - 1 if many else max(3, (degree + 1) // 2)
        return SplineSystem(self.steady, space, self.corners, points, POWER)

    def _note(
        self,
        space: SplineSpace,
        left: float,
        change: float,
        estimate: float,
        steps: int,
        began: float,
    ) -> None:
        cells, seconds = tuple(s.cells for s in space.grid), time.perf_counter() - began
        level = SplineLevel(cells, space.number, left, change, estimate, steps, seconds)
        self.levels.append(level)
        grid = " × ".join(map(str, cells))
        self.context.tell_level(f"splines {len(self.levels)}: {grid} cells", estimate)
        losses = {"total": left**2}
        self.context.report(Progress(len(self.levels), LEVELS, losses, None, 1 / seconds))

    # --- one resolution ------------------------------------------------------------------------

    def _solved(self, system: SplineSystem, start: np.ndarray) -> Solved:
        if self.steady.is_linear:
            rows = system.rows(start)
            equations = NormalEquations(rows, system.space.order)
            if not self.levels and self._has_family(system, equations):
                raise ManySolutions
            found = start + equations.step([r.left for r in rows])
            # once more from what is left in truth: what rounding did is then undone
            left = [r.left for r in system.rows(found)]
            found = found + equations.step(left)
            return found, left, 1
        try:
            return self._newton(system, start, 1.0)
        except NotConverged:
            if self.levels:
                raise
        # from what is linear to the whole, by steps that grow as long as they can
        found, share, step, steps = np.zeros_like(start), 0.0, 0.25, 0
        while share < 1:
            following = min(1.0, share + step)
            try:
                found, left, more = self._newton(system, found, following)
                share, step, steps = following, 2 * step, steps + more
            except NotConverged:
                step /= 4
                if step < LEAST_SHARE:
                    raise
        return found, left, steps

    def _has_family(self, system: SplineSystem, equations: NormalEquations) -> bool:
        """Whether something can be added to the solution that no row feels: of a random function
        it would be left when its rows are made zero."""
        drawn = np.where(equations.scale > 0, 1.0, 0.0)
        drawn *= np.random.default_rng(0).normal(size=len(drawn))
        rest = drawn + equations.step(equations.times(drawn))
        squares = [
            [np.sum(system.areas * system.values(c, f) ** 2) for c in (rest, drawn)]
            for f in range(len(system.space.axes))
        ]
        return any(left > FELT_BY_NONE**2 * whole for left, whole in squares)

    def _newton(self, system: SplineSystem, start: np.ndarray, share: float) -> Solved:
        found, enough = start, LAST_STEP * min(self.tolerance, 1e-2)
        rows = system.rows(found, share)
        left = [r.left for r in rows]
        equations = None
        for number in range(1, NEWTON + 1):
            if equations is None:
                equations = NormalEquations(rows, system.space.order)
                if not self.levels and number == 1 and self._has_family(system, equations):
                    raise ManySolutions
            step, size = equations.step(left), _size(left)
            length = _ratio(step, found)
            for back in range(STEPS_BACK):
                tried = found + 0.5**back * step
                rows = system.rows(tried, share)
                now = [r.left for r in rows]
                if _size(now) < size * (1 + 1e-6) or (back == 0 and length < enough):
                    break
            else:
                if length < 100 * enough:
                    return found, left, number
                raise NotConverged
            found, left = tried, now
            if back or length > CLOSE:  # closer by, one factor serves for the next steps, too
                equations = None
            # at a minimum that is no zero of the residual, steps fade slowly
            slow = number > SLOWLY and _size(left) > 0.999 * size
            if (back == 0 and length < enough) or slow:
                return found, left, number
            if self.context.interrupt.asked:
                break
        raise NotConverged

    # --- how good it is ------------------------------------------------------------------------

    def _change(self, system: SplineSystem, found: np.ndarray, before: np.ndarray) -> float:
        """The relative L2 difference of two solutions, of the worst field. One that is next to
        nothing beside the others is measured by them."""
        group, areas = system.inside, system.areas
        here = np.ones(areas.shape, bool)
        size = max(s.edges[-1] - s.edges[0] for s in system.space.grid)
        for corner in self.places.contradictions:
            apart = np.sqrt(sum((x - c) ** 2 for x, c in zip(group.points, corner)))
            here &= apart > NEAR * size
        areas = areas * here
        sizes, apart = [], []
        for f in range(len(system.space.axes)):
            u, v = system.values(found, f), system.values(before, f)
            sizes.append(float(np.sum(areas * u**2)))
            apart.append(float(np.sum(areas * (u - v) ** 2)))
        least = max(SMALL**2 * sum(sizes), 1e-300)
        return max(math.sqrt(a / max(size, least)) for a, size in zip(apart, sizes))

    def _bad_corners(self, system: SplineSystem, left: Sequence[np.ndarray]) -> np.ndarray:
        """Corners of a box of two axes at which much of the residual is left: there conditions and
        equations contradict each other, and residuals are to count less from now on."""
        box = self.steady.problem.box
        if box.dimension != 2 or self.steady.problem.periodic:
            return np.zeros((0, box.dimension))
        group = system.inside
        squares = np.concatenate([np.sum(x**2, 1) for x in left])[: len(group.cells)]
        middle = np.stack([x.mean(1) for x in group.points], 1)
        bounds = [box[a] for a in box.axes]
        size = max(high - low for low, high in bounds)
        found = []
        for corner in itertools.product(*bounds):
            apart = np.linalg.norm(middle - np.array(corner), axis=1)
            known = len(self.corners) and np.any(np.all(self.corners == corner, axis=1))
            if not known and np.sum(squares[apart < NEAR * size]) > BAD * np.sum(squares):
                found.append(corner)
        return np.array(found).reshape(-1, box.dimension)

    def _estimate(self, left: float, change: float) -> float:
        """Of the error of the last resolution: the change from the one before, as much smaller as
        what is left of the least squares became smaller, and as changes do."""
        if not self.levels or not math.isfinite(change):
            return math.inf
        last = self.levels[-1]
        # with other weights what is left says nothing about the level before
        rate = SLOW if self.damped_anew else left / max(last.left, 1e-300)
        self.damped_anew = False
        if last.change < math.inf:
            rate = max(rate, min(1.0, change / max(last.change, 1e-300)))
        gain = SLOWEST if rate >= SLOW else min(SLOWEST, rate / (1 - rate))
        estimate = max(CAREFUL * change * gain, ROUNDED)
        # nothing has been found yet where next to nothing of the residual has gone
        share = left / max(self.nothing, 1e-300)
        return max(estimate, share) if share > MUCH and rate >= SLOW else estimate

    # --- the next resolution -------------------------------------------------------------------

    def _finer(self, system: SplineSystem, found: np.ndarray) -> SplineSpace | None:
        """Cells cut where the tails of the solution are long; None where there would be too
        many."""
        space, tails = system.space, _tails(system, found)
        least, most = GROWTH[len(space.grid)]
        if self.levels[-1].estimate > FAR * self.tolerance:
            least *= LARGER

        def cut(number: int) -> SplineSpace:
            """Cells cut so that the tails of each are below some part of the tolerance."""
            allowed = AIM * self.tolerance * FINER**-number
            power = 1 / (space.grid[0].degree + 1)
            each = [(own * math.sqrt(len(own)) / allowed) ** power for own in tails]
            return _refined(space, [np.clip(np.ceil(n), 1, MOST_CUTS).astype(int) for n in each])

        def fits(finer: SplineSpace) -> bool:
            return finer.number <= most * space.number and _affordable(finer)

        # the more is asked for, the more functions there are
        low, high = -60, 60
        if fits(cut(0)):
            low = 0
            if cut(0).number >= least * space.number:
                return cut(0)
        else:
            high = 0
        while high - low > 1:
            middle = (low + high) // 2
            finer = cut(middle)
            if high <= 0:  # as much as can be had
                low, high = (middle, high) if fits(finer) else (low, middle)
            else:  # as little as is of use
                low, high = (
                    (low, middle) if finer.number >= least * space.number else (middle, high)
                )
        for finer in (cut(high), cut(low)):
            if fits(finer) and finer.number > OF_USE * space.number:
                return finer
        return None

    def _advice(self, estimate: float) -> tuple[str, ...]:
        words = []
        axes = self.steady.problem.box.axes
        for corner in self.places.contradictions:
            at = ", ".join(f"{a} = {c:g}" for a, c in zip(axes, corner))
            words.append(
                f"conditions give two values at {at}: the solution jumps there, and its estimate"
                f" is of what is further away than {100 * NEAR:g} % of the box"
            )
        if estimate > self.tolerance:
            last = self.levels[-1]
            cells = " × ".join(map(str, last.cells))
            words.append(
                f"the error is estimated to be {estimate:.0e}, not below the tolerance of"
                f" {self.tolerance:g}: with {cells} cells the solution still changes by"
                f" {last.change:.0e}, and more are too many to solve for at once"
            )
        return tuple(words)


def _size(left: Sequence[np.ndarray]) -> float:
    return math.sqrt(sum(float(np.vdot(x, x)) for x in left))


def _ratio(step: np.ndarray, found: np.ndarray) -> float:
    return float(np.linalg.norm(step) / max(np.linalg.norm(found), 1e-300))


# --- spaces --------------------------------------------------------------------------------------


def _first_space(steady: Steady, places: RoughPlaces) -> SplineSpace:
    box = steady.problem.box
    degree = steady.order + HIGHER[box.dimension]
    cells = FIRST_CELLS[box.dimension]
    fields = []
    for orders in steady.orders:
        own = []
        for a, axis in enumerate(box.axes):
            # a jump of a coefficient or a source is one of the highest derivative
            repeats = degree - max(orders[a], 1) + 1
            marks = dict.fromkeys(_graded(places.corners[:, a], box[axis], cells), 1)
            marks |= dict.fromkeys(places.jumps[a], repeats)
            periodic = axis in steady.problem.periodic
            own.append(splines_between(box[axis], cells, degree, marks, periodic))
        fields.append(tuple(own))
    return SplineSpace(tuple(fields))


def _graded(corners: np.ndarray, bounds: tuple[float, float], cells: int) -> list[float]:
    """The coordinates of corners, and edges that come closer and closer to them."""
    length = (bounds[1] - bounds[0]) / cells
    apart = [length / STEEP**k for k in range(GRADED + 1)]
    return [float(c + d) for c in set(corners) for d in (0.0, *apart, *(-d for d in apart))]


def _refined(space: SplineSpace, counts: list[np.ndarray]) -> SplineSpace:
    return SplineSpace(
        tuple(tuple(s.refined(n) for s, n in zip(own, counts)) for own in space.axes)
    )


def _refined_evenly(space: SplineSpace) -> SplineSpace:
    return _refined(space, [np.full(s.cells, 2) for s in space.grid])


def _evenly(space: SplineSpace) -> SplineSpace | None:
    finer = _refined_evenly(space)
    return finer if _affordable(finer) else None


def _affordable(space: SplineSpace) -> bool:
    work = cost(space)
    return work <= MOST_WORK and math.sqrt(work * space.number) <= MOST_NUMBERS


def _tails(system: SplineSystem, found: np.ndarray) -> list[np.ndarray]:
    """By axis and cell of it, about what the next polynomial would add, relative to the field: the
    last two of a cell say how polynomials fade there."""
    group, space = system.inside, system.space
    dimension = len(space.grid)
    tails = [np.zeros(s.cells) for s in space.grid]
    for f, own in enumerate(space.axes):
        functions = space.functions(f, group.cells)
        local = found[functions].reshape(len(functions), *(s.degree + 1 for s in own))
        norm = math.sqrt(max(np.sum(system.areas * system.values(found, f) ** 2), 1e-300))
        for a, s in enumerate(own):
            each = []
            for last in (s.degree, s.degree - 1):
                series = s.pieces[group.cells[:, a], last]
                part = np.einsum("c...k,ck->c...", np.moveaxis(local, 1 + a, -1), series)
                for b in range(dimension):
                    if b != a:
                        basis = group.bases[f, b, 0]
                        part = np.einsum("ck...,cqk->c...q", part, basis)
                areas = np.moveaxis(
                    system.areas.reshape(len(functions), *[len(system.unit)] * dimension), 1 + a, -1
                ).sum(-1)
                squares = np.sum(areas * part**2, axis=tuple(range(1, dimension)))
                squares /= 2 * last + 1
                each.append(np.sqrt(np.bincount(group.cells[:, a], squares, s.cells)))
            fading = np.minimum(1.0, each[0] / np.maximum(each[1], 1e-300))
            tails[a] = np.maximum(tails[a], each[0] * fading / norm)
    return tails


# --- as a solution -------------------------------------------------------------------------------


def _products(
    problem: Problem, space: SplineSpace, coefficients: np.ndarray, cut: float
) -> Products:
    """Fields as few products: their coefficients in an orthonormal basis of every axis are
    compressed."""
    edges = {axis: s.edges for axis, s in zip(problem.box.axes, space.grid)}
    fields = []
    for own, c in zip(space.axes, space.split(coefficients)):
        bases = []
        for a, s in enumerate(own):
            # short pieces count a little more than their length: what is cut there could be seen
            lengths = np.maximum(s.lengths, s.lengths.mean())
            weights = np.sqrt(lengths[:, None] / (2 * np.arange(s.degree + 1) + 1))
            basis = (s.as_pieces() * weights[..., None]).reshape(-1, s.number)
            if len(own) > 1:  # along one axis there is nothing to compress
                basis, upper = np.linalg.qr(basis)
                c = np.moveaxis(np.tensordot(upper, c, (1, a)), 0, a)
            bases.append((basis, weights))
        columns, core = low_rank(c, cut)
        factors = [
            (basis @ own).reshape(*weights.shape, -1) / weights[..., None]
            for (basis, weights), own in zip(bases, columns)
        ]
        fields.append((factors, core))
    return Products.of(edges, fields)
