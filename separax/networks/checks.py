"""What is asked of parts that are a user's own, before anything is compiled with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, shown
from ..separable import AbstractFormat
from .bodies import Make, OwnBody
from .encodings import AbstractEncoding
from .layers import AbstractActivation, Elementwise
from .taylor import series_at_zero

SAMPLES = 4001  # of a function that is looked at
JUMP = 0.05  # of a derivative, as a part of all that it changes by: more is no rounding
MOST = 4  # the highest order that is looked for


def name_of(part: Any) -> str:
    """A part in a word: a function by its name, others by their class."""
    part = part.function if isinstance(part, Elementwise) else part
    part = part.func if isinstance(part, functools.partial) else part
    name = getattr(part, "__name__", type(part).__name__)
    return "a lambda" if name == "<lambda>" else name


def settings(argument: str, part: Any) -> None:
    """Refuses a part that cannot be hashed, as arrays cannot: nothing of it would be trained."""
    try:
        hash(part)
    except TypeError:
        raise InputError(
            f"{argument}: {shown(part)} has fields that cannot be compared, such as arrays: write"
            " numbers, words, tuples and functions, and make arrays of them where it is called"
        ) from None


def shapes(who: str, function: Callable[..., Any], *given: Any, advice: str = "") -> Any:
    """The shapes of what a user's function returns; refused where it fails."""
    try:
        return eqx.filter_eval_shape(function, *given)
    except InputError:
        raise
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise InputError(f"{who} fails: {type(error).__name__}: {said}{advice}") from error


def encodings(argument: str, given: Any) -> tuple[tuple[str, AbstractEncoding], ...]:
    """Encodings by axis, as something that can be compared."""
    if not isinstance(given, (Mapping, tuple)):
        raise InputError(
            f"{argument} must be a dict by axis, got {shown(given)}: write"
            " encodings={'x': MyEncoding()}"
        )
    for axis, each in dict(given).items():
        who, one = f"{argument}[{axis!r}]", jax.ShapeDtypeStruct((), jnp.float32)
        if not isinstance(each, AbstractEncoding):
            raise InputError(
                f"{who} must be an encoding, got {shown(each)}: write a subclass of"
                " sx.AbstractEncoding"
            )
        found = shapes(f"{who}: {name_of(each)}", lambda x, each=each: each(x, 0.0, 1.0), one)
        if getattr(found, "ndim", None) != 1:
            raise InputError(
                f"{who}: {name_of(each)} returns {shown(found)} for one coordinate: return an array"
                " of its features, (features,), such as jnp.stack([x, jnp.log(x)])"
            )
    return tuple(dict(given).items())


def periodic(argument: str, encoding: AbstractEncoding, ends: tuple[float, float]) -> None:
    """Refuses an encoding of a periodic axis whose features or slopes differ at its ends."""
    with jax.enable_x64(True):
        taylor = encoding.taylor(jnp.asarray(ends), *ends, 1)
    if not np.allclose(taylor[:, 0], taylor[:, 1], atol=1e-6 * np.max(np.abs(taylor))):
        raise InputError(
            f"{argument}: the axis is periodic, but features of {name_of(encoding)} differ at its"
            " ends: write periodic ones, such as jnp.sin(2 * jnp.pi * (x - lower) / (upper -"
            " lower)), or leave Periodic out"
        )


def activation(argument: str, part: AbstractActivation, order: int) -> None:
    """Refuses an activation that is not elementwise, or that has too few derivatives."""
    who, x = f"{argument}: {name_of(part)}", jnp.linspace(-1.0, 1.5, 12).reshape(3, 4)
    same = getattr(shapes(who, part, x), "shape", None) == (3, 4)
    change = jnp.nan_to_num(part(x.at[1, 2].add(0.5))) != jnp.nan_to_num(part(x))
    if not same or jnp.sum(change) > 1:
        raise InputError(
            f"{who} is not elementwise: what it makes of a number must be one number, whatever"
            " stands beside it"
        )
    _check_smooth(who, _missing(part, order, 4.0), order)


