"""Functions of one variable carried together with their derivatives, in one pass.

A jet is an array of shape (..., order + 1, points, features) holding *normalised Taylor coefficients* f⁽ᵏ⁾ / k!
along its third axis from the end. Each operation below takes jets to jets exactly, so one pass through a network
yields every derivative an equation needs; `derivatives` turns the coefficients into derivatives at the end.
All orders of one layer go through a single matrix product.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from .devices import current
from .separable import PRECISION, add_up, product

Jet = Float[Array, "*batch order points features"]

MAX_ORDER = 8
MANY = 96  # points from which on adding them up deserves a kernel of its own
TILE, PART, PROCESSORS = (
    64,
    128,
    132,
)  # of a product on a GPU: what one processor does of it, the least it should add up, how many there are


def rows(jet: Jet, axis: int = -3) -> list[Array]:
    """Its coefficients. They are split off, not cut out one by one: what comes back in a gradient is then put together as they lie, and not
    added up from arrays that are zero elsewhere."""
    return [jnp.squeeze(part, axis) for part in lax.split(jet, (1,) * jet.shape[axis], jet.ndim + axis)]


def _jet(coefficients: Sequence[Array]) -> Jet:
    return jnp.stack(coefficients, axis=-3)


def derivatives(jet: Jet, orders: Sequence[int] | None = None) -> Jet:
    """Taylor coefficients → derivatives; `orders` of the coefficients, if they are not 0, 1, …"""
    factorials = np.array([math.factorial(k) for k in orders or range(jet.shape[-3])], np.float64)
    return jet * jnp.asarray(factorials, jet.dtype)[:, None, None]


def constant(values: Float[Array, "*batch points features"], order: int) -> Jet:
    """The jet of something that does not depend on the variable."""
    return _jet([values] + [jnp.zeros_like(values)] * order)


def polynomial(x: Float[Array, " points"], coefficients: Sequence[float], order: int) -> Jet:
    """c₀ + c₁ x + c₂ x² + …, one feature."""
    out, current = [], np.polynomial.Polynomial(coefficients)
    for k in range(order + 1):
        out.append(_horner(current.coef, x)[:, None] / math.factorial(k))
        current = current.deriv()
    return _jet(out)


def _horner(coefficients: np.ndarray, x: Array) -> Array:
    total = jnp.full_like(x, float(coefficients[-1]))
    for c in coefficients[-2::-1]:
        total = total * x + float(c)
    return total


def fourier(x: Float[Array, " points"], period: float, frequencies: int, order: int) -> Jet:
    """[1, sin ωx … sin Kωx, cos ωx … cos Kωx] with ω = 2π / period: whatever is built on it is periodic, exactly."""
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
    return _jet(out)


def chebyshev(x: Float[Array, " points"], number: int, order: int) -> Jet:
    """T₀ … T_{number-1} of a coordinate in [-1, 1]: cos(n arccos x), which needs no recurrence. Derivatives are combinations of
    the same polynomials, by a matrix of whole numbers."""
    values = jnp.cos(jnp.arccos(jnp.clip(x, -1, 1))[:, None] * jnp.arange(number, dtype=x.dtype))
    by_one = np.zeros((number, number))
    for n in range(1, number):
        by_one[: max(n, 1), n] = np.polynomial.chebyshev.chebder(np.eye(number)[n])[: max(n, 1)]
    out, turned = [values], np.eye(number)
    for k in range(1, order + 1):
        turned = by_one @ turned
        out.append(jnp.matmul(values, jnp.asarray(turned / math.factorial(k), x.dtype), precision=PRECISION))
    return _jet(out)


def piece(x: Float[Array, " points"], low: float, high: float, number: int, order: int, last: bool = False) -> Jet:
    """T₁ … T_{number-1} on one piece of an axis, constant beyond its ends: together with those of other pieces, and a one, all that is
    a polynomial on each and continuous. Its upper end is the next piece's, unless it is the last."""
    slope = 2 / (high - low)
    unit = jnp.clip((x - low) * slope - 1, -1, 1)
    inside = ((x >= low) & ((x <= high) if last else (x < high)))[:, None]
    values, *others = rows(chebyshev(unit, number, order)[..., 1:])
    return _jet([values, *(jnp.where(inside, c * slope ** (k + 1), 0.0) for k, c in enumerate(others))])


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def dense(jet: Jet, weight: Float[Array, "*batch inputs outputs"], bias: Float[Array, "*batch outputs"], axis: int = -3) -> Jet:
    """x ↦ x W + b: linear, so all orders, which lie along `axis`, go through one product; the bias touches the value alone."""
    out = _linear(jet, weight)
    value, others = lax.split(out, (1, out.shape[axis] - 1), out.ndim + axis)
    return jnp.concatenate([value + bias[..., None, None, :], others], axis)


