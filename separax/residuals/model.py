"""All that is trained, and the parts of a term of the loss."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..domain import Place
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


@dataclass(frozen=True)
class Part:
    """A part of a term: what is left at the points of a place. The term is `factor` times the mean of its squares."""

    name: str
    place: Place
    values: Array
    factor: float
