"""Files, figures and films of a solution."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx

from .evaluation import exported_program
from .operators import check_not_applied

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AbstractExport(eqx.Module):
    """The methods of a solution by which it leaves JAX. The rooms below write and draw: each is
    imported when it is called."""

    def save(self: Any, folder: str | os.PathLike[str]) -> Path:
        """Keeps the solution in a folder of its own, from which `sx.load(folder)` makes it again.

        Arguments:
            folder: to be made, or without a run.

        Returns: the folder.
        """
        from ..runs import save

        check_not_applied(self.operator, "save", "save the solution itself")
        return save(self, folder)

    def plot(
        self: Any,
        x: Any = None,
        y: Any = None,
        *,
        field: str | None = None,
        reference: bool = False,
        points: int | None = None,
        at: Mapping[str, Any] | None = None,
        **held: Any,
    ) -> Figure:
        """A matplotlib figure of a slice or a line: `solution.plot(x="x", y="y", t=0.5)`.

        Arguments:
            x, y: the names of the axes to show to the right and upwards; x alone makes a line. A
                number holds the axis of that name, like any other: `solution.plot(x=0.3)`.
            field: of a system, which; the first whose reference is known otherwise.
            reference: show the reference and the difference beside it.
            points: along each axis shown.
            at: where axes are held, as a dict; for an axis called x or y while the word says what
                to show.
            held: where axes are held, by name; several values of one axis make several pictures.

        Returns: the figure.
        """
        from ..output import plot

        return plot(self, x, y, field=field, reference=reference, points=points, at=at, **held)

    def animate(
        self: Any, path: str | os.PathLike[str], x: Any = None, y: Any = None, **options: Any
    ) -> Path:
        """A film along time, or along the axis `over` names: `solution.animate("out.gif", x="x")`.

        The film is a GIF.

        Arguments:
            path: the file to write.
            x, y: the axes to show, as for `plot`.
            options: `over`, `frames` (60), `rate` per second (20), and those of `plot`.

        Returns: the path.
        """
        from ..output import animate

        return animate(self, path, x, y, **options)

    def to_xarray(
        self: Any,
        *,
        points: int | Mapping[str, int] | None = None,
        units: Mapping[str, str] | None = None,
        **coordinates: Any,
    ) -> Any:
        """On a lattice, as an `xarray.Dataset` with named coordinates.

        Arguments:
            points: along axes that are not given.
            units: of fields and axes, by name.
            coordinates: by axis; one given as a number is a coordinate without a dimension.

        Returns: a dataset with a variable for each field.
        """
        from ..output import dataset, grid

        return dataset(grid(self, coordinates, points, units=units))

    def export(
        self: Any,
        path: str | os.PathLike[str],
        /,
        *,
        field: str | None = None,
        points: int | Mapping[str, int] | None = None,
        units: Mapping[str, str] | None = None,
        at: Any = None,
        **coordinates: Any,
    ) -> Path:
        """Writes the solution to a file whose ending says how.

        `.nc`, `.vtr`, `.pvd`, `.csv`, `.npy` and `.npz` hold values on a lattice, written in
        pieces, so that it may be larger than memory. `.jax` holds the evaluation itself at any
        number of points, which runs without separax. `.png`, `.svg` and `.pdf` are figures, with
        the options of `plot`; a `.gif` film, with those of `animate`.

        Arguments:
            path: the file to write.
            field: one of several.
            points, units, coordinates: as for `to_xarray`.
            at: scattered points instead, (n, axes), for a table.

        Returns: the path.
        """
        from ..output import export

        return export(self, path, coordinates, points, field, units, at)

    def program(self: Any) -> bytes:
        """The evaluation at scattered points as a program that runs without separax.

        Returns: what `jax.export.deserialize` reads: `deserialize(program).call(points)` takes
            (n, axes) points, for any n, and gives (n,) values; a dict of them where there are
            several fields.
        """
        return exported_program(self)

    def _repr_html_(self: Any) -> str:
        from ..output import of_solution

        return of_solution(self)
