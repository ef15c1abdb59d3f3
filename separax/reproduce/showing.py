"""From a folder of records to tables on the screen and to files: CSV, Markdown and figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ..catalogue import CATALOGUE
from ..errors import InputError, listed, nearest
from ..report.record import environment
from ..runs import write
from .figures import error_against_rank, four_columns, save
from .published import published
from .records import Record, collect
from .tables import Row, compare, csv_text, inject, markdown, problem_table, stale, summary_table

FOUR = ("diffusion", "helmholtz", "klein-gordon", "klein-gordon-3d")  # the problems of the paper's figure


def rows_of(problems: Sequence[str], records: Sequence[Record]) -> dict[str, list[Row]]:
    """The rows of every problem, published and ours."""
    return {name: compare(name, records, published()) for name in problems or list(CATALOGUE)}


def documents(rows: dict[str, list[Row]]) -> dict[str, str]:
    """The Markdown of every table, by the name its place in a document has."""
    every = [row for some in rows.values() for row in some]
    return {name: markdown(problem_table(some)) for name, some in rows.items() if some} | {
        "summary": markdown(summary_table(every))
    }


def fill(markdown_file: Path, folder: Path) -> None:
    """Puts the tables of a folder's records into the places that a document has for them."""
    tables = documents(rows_of((), collect(folder)[0]))
    for name in stale(markdown_file, tables):
        if name not in tables:
            raise InputError(f"{markdown_file}: there is no table {name!r}; there are {listed(tables)}.{nearest(name, tables)}")
        inject(markdown_file, name, tables[name])


def write_all(folder: Path) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Writes tables and figures of all records in a folder beside them; returns the files, and the records it left out."""
    records, damaged = collect(folder)
    rows = rows_of((), records)
    every = [row for some in rows.values() for row in some]
    text = "\n\n".join(f"## {name}\n\n{table}" for name, table in documents(rows).items())
    files = [folder / "tables.csv", folder / "tables.md"]
    write(files[0], csv_text(every).encode())
    write(files[1], f"# Published and ours\n\n{text}\n".encode())
    seen = {r["problem"] for r in records if "rank" not in r}
    if shown := [name for name in FOUR if name in seen]:
        files.append(save(four_columns(records, published(), shown), folder / "figures" / "results.png"))
    ranked = [r for r in records if "rank" in r and r["status"] == "done"]
    if ranked:
        files.append(save(error_against_rank(ranked), folder / "figures" / "rank.png"))
    return files, damaged


def log_command(folder: Path, command: str, seconds: float) -> None:
    """Adds a line to the folder's list of commands: when, how long, on what."""
    path, now = folder / "commands.csv", environment()
    before = path.read_text() if path.exists() else "ended,seconds,device,command\n"
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([now["time"], f"{seconds:.0f}", now["device"], command])
    write(path, (before + line.getvalue()).encode())
