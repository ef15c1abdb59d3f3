"""Runs rows, one record each. What is recorded already is skipped; what was interrupted goes on where it stopped."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..bench import ours
from ..catalogue import CATALOGUE
from ..errors import Diverged, InputError, MemoryPrediction
from ..loss import Loss
from ..marched import Marched
from ..memory import available, size
from ..problem import Problem
from ..recipe import Recipe
from ..report.record import environment
from ..runs import read_settings, settings
from ..solution import Ensemble, Solution
from ..solving import solve
from ..training import Trainer
from .flows import FLOWS, over_time, pictures
from .plan import Job
from .records import MOST_CURVE_STEPS, DamagedRecord, Record, read_record, write_record

Say = Callable[[str], None]


class Stopped(Exception):
    """A run was interrupted; its state is kept."""


def recorded(job: Job, folder: Path) -> Record | None:
    """The record of a job, if there is one that says at least what is asked; raises `DamagedRecord`."""
    path = job.path(folder)
    if not path.exists():
        return None
    record = read_record(path)
    if record["status"] == "skipped":
        return None  # there may be more memory now
    if not job.train:
        return record
    problem, recipe = job.make()
    more = record["steps"] - recipe.total_steps
    if record["status"] != "done" or more < 0 or not set(job.seeds) <= set(record["seeds"]):
        return None
    longer = dataclasses.replace(recipe, steps=recipe.steps + more)
    return record if record["settings"].get("recipe") == _settings(problem, longer, job.seeds)["recipe"] else None


def run_all(jobs: Sequence[Job], folder: Path, command: str, say: Say, progress: bool | None = None) -> list[Record]:
    """Every job's record, run or found; raises `Stopped` at an interrupt."""
    found: list[Record] = []
    for number, job in enumerate(jobs, 1):
        about = f"{job.problem}, {job.network}, {job.points} points per axis" + (f", rank {job.rank}" if job.rank else "")
        try:
            record = recorded(job, folder)
        except DamagedRecord as error:
            say(f"{error.path}: {error.reason}; this row is run again")
            record = None
        if record is None:
            say(f"[{number}/{len(jobs)}] {about}")
            try:
                record, first = run(job, folder, command, progress)
                if record["status"] == "skipped":
                    say(f"skipped: {record['note']}")
                if record["status"] != "skipped" or not _stands(job.path(folder)):  # a row that ran once is worth more
                    _put_aside(job.path(folder))
                    write_record(job.path(folder), record)
                if first is not None:
                    draw(job, first, folder / "figures")
            except KeyboardInterrupt:  # before training began, asked twice, or while drawing
                raise Stopped(f"{about}: stopped at once") from None
        else:
            say(f"[{number}/{len(jobs)}] {about}: recorded already")
        found.append(record)
    return found


def _stands(path: Path) -> bool:
    """Whether there is a record of a run that was made."""
    try:
        return read_record(path)["status"] != "skipped"
    except DamagedRecord:
        return False


def _put_aside(path: Path) -> None:
    """What was computed is kept, if only under another name."""
    number, aside = 1, path.with_name(f"{path.name}.old")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.old{number}")
    if path.exists():
        path.rename(aside)


