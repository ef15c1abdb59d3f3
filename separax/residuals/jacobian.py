"""The Jacobian of the residuals on one place, in the coefficients of a separable network, and its
square.

A separable network is linear in the coefficients of each axis,

    u = Σ_j Π_i f_ij(x_i),   f_ij = Σ_a φ_ia c_iaj,

so a residual r(u, u_x, …), linearised in the values of u and its derivatives on the lattice,
changes with c_iaj by

    Σ_o φ_ia⁽ᵒ⁾(x_i) E_ioj(x₁ … x_d),
    E_ioj = Σ_{orders with o along i} (∂r/∂(∂^orders u)) Π_{k≠i} f_kj⁽ᵒᵏ⁾.

The lattice meets only E, which has rank × orders columns where the Jacobian would have features ×
rank: what is summed over a lattice of N^d points costs (rank × orders)², and the features enter
afterwards, one axis at a time. Nothing is approximated. Other formats differ in what the columns of
an axis are multiplied by, their environment; a core has columns of its own, products of the factors
of all axes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ..core import PRECISION, add_up, default_device, tuning
from ..domain import Points
from ..separable import PLACES, einsum
from .linearise import Linear, join_places


class Dense:
    """A Jacobian that is written out.

    Arguments:
        matrix: a row for every part and point.
    """

    def __init__(self, matrix: Array):
        self.matrix = matrix

    def transposed(self, values: Array) -> Array:
        """Jᵀ times values at all points."""
        return self.matrix.T @ values.ravel()

    def squared(self) -> Array:
        """Jᵀ J."""
        return jnp.matmul(self.matrix.T, self.matrix, precision=PRECISION)


def jacobians(linears: Sequence[Linear]) -> Iterator[tuple[Dense | OnLattice, Linear]]:
    """The Jacobian of every place. Small lattices are taken together, point by point."""
    device = "cpu" if default_device().platform == "cpu" else "gpu"
    most_work, most = tuning.JACOBIAN_WORK[device], tuning.JACOBIAN_NUMBERS[device]
    small: list[Linear] = []
    for linear in linears:
        axes, rows = len(linear.features), linear.residual.size
        columns = zip(linear.features, linear.merge.ranks)
        unknowns = sum(f.shape[0] * f.shape[3] * rank for f, rank in columns)
        unknowns += 0 if linear.core is None else linear.core.size
        cheap = rows * unknowns**2 < most_work * axes * (axes + 1) / 2
        if cheap and rows * unknowns < most:
            small.append(linear)
        else:
            points = isinstance(linear.place, Points)
            yield (at_points if points else OnLattice)(linear), linear
    if small:
        together = join_places(small)
        yield at_points(together), together


def at_points(linear: Linear) -> Dense:
    """At scattered points the Jacobian itself is small enough."""
    merge, shape, components = linear.merge, linear.residual.shape, linear.factors[0].shape[0]
    # E of the module's text, per axis, by component and order: (parts, points, columns)
    each: list[dict[Any, Array]] = [{} for _ in linear.factors]
    size = 0 if linear.core is None else linear.core[0].size
    cores = [jnp.zeros((*shape, size), linear.residual.dtype)] * components
    for (component, orders), slope in linear.derivatives.items():
        here = [f[component, o] for f, o in zip(linear.factors, orders)]
        core = None if linear.core is None else linear.core[component]
        for i, groups in enumerate(each):
            environment = merge.environment_at_points(i, here, core)
            _add(groups, (component, orders[i]), slope[..., None] * environment)
        if core is not None:
            spec = ",".join("n" + index for index in merge.core)
            made = einsum(f"pn,{spec}->pn{merge.core}", slope, *here)
            cores[component] = cores[component] + made.reshape(*shape, -1)
    columns = []
    for groups, features, rank in zip(each, linear.features, merge.ranks):
        for c in range(components):
            nothing = jnp.zeros((*shape, features.shape[3], rank), linear.residual.dtype)
            made = [
                features[c, o][:, :, None] * e[..., None, :]
                for (component, o), e in groups.items()
                if component == c
            ]
            columns.append(add_up([nothing, *made]))
    rows = linear.residual.size
    return Dense(jnp.concatenate([c.reshape(rows, -1) for c in (*columns, *cores)], 1))


class OnLattice:
    """On a lattice the Jacobian is kept as E of the module's text and the features, per axis."""

    def __init__(self, linear: Linear):
        self.linear, self.axes = linear, len(linear.features)
        used = [sorted({orders[i] for _, orders in linear.derivatives}) for i in range(self.axes)]
        # an axis whose factors span all its functions has nothing to solve for
        self.live = [i for i, f in enumerate(linear.features) if f.shape[-1]]
        self.environments = {i: environments(i, linear, used[i]) for i in self.live}
        self.own = {i: linear.features[i][:, jnp.array(used[i])] for i in self.live}

    def transposed(self, values: Array) -> Array:
        """Jᵀ times values at all points."""
        out = []
        rest = PLACES[: self.axes]
        for i in self.live:
            one = einsum(f"Z{rest},Z{rest}COR->{rest[i]}COR", values, self.environments[i])
            out.append(einsum(f"{rest[i]}COR,CO{rest[i]}F->CFR", one, self.own[i]).ravel())
        if self.linear.core is not None:
            total = jnp.zeros_like(self.linear.core)
            for (component, orders), slope in self.linear.derivatives.items():
                own = self._onto_core(jnp.sum(values * slope, 0), component, orders)
                total = total.at[component].add(own)
            out.append(total.ravel())
        return jnp.concatenate(out)

    def _onto_core(self, values: Array, component: int, orders: tuple[int, ...]) -> Array:
        """Values on the lattice, summed against the factors of every axis."""
        rest, core = PLACES[: self.axes], self.linear.merge.core
        here = [f[component, o] for f, o in zip(self.linear.factors, orders)]
        return einsum(f"{rest},{','.join(map(operator.add, rest, core))}->{core}", values, *here)

    def squared(self) -> Array:
        """Jᵀ J."""
        blocks: dict[tuple[int, int], Array] = {}
        for i in self.live:
            for k in (k for k in self.live if k >= i):
                blocks[i, k] = _block(i, k, self.environments, self.own)
                blocks[k, i] = blocks[i, k].T
        names = list(self.live)
        if self.linear.core is not None:
            names.append(self.axes)
            blocks[self.axes, self.axes] = self._core_with_itself()
            for i in self.live:
                blocks[self.axes, i] = self._core_with_axis(i)
                blocks[i, self.axes] = blocks[self.axes, i].T
        return jnp.block([[blocks[i, k] for k in names] for i in names])

    def _core_with_itself(self) -> Array:
        """One axis of the lattice after the other goes, and brings a pair of indices. Pairs of
        derivatives that differ only along axes that are gone go on as one."""
        linear, axes = self.linear, self.axes
        assert linear.core is not None
        components, number = linear.core.shape[0], math.prod(linear.core.shape[1:])
        keys = list(linear.derivatives)
        # by components, whether it is a square, and the pair of orders along each axis: (lattice…)
        groups: dict[Any, Array] = {}
        for a, b in ((a, b) for n, a in enumerate(keys) for b in keys[n:]):
            product = jnp.sum(linear.derivatives[a] * linear.derivatives[b], 0)
            _add(groups, ((a[0], b[0], a == b), tuple(zip(a[1], b[1]))), product)
        for k in reversed(range(axes)):
            fewer: dict[Any, Array] = {}
            for (own, orders), values in groups.items():
                left, right = (linear.factors[k][c, o] for c, o in zip(own[:2], orders[k]))
                both = einsum("xi,xj->xij", left, right).reshape(len(left), -1)
                # the lattice's last axis is summed; its pair of indices goes to the front
                lead, back = values.shape[: -(k + 1)], values.shape[-(k + 1) :]
                flat = values.reshape(math.prod(lead), math.prod(back[:-1]), back[-1])
                pair = left.shape[1], right.shape[1]
                made = einsum("lrx,xp->plr", flat, both).reshape(*pair, *lead, *back[:-1])
                _add(fewer, (own, orders[:k]), made)
            groups = fewer
        total = jnp.zeros((components, number, components, number), linear.core.dtype)
        order = [*range(0, 2 * axes, 2), *range(1, 2 * axes, 2)]
        for ((one, other, square), _), values in groups.items():
            block = values.transpose(order).reshape(number, number)
            total = total.at[one, :, other].add(block)
            if not square:
                total = total.at[other, :, one].add(block.T)
        return total.reshape(components * number, -1)

    def _core_with_axis(self, i: int) -> Array:
        """The same with E of an axis, whose own points are summed last."""
        linear, places, core = self.linear, PLACES[: self.axes], self.linear.merge.core
        assert linear.core is not None
        components, number, rank = self.own[i].shape[0], self.own[i].shape[3], linear.merge.ranks[i]
        groups: dict[Any, Array] = {}
        for key, slope in linear.derivatives.items():
            spec = f"Z{places},Z{places}XYW->{places}XYW"
            groups[key] = einsum(spec, slope, self.environments[i])
        left, gained = places, ""
        for k in reversed([k for k in range(self.axes) if k != i]):
            fewer: dict[Any, Array] = {}
            rest = left.replace(places[k], "")
            for (component, orders), values in groups.items():
                spec = f"{left}{gained}XYW,{places[k]}{core[k]}->{rest}{core[k]}{gained}XYW"
                made = einsum(spec, values, linear.factors[k][component, orders[k]])
                _add(fewer, (component, (*orders[:k], -1, *orders[k + 1 :])), made)
            groups, left, gained = fewer, rest, core[k] + gained
        total = jnp.zeros((*linear.core.shape, components, number, rank), linear.core.dtype)
        for (component, orders), values in groups.items():
            spec = f"{left}{gained}XYW,{left}{core[i]},XY{left}V->{core}XVW"
            own = linear.factors[i][component, orders[i]]
            total = total.at[component].add(einsum(spec, values, own, self.own[i]))
        return total.reshape(linear.core.size, -1)


