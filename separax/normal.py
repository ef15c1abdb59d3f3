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
from jaxtyping import Array, Float

from .domain import Lattice, Points
from .errors import InputError
from .fields import Key
from .loss import Given, Known, Loss, Model, Part
from .networks import SeparableNetwork
from .separable import PRECISION, add_up
from .sources import Place, Rows, highest

Coefficients = Float[Array, "axes components features rank"]
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
    """A part of the loss at one state: what is left at its points, and how that changes with every derivative and unknown."""

    part: Part
    slopes: dict[Key, Array]
    unknowns: dict[str, Array]
    features: list[Array]  # per axis: (components, orders, points, features)
    weight: float  # of its term

    def root_weights(self) -> Array:
        """√ of what a point counts, so that the sum of squares is the part's share of the loss."""
        place = self.part.place
        share = math.sqrt(self.weight * self.part.factor / math.prod(place.shape))
        if isinstance(place, Points):
            counts = jnp.ones(()) if place.weights is None else place.weights / jnp.mean(place.weights)
            return share * jnp.sqrt(counts)
        counts = [place.along(a, w / jnp.mean(w)) for a, w in zip(place.axes, place.weights) if w is not None]
        return share * jnp.sqrt(functools.reduce(operator.mul, counts, jnp.ones((1,) * len(place.axes))))


def linearised(loss: Loss, model: Model, places: Sequence[Place], given: Given) -> list[Linear]:
    """Every part of a loss, linearised where the model is."""
    network = model.network
    assert isinstance(network, SeparableNetwork)  # a recipe whose optimiser needs this has no other
    rows = [Rows() for _ in network.axes]
    cuts = [[r.add(c) for r, c in zip(rows, place.coordinates)] for place in places]
    dtype = network.body.out.weight.dtype
    order = max(highest(needs) for needs in loss.needs)
    features = network.features(tuple(r.all(dtype) for r in rows), order)
    found: list[Linear] = []
    weights = dict(zip(loss.names, loss.weights.tolist()))
    for number, (place, needs, cut) in enumerate(zip(places, loss.needs, cuts)):
        here = [f[:, :, s] for f, s in zip(features, cut)]
        factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(here, network.coefficients)]
        table = {key: _merged(place, factors, key) for key in sorted(needs)}

        def parts(table: dict[Key, Array], unknowns: dict[str, Array], place: Place = place, number: int = number) -> list[Part]:
            source, known = Table(place, table), Known(unknowns, given)
            if number == 0:
                expressions = loss.problem.expressions(source, known.coordinates(place), unknowns)
                return [loss.residual(name, e, source, place) for name, e in expressions.items()]
            return loss.parts(loss.problem.terms[number - 1], place, source, known)

        shapes: list[Part] = []

        def values(table: dict[Key, Array], unknowns: dict[str, Array], parts: Callable = parts, shapes: list = shapes) -> list[Array]:
            made = parts(table, unknowns)
            shapes[:] = made
            return [part.values for part in made]

        now = values(table, model.unknowns)
        plain = list(shapes)
        slopes = [{} for _ in now]
        for key in table:
            moved = {k: jnp.ones_like(v) if k == key else jnp.zeros_like(v) for k, v in table.items()}
            still = {k: jnp.zeros_like(v) for k, v in model.unknowns.items()}
            for slope, one in zip(slopes, jax.jvp(values, (table, model.unknowns), (moved, still))[1]):
                slope[key] = one
        by_unknown = [{} for _ in now]
        for name in model.unknowns:
            still = {k: jnp.zeros_like(v) for k, v in table.items()}
            moved = {k: jnp.ones_like(v) if k == name else jnp.zeros_like(v) for k, v in model.unknowns.items()}
            for slope, one in zip(by_unknown, jax.jvp(values, (table, model.unknowns), (still, moved))[1]):
                slope[name] = one
        for part, left, slope, unknown in zip(plain, now, slopes, by_unknown):
            if part.place.shape != place.shape:
                raise InputError("Solve: a soft Periodic condition joins two faces: build it in, Periodic(), or train with sx.BFGS")
            found.append(Linear(Part(part.name, place, left, part.factor), slope, unknown, here, weights[part.name]))
    return found


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
        add = _on_points if isinstance(linear.part.place, Points) else _on_lattice
        roots = linear.root_weights()
        left = jnp.broadcast_to(linear.part.values * roots, linear.part.place.shape)
        slopes = {k: jnp.broadcast_to(s * roots, left.shape) for k, s in linear.slopes.items()}
        others = [jnp.broadcast_to(s * roots, left.shape) for s in linear.unknowns.values()]
        g, m, towards = add(linear.features, coefficients, slopes, left, others)
        value = value + jnp.sum(left**2)
        gradient = gradient.at[:own].add(g)
        matrix = matrix.at[:own, :own].add(m)
        for i, (slope, column) in enumerate(zip(others, towards)):
            gradient = gradient.at[own + i].add(jnp.sum(slope * left))
            matrix = matrix.at[:own, own + i].add(column).at[own + i, :own].add(column)
            for j, other in enumerate(others):
                matrix = matrix.at[own + i, own + j].add(jnp.sum(slope * other))
    return Normal(value, gradient, matrix)


