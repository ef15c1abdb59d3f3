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
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .domain import Lattice, Points
from .fields import Key, Source
from .loss import Given, Known, Loss, Model
from .merges import PLACES, Merge
from .networks import SeparableNetwork
from .optimisers.solve import check_matrix
from .separable import PRECISION, add_up
from .sources import Place, Rows, highest

Basis = Sequence[Float[Array, "components features combinations"]]  # per axis
DENSE = 2e9  # operations that are sooner done the plain way than compiled in a cleverer one
SMALLEST = 1e-12  # of features that are told apart, as a part of the largest
TINY = 1e-300
einsum = functools.partial(jnp.einsum, precision=PRECISION, optimize="greedy")


class Normal(eqx.Module):
    """½ |r + J δ|² = value / 2 + gradient · δ + ½ δ · matrix δ. δ are coefficients of one axis after the other, each (components,
    combinations of features, columns); then the core, if there is one; then the unknowns of the equation."""

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
    merge: Merge
    core: Array | None
    left: Array
    slopes: dict[Key, Array]
    unknowns: list[Array]
    features: Sequence[Array]  # per axis: (components, orders, points, combinations of features)
    factors: Sequence[Array]  # per axis: (components, orders, points, columns)


def linearised(loss: Loss, model: Model, places: Sequence[Place], given: Given, basis: Basis) -> list[Linear]:
    """Every part of a loss, linearised where the model is, in the coefficients of a basis per axis."""
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
        table = {key: _merged(place, network.merge, network.core, factors, key) for key in needs}

        def values(table: dict[Key, Array], unknowns: dict[str, Array], place: Place = place, members: Sequence[int] = members):
            return jnp.stack(
                [part for i in members for part in _parts(loss, i, place, Table(place, table), Known(unknowns, given))]
            )

        def along(table_step: Any, unknown_step: Any, values: Any = values, table: Any = table) -> Array:
            return jax.jvp(values, (table, model.unknowns), (table_step, unknown_step))[1]

        still, fixed = jax.tree.map(jnp.zeros_like, table), jax.tree.map(jnp.zeros_like, model.unknowns)
        slopes = {key: along(still | {key: jnp.ones_like(table[key])}, fixed) for key in needs}
        unknowns = [along(still, fixed | {k: jnp.ones_like(v)}) for k, v in model.unknowns.items()]
        left = values(table, model.unknowns)
        turned = _features_in(here, basis)
        found.append(Linear(place, network.merge, network.core, left, slopes, unknowns, turned, factors))
    return found


def _parts(loss: Loss, number: int, place: Place, source: Source, known: Known) -> list[Array]:
    """What is left of the residuals (0) or of a condition (from 1 on), each value times the root of what it counts."""
    if number == 0:
        expressions = loss.problem.expressions(source, known.coordinates(place), known.unknowns)
        made = [loss.residual(name, e, source, place) for name, e in expressions.items()]
    else:
        made = loss.parts(loss.problem.terms[number - 1], place, source, known)
    weights = dict(zip(loss.names, loss.weights.tolist()))
    return [part.values * _roots(place, weights[part.name] * part.factor) for part in made]


def _roots(place: Place, weight: float) -> Array:
    """√ of what a point counts, so that the sum of squares is `weight` times their mean."""
    share = math.sqrt(weight / math.prod(place.shape))
    if isinstance(place, Points):
        return share * (jnp.ones(()) if place.weights is None else jnp.sqrt(place.weights / jnp.mean(place.weights)))
    counts = [place.along(a, w / jnp.mean(w)) for a, w in zip(place.axes, place.weights) if w is not None]
    return share * jnp.sqrt(functools.reduce(operator.mul, counts, jnp.ones((1,) * len(place.axes))))


def _features_in(features: Sequence[Array], basis: Basis) -> list[Array]:
    """Combinations of the features instead of the features."""
    return [einsum("conf,cfg->cong", f, b) for f, b in zip(features, basis)]


def _merged(place: Place, merge: Merge, core: Array | None, factors: Sequence[Array], key: Key) -> Array:
    """A derivative's values from factors (components, orders, points, columns) per axis."""
    component, orders = key
    columns = [f[component, o] for f, o in zip(factors, orders)]
    own = None if core is None else core[component]
    return merge.at_points(columns, own) if isinstance(place, Points) else merge.on_lattice(columns, own)


