"""Runs rows, one record each. What is recorded already is skipped; what was interrupted goes on where it stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..bench import ours
from ..errors import Diverged, MemoryPrediction
from ..loss import Loss
from ..memory import available, size
from ..problem import Problem
from ..recipe import Recipe
from ..report.record import environment
from ..solution import Ensemble, Solution
from ..solving import settings, solve
from ..training import Trainer
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
    steps = job.make()[1].total_steps
    enough = set(job.seeds) <= set(record["seeds"]) and record["steps"] >= steps
    return record if not job.train or (record["status"] == "done" and enough) else None


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
            record = run(job, folder, command, progress)
            _put_aside(job.path(folder))
            write_record(job.path(folder), record)
        else:
            say(f"[{number}/{len(jobs)}] {about}: recorded already")
        found.append(record)
    return found


def _put_aside(path: Path) -> None:
    """What was computed is kept, if only under another name."""
    if path.exists():
        path.replace(path.with_suffix(".json.old"))


def run(job: Job, folder: Path, command: str, progress: bool | None = None) -> Record:
    """One row, as a record."""
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
        "settings": settings(problem, recipe, job.seeds),
        "environment": environment(),
        "command": command,
    }
    if job.rank is not None:
        record["rank"] = job.rank
    try:
        together = at_once(problem, recipe, len(job.seeds) if job.train else 1)
    except MemoryPrediction as error:
        return record | {"status": "skipped", "note": str(error)}
    measured = step_cost(problem, recipe)
    record |= {"ms_per_step": measured["ms_per_step"], "memory_mb": measured["memory_mb"]}
    record["compile_seconds"] = measured["compile_seconds"]
    if not job.train:
        return record
    groups = [job.seeds[i : i + together] for i in range(0, len(job.seeds), together)]
    solutions: list[Solution] = []
    for group in groups:
        place = folder / "runs" / job.problem / (job.stem + (f"-seeds{group[0]}-{group[-1]}" if len(groups) > 1 else ""))
        try:
            found = solve(problem, recipe, seed=group, out=place, resume=(place / "settings.json").exists(), progress=progress)
        except Diverged as error:
            return record | {"note": f"diverged: {error}"}
        assert isinstance(found, Ensemble)
        if found[0].interrupted:
            raise Stopped(f"{job.problem}, {job.network}, {job.points} points: stopped at step {found[0].timing.steps:,}")
        solutions += list(found)
    if job.points == 64 or len(job.make()[1].counts(problem.box)) == 2:
        picture(solutions[0], folder / "figures" / f"{job.problem}-{job.stem}.png")
    note = f"{together} seeds at once" if len(groups) > 1 else ""
    return record | summary(solutions, len(groups)) | {"status": "done", "note": note}


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
    """Time and memory of one step of one seed."""
    with jax.enable_x64(True):
        return ours(problem, recipe, seconds=1.0)


def summary(solutions: Sequence[Solution], groups: int) -> Record:
    """What came out, per seed; times of all seeds together."""
    first = solutions[0]
    timings = {id(s.timing): s.timing for s in solutions}
    errors = _errors(solutions)
    one = first.history.error_steps
    # every seed of a group is looked at at the same steps; groups are put on the steps of the first
    table = np.array([np.interp(one, s.history.error_steps, s.history.errors) for s in solutions]).T
    losses = np.array([np.interp(one, s.history.steps, s.history.total) for s in solutions]).T
    chosen = np.unique(np.linspace(0, len(one) - 1, min(len(one), MOST_CURVE_STEPS)).astype(int))
    memory = [s.memory_bytes for s in solutions if s.memory_bytes is not None]
    seconds = sum(t.train_seconds for t in timings.values()) / (len(timings) / groups)
    return {
        **errors,
        "loss": [float(s.best_loss) for s in solutions],
        "best_step": [int(s.best_step) for s in solutions],
        "train_seconds": seconds,
        "compile_seconds": first.timing.compile_seconds,
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
    sums = [s._sums(None, None, {}) for s in solutions]
    return {
        "relative_l2": [math.sqrt(difference / whole) for difference, whole, _ in sums],
        "rmse": [math.sqrt(difference / number) for difference, _, number in sums],
    }


def picture(solution: Solution, path: Path) -> None:
    """Slices of a solution beside the reference, and their difference."""
    from ..report.figures import slices
    from .figures import save

    save(slices(solution), path)
