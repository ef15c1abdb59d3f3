"""The named terms of a loss: residuals inside the box, conditions on its faces."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from ..core import InputError, add_up, fits, listed, nearest, tuning, with_types_of
from ..domain import Lattice, Place, Points
from ..equations import (
    AbstractTerm,
    AtPlace,
    ExtraInputs,
    Field,
    Inputs,
    Part,
    Polynomial,
    Problem,
    Tracer,
    values_name,
    values_of,
)
from ..networks import (
    SPINN,
    PointwiseNetwork,
    SeparableNetwork,
    SeparableSource,
    is_thin,
    sources,
)
from ..recipe import Recipe
from ..separable import (
    AbstractValues,
    Key,
    Square,
    blocks,
    mean_square,
    mean_squares,
    product_columns,
    separate,
)
from .model import Model

WEIGHTING = "weighting"  # among the extra inputs: the state of the recipe's weighting
MOST_BOUNDARY = 8192  # points on the boundary of a shape: each costs a pass of every axis' network


class Loss:
    """The loss of a problem under a recipe: `draw` makes points, calling it gives the terms at them.

    A term is a mean of squares over its place; a condition on several faces is the sum of their means (the paper's
    convention for separable networks, kept for pointwise ones so that a weight means one thing).
    """

    def __init__(self, problem: Problem, recipe: Recipe):
        recipe.check(problem)
        self.problem, self.recipe = problem, recipe
        self.counts = recipe.counts(problem.box)
        self.sampler = recipe.sampler.on(problem.periodic)
        self.names = problem.names
        if problem.shape is not None and any(term.boundary for term in problem.terms):
            problem.shape.boundary()  # found now: a compiled draw only picks from it
        # measured data are as uncertain as they are; only conditions are known exactly
        own = {
            t.name: t.weight * (1.0 if t.is_measured else recipe.emphasis) for t in problem.terms
        }
        self.weights = np.array([recipe.weights.get(n, 1.0) * own.get(n, 1.0) for n in self.names])

    def learned(self) -> Any:
        """The sampler's state before its first draw."""
        return self.sampler.init(self.problem.box, self.counts, self.recipe.dtype)

    def draw(self, key: PRNGKeyArray, number: Array, state: Any = None) -> tuple[Place, ...]:
        """The places of a draw: the inside, then one per condition.

        Arguments:
            key: of the run's random numbers.
            number: of the draw.
            state: of the sampler; None: that before its first draw.
        """
        box, sampler, dtype = self.problem.box, self.sampler, self.recipe.dtype
        state = self.learned() if state is None else state
        if isinstance(self.recipe.network, SPINN):
            inside = sampler.lattice(key, number, box, self.counts, dtype, state)
            ends = {
                (t.axis, t.sides): jnp.asarray(box.ends(t.axis, t.sides), dtype)
                for t in self.problem.terms
                if t.axis
            }
            return inside, *(
                self._boundary(key, number, t) or _face(inside, t, ends) for t in self.problem.terms
            )
        keys = jax.random.split(key, len(self.problem.terms) + 1)
        inside = sampler.points(keys[0], number, box, self.counts, {}, dtype, state)
        return inside, *(
            self._scattered_face(k, number, term, state)
            for k, term in zip(keys[1:], self.problem.terms)
        )

    def _scattered_face(
        self, key: PRNGKeyArray, number: Array, term: AbstractTerm, state: Any
    ) -> Place:
        """Scattered points on the faces of an axis: the lower ones, then the same ones on the upper face."""
        if term.fixed is not None:
            return term.fixed
        if (found := self._boundary(key, number, term)) is not None:
            return found
        box, dtype = self.problem.box, self.recipe.dtype
        if term.axis is None:
            return self.sampler.points(key, number, box, self.counts, {}, dtype)
        faces = [
            self.sampler.points(key, number, box, self.counts, {term.axis: end}, dtype, state)
            for end in box.ends(term.axis, term.sides)
        ]
        joined = tuple(jnp.concatenate(parts) for parts in zip(*(f.coordinates for f in faces)))
        weights = [f.weights for f in faces if f.weights is not None]
        return Points(box.axes, joined, jnp.concatenate(weights) if weights else None)

    def _boundary(self, key: PRNGKeyArray, number: Array, term: AbstractTerm) -> Place | None:
        """Points on the boundary of the problem's shape, if that is where a term lives."""
        shape = self.problem.shape
        if not term.boundary or shape is None:
            return None
        most = max(self.counts[axis] for axis in shape.axes)
        others = math.prod(
            n for axis, n in self.counts.items() if axis not in shape.axes
        )  # the boundary extends along these, too
        count = min(others * (8 * most if len(shape.axes) < 3 else most**2), MOST_BOUNDARY)
        fixed = self.sampler.every is None
        return shape.draw(
            None if fixed else jax.random.fold_in(key, 1 + self.problem.terms.index(term)),
            number,
            count,
            self.recipe.dtype,
        )

    def at(
        self, place: Place, source: AbstractValues, known: Inputs, term: int | None = None
    ) -> AtPlace:
        """The fields at a place, as residuals, or the term of a number, are given them."""
        values = None if term is None else known.given.get(values_name(term))
        return AtPlace(self.problem, place, source, known, values)

    def expressions(self, at: AtPlace) -> dict[str, Any]:
        """The residuals by name, as fields or arrays."""
        return self.problem.expressions(at.source, at.coordinates, at.unknowns)

    @property
    def needs(self) -> list[frozenset[Key]]:
        return [self.problem.derivatives, *(term.derivatives for term in self.problem.terms)]

    def sources(
        self, network: SeparableNetwork | PointwiseNetwork, places: tuple[Place, ...]
    ) -> list[AbstractValues]:
        own = ([term.derivatives] for term in self.problem.terms)
        merges = [self.problem.factors_of_products, *own]
        return sources(network, places, self.needs, merges, self.problem.asked)

    def __call__(
        self, model: Model, places: tuple[Place, ...], given: ExtraInputs | None = None
    ) -> Float[Array, " terms"]:
        """The unweighted terms, in the order of `names`."""
        return self._stacked(Evaluation(self, model, places, given or {}).means)

    def weighed(
        self, model: Model, places: tuple[Place, ...], given: ExtraInputs, state: Any
    ) -> tuple[Float[Array, " terms"], Float[Array, " terms"], Any]:
        """The terms, the same with the factors of the weighting, and its next state."""
        evaluation: Any = Evaluation(self, model, places, {**given, WEIGHTING: state})
        weighting = self.recipe.weighting
        factors, after = weighting.weigh(state, evaluation)
        state = with_types_of(state, after, f"weighting: {type(weighting).__name__}")
        terms = self._stacked(evaluation.means)
        if not factors:
            return terms, terms, state
        means = dict(evaluation.means)
        for name, factor in factors.items():
            means[name] = _weighed(evaluation, name, jax.lax.stop_gradient(factor))
        return terms, self._stacked(means), state

    def squares(self, model: Model, place: Place, given: ExtraInputs) -> dict[str, Array]:
        """The squared residuals by name at points inside."""
        needs, merges = [self.problem.derivatives], [self.problem.factors_of_products]
        (source,) = sources(model.network, (place,), needs, merges, self.problem.asked)
        return self._squared(source, place, Inputs(model.unknowns, given))

    def _squared(self, source: AbstractValues, place: Place, known: Inputs) -> dict[str, Array]:
        expressions = self.expressions(self.at(place, source, known))
        return {
            name: self.residual(name, e, source, place, known).values ** 2
            for name, e in expressions.items()
        }

    def _stacked(self, found: Mapping[str, Array]) -> Float[Array, " terms"]:
        return jnp.stack([found[name] for name in self.names])

    def _conditions(
        self, places: tuple[Place, ...], others: Sequence[AbstractValues], known: Inputs
    ) -> dict[str, Array]:
        """The terms of conditions, by name."""
        found: dict[str, Array] = {}
        short: list[tuple[str, Square]] = []
        for term, place, source in zip(self.problem.terms, places[1:], others):
            squares = self._squares(term, place, source, known)
            if squares is None:
                _add(found, term.name, self._condition(term, place, source, known))
            else:
                short += [(term.name, square) for square in squares]
        if (
            short
        ):  # all faces in the same few kernels: a small network's step is made of little else
            for (name, _), mean in zip(short, mean_squares([square for _, square in short])):
                _add(found, name, mean.astype(self.recipe.dtype))
        return found

    def mean_square(
        self, name: str, expression: Any, source: AbstractValues, place: Place, known: Inputs
    ) -> Array:
        """The mean of a residual's square: without a lattice where it is separable and that is less work."""
        if (
            isinstance(place, Lattice)
            and (factors := self._factors(name, expression, source, place, known)) is not None
        ):
            return mean_square(factors, place.weights).astype(self.recipe.dtype)
        return place.mean(self.residual(name, expression, source, place, known).values ** 2)

    def residual(
        self, name: str, expression: Any, source: AbstractValues, place: Place, known: Inputs
    ) -> Part:
        values = values_of(expression, source.shape, name).astype(source.dtype)
        values = self.at(place, source, known).inside(values)
        density = self._density(place, known)
        if density is not None:
            values = values * jnp.sqrt(density).astype(values.dtype)
        return Part(name, place, values, 1.0)

    def _density(self, place: Place, known: Inputs) -> Array | None:
        """What residuals count at the points of a place, where the weighting says that."""
        state = known.given.get(WEIGHTING)
        return self.recipe.weighting.density(state, self.problem.box, place)

    def _factors(
        self, name: str, expression: Any, source: AbstractValues, place: Lattice, known: Inputs
    ) -> list[Array] | None:
        """A residual's factors per axis, if it is of degree two at most, its known part separable, and the sum short enough
        to pay."""
        if (
            not isinstance(expression, Field)
            or expression.known_polynomial is None
            or not self._squarable(source, place)
            or self._density(place, known) is not None
        ):
            return None
        polynomial = Polynomial(expression.terms) + expression.known_polynomial
        varying = expression.varying_terms
        of_one = all(sum(n > 1 for n in array.shape) <= 1 for array, _ in varying)
        if not (polynomial.terms or polynomial.pairs or varying) or not of_one:
            return None
        assert isinstance(source, SeparableSource)
        products = self._known_products(name, place, known) if polynomial.plain is not None else []
        if products is None:
            return None
        ranks = [u.rank for u in source.components]
        pairs = blocks(polynomial.pairs)
        # what a lattice would cost: a merge of every derivative that is multiplied, and one of the linear part
        used = {key for pair in polynomial.pairs for key in pair}
        linear = source.columns(polynomial.terms, varying) if polynomial.terms or varying else []
        width = linear[0].shape[1] if linear else 0
        inner = width + sum(ranks[component] for component, _ in used)
        number = width + len(products) + sum(block.size(ranks) for block in pairs)
        points = float(np.prod([float(n) for n in place.shape]))
        if not self._pays(2 * sum(place.shape) * number**2, points * (inner + len(products))):
            return None
        squares = product_columns(source.components, pairs) if pairs else [[] for _ in place.axes]
        return [
            jnp.concatenate(
                [
                    *((linear[i],) if linear else ()),
                    *squares[i],
                    *(jnp.broadcast_to(p[i], (n,)).astype(source.dtype)[:, None] for p in products),
                ],
                1,
            )
            for i, n in enumerate(place.shape)
        ]

    def _squarable(self, source: AbstractValues, place: Place) -> bool:
        """Whether squares of sums of products may be had from Gram matrices here, as far as that is not a matter of the sum."""
        if (
            not isinstance(source, SeparableSource)
            or not isinstance(place, Lattice)
            or len(place.axes) == 1
        ):
            return False
        # float64 runs go where squares of float64 cannot follow, and float32 ones need them: both keep the lattice otherwise
        return (
            self.problem.shape is None
            and self.recipe.dtype == jnp.float32
            and jnp.result_type(float) == jnp.float64
        )

    def _pays(self, gram_work: float, lattice_work: float) -> bool:
        # a lattice goes through memory several times
        return gram_work < tuning.GRAM_ADVANTAGE * lattice_work

    def _known_products(
        self, name: str, place: Lattice, known: Inputs
    ) -> Sequence[Sequence[Array]] | None:
        """The part of a residual that is given by coordinates alone, as a sum of products; None if it is no such sum."""
        tracer = Tracer(place.axes, place.shape, accepts=is_thin)

        def plain(coordinates, unknowns):
            return self.problem.expressions(tracer, coordinates, unknowns)[
                name
            ].known_polynomial.plain

        products = separate(
            plain, known.coordinates(place), known.unknowns, dimension=len(place.axes)
        )
        # an array made from u.value is no source term
        return None if tracer.uses_plain_values else products

    def total(self, terms: Float[Array, " terms"]) -> Array:
        return jnp.sum(terms * jnp.asarray(self.weights, terms.dtype))

    def _squares(
        self, term: AbstractTerm, place: Place, source: AbstractValues, known: Inputs
    ) -> list[Square] | None:
        """A term as squares of sums of products, whose means add up to it; None if it is no such
        thing, or if a lattice is less work."""
        if not self._squarable(source, place):
            return None
        squares = term.squares(self._at_term(term, place, source, known))
        if squares is None:
            return None
        number = squares[0][0][0].shape[1]
        lattice = float(np.prod(place.shape)) * number + tuning.LATTICE_START
        return squares if self._pays(2 * sum(place.shape) * number**2, lattice) else None

    def _condition(
        self, term: AbstractTerm, place: Place, source: AbstractValues, known: Inputs
    ) -> Array:
        # the weights of a table of values may be of a higher precision than the run
        parts = self.parts(term, place, source, known)
        return add_up(
            part.factor * part.place.mean(part.values**2).astype(part.values.dtype)
            for part in parts
        )

    def parts(
        self, term: AbstractTerm, place: Place, source: AbstractValues, known: Inputs
    ) -> list[Part]:
        """What a term leaves at the points of its place."""
        return term.parts(self._at_term(term, place, source, known))

    def _at_term(
        self, term: AbstractTerm, place: Place, source: AbstractValues, known: Inputs
    ) -> AtPlace:
        return self.at(place, source, known, self.problem.terms.index(term))