def _on_points(
    features: Sequence[Array], coefficients: Coefficients, slopes: Mapping[Key, Array], left: Array, others: Sequence[Array]
) -> tuple[Array, Array, list[Array]]:
    """At scattered points the Jacobian itself is small enough."""
    axes, components, number, rank = coefficients.shape
    factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(features, coefficients)]
    jacobian = jnp.zeros((len(left), *coefficients.shape), coefficients.dtype)
    for (component, orders), slope in slopes.items():
        for i in range(axes):
            rest = [factors[k][component, orders[k]] for k in range(axes) if k != i]
            product = functools.reduce(operator.mul, rest, jnp.ones((len(left), rank), coefficients.dtype))
            one = (slope[:, None] * product)[:, None, :] * features[i][component, orders[i]][:, :, None]
            jacobian = jacobian.at[:, i, component].add(one)
    flat = jacobian.reshape(len(left), -1)
    return flat.T @ left, jnp.matmul(flat.T, flat, precision=PRECISION), [flat.T @ other for other in others]


def _on_lattice(
    features: Sequence[Array], coefficients: Coefficients, slopes: Mapping[Key, Array], left: Array, others: Sequence[Array]
) -> tuple[Array, Array, list[Array]]:
    axes, components, number, rank = coefficients.shape
    factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(features, coefficients)]
    used = [sorted({orders[i] for _, orders in slopes}) for i in range(axes)]
    spread = [_spread(i, factors, slopes, used[i], components) for i in range(axes)]
    own = [f[:, jnp.array(u)] for f, u in zip(features, used)]  # (components, orders used, points, features)
    size = components * number * rank

    def along(values: Array) -> Array:
        """Jᵀ times values on the lattice."""
        out = []
        for i in range(axes):
            rest = "xyzwvutsqp"[: axes - 1]
            place = rest[:i] + "n" + rest[i:]
            one = einsum(f"{place},{place}cor->ncor", values, spread[i])
            out.append(einsum("ncor,conf->cfr", one, own[i]).ravel())
        return jnp.concatenate(out)

    blocks = [[jnp.zeros((size, size), coefficients.dtype)] * axes for _ in range(axes)]
    for i in range(axes):
        for k in range(i, axes):
            block = _block(i, k, spread, own)
            blocks[i][k] = block
            blocks[k][i] = block.T
    return along(left), jnp.block(blocks), [along(other) for other in others]


def _spread(i: int, factors: Sequence[Array], slopes: Mapping[Key, Array], used: Sequence[int], components: int) -> Array:
    """E of the module's text: (lattice…, components, orders used, rank)."""
    axes = len(factors)
    shape = next(iter(slopes.values())).shape
    rank = factors[0].shape[-1]
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
    """The block of the normal matrix that couples the coefficients of two axes."""
    axes = len(own)
    components, _, _, number = own[i].shape
    rank = spread[i].shape[-1]
    rest = [a for a in range(axes) if a not in (i, k)]
    if i == k:
        first = jnp.transpose(spread[i], (i, *rest, axes, axes + 1, axes + 2))
        flat = first.reshape(first.shape[0], -1, *first.shape[-3:])

        def one(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
            here, phi = at  # (rest, c, o, r), (c, o, f)
            gram = einsum("xcor,xdps->cordps", here, here)
            half = einsum("cordps,dpg->cordgs", gram, phi)
            return total + einsum("cordgs,cof->cfrdgs", half, phi), None

        start = jnp.zeros((components, number, rank, components, number, rank), spread[i].dtype)
        total, _ = lax.scan(one, start, (flat, jnp.moveaxis(own[i], 2, 0)))
        return total.reshape(components * number * rank, -1)
    order = (i, k, *rest, axes, axes + 1, axes + 2)
    first, second = (jnp.transpose(spread[a], order) for a in (i, k))
    first = first.reshape(*first.shape[:2], -1, *first.shape[-3:])
    second = second.reshape(*second.shape[:2], -1, *second.shape[-3:])

    def pair(total: Array, at: tuple[Array, Array, Array]) -> tuple[Array, None]:
        here, there, phi = at
        gram = einsum("mxcor,mxdps->mcordps", here, there)
        half = einsum("mcordps,dpmg->cordgs", gram, own[k])
        return total + einsum("cordgs,cof->cfrdgs", half, phi), None

    start = jnp.zeros((components, number, rank, components, number, rank), spread[i].dtype)
    total, _ = lax.scan(pair, start, (first, second, jnp.moveaxis(own[i], 2, 0)))
    return total.reshape(components * number * rank, -1)
