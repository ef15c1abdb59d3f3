"""The precision of a computation: who decides it, and its matrix products."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer  # pyright: ignore[reportPrivateImportUsage]
from jaxtyping import Array, Float

from .errors import InputError

Tree = TypeVar("Tree")

# On a GPU a float32 product is done in TF32 (10 bits) unless full precision is asked for, and
# residuals feel it.
PRECISION = lax.Precision.HIGHEST
# The products of a training step, which a recipe may want in TF32 all the same; what is traced
# inside of `rounded` has them so.
_of_a_step: ContextVar[lax.Precision] = ContextVar(
    "precision of a step's products", default=PRECISION
)


@contextlib.contextmanager
def rounded(precision: str) -> Iterator[None]:
    """Inside, the products of a step are those of a recipe's precision.

    Arguments:
        precision: the recipe's: "float32", "float64" or "tf32".
    """
    token = _of_a_step.set(lax.Precision.DEFAULT if precision == "tf32" else PRECISION)
    try:
        yield
    finally:
        _of_a_step.reset(token)


def in_tf32() -> bool:
    """Whether the products of the step that is traced are rounded."""
    return _of_a_step.get() != PRECISION


def product(a: Array, b: Array) -> Array:
    """The matrix product a b in a training step, in the precision of its recipe.

    Arguments:
        a, b: arrays, as for `jnp.matmul`.
    """
    return jnp.matmul(a, b, precision=_of_a_step.get())


def with_types_of(like: Any, tree: Any, who: str) -> Any:
    """The next state of a part, with arrays of the types that those of the last one have.

    Arguments:
        like: the last state.
        tree: the next one; refused where it is of another structure or other shapes.
        who: the part, for the refusal.
    """
    had, has = (jax.tree.map(jnp.shape, each) for each in (like, tree))
    if jax.tree.structure(like) != jax.tree.structure(tree) or had != has:
        raise InputError(
            f"{who} returned a state of another structure than it began with, with arrays of the"
            f" shapes {has}, not {had}"
        )
    return jax.tree.map(lambda old, new: jnp.asarray(new, old.dtype), like, tree)


def across(
    a: Float[Array, "*batch n rank"], b: Float[Array, "*batch m rank"]
) -> Float[Array, "*batch n m"]:
    """The matrix product a bᵀ in a training step, in the precision of its recipe.

    Arguments:
        a: rows of one side, after any number of axes that both have in common.
        b: rows of the other.
    """
    batch = tuple(range(a.ndim - 2))
    return lax.dot_general(
        a, b, (((a.ndim - 1,), (b.ndim - 1,)), (batch, batch)), precision=_of_a_step.get()
    )


def add_up(arrays: Iterable[Array]) -> Array:
    """The sum of one array or more, which unlike `sum` does not begin with the number 0.

    Arguments:
        arrays: at least one.
    """
    return functools.reduce(operator.add, arrays)


def is_traced(*trees: Any) -> bool:
    """Whether this is inside a transformation of JAX, or arrays come from one.

    Arguments:
        trees: pytrees whose arrays are looked at.
    """
    leaves = [*jax.tree.leaves(trees), jnp.zeros(())]
    return any(isinstance(leaf, Tracer) for leaf in leaves)


def as_varying(value: Tree, *trees: Any) -> Tree:
    """Arrays that vary over the devices of a `shard_map` as those of other trees do: what a loop
    begins with must vary as what it makes of them.

    Arguments:
        value: a pytree of arrays, which stay what they are.
        trees: pytrees; what is no array in them has no say.
    """
    leaves = [leaf for leaf in jax.tree.leaves(trees) if eqx.is_array(leaf) and leaf.size]
    never = [jnp.ravel(leaf)[0] for leaf in leaves]

    def one(array: Array) -> Array:
        return functools.reduce(
            lambda a, other: jnp.where(False, other.astype(a.dtype), a), never, array
        )

    return jax.tree.map(one, value)


@contextlib.contextmanager
def in_float64(wanted: bool = True) -> Iterator[None]:
    """Allows float64 inside, whatever JAX was told elsewhere. A decorator, too: `@in_float64()`.

    Arguments:
        wanted: False allows float32 only.
    """
    with jax.enable_x64(wanted):
        yield


@contextlib.contextmanager
def precision_for(*trees: Any) -> Iterator[bool]:
    """Allows float64 inside; but in a transformation of JAX the caller decides.

    Arguments:
        trees: pytrees that tell whether this is in one, by whether their arrays are traced.

    Returns:
        A context manager, which yields whether this is in a transformation.
    """
    traced = is_traced(*trees)
    with contextlib.nullcontext() if traced else in_float64():
        yield traced


def in_callers_precision(tree: Tree) -> Tree:
    """A pytree with float32 arrays in place of float64 ones where JAX does not allow float64.

    Arguments:
        tree: the pytree; what is no array in it stays what it is.

    Returns:
        The pytree, for use in a transformation of JAX.
    """
    return jax.tree.map(
        lambda a: (
            jnp.asarray(a, jax.dtypes.canonicalize_dtype(a.dtype)) if eqx.is_inexact_array(a) else a
        ),
        tree,
    )
