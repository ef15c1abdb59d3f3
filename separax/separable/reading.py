"""Finding out that an ordinary `jnp` expression of the coordinates is separable.

A source term like `sin(4πx) * sin(4πy) * exp(-t)` is a product of one-dimensional functions, but
once evaluated it is N^d numbers. `separate` reads the expression's jaxpr instead and keeps it as a
sum of products of one-dimensional arrays, by the rules of algebra that hold for such sums. Where a
rule is missing it gives up, and the lattice is used.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import partial_eval
from jaxtyping import Array

from ..core import add_up

MOST = 64  # terms; beyond this the lattice is the better place

Product = tuple[Array, ...]  # arrays that vary along one axis at most
SumOfProducts = list[Product]
Value = TypeVar("Value")


class Unreadable(Exception):
    """A traced function has a step that no rule covers."""


def separate(
    function: Callable[..., Array], *arguments: Any, dimension: int, most: int = MOST
) -> list[tuple[Array, ...]] | None:
    """A function of coordinates as a sum of products of one-dimensional functions.

    Arguments:
        function: from arrays to an array, in `jnp`.
        arguments: pytrees of arrays that vary along one dimension at most.
        dimension: the number of dimensions.
        most: products; beyond this it gives up.

    Returns:
        For each product one factor per dimension, of shape (n,) or (1,); None where the function
        cannot be read as such a sum.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    # steps whose results are not used must not be what it fails at
    jaxpr, used = partial_eval.dce_jaxpr(closed.jaxpr, [True])
    try:
        inputs = [[(leaf,)] for leaf, wanted in zip(jax.tree.leaves(arguments), used) if wanted]
        (out,) = read_jaxpr(jaxpr, closed.consts, inputs, _constant, functools.partial(_step, most))
    except Unreadable:
        return None
    return [_by_axis(product, dimension) for product in out]


def _varies(array: Any) -> tuple[int, ...]:
    """The dimensions, counted from the end, along which an array has more than one entry."""
    return tuple(i - np.ndim(array) for i, n in enumerate(np.shape(array)) if n > 1)


def _constant(array: Any) -> SumOfProducts:
    if len(_varies(array)) > 1:
        raise Unreadable
    return [(array,)]


def _by_axis(product: Product, dimension: int) -> tuple[Array, ...]:
    factors = [jnp.ones(1, jnp.result_type(*product))] * dimension
    for array in product:
        axis = _varies(array)[0] if _varies(array) else -1
        factors[axis] = factors[axis] * jnp.ravel(array)
    return tuple(factors)