def normal(loss: Loss, model: Model, places: Sequence[Place], given: Given, basis: Basis) -> Normal:
    """The normal equations of all parts together, in the coefficients of a basis per axis."""
    network = model.network
    assert isinstance(network, SeparableNetwork)
    own, extra = sum(_sizes(network, basis)), len(model.unknowns)
    dtype = network.body.out.weight.dtype
    value = jnp.zeros((), dtype)
    gradient, matrix = jnp.zeros(own + extra, dtype), jnp.zeros((own + extra, own + extra), dtype)
    for linear in linearised(loss, model, places, given, basis):
        jacobian = _AtPoints(linear) if isinstance(linear.place, Points) else _OnLattice(linear)
        g, m = jacobian.transposed(linear.left), jacobian.squared()
        value = value + jnp.sum(linear.left**2)
        gradient = gradient.at[:own].add(g)
        matrix = matrix.at[:own, :own].add(m)
        for i, slope in enumerate(linear.unknowns):
            column = jacobian.transposed(slope)
            gradient = gradient.at[own + i].add(jnp.sum(slope * linear.left))
            matrix = matrix.at[:own, own + i].add(column).at[own + i, :own].add(column)
            for j, other in enumerate(linear.unknowns):
                matrix = matrix.at[own + i, own + j].add(jnp.sum(slope * other))
    return Normal(value, gradient, matrix)


def _sizes(network: SeparableNetwork, basis: Basis) -> tuple[int, ...]:
    """How many coefficients a step has in each of its blocks: one per axis, one for the core."""
    axes = [b.shape[0] * b.shape[2] * rank for b, rank in zip(basis, network.merge.ranks)]
    return (*axes, *([] if network.core is None else [network.core.size]))


def mass(model: Model, place: Lattice, basis: Basis) -> Float[Array, "n n"]:
    """How far the fields move with the coefficients: δ · matrix δ is the mean square of what a step δ changes in them."""
    network = model.network
    assert isinstance(network, SeparableNetwork)
    zero, components = (0,) * len(place.axes), network.components
    own, extra = sum(_sizes(network, basis)), len(model.unknowns)
    one = jnp.broadcast_to(_roots(place, 1.0), place.shape)
    slopes = {(c, zero): jnp.stack([one * (c == part) for part in range(components)]) for c in range(components)}
    features = network.features(place.coordinates, 0)
    factors = [einsum("conf,cfr->conr", f, c) for f, c in zip(features, network.coefficients)]
    nothing = jnp.zeros((components, *place.shape), one.dtype)
    linear = Linear(place, network.merge, network.core, nothing, slopes, [], _features_in(features, basis), factors)
    return jnp.zeros((own + extra, own + extra), one.dtype).at[:own, :own].set(_OnLattice(linear).squared())


# --- the Jacobian of one place ------------------------------------------------------------------------------------------


class _AtPoints:
    """At scattered points the Jacobian itself is small enough."""

    def __init__(self, linear: Linear):
        merge, factors, shape = linear.merge, linear.factors, linear.left.shape
        axes = [jnp.zeros((*shape, f.shape[0], f.shape[3], r), f.dtype) for f, r in zip(linear.features, merge.ranks)]
        cores = None if linear.core is None else jnp.zeros((*shape, *linear.core.shape), linear.core.dtype)
        for (component, orders), slope in linear.slopes.items():
            here = [f[component, o] for f, o in zip(factors, orders)]
            core = None if linear.core is None else linear.core[component]
            for i in range(len(axes)):
                others = merge.others_at_points(i, here, core)
                one = (slope[..., None] * others)[..., None, :] * linear.features[i][component, orders[i]][:, :, None]
                axes[i] = axes[i].at[:, :, component].add(one)
            if cores is not None:
                spec = ",".join("n" + index for index in merge.core)
                cores = cores.at[:, :, component].add(einsum(f"pn,{spec}->pn{merge.core}", slope, *here))
        flat = [block.reshape(linear.left.size, -1) for block in (*axes, *([] if cores is None else [cores]))]
        self.matrix = jnp.concatenate(flat, 1)

    def transposed(self, values: Array) -> Array:
        return self.matrix.T @ values.ravel()

    def squared(self) -> Array:
        return jnp.matmul(self.matrix.T, self.matrix, precision=PRECISION)


