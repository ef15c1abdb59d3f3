"""NumPy's own files: `.npy` for one field, `.npz` for all of them with their coordinates."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError, listed
from .lattices import Grid


def write_npy(grid: Grid, path: Path) -> None:
    if len(grid.fields) > 1:
        raise InputError(
            f"to: a .npy file holds one array, and there are {listed(grid.fields)}: name one with field=, or write .npz"
        )
    with open(path, "wb") as file:
        _write(grid, file)


def write_npz(grid: Grid, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for axis, values in grid.coordinates.items():
            with archive.open(f"{axis}.npy", "w") as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
        for name in grid.fields:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write(grid.only(name), file)


def _write(grid: Grid, file: IO[bytes] | Any) -> None:
    """One field, piece by piece."""
    about = {"descr": np.lib.format.dtype_to_descr(grid.dtype), "fortran_order": False, "shape": grid.shape}
    np.lib.format.write_array_header_1_0(file, about)
    for _, values in grid.blocks():
        file.write(np.ascontiguousarray(values[grid.fields[0]]).data)
