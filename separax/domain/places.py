"""Where functions are evaluated: lattices (one array of coordinates per axis) and scattered
points."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ..core import InputError, listed

if TYPE_CHECKING:
    from .box import Box


class Lattice(eqx.Module):
    """Factorised coordinates: one array per axis, every combination a point. `Lattice(x=xs, y=ys)`.

    Arguments:
        weights: by axis those of a quadrature rule, which add up to the length of the axis; where
            there are none, the points count alike.
        coordinates: one array (n,) per axis.
    """

    axes: tuple[str, ...] = eqx.field(static=True)
    coordinates: tuple[Any, ...]  # arrays (n,), NumPy's or JAX's
    weights: tuple[Float[Array, " n"] | None, ...]

    def __init__(self, /, *, weights: Mapping[str, Any] | None = None, **coordinates: Any):
        self.axes = tuple(coordinates)
        # arrays stay the objects they are: `sources` knows shared coordinates by identity
        self.coordinates = tuple(
            np.asarray(c) if isinstance(c, (list, tuple)) else c for c in coordinates.values()
        )
        self.weights = tuple((weights or {}).get(axis) for axis in self.axes)
        for axis, values in zip(self.axes, self.coordinates):
            if np.ndim(values) != 1:
                raise InputError(
                    f"Lattice: {axis} must be a one-dimensional array, got shape"
                    f" {np.shape(values)}: write {axis}=jnp.linspace(0, 1, 32)"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points along each axis."""
        return tuple(len(c) for c in self.coordinates)

    def __getitem__(self, axis: str) -> Array:
        return self.coordinates[self.axes.index(axis)]

    def arrays(self) -> dict[str, Array]:
        """The coordinates as arrays that broadcast to the lattice."""
        return {axis: self.along(axis, c) for axis, c in zip(self.axes, self.coordinates)}

    def along(self, axis: str, values: Array) -> Array:
        """Values of one axis as an array that broadcasts to the lattice.

        Arguments:
            axis: the name of the axis.
            values: one per coordinate of it.
        """
        place = self.axes.index(axis)
        return jnp.reshape(values, [-1 if i == place else 1 for i in range(len(self.axes))])

    def mean(self, values: Array) -> Array:
        """The mean over the lattice, by quadrature along the axes that have weights.

        Arguments:
            values: one per point.
        """
        for axis, weights in zip(self.axes, self.weights):
            if weights is not None:
                values = values * self.along(axis, weights / jnp.mean(weights))
        return jnp.mean(values)


