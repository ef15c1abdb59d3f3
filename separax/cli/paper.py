"""The commands about the paper: its rows, what rank a function needs, how many operations a step takes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .console import explained, numbers, several, words


def reproduce(
    problems: Annotated[
        list[str] | None, typer.Argument(help="Problems; all of them if none is named.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Seeds, trained at once.", show_default="the paper's")
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    points: Annotated[
        list[str] | None, typer.Option(help="Points per axis; commas between several.")
    ] = None,
    networks: Annotated[
        list[str] | None,
        typer.Option(help="spinn, spinn-mod, pinn, pinn-mod; commas between several."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of each run.", show_default="the paper's")
    ] = None,
    ranks: Annotated[list[str] | None, typer.Option(help="A study instead: these ranks.")] = None,
    baselines: Annotated[
        str,
        typer.Option(help="Train pinn, pinn-mod at their smallest size, at all, or timed only."),
    ] = "smallest",
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("reproduced"),
    show: Annotated[
        bool, typer.Option("--show", help="Run nothing; show what is recorded.")
    ] = False,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            help="Put the tables into the places a Markdown file has for them; once for each file."
        ),
    ] = None,
) -> None:
    """Run the paper's rows and put them beside the published figures. What is recorded already is not run again."""
    with explained():
        from ..core import InputError, whole
        from ..paper import (
            Stopped,
            check_places,
            collect,
            fill,
            left_out,
            log_command,
            plan,
            problem_table,
            rich_table,
            rows_of,
            run_all,
            summary_table,
            write_all,
        )

        whole("seed", seed, 0)
        if steps is not None:
            whole("steps", steps)
        sizes, ranked = numbers("points", points), numbers("ranks", ranks)
        asked = {"problems": problems or [], "networks": several(networks), "points": sizes}
        jobs = plan(
            **asked, seeds=seeds, first_seed=seed, steps=steps, ranks=ranked, baselines=baselines
        )
        if nothing := left_out(jobs, **asked):
            words.print(f"the paper has no such rows, they are left out: {', '.join(nothing)}")
        for file in into or []:
            check_places(file)
        stopped, started = None, time.perf_counter()
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"out: cannot write to {out} ({error.strerror}): choose another folder"
            ) from None
        command = " ".join(["separax", *sys.argv[1:]])

        if not show:
            try:
                run_all(jobs, out, command, lambda line: words.print(escape(line)), True)
            except Stopped as error:
                stopped = error
            log_command(out, command, time.perf_counter() - started)
        files, damaged = write_all(out)
        for path, reason in damaged:
            words.print(f"[bold red]left out:[/] {path}: {reason}")
        rows = rows_of(list(dict.fromkeys(job.problem for job in jobs)), collect(out)[0])
        screen = Console(width=None if sys.stdout.isatty() else 140)
        for some in rows.values():
            screen.print(rich_table(problem_table(some)))
        screen.print(rich_table(summary_table([row for some in rows.values() for row in some])))
        words.print(f"records in [bold]{out}[/]; {', '.join(str(path) for path in files)}")
        for file in into or []:
            fill(file, out)
        if stopped is not None:
            words.print(f"{stopped}; the same command goes on from there")
            raise typer.Exit(130)


