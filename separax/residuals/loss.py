"""The loss of a problem under a recipe: the squares of residuals inside the box, and of what
conditions leave on its faces.

    loss = Σ over its terms of  weight · mean of squares
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..core import InputError, fits, listed, nearest, with_types_of
from ..domain import Lattice, Place, Points
from ..equations import (
    AbstractTerm,
    AtPlace,
    ExtraInputs,
    Inputs,
    Part,
    Problem,
    values_name,
    values_of,
)
from ..networks import AbstractNetwork
from ..recipe import Recipe
from ..separable import AbstractValues, Key
from .model import Evaluation, Model

WEIGHTING = "weighting"  # among the extra inputs: the state of the recipe's weighting
MOST_BOUNDARY = 8192  # points on the boundary of a shape: each costs a pass of every axis' network


class Loss:
    """The loss of a problem under a recipe: `draw` makes points, calling it gives the terms there.

    A term is a mean of squares over its place; a condition on several faces is the sum of their
    means (the paper's convention for separable networks, kept for pointwise ones so that a weight
    means one thing).

    Attributes:
        names: of the terms, residuals first.
        weights: theirs.
        counts: points per axis.
    """

    def __init__(self, problem: Problem, recipe: Recipe):
        recipe.check(problem)
        self.problem, self.recipe = problem, recipe
        derivatives = {orders for needs in self.needs for _, orders in needs}
        with jax.ensure_compile_time_eval():  # losses on other points are made while one is traced
            recipe.network.check(problem.box, problem.periodic, len(problem.fields), derivatives)
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

    # --- points ----------------------------------------------------------------------------------

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
        box, dtype, terms = self.problem.box, self.recipe.dtype, self.problem.terms
        state = self.learned() if state is None else state
        if self.recipe.network.is_separable:
            inside = self.sampler.lattice(key, number, box, self.counts, dtype, state)
            ends = {
                (t.axis, t.sides): jnp.asarray(box.ends(t.axis, t.sides), dtype)
                for t in terms
                if t.axis
            }
            return inside, *(
                self._boundary(key, number, t) or _face(inside, t, ends) for t in terms
            )
        keys = jax.random.split(key, len(terms) + 1)
        inside = self.sampler.points(keys[0], number, box, self.counts, {}, dtype, state)
        return inside, *(self._points(k, number, t, state) for k, t in zip(keys[1:], terms))

    def _points(self, key: PRNGKeyArray, number: Array, term: AbstractTerm, state: Any) -> Place:
        """Scattered points of a term: on the faces of an axis the lower ones, then the same ones on
        the upper face."""
        if term.fixed is not None:
            return term.fixed
        if (found := self._boundary(key, number, term)) is not None:
            return found
        box, counts, dtype = self.problem.box, self.counts, self.recipe.dtype
        if term.axis is None:
            return self.sampler.points(key, number, box, counts, {}, dtype)
        faces = [
            self.sampler.points(key, number, box, counts, {term.axis: end}, dtype, state)
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
        # the boundary extends along the other axes, too
        others = math.prod(n for axis, n in self.counts.items() if axis not in shape.axes)
        count = min(others * (8 * most if len(shape.axes) < 3 else most**2), MOST_BOUNDARY)
        drawn = self.sampler.every is not None
        own = jax.random.fold_in(key, 1 + self.problem.terms.index(term)) if drawn else None
        return shape.draw(own, number, count, self.recipe.dtype)

    # --- terms -----------------------------------------------------------------------------------

    @property
    def needs(self) -> list[frozenset[Key]]:
        """The derivatives of the residuals, and of every condition."""
        return [self.problem.derivatives, *(term.derivatives for term in self.problem.terms)]

    def sources(self, network: AbstractNetwork, places: tuple[Place, ...]) -> list[AbstractValues]:
        """The values of the fields inside and at the place of every condition."""
        own = ([term.derivatives] for term in self.problem.terms)
        merges = [self.problem.factors_of_products, *own]
        return network.sources(places, self.needs, merges, self.problem.asked)

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

    def total(self, terms: Float[Array, " terms"]) -> Array:
        """The loss, of its terms."""
        return jnp.sum(terms * jnp.asarray(self.weights, terms.dtype))

    def _stacked(self, found: Mapping[str, Array]) -> Float[Array, " terms"]:
        return jnp.stack([found[name] for name in self.names])

    def squares(self, model: Model, place: Place, given: ExtraInputs) -> dict[str, Array]:
        """The squared residuals by name at points inside."""
        needs, merges = [self.problem.derivatives], [self.problem.factors_of_products]
        (source,) = model.network.sources((place,), needs, merges, self.problem.asked)
        return self.squared(self.at(0, place, source, Inputs(model.unknowns, given)))

    # --- at one place ----------------------------------------------------------------------------

    def at(self, number: int, place: Place, source: AbstractValues, inputs: Inputs) -> AtPlace:
        """The fields at a place, as the residuals (0) or a condition (from 1 on) are given them."""
        tabulated = inputs.given.get(values_name(number - 1)) if number else None
        return AtPlace(self.problem, place, source, inputs, tabulated)

    def residuals(self, at: AtPlace) -> dict[str, Any]:
        """The residuals by name, as fields or arrays."""
        return self.problem.expressions(at.source, at.coordinates, at.unknowns)

    def residual(self, name: str, expression: Any, at: AtPlace) -> Part:
        """What a residual is at the points of a place."""
        values = values_of(expression, at.source.shape, name).astype(at.source.dtype)
        values = at.inside(values)
        density = self.density(at)
        if density is not None:
            values = values * jnp.sqrt(density).astype(values.dtype)
        return Part(name, at.place, values, 1.0)

    def squared(self, at: AtPlace) -> dict[str, Array]:
        """The squares of all residuals at the points of a place."""
        each = self.residuals(at).items()
        return {name: self.residual(name, e, at).values ** 2 for name, e in each}

    def parts(self, number: int, at: AtPlace) -> list[Part]:
        """What the residuals (0) or a condition (from 1 on) leave at the points of a place."""
        if number:
            return self.problem.terms[number - 1].parts(at)
        return [self.residual(name, e, at) for name, e in self.residuals(at).items()]

    def density(self, at: AtPlace) -> Array | None:
        """What residuals count at the points of a place, where the weighting says that."""
        state = at.inputs.given.get(WEIGHTING)
        return self.recipe.weighting.density(state, self.problem.box, at.place)

    def avoids_lattice(self, at: AtPlace) -> bool:
        """Whether squares of sums of products may be had from Gram matrices here."""
        # float64 runs go where squares of float64 cannot follow, and float32 ones need them: both
        # keep the lattice otherwise
        precise = self.recipe.dtype == jnp.float32 and jnp.result_type(float) == jnp.float64
        several = isinstance(at.place, Lattice) and len(at.place.axes) > 1
        return bool(at.source.separable) and several and self.problem.shape is None and precise


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


def _face(inside: Lattice, term: AbstractTerm, ends: Mapping[tuple[str, str], Array]) -> Place:
    """The lattice of the inside, with one axis at its ends for a term on faces. The arrays are the
    very same ones, so that the network is run on each coordinate once."""
    if term.fixed is not None:
        return term.fixed
    if term.axis is None:
        return inside
    weights = {a: w for a, w in zip(inside.axes, inside.weights) if a != term.axis}
    coordinates = {a: ends[a, term.sides] if a == term.axis else inside[a] for a in inside.axes}
    return Lattice(weights=weights, **coordinates)