def _dense_tangents(axis: int, primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Jet, Jet]:
    """Written so that the gradient, which is its transpose, takes few and well filled kernels."""
    (jet, weight, bias), (moved, turned, shifted) = primals, (None if isinstance(t, SymbolicZero) else t for t in tangents)
    out = dense(jet, weight, bias, axis)
    changes = [] if moved is None else [_linear(moved, weight)]
    if turned is not None:
        changes.append(_linear_in_parts(jet, turned))
    if shifted is not None:
        one, beyond = list(out.shape), [(0, 0, 0)] * out.ndim
        one[axis], beyond[axis] = 1, (0, out.shape[axis] - 1, 0)
        value = jnp.broadcast_to(shifted[..., None, None, :], one)
        changes.append(lax.pad(value, jnp.zeros((), value.dtype), beyond))
    if not changes:
        return out, jnp.zeros_like(out)
    # what comes back is complete before it is added up to the gradient of a bias: XLA would do both in one kernel, in which a thread
    # adds up all the points of a weight and computes each of them on the way
    many = jet.shape[-2] * jet.shape[-3] >= MANY * jet.shape[axis]
    return out, lax.optimization_barrier(add_up(changes)) if many else add_up(changes)


dense.defjvp(_dense_tangents, symbolic_zeros=True)


def _linear(jet: Jet, weight: Array) -> Jet:
    *batch, order, points, inputs = jet.shape
    if inputs == 1:  # a plain coordinate: an outer product, cheaper than a matrix product of inner dimension one
        return jet * weight[..., None, :, :]
    return product(jet.reshape(*batch, order * points, inputs), weight).reshape(*batch, order, points, weight.shape[-1])


def _linear_in_parts(jet: Jet, weight: Array) -> Jet:
    """The same; but its transpose, which adds up a weight's gradient over all orders and points, does so in parts, at once."""
    *batch, order, points, inputs = jet.shape
    outputs = weight.shape[-1]
    parts = _parts(order * points, math.prod(batch) * math.ceil(inputs / TILE) * math.ceil(outputs / TILE))
    if inputs == 1 or parts == 1 or weight.ndim != len(batch) + 2:
        return _linear(jet, weight)
    # the barrier keeps XLA from taking the parts together again
    each = lax.optimization_barrier(jnp.broadcast_to(weight[..., None, :, :], (*batch, parts, inputs, outputs)))
    return product(jet.reshape(*batch, parts, -1, inputs), each).reshape(*batch, order, points, outputs)


def _parts(rows: int, tiles: int) -> int:
    """Into how many parts to cut a sum of `rows`, for each of so many tiles of a matrix, that a GPU has something to do everywhere."""
    if current().platform != "gpu" or rows < 3 * PART:
        return 1
    return max(n for n in range(1, rows // PART + 1) if rows % n == 0 and (n == 1 or n * tiles <= 2 * PROCESSORS))


def multiply(a: Jet, b: Jet) -> Jet:
    """Product of functions. Features broadcast."""
    return _jet(cauchy(rows(a), rows(b)))


def cauchy(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """The coefficients of a product."""
    return [add_up(a[j] * b[k - j] for j in range(k + 1)) for k in range(len(a))]


def root(jet: Jet) -> Jet:
    """y = √s from y² = s. Where s is zero, y is too, and its derivatives are infinite."""
    s = rows(jet)
    y = [jnp.sqrt(s[0])]
    for k in range(1, len(s)):
        y.append((s[k] - add_up(y[j] * y[k - j] for j in range(1, k))) / (2 * y[0]) if k > 1 else s[1] / (2 * y[0]))
    return _jet(y)


class Applied(NamedTuple):
    """A function applied to a jet's value: what it makes of it, its slope there, and what it makes of the further coefficients of a jet
    that begins with that value. One of these may be None, which stands for zero."""

    value: Array
    slope: Array
    along: Callable[[Sequence[Array | None]], list[Array]]


def tanh(value: Array) -> Applied:
    """y = tanh s from its own differential equation y′ = (1 - y²) s′, coefficient by coefficient."""
    here = jnp.tanh(value)
    first = 1 - here * here

    def along(s: Sequence[Array | None]) -> list[Array]:
        y, slope = [here], [first]  # the latter: coefficients of 1 - y²
        for k in range(1, len(s) + 1):
            y.append(add_up((j / k) * c * slope[k - j] for j, c in enumerate(s[:k], 1) if c is not None))
            if k < len(s):
                slope.append(-add_up(y[j] * y[k - j] for j in range(k + 1)))
        return y[1:]

    return Applied(here, first, along)


def sin(value: Array) -> Applied:
    """sin s and cos s together: (sin s)′ = s′ cos s, (cos s)′ = -s′ sin s."""
    sine, cosine = jnp.sin(value), jnp.cos(value)

    def along(s: Sequence[Array | None]) -> list[Array]:
        sines, cosines = [sine], [cosine]
        for k in range(1, len(s) + 1):
            some = [((j / k) * c, k - j) for j, c in enumerate(s[:k], 1) if c is not None]
            sines.append(add_up(c * cosines[i] for c, i in some))
            cosines.append(-add_up(c * sines[i] for c, i in some))
        return sines[1:]

    return Applied(sine, cosine, along)


ACTIVATIONS = {"tanh": tanh, "sin": sin}
