"""The command line: parse, call, print. Progress and words go to standard error, results to
standard output."""

from __future__ import annotations

import datetime
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable
from typer import Option

from ..core import InputError, whole
from ..networks import network_name
from ..output import write_report
from ..paper import CATALOGUE, Table, brief, cells, compare
from ..recipe import Recipe
from ..runs import keep_record
from ..solution import PACKAGES, environment, version
from ..solving import solve as solve_problem
from ..training import TensorBoard
from . import options
from .console import explained, print_json, show, words
from .doctor import doctor
from .kept_runs import export, report, view
from .paper import flops, rank, reproduce
from .problems import is_file, prepare

WHAT_TO_TYPE = {
    "separax list": "the problems that can be solved by name",
    "separax solve klein-gordon": "solve one: a live bar, an error, a folder and a page",
    "separax solve mine.py": "the same for an equation of yours, written as in the README",
    "separax view runs/mine": "look at what a run found",
    "separax doctor": "devices, versions, memory, cache, and what is missing for a GPU",
    "separax --help": "all commands; separax solve --help: the options of one",
}

app = typer.Typer(
    help="Separable solutions of differential equations: write the equation, get a function.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_versions(asked: bool) -> None:
    if asked:
        found = [f"{package} {version(package)}" for package in PACKAGES]
        print(", ".join([*found, f"Python {platform.python_version()}"]))
        raise typer.Exit


@app.callback()
def _before(
    context: typer.Context,
    versions: Annotated[
        bool,
        Option(
            "--version",
            help="Print the versions of what computes, and exit.",
            callback=_print_versions,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Options of the command itself. Without a command, say what to type."""
    if context.invoked_subcommand is None:
        print("Write the equation; get a function of all its coordinates. What to type:\n")
        wide = max(map(len, WHAT_TO_TYPE))
        for command, meaning in WHAT_TO_TYPE.items():
            print(f"  {command:{wide}}  {meaning}")


def list_problems() -> None:
    """Show the problems that can be solved by name."""
    columns = {
        "problem": lambda entry: entry.name,
        "equation": lambda entry: entry.equation,
        "about": lambda entry: entry.summary,
    }
    show([Table("separax solve PROBLEM", cells(CATALOGUE.values(), columns), words=3)])


def solve(
    problem: options.Problem,
    recipe: options.Recipe = None,
    network: options.Network = None,
    points: options.Points = None,
    steps: Annotated[
        int | None, Option(help="Steps of the optimiser.", show_default="the recipe's")
    ] = None,
    tolerance: Annotated[
        float | None,
        Option(help="For files without a recipe: the error to reach.", show_default="1e-4"),
    ] = None,
    seconds: Annotated[
        float | None,
        Option(help="Come back after so long with the best so far.", show_default="no limit"),
    ] = None,
    seed: options.Seed = 0,
    seeds: Annotated[int, Option(help="Train this many seeds at once, from --seed on.")] = 1,
    precision: options.Precision = None,
    windows: Annotated[
        int | None, Option(help="Windows of time.", show_default="the problem's")
    ] = None,
    window: Annotated[
        float | None, Option(help="Length of a window of time, instead of --windows.")
    ] = None,
    warm: Annotated[
        bool, Option("--warm", help="Begin each window with the network of the one before.")
    ] = False,
    causal: Annotated[
        bool,
        Option(
            "--causal",
            help="Weigh early times before late ones (patented, not for commercial use: see the"
            " docs).",
        ),
    ] = False,
    initial: Annotated[
        Path | None,
        Option(help="For navier-stokes: a flow to begin from, a file .npz, .mat or .nc."),
    ] = None,
    project: Annotated[
        bool, Option("--project", help="Take the part of --initial that has no divergence.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="Folder for the run.", show_default="runs/PROBLEM-TIME")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in --out.")] = False,
    tensorboard: Annotated[
        bool, Option("--tensorboard", help="Also write for TensorBoard, to the run's folder.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Solve a problem, of the catalogue or in a file of yours, and keep the run in a folder."""
    whole("seeds", seeds)
    if project and initial is None:
        raise InputError("--project is about the flow in a file: write --initial FILE --project")
    if resume and out is None:
        raise InputError(
            "--resume needs the folder of the run to go on with: write --out DIR --resume"
        )
    changes = {"points": points, "steps": steps, "precision": precision, "causal": causal}
    asked = prepare(problem, recipe, network, initial=initial, project=project, **changes)
    folder = out or Path("runs") / f"{asked.title}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    further: dict[str, Any] = {**asked.options, **({"warm": True} if warm else {})}
    if windows is not None or window is not None:  # the command line's word on how time is cut
        further |= {"windows": 1 if windows is None else windows, "window": window}
    if tolerance is not None:
        further["tolerance"] = tolerance
    if seconds is not None:
        further["seconds"] = seconds
    solution = solve_problem(
        asked.problem,
        asked.recipe,
        seed=seed if seeds == 1 else range(seed, seed + seeds),
        **further,
        out=folder,
        resume=resume,
        progress=True,
        callback=TensorBoard(folder / "tensorboard") if tensorboard else None,
    )
    command = " ".join(["separax", *sys.argv[1:]])
    about = {"command": command, "recipe": asked.origin}
    result, page = {**about, **solution.record, "problem": asked.name}, None
    try:
        result = keep_record(folder, result)
        page = write_report(solution, folder, result)
    except OSError as error:  # what was solved is still shown
        words.print(f"[bold red]not kept:[/] {folder} could not be written ({error})")
    words.print(_summary(result, page))
    if as_json:
        print_json(result)
    if result["interrupted"]:
        words.print(
            f"stopped at step {result['steps']:,}, as asked; the solution so far is in"
            f" [bold]{folder / 'solution.npz'}[/]\n"
            f"go on with:  separax solve {problem} --out {folder} --resume (and the same options)"
        )
        if seconds is None:  # else it came back when it should
            raise typer.Exit(130)


def _summary(result: dict[str, Any], page: Path | None) -> RichTable:
    """A run in a few lines."""
    error, each, loss = result["relative_l2"], result.get("relative_l2_each"), result["loss"]
    spread = f"  (mean of {len(each)}; {min(each):.2e} to {max(each):.2e})" if each else ""
    steps = f"{result['steps']:,} step{'s' * (result['steps'] != 1)}"
    lines = {
        "relative L2 error": error is not None and f"[bold green]{error:.2e}[/]{spread}",
        "estimated error": result.get("estimate") is not None and f"{result['estimate']:.1e}",
        "loss": "–" if loss is None else f"{loss:.2e} at step {result['best_step']:,}",
        "time": f"{result['train_seconds']:.1f} s for {steps},"
        f" and {result['compile_seconds']:.1f} s to compile",
        "page": page is not None and f"[bold]{page}[/]",
    }
    table = RichTable.grid(padding=(0, 2))
    table.add_column(style="dim")
    for name, text in lines.items():
        if text:
            table.add_row(name, text)
    return table


def bench(
    problem: options.Problem = "helmholtz",
    recipe: options.Recipe = None,
    network: Annotated[
        str | None,
        Option(help="spinn, spinn-mod, pinn or pinn-mod.", show_default="spinn-mod, or the file's"),
    ] = None,
    points: options.Points = None,
    seeds: Annotated[int, Option(help="Also time this many seeds trained at once.")] = 1,
    precision: options.Precision = None,
    as_json: options.AsJson = False,
) -> None:
    """Time a training step, ours and one done the paper's way, side by side."""
    whole("seeds", seeds)
    network = network or (None if is_file(problem) else "spinn-mod")
    asked = prepare(problem, recipe, network, points=points, precision=precision)
    how = asked.recipe or Recipe()
    with words.status("measuring (each after a warm-up)"):
        found = compare(asked.problem, how, seeds)
    if as_json:
        print_json({"problem": problem, "recipe": asked.origin, **found, **environment()})
        return
    labels = {
        "paper_style": "the paper's way",
        "ours": "separax",
        "seeds": f"separax, {seeds} seeds at once",
    }
    columns = {
        "step": lambda name: labels[name],
        "ms": lambda name: f"{found[name]['ms_per_step']:.3f}",
        "memory MB": lambda name: brief(found[name]["memory_mb"]),
    }
    title = f"{asked.name}, {network_name(how.network)}, {found['points']} points per axis"
    caption = (
        f"{found['faster']:.1f} × faster; the two gradients differ by"
        f" {found['gradient_difference']:.0e} (relative)"
    )
    rows = cells([name for name in labels if name in found], columns)
    show([Table(f"{title}, {found['precision']}", rows, caption=caption)])


app.command("list")(explained()(list_problems))
for command in (solve, bench, report, view, export, reproduce, rank, flops, doctor):
    app.command()(explained()(command))


def main() -> None:
    """`separax`."""
    app()
