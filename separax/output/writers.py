"""Writers of files, one for each kind: piece by piece, so that a lattice larger than memory can be
written."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from ..core import InputError, listed, nearest, tuning
from ..domain import TIME, Box, Lattice
from ..runs import writing
from ..solution import Selected, Solution, version

MOST = 2**21  # points of a lattice that nobody described
PER_AXIS = 256  # and along each of its axes


@dataclass(frozen=True)
class Grid:
    """A lattice, and what is wanted on it.

    Attributes:
        view: a solution, or an operator of one.
        coordinates: by axis, in the order of the box.
        held: the axes at one number, which are no dimension of the result.
        fields: the names of what is wanted.
        units: of fields and axes.
    """

    view: Solution
    coordinates: dict[str, np.ndarray]
    held: tuple[str, ...]
    fields: tuple[str, ...]
    units: Mapping[str, str]

    @property
    def axes(self) -> tuple[str, ...]:
        """Those that are dimensions of the result."""
        return tuple(axis for axis in self.coordinates if axis not in self.held)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.coordinates[axis]) for axis in self.axes)

    @property
    def dtype(self) -> np.dtype:
        return self.view.dtype

    def values(self, **changed: np.ndarray) -> dict[str, np.ndarray]:
        """By field, on the lattice or on another part of it."""
        coordinates = self.coordinates | changed
        found = self.view.values(Lattice(weights=None, **coordinates))
        gone = tuple(i for i, axis in enumerate(coordinates) if axis in self.held)
        return {
            name: np.squeeze(np.asarray(found[key]), gone)
            for name, key in zip(self.fields, self.view.names)
        }

    def blocks(
        self, order: Sequence[str] | None = None
    ) -> Iterator[tuple[tuple[slice, ...], dict[str, np.ndarray]]]:
        """The values in pieces, one after the other as they lie in an array whose dimensions are in
        the given `order`; each with its place in that array."""
        order = tuple(self.axes if order is None else order)
        back = [self.axes.index(axis) for axis in order]
        lengths = [len(self.coordinates[axis]) for axis in order]
        for place in pieces(lengths, tuning.POINTS_AT_ONCE[self.view.is_separable]):
            part = self.values(**{a: self.coordinates[a][cut] for a, cut in zip(order, place)})
            yield place, {name: np.transpose(values, back) for name, values in part.items()}

    def only(self, field: str) -> Grid:
        """The same for one field, which is then all that is computed."""
        if len(self.fields) == 1:
            return self
        key = self.view.names[self.fields.index(field)]
        alone = self.view.of_operator(Selected(self.view.operator, (key,)))
        return Grid(alone, self.coordinates, self.held, (field,), self.units)

    def unit(self, name: str) -> dict[str, str]:
        return {"units": self.units[name]} if name in self.units else {}


def pieces(lengths: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """An array cut into pieces of at most `most` elements that follow each other in memory."""
    if not lengths:
        yield ()
        return
    rest = math.prod(lengths[1:])
    rows = most // max(1, rest)
    if rows:
        for start in range(0, lengths[0], rows):
            yield (slice(start, min(start + rows, lengths[0])), *(slice(0, n) for n in lengths[1:]))
        return
    for start in range(lengths[0]):
        for inner in pieces(lengths[1:], most):
            yield (slice(start, start + 1), *inner)


def grid(
    view: Solution,
    coordinates: Mapping[str, Any],
    points: int | Mapping[str, int] | None = None,
    field: str | None = None,
    units: Mapping[str, str] | None = None,
) -> Grid:
    """A lattice from coordinates by axis; an axis that is not given has `points` of them."""
    box = view.problem.box
    fields = tuple(name or "value" for name in view.names)
    if field is not None and field not in fields:
        why = ""
        if field in getattr(view.problem, "left_out", ()):
            why = " (it is not computed point by point, and so was not kept with the run)"
        raise InputError(
            f"field: there is no {field!r}{why}; there are"
            f" {listed(fields)}.{nearest(field, fields)}"
        )
    known = (*fields, *box.axes)
    for name in units or {}:
        if name not in known:
            raise InputError(
                f"units: {name!r} is neither a field nor an axis; there are"
                f" {listed(known)}.{nearest(name, known)}"
            )
    usual = min(PER_AXIS, int(MOST ** (1 / box.dimension) + 1e-9))
    regular = box.lattice(usual if points is None else points)
    given = dict(zip(regular.axes, regular.coordinates)) | dict(coordinates)
    lattice, dropped = view.lattice((), {k: np.asarray(v) for k, v in given.items()})
    found = {axis: np.asarray(c, np.float64) for axis, c in zip(lattice.axes, lattice.coordinates)}
    whole = Grid(view, found, tuple(box.axes[i] for i in dropped), fields, dict(units or {}))
    return whole if field is None else whole.only(field)


# --- writers --------------------------------------------------------------------------------------


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
