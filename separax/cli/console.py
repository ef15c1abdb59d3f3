"""What the commands share: where words and results go, how tables and refusals look."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from ..core import Diverged, InputError, whole
from ..paper import Table

words = Console(
    stderr=True, highlight=False, emoji=False
)  # progress and words; results go to standard output


def results() -> Console:
    """Standard output: as wide as its terminal, or 120 columns where it is none."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else 120, highlight=False, emoji=False)


def print_json(found: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(found) + "\n")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turns refusals into a line on standard error and an exit code: 2 for bad input, 1 for a run
    that failed."""
    try:
        yield
    except InputError as error:
        words.print(f"[bold red]error:[/] {escape(str(error))}")
        raise typer.Exit(2) from None
    except Diverged as error:
        words.print(f"[bold red]stopped:[/] {escape(str(error))}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        words.print(
            "[bold red]stopped[/] at once, as asked twice; nothing since the last save was kept"
        )
        raise typer.Exit(130) from None


def several(values: Sequence[str] | None) -> list[str]:
    """--points 16,32 --points 64 as one list."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def numbers(option: str, values: Sequence[str] | None) -> list[int]:
    """The same of whole numbers."""
    try:
        found = [int(value) for value in several(values)]
    except ValueError:
        raise InputError(
            f"{option} must be whole numbers with commas between, got {','.join(values or [])!r}"
        ) from None
    return [whole(option, number) for number in found]


def show(tables: Sequence[Table]) -> None:
    """Prints tables on standard output, and below them what is said of all of them."""
    screen = results()
    for table in tables:
        screen.print(drawn(table, screen.width))
    for caption in dict.fromkeys(table.caption for table in tables if table.caption):
        screen.print(Text(caption, style="dim"))


def drawn(table: Table, width: int) -> Group:
    """A table for a terminal that is so wide. Notes are numbered and stand below it; columns that
    there is no room for are left out, and named there, too."""
    known = {note: str(i + 1) for i, note in enumerate(dict.fromkeys(filter(None, table.notes)))}
    columns, left_out = dict(table.columns), []
    if known:
        columns["\nnote"] = [known.get(note, "") for note in table.notes]
    for name in table.extra:
        lines = [[*heading.split("\n"), *cells] for heading, cells in columns.items()]
        if sum(2 + max(map(cell_len, several)) for several in lines) <= width:
            break
        left_out.append(name)
        columns = {h: cells for h, cells in columns.items() if not h.startswith(name)}
    below = [f"{number}  {note}" for note, number in known.items()]
    below += [f"no room for: {', '.join(left_out)}"] if left_out else []
    found = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, heading in enumerate(columns):
        is_name, is_text = i == 0 and table.words > 0, i < table.words
        found.add_column(
            heading,
            justify="left" if is_text else "right",
            style="bold cyan" if is_name else None,
            no_wrap=is_name or not is_text,
        )
    rows = list(zip(*columns.values()))
    for before, row in zip([None, *rows], rows):
        if table.notes and before and row[0] != before[0]:
            found.add_section()  # a gap between networks
        found.add_row(*map(escape, row))
    notes = [Text("\n".join(below), style="dim")] if below else []
    return Group(Text(table.title, style="bold"), found, *notes)
