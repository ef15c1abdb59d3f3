"""Encodings: how a coordinate enters a network; and where a network is zero by construction."""

from __future__ import annotations

import abc
import functools
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .bases import Positions, chebyshev, fourier, function_degrees, piece, polynomial
from .taylor import DirectionalTaylor, Taylor, constant, derived, multiply, root

SQUARE_ROOT = "√"  # after the sides of zero faces: a field leaves them like √distance


class AbstractEncoding(eqx.Module):
    """A coordinate as the features that a network sees of it.

    A subclass has one method, `__call__`; its settings are fields that can be hashed. Features of a
    periodic axis must be periodic.
    """

    @abc.abstractmethod
    def __call__(
        self, x: Float[Array, ""], lower: float, upper: float
    ) -> Float[Array, " features"]:
        """The features at one coordinate.

        Arguments:
            x: the coordinate.
            lower, upper: where the axis begins and ends.
        """

    @property
    def size(self) -> int:
        """The number of features."""
        one = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.eval_shape(lambda x: self(x, 0.0, 1.0), one).shape[0]

    @property
    def degrees(self) -> np.ndarray:
        """How fast each feature is: a solve begins with the slow ones."""
        return np.arange(self.size)

    @property
    def is_plain(self) -> bool:
        """Whether it is a + b x: its first derivative is the same everywhere, others are zero."""
        return False

    def taylor(self, x: Positions, lower: float, upper: float, order: int) -> Taylor:
        """The features with their derivatives at many coordinates, by default derived.

        Arguments:
            x: the coordinates.
            lower, upper: where the axis begins and ends.
            order: of the highest derivative.
        """
        one = constant(jnp.ones((len(x), 1), x.dtype), order - 1) if order else x[:0]
        line = jnp.concatenate([x[None, :, None], one.reshape(order, len(x), 1)])

        def features(x: Array) -> Array:
            return self(x[0], lower, upper).astype(x.dtype)

        return derived(features, DirectionalTaylor.of(line)).array


class AbstractBasis(AbstractEncoding):
    """An encoding that is known by its Taylor coefficients."""

    def __call__(
        self, x: Float[Array, ""], lower: float, upper: float
    ) -> Float[Array, " features"]:
        return self.taylor(x[None], lower, upper, 0)[0, 0]

    @abc.abstractmethod
    def taylor(self, x: Positions, lower: float, upper: float, order: int) -> Taylor: ...


class Coordinate(AbstractBasis):
    """The coordinate itself, scaled to [-1, 1] or raw."""

    scaled: bool = True

    @property
    def size(self) -> int:
        return 1

    @property
    def is_plain(self) -> bool:
        return True

    def taylor(self, x: Positions, lower: float, upper: float, order: int) -> Taylor:
        unit, slope = _unit(x, lower, upper) if self.scaled else (x, 1.0)
        found = polynomial(unit, (0.0, 1.0), order)
        return found * _powers(slope, order, x.dtype) if self.scaled else found


class Fourier(AbstractBasis):
    """Waves of the axis' length, and a one."""

    frequencies: int

    @property
    def size(self) -> int:
        return 1 + 2 * self.frequencies

    @property
    def degrees(self) -> np.ndarray:
        return function_degrees(self.size, periodic=True)

    def taylor(self, x: Positions, lower: float, upper: float, order: int) -> Taylor:
        return fourier(x, upper - lower, self.frequencies, order)


class Chebyshev(AbstractBasis):
    """Chebyshev polynomials of the axis; or as many on each piece of it, joined continuously.

    Arguments:
        number: of polynomials.
        breaks: where pieces meet.
    """

    number: int
    breaks: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        return 1 + (1 + len(self.breaks)) * (self.number - 1)

    def taylor(self, x: Positions, lower: float, upper: float, order: int) -> Taylor:
        if not self.breaks:
            unit, slope = _unit(x, lower, upper)
            return chebyshev(unit, self.number, order) * _powers(slope, order, x.dtype)
        one = constant(jnp.ones((len(x), 1), x.dtype), order)
        edges = list(itertools.pairwise((lower, *self.breaks, upper)))
        made = [piece(x, *ends, self.number, order, last=ends == edges[-1]) for ends in edges]
        return jnp.concatenate([one, *made], -1)


def _unit(x: Array, lower: float, upper: float) -> tuple[Array, float]:
    """A coordinate scaled to [-1, 1], and its slope."""
    slope = 2 / (upper - lower)
    return (x - (lower + upper) / 2) * slope, slope


def _powers(slope: float, order: int, dtype: Any) -> Array:
    return jnp.asarray(slope ** np.arange(order + 1), dtype)[:, None, None]


class Axis(eqx.Module):
    """An axis as a network sees it.

    Arguments:
        lower, upper: where it begins and ends.
        encoding: of its coordinate.
        zero_faces: per component the faces on which it is zero, "", "-", "+", "-+" or "-+√"; where
            a side stands twice, "--", its slope is zero there, too.
    """

    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)
    encoding: AbstractEncoding = eqx.field(static=True)
    zero_faces: tuple[str, ...] = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        """The number of features of its coordinate."""
        return self.encoding.size

    def encode(self, x: Positions, order: int) -> Taylor:
        """The features of coordinates, with derivatives."""
        return self.encoding.taylor(x, self.lower, self.upper, order)

    def envelope(self, x: Positions, order: int) -> Taylor:
        """Per component, a function of this axis that is zero on its zero faces and of size one
        between.

        It is built from the differences to the bounds, which are exactly zero there whatever the
        rounding elsewhere.
        """
        below, above = x - jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype) - x
        length, linear = self.upper - self.lower, (0.0, 1.0)
        rising = polynomial(below / length, linear, order) * _powers(1 / length, order, x.dtype)
        falling = polynomial(above / length, linear, order) * _powers(-1 / length, order, x.dtype)
        one = constant(jnp.ones((len(x), 1), x.dtype), order)

        def shape(faces: str) -> Taylor:
            a, b = faces.count("-"), faces.count("+")
            if not a + b:
                return one
            product = functools.reduce(multiply, [rising] * a + [falling] * b)
            largest = a**a * b**b / (a + b) ** (a + b)
            product = product if largest == 1 else product / largest
            return root(product) if SQUARE_ROOT in faces else product

        shapes = {faces: shape(faces) for faces in dict.fromkeys(self.zero_faces)}
        return jnp.concatenate([shapes[faces] for faces in self.zero_faces], axis=-1)
