"""What a solve says about itself in words: what stands between it and the truth, and what would
help."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..core import listed, say, tuning
from ..equations import (
    CLEARLY,
    Problem,
    disagreements,
    gauge_freedom,
    missing_starts,
    of_few_digits,
)
from ..recipe import Recipe, as_code
from ..solution import Ensemble, Solution
from ..training import Interrupt
from .polynomials.estimate import estimated
from .polynomials.levels import Level, coefficients_of, points_for

SAME = 0.9  # of what was missed on the level before: not clearly less
SEEN = 3  # levels, before a rate is made of them
ROUNDING = 1e-11  # of the residual: what float64 leaves where second derivatives are taken
AWAY = 1e3  # times its guess: an unknown that ran away
ENOUGH = 1e-4  # of a solution that the last functions of an axis still change: they suffice


def advised(found: Solution, sentences: Sequence[str]) -> Solution:
    """The solution with advice, which is said, too."""
    for sentence in sentences:
        say(f"{found.problem.name}: {sentence}")
    return found.with_outcome(advice=tuple(sentences))


def stopped(
    found: Solution | Ensemble,
    interrupt: Interrupt,
    where: str,
    all_of_it: str = "",
    goes_on: bool = True,
) -> Any:
    """A solution, or those of several seeds, of a run that was stopped, with the advice that says
    so.

    Arguments:
        found: the best so far.
        interrupt: that stopped it.
        where: how far the run came, in words; "" for the start, before any step.
        all_of_it: how long the whole run takes, in words; "" where nobody knows.
        goes_on: whether a run like this one can be gone on with.
    """
    first, *others = found.solutions
    again = ""
    if goes_on:
        again = ". With a folder, out='runs/mine', it could go on from there: resume=True"
        if first.run_dir is not None:
            again = ". The same call with resume=True goes on from there"
    sentence = of_stop(interrupt, where, all_of_it) + (again if where else "")
    first = advised(first, [sentence, *first.advice])
    if not isinstance(found, Ensemble):
        return first
    others = [one.with_outcome(advice=(sentence, *one.advice)) for one in others]
    return Ensemble([first, *others], found.record)


def advise(found: Solution) -> Solution:
    """Adds advice to what a recipe solved for: where much of the residual is left, or the start is
    not given whole.

    Arguments:
        found: a solution whose coefficients were solved for.
    """
    problem = found.problem
    level = estimated(found) if _may_be_far_off(found) else None
    words: list[str] = []
    if level is not None and level.left > CLEARLY:
        words = of_solve(problem, level, found.recipe)
    if not (words and level and level.family) and (unsaid := of_start(problem)):
        words.insert(0, unsaid)
    return advised(found, words)


def _may_be_far_off(found: Solution) -> bool:
    # what a random start leaves is more than what u = 0 does, as a rule: no need to look closer
    if len(found.history.total) and found.best_loss < (CLEARLY / 100) ** 2 * found.history.total[0]:
        return False
    return coefficients_of(found.problem, found.recipe) <= tuning.CHECKED_SOLVE


# --- whether more levels would help -------------------------------------------------------------


def contradicted(problem: Problem, levels: Sequence[Level]) -> bool:
    """Whether conditions contradict each other.

    They are clearly missed, and by as much as on the level before, though functions suffice:
    nothing meets all of them. Where functions do not suffice yet, or less is left of the residual
    as a whole, more are wanted: what a solve cannot follow makes it miss its conditions, too."""
    if len(levels) < 2 or levels[-1].left <= SAME * levels[-2].left:
        return False
    now = unmet(problem, levels[-1])
    before = levels[-2].missed
    same = bool(now) and all(missed > SAME * before[name] for name, missed in now.items())
    return same and (max(levels[-1].tails.values()) < ENOUGH or bool(disagreements(problem)))


def hopeless(problem: Problem, levels: Sequence[Level], tolerance: float, more: int) -> bool:
    """Whether `more` levels will not do either.

    Conditions jump where faces meet, or contradict each other everywhere; only rounding is left; or
    at the rate so far the tolerance is out of reach.
    """
    last = levels[-1]
    jumps = unmet(problem, last) and any(d.jump for d in disagreements(problem))
    if jumps or contradicted(problem, levels):
        return True
    if len(levels) > 1 and last.left < ROUNDING and last.left > levels[-2].left / 2:
        return True
    if len(levels) < SEEN:
        return False
    rate = min(1.0, math.sqrt(last.estimate / levels[-3].estimate))
    return last.estimate * rate**more > tolerance


def unmet(problem: Problem, level: Level) -> dict[str, float]:
    """The conditions that are clearly missed, and how far. Measurements are no conditions: noise is
    always missed."""
    measured = _measured(problem)
    return {n: far for n, far in level.missed.items() if far > CLEARLY and n not in measured}


def _measured(problem: Problem) -> set[str]:
    return {term.name for term in problem.terms if term.is_measured}


# --- sentences ----------------------------------------------------------------------------------


def of_levels(
    problem: Problem, levels: Sequence[Level], tolerance: float, recipe: Recipe
) -> list[str]:
    """Why the tolerance is not met, and what would help.

    Arguments:
        problem: that was solved.
        levels: that were tried.
        tolerance: the error that was asked for.
        recipe: of the last level.
    """
    error = f"{levels[-1].estimate:.0e}"
    said = f"the error is estimated to be {error}, not below the tolerance of {tolerance:g}"
    if contradicted(problem, levels):
        said = (
            "no solution meets all conditions: this one misses them least, its error means nothing"
        )
    return [said, *_causes(problem, levels[-1], recipe)]


def of_solve(problem: Problem, level: Level, recipe: Recipe) -> list[str]:
    """Why much is left of the residual after a solve by a recipe, and what would help."""
    if level.family:
        return [of_family(problem, level)]
    left = f"{100 * level.left:.2g} % of the residual is left"
    said = f"{left}, and the error is estimated to be {level.estimate:.0e}"
    return [said, *_causes(problem, level, recipe)]


def of_family(problem: Problem, level: Level) -> str:
    """Why the solution is one of many."""
    number = f"{level.family} dimension{'s' if level.family > 1 else ''}"
    said = f"the conditions leave a family of solutions of {number} at least: this is one of them. "
    if missing := missing_starts(problem):
        return said + ". ".join(missing)
    if level.left > CLEARLY:
        return (
            f"this may be no solution: {100 * level.left:.2g} % of the residual is left, and it can"
            " change in ways that the residual hardly shows. The solve has gone astray, or a"
            " condition is missing. A shorter interval of time helps, or a trained network:"
            " sx.solve(problem, sx.Recipe(), windows=4)"
        )
    return f"{said}A condition is missing; or the solve went astray: try a shorter interval of time"


def of_stop(interrupt: Interrupt, where: str, all_of_it: str) -> str:
    """Why a run was stopped, and how far it came.

    Arguments: as of `stopped`.
    """
    why = "by Ctrl-C" if interrupt.ctrl_c else f"after {interrupt.seconds:g} s, as asked"
    if not where:
        return (
            f"stopped {why}, before the first step: this is the start, and no solution yet."
            " Compiling takes longer than that: give it more, seconds=60"
        )
    more = f". All of it takes about {all_of_it}" if all_of_it else ""
    return f"stopped {why}, {where}: this is the best so far{more}"


def of_start(problem: Problem) -> str | None:
    """What is missing of the start of an equation that goes on in time.

    Its solutions are many then, though too few functions do not show it. Measurements may say what
    the start does not; and along other axes what is missing may be that a solution is finite.
    """
    missing = missing_starts(problem, ("t",))
    if not missing or _measured(problem):
        return None
    said = "the conditions may leave a family of solutions, of which this is one"
    return ". ".join([said, *missing])


def of_gauges(problem: Problem) -> list[str]:
    """Which fields are known up to something, because only their derivatives are asked for."""

    def function_of(axes: Sequence[str]) -> str:
        return f"a function of {', '.join(axes)}" if axes else "a constant"

    return [
        f"{field} is found up to {' and '.join(map(function_of, some))}: the equation and the"
        " conditions have derivatives of it alone. Values would fix it, sx.Data(points, values,"
        f" of={field!r})"
        for field, some in gauge_freedom(problem).items()
    ]


def of_digits(problem: Problem) -> str:
    """Which numbers of a problem were rounded to float32 before it was made."""
    if not (names := of_few_digits(problem)):
        return ""
    return (
        f"numbers in {listed(map(repr, names))} have seven digits (float32), which is in the"
        " estimate. jnp made them before the problem: write np instead of jnp there, or begin with"
        " jax.config.update('jax_enable_x64', True)"
    )


def of_unknowns(
    free: Sequence[str], guesses: Mapping[str, float], values: Mapping[str, float]
) -> list[str]:
    """Which unknown coefficients nothing fixes, and which ran away from their guesses.

    Arguments:
        free: those that nothing fixes where they are.
        guesses, values: what they began and ended with.
    """
    if away := [k for k in free if abs(values[k]) > AWAY * (abs(guesses[k]) or 1.0)]:
        ends = ", ".join(f"{k} from {guesses[k]:g} to {values[k]:.0e}" for k in away)
        return [
            f"{ends} ran away, to where nothing fixes it any more. Other guesses were tried, too;"
            " one that is nearer to the truth helps, or a condition less that contradicts it"
        ]
    if not free:
        return []
    said = f"{free[0]} is fixed by nothing: any value would do"
    if len(free) > 1:
        said = f"{', '.join(free)} are not all fixed: they can change together. Hold one of them"
    return [f"{said}. More measurements may help, sx.Data(points, values)"]


def _causes(problem: Problem, level: Level, recipe: Recipe) -> list[str]:
    """What stands in the way: conditions, measurements, or what the network can follow."""
    found = _of_conditions(problem, level) + _of_data(problem, level)
    return found or [_limit(problem, level, recipe)]


def _of_conditions(problem: Problem, level: Level) -> list[str]:
    missed = unmet(problem, level)
    if not missed:
        return []
    contradictions = disagreements(problem)
    why = (
        "They may contradict each other or the equation, or the solution jumps, bends or has a"
        " layer that polynomials cannot follow"
    )
    if contradictions:
        why = "They contradict each other: " + "; ".join(d.words for d in contradictions)
    named = ", ".join(f"{name!r} by {100 * far:.2g} %" for name, far in missed.items())
    return [f"not all conditions are met: missed are {named} of what is asked for. {why}"]


def _of_data(problem: Problem, level: Level) -> list[str]:
    measured = _measured(problem)
    return [
        f"{name!r} is missed by {100 * far:.2g} % of its size: it has noise of that size, or is of"
        " another equation. What that does to the solution is not in the estimate"
        for name, far in level.missed.items()
        if far > CLEARLY and name in measured
    ]


def _limit(problem: Problem, level: Level, recipe: Recipe) -> str:
    """What the network lacks most, and the recipe that has more of it."""
    if level.left < ROUNDING:
        return "rounding is the limit: float64 can tell no more; ask for a larger tolerance"
    axis = max(level.tails, key=level.tails.__getitem__)
    worst = level.tails[axis]
    several = len(level.functions) > 1  # along one axis there is but one product
    if several and worst < level.products and level.rank < min(level.functions.values()):
        more = _solved_with(problem, recipe, level, level.functions, 2)
        return (
            f"the number of products is the limit: {level.rank} of them are too few, while the"
            f" functions of every axis suffice. More would help: {more}"
        )
    if worst < ENOUGH * level.estimate:
        return (
            "the functions suffice, and still the residual is not small enough: its terms may be of"
            " very different sizes. Units in which axes and fields are of size one help, or"
            " weights, such as sx.Dirichlet(0, weight=1e4)"
        )
    functions = {
        a: 2 * n if level.tails[a] > 0.1 * worst else n for a, n in level.functions.items()
    }
    return (
        f"the functions along {axis} are the limit: the last of {level.functions[axis]} still"
        f" change the solution by {worst:.0e}. Less to follow would help: a shorter interval of"
        " time, or breaks where the solution has a kink. So would more functions:"
        f" {_solved_with(problem, recipe, level, functions, 1)}"
    )


def _solved_with(
    problem: Problem, recipe: Recipe, level: Level, functions: Mapping[str, int], times: int
) -> str:
    """The code of a solve with other functions, and so many times the products."""
    network: Any = recipe.network
    waves = max((functions[axis] // 2 for axis in problem.periodic), default=network.frequencies)
    rank = network.rank
    if isinstance(rank, int):
        rank = times * rank
    elif isinstance(rank[0], tuple):  # by axis: as many columns as functions stay as many
        rank = {a: functions[a] if n >= level.functions[a] else n for a, n in rank}
    larger = dataclasses.replace(network, functions=functions, frequencies=waves, rank=rank)
    needed = points_for(functions)
    points = {axis: max(n, needed[axis]) for axis, n in recipe.counts(problem.box).items()}
    code = as_code(dataclasses.replace(recipe, network=larger, points=points), importing=True)
    return f"sx.solve(problem, {code})"
