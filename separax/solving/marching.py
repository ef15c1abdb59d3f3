"""Time marching: the interval cut into windows, each solved from the state the last one ended with.

All windows are one problem to the compiler: the network counts time from the start of its window,
and what differs (that start, and the state there) is data. So the state is always a table: the
initial values on a lattice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
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
from ..runs import Run, keep_solution
from ..solution import Ensemble, Outcome, Solution, make_record
from ..training import Trainer, check_memory, device_for
from .advice import stopped
from .trained import Asked, Context, FollowedError, Training, Window, keep_or_say

FINE = 2  # a table of initial values has so many points to one that is drawn per axis
FEWEST = 32  # but not fewer than these

Given = dict[str, Array]  # what a window is given: its start, and the state there


def march(asked: Asked, recipe: Recipe, windows: int, warm: bool) -> Solution | Ensemble:
    """`solve` with windows.

    Arguments:
        asked: what `solve` was asked for.
        recipe: of every window.
        windows: their number.
        warm: begin each window with the network of the last one.
    """
    problem = asked.problem
    check(problem, windows)
    edges = np.linspace(*problem.box[TIME], windows + 1)
    told, kept = asked.settings(recipe, windows=windows, warm=warm)
    loss = Loss(first_window(problem, recipe, edges), recipe)
    trainer = asked.trainer(loss)
    check_memory(trainer)
    with device_for(trainer), asked.begun(told, kept) as context:
        return _march(asked, recipe, trainer, edges, warm, context)


def _march(
    asked: Asked, recipe: Recipe, trainer: Trainer, edges: np.ndarray, warm: bool, context: Context
) -> Solution | Ensemble:
    ends, error, folder = _ends(trainer), FollowedError(trainer), context.run
    steps, number_of_windows = recipe.total_steps, len(edges) - 1
    found: list[list[Solution]] = []  # by window, of every seed
    given, params = _begin(trainer), None

    def joined() -> Solution | Ensemble:
        stopped, place = len(found) < number_of_windows, folder and folder.path
        marched = []
        for each in zip(*found):
            outcome = Outcome.joined(recipe, [one.outcome for one in each], stopped, place)
            marched.append(Solution.joined(asked.problem, each, outcome))
        return Ensemble(marched) if asked.several else marched[0]

    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        problem = asked.problem.during(start, end)
        window = Window(problem, number, start - edges[0], given, params if warm else None)
        with contextlib.nullcontext() if folder is None else folder.window(number + 1) as run:
            part = context.part(number * steps, number_of_windows * steps, run)
            training = Training(trainer, asked.seeds, part, window, error)
            training.go()
            try:
                solved = training.finish()
            except Diverged as trouble:
                said = f"window {number + 1}: {trouble}{_kept_before(folder, number)}"
                raise Diverged(said, joined() if found else trouble.solution) from trouble
        found.append(list(solved) if isinstance(solved, Ensemble) else [solved])
        if folder is not None and number + 1 < number_of_windows and not folder.saver.busy:
            keep_solution(folder, joined(), beside=True)  # each window is kept by itself, too
        # a window that was never trained is no part of a solution
        if context.interrupt.asked or found[-1][0].interrupted:
            break
        params = training.session.state.best
        given = _given(end - edges[0], ends(params, given), trainer.seeds)
    solution = joined()
    if solution.solutions[0].interrupted:
        last, made = found[-1][0], sum(each[0].timing.steps for each in found)
        where = f"in window {len(found)} of {number_of_windows}" if made else ""
        some = (
            f", at step {last.timing.steps:,} of {steps:,}" if last.interrupted else ", at its end"
        )
        solution = stopped(solution, context.interrupt, where and where + some)
    if folder is not None:
        folder.saver.wait()
        solution = keep_or_say(folder, solution, make_record(solution))
    return solution


def _kept_before(folder: Run | None, number: int) -> str:
    """What is kept of the windows before one in which the loss stopped being finite."""
    if folder is None:
        return ""
    windows = f"; the {number} before it are kept in {folder.path / 'windows'}" if number else ""
    return (
        f"{windows}. The same call with another rate and resume=True begins this window again, and"
        " goes on"
    )


# --- how many windows ---------------------------------------------------------------------------


def windows_of_length(problem: Problem, window: Any) -> int:
    """How many windows of a length there are.

    It must divide the interval: all windows are one problem to the compiler.

    Arguments:
        problem: to be solved.
        window: the length.
    """
    window = finite("window", window, positive=True)
    _check_time(problem, f"window={window:g}", "window")
    lower, upper = problem.box[TIME]
    length = upper - lower
    number = round(length / window)
    if abs(number * window - length) <= 1e-6 * length:
        return number
    if window > length:
        raise InputError(
            f"window={window:g} is longer than t, which runs over ({lower:g}, {upper:g}): write"
            f" window={length:g} or less"
        )
    fewer = math.floor(length / window)
    raise InputError(
        f"window={window:g} does not divide the {length:g} that t runs over: write"
        f" window={length / (fewer + 1):g} for {fewer + 1} windows, or window={length / fewer:g}"
        f" for {fewer}"
    )


def _check_time(problem: Problem, given: str, argument: str) -> None:
    if TIME not in problem.box.axes:
        raise InputError(
            f"{given}: there is no time axis 't' in {problem.box!r} to cut into windows: leave"
            f" {argument} out"
        )


# --- what can be marched ------------------------------------------------------------------------


def check(problem: Problem, windows: int) -> None:
    """Refuses what has no state to hand on, or asks for more than the next window can know.

    Arguments:
        problem: to be solved.
        windows: how many windows were asked for.
    """
    _check_time(problem, f"windows={windows}", "windows")
    if why := _why_not(problem):
        raise InputError(f"windows={windows}: {why}")


def _why_not(problem: Problem) -> str | None:
    """Why time cannot be cut into windows, and what to do; None where it can."""
    at, leave = problem.box.axes.index(TIME), "leave windows out"
    if problem.unknowns:
        unknowns = listed(problem.unknowns)
        return f"{unknowns} would be found anew in every window: {leave}, or give the values"
    if built := [name for name, wall in zip(problem.fields, problem.walls[at]) if wall]:
        return f"{built[0]} is built in at an end of t, which one window has: leave out hard=True"
    if problem.lift is not None and problem.lift.varies(at):
        return "values that change with t are built in for one window alone: leave out hard=True"
    if TIME in problem.periodic:
        return f"what is periodic in t has no start to march from: {leave}"
    for term in problem.terms:
        if term.fixed is not None and not term.is_start:
            return f"the condition {term.name!r} is at points all over the interval: {leave}"
        if term.axis == TIME and "+" in term.sides:
            return f"the condition {term.name!r} is at the end of t, in the last window: {leave}"
        if term.axis == TIME and not term.is_start:
            return (
                f"the condition {term.name!r} at the start of t is not on values that one window"
                f" hands on to the next, which is not possible yet: {leave}"
            )
    if not any(term.is_start for term in problem.terms):
        return "no condition at the start of t is handed on by a window: add sx.Initial(…)"
    return None


# --- one problem for all windows ----------------------------------------------------------------


def first_window(problem: Problem, recipe: Recipe, edges: np.ndarray) -> Problem:
    """The problem of the first window, with its initial values as tables.

    Arguments:
        problem: the whole problem.
        recipe: whose points the tables are finer than.
        edges: the instants between which the windows are.
    """
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
    """Where the state is handed on: regular along periodic axes, Gauss-Legendre points along
    others."""
    finer = counts if len(counts) > 3 else {a: max(FEWEST, FINE * n) for a, n in counts.items()}
    rule = quadrature(problem.box, {axis: finer[axis] for axis in problem.box.axes})
    axes: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for axis, own in zip(rule.axes, rule.weights):
        lower, upper = problem.box[axis]
        if axis == TIME:
            axes[axis] = np.array([start])
        elif axis in problem.periodic:
            axes[axis] = lower + (upper - lower) * np.arange(finer[axis]) / finer[axis]
        else:
            axes[axis], weights[axis] = np.asarray(rule[axis]), np.asarray(own)
    return Lattice(weights=weights, **axes)


def _starts(problem: Problem) -> dict[str, ValueTerm]:
    """The conditions whose values are handed on, by the names of these values."""
    return {
        values_name(i): term
        for i, term in enumerate(problem.terms)
        if isinstance(term, ValueTerm) and term.is_start
    }


def _begin(trainer: Trainer) -> Given:
    """What the first window is given."""
    dtype, seeds = trainer.loss.recipe.dtype, trainer.seeds
    starts = _starts(trainer.loss.problem)
    values = {name: jnp.asarray(term.value({}, {}), dtype) for name, term in starts.items()}
    if seeds is not None:
        values = {name: jnp.stack([each] * seeds) for name, each in values.items()}
    return _given(0.0, values, seeds)


def _given(since: float, values: Mapping[str, Array], seeds: int | None) -> Given:
    dtype = next(iter(values.values())).dtype
    return {START: jnp.full(() if seeds is None else (seeds,), since, dtype), **values}


def _ends(trainer: Trainer) -> Callable[[Array, Given], dict[str, Array]]:
    """A function of parameters and of what their window was given: the state at its end, as the
    next one is given it."""
    problem, dtype = trainer.loss.problem, trainer.loss.recipe.dtype
    last = problem.box[TIME][1]

    def state(params: Array, given: Given) -> dict[str, Array]:
        model: Model = trainer.model(params)
        found = {}
        for name, term in _starts(problem).items():
            assert isinstance(term.fixed, Lattice)
            axes = {
                a: jnp.asarray([last] if a == TIME else c, dtype)
                for a, c in zip(term.fixed.axes, term.fixed.coordinates)
            }
            place = Lattice(weights=None, **axes)
            (source,) = model.network.sources([place], [term.derivatives])
            coordinates = Inputs(model.unknowns, given).coordinates(place)
            field = term.operator(problem.field_map(source), coordinates, model.unknowns)
            found[name] = values_of(field, place.shape, term.name).astype(dtype)
        return found

    each = state if trainer.seeds is None else jax.vmap(state)
    return jax.jit(each, compiler_options=options_for_few_runs())
