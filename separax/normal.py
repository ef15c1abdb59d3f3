"""The normal equations of a loss in the output layers, without the matrix of all residuals.

A separable network is linear in the coefficients of each axis,

    u = Σ_j Π_i f_ij(x_i),   f_ij = Σ_a φ_ia c_iaj,

so a residual r(u, u_x, …), linearised in the values of u and its derivatives on the lattice, changes with c_iaj by

    Σ_o φ_ia⁽ᵒ⁾(x_i) E_ioj(x₁ … x_d),   E_ioj = Σ_{orders with o along i} (∂r/∂(∂^orders u)) Π_{k≠i} f_kj⁽ᵒᵏ⁾.

The lattice meets only E, which has rank × orders columns where the Jacobian would have features × rank: what is summed over a
lattice of N^d points costs (rank × orders)², and the features enter afterwards, one axis at a time. Nothing is approximated.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .domain import Lattice, Points
from .fields import Key, Source
from .loss import Given, Known, Loss, Model
from .networks import SeparableNetwork
from .separable import PRECISION, add_up
from .sources import Place, Rows, highest

Coefficients = Float[Array, "axes components features rank"]
DENSE = 2e9  # operations that are sooner done the plain way than compiled in a cleverer one
SMALLEST = 1e-12  # of features that are told apart, as a part of the largest
TINY = 1e-300
einsum = functools.partial(jnp.einsum, precision=PRECISION)


class Normal(eqx.Module):
    """½ |r + J δ|² = value / 2 + gradient · δ + ½ δ · matrix δ, δ being coefficients in the order of `Coefficients`, then the
    unknowns of the equation."""

    value: Float[Array, ""]
    gradient: Float[Array, " n"]
    matrix: Float[Array, "n n"]


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
    left: Array
    slopes: dict[Key, Array]
    unknowns: list[Array]
    features: list[Array]  # per axis: (components, orders, points, features)


def linearised(loss: Loss, model: Model, places: Sequence[Place], given: Given) -> list[Linear]:
    """Every part of a loss, linearised where the model is."""
    network = model.network
    assert isinstance(network, SeparableNetwork)  # a recipe whose optimiser needs this has no other
    rows = [Rows() for _ in network.axes]
    cuts = [tuple((s.start, s.stop) for s in (r.add(c) for r, c in zip(rows, place.coordinates))) for place in places]
    order = max(highest(needs) for needs in loss.needs)
    features = network.features(tuple(r.all(network.body.out.weight.dtype) for r in rows), order)
    found: list[Linear] = []
    # conditions on the same face share what is computed there, and one compiled program
    for cut in dict.fromkeys(cuts):
        members = [i for i, other in enumerate(cuts) if other == cut]
        place = places[members[0]]
        here = [f[:, :, slice(*s)] for f, s in zip(features, cut)]
        factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(here, network.coefficients)]
        needs = sorted({key for i in members for key in loss.needs[i]})
        table = {key: _merged(place, factors, key) for key in needs}

        def values(table: dict[Key, Array], unknowns: dict[str, Array], place: Place = place, members: Sequence[int] = members):
            return jnp.stack(
                [part for i in members for part in _parts(loss, i, place, Table(place, table), Known(unknowns, given))]
            )

        def along(table_step: Any, unknown_step: Any, values: Any = values, table: Any = table) -> Array:
            return jax.jvp(values, (table, model.unknowns), (table_step, unknown_step))[1]

        still, fixed = jax.tree.map(jnp.zeros_like, table), jax.tree.map(jnp.zeros_like, model.unknowns)
        slopes = {key: along(still | {key: jnp.ones_like(table[key])}, fixed) for key in needs}
        unknowns = [along(still, fixed | {k: jnp.ones_like(v)}) for k, v in model.unknowns.items()]
        found.append(Linear(place, values(table, model.unknowns), slopes, unknowns, here))
    return found


def _parts(loss: Loss, number: int, place: Place, source: Source, known: Known) -> list[Array]:
    """What is left of the residuals (0) or of a condition (from 1 on), each value times the root of what it counts."""
    if number == 0:
        expressions = loss.problem.expressions(source, known.coordinates(place), known.unknowns)
        made = [loss.residual(name, e, source, place) for name, e in expressions.items()]
    else:
        made = loss.parts(loss.problem.terms[number - 1], place, source, known)
    weights = dict(zip(loss.names, loss.weights.tolist()))
    return [part.values * _roots(part.place, weights[part.name] * part.factor) for part in made]


def _roots(place: Place, weight: float) -> Array:
    """√ of what a point counts, so that the sum of squares is `weight` times their mean."""
    share = math.sqrt(weight / math.prod(place.shape))
    if isinstance(place, Points):
        return share * (jnp.ones(()) if place.weights is None else jnp.sqrt(place.weights / jnp.mean(place.weights)))
    counts = [place.along(a, w / jnp.mean(w)) for a, w in zip(place.axes, place.weights) if w is not None]
    return share * jnp.sqrt(functools.reduce(operator.mul, counts, jnp.ones((1,) * len(place.axes))))


def _merged(place: Place, factors: Sequence[Array], key: Key) -> Array:
    """A derivative's values from factors (components, orders, points, rank) per axis."""
    component, orders = key
    columns = [f[component, o] for f, o in zip(factors, orders)]
    if isinstance(place, Points):
        return jnp.sum(functools.reduce(operator.mul, columns), -1)
    letters = "abcdefghijklm"[: len(columns)]
    return einsum(f"{','.join(f'{c}z' for c in letters)}->{letters}", *columns, optimize="greedy")


