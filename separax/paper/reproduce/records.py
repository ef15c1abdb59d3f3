"""A folder of records, one file per row of the paper's tables: `<folder>/<problem>/<network>-<points>.json`.

Every record carries the SHA-256 of its own content, so that a file that was cut short or changed by hand is found and left
out; it guards against accidents, not against somebody who writes a new checksum. Keys beyond the schema (`rank`, say) are
kept and covered by the checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import InputError, in_float64, shown
from ...equations import Problem
from ...recipe import Recipe
from ...runs import Damaged, read_json, seal, settings, write
from .plan import Job, published

Record = dict[str, Any]
SCHEMA = 1
STATUSES = ("done", "timed", "skipped")
PRECISIONS = ("float32", "float64", "tf32")
MOST_CURVE_STEPS = 200


class DamagedRecord(InputError):
    """A record that cannot be trusted: `path`, and the `reason` in words."""

    def __init__(self, path: str | os.PathLike[str], reason: str):
        super().__init__(f"{path}: {reason}; run this row again, or restore the file")
        self.path, self.reason = Path(path), reason


def write_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> Path:
    """Seals `record` and writes it, whole or not at all. What could not be read back is refused."""
    path = Path(path)
    sealed = seal(record)
    reason = wrong(sealed) or misplaced(path, sealed)
    if reason:
        raise InputError(f"record for {path}: {reason}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, (json.dumps(sealed, indent=1) + "\n").encode())
    except OSError as error:
        raise InputError(
            f"out: cannot write {path} ({error.strerror}): choose another folder"
        ) from error
    return path


def read_record(path: str | os.PathLike[str]) -> Record:
    """The record in a file, checked in full; raises `DamagedRecord`."""
    path = Path(path)
    try:
        record = read_json(path)
    except Damaged as error:
        raise DamagedRecord(path, error.reason) from None
    reason = wrong(record) or misplaced(path, record)
    if reason:
        raise DamagedRecord(path, reason)
    return record


def collect(folder: str | os.PathLike[str]) -> tuple[list[Record], list[tuple[Path, str]]]:
    """All records under `folder`, by problem, network and points; and the damaged ones, which are in no average."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"records: {folder} is not a folder: name the one that the rows were written to"
        )
    records, damaged = [], []
    for path in sorted(folder.glob("*/*.json")):
        try:
            records.append(read_record(path))
        except DamagedRecord as error:
            damaged.append((path, error.reason))
    return sorted(records, key=lambda r: (r["problem"], r["network"], r["points"])), damaged


def reach(record: Record) -> tuple[int, int, int]:
    """How far a record goes: trained, timed or skipped; steps; seeds."""
    return -STATUSES.index(record["status"]), record["steps"], len(record["seeds"])


def furthest(
    records: Iterable[Record], key: Callable[[Record], Any] = lambda r: r["points"]
) -> list[Record]:
    """One record for every `key`, in its order: the one that reaches furthest, then the latest."""
    kept: dict[Any, Record] = {}
    for record in sorted(records, key=lambda r: (reach(r), r["environment"]["time"])):
        kept[key(record)] = record
    return [kept[k] for k in sorted(kept)]


# --- what a record must hold ---------------------------------------------------------------------------------------


def wrong(record: Any) -> str | None:
    """What is wrong with a record's fields, in words, or None."""
    if not isinstance(record, dict):
        return f"is not a JSON object but {shown(record)}"
    if record.get("schema") != SCHEMA or isinstance(record.get("schema"), bool):
        return f"schema is {shown(record.get('schema'))}, this version reads schema {SCHEMA}"
    for name, (holds, meant) in FIELDS.items():
        if name not in record:
            return f"has no field {name!r}"
        if not holds(record[name]):
            return f"{name} must be {meant}, it is {shown(record[name])}"
    for name in PER_SEED:
        if record[name] is not None and len(record[name]) != len(record["seeds"]):
            return f"{name} has {len(record[name])} values for {len(record['seeds'])} seeds"
    return (
        _wrong_status(record)
        or _wrong_curve(record["curve"], len(record["seeds"]))
        or _wrong_environment(record["environment"])
    )


def misplaced(path: Path, record: Mapping[str, Any]) -> str | None:
    """Whether a record lies where its problem and its network say, in words, or None."""
    if path.parent.absolute().name != record["problem"]:
        return f"is about the problem {record['problem']!r}, but lies in a folder of another name"
    rest = path.stem.removeprefix(record["network"])
    longer = [n for n in {row.network for row in published()} if len(n) > len(record["network"])]
    known = any(
        re.match(re.escape(n) + r"(-|$)", path.stem) for n in longer
    )  # spinn-mod-64 is not of spinn
    if known or not path.stem.startswith(record["network"]) or (rest and not rest.startswith("-")):
        return f"is about the network {record['network']!r}, but its file is named {path.name!r}"
    points = re.match(r"-(\d+)(-|$)", rest)
    if points and int(points[1]) != record["points"]:
        return f"is about {record['points']} points per axis, but its file is named {path.name!r}"
    return None


