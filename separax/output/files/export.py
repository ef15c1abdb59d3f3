"""Solutions in the files of other tools, one module per format. The ending of a file's name says which.

Values are written in pieces: what is in memory at a time is some million of them, however large the lattice is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...core import InputError, listed, nearest
from ...runs import writing
from ...solution import Selected, Solution
from ..animation import animate
from ..figures import save_figure
from .lattices import Grid, grid
from .writers import (
    write_csv,
    write_netcdf,
    write_npy,
    write_npz,
    write_points,
    write_pvd,
    write_vtr,
)

# by ending: what it is, and what writes it to a draft that will take the place of the final path
FORMATS: dict[str, tuple[str, Callable[[Grid, Path, Path], None]]] = {
    ".nc": ("NetCDF", lambda grid, draft, final: write_netcdf(grid, draft)),
    ".vtr": ("VTK, for ParaView", lambda grid, draft, final: write_vtr(grid, draft)),
    ".pvd": ("VTK, a series in time", write_pvd),
    ".csv": ("a table", lambda grid, draft, final: write_csv(grid, draft)),
    ".npy": ("NumPy, one field", lambda grid, draft, final: write_npy(grid, draft)),
    ".npz": (
        "NumPy, all fields and coordinates",
        lambda grid, draft, final: write_npz(grid, draft),
    ),
}


def export(
    view: Solution,
    path: str | os.PathLike[str],
    coordinates: Mapping[str, Any],
    points: int | Mapping[str, int] | None = None,
    field: str | None = None,
    units: Mapping[str, str] | None = None,
    at: Any = None,
) -> Path:
    """Writes a solution, or an operator of one, to a file; returns it. Of a picture, the coordinates are what `plot` takes."""
    final = Path(path)
    endings = {ending: what for ending, (what, _) in FORMATS.items()} | PICTURES
    endings[PROGRAM] = "the evaluation, as a program of jax.export"
    if final.suffix.lower() not in endings:
        known = ", ".join(f"{ending} ({what})" for ending, what in endings.items())
        raise InputError(
            f"to: {final.name!r} has an ending that is not known here; known are {known}.{nearest(final.suffix, endings)}"
        )
    if not final.parent.is_dir():
        raise InputError(f"to: there is no folder {final.parent}: make it, or choose another one")
    if final.suffix.lower() in PICTURES:
        return write_picture(view, final, units, field=field, points=points, at=at, **coordinates)
    if final.suffix.lower() == PROGRAM:
        return write_program(view, final, field, units, points=points, at=at, **coordinates)
    place = grid(view, coordinates, points, field, units)
    if at is not None and (final.suffix.lower() != ".csv" or coordinates or points is not None):
        raise InputError(
            f"at: scattered points go to a table, without coordinates of a lattice: write e.g. {final.with_suffix('.csv').name!r}"
        )
    try:
        with writing(final) as draft:
            if at is not None:
                write_points(place.view, at, dict(zip(place.fields, place.view.names)), draft)
            else:
                FORMATS[final.suffix.lower()][1](place, draft, final)
    except OSError as error:
        raise InputError(
            f"to: cannot write {final} ({error.strerror or error}): choose another place"
        ) from error
    return final


FIGURES = {
    ".png": "a picture",
    ".svg": "a picture of lines and words",
    ".pdf": "a picture for print",
}
FILMS = {".gif": "a film", ".mp4": "a film, with ffmpeg"}
PICTURES = FIGURES | FILMS
PROGRAM = ".jax"


def write_program(
    view: Solution,
    path: Path,
    field: str | None,
    units: Mapping[str, str] | None,
    **options: Any,
) -> Path:
    """The evaluation at any number of scattered points, which runs without separax."""
    given = [name for name, value in (options | {"units": units}).items() if value is not None]
    if given:
        raise InputError(
            f"{given[0]}: a program is evaluated where it is called: leave {listed(given)} out"
        )
    alone = view if field is None else view.of_operator(Selected(view.operator, (field,)))
    with writing(path) as draft:
        draft.write_bytes(alone.program())
    return path


def write_picture(
    view: Solution, path: Path, units: Mapping[str, str] | None, **options: Any
) -> Path:
    """A figure with the options of `solution.plot`, or a film with those of `solution.animate`."""
    if units:
        raise InputError(
            f"units: a picture has no place for them: leave them out, or write {path.with_suffix('.nc').name!r}"
        )
    return (save_figure if path.suffix.lower() in FIGURES else animate)(view, path, **options)