def normal(loss: Loss, model: Model, places: Sequence[Place], given: Given) -> Normal:
    """The normal equations of all parts together."""
    coefficients = model.network.coefficients  # pyright: ignore[reportAttributeAccessIssue]
    own, extra = coefficients.size, len(model.unknowns)
    value = jnp.zeros((), coefficients.dtype)
    gradient, matrix = jnp.zeros(own + extra, coefficients.dtype), jnp.zeros((own + extra, own + extra), coefficients.dtype)
    for linear in linearised(loss, model, places, given):
        g, m, towards = (_on_points if isinstance(linear.place, Points) else _on_lattice)(linear, coefficients)
        value = value + jnp.sum(linear.left**2)
        gradient = gradient.at[:own].add(g)
        matrix = matrix.at[:own, :own].add(m)
        for i, (slope, column) in enumerate(zip(linear.unknowns, towards)):
            gradient = gradient.at[own + i].add(jnp.sum(slope * linear.left))
            matrix = matrix.at[:own, own + i].add(column).at[own + i, :own].add(column)
            for j, other in enumerate(linear.unknowns):
                matrix = matrix.at[own + i, own + j].add(jnp.sum(slope * other))
    return Normal(value, gradient, matrix)


def mass(model: Model, place: Lattice) -> Float[Array, "n n"]:
    """How far the fields move with the coefficients: δ · matrix δ is the mean square of what a step δ changes in them."""
    network = model.network
    assert isinstance(network, SeparableNetwork)
    coefficients, zero = network.coefficients, (0,) * len(place.axes)
    own, extra, components = coefficients.size, len(model.unknowns), coefficients.shape[1]
    one = jnp.broadcast_to(_roots(place, 1.0), place.shape)
    slopes = {(c, zero): jnp.stack([one * (c == part) for part in range(components)]) for c in range(components)}
    nothing = jnp.zeros((components, *place.shape), coefficients.dtype)
    linear = Linear(place, nothing, slopes, [], list(network.features(place.coordinates, 0)))
    return jnp.zeros((own + extra, own + extra), coefficients.dtype).at[:own, :own].set(_on_lattice(linear, coefficients)[1])


def _on_points(linear: Linear, coefficients: Coefficients) -> tuple[Array, Array, list[Array]]:
    """At scattered points the Jacobian itself is small enough."""
    axes, _, _, rank = coefficients.shape
    factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(linear.features, coefficients)]
    number = linear.left.size
    jacobian = jnp.zeros((*linear.left.shape, *coefficients.shape), coefficients.dtype)
    for (component, orders), slope in linear.slopes.items():
        for i in range(axes):
            rest = [factors[k][component, orders[k]] for k in range(axes) if k != i]
            product = functools.reduce(operator.mul, rest, jnp.ones((1, rank), coefficients.dtype))
            one = (slope[..., None] * product)[..., None, :] * linear.features[i][component, orders[i]][:, :, None]
            jacobian = jacobian.at[:, :, i, component].add(one)
    flat = jacobian.reshape(number, -1)
    towards = [flat.T @ other.ravel() for other in (linear.left, *linear.unknowns)]
    return towards[0], jnp.matmul(flat.T, flat, precision=PRECISION), towards[1:]


