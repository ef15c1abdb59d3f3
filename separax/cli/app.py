"""The command line: parse, call, print. Progress and words go to standard error, results to standard output."""

from __future__ import annotations

import datetime
import json
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .console import explained, words
from .doctor import doctor
from .exporting import export
from .paper import flops, rank, reproduce
from .reporting import report, view

app = typer.Typer(
    help="Separable physics-informed neural networks: write the equation, get the solution.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _versions(asked: bool) -> None:
    if asked:
        from ..solution import PACKAGES, version

        print(
            ", ".join(
                [
                    *(f"{package} {version(package)}" for package in PACKAGES),
                    f"Python {platform.python_version()}",
                ]
            )
        )
        raise typer.Exit


@app.callback()
def _before(
    versions: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the versions of what computes, and exit.",
            callback=_versions,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


Problem = Annotated[
    str,
    typer.Argument(
        help="A problem of the catalogue (`separax list`), or FILE.py with one of yours; FILE.py:NAME of several.",
        show_default=False,
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="best, or paper to follow the paper; of the catalogue.",
        show_default="best",
    ),
]
Network = Annotated[
    str | None,
    typer.Option(help="spinn, spinn-mod, pinn or pinn-mod.", show_default="the recipe's"),
]
Points = Annotated[int | None, typer.Option(help="Points per axis.", show_default="the recipe's")]
Precision = Annotated[
    str | None, typer.Option(help="float32, float64 or tf32.", show_default="the recipe's")
]


@app.command("list")
def list_() -> None:
    """Show the problems that can be solved by name."""
    from ..paper import CATALOGUE

    table = Table(title="separax solve PROBLEM", title_justify="left", title_style="bold")
    for column in ("problem", "equation", "about"):
        table.add_column(column, style="bold cyan" if column == "problem" else None)
    for entry in CATALOGUE.values():
        table.add_row(entry.name, entry.equation, entry.summary)
    Console().print(table)


@app.command()
def solve(
    problem: Problem,
    recipe: RecipeName = None,
    network: Network = None,
    points: Points = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of the optimiser.", show_default="the recipe's")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="The relative L2 error that would do, for a file without a recipe.",
            show_default="1e-4",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    seeds: Annotated[int, typer.Option(help="Train this many seeds at once, from --seed on.")] = 1,
    precision: Precision = None,
    windows: Annotated[
        int | None, typer.Option(help="Windows of time.", show_default="the problem's")
    ] = None,
    window: Annotated[
        float | None, typer.Option(help="Length of a window of time, instead of --windows.")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Begin a window with the last one's network.")
    ] = False,
    causal: Annotated[
        bool,
        typer.Option(
            "--causal",
            help="Weigh early times before late ones (patented, not for commercial use: see the docs).",
        ),
    ] = False,
    initial: Annotated[
        Path | None, typer.Option(help="A flow to begin from: .npz, .mat or .nc (navier-stokes).")
    ] = None,
    project: Annotated[
        bool, typer.Option("--project", help="Take the part of --initial that has no divergence.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the run.", show_default="runs/PROBLEM-TIME")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write for TensorBoard, to the run's folder.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Solve a problem, of the catalogue or in a file of yours, and keep the run in a folder."""
    with explained():
        from ..core import InputError, whole
        from .problems import prepare

        whole("seeds", seeds)
        if project and initial is None:
            raise InputError(
                "--project is about the flow in a file: write --initial FILE --project"
            )
        if resume and out is None:
            raise InputError(
                "--resume needs the folder of the run to go on with: write --out DIR --resume"
            )
        found = prepare(
            problem, recipe, network, points, steps, precision, initial, project, causal
        )
        folder = out or Path("runs") / f"{found.title}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
        from ..output import write_report
        from ..runs import keep_record
        from ..solving import solve as run
        from ..training import TensorBoard

        options: dict[str, Any] = {**found.options, **({"warm": True} if warm else {})}
        if windows is not None or window is not None:  # the command line's word on how time is cut
            options |= {"windows": 1 if windows is None else windows, "window": window}
        if tolerance is not None:
            options["tolerance"] = tolerance
        solution = run(
            found.problem,
            found.recipe,
            seed=seed if seeds == 1 else range(seed, seed + seeds),
            **options,
            out=folder,
            resume=resume,
            progress=True,
            callback=TensorBoard(folder / "tensorboard") if tensorboard else None,
        )
        result = {
            "command": " ".join(["separax", *sys.argv[1:]]),
            "recipe": found.origin,
            **solution.record,
            "problem": found.name,
        }
        page: Path | None = None
        try:
            result = keep_record(folder, result)
            page = write_report(solution, folder, result)
        except OSError as error:  # what was solved is still shown
            words.print(f"[bold red]not kept:[/] {folder} could not be written ({error})")
        summary(result, page)
        if as_json:
            sys.stdout.write(json.dumps(result) + "\n")
        if result["interrupted"]:
            words.print(
                f"stopped at step {result['steps']:,}, as asked; the solution so far is in [bold]{folder / 'solution.npz'}[/]"
            )
            words.print(
                f"go on with:  separax solve {problem} --out {folder} --resume (and the same options)"
            )
            raise typer.Exit(130)


def summary(result: dict[str, Any], page: Path | None) -> None:
    """A run in a few lines."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    each = result.get("relative_l2_each")
    if result["relative_l2"] is not None:
        spread = f"  (mean of {len(each)}; {min(each):.2e} to {max(each):.2e})" if each else ""
        table.add_row("relative L2 error", f"[bold green]{result['relative_l2']:.2e}[/]{spread}")
    if result.get("estimate") is not None:
        table.add_row("estimated error", f"{result['estimate']:.1e}")
    table.add_row(
        "loss",
        f"{result['loss']:.2e} at step {result['best_step']:,}"
        if result["loss"] is not None
        else "–",
    )
    table.add_row(
        "time",
        f"{result['train_seconds']:.1f} s for {result['steps']:,} step{'s' * (result['steps'] != 1)}, and {result['compile_seconds']:.1f} s to compile",
    )
    if page is not None:
        table.add_row("page", f"[bold]{page}[/]")
    words.print(table)


@app.command()
def bench(
    problem: Problem = "helmholtz",
    recipe: RecipeName = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="spinn, spinn-mod, pinn or pinn-mod.", show_default="spinn-mod, or the file's"
        ),
    ] = None,
    points: Points = None,
    seeds: Annotated[int, typer.Option(help="Also time this many seeds trained at once.")] = 1,
    precision: Precision = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Time a training step, ours and one done the paper's way, side by side."""
    with explained():
        from ..core import whole
        from ..networks import network_name
        from ..paper import compare
        from ..recipe import Recipe
        from ..solution import environment
        from .problems import is_file, prepare

        whole("seeds", seeds)
        found = prepare(
            problem,
            recipe,
            network or (None if is_file(problem) else "spinn-mod"),
            points,
            None,
            precision,
        )
        how = found.recipe or Recipe()
        with words.status("measuring (each after a warm-up)"):
            rows = compare(found.problem, how, seeds)
    if as_json:
        sys.stdout.write(
            json.dumps({"problem": problem, "recipe": found.origin, **rows, **environment()}) + "\n"
        )
        return
    table = Table(
        title=f"{problem}, {network_name(how.network)}, {rows['points']} points per axis, {rows['precision']}",
        title_justify="left",
    )
    for column in ("step", "ms", "memory MB"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for name in ("paper_style", "ours", "seeds"):
        if rows.get(name):
            label = {
                "paper_style": "paper-style",
                "ours": "separax",
                "seeds": f"separax, {seeds} seeds at once",
            }[name]
            table.add_row(
                label, f"{rows[name]['ms_per_step']:.3f}", f"{rows[name]['memory_mb']:.1f}"
            )
    Console().print(table)
    if rows.get("faster"):
        Console().print(
            f"[bold]{rows['faster']:.1f} ×[/] faster; the two gradients differ by {rows['gradient_difference']:.0e} (relative)"
        )


app.command()(report)
app.command()(view)
app.command()(export)
app.command()(reproduce)
app.command()(rank)
app.command()(flops)
app.command()(doctor)


def main() -> None:
    app()
