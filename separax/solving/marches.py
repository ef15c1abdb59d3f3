"""What marches in slabs of time have in common, however large their slabs are: how fine the next
one is to be, when one stops, and what is said of where it ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..domain import TIME
from ..equations import Problem, disagreements
from ..training import Interrupt, Progress
from .trained import Context

FINER = 0.1  # of the tolerance of the march before
SAFE = 0.5  # of what one more march is to reach
SHARE = 0.4  # of a budget, for the first march: the second goes as far, and tells how good it is
MORE, FEW = 5, 200  # slabs of a finer march: so many times those of the last, and so many besides
GAIN = 0.5  # an estimate that one more march did not bring below this part of the last
CAREFUL = 1.5  # an estimate against what it is made from: where rounding is all, no march is finer
TROUBLE = {
    "stuck": "beyond, the slabs of time become too short: it may blow up there",
    "too many elements": "beyond, it becomes finer than elements can follow",
    "too many slabs": "beyond, there would be too many slabs of time",
}


class AnyMarch(Protocol):
    """A march.

    Attributes:
        end: the time up to which it is done.
        count: the slabs that are done.
        trouble: why it ended before the end, one of `TROUBLE`, if it did.
        precision: how finely it computes, with the `tolerance` of a slab.
    """

    @property
    def end(self) -> float: ...

    @property
    def count(self) -> int: ...

    @property
    def trouble(self) -> str: ...

    @property
    def precision(self) -> Any: ...


def next_allowed(levels: Sequence[Any], estimate: float, goal: float) -> float:
    """What the slabs of the next march may be off. An estimate is the error of the last march but
    one: the last is to be finer than that by no more than is needed to tell.

    Arguments:
        levels: the marches so far, with what their slabs were `allowed` to be off.
        estimate: of the error.
        goal: the estimate to reach.
    """
    last = levels[-1].allowed
    if len(levels) > 1:
        error = estimate * last / levels[-2].allowed
        if error > SAFE * goal:
            return last * min(FINER, SAFE * goal / error)
    return FINER * last


def gave_up(march: AnyMarch, before: AnyMarch) -> bool:
    """Whether a march ended, or was ended, where the coarser one went on."""
    return march.end < before.end and march.trouble != "stuck"


def watching(
    problem: Problem,
    march: AnyMarch,
    turn: tuple[int, int],
    context: Context,
    end: float,
    spare: float,
) -> Callable[[float], bool]:
    """A function that tells how far a march is, and whether it is to stop at a time: at its end,
    when it is asked to, or where no more than the spare seconds are left.

    Arguments:
        problem: that is solved.
        march: the march.
        turn: its number, and how many there are at most.
        context: who is told, and whether to stop.
        end: where it need not go on.
        spare: seconds of a budget that it has to leave.
    """
    (first, last), (number, most) = problem.box[TIME], turn
    began = said = time.perf_counter()

    def stopped(t: float) -> bool:
        nonlocal said
        now = time.perf_counter()
        if now - said > 0.5:
            said = now
            share = (number + (t - first) / (last - first)) / most
            losses, rate = {"total": march.precision.tolerance}, march.count / (now - began)
            place = f"march {number + 1}, {march.count:,} slabs of time, t = {t:.4g} of {last:.4g}"
            context.report(Progress(int(1000 * share), 1000, losses, None, rate, place))
        return context.interrupt.asked or t >= end or context.interrupt.left < spare

    return stopped


def words_of_end(problem: Problem, march: AnyMarch, interrupt: Interrupt) -> list[str]:
    """What contradicts itself at the start, and where and why a march ended before the end.

    Arguments:
        problem: that is solved.
        march: the march.
        interrupt: what may have stopped it.
    """
    words = [
        f"{each.words}: no solution has both, and close to there this one is in between"
        for each in disagreements(problem)
    ]
    first, last = problem.box[TIME]
    if march.end < last and march.trouble:
        words.append(f"solved up to t = {march.end:.6g}; {TROUBLE[march.trouble]}")
    elif march.end < last:
        said = f"solved up to t = {march.end:.6g}, where it was stopped"
        if interrupt.seconds < math.inf:
            parts = (last - first) / (march.end - first)
            more = math.ceil(1.5 * interrupt.seconds * parts)
            said = f"{said}: for all of it give it more, seconds={more}"
        words.append(said)
    return words