def _on_lattice(linear: Linear, coefficients: Coefficients) -> tuple[Array, Array, list[Array]]:
    axes, components, number, rank = coefficients.shape
    factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(linear.features, coefficients)]
    used = [sorted({orders[i] for _, orders in linear.slopes}) for i in range(axes)]
    spread = [_spread(i, factors, linear.slopes, used[i], components) for i in range(axes)]
    own = [f[:, jnp.array(u)] for f, u in zip(linear.features, used)]  # (components, orders used, points, features)
    size = components * number * rank

    def along(values: Array) -> Array:
        """Jᵀ times values on the lattice."""
        out = []
        for i in range(axes):
            rest = "xyzwvutsqp"[:axes]
            place = rest[: i + 1] + "n" + rest[i + 1 :]
            one = einsum(f"{place},{place}cor->ncor", values, spread[i])
            out.append(einsum("ncor,conf->cfr", one, own[i]).ravel())
        return jnp.concatenate(out)

    if linear.left.size * coefficients.size**2 < DENSE:
        rest = "xyzwvutsqp"[:axes]
        places = [rest[: i + 1] + "n" + rest[i + 1 :] for i in range(axes)]
        made = [einsum(f"{p}cor,conf->{p}cfr", e, f).reshape(linear.left.size, -1) for p, e, f in zip(places, spread, own)]
        jacobian = jnp.concatenate(made, 1)
        towards = [jacobian.T @ other.ravel() for other in (linear.left, *linear.unknowns)]
        return towards[0], jnp.matmul(jacobian.T, jacobian, precision=PRECISION), towards[1:]
    blocks = [[jnp.zeros((size, size), coefficients.dtype)] * axes for _ in range(axes)]
    for i in range(axes):
        for k in range(i, axes):
            blocks[i][k] = _block(i, k, spread, own)
            blocks[k][i] = blocks[i][k].T
    return along(linear.left), jnp.block(blocks), [along(other) for other in linear.unknowns]


def _spread(i: int, factors: Sequence[Array], slopes: Mapping[Key, Array], used: Sequence[int], components: int) -> Array:
    """E of the module's text: (parts, lattice…, components, orders used, rank)."""
    axes, rank = len(factors), factors[0].shape[-1]
    shape = next(iter(slopes.values())).shape
    out = [[jnp.zeros((*shape, rank), factors[0].dtype) for _ in used] for _ in range(components)]
    for (component, orders), slope in slopes.items():
        product = slope[..., None]
        for k in range(axes):
            if k != i:
                factor = factors[k][component, orders[k]]
                product = product * factor.reshape([-1 if a == k else 1 for a in range(axes)] + [rank])
        at = used.index(orders[i])
        out[component][at] = out[component][at] + product
    return jnp.stack([jnp.stack(per, -2) for per in out], -3)


