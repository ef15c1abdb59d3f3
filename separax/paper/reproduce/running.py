"""Runs rows, one record each. What is recorded already is skipped; what was interrupted goes on where it stopped."""

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
from ...runs import Busy
from ...solution import Ensemble, Solution, environment
from ...solving import solve
from ...training import Trainer
from ..catalogue import CATALOGUE
from ..step_time import ours
from .figures import FLOWS, flow_pictures, over_time
from .plan import Job, pointwise
from .records import MOST_CURVE_STEPS, DamagedRecord, Record, digest, put, recorded, settings_of

Say = Callable[[str], None]

# points of a pointwise network with which a seed alone fills a device: on an H200 three seeds of `pinn-mod` at 16⁴ take longer at once
# than one after the other
FULL = 2**16


class Stopped(Exception):
    """A run was interrupted; its state is kept."""


def run_all(
    jobs: Sequence[Job], folder: Path, command: str, say: Say, progress: bool | None = None
) -> list[Record]:
    """Every job's record, run or found; raises `Stopped` at an interrupt. A row that another process is running is left to it."""
    found: list[Record] = []
    for number, job in enumerate(jobs, 1):
        about = f"{job.problem}, {job.network}, {job.points} points per axis" + (
            f", rank {job.rank}" if job.rank else ""
        )
        try:
            record = recorded(job, folder)
        except DamagedRecord as error:
            say(f"{error.path}: {error.reason}; this row is run again")
            record = None
        try:
            if record is None:
                say(f"[{number}/{len(jobs)}] {about}")
                record = _run_and_keep(job, folder, command, say, progress)
            else:
                say(f"[{number}/{len(jobs)}] {about}: recorded already{_length(record)}")
                _drawn_again(job, record, folder)
        except Busy as error:
            say(f"{about}: left alone, {str(error).removeprefix('out: ').partition(':')[0]}")
            continue
        except KeyboardInterrupt:  # before training began, asked twice, or while drawing
            raise Stopped(f"{about}: stopped at once") from None
        found.append(record)
    return found


def _length(record: Record) -> str:
    if record["status"] != "done":
        return f", {record['status']}"
    return f", {record['steps']:,} steps and {_seeds(len(record['seeds']))}"


def _run_and_keep(job: Job, folder: Path, command: str, say: Say, progress: bool | None) -> Record:
    record, first = run(job, folder, command, say, progress)
    if record["note"] and record["status"] != "done":
        say(f"{'skipped' if record['status'] == 'skipped' else 'not trained'}: {record['note']}")
    kept = put(job, folder, record)
    if kept is None:
        say(f"{job.path(folder)} stands: it says more than this")
    elif kept != job.path(folder):
        say(f"in {kept}; {job.path(folder).name} stands: it has as many steps and seeds at least")
    if first is not None:
        draw(job, first, folder / "figures")
    return record


def place(job: Job, folder: Path, asked: Mapping[str, Any]) -> Path:
    """The folder of a run with these settings. Other settings have another one, so that no run is ever in another's way."""
    return folder / "runs" / job.problem / f"{job.stem}-{digest(asked)}"


def run(
    job: Job, folder: Path, command: str, say: Say, progress: bool | None = None
) -> tuple[Record, Solution | None]:
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
        **dict.fromkeys(
            (
                "relative_l2",
                "rmse",
                "loss",
                "best_step",
                "train_seconds",
                "compile_seconds",
                "ms_per_step",
            )
        ),
        **dict.fromkeys(("ms_per_step_together", "memory_mb", "memory_together_mb", "curve")),
        "status": "timed",
        "note": "",
        "settings": settings_of(problem, recipe, job.seeds),
        "environment": environment(),
        "command": command,
    }
    if job.rank is not None:
        record["rank"] = job.rank
    first = None
    try:
        first = _measure(record, job, problem, recipe, folder, say, progress)
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


