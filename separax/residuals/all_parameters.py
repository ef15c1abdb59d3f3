"""The normal equations of a loss in all weights of a separable network, hidden layers too.

The factors of axis i depend on the weights θ_i of that axis' network alone, so a linearised residual changes with them by

    Σ_oj E_ioj(x₁ … x_d) ∂f_ij⁽ᵒ⁾(x_i) / ∂θ_i,

E being that of `separax.jacobian`. The Jacobian of the factors depends on one coordinate: it is a table of points × orders × rank by
weights. So here too the lattice meets E alone, and the tables enter afterwards, one axis at a time. Nothing is approximated.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..domain import Place, Points, Rows
from ..equations import ExtraInputs, Inputs
from ..networks import SPINN, Coordinates, SeparableNetwork, filled, highest, sources
from ..separable import einsum
from .jacobian import environments
from .linearise import Linear, linearised, weighted_parts
from .loss import Loss
from .model import Model
from .normal_equations import NormalEquations
from .output_layers import flat

Weights = Float[Array, "axes weights"]


def residuals(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> Float[Array, " residuals"]:
    """All that is left anywhere, each value times the root of what it counts: the loss is the sum of their squares."""
    known = Inputs(model.unknowns, given)
    found = sources(model.network, places, loss.needs)
    made = [
        weighted_parts(loss, i, place, source, known)
        for i, (place, source) in enumerate(zip(places, found))
    ]
    return jnp.concatenate([jnp.ravel(values) for part in made for values in part])


class Axes:
    """A separable network as a function of its weights, those of every axis in a row of their own."""

    def __init__(self, network: SeparableNetwork):
        arrays, self._static = eqx.partition(network.body, eqx.is_array)
        self.network = network
        self.weights: Weights = jax.vmap(lambda body: ravel_pytree(body)[0])(arrays)
        self._one = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], arrays))[1]

    def body(self, weights: Weights) -> SeparableNetwork:
        """The network with these weights."""
        return eqx.tree_at(
            lambda n: n.body, self.network, eqx.combine(jax.vmap(self._one)(weights), self._static)
        )

    def at(self, x: Float[Array, " axes"], order: int) -> tuple[Array, Callable[[Array], Weights]]:
        """The factors where each axis is at one coordinate, (axes, components, orders, rank), and what takes cotangents of them to
        weights. The rows do not know of each other, so one cotangent serves all axes."""

        def factors(weights: Weights) -> Array:
            return jnp.stack(self.body(weights).trained(tuple(x[:, None]), order))[:, :, :, 0]

        values, back = jax.vjp(factors, self.weights)
        return values, lambda cotangent: back(cotangent)[0]

    def tables(
        self, coordinates: Coordinates, order: int
    ) -> list[Float[Array, "points components orders rank weights"]]:
        """Per axis: how its factors change with its weights."""

        def at(x: Array) -> Array:
            values, back = self.at(x, order)
            units = jnp.eye(math.prod(values.shape[1:]), dtype=values.dtype).reshape(
                -1, *values.shape[1:]
            )
            made = jax.vmap(lambda unit: back(jnp.broadcast_to(unit, values.shape)))(units)
            return made.reshape(*values.shape[1:], *self.weights.shape)

        made = jax.vmap(at, 1)(jnp.stack(filled(coordinates)))
        return [made[: len(c), :, :, :, i] for i, c in enumerate(coordinates)]

    def order(self, unknowns: Sequence[str]) -> Array:
        """Where the numbers of a flat model stand among the rows of weights followed by the unknowns; beyond them all, if nowhere."""
        number = self.weights.size
        there = jnp.arange(number, dtype=float).reshape(self.weights.shape)
        nowhere = jax.tree.map(
            lambda a: jnp.full(a.shape, number + len(unknowns), float),
            eqx.filter(self.network, eqx.is_array),
        )
        network = eqx.tree_at(
            lambda n: n.body,
            nowhere,
            eqx.filter(Axes(_as_floats(self.network)).body(there).body, eqx.is_array),
        )
        return flat(
            Model(network, {k: jnp.asarray(float(number + i)) for i, k in enumerate(unknowns)})
        ).astype(int)


def _as_floats(network: SeparableNetwork) -> SeparableNetwork:
    return jax.tree.map(lambda a: a.astype(float) if eqx.is_array(a) else a, network)


def weight_equations(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> NormalEquations:
    """The normal equations in all numbers of a model, in the order of its flat vector."""
    assert isinstance(model.network, SeparableNetwork)  # others have no axes
    axes = Axes(model.network)
    own, extra, dtype = axes.weights.size, len(model.unknowns), axes.weights.dtype
    value = jnp.zeros((), dtype)
    # one more than there are, for numbers that no residual feels
    gradient, matrix = (
        jnp.zeros(own + extra + 1, dtype),
        jnp.zeros((own + extra + 1, own + extra + 1), dtype),
    )
    parts = linearised(loss, model, places, given)
    tables = _tables(
        axes, [linear.place for linear in parts], max(highest(needs) for needs in loss.needs)
    )
    for linear, known in zip(parts, tables):
        made, towards = (
            _on_points(axes, linear) if known is None else _on_lattice(axes, linear, known)
        )
        value = value + jnp.sum(linear.left**2)
        gradient = gradient.at[:own].add(towards(linear.left))
        matrix = matrix.at[:own, :own].add(made)
        for i, slope in enumerate(linear.unknowns):
            column = towards(slope)
            gradient = gradient.at[own + i].add(jnp.sum(slope * linear.left))
            matrix = matrix.at[:own, own + i].add(column).at[own + i, :own].add(column)
            for j, other in enumerate(linear.unknowns):
                matrix = matrix.at[own + i, own + j].add(jnp.sum(slope * other))
    order = axes.order(list(model.unknowns))
    return NormalEquations(value, gradient[order], matrix[order][:, order])


Towards = Callable[[Array], Array]  # values at all points of a place → Jᵀ times them


def _on_points(axes: Axes, linear: Linear) -> tuple[Array, Towards]:
    """At scattered points the Jacobian itself is small enough."""
    factors = linear.factors
    order = max(max(orders) for _, orders in linear.slopes)
    components, _, number, rank = factors[0].shape
    spread = jnp.zeros(
        (number, len(linear.left), len(factors), components, order + 1, rank), linear.left.dtype
    )
    for (component, orders), slope in linear.slopes.items():
        for i in range(len(factors)):
            others = [f[component, o] for k, (f, o) in enumerate(zip(factors, orders)) if k != i]
            rest = functools.reduce(operator.mul, others, jnp.ones((number, rank), slope.dtype))
            spread = spread.at[:, :, i, component, orders[i]].add(
                slope.T[..., None] * rest[:, None]
            )
    jacobian = jax.vmap(lambda x, each: jax.vmap(axes.at(x, order)[1])(each))(
        jnp.stack(linear.place.coordinates, 1), spread
    )
    flat = jacobian.reshape(linear.left.size, -1)
    return einsum("nw,nv->wv", flat, flat), lambda values: flat.T @ values.T.ravel()


def _tables(axes: Axes, places: Sequence[Place], order: int) -> list[list[Array] | None]:
    """The tables of every lattice, from one pass over all coordinates that they have."""
    rows = [Rows() for _ in axes.network.axes]
    cuts = [
        None if isinstance(p, Points) else [r.add(c) for r, c in zip(rows, p.coordinates)]
        for p in places
    ]
    tables = axes.tables(tuple(r.all(axes.weights.dtype) for r in rows), order)
    return [None if cut is None else [table[s] for table, s in zip(tables, cut)] for cut in cuts]


def _on_lattice(axes: Axes, linear: Linear, known: Sequence[Array]) -> tuple[Array, Towards]:
    number = len(linear.factors)
    used = [sorted({orders[i] for _, orders in linear.slopes}) for i in range(number)]
    # E per axis: (parts, lattice…, components, orders used, rank)
    spreads = [environments(i, linear, used[i]) for i in range(number)]
    # (points, components × orders × rank, weights)
    tables = [t[:, :, jnp.array(u)].reshape(len(t), -1, t.shape[-1]) for t, u in zip(known, used)]

    def block(i: int, k: int) -> Array:
        if i == k:
            here = _arranged(spreads[i], (i + 1,))
            half = einsum("nab,nbw->naw", einsum("nxa,nxb->nab", here, here), tables[i])
        else:
            gram = einsum(
                "nmxa,nmxb->namb", *(_arranged(spreads[j], (i + 1, k + 1)) for j in (i, k))
            )
            half = einsum("namb,mbw->naw", gram, tables[k])
        return einsum("naw,nav->wv", tables[i], half)

    upper = {(i, k): block(i, k) for i in range(number) for k in range(i, number)}
    whole = [
        [upper[i, k] if i <= k else upper[k, i].T for k in range(number)] for i in range(number)
    ]

    def towards(values: Array) -> Array:
        each = []
        for i in range(number):
            here = _arranged(spreads[i], (i + 1,))
            at = jnp.moveaxis(values, i + 1, 0).reshape(here.shape[:2])
            each.append(einsum("na,naw->w", einsum("nx,nxa->na", at, here), tables[i]))
        return jnp.concatenate(each)

    return jnp.block(whole), towards


def _arranged(spread: Array, kept: tuple[int, ...]) -> Array:
    """The axes `kept` first, all others of the lattice (and the parts) as one, then components, orders and rank as one."""
    last = spread.ndim - 3
    turned = jnp.transpose(
        spread, (*kept, *(a for a in range(last) if a not in kept), last, last + 1, last + 2)
    )
    return turned.reshape(*turned.shape[: len(kept)], math.prod(turned.shape[len(kept) : last]), -1)


class Residuals:
    """The residuals on fixed points as functions of flat parameters, for `GaussNewton`."""

    def __init__(
        self,
        loss: Loss,
        model: Callable[[Array], Model],
        places: Sequence[Place],
        given: ExtraInputs,
    ):
        self.loss, self._model, self.places, self.given = loss, model, places, given
        # a jump couples two faces: that is no residual at a point
        joined = any(term.couples_points for term in loss.problem.terms)
        network = loss.recipe.network
        # the tables are those of a plain sum of products; a core is no axis' weights
        self.separable = isinstance(network, SPINN) and network.merge == "cp" and not joined

    def left(self, params: Array) -> Array:
        return residuals(self.loss, self._model(params), self.places, self.given)

    def normal(self, params: Array) -> NormalEquations:
        return weight_equations(self.loss, self._model(params), self.places, self.given)
