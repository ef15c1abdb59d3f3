"""Runs rows, one record each. What is recorded is not run again, and what was interrupted goes
on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...core import Diverged, MemoryPrediction, available, in_bytes, in_float64
from ...equations import Problem
from ...recipe import Recipe
from ...residuals import Loss
from ...runs import Busy, Damaged
from ...solution import Ensemble, Solution, environment
from ...solving import solve
from ...training import Trainer
from ..catalogue import CATALOGUE
from ..step_time import ours
from .figures import draw
from .plan import Job, pointwise
from .records import FIELDS, SCHEMA, Record, keep, recorded, run_folder, settings_of
from .rows import plural

MOST_CURVE_STEPS = 200  # of a curve of training in a record
# points of a pointwise network with which a seed alone fills a device: on an H200 three seeds of
# `pinn-mod` at 16⁴ take longer at once than one after the other
FULL = 2**16


class Stopped(Exception):
    """A run was interrupted; its state is kept."""


def run_all(
    jobs: Sequence[Job],
    folder: Path,
    command: str,
    say: Callable[[str], None],
    progress: bool | None = None,
) -> list[Record]:
    """Runs the jobs that are not recorded yet. A row that another process runs is left to it.

    Arguments:
        jobs: the rows.
        folder: of the records, and of the runs.
        command: what was asked for, for the records.
        say: is told how it goes, a line at a time.
        progress: whether to show a bar; None: on a terminal.

    Returns:
        The records, run or found. Raises `Stopped` at an interrupt.
    """
    found: list[Record] = []
    for number, job in enumerate(jobs, 1):
        try:
            record = recorded(job, folder)
        except Damaged as error:
            say(f"{error}; this row is run again")
            record = None
        if record is not None:
            steps, seeds = record["steps"], plural(len(record["seeds"]), "seed")
            length = f"{steps:,} steps and {seeds}" if record["status"] == "done" else "timed"
            say(f"[{number}/{len(jobs)}] {job}: recorded already, {length}")
        else:
            say(f"[{number}/{len(jobs)}] {job}")
            try:
                record = run(job, folder, command, say, progress)
            except Busy as error:
                say(f"{job}: left alone, {str(error).removeprefix('out: ').partition(':')[0]}")
                continue
            except KeyboardInterrupt:  # before training began, or asked twice
                raise Stopped(f"{job}: stopped at once") from None
        found.append(record)
    return found


def run(
    job: Job, folder: Path, command: str, say: Callable[[str], None], progress: bool | None = None
) -> Record:
    """Measures a step of one row, trains it, draws it, and records it. A row that is interrupted on
    the way goes on by the same command, from the run's own folder."""
    problem, recipe = job.make()
    record: Record = dict.fromkeys(FIELDS) | {
        "schema": SCHEMA,
        "problem": job.problem,
        "network": job.network,
        "points": job.points,
        "axes": problem.box.dimension,
        "recipe": "paper",
        "steps": recipe.total_steps,
        "seeds": list(job.seeds),
        "precision": recipe.precision,
        "status": "skipped",
        "note": "",
        "settings": settings_of(problem, recipe, job.seeds),
        "environment": environment(),
        "command": command,
    }
    if job.rank is not None:
        record["rank"] = job.rank
    try:
        fitting = at_once(problem, recipe, len(job.seeds) if job.train else 1)
        record |= step_cost(problem, recipe) | {"status": "timed"}
        if job.train:
            groups = _train(job, problem, recipe, fitting, folder, progress)
            record |= _outcome(groups)
            draw(job, groups[0][0], folder / "figures")
    except MemoryPrediction as error:
        record["note"] = str(error)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        record["note"] = f"out of memory: {str(error).splitlines()[0]}"
    except Diverged as error:
        record["note"] = f"diverged: {error}"
    if record["status"] != "done" and record["note"]:
        say(f"{'skipped' if record['status'] == 'skipped' else 'not trained'}: {record['note']}")
    if not keep(job, folder, record):
        say(
            f"{job.path(folder)} stands, it goes further: to record this row too, choose another"
            " --out"
        )
    return record


def step_cost(problem: Problem, recipe: Recipe) -> dict[str, Any]:
    """Time and memory of one step of one seed, by the names of a record."""
    with in_float64():
        return ours(problem, recipe, seconds=1.0)


