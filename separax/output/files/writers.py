"""Writers, one for each kind of file: to a draft that takes the place of the final path."""

from __future__ import annotations

import csv
import dataclasses
import io
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from ...core import InputError, listed
from ...domain import TIME, Box
from ...runs import writing
from ...solution import Solution, version
from .lattices import Grid, pieces


def write_npy(grid: Grid, path: Path, final: Path) -> None:
    """One field as NumPy's own file."""
    if len(grid.fields) > 1:
        raise InputError(
            f"to: a .npy file holds one array, and there are {listed(grid.fields)}: name one with"
            " field=, or write .npz"
        )
    with open(path, "wb") as file:
        _write(grid, file)


def write_npz(grid: Grid, path: Path, final: Path) -> None:
    """All fields and their coordinates as NumPy's archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for axis, values in grid.coordinates.items():
            with archive.open(f"{axis}.npy", "w") as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
        for name in grid.fields:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write(grid.only(name), file)


def _write(grid: Grid, file: Any) -> None:
    """One field, piece by piece."""
    about = {
        "descr": np.lib.format.dtype_to_descr(grid.dtype),
        "fortran_order": False,
        "shape": grid.shape,
    }
    np.lib.format.write_array_header_1_0(file, about)
    for _, values in grid.blocks():
        file.write(np.ascontiguousarray(values[grid.fields[0]]).data)


def _needed(package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise InputError(
            f"to: this needs {package}, which is not installed: write pip install 'separax[files]'"
        ) from None


def _attributes(grid: Grid) -> dict[str, str]:
    title, source = grid.view.problem.name, f"separax {version('separax')}"
    return {"title": title, "source": source, "Conventions": "CF-1.8"}


def write_netcdf(grid: Grid, path: Path, final: Path) -> None:
    """All fields as NetCDF, with a dimension for each axis that is not held."""
    with _needed("h5netcdf").File(path, "w") as file:
        file.dimensions = dict(zip(grid.axes, grid.shape))
        file.attrs.update(_attributes(grid))
        for axis, values in grid.coordinates.items():
            variable = file.create_variable(axis, () if axis in grid.held else (axis,), "float64")
            variable[...] = values[0] if axis in grid.held else values
            variable.attrs.update(grid.unit(axis))
        fields = {name: file.create_variable(name, grid.axes, grid.dtype) for name in grid.fields}
        for name, variable in fields.items():
            held = {"coordinates": " ".join(grid.held)} if grid.held else {}
            variable.attrs.update({"long_name": name, **grid.unit(name), **held})
        for place, values in grid.blocks():
            for name, variable in fields.items():
                variable[place or ...] = values[name]


def dataset(grid: Grid) -> Any:
    """An `xarray.Dataset`: a variable per field, a coordinate per axis (a number where it is
    held)."""
    coordinates = {
        axis: ((), c[0], grid.unit(axis)) if axis in grid.held else (axis, c, grid.unit(axis))
        for axis, c in grid.coordinates.items()
    }
    fields = {name: (grid.axes, values, grid.unit(name)) for name, values in grid.values().items()}
    return _needed("xarray").Dataset(fields, coordinates, _attributes(grid))


ROWS = 2**16  # written at once


def write_csv(grid: Grid, path: Path, final: Path) -> None:
    """A line, or a lattice point by point, the last axis the fastest."""

    def parts() -> Iterator[list[np.ndarray]]:
        for place, values in grid.blocks():
            here = dict(zip(grid.axes, place))
            cut = {a: c[here[a]] if a in here else c for a, c in grid.coordinates.items()}
            places = np.meshgrid(*cut.values(), indexing="ij")
            yield [np.ravel(c) for c in (*places, *(values[name] for name in grid.fields))]

    _table(path, (*grid.coordinates, *grid.fields), parts())


def write_points(view: Solution, points: Any, fields: dict[str, str], path: Path) -> None:
    """Scattered points, in the order in which they came; `fields` are the names in the table and
    the view's own."""
    points = np.asarray(points, float)

    def parts() -> Iterator[list[np.ndarray]]:
        for (part,) in pieces([len(points)], ROWS):
            found = view.at(points[part])
            values = found if isinstance(found, dict) else {view.names[0]: found}
            yield [*points[part].T, *(np.asarray(values[key]) for key in fields.values())]

    _table(path, (*view.problem.box.axes, *fields), parts())


