"""The commands about the paper: its rows, what rank a function needs, how many operations it
costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer import Argument, Option

from ..core import InputError, finite, one_of
from ..equations import Problem
from ..output import FIGURES, against_rank, known_ending, save_figure
from ..paper import Table, brief, cells, count_operations, find, reproduce_rows
from ..separable import RANKS, needed, study
from . import options
from .console import numbers, print_json, several, show, words
from .problems import asked, is_file


def reproduce(
    problems: Annotated[
        list[str] | None, Argument(help="Problems of the paper; all where none is named.")
    ] = None,
    seeds: Annotated[
        int | None, Option(help="Number of seeds, trained at once.", show_default="the paper's")
    ] = None,
    seed: options.Seed = 0,
    points: Annotated[
        list[str] | None,
        Option(help="Points per axis, with commas between several.", show_default="the paper's"),
    ] = None,
    networks: Annotated[
        list[str] | None,
        Option(
            help="spinn, spinn-mod, pinn, pinn-mod, with commas between several.",
            show_default="all",
        ),
    ] = None,
    steps: Annotated[
        int | None, Option(help="Steps of each run.", show_default="the paper's")
    ] = None,
    ranks: Annotated[
        list[str] | None, Option(help="A study instead of the tables: train with these ranks.")
    ] = None,
    baselines: Annotated[
        str,
        Option(
            help="Train pinn and pinn-mod at their smallest size, at all, or measure a step alone"
            " (timed)."
        ),
    ] = "smallest",
    out: Annotated[Path, Option(help="Folder of the records.")] = Path("reproduced"),
    show_only: Annotated[
        bool, Option("--show", help="Run nothing; show what is recorded.")
    ] = False,
    into: Annotated[
        list[Path] | None,
        Option(
            help="Put the tables into the places that a Markdown file has for them; once for each"
            " file."
        ),
    ] = None,
) -> None:
    """Run the paper's rows that are not recorded yet, and put them beside the published ones."""
    tables, stopped = reproduce_rows(
        problems or [],
        networks=several(networks),
        points=numbers("points", points),
        seeds=seeds,
        first_seed=seed,
        steps=steps,
        ranks=numbers("ranks", ranks),
        baselines=baselines,
        out=out,
        show=show_only,
        into=into or [],
        command=" ".join(["separax", *sys.argv[1:]]),
        say=lambda line: words.print(escape(line)),
        progress=True,
    )
    show(tables)
    if stopped:
        raise typer.Exit(130)


def rank(
    what: Annotated[
        str,
        Argument(help="A problem with a reference: of the catalogue, or in FILE.py."),
    ],
    field: options.Field = None,
    ranks: Annotated[
        list[str] | None,
        Option(help="Numbers of products, with commas between.", show_default="1,2,4,…,64"),
    ] = None,
    points: Annotated[
        int | None, Option(help="Points per axis of the lattice.", show_default="by the axes")
    ] = None,
    tolerance: Annotated[float, Option(help="The relative L2 error to reach.")] = 1e-3,
    out: Annotated[Path | None, Option(help="Also draw the curve: FILE.png, .svg or .pdf.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """What rank does a function need? The error of the best sums of so many products."""
    finite("tolerance", tolerance, positive=True)
    if out is not None:
        known_ending(out, FIGURES)
    problem = asked(what).problem if is_file(what) else find(what).problem("paper")
    function, box = _reference(what, problem, field), problem.box
    with words.status(f"fitting sums of products to {what}"):
        rows = study(function, box, numbers("ranks", ranks) or RANKS, points)
    enough = needed(rows, tolerance)
    if out is not None:
        words.print(f"curve in [bold]{save_figure(against_rank(rows, what), out)}[/]")
    if as_json:
        found = [row._asdict() for row in rows]
        print_json({"what": what, "rows": found, "tolerance": tolerance, "needed": enough})
        return
    columns = {
        "rank": lambda row: str(row.rank),
        "relative L2 error": lambda row: f"{row.relative_l2:.1e}",
        "cancellation": lambda row: f"{row.cancellation:.2g}",
    }
    is_enough, none = f"rank {enough} is enough", "none of these ranks reaches"
    caption = f"{is_enough} for {tolerance:g}. " if enough else f"{none} {tolerance:g}. "
    best = "No network of that rank does better than this, however it is trained."
    searched = "As far as the search went, no" + best.removeprefix("No")
    caption += best if box.dimension == 2 else searched
    if rows[-1].resolution > max(1e-2 * rows[-1].relative_l2, 1e-8):
        unseen = f"{rows[-1].resolution:.0e}"
        caption += f" The lattice itself leaves {unseen} unseen: try more --points."
    show([Table(f"{what}: best fit by a sum of products", cells(rows, columns), (), caption, 0)])


def _reference(what: str, problem: Problem, field: str | None) -> Callable[..., Any]:
    """The function that a problem's solution is compared with."""
    reference = problem.reference
    if reference is None or problem.shape is not None:
        why = (
            "this problem has no reference to look at"
            if reference is None
            else "its domain is no box, and a sum of products is a function on a box"
        )
        raise InputError(f"{what}: {why}: of a function, ask separax.rank.study(function, box)")
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


def flops(as_json: options.AsJson = False) -> None:
    """The paper's table of operations, by formula and counted from compiled programs."""
    with words.status("compiling what is to be counted"):
        lines = count_operations()
    if as_json:
        print_json({"millions": [line._asdict() for line in lines]})
        return
    columns = {
        "": lambda line: line.what,
        "\nadds": lambda line: brief(line.adds),
        "\nmults": lambda line: brief(line.mults),
        "\nall": lambda line: brief(line.total),
        "published\nadds": lambda line: brief(line.published_adds),
        "published\nmults": lambda line: brief(line.published_mults),
        "published\nall": lambda line: brief(line.published_total),
    }
    title = "millions of operations for u and its first and second derivatives on 64³ points"
    show([Table(title, cells(lines, columns), extra=["published"])])
