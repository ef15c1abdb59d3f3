"""`reproduce_rows`: from rows that are asked for to records, and to tables and figures of them."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import InputError, one_of
from ...runs import write
from ..catalogue import CATALOGUE
from .figures import save_figures
from .plan import left_out, plan
from .records import collect
from .rows import compare
from .running import Stopped, run_all
from .tables import CAVEAT, Table, documents, problem_table, summary_table

# the names of all tables that there may be
TABLES = ["summary", *(name + part for name in CATALOGUE for part in ("", "-ranks"))]


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
    stopped = None
    if not show:
        try:
            run_all(jobs, out, command, say, progress)
        except Stopped as error:
            stopped = error
    records, damaged = collect(out)
    for error in damaged:
        say(f"left out: {error}")
    rows = {name: compare(name, records) for name in CATALOGUE}
    texts = documents(rows, records)
    head = f"# Published and ours\n\n{textwrap.fill(CAVEAT, 100)}"
    parts = [head, *(f"## {name}\n\n{text}" for name, text in texts.items())]
    write(out / "tables.md", ("\n\n".join(parts) + "\n").encode())
    files = [out / "tables.md", *save_figures(records, out / "figures")]
    say(f"records in {out}; {', '.join(map(str, files))}")
    for file in into:
        write(file, filled(file, texts).encode())
    if stopped is not None:
        say(f"{stopped}; the same command goes on from there")
    wanted = {job.problem for job in jobs}
    chosen = {name: some for name, some in rows.items() if name in wanted}
    summary = summary_table(chosen)
    summary = dataclasses.replace(summary, caption=f"{CAVEAT}\n{summary.caption}")
    return [*map(problem_table, chosen.values()), summary], stopped is not None


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