def body(argument: str, make: Make, inputs: int, outputs: int, order: int) -> None:
    """Refuses a function that makes no module of a point, or one that has too few derivatives."""
    who, point = f"{argument}: {name_of(make)}", jax.ShapeDtypeStruct((inputs,), jnp.float32)
    built = shapes(
        f"{who}(key, {inputs}, {outputs})",
        lambda key: OwnBody.build(make, key, None, inputs, outputs, jnp.float32),
        jax.random.key(0),
        advice=": write a function of a key and the numbers of inputs and outputs",
    )
    advice = (
        f": a module is given one point, an array of shape ({inputs},), and returns the"
        f" ({outputs},) numbers there; separax maps it over the points"
    )
    found = shapes(f"{who}: its module", built, point, advice=advice)
    if found.shape != (outputs,):
        raise InputError(f"{who}: its module returns an array of shape {found.shape}{advice}")

    _check_smooth(who, _missing_of_body(make, inputs, outputs, order), order)


def format(argument: str, merge: Any, axes: int) -> None:
    """Refuses a format whose arrays do not fit, or that is not linear in the columns of an axis."""
    if not isinstance(merge, AbstractFormat):
        raise InputError(f"{argument} must return an sx.AbstractFormat, got {shown(merge)}")
    who, ranks, shape = f"{argument}: {name_of(merge)}", merge.ranks, merge.core_shape
    settings(who, merge)
    if len(ranks) != axes:
        raise InputError(f"{who}: ranks = {ranks!r}: write one number for each of {axes} axes")
    rng = np.random.default_rng(0)
    factors = [jnp.asarray(rng.normal(size=(1, 1, rank))) for rank in ranks]
    core = None if shape is None else jnp.asarray(rng.normal(size=shape))
    found = shapes(f"{who}: columns", lambda: tuple(merge.columns(factors, core)))
    if len(found) != axes or {f.shape for f in found} != {(1, 1, found[0].shape[-1])}:
        raise InputError(
            f"{who}: columns makes {[f.shape for f in found]} of {[f.shape for f in factors]}:"
            " return one array per axis, (…, products), with as many products for each"
        )

    def value(factors: Sequence[Array]) -> Array:
        return jnp.sum(functools.reduce(jnp.multiply, merge.columns(factors, core)))

    for i, factor in enumerate(factors):
        own = factor, jnp.ones_like(factor), factor + 1
        one, other, both = (value([*factors[:i], f, *factors[i + 1 :]]) for f in own)
        if not np.isclose(one + other, both, rtol=1e-3, atol=1e-4):
            raise InputError(
                f"{who}: the field is not linear in the columns of axis {i + 1}: what columns"
                " returns may only be sums of them, and products with others"
            )


# --- smoothness ---------------------------------------------------------------------------------


def _check_smooth(who: str, missing: int | None, order: int) -> None:
    if missing is not None:
        what = "it" if missing < 2 else f"its derivative of order {missing - 1}"
        raise InputError(
            f"{who} is not smooth enough: {what} jumps or is infinite, and the equation needs"
            f" derivatives of order {order}. Write a smoother one, such as jax.nn.silu"
        )


@functools.lru_cache(maxsize=64)
def _missing_of_body(make: Make, inputs: int, outputs: int, order: int) -> int | None:
    """`_missing` of a module that a function makes, along a line of points."""

    def along(h: Array) -> Array:
        module = OwnBody.build(make, jax.random.key(0), None, inputs, outputs, h.dtype)
        return jnp.sum(module(h * jnp.cos(jnp.arange(inputs, dtype=h.dtype))))

    return _missing.__wrapped__(along, order, 1.2)


@functools.lru_cache(maxsize=64)
def _missing(function: Callable[[Array], Array], order: int, end: float) -> int | None:
    """The first order up to the one wanted of which a function has no derivative on [-end, end].

    A derivative that jumps is not the integral of the next one, which knows nothing of the jump.
    """
    with jax.enable_x64(True):
        x, number = jnp.linspace(-end, end, SAMPLES), min(order, MOST)

        def series(x: Array) -> Array:
            return jnp.stack(series_at_zero(lambda h: function(x + h), number, x.dtype))

        each = np.asarray(jax.jit(jax.vmap(series, out_axes=1))(x))
    for k, values in enumerate(each):
        if not np.all(np.isfinite(values)):
            return k
        change = each[max(k - 1, 0)] - each[max(k - 1, 0)][0]
        integral = k * np.cumsum((values[1:] + values[:-1]) / 2) * (2 * end / (SAMPLES - 1))
        size = max(np.max(np.abs(change)), 1e-9 * np.max(np.abs(each)))
        if k and np.max(np.abs(change[1:] - integral)) > JUMP * size:
            return k
    return None
