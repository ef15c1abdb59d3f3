"""A problem that evolves, solved in slabs of time twice or more: how far apart two marches are says
how far off the coarser one is, and the finer becomes a solution."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from ...domain import TIME
from ...equations import Problem, is_linear
from ...solution import Solution, Timing
from ..elements import restricted
from ..marches import (
    CAREFUL,
    FEW,
    FINER,
    GAIN,
    MORE,
    SHARE,
    gave_up,
    next_allowed,
    watching,
    words_of_end,
)
from ..pieces import Products, compressed, piecewise_solution
from ..trained import Context
from ..ways import ROUNDED, AbstractWay, Turn
from .evolution import evolution_of
from .march import March, Precision, Slab

# what a first march is to leave of each slab, in t alone and in t and another axis
FIRST = {False: 1e-11, True: 1e-6}
HURRIED = 1e-4  # the same where there is a budget, so that there is time for a second march
ROUGH, ROUGH_SECONDS = 30.0, 1.5  # a march for the estimate alone, after an interrupt
AIM = {False: 1e-10, True: 1e-8}  # an estimate that is small enough whatever the tolerance
LEAST, LEAST_USEFUL = 1e-14, 1e-12  # tolerance of a slab
MARCHES = 5
MOST_SLABS = {False: 20_000, True: 3_000}  # of the first march
ELEMENTS = (8, 11, 13, 9)  # so that the elements of two marches have few edges in common
MOST_ROWS = 512  # functions in time of a window, before they are compressed
MOST_RANK = 128
CUT = 1e-3  # of the estimate: what compressing may add


@dataclass(frozen=True)
class SlabLevel:
    """One march.

    Attributes:
        allowed: what each slab might be off.
        slabs, elements, newton: how many slabs, elements at most, and steps of Newton's method.
        estimate: by how much its solution differs from that of the march before.
        seconds: that it took.
    """

    allowed: float
    slabs: int
    elements: int
    newton: int
    estimate: float
    seconds: float


class Slabs(AbstractWay):
    """Slabs of time that are chosen on the way, for problems in t, or in t and one other axis."""

    def suits(self, problem: Problem) -> bool:
        return evolution_of(problem) is not None

    def turn(self, problem: Problem) -> Turn:
        # a linear equation in two axes is solved on all of them in one step, and more exactly if
        # smooth
        alone = problem.box.dimension == 1
        return Turn.FIRST if alone or not is_linear(problem) else Turn.SECOND

    def solve(self, problem: Problem, tolerance: float, context: Context) -> Solution | None:
        return solve_in_slabs(problem, tolerance, context)


def solve_in_slabs(
    problem: Problem,
    tolerance: float,
    context: Context,
) -> Solution | None:
    """The solution of a problem that evolves, with its `estimate`, `levels` and `advice`.

    Arguments:
        problem: what to solve.
        tolerance: the relative L2 error that would do.
        context: who is told, and whether to stop. A march that is interrupted ends with the slabs
            that are done.

    Returns: None where the problem does not evolve, or no slab of it could be solved.
    """
    evolution = evolution_of(problem)
    if evolution is None:
        return None
    start, interrupt = time.perf_counter(), context.interrupt
    levels: list[SlabLevel] = []
    best: March | None = None
    space = evolution.axis is not None
    goal = min(tolerance, AIM[space])
    hurried = space and interrupt.seconds < math.inf
    allowed, estimate = HURRIED if hurried else FIRST[space], math.inf
    spare = (1 - SHARE) * interrupt.left if hurried else 0.0
    with np.errstate(all="ignore"):
        for number in range(MARCHES):
            if levels and not interrupt.allows(levels[-1].seconds):
                break
            began = time.perf_counter()
            most = MORE * levels[-1].slabs + FEW if levels else MOST_SLABS[space]
            march = March(evolution, _precision(space, allowed, number, most))
            end, spared = (math.inf, spare) if best is None else (best.end, 0.0)
            march.run(watching(problem, march, (number, MARCHES), context, end, spared))
            if not march.slabs:
                break
            apart = math.inf if best is None else max(CAREFUL * _apart(best, march), ROUNDED)
            if best is not None and gave_up(march, best):
                if interrupt.asked and estimate == math.inf:  # better less of it, with an estimate
                    best, estimate = march, apart
                break
            levels.append(_level(march, apart, time.perf_counter() - began))
            _tell(context, number, levels[-1])
            if apart > GAIN * estimate and apart < math.inf:
                # what a finer march could not gain is in the last two alike
                estimate = max(apart, estimate)
                break
            best, estimate = march, apart
            if estimate <= goal or allowed <= LEAST or interrupt.asked:
                break
            # a budget has time for small steps alone
            following = FINER * allowed if hurried else next_allowed(levels, estimate, goal)
            allowed = max(LEAST, following)
        if best is not None and estimate == math.inf and interrupt.asked:
            estimate = _roughly(best)
    if best is None:
        return None
    seconds = time.perf_counter() - start
    compiling = min(evolution.compiling, seconds)
    timing = Timing(compiling, seconds - compiling, sum(level.newton for level in levels))
    found = _solution(problem, best, levels, estimate, timing)
    words = words_of_end(problem, best, interrupt) + _advice(levels, estimate, tolerance)
    return found.with_outcome(advice=tuple(words))


def _roughly(march: March) -> float:
    """How far a march may be off that was stopped, by one that is coarser; infinite where that
    takes too long."""
    how, end = march.precision, march.slabs[-1].end
    space = march.evolution.axis is not None
    rough = March(march.evolution, _precision(space, ROUGH * how.tolerance, 1, 10**4))
    began = time.perf_counter()
    rough.run(lambda t: t >= end or time.perf_counter() - began > ROUGH_SECONDS)
    whole = bool(rough.slabs) and rough.slabs[-1].end >= end
    return max(CAREFUL * _apart(rough, march), ROUNDED) if whole else math.inf


def _tell(context: Context, number: int, level: SlabLevel) -> None:
    elements = f", up to {level.elements} elements" if level.elements > 1 else ""
    context.tell_level(f"march {number + 1}: {level.slabs} slabs of time{elements}", level.estimate)


def _precision(space: bool, allowed: float, number: int, most: int) -> Precision:
    if not space:
        return Precision(allowed, 12, 1, 1, slabs=most)
    elements = ELEMENTS[number % len(ELEMENTS)]
    return Precision(allowed, 7 + number % 3, 8 + number % 3, elements, slabs=most)


def _level(march: March, estimate: float, seconds: float) -> SlabLevel:
    slabs = march.slabs
    return SlabLevel(
        march.precision.tolerance,
        len(slabs),
        max(len(s.edges) - 1 for s in slabs),
        sum(s.newton for s in slabs),
        estimate,
        seconds,
    )


def _apart(coarse: March, fine: March) -> float:
    """The relative L2 difference of two marches as far as both went, of the worst field."""
    end = min(coarse.slabs[-1].end, fine.slabs[-1].end)
    fields = range(len(fine.slabs[0].modes))
    apart, size = np.zeros(len(fields)), np.zeros(len(fields))
    starts = np.array([s.start for s in coarse.slabs])
    for slab in fine.slabs:
        if slab.start >= end:
            break
        number = slab.modes[0].shape[1]
        unit, weights = legendre.leggauss(number)
        times = (slab.start + slab.end) / 2 + slab.length / 2 * unit
        ours = slab.at_times(times)
        owner = np.searchsorted(starts, times, side="right") - 1
        middle, half = (slab.edges[1:] + slab.edges[:-1]) / 2, np.diff(slab.edges) / 2
        for o in np.unique(owner):
            here = owner == o
            theirs = coarse.slabs[o].at_times(times[here])
            for c in fields:
                points, share = legendre.leggauss(ours[c].shape[-1] + 1)
                basis = legendre.legvander(points, ours[c].shape[-1] - 1)
                u = ours[c][:, here] @ basis.T
                x = middle[:, None] + half[:, None] * points
                v = _at(coarse.slabs[o].edges, theirs[c], x)
                weigh = np.einsum("e,t,p->etp", half, weights[here] * slab.length, share)
                apart[c] += np.sum(weigh * (u - v) ** 2)
                size[c] += np.sum(weigh * u**2)
    found = np.sqrt(apart / np.maximum(size, 1e-300))
    return float(found.max()) if np.all(np.isfinite(found)) else math.inf


def _at(edges: np.ndarray, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (rows, instants, points) of (elements, instants, functions) at (rows, points)."""
    e = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    unit = 2 * (x - edges[e]) / (edges[e + 1] - edges[e]) - 1
    basis = legendre.legvander(unit, coefficients.shape[-1] - 1)
    return np.einsum("rpf,rptf->rtp", basis, coefficients[e])