class _OnLattice:
    """On a lattice it is kept as E of the module's text and the features, per axis."""

    def __init__(self, linear: Linear):
        self.linear, self.axes = linear, len(linear.features)
        self.used = [sorted({orders[i] for _, orders in linear.slopes}) for i in range(self.axes)]
        # an axis whose factors span all its functions has nothing to solve for
        self.live = [i for i, f in enumerate(linear.features) if f.shape[-1]]
        self.spread = {i: self._spread(i) for i in self.live}
        self.own = {i: linear.features[i][:, jnp.array(self.used[i])] for i in self.live}

    def _spread(self, i: int) -> Array:
        """E: (parts, lattice…, components, orders used, columns)."""
        linear, used = self.linear, self.used[i]
        shape, rank = linear.left.shape, linear.merge.ranks[i]
        components = linear.features[i].shape[0]
        out = [[jnp.zeros((*shape, rank), linear.factors[0].dtype) for _ in used] for _ in range(components)]
        for (component, orders), slope in linear.slopes.items():
            here = [f[component, o] for f, o in zip(linear.factors, orders)]
            others = linear.merge.others(i, here, None if linear.core is None else linear.core[component])
            at = used.index(orders[i])
            out[component][at] = out[component][at] + slope[..., None] * others
        return jnp.stack([jnp.stack(per, -2) for per in out], -3)

    def transposed(self, values: Array) -> Array:
        out = []
        rest = PLACES[: self.axes]
        for i in self.live:
            one = einsum(f"Z{rest},Z{rest}COR->{rest[i]}COR", values, self.spread[i])
            out.append(einsum(f"{rest[i]}COR,CO{rest[i]}F->CFR", one, self.own[i]).ravel())
        if self.linear.core is not None:
            total = jnp.zeros_like(self.linear.core)
            for (component, orders), slope in self.linear.slopes.items():
                total = total.at[component].add(self._onto_core(jnp.sum(values * slope, 0), component, orders))
            out.append(total.ravel())
        return jnp.concatenate(out)

    def _onto_core(self, values: Array, component: int, orders: tuple[int, ...]) -> Array:
        """Values on the lattice, summed against the factors of every axis."""
        rest, core = PLACES[: self.axes], self.linear.merge.core
        here = [f[component, o] for f, o in zip(self.linear.factors, orders)]
        return einsum(f"{rest},{','.join(map(operator.add, rest, core))}->{core}", values, *here)

    def squared(self) -> Array:
        sizes = {i: math.prod((self.own[i].shape[0], self.own[i].shape[3], self.linear.merge.ranks[i])) for i in self.live}
        core = 0 if self.linear.core is None else self.linear.core.size
        number = sum(sizes.values()) + core
        if self.linear.left.size * number**2 < DENSE:
            jacobian = self._dense()
            return jnp.matmul(jacobian.T, jacobian, precision=PRECISION)
        blocks: dict[tuple[int, int], Array] = {}
        for i in self.live:
            for k in (k for k in self.live if k >= i):
                blocks[i, k] = _block(i, k, self.spread, self.own)
                blocks[k, i] = blocks[i, k].T
        names = list(self.live)
        if core:
            names.append(self.axes)
            blocks[self.axes, self.axes] = self._core_with_itself()
            for i in self.live:
                blocks[self.axes, i] = self._core_with_axis(i)
                blocks[i, self.axes] = blocks[self.axes, i].T
        return jnp.block([[blocks[i, k] for k in names] for i in names])

    def _dense(self) -> Array:
        linear, rest = self.linear, PLACES[: self.axes]
        made = [
            einsum(f"Z{rest}COR,CO{rest[i]}F->Z{rest}CFR", self.spread[i], self.own[i]).reshape(linear.left.size, -1)
            for i in self.live
        ]
        if linear.core is not None:
            total = jnp.zeros((*linear.left.shape, *linear.core.shape), linear.core.dtype)
            spec = ",".join(map(operator.add, rest, linear.merge.core))
            for (component, orders), slope in linear.slopes.items():
                here = [f[component, o] for f, o in zip(linear.factors, orders)]
                one = einsum(f"Z{rest},{spec}->Z{rest}{linear.merge.core}", slope, *here)
                total = total.at[(slice(None),) * (1 + self.axes) + (component,)].add(one)
            made.append(total.reshape(linear.left.size, -1))
        return jnp.concatenate(made, 1)

    def _core_with_itself(self) -> Array:
        """One axis of the lattice after the other goes, and brings a pair of indices."""
        linear = self.linear
        assert linear.core is not None
        components, shape = linear.core.shape[0], linear.core.shape[1:]
        number = math.prod(shape)
        total = jnp.zeros((components, number, components, number), linear.core.dtype)
        keys = list(linear.slopes)
        for n, a in enumerate(keys):
            for b in keys[n:]:
                values = jnp.sum(linear.slopes[a] * linear.slopes[b], 0)
                for k in reversed(range(self.axes)):
                    left, right = linear.factors[k][a[0], a[1][k]], linear.factors[k][b[0], b[1][k]]
                    pairs = einsum("xi,xj->xij", left, right).reshape(len(left), -1)
                    # the lattice's last axis is summed; its pair of indices goes to the front
                    lead, back = values.shape[: -(k + 1)], values.shape[-(k + 1) :]
                    flat = values.reshape(math.prod(lead), math.prod(back[:-1]), back[-1])
                    values = einsum("lrx,xp->plr", flat, pairs).reshape(left.shape[1], right.shape[1], *lead, *back[:-1])
                order = [*range(0, 2 * self.axes, 2), *range(1, 2 * self.axes, 2)]
                block = values.transpose(order).reshape(number, number)
                total = total.at[a[0], :, b[0]].add(block)
                if a != b:
                    total = total.at[b[0], :, a[0]].add(block.T)
        return total.reshape(components * number, -1)

    def _core_with_axis(self, i: int) -> Array:
        linear, rest, core = self.linear, PLACES[: self.axes], self.linear.merge.core
        assert linear.core is not None
        components, number, rank = self.own[i].shape[0], self.own[i].shape[3], linear.merge.ranks[i]
        total = jnp.zeros((*linear.core.shape, components, number, rank), linear.core.dtype)
        others = [k for k in range(self.axes) if k != i]
        for (component, orders), slope in linear.slopes.items():
            values = einsum(f"Z{rest},Z{rest}XYW->{rest}XYW", slope, self.spread[i])
            here = [f[component, o] for f, o in zip(linear.factors, orders)]
            spec = ",".join(rest[k] + core[k] for k in others)
            kept = "".join(core[k] for k in others)
            half = einsum(f"{rest}XYW{',' * bool(others)}{spec}->{rest[i]}{kept}XYW", values, *(here[k] for k in others))
            one = einsum(f"{rest[i]}{kept}XYW,{rest[i]}{core[i]},XY{rest[i]}V->{core}XVW", half, here[i], self.own[i])
            total = total.at[component].add(one)
        return total.reshape(linear.core.size, -1)


