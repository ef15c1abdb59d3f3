"""CSV: a row per point, its coordinates and its values."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from ..domain import Box
from ..errors import InputError, listed
from ..views import View
from .lattices import Grid, pieces

ROWS = 2**16  # written at once


def write_csv(grid: Grid, path: Path) -> None:
    """A line, or a lattice point by point, the last axis the fastest."""
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow([*grid.coordinates, *grid.fields])
        for place, values in grid.blocks():
            here = dict(zip(grid.axes, place))
            cut = {axis: c[here[axis]] if axis in here else c for axis, c in grid.coordinates.items()}
            places = [np.ravel(c) for c in np.meshgrid(*cut.values(), indexing="ij")]
            _rows(file, places, [np.ravel(values[name]) for name in grid.fields])


def write_points(view: View, points: Any, fields: dict[str, str], path: Path) -> None:
    """Scattered points, in the order in which they came; `fields` are the names in the table and the view's own."""
    box = view.problem.box
    points = np.asarray(points, float)
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow([*box.axes, *fields])
        for (part,) in pieces([len(points)], ROWS):
            found = view.at(points[part])
            values = found if isinstance(found, dict) else {view.names[0]: found}
            _rows(file, list(points[part].T), [np.asarray(values[key]) for key in fields.values()])


def _rows(file: Any, places: list[np.ndarray], values: list[np.ndarray]) -> None:
    for (part,) in pieces([len(values[0])], ROWS):
        columns = [each[part].astype(str) for each in (*places, *values)]  # as few digits as bring the number back
        file.writelines(",".join(row) + "\n" for row in zip(*columns))


def read_points(path: Path, box: Box) -> np.ndarray:
    """Points from a CSV file whose columns are named after the axes, in any order and among others."""
    try:
        head, *rows = csv.reader(io.StringIO(path.read_text()))
        table = np.array([[float(row[head.index(axis)]) for axis in box.axes] for row in rows if row])
    except OSError as error:
        raise InputError(f"at: cannot read {path} ({error.strerror})") from None
    except (ValueError, IndexError) as error:
        raise InputError(
            f"at: {path} must be a table with a column of numbers for each axis ({listed(box.axes)}), named in its first line ({error})"
        ) from None
    return table.reshape(-1, box.dimension)