def _settings(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    with jax.enable_x64(True):  # as `solve` sees them
        return settings(problem, recipe, seeds)


def _begun(place: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether a folder holds a run with these settings; a run with others is put aside."""
    try:
        kept = read_settings(place)
    except InputError:
        kept = None
    same = kept is not None and all(kept.get(k) == v for k, v in wanted.items())
    if not same:
        _put_aside(place)
    return same


def run(job: Job, folder: Path, command: str, progress: bool | None = None) -> tuple[Record, Solution | None]:
    """One row, as a record; and the solution of its first seed."""
    problem, recipe = job.make()
    record: Record = {
        "schema": 1,
        "problem": job.problem,
        "network": job.network,
        "points": job.points,
        "axes": problem.box.dimension,
        "recipe": "paper",
        "steps": recipe.total_steps,
        "seeds": list(job.seeds),
        "precision": recipe.precision,
        **dict.fromkeys(("relative_l2", "rmse", "loss", "best_step", "train_seconds", "compile_seconds", "ms_per_step")),
        **dict.fromkeys(("ms_per_step_together", "memory_mb", "memory_together_mb", "curve")),
        "status": "timed",
        "note": "",
        "settings": _settings(problem, recipe, job.seeds),
        "environment": environment(),
        "command": command,
    }
    if job.rank is not None:
        record["rank"] = job.rank
    first = None
    try:
        first = _measure(record, job, problem, recipe, folder, progress)
    except MemoryPrediction as error:
        record["note"] = str(error)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        record["note"] = f"out of memory: {str(error).splitlines()[0]}"
    except Diverged as error:
        record["note"] = f"diverged: {error}"
    if record["ms_per_step"] is None:
        record["status"] = "skipped"
    return record, first


def _measure(record: Record, job: Job, problem: Problem, recipe: Recipe, folder: Path, progress: bool | None) -> Solution | None:
    """Times a step, then trains; what is known goes into the record at once. Returns the solution of the first seed."""
    together = at_once(problem, recipe, len(job.seeds) if job.train else 1)
    record |= step_cost(problem, recipe)
    if not job.train:
        return None
    parts = [job.seeds[i : i + together] for i in range(0, len(job.seeds), together)]
    groups: list[Ensemble] = []
    for seeds in parts:
        place = folder / "runs" / job.problem / (job.stem + (f"-seeds{seeds[0]}-{seeds[-1]}" if len(parts) > 1 else ""))
        resume = _begun(place, _settings(problem, recipe, seeds))
        windows = CATALOGUE[job.problem].windows
        found = solve(problem, recipe, seed=seeds, windows=windows, out=place, resume=resume, progress=progress)
        assert isinstance(found, Ensemble)
        if found[0].interrupted:
            raise Stopped(f"{job.problem}, {job.network}, {job.points} points: stopped at step {found[0].timing.steps:,}")
        groups.append(found)
    if job.problem in FLOWS:
        record["over_time"] = over_time([solution for group in groups for solution in group])
    note = f"{together} {'seed' if together == 1 else 'seeds'} at once" if len(groups) > 1 else ""
    record |= summary(groups) | {"status": "done", "note": note}
    return groups[0][0]


def draw(job: Job, solution: Solution, figures: Path) -> None:
    """What the paper shows of a row. Of a study of ranks, nothing."""
    if job.rank is not None:
        return
    if job.problem in FLOWS:
        pictures(job.problem, solution, figures, job.stem)
    elif job.points == 64 or solution.problem.box.dimension == 2:
        picture(solution, figures / f"{job.problem}-{job.stem}.png")


def at_once(problem: Problem, recipe: Recipe, seeds: int) -> int:
    """How many seeds fit in memory together; raises `MemoryPrediction` if not even one does."""
    with jax.enable_x64(True):
        needed = Trainer(Loss(problem, recipe)).predicted_bytes()
    free = available()
    if free is None or needed * seeds <= free:
        return seeds
    if needed > free:
        points = " × ".join(map(str, recipe.counts(problem.box).values()))
        raise MemoryPrediction(f"a step on {points} points would need about {size(needed)}, and {size(free)} are free")
    return max(1, int(free // needed))


def step_cost(problem: Problem, recipe: Recipe) -> dict[str, Any]:
    """Time and memory of one step of one seed, by the names of a record."""
    with jax.enable_x64(True):
        return ours(problem, recipe, seconds=1.0)


def summary(groups: Sequence[Ensemble]) -> Record:
    """What came out, per seed; times of all seeds together. The seeds of a group were trained at once, and share their times."""
    solutions = [solution for group in groups for solution in group]
    first = solutions[0]
    errors = _errors(solutions)
    one = first.history.error_steps
    # every seed of a group is looked at at the same steps; groups are put on the steps of the first
    table = np.array([np.interp(one, s.history.error_steps, s.history.errors) for s in solutions]).T
    losses = np.array([np.interp(one, s.history.steps, s.history.total) for s in solutions]).T
    chosen = np.unique(np.linspace(0, len(one) - 1, min(len(one), MOST_CURVE_STEPS)).astype(int))
    memory = [s.memory_bytes for s in solutions if s.memory_bytes is not None]
    seconds = sum(group[0].timing.train_seconds for group in groups)
    return {
        **errors,
        "loss": [float(s.best_loss) for s in solutions],
        "best_step": [int(s.best_step) for s in solutions],
        "train_seconds": seconds,
        "compile_seconds": sum(group[0].timing.compile_seconds for group in groups),
        "ms_per_step_together": 1e3 * seconds / first.timing.steps,
        "memory_together_mb": max(memory) / 1e6 if memory else None,
        "curve": {
            "steps": [int(n) for n in one[chosen]],
            "relative_l2": [[float(v) for v in row] for row in table[chosen]],
            "loss": [[float(v) for v in row] for row in losses[chosen]],
        }
        if len(one) and np.all(np.isfinite(table[chosen])) and np.all(np.isfinite(losses[chosen]))
        else None,
    }


def _errors(solutions: Sequence[Solution]) -> Record:
    found = [_error(solution) for solution in solutions]
    return {"relative_l2": [error for error, _ in found], "rmse": [rmse for _, rmse in found]}


def _error(solution: Solution) -> tuple[float, float]:
    """Relative L2 error and RMSE as the paper reports them: means over windows of time, and over the components of a vector."""
    if isinstance(solution, Marched):
        each = [_error(window) for window in solution.windows]
    elif isinstance(names := solution.problem.reference, Mapping) and len(names) > 1:
        each = [solution.errors(field=name) for name in names]
    else:
        return solution.errors()
    return math.fsum(e for e, _ in each) / len(each), math.fsum(r for _, r in each) / len(each)


def picture(solution: Solution, path: Path) -> None:
    """Slices of a solution beside the reference, and their difference."""
    from ..report.figures import slices
    from .figures import save

    save(slices(solution), path)
