"""Which record stands for a row: what is there already, and what a new one replaces.

A row has one record, `<network>-<points>.json`. One that reaches no further than the record that is there (no more steps or seeds) is written
beside it, under a name with a checksum of its settings, and is found again there; one that reaches further takes its place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from ..problem import Problem
from ..recipe import Recipe
from ..runs import settings
from .plan import Job
from .records import DamagedRecord, Record, reach, read_record, write_record

LENGTH = ("steps", "seeds")  # the settings that say how far a run goes, and not what it is


def settings_of(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    with jax.enable_x64(True):  # as `solve` sees them
        return settings(problem, recipe, seeds)


def digest(asked: Mapping[str, Any]) -> str:
    """Eight letters for some settings."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]


def recorded(job: Job, folder: Path) -> Record | None:
    """The record of a job, if there is one that says at least what is asked; raises `DamagedRecord`."""
    path = job.path(folder)
    found = [read_record(path)] if path.exists() else []
    for other in sorted(path.parent.glob(f"{job.stem}-{'[0-9a-f]' * 8}.json")):
        try:
            found.append(read_record(other))
        except DamagedRecord:
            continue  # named where tables are made
    return next((record for record in found if _says(record, job)), None)


def _says(record: Record, job: Job) -> bool:
    if record["status"] == "skipped" or (job.train and record["status"] != "done"):
        return False  # there may be more memory now
    problem, recipe = job.make()
    if job.train and (record["steps"] < recipe.total_steps or not set(job.seeds) <= set(record["seeds"])):
        return False
    return _same(record["settings"], settings_of(problem, recipe, job.seeds))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two runs are of the same equation, network and points, however long and with whatever seeds."""
    return _what(one) == _what(other)


def _what(asked: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in asked.items() if name not in LENGTH}
    return kept | {"recipe": re.sub(r"steps=\d+", "", str(asked.get("recipe")), count=1)}  # its own, which come first


def put(job: Job, folder: Path, record: Record) -> Path | None:
    """Writes a record where it belongs; None if the one that is there says more, and this one nothing of its own."""
    path = job.path(folder)
    before = _standing(path)
    if record["status"] == "done":
        if before is not None and reach(before) >= reach(record) and _same(before["settings"], record["settings"]):
            path = path.with_name(f"{path.stem}-{digest(record['settings'])}.json")
    elif before is not None and reach(before) > reach(record):
        return None
    if before is None or before["status"] == "done":
        _put_aside(path)
    return write_record(path, record)


def _standing(path: Path) -> Record | None:
    try:
        return read_record(path) if path.exists() else None
    except DamagedRecord:
        return None


def _put_aside(path: Path) -> None:
    """What was computed is kept, if only under another name."""
    number, aside = 1, path.with_name(f"{path.name}.old")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.old{number}")
    if path.exists():
        path.rename(aside)