def _block(i: int, k: int, spread: Mapping[int, Array], own: Mapping[int, Array]) -> Array:
    """The block of the normal matrix that couples the coefficients of two axes, point after point of the first."""
    axes = spread[i].ndim - 4
    components, _, _, number = own[i].shape
    columns = (axes + 1, axes + 2, axes + 3)
    rest = [a + 1 for a in range(axes) if a not in (i, k)]
    start = jnp.zeros((components, number, spread[i].shape[-1], components, own[k].shape[3], spread[k].shape[-1]), own[i].dtype)
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
    return total.reshape(components * number * spread[i].shape[-1], -1)


class Layers:
    """A loss on fixed points as a function of flat parameters, for `Solve`: an `Objective`."""

    def __init__(
        self, loss: Loss, value: Callable[[Array], Array], model: Callable[[Array], Model], places: Sequence[Place], given: Given
    ):
        self.loss, self._value, self._model, self.places, self.given = loss, value, model, places, given
        like = jax.eval_shape(lambda: Model.build(loss.problem, loss.recipe, jax.random.key(0)))
        shapes = [c.shape for c in jax.eval_shape(lambda n: n.coefficients, like.network)]
        assert isinstance(like.network, SeparableNetwork)
        merge = like.network.merge
        # a step within what the factors of an axis span already is the core's to take
        kept = [max(f - r, 0) if merge.core else f for _, f, r in shapes]
        own = [c * k * r for (c, _, r), k in zip(shapes, kept)]
        core = [] if like.network.core is None else [like.network.core.size]
        self.sizes = (*own, *core, len(loss.problem.unknowns))
        check_matrix(sum(self.sizes))
        live = [(i,) for i, size in enumerate(own) if size]
        alone = (len(own),)
        self.phases = tuple(phase for one in live for phase in (alone, one)) or (alone,) if core else tuple(live)

    def __call__(self, params: Array) -> Array:
        return self._value(params)

    def normal(self, params: Array, basis: Basis) -> Normal:
        return normal(self.loss, self._model(params), self.places, self.given, basis)

    def _network(self, params: Array) -> SeparableNetwork:
        network = self._model(params).network
        assert isinstance(network, SeparableNetwork)
        return network

    def _features(self, network: SeparableNetwork) -> list[Array]:
        """Per axis: the features' values at the inner points, each point counting what the rule says."""
        place = self.places[0]
        assert isinstance(place, Lattice)
        found = []
        for features, n, weights in zip(network.features(place.coordinates, 0), place.shape, place.weights):
            counts = jnp.full(n, 1 / n) if weights is None else weights / jnp.sum(weights)
            found.append(features[:, 0] * jnp.sqrt(counts)[:, None])
        return found

    def basis(self, params: Array) -> Basis:
        """Features may be nearly the same function: combinations that are not are found by a singular value decomposition, and
        those that rounding cannot tell from zero left out. Where there is a core, the combinations are those that are orthogonal to
        the factors as they are: within the factors' span the core can do it all."""

        def one(features: Array) -> Array:
            _, sizes, turned = jnp.linalg.svd(features, full_matrices=True)
            sizes = jnp.pad(sizes, (0, features.shape[1] - len(sizes)))
            kept = sizes > SMALLEST * sizes[0]
            return jnp.where(kept, turned.T / jnp.where(kept, sizes, 1.0), 0.0)

        def beside(features: Array, basis: Array, coefficients: Array) -> Array:
            within = basis.T @ (features.T @ (features @ coefficients))
            turned, _ = jnp.linalg.qr(within, mode="complete")
            return basis @ turned[:, coefficients.shape[1] :]

        network = self._network(params)
        features = self._features(network)
        made = [jax.vmap(one)(f) for f in features]
        if network.merge.core:
            made = [jax.vmap(beside)(*each) for each in zip(features, made, network.coefficients)]
        return tuple(made)

    def moved(self, params: Array, step: Array, basis: Basis) -> Array:
        model, network = self._model(params), self._network(params)
        parts = jnp.split(step, np.cumsum(self.sizes)[:-1])
        own = []
        for coefficients, b, part in zip(network.coefficients, basis, parts):
            inner = part.reshape(b.shape[0], b.shape[2], coefficients.shape[2])
            own.append(coefficients + einsum("cfg,cgr->cfr", b, inner))
        core = None if network.core is None else network.core + parts[len(own)].reshape(network.core.shape)
        unknowns = {k: v + parts[-1][i] for i, (k, v) in enumerate(model.unknowns.items())}
        return _flat(Model(network.with_coefficients(own, core), unknowns))

    def resized(self, params: Array, size: float) -> Array:
        model, network = self._model(params), self._network(params)
        if network.core is not None:
            return _flat(Model(network.with_coefficients(network.coefficients, size * network.core), model.unknowns))
        return _flat(Model(network.with_coefficients([c * size for c in network.coefficients]), model.unknowns))

    def balanced(self, params: Array) -> Array:
        """The same function; its columns of one size on all axes, or orthonormal where a core can take what is left."""
        model, network = self._model(params), self._network(params)
        factors = [einsum("cnf,cfr->cnr", f, c) for f, c in zip(self._features(network), network.coefficients)]
        if network.core is None:
            return _flat(Model(network.with_coefficients(_even(network, factors)), model.unknowns))
        own, core = [], network.core
        for i, (coefficients, factor) in enumerate(zip(network.coefficients, factors)):
            upper = jnp.linalg.qr(factor, mode="r")
            # a column that is nearly a combination of others stays what it is
            ill = jnp.min(jnp.abs(jnp.diagonal(upper, axis1=1, axis2=2)), 1) < 1e-8 * jnp.max(jnp.abs(upper), (1, 2))
            upper = jnp.where(ill[:, None, None], jnp.eye(upper.shape[-1], dtype=upper.dtype), upper)
            turned = jax.vmap(lambda c, r: jax.scipy.linalg.solve_triangular(r, c.T, trans=1).T)(coefficients, upper)
            own.append(turned)
            core = jnp.moveaxis(jax.vmap(lambda r, g: jnp.tensordot(r, g, 1))(upper, jnp.moveaxis(core, i + 1, 1)), 1, i + 1)
        return _flat(Model(network.with_coefficients(own, core), model.unknowns))


def _even(network: SeparableNetwork, factors: Sequence[Array]) -> list[Array]:
    """Coefficients whose columns, summed over by one index, are of one size on all the axes that carry it."""
    sizes = [jnp.maximum(jnp.linalg.norm(f, axis=1), TINY) for f in factors]  # (components, columns)
    if len(set(network.merge.indices)) > 1:  # of a train: one number per axis
        sizes = [jnp.broadcast_to(jnp.linalg.norm(s, axis=1, keepdims=True), s.shape) for s in sizes]
        wanted = jnp.exp(jnp.mean(jnp.stack([jnp.log(s[:, :1]) for s in sizes]), 0))
    else:
        wanted = jnp.exp(jnp.mean(jnp.log(jnp.stack(sizes)), 0))
    return [c * (wanted / s)[:, None] for c, s in zip(network.coefficients, sizes)]


def _flat(model: Model) -> Array:
    return ravel_pytree(eqx.filter(model, eqx.is_array))[0]
