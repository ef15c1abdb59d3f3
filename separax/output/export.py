"""Solutions in the files of other tools. The ending of a file's name says which.

Values are written in pieces: what is in memory at a time is some million of them, however large the
lattice is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core import InputError, listed, nearest
from ..solution import Selected, Solution
from .animation import FILM, animate
from .figures import FIGURES, new_file, plot, save_figure
from .writers import (
    Grid,
    grid,
    write_csv,
    write_netcdf,
    write_npz,
    write_points,
    write_pvd,
    write_vtr,
)

# by ending: what it is, and what writes it to a draft that will take the place of the final path
FORMATS: dict[str, tuple[str, Callable[[Grid, Path, Path], None]]] = {
    ".nc": ("NetCDF", write_netcdf),
    ".vtr": ("VTK, for ParaView", write_vtr),
    ".pvd": ("VTK, a series in time", write_pvd),
    ".csv": ("a table", write_csv),
    ".npz": ("NumPy, all fields and coordinates", write_npz),
}
PICTURES = FIGURES | {FILM: "a film"}
PROGRAM = ".jax"
ENDINGS = (
    {ending: what for ending, (what, _) in FORMATS.items()}
    | PICTURES
    | {PROGRAM: "the evaluation, as a program of jax.export"}
)


def export(
    view: Solution,
    path: str | os.PathLike[str],
    coordinates: Mapping[str, Any],
    points: int | Mapping[str, int] | None = None,
    field: str | None = None,
    units: Mapping[str, str] | None = None,
    at: Any = None,
) -> Path:
    """Writes a solution, or an operator of one, to a file.

    Arguments:
        view: what is written.
        path: of the file.
        coordinates: by axis; of a picture, what `plot` takes.
        points: along axes without coordinates.
        field: one of several.
        units: of fields and axes, by name.
        at: scattered points instead, for a table.

    Returns: the path.
    """
    final = Path(path)
    ending = final.suffix.lower()
    if ending not in ENDINGS:
        known = ", ".join(f"{ending} ({what})" for ending, what in ENDINGS.items())
        raise InputError(
            f"to: {final.name!r} has an ending that is not known here; known are"
            f" {known}.{nearest(final.suffix, ENDINGS)}"
        )
    if not final.parent.is_dir():
        raise InputError(f"to: there is no folder {final.parent}: make it, or choose another one")
    options = {"points": points, "at": at, **coordinates}
    if ending in PICTURES:
        if units:
            raise InputError(
                "units: a picture has no place for them: leave them out, or write"
                f" {final.with_suffix('.nc').name!r}"
            )
        if ending == FILM:
            return animate(view, final, field=field, **options)
        return save_figure(plot(view, field=field, **options), final)
    if ending == PROGRAM:
        return write_program(view, final, field, options | {"units": units})
    place = grid(view, coordinates, points, field, units)
    if at is not None and (ending != ".csv" or coordinates or points is not None):
        raise InputError(
            "at: scattered points go to a table, without coordinates of a lattice: write e.g."
            f" {final.with_suffix('.csv').name!r}"
        )
    with new_file(final) as draft:
        if at is not None:
            write_points(place.view, at, dict(zip(place.fields, place.view.names)), draft)
        else:
            FORMATS[ending][1](place, draft, final)
    return final


def write_program(
    view: Solution, path: Path, field: str | None, options: Mapping[str, Any]
) -> Path:
    """The evaluation at any number of scattered points, which runs without separax."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"{given[0]}: a program is evaluated where it is called: leave {listed(given)} out"
        )
    alone = view if field is None else view.of_operator(Selected(view.operator, (field,)))
    with new_file(path) as draft:
        draft.write_bytes(alone.program())
    return path
