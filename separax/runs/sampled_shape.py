"""A shape by samples: what is kept of a problem's `inside` where its code is not at hand."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array

from ..core import in_float64
from ..domain import Box, Shape

# nodes per axis, by the number of axes of the shape; odd, so that the middle is one of them
NODES = {1: 4097, 2: 513, 3: 97}
FEWEST_NODES = 17  # beyond three axes
MOST = 1e30  # of a distance


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
        places = []
        for (axis, (lower, upper)), count in zip(self.bounds.items(), self.table.shape):
            at = (jnp.asarray(coordinates[axis]) - lower) * ((count - 1) / (upper - lower))
            nearest = jnp.round(at)
            slack = 4 * jnp.finfo(at.dtype).eps * count
            places.append(jnp.where(jnp.abs(at - nearest) <= slack, nearest, at))
        # a distance may be infinite, and the weight of its node zero
        table = jnp.asarray(np.clip(self.table.astype(np.float32), -MOST, MOST), places[0].dtype)
        found = map_coordinates(table, jnp.broadcast_arrays(*places), order=1, mode="nearest")
        return found if self.table.dtype != bool else found >= 1 - 1e-5


def sampled_shape(box: Box, axes: tuple[str, ...], table: np.ndarray) -> Shape:
    """A shape from its samples, in a box with these and perhaps other axes."""
    return Shape(Samples(box, axes, table), box)