# --- as a solution ---------------------------------------------------------------------------


def _solution(
    problem: Problem,
    march: March,
    levels: Sequence[SlabLevel],
    estimate: float,
    timing: Timing,
) -> Solution:
    slabs, cut = march.slabs, min(max(CUT * estimate, 1e-14), 1e-10)
    if march.evolution.axis is not None:
        windows = _windows(march.evolution.axis, slabs, cut)
    else:
        edges = {TIME: np.array([slabs[0].start, *(s.end for s in slabs)])}
        fields = [
            np.stack([s.modes[c][0, :, 0] for s in slabs]) for c in range(len(slabs[0].modes))
        ]
        windows = [compressed(edges, fields, cut)]
    stopped = slabs[-1].end < problem.box[TIME][1]
    return piecewise_solution(problem, windows, timing, estimate, levels, stopped)


def _advice(levels: Sequence[SlabLevel], estimate: float, tolerance: float) -> list[str]:
    words = []
    if tolerance < estimate < math.inf:
        words.append(
            f"the error is estimated to be {estimate:.0e}, not below the tolerance of"
            f" {tolerance:g}: that is by how much solutions with {levels[-1].slabs} and"
            f" {levels[max(0, len(levels) - 2)].slabs} slabs of time differ"
        )
        words.append(
            "rounding is the limit: a march that is finer does not come closer; ask for less"
            if levels[-1].allowed <= LEAST_USEFUL
            else "small differences may grow that much on the way: a shorter interval of time would"
            " help"
        )
    return words


def _windows(axis: str, slabs: Sequence[Slab], cut: float) -> list[Products]:
    """Slabs as windows of few sums of products, of few products each."""
    half = len(slabs) // 2
    if half and sum(s.modes[0].shape[1] for s in slabs) > MOST_ROWS:
        return _windows(axis, slabs[:half], cut) + _windows(axis, slabs[half:], cut)
    times = np.array([slabs[0].start, *(s.end for s in slabs)])
    edges = np.unique(np.concatenate([s.edges for s in slabs]))
    fields = []
    for c in range(len(slabs[0].modes)):
        each = np.stack([restricted(s.edges, edges, s.modes[c]) for s in slabs])
        fields.append(np.moveaxis(each, 1, 2))
    found = compressed({TIME: times, axis: edges}, fields, cut)
    if half and found.factors[0].shape[-1] > MOST_RANK:
        return _windows(axis, slabs[:half], cut) + _windows(axis, slabs[half:], cut)
    return [found]
