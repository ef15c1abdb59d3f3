"""Calling what users wrote: functions get what they name, and complaints become advice."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .errors import InputError, listed, nearest, shown


def parameters(
    function: Callable[..., Any],
    pool: Mapping[str, Sequence[str]],
    argument: str,
    advice: Callable[[str], str] = lambda name: "",
) -> list[tuple[str, bool]]:
    """The parameters of a user's function, which gets what it names.

    Arguments:
        function: the function.
        pool: the names that are known, by what they are.
        argument: what the function is called in refusals.
        advice: from a name that is not known to what to write.

    Returns:
        The names it asks for, each with whether it is by position only; refused where one is not
        known.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InputError(
            f"{argument}: cannot see the parameters of {shown(function)}: wrap it, e.g. lambda x: …"
        ) from None
    known = [name for names in pool.values() for name in names]
    found = []
    for p in signature.parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.name in known:
            found.append((p.name, p.kind is p.POSITIONAL_ONLY))
        elif p.default is p.empty:
            kinds = "; ".join(f"{kind}s: {listed(names)}" for kind, names in pool.items())
            raise InputError(
                f"{argument}: its parameter {p.name!r} is not known here"
                f" ({kinds}).{nearest(p.name, known)}{advice(p.name)}"
            )
    return found


def call(
    function: Callable[..., Any],
    names: Sequence[tuple[str, bool]],
    pool: Mapping[str, Any],
    argument: str,
) -> Any:
    """Calls a user's function with what it names, and turns complaints of JAX into advice.

    Arguments:
        function: the function.
        names: as `parameters` found them.
        pool: the values by name.
        argument: what the function is called in refusals.

    Returns:
        What the function returns.
    """
    positional = [pool[name] for name, only in names if only]
    try:
        return function(*positional, **{name: pool[name] for name, only in names if not only})
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{argument}: {_advice(error)}") from error


def _advice(error: Exception) -> str:
    """What to write instead, for the complaints of JAX and NumPy that users meet first."""
    complaint = str(error)
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return (
            "a function of NumPy or SciPy was given an array of JAX: write jnp.sin(x) instead of"
            " np.sin(x). A table or a spline of a coordinate is k = sx.tabulated(values, x=points),"
            " which is called like any function, k(x)"
        )
    if isinstance(error, jax.errors.ConcretizationTypeError) or "truth value" in complaint:
        return "Python's if, float() or bool() on values: write jnp.where(condition, a, b) instead"
    if isinstance(error, OverflowError):
        return "a whole number is too large for an array: write 3e9 instead of 3_000_000_000"
    if "separax.equations.field.Field" in complaint:
        return "a jnp function was given a field: write np.sin(u) or jnp.sin(u.value)"
    if "converted to Python scalars" in complaint:
        return "a function of numbers was given an array: write jnp.sin(x) instead of math.sin(x)"
    return complaint


def as_array(value: Any, argument: str) -> Array:
    """What a user's function returned, as an array.

    Arguments:
        value: what it returned.
        argument: what the function is called in refusals.
    """
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        forgotten = "; is a `return` missing?" if value is None else ""
        raise InputError(
            f"{argument} must return numbers, got {shown(value)}{forgotten}: return an expression"
            " of the coordinates"
        ) from None


def fits(values: Any, shape: tuple[int, ...], argument: str) -> Any:
    """Refuses values that do not broadcast to the points of a place.

    Arguments:
        values: an array, or what stands for one.
        shape: of the place.
        argument: what the values are called in refusals.

    Returns:
        The values.
    """
    try:
        fits = jnp.broadcast_shapes(values.shape, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"{argument} has shape {values.shape}, which does not broadcast to the points'"
            f" {tuple(shape)}: return one value per point, as jnp expressions of the coordinates do"
        )
    return values
