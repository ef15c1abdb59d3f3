"""Every part of a loss linearised in the values of the fields and their derivatives, place by place: what normal equations are made of."""

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

from ..domain import Place, Points, Rows
from ..equations import ExtraInputs, Inputs, TabulatedValues
from ..networks import SeparableNetwork, highest
from ..separable import AbstractValues, Format, Key, einsum, sum_of_products
from .loss import Loss
from .model import Model

Basis = Sequence[Float[Array, "components features combinations"]]  # per axis


@dataclass(frozen=True)
class Linear:
    """All parts of the loss on one place: what is left at its points, and how that changes with every derivative and unknown.

    Every array has the parts along its first axis and counts as its part does: the sum of squares is their share of the loss.
    """

    place: Place
    merge: Format
    core: Array | None
    left: Array
    slopes: dict[Key, Array]
    unknowns: list[Array]
    features: Sequence[Array]  # per axis: (components, orders, points, combinations of features)
    factors: Sequence[Array]  # per axis: (components, orders, points, columns)


@dataclass(frozen=True)
class Here:
    """All parts of the loss on one place as a function of the fields and their derivatives there."""

    place: Place
    features: Sequence[Array]
    factors: Sequence[Array]
    table: dict[Key, Array]
    values: Callable[
        [dict[Key, Array], dict[str, Array]], list[Array]
    ]  # of a table and the unknowns: one array per part


def linearised(
    loss: Loss,
    model: Model,
    places: Sequence[Place],
    given: ExtraInputs,
    basis: Basis | None = None,
) -> list[Linear]:
    """Every part of a loss, linearised where the model is; the features combined to those of a basis, if one is given."""
    network = model.network
    assert isinstance(network, SeparableNetwork)

    def at(here: Here) -> Linear:
        # a residual at a point depends on what the fields are there, so one cotangent of ones yields the slopes at all points
        left, back = jax.vjp(lambda table: here.values(table, model.unknowns), here.table)
        ones = [
            [jnp.ones_like(v) if k == i else jnp.zeros_like(v) for k, v in enumerate(left)]
            for i in range(len(left))
        ]
        each = [back(one)[0] for one in ones]
        slopes = {key: jnp.stack([one[key] for one in each]) for key in here.table}
        unknowns = [
            jnp.stack(
                jax.jvp(
                    lambda v, k=k: here.values(here.table, model.unknowns | {k: v}),
                    (x,),
                    (jnp.ones_like(x),),
                )[1]
            )
            for k, x in model.unknowns.items()
        ]
        turned = here.features if basis is None else features_in(here.features, basis)
        return Linear(
            here.place,
            network.merge,
            network.core,
            jnp.stack(left),
            slopes,
            unknowns,
            turned,
            here.factors,
        )

    return [at(here) for here in _by_place(loss, model, places, given)]


def separable_residuals(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> Float[Array, " residuals"]:
    """All that is left anywhere, as `separax.weights.residuals` has it for every kind of network; here the axes meet in the merge itself, so that
    a large core is never written out as a sum of products."""
    made = [
        here.values(here.table, model.unknowns) for here in _by_place(loss, model, places, given)
    ]
    return jnp.concatenate([jnp.ravel(values) for parts in made for values in parts])


def _by_place(loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs) -> list[Here]:
    """Conditions on the same face share what is computed there, and one compiled program."""
    network = model.network
    assert isinstance(network, SeparableNetwork)  # a recipe whose optimiser needs this has no other
    rows = [Rows() for _ in network.axes]
    cuts = [
        tuple((s.start, s.stop) for s in (r.add(c) for r, c in zip(rows, place.coordinates)))
        for place in places
    ]
    order = max(highest(needs) for needs in loss.needs)
    coordinates = tuple(r.all(network.body.out.weight.dtype) for r in rows)
    features = network.features(coordinates, order)
    lifts = None if network.lift is None else network.lift.jets(coordinates, order)

    def at(cut: tuple[tuple[int, int], ...], members: Sequence[int]) -> Here:
        place, here = places[members[0]], [f[:, :, slice(*s)] for f, s in zip(features, cut)]
        factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(here, network.coefficients)]
        needs = sorted({key for i in members for key in loss.needs[i]})
        table = {key: _merged(place, network.merge, network.core, factors, key) for key in needs}
        if lifts is not None:  # no weight moves it, but the residuals have it
            lifted = [f[:, :, slice(*s)] for f, s in zip(lifts, cut)]
            products = sum_of_products(len(lifted), lifted[0].shape[-1])
            table = {
                key: values + _merged(place, products, None, lifted, key)
                for key, values in table.items()
            }

        def values(table: dict[Key, Array], unknowns: dict[str, Array]) -> list[Array]:
            source, known = TabulatedValues(place, table), Inputs(unknowns, given)
            made = [part for i in members for part in weighted_parts(loss, i, place, source, known)]
            return [jnp.broadcast_to(part, place.shape) for part in made]

        return Here(place, here, factors, table, values)

    shared = {cut: [i for i, other in enumerate(cuts) if other == cut] for cut in cuts}
    return [at(cut, members) for cut, members in shared.items()]


