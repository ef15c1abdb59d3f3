"""The commands that look at kept runs: `separax report`, `view` and `export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Option

from ..core import InputError, in_bytes, listed, whole
from ..output import FILM, PER_AXIS, PICTURES, read_points, write_report
from ..runs import load
from ..solution import Ensemble, make_record
from . import options
from .console import several, words


def report(run: options.Run) -> None:
    """Write the page of a run again."""
    words.print(f"page  [bold]{_write_page(run)}[/]")


def view(
    run: options.Run,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open it, or only print where it is.")
    ] = True,
) -> None:
    """Open the page of a run in the browser; written first if there is none."""
    page = run / "report.html"
    address = (page if page.is_file() else _write_page(run)).resolve()
    if browser and typer.launch(address.as_uri()) == 0:
        words.print(f"opened [bold]{address}[/]")
    else:
        print(address)


def _write_page(run: Path) -> Path:
    solution = load(run)
    try:
        kept = json.loads((run / "record.json").read_text())
    except (OSError, ValueError):  # a run that was killed has none; its solution says most of it
        kept = make_record(solution)
    return write_report(solution, run, {**kept, "run_dir": str(run)})


def export(
    run: options.Run,
    to: Annotated[
        Path,
        Option(
            help="The file to write; its ending says how: .nc .vtr .pvd .csv .npz, .png .svg .pdf"
            " (pictures), .gif (a film).",
            show_default=False,
        ),
    ],
    points: Annotated[int | None, Option(help="Points per axis.", show_default="up to 256")] = None,
    axis: Annotated[
        list[str] | None,
        Option(help="An axis: x=0,1,256 (256 points from 0 to 1), x=0,1 or x=0.5."),
    ] = None,
    field: options.Field = None,
    units: Annotated[list[str] | None, Option(help="Of an axis or a field: x=m.")] = None,
    at: Annotated[
        list[str] | None,
        Option(
            help="Of a picture or film, where an axis is held: t=0.5, or t=0,0.5,1 for several"
            " pictures. Of a table, a .csv file of points."
        ),
    ] = None,
    show: Annotated[
        str | None,
        Option(
            help="Of a picture or film, the axes to show: x,y, or x for a line.",
            show_default="the last two",
        ),
    ] = None,
    over: Annotated[
        str | None, Option(help="Of a film, the axis that moves.", show_default="t")
    ] = None,
    frames: Annotated[int | None, Option(help="Of a film.", show_default="60")] = None,
    rate: Annotated[
        int | None, Option(help="Frames per second of a film.", show_default="20")
    ] = None,
    seed: Annotated[
        int | None, Option(help="Of several seeds, this one.", show_default="the first")
    ] = None,
) -> None:
    """Write the solution of a run to a file: NetCDF, VTK, a table or NumPy; a picture or a film."""
    ending, film = to.suffix.lower(), {"over": over, "frames": frames, "rate": rate}
    for option, given in {"show": show, **film}.items():
        fitting, what = ([FILM], "a film") if option in film else (PICTURES, "a picture or a film")
        if given is not None and ending not in fitting:
            raise InputError(
                f"--{option} is for {what} ({' '.join(fitting)}), got --to {to}: leave it out, or"
                f" write e.g. --to {to.stem}{next(iter(fitting))}"
            )
    solution = _of_seed(run, seed)
    box = solution.problem.box
    asked: dict[str, Any] = {"field": field, "points": points}
    asked["units"] = dict(_assigned("units", text, f"{box.axes[-1]}=m") for text in units or [])
    if ending in PICTURES:
        if axis:
            held = axis[0].split(",")[0]
            raise InputError(f"--axis is for lattices; of a picture, hold an axis with --at {held}")
        asked["at"] = dict(_numbers("at", text, f"{box.axes[0]}=0.5") for text in at or [])
        asked |= dict(zip("xy", _shown(show)))
        asked |= {option: value for option, value in film.items() if value is not None}
    else:
        asked["at"] = None if not at else _points(at, solution)
        for text in axis or []:
            name, numbers = _numbers("axis", text, f"{box.axes[-1]}=0,1,256")
            asked[box.check_axis(name, "axis")] = _along(text, numbers, points)
    with words.status(f"writing {to}"):
        solution.export(to, **asked)
    words.print(f"[bold]{to}[/]  {in_bytes(to.stat().st_size)}")


def _of_seed(run: Path, seed: int | None) -> Any:
    """The solution of one of a run's seeds, or of the first."""
    found = load(run)
    known = {s.seed: s for s in (found if isinstance(found, Ensemble) else [found])}
    if seed is not None and seed not in known:
        seeds = listed(map(str, known))
        raise InputError(f"seed: there is no {seed} in {run}; its seeds are {seeds}")
    return known[next(iter(known)) if seed is None else seed]


def _assigned(option: str, text: str, example: str) -> tuple[str, str]:
    """x=m: a name, and what it is set to."""
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InputError(
            f"--{option} must say what is what, got {text!r}: write --{option} {example}"
        )
    return name.strip(), rest.strip()


def _numbers(option: str, text: str, example: str) -> tuple[str, list[float]]:
    """t=0.5 or t=0,0.5,1: an axis and numbers."""
    name, rest = _assigned(option, text, example)
    try:
        return name, [float(part) for part in rest.split(",")]
    except ValueError:
        raise InputError(
            f"--{option} must be an axis and one or several numbers, got {text!r}: write"
            f" --{option} {example}"
        ) from None


def _along(text: str, values: list[float], points: int | None) -> Any:
    """0.5 as a number; 0,1 and 0,1,256 as points from one to the other."""
    if len(values) > 3:
        raise InputError(
            "--axis must be a number, two ends, or two ends and a number of points, got"
            f" {text!r}: write x=0,1,256"
        )
    if len(values) == 1:
        return values[0]
    count = whole("--axis", values[2]) if len(values) == 3 else points or PER_AXIS
    return np.linspace(values[0], values[1], count)


def _shown(text: str | None) -> list[str]:
    """x,y: the axes of a picture."""
    names = several([text]) if text is not None else []
    if text is not None and len(names) not in (1, 2):
        raise InputError(
            f"--show takes one or two axes, got {text!r}: write --show x,y, or --show x for a line"
        )
    return names


def _points(given: list[str], solution: Any) -> Any:
    """Scattered points from a table."""
    if len(given) > 1 or ("=" in given[0] and not Path(given[0]).exists()):
        raise InputError(
            f"--at is a file of points here, got {' '.join(given)}: write --at points.csv, or hold"
            f" an axis of the lattice with --axis {given[0]}"
        )
    return read_points(Path(given[0]), solution.problem.box)
