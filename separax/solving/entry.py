"""`solve`: from a problem, with or without a recipe, to a solution."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

from ..core import InputError, finite, in_float64, listed, shown, whole
from ..equations import Problem
from ..recipe import Recipe
from ..residuals import Loss
from ..solution import Ensemble, Solution, make_record
from ..training import Hooks, Interrupt, Session, Trainer, check_memory, clock, device_for
from .advice import advise, stopped
from .automatic import TOLERANCE, automatic, is_solvable_directly
from .marching import march, windows_of_length
from .trained import Asked, Context, Training, keep_or_say


@overload
def solve(
    problem: Problem,
    recipe: Recipe | None = None,
    *,
    tolerance: float | None = None,
    seed: int = 0,
    windows: int = 1,
    window: float | None = None,
    warm: bool = False,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    seconds: float | None = None,
    progress: bool | None = None,
    callback: Any = None,
) -> Solution: ...


@overload
def solve(
    problem: Problem,
    recipe: Recipe | None = None,
    *,
    tolerance: float | None = None,
    seed: Sequence[int],
    windows: int = 1,
    window: float | None = None,
    warm: bool = False,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    seconds: float | None = None,
    progress: bool | None = None,
    callback: Any = None,
) -> Ensemble: ...


@in_float64()
def solve(
    problem: Problem,
    recipe: Recipe | None = None,
    *,
    tolerance: float | None = None,
    seed: int | Sequence[int] = 0,
    windows: int = 1,
    window: float | None = None,
    warm: bool = False,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    seconds: float | None = None,
    progress: bool | None = None,
    callback: Any = None,
) -> Solution | Ensemble:
    """Solves a problem.

    Arguments:
        problem: what to solve.
        recipe: how. Without one, the output layers of a sum of products of polynomials are solved
            for, refined until the estimated error is below `tolerance`; a network is trained where
            that cannot be done.
        tolerance: the relative L2 error that would do, 1e-4 if it is not given; only without a
            recipe, which says itself how far to go.
        seed: of the random numbers; several seeds are trained at once and give an `Ensemble`.
        windows: cut the time axis into so many windows and solve one after the other, each from the
            state the last one ended with: for what changes too much over the whole interval for one
            network. A recipe's steps are those of a window.
        window: the length of a window, instead of their number; it must divide the interval of
            time.
        warm: begin each window with the network of the last one instead of a fresh one.
        out: a folder to keep the run in: settings, state, solution, history and record; `sx.load`
            reads it.
        resume: go on with the run that `out` holds.
        seconds: a budget, compiling included, after which the best solution so far comes back; it
            says in its `advice` how far it came. Zero gives the start.
        progress: show a bar on a terminal and lines elsewhere (None), a line at every tenth of the
            run, too (True), or nothing (False).
        callback: a function, called between launches with step, steps, loss, error and rate; a hook
            (`sx.AbstractHook`) such as `sx.TensorBoard("logs")`; or a list of them.

    Returns:
        The solution; an `Ensemble` of them where there are several seeds.

    Ctrl-C ends a run cleanly: the solution has the best parameters so far, and `interrupted` set. A
    loss that stops being finite raises `Diverged`, which carries the solution too.
    """
    if seconds is not None and finite("solve: seconds", seconds) < 0:
        raise InputError(f"solve: seconds must not be negative, got {seconds!r}: write seconds=60")
    interrupt = Interrupt(None if seconds is None else float(seconds))
    if not isinstance(problem, Problem):
        raise InputError(
            f"solve: problem must be a Problem, got {shown(problem)}: write"
            " sx.solve(sx.Problem(box, residual, conditions))"
        )
    if tolerance is not None and recipe is not None:
        raise InputError(
            "solve: tolerance is for solving without a recipe: leave one of the two out"
        )
    goal = TOLERANCE if tolerance is None else finite("solve: tolerance", tolerance, positive=True)
    if recipe is not None and not isinstance(recipe, Recipe):
        raise InputError(
            f"solve: recipe must be a Recipe, got {shown(recipe)}: write"
            " recipe=sx.Recipe(points=32, steps=10_000)"
        )
    hooks = Hooks(callback)
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise InputError(f"solve: out must be a folder, got {shown(out)}: write out='runs/mine'")
    if resume and out is None:
        raise InputError("solve: resume=True needs a folder: write out='runs/mine', resume=True")
    several = isinstance(seed, Iterable)
    seeds = [whole("seed", s, 0) for s in (seed if isinstance(seed, Iterable) else [seed])]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seed: give one seed or several different ones, got {shown(seed)}")
    windows = whole("windows", windows)
    if window is not None:
        if windows > 1:
            both = f"windows={windows} and window={window!r}"
            raise InputError(f"solve: {both} both say how time is cut: leave one of the two out")
        windows = windows_of_length(problem, window)

    asked = Asked(problem, seeds, several, out, resume, progress, hooks, interrupt)
    alone = recipe is None and not several and windows == 1
    if alone and is_solvable_directly(problem):
        return hooks.end(functools.partial(_refine, asked, goal))
    if tolerance is not None:
        raise InputError(
            "solve: tolerance is for one seed, one window of time and conditions that can be solved"
            " for (no soft Periodic): leave it out, or them"
        )
    why = _why_trained(problem) if alone else ""
    recipe = Recipe() if recipe is None else recipe
    if windows > 1:
        return hooks.end(functools.partial(march, asked, recipe, windows, bool(warm)))
    return hooks.end(functools.partial(_train, asked, recipe, why))


def _train(asked: Asked, recipe: Recipe, why: str = "") -> Solution | Ensemble:
    """`solve` with a recipe; or why there is one where none was asked for."""
    told, kept = asked.settings(recipe)
    trainer = asked.trainer(Loss(asked.problem, recipe))
    check_memory(trainer)
    with device_for(trainer), asked.begun(told, kept) as context:
        if why:
            context.tell(why)
        return _trained(asked, trainer, context, why)


def _trained(
    asked: Asked, trainer: Trainer, context: Context, why: str = ""
) -> Solution | Ensemble:
    recipe = trainer.loss.recipe
    training = Training(trainer, asked.seeds, context)
    training.go()

    def with_words(found: Any) -> Any:
        session, steps = training.session, recipe.total_steps
        solved = recipe.optimisers[-1].solves_all_of(recipe.network)
        if why:
            found = found.with_outcome(advice=(why,))
        if session.step < steps:
            where = f"at step {session.step:,} of {steps:,}" if session.step else ""
            return stopped(found, asked.interrupt, where, _whole(session, steps))
        return advise(found) if solved and isinstance(found, Solution) else found

    return training.finish(with_words)


def _why_trained(problem: Problem) -> str:
    """Why a network is trained though no recipe asks for it, and what would be solved for."""
    coupled = [repr(term.name) for term in problem.terms if term.couples_points]
    if not coupled:
        return (
            f"a network is trained: with {problem.box.dimension} axes no way is known to solve for"
            " its coefficients"
        )
    return (
        f"a network is trained: {listed(coupled)} joins values at different points, for which"
        " nothing can be solved. What is periodic can where it is built in: sx.Periodic(…) without"
        " hard=False"
    )


def _whole(session: Session, steps: int) -> str:
    """How long so many steps take, at the rate of those that were made."""
    if not session.step:
        return ""
    return clock(session.compiling + session.spent * steps / session.step)


def _refine(asked: Asked, tolerance: float) -> Solution:
    """`solve` without a recipe. A run that is resumed goes on with the last level it reached."""
    told, _ = asked.settings(Recipe())
    told |= {
        "recipe": f"automatic, tolerance {tolerance:g}",
        "points": "automatic",
        "steps": "automatic",
        "precision": "float64",
    }
    with asked.begun(told, told) as context:
        found = automatic(asked.problem, tolerance, asked.seeds[0], context)
        if found is None:  # nor is there one to go on with another time
            why = (
                "" if asked.interrupt.asked else "a network is trained: no other way found anything"
            )
            context.tell(why or "stopped before there was a solution")
            trainer = asked.trainer(Loss(asked.problem, Recipe()))
            found = _trained(asked, trainer, dataclasses.replace(context, run=None), why)
            assert isinstance(found, Solution)  # one seed
        if context.run is None:
            return found
        found = found.with_outcome(run_dir=context.run.path)
        return keep_or_say(context.run, found, make_record(found))
