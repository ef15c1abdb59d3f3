"""Samplers draw the points of a training step; quadrature rules integrate over the box."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..core import InputError, finite, shown, whole
from .box import Box
from .places import Lattice, Place, Points, flatten


class AbstractSampler(eqx.Module):
    """A sampler draws the points of training.

    A draw is a function of the key, of its number and of the sampler's state alone, so that a run
    resumed at any step sees the points it would have seen. A sampler that learns from residuals
    where to draw has a state: `init` makes it, `learn` renews it before every draw but the first,
    and `lattice` (for separable networks) and `points` (for pointwise ones) are given it.

    Attributes:
        every: how many steps one draw serves; None: there is only one.
    """

    every: eqx.AbstractVar[int | None]

    def on(self, periodic: Sequence[str]) -> AbstractSampler:
        """The same for functions that are periodic along some axes."""
        return self

    @abc.abstractmethod
    def axis(
        self, key: PRNGKeyArray, number: Array, bounds: tuple[float, float], n: int, dtype: Any
    ) -> tuple[Array, Array | None]:
        """Coordinates and quadrature weights of one axis.

        Arguments:
            key: of the run's random numbers.
            number: of the draw.
            bounds: of the axis.
            n: how many coordinates.
            dtype: of the coordinates.

        Returns:
            coordinates, and weights that add up to the length of the axis; None: all count alike.
        """

    def init(self, box: Box, counts: Mapping[str, int], dtype: Any) -> Any:
        """The state before the first draw, a pytree of arrays; None: it learns nothing."""
        return None

    def learn(
        self,
        state: Any,
        key: PRNGKeyArray,
        number: Array,
        place: Place,
        squares: Callable[[Place], Mapping[str, Array]],
    ) -> Any:
        """The state for the draw of this number.

        Arguments:
            state: for the draw before.
            key: as for the draws.
            number: of the draw that comes.
            place: the points inside of the draw before.
            squares: of a place, squared residuals by name at its points, from the parameters now.
        """
        return state

    def lattice(
        self,
        key: PRNGKeyArray,
        number: Array,
        box: Box,
        counts: Mapping[str, int],
        dtype: Any,
        state: Any = None,
    ) -> Lattice:
        """A draw for a separable network."""
        drawn = {
            a: self.axis(k, number, box[a], counts[a], dtype)
            for a, k in zip(box.axes, jax.random.split(key, box.dimension))
        }
        return Lattice(
            weights={a: w for a, (_, w) in drawn.items()}, **{a: c for a, (c, _) in drawn.items()}
        )

    def points(
        self,
        key: PRNGKeyArray,
        number: Array,
        box: Box,
        counts: Mapping[str, int],
        held: Mapping[str, float],
        dtype: Any,
        state: Any = None,
    ) -> Points:
        """As many scattered points as the lattice has, with the axes in `held` at one value.

        By default they are the lattice's own.
        """
        lattice = self.lattice(key, number, box, counts, dtype, state)
        free = {a: lattice[a] for a in box.axes if a not in held} | {
            a: jnp.full(1, v, dtype) for a, v in held.items()
        }
        weights = {a: w for a, w in zip(lattice.axes, lattice.weights) if a not in held}
        return flatten(Lattice(weights=weights, **{a: free[a] for a in box.axes}))


class Uniform(AbstractSampler):
    """Independent uniform draws, anew every `every` steps (the paper's): per axis for a lattice, per point otherwise."""

    every: int | None = eqx.field(
        static=True, default=100, converter=lambda n: whole("Uniform: every", n)
    )

    def axis(self, key, number, bounds, n, dtype):
        return jax.random.uniform(jax.random.fold_in(key, number), (n,), dtype, *bounds), None

    def points(self, key, number, box, counts, held, dtype, state=None):
        total = math.prod(n for axis, n in counts.items() if axis not in held)
        drawn = [
            self.axis(k, number, box[a], total, dtype)[0]
            for a, k in zip(box.axes, jax.random.split(key, box.dimension))
        ]
        return Points(
            box.axes,
            tuple(
                jnp.full(total, held[a], dtype) if a in held else c for a, c in zip(box.axes, drawn)
            ),
        )


class Grid(AbstractSampler):
    """A regular grid, its upper end left out, moved by a random part of its spacing: `shifts` fixed random shifts taken
    in turn, each for `every` steps (the paper's Navier-Stokes runs). `shifts=0` leaves it unmoved.

    Of eight shifts one lies in each eighth of the spacing. Where all of them happen to be large, a network finds room between the initial
    values and the first points to leave them behind."""

    shifts: int = eqx.field(static=True, default=8, converter=lambda n: whole("Grid: shifts", n, 0))
    every: int | None = eqx.field(
        static=True, default=100, converter=lambda n: whole("Grid: every", n)
    )

    def axis(self, key, number, bounds, n, dtype):
        lower, upper = bounds
        shift = 0.0
        if self.shifts:
            turn = number % self.shifts
            part = jax.random.permutation(jax.random.fold_in(key, self.shifts), self.shifts)[turn]
            shift = (
                part + jax.random.uniform(jax.random.fold_in(key, turn), (), dtype)
            ) / self.shifts
        return lower + (upper - lower) / n * (jnp.arange(n, dtype=dtype) + shift), None


@functools.lru_cache(maxsize=64)
def _legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import (
        roots_legendre,
    )  # its banded eigenvalue problem is quick also for thousands of points

    return roots_legendre(n)


def places_by_axis(who: str, given: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Breakpoints by axis, as something that can be compared: {"x": 0} → (("x", (0.0,)),)."""
    pairs = isinstance(given, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given
    )
    if not isinstance(given, Mapping) and not pairs:
        raise InputError(
            f"{who}: breaks must be a dict by axis, got {shown(given)}: write breaks={{'x': 0.0}}"
        )
    each = {
        axis: at if isinstance(at, Iterable) and not isinstance(at, str) else [at]
        for axis, at in dict(given).items()
    }
    return tuple(
        (axis, tuple(sorted(finite(f"{who}: breaks[{axis!r}]", v) for v in at)))
        for axis, at in each.items()
    )


def _breaks(given: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return places_by_axis("GaussLegendre", given)


class GaussLegendre(AbstractSampler):
    """Gauss-Legendre quadrature: fixed points whose weighted mean integrates polynomials of degree 2n - 1 exactly.

    `breaks` are places along an axis where something is not smooth, {"x": 0.0} or {"x": [0.0, 0.5]}: the rule is then made of
    pieces between them, which share the axis' points, so that they crowd at both sides of a break. Along the axes in `even` points are
    evenly spaced, the best rule for what is periodic; axes that are periodic by construction are among them anyway.
    """

    breaks: Any = eqx.field(static=True, default=(), converter=_breaks)
    every: int | None = eqx.field(static=True, default=None)
    even: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)

    def __check_init__(self):
        if both := [axis for axis, _ in self.breaks if axis in self.even]:
            raise InputError(
                f"GaussLegendre: {both[0]} has breaks and even points, which have none: leave it out of one of the two"
            )

    def on(self, periodic):
        broken = {axis for axis, _ in self.breaks}
        return dataclasses.replace(
            self, even=dict.fromkeys([*self.even, *(a for a in periodic if a not in broken)])
        )

    def axis(self, key, number, bounds, n, dtype):
        nodes, weights = _legendre(n)
        lower, upper = bounds
        half = (upper - lower) / 2
        return jnp.asarray(lower + half * (nodes + 1), dtype), jnp.asarray(half * weights, dtype)

    def lattice(self, key, number, box, counts, dtype, state=None):
        plain = super().lattice(key, number, box, counts, dtype)
        coordinates, weights = (
            dict(zip(plain.axes, plain.coordinates)),
            dict(zip(plain.axes, plain.weights)),
        )
        for axis, at in self.breaks:
            box.check_axis(axis, "GaussLegendre: breaks")
            ends = [box[axis][0], *at, box[axis][1]]
            pieces = list(itertools.pairwise(ends))
            if any(low >= high for low, high in pieces) or counts[axis] < len(pieces):
                raise InputError(
                    f"GaussLegendre: breaks[{axis!r}] = {list(at)} must lie between {ends[0]:g} and {ends[-1]:g}, each with a point at least"
                )
            shares = [
                counts[axis] // len(pieces) + (i < counts[axis] % len(pieces))
                for i in range(len(pieces))
            ]
            drawn = [
                self.axis(key, number, piece, share, dtype) for piece, share in zip(pieces, shares)
            ]
            coordinates[axis] = jnp.concatenate([c for c, _ in drawn])
            weights[axis] = jnp.concatenate([w for _, w in drawn])
        for axis in self.even:
            box.check_axis(axis, "GaussLegendre: even")
            coordinates[axis], weights[axis] = Grid(shifts=0).axis(
                key, number, box[axis], counts[axis], dtype
            )
        return Lattice(weights=weights, **coordinates)


def quadrature(box: Box, points: int | Mapping[str, int], dtype: Any = None) -> Lattice:
    """The Gauss-Legendre lattice of a box."""
    return GaussLegendre().lattice(
        jax.random.key(0), jnp.array(0), box, box.counts(points), dtype or jnp.result_type(float)
    )