def _add(groups: dict[Any, Array], key: Any, values: Array) -> None:
    groups[key] = groups[key] + values if key in groups else values


def environments(i: int, linear: Linear, used: Sequence[int]) -> Array:
    """E of the module's text: (parts, lattice…, components, orders used, columns)."""
    shape, components = (*linear.residual.shape, linear.merge.ranks[i]), linear.factors[i].shape[0]
    nothing = jnp.zeros(shape, linear.factors[0].dtype)
    out = [[nothing for _ in used] for _ in range(components)]
    for (component, orders), slope in linear.derivatives.items():
        here = [f[component, o] for f, o in zip(linear.factors, orders)]
        core = None if linear.core is None else linear.core[component]
        own = slope[..., None] * linear.merge.environment(i, here, core)
        at = used.index(orders[i])
        out[component][at] = out[component][at] + own
    return jnp.stack([jnp.stack(per, -2) for per in out], -3)


def _block(i: int, k: int, spread: Mapping[int, Array], own: Mapping[int, Array]) -> Array:
    """The block of the normal matrix that couples the coefficients of two axes, point after point
    of the first."""
    one, two = spread[i], spread[k]
    axes = one.ndim - 4
    rest = [a + 1 for a in range(axes) if a not in (i, k)]
    shape = *_blocks(one, own[i]), *_blocks(two, own[k])
    start = jnp.zeros(shape, own[i].dtype)
    features = jnp.moveaxis(own[i], 2, 0)  # (points, components, orders, features)

    def first(array: Array, kept: tuple[int, ...]) -> Array:
        """The axes `kept` first, all others of the lattice as one."""
        turned = jnp.transpose(array, (*kept, 0, *rest, axes + 1, axes + 2, axes + 3))
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
        total, _ = lax.scan(with_itself, start, (first(one, (i + 1,)), features))
    else:
        both = (i + 1, k + 1)
        total, _ = lax.scan(with_other, start, (first(one, both), first(two, both), features))
    return total.reshape(math.prod(shape[:3]), -1)


def _blocks(environment: Array, features: Array) -> tuple[int, int, int]:
    """Components, features and columns of an axis."""
    return features.shape[0], features.shape[3], environment.shape[-1]
