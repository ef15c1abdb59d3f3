"""`reproduce_rows`: from rows that are asked for to records, and to tables and figures of them."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import InputError, one_of
from ...runs import write
from ...solution import environment
from ..catalogue import CATALOGUE
from .figures import error_against_rank, error_over_time, four_columns, save
from .plan import left_out, plan
from .records import Record, collect
from .rows import Row, compare
from .running import Stopped, run_all
from .tables import CAVEAT, Table, csv_text, documents, problem_table, summary_table

FOUR = ("diffusion", "helmholtz", "klein-gordon", "klein-gordon-3d")  # of the paper's figure
# the names of all tables that there may be
TABLES = ["summary", *(name + part for name in CATALOGUE for part in ("", "-ranks", "-over-time"))]


def reproduce_rows(
    problems: Sequence[str] = (),
    *,
    networks: Sequence[str] = (),
    points: Sequence[int] = (),
    out: Path,
    show: bool = False,
    into: Sequence[Path] = (),
    command: str = "separax reproduce",
    say: Callable[[str], None] = print,
    progress: bool | None = None,
    **options: Any,
) -> tuple[list[Table], bool]:
    """Runs the paper's rows that are not recorded yet, and puts them beside the published ones.

    Arguments:
        problems, networks, points: which rows, as in `plan`.
        out: the folder of the records, and of tables and figures of all of them.
        show: run nothing.
        into: Markdown files with places for the tables.
        command: what was asked for, for the records.
        say: is told how it goes, a line at a time.
        progress: whether to show a bar; None: on a terminal.
        options: `seeds`, `first_seed`, `steps`, `ranks`, `baselines`, as in `plan`.

    Returns:
        The tables of the problems and their summary, and whether it was interrupted.
    """
    asked = {"problems": problems, "networks": networks, "points": points}
    jobs = plan(**asked, **options)
    if nothing := left_out(jobs, **asked):
        say(f"the paper has no such rows, they are left out: {', '.join(nothing)}")
    for file in into:
        filled(file, dict.fromkeys(TABLES, ""))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"out: cannot write to {out} ({error.strerror}): choose another folder"
        ) from None
    stopped, started = None, time.perf_counter()
    if not show:
        try:
            run_all(jobs, out, command, say, progress)
        except Stopped as error:
            stopped = error
        log_command(out, command, time.perf_counter() - started)
    records, damaged = collect(out)
    for error in damaged:
        say(f"left out: {error}")
    rows = {name: compare(name, records) for name in CATALOGUE}
    texts = documents(rows, records)
    say(f"records in {out}; {', '.join(map(str, _write(out, records, rows, texts)))}")
    for file in into:
        write(file, filled(file, texts).encode())
    if stopped is not None:
        say(f"{stopped}; the same command goes on from there")
    wanted = {job.problem for job in jobs}
    chosen = {name: some for name, some in rows.items() if name in wanted}
    summary = summary_table(chosen)
    summary = dataclasses.replace(summary, caption=f"{CAVEAT}\n{summary.caption}")
    return [*map(problem_table, chosen.values()), summary], stopped is not None


def _write(
    folder: Path,
    records: Sequence[Record],
    rows: Mapping[str, Sequence[Row]],
    texts: Mapping[str, str],
) -> list[Path]:
    """Writes tables and figures of all records beside them; returns their files."""
    files = [folder / "tables.csv", folder / "tables.md"]
    write(files[0], csv_text(row for some in rows.values() for row in some).encode())
    head = f"# Published and ours\n\n{textwrap.fill(CAVEAT, 100)}"
    parts = [head, *(f"## {name}\n\n{text}" for name, text in texts.items())]
    write(files[1], ("\n\n".join(parts) + "\n").encode())
    figures, tabled = folder / "figures", [r for r in records if "rank" not in r]
    if four := [name for name in FOUR if name in {r["problem"] for r in tabled}]:
        files.append(save(four_columns(records, four), figures / "results.png"))
    if ranked := [r for r in records if "rank" in r and r["status"] == "done"]:
        files.append(save(error_against_rank(ranked), figures / "rank.png"))
    if flows := [r for r in tabled if r.get("over_time")]:
        files.append(save(error_over_time(flows), figures / "over-time.png"))
    return files


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


# --- tables in documents -------------------------------------------------------------------------

# markers stand on lines of their own, so that text may speak about them
BEGIN = r"^<!-- separax:(?P<name>[\w-]+) -->[ \t]*\r?\n"
PLACE = re.compile(rf"(?P<begin>{BEGIN}).*?(?P<end>^<!-- /separax -->)", re.MULTILINE | re.DOTALL)


def filled(file: Path, tables: Mapping[str, str]) -> str:
    """The text of a document, with tables between its lines `<!-- separax:NAME -->` and
    `<!-- /separax -->`.

    Arguments:
        file: the document, in Markdown.
        tables: the Markdown of each table, by name.

    Returns:
        The new text; refused where a place is of no table, or has no end.
    """
    try:
        text = file.read_bytes().decode("utf-8")  # as it is, line ends too
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"into: {file} cannot be read ({error}): name a Markdown file") from None

    def place(found: re.Match[str]) -> str:
        table = tables[one_of(f"into: {file}: table", found["name"], tables)]
        return f"{found['begin']}{table.strip()}\n{found['end']}"

    new, places = PLACE.subn(place, text)
    if places < len(re.findall(BEGIN, text, re.MULTILINE)):
        raise InputError(
            f"into: {file}: the place of a table has no end: write the line <!-- /separax --> below"
            " each table"
        )
    return new
