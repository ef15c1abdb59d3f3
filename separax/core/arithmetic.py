"""Matrix products of a training step, in the precision that a recipe asks for."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

# On a GPU a float32 product is done in TF32 (10 bits) unless full precision is asked for, and residuals feel it.
PRECISION = lax.Precision.HIGHEST
# The products of a training step, which a recipe may want in TF32 all the same; what is traced inside of `rounded` has them so.
_of_a_step: ContextVar[lax.Precision] = ContextVar(
    "precision of a step's products", default=PRECISION
)


@contextlib.contextmanager
def rounded(precision: str) -> Iterator[None]:
    """Inside, the products of a step are those of a recipe's precision."""
    token = _of_a_step.set(lax.Precision.DEFAULT if precision == "tf32" else PRECISION)
    try:
        yield
    finally:
        _of_a_step.reset(token)


def in_tf32() -> bool:
    """Whether the products of the step that is traced are rounded."""
    return _of_a_step.get() != PRECISION


def product(a: Array, b: Array) -> Array:
    """A matrix product of a training step."""
    return jnp.matmul(a, b, precision=_of_a_step.get())


def across(
    a: Float[Array, "*batch n rank"], b: Float[Array, "*batch m rank"]
) -> Float[Array, "*batch n m"]:
    """a bᵀ, a product of a training step."""
    batch = tuple(range(a.ndim - 2))
    return lax.dot_general(
        a, b, (((a.ndim - 1,), (b.ndim - 1,)), (batch, batch)), precision=_of_a_step.get()
    )


def add_up(arrays: Iterable[Array]) -> Array:
    """The sum of one array or more, which unlike `sum` does not begin with the number 0."""
    return functools.reduce(operator.add, arrays)
