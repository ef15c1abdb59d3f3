"""Records: one file for each row, `<folder>/<problem>/<network>-<points>.json`.

Every record carries the SHA-256 of its own content, so that a file that was cut short or changed by
hand is found and left out. That guards against accidents, not against somebody who writes a new
checksum. Keys beyond those that are checked here (`rank`, `over_time`) are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import InputError, in_float64, shown
from ...equations import Problem
from ...recipe import Recipe
from ...runs import Damaged, read_json, seal, settings, write
from .plan import Job, stem

Record = dict[str, Any]
SCHEMA = 1
STATUSES = ("done", "timed", "skipped")  # trained; only a step was measured; neither
PER_SEED = ("relative_l2", "rmse", "loss", "best_step")
# what a record holds, and the values that are allowed; None stands for what is not known
TEXT, NUMBER, NUMBERS = (str,), (int, float, type(None)), (list, type(None))
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("problem", "network", "recipe", "precision", "note", "command"), TEXT),
    **dict.fromkeys(("points", "axes", "steps"), (int,)),
    **dict.fromkeys(("seeds",), (list,)),
    **dict.fromkeys(PER_SEED, NUMBERS),
    **dict.fromkeys(("train_seconds", "compile_seconds"), NUMBER),
    **dict.fromkeys(("ms_per_step", "ms_per_step_together"), NUMBER),
    **dict.fromkeys(("memory_mb", "memory_together_mb"), NUMBER),
    "curve": (dict, type(None)),
    "status": TEXT,
    "settings": (dict,),
    "environment": (dict,),
}


def write_record(folder: Path, record: Mapping[str, Any]) -> Path:
    """Seals a record and writes it where it belongs, whole or not at all.

    Returns: its path. Raises `InputError` where it could not be read back, or not be written.
    """
    sealed = seal(record)
    if reason := _wrong(sealed):
        raise InputError(f"record: {reason}")
    path = _path(folder, sealed)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, (json.dumps(sealed, indent=1) + "\n").encode())
    except OSError as error:
        raise InputError(
            f"out: cannot write {path} ({error.strerror}): choose another folder"
        ) from error
    return path


def read_record(path: Path) -> Record:
    """The record in a file. Raises `Damaged`."""
    record = read_json(path)
    if reason := _wrong(record):
        raise Damaged(path, reason)
    place = path.absolute()
    if (belongs := _path(place.parents[1], record)) != place:
        raise Damaged(path, f"is the record of {belongs.parent.name}/{belongs.name}")
    return record


def collect(folder: str | os.PathLike[str]) -> tuple[list[Record], list[Damaged]]:
    """All records under a folder, by problem, network and points; and what is wrong with the
    others, which are in no table."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"records: {folder} is not a folder: name the one that the rows were written to"
        )
    records, damaged = [], []
    for path in sorted(folder.glob("*/*.json")):
        try:
            records.append(read_record(path))
        except Damaged as error:
            damaged.append(error)
    return sorted(records, key=lambda r: (r["problem"], r["network"], r["points"])), damaged


def _path(folder: Path, record: Mapping[str, Any]) -> Path:
    """Where a record belongs."""
    name = stem(record["network"], record["points"], record.get("rank"))
    return folder / record["problem"] / f"{name}.json"


def _wrong(record: Record) -> str | None:
    """What is wrong with a record's fields, in words."""
    if record.get("schema") != SCHEMA:
        return f"schema is {shown(record.get('schema'))}, this version reads schema {SCHEMA}"
    for name, kinds in FIELDS.items():
        if name not in record:
            return f"has no field {name!r}"
        if not isinstance(record[name], kinds) or isinstance(record[name], bool):
            return f"{name} cannot be {shown(record[name])}"
    for name in PER_SEED:
        values, seeds = record[name], len(record["seeds"])
        if values is not None and len(values) != seeds:
            return f"{name} has {len(values)} values for {seeds} seeds"
    status = record["status"]
    if status not in STATUSES:
        return f"status cannot be {shown(status)}"
    if (status == "done") != (record["relative_l2"] is not None):
        without = "without" if status == "done" else "with"
        return f"status is {status!r} {without} relative_l2"
    return None


# --- which runs count ----------------------------------------------------------------------------


def settings_of(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    """The settings of a run, as `solve` sees them."""
    with in_float64():
        return settings(problem, recipe, seeds)


def run_folder(job: Job, folder: Path, asked: Mapping[str, Any]) -> Path:
    """The folder of a run. Every settings have their own, so that no run is in another's way."""
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return folder / "runs" / job.problem / f"{job.stem}-{digest[:8]}"


def recorded(job: Job, folder: Path) -> Record | None:
    """The record of a job, where there is one that says at least what is asked. Raises
    `Damaged`."""
    path = job.path(folder)
    if not path.exists():
        return None
    record = read_record(path)
    problem, recipe = job.make()
    asked = settings_of(problem, recipe, job.seeds)
    if job.train:
        enough = record["status"] == "done" and record["steps"] >= asked["steps"]
        enough = enough and set(job.seeds) <= set(record["seeds"])
    else:
        enough = record["status"] != "skipped"  # there may be more memory now
    return record if enough and _what(record["settings"]) == _what(asked) else None


def _what(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without steps and seeds, which only say how far a run goes, and without the
    fingerprint of the equation, which is another one with another version of JAX: problems of the
    catalogue are known by their names, boxes and terms."""
    apart = ("steps", "seeds", "equation")
    kept = {name: value for name, value in asked.items() if name not in apart}
    return kept | {"recipe": re.sub(r"steps=\d+", "", str(asked.get("recipe")), count=1)}


def keep(job: Job, folder: Path, record: Record) -> bool:
    """Writes a record, unless there is one that goes further; returns whether it was written."""
    try:
        before = read_record(job.path(folder))
    except Damaged:  # or not there
        before = None
    if before is not None and _reach(before) > _reach(record):
        return False
    write_record(folder, record)
    return True


def _reach(record: Record) -> tuple[int, int, int]:
    """How far a record goes: trained, timed or skipped; steps; seeds."""
    return -STATUSES.index(record["status"]), record["steps"], len(record["seeds"])
