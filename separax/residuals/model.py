"""A model, which is all that is trained, and the terms of a loss that it leaves at one draw of
points: on a lattice, or without one where that is less work."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray

from ..core import add_up, tuning
from ..domain import Lattice, Place
from ..equations import (
    AbstractTerm,
    AtPlace,
    ExtraInputs,
    Field,
    Inputs,
    Polynomial,
    Problem,
    Tracer,
)
from ..networks import AbstractNetwork, is_thin
from ..recipe import Recipe
from ..separable import Square, blocks, mean_square, mean_squares, product_columns, separate

if TYPE_CHECKING:
    from .loss import Loss


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


# --- terms of a loss ------------------------------------------------------------------------------


class Evaluation:
    """The terms of a loss at one draw of points, each evaluated when it is asked for.

    It is what a weighting is told: see the attributes of `separax.recipe.Evaluation`.
    """

    def __init__(self, loss: Loss, model: Model, places: tuple[Place, ...], given: ExtraInputs):
        self._loss, self._model, self._places, self._given = loss, model, places, given
        self.box, self.counts, self.place = loss.problem.box, loss.counts, places[0]
        self.weights = dict(zip(loss.names, loss.weights))

    @functools.cached_property
    def _at(self) -> list[AtPlace]:
        """The fields inside, and where the conditions are."""
        sources = self._loss.sources(self._model.network, self._places)
        inputs = Inputs(self._model.unknowns, self._given)
        each = enumerate(zip(self._places, sources))
        return [self._loss.at(i, place, source, inputs) for i, (place, source) in each]

    @functools.cached_property
    def squares(self) -> dict[str, Array]:
        return self._loss.squared(self._at[0])

    @functools.cached_property
    def means(self) -> dict[str, Array]:
        at = self._at[0]
        if "squares" in vars(self):  # they have cost their lattice already
            found = {name: self.place.mean(each) for name, each in self.squares.items()}
        else:
            residuals = self._loss.residuals(at).items()
            found = {name: _mean_square(self._loss, name, e, at) for name, e in residuals}
        return found | self._conditions()

    def _conditions(self) -> dict[str, Array]:
        """The terms of conditions, by name."""
        loss, means, short = self._loss, [], []
        for number, (term, at) in enumerate(zip(loss.problem.terms, self._at[1:]), 1):
            if (squares := condition_squares(loss, term, at)) is not None:
                short += [(term.name, square) for square in squares]
                continue
            # the weights of a table of values may be of a higher precision than the run
            parts = loss.parts(number, at)
            squared = (p.factor * p.place.mean(p.values**2).astype(p.values.dtype) for p in parts)
            means.append((term.name, add_up(squared)))
        if short:  # all in the same few kernels: a small network's step is made of little else
            each = mean_squares([square for _, square in short]).astype(loss.recipe.dtype)
            means += [(name, mean) for (name, _), mean in zip(short, each)]
        found: dict[str, Array] = {}
        for name, mean in means:
            found[name] = found[name] + mean if name in found else mean
        return found

    @functools.cached_property
    def gradients(self) -> dict[str, Array]:
        arrays, static = eqx.partition(self._model, eqx.is_array)
        params, unravel = ravel_pytree(arrays)

        def terms(params: Array) -> Array:
            return self._loss(eqx.combine(unravel(params), static), self._places, self._given)

        each = jax.jacrev(terms)(jax.lax.stop_gradient(params))
        return dict(zip(self._loss.names, each))


# --- without a lattice --------------------------------------------------------------------------


def _pays(gram_work: float, lattice_work: float) -> bool:
    # a lattice goes through memory several times
    return gram_work < tuning.GRAM_ADVANTAGE * lattice_work


def _mean_square(loss: Loss, name: str, expression: Any, at: AtPlace) -> Array:
    """The mean of a residual's square."""
    factors = residual_factors(loss, name, expression, at)
    if factors is None:
        return at.place.mean(loss.residual(name, expression, at).values ** 2)
    assert isinstance(at.place, Lattice)
    return mean_square(factors, at.place.weights).astype(loss.recipe.dtype)


def residual_factors(loss: Loss, name: str, expression: Any, at: AtPlace) -> list[Array] | None:
    """A residual's factors per axis, if it is of degree two at most, its known part separable, and
    the sum short enough to pay."""
    if (
        not isinstance(expression, Field)
        or expression.known_polynomial is None
        or not loss.avoids_lattice(at)
        or loss.density(at) is not None
    ):
        return None
    polynomial = Polynomial(expression.terms) + expression.known_polynomial
    varying = expression.varying_terms
    of_one = all(sum(n > 1 for n in array.shape) <= 1 for array, _ in varying)
    if not (polynomial.terms or polynomial.pairs or varying) or not of_one:
        return None
    source, shape = at.source, at.place.shape
    products = [] if polynomial.plain is None else _known_products(loss, name, at)
    if products is None:
        return None
    ranks = [u.rank for u in source.separable]
    pairs = blocks(polynomial.pairs)
    # what a lattice would cost: a merge of every derivative that is multiplied, and one of the
    # linear part
    used = {key for pair in polynomial.pairs for key in pair}
    is_linear = bool(polynomial.terms or varying)
    linear = source.factors(polynomial.terms, varying) if is_linear else None
    width = linear[0].shape[1] if linear else 0
    inner = width + sum(ranks[component] for component, _ in used)
    number = width + len(products) + sum(block.size(ranks) for block in pairs)
    points = float(np.prod([float(n) for n in shape]))
    if not _pays(2 * sum(shape) * number**2, points * (inner + len(products))):
        return None
    squares = product_columns(source.separable, pairs) if pairs else [[] for _ in shape]
    known = [
        [jnp.broadcast_to(p[i], (n,)).astype(source.dtype)[:, None] for p in products]
        for i, n in enumerate(shape)
    ]
    return [
        jnp.concatenate([*((linear[i],) if linear else ()), *squares[i], *known[i]], 1)
        for i in range(len(shape))
    ]


def _known_products(loss: Loss, name: str, at: AtPlace) -> Sequence[Sequence[Array]] | None:
    """The part of a residual that is given by coordinates alone, as a sum of products; None if it
    is no such sum."""
    axes, shape = at.place.axes, at.place.shape
    tracer = Tracer(axes, shape, accepts=is_thin)

    def plain(coordinates: Mapping[str, Array], unknowns: Mapping[str, Array]) -> Array:
        found = loss.problem.expressions(tracer, coordinates, unknowns)[name]
        return found.known_polynomial.plain

    coordinates = at.inputs.coordinates(at.place)
    products = separate(plain, coordinates, at.unknowns, dimension=len(axes))
    # an array made from u.value is no source term
    return None if tracer.uses_plain_values else products


def condition_squares(loss: Loss, term: AbstractTerm, at: AtPlace) -> list[Square] | None:
    """A term as squares of sums of products, whose means add up to it; None if it is no such thing,
    or if a lattice is less work."""
    squares = term.squares(at) if loss.avoids_lattice(at) else None
    if squares is None:
        return None
    number, shape = squares[0][0][0].shape[1], at.place.shape
    lattice = float(np.prod(shape)) * number + tuning.LATTICE_START
    return squares if _pays(2 * sum(shape) * number**2, lattice) else None