def _measure(
    record: Record,
    job: Job,
    problem: Problem,
    recipe: Recipe,
    folder: Path,
    say: Say,
    progress: bool | None,
) -> Solution | None:
    """Times a step, then trains; what is known goes into the record at once. Returns the solution of the first seed."""
    fitting = at_once(problem, recipe, len(job.seeds) if job.train else 1)
    record |= step_cost(problem, recipe)
    if not job.train:
        return None

    def part(number: int, first: int = 0) -> Path:
        return place(job, folder, settings_of(problem, recipe, job.seeds[first : first + number]))

    # as it was begun, where that still fits: memory comes and goes
    together = next(
        (n for n in range(fitting, 0, -1) if part(n).exists()),
        1 if fills(job, problem, recipe) else fitting,
    )
    if (
        any(part(n).exists() for n in range(fitting + 1, len(job.seeds) + 1))
        and not part(together).exists()
    ):
        say(
            f"it was begun with more seeds at once than memory has room for now: begun anew with {_seeds(together)}"
        )
    groups: list[Ensemble] = []
    for first in range(0, len(job.seeds), together):
        seeds, out = job.seeds[first : first + together], part(together, first)
        windows = CATALOGUE[job.problem].windows
        found = solve(
            problem,
            recipe,
            seed=seeds,
            windows=windows,
            out=out,
            resume=out.exists(),
            progress=progress,
        )
        assert isinstance(found, Ensemble)
        if found[0].interrupted:
            raise Stopped(
                f"{job.problem}, {job.network}, {job.points} points: stopped at step {found[0].timing.steps:,}"
            )
        groups.append(found)
    solutions = [solution for group in groups for solution in group]
    notes = [f"{_seeds(together)} at a time"] if len(groups) > 1 else []
    notes += [
        f"seed {s.seed} diverged at step {step:,}"
        for s in solutions
        if (step := _diverged(s)) is not None
    ]
    found = summary(groups)
    if wrong := [
        s.seed
        for s, error, loss in zip(solutions, found["relative_l2"], found["loss"])
        if not np.isfinite(error + loss)
    ]:
        record["note"] = "; ".join([*notes, f"no finite error: seed {', '.join(map(str, wrong))}"])
        return None
    if job.problem in FLOWS:
        record["over_time"] = over_time(solutions)
    record |= found | {"status": "done", "note": "; ".join(notes)}
    return solutions[0]


def _seeds(number: int) -> str:
    return f"{number} {'seed' if number == 1 else 'seeds'}"


def _diverged(solution: Solution) -> int | None:
    """The step from which on the losses of a seed are no numbers. What was best before is what counts."""
    wrong = np.flatnonzero(~np.isfinite(solution.history.total))
    return int(solution.history.steps[wrong[0]]) if len(wrong) else None


def _drawn_again(job: Job, record: Record, folder: Path) -> None:
    """Draws what a process that ended too early did not, where its run is still there."""
    picture = shown(job, record["axes"], folder / "figures")
    if picture is None or picture.exists():
        return
    problem, recipe = job.make()
    asked = settings_of(problem, recipe, job.seeds)
    out = place(job, folder, asked)
    if asked != record["settings"] or not out.exists():
        return
    found = solve(
        problem,
        recipe,
        seed=job.seeds,
        windows=CATALOGUE[job.problem].windows,
        out=out,
        resume=True,
        progress=False,
    )
    assert isinstance(found, Ensemble)
    draw(job, found[0], folder / "figures")


def shown(job: Job, axes: int, figures: Path) -> Path | None:
    """The picture of a row, or the first of several; None: there is none. A study of ranks has none."""
    if job.rank is not None or not job.train:
        return None
    if job.problem in FLOWS:
        return figures / f"{job.problem}-{job.stem}-vorticity.png"
    return figures / f"{job.problem}-{job.stem}.png" if job.points == 64 or axes == 2 else None


def draw(job: Job, solution: Solution, figures: Path) -> None:
    """What the paper shows of a row."""
    path = shown(job, solution.problem.box.dimension, figures)
    if path is not None and job.problem in FLOWS:
        flow_pictures(job.problem, solution, figures, job.stem)
    elif path is not None:
        picture(solution, path)


def fills(job: Job, problem: Problem, recipe: Recipe) -> bool:
    """Whether one seed keeps a device busy: several at once would take no less time, and nothing is safe until all are done."""
    return pointwise(job.network) and math.prod(recipe.counts(problem.box).values()) >= FULL


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
            f"a step on {points} points would need about {in_bytes(needed)}, and {in_bytes(free)} are free"
        )
    return max(1, int(free // needed))


def step_cost(problem: Problem, recipe: Recipe) -> dict[str, Any]:
    """Time and memory of one step of one seed, by the names of a record."""
    with in_float64():
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
    if solution.is_marched:
        each = [_error(window) for window in solution.windows]
    elif isinstance(names := solution.problem.reference, Mapping) and len(names) > 1:
        each = [solution.errors(field=name) for name in names]
    else:
        return solution.errors()
    return math.fsum(e for e, _ in each) / len(each), math.fsum(r for _, r in each) / len(each)


def picture(solution: Solution, path: Path) -> None:
    """Slices of a solution beside the reference, and their difference."""
    from ...output import plot
    from .figures import save

    known = solution.problem.reference is not None
    save(plot(solution, points=128, reference=known), path)