class Evaluation:
    """The terms of a loss at one draw of points, each evaluated when it is asked for.

    It is what a weighting is told: see the attributes of `separax.recipe.Evaluation`.
    """

    def __init__(self, loss: Loss, model: Model, places: tuple[Place, ...], given: ExtraInputs):
        self._loss, self._model, self._places, self._given = loss, model, places, given
        self.box, self.counts, self.place = loss.problem.box, loss.counts, places[0]
        self.weights = dict(zip(loss.names, loss.weights))
        self._known = Inputs(model.unknowns, given)

    @functools.cached_property
    def _sources(self) -> list[AbstractValues]:
        return self._loss.sources(self._model.network, self._places)

    @functools.cached_property
    def squares(self) -> dict[str, Array]:
        return self._loss._squared(self._sources[0], self.place, self._known)

    @functools.cached_property
    def means(self) -> dict[str, Array]:
        loss, place, known = self._loss, self.place, self._known
        if "squares" in vars(self):  # they have cost their lattice already
            found = {name: place.mean(each) for name, each in self.squares.items()}
        else:
            inside = self._sources[0]
            expressions = loss.expressions(loss.at(place, inside, known))
            found = {
                name: loss.mean_square(name, e, inside, place, known)
                for name, e in expressions.items()
            }
        return found | loss._conditions(self._places, self._sources[1:], known)

    @functools.cached_property
    def gradients(self) -> dict[str, Array]:
        arrays, static = eqx.partition(self._model, eqx.is_array)
        params, unravel = ravel_pytree(arrays)

        def terms(params: Array) -> Array:
            return self._loss(eqx.combine(unravel(params), static), self._places, self._given)

        each = jax.jacrev(terms)(jax.lax.stop_gradient(params))
        return dict(zip(self._loss.names, each))


