"""Sums of products of one-dimensional functions, as a type with an algebra.

    u(x₁ … x_d) = Σ_j Π_i f_ij(x_i)

A `Separable` holds the factors f_ij sampled along each axis together with their derivatives
("jets"). Sums, products, derivatives, integrals and inner products of such functions act on the
factors; the lattice of N^d values is made only when it is asked for, and then by one matrix product
wherever the terms allow it.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import (
    PRECISION,
    DerivativeError,
    InputError,
    add_up,
    in_callers_precision,
    listed,
    precision_for,
    whole,
)
from ..domain import Lattice
from .merging import Key, Orders, Varying, khatri_rao, merge, merge_at_points


def in_own_precision(method: Callable[..., Any]) -> Callable[..., Any]:
    """Float64 factors are worked on in float64, also where JAX was not told to allow it. Inside a
    transformation of JAX the caller's precision counts."""

    @functools.wraps(method)
    def wrapped(self: Separable, *arguments: Any, **options: Any) -> Any:
        if self.jets[0].dtype != jnp.float64:
            return method(self, *arguments, **options)
        with precision_for(self, arguments) as traced:
            if traced:
                self, arguments = in_callers_precision((self, arguments))
            return method(self, *arguments, **options)

    return wrapped


class Separable(eqx.Module):
    """A separable function sampled along each axis, u = Σ_j Π_i f_ij(x_i).

    Arguments:
        axes: their names.
        jets: per axis the factors and their derivatives, an array (derivatives, points, rank).
        weights: per axis quadrature weights, or None; integrals, inner products and norms need
            them.
    """

    __array_ufunc__ = None  # an array times a Separable is an error, not an array of Separables

    axes: tuple[str, ...] = eqx.field(static=True)
    jets: tuple[Float[Array, "order points rank"], ...]
    weights: tuple[Float[Array, " points"] | None, ...]

    def __init__(
        self,
        axes: Iterable[str],
        jets: Iterable[Array],
        weights: Iterable[Array | None] | None = None,
    ):
        self.axes, self.jets = tuple(axes), tuple(jets)
        self.weights = tuple(weights) if weights is not None else (None,) * len(self.axes)
        if not len(self.axes) == len(self.jets) == len(self.weights) > 0:
            raise InputError(
                f"Separable: {len(self.axes)} axes, {len(self.jets)} factors and"
                f" {len(self.weights)} weights: give one of each per axis"
            )
        for axis, jet in zip(self.axes, self.jets):
            if jnp.ndim(jet) != 3 or jet.shape[2] != self.jets[0].shape[2]:
                raise InputError(
                    f"Separable: the factors of {axis} have shape {jnp.shape(jet)}: write"
                    " (derivatives, points, rank), the same rank on every axis"
                )

    @classmethod
    def of(cls, lattice: Lattice, **factors: Array) -> Separable:
        """A function without derivatives.

        Arguments:
            lattice: the points along each axis, and their weights.
            factors: by axis, the values of the factors (points, rank).
        """
        return cls(
            lattice.axes,
            (jnp.asarray(factors[axis])[None] for axis in lattice.axes),
            lattice.weights,
        )

    @property
    def rank(self) -> int:
        """The number of products in the sum."""
        return self.jets[0].shape[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points along each axis."""
        return tuple(jet.shape[1] for jet in self.jets)

    @property
    def orders(self) -> Orders:
        """The highest derivative carried along each axis."""
        return tuple(jet.shape[0] - 1 for jet in self.jets)

    def _like(self, jets: Iterable[Array]) -> Separable:
        return Separable(self.axes, jets, self.weights)

    def _check_same_points(self, other: Separable, what: str) -> None:
        if self.axes != other.axes or self.shape != other.shape:
            raise InputError(
                f"{what}: ({listed(self.axes)}) on {self.shape} points and ({listed(other.axes)})"
                f" on {other.shape}: sample both on one lattice"
            )

    # --- the algebra -----------------------------------------------------------------------------

    @in_own_precision
    def __add__(self, other: Separable) -> Separable:
        if not isinstance(other, Separable):
            return NotImplemented
        self._check_same_points(other, "sum")
        return self._like(
            jnp.concatenate([a[: len(b)], b[: len(a)]], -1) for a, b in zip(self.jets, other.jets)
        )

    def __neg__(self) -> Separable:
        return self * -1.0

    def __sub__(self, other: Separable) -> Separable:
        return self + (-other) if isinstance(other, Separable) else NotImplemented

    @in_own_precision
    def __mul__(self, other: Any) -> Separable:
        if isinstance(other, Separable):
            self._check_same_points(other, "product")
            return self._like(leibniz(a, b) for a, b in zip(self.jets, other.jets))
        if (
            not isinstance(other, (int, float, np.ndarray, np.generic, jax.Array))
            or np.ndim(other) != 0
        ):
            return NotImplemented
        return self._like((self.jets[0] * jnp.asarray(other, self.jets[0].dtype), *self.jets[1:]))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Separable:
        return self * (1.0 / other)

    def derivative(self, **orders: int) -> Separable:
        """A derivative: ∂²∂u/∂x²∂t is `u.derivative(x=2, t=1)`. It differentiates the factors,
        nothing else.

        Arguments:
            orders: by axis.
        """
        for axis in orders:
            if axis not in self.axes:
                raise DerivativeError(
                    f"derivative: there is no axis {axis!r}; the axes are {listed(self.axes)}"
                )
        orders = {axis: whole(f"derivative: {axis}", order, 0) for axis, order in orders.items()}
        for axis, order in orders.items():
            if order > (held := self.orders[self.axes.index(axis)]):
                raise DerivativeError(
                    f"derivative: order {order} along {axis}, but the factors carry {held}: sample"
                    " them with more derivatives"
                )
        return self._like(jet[orders.get(axis, 0) :] for axis, jet in zip(self.axes, self.jets))

    @in_own_precision
    def integral(self, *axes: str) -> Separable | Array:
        """The integral over some axes, or over all.

        Arguments:
            axes: their names; none for all of them.

        Returns:
            A `Separable` on the other axes; a number where there are none.
        """
        for axis in axes:
            if axis not in self.axes:
                raise InputError(
                    f"integral: there is no axis {axis!r}; the axes are {listed(self.axes)}"
                )
        gone = axes or self.axes
        scale = jnp.ones(self.rank, self.jets[0].dtype)
        for axis, jet, weights in zip(self.axes, self.jets, self._weights(gone)):
            if axis in gone:
                scale = scale * jnp.matmul(weights, jet[0], precision=PRECISION)
        left = [i for i, axis in enumerate(self.axes) if axis not in gone]
        if not left:
            return jnp.sum(scale)
        jets = [self.jets[i] for i in left]
        return Separable(
            [self.axes[i] for i in left],
            [jets[0] * scale, *jets[1:]],
            [self.weights[i] for i in left],
        )

    def _weights(self, needed: Iterable[str]) -> list[Array]:
        for axis, weights in zip(self.axes, self.weights):
            if weights is None and axis in needed:
                raise InputError(
                    f"integral: no quadrature weights along {axis}: sample on"
                    " separax.quadrature(box, points)"
                )
        return [
            w if w is not None else jnp.ones(n, self.jets[0].dtype)
            for w, n in zip(self.weights, self.shape)
        ]

    @in_own_precision
    def inner(self, other: Separable) -> Array:
        """∫ u v over the box, from one Gram matrix per axis: O(N rank²) work, no lattice.

        Arguments:
            other: v, sampled on the same lattice.
        """
        self._check_same_points(other, "inner product")
        gram = jnp.ones((self.rank, other.rank), self.jets[0].dtype)
        for a, b, w in zip(self.jets, other.jets, self._weights(self.axes)):
            gram = gram * jnp.matmul((a[0] * w[:, None]).T, b[0], precision=PRECISION)
        return jnp.sum(gram)

    @in_own_precision
    def norm(self) -> Array:
        """√∫ u² without a lattice and without squaring the rounding error.

        √inner(u, u) loses everything below √ε of the size of the single terms, which in float32 is
        3e-4: the norm of a small difference of large terms comes out as 0. Here the factors are
        orthogonalised axis by axis (a QR of a tensor train), so that the error stays near ε of the
        size of the terms.
        """
        weights = self._weights(self.axes)
        carried = jnp.ones(
            (1, self.rank), self.jets[0].dtype
        )  # rows: an orthonormal basis of the axes so far
        for jet, w in zip(self.jets, weights):
            factor = jet[0] * jnp.sqrt(w)[:, None]
            if factor.shape[0] > self.rank:
                factor = jnp.linalg.qr(factor, mode="r")
            carried = khatri_rao([carried, factor])
            if carried.shape[0] > self.rank:
                carried = jnp.linalg.qr(carried, mode="r")
        return jnp.linalg.norm(jnp.sum(carried, axis=1))

    # --- values ----------------------------------------------------------------------------------

    @in_own_precision
    def values(self) -> Array:
        """On the lattice: an array with one dimension per axis."""
        return merge([(self, {(0,) * len(self.axes): 1.0})])

    @in_own_precision
    def at_points(self) -> Array:
        """At scattered points: every axis sampled at the same number of points, taken together one
        by one."""
        if len(set(self.shape)) > 1:
            raise InputError(
                f"at_points: the axes are sampled at {self.shape} points: give every axis one"
                " coordinate per point"
            )
        return merge_at_points([(self, {(0,) * len(self.axes): 1.0})])


def leibniz(a: Array, b: Array) -> Array:
    """All products of two functions, with their derivatives: (fg)⁽ᵏ⁾ = Σ_j binom(k, j) f⁽ʲ⁾ g⁽ᵏ⁻ʲ⁾.

    Arguments:
        a: columns and their derivatives (orders, points, columns).
        b: others at the same points.

    Returns:
        The products of every column of `a` with every column of `b`.
    """
    order = min(len(a), len(b))
    outer = [
        [(a[i][:, :, None] * b[j][:, None, :]).reshape(a.shape[1], -1) for j in range(order - i)]
        for i in range(order)
    ]
    return jnp.stack(
        [add_up(math.comb(k, j) * outer[j][k - j] for j in range(k + 1)) for k in range(order)]
    )


# --- where values come from ----------------------------------------------------------------------


class AbstractValues(ABC):
    """The values of linear combinations of derivatives, at the points of a place.

    A separable network merges them from factors, a pointwise network adds them up, a table looks
    them up, and a tracer only writes down what it was asked for.

    Attributes:
        axes: the names of the coordinates.
        shape: of the arrays of values, one number per point.
        dtype: of the numbers.
        separable: the fields, where they are sums of products; else nothing.
    """

    separable: Sequence[Separable] = ()
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any

    @abstractmethod
    def values(self, terms: Mapping[Key, Any]) -> Array:
        """Σ c ∂ᵃu, the array of values.

        Arguments:
            terms: coefficients c by derivative (component, orders).
        """

    def factors(self, terms: Mapping[Key, Any], varying: Varying = ()) -> list[Array] | None:
        """Per axis factors (points, columns) whose products add up to Σ c ∂ᵃu + Σ array · Σ c ∂ᵃu;
        None where the fields are no sums of products.

        Arguments:
            terms: coefficients c by derivative.
            varying: pairs of an array, 1 long along all axes but one, and the terms that it
                multiplies.
        """
        return None

    def accepts_coefficient(self, shape: tuple[int, ...]) -> bool:
        """Whether the product of an array of this shape with derivatives is better left to
        `weighed` than made from values."""
        return False

    def weighed(self, terms: Mapping[Key, Any], varying: Varying) -> Array:
        """Σ c ∂ᵃu + Σ array · Σ c ∂ᵃu.

        Arguments:
            terms: coefficients by derivative.
            varying: pairs of an array and of the terms that it multiplies.
        """
        plain = [self.values(terms)] if terms else []
        return add_up([*plain, *(array * self.values(some) for array, some in varying)])

    def note_plain_values(self) -> None:  # noqa: B027
        """Called when plain values of a field are handed out: from there on nobody can tell whether
        an array depends on the unknowns. Only a tracer wants to know."""