def read_jaxpr(
    jaxpr: core.Jaxpr,
    constants: Sequence[Any],
    inputs: Sequence[Value],
    constant: Callable[[Any], Value],
    step: Callable[[Any, list[Value]], Sequence[Value]],
) -> list[Value]:
    """Runs a traced function on values of another kind than arrays.

    Arguments:
        jaxpr: the function; calls in it are followed.
        constants: its constants.
        inputs: its arguments, as values of that kind.
        constant: makes such a value of an array.
        step: from an equation and its operands to its results; raises `Unreadable` where it cannot.

    Returns:
        The results of the function.
    """
    variables = [*jaxpr.constvars, *jaxpr.invars]
    known: dict[Any, Value] = dict(zip(variables, [*map(constant, constants), *inputs]))

    def value(variable: Any) -> Value:
        return constant(variable.val) if isinstance(variable, core.Literal) else known[variable]

    for equation in jaxpr.eqns:
        operands = [value(v) for v in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if equation.primitive.name in CALLS and isinstance(inner, core.ClosedJaxpr):
            results = read_jaxpr(inner.jaxpr, inner.consts, operands, constant, step)
        else:
            results = step(equation, operands)
        known.update(zip(equation.outvars, results))
    return [value(v) for v in jaxpr.outvars]


def _step(most: int, equation: Any, values: list[SumOfProducts]) -> list[SumOfProducts]:
    name = equation.primitive.name
    whole = any(
        jnp.issubdtype(v.aval.dtype, jnp.integer) or v.aval.dtype == bool
        for v in [*equation.invars, *equation.outvars]
    )
    # the rules are those of real numbers: whole numbers wrap and divide otherwise
    if name in RULES and (not whole or name in EXACT):
        found = RULES[name](equation.params, *values)
        if len(found) > 1 and len({axis for p in found for a in p for axis in _varies(a)}) == 1:
            found = [(_single(found),)]  # a sum of functions of one axis is a function of it
        if len(found) > most:
            raise Unreadable
        return [found]
    if name in ELEMENTWISE or name in RULES:
        arrays = [_single(v) for v in values]
        if len({axis for a in arrays for axis in _varies(a)}) <= 1:
            return [[(equation.primitive.bind(*jnp.broadcast_arrays(*arrays), **equation.params),)]]
    raise Unreadable


def _single(value: SumOfProducts) -> Array:
    """A value as one array, where it varies along one axis at most."""
    if len({axis for product in value for array in product for axis in _varies(array)}) > 1:
        raise Unreadable
    return functools.reduce(
        operator.add, (functools.reduce(operator.mul, product) for product in value)
    )


def _per_axis(value: SumOfProducts) -> list[Array]:
    """A sum of functions of one axis each, gathered by axis."""
    gathered: dict[Any, Array] = {}
    for product in value:
        axes = {axis for array in product for axis in _varies(array)}
        if len(axes) > 1:
            raise Unreadable
        axis = next(iter(axes), None)
        array = functools.reduce(operator.mul, product)
        gathered[axis] = gathered[axis] + array if axis in gathered else array
    return list(gathered.values())


def _multiply(_: Any, a: SumOfProducts, b: SumOfProducts) -> SumOfProducts:
    return [(*p, *q) for p in a for q in b]


def _negate(_: Any, a: SumOfProducts) -> SumOfProducts:
    return [(-p[0], *p[1:]) for p in a]


def _divide(_: Any, a: SumOfProducts, b: SumOfProducts) -> SumOfProducts:
    if len(b) == 1:
        return _multiply(None, a, [tuple(1 / array for array in b[0])])
    return _multiply(None, a, [(1 / _single(b),)])


def _power(parameters: Any, a: SumOfProducts) -> SumOfProducts:
    power = parameters["y"]
    if power == 0:
        return [(jnp.ones(()),)]
    if len(a) == 1:
        return [tuple(array**power for array in a[0])]
    if power < 0 or len(a) ** power > MOST:
        return [(_single(a) ** power,)]
    return functools.reduce(functools.partial(_multiply, None), [a] * power)


def _exponential(_: Any, a: SumOfProducts) -> SumOfProducts:
    """exp of a sum is a product. Each factor is taken relative to its largest value: one alone
    could overflow where the product does not, as in exp((x - 1) / ε)."""
    parts = _per_axis(a)
    peaks = [jnp.max(part) for part in parts]
    return [(jnp.exp(add_up(peaks)), *(jnp.exp(part - peak) for part, peak in zip(parts, peaks)))]


def _wave(start: int) -> Callable[..., SumOfProducts]:
    """sin (start 0) or cos (start 1) of a sum, by the addition theorems."""

    def rule(_: Any, a: SumOfProducts) -> SumOfProducts:
        first, *rest = _per_axis(a)
        sine, cosine = [(jnp.sin(first),)], [(jnp.cos(first),)]
        for angle in rest:
            s, c = [(jnp.sin(angle),)], [(jnp.cos(angle),)]
            sine, cosine = (
                _multiply(None, sine, c) + _multiply(None, cosine, s),
                _multiply(None, cosine, c) + _negate(None, _multiply(None, sine, s)),
            )
        return (sine, cosine)[start]

    return rule


def _broadcast(parameters: Any, a: SumOfProducts) -> SumOfProducts:
    """Thin arrays stay thin: they broadcast when they are used."""
    rank, places = len(parameters["shape"]), parameters["broadcast_dimensions"]

    def widen(array: Array) -> Array:
        if np.ndim(array) == rank or not _varies(array):
            return jnp.reshape(array, ()) if not _varies(array) else array
        shape = [1] * rank
        for place, n in zip(places, np.shape(array)):
            shape[place] = n
        return jnp.reshape(array, shape)

    if parameters.get("sharding") is not None:
        raise Unreadable
    return [tuple(widen(array) for array in product) for product in a]


RULES: dict[str, Callable[..., SumOfProducts]] = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a + _negate(None, b),
    "neg": _negate,
    "mul": _multiply,
    "div": _divide,
    "integer_pow": _power,
    "square": lambda _, a: _multiply(None, a, a),
    "exp": _exponential,
    "sin": _wave(0),
    "cos": _wave(1),
    "broadcast_in_dim": _broadcast,
    "convert_element_type": lambda p, a: [
        tuple(jnp.asarray(x, p["new_dtype"]) for x in product) for product in a
    ],
    "copy": lambda _, a: a,
}

# calls whose body runs once, as it stands
CALLS = frozenset(["jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"])
# rules that hold for any kind of number
EXACT = frozenset(["broadcast_in_dim", "copy"])

# functions applied entry by entry, fine on anything that varies along one axis
ELEMENTWISE = frozenset(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clamp cosh digamma eq erf erf_inv "
    "erfc exp2 expm1 floor ge gt is_finite le lgamma log log1p logistic lt max min ne pow rem "
    "round rsqrt select_n sign sinh sqrt tan tanh and or not".split()
)
