"""How a coordinate enters a network, and where the network is zero by construction."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .bases import chebyshev, fourier, piece, polynomial
from .taylor import Taylor, constant, multiply, root

SQUARE_ROOT = "√"  # after the sides of a wall: a field leaves it like the root of the distance


class Axis(eqx.Module):
    """How one coordinate enters a network: raw, scaled to [-1, 1], as Fourier features of the axis' length, or as polynomials."""

    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)
    scaled: bool = eqx.field(static=True)
    frequencies: int = eqx.field(static=True)  # 0: not periodic
    walls: tuple[str, ...] = eqx.field(
        static=True
    )  # per component: the sides on which it is zero, "", "-", "+", "-+", "-+√"; "--": its slope, too
    functions: int = eqx.field(
        static=True, default=0
    )  # Chebyshev polynomials instead of the coordinate; 0: none
    rank: int = eqx.field(
        static=True, default=0
    )  # columns of this axis alone; 0: as many as the network says
    breaks: tuple[float, ...] = eqx.field(
        static=True, default=()
    )  # where the polynomials may have a kink

    @property
    def inputs(self) -> int:
        if self.breaks:
            return 1 + (1 + len(self.breaks)) * (self.functions - 1)
        return self.functions or 1 + 2 * self.frequencies

    @property
    def plain(self) -> bool:
        """Whether the network sees the coordinate itself, whose derivatives are the same everywhere."""
        return not self.frequencies and not self.functions

    def _unit(self, x: Array) -> tuple[Array, float]:
        slope = 2 / (self.upper - self.lower)
        return (x - (self.lower + self.upper) / 2) * slope, slope

    def encode(self, x: Float[Array, " points"], order: int) -> Taylor:
        if self.frequencies:
            return fourier(x, self.upper - self.lower, self.frequencies, order)
        if self.functions and self.breaks:
            one = constant(jnp.ones((len(x), 1), x.dtype), order)
            edges = list(itertools.pairwise((self.lower, *self.breaks, self.upper)))
            pieces = [
                piece(x, *ends, self.functions, order, last=ends == edges[-1]) for ends in edges
            ]
            return jnp.concatenate([one, *pieces], -1)
        if self.functions:
            unit, slope = self._unit(x)
            return chebyshev(unit, self.functions, order) * _powers(slope, order, x.dtype)
        if not self.scaled:
            return polynomial(x, (0.0, 1.0), order)
        return _in_unit(*self._unit(x), (0.0, 1.0), order)

    def envelope(self, x: Float[Array, " points"], order: int) -> Taylor:
        """Per component, a function of this axis that is zero on its walls and of size one between.

        It is built from the differences to the bounds, which are exactly zero there whatever the rounding elsewhere.
        """
        below, above = x - jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype) - x
        length = self.upper - self.lower
        rising = polynomial(below / length, (0.0, 1.0), order) * _powers(1 / length, order, x.dtype)
        falling = polynomial(above / length, (0.0, 1.0), order) * _powers(
            -1 / length, order, x.dtype
        )
        one = constant(jnp.ones((len(x), 1), x.dtype), order)

        def shape(wall: str) -> Taylor:
            a, b = wall.count("-"), wall.count("+")
            if not a + b:
                return one
            product = functools.reduce(multiply, [rising] * a + [falling] * b)
            largest = a**a * b**b / (a + b) ** (a + b)
            product = product if largest == 1 else product / largest
            return root(product) if SQUARE_ROOT in wall else product

        shapes = {wall: shape(wall) for wall in dict.fromkeys(self.walls)}
        return jnp.concatenate([shapes[wall] for wall in self.walls], axis=-1)


def _in_unit(unit: Array, slope: float, coefficients: Sequence[float], order: int) -> Taylor:
    """A polynomial of the scaled coordinate, its derivatives taken along the unscaled one."""
    return polynomial(unit, coefficients, order) * _powers(slope, order, unit.dtype)


def _powers(slope: float, order: int, dtype: Any) -> Array:
    return jnp.asarray(slope ** np.arange(order + 1), dtype)[:, None, None]
