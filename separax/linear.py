"""Every part of a loss linearised in the values of the fields and their derivatives, place by place: what normal equations are made of."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .domain import Points
from .fields import Key, Source
from .loss import Given, Known, Loss, Model
from .merges import Merge, einsum, plain
from .networks import SeparableNetwork
from .separable import add_up
from .sources import Place, Rows, highest

Basis = Sequence[Float[Array, "components features combinations"]]  # per axis


class Table:
    """A source of values that were computed before: one array per derivative."""

    def __init__(self, place: Place, values: Mapping[Key, Array]):
        self.axes, self.shape, self.table = place.axes, place.shape, values
        self.dtype = next(iter(values.values())).dtype

    def values(self, terms: Mapping[Key, Any]) -> Array:
        return add_up(c * self.table[key] for key, c in terms.items())


@dataclass(frozen=True)
class Linear:
    """All parts of the loss on one place: what is left at its points, and how that changes with every derivative and unknown.

    Every array has the parts along its first axis and counts as its part does: the sum of squares is their share of the loss.
    """

    place: Place
    merge: Merge
    core: Array | None
    left: Array
    slopes: dict[Key, Array]
    unknowns: list[Array]
    features: Sequence[Array]  # per axis: (components, orders, points, combinations of features)
    factors: Sequence[Array]  # per axis: (components, orders, points, columns)


def linearised(loss: Loss, model: Model, places: Sequence[Place], given: Given, basis: Basis | None = None) -> list[Linear]:
    """Every part of a loss, linearised where the model is; the features combined to those of a basis, if one is given."""
    network = model.network
    assert isinstance(network, SeparableNetwork)  # a recipe whose optimiser needs this has no other
    rows = [Rows() for _ in network.axes]
    cuts = [tuple((s.start, s.stop) for s in (r.add(c) for r, c in zip(rows, place.coordinates))) for place in places]
    order = max(highest(needs) for needs in loss.needs)
    coordinates = tuple(r.all(network.body.out.weight.dtype) for r in rows)
    features = network.features(coordinates, order)
    known = None if network.lift is None else network.lift.jets(coordinates, order)
    found: list[Linear] = []
    # conditions on the same face share what is computed there, and one compiled program
    for cut in dict.fromkeys(cuts):
        members = [i for i, other in enumerate(cuts) if other == cut]
        place = places[members[0]]
        here = [f[:, :, slice(*s)] for f, s in zip(features, cut)]
        factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(here, network.coefficients)]
        needs = sorted({key for i in members for key in loss.needs[i]})
        table = {key: _merged(place, network.merge, network.core, factors, key) for key in needs}
        if known is not None:  # no weight moves it, but the residuals have it
            lifted = [f[:, :, slice(*s)] for f, s in zip(known, cut)]
            products = plain(len(lifted), lifted[0].shape[-1])
            table = {key: values + _merged(place, products, None, lifted, key) for key, values in table.items()}

        def values(table: dict[Key, Array], unknowns: dict[str, Array], place: Place = place, members: Sequence[int] = members):
            return jnp.stack(
                [part for i in members for part in parts(loss, i, place, Table(place, table), Known(unknowns, given))]
            )

        def along(table_step: Any, unknown_step: Any, values: Any = values, table: Any = table) -> Array:
            return jax.jvp(values, (table, model.unknowns), (table_step, unknown_step))[1]

        still, fixed = jax.tree.map(jnp.zeros_like, table), jax.tree.map(jnp.zeros_like, model.unknowns)
        slopes = {key: along(still | {key: jnp.ones_like(table[key])}, fixed) for key in needs}
        unknowns = [along(still, fixed | {k: jnp.ones_like(v)}) for k, v in model.unknowns.items()]
        left = values(table, model.unknowns)
        turned = here if basis is None else features_in(here, basis)
        found.append(Linear(place, network.merge, network.core, left, slopes, unknowns, turned, factors))
    return found


def parts(loss: Loss, number: int, place: Place, source: Source, known: Known) -> list[Array]:
    """What is left of the residuals (0) or of a condition (from 1 on), each value times the root of what it counts."""
    if number == 0:
        expressions = loss.problem.expressions(source, known.coordinates(place), known.unknowns)
        made = [loss.residual(name, e, source, place) for name, e in expressions.items()]
    else:
        made = loss.parts(loss.problem.terms[number - 1], place, source, known)
    weights = dict(zip(loss.names, loss.weights.tolist()))
    return [part.values * roots(part.place, weights[part.name] * part.factor) for part in made]


def roots(place: Place, weight: float) -> Array:
    """√ of what a point counts, so that the sum of squares is `weight` times their mean."""
    share = math.sqrt(weight / math.prod(place.shape))
    if isinstance(place, Points):
        return share * (jnp.ones(()) if place.weights is None else jnp.sqrt(place.weights / jnp.mean(place.weights)))
    counts = [place.along(a, w / jnp.mean(w)) for a, w in zip(place.axes, place.weights) if w is not None]
    return share * jnp.sqrt(functools.reduce(operator.mul, counts, jnp.ones((1,) * len(place.axes))))


def features_in(features: Sequence[Array], basis: Basis) -> list[Array]:
    """Combinations of the features instead of the features."""
    return [einsum("conf,cfg->cong", f, b) for f, b in zip(features, basis)]


def _merged(place: Place, merge: Merge, core: Array | None, factors: Sequence[Array], key: Key) -> Array:
    """A derivative's values from factors (components, orders, points, columns) per axis."""
    component, orders = key
    columns = [f[component, o] for f, o in zip(factors, orders)]
    own = None if core is None else core[component]
    return merge.at_points(columns, own) if isinstance(place, Points) else merge.on_lattice(columns, own)
