"""Where a problem without time says itself that its solution is rough: places at which coefficients
or sources jump, corners of a shape that point inwards, corners where conditions contradict each
other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import scipy

from ...domain import Shape
from .steady import Steady, SteadyCondition

LINES = {1: 1, 2: 24, 3: 48}  # along each axis, on which it is looked for jumps
GRID = {2: 128, 3: 48}  # points along each axis, on which it is looked for holes
SAMPLES = 1024  # of each line
STANDS_OUT = 4.0  # times the steps beside it: a step that may be a jump
SEEN = 1e-9  # of the range of values: the smallest step that is looked at
STAYS = 0.2  # of a step: what is left of a jump after bisections
BISECTIONS = 60
MOST_PLACES = 64  # along an axis: of more jumps it is no use to know
SAME = 1e-10  # of the axis
BEND = 0.3  # of the normal, in radians: a corner
INWARD = 0.55  # of a small circle that is inside around a corner that points inwards
APART = 1e-6  # of the size of conditions


@dataclass(frozen=True)
class RoughPlaces:
    """What is known about where a solution is rough.

    Attributes:
        jumps: by axis, where coefficients or sources jump all along other axes or parts of them.
        corners: (n, axes), where derivatives are not square-integrable.
        contradictions: (n, axes), those of them where conditions contradict each other.
    """

    jumps: tuple[tuple[float, ...], ...]
    corners: np.ndarray
    contradictions: np.ndarray

    @property
    def none(self) -> bool:
        """Whether there are none."""
        return not any(self.jumps) and not len(self.corners)


def rough_places(steady: Steady) -> RoughPlaces:
    """Looks for the rough places of a problem."""
    axes = range(steady.problem.box.dimension)
    contradictions = _contradictions(steady)
    corners = np.concatenate([contradictions, _inward_corners(steady)])
    return RoughPlaces(tuple(_jumps(steady, a) for a in axes), corners, contradictions)


def has_holes(shape: Shape) -> bool:
    """Whether there is something in a shape that does not belong to it, and that no face of the box
    cuts: a solution need not go on smoothly through that."""
    number = GRID.get(len(shape.axes))
    if number is None:
        return False
    each = [np.linspace(*shape.box[a], number) for a in shape.axes]
    points = np.stack([x.ravel() for x in np.meshgrid(*each, indexing="ij")], 1)
    outside = ~shape.contains(points).reshape([number] * len(shape.axes))
    parts, count = scipy.ndimage.label(outside)
    faces = [np.take(parts, end, axis) for axis in range(parts.ndim) for end in (0, -1)]
    return count > len(set(np.concatenate([f.ravel() for f in faces])) - {0})


# --- jumps ---------------------------------------------------------------------------------------


def _coefficients(steady: Steady, points: np.ndarray) -> np.ndarray:
    """What residuals are made of at points (n, axes): what they are for a fixed table of
    derivatives, and how they change with it; (n, numbers)."""
    table = np.sqrt(1.0 + np.arange(len(steady.keys))) - 0.7
    table = np.repeat(table[:, None], len(points), 1)
    left, slopes = steady.inside(table, *points.T)
    known = left - np.einsum("rkn,kn->rn", slopes, table)
    return np.concatenate([known, slopes.reshape(-1, len(points))]).T


def _inside(steady: Steady, points: np.ndarray) -> np.ndarray:
    shape, box = steady.problem.shape, steady.problem.box
    if shape is None:
        return np.ones(len(points), bool)
    return shape.contains(points[:, [box.index(a) for a in shape.axes]])


def _jumps(steady: Steady, axis: int) -> tuple[float, ...]:
    box = steady.problem.box
    bounds = np.array([box[a] for a in box.axes])
    first, last = bounds[axis]
    drawn = np.random.default_rng(0)
    number = LINES[box.dimension]
    lines = bounds[:, 0] + drawn.random((number, box.dimension)) * (bounds[:, 1] - bounds[:, 0])
    at = np.linspace(first, last, SAMPLES)
    points = np.repeat(lines[:, None], SAMPLES, 1)
    points[..., axis] = at
    flat = points.reshape(-1, box.dimension)
    values = _coefficients(steady, flat).reshape(number, SAMPLES, -1)
    here = _inside(steady, flat).reshape(number, SAMPLES)
    values = np.where(here[..., None], values, 0.0)
    if not np.all(np.isfinite(values)):
        return ()
    span = np.ptp(values[here], axis=0) if here.any() else np.zeros(values.shape[-1])
    values = values[..., span > SEEN * np.maximum(np.abs(values).max((0, 1)), 1e-300)]
    if not values.shape[-1]:
        return ()
    values = values / span[span > SEEN * np.maximum(span, 1e-300)][: values.shape[-1]]
    steps = np.abs(np.diff(values, axis=1)) * (here[:, 1:] & here[:, :-1])[..., None]
    wide = np.pad(steps, [(0, 0), (2, 2), (0, 0)])
    beside = np.max([wide[:, i : i + SAMPLES - 1] for i in (0, 1, 3, 4)], axis=0)
    found = np.argwhere((steps > STANDS_OUT * beside) & (steps > SEEN))
    if not len(found):
        return ()
    order = np.argsort(-steps[tuple(found.T)], kind="stable")[: 4 * MOST_PLACES * number]
    line, index, column = found[order].T
    low, high = at[index], at[index + 1]
    kept = np.flatnonzero(span > SEEN * np.maximum(np.abs(span), 1e-300))
    size = steps[line, index, column]

    def value(x: np.ndarray) -> np.ndarray:
        each = lines[line].copy()
        each[:, axis] = x
        found = _coefficients(steady, each)[:, kept] / span[kept]
        return found[np.arange(len(x)), column]

    below, above = value(low), value(high)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        now = value(middle)
        lower = np.abs(now - below) > np.abs(above - now)
        high, above = np.where(lower, middle, high), np.where(lower, now, above)
        low, below = np.where(lower, low, middle), np.where(lower, below, now)
    stays = np.abs(above - below) > STAYS * size
    return _gathered(high[stays], line[stays], last - first, 1 if number == 1 else 2)


def _gathered(
    places: np.ndarray, lines: np.ndarray, length: float, least: int
) -> tuple[float, ...]:
    """Places that so many lines share."""
    order = np.argsort(places)
    places, lines = places[order], lines[order]
    groups = np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) > SAME * length) + 1)
    found = [float(np.median(places[g])) for g in groups if len(g) and len(set(lines[g])) >= least]
    return tuple(found) if len(found) <= MOST_PLACES else ()


# --- corners -------------------------------------------------------------------------------------


def _contradictions(steady: Steady) -> np.ndarray:
    """Corners of a box of two axes where its faces have different values."""
    box = steady.problem.box
    nothing = np.zeros((0, box.dimension))
    if box.dimension != 2 or steady.problem.periodic:
        return nothing
    plain = [
        c
        for c in steady.conditions
        if c.axis is not None and len(c.keys) == 1 and not any(c.keys[0][1])
    ]
    found, sizes = [], [0.0]
    for x in (0, 1):
        for y in (0, 1):
            corner = np.array([box[box.axes[0]][x], box[box.axes[1]][y]])
            if not _inside(steady, corner[None])[0]:
                continue
            here = [
                c
                for c in plain
                if c.side == "-+"[(x, y)[box.index(c.axis or "")]] and _at(c, corner, box.axes)
            ]
            values = [(c.keys, c.axis, _value(c, corner)) for c in here]
            sizes += [abs(v) for *_, v in values]
            for i, (keys, axis, value) in enumerate(values):
                for other_keys, other_axis, other in values[:i]:
                    if keys == other_keys and axis != other_axis:
                        found.append((corner, abs(value - other)))
    apart = [corner for corner, difference in found if difference > APART * max(sizes)]
    return np.unique(np.array(apart), axis=0) if apart else nothing


def _at(condition: SteadyCondition, point: np.ndarray, axes: Sequence[str]) -> bool:
    if condition.where is None:
        return True
    return bool(np.all(np.asarray(condition.where(dict(zip(axes, map(jnp.asarray, point)))))))


def _value(condition: SteadyCondition, point: np.ndarray) -> float:
    at = point[:, None]
    left, slopes = condition.program(np.zeros((1, 1)), at, np.zeros_like(at))
    return float(-left[0, 0] / slopes[0, 0, 0]) if slopes[0, 0, 0] else 0.0


def _inward_corners(steady: Steady) -> np.ndarray:
    """Corners of a shape of two axes that point into it."""
    shape, box = steady.problem.shape, steady.problem.box
    nothing = np.zeros((0, box.dimension))
    if shape is None or box.dimension != 2 or len(shape.axes) != 2:
        return nothing
    points, normals, _ = shape.boundary()
    bounds = np.array([box[a] for a in shape.axes])
    size = (bounds[:, 1] - bounds[:, 0]).max()
    radius = size / 256
    pairs = scipy.spatial.KDTree(points).query_pairs(radius, output_type="ndarray")
    cosine = np.einsum("ni,ni->n", normals[pairs[:, 0]], normals[pairs[:, 1]])
    pairs = pairs[cosine < np.cos(BEND)]
    if not len(pairs):
        return nothing
    normals = np.where(np.abs(normals) < 1e-4, 0.0, normals)
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    found = []
    for i, j in pairs[
        np.argsort(np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1))
    ]:
        both = np.stack([normals[i], normals[j]])
        known = np.einsum("ni,ni->n", both, points[[i, j]])
        corner = np.linalg.solve(both, known)
        apart = np.linalg.norm(corner - points[[i, j]], axis=1).max()
        if apart > 2 * radius or any(np.linalg.norm(corner - c) < 4 * radius for c in found):
            continue
        angle = 2 * np.pi * (np.arange(256) + 0.5) / 256
        circle = corner + radius * np.stack([np.cos(angle), np.sin(angle)], 1)
        if shape.contains(circle).mean() > INWARD:
            found.append(corner)
    order = [shape.axes.index(a) for a in box.axes]
    return np.array(found)[:, order] if found else nothing