def _weighed(evaluation: Evaluation, name: str, factor: Array) -> Array:
    """A term times a factor, or the mean of squares times one factor per point."""
    if name not in evaluation.means:
        raise InputError(
            f"weighting: there is no loss term {name!r}; the terms are {listed(evaluation.means)}."
            f"{nearest(name, evaluation.means)}"
        )
    if jnp.ndim(factor) == 0:
        return factor.astype(evaluation.means[name].dtype) * evaluation.means[name]
    if name not in evaluation.squares:
        raise InputError(
            f"weighting: the condition {name!r} was given factors of shape {factor.shape}: give it"
            " one number; only residuals have one per point"
        )
    squares = evaluation.squares[name]
    values = fits(factor.astype(squares.dtype), squares.shape, f"weighting: factors of {name!r}")
    return evaluation.place.mean(values * squares)


def _add(found: dict[str, Array], name: str, mean: Array) -> None:
    found[name] = found[name] + mean if name in found else mean


def _face(inside: Lattice, term: AbstractTerm, ends: Mapping[tuple[str, str], Array]) -> Place:
    """The lattice of the inside, with one axis at its ends for a term on faces. The arrays are the very same ones, so that `sources` runs the
    network on each coordinate once."""
    if term.fixed is not None:
        return term.fixed
    if term.axis is None:
        return inside
    weights = {a: w for a, w in zip(inside.axes, inside.weights) if a != term.axis}
    return Lattice(
        weights=weights,
        **{a: ends[a, term.sides] if a == term.axis else inside[a] for a in inside.axes},
    )
