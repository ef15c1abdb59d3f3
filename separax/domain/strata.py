"""A sampler whose points follow the residual, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import InputError, add_up, finite, whole
from .places import Lattice
from .samplers import AbstractSampler

SMOOTH = 32  # a density is smoothed over such a part of its cells to either side


class Strata(AbstractSampler):
    """One point in each stratum of a density that follows the residual along every axis.

    The density of an axis is p(x) = (1 - f) + f m(x) / mean(m), where m is the root mean square of
    the residual over all other axes. n points lie one in each part of an nth of p, and count
    1 / p(x), so that means stay those over the box. They go where a front is, and leave nothing
    out.

    Arguments:
        follow: f, between 0 (evenly spread) and 1.
        every: how many steps one draw serves.
        cells: of the density along an axis.
    """

    follow: float = eqx.field(
        static=True, default=0.5, converter=lambda value: _share("Strata: follow", value)
    )
    every: int | None = eqx.field(
        static=True, default=10, converter=lambda value: whole("Strata: every", value)
    )
    cells: int = eqx.field(
        static=True, default=256, converter=lambda value: whole("Strata: cells", value)
    )

    def axis(self, key, number, bounds, n, dtype, density=None):
        density = jnp.ones(self.cells, dtype) if density is None else density
        edges = self._edges(bounds, dtype)
        sums = jnp.append(0.0, jnp.cumsum(density))
        within = jax.random.uniform(jax.random.fold_in(key, number), (n,), dtype)
        x = jnp.interp((jnp.arange(n) + within) / n, sums / sums[-1], edges).astype(dtype)
        weights = 1 / density[_cells(x, edges)]
        return x, (bounds[1] - bounds[0]) * weights / jnp.sum(weights)

    def _edges(self, bounds: tuple[float, float], dtype: Any) -> Array:
        low, high = bounds
        return jnp.linspace(low, high, self.cells + 1, dtype=dtype)

    def init(self, box, counts, dtype):
        even = jnp.ones(self.cells, dtype)
        return {axis: (self._edges(box[axis], dtype), even) for axis in box.axes}

    def lattice(self, key, number, box, counts, dtype, state=None):
        keys = jax.random.split(key, box.dimension)
        state = self.init(box, counts, dtype) if state is None else state
        drawn = {
            axis: self.axis(k, number, box[axis], counts[axis], dtype, state[axis][1])
            for axis, k in zip(box.axes, keys)
        }
        weights = {axis: w for axis, (_, w) in drawn.items()}
        return Lattice(weights=weights, **{axis: x for axis, (x, _) in drawn.items()})

    def learn(self, state, key, number, place, squares):
        total = add_up(jnp.broadcast_to(each, place.shape) for each in squares(place).values())
        found = {}
        for i, (axis, x) in enumerate(zip(place.axes, place.coordinates)):
            weights: Any = place.weights  # of a draw of this sampler there are always some
            along = total
            if isinstance(place, Lattice):
                weights, along = weights[i], _averaged(total, weights, i)
            edges, density = state[axis]
            at, none = _cells(x, edges), jnp.zeros_like(density)
            # of neighbours, too: there may be fewer points than cells
            window = jnp.ones(2 * max(self.cells // SMOOTH, self.cells // len(x)) + 1)
            counted = jnp.convolve(none.at[at].add(weights), window, "same")
            squared = jnp.convolve(none.at[at].add(weights * along), window, "same")
            size = jnp.sqrt(squared / jnp.where(counted > 0, counted, 1.0))
            mean = jnp.mean(size)
            share = jnp.where(mean > 0, size / jnp.where(mean > 0, mean, 1.0), 1.0)
            found[axis] = edges, (1 - self.follow + self.follow * share).astype(density.dtype)
        return found


def _cells(x: Array, edges: Array) -> Array:
    """The numbers of the cells that points lie in."""
    return jnp.clip(jnp.searchsorted(edges, x) - 1, 0, len(edges) - 2)


def _averaged(values: Array, weights: Sequence[Array], i: int) -> Array:
    """Values on a lattice, averaged over all axes but one."""
    for k in range(values.ndim):
        if k != i:
            shape = [-1 if j == k else 1 for j in range(values.ndim)]
            values = values * (weights[k] / jnp.sum(weights[k])).reshape(shape)
    return jnp.sum(values, [k for k in range(values.ndim) if k != i])


def _share(argument: str, value: float) -> float:
    value = finite(argument, value)
    if not 0 <= value < 1:
        raise InputError(
            f"{argument} must be at least 0 and less than 1, got {value!r}: with 0.5, half of the"
            " points are spread evenly"
        )
    return value