def _block(i: int, k: int, spread: Sequence[Array], own: Sequence[Array]) -> Array:
    """The block of the normal matrix that couples the coefficients of two axes, point after point of the first."""
    axes, rank = len(own), spread[i].shape[-1]
    components, _, _, number = own[i].shape
    columns = (axes + 1, axes + 2, axes + 3)
    rest = [a + 1 for a in range(axes) if a not in (i, k)]
    start = jnp.zeros((components, number, rank, components, number, rank), spread[i].dtype)
    features = jnp.moveaxis(own[i], 2, 0)  # (points, components, orders, features)

    def first(array: Array, kept: tuple[int, ...]) -> Array:
        """The axes `kept` first, all others of the lattice as one."""
        turned = jnp.transpose(array, (*kept, 0, *rest, *columns))
        return turned.reshape(*turned.shape[: len(kept)], -1, *turned.shape[-3:])

    def with_itself(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
        here, phi = at
        gram = einsum("xcor,xdps->cordps", here, here)
        half = einsum("cordps,dpg->cordgs", gram, phi)
        return total + einsum("cordgs,cof->cfrdgs", half, phi), None

    def with_other(total: Array, at: tuple[Array, Array, Array]) -> tuple[Array, None]:
        here, there, phi = at
        gram = einsum("mxcor,mxdps->mcordps", here, there)
        half = einsum("mcordps,dpmg->cordgs", gram, own[k])
        return total + einsum("cordgs,cof->cfrdgs", half, phi), None

    if i == k:
        total, _ = lax.scan(with_itself, start, (first(spread[i], (i + 1,)), features))
    else:
        both = (i + 1, k + 1)
        total, _ = lax.scan(with_other, start, (first(spread[i], both), first(spread[k], both), features))
    return total.reshape(components * number * rank, -1)


class Layers:
    """A loss on fixed points as a function of flat parameters, for `Solve`: an `Objective`."""

    def __init__(
        self, loss: Loss, value: Callable[[Array], Array], model: Callable[[Array], Model], places: Sequence[Place], given: Given
    ):
        self.loss, self._value, self._model, self.places, self.given = loss, value, model, places, given
        example = jax.eval_shape(lambda: Model.build(loss.problem, loss.recipe, jax.random.key(0)))
        self.shape = jax.eval_shape(lambda n: n.coefficients, example.network).shape

    def __call__(self, params: Array) -> Array:
        return self._value(params)

    def normal(self, params: Array) -> Normal:
        return normal(self.loss, self._model(params), self.places, self.given)

    def _features(self, params: Array) -> list[Array]:
        """Per axis: the features' values at the inner points, each point counting what the rule says."""
        place = self.places[0]
        network = self._model(params).network
        assert isinstance(place, Lattice)
        assert isinstance(network, SeparableNetwork)
        found = []
        for features, n, weights in zip(network.features(place.coordinates, 0), place.shape, place.weights):
            counts = jnp.full(n, 1 / n) if weights is None else weights / jnp.sum(weights)
            found.append(features[:, 0] * jnp.sqrt(counts)[:, None])
        return found

    def basis(self, params: Array) -> Array:
        """Features may be nearly the same function: combinations that are not are found by a singular value decomposition, and
        those that rounding cannot tell from zero left out."""

        def one(features: Array) -> Array:
            _, sizes, turned = jnp.linalg.svd(features, full_matrices=True)
            sizes = jnp.pad(sizes, (0, features.shape[1] - len(sizes)))
            kept = sizes > SMALLEST * sizes[0]
            return jnp.where(kept, turned.T / jnp.where(kept, sizes, 1.0), 0.0)

        return jnp.stack([jax.vmap(one)(features) for features in self._features(params)])

    def moved(self, params: Array, step: Array) -> Array:
        model = self._model(params)
        assert isinstance(model.network, SeparableNetwork)
        own = math.prod(self.shape)
        network = model.network.with_coefficients(model.network.coefficients + step[:own].reshape(self.shape))
        unknowns = {k: v + step[own + i] for i, (k, v) in enumerate(model.unknowns.items())}
        return _flat(Model(network, unknowns))

    def resized(self, params: Array, size: float) -> Array:
        model = self._model(params)
        assert isinstance(model.network, SeparableNetwork)
        return _flat(Model(model.network.with_coefficients(model.network.coefficients * size), model.unknowns))

    def balanced(self, params: Array) -> Array:
        model = self._model(params)
        assert isinstance(model.network, SeparableNetwork)
        coefficients = model.network.coefficients
        factors = [einsum("cnf,cfr->cnr", f, c) for f, c in zip(self._features(params), coefficients)]
        sizes = jnp.maximum(jnp.stack([jnp.linalg.norm(f, axis=1) for f in factors]), TINY)
        wanted = jnp.exp(jnp.mean(jnp.log(sizes), 0))
        return _flat(Model(model.network.with_coefficients(coefficients * (wanted / sizes)[:, :, None]), model.unknowns))


def _flat(model: Model) -> Array:
    return ravel_pytree(eqx.filter(model, eqx.is_array))[0]
