"""What `solve` does without a recipe: sums of products of polynomials, solved for, refined until the error is small enough.

    level ─► Solve ─► how large is the error? is it for want of functions, along which axis, or of products? ─► next level

Every level begins with the solution of the one before (`separax.levels`). The error is estimated from what is left of the residual
(`separax.estimate`). What stands in the way is said in words (`separax.advice`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import data_to_part, part_to_data, say
from ..domain import TIME
from ..equations import CLEARLY, Problem, given_values, is_linear
from ..networks import SeparableNetwork
from ..recipe import EarlyFirst
from ..residuals import Loss, block_sizes
from ..runs import Run, to_data
from ..solution import Solution, Timing
from ..training import Interrupt, Programs, Trainer, TrainState, check_memory, device_for
from .advice import (
    contradicted,
    hopeless,
    lacking,
    of_family,
    of_gauges,
    of_levels,
    of_solve,
    of_start,
    of_unknowns,
)
from .estimate import Estimate, estimated
from .levels import ALL, STEPS, Level, begun, constants, recipe_for, refined
from .slab_solution import solve_in_slabs
from .trained import Training, Window

TOLERANCE = 1e-4
FUNCTIONS = (48, 24, 12, 9, 6, 5, 4)  # per axis to begin with, for one to seven axes
RANKS = (1, ALL, ALL, 6, 6, 6, 6)
MERGES = ("cp", "tucker", "tucker", "cp", "cp", "cp", "cp")  # with four axes a core is large
LEVELS = 6
RATES = (25.0, 8.0, 0.0)  # of `EarlyFirst`, one after the other, where a solve goes astray
FAR = 30.0  # times the tolerance: an error that asks for a larger step, where there are few axes
MOST = (
    6_000,
    6_000,
    60_000,
    *4 * (6_000,),
)  # coefficients: with three axes there is no matrix of them
NEAR = 0.1  # error of a level from which the next one finds its way
LOOKED = 6_000  # coefficients of a recipe: of more, looking takes longer than solving did


def suits(problem: Problem) -> bool:
    """Whether the output layers of a problem can be solved for."""
    return problem.box.dimension <= len(FUNCTIONS) and not any(
        term.couples_points for term in problem.terms
    )


def automatic(
    problem: Problem,
    tolerance: float,
    seed: int,
    run: Run | None,
    report: Callable[..., Any],
    interrupt: Interrupt,
) -> Solution:
    """The solution of the last level, with the `levels`, its `estimate`, and `advice` where that is not below the tolerance."""
    dimension = problem.box.dimension
    functions = dict.fromkeys(problem.box.axes, FUNCTIONS[dimension - 1])
    rank, merge = RANKS[dimension - 1], MERGES[dimension - 1]
    levels, started = _kept(run)
    # a linear equation in two axes is solved on all of them in one step, and more exactly if smooth
    slabs = None
    if started is None and (dimension == 1 or not is_linear(problem)):
        slabs = solve_in_slabs(problem, tolerance, report, interrupt)
        if slabs is not None and (_estimate(slabs) <= tolerance or interrupt.asked):
            return said(slabs)
    if started is not None:  # the last level that is kept, once more from where it ended
        again = levels.pop()
        functions, rank = again.functions, again.rank
    elif dimension == 1 and (values := given_values(problem)) is not None:
        started = constants(problem, recipe_for(problem, functions, rank, merge), values)
    words: list[str] = []
    seen = 0  # levels in a row with a family of solutions
    astray, off = (
        False,
        math.inf,
    )  # whether early times have to count first, as long as the level before is far off
    while True:
        number = len(levels)
        recipe = recipe_for(problem, functions, rank, merge)
        trainer = Trainer(Loss(problem, recipe))
        check_memory(trainer)
        done = number * STEPS

        def told(step: int, steps: int, done: int = done, **now: Any) -> None:
            report(step=done + step, steps=LEVELS * STEPS, **now)

        solve = functools.partial(_solved, trainer, seed, started, told, interrupt)
        state, found, estimate = solve(RATES if astray and off > NEAR else ())
        if not slabs and not levels and estimate.error > tolerance and not interrupt.asked:
            slabs = solve_in_slabs(problem, tolerance, report, interrupt, found.timing)
            if slabs is not None and (_estimate(slabs) <= tolerance or interrupt.asked):
                return said(slabs)
        if (
            estimate.family
            and not astray
            and not lacking(problem)
            and use_early_first(problem)
            and not interrupt.asked
        ):
            astray = True  # and so it stays: a finer level goes the same way
            state, found, estimate = solve(RATES, found.timing)
        off = estimate.grown
        if astray and estimate.grown <= tolerance:
            estimate = (
                estimate.settled
            )  # its conditions are enough, and what is left of the residual too little to matter
        levels.append(_level(found, estimate))
        found = found.with_outcome(levels=tuple(levels), estimate=estimate.error)
        if run is not None:
            _keep(run, found, state, done + int(state.step))
        more = LEVELS - len(levels)
        finer = _finer(problem, levels[-1], tolerance, merge)
        # what a solve that is far off, or has too few functions, does not feel need not be a family of solutions: once more
        seen = seen + 1 if estimate.family else 0
        # and what was astray has conditions enough, but grows from little: on
        told_apart = lacking(problem) or (seen > 1 and not astray)
        if estimate.family and (told_apart or not more or finer is None):
            words.append(of_family(problem, estimate.family, estimate.left))
            break
        if estimate.error <= tolerance or interrupt.asked:
            break
        if (
            not more
            or finer is None
            or (not estimate.family and hopeless(problem, levels, tolerance, more))
        ):
            words += of_levels(problem, levels, tolerance)
            if contradicted(problem, levels):
                found = found.with_outcome(estimate=math.inf)  # there is nothing to be near to
            break
        functions, rank = finer
        started = begun(
            problem, recipe_for(problem, functions, rank, merge), found.model, seed + len(levels)
        )
    if not estimate.family and (unsaid := of_start(problem)):
        words.insert(0, unsaid)
        found = found.with_outcome(estimate=math.inf)  # of one among many it says nothing
    words += [*of_unknowns(estimate.free), *of_gauges(problem)]
    if slabs is not None and _estimate(slabs) < _estimate(found):
        return said(slabs)
    return said(found.with_outcome(advice=tuple(words)))


def _estimate(found: Solution) -> float:
    return math.inf if found.estimate is None else found.estimate


def said(found: Solution) -> Solution:
    """The same, its advice said aloud."""
    for sentence in found.advice:
        say(f"{found.problem.name}: {sentence}")
    return found


def _solved(
    trainer: Trainer,
    seed: int,
    started: Array | None,
    report: Callable[..., Any],
    interrupt: Interrupt,
    rates: Sequence[float],
    before: Timing | None = None,
) -> tuple[TrainState, Solution, Estimate]:
    """A level, solved at once, or with the weights of early times at these rates, one after the other; its times come on top of those `before`."""
    recipe, problem = trainer.loss.recipe, trainer.loss.problem
    if rates:
        early = dataclasses.replace(recipe, weighting=EarlyFirst(rates[0]))
        trainer = Trainer(Loss(problem, early))
    programs = Programs(trainer)
    compiling, spent = (before.compile_seconds, before.train_seconds) if before else (0.0, 0.0)
    with device_for(trainer):
        states = [jnp.asarray(rate, float) for rate in rates] or [None]
        for number, state in enumerate(states):
            window = Window(problem, 0, 0.0, {}, started, state)
            training = Training(programs, [seed], None, interrupt, window)
            session = training.session
            session.compiling, session.spent = compiling, spent
            training.go(
                lambda step, number=number, **now: report(
                    step=(number * STEPS + step) // len(states), **now
                )
            )
            started, compiling, spent = session.state.best, session.compiling, session.spent
            if interrupt.asked:
                break
        found = training.finish()
        assert isinstance(found, Solution)  # one seed
        found = found.with_outcome(recipe=recipe)
        return session.state, found, estimated(found)


def _finer(
    problem: Problem, level: Level, tolerance: float, merge: str
) -> tuple[dict[str, int], int] | None:
    """Functions and rank of the next level; None if it would be too large."""
    far = problem.box.dimension <= 3 and level.estimate > FAR * tolerance
    for growth in (2.0, 1.5) if far else (1.5,):
        functions, rank = refined(problem, level, tolerance, growth)
        if (
            sum(block_sizes(Loss(problem, recipe_for(problem, functions, rank, merge))))
            <= MOST[problem.box.dimension - 1]
        ):
            return functions, rank
    return None


def looked_at(found: Solution) -> Solution:
    """Adds advice: where a solve by a recipe leaves much of the residual, or the start is not given whole, says what it lacks."""
    estimate = estimated(found) if _worth_a_look(found) else None
    words: list[str] = []
    if estimate is not None and estimate.left > CLEARLY:
        words += of_solve(found.problem, _level(found, estimate), estimate.family)
    if not (words and estimate and estimate.family) and (unsaid := of_start(found.problem)):
        words.insert(0, unsaid)
    for sentence in words:
        say(f"{found.problem.name}: {sentence}")
    return found.with_outcome(advice=tuple(words))


def _worth_a_look(found: Solution) -> bool:
    # what a random start leaves is more than what u = 0 does, as a rule: no need to look closer
    if len(found.history.total) and found.best_loss < (CLEARLY / 100) ** 2 * found.history.total[0]:
        return False
    return sum(block_sizes(Loss(found.problem, found.recipe))) <= LOOKED


def _level(found: Solution, estimate: Estimate) -> Level:
    network = found.model.network
    assert isinstance(network, SeparableNetwork)
    return Level(
        {a: axis.inputs for a, axis in zip(found.problem.box.axes, network.axes)},
        max(network.merge.ranks),
        estimate.left,
        estimate.tails,
        estimate.missed,
        estimate.error,
        estimate.products,
        found.timing.compile_seconds + found.timing.train_seconds,
    )


def _keep(run: Run, found: Solution, state: TrainState, step: int) -> None:
    """The levels so far: a run that is resumed goes on with the last of them."""
    about = {"step": step, "levels": part_to_data(found.levels)}
    run.save(about, {"parameters": np.asarray(state.best)}, to_data(found), wait=True)


def _kept(run: Run | None) -> tuple[list[Level], Array | None]:
    """The levels that a run's folder holds, and the parameters of the last one."""
    kept = None if run is None else run.state()
    if kept is None:
        return [], None
    about, arrays = kept
    return list(data_to_part(about["levels"], tuple)), jnp.asarray(arrays["parameters"])


def use_early_first(problem: Problem) -> bool:
    """Whether there is something to go on from in time, and a nonlinear equation to follow: a linear one has one solution however it is weighed."""
    if TIME not in problem.box.axes:
        return False
    sides = {t.sides for t in problem.terms if t.axis == TIME} | {
        g.side for g in problem.given if g.axis == TIME
    }
    return sides == {"-"} and not is_linear(problem)
