"""A loss on some points as a function of flat parameters: all that an optimiser works with.

The normal equations of a loss in all weights of a separable network, hidden layers too.

The factors of axis i depend on the weights θ_i of that axis' network alone, so a linearised
residual changes with them by

    Σ_oj E_ioj(x₁ … x_d) ∂f_ij⁽ᵒ⁾(x_i) / ∂θ_i,

E being that of `jacobian`. The Jacobian of the factors depends on one coordinate: it is a table of
points × orders × rank by weights. So here too the lattice meets E alone, and the tables enter
afterwards, one axis at a time. Nothing is approximated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..core import rounded
from ..domain import Place, Points
from ..equations import ExtraInputs
from ..networks import Coordinates, SeparableNetwork, distinct, filled, highest
from ..separable import einsum
from .jacobian import Dense, environments
from .linearise import Linear, linearised, residuals
from .loss import WEIGHTING, Loss
from .model import Model
from .output_layers import Jacobian, NormalEquations, OutputLayers, added_up

Weights = Float[Array, "axes weights"]


class Axes:
    """A separable network as a function of its weights, those of every axis in a row of their
    own."""

    def __init__(self, network: SeparableNetwork):
        arrays, self._static = eqx.partition(network.body, eqx.is_array)
        self.network = network
        self.weights: Weights = jax.vmap(lambda body: ravel_pytree(body)[0])(arrays)
        self._one = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], arrays))[1]

    def _with(self, weights: Weights) -> SeparableNetwork:
        """The network with these weights."""
        body = eqx.combine(jax.vmap(self._one)(weights), self._static)
        return eqx.tree_at(lambda n: n.body, self.network, body)

    def at(self, x: Float[Array, " axes"], order: int) -> tuple[Array, Callable[[Array], Weights]]:
        """The columns where each axis is at one coordinate, (axes, components, orders, rank), and
        what takes cotangents of them to weights. The rows do not know of each other, so one
        cotangent serves all axes."""

        def columns(weights: Weights) -> Array:
            each = self._with(weights).columns(tuple(x[:, None]), order)
            return jnp.stack(each)[:, :, :, 0]

        values, back = jax.vjp(columns, self.weights)
        return values, lambda cotangent: back(cotangent)[0]

    def tables(
        self, coordinates: Coordinates, order: int
    ) -> list[Float[Array, "points components orders rank weights"]]:
        """Per axis: how its columns change with its weights."""

        def at(x: Array) -> Array:
            values, back = self.at(x, order)
            shape = values.shape[1:]
            units = jnp.eye(math.prod(shape), dtype=values.dtype).reshape(-1, *shape)
            made = jax.vmap(lambda unit: back(jnp.broadcast_to(unit, values.shape)))(units)
            return made.reshape(*shape, *self.weights.shape)

        made = jax.vmap(at, 1)(jnp.stack(filled(coordinates)))
        return [made[: len(c), :, :, :, i] for i, c in enumerate(coordinates)]


def weight_equations(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs
) -> NormalEquations:
    """The normal equations in all numbers of a model, in the order of its flat vector."""
    axes, order = Axes(model.network.separable), max(highest(needs) for needs in loss.needs)
    linears = linearised(loss, model, places, given)
    on_lattices = [linear.place for linear in linears if not isinstance(linear.place, Points)]
    coordinates, slices = distinct(on_lattices, axes.weights.dtype)
    tables = axes.tables(coordinates, order)
    cuts = iter(slices)

    def jacobian(linear: Linear) -> Jacobian:
        if isinstance(linear.place, Points):
            return _at_points(axes, linear)
        return OnLattice(linear, [table[s] for table, s in zip(tables, next(cuts))])

    number = axes.weights.size
    found = added_up(
        ((jacobian(linear), linear) for linear in linears),
        number,
        len(model.unknowns),
        axes.weights.dtype,
    )
    # where the rows of weights, followed by the unknowns, stand in the flat vector
    flat, whole = ravel_pytree(eqx.filter(model, eqx.is_array))
    there = whole(jnp.arange(len(flat), dtype=flat.dtype))
    rows = Axes(eqx.tree_at(lambda n: n.body, model.network.separable, there.network.body)).weights
    places_of = jnp.concatenate([rows.ravel(), *(there.unknowns[k][None] for k in model.unknowns)])
    turn = jnp.argsort(places_of)
    return NormalEquations(found.value, found.gradient[turn], found.matrix[turn][:, turn])


def _at_points(axes: Axes, linear: Linear) -> Dense:
    """At scattered points the Jacobian itself is small enough."""
    order = max(max(orders) for _, orders in linear.derivatives)
    components, _, number, rank = linear.factors[0].shape
    shape = (len(linear.residual), number, len(linear.factors), components, order + 1, rank)
    spread = jnp.zeros(shape, linear.residual.dtype)
    for (component, orders), slope in linear.derivatives.items():
        here = [f[component, o] for f, o in zip(linear.factors, orders)]
        for i, own in enumerate(orders):
            others = linear.merge.environment_at_points(i, here, None)
            spread = spread.at[:, :, i, component, own].add(slope[..., None] * others)

    def at(x: Array, cotangents: Array) -> Array:
        return jax.vmap(axes.at(x, order)[1])(cotangents)

    jacobian = jax.vmap(at, (0, 1), 1)(jnp.stack(linear.place.coordinates, 1), spread)
    return Dense(jacobian.reshape(linear.residual.size, -1))


class OnLattice:
    """On a lattice the Jacobian is kept as E of the module's text and the tables, per axis."""

    def __init__(self, linear: Linear, tables: Sequence[Array]):
        self.number = len(linear.factors)
        used = [sorted({orders[i] for _, orders in linear.derivatives}) for i in range(self.number)]
        # E per axis: (parts, lattice…, components, orders used, rank)
        self.environments = [environments(i, linear, used[i]) for i in range(self.number)]
        # (points, components × orders × rank, weights)
        self.tables = [
            table[:, :, jnp.array(own)].reshape(len(table), -1, table.shape[-1])
            for table, own in zip(tables, used)
        ]

    def transposed(self, values: Array) -> Array:
        each = []
        for i, (environment, table) in enumerate(zip(self.environments, self.tables)):
            here = _arranged(environment, (i + 1,))
            at = jnp.moveaxis(values, i + 1, 0).reshape(here.shape[:2])
            each.append(einsum("na,naw->w", einsum("nx,nxa->na", at, here), table))
        return jnp.concatenate(each)

    def squared(self) -> Array:
        axes = range(self.number)
        upper = {(i, k): self._block(i, k) for i in axes for k in axes if k >= i}
        return jnp.block([[upper[i, k] if i <= k else upper[k, i].T for k in axes] for i in axes])

    def _block(self, i: int, k: int) -> Array:
        if i == k:
            here = _arranged(self.environments[i], (i + 1,))
            half = einsum("nab,nbw->naw", einsum("nxa,nxb->nab", here, here), self.tables[i])
        else:
            both = (_arranged(self.environments[j], (i + 1, k + 1)) for j in (i, k))
            half = einsum("namb,mbw->naw", einsum("nmxa,nmxb->namb", *both), self.tables[k])
        return einsum("naw,nav->wv", self.tables[i], half)


