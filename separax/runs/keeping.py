"""What a run leaves behind: its solution, the factors of it, its history as a table, its record."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InputError, in_float64
from ..solution import Ensemble, History, Solution, factors, make_record
from .describing import to_data
from .files import Damaged, digest_of, read, read_npz, read_sealed, seal, sealed_json, write
from .folder import (
    ENVIRONMENT,
    RECORD,
    SETTINGS,
    SOLUTION,
    Run,
    kept_settings,
    read_settings,
    settings,
)


def keep(run: Run, found: Solution | Ensemble, record: Mapping[str, Any]) -> dict[str, Any]:
    """Writes a solution, its factors, its history and its record to a run's folder.

    Returns: the record as it is kept.
    """
    keep_solution(run, found)
    kept: dict[str, str] = {}
    for solution in found.solutions:
        suffix = f"-seed{solution.seed}" if isinstance(found, Ensemble) else ""
        table = history_table(solution.history)
        write(run.path / f"history{suffix}.csv", table)
        kept[f"history{suffix}.csv"] = digest_of(table)
        # those of a window are among those of the march
        if run.march is None and (arrays := factors(solution)) is not None:
            axes = list(solution.problem.box.axes)
            about = {"kind": "factors", "axes": axes, "seed": solution.seed}
            run.write(f"factors{suffix}.npz", about, arrays)
    return keep_record(run.path, {**record, "run": run.identity, "files": kept})


def save(found: Solution | Ensemble, directory: str | os.PathLike[str]) -> Path:
    """Keeps a solution in a folder of its own.

    Arguments:
        found: the solution, or those of several seeds.
        directory: a folder without a run.
    Returns: the folder. Raises `InputError` where a part of the recipe could not be found again.
    """
    first = found.solutions[0]
    with in_float64():
        asked = settings(first.problem, first.recipe, [s.seed for s in found.solutions])
    asked = kept_settings(asked, first.recipe)
    if first.is_marched:
        asked |= {"windows": len(first.windows)}
    with Run(directory, asked) as run:
        try:
            keep(run, found, dict(found.record or make_record(found)) | {"run_dir": str(run.path)})
        except OSError as error:
            raise InputError(
                f"save: cannot write to {run.path} ({error.strerror}): choose another folder"
            ) from error
    return run.path


def keep_solution(run: Run, found: Solution | Ensemble, beside: bool = False) -> None:
    """Writes a solution to a run's folder; `beside` what goes on, where that is wanted."""
    content = to_data(found)
    if beside:
        run.saver.start(lambda: run.write(SOLUTION, *content))
    else:
        run.write(SOLUTION, *content)


def keep_record(folder: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Writes a record to the folder of a run; returns it sealed."""
    sealed = seal({"run": read_settings(folder)["run"], **record})
    write(folder / RECORD, sealed_json(sealed))
    return sealed


# --- history ------------------------------------------------------------------------------------


def history_table(history: History) -> bytes:
    """A history as CSV, every number with all its digits."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    error = dict(zip(history.error_steps.tolist(), history.errors))
    table.writerow(["step", "total", *history.losses, "relative_l2"])
    rows = {int(s): i for i, s in enumerate(history.steps)}
    for step in sorted({*rows, *error}):
        at = rows.get(step)
        losses = [
            "" if at is None else str(a[at]) for a in (history.total, *history.losses.values())
        ]
        table.writerow([step, *losses, str(error[step]) if step in error else ""])
    return text.getvalue().encode()


def read_history(content: bytes) -> History:
    """The history in a table that `history_table` made."""
    head, *rows = csv.reader(io.StringIO(content.decode()))
    seen, errors = [r for r in rows if r[1]], [r for r in rows if r[-1]]

    def column(i: int) -> np.ndarray:
        return np.array([float(r[i]) for r in seen])

    return History(
        np.array([int(r[0]) for r in seen], int),
        {name: column(2 + i) for i, name in enumerate(head[2:-1])},
        column(1),
        np.array([int(r[0]) for r in errors], int),
        np.array([float(r[-1]) for r in errors], float),
    )


def check(run: str | os.PathLike[str]) -> list[Damaged]:
    """The damaged files of a run and of its windows, each with a reason.

    Arguments:
        run: the folder that `solve(…, out=folder)` wrote.
    Returns: a list that is empty where every file is good.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(
            f"check: {folder} is no folder of a run: write the one that solve(out=…) was given"
        )
    places = (folder, *sorted(folder.glob("windows/*")))
    return [damage for place in places for damage in _damage_in(place)]


def _damage_in(folder: Path) -> Iterator[Damaged]:
    identity, kept = None, {}
    try:
        identity = read_settings(folder)["run"]
    except Damaged as error:
        yield error
    except InputError as error:  # gone, or of another version
        yield Damaged(folder / SETTINGS, f"cannot be used: {error}")
    for path in sorted(folder.iterdir()):
        try:
            if path.name == RECORD:
                kept = read_sealed(path, "files", identity)["files"]
            elif path.name == ENVIRONMENT:
                read_sealed(path, "versions", identity)
            elif path.suffix == ".npz":
                kind, _, seed = path.stem.partition("-seed")
                about, _ = read_npz(path, identity, kind.partition(".")[0])
                if seed and int(seed) != about["seed"]:
                    raise Damaged(path, f"is of seed {about['seed']}")
        except Damaged as error:
            yield error
    for name in kept:
        try:
            read_kept(folder / name, kept)
        except Damaged as error:
            yield error


def read_kept(path: Path, kept: Mapping[str, str]) -> bytes:
    """The content of a file whose checksum a record has. Raises `Damaged`."""
    content = read(path)
    if digest_of(content) != kept.get(path.name):
        raise Damaged(path, f"is not the one that {RECORD} names: its checksum is of other content")
    return content
