"""Dense layers on Taylor coefficients: x ↦ x W + b, all orders in one matrix product."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from ..core import add_up, default_device, product, tuning
from .taylor import Taylor


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
