"""Domains that are not boxes: the part of a box where a function says "inside".

As in the paper, such a domain is handled inside its bounding box: the equation counts at the points
of the lattice that are inside, and the boundary is made of scattered points, at which a separable
network is evaluated one by one.

The function is either an indicator, true inside, or a signed distance, negative inside (any
function that changes sign at the boundary will do). The boundary is found by following grid lines:
where one enters or leaves the shape, bisection finds the point. A line along axis i through a cell
of cross-section A meets a piece of surface of area A / |nᵢ|; weighing the axes' pieces by nᵢ²,
which add up to one, gives every crossing the area A |nᵢ|.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..core import InputError, as_array, call, fits, in_float64, listed, parameters, shown
from .box import TIME, Box
from .places import Points

LINES = {1: 4096, 2: 1024, 3: 96}  # grid lines per axis, by the number of axes the shape depends on
MOST_NODES = 2**20  # of all lines along an axis, beyond three axes
BISECTIONS = 50
DIRECTIONS = 128  # in which an indicator is looked at to find roughly where its normal points
SLACK = 8  # roundings of a signed distance within which a point counts as on the boundary
BOUNDARY = "boundary"  # the name of the shape's boundary where a condition says `on`


class Shape:
    """The part of a box where a function is true or negative, with its boundary.

    Arguments:
        inside: a function of coordinates by name, true inside, or a signed distance.
        box: the bounding box.

    Attributes:
        axes: the names of the axes that the shape depends on.
        signed: whether `indicator` is a signed distance, negative inside.
        size: of a signed distance in the box, against which its rounding is seen.
        within: a point inside, by axis.
    """

    def __init__(self, inside: Callable[..., Any], box: Box):
        if not callable(inside):
            raise InputError(
                f"inside must be a function of the coordinates, got {shown(inside)}: write"
                " inside=lambda x, y: x**2 + y**2 - 1 (negative inside), or one that is true inside"
            )
        self._inside, self._names = inside, parameters(inside, {"coordinate": box.axes}, "inside")
        named = {name for name, _ in self._names}
        axes = tuple(axis for axis in box.axes if axis in named)
        if not axes:
            raise InputError(
                "inside depends on no coordinate: write a function of"
                f" {listed(box.space or box.axes)}"
            )
        if TIME in axes:
            raise InputError(
                "inside depends on t: a domain that moves in time is not possible yet; write a"
                " function of space alone"
            )
        kind = jax.eval_shape(
            lambda c: as_array(self.indicator(c), "inside"), {a: jnp.zeros(2) for a in box.axes}
        )
        fits(kind, (2,), "inside")
        if not (jnp.issubdtype(kind.dtype, jnp.bool_) or jnp.issubdtype(kind.dtype, jnp.floating)):
            raise InputError(
                "inside must return true or false, or a signed distance; got numbers of type"
                f" {kind.dtype}"
            )
        signed = not jnp.issubdtype(kind.dtype, jnp.bool_)
        bounds = np.array([box[a] for a in axes])
        drawn = np.random.default_rng(0).random((4096, len(axes)))
        points = bounds[:, 0] + drawn * (bounds[:, 1] - bounds[:, 0])
        with in_float64():
            found = np.asarray(self.indicator(dict(zip(axes, map(jnp.asarray, points.T)))))
        self.box, self.axes, self.signed, self.size = box, axes, signed, 0.0
        if signed:
            self.size = float(np.max(np.abs(found), initial=0.0, where=np.isfinite(found)))
        self._found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # the boundary, once
        here = self.contains(points)
        if not here.any():
            what = "is positive" if signed else "is false"
            raise InputError(
                f"inside {what} nearly everywhere in {box!r}: it must be"
                f" {'negative' if signed else 'true'} inside; check its sign and the box"
            )
        if here.all():
            raise InputError(
                f"inside holds everywhere in {box!r}: leave it out, or make the box the bounding"
                " box of a smaller shape"
            )
        self.within = dict(zip(axes, map(float, points[here][0])))

    def indicator(self, coordinates: Mapping[str, Any]) -> Any:
        """True or negative inside.

        Arguments:
            coordinates: arrays by axis that broadcast.
        """
        return call(self._inside, self._names, coordinates, "inside")

    def along(self, box: Box) -> Self:
        """The shape in another box.

        Arguments:
            box: which differs along axes that the shape does not depend on.
        """
        other = copy.copy(self)
        other.box = box
        return other

    def mask(self, coordinates: Mapping[str, Array]) -> Array:
        """True inside and on the boundary, where a signed distance may be off by rounding.

        Arguments:
            coordinates: arrays by axis that broadcast.
        """
        found = jnp.asarray(self.indicator(coordinates))
        if not self.signed:
            return found
        return found <= SLACK * float(jnp.finfo(found.dtype).eps) * self.size

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Whether points are inside; nothing outside the box is.

        Arguments:
            points: an array (n, axes), of the axes that the shape depends on.
        """
        bounds = np.array([self.box[a] for a in self.axes])
        here = np.all((points >= bounds[:, 0]) & (points <= bounds[:, 1]), axis=1)
        with in_float64():
            found = self.mask(dict(zip(self.axes, map(jnp.asarray, points.T))))
        return here & np.broadcast_to(np.asarray(found), here.shape)

    def safe_coordinates(self, coordinates: Mapping[str, Array]) -> dict[str, Array]:
        """Coordinates with a point inside in place of all that are outside.

        What a function makes of those counts nothing, but were it infinite, the gradient of what
        does count would be no number.

        Arguments:
            coordinates: arrays by axis that broadcast.
        """
        mask = self.mask(coordinates)
        return dict(coordinates) | {
            a: jnp.where(mask, coordinates[a], self.within[a]) for a in self.axes
        }

    # --- the boundary ----------------------------------------------------------------------------

    def boundary(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points (n, axes) on the boundary, their outward normals (n, axes), and the area that each
        stands for (n,)."""
        if not self._found:
            dimension = len(self.axes)
            lines = LINES.get(dimension, max(4, int(MOST_NODES ** (1 / dimension))))
            crossings = [self._crossings(i, lines) for i in range(dimension)]
            points = np.concatenate([p for p, _ in crossings])
            along = np.concatenate([np.full(len(p), i) for i, (p, _) in enumerate(crossings)])
            section = np.concatenate([np.full(len(p), area) for p, area in crossings])
            normals = self._normals(points, along)
            area = section * np.abs(normals[np.arange(len(points)), along])
            kept = area > 1e-3 * section  # a line that grazes the surface says nothing about it
            order = _along_a_curve(points[kept], np.array([self.box[a] for a in self.axes]))
            self._found.append((points[kept][order], normals[kept][order], area[kept][order]))
        return self._found[0]

    def _crossings(self, axis: int, lines: int) -> tuple[np.ndarray, float]:
        """Where the grid lines along one axis enter or leave the shape, and the cross-section of a
        line."""
        bounds = np.array([self.box[a] for a in self.axes])
        length = bounds[:, 1] - bounds[:, 0]
        each = [
            low
            + (np.linspace(0, 1, lines + 1) if i == axis else (np.arange(lines) + 0.5) / lines)
            * long
            for i, (low, long) in enumerate(zip(bounds[:, 0], length))
        ]
        section = math.prod(length[i] / lines for i in range(len(bounds)) if i != axis)
        return self._entered(axis, each)[0], section

    def _entered(self, axis: int, each: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Where lines along one axis enter or leave the shape, and the number of each one's line.

        Arguments:
            axis: the number of the axis.
            each: by axis coordinates: those of the lines, and along the axis the nodes between
                which a line is looked at.
        """
        bounds = np.array([self.box[a] for a in self.axes])
        grid = np.meshgrid(*each, indexing="ij")
        points = np.stack([g.ravel() for g in grid], 1)
        points[:, axis] = np.clip(points[:, axis], *bounds[axis])
        found = np.moveaxis(self.contains(points).reshape(grid[0].shape), axis, -1)
        places = np.moveaxis(points.reshape(*grid[0].shape, -1), axis, -2)
        line = np.arange(found[..., 0].size).reshape(found.shape[:-1])
        # beyond its faces nothing is inside: the ends of a line are crossings where it ends inside
        first, last = places[..., 0, :][found[..., 0]], places[..., -1, :][found[..., -1]]
        change = found[..., 1:] != found[..., :-1]
        a, b = places[..., :-1, :][change], places[..., 1:, :][change]
        a_inside = found[..., :-1][change]
        inner, outer = np.where(a_inside[:, None], a, b), np.where(a_inside[:, None], b, a)
        for _ in range(BISECTIONS if len(inner) else 0):
            middle = 0.5 * (inner + outer)
            here = self.contains(middle)[:, None]
            inner, outer = np.where(here, middle, inner), np.where(here, outer, middle)
        lines = [
            line[found[..., 0]],
            line[found[..., -1]],
            np.broadcast_to(line[..., None], change.shape)[change],
        ]
        return np.concatenate([first, last, inner]), np.concatenate(lines)

    def boundary_near(
        self, lines: Mapping[str, tuple[np.ndarray, np.ndarray]], nodes: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The boundary as the lines of a lattice meet it, like `boundary`.

        Arguments:
            lines: by axis coordinates, and the length that each of them stands for.
            nodes: by axis the places between which a line is looked at.
        """
        found = []
        for i, axis in enumerate(self.axes):
            each = [nodes[a] if a == axis else lines[a][0] for a in self.axes]
            points, line = self._entered(i, each)
            widths = [lines[a][1] for a in self.axes if a != axis]
            section = functools.reduce(np.multiply.outer, widths, np.ones(()))
            section = np.broadcast_to(np.ravel(section)[line], len(points))
            normals = self._normals(points, np.full(len(points), i))
            area = section * np.abs(normals[:, i])
            kept = area > 1e-3 * section
            found.append((points[kept], normals[kept], area[kept]))
        points, normals, area = (np.concatenate(each) for each in zip(*found))
        return points, normals, area

    def _normals(self, points: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Outward unit normals: of the box where a point lies on its face, of the shape
        elsewhere."""
        bounds = np.array([self.box[a] for a in self.axes])
        normals = self._slopes(points) if self.signed else self._seen(points)
        rows = np.arange(len(points))
        for side, sign in ((0, -1.0), (1, 1.0)):
            on_face = points[rows, along] == bounds[along, side]
            beyond = points.copy()
            beyond[rows, along] -= sign * 1e-9 * (bounds[along, 1] - bounds[along, 0])
            on_face &= self.contains(beyond)  # the face cuts the shape off here
            normals[on_face] = 0.0
            normals[on_face, along[on_face]] = sign
        return normals

    def _slopes(self, points: np.ndarray) -> np.ndarray:
        """Normals of a signed distance: its gradient."""

        def one(point: Array) -> Array:
            return jnp.reshape(self.indicator(dict(zip(self.axes, point))), ())

        with in_float64():
            slopes = np.array(jax.jit(jax.vmap(jax.grad(one)))(jnp.asarray(points)))
        size = np.linalg.norm(slopes, axis=1, keepdims=True)
        bad = ~(np.isfinite(size[:, 0]) & (size[:, 0] > 1e-12))
        slopes = slopes / np.where(bad[:, None], 1.0, size)
        if bad.any():
            slopes[bad] = self._seen(points[bad])
        return slopes

    def _seen(self, points: np.ndarray) -> np.ndarray:
        """Normals of an indicator: roughly away from where, close by, the inside is; then across
        the slope of the boundary."""
        dimension = len(self.axes)
        bounds = np.array([self.box[a] for a in self.axes])
        radius = 1e-4 * (bounds[:, 1] - bounds[:, 0]).min()
        if dimension == 2:
            angle = 2 * np.pi * (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS
            directions = np.stack([np.cos(angle), np.sin(angle)], 1)
        else:
            drawn = np.random.default_rng(0).normal(size=(DIRECTIONS // 2, dimension))
            directions = np.concatenate([drawn, -drawn])
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        total = np.zeros_like(points)
        for direction in directions:
            total -= self.contains(points + radius * direction)[:, None] * direction
        rough = _unit(total)
        tilt = np.zeros_like(rough)
        # per point, the directions in which its surface extends
        for along in np.moveaxis(np.linalg.svd(rough[:, None, :])[2][:, 1:], 1, 0):
            higher = self._height(points + radius * along, rough, radius)
            lower = self._height(points - radius * along, rough, radius)
            tilt += ((higher - lower) / (2 * radius))[:, None] * along
        return _unit(rough - tilt)

    def _height(self, points: np.ndarray, upward: np.ndarray, most: float) -> np.ndarray:
        """How far along `upward` the boundary is from each point, between -most and most."""
        low, high = np.full(len(points), -most), np.full(len(points), most)
        for _ in range(BISECTIONS if len(points) else 0):
            middle = 0.5 * (low + high)
            here = self.contains(points + middle[:, None] * upward)
            low, high = np.where(here, middle, low), np.where(here, high, middle)
        return 0.5 * (low + high)

    def draw(self, key: PRNGKeyArray | None, number: Array, count: int, dtype: Any) -> Points:
        """Points on the boundary with their normals, spread evenly over its area.

        Arguments:
            key: of random numbers: other axes are drawn at random. None: the spread is fixed, and
                other axes are covered evenly too.
            number: of the draw.
            count: how many.
            dtype: of the coordinates.
        """
        points, normals, area = self.boundary()
        ends = jnp.asarray(np.cumsum(area) / np.sum(area), dtype)
        others = [axis for axis in self.box.axes if axis not in self.axes]
        if key is None:
            shift, parts = jnp.asarray(0.5, dtype), jnp.asarray(_evenly(count, len(others)), dtype)
        else:
            key = jax.random.fold_in(key, number)
            drawn = jax.random.uniform(key, (1 + len(others), count), dtype)
            shift, parts = drawn[0, 0], drawn[1:]
        at = jnp.searchsorted(ends, (jnp.arange(count, dtype=dtype) + shift) / count)
        at = jnp.minimum(at, len(points) - 1)
        coordinates, outward = [], []
        for axis in self.box.axes:
            if axis in self.axes:
                place = self.axes.index(axis)
                coordinates.append(jnp.asarray(points[:, place], dtype)[at])
                outward.append(jnp.asarray(normals[:, place], dtype)[at])
            else:
                low, high = self.box[axis]
                coordinates.append(low + (high - low) * parts[others.index(axis)])
                outward.append(jnp.zeros(count, dtype))
        return Points(self.box.axes, tuple(coordinates), normals=tuple(outward))


def _unit(vectors: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(size > 0, size, 1.0)


def _evenly(count: int, dimension: int) -> np.ndarray:
    """(dimension, count) numbers in [0, 1) whose columns fill a cube: multiples of powers of a
    golden ratio, g^(d+1) = g + 1."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (dimension + 1))
    return (0.5 + np.arange(count) * (ratio ** -np.arange(1.0, dimension + 1))[:, None]) % 1.0


def _along_a_curve(points: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """An order in which neighbours stay close (Morton's), so that taking every k-th point covers
    the boundary evenly."""
    parts = (points - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    cells = (parts * 1023).astype(np.int64).clip(0, 1023)
    code = np.zeros(len(points), np.int64)
    for bit in range(min(10, 60 // points.shape[1])):
        for i in range(points.shape[1]):
            code |= ((cells[:, i] >> bit) & 1) << (bit * points.shape[1] + i)
    return np.argsort(code, kind="stable")
