"""VTK's XML files, as ParaView reads them: `.vtr`, a rectilinear grid of up to three axes, and `.pvd`, a series of them in time.

The numbers are appended raw behind the XML, each array after the number of its bytes. VTK's first axis is the fastest, so arrays
are written the other way round.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import BinaryIO
from xml.sax.saxutils import quoteattr

import numpy as np

from ..errors import InputError, listed
from ..recipe import TIME
from ..runs.files import writing
from .lattices import Grid

TYPES = {"f4": "Float32", "f8": "Float64"}


def write_vtr(grid: Grid, path: Path) -> None:
    if len(grid.axes) > 3:
        series = f", or {TIME} as time in a .pvd series" if TIME in grid.axes else ""
        raise InputError(
            f"to: a VTK grid has three axes at most, and there are {listed(grid.axes)}: hold the others at a number, {grid.axes[0]}=0.5{series}"
        )
    shape = (*grid.shape, 1, 1, 1)[:3]
    extent = quoteattr(" ".join(f"0 {n - 1}" for n in shape))
    places = [grid.coordinates[axis] for axis in grid.axes]
    places += [np.zeros(1)] * (3 - len(places))
    sizes = [int(np.prod(shape)) * grid.dtype.itemsize] * len(grid.fields) + [c.nbytes for c in places]
    starts = np.cumsum([0, *(8 + n for n in sizes)])
    order = "LittleEndian" if sys.byteorder == "little" else "BigEndian"

    def array(name: str, dtype: np.dtype, start: int) -> str:
        return f'<DataArray type="{TYPES[dtype.str[1:]]}" Name={quoteattr(name)} format="appended" offset="{start}"/>'

    values = "".join(array(name, grid.dtype, start) for name, start in zip(grid.fields, starts))
    axes = "".join(
        array(name, np.dtype(float), start)
        for name, start in zip((*grid.axes, "axis 2", "axis 3")[:3], starts[len(grid.fields) :])
    )
    head = (
        f'<?xml version="1.0"?>\n<VTKFile type="RectilinearGrid" version="1.0" byte_order="{order}" header_type="UInt64">\n'
        f"<RectilinearGrid WholeExtent={extent}><Piece Extent={extent}>\n"
        f"<PointData Scalars={quoteattr(grid.fields[0])}>{values}</PointData>\n<Coordinates>{axes}</Coordinates>\n"
        '</Piece></RectilinearGrid>\n<AppendedData encoding="raw">_'
    )
    with open(path, "wb") as file:
        file.write(head.encode())
        for name, size in zip(grid.fields, sizes):
            _append(file, grid.only(name), size)
        for c in places:
            file.write(struct.pack("=Q", c.nbytes) + c.tobytes())
        file.write(b"</AppendedData></VTKFile>\n")


def _append(file: BinaryIO, grid: Grid, size: int) -> None:
    file.write(struct.pack("=Q", size))
    for _, values in grid.blocks(grid.axes[::-1]):
        file.write(np.ascontiguousarray(values[grid.fields[0]]).data)


def write_pvd(grid: Grid, path: Path, final: Path) -> None:
    """A file per instant in a folder beside `final`, and the list of them."""
    if TIME not in grid.axes:
        raise InputError(f"to: a .pvd series needs several instants of {TIME!r}: give them, t=(0, 0.5, 1), or write .vtr")
    folder = final.parent / final.stem
    folder.mkdir(exist_ok=True)
    entries = []
    for number, instant in enumerate(grid.coordinates[TIME]):
        name = f"{final.stem}_{number:04d}.vtr"
        now = Grid(grid.view, grid.coordinates | {TIME: np.array([instant])}, (*grid.held, TIME), grid.fields, grid.units)
        with writing(folder / name) as draft:
            write_vtr(now, draft)
        entries.append(f'<DataSet timestep="{float(instant)!r}" file={quoteattr(f"{folder.name}/{name}")}/>')
    text = '<?xml version="1.0"?>\n<VTKFile type="Collection" version="1.0"><Collection>\n'
    path.write_text(text + "\n".join(entries) + "\n</Collection></VTKFile>\n")
