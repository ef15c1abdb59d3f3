"""Time marching: the interval cut into windows, each solved from the state the last one ended with.

All windows are one problem to the compiler: the network counts time from the start of its window, and what differs (that
start, and the state there) is data. So the state is always a table: the initial values on a lattice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import Diverged, InputError, finite, listed, options_for_few_runs
from ..domain import TIME, Lattice, quadrature
from ..equations import START, Inputs, Problem, ValueTerm, values_name, values_of
from ..recipe import Recipe
from ..residuals import Loss, Model
from ..runs import Run, keep_solution, kept_settings, settings
from ..solution import Ensemble, Outcome, Solution, make_record
from ..training import Hooks, Interrupt, Programs, Trainer, check_memory, device_for, display
from .trained import ErrorProgram, Training, Window, keep_or_say

FINE = 2  # a table of initial values has so many points to one that is drawn per axis
FEWEST = 32  # but not fewer than these


def march(
    problem: Problem,
    recipe: Recipe,
    windows: int,
    warm: bool,
    seed: int | Sequence[int],
    out: str | os.PathLike[str] | None,
    resume: bool,
    progress: bool | None,
    hooks: Hooks,
) -> Solution | Ensemble:
    """`solve` with windows."""
    several = isinstance(seed, Sequence)
    seeds = list(seed) if isinstance(seed, Sequence) else [seed]
    check(problem, windows)
    with jax.enable_x64(True), contextlib.ExitStack() as stack:
        edges = np.linspace(*problem.box[TIME], windows + 1)
        asked = settings(problem, recipe, seeds) | {"windows": windows, "warm": bool(warm)}
        kept = kept_settings(asked, recipe) if out is not None else asked
        loss = Loss(first_window(problem, recipe, edges), recipe)
        trainer = Trainer(loss, len(seeds) if several else None)
        check_memory(trainer)
        stack.enter_context(device_for(trainer))
        folder = stack.enter_context(Run(out, kept, resume)) if out is not None else None
        hooks.on_start(asked)
        programs, ends = Programs(trainer), _ends(loss, trainer)
        error = ErrorProgram(programs)
        found: list[list[Solution]] = []
        given = _begin(loss, len(seeds) if several else None)
        params = None

        def joined() -> Solution | Ensemble:
            place, stopped = folder and folder.path, len(found) < windows
            marched = [
                Solution.joined(
                    problem,
                    each,
                    Outcome.joined(recipe, [one.outcome for one in each], stopped, place),
                )
                for each in zip(*found)
            ]
            return Ensemble(marched) if several else marched[0]

        with display(problem.name, progress) as shown, Interrupt() as interrupt:
            for number, (start, end) in enumerate(itertools.pairwise(edges)):
                inside = problem.during(start, end)
                run = stack.enter_context(folder.window(number + 1)) if folder is not None else None
                window = Window(inside, number, start - edges[0], given, params if warm else None)
                training = Training(programs, seeds, run, interrupt, window, error)
                before, total = number * recipe.total_steps, windows * recipe.total_steps

                def report(
                    step: int, steps: int, before: int = before, total: int = total, **now: Any
                ) -> None:
                    for each in (shown, hooks.on_update):
                        each(step=before + step, steps=total, **now)

                training.go(report)
                try:
                    solved = training.finish()
                except Diverged as error:
                    raise _diverged(error, joined() if found else None, folder, number) from error
                found.append(list(solved) if isinstance(solved, Ensemble) else [solved])
                if (
                    folder is not None and number + 1 < windows and not folder.saver.busy
                ):  # each window is kept by itself, too
                    keep_solution(folder, joined(), beside=True)
                if (
                    interrupt.asked or found[-1][0].interrupted
                ):  # a window that was never trained is no part of a solution
                    break
                params = training.session.state.best
                given = _given(end - edges[0], ends(params, given), len(seeds) if several else None)
        solution = joined()
        if folder is not None:
            folder.saver.wait()
            solution = keep_or_say(folder, solution, make_record(solution))
        return solution


def _diverged(
    error: Diverged, before: Solution | Ensemble | None, folder: Run | None, number: int
) -> Diverged:
    """What was solved before the window in which the loss stopped being finite is kept, and handed on."""
    where = (
        f"; the {number} before it are kept in {folder.path / 'windows'}"
        if folder and number
        else ""
    )
    then = (
        ". The same call with another rate and resume=True begins this window again, and goes on"
        if folder
        else ""
    )
    return Diverged(
        f"window {number + 1}: {error}{where}{then}", error.solution if before is None else before
    )


# --- how many windows ----------------------------------------------------------------------------------------------


def windows_of_length(problem: Problem, window: Any) -> int:
    """How many windows of a length there are. It must divide the interval: all windows are one problem to the compiler."""
    window = finite("window", window, positive=True)
    if TIME not in problem.box.axes:
        raise InputError(
            f"window={window:g}: there is no time axis 't' in {problem.box!r} to cut into windows: leave window out"
        )
    lower, upper = problem.box[TIME]
    length = upper - lower
    number = round(length / window)
    if abs(number * window - length) <= 1e-6 * length:
        return number
    if window > length:
        raise InputError(
            f"window={window:g} is longer than t, which runs over ({lower:g}, {upper:g}): write window={length:g} or less"
        )
    fewer = math.floor(length / window)
    raise InputError(
        f"window={window:g} does not divide the {length:g} that t runs over: write window={length / (fewer + 1):g} for {fewer + 1} windows, or"
        f" window={length / fewer:g} for {fewer}"
    )


# --- what can be marched -------------------------------------------------------------------------------------------


def check(problem: Problem, windows: int) -> None:
    """Refuses what has no state to hand on, or asks for more than the next window can know."""
    if TIME not in problem.box.axes:
        raise InputError(
            f"windows={windows}: there is no time axis 't' in {problem.box!r} to cut into windows: leave windows out"
        )
    if problem.unknowns:
        raise InputError(
            f"windows={windows}: {listed(problem.unknowns)} would be found anew in every window: leave windows out, or give the values"
        )
    at = problem.box.axes.index(TIME)
    if built := [name for name, wall in zip(problem.fields, problem.walls[at]) if wall]:
        raise InputError(
            f"windows={windows}: {built[0]} at an end of t is built into the network, and holds in one window only: leave out hard=True"
        )
    if problem.lift is not None and problem.lift.varies(at):
        raise InputError(
            f"windows={windows}: values that change with t are built into the network, which counts time from the start of its window: leave out hard=True"
        )
    if TIME in problem.periodic:
        raise InputError(
            f"windows={windows}: what is periodic in t has no start to march from: leave windows out"
        )
    for term in problem.terms:
        if term.fixed is not None and not term.is_start:
            raise InputError(
                f"windows={windows}: the condition {term.name!r} has values of its own at points all over the interval: leave windows out"
            )
        if term.axis == TIME and "+" in term.sides:
            raise InputError(
                f"windows={windows}: the condition {term.name!r} is at the end of t, where only the"
                " last window comes: leave windows out"
            )
        if term.axis == TIME and not term.is_start:
            raise InputError(
                f"windows={windows}: the condition {term.name!r} at the start of t says something"
                " else than the values that one window hands on to the next, which is not possible"
                " yet: leave windows out"
            )
    if not any(term.is_start for term in problem.terms):
        raise InputError(
            f"windows={windows}: no condition at the start of t says what a window hands on to the next one: add sx.Initial(…)"
        )


# --- one problem for all windows -----------------------------------------------------------------------------------


def first_window(problem: Problem, recipe: Recipe, edges: np.ndarray) -> Problem:
    """The problem of the first window, with its initial values as tables."""
    counts = recipe.counts(problem.box)
    terms = []
    for term in problem.terms:
        if isinstance(term, ValueTerm) and term.is_start:
            lattice = term.fixed if term.fixed is not None else _table(problem, counts, edges[0])
            values = np.asarray(jnp.broadcast_to(term.value(lattice.arrays(), {}), lattice.shape))
            term = dataclasses.replace(
                term, fixed=lattice, value=lambda c, k, values=values: values
            )
        terms.append(term)
    return problem.during(edges[0], edges[1]).with_terms(terms)


def _table(problem: Problem, counts: Mapping[str, int], start: float) -> Lattice:
    """Where the state is handed on: regular along periodic axes, Gauss-Legendre points along others."""
    rules = {
        axis: max(FEWEST, FINE * counts[axis]) if len(counts) < 4 else counts[axis]
        for axis in problem.box.axes
    }
    rule = quadrature(problem.box, rules)
    axes: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for axis in problem.box.axes:
        lower, upper = problem.box[axis]
        if axis == TIME:
            axes[axis] = np.array([start])
        elif axis in problem.periodic:
            axes[axis] = lower + (upper - lower) * np.arange(rules[axis]) / rules[axis]
        else:
            axes[axis], weights[axis] = (
                np.asarray(rule[axis]),
                np.asarray(rule.weights[problem.box.index(axis)]),
            )
    return Lattice(weights=weights, **axes)


def _begin(loss: Loss, seeds: int | None) -> dict[str, Array]:
    """What the first window is given."""
    values = {
        values_name(i): jnp.asarray(term.value({}, {}), loss.recipe.dtype)
        for i, term in enumerate(loss.problem.terms)
        if isinstance(term, ValueTerm) and term.is_start
    }
    return _given(
        0.0,
        values if seeds is None else {k: jnp.stack([v] * seeds) for k, v in values.items()},
        seeds,
    )


def _given(since: float, values: Mapping[str, Array], seeds: int | None) -> dict[str, Array]:
    dtype = next(iter(values.values())).dtype
    return {START: jnp.full(() if seeds is None else (seeds,), since, dtype), **values}


def _ends(loss: Loss, trainer: Trainer) -> Any:
    """A function of parameters and of what their window was given: the state at its end, as the next one is given it."""
    problem, dtype = loss.problem, loss.recipe.dtype
    last = problem.box[TIME][1]

    def state(params: Array, given: Mapping[str, Array]) -> dict[str, Array]:
        model: Model = trainer.model(params)
        found = {}
        for i, term in enumerate(problem.terms):
            if not isinstance(term, ValueTerm) or not term.is_start:
                continue
            assert isinstance(term.fixed, Lattice)
            axes = {
                a: jnp.asarray([last] if a == TIME else c, dtype)
                for a, c in zip(term.fixed.axes, term.fixed.coordinates)
            }
            place = Lattice(weights=None, **axes)
            (source,) = model.network.sources([place], [term.derivatives])
            coordinates = Inputs(model.unknowns, given).coordinates(place)
            field = term.operator(problem.field_map(source), coordinates, model.unknowns)
            found[values_name(i)] = values_of(field, place.shape, term.name).astype(dtype)
        return found

    return jax.jit(
        state if trainer.seeds is None else jax.vmap(state), compiler_options=options_for_few_runs()
    )
