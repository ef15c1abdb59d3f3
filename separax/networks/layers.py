"""What Taylor coefficients go through: dense layers, x ↦ x W + b, all orders in one matrix product,
and activations."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from ..core import add_up, default_device, product, tuning
from .taylor import Taylor, series_at_zero


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def dense(
    taylor: Taylor,
    weight: Float[Array, "*batch inputs outputs"],
    bias: Float[Array, "*batch outputs"],
    axis: int = -3,
) -> Taylor:
    """x ↦ x W + b: linear, so all orders, which lie along `axis`, go through one product; the bias
    touches the value alone."""
    out = _linear(taylor, weight)
    value, others = lax.split(out, (1, out.shape[axis] - 1), out.ndim + axis)
    return jnp.concatenate([value + bias[..., None, None, :], others], axis)


def _dense_tangents(
    axis: int, primals: tuple[Array, ...], tangents: tuple[Any, ...]
) -> tuple[Taylor, Taylor]:
    """Written so that the gradient, which is its transpose, takes few and well filled kernels."""
    (taylor, weight, bias) = primals
    moved, turned, shifted = (None if isinstance(t, SymbolicZero) else t for t in tangents)
    out = dense(taylor, weight, bias, axis)
    changes = [] if moved is None else [_linear(moved, weight)]
    if turned is not None:
        changes.append(_linear_in_parts(taylor, turned))
    if shifted is not None:
        one, beyond = list(out.shape), [(0, 0, 0)] * out.ndim
        one[axis], beyond[axis] = 1, (0, out.shape[axis] - 1, 0)
        value = jnp.broadcast_to(shifted[..., None, None, :], one)
        changes.append(lax.pad(value, jnp.zeros((), value.dtype), beyond))
    if not changes:
        return out, jnp.zeros_like(out)
    # what comes back is complete before it is added up to the gradient of a bias: XLA would do both
    # in one kernel, in which a thread adds up all the points of a weight and computes each of them
    # on the way
    many = taylor.shape[-2] * taylor.shape[-3] >= tuning.BIAS_KERNEL * taylor.shape[axis]
    return out, lax.optimization_barrier(add_up(changes)) if many else add_up(changes)


dense.defjvp(_dense_tangents, symbolic_zeros=True)


def _linear(taylor: Taylor, weight: Array) -> Taylor:
    *batch, order, points, inputs = taylor.shape
    if inputs == 1:  # a plain coordinate: cheaper than a matrix product of inner dimension one
        return taylor * weight[..., None, :, :]
    made = product(taylor.reshape(*batch, order * points, inputs), weight)
    return made.reshape(*batch, order, points, weight.shape[-1])


def _linear_in_parts(taylor: Taylor, weight: Array) -> Taylor:
    """The same; but its transpose, which adds up a weight's gradient over all orders and points,
    does so in parts, at once."""
    *batch, order, points, inputs = taylor.shape
    outputs = weight.shape[-1]
    tiles = (
        math.prod(batch)
        * math.ceil(inputs / tuning.GPU_TILE)
        * math.ceil(outputs / tuning.GPU_TILE)
    )
    parts = _parts(order * points, tiles)
    if inputs == 1 or parts == 1 or weight.ndim != len(batch) + 2:
        return _linear(taylor, weight)
    # the barrier keeps XLA from taking the parts together again
    spread = jnp.broadcast_to(weight[..., None, :, :], (*batch, parts, inputs, outputs))
    each = lax.optimization_barrier(spread)
    made = product(taylor.reshape(*batch, parts, -1, inputs), each)
    return made.reshape(*batch, order, points, outputs)


def _parts(rows: int, tiles: int) -> int:
    """Into how many parts to cut a sum of `rows`, for each of so many tiles of a matrix, that a GPU
    has something to do everywhere."""
    if default_device().platform != "gpu" or rows < 3 * tuning.GPU_SUMMANDS:
        return 1
    most = max(1, min(rows // tuning.GPU_SUMMANDS, 2 * tuning.GPU_PROCESSORS // tiles))
    return max(n for n in range(1, most + 1) if rows % n == 0)


# --- activations ----------------------------------------------------------------------------------


class Expansion(NamedTuple):
    """A function σ near a value s₀, as what it makes of a series s₀ + s₁ h + s₂ h² + …

    Attributes:
        value: σ(s₀).
        slope: σ′(s₀).
        further: from s₁, s₂, …, where None stands for zero, to the coefficients of σ(s).
    """

    value: Array
    slope: Array
    further: Callable[[Sequence[Array | None]], list[Array]]


class AbstractActivation(eqx.Module):
    """An elementwise function between the layers of a network.

    Any function of JAX is one: `sx.SPINN(activation=jax.nn.silu)`. A subclass may have settings of
    its own, as fields that can be hashed, and a Taylor rule that is quicker than the derived one.
    """

    @abc.abstractmethod
    def __call__(self, x: Array) -> Array:
        """The function, elementwise."""

    def expand(self, x: Array, order: int) -> Expansion:
        """The function near a value, for series up to an order.

        By default σ⁽ᵏ⁾ / k! by nested differentiation, and σ(s) = Σ_k σ⁽ᵏ⁾(s₀) / k! (s - s₀)ᵏ.

        Arguments:
            x: the value.
            order: of the longest series that is to follow.
        """
        own = series_at_zero(lambda h: self(x + h), max(order, 1), x.dtype)
        return Expansion(own[0], own[1], lambda inner: _composed(own, inner))


def _composed(own: Sequence[Array], inner: Sequence[Array | None]) -> list[Array]:
    """The coefficients of Σ_k own_k (Σ_j inner_j hʲ)ᵏ from the first on."""
    found: list[list[Array]] = [[] for _ in range(len(inner) + 1)]
    series = {n: c for n, c in enumerate(inner, 1) if c is not None}
    power = series
    for k in range(1, len(inner) + 1):
        for n, c in power.items():
            found[n].append(own[k] * c)
        longer: dict[int, list[Array]] = {}
        for n, c in power.items():
            for m, d in series.items():
                if n + m <= len(inner):
                    longer.setdefault(n + m, []).append(c * d)
        power = {n: add_up(each) for n, each in longer.items()}
    return [add_up(each) if each else jnp.zeros_like(own[0]) for each in found[1:]]


class Elementwise(AbstractActivation):
    """Any elementwise function, with derivatives as JAX knows them."""

    function: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        return self.function(x).astype(x.dtype)


class Tanh(AbstractActivation):
    """tanh."""

    def __call__(self, x: Array) -> Array:
        return jnp.tanh(x)

    def expand(self, x: Array, order: int) -> Expansion:
        """y = tanh s from y′ = (1 - y²) s′, coefficient by coefficient."""
        here = jnp.tanh(x)
        first = 1 - here * here

        def further(s: Sequence[Array | None]) -> list[Array]:
            y, slope = [here], [first]  # the latter: coefficients of 1 - y²
            for k in range(1, len(s) + 1):
                some = [((j / k) * c, k - j) for j, c in enumerate(s[:k], 1) if c is not None]
                y.append(add_up(c * slope[i] for c, i in some))
                if k < len(s):
                    slope.append(-add_up(y[j] * y[k - j] for j in range(k + 1)))
            return y[1:]

        return Expansion(here, first, further)


class Sin(AbstractActivation):
    """sin."""

    def __call__(self, x: Array) -> Array:
        return jnp.sin(x)

    def expand(self, x: Array, order: int) -> Expansion:
        """sin s and cos s together: (sin s)′ = s′ cos s, (cos s)′ = -s′ sin s."""
        sine, cosine = jnp.sin(x), jnp.cos(x)

        def further(s: Sequence[Array | None]) -> list[Array]:
            sines, cosines = [sine], [cosine]
            for k in range(1, len(s) + 1):
                some = [((j / k) * c, k - j) for j, c in enumerate(s[:k], 1) if c is not None]
                sines.append(add_up(c * cosines[i] for c, i in some))
                cosines.append(-add_up(c * sines[i] for c, i in some))
            return sines[1:]

        return Expansion(sine, cosine, further)


ACTIVATIONS = {"tanh": Tanh(), "sin": Sin()}
RULES = {jnp.tanh: "tanh", jax.nn.tanh: "tanh", jnp.sin: "sin"}  # functions that we have rules for


def as_activation(given: Any) -> AbstractActivation:
    """A function of JAX as an activation; one that is an activation as it is."""
    if isinstance(given, AbstractActivation):
        return given
    known = next((word for function, word in RULES.items() if given is function), None)
    return Elementwise(given) if known is None else ACTIVATIONS[known]
