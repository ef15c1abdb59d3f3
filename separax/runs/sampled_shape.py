"""A shape by samples: what is kept of a problem's `inside` where its code is not at hand."""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import in_float64
from ..domain import Box, Shape

# nodes per axis, by the number of axes of the shape; odd, so that the middle is one of them
NODES = {1: 4097, 2: 513, 3: 97}
FEWEST_NODES = 17  # beyond three axes


@functools.lru_cache(maxsize=4)  # a run asks again at every save
def samples(shape: Shape) -> np.ndarray:
    """`inside` on a regular lattice of the shape's axes.

    Returns: signed distances, or whether a node is inside, by axis.
    """
    count = NODES.get(len(shape.axes), FEWEST_NODES)
    with in_float64():
        grids = jnp.meshgrid(
            *(jnp.linspace(*shape.box[a], count) for a in shape.axes), indexing="ij", sparse=True
        )
        found = jnp.broadcast_to(
            shape.indicator(dict(zip(shape.axes, grids))), (count,) * len(shape.axes)
        )
        return np.asarray(found, np.float32 if shape.signed else bool)


class Samples:
    """The function `inside` of a shape, from its samples.

    A signed distance is interpolated linearly. Of an indicator nothing is known between a node
    inside and one outside, so a point is inside only where all nodes around it are: less than a
    spacing of the samples is lost at the boundary, and nothing where the boundary runs along nodes.

    Arguments:
        box: that the samples fill.
        axes: that the shape depends on.
        table: the samples, as `samples` returns them.
    """

    def __init__(self, box: Box, axes: tuple[str, ...], table: np.ndarray):
        self.bounds, self.table = {axis: box[axis] for axis in axes}, table
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(a, kind) for a in axes])

    def __call__(self, **coordinates: Any) -> Array:
        lows, parts = [], []
        for (axis, (lower, upper)), count in zip(self.bounds.items(), self.table.shape):
            at = (jnp.asarray(coordinates[axis]) - lower) * ((count - 1) / (upper - lower))
            nearest = jnp.round(at)
            slack = 4 * jnp.finfo(at.dtype).eps * count
            at = jnp.clip(jnp.where(jnp.abs(at - nearest) <= slack, nearest, at), 0, count - 1)
            low = jnp.minimum(at.astype(jnp.int32), count - 2)
            lows.append(low)
            parts.append(at - low)
        corners = list(itertools.product((0, 1), repeat=len(lows)))
        weights = [[p if side else 1 - p for p, side in zip(parts, c)] for c in corners]
        table = jnp.asarray(self.table)
        values = [table[tuple(low + side for low, side in zip(lows, c))] for c in corners]
        if self.table.dtype == bool:
            each = [
                functools.reduce(jnp.logical_or, [value, *(weight <= 0 for weight in w)])
                for value, w in zip(values, weights)
            ]
            return functools.reduce(jnp.logical_and, each)
        shares = [functools.reduce(jnp.multiply, w) for w in weights]
        each = [
            jnp.where(share > 0, share * value.astype(share.dtype), 0.0)  # a value may be infinite
            for share, value in zip(shares, values)
        ]
        return functools.reduce(jnp.add, each)


def sampled_shape(box: Box, axes: tuple[str, ...], table: np.ndarray) -> Shape:
    """A shape from its samples, in a box with these and perhaps other axes."""
    return Shape(Samples(box, axes, table), box)
