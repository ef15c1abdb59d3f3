"""Residuals linearised in the values of the fields and their derivatives, place by place: what
normal equations are made of."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..domain import Place, Points
from ..equations import ExtraInputs, Inputs, TabulatedValues
from ..networks import distinct, highest
from ..separable import AbstractValues, Contraction, Key, einsum, sum_of_products
from .loss import Loss
from .model import Model

Basis = Sequence[Float[Array, "components features combinations"]]  # per axis
Table = dict[Key, Array]  # values by derivative


@dataclass(frozen=True)
class Linear:
    """All parts of the loss on one place: what they leave at its points, and how that changes.

    Every array has the parts along its first axis, and counts as its part does: the sum of the
    squares of `residual` is their share of the loss.

    Attributes:
        place: a lattice or points.
        merge, core: how the axes meet.
        residual: at every point.
        derivatives: of the residual, by each derivative of the fields, and
        by_unknown: by each unknown.
        factors: per axis (components, orders, points, columns).
        features: per axis (components, orders, points, combinations of features of a basis).
    """

    place: Place
    merge: Contraction
    core: Array | None
    residual: Array
    derivatives: Table
    by_unknown: list[Array]
    factors: Sequence[Array]
    features: Sequence[Array] = ()


@dataclass(frozen=True)
class AtOnePlace:
    """All parts of the loss on one place, as a function of the fields and their derivatives there.

    Attributes:
        place: a lattice or points.
        cut: where its coordinates are among all of them, per axis.
        factors: as those of `Linear`.
        table: the derivatives of the fields.
        parts: from such a table and the unknowns to an array for each part.
    """

    place: Place
    cut: tuple[slice, ...]
    factors: Sequence[Array]
    table: Table
    parts: Callable[[Table, dict[str, Array]], list[Array]]


def linearised(
    loss: Loss,
    model: Model,
    places: Sequence[Place],
    given: ExtraInputs,
    basis: Basis | None = None,
) -> list[Linear]:
    """Every part of a loss, linearised where the model is.

    Arguments:
        loss: of a problem under a recipe.
        model: with a separable network.
        places: the inside, then those of the conditions.
        given: extra inputs of the loss.
        basis: combinations of features, where these are wanted.
    """
    network, unknowns = model.network.separable, model.unknowns
    features: Sequence[Array] = ()
    if basis is not None:
        coordinates, _ = distinct(places, network.dtype)
        sampled = network.features(coordinates, _order(loss))
        features = [einsum("conf,cfg->cong", f, b) for f, b in zip(sampled, basis)]

    def at(here: AtOnePlace) -> Linear:
        # a residual at a point depends on what the fields are there, so one cotangent of ones
        # yields its derivatives at all points
        residual, back = jax.vjp(lambda table: here.parts(table, unknowns), here.table)
        each = [
            back(
                [jnp.ones_like(v) if k == i else jnp.zeros_like(v) for k, v in enumerate(residual)]
            )
            for i in range(len(residual))
        ]

        def by_unknown(name: str) -> Array:
            value = unknowns[name]
            parts = lambda v: here.parts(here.table, unknowns | {name: v})  # noqa: E731
            return jnp.stack(jax.jvp(parts, (value,), (jnp.ones_like(value),))[1])

        return Linear(
            here.place,
            network.merge.contraction,
            network.core,
            jnp.stack(residual),
            {key: jnp.stack([one[key] for (one,) in each]) for key in here.table},
            [by_unknown(name) for name in unknowns],
            here.factors,
            [f[:, :, s] for f, s in zip(features, here.cut)],
        )

    return [at(here) for here in _by_place(loss, model, places, given)]


def residuals(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> Float[Array, " residuals"]:
    """What the model leaves anywhere, each value times the root of what it counts: the loss is the
    sum of their squares."""
    inputs = Inputs(model.unknowns, given)
    sources = model.network.sources(places, loss.needs)
    made = [
        weighted_parts(loss, i, place, source, inputs)
        for i, (place, source) in enumerate(zip(places, sources))
    ]
    return _joined(made)


def separable_residuals(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> Float[Array, " residuals"]:
    """The same for a separable network. The axes meet in the format itself, so that a large core
    is never written out as a sum of products."""
    each = _by_place(loss, model, places, given)
    return _joined([here.parts(here.table, model.unknowns) for here in each])


def _joined(made: Sequence[Sequence[Array]]) -> Array:
    return jnp.concatenate([jnp.ravel(values) for parts in made for values in parts])


def _order(loss: Loss) -> int:
    return max(highest(needs) for needs in loss.needs)


def _by_place(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> list[AtOnePlace]:
    """Conditions on the same face share what is computed there, and one compiled program."""
    network = model.network.separable
    merge, known = network.merge.contraction, network.known_part
    coordinates, slices = distinct(places, network.dtype)
    factors = network.columns(coordinates, _order(loss))
    known_factors = () if known is None else known.factors(coordinates, _order(loss))

    def at(members: Sequence[int]) -> AtOnePlace:
        place, cut = places[members[0]], tuple(slices[members[0]])
        own = [f[:, :, s] for f, s in zip(factors, cut)]
        needs = sorted({key for i in members for key in loss.needs[i]})
        table = {key: _merged(place, merge, network.core, own, key) for key in needs}
        if known is not None:  # no weight moves it, but the residuals have it
            fixed = [f[:, :, s] for f, s in zip(known_factors, cut)]
            products = sum_of_products(place.axes, known.rank)
            table = {k: v + _merged(place, products, None, fixed, k) for k, v in table.items()}

        def parts(table: Table, unknowns: dict[str, Array]) -> list[Array]:
            source, inputs = TabulatedValues(place, table), Inputs(unknowns, given)
            made = [p for i in members for p in weighted_parts(loss, i, place, source, inputs)]
            return [jnp.broadcast_to(part, place.shape) for part in made]

        return AtOnePlace(place, cut, own, table, parts)

    shared: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for i, cut in enumerate(slices):
        shared.setdefault(tuple((s.start, s.stop) for s in cut), []).append(i)
    return [at(members) for members in shared.values()]


def _merged(
    place: Place, merge: Contraction, core: Array | None, factors: Sequence[Array], key: Key
) -> Array:
    """A derivative's values from factors per axis."""
    component, orders = key
    columns = [f[component, o] for f, o in zip(factors, orders)]
    own = None if core is None else core[component]
    return (merge.at_points if isinstance(place, Points) else merge.on_lattice)(columns, own)


