"""NetCDF (version 4), as climate and engineering tools read it; and the same in memory, as an xarray dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..report.record import version
from .lattices import Grid


def _needed(package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise InputError(f"to: this needs {package}, which is not installed: write pip install 'separax[files]'") from None


def _attributes(grid: Grid) -> dict[str, str]:
    return {"title": grid.title, "source": f"separax {version('separax')}", "Conventions": "CF-1.8"}


def write_netcdf(grid: Grid, path: Path) -> None:
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
    """An `xarray.Dataset`: a variable per field, a coordinate per axis (a number where it is held)."""
    xarray = _needed("xarray")
    coordinates = {
        axis: ((), values[0], grid.unit(axis)) if axis in grid.held else (axis, values, grid.unit(axis))
        for axis, values in grid.coordinates.items()
    }
    fields = {name: (grid.axes, values, grid.unit(name)) for name, values in grid.values().items()}
    return xarray.Dataset(fields, coordinates, _attributes(grid))