def join_places(linears: Sequence[Linear]) -> Linear:
    """Several places as one: the points of all of them, one by one."""
    axes, first = linears[0].place.axes, linears[0]

    def spread(arrays: Callable[[Linear], Sequence[Array]], along: int) -> list[Array]:
        """Arrays by axis at every point of every place and for every part, where they have one entry per point of the axis."""
        pieces = [[] for _ in axes]
        for one in linears:
            parts, shape = one.left.shape[0], one.left.shape[1:]
            for i, array in enumerate(arrays(one)):
                index = (
                    np.arange(shape[0])
                    if isinstance(one.place, Points)
                    else np.indices(shape)[i].ravel()
                )
                pieces[i].append(jnp.take(array, np.tile(index, parts), along))
        return [jnp.concatenate(each, along) for each in pieces]

    def flat(arrays: Callable[[Linear], Array]) -> Array:
        """Values at the points of all places, in the same order, as one part."""
        return jnp.concatenate(
            [jnp.broadcast_to(arrays(one), one.left.shape).ravel() for one in linears]
        )[None]

    keys = sorted({key for one in linears for key in one.slopes})
    return Linear(
        Points(axes, tuple(spread(lambda one: one.place.coordinates, 0))),
        first.merge,
        first.core,
        flat(lambda one: one.left),
        {
            key: flat(lambda one, key=key: one.slopes.get(key, jnp.zeros((), one.left.dtype)))
            for key in keys
        },
        [flat(lambda one, i=i: one.unknowns[i]) for i in range(len(first.unknowns))],
        spread(lambda one: one.features, 2),
        spread(lambda one: one.factors, 2),
    )


def weighted_parts(
    loss: Loss, number: int, place: Place, source: AbstractValues, known: Inputs
) -> list[Array]:
    """What is left of the residuals (0) or of a condition (from 1 on), each value times the root of what it counts."""
    if number == 0:
        expressions = loss.expressions(loss.at(place, source, known))
        made = [loss.residual(name, e, source, place, known) for name, e in expressions.items()]
    else:
        made = loss.parts(loss.problem.terms[number - 1], place, source, known)
    weights = dict(zip(loss.names, loss.weights.tolist()))
    return [part.values * roots(part.place, weights[part.name] * part.factor) for part in made]


def roots(place: Place, weight: float) -> Array:
    """√ of what a point counts, so that the sum of squares is `weight` times their mean."""
    share = math.sqrt(weight / math.prod(place.shape))
    if isinstance(place, Points):
        return share * (
            jnp.ones(())
            if place.weights is None
            else jnp.sqrt(place.weights / jnp.mean(place.weights))
        )
    counts = [
        place.along(a, w / jnp.mean(w)) for a, w in zip(place.axes, place.weights) if w is not None
    ]
    return share * jnp.sqrt(
        functools.reduce(operator.mul, counts, jnp.ones((1,) * len(place.axes)))
    )


def features_in(features: Sequence[Array], basis: Basis) -> list[Array]:
    """Combinations of the features instead of the features."""
    return [einsum("conf,cfg->cong", f, b) for f, b in zip(features, basis)]


def _merged(
    place: Place, merge: Format, core: Array | None, factors: Sequence[Array], key: Key
) -> Array:
    """A derivative's values from factors (components, orders, points, columns) per axis."""
    component, orders = key
    columns = [f[component, o] for f, o in zip(factors, orders)]
    own = None if core is None else core[component]
    return (
        merge.at_points(columns, own)
        if isinstance(place, Points)
        else merge.on_lattice(columns, own)
    )
