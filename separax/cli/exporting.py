"""`separax export`: what a run found, in the files of other tools, and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import explained, several, words


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    to: Annotated[
        Path,
        typer.Option(
            help="The file to write; its ending says how: .nc .vtr .pvd .csv .npy .npz, .png .svg .pdf (pictures), .gif .mp4 (films).",
            show_default=False,
        ),
    ],
    points: Annotated[
        int | None, typer.Option(help="Points per axis.", show_default="up to 256")
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option(
            help="An axis: x=0,1,256 (256 points from 0 to 1), x=0,1 or x=0.5.", show_default=False
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(help="One of several fields.", show_default="all; of a picture, the first"),
    ] = None,
    units: Annotated[
        list[str] | None, typer.Option(help="Of an axis or a field: x=m.", show_default=False)
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a picture or film, where an axis is held: t=0.5, or t=0,0.5,1 for several pictures. Of a table, a .csv file of points.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            help="Of a picture or film, the axes to show: x,y, or x for a line.",
            show_default="the last two",
        ),
    ] = None,
    over: Annotated[
        str | None, typer.Option(help="Of a film, the axis that moves.", show_default="t")
    ] = None,
    frames: Annotated[int | None, typer.Option(help="Of a film.", show_default="60")] = None,
    rate: Annotated[
        int | None, typer.Option(help="Frames per second of a film.", show_default="20")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of several seeds, this one.", show_default="the first")
    ] = None,
) -> None:
    """Write the solution of a run to a file: NetCDF, VTK, a table or NumPy; a picture or a film."""
    with explained():
        from ..core import InputError, listed
        from ..core import in_bytes as size
        from ..output import FILMS, PICTURES
        from ..runs import load
        from ..solution import Ensemble

        ending = to.suffix.lower()
        for option, given, fitting, what in (
            ("show", show, PICTURES, "a picture or a film"),
            ("over", over, FILMS, "a film"),
            ("frames", frames, FILMS, "a film"),
            ("rate", rate, FILMS, "a film"),
        ):
            if given is not None and ending not in fitting:
                raise InputError(
                    f"--{option} is for {what} ({' '.join(fitting)}), got --to {to}: leave it out, or write e.g. --to {to.stem}{next(iter(fitting))}"
                )
        found = load(run)
        seeds = {s.seed: s for s in (found if isinstance(found, Ensemble) else [found])}
        if seed is not None and seed not in seeds:
            raise InputError(
                f"seed: there is no {seed} in {run}; its seeds are {listed(map(str, seeds))}"
            )
        solution = seeds[next(iter(seeds)) if seed is None else seed]
        box = solution.problem.box
        options: dict[str, Any] = {"field": field, "points": points}
        options["units"] = dict(
            _assigned("units", text, f"{box.axes[-1]}=m") for text in units or []
        )
        if ending in PICTURES:
            if axis:
                raise InputError(
                    f"--axis is for lattices; of a picture, hold an axis with --at {axis[0].split(',')[0]}"
                )
            options["at"] = dict(_held(text, f"{box.axes[0]}=0.5") for text in at or [])
            options |= dict(zip("xy", _shown(show)))
            options |= {
                k: v
                for k, v in {"over": over, "frames": frames, "rate": rate}.items()
                if v is not None
            }
        else:
            options["at"] = None if not at else _points(at, solution)
            for text in axis or []:
                name, numbers = _assigned("axis", text, f"{box.axes[-1]}=0,1,256")
                options[box.check_axis(name, "axis")] = _along(text, numbers, points)
        with words.status(f"writing {to}"):
            solution.export(to, **options)
        words.print(f"[bold]{to}[/]  {size(to.stat().st_size)}")


def _assigned(option: str, text: str, example: str) -> tuple[str, str]:
    from ..core import InputError

    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InputError(
            f"--{option} must say what is what, got {text!r}: write --{option} {example}"
        )
    return name.strip(), rest.strip()


def _numbers(text: str) -> list[float]:
    """Those with commas between; none where one of them is no number."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []


def _along(text: str, numbers: str, points: int | None) -> Any:
    """0.5 as a number; 0,1 and 0,1,256 as points from one to the other."""
    import numpy as np

    from ..core import InputError, whole
    from ..output import PER_AXIS

    values = _numbers(numbers)
    if not 1 <= len(values) <= 3:
        raise InputError(
            f"--axis must be a number, two ends, or two ends and a number of points, got {text!r}: write x=0,1,256"
        )
    if len(values) == 1:
        return values[0]
    return np.linspace(
        values[0], values[1], whole("--axis", values[2]) if len(values) == 3 else points or PER_AXIS
    )


def _held(text: str, example: str) -> tuple[str, list[float]]:
    """t=0.5 or t=0,0.5,1: an axis, and where it is held."""
    from ..core import InputError

    name, numbers = _assigned("at", text, example)
    if not (values := _numbers(numbers)):
        raise InputError(
            f"--at must be an axis and one or several numbers, got {text!r}: write --at {example}"
        )
    return name, values


def _shown(text: str | None) -> list[str]:
    from ..core import InputError

    names = several([text]) if text is not None else []
    if text is not None and len(names) not in (1, 2):
        raise InputError(
            f"--show takes one or two axes, got {text!r}: write --show x,y, or --show x for a line"
        )
    return names


def _points(given: list[str], solution: Any) -> Any:
    """Scattered points from a table."""
    from ..core import InputError
    from ..output import read_points

    if len(given) > 1 or ("=" in given[0] and not Path(given[0]).exists()):
        raise InputError(
            f"--at is a file of points here, got {' '.join(given)}: write --at points.csv, or hold an axis of the lattice with --axis {given[0]}"
        )
    return read_points(Path(given[0]), solution.problem.box)
