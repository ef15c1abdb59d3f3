"""Flows from files, checked: `.npz`, `.mat`, NetCDF."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from ..core import InputError, listed, nearest, shown
from .flow import DIVERGENCE, LENGTH, Flow, coefficients, fit, numbers, wavenumbers

SEAM = 3  # times as large as inside: how large second differences across the seam may be
# relative to the largest value: how far apart numbers are that single precision means as equal
SAME = 1e-6
VORTICITY = ("w", "vorticity", "omega")  # names of it in files


def load_flow(path: str | os.PathLike[str], project: bool = False) -> Flow:
    """The flow in a file: `.npz`, `.mat` (before version 7.3) or NetCDF, `.nc` (needs xarray).

    The file holds u and v, or the vorticity alone as w, vorticity or omega: arrays (n, n) indexed
    [x, y] on the points x_i = 2πi/n and y_j = 2πj/n, or (instants, n, n), of which the first
    instant is taken. Coordinates x and y that the file holds must be these points.

    Arguments:
        path: of the file.
        project: whether to take the part without divergence of a flow that has some, which is
            refused otherwise.

    Returns:
        The flow, on the points of the file.
    """
    notes = []
    try:
        path = Path(path)
    except TypeError:
        raise InputError(
            f"load_flow: path must be the path of a file, got {shown(path)}: write e.g."
            " load_flow('flow.npz')"
        ) from None
    try:
        flow = _understood(_read(path), project, notes)
    except InputError as error:
        raise InputError(f"load_flow: {path}: {error}") from error.__cause__
    for note in notes:
        warnings.warn(f"load_flow: {path}: {note}", stacklevel=2)
    return flow


def _read(path: Path) -> dict[str, Any]:
    """The arrays that are wanted, by name in lower case; None for the others."""
    readers = {".npz": _read_npz, ".mat": _read_mat, ".nc": _read_netcdf}
    if not path.is_file():
        beside = path.parent.iterdir() if path.parent.is_dir() and not path.exists() else ()
        near = nearest(path.name, (p.name for p in beside))
        raise InputError(
            f"there is no such file: give the path of one that ends in {listed(readers)}.{near}"
        )
    if path.suffix.lower() not in readers:
        raise InputError(
            f"what ends in {path.suffix!r} is not read, only {listed(readers)}: write"
            " np.savez('flow.npz', u=u, v=v)"
        )
    try:
        found = readers[path.suffix.lower()](path)
    except InputError:
        raise
    except Exception as error:  # zip, HDF5 and NumPy fail in ways of their own
        raise InputError(
            f"it cannot be read ({type(error).__name__}: {error}): give a whole file of the kind it"
            " is called"
        ) from error
    # where both are there, u comes after U
    return {name.lower(): found[name] for name in sorted(found)}


def _wanted(name: str) -> bool:
    return name.lower() in ("u", "v", "x", "y", *VORTICITY)


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] if _wanted(name) else None for name in file.files}


def _read_mat(path: Path) -> dict[str, Any]:
    try:
        return {name: a for name, a in scipy.io.loadmat(path).items() if not name.startswith("__")}
    except NotImplementedError:
        raise InputError(
            "version 7.3 of .mat is not read: save it with -v7, or as .npz or .nc"
        ) from None


def _read_netcdf(path: Path) -> dict[str, Any]:
    try:
        import xarray
    except ImportError as error:
        raise InputError("reading it needs xarray: pip install separax[files]") from error
    with xarray.open_dataset(path, decode_times=False) as file:
        found = {}
        for name, a in file.variables.items():
            ordered = a.transpose(..., "x", "y") if {"x", "y"} <= set(a.dims) else a
            found[str(name)] = ordered.to_numpy() if _wanted(str(name)) else None
        return found


def _understood(found: Mapping[str, Any], project: bool, notes: list[str]) -> Flow:
    vorticity = [name for name in VORTICITY if name in found]
    names = ["u", "v"] if {"u", "v"} <= found.keys() else vorticity[:1]
    if not names:
        raise InputError(
            f"it holds {listed(found)}: name the velocities u and v, or the vorticity"
            f" {' or '.join(VORTICITY)}"
        )
    arrays = {name: _first_instant(name, found[name], notes) for name in names}
    fit(arrays)
    points = len(next(iter(arrays.values())))
    for axis in ("x", "y"):
        if axis in found:
            _check_coordinates(axis, np.asarray(found[axis]).squeeze(), points)
    if _repeats(list(arrays.values())):
        raise InputError(
            "the last row and column are the first ones again: leave them out, u[:-1, :-1]"
        )
    for name, a in arrays.items():
        _check_seam(name, a)
    if len(names) == 1:
        return Flow.of_vorticity(arrays[names[0]])
    flow = Flow(arrays["u"], arrays["v"])
    if flow.divergence <= DIVERGENCE:
        return flow
    said = (
        f"u and v have a divergence of {flow.divergence:.1e} relative to their gradients, where"
        f" {DIVERGENCE:.0e} is allowed"
    )
    turned = Flow(flow.u.T, flow.v.T).divergence
    if turned <= DIVERGENCE:  # projecting would hide it, and leave another flow
        raise InputError(
            f"{said}, but {turned:.1e} with their axes exchanged: they are indexed [y, x]; save u.T"
            " and v.T"
        )
    if not project:
        raise InputError(
            f"{said}: write project=True (--project) to take the part without divergence"
        )
    return flow.projected()


def _first_instant(name: str, given: Any, notes: list[str]) -> np.ndarray:
    array = np.asarray(given)
    if array.ndim == 3 and len(array):
        if array.shape[1] != array.shape[2]:
            raise InputError(
                f"{name} has the shape {array.shape}, not (instants, n, n): save"
                f" np.moveaxis({name}, -1, 0) or {name}[..., 0]"
            )
        note, array = f"it holds {len(array)} instants: the first is taken", array[0]
        if note not in notes:
            notes.append(note)
    return numbers(name, array)


def _check_coordinates(name: str, given: np.ndarray, points: int) -> None:
    """Refuses coordinates that are not 2πi/n."""
    wanted = LENGTH * np.arange(points) / points
    if given.shape != wanted.shape or not np.allclose(given, wanted, atol=SAME * LENGTH):
        raise InputError(
            f"{name} must be the {points} points 2πi/{points}, from 0 on and without the end of the"
            f" period, got {shown(given)}: resample the flow, leave the last row and column out, or"
            f" leave {name} out if the flow is on these points"
        )


def _repeats(arrays: Sequence[np.ndarray]) -> bool:
    """Whether the points at the end of the period are those at its start again. Values may be equal
    by symmetry, too; but a point that is there twice leaves a kink, which needs fine waves."""
    edges = [(b[-1], b[0]) for a in arrays for b in (a, a.T)]
    apart = max(np.abs(last - first).max() for last, first in edges)
    if apart > SAME * max(np.abs(a).max() for a in arrays):
        return False
    return sum(_fine(a[:-1, :-1]) for a in arrays) < sum(map(_fine, arrays))


def _fine(a: np.ndarray) -> float:
    """How much is in the waves beyond half the highest wavenumber."""
    highest = (len(a) - 1) // 2
    kx, ky = wavenumbers(highest)
    fine = coefficients(a, highest)[np.maximum(np.abs(kx), ky) > highest / 2]
    return float((np.abs(fine) ** 2).sum())


def _second_differences(a: np.ndarray, axis: int) -> tuple[float, float]:
    """The largest ones along an axis: across the seam, where the last point meets the first, and
    elsewhere."""
    bent = np.moveaxis(np.abs(np.roll(a, 1, axis) - 2 * a + np.roll(a, -1, axis)), axis, 0)
    return float(bent[[0, -1]].max()), float(bent[1:-1].max())


def _check_seam(name: str, a: np.ndarray) -> None:
    """Refuses what is not periodic: a jump or a kink between the last point and the first shows in
    second differences, which are large nowhere else."""
    for axis, letter in enumerate("xy"):
        seam, inside = _second_differences(a, axis)
        if seam > SEAM * inside + SAME * np.abs(a).max():
            raise InputError(
                f"{name} is not periodic along {letter}: its second differences reach {seam:.2g}"
                f" where the last point meets the first, and {inside:.2g} elsewhere ({SEAM} times"
                " that is allowed): give a flow on one whole period"
            )