def _table(path: Path, head: Sequence[str], parts: Iterable[list[np.ndarray]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(head)
        for columns in parts:
            for (part,) in pieces([len(columns[0])], ROWS):
                # as few digits as bring the number back
                rows = zip(*(column[part].astype(str) for column in columns))
                file.writelines(",".join(row) + "\n" for row in rows)


def read_points(path: Path, box: Box) -> np.ndarray:
    """Points from a CSV file whose columns are named after the axes, in any order and among
    others."""
    try:
        head, *rows = csv.reader(io.StringIO(path.read_text()))
        places = [head.index(axis) for axis in box.axes]
        table = np.array([[float(row[i]) for i in places] for row in rows if row])
    except OSError as error:
        raise InputError(f"at: cannot read {path} ({error.strerror})") from None
    except (ValueError, IndexError) as error:
        raise InputError(
            f"at: {path} must be a table with a column of numbers for each axis"
            f" ({listed(box.axes)}), named in its first line ({error})"
        ) from None
    return table.reshape(-1, box.dimension)


TYPES = {"f4": "Float32", "f8": "Float64"}


def write_vtr(grid: Grid, path: Path, final: Path) -> None:
    """A rectilinear grid, its arrays behind the XML that says where each begins."""
    if len(grid.axes) > 3:
        series = f", or {TIME} as time in a .pvd series" if TIME in grid.axes else ""
        raise InputError(
            f"to: a VTK grid has three axes at most, and there are {listed(grid.axes)}: hold the"
            f" others at a number, {grid.axes[0]}=0.5{series}"
        )
    shape = (*grid.shape, 1, 1, 1)[:3]
    extent = quoteattr(" ".join(f"0 {n - 1}" for n in shape))
    places = [grid.coordinates[axis] for axis in grid.axes] + [np.zeros(1)] * (3 - len(grid.axes))
    size = int(np.prod(shape)) * grid.dtype.itemsize
    order = "LittleEndian" if sys.byteorder == "little" else "BigEndian"
    end = 0

    def array(name: str, dtype: np.dtype, size: int) -> str:
        nonlocal end
        start, end = end, end + 8 + size
        kind = TYPES[dtype.str[1:]]
        return (
            f'<DataArray type="{kind}" Name={quoteattr(name)} format="appended" offset="{start}"/>'
        )

    values = "".join(array(name, grid.dtype, size) for name in grid.fields)
    names = (*grid.axes, "axis 2", "axis 3")
    axes = "".join(array(name, np.dtype(float), c.nbytes) for name, c in zip(names, places))
    head = (
        f'<?xml version="1.0"?>\n<VTKFile type="RectilinearGrid" version="1.0"'
        f' byte_order="{order}" header_type="UInt64">\n'
        f"<RectilinearGrid WholeExtent={extent}><Piece Extent={extent}>\n"
        f"<PointData Scalars={quoteattr(grid.fields[0])}>{values}</PointData>\n"
        f"<Coordinates>{axes}</Coordinates>\n"
        '</Piece></RectilinearGrid>\n<AppendedData encoding="raw">_'
    )
    with open(path, "wb") as file:
        file.write(head.encode())
        for name in grid.fields:
            file.write(struct.pack("=Q", size))
            for _, part in grid.only(name).blocks(grid.axes[::-1]):
                file.write(np.ascontiguousarray(part[name]).data)
        for c in places:
            file.write(struct.pack("=Q", c.nbytes) + c.tobytes())
        file.write(b"</AppendedData></VTKFile>\n")


def write_pvd(grid: Grid, path: Path, final: Path) -> None:
    """A file per instant in a folder beside `final`, and the list of them."""
    if TIME not in grid.axes:
        raise InputError(
            f"to: a .pvd series needs several instants of {TIME!r}: give them, t=(0, 0.5, 1), or"
            " write .vtr"
        )
    folder = final.parent / final.stem
    folder.mkdir(exist_ok=True)
    entries = []
    for number, instant in enumerate(grid.coordinates[TIME]):
        name = f"{folder.name}/{final.stem}_{number:04d}.vtr"
        coordinates = grid.coordinates | {TIME: np.array([instant])}
        now = dataclasses.replace(grid, coordinates=coordinates, held=(*grid.held, TIME))
        with writing(final.parent / name) as draft:
            write_vtr(now, draft, final)
        entries.append(f'<DataSet timestep="{float(instant)!r}" file={quoteattr(name)}/>')
    text = '<?xml version="1.0"?>\n<VTKFile type="Collection" version="1.0"><Collection>\n'
    path.write_text(text + "\n".join(entries) + "\n</Collection></VTKFile>\n")
