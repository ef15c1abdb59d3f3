"""A shape that is known by samples: what is left of a problem's `inside` where its code is not at hand."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..domain import Box, Shape

NODES = {
    1: 4097,
    2: 513,
    3: 97,
}  # per axis, by the number of axes the shape depends on; odd, so that the middle is one of them
FEWEST = 17  # beyond three axes


@functools.lru_cache(maxsize=4)  # a run asks again at every save
def samples(shape: Shape) -> np.ndarray:
    """`inside` on a regular lattice of the shape's axes: signed distances, or whether a node is inside."""
    count = NODES.get(len(shape.axes), FEWEST)
    with jax.enable_x64(True):
        grids = jnp.meshgrid(
            *(jnp.linspace(*shape.box[a], count) for a in shape.axes), indexing="ij", sparse=True
        )
        found = jnp.broadcast_to(
            shape._call(dict(zip(shape.axes, grids))), (count,) * len(shape.axes)
        )
        return np.asarray(found, np.float32 if shape.signed else bool)


class SampledShape(Shape):
    """A shape from its samples.

    A signed distance is interpolated linearly. Of an indicator nothing is known between a node inside and one outside, so a
    point is inside only where all nodes around it are: less than a spacing of the samples is lost at the boundary, and nothing
    where the boundary runs along nodes.
    """

    def __init__(self, box: Box, axes: tuple[str, ...], table: np.ndarray):
        self.box, self.axes, self._table = box, axes, table
        self.signed = table.dtype != bool
        sizes = np.abs(table) if self.signed else np.zeros(1)
        self._size = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
        self._found = []
        self.within = {}  # nothing is solved in it

    def _call(self, coordinates: Mapping[str, Any]) -> Array:
        table = jnp.asarray(self._table)
        places, parts = [], []
        for axis, count in zip(self.axes, self._table.shape):
            lower, upper = self.box[axis]
            at = (jnp.asarray(coordinates[axis]) - lower) * ((count - 1) / (upper - lower))
            nearest = jnp.round(at)
            slack = 4 * jnp.finfo(at.dtype).eps * count
            at = jnp.clip(jnp.where(jnp.abs(at - nearest) <= slack, nearest, at), 0, count - 1)
            low = jnp.minimum(at.astype(jnp.int32), count - 2)
            places.append(low)
            parts.append(at - low)
        total: Any = None
        for corner in itertools.product((0, 1), repeat=len(places)):
            values = table[tuple(place + side for place, side in zip(places, corner))]
            weights = [part if side else 1 - part for part, side in zip(parts, corner)]
            if self.signed:
                share = functools.reduce(jnp.multiply, weights)
                one = jnp.where(share > 0, share * values.astype(share.dtype), 0.0)
                total = one if total is None else total + one
            else:
                one = functools.reduce(
                    jnp.logical_or, [values, *(weight <= 0 for weight in weights)]
                )
                total = one if total is None else total & one
        return total
