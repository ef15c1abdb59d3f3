"""Functions along one axis: monomials, waves, Chebyshev polynomials, in pieces too."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jaxtyping import Array, Float
from numpy.polynomial.chebyshev import chebder

from ..core import PRECISION
from .taylor import Taylor, coefficients, derivatives, stack_orders

Positions = Float[Array, " points"]
Series = Float[np.ndarray, "functions columns"]


def polynomial(x: Positions, powers: Sequence[float], order: int) -> Taylor:
    """c₀ + c₁ x + c₂ x² + …, one feature."""
    out, current = [], np.polynomial.Polynomial(powers)
    for k in range(order + 1):
        out.append(_horner(current.coef, x)[:, None] / math.factorial(k))
        current = current.deriv()
    return stack_orders(out)


def _horner(powers: np.ndarray, x: Array) -> Array:
    total = jnp.full_like(x, float(powers[-1]))
    for c in powers[-2::-1]:
        total = total * x + float(c)
    return total


def fourier(x: Positions, period: float, frequencies: int, order: int) -> Taylor:
    """[1, sin ωx … sin Kωx, cos ωx … cos Kωx] with ω = 2π / period: whatever is built on it is
    periodic, exactly."""
    omega = 2 * math.pi / period * np.arange(1, frequencies + 1)
    angle = x[:, None] * jnp.asarray(omega, x.dtype)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    out = []
    for k in range(order + 1):
        # each derivative turns sin into cos into -sin …, and brings down a factor ω
        turned = [(sin, cos), (cos, -sin), (-sin, -cos), (-cos, sin)][k % 4]
        scale = jnp.asarray(omega**k / math.factorial(k), x.dtype)
        one = jnp.full((len(x), 1), 1.0 if k == 0 else 0.0, x.dtype)
        out.append(jnp.concatenate([one, turned[0] * scale, turned[1] * scale], axis=1))
    return stack_orders(out)


def chebyshev(x: Positions, number: int, order: int) -> Taylor:
    """T₀ … T_{number-1} of a coordinate in [-1, 1]. Derivatives are combinations of the same
    polynomials, by a matrix of whole numbers."""
    values = _chebyshev(x, number)
    out, turned, by_one = [values], np.eye(number), _differentiated(number)
    for k in range(1, order + 1):
        turned = by_one @ turned
        matrix = jnp.asarray(turned / math.factorial(k), x.dtype)
        out.append(jnp.matmul(values, matrix, precision=PRECISION))
    return stack_orders(out)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _chebyshev(x: Positions, number: int) -> Float[Array, "points {number}"]:
    """cos(n arccos x), which needs no recurrence; but JAX would differentiate arccos, whose slope
    is infinite at both ends of the axis."""
    return jnp.cos(jnp.arccos(jnp.clip(x, -1, 1))[:, None] * jnp.arange(number, dtype=x.dtype))


@_chebyshev.defjvp
def _chebyshev_tangent(number: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    values = _chebyshev(*primals, number)
    slopes = jnp.matmul(
        values, jnp.asarray(_differentiated(number), values.dtype), precision=PRECISION
    )
    return values, slopes * tangents[0][:, None]


@functools.cache
def _differentiated(number: int) -> np.ndarray:
    """The derivatives of T₀ … T_{number-1} in the same polynomials, column by column."""
    found = np.zeros((number, number))
    for n in range(1, number):
        found[:n, n] = chebder(np.eye(number)[n])[:n]
    return found


def piece(
    x: Positions, low: float, high: float, number: int, order: int, last: bool = False
) -> Taylor:
    """T₁ … T_{number-1} on one piece of an axis, constant beyond its ends: together with those of
    other pieces, and a one, all that is a polynomial on each and continuous. Its upper end is the
    next piece's, unless it is the last."""
    slope = 2 / (high - low)
    unit = (x - low) * slope - 1
    within = (x >= low) & ((x <= high) if last else (x < high))
    unit = jnp.where(within, unit, lax.stop_gradient(jnp.clip(unit, -1, 1)))
    inside = within[:, None]
    values, *others = coefficients(chebyshev(unit, number, order)[..., 1:])
    scaled = (jnp.where(inside, c * slope**k, 0.0) for k, c in enumerate(others, 1))
    return stack_orders([values, *scaled])


def function_degrees(number: int, periodic: bool) -> np.ndarray:
    """How fast each function of an axis is: the degree of a polynomial, the frequency of a wave.

    Arguments:
        number: of functions.
        periodic: whether they are 1, sin ωx … sin Kωx, cos ωx … cos Kωx.

    Returns:
        The degrees, in the order in which the functions stand.
    """
    waves = np.arange(1, 1 + number // 2)
    return np.r_[0, waves, waves] if periodic else np.arange(number)


def slow_to_fast(number: int, periodic: bool) -> np.ndarray:
    """The order of the functions of an axis from slow to fast: a sine, then its cosine."""
    return np.argsort(function_degrees(number, periodic), kind="stable")


@dataclass(frozen=True)
class Line:
    """An axis, and the functions of series along it: T₀, T₁ … of its interval; or 1, sin ωx …
    sin Kωx, cos ωx … cos Kωx.

    Arguments:
        lower, upper: where it begins and ends.
        periodic: whether its functions are waves.
    """

    lower: float
    upper: float
    periodic: bool

    @property
    def length(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    def nodes(self, number: int) -> np.ndarray:
        """Where a function is sampled to find its series."""
        if self.periodic:
            return self.lower + self.length * np.arange(number) / number
        angles = np.pi * (np.arange(number) + 0.5) / number
        return self.lower + self.length * (1 + np.cos(angles)) / 2

    def fitted(self, values: np.ndarray) -> np.ndarray:
        """The series through values at an odd number of nodes (along the first dimension)."""
        number = len(values)
        if not self.periodic:
            found = np.asarray(scipy.fft.dct(values, type=2, axis=0)) / number
            found[0] /= 2
            return found
        waves = np.fft.rfft(values, axis=0) / number
        # sines and cosines count from x = 0, the nodes from the lower end
        turn = np.exp(-2j * np.pi * np.arange(len(waves)) * self.lower / self.length)
        waves = waves * turn.reshape(-1, *(1,) * (values.ndim - 1))
        return np.concatenate([waves[:1].real, -2 * waves[1:].imag, 2 * waves[1:].real])

    def degrees(self, number: int) -> np.ndarray:
        """How fast each function of a series of this length is: its degree, or its frequency."""
        return function_degrees(number, self.periodic)

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
        """The derivative of a series of polynomials, as one of the same length."""
        found = chebder(series, order, scl=2 / self.length) if order < len(series) else series[:0]
        return np.pad(found, ((0, len(series) - len(found)), (0, 0)))

    def factors(
        self, x: Positions, series: Series, order: int
    ) -> Float[Array, "orders points columns"]:
        """Series and their derivatives. Those of polynomials are differentiated here, in float64,
        and not on the points: in float32 a high polynomial's derivative would drown what is to be
        left of it."""
        if self.periodic:
            waves = derivatives(fourier(x, self.length, len(series) // 2, order))
            return jnp.matmul(waves, jnp.asarray(series, x.dtype), precision=PRECISION)
        unit = (x - (self.lower + self.upper) / 2) * (2 / self.length)
        values = chebyshev(unit, len(series), 0)[0]
        each = np.stack([self.derivative(series, k) for k in range(order + 1)])
        return jnp.matmul(values, jnp.asarray(each, x.dtype), precision=PRECISION)
