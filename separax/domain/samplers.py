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

Counts = Mapping[str, int]  # points per axis
Squares = Callable[[Place], Mapping[str, Array]]  # of a place, squared residuals at its points


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
        """The sampler for functions that are periodic along some axes.

        Arguments:
            periodic: the names of these axes.
        """
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

    def init(self, box: Box, counts: Counts, dtype: Any) -> Any:
        """The state before the first draw.

        Arguments:
            box: of the problem.
            counts: points per axis.
            dtype: of the coordinates.

        Returns:
            a pytree of arrays; None: it learns nothing.
        """
        return None

    def learn(
        self, state: Any, key: PRNGKeyArray, number: Array, place: Place, squares: Squares
    ) -> Any:
        """The state for the draw of this number.

        Arguments:
            state: for the draw before.
            key: as for the draws.
            number: of the draw that comes.
            place: the points inside of the draw before.
            squares: of a place, squared residuals by name at its points, from the parameters now.

        Returns:
            a state of the same structure.
        """
        return state

    def lattice(
        self,
        key: PRNGKeyArray,
        number: Array,
        box: Box,
        counts: Counts,
        dtype: Any,
        state: Any = None,
    ) -> Lattice:
        """A draw for a separable network.

        Arguments:
            key: of the run's random numbers.
            number: of the draw.
            box: of the problem.
            counts: points per axis.
            dtype: of the coordinates.
            state: the sampler's.
        """
        keys = jax.random.split(key, box.dimension)
        drawn = [self.axis(k, number, box[a], counts[a], dtype) for a, k in zip(box.axes, keys)]
        weights = {axis: w for axis, (_, w) in zip(box.axes, drawn)}
        return Lattice(weights=weights, **{axis: c for axis, (c, _) in zip(box.axes, drawn)})

    def points(
        self,
        key: PRNGKeyArray,
        number: Array,
        box: Box,
        counts: Counts,
        held: Mapping[str, float],
        dtype: Any,
        state: Any = None,
    ) -> Points:
        """A draw for a pointwise network: as many scattered points as the lattice has.

        By default they are the lattice's own.

        Arguments:
            key: of the run's random numbers.
            number: of the draw.
            box: of the problem.
            counts: points per axis.
            held: by axis, the one value of axes along which nothing is drawn, as on a face.
            dtype: of the coordinates.
            state: the sampler's.
        """
        lattice = self.lattice(key, number, box, counts, dtype, state)
        coordinates = {
            axis: jnp.full(1, held[axis], dtype) if axis in held else lattice[axis]
            for axis in box.axes
        }
        weights = {a: w for a, w in zip(lattice.axes, lattice.weights) if a not in held}
        return flatten(Lattice(weights=weights, **coordinates))


def _whole(argument: str, default: int, least: int = 1) -> Any:
    """A field that is a whole number."""
    return eqx.field(
        static=True, default=default, converter=lambda value: whole(argument, value, least)
    )


class Uniform(AbstractSampler):
    """Independent uniform draws (the paper's): per axis for a lattice, per point otherwise.

    Arguments:
        every: how many steps one draw serves.
    """

    every: int | None = _whole("Uniform: every", 100)

    def axis(self, key, number, bounds, n, dtype):
        return jax.random.uniform(jax.random.fold_in(key, number), (n,), dtype, *bounds), None

    def points(self, key, number, box, counts, held, dtype, state=None):
        total = math.prod(n for axis, n in counts.items() if axis not in held)
        keys = jax.random.split(key, box.dimension)
        coordinates = tuple(
            jnp.full(total, held[a], dtype)
            if a in held
            else self.axis(k, number, box[a], total, dtype)[0]
            for a, k in zip(box.axes, keys)
        )
        return Points(box.axes, coordinates)


class Grid(AbstractSampler):
    """A regular grid, its upper end left out, moved by a random part of its spacing (the paper's
    Navier-Stokes runs).

    Of eight shifts one lies in each eighth of the spacing. Where all of them happen to be large, a
    network finds room between the initial values and the first points to leave them behind.

    Arguments:
        shifts: the number of fixed random shifts, taken in turn; 0 leaves the grid unmoved.
        every: how many steps one shift serves.
    """

    shifts: int = _whole("Grid: shifts", 8, 0)
    every: int | None = _whole("Grid: every", 100)

    def axis(self, key, number, bounds, n, dtype):
        lower, upper = bounds
        shift = 0.0
        if self.shifts:
            turn = number % self.shifts
            part = jax.random.permutation(jax.random.fold_in(key, self.shifts), self.shifts)[turn]
            moved = jax.random.uniform(jax.random.fold_in(key, turn), (), dtype)
            shift = (part + moved) / self.shifts
        return lower + (upper - lower) / n * (jnp.arange(n, dtype=dtype) + shift), None


