"""The known function that a network is added to: it takes the values that are built in, where the network itself is zero.

    u = L + W N,   W zero on the faces,   L = Σ_j Π_i g_ij(x_i)

Every g is a series along its axis: of Chebyshev polynomials, or of waves along a periodic one. So L is a sum of products like the
network, has derivatives of any order, and is kept with a run as a few numbers, without the functions it was made from.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial.chebyshev import chebder
from scipy.fft import dct

from . import jets
from .domain import Box
from .separable import PRECISION

Coordinates = tuple[Float[Array, " points"], ...]
Series = Float[np.ndarray, "functions columns"]


@dataclass(frozen=True)
class Line:
    """An axis, and the functions of series along it: T₀, T₁ … of its interval; or 1, sin ωx … sin Kωx, cos ωx … cos Kωx."""

    lower: float
    upper: float
    periodic: bool

    @property
    def length(self) -> float:
        return self.upper - self.lower

    def nodes(self, number: int) -> np.ndarray:
        """Where a function is sampled to find its series."""
        if self.periodic:
            return self.lower + self.length * np.arange(number) / number
        return self.lower + self.length * (1 + np.cos(np.pi * (np.arange(number) + 0.5) / number)) / 2

    def fitted(self, values: np.ndarray) -> np.ndarray:
        """The series through values at an odd number of nodes (along the first dimension)."""
        number = len(values)
        if not self.periodic:
            found = np.asarray(dct(values, type=2, axis=0)) / number
            found[0] /= 2
            return found
        waves = np.fft.rfft(values, axis=0) / number
        # sines and cosines count from x = 0, the nodes from the lower end
        turn = np.exp(-2j * np.pi * np.arange(len(waves)) * self.lower / self.length)
        waves = waves * turn.reshape(-1, *(1,) * (values.ndim - 1))
        return np.concatenate([waves[:1].real, -2 * waves[1:].imag, 2 * waves[1:].real])

    def degrees(self, number: int) -> np.ndarray:
        """How fast each function of a series of this length is: its degree, or its frequency."""
        waves = np.arange(1, 1 + number // 2)
        return np.r_[0, waves, waves] if self.periodic else np.arange(number)

    def cut(self, series: Series, degree: int) -> Series:
        """A series without what is faster."""
        return series[self.degrees(len(series)) <= degree]

    def values(self, x: np.ndarray, number: int) -> np.ndarray:
        """The functions (points, functions)."""
        if not self.periodic:
            unit = np.clip(2 * (x - self.lower) / self.length - 1, -1, 1)
            return np.cos(np.arange(number) * np.arccos(unit)[:, None])
        angle = 2 * np.pi / self.length * np.arange(1, 1 + number // 2) * x[:, None]
        return np.concatenate([np.ones((len(x), 1)), np.sin(angle), np.cos(angle)], 1)

    def derivative(self, series: Series, order: int) -> Series:
        """Of a series of polynomials, as one of the same length."""
        found = chebder(series, order, scl=2 / self.length) if order < len(series) else series[:0]
        return np.pad(found, ((0, len(series) - len(found)), (0, 0)))

    def jets(self, x: Float[Array, " points"], series: Series, order: int) -> Float[Array, "orders points columns"]:
        """Series and their derivatives. Those of polynomials are differentiated here, in float64, and not on the points: in
        float32 a high polynomial's derivative would drown what is to be left of it."""
        if self.periodic:
            waves = jets.derivatives(jets.fourier(x, self.length, len(series) // 2, order))
            return jnp.matmul(waves, jnp.asarray(series, x.dtype), precision=PRECISION)
        unit = (x - (self.lower + self.upper) / 2) * (2 / self.length)
        values = jets.chebyshev(unit, len(series), 0)[0]
        each = np.stack([self.derivative(series, k) for k in range(order + 1)])
        return jnp.matmul(values, jnp.asarray(each, x.dtype), precision=PRECISION)


class Lift:
    """A sum of products of series per component: `series[i]`, of axis i, is (components, functions, columns).

    Nothing of it is trained. It is compared by its numbers, so that it can be a static part of a network: a constant of what is
    compiled.
    """

    def __init__(self, box: Box, periodic: Iterable[str], series: Sequence[np.ndarray]):
        periodic = set(periodic)
        self.lines = tuple(Line(*box[axis], axis in periodic) for axis in box.axes)
        self.series = tuple(np.asarray(each, np.float64) for each in series)
        self._key = self.lines, tuple((each.shape, each.tobytes()) for each in self.series)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lift) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Lift(rank={self.rank})"

    @property
    def rank(self) -> int:
        return self.series[0].shape[2]

    def varies(self, axis: int) -> bool:
        return self.series[axis].shape[1] > 1

    def jets(self, coordinates: Coordinates, order: int) -> tuple[Float[Array, "components orders points columns"], ...]:
        """Per axis the factors with their derivatives, as those of a network."""
        found = []
        for line, series, x in zip(self.lines, self.series, coordinates):
            components, functions, columns = series.shape
            flat = line.jets(x, np.moveaxis(series, 0, 1).reshape(functions, -1), order)
            found.append(jnp.moveaxis(flat.reshape(order + 1, len(x), components, columns), 2, 0))
        return tuple(found)

    def at_points(self, points: Coordinates, orders: tuple[int, ...]) -> Float[Array, "points components"]:
        """A derivative at scattered points."""
        factors = [jet[:, order] for jet, order in zip(self.jets(points, max(orders)), orders)]
        return jnp.sum(functools.reduce(operator.mul, factors), -1).T

    def on_lattice(self, coordinates: Coordinates) -> Float[Array, "components ..."]:
        """The values on a lattice."""
        factors = [jet[:, 0] for jet in self.jets(coordinates, 0)]
        made = factors[0]
        for factor in factors[1:]:
            made = (made[:, :, None] * factor[:, None]).reshape(len(made), -1, self.rank)
        return jnp.sum(made, -1).reshape(len(made), *(len(c) for c in coordinates))
