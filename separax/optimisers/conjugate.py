"""Least squares of linearised residuals without a matrix: conjugate gradients, from products with the Jacobian and its transpose."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .search import Scalar

PROBES = 16  # random combinations of all residuals that show how much each parameter matters
ENOUGH = 1e-8  # of a linear equation's right side that conjugate gradients may leave


def by_conjugate_gradients(
    left: Callable[[Array], Array],
    like: Float[Array, " n"],
    number: Int[Array, ""],
    iterations: int,
    free: Bool[Array, " n"] | None = None,
    scaled: bool = False,
) -> tuple[Float[Array, " n"], Callable[[Scalar], tuple[Array, Scalar]]]:
    """About the diagonal of Jᵀ J, and the step for a damping with what it would gain, where `left` are the residuals after a step.

    Damping is added to the diagonal: the same for all, or `scaled` as the diagonal is. Steps that are not `free` are zero.
    """
    values, forward = jax.linearize(left, jnp.zeros_like(like))
    transposed = jax.linear_transpose(forward, like)

    def back(values: Array) -> Array:
        (found,) = transposed(values)
        return found if free is None else jnp.where(free, found, 0.0)

    gradient = back(values)
    # the mean of (Jᵀ z)² is the diagonal of Jᵀ J where z is 1 or -1 by chance
    signs = jax.random.rademacher(jax.random.fold_in(jax.random.key(0), number), (PROBES, len(values)), values.dtype)
    diagonal = jnp.mean(lax.map(lambda z: back(z) ** 2, signs), 0)
    added = jnp.maximum(diagonal, 1e-10 * jnp.max(diagonal)) if scaled else jnp.ones_like(diagonal)

    def solved(damping: Scalar) -> tuple[Array, Scalar]:
        # what no residual feels stays what it is
        weight = diagonal + damping * added
        step, _ = jax.scipy.sparse.linalg.cg(
            lambda x: back(forward(x)) + damping * added * x,
            -gradient,
            tol=ENOUGH,
            maxiter=iterations,
            M=lambda x: jnp.where(weight > 0, x / jnp.where(weight > 0, weight, 1.0), 0.0),
        )
        return step, -(2 * gradient @ step + jnp.sum(forward(step) ** 2))

    return diagonal, solved
