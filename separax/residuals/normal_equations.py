"""The normal equations of a loss in the output layers, without the matrix of all residuals: see `separax.jacobian`."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..domain import Place
from ..equations import ExtraInputs
from ..networks import SeparableNetwork
from .jacobian import jacobians
from .linearise import Basis, linearised
from .loss import Loss
from .model import Model


class NormalEquations(eqx.Module):
    """½ |r + J δ|² = value / 2 + gradient · δ + ½ δ · matrix δ. δ are coefficients of one axis after the other, each (components,
    combinations of features, columns); then the core, if there is one; then the unknowns of the equation."""

    value: Float[Array, ""]
    gradient: Float[Array, " n"]
    matrix: Float[Array, "n n"]


def layer_equations(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs, basis: Basis
) -> NormalEquations:
    """The normal equations of all parts together, in the coefficients of a basis per axis."""
    network = model.network
    assert isinstance(network, SeparableNetwork)
    own, extra = sum(_sizes(network, basis)), len(model.unknowns)
    dtype = network.body.out.weight.dtype
    value = jnp.zeros((), dtype)
    gradient, matrix = jnp.zeros(own + extra, dtype), jnp.zeros((own + extra, own + extra), dtype)
    for jacobian, linear in jacobians(linearised(loss, model, places, given, basis)):
        g, m = jacobian.transposed(linear.left), jacobian.squared()
        value = value + jnp.sum(linear.left**2)
        gradient = gradient.at[:own].add(g)
        matrix = matrix.at[:own, :own].add(m)
        for i, slope in enumerate(linear.unknowns):
            column = jacobian.transposed(slope)
            gradient = gradient.at[own + i].add(jnp.sum(slope * linear.left))
            matrix = matrix.at[:own, own + i].add(column).at[own + i, :own].add(column)
            for j, other in enumerate(linear.unknowns):
                matrix = matrix.at[own + i, own + j].add(jnp.sum(slope * other))
    return NormalEquations(value, gradient, matrix)


def _sizes(network: SeparableNetwork, basis: Basis) -> tuple[int, ...]:
    """How many coefficients a step has in each of its blocks: one per axis, one for the core."""
    axes = [b.shape[0] * b.shape[2] * rank for b, rank in zip(basis, network.merge.ranks)]
    return (*axes, *([] if network.core is None else [network.core.size]))
