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

from ..core import InputError, add_up, fits, listed, nearest, with_types_of
from ..domain import Lattice, Place, Points
from ..equations import (
    ExtraInputs,
    Field,
    Inputs,
    Polynomial,
    Problem,
    Term,
    Tracer,
    values_name,
    values_of,
)
from ..networks import (
    SPINN,
    PointwiseNetwork,
    SeparableNetwork,
    SeparableSource,
    Source,
    is_thin,
    sources,
)
from ..recipe import Recipe
from ..separable import Key, Square, blocks, mean_square, mean_squares, product_columns, separate
from .model import Model, Part
from .without_lattice import face_squares, face_sums, outward

GRAM_ADVANTAGE = 3.0
LAUNCH = 1e5  # operations on a lattice that take no longer than starting them
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
            t.name: t.condition.weight * (recipe.emphasis if t.condition.points is None else 1.0)
            for t in problem.terms
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

    def _scattered_face(self, key: PRNGKeyArray, number: Array, term: Term, state: Any) -> Place:
        """Scattered points on the faces of an axis: the lower ones, then the same ones on the upper face."""
        if term.fixed is not None:
            return term.fixed
        if (found := self._boundary(key, number, term)) is not None:
            return found
        assert term.axis is not None  # only points have none, and they are fixed
        box, dtype = self.problem.box, self.recipe.dtype
        faces = [
            self.sampler.points(key, number, box, self.counts, {term.axis: end}, dtype, state)
            for end in box.ends(term.axis, term.sides)
        ]
        joined = tuple(jnp.concatenate(parts) for parts in zip(*(f.coordinates for f in faces)))
        weights = [f.weights for f in faces if f.weights is not None]
        return Points(box.axes, joined, jnp.concatenate(weights) if weights else None)

    def _boundary(self, key: PRNGKeyArray, number: Array, term: Term) -> Place | None:
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

    def told(self, known: Inputs, place: Place) -> dict[str, Array]:
        """The coordinates of a place, as the functions of the problem are told them."""
        found, shape = known.coordinates(place), self.problem.shape
        return found if shape is None or _on_boundary(place) else shape.told(found)

    def _inside(self, place: Place, values: Array, where: Array | None = None) -> Array:
        """Values whose mean square over a place is that over its part inside the problem's shape (all of its boundary is), and over that
        `where` something is true."""
        shape = self.problem.shape
        masks = [] if shape is None or _on_boundary(place) else [shape.mask(place.arrays())]
        masks += [] if where is None else [where]
        if not masks:
            return values
        mask = jnp.broadcast_to(functools.reduce(jnp.logical_and, masks), values.shape)
        share = place.mean(mask.astype(values.dtype))
        return jnp.where(mask, values, 0.0) / jnp.sqrt(jnp.maximum(share, 1e-12))

    @property
    def needs(self) -> list[frozenset[Key]]:
        return [self.problem.needs, *(term.needs for term in self.problem.terms)]

    def sources(
        self, network: SeparableNetwork | PointwiseNetwork, places: tuple[Place, ...]
    ) -> list[Source]:
        merges = [self.problem.multiplied, *([term.needs] for term in self.problem.terms)]
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
        needs, merges = [self.problem.needs], [self.problem.multiplied]
        (source,) = sources(model.network, (place,), needs, merges, self.problem.asked)
        return self._squared(source, place, Inputs(model.unknowns, given))

    def _squared(self, source: Source, place: Place, known: Inputs) -> dict[str, Array]:
        expressions = self.problem.expressions(source, self.told(known, place), known.unknowns)
        return {
            name: self.residual(name, e, source, place, known).values ** 2
            for name, e in expressions.items()
        }

    def _stacked(self, found: Mapping[str, Array]) -> Float[Array, " terms"]:
        return jnp.stack([found[name] for name in self.names])

    def _conditions(
        self, places: tuple[Place, ...], others: Sequence[Source], known: Inputs
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
        self, name: str, expression: Any, source: Source, place: Place, known: Inputs
    ) -> Array:
        """The mean of a residual's square: without a lattice where it is separable and that is less work."""
        if (
            isinstance(place, Lattice)
            and (factors := self._factors(name, expression, source, place, known)) is not None
        ):
            return mean_square(factors, place.weights).astype(self.recipe.dtype)
        return place.mean(self.residual(name, expression, source, place, known).values ** 2)

    def residual(
        self, name: str, expression: Any, source: Source, place: Place, known: Inputs
    ) -> Part:
        values = self._inside(place, values_of(expression, source.shape, name).astype(source.dtype))
        density = self._density(place, known)
        if density is not None:
            values = values * jnp.sqrt(density).astype(values.dtype)
        return Part(name, place, values, 1.0)

    def _density(self, place: Place, known: Inputs) -> Array | None:
        """What residuals count at the points of a place, where the weighting says that."""
        state = known.given.get(WEIGHTING)
        return self.recipe.weighting.density(state, self.problem.box, place)

    def _factors(
        self, name: str, expression: Any, source: Source, place: Lattice, known: Inputs
    ) -> list[Array] | None:
        """A residual's factors per axis, if it is of degree two at most, its known part separable, and the sum short enough
        to pay."""
        if (
            not isinstance(expression, Field)
            or expression._part is None
            or not self._squarable(source, place)
            or self._density(place, known) is not None
        ):
            return None
        polynomial, varying = Polynomial(expression._terms) + expression._part, expression._varying
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

    def _squarable(self, source: Source, place: Place) -> bool:
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
        # measured on one NVIDIA H200: an operation on a lattice takes two to four times one on a Gram matrix, because the
        # lattice goes through memory several times
        return gram_work < GRAM_ADVANTAGE * lattice_work

    def _known_products(
        self, name: str, place: Lattice, known: Inputs
    ) -> Sequence[Sequence[Array]] | None:
        """The part of a residual that is given by coordinates alone, as a sum of products; None if it is no such sum."""
        tracer = Tracer(place.axes, place.shape, waits=is_thin)

        def plain(coordinates, unknowns):
            return self.problem.expressions(tracer, coordinates, unknowns)[name]._part.plain

        products = separate(
            plain, known.coordinates(place), known.unknowns, dimension=len(place.axes)
        )
        return None if tracer.opened else products  # an array made from u.value is no source term

    def total(self, terms: Float[Array, " terms"]) -> Array:
        return jnp.sum(terms * jnp.asarray(self.weights, terms.dtype))

    def _squares(
        self, term: Term, place: Place, source: Source, known: Inputs
    ) -> list[Square] | None:
        """A condition on faces as squares of sums of products, whose means add up to its term; None if it is no such thing."""
        if term.where is not None or not self._squarable(source, place):
            return None
        assert isinstance(source, SeparableSource)
        assert isinstance(place, Lattice)
        coordinates = known.coordinates(place)
        field = term.operator(self.problem.field_map(source), coordinates, known.unknowns)
        if not isinstance(field, Field):
            return None
        along = field.d(**{term.axis: 1}) if term.condition.jump or term.condition.mix[1] else None  # pyright: ignore[reportCallIssue]
        asked = [None if f is None else f._polynomial for f in (field, along)]
        if any(
            f is not None and (p is None or p.pairs or p.plain is not None)
            for f, p in zip((field, along), asked)
        ):
            return None
        sums = face_sums(term, place, source, *(None if p is None else p.terms for p in asked))
        target = None
        if not term.condition.jump:
            target = separate(
                lambda c, k: self._target(term, c, Inputs(k, known.given)),
                coordinates,
                known.unknowns,
                dimension=len(place.axes),
            )
            if target is None:
                return None
        number = sums[0][0].shape[1] + len(target or ())
        if not self._pays(
            2 * sum(place.shape) * number**2, float(np.prod(place.shape)) * number + LAUNCH
        ):
            return None
        return face_squares(term, place, sums, target or (), source.dtype)

    def _target(self, term: Term, coordinates: Mapping[str, Array], known: Inputs) -> Array:
        given = known.given.get(values_name(self.problem.terms.index(term)))
        return jnp.asarray(
            term.value(coordinates, known.unknowns) if given is None else given, self.recipe.dtype
        )

    def _condition(self, term: Term, place: Place, source: Source, known: Inputs) -> Array:
        # the weights of a table of values may be of a higher precision than the run
        parts = self.parts(term, place, source, known)
        return add_up(
            part.factor * part.place.mean(part.values**2).astype(part.values.dtype)
            for part in parts
        )

    def parts(self, term: Term, place: Place, source: Source, known: Inputs) -> list[Part]:
        """What a condition leaves, at the points of its place: two parts where a jump is asked for, else one."""
        coordinates = self.told(known, place)
        field = term.operator(self.problem.field_map(source), coordinates, known.unknowns)
        if term.condition.jump:
            along = field.d(**{term.axis: 1})  # pyright: ignore[reportCallIssue]
            return [self._jump(term, f, place) for f in (field, along)]
        value_part, normal_part = term.condition.mix
        values = 0.0
        if value_part:
            values = values_of(
                field * value_part if value_part != 1.0 else field, source.shape, term.name
            ).astype(source.dtype)
        if normal_part:
            values = values + normal_part * self._normal_derivative(term, field, place)
        where = None if term.where is None else term.where(known.coordinates(place))
        left = self._inside(place, values - self._target(term, coordinates, known), where)
        return [Part(term.name, place, left, float(max(1, len(term.sides))))]

    def _normal_derivative(self, term: Term, field: Field, place: Place) -> Array:
        if not term.boundary:
            return self._outward(term, place) * field.d(**{term.axis: 1})._values()  # pyright: ignore[reportCallIssue]
        assert isinstance(place, Points)
        assert place.normals is not None
        assert self.problem.shape is not None
        along = {
            axis: n for axis, n in zip(place.axes, place.normals) if axis in self.problem.shape.axes
        }
        return add_up(n * field.d(**{axis: 1})._values() for axis, n in along.items())

    def _outward(self, term: Term, place: Place) -> Array:
        """The sign of the outward normal: -1 on lower faces, 1 on upper ones."""
        signs = jnp.asarray(outward(term), self.recipe.dtype)
        if isinstance(place, Lattice):
            assert term.axis is not None  # only points have none
            return place.along(term.axis, signs)
        return jnp.repeat(signs, place.shape[0] // len(term.sides))

    def _jump(self, term: Term, field: Field, place: Place) -> Part:
        """What changes from the lower face to the upper one."""
        values = field._values()
        if isinstance(place, Lattice):
            lower = Lattice(
                weights={a: w for a, w in zip(place.axes, place.weights) if a != term.axis},
                **{
                    a: c[:1] if a == term.axis else c for a, c in zip(place.axes, place.coordinates)
                },
            )
            return Part(term.name, lower, jnp.diff(values, axis=place.axes.index(term.axis)), 1.0)
        half = values.shape[0] // 2
        lower = Points(
            place.axes,
            tuple(c[:half] for c in place.coordinates),
            None if place.weights is None else place.weights[:half],
        )
        return Part(term.name, lower, values[half:] - values[:half], 1.0)


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
    def _sources(self) -> list[Source]:
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
            inside, told = self._sources[0], loss.told(known, place)
            expressions = loss.problem.expressions(inside, told, known.unknowns)
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


def _on_boundary(place: Place) -> bool:
    """Whether a place is on the boundary of a shape: only these points have normals."""
    return isinstance(place, Points) and place.normals is not None


def _add(found: dict[str, Array], name: str, mean: Array) -> None:
    found[name] = found[name] + mean if name in found else mean


def _face(inside: Lattice, term: Term, ends: Mapping[tuple[str, str], Array]) -> Place:
    """The lattice of the inside with one axis at its ends. The arrays are the very same ones, so that `sources` runs the
    network on each coordinate once."""
    if term.fixed is not None:
        return term.fixed
    weights = {a: w for a, w in zip(inside.axes, inside.weights) if a != term.axis}
    return Lattice(
        weights=weights,
        **{a: ends[a, term.sides] if a == term.axis else inside[a] for a in inside.axes},
    )