class Points(eqx.Module):
    """Scattered points: one coordinate array per axis, all of one length.

    Arguments:
        axes: the names of the axes.
        coordinates: one array (n,) per axis.
        weights: what each point counts in a mean; None: all alike.
        normals: outward unit normals, one array per axis, where the points are on a boundary.
    """

    axes: tuple[str, ...] = eqx.field(static=True)
    coordinates: tuple[Float[Array, " n"], ...]
    weights: Float[Array, " n"] | None = None
    normals: tuple[Float[Array, " n"], ...] | None = None

    @classmethod
    def of(cls, box: Box, points: Any, argument: str = "points") -> Points:
        """Points from an array.

        Arguments:
            box: whose axes the columns belong to, in order.
            points: an array of shape (n, number of axes); or columns by the names of the axes, a
                dict or a DataFrame, in any order.
            argument: what it is called in refusals.
        """
        if isinstance(points, Mapping) or hasattr(points, "columns"):
            points = _columns(box, points, argument)
        shape = np.shape(points)
        if len(shape) != 2 or shape[1] != box.dimension:
            raise InputError(
                f"{argument} must have shape (n, {box.dimension}), one column per axis"
                f" ({listed(box.axes)}), got {shape}. Columns with names may come in any order:"
                f" {{{', '.join(f'{axis!r}: …' for axis in box.axes)}}}"
            )
        # left in NumPy's float64 until a run's precision is known
        if not isinstance(points, jax.Array):
            points = np.asarray(points, dtype=float)
        return cls(box.axes, tuple(points[:, i] for i in range(box.dimension)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points, in a tuple."""
        return (len(self.coordinates[0]),)

    def arrays(self) -> dict[str, Array]:
        """The coordinates by name."""
        return dict(zip(self.axes, self.coordinates))

    def mean(self, values: Array) -> Array:
        """The mean over the points, by their weights where they have any.

        Arguments:
            values: one per point.
        """
        if self.weights is None:
            return jnp.mean(values)
        return jnp.mean(values * self.weights / jnp.mean(self.weights))


def _columns(box: Box, points: Any, argument: str) -> np.ndarray:
    """Columns by name, in the order of the axes."""
    names = list(points.keys())
    missing = [axis for axis in box.axes if axis not in names]
    if missing or len(names) > box.dimension:
        wrong = [f"{n!r} is no axis" for n in names if n not in box.axes]
        lack = [f"there is no column {axis!r}" for axis in missing]
        raise InputError(
            f"{argument}: {listed([*lack, *wrong])}: give one column for each of"
            f" {listed(box.axes)} and nothing else, data[{list(box.axes)!r}]"
        )
    columns = [np.asarray(points[axis], dtype=float).ravel() for axis in box.axes]
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{len(c)} of {axis}" for axis, c in zip(box.axes, columns))
        raise InputError(f"{argument}: the columns are of different lengths ({lengths})")
    return np.stack(columns, axis=1)


def flatten(lattice: Lattice) -> Points:
    """The points of a lattice one by one, with the products of its weights.

    Arguments:
        lattice: the lattice.
    """
    grids = jnp.meshgrid(*lattice.coordinates, indexing="ij")
    weights = None
    if any(w is not None for w in lattice.weights):
        each = [
            jnp.ones_like(c) if w is None else w
            for c, w in zip(lattice.coordinates, lattice.weights)
        ]
        weights = functools.reduce(operator.mul, jnp.meshgrid(*each, indexing="ij")).ravel()
    return Points(lattice.axes, tuple(g.ravel() for g in grids), weights)


Place = Lattice | Points


class Rows:
    """The coordinates of one axis wanted by several places, each array once."""

    def __init__(self):
        self.arrays: list[Array] = []
        self.slices: dict[Any, slice] = {}
        self.length = 0

    def add(self, coordinates: Array) -> slice:
        """Where the coordinates of a place are among all of them.

        Arguments:
            coordinates: of this axis, at the place.
        """
        # by value: tables of several quantities at one instant have an array for it each
        key: Any = id(coordinates)
        if not isinstance(coordinates, Tracer):
            key = (coordinates.dtype, np.asarray(coordinates).tobytes())
        if key not in self.slices:
            self.slices[key] = slice(self.length, self.length + len(coordinates))
            self.arrays.append(coordinates)
            self.length += len(coordinates)
        return self.slices[key]

    def all(self, dtype: Any) -> Array:
        """All coordinates, one array after the other.

        Arguments:
            dtype: of the result.
        """
        each = [jnp.asarray(array, dtype) for array in self.arrays]
        return jnp.concatenate(each) if len(each) > 1 else each[0]


def slabs(place: Place, most: int) -> Sequence[Place]:
    """A place cut along its first dimension.

    Arguments:
        place: a lattice or points.
        most: points that a piece has at most.

    Returns:
        The pieces, in order.
    """
    rest = math.prod(place.shape[1:])
    rows = max(1, most // max(1, rest))
    if place.shape[0] <= rows:
        return [place]
    pieces = [slice(i, i + rows) for i in range(0, place.shape[0], rows)]
    if isinstance(place, Points):
        return [Points(place.axes, tuple(c[piece] for c in place.coordinates)) for piece in pieces]
    first, others = place.axes[0], {axis: place[axis] for axis in place.axes[1:]}
    return [Lattice(weights=None, **{first: place[first][piece]}, **others) for piece in pieces]
