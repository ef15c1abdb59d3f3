"""Sums of products of polynomials on the whole box, refined until the error is small enough.

    level ─► Solve ─► how large is the error? ─► more functions, along which axis, or products?
      ▲                                                                    │
      └────────────────────────────────────────────────────────────────────┘

Every level begins with the solution of the one before (`levels.py`). The error is
estimated from what is left of the residual (`estimate.py`). What stands in the way is
said in words (`separax.solving.advice`).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import Diverged, data_to_part, part_to_data
from ...domain import TIME
from ...equations import Problem, given_values, is_linear, missing_starts
from ...recipe import EarlyFirst, Recipe
from ...residuals import Loss
from ...runs import Run, to_data
from ...solution import Solution, Timing
from ...training import Progress, Trainer, TrainState, check_memory, device_for
from ..advice import contradicted, hopeless, of_family, of_levels, of_start, of_unknowns
from ..guesses import better_guess
from ..trained import Context, Training, Window
from .estimate import estimated
from .levels import (
    ALL,
    STEPS,
    Level,
    begun,
    coefficients_of,
    constants,
    recipe_for,
    refined,
    with_unknowns,
)

FUNCTIONS = (48, 24, 12, 9, 6, 5, 4)  # per axis to begin with, for one to seven axes
RANKS = (1, ALL, ALL, 6, 6, 6, 6)
LEVELS = 6
RATES = (25.0, 8.0, 0.0)  # of `EarlyFirst`, one after the other, where a solve goes astray
FAR = 30.0  # times the tolerance: an error that asks for a larger step, where there are few axes
ASTRAY = 1e-3  # of the residual: where unknowns leave more, other guesses are tried
NEAR = 0.1  # error of a level from which the next one finds its way
# coefficients of a level at most: with three axes there is no matrix of them
MOST = (6_000, 6_000, 60_000, 6_000, 6_000, 6_000, 6_000)


def suit(problem: Problem) -> bool:
    """Whether polynomials are for a problem: of few axes, and of terms at single points."""
    few = problem.box.dimension <= len(FUNCTIONS)
    return few and not any(term.couples_points for term in problem.terms)


Done = tuple[Solution, Level, Recipe]  # a level that was solved


class Polynomials:
    """Level after level of polynomials on the whole box.

    Arguments:
        problem: to be solved.
        tolerance: the relative L2 error that is good enough.
        seed: of the random numbers.
        context: the folder, who is told, and whether to stop.

    Attributes:
        resumed: whether it goes on with a level that a folder holds.
        over: whether no more levels are worth while.
    """

    def __init__(self, problem: Problem, tolerance: float, seed: int, context: Context):
        self.problem, self.tolerance, self.seed, self.context = problem, tolerance, seed, context
        dimension = problem.box.dimension
        self.functions = dict.fromkeys(problem.box.axes, FUNCTIONS[dimension - 1])
        self.rank = RANKS[dimension - 1]
        self.levels, self.start = _kept(context.run)
        self.resumed, self.over = self.start is not None, False
        if self.resumed:  # the last level that is kept, once more from where it ended
            again = self.levels.pop()
            self.functions, self.rank = again.functions, again.rank
        elif dimension == 1 and (values := given_values(problem)) is not None:
            recipe = recipe_for(problem, self.functions, self.rank)
            self.start = constants(problem, recipe, values)
        self._last: Done | None = None
        self._families = 0  # levels in a row that had a family of solutions
        self._early_first = False  # a solve went astray: early times count first until it is close
        self._error = math.inf

    def go(self, most: int = LEVELS) -> Solution:
        """The solution after at most so many more levels, with its `estimate` and `advice`.

        Arguments:
            most: levels.
        """
        timings, failed = [Timing(0.0, 0.0, 0)], ""
        for _ in range(most):
            try:
                done = self._next()
            except (Diverged, MemoryError, jax.errors.JaxRuntimeError) as error:
                if self._last is None:
                    raise
                failed, self.over = _of_failure(self.functions, error), True
                break
            timings.append(done[0].timing)
            self._last = last = self._better(done)
            finer = self._finer(last[1])
            if finer is not None and not self._has_time_for(*finer):
                finer = None
            self.over = finer is None
            self._tell(done[1])
            if finer is None:
                break
            self.functions, self.rank = finer
            following = recipe_for(self.problem, self.functions, self.rank)
            self.start = begun(self.problem, following, last[0].model, self.seed + len(self.levels))
        assert self._last is not None  # there is one level at least
        found, level, recipe = self._last
        each = zip(*(dataclasses.astuple(timing) for timing in timings))
        found = found.with_outcome(timing=Timing(*(sum(own) for own in each)))
        found = self._with_advice(found, level, recipe)
        return found.with_outcome(advice=(*found.advice, failed)) if failed else found

    def _better(self, done: Done) -> Done:
        """A level that was stopped on its way may be worse than the one it began with."""
        last = self._last
        if last is None or not self.context.interrupt.asked:
            return done
        return min(last, done, key=lambda each: each[1].estimate)

    def _has_time_for(self, functions: dict[str, int], rank: int) -> bool:
        """Whether a level may begin: its compiling takes as long as that of the last one, its steps
        are longer by the order of a decomposition."""
        assert self._last is not None
        timing, recipe = self._last[0].timing, self._last[2]
        next_recipe = recipe_for(self.problem, functions, rank)
        growth = coefficients_of(self.problem, next_recipe) / coefficients_of(self.problem, recipe)
        step = timing.train_seconds / max(timing.steps, 1)
        longer = growth ** (3 if self.problem.box.dimension <= 2 else 1)
        return self.context.interrupt.allows(timing.compile_seconds + step * longer)

    def _tell(self, level: Level) -> None:
        met = level.estimate <= self.tolerance
        what = "done" if met else "no more levels" if self.over else "going on"
        if self.levels:
            named = _named(len(self.levels), level.functions)
            self.context.tell_level(named, level.estimate, what)

    def _next(self) -> tuple[Solution, Level, Recipe]:
        problem, context, start = self.problem, self.context, self.start
        recipe = recipe_for(problem, self.functions, self.rank)
        done = len(self.levels) * STEPS
        place = _named(1 + len(self.levels), self.functions)
        part = context.part(done, LEVELS * STEPS, place=place)
        rates = RATES if self._early_first and self._error > NEAR else ()
        found, level, state = _solved(problem, recipe, self.seed, start, rates, part)
        astray = level.family and not missing_starts(problem) and use_early_first(problem)
        if astray and not self._early_first and not context.interrupt.asked:
            self._early_first = True  # and so it stays: a finer level goes the same way
            found, level, state = _solved(
                problem, recipe, self.seed, start, RATES, part, found.timing
            )
        if problem.unknowns and not self.levels and level.left > ASTRAY:
            found, level, state = self._guessed_again((found, level, state), recipe, part)
        self._error = level.grown
        if self._early_first and self._error <= self.tolerance:
            # its conditions are enough, and what is left of the residual too little to matter
            level = level.without_family
        if found.timing.steps:
            self.levels.append(level)
        self._families = self._families + 1 if level.family else 0
        found = found.with_outcome(levels=tuple(self.levels), estimate=level.estimate)
        if context.run is not None and found.timing.steps:
            _keep(context.run, found, state, done + int(state.step))
        return found, level, recipe

    def _guessed_again(
        self, done: tuple[Solution, Level, TrainState], recipe: Recipe, part: Context
    ) -> tuple[Solution, Level, TrainState]:
        """The level from better guesses of the unknowns, if that leaves less."""
        guess = better_guess(self.problem, self.context.interrupt)
        if guess is None or self.context.interrupt.asked:
            return done
        values = ", ".join(f"{name} = {value:.3g}" for name, value in guess.items())
        self.context.tell(f"the first guesses leave too much; from others: {values}")
        start = with_unknowns(self.problem, recipe, self.seed, guess)
        again = _solved(self.problem, recipe, self.seed, start, (), part, done[0].timing)
        return min(done, again, key=lambda each: each[0].best_loss)

    def _is_certain(self) -> bool:
        """Whether a family of solutions is one. What a solve that is far off, or has too few
        functions, does not feel need not be: once more. What was astray has conditions enough, but
        grows from little."""
        return bool(missing_starts(self.problem)) or (self._families > 1 and not self._early_first)

    def _finer(self, level: Level) -> tuple[dict[str, int], int] | None:
        """Functions and rank of the next level; None where there is to be none."""
        left = LEVELS - len(self.levels)
        met = level.estimate <= self.tolerance or self.context.interrupt.asked
        if not left or met or (level.family and self._is_certain()):
            return None
        if not level.family and hopeless(self.problem, self.levels, self.tolerance, left):
            return None
        return _finer(self.problem, level, self.tolerance)

    def _with_advice(self, found: Solution, level: Level, recipe: Recipe) -> Solution:
        problem, words = self.problem, list[str]()
        if level.family and (self._is_certain() or self.over):
            words = [of_family(problem, level)]
        elif level.estimate > self.tolerance and not self.context.interrupt.asked:
            words = of_levels(problem, self.levels, self.tolerance, recipe)
            if contradicted(problem, self.levels):
                found = found.with_outcome(estimate=math.inf)  # there is nothing to be near to
        if not level.family and (unsaid := of_start(problem)):
            words.insert(0, unsaid)
            found = found.with_outcome(estimate=math.inf)  # of one among many it says nothing
        # where little is left, an unknown that is far from its guess is one of many
        guesses = problem.unknowns if level.left > ASTRAY else found.unknowns
        unknowns = of_unknowns(level.free, guesses, found.unknowns)
        words += unknowns
        return found.with_outcome(advice=tuple(words))


def _solved(
    problem: Problem,
    recipe: Recipe,
    seed: int,
    start: Array | None,
    rates: Sequence[float],
    context: Context,
    before: Timing | None = None,
) -> tuple[Solution, Level, TrainState]:
    """One level, solved at once, or with the weights of early times at these rates, one after the
    other; its times come on top of those `before`."""
    weighted = recipe
    if rates:
        weighted = dataclasses.replace(recipe, weighting=EarlyFirst(rates[0]))
    trainer = Trainer(Loss(problem, weighted))
    check_memory(trainer)
    compiling, spent = (before.compile_seconds, before.train_seconds) if before else (0.0, 0.0)
    with device_for(trainer):
        weights = [jnp.asarray(rate, float) for rate in rates] or [None]
        for number, weighting in enumerate(weights):
            window = Window(problem, 0, 0.0, {}, start, weighting)

            def report(now: Progress, number: int = number) -> None:
                step = (number * STEPS + now.step) // len(weights)
                context.report(dataclasses.replace(now, step=step))

            part = Context(None, report, context.interrupt)
            training = Training(trainer, [seed], part, window)
            session = training.session
            session.compiling, session.spent = compiling, spent
            training.go()
            start, compiling, spent = session.state.best, session.compiling, session.spent
            if context.interrupt.asked:
                break
        found = training.finish()
        assert isinstance(found, Solution)  # one seed
        found = found.with_outcome(recipe=recipe)
        interrupt = context.interrupt
        if interrupt.asked and not session.step:
            return found, Level.unknown(_functions(recipe)), session.state
        began = time.perf_counter()
        level = estimated(found)
        # the next estimate takes as long: kept for it, of a budget
        interrupt.kept = time.perf_counter() - began
        return found, level, session.state


def _functions(recipe: Recipe) -> dict[str, int]:
    network: Any = recipe.network
    return dict(network.functions)


def _named(number: int, functions: Mapping[str, int]) -> str:
    return f"level {number}: {' × '.join(map(str, functions.values()))} functions"


def _of_failure(functions: Mapping[str, int], error: Exception) -> str:
    """Why a finer level came to nothing."""
    number = " × ".join(map(str, functions.values()))
    why = "needs more memory than there is" if _is_of_memory(error) else f"failed ({error})"
    return f"a finer level, of {number} functions, {why}: this is the one before"


def _is_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def _finer(problem: Problem, level: Level, tolerance: float) -> tuple[dict[str, int], int] | None:
    """Functions and rank of the next level; None if it would be too large."""
    dimension = problem.box.dimension
    far = dimension <= 3 and level.estimate > FAR * tolerance
    for growth in (2.0, 1.5) if far else (1.5,):
        functions, rank = refined(problem, level, tolerance, growth)
        recipe = recipe_for(problem, functions, rank)
        if coefficients_of(problem, recipe) <= MOST[dimension - 1]:
            return functions, rank
    return None


def use_early_first(problem: Problem) -> bool:
    """Whether there is a start to go on from, and a nonlinear equation to follow: a linear one has
    one solution however it is weighed."""
    if TIME not in problem.box.axes:
        return False
    sides = {t.sides for t in problem.terms if t.axis == TIME}
    sides |= {g.side for g in problem.given if g.axis == TIME}
    return sides == {"-"} and not is_linear(problem)


def _keep(run: Run, found: Solution, state: TrainState, step: int) -> None:
    """Keeps the levels so far: a run that is resumed goes on with the last of them."""
    about = {"step": step, "levels": part_to_data(found.levels)}
    run.save(about, {"parameters": np.asarray(state.best)}, to_data(found), wait=True)


def _kept(run: Run | None) -> tuple[list[Level], Array | None]:
    """The levels that a run's folder holds, and the parameters of the last one."""
    kept = None if run is None else run.state()
    if kept is None:
        return [], None
    about, arrays = kept
    return list(data_to_part(about["levels"], tuple)), jnp.asarray(arrays["parameters"])
