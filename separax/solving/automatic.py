"""What `solve` does without a recipe: one way after the other, until the error is small enough.

    ways that come first ─► polynomials, one level ─► second ways ─► more levels ─► last ways

Every way estimates its error and says in words what stands in its way. The solution with the least
estimate is the one that is returned.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from ..equations import LOST, Problem
from ..solution import Solution, Timing
from .advice import advised, of_digits, of_gauges, stopped
from .large_slabs.way import LargeSlabs
from .many_axes.way import ManyAxes
from .polynomials.way import Polynomials, suit
from .products.way import ProductsInBox
from .slabs.way import Slabs
from .splines.way import SplineWay
from .trained import Context
from .ways import AbstractWay, Turn

TOLERANCE = 1e-4  # relative L2 error, where none is given
POLYNOMIALS, SPLINES = Polynomials.__name__, SplineWay.__name__
FOUND = 0.1  # the estimate of a solution that has been found, if not as exactly as was asked
# those of one turn in this order
WAYS: tuple[AbstractWay, ...] = (ProductsInBox(), ManyAxes(), Slabs(), LargeSlabs(), SplineWay())


def is_solvable_directly(problem: Problem) -> bool:
    """Whether a problem can be solved without training a network."""
    return suit(problem) or any(way.suits(problem) for way in WAYS)


def automatic(problem: Problem, tolerance: float, seed: int, context: Context) -> Solution | None:
    """Solves a problem without a recipe.

    Arguments:
        problem: to be solved.
        tolerance: the relative L2 error that is good enough.
        seed: of the random numbers.
        context: the folder, who is told, and whether to stop.

    Returns:
        The best solution by its `estimate`, with the `levels` of the way that found it, and
        `advice` where the estimate is not below the tolerance; None where no way found any.
    """
    spent: list[Timing] = []
    latest: dict[str, Solution] = {}  # a way that goes on knows better than it did before
    for name, found in _tried(problem, tolerance, seed, context):
        spent.append(found.timing)
        latest[name] = found
        is_one_of_many = any(getattr(level, "family", 0) for level in found.levels[-1:])
        sure = is_one_of_many and name != POLYNOMIALS
        # what is known to be rough, polynomials come no closer to
        sure |= name == SPLINES and POLYNOMIALS not in latest and _estimate(found) < FOUND
        if _estimate(found) <= tolerance or sure or context.interrupt.asked:
            break
    if not latest:
        return None
    # of two that know nothing, polynomials say more about it
    known = sorted(latest, key=lambda name: name != POLYNOMIALS)
    way = min(known, key=lambda name: _estimate(latest[name]))
    best = latest[way]
    each = zip(*(dataclasses.astuple(timing) for timing in spent))
    best = best.with_outcome(timing=Timing(*(sum(own) for own in each)))
    if few := of_digits(problem):
        words = (*best.outcome.advice, few)
        best = best.with_outcome(estimate=_estimate(best) + LOST, advice=words)
    interrupt, estimate = context.interrupt, _estimate(best)
    if interrupt.asked and estimate > tolerance:
        error = f"{estimate:.0e}" if estimate < math.inf else "unknown"
        where = (
            f"where the error is estimated to be {error}"
            if best.timing.steps or estimate < math.inf
            else ""
        )
        best = best.with_outcome(interrupted=True)
        return stopped(best, interrupt, where, goes_on=way == POLYNOMIALS)
    return advised(best, [*best.outcome.advice, *of_gauges(problem)])


def _tried(
    problem: Problem, tolerance: float, seed: int, context: Context
) -> Iterator[tuple[str, Solution]]:
    """The name of a way and what it finds, one after the other."""
    levels = Polynomials(problem, tolerance, seed, context) if suit(problem) else None
    others = [way for way in WAYS if way.suits(problem)]
    if levels is not None and levels.resumed:
        others = []

    def of(turn: Turn) -> Iterator[tuple[str, Solution]]:
        for way in others:
            # without polynomials there is nothing to wait for
            if (levels is None and turn == Turn.FIRST) or way.turn(problem) == turn:
                found = way.solve(problem, tolerance, context)
                if found is not None:
                    yield type(way).__name__, found

    yield from of(Turn.FIRST)
    if levels is None:
        return
    yield POLYNOMIALS, levels.go(1)
    yield from of(Turn.SECOND)
    if not levels.over:
        yield POLYNOMIALS, levels.go()
    yield from of(Turn.LAST)


def _estimate(found: Solution) -> float:
    return math.inf if found.estimate is None else found.estimate
