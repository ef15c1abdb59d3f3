"""Gradient, divergence, curl and Laplacian of fields."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from ..core import InputError, listed, shown
from .field import Field

# --- vector helpers -----------------------------------------------------------------------------


def _space(field: Field, axes: Sequence[str] | None, what: str) -> tuple[str, ...]:
    chosen = (
        tuple(axes)
        if axes is not None
        else tuple(axis for axis in field.source.axes if axis != "t")
    )
    if not chosen:
        raise InputError(
            f"{what}: the box has no space axis; name the axes, {what}(u, axes=('t',))"
        )
    return chosen


def _check_vector(fields: Any, what: str) -> None:
    if isinstance(fields, Field) or not all(isinstance(field, Field) for field in fields):
        raise InputError(
            f"{what} takes a vector, one field per axis, got {shown(fields)}: write {what}((u, v))"
        )


def grad(field: Field, axes: Sequence[str] | None = None) -> tuple[Field, ...]:
    """The gradient, (∂u/∂x, ∂u/∂y, …).

    Arguments:
        field: u.
        axes: along which axes; None: all but t.

    Returns:
        One field per axis.
    """
    return tuple(field.d(**{axis: 1}) for axis in _space(field, axes, "grad"))


def div(fields: Sequence[Field], axes: Sequence[str] | None = None) -> Field:
    """The divergence of a vector, ∂u/∂x + ∂v/∂y + ….

    Arguments:
        fields: the components of the vector, one per axis.
        axes: the axes that they belong to; None: all but t.

    Returns:
        A field.
    """
    _check_vector(fields, "div")
    along = _space(fields[0], axes, "div")
    if len(fields) != len(along):
        raise InputError(
            f"div: {len(fields)} components for the axes {listed(along)}: give one per axis, or"
            " name the axes, div(v, axes=(…))"
        )
    return functools.reduce(
        operator.add, (field.d(**{axis: 1}) for field, axis in zip(fields, along))
    )


def curl(
    fields: Sequence[Field], axes: Sequence[str] | None = None
) -> Field | tuple[Field, Field, Field]:
    """The curl of a vector: ∂v/∂x - ∂u/∂y in two axes of space, ∇ × (u, v, w) in three.

    Arguments:
        fields: the components of the vector, one per axis.
        axes: the axes that they belong to; None: all but t.

    Returns:
        A field in two axes, three fields in three.
    """
    _check_vector(fields, "curl")
    along = _space(fields[0], axes, "curl")
    if len(fields) != len(along) or len(along) not in (2, 3):
        raise InputError(
            f"curl: {len(fields)} components for the axes {listed(along)}: give two or three, one"
            " per axis"
        )
    if len(along) == 2:
        (u, v), (x, y) = fields, along
        return v.d(**{x: 1}) - u.d(**{y: 1})
    (u, v, w), (x, y, z) = fields, along
    return (
        w.d(**{y: 1}) - v.d(**{z: 1}),
        u.d(**{z: 1}) - w.d(**{x: 1}),
        v.d(**{x: 1}) - u.d(**{y: 1}),
    )


def laplacian(field: Field | Sequence[Field], axes: Sequence[str] | None = None) -> Any:
    """The Laplacian, Δu = ∂²u/∂x² + ∂²u/∂y² + ….

    Arguments:
        field: u; of a vector every component by itself.
        axes: along which axes; None: all but t.

    Returns:
        A field; of a vector one per component.
    """
    if not isinstance(field, Field):
        return tuple(laplacian(component, axes) for component in field)
    return sum(field.d(**{axis: 2}) for axis in _space(field, axes, "laplacian"))
