"""Functions from tables: splines that JAX can differentiate."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from ..core import InputError, listed, shown, whole


def tabulated(values: Any, *, degree: int = 3, **points: Any) -> Callable[..., Array]:
    """A function through the values of a table: a spline along every axis. Beyond the table its
    outermost pieces go on.

        k = sx.tabulated(measured, x=places)
        problem = sx.Problem(box, lambda u, x: u.t - k(x) * u.xx, conditions)

    Arguments:
        values: an array with an axis for each of the points.
        degree: of the pieces: 3 is smooth, 1 joins the values by straight lines.
        points: by the name of the axis where the values are, in increasing order.

    Returns:
        A function of as many coordinates, in this order, for residuals and conditions.
    """
    degree = whole("tabulated: degree", degree)
    try:
        table = np.asarray(values, dtype=float)
        each = {axis: np.asarray(at, dtype=float) for axis, at in points.items()}
    except (TypeError, ValueError):
        raise InputError(
            f"tabulated: values and points must be numbers, got {shown(values)}"
        ) from (None)
    if not each or table.shape != tuple(at.size for at in each.values()):
        sizes = ", ".join(f"{at.size} of {axis}" for axis, at in each.items()) or "none"
        raise InputError(
            f"tabulated: values of shape {table.shape} do not fit the points ({sizes}): give an"
            " axis for each, sx.tabulated(values, x=places)"
        )
    if not np.all(np.isfinite(table)):
        raise InputError("tabulated: values holds numbers that are not finite: leave them out")
    bad = [a for a, at in each.items() if at.ndim != 1 or not np.all(np.diff(at) > 0)]
    if bad:
        raise InputError(
            f"tabulated: the points of {listed(bad)} must increase: sort them, and values"
        )
    if few := [a for a, at in each.items() if at.size <= degree]:
        raise InputError(
            f"tabulated: {len(each[few[0]])} points of {few[0]} are too few for pieces of degree"
            f" {degree}: write degree=1"
        )
    knots = []
    for i, at in enumerate(each.values()):
        spline = scipy.interpolate.make_interp_spline(at, table, k=degree, axis=i)
        table, knots = np.moveaxis(spline.c, 0, i), [*knots, spline.t]

    def function(*coordinates: Any) -> Array:
        if len(coordinates) != len(knots):
            raise InputError(
                f"a table of {listed(points)} was given {len(coordinates)} coordinates: write"
                f" k({listed(points)})"
            )
        found = [_basis(jnp.asarray(x), t, degree) for x, t in zip(coordinates, knots)]
        return _summed(jnp.asarray(table), found)

    return function


def _basis(x: Array, knots: np.ndarray, degree: int) -> tuple[Array, list[Array]]:
    """The first spline that is not zero at every point, and the values of it and those after it, by
    Cox and de Boor's recurrence."""
    t = jnp.asarray(knots, x.dtype)
    number = len(knots) - degree - 1
    piece = jnp.clip(jnp.searchsorted(t, x, side="right") - 1, degree, number - 1)
    values = [jnp.ones_like(x)]
    for order in range(1, degree + 1):
        raised = [jnp.zeros_like(x) for _ in range(order + 1)]
        for i, value in enumerate(values):
            left, right = t[piece + i + 1 - order], t[piece + i + 1]
            share = value / (right - left)
            raised[i] = raised[i] + share * (right - x)
            raised[i + 1] = raised[i + 1] + share * (x - left)
        values = raised
    return piece - degree, values


def _summed(table: Array, each: list[tuple[Array, list[Array]]]) -> Array:
    """The sum of coefficients times products of the splines of all axes."""

    def along(axis: int, index: tuple[Array, ...]) -> Array:
        if axis == len(each):
            return table[index]
        first, values = each[axis]
        parts = [value * along(axis + 1, (*index, first + i)) for i, value in enumerate(values)]
        return functools.reduce(jnp.add, parts)

    return along(0, ())
