"""`solve`: from a problem and a recipe to a solution."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from .errors import InputError, whole
from .hooks import Hooks
from .loss import Loss
from .marching import march
from .problem import Problem
from .progress import display
from .recipe import Recipe
from .runs import Run, settings
from .session import Interrupt, Programs, Session, check_memory
from .solution import Ensemble, Solution
from .training import Trainer


def solve(
    problem: Problem,
    recipe: Recipe | None = None,
    *,
    seed: int | Sequence[int] = 0,
    windows: int = 1,
    warm: bool = False,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    callback: Any = None,
) -> Solution | Ensemble:
    """Solves a problem.

    Arguments:
        problem: what to solve.
        recipe: how; a good one by default.
        seed: of the random numbers; several seeds are trained at once and give an `Ensemble`.
        windows: cut the time axis into so many windows and solve one after the other, each from the state the last one ended
            with: for what changes too much over the whole interval for one network. A recipe's steps are those of a window.
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
            f"solve: problem must be a Problem, got {problem!r}: write sx.solve(sx.Problem(box, residual, conditions))"
        )
    recipe = Recipe() if recipe is None else recipe
    if not isinstance(recipe, Recipe):
        raise InputError(f"solve: recipe must be a Recipe, got {recipe!r}: write recipe=sx.Recipe(points=32, steps=10_000)")
    hooks = Hooks(callback)
    if resume and out is None:
        raise InputError("solve: resume=True needs the folder of the run to go on with: write out='runs/mine', resume=True")
    several = isinstance(seed, Iterable)
    seeds = [whole("seed", s, 0) for s in (seed if isinstance(seed, Iterable) else [seed])]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seed: give one seed or several different ones, got {seed!r}")
    if whole("windows", windows) > 1:
        marched = (problem, recipe, windows, warm, seeds if several else seeds[0], out, resume, progress, hooks)
        return hooks.ended(lambda: march(*marched))
    with jax.enable_x64(True):
        trainer = Trainer(Loss(problem, recipe), len(seeds) if several else None)
        check_memory(trainer)
        asked = settings(problem, recipe, seeds)
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(Run(out, asked, resume)) if out is not None else None
            hooks.on_start(asked)
            with display(problem.name, progress) as shown, Interrupt() as interrupt:
                session = Session(Programs(trainer), seeds, run, interrupt)
                session.go(lambda **now: [report(**now) for report in (shown, hooks.on_update)])
            return hooks.ended(session.finish)