def weighted_parts(
    loss: Loss, number: int, place: Place, source: AbstractValues, inputs: Inputs
) -> list[Array]:
    """What the residuals (0) or a condition (from 1 on) leave, each value times the root of what it
    counts."""
    made = loss.parts(number, loss.at(number, place, source, inputs))
    weights = dict(zip(loss.names, loss.weights.tolist()))
    return [part.values * roots(part.place, weights[part.name] * part.factor) for part in made]


def roots(place: Place, weight: float) -> Array:
    """√ of what a point counts, so that the sum of squares is `weight` times their mean."""
    share = math.sqrt(weight / math.prod(place.shape))
    if isinstance(place, Points):
        weights = place.weights
        return share * (jnp.ones(()) if weights is None else jnp.sqrt(weights / jnp.mean(weights)))
    each = zip(place.axes, place.weights)
    counts = [place.along(a, w / jnp.mean(w)) for a, w in each if w is not None]
    one = jnp.ones((1,) * len(place.axes))
    return share * jnp.sqrt(functools.reduce(operator.mul, counts, one))


def join_places(linears: Sequence[Linear]) -> Linear:
    """Several places as one: the points of all of them, one by one."""
    axes, first = linears[0].place.axes, linears[0]

    def spread(arrays: Callable[[Linear], Sequence[Array]], along: int) -> list[Array]:
        """Arrays by axis at every point of every place and for every part, where they have one
        entry per point of the axis."""
        pieces = [[] for _ in axes]
        for one in linears:
            parts, shape = one.residual.shape[0], one.residual.shape[1:]
            at_points = isinstance(one.place, Points)
            for i, array in enumerate(arrays(one)):
                index = np.arange(shape[0]) if at_points else np.indices(shape)[i].ravel()
                pieces[i].append(jnp.take(array, np.tile(index, parts), along))
        return [jnp.concatenate(each, along) for each in pieces]

    def flat(arrays: Callable[[Linear], Array]) -> Array:
        """Values at the points of all places, in the same order, as one part."""
        each = (jnp.broadcast_to(arrays(one), one.residual.shape).ravel() for one in linears)
        return jnp.concatenate(list(each))[None]

    def derivative(key: Key) -> Array:
        return flat(lambda one: one.derivatives.get(key, jnp.zeros((), one.residual.dtype)))

    return Linear(
        Points(axes, tuple(spread(lambda one: one.place.coordinates, 0))),
        first.merge,
        first.core,
        flat(lambda one: one.residual),
        {key: derivative(key) for key in sorted({k for one in linears for k in one.derivatives})},
        [flat(lambda one, i=i: one.by_unknown[i]) for i in range(len(first.by_unknown))],
        spread(lambda one: one.factors, 2),
        spread(lambda one: one.features, 2),
    )
