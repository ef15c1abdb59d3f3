"""All that is trained."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..equations import Problem
from ..networks import AbstractNetwork
from ..recipe import Recipe


class Model(eqx.Module):
    """All that is trained: a network and the unknown coefficients of the equation."""

    network: AbstractNetwork
    unknowns: dict[str, Array]

    @classmethod
    def build(cls, problem: Problem, recipe: Recipe, key: PRNGKeyArray) -> Model:
        """A model with random weights.

        Arguments:
            problem: whose fields the network has.
            recipe: says which network.
            key: of the random numbers.
        """
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

    @classmethod
    def shapes(cls, problem: Problem, recipe: Recipe) -> Model:
        """A model with the shapes and types of its arrays instead of them."""
        return eqx.filter_eval_shape(lambda key: cls.build(problem, recipe, key), jax.random.key(0))

    def layers(self) -> Model:
        """The same arrays, in the same order: (stacks of) matrices of the body, and vectors."""
        dimensions = 3 if self.network.is_separable else 2

        def one(array: Array) -> Array:
            return array if array.ndim == dimensions else jnp.ravel(array)

        body = jax.tree.map(one, self.network.body)
        return eqx.tree_at(lambda m: m.network.body, jax.tree.map(jnp.ravel, self), body)
