"""Functions that take a while to make: tables that are computed once and kept in the cache folder
with a checksum, and interpolation between their nodes.

A file that was cut short, changed, emptied or swapped for another one is noticed and computed
again, and a folder that cannot be written to stops nobody: both are said in one warning that names
the file.
"""

from __future__ import annotations

import inspect
import json
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ...core import InputError, cache_folder, in_float64, listed
from ...runs import Damaged, digest_of, npz, read_npz, write


def cached(
    name: str, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays that `compute()` returns, from the cache if they were computed before.

    Arguments:
        name: what they are; the file is called `name-….npz`.
        settings: all they depend on, as numbers and words, a version number of the solver included;
            other settings, another file.
        compute: a function without arguments that returns arrays by name.
    """
    about = {"kind": name, "settings": dict(settings)}
    path = _file(f"{name}-{digest_of(json.dumps(about, sort_keys=True).encode())[:12]}.npz")
    try:
        if path is not None and path.exists():
            known, arrays = read_npz(path)
            if known != about:  # a file moved to another one's place
                raise Damaged(path, "is of other settings")
            return arrays
    except Damaged as error:
        _say(f"{error}: computed again")
    arrays = {key: np.asarray(array) for key, array in compute().items()}
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, npz(about, arrays))
        except OSError as error:
            _say(
                f"{path} cannot be written ({error.strerror or error}), so it is computed every"
                " time: set SEPARAX_CACHE to a folder"
            )
    return arrays


def _file(name: str) -> Path | None:
    """A file in the cache folder; None where there is no such folder."""
    try:
        folder = cache_folder()
    except (OSError, RuntimeError) as error:
        _say(
            f"{name}: there is no cache folder ({error}), so it is computed every time: set"
            " SEPARAX_CACHE to one"
        )
        return None
    return None if folder is None else folder / name


def _say(message: str) -> None:
    warnings.warn(f"cache: {message}", stacklevel=4)


CHUNK = 2**22  # numbers gathered from a table at once


class Computed:
    """A function of coordinates whose making takes a while: it is made at the first call with
    numbers.

    JAX arrays are taken too, also while JAX traces: the values then come through a callback, and
    asking only for shapes computes nothing. The result has the precision of the coordinates, and is
    nan outside of where the function is known.

    Arguments:
        name: what it is called in refusals.
        coordinates: the names of its arguments.
        make: returns a function of NumPy arrays of float64, one per coordinate, that broadcast.
    """

    lazy = True  # a problem that is given this as its reference does not call it to check it

    def __init__(
        self, name: str, coordinates: Sequence[str], make: Callable[[], Callable[..., np.ndarray]]
    ):
        self.name, self.coordinates = name, tuple(coordinates)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(c, kind) for c in self.coordinates]
        )
        self._make, self._lock = make, threading.Lock()
        self._function: Callable[..., np.ndarray] | None = None

    def function(self) -> Callable[..., np.ndarray]:
        """What `make` returned; made once, also when several threads ask at the same time."""
        with self._lock:
            if self._function is None:
                self._function = self._make()
            return self._function

    def __call__(self, *arguments: Any, **coordinates: Any) -> Any:
        try:
            given = self.__signature__.bind(*arguments, **coordinates).args
        except TypeError as error:
            raise InputError(
                f"{self.name}: {error}: give one array per coordinate, {listed(self.coordinates)}"
            ) from None
        types = [c.dtype for c in given if hasattr(c, "dtype")]
        floats = [one for one in types if jnp.issubdtype(one, jnp.floating)]
        dtype = np.result_type(*floats) if floats else np.dtype(float)
        if any(isinstance(c, Tracer) for c in given):
            dtype = jax.dtypes.canonicalize_dtype(dtype)
            shape = jax.ShapeDtypeStruct(np.broadcast_shapes(*map(jnp.shape, given)), dtype)
            return jax.pure_callback(
                lambda *c: self._values(c, dtype), shape, *given, vmap_method="expand_dims"
            )
        values = self._values(given, dtype)
        if not any(isinstance(c, jax.Array) for c in given):
            return values
        with in_float64():  # or float64 coordinates would come back as float32
            return jnp.asarray(values)

    def _values(self, coordinates: Sequence[Any], dtype: Any) -> np.ndarray:
        arrays = [np.asarray(c, np.float64) for c in coordinates]
        try:
            shape = np.broadcast_shapes(*(a.shape for a in arrays))
        except ValueError:
            shapes = ", ".join(f"{c} {a.shape}" for c, a in zip(self.coordinates, arrays))
            raise InputError(
                f"{self.name}: arrays that do not broadcast, {shapes}: give shapes that do"
            ) from None
        return np.broadcast_to(np.asarray(self.function()(*arrays)), shape).astype(dtype)

    def __repr__(self) -> str:
        return f"Computed({self.name!r}, {listed(self.coordinates)})"


@dataclass(frozen=True)
class Axis:
    """Nodes along one axis and the local polynomials between them, of degree `stencil` - 1."""

    nodes: np.ndarray
    stencil: int

    def weights(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places of the nodes that each point draws on, and how much, both (points, stencil);
        nan outside the nodes. What single precision rounds to beyond an end is that end: 0.1 is
        more in float32 than in float64."""
        nodes, stencil = self.nodes, min(self.stencil, len(self.nodes))
        slack = np.finfo(np.float32).eps * np.abs(nodes[[0, -1]]).max()
        inside = (points >= nodes[0] - slack) & (points <= nodes[-1] + slack)
        points = np.where(inside, np.clip(points, nodes[0], nodes[-1]), points)
        first = np.clip(np.searchsorted(nodes, points) - stencil // 2, 0, len(nodes) - stencil)
        places = first[:, None] + np.arange(stencil)
        near = nodes[places]
        gaps = (near[:, :, None] - near[:, None, :]) / (near[:, -1:, None] - near[:, :1, None])
        barycentric = 1 / (gaps + np.eye(stencil)).prod(axis=2)
        distance = points[:, None] - near
        hit = distance == 0
        weights = barycentric / np.where(hit, 1, distance)
        weights = weights / weights.sum(axis=1, keepdims=True)
        weights = np.where(hit.any(axis=1, keepdims=True), hit, weights)
        return places, np.where(inside[:, None], weights, np.nan)

    def matrix(self, points: np.ndarray) -> np.ndarray:
        """The same as a matrix from values at the nodes to values at the points."""
        places, weights = self.weights(points)
        matrix = np.zeros((len(points), len(self.nodes)))
        np.put_along_axis(matrix, places, weights, axis=1)
        matrix[np.isnan(weights).any(axis=1)] = np.nan
        return matrix


@dataclass(frozen=True)
class Table:
    """Values on the lattice of some axes, and between its nodes: a polynomial in each coordinate,
    locally.

    Coordinates that lie on a lattice of their own (each varies along one dimension, different for
    each) cost one small matrix per axis; scattered points draw on their neighbours one by one.
    """

    axes: tuple[Axis, ...]
    values: np.ndarray

    def __call__(self, *coordinates: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(c.shape for c in coordinates))
        order = lattice_order(coordinates, len(shape))
        if order is None:
            return self._at([np.broadcast_to(c, shape).ravel() for c in coordinates]).reshape(shape)
        found = self.values
        # each product moves its axis to the end, so the order is kept
        for axis, c in zip(self.axes, coordinates):
            found = np.tensordot(found, axis.matrix(c.ravel()), (0, 1))
        return found.transpose(order).reshape(shape)

    def _at(self, points: Sequence[np.ndarray]) -> np.ndarray:
        block = max(1, CHUNK // int(np.prod([a.stencil for a in self.axes])))
        starts = range(0, len(points[0]), block)
        parts = [self._near([p[i : i + block] for p in points]) for i in starts]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _near(self, points: Sequence[np.ndarray]) -> np.ndarray:
        dimension = len(self.axes)
        found = [axis.weights(p) for axis, p in zip(self.axes, points)]
        places = tuple(
            p.reshape(len(p), *(p.shape[1] if i == j else 1 for j in range(dimension)))
            for i, (p, _) in enumerate(found)
        )
        values = self.values[places]
        for _, weights in reversed(found):
            values = np.einsum("n...k,nk->n...", values, weights)
        return values


def lattice_order(coordinates: Sequence[np.ndarray], dimension: int) -> tuple[int, ...] | None:
    """In which order the coordinates' dimensions come in the result; None unless each has one
    dimension of its own."""
    varies = []
    for c in coordinates:
        shape = (1,) * (dimension - c.ndim) + c.shape
        varies.append([i for i, n in enumerate(shape) if n != 1])
    used = [i for v in varies for i in v]
    if any(len(v) > 1 for v in varies) or len(set(used)) < len(used):
        return None
    return tuple(sorted(range(len(coordinates)), key=lambda i: varies[i] or [-1]))
