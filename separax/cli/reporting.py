"""The commands that look at kept runs: `separax report` and `separax view`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import explained, words

Run = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
Runs = Annotated[
    list[Path],
    typer.Argument(help="The folder of a run, or of several to compare.", show_default=False),
]


def read(run: Path) -> tuple[Any, dict[str, Any]]:
    """A run's solution and its record."""
    from ..runs import load  # pyright: ignore[reportAttributeAccessIssue]
    from ..solution import make_record as record

    solution = load(run)
    try:
        kept = json.loads((run / "record.json").read_text())
    except (
        OSError,
        ValueError,
    ):  # a run that was killed has no record yet; its solution says most of it
        kept = record(solution)
    return solution, {**kept, "run_dir": str(run)}


def report(
    runs: Runs,
    out: Annotated[
        Path | None, typer.Option(help="The page of a comparison.", show_default="comparison.html")
    ] = None,
) -> None:
    """Write the page of a run, or a page that compares several."""
    with explained():
        from ..core import InputError
        from ..output import write_comparison, write_report

        if len(runs) == 1 and out is not None:
            raise InputError(
                f"--out is for the page of several runs; the page of one lies in its folder: write separax report {runs[0]}"
            )
        found = [read(run) for run in runs]
        page = (
            write_report(found[0][0], runs[0], found[0][1])
            if len(runs) == 1
            else write_comparison(found, out or "comparison.html")
        )
        words.print(f"page  [bold]{page}[/]")


def view(
    run: Run,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it, or only print where it is.")
    ] = True,
) -> None:
    """Open the page of a run in the browser; written first if there is none."""
    with explained():
        from ..output import write_report

        page = run / "report.html"
        if not page.is_file():
            page = write_report(*_arguments(run))
    address = page.resolve()
    if browser and typer.launch(address.as_uri()) == 0:
        words.print(f"opened [bold]{address}[/]")
    else:
        print(address)


def _arguments(run: Path) -> tuple[Any, Path, dict[str, Any]]:
    solution, record = read(run)
    return solution, run, record