@functools.lru_cache(maxsize=64)
def _legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    # its banded eigenvalue problem is quick also for thousands of points
    from scipy.special import roots_legendre

    return roots_legendre(n)


def places_by_axis(who: str, given: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Breakpoints by axis, as something that can be compared: {"x": 0} → (("x", (0.0,)),).

    Arguments:
        who: what they are given to, for refusals.
        given: a dict by axis of one place or several, or pairs of an axis and places.
    """
    pairs = isinstance(given, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given
    )
    if not isinstance(given, Mapping) and not pairs:
        raise InputError(
            f"{who}: breaks must be a dict by axis, got {shown(given)}: write breaks={{'x': 0.0}}"
        )
    found = []
    for axis, at in dict(given).items():
        each = at if isinstance(at, Iterable) and not isinstance(at, str) else [at]
        found.append((axis, tuple(sorted(finite(f"{who}: breaks[{axis!r}]", v) for v in each))))
    return tuple(found)


class GaussLegendre(AbstractSampler):
    """Gauss-Legendre quadrature: fixed points whose weighted mean integrates polynomials of degree
    2n - 1 exactly.

    Arguments:
        breaks: places along an axis where something is not smooth, {"x": 0.0} or {"x": [0.0, 0.5]}:
            the rule is then made of pieces between them, which share the axis' points, so that they
            crowd at both sides of a break.
        every: None: one draw serves all steps.
        even: axes along which points are evenly spaced, the best rule for what is periodic; those
            that are periodic by construction are among them anyway.
    """

    breaks: Any = eqx.field(
        static=True, default=(), converter=lambda given: places_by_axis("GaussLegendre", given)
    )
    every: int | None = eqx.field(static=True, default=None)
    even: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)

    def __check_init__(self):
        if both := [axis for axis, _ in self.breaks if axis in self.even]:
            said = f"GaussLegendre: {both[0]} has breaks and even points"
            raise InputError(f"{said}, which have none: leave it out of one of the two")

    def on(self, periodic):
        broken = {axis for axis, _ in self.breaks}
        even = dict.fromkeys([*self.even, *(a for a in periodic if a not in broken)])
        return dataclasses.replace(self, even=even)

    def axis(self, key, number, bounds, n, dtype):
        nodes, weights = _legendre(n)
        lower, upper = bounds
        half = (upper - lower) / 2
        return jnp.asarray(lower + half * (nodes + 1), dtype), jnp.asarray(half * weights, dtype)

    def lattice(self, key, number, box, counts, dtype, state=None):
        plain = super().lattice(key, number, box, counts, dtype)
        coordinates = dict(zip(plain.axes, plain.coordinates))
        weights = dict(zip(plain.axes, plain.weights))
        for axis, at in self.breaks:
            box.check_axis(axis, "GaussLegendre: breaks")
            ends = [box[axis][0], *at, box[axis][1]]
            pieces, n = list(itertools.pairwise(ends)), counts[axis]
            if any(low >= high for low, high in pieces) or n < len(pieces):
                raise InputError(
                    f"GaussLegendre: breaks[{axis!r}] = {list(at)} must lie between {ends[0]:g} and"
                    f" {ends[-1]:g}, each with a point at least"
                )
            drawn = [
                self.axis(key, number, piece, n // len(pieces) + (i < n % len(pieces)), dtype)
                for i, piece in enumerate(pieces)
            ]
            coordinates[axis], weights[axis] = map(jnp.concatenate, zip(*drawn))
        for axis in self.even:
            box.check_axis(axis, "GaussLegendre: even")
            grid = Grid(shifts=0)
            coordinates[axis], weights[axis] = grid.axis(
                key, number, box[axis], counts[axis], dtype
            )
        return Lattice(weights=weights, **coordinates)


def quadrature(box: Box, points: int | Mapping[str, int], dtype: Any = None) -> Lattice:
    """The Gauss-Legendre lattice of a box.

    Arguments:
        box: the box.
        points: one number for all axes, or numbers by axis.
        dtype: of coordinates and weights; None: JAX's default.
    """
    counts, dtype = box.counts(points), dtype or jnp.result_type(float)
    return GaussLegendre().lattice(jax.random.key(0), jnp.array(0), box, counts, dtype)
