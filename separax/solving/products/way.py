"""Problems for one field in a box of two to five axes by all products of many functions: linear
equations with coefficients of one axis directly, others by Newton's method after these.

    level ─► tails, difference to the level before ─► more functions along the axes that miss some

A level is `level.py`. The estimate is by how much two levels differ, the last of
them with more functions than tails say are needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core import threads_for
from ...equations import Problem, is_linear
from ...solution import Solution, Timing
from ...training import Progress
from ..pieces import compressed, piecewise_solution
from ..slabs.evolution import evolution_of
from ..trained import Context
from ..ways import AbstractWay, Turn
from .face_conditions import BoxProblem, box_problem
from .level import Astray, BoxLevel, Solved

FIRST = {2: 24, 3: 14, 4: 10, 5: 8}  # functions of an axis to begin with, by the number of axes
MOST = {2: 1_500_000, 3: 1_000_000, 4: 1_000_000, 5: 1_000_000}  # products of a level
LEVELS = 14
AIM = 1e-13  # the tails that are small enough
BESIDE = 0.03  # of the largest tail: less than this may be due to that
ROUGH = 1e-9  # and those that may be rounding, where they do not fall any more
PATIENCE = 12.0  # seconds that a level may take, as far as one can tell from the last one
COMFORT = 6.0  # and where the tolerance is met already
SAFE = 2.0  # an estimate against the difference of two levels
ROUNDED = 1e-14  # of a solution; of the slopes of what is given as many times more as functions²
CHECKED = 2048  # scattered points on which the residual is looked at
MISSED = 30.0  # times what is left on the lattice: left elsewhere, it says that something is missed
SEEN = 1e-6  # of the residual's parts: less than this is not looked at
CUT = 1e-15


@dataclass(frozen=True)
class ProductsLevel:
    """One level of a solve by all products.

    Attributes:
        functions: of every axis.
        tails: by axis, the share of the last of its functions.
        estimate: of the relative L2 error.
        seconds: that it took.
        family: the dimensions of a family of solutions; 0: there is none.
    """

    functions: dict[str, int]
    tails: dict[str, float]
    estimate: float
    seconds: float
    family: int = 0


class ProductsInBox(AbstractWay):
    """All products of many functions of the axes of a box."""

    def suits(self, problem: Problem) -> bool:
        return problem.box.dimension in FIRST and box_problem(problem) is not None

    def turn(self, problem: Problem) -> Turn:
        # what evolves along one more axis may have fronts, for which slabs of time are better
        fronts = not is_linear(problem) and evolution_of(problem) is not None
        return Turn.SECOND if fronts else Turn.FIRST

    def solve(self, problem: Problem, tolerance: float, context: Context) -> Solution | None:
        box = box_problem(problem)
        assert box is not None
        with threads_for(1), np.errstate(all="ignore"):
            return _refined(box, tolerance, context)


def _refined(box: BoxProblem, tolerance: float, context: Context) -> Solution | None:
    problem, began = box.problem, time.perf_counter()
    dimension, axes = problem.box.dimension, problem.box.axes
    numbers = [FIRST[dimension]] * dimension
    levels: list[ProductsLevel] = []
    best: tuple[Solved, float] | None = None
    before: np.ndarray | None = None  # the normalised series of the level before
    start: np.ndarray | None = None
    steps, failed = 0, 0
    linear = is_linear(problem)
    while len(levels) + failed < LEVELS:
        started = time.perf_counter()
        level = BoxLevel(box, tuple(numbers))
        try:
            begun = None if linear or start is None else _fitted(start, numbers)
            found = level.solved(begun, PATIENCE)
        except (Astray, np.linalg.LinAlgError, FloatingPointError):
            failed += 1
            if failed > 2 or linear or levels:
                break
            numbers = [math.ceil(1.5 * n) for n in numbers]
            continue
        steps += found.steps
        series = level.size(found.series)
        tails = _tails(series)
        size = max(float(np.linalg.norm(series)), 1e-300)
        apart = math.inf if before is None else _apart(before, series) / size
        if _misses(level, found):
            apart = math.inf
        rounded = _rounded(box, level)
        estimate = max(SAFE * apart, rounded)
        seconds = time.perf_counter() - started
        levels.append(
            ProductsLevel(
                dict(zip(axes, numbers)),
                dict(zip(axes, tails)),
                math.inf if found.family else estimate,
                seconds,
                found.family,
            )
        )
        _report(context, estimate, len(levels))
        functions = " × ".join(map(str, numbers))
        context.tell_level(f"level {len(levels)}: {functions} functions", levels[-1].estimate)
        grew = best is not None and estimate > 0.5 * best[1]
        if best is None or estimate <= best[1] or not grew:
            best = found, estimate
        before, start = series, found.core
        resolved = max(tails) <= AIM and estimate < math.inf
        if context.interrupt.asked or (resolved and (estimate <= max(100 * AIM, rounded) or grew)):
            break
        more = _finer(numbers, tails, apart)
        spare = MOST[dimension], (COMFORT if estimate <= tolerance else PATIENCE)
        if _is_too_much(numbers, more, seconds - box.compiling * (len(levels) < 2), *spare):
            if estimate < math.inf:
                break
            # a few more functions show what this level is worth
            more = [n + 1 for n in numbers]
            if _is_too_much(numbers, more, seconds, 2 * spare[0], 2 * spare[1]):
                break
        numbers = more
    if best is None or best[1] == math.inf:
        return None
    solved, estimate = best
    family = levels[-1].family
    shape = [k for n in solved.series.shape for k in (1, n)]
    edges = {a: np.array(problem.box[a], float) for a in axes}
    products = compressed(edges, [solved.series.reshape(shape)], CUT)
    seconds = time.perf_counter() - began
    timing = Timing(min(box.compiling, seconds), max(seconds - box.compiling, 0.0), steps)
    estimate = math.inf if family else estimate
    made = piecewise_solution(problem, [products], timing, estimate, levels)
    words = _advice(problem, levels, estimate, tolerance)
    return made.with_outcome(advice=words, interrupted=context.interrupt.asked)


def _fitted(core: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    """Coefficients for more functions."""
    return np.pad(core, [(0, n - k) for n, k in zip(numbers, core.shape)])


def _is_too_much(
    numbers: Sequence[int], more: Sequence[int], seconds: float, most: int, allowed: float
) -> bool:
    """Whether a level has too many functions, or takes too long as far as the last one tells."""
    growth = math.prod(b / a for a, b in zip(numbers, more)) ** (1 + 1 / len(numbers))
    return math.prod(more) > most or seconds * growth > allowed


def _rounded(box: BoxProblem, level: BoxLevel) -> float:
    """What rounding may leave: of series as given on the faces it grows with their derivatives."""
    worst = 1.0
    for line, own in zip(level.lines, box.conditions.values()):
        highest = max((k for c in own for _, k in c.functional), default=0)
        worst = max(worst, 4 * float(line.degrees) ** (2 * highest)) if highest else worst
    # eigenvalues of the inverse operators are as exact as the largest of them
    fast = 0.01 * max(level.numbers) ** 2
    return ROUNDED * max(worst if level.lift is not None else 1.0, fast)


def _tails(series: np.ndarray) -> list[float]:
    """By axis, the share of the last of its functions; nothing where that is rounding, which is as
    large in those before."""
    squares, found = series**2, []
    for i in range(series.ndim):
        each = squares.sum(tuple(j for j in range(series.ndim) if j != i))
        last = max(2, len(each) // 8)
        tail, ahead = each[-last:].sum(), each[-2 * last : -last].sum()
        share = float(np.sqrt(tail / max(each.sum(), 1e-300)))
        found.append(0.0 if share <= ROUGH and tail > 0.1 * ahead else share)
    return found


def _apart(before: np.ndarray, now: np.ndarray) -> float:
    """The L2 difference of two series."""
    wide = [max(a, b) for a, b in zip(before.shape, now.shape)]
    one, other = (
        np.pad(each, [(0, n - k) for n, k in zip(wide, each.shape)]) for each in (before, now)
    )
    return float(np.linalg.norm(one - other))


def _finer(numbers: Sequence[int], tails: Sequence[float], apart: float) -> list[int]:
    """The functions of the next level: more where a tail is large, by how large it is; a few more
    of all where none is, so that two levels can be compared."""
    if max(tails) <= AIM and apart < math.inf:
        return [math.ceil(1.25 * n) + 2 for n in numbers]
    if max(tails) <= AIM:
        return [math.ceil(1.15 * n) + 2 for n in numbers]
    made = []
    for n, tail in zip(numbers, tails):
        factor = 2.0 if tail > 1e-2 else 1.5 if tail > 1e-7 else 1.25
        # what one axis misses is seen along the others, too
        small = tail <= max(AIM, BESIDE * max(tails))
        made.append(n if small else math.ceil(factor * n) + 2)
    return made


def _misses(level: BoxLevel, found: Solved) -> bool:
    """Whether the residual between the points of the lattice says that something lies there."""
    draw = np.random.default_rng(len(level.lines))
    units = [draw.uniform(-1, 1, CHECKED) for _ in level.lines]
    points = np.stack([line.scaled(unit) for line, unit in zip(level.lines, units)])

    def left(units: Sequence[np.ndarray] | None, coordinates: np.ndarray) -> float:
        table = level.table(found.core, True, units)
        residual, slopes = level.box.linearised(table, coordinates)
        parts = slopes * table
        size = np.sum(parts**2) + np.sum((residual - parts.sum(0)) ** 2)
        return math.sqrt(float(np.sum(residual**2) / max(float(size), 1e-300)))

    between = left(units, points)
    return between > SEEN and between > MISSED * left(None, level.coordinates)


def _report(context: Context, estimate: float, number: int) -> None:
    context.report(Progress(number, LEVELS, {"total": min(estimate, 1.0)}, None, 1.0))


def _advice(
    problem: Problem, levels: Sequence[ProductsLevel], estimate: float, tolerance: float
) -> tuple[str, ...]:
    last = levels[-1]
    if last.family:
        return (
            f"the conditions leave a family of solutions of {last.family}"
            f" dimension{'s' if last.family > 1 else ''}, as at a resonance: this is the smallest"
            " of them. Change the equation's coefficients a little, or add a condition",
        )
    if estimate <= tolerance:
        return ()
    counts = ", ".join(f"{n} along {a}" for a, n in last.functions.items())
    return (
        f"the error is estimated to be {estimate:.0e}, not below the tolerance of {tolerance:g}:"
        f" that is by how much the last two of {len(levels)} levels differ, with {counts} functions"
        " at the end",
    )
