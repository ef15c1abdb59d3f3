"""What a solve says about itself in words: what stands between it and the truth, and what would help."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..equations import CLEARLY, Problem, disagreements, gauge_freedom, missing_starts
from .levels import Level

SAME = 0.9  # of what a condition was missed by on the level before: not less, as far as more functions go
SEEN = 3  # levels, before a rate is made of them
ROUNDING = 1e-11  # of the residual: what float64 leaves where second derivatives are taken
ENOUGH = 1e-4  # of a solution that the last functions of an axis still change: they suffice


def contradicted(problem: Problem, levels: Sequence[Level]) -> bool:
    """Whether conditions are clearly missed, and by as much as on the level before, though functions suffice: nothing meets all of them.
    Where they do not suffice yet, or less is left of the residual as a whole, more are wanted: what a solve cannot follow makes it
    miss its conditions, too."""
    if len(levels) < 2 or levels[-1].left <= SAME * levels[-2].left:
        return False
    now = unmet(problem, levels[-1])
    same = bool(now) and all(
        missed > SAME * levels[-2].missed[name] for name, missed in now.items()
    )
    return same and (max(levels[-1].tails.values()) < ENOUGH or bool(disagreements(problem)))


def hopeless(problem: Problem, levels: Sequence[Level], tolerance: float, more: int) -> bool:
    """Whether `more` levels will not do either: conditions jump where faces meet, or contradict each other everywhere; only rounding is
    left; or at the rate so far the tolerance is out of reach."""
    last = levels[-1]
    if contradicted(problem, levels) or (
        unmet(problem, last) and any(d.jump for d in disagreements(problem))
    ):
        return True
    if len(levels) > 1 and last.left < ROUNDING and last.left > levels[-2].left / 2:
        return True
    if len(levels) < SEEN:
        return False
    rate = min(1.0, math.sqrt(last.estimate / levels[-3].estimate))
    return last.estimate * rate**more > tolerance


def unmet(problem: Problem, level: Level) -> dict[str, float]:
    """The conditions that are clearly missed, and how far. Measurements are no conditions: noise is always missed."""
    return {
        name: missed
        for name, missed in level.missed.items()
        if missed > CLEARLY and name not in _measured(problem)
    }


def _measured(problem: Problem) -> set[str]:
    return {term.name for term in problem.terms if term.is_measured}


def of_data(problem: Problem, level: Level) -> list[str]:
    """Of measurements that a solution is not near to."""
    return [
        f"{name!r} is missed by {100 * missed:.2g} % of its size: it has noise of that size, or is of another equation. What that does to"
        " the solution is not in the estimate"
        for name, missed in level.missed.items()
        if missed > CLEARLY and name in _measured(problem)
    ]


def lacking(problem: Problem) -> bool:
    """Whether the conditions are fewer than the derivatives ask for: a family of solutions is then no surprise."""
    return bool(missing_starts(problem))


def of_family(problem: Problem, dimensions: int, left: float = 0.0) -> str:
    said = (
        f"the conditions leave a family of solutions of {dimensions} dimension{'s' * (dimensions > 1)} at least (as far as these"
        " functions can tell): this is one of them. "
    )
    if missing := missing_starts(problem):
        return said + ". ".join(missing)
    if left > CLEARLY:
        return (
            f"this may be no solution: {100 * left:.2g} % of the residual is left, and there are changes of it that would hardly be felt. The solve"
            " has gone astray, or a condition is missing. A shorter interval of time helps (windows=…), or a network: sx.Recipe()"
        )
    return (
        said
        + "An initial or boundary condition is missing; or the solve has gone astray, which a shorter interval of time would tell"
    )


def of_gauges(problem: Problem) -> list[str]:
    """Of fields whose values nothing asks for."""
    return [
        f"{field} is found up to {' and '.join(map(_function_of, some))}: of it the equation and the conditions have derivatives alone."
        f" Values would fix it, sx.Data(points, values, of={field!r})"
        for field, some in gauge_freedom(problem).items()
    ]


def of_unknowns(free: Sequence[str]) -> list[str]:
    """Of unknown coefficients that nothing fixes."""
    if not free:
        return []
    if len(free) == 1:
        return [
            f"{free[0]} is fixed by nothing: any value would do. More measurements would fix it, where the fields feel it, sx.Data(points, values)"
        ]
    return [
        f"{', '.join(free)} are not all fixed: they can change together and nothing is felt of it. Hold one of them, or measure more, sx.Data(points, values)"
    ]


def _function_of(axes: Sequence[str]) -> str:
    return f"a function of {', '.join(axes)}" if axes else "a constant"


def of_start(problem: Problem) -> str | None:
    """Of an equation that goes on from a start that is not given whole: its solutions are many, though too few functions tell them apart.
    Measurements may say what the start does not; and along other axes what is missing may be that a solution is finite."""
    if any(t.is_measured for t in problem.terms) or not (
        missing := missing_starts(problem, ("t",))
    ):
        return None
    return f"the conditions may leave a family of solutions, of which this is one. {'. '.join(missing)}"


def of_levels(problem: Problem, levels: Sequence[Level], tolerance: float) -> list[str]:
    """Why the tolerance is not met, and what would help."""
    last = levels[-1]
    said = f"the error is estimated to be {last.estimate:.0e}, not below the tolerance of {tolerance:g}"
    if contradicted(problem, levels):
        said = "no solution was found that meets all conditions: this one misses them least, and the error has no meaning"
    noise = of_data(problem, last)
    conditions = of_conditions(problem, last)
    return [
        said,
        *([conditions] if conditions else []),
        *noise,
        *([] if conditions or noise else [limit(last)]),
    ]


def of_solve(problem: Problem, level: Level, family: int) -> tuple[str, ...]:
    """The same of a solve by a recipe, which has no tolerance."""
    if family:
        return (of_family(problem, family, level.left),)
    said = f"{100 * level.left:.2g} % of the residual is left, and an estimated error of {level.estimate:.0e}"
    return said, *(of_data(problem, level) or [of_conditions(problem, level) or limit(level)])


def of_conditions(problem: Problem, level: Level) -> str | None:
    if not (now := unmet(problem, level)):
        return None
    contradictions = disagreements(problem)
    why = (
        "They contradict each other: " + "; ".join(d.words for d in contradictions)
        if contradictions
        else "They may contradict each other or the equation, or the solution jumps, bends or has a layer that polynomials cannot follow"
    )
    named = ", ".join(f"{name!r} by {100 * missed:.2g} %" for name, missed in now.items())
    return f"not all conditions are met: missed are {named} of what is asked for. {why}"


def limit(level: Level) -> str:
    """What a solution lacks most, and what to write."""
    if level.left < ROUNDING:
        return "rounding is the limit: what is left of the residual is all that float64 can tell; ask for less"
    worst = max(level.tails, key=level.tails.__getitem__)
    several = len(level.functions) > 1  # along one axis there is but one product
    if (
        several
        and level.tails[worst] < level.products
        and level.rank < min(level.functions.values())
    ):
        return (
            f"the number of products is the limit: {level.rank} of them are too few, while the functions of every axis suffice."
            f" More would help: SPINN(rank={2 * level.rank}, …)"
        )
    if level.tails[worst] < ENOUGH * level.estimate:
        return (
            "the functions suffice, and still the residual is not small enough: its terms may be of very different sizes. Units in which axes and"
            " fields are of size one help, or weights: sx.Dirichlet(…, weight=1e4)"
        )
    functions = {
        a: 2 * n if level.tails[a] > 0.1 * level.tails[worst] else n
        for a, n in level.functions.items()
    }
    return (
        f"the functions along {worst} are the limit: the last of {level.functions[worst]} still change the solution by"
        f" {level.tails[worst]:.0e}. More would help, SPINN(functions={functions}, …), or less to follow: a shorter interval of time"
        " (windows=…), breaks where it has a kink"
    )