def rank(
    what: Annotated[
        str,
        typer.Argument(
            help="A problem of the catalogue, or FILE.py:NAME of a function or a Problem."
        ),
    ],
    axis: Annotated[
        list[str] | None, typer.Option(help="An axis of a function's box, t=0,10; once for each.")
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="Which of several functions a reference has.")
    ] = None,
    ranks: Annotated[
        list[str] | None, typer.Option(help="Commas between.", show_default="1,2,4,…,64")
    ] = None,
    points: Annotated[
        int | None, typer.Option(help="Points per axis of the lattice.", show_default="by the axes")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Relative L2 error that would do.")] = 1e-3,
    out: Annotated[Path | None, typer.Option(help="Also write the curve: FILE.png.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """What rank does a function need? The error of the best sum of products, against the number of products."""
    with explained():
        from ..core import InputError, finite
        from ..separable import RANKS, needed, study

        finite("tolerance", tolerance, positive=True)
        if out is not None and out.suffix.lower() != ".png":
            raise InputError(
                f"out: {out} is no picture that can be written here: write --out {out.with_suffix('.png')}"
            )
        function, box = _function(what, axis or [], field)
        with words.status(f"fitting sums of products to {what}"):
            rows = study(function, box, numbers("ranks", ranks) or RANKS, points)
        enough = needed(rows, tolerance)
        if out is not None:
            from ..output import against_rank
            from ..paper import save

            words.print(f"curve in [bold]{save(against_rank(rows, what), out)}[/]")
        if as_json:
            found = {
                "what": what,
                "rows": [row._asdict() for row in rows],
                "tolerance": tolerance,
                "needed": enough,
            }
            sys.stdout.write(json.dumps(found) + "\n")
            return
        table = Table(
            title=Text(f"{what}: best fit by a sum of products", style="bold"), title_justify="left"
        )
        for column in ("rank", "relative L2 error", "cancellation"):
            table.add_column(column, justify="right")
        for row in rows:
            table.add_row(str(row.rank), f"{row.relative_l2:.1e}", f"{row.cancellation:.2g}")
        screen = Console()
        screen.print(table)
        verdict = (
            f"rank {enough} is enough for {tolerance:g}"
            if enough
            else f"none of these ranks reaches {tolerance:g}"
        )
        best = (
            "No network of that rank"
            if box.dimension == 2
            else "As far as the search went, no network of that rank"
        )
        screen.print(f"{verdict}. {best} does better than this, however it is trained.")
        if rows[-1].resolution > max(1e-2 * rows[-1].relative_l2, 1e-8):
            screen.print(
                f"The lattice itself leaves {rows[-1].resolution:.0e} unseen: try more --points."
            )


def _function(what: str, axes: list[str], field: str | None) -> tuple[Any, Any]:
    """A function and its box: of the catalogue, or of a user's file."""
    from ..core import InputError, shown
    from ..equations import Problem
    from ..paper import find
    from .problems import is_file, named

    found = named(what) if is_file(what) else find(what).problem("paper")
    if isinstance(found, Problem):
        if axes:
            raise InputError(
                f"axis: {what} has a box of its own, {found.box!r}: leave --axis out, or name a function, FILE.py:exact"
            )
        return _reference(what, found, field), found.box
    if field is not None:
        raise InputError(f"field: {what} is a function of its own: leave --field out")
    if not callable(found):
        raise InputError(f"{what}: this is neither a function nor a Problem, but {shown(found)}")
    return found, _box(what, axes)


def _reference(what: str, problem: Any, field: str | None) -> Any:
    from ..core import InputError, one_of

    reference = problem.reference
    if reference is None:
        raise InputError(
            f"{what}: this problem has no reference to look at: name a function, FILE.py:exact"
        )
    if problem.shape is not None:
        raise InputError(
            f"{what}: its domain is no box, and a sum of products is a function on a box: name a function, FILE.py:exact"
        )
    if not isinstance(reference, Mapping):
        if field is not None:
            raise InputError(
                f"field: the reference of {what} is a single function: leave --field out"
            )
        return reference
    if field is None and len(reference) > 1:
        raise InputError(
            f"field: {what} has several functions: write --field with one of {', '.join(reference)}"
        )
    return reference[one_of("field", field or next(iter(reference)), reference)]


def _box(what: str, axes: list[str]) -> Any:
    from ..core import InputError
    from ..domain import Box

    bounds: dict[str, tuple[float, float]] = {}
    for text in axes:
        name, _, ends = text.partition("=")
        try:
            lower, upper = (float(end) for end in ends.split(","))
        except ValueError:
            raise InputError(
                f"axis: {text!r} is not an axis with its ends: write --axis x=-1,1"
            ) from None
        if name.strip() in bounds:
            raise InputError(
                f"axis: {name.strip()} stands there twice: write --axis once for each axis"
            )
        bounds[name.strip()] = (lower, upper)
    if not bounds:
        raise InputError(
            f"{what}: a function needs a box: write --axis x=-1,1 once for each of its axes"
        )
    return Box(**bounds)


def flops(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """The paper's table of operations, by formula and counted from compiled programs."""
    with explained():
        from ..paper import table as lines_of

        with words.status("compiling what is to be counted"):
            lines = lines_of()
    if as_json:
        sys.stdout.write(json.dumps({"millions": [line._asdict() for line in lines]}) + "\n")
        return

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    table = Table(
        title="operations for u and its first and second derivatives on 64³ points, in millions",
        title_justify="left",
    )
    for column in ("", "adds", "mults", "all", "published\nadds", "\nmults", "\nall"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for line in lines:
        published = (line.published_adds, line.published_mults, line.published_total)
        table.add_row(line.what, *map(shown, (line.adds, line.mults, line.total, *published)))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
