"""`solve`: from a problem and a recipe to a solution."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ..core import InputError, finite, in_float64, shown, whole
from ..equations import Problem
from ..recipe import Recipe
from ..residuals import Loss
from ..runs import Run, kept_settings, settings
from ..solution import Ensemble, Solution, make_record
from ..training import Hooks, Interrupt, Programs, Trainer, check_memory, device_for, display
from .automatic import TOLERANCE, automatic, looked_at, suits
from .marching import march, windows_of_length
from .trained import Training, keep_or_say


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
    progress: bool | None = None,
    callback: Any = None,
) -> Solution | Ensemble:
    """Solves a problem.

    Arguments:
        problem: what to solve.
        recipe: how. Without one, the output layers of a sum of products of polynomials are solved for, refined until the estimated error
            is below `tolerance` (see `separax.automatic`); a network is trained where that cannot be done.
        tolerance: the relative L2 error that would do, 1e-4 if it is not given; only without a recipe, which says itself how far to go.
        seed: of the random numbers; several seeds are trained at once and give an `Ensemble`.
        windows: cut the time axis into so many windows and solve one after the other, each from the state the last one ended
            with: for what changes too much over the whole interval for one network. A recipe's steps are those of a window.
        window: the length of a window, instead of their number; it must divide the interval of time.
        warm: begin each window with the network of the last one instead of a fresh one.
        out: a folder to keep the run in: settings, state, solution, history and record; `sx.load` reads it.
        resume: go on with the run that `out` holds.
        progress: show a bar (True), nothing (False), or a bar if there is a terminal (None).
        callback: a function, called between launches with step, steps, loss, error and rate; a hook (`separax.hooks`) such as
            `sx.TensorBoard("logs")`; or a list of them.

    Ctrl-C ends a run cleanly: the solution has the best parameters so far, and `interrupted` set. A loss that stops being
    finite raises `Diverged`, which carries the solution too.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"solve: problem must be a Problem, got {shown(problem)}: write sx.solve(sx.Problem(box, residual, conditions))"
        )
    if tolerance is not None and recipe is not None:
        raise InputError(
            "solve: tolerance is for solving without a recipe, which says itself how far to go: leave one of the two out"
        )
    wanted = (
        TOLERANCE if tolerance is None else finite("solve: tolerance", tolerance, positive=True)
    )
    if recipe is not None and not isinstance(recipe, Recipe):
        raise InputError(
            f"solve: recipe must be a Recipe, got {shown(recipe)}: write recipe=sx.Recipe(points=32, steps=10_000)"
        )
    hooks = Hooks(callback)
    if resume and out is None:
        raise InputError(
            "solve: resume=True needs the folder of the run to go on with: write out='runs/mine', resume=True"
        )
    several = isinstance(seed, Iterable)
    seeds = [whole("seed", s, 0) for s in (seed if isinstance(seed, Iterable) else [seed])]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seed: give one seed or several different ones, got {shown(seed)}")
    if window is not None:
        if whole("windows", windows) > 1:
            raise InputError(
                f"solve: windows={windows} and window={window!r} both say how time is cut: leave one of the two out"
            )
        windows = windows_of_length(problem, window)
    alone = recipe is None and not several and whole("windows", windows) == 1
    if alone and suits(problem):
        return _refine(problem, wanted, seeds[0], out, resume, progress, hooks)
    if tolerance is not None:
        raise InputError(
            "solve: tolerance is for one seed, one window of time and conditions that can be solved for (no soft Periodic): leave it out, or them"
        )
    recipe = Recipe() if recipe is None else recipe
    if whole("windows", windows) > 1:
        marched = (
            problem,
            recipe,
            windows,
            warm,
            seeds if several else seeds[0],
            out,
            resume,
            progress,
            hooks,
        )
        return hooks.ended(lambda: march(*marched))
    with in_float64():
        asked = settings(problem, recipe, seeds)
        kept = kept_settings(asked, recipe) if out is not None else asked
        trainer = Trainer(Loss(problem, recipe), len(seeds) if several else None)
        check_memory(trainer)
        with device_for(trainer), contextlib.ExitStack() as stack:
            run = stack.enter_context(Run(out, kept, resume)) if out is not None else None
            hooks.on_start(asked)
            with display(problem.name, progress) as bar, Interrupt() as interrupt:
                training = Training(Programs(trainer), seeds, run, interrupt)
                training.go(lambda **now: [report(**now) for report in (bar, hooks.on_update)])
            return hooks.ended(
                lambda: training.finish(looked_at if _of_polynomials(recipe) else None)
            )


def _of_polynomials(recipe: Recipe) -> bool:
    """Whether all there is is solved for: no hidden layer was trained."""
    return recipe.optimisers[-1].exhausts(recipe.network)


def _refine(
    problem: Problem,
    tolerance: float,
    seed: int,
    out: str | os.PathLike[str] | None,
    resume: bool,
    progress: bool | None,
    hooks: Hooks,
) -> Solution:
    """`solve` without a recipe. A run that is resumed goes on with the last level that was reached."""
    with in_float64():
        asked = settings(problem, Recipe(), [seed]) | {
            "recipe": f"automatic, tolerance {tolerance:g}",
            "points": "automatic",
            "steps": "automatic",
            "precision": "float64",
        }
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(Run(out, asked, resume)) if out is not None else None
            hooks.on_start(asked)

            def refined() -> Solution:
                with display(problem.name, progress) as bar, Interrupt() as interrupt:
                    told = lambda **now: [report(**now) for report in (bar, hooks.on_update)]  # noqa: E731
                    found = automatic(problem, tolerance, seed, run, told, interrupt)
                if run is None:
                    return found
                found = found.with_outcome(run_dir=run.path)
                return keep_or_say(run, found, make_record(found))

            return hooks.ended(refined)
