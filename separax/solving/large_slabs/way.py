"""A problem that evolves in two or three axes of space, solved in large slabs of time twice or
more: how far apart two marches are says how far off the coarser one is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial import legendre

from ...core import threads_for
from ...domain import TIME
from ...equations import Field, Problem, gauge_freedom
from ...separable import Key, leading_block, tucker_by_svd
from ...solution import Solution, Timing
from ..elements import derivatives_at
from ..marches import (
    CAREFUL,
    FEW,
    GAIN,
    MORE,
    SHARE,
    gave_up,
    next_allowed,
    watching,
    words_of_end,
)
from ..pieces import Products, padded, piecewise_solution
from ..trained import Context
from ..ways import ROUNDED, AbstractWay, Turn
from .averaged import MOST_DENSE, can_be_averaged
from .evolution_in_space import SpaceEvolution, evolution_in_space
from .grids import FieldAxis, Grid
from .march import LargeMarch, LargePrecision, LargeSlabDone
from .slab import Array, Space, along

FIRST = 0.3  # of the tolerance: what a first march is to leave of each slab
COARSEST, FINEST = 1e-3, 1e-12  # such a tolerance
AIM = 1e-8  # an estimate that is small enough whatever the tolerance, where a march is
LITTLE = 300_000  # work: its iterations times the values of all fields
MARCHES = 4
# values of all fields at an instant, at most, by march
MOST = (130_000, 250_000, 400_000, 400_000)
# a first march that would need more is left to other ways, after so many slabs that it can be seen
SOME, MOST_SLABS, MOST_WORK = 50, 5_000, 1.5e9
CUT = 0.02  # of what a slab may be off: what compressing may leave out
WINDOW = 24  # slabs of a window
HELD = 2**25  # numbers that a window may have before it is compressed
INSTANTS = 2  # per slab, at which marches are compared


@dataclass(frozen=True)
class LargeLevel:
    """One march.

    Attributes:
        allowed: what each slab might be off.
        slabs, points, iterations: how many slabs, points of space at most, and iterations.
        estimate: by how much its solution differs from that of the march before.
        seconds: that it took.
    """

    allowed: float
    slabs: int
    points: int
    iterations: int
    estimate: float
    seconds: float


class LargeSlabs(AbstractWay):
    """Large slabs of time that are chosen on the way, for two or three axes of space."""

    def suits(self, problem: Problem) -> bool:
        return evolution_in_space(problem) is not None

    def turn(self, problem: Problem) -> Turn:
        return Turn.FIRST

    def solve(self, problem: Problem, tolerance: float, context: Context) -> Solution | None:
        return solve_in_large_slabs(problem, tolerance, context)


def solve_in_large_slabs(problem: Problem, tolerance: float, context: Context) -> Solution | None:
    """The solution of a problem that evolves, with its `estimate`, `levels` and `advice`.

    Arguments:
        problem: what to solve.
        tolerance: the relative L2 error that would do.
        context: who is told, and whether to stop. A march that is interrupted ends with the slabs
            that are done.

    Returns: None where the problem is none of these, no slab could be solved, or too many would be.
    """
    evolution = evolution_in_space(problem)
    if evolution is None:
        return None
    start = time.perf_counter()
    levels: list[LargeLevel] = []
    best: _Kept | None = None
    interrupt = context.interrupt
    hurried = interrupt.seconds < math.inf
    allowed, estimate = min(COARSEST, max(FIRST * tolerance, FINEST)), math.inf
    spare = (1 - SHARE) * interrupt.left if hurried else 0.0
    # products of this size gain little from threads, and lose much to them on a busy machine
    with np.errstate(all="ignore"), threads_for(1):
        for number in range(MARCHES):
            if levels and not interrupt.allows(levels[-1].seconds):
                break
            began = time.perf_counter()
            most = MORE * levels[-1].slabs + FEW if levels else MOST_SLABS
            kept = _Kept(evolution, _precision(evolution, allowed, number, most))
            end, spared = (math.inf, spare) if best is None else (best.march.end, 0.0)
            march = kept.march
            asked = watching(problem, march, (number, MARCHES), context, end, spared)
            march.run(_unless_endless(march, asked) if number == 0 else asked)
            kept.flush()
            if not kept.windows or (best is None and _is_endless(march) and not interrupt.asked):
                break
            apart = math.inf
            if best is not None:
                apart = max(CAREFUL * _apart(evolution, best.windows, kept.windows), ROUNDED)
            if best is not None and gave_up(kept.march, best.march):
                if interrupt.asked and estimate == math.inf:  # better less of it, with an estimate
                    best, estimate = kept, apart
                break
            seconds = time.perf_counter() - began
            levels.append(
                LargeLevel(allowed, march.count, march.points, march.iterations, apart, seconds)
            )
            error = f", estimated error {apart:.0e}" if apart < math.inf else ""
            context.tell(
                f"march {number + 1}: {march.count} slabs of time, up to {march.points} points of"
                f" space{error}"
            )
            if apart > GAIN * estimate and apart < math.inf:
                # what a finer march could not gain is in the last two alike
                if apart < estimate:
                    best = kept
                estimate = max(apart, estimate)
                break
            best, estimate = kept, apart
            work = march.iterations * march.points * evolution.fields
            goal = min(tolerance, AIM) if work < LITTLE else tolerance
            if estimate <= goal or allowed <= FINEST or interrupt.asked:
                break
            allowed = max(FINEST, next_allowed(levels, estimate, goal))
    if best is None:
        return None
    seconds = time.perf_counter() - start
    compiling = min(evolution.inside.seconds, seconds)
    timing = Timing(compiling, seconds - compiling, sum(level.iterations for level in levels))
    stopped = best.march.end < problem.box[TIME][1]
    found = piecewise_solution(problem, best.windows, timing, estimate, levels, stopped)
    words = words_of_end(problem, best.march, interrupt) + _advice(levels, estimate, tolerance)
    return found.with_outcome(advice=tuple(words))


def _is_endless(march: LargeMarch) -> bool:
    """Whether a march would take very long, by what it has needed so far."""
    first, last = march.evolution.problem.box[TIME]
    share = (march.end - first) / (last - first)
    slabs, work = march.count, march.iterations * march.points * march.evolution.fields
    return slabs >= SOME and (slabs > share * MOST_SLABS or work > share * MOST_WORK)


def _unless_endless(march: LargeMarch, asked: Callable[[float], bool]) -> Callable[[float], bool]:
    """Whether a march is to stop, also because it would take very long."""
    return lambda t: asked(t) or _is_endless(march)


def _precision(evolution: SpaceEvolution, allowed: float, number: int, most: int) -> LargePrecision:
    grids = tuple(
        Grid(evolution.problem.box[a], 8, p) for a, p in zip(evolution.space, evolution.periodic)
    )
    values = MOST[number]
    if not can_be_averaged(Space(evolution, grids)):
        values = min(values, MOST_DENSE if number else MOST_DENSE * 3 // 4)
    stages = 4 if allowed > 1e-7 else 6
    return LargePrecision(allowed, stages, values // evolution.fields, number % 2 == 1, most)


def _advice(levels: Sequence[LargeLevel], estimate: float, tolerance: float) -> list[str]:
    words = []
    if tolerance < estimate < math.inf:
        counts = " and ".join(
            f"{level.slabs} slabs of time of {level.points} points" for level in levels[-2:]
        )
        words.append(
            f"the error is estimated to be {estimate:.0e}, not below the tolerance of"
            f" {tolerance:g}: that is by how much solutions with {counts} differ"
        )
    return words


# --- what is kept of a march ------------------------------------------------------------------


@dataclass
class _Kept:
    """A march, and what it has done, compressed window by window."""

    evolution: SpaceEvolution
    precision: LargePrecision
    windows: list[Products] = field(default_factory=list)
    _slabs: list[LargeSlabDone] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.march = LargeMarch(self.evolution, self.precision, self.add)

    def add(self, slab: LargeSlabDone) -> None:
        """Takes a slab that is done."""
        if self._slabs:
            other = slab.space.grids != self._slabs[-1].space.grids
            numbers = sum(m.size for s in self._slabs for m in s.modes)
            if len(self._slabs) >= WINDOW or numbers > HELD or (other and any(slab.space.lifted)):
                self.flush()
        self._slabs.append(slab)

    def flush(self) -> None:
        """Compresses what is not yet."""
        if self._slabs:
            cut = min(max(CUT * self.precision.tolerance, 1e-14), 1e-6)
            self.windows.append(_window(self._slabs, cut))
            self._slabs.clear()


def _window(slabs: Sequence[LargeSlabDone], cut: float) -> Products:
    """Slabs as one window, in the coefficients of piecewise polynomials."""
    of = slabs[0].space.evolution
    grids = tuple(
        max(each, key=lambda g: g.number) for each in zip(*(s.space.grids for s in slabs))
    )
    space = Space(of, grids)
    times = np.array([slabs[0].start, *(s.end for s in slabs)])
    lengths = np.diff(times)
    lengths = np.maximum(lengths, lengths.sum() / len(lengths))
    factors, cores = [], []
    for c in range(of.fields):
        each = np.stack(
            [
                s.modes[c] if s.space.grids == grids else s.space.moved(s.modes[c], grids, c)
                for s in slabs
            ]
        )
        number = each.shape[1]
        weight = np.sqrt(lengths[:, None] / (2 * np.arange(number) + 1)).ravel()
        whole = each.reshape(weight.size, *each.shape[2:]) * weight.reshape(-1, *(1,) * len(grids))
        back = []
        for i, axis in enumerate(space.axes[c]):
            scaled, own = _orthonormal(axis, whole.shape[i + 1])
            if scaled is not None:
                whole = along(scaled, whole, i + 1)
            back.append(own)
        core, columns = tucker_by_svd(whole)
        kept = leading_block(core, cut * float(np.linalg.norm(core)))
        core = core[tuple(slice(n) for n in kept)]
        columns = [column[:, :n] for column, n in zip(columns, kept)]
        first = (columns[0] / weight[:, None]).reshape(len(slabs), number, -1)
        others = [np.einsum("ebn,nr->ebr", own, q) for own, q in zip(back, columns[1:])]
        factors.append([first, *others])
        cores.append(core)
    edges = {TIME: times}
    for axis, grid in zip(of.space, grids):
        edges[axis] = _edges(grid)
    joined = []
    for own in zip(*factors):
        shape = np.max([f.shape for f in own], axis=0)
        joined.append(np.stack([padded(f, *shape) for f in own]))
    shape = np.max([core.shape for core in cores], axis=0)
    return Products(edges, tuple(joined), np.stack([padded(core, *shape) for core in cores]))


def _edges(grid: Grid) -> Array:
    pieces = math.ceil(grid.number / 8) if grid.periodic else 1
    return np.linspace(*grid.bounds, pieces + 1)


def _orthonormal(axis: FieldAxis, number: int) -> tuple[Array | None, Array]:
    """From the values of an axis to coefficients of orthonormal functions; and from these to
    Legendre coefficients, (pieces, polynomials, coefficients). Waves have values already."""
    grid = axis.grid
    if grid.periodic:
        return None, waves_to_pieces(grid)
    scale = np.sqrt(2 * np.arange(axis.number) + 1)
    there = axis.coefficients[:, :number] / scale[:, None]
    return there, np.diag(scale)[None]


def waves_to_pieces(grid: Grid, polynomials: int = 16) -> Array:
    """From the values of waves at the points of an axis to Legendre coefficients in pieces."""
    edges, (unit, weights) = _edges(grid), legendre.leggauss(polynomials + 4)
    points = (edges[1:] + edges[:-1])[:, None] / 2 + np.diff(edges)[:, None] / 2 * unit
    values = FieldAxis(grid).at(points.ravel())[0].reshape(*points.shape, grid.number)
    project = (np.arange(polynomials) + 0.5)[:, None]
    project = project * legendre.legvander(unit, polynomials - 1).T * weights
    return np.einsum("bp,epn->ebn", project, values)


# --- how far apart ----------------------------------------------------------------------------


def _quantities(problem: Problem) -> list[dict[Key, float]]:
    """What is looked at: the fields, and those quantities that are linear in their derivatives."""
    nothing = (0,) * problem.box.dimension
    found: list[dict[Key, float]] = [{(c, nothing): 1.0} for c in range(len(problem.fields))]

    def derived(at: Any) -> list[Any]:
        each = problem.quantities(at.fields, at.coordinates, at.unknowns)
        return [each[name] for name in problem.derived]

    for one in problem.trace(derived).result:
        plain = one.terms.values() if isinstance(one, Field) and one.linear else [None]
        if all(isinstance(factor, float) for factor in plain):
            found.append(dict(one.terms))
    return found


def _apart(of: SpaceEvolution, coarse: Sequence[Products], fine: Sequence[Products]) -> float:
    """The relative L2 difference of two marches as far as both went, of the worst quantity."""
    free = [of.problem.fields.index(name) for name in gauge_freedom(of.problem)]
    quantities = _quantities(of.problem)
    apart, size = np.zeros(len(quantities)), np.zeros(len(quantities))
    starts = np.array([w.edges[TIME][0] for w in coarse])
    end = coarse[-1].edges[TIME][-1]
    for window in fine:
        rules = [_rule(window.edges[TIME], INSTANTS)]
        for axis, factor in zip(of.space, window.factors[1:]):
            pieces, polynomials = factor.shape[1:3]
            rules.append(_rule(window.edges[axis], polynomials if pieces == 1 else 8))
        times, shares = rules[0]
        owner = np.searchsorted(starts, times, side="right") - 1
        axes = tuple(range(1, len(rules)))
        for o in np.unique(owner):
            here = (owner == o) & (times <= end)
            if not np.any(here):
                continue
            points = [times[here], *(r[0] for r in rules[1:])]
            for q, terms in enumerate(quantities):
                ours, theirs = (
                    np.sum([f * _values(of, w, key, points) for key, f in terms.items()], axis=0)
                    for w in (window, coarse[o])
                )
                if any(c in free for c, _ in terms):
                    ours, theirs = (v - v.mean(axes, keepdims=True) for v in (ours, theirs))
                off, whole = (ours - theirs) ** 2, ours**2
                for weights in (r[1] for r in rules[:0:-1]):
                    off, whole = off @ weights, whole @ weights
                apart[q] += shares[here] @ off
                size[q] += shares[here] @ whole
    size = np.maximum(size, 1e-18 * size.max())
    found = np.sqrt(apart / np.maximum(size, 1e-300))
    return float(found.max()) if np.all(np.isfinite(found)) else math.inf


def _rule(edges: Array, number: int) -> tuple[Array, Array]:
    """Gauss's points in every piece, and their weights."""
    unit, weights = legendre.leggauss(number)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middle[:, None] + half[:, None] * unit).ravel(), (half[:, None] * weights).ravel()


def _values(of: SpaceEvolution, window: Products, key: Key, points: Sequence[Array]) -> Array:
    """A derivative of a field on the lattice of these points."""
    assert window.cores is not None
    found, (c, _) = window.cores[key[0]], key
    time, orders = of.orders(key)
    each = zip(window.edges.values(), window.factors, points, (time, *orders))
    for i, (edges, factor, x, order) in enumerate(each):
        e = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        lengths = edges[e + 1] - edges[e]
        unit = 2 * (x - edges[e]) / lengths - 1
        basis = derivatives_at(unit, factor.shape[2], order) * (2 / lengths[:, None]) ** order
        found = along(np.einsum("pb,pbr->pr", basis, factor[c][e]), found, i)
    return found
