"""Whether a run is what was written: all of its files, read and compared with what they say of themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import files
from .files import Damaged
from .folder import ENVIRONMENT, RECORD, SETTINGS, read_environment, read_settings


def check(run: str | os.PathLike[str]) -> list[Damaged]:
    """The damaged files of a run, each with a reason; those of its windows too. None: every file is good."""
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(f"check: {folder} is no folder of a run: write the one that solve(out=…) was given")
    return [damage for place in (folder, *sorted(folder.glob("windows/*"))) for damage in _in(place)]


def _in(folder: Path) -> Iterator[Damaged]:
    identity = record = None
    try:
        identity = read_settings(folder)["run"]
    except InputError as error:  # damaged, gone, or of another version
        yield error if isinstance(error, Damaged) else Damaged(folder / SETTINGS, f"cannot be used: {error}")
    paths = {path.name: path for path in sorted(folder.iterdir())}
    for name, path in paths.items():
        try:
            if name == RECORD:
                record = files.read_json(path, exact=True)
                _same(path, identity, record)
            elif name == ENVIRONMENT:
                read_environment(path, identity)
            elif path.suffix == ".npz":
                about, _ = files.read_npz(path)
                _same(path, identity, about)
                if about["kind"] != name.partition(".")[0].partition("-")[0]:
                    raise Damaged(path, f"is no {name} but a {about['kind']}")
                if "-seed" in name and path.stem != f"{about['kind']}-seed{about['seed']}":
                    raise Damaged(path, f"is of seed {about['seed']}")
        except Damaged as error:
            yield error
    for name, digest in (record or {}).get("files", {}).items():
        try:
            if files.digest(files.read(folder / name)) != digest:
                yield Damaged(folder / name, f"is not the one that {RECORD} names")
        except Damaged as error:
            yield error


def _same(path: Path, identity: str | None, about: dict[str, Any]) -> None:
    if identity is not None and about.get("run") != identity:
        raise Damaged(path, f"is of another run ({about.get('run')}, not {identity})")