def _arranged(environment: Array, kept: tuple[int, ...]) -> Array:
    """The axes `kept` first, all others of the lattice (and the parts) as one, then components,
    orders and rank as one."""
    last = environment.ndim - 3
    rest = (a for a in range(last) if a not in kept)
    turned = jnp.transpose(environment, (*kept, *rest, last, last + 1, last + 2))
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

    @functools.cached_property
    def separable(self) -> bool:
        """Whether there are normal equations."""
        # a jump couples two faces: that is no residual at a point
        joined = any(term.couples_points for term in self.loss.problem.terms)
        network = Model.shapes(self.loss.problem, self.loss.recipe).network
        # the tables are those of a plain sum of products; a core is no axis' weights
        return network.is_separable and network.separable.merge.is_plain and not joined

    def vector(self, params: Array) -> Array:
        """All residuals, as one vector."""
        return residuals(self.loss, self._model(params), self.places, self.given)

    def normal(self, params: Array) -> NormalEquations:
        """Their normal equations."""
        return weight_equations(self.loss, self._model(params), self.places, self.given)


# --- what an optimiser works with -----------------------------------------------------------------


class Objective:
    """A loss on some points, as a function of the parameters.

    Arguments:
        loss: of a problem under a recipe.
        model: parameters as a network and unknowns.
        layers: parameters as a tree of (stacks of) matrices, and vectors.
        places: the points: the inside, then those of each condition.
        given: extra inputs of the loss.
        weighting: the state of the recipe's weighting; it stays what it is.
    """

    def __init__(
        self,
        loss: Loss,
        model: Callable[[Array], Model],
        layers: Callable[[Array], Any],
        places: Sequence[Place],
        given: ExtraInputs,
        weighting: Any = None,
    ):
        self.loss, self.model, self.layers = loss, model, layers
        self.places, self.given, self.weighting = tuple(places), given, weighting

    def __call__(self, params: Float[Array, " parameters"]) -> Float[Array, ""]:
        return self.evaluated(params, self.weighting)[0]

    def evaluated(self, params: Array, weighting: Any) -> tuple[Array, tuple[Array, Any]]:
        """The loss; every term and the unweighted total; the next state of the weighting."""
        with rounded(self.loss.recipe.precision):
            terms, weighed, after = self.loss.weighed(
                self.model(params), self.places, self.given, weighting
            )
        total = self.loss.total(terms)
        value = total if weighed is terms else self.loss.total(weighed)
        return value, (jnp.append(terms, total), after)

    def gradient(self, params: Array, weighting: Any) -> tuple[tuple[Array, Any], Array]:
        """The same, and the gradient of the loss."""
        return jax.value_and_grad(self.evaluated, has_aux=True)(params, weighting)

    @property
    def rows(self) -> int:
        return sum(math.prod(place.shape) for place in self.places)

    @functools.cached_property
    def residuals(self) -> Residuals:
        return Residuals(self.loss, self.model, self.places, self._inputs)

    @functools.cached_property
    def output_layers(self) -> OutputLayers:
        return OutputLayers(self.loss, self.model, self.places, self._inputs)

    @property
    def _inputs(self) -> dict[str, Any]:
        return {**self.given, WEIGHTING: self.weighting}
