"""What is asked of parts that are a user's own, before anything is compiled with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, shown
from ..separable import AbstractFormat
from .activations import AbstractActivation, Elementwise
from .bodies import Make, OwnBody
from .encodings import AbstractEncoding
from .taylor import series_at_zero

SAMPLES = 4001  # of a function that is looked at
JUMP = 0.05  # of a derivative, as a part of all that it changes by: more is no rounding
MOST = 4  # the highest order that is looked for


def settings(argument: str, part: Any) -> None:
    """Refuses settings that hold arrays: nothing of them would be trained."""
    arrays = any(eqx.is_array_like(leaf) and np.ndim(leaf) for leaf in jax.tree.leaves(part))
    try:
        hash(part)
    except TypeError:
        arrays = True
    if arrays:
        raise InputError(
            f"{argument}: {shown(part)} has fields that cannot be compared, such as arrays: write"
            " numbers, words, tuples and functions, and make arrays of them where it is called"
        )


def encodings(argument: str, given: Any) -> tuple[tuple[str, AbstractEncoding], ...]:
    """Encodings by axis, as something that can be compared."""
    if not isinstance(given, (Mapping, tuple)):
        raise InputError(
            f"{argument} must be a dict by axis, got {shown(given)}: write"
            " encodings={'x': MyEncoding()}"
        )
    for axis, each in dict(given).items():
        who = f"{argument}[{axis!r}]"
        if not isinstance(each, AbstractEncoding):
            raise InputError(
                f"{who} must be an encoding, got {shown(each)}: write a subclass of"
                " sx.AbstractEncoding"
            )
        one = jax.ShapeDtypeStruct((), jnp.float32)
        found = _shape(lambda x, each=each: each(x, 0.0, 1.0), one, f"{who}: {_name(each)}")
        if len(found) != 1 or not found[0]:
            raise InputError(
                f"{who}: {_name(each)} returns an array of shape {found} for one coordinate: return"
                " its features, of shape (features,), such as jnp.stack([x, jnp.log(x)])"
            )
    return tuple(dict(given).items())


def periodic(
    argument: str, encoding: AbstractEncoding, lower: float, upper: float, order: int
) -> None:
    """Refuses an encoding of a periodic axis whose features differ at its ends."""
    with jax.enable_x64(True):
        ends = jnp.asarray([lower, upper], jnp.float64)
        first, last = np.moveaxis(np.asarray(encoding.taylor(ends, lower, upper, order)), 1, 0)
    if not np.allclose(first, last, rtol=1e-6, atol=1e-6 * (1 + np.max(np.abs(first)))):
        raise InputError(
            f"{argument}: the axis is periodic, but features of {_name(encoding)} or their"
            f" derivatives differ at {lower:g} and {upper:g}: write periodic ones, such as"
            " jnp.sin(2 * jnp.pi * (x - lower) / (upper - lower)), or leave Periodic out"
        )


def activation(argument: str, part: AbstractActivation, order: int) -> None:
    """Refuses an activation that is not elementwise, or that has too few derivatives."""
    function = part.function if isinstance(part, Elementwise) else part
    name = f"{argument}: {_name(function)}"
    found = _shape(part, jax.ShapeDtypeStruct((3, 4), jnp.float32), name)
    if found == (3, 4):
        x = jnp.linspace(-1.0, 1.5, 12, dtype=jnp.float32).reshape(3, 4)
        changed = np.array(part(x) != part(x.at[1, 2].add(0.5)))
        changed[1, 2] = False
    if found != (3, 4) or changed.any():
        raise InputError(
            f"{name} is not elementwise: what it makes of a number must be one number, whatever"
            " stands beside it"
        )
    _check_smooth(name, _missing(part, order, 4.0), order)


def body(argument: str, make: Make, inputs: int, outputs: int, order: int) -> None:
    """Refuses a function that makes no module of a point, or one that has too few derivatives."""
    name, key = f"{argument}: {_name(make)}", jax.random.key(0)
    asked = f"(key, {inputs}, {outputs})"
    try:
        module = eqx.filter_eval_shape(make, key, inputs, outputs)
    except Exception as error:
        raise InputError(
            f"{name}{asked} fails: {_first_line(error)}: write a function of a key, a number of"
            " inputs and one of outputs"
        ) from error
    if not callable(module):
        raise InputError(
            f"{name}{asked} returns {shown(module)}: return a module that can be called, such as an"
            " eqx.nn.MLP"
        )
    if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(module)):
        raise InputError(f"{name}{asked} returns a module without arrays: nothing could be trained")
    built = eqx.filter_eval_shape(OwnBody.build, make, key, None, inputs, outputs, jnp.float32)
    point = jax.ShapeDtypeStruct((inputs,), jnp.float32)
    advice = (
        f"a module is given one point, an array of shape ({inputs},), and returns the"
        f" ({outputs},) numbers there; separax maps it over the points"
    )
    try:
        found = eqx.filter_eval_shape(built, point).shape
    except Exception as error:
        raise InputError(f"{name}: its module fails: {_first_line(error)}: {advice}") from error
    if found != (outputs,):
        raise InputError(f"{name}: its module returns an array of shape {found}: {advice}")
    _check_smooth(name, _missing_of_body(make, inputs, outputs, order), order)


def format(argument: str, make: Any, merge: Any, axes: int) -> None:
    """Refuses a format whose arrays do not fit, or that is not linear in the columns of an axis."""
    name = f"{argument}: {_name(make)}"
    if not isinstance(merge, AbstractFormat):
        raise InputError(
            f"{name}(axes, rank) returns {shown(merge)}: return an sx.AbstractFormat, of which"
            f" {_name(make)} should be a subclass"
        )
    ranks, shape = merge.ranks, merge.core_shape
    settings(name, merge)
    whole = len(ranks) == axes and all(isinstance(rank, int) and rank > 0 for rank in ranks)
    if not whole:
        raise InputError(
            f"{name}: ranks = {ranks!r}: write the number of columns of each of the {axes} axes"
        )
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(2, 3 + i, rank)) for i, rank in enumerate(ranks)]
    core = None if shape is None else jnp.asarray(rng.normal(size=shape))

    def columns(*factors: Any) -> tuple[Array, ...]:
        return tuple(merge.columns([jnp.asarray(f) for f in factors], core))

    try:
        shapes = [f.shape for f in jax.eval_shape(columns, *factors)]
    except Exception as error:
        raise InputError(f"{name}: columns fails: {_first_line(error)}") from error
    wanted = [(2, 3 + i, shapes[0][-1]) for i in range(axes)] if shapes and shapes[0] else None
    if shapes != wanted:
        raise InputError(
            f"{name}: columns of shapes {[f.shape for f in factors]} become {shapes}: return one"
            " array per axis, (…, products), with as many products for each"
        )

    def value(*factors: Any) -> Array:
        found = columns(*factors)
        return jnp.sum(functools.reduce(jnp.multiply, [f[0, 0] for f in found]))

    for i, factor in enumerate(factors):
        other = rng.normal(size=factor.shape)
        both = [value(*factors[:i], f, *factors[i + 1 :]) for f in (factor, other, factor + other)]
        if not np.isclose(both[0] + both[1], both[2], rtol=1e-3, atol=1e-4):
            raise InputError(
                f"{name}: the field is not linear in the columns of axis {i + 1}: what columns"
                " returns may only be sums of them, and products with others"
            )


# --- smoothness ----------------------------------------------------------------------------------


def _check_smooth(name: str, missing: int | None, order: int) -> None:
    if missing == 0:
        raise InputError(f"{name} is infinite or no number somewhere near zero: write another")
    if missing is not None:
        raise InputError(
            f"{name} has no derivative of order {missing}: that of order {missing - 1} jumps or is"
            f" infinite, and the equation needs order {order}. Write a smoother one, such as"
            " activation=jax.nn.silu"
        )


@functools.lru_cache(maxsize=64)
def _missing(function: Callable[[Array], Array], order: int, end: float) -> int | None:
    """The first order up to the one wanted of which a function has no derivative on [-end, end].

    A derivative that jumps is not the integral of the next one, which knows nothing of the jump.
    """
    with jax.enable_x64(True):
        x, number = jnp.linspace(-end, end, SAMPLES), min(order, MOST)

        def derivatives(x: Array) -> Array:
            return jnp.stack(series_at_zero(lambda h: function(x + h), number, x.dtype))

        each = np.asarray(jax.jit(jax.vmap(derivatives, out_axes=1))(x))
    step = 2 * end / (SAMPLES - 1)
    for k, values in enumerate(each):
        if not np.all(np.isfinite(values)):
            return k
        if k:
            before = each[k - 1] - each[k - 1][0]
            integral = k * np.cumsum((values[1:] + values[:-1]) / 2) * step
            size = max(np.max(np.abs(before)), 1e-9 * np.max(np.abs(each[k - 1])))
            if np.max(np.abs(before[1:] - integral)) > JUMP * size:
                return k
    return None


@functools.lru_cache(maxsize=64)
def _missing_of_body(make: Make, inputs: int, outputs: int, order: int) -> int | None:
    """The same of the modules that a function makes, along a line of points."""
    with jax.enable_x64(True):
        direction = np.random.default_rng(0).normal(size=inputs)

        def along(h: Array) -> Array:
            module = OwnBody.build(make, jax.random.key(0), None, inputs, outputs, jnp.float64)
            return jnp.sum(module(h * direction / np.max(np.abs(direction))))

        return _missing(along, order, 1.2)


# --- words ---------------------------------------------------------------------------------------


def _shape(function: Callable[[Array], Any], given: Any, name: str) -> tuple[int, ...]:
    """The shape of what a function returns; refused where it is no array, or raises."""
    try:
        found = eqx.filter_eval_shape(function, given)
    except Exception as error:
        what = "a number" if not given.shape else f"an array of shape {given.shape}"
        raise InputError(f"{name} fails for {what}: {_first_line(error)}") from error
    if not isinstance(found, jax.ShapeDtypeStruct):
        raise InputError(f"{name} returns {shown(found)}: return an array of JAX")
    return found.shape


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"


def _name(part: Any) -> str:
    """A part by its name."""
    function = part.func if isinstance(part, functools.partial) else part
    name = getattr(function, "__name__", type(function).__name__)
    return "a lambda" if name == "<lambda>" else name