def _number(value: Any) -> bool:
    # bool is an int in Python, never in a record; the bound also keeps out whole numbers too long for a float
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


def _count(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _word(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _amount(value: Any) -> bool:
    return _number(value) and value >= 0


def _some(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) > 0 and all(map(holds, value))


def _or_null(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _seeds(value: Any) -> bool:
    return _some(_count(0))(value) and len(set(value)) == len(value)


AMOUNTS = "a list of finite numbers of at least 0, one per seed, or null"
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "problem": (_word, "a name"),
    "network": (_word, "a name"),
    "points": (_count(1), "a whole number of at least 1"),
    "axes": (_count(1), "a whole number of at least 1"),
    "recipe": (_word, "a name"),
    "steps": (_count(0), "a whole number of at least 0"),
    "seeds": (_seeds, "a list of different whole numbers"),
    "precision": (lambda v: v in PRECISIONS, f"one of {', '.join(PRECISIONS)}"),
    "relative_l2": (_or_null(_some(_amount)), AMOUNTS),
    "rmse": (_or_null(_some(_amount)), AMOUNTS),
    "loss": (_or_null(_some(_number)), "a list of finite numbers, one per seed, or null"),
    "best_step": (_or_null(_some(_count(0))), "a list of whole numbers, one per seed, or null"),
    "train_seconds": (_or_null(_amount), "a number of at least 0, or null"),
    "compile_seconds": (_or_null(_amount), "a number of at least 0, or null"),
    "ms_per_step": (_or_null(lambda v: _number(v) and v > 0), "a positive number, or null"),
    "ms_per_step_together": (
        _or_null(lambda v: _number(v) and v > 0),
        "a positive number, or null",
    ),
    "memory_mb": (_or_null(_amount), "a number of at least 0, or null"),
    "memory_together_mb": (_or_null(_amount), "a number of at least 0, or null"),
    "curve": (_or_null(lambda v: isinstance(v, dict)), "an object, or null"),
    "status": (lambda v: v in STATUSES, f"one of {', '.join(STATUSES)}"),
    "note": (lambda v: isinstance(v, str), "words, or empty"),
    "settings": (lambda v: isinstance(v, dict), "an object"),
    "environment": (lambda v: isinstance(v, dict), "an object"),
    "command": (_word, "the command that made it"),
}
PER_SEED = ("relative_l2", "rmse", "loss", "best_step")


def _wrong_status(record: Record) -> str | None:
    status = record["status"]
    if status == "done" and record["relative_l2"] is None:
        return "status is 'done' without relative_l2"
    if status != "done" and (record["relative_l2"] is not None or record["rmse"] is not None):
        return f"status is {status!r} with errors"
    if status == "timed" and record["ms_per_step"] is None:
        return "status is 'timed' without ms_per_step"
    if status == "skipped" and not record["note"].strip():
        return "status is 'skipped' without a note that says why"
    return None


def _wrong_curve(curve: Record | None, seeds: int) -> str | None:
    if curve is None:
        return None
    steps: Any = curve.get("steps")
    if not _some(_count(0))(steps) or steps != sorted(set(steps)) or len(steps) > MOST_CURVE_STEPS:
        return f"curve: steps must be at most {MOST_CURVE_STEPS} rising whole numbers, it is {shown(steps)}"
    for name, holds in {"relative_l2": _amount, "loss": _number}.items():
        rows: Any = curve.get(name)
        if rows is not None and not (
            _some(_some(holds))(rows) and len(rows) == len(steps) and {*map(len, rows)} == {seeds}
        ):
            return f"curve: {name} must be {len(steps)} lists of {seeds} finite numbers, it is {shown(rows)}"
    return None


def _wrong_environment(environment: Record) -> str | None:
    for name in ("time", "device", "python"):
        if not _word(environment.get(name)):
            return f"environment: {name} must be words, it is {shown(environment.get(name))}"
    if not isinstance(environment.get("versions"), dict):
        return (
            f"environment: versions must be an object, it is {shown(environment.get('versions'))}"
        )
    return None


LENGTH = ("steps", "seeds")  # the settings that say how far a run goes, and not what it is


def settings_of(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    with in_float64():  # as `solve` sees them
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
    if job.train and (
        record["steps"] < recipe.total_steps or not set(job.seeds) <= set(record["seeds"])
    ):
        return False
    return _same(record["settings"], settings_of(problem, recipe, job.seeds))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two runs are of the same equation, network and points, however long and with whatever seeds."""
    return _what(one) == _what(other)


def _what(asked: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in asked.items() if name not in LENGTH}
    return kept | {
        "recipe": re.sub(r"steps=\d+", "", str(asked.get("recipe")), count=1)
    }  # its own, which come first


def put(job: Job, folder: Path, record: Record) -> Path | None:
    """Writes a record where it belongs; None if the one that is there says more, and this one nothing of its own."""
    path = job.path(folder)
    before = _standing(path)
    if record["status"] == "done":
        if (
            before is not None
            and reach(before) >= reach(record)
            and _same(before["settings"], record["settings"])
        ):
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
