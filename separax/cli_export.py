"""`separax export`: what a run found, in the files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import explained, words


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    to: Annotated[
        Path, typer.Option(help="The file to write; its ending says how: .nc .vtr .pvd .csv .npy .npz", show_default=False)
    ],
    points: Annotated[int | None, typer.Option(help="Points per axis.", show_default="up to 256")] = None,
    axis: Annotated[
        list[str] | None, typer.Option(help="An axis: x=0,1,256 (256 points from 0 to 1), x=0,1 or x=0.5.", show_default=False)
    ] = None,
    field: Annotated[str | None, typer.Option(help="One of several fields.", show_default="all")] = None,
    units: Annotated[list[str] | None, typer.Option(help="Of an axis or a field: x=m.", show_default=False)] = None,
    at: Annotated[Path | None, typer.Option(help="Points from a table (.csv) instead of a lattice.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="Of several seeds, this one.", show_default="the first")] = None,
) -> None:
    """Write the solution of a run to a file: NetCDF, VTK, a table or NumPy."""
    with explained():
        from .errors import InputError, listed
        from .exports import read_points
        from .memory import size
        from .runs import load
        from .solution import Ensemble

        found = load(run)
        seeds = {s.seed: s for s in (found if isinstance(found, Ensemble) else [found])}
        if seed is not None and seed not in seeds:
            raise InputError(f"seed: there is no {seed} in {run}; its seeds are {listed(map(str, seeds))}")
        solution = seeds[next(iter(seeds)) if seed is None else seed]
        box = solution.problem.box
        per_axis = points
        coordinates: dict[str, Any] = {}
        for text in axis or []:
            name, numbers = _assigned("axis", text, f"{box.axes[-1]}=0,1,256")
            box.check_axis(name, "axis")
            coordinates[name] = _along(text, numbers, per_axis)
        found_units = dict(_assigned("units", text, f"{box.axes[-1]}=m") for text in units or [])
        places = None if at is None else read_points(at, box)
        with words.status(f"writing {to}"):
            solution.export(to, field=field, points=points, units=found_units, at=places, **coordinates)
        words.print(f"[bold]{to}[/]  {size(to.stat().st_size)}")


def _assigned(option: str, text: str, example: str) -> tuple[str, str]:
    from .errors import InputError

    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InputError(f"--{option} must say what is what, got {text!r}: write --{option} {example}")
    return name.strip(), rest.strip()


def _along(text: str, numbers: str, points: int | None) -> Any:
    """0.5 as a number; 0,1 and 0,1,256 as points from one to the other."""
    import numpy as np

    from .errors import InputError, whole
    from .exports.lattices import PER_AXIS

    try:
        values = [float(part) for part in numbers.split(",")]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 3:
        raise InputError(f"--axis must be a number, two ends, or two ends and a number of points, got {text!r}: write x=0,1,256")
    if len(values) == 1:
        return values[0]
    return np.linspace(values[0], values[1], whole("--axis", values[2]) if len(values) == 3 else points or PER_AXIS)
