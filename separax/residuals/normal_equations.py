"""Normal equations of a loss, without the matrix of all residuals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..domain import Place
from ..equations import ExtraInputs
from .jacobian import jacobians
from .linearise import Basis, Linear, linearised
from .loss import Loss
from .model import Model


class Jacobian(Protocol):
    """How what is left on one place changes with some coefficients."""

    def transposed(self, values: Array) -> Array:
        """Jᵀ times values at all points of the place."""
        ...

    def squared(self) -> Array:
        """Jᵀ J."""
        ...


class NormalEquations(eqx.Module):
    """½ |r + J δ|² = value / 2 + gradient · δ + ½ δ · matrix δ."""

    value: Float[Array, ""]
    gradient: Float[Array, " n"]
    matrix: Float[Array, "n n"]


def added_up(
    jacobians: Iterable[tuple[Jacobian, Linear]], own: int, extra: int, dtype: jnp.dtype
) -> NormalEquations:
    """The normal equations of all places together.

    Arguments:
        jacobians: of every place.
        own: the number of coefficients they are of.
        extra: the number of unknowns of the equation, which come last.
        dtype: of the numbers.
    """
    number, value = own + extra, jnp.zeros((), dtype)
    gradient, matrix = jnp.zeros(number, dtype), jnp.zeros((number, number), dtype)
    for jacobian, linear in jacobians:
        value = value + jnp.sum(linear.residual**2)
        gradient = gradient.at[:own].add(jacobian.transposed(linear.residual))
        matrix = matrix.at[:own, :own].add(jacobian.squared())
        for i, slope in enumerate(linear.by_unknown, own):
            column = jacobian.transposed(slope)
            gradient = gradient.at[i].add(jnp.sum(slope * linear.residual))
            matrix = matrix.at[:own, i].add(column).at[i, :own].add(column)
            for j, other in enumerate(linear.by_unknown, own):
                matrix = matrix.at[i, j].add(jnp.sum(slope * other))
    return NormalEquations(value, gradient, matrix)


def layer_equations(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs, basis: Basis
) -> NormalEquations:
    """The normal equations in the output layers: δ are coefficients of one axis after the other,
    each (components, combinations of features, columns); then the core, if there is one; then the
    unknowns of the equation."""
    network = model.network.separable
    axes = (b.shape[0] * b.shape[2] * rank for b, rank in zip(basis, network.merge.ranks))
    own = sum(axes) + (0 if network.core is None else network.core.size)
    linears = linearised(loss, model, places, given, basis)
    return added_up(jacobians(linears), own, len(model.unknowns), network.dtype)
