"""From a folder of records to tables on the screen and to files: CSV, Markdown and figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ...core import InputError, listed, nearest, one_of
from ...runs import write
from ...solution import environment
from ..catalogue import CATALOGUE
from .figures import error_against_rank, error_over_time, four_columns, save
from .plan import published
from .records import Record, collect
from .tables import (
    Row,
    compare,
    csv_text,
    inject,
    markdown,
    places,
    problem_table,
    rank_table,
    stale,
    summary_table,
    time_table,
)

FOUR = (
    "diffusion",
    "helmholtz",
    "klein-gordon",
    "klein-gordon-3d",
)  # the problems of the paper's figure


def rows_of(problems: Sequence[str], records: Sequence[Record]) -> dict[str, list[Row]]:
    """The rows of every problem, published and ours."""
    return {name: compare(name, records, published()) for name in problems or list(CATALOGUE)}


def documents(rows: dict[str, list[Row]], records: Sequence[Record]) -> dict[str, str]:
    """The Markdown of every table, by the name its place in a document has: rows of the paper, then studies."""
    every = [row for some in rows.values() for row in some]
    found = {name: problem_table(some) for name, some in rows.items() if some} | {
        "summary": summary_table(every)
    }
    for name in rows:
        done = [r for r in records if r["problem"] == name and r["status"] == "done"]
        if ranked := [r for r in done if "rank" in r]:
            found[f"{name}-ranks"] = rank_table(ranked, published())
        if flows := [r for r in done if r.get("over_time") and "rank" not in r]:
            found[f"{name}-over-time"] = time_table(flows)
    return {name: markdown(table) for name, table in found.items()}


def fill(markdown_file: Path, folder: Path) -> None:
    """Puts the tables of a folder's records into the places that a document has for them."""
    records, _ = collect(folder)
    tables = documents(rows_of((), records), records)
    for name in stale(markdown_file, tables):
        if name not in tables:
            raise InputError(
                f"{markdown_file}: there is no table {name!r}; there are {listed(tables)}.{nearest(name, tables)}"
            )
        inject(markdown_file, name, tables[name])


def check_places(markdown_file: Path) -> None:
    """Refuses a document that cannot be filled, before anything is run for it."""
    known = [
        "summary",
        *(name + part for name in CATALOGUE for part in ("", "-ranks", "-over-time")),
    ]
    for name in places(markdown_file):
        one_of(f"into: {markdown_file}: table", name, known)


def write_all(folder: Path) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Writes tables and figures of all records in a folder beside them; returns the files, and the records it left out."""
    records, damaged = collect(folder)
    rows = rows_of((), records)
    every = [row for some in rows.values() for row in some]
    text = "\n\n".join(f"## {name}\n\n{table}" for name, table in documents(rows, records).items())
    files = [folder / "tables.csv", folder / "tables.md"]
    write(files[0], csv_text(every).encode())
    write(files[1], f"# Published and ours\n\n{text}\n".encode())
    seen = {r["problem"] for r in records if "rank" not in r}
    if shown := [name for name in FOUR if name in seen]:
        files.append(
            save(four_columns(records, published(), shown), folder / "figures" / "results.png")
        )
    ranked = [r for r in records if "rank" in r and r["status"] == "done"]
    if ranked:
        files.append(save(error_against_rank(ranked), folder / "figures" / "rank.png"))
    flows = [r for r in records if r.get("over_time") and "rank" not in r]
    if flows:
        files.append(save(error_over_time(flows), folder / "figures" / "over-time.png"))
    return files, damaged


def log_command(folder: Path, command: str, seconds: float) -> None:
    """Adds a line to the folder's list of commands: when, how long, on what."""
    path, now = folder / "commands.csv", environment()
    line = io.StringIO()
    sheet = csv.writer(line, lineterminator="\n")
    if not path.exists():
        sheet.writerow(["ended", "seconds", "device", "command"])
    sheet.writerow([now["time"], f"{seconds:.0f}", now["device"], command])
    with open(path, "ab") as file:
        file.write(line.getvalue().encode())