def at_once(problem: Problem, recipe: Recipe, seeds: int) -> int:
    """How many seeds fit in memory together; raises `MemoryPrediction` if not even one does."""
    with in_float64():
        needed = Trainer(Loss(problem, recipe)).predicted_bytes()
    free = available()
    if free is None or needed * seeds <= free:
        return seeds
    if needed > free:
        points = " × ".join(map(str, recipe.counts(problem.box).values()))
        raise MemoryPrediction(
            f"a step on {points} points would need about {in_bytes(needed)}, and {in_bytes(free)}"
            " are free"
        )
    return int(free // needed)


def fills(job: Job, problem: Problem, recipe: Recipe) -> bool:
    """Whether one seed keeps a device busy: several at once would take no less time, and nothing
    would be safe until all are done."""
    return pointwise(job.network) and math.prod(recipe.counts(problem.box).values()) >= FULL


def _train(
    job: Job, problem: Problem, recipe: Recipe, fitting: int, folder: Path, progress: bool | None
) -> list[Ensemble]:
    """Trains the seeds of a row, as many at once as there is memory for."""

    def place(number: int, first: int = 0) -> Path:
        seeds = job.seeds[first : first + number]
        return run_folder(job, folder, settings_of(problem, recipe, seeds))

    # as it was begun, where that still fits: memory comes and goes
    begun = (n for n in range(fitting, 0, -1) if place(n).exists())
    together = next(begun, 1 if fills(job, problem, recipe) else fitting)
    groups: list[Ensemble] = []
    for first in range(0, len(job.seeds), together):
        out = place(together, first)
        found = solve(
            problem,
            recipe,
            seed=job.seeds[first : first + together],
            windows=CATALOGUE[job.problem].windows,
            out=out,
            resume=out.exists(),
            progress=progress,
        )
        assert isinstance(found, Ensemble)
        if found[0].interrupted:
            raise Stopped(f"{job}: stopped at step {found[0].timing.steps:,}")
        groups.append(found)
    return groups


# --- what came out -------------------------------------------------------------------------------


def _outcome(groups: Sequence[Ensemble]) -> Record:
    """What a record says of a row that was trained."""
    solutions = [solution for group in groups for solution in group]
    notes = [f"{plural(len(groups[0]), 'seed')} at a time"] if len(groups) > 1 else []
    for solution in solutions:  # where a loss is no number, what was best before counts
        wrong = np.flatnonzero(~np.isfinite(solution.history.total))
        if len(wrong):
            step = solution.history.steps[wrong[0]]
            notes.append(f"seed {solution.seed} diverged at step {step:,}")
    found = summary(groups)
    finite = np.isfinite(np.add(found["relative_l2"], found["loss"]))
    if not finite.all():
        seeds = ", ".join(str(s.seed) for s, good in zip(solutions, finite) if not good)
        return {"note": "; ".join([*notes, f"no finite error: seed {seeds}"])}
    return found | {"status": "done", "note": "; ".join(notes)}


def summary(groups: Sequence[Ensemble]) -> Record:
    """Errors and losses of each seed, and times of all seeds together.

    Arguments:
        groups: of seeds that were trained at once, and so share their times.
    """
    solutions = [solution for group in groups for solution in group]
    errors, spreads = zip(*map(paper_errors, solutions))
    timings, first = [group[0].timing for group in groups], solutions[0]
    seconds = sum(timing.train_seconds for timing in timings)
    memory = [s.memory_bytes for s in solutions if s.memory_bytes is not None]
    return {
        "relative_l2": list(errors),
        "rmse": list(spreads),
        "loss": [float(s.best_loss) for s in solutions],
        "best_step": [int(s.best_step) for s in solutions],
        "train_seconds": seconds,
        "compile_seconds": sum(timing.compile_seconds for timing in timings),
        "ms_per_step_together": 1e3 * seconds / first.timing.steps,
        "memory_together_mb": max(memory) / 1e6 if memory else None,
        "curve": _curve(solutions),
    }


def _curve(solutions: Sequence[Solution]) -> dict[str, Any] | None:
    """Errors and losses while training, one per seed at every step shown."""
    steps = solutions[0].history.error_steps
    shown = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_CURVE_STEPS)).astype(int))
    at = steps[shown]  # all seeds of a group have the same steps, those of other groups may not
    histories = [solution.history for solution in solutions]
    errors = np.array([np.interp(at, h.error_steps, h.errors) for h in histories]).T
    losses = np.array([np.interp(at, h.steps, h.total) for h in histories]).T
    if not len(at) or not np.all(np.isfinite(errors)) or not np.all(np.isfinite(losses)):
        return None
    return {"steps": at.tolist(), "relative_l2": errors.tolist(), "loss": losses.tolist()}


def paper_errors(solution: Solution) -> tuple[float, float]:
    """Relative L2 error and RMSE as the paper reports them: means over the windows of time, and
    over the components of a vector."""
    if solution.is_marched:
        each = [paper_errors(window) for window in solution.windows]
    elif isinstance(names := solution.problem.reference, Mapping) and len(names) > 1:
        each = [solution.errors(field=name) for name in names]
    else:
        return solution.errors()
    errors, spreads = zip(*each)
    return math.fsum(errors) / len(each), math.fsum(spreads) / len(each)
