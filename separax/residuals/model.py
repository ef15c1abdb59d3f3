"""All that is trained."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..equations import Problem
from ..networks import PointwiseNetwork, SeparableNetwork
from ..recipe import Recipe


class Model(eqx.Module):
    """All that is trained: a network and the unknown coefficients of the equation."""

    network: SeparableNetwork | PointwiseNetwork
    unknowns: dict[str, Array]

    @classmethod
    def build(cls, problem: Problem, recipe: Recipe, key: PRNGKeyArray) -> Model:
        network = recipe.network.build(
            key,
            problem.box,
            len(problem.fields),
            problem.periodic,
            problem.walls,
            recipe.dtype,
            problem.lift,
        )
        return cls(network, {k: jnp.asarray(v, recipe.dtype) for k, v in problem.unknowns.items()})
