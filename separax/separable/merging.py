"""Values of separable functions on a lattice, in one matrix product.

u = Σ_j (Π_{i<s} f_ij(x_i)) (Π_{i≥s} f_ij(x_i)) = A Bᵀ
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array

from ..core import across, add_up, default_device, in_tf32, tuning

if TYPE_CHECKING:
    from .separable import Separable

Key = tuple[int, tuple[int, ...]]  # (component, orders)
Pair = tuple[Key, Key]
Varying = tuple[tuple[Array, dict[Key, Any]], ...]  # Σ array · Σ c ∂ᵃu

Orders = tuple[int, ...]  # how often to differentiate along each axis
Terms = Mapping[Orders, Any]  # a linear differential operator: Σ coefficient · ∂^orders
Parts = Sequence[tuple["Separable", Terms]]  # the sum of what operators make of several functions


def khatri_rao(factors: Sequence[Array]) -> Array:
    """Column-wise outer product: (n₁, r), (n₂, r), … → (n₁ n₂ …, r)."""
    product = factors[0]
    for factor in factors[1:]:
        rows = _repeated(product, len(factor), 1) * _repeated(factor, len(product), 0)
        product = _as_it_lies(rows).reshape(-1, product.shape[-1])
    return product


def _as_it_lies(array: Array) -> Array:
    """The same. On a GPU, XLA would lay out what several seeds make with the points innermost, and
    turn it round before each product."""
    if default_device().platform != "gpu" or not isinstance(array, Tracer):
        return array
    return with_layout_constraint(array, Layout(major_to_minor=tuple(range(array.ndim))))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _repeated(factor: Array, number: int, axis: int) -> Array:
    """A factor along a new axis. Its gradient is a sum along that, which XLA on a GPU would do over
    rows, for which it turns the array round, and all others that this one has to do with: written
    as a sum of slices it is done as the array lies."""
    return _plain(factor, number, axis)


def _plain(factor: Array, number: int, axis: int) -> Array:
    return jnp.broadcast_to(
        jnp.expand_dims(factor, axis), (*factor.shape[:axis], number, *factor.shape[axis:])
    )


@_repeated.defjvp
def _repeated_tangents(
    number: int, axis: int, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    made, change = _repeated(primals[0], number, axis), tangents[0]
    most = next((n for n in range(math.isqrt(number), 0, -1) if number % n == 0), 1)
    if default_device().platform != "gpu" or number // most > tuning.SUMMED_IN_KERNEL:
        return made, _plain(change, number, axis)
    if number <= tuning.SUMMED_IN_KERNEL:
        return made, jnp.stack([change] * number, axis)
    outer = lax.optimization_barrier(jnp.stack([change] * most, axis))
    return made, jnp.stack([outer] * (number // most), axis + 1).reshape(made.shape)


class FactorCache:
    """Factors and products of factors, each made once for all who ask. A compiler would find that
    two are the same, but not that of their transposes: sharing them, a gradient adds up what comes
    back to one before it goes on. A large system's program is a fraction of what it would be."""

    def __init__(self):
        self._made: dict[Any, tuple[Any, Array]] = {}

    def _once(self, key: Any, kept: Any, make: Callable[[], Array]) -> Array:
        if key not in self._made:
            self._made[key] = (
                kept,
                make(),
            )  # what the key speaks of is kept, so that its id stays its own
        return self._made[key][1]

    def factor(self, jet: Array, order: int) -> Array:
        return self._once((id(jet), order), jet, lambda: jet[order])

    def scaled(self, jet: Array, order: int, coefficient: Any) -> Array:
        if not isinstance(coefficient, float):
            return self.factor(jet, order) * jnp.asarray(coefficient, jet.dtype)
        if coefficient == 1.0:
            return self.factor(jet, order)
        return self._once(
            (id(jet), order, coefficient),
            jet,
            lambda: self.factor(jet, order) * jnp.asarray(coefficient, jet.dtype),
        )

    def product(self, factors: Sequence[Array]) -> Array:
        return self._once(tuple(map(id, factors)), factors, lambda: khatri_rao(factors))


class Weighed(NamedTuple):
    """An order along an axis, of a term that is multiplied by a function of coordinates: `by` is
    its number."""

    order: int
    by: int


def merge(
    parts: Parts, once: FactorCache | None = None, varying: Sequence[tuple[Array, Parts]] = ()
) -> Array:
    """Values on the lattice of Σ c ∂ᵃu, in one matrix product:

        u = Σ_j (Π_{i<s} f_ij(x_i)) (Π_{i≥s} f_ij(x_i)) = A Bᵀ.

    The axes are split at s. Terms that share their right factor are added on the left before
    anything is multiplied (or the other way round), so the inner dimension of the product is the
    rank times the number of *distinct* factors on one side: a Laplacian in three axes costs two
    ranks, not three.

    Arguments:
        parts: pairs of a `Separable` and of coefficients by orders.
        once: products of factors that others have made in this trace.
        varying: further parts, each with a function of some coordinates that multiplies it: an
            array with one dimension per axis, 1 long where it is constant. Where those it varies
            along are all on one side, it is multiplied into that side, and the product stays one.

    Returns:
        An array with one dimension per axis.
    """
    once = once or FactorCache()
    shape = (parts or varying[0][1])[0][0].shape
    if len(shape) == 1:
        return add_up(
            jnp.sum(_add(u, terms), axis=1) * c
            for c, some in [(1.0, parts), *varying]
            for u, terms in some
            if terms
        )
    inside, beyond = fitting(shape, [c.shape for c, _ in varying])
    left_over = [c * merge(some, once) for c, some in (varying[i] for i in beyond)]
    together = _together(parts, [(i, *varying[i]) for i in inside])
    return add_up(
        [
            *([_merged(together, once, {i: varying[i][0] for i in inside})] if together else []),
            *left_over,
        ]
    )


def _together(
    parts: Parts, varying: Sequence[tuple[int, Array, Parts]]
) -> list[tuple[Separable, dict[Any, Any]]]:
    """All terms of a function, so that they share what they can; those with a coefficient, which
    come with its number, have a mark."""
    whole: dict[int, tuple[Separable, dict[Any, Any]]] = {}
    for u, terms in [
        *parts,
        *((u, _marked(some, c.shape, i)) for i, c, each in varying for u, some in each),
    ]:
        known = whole.setdefault(id(u), (u, {}))[1]
        known |= {
            orders: known[orders] + c if orders in known else c for orders, c in terms.items()
        }
    return [(u, terms) for u, terms in whole.values() if terms]


def fitting(
    shape: tuple[int, ...], coefficients: Sequence[tuple[int, ...]]
) -> tuple[list[int], list[int]]:
    """Which coefficients, of these shapes, go into one side of a product, all cut at one place; and
    which are left."""
    along = [{i for i, n in enumerate(one) if n > 1} for one in coefficients]

    def inside(split: int) -> list[int]:
        return [
            k
            for k, axes in enumerate(along)
            if all(i < split for i in axes) or all(i >= split for i in axes)
        ]

    most = max((inside(s) for s in cuts(shape)), key=len)
    return most, [k for k in range(len(along)) if k not in most]


def _marked(terms: Terms, shape: tuple[int, ...], by: int) -> dict[Any, Any]:
    """The terms, with a mark on the first axis along which their coefficient varies."""
    first = next((i for i, n in enumerate(shape) if n > 1), 0)
    return {(*o[:first], Weighed(o[first], by), *o[first + 1 :]): c for o, c in terms.items()}


def _merged(
    parts: Sequence[tuple[Separable, Mapping[Any, Any]]],
    once: FactorCache,
    coefficients: Mapping[int, Array],
) -> Array:
    shape = parts[0][0].shape
    marks = [{i for i, n in enumerate(c.shape) if n > 1} for c in coefficients.values()]
    split = best_split(shape, [(u.rank, tuple(terms)) for u, terms in parts], marks)
    left, right = [], []
    for u, terms in parts:
        heads, tails = group(terms, split)
        if len(tails) <= len(heads):
            for tail, by_head in tails.items():
                left.append(_side(once, u, 0, split, by_head, coefficients))
                right.append(_side(once, u, split, len(shape), {tail: 1.0}, coefficients))
        else:
            for head, by_tail in heads.items():
                left.append(_side(once, u, 0, split, {head: 1.0}, coefficients))
                right.append(_side(once, u, split, len(shape), by_tail, coefficients))
    return across(jnp.concatenate(left, 1), jnp.concatenate(right, 1)).reshape(shape)


def merge_each(parts: Sequence[tuple[Separable, Orders]]) -> list[Array]:
    """∂^orders u of every part on the lattice, in one batched product. All are of one shape and
    rank."""
    shape, rank = parts[0][0].shape, parts[0][0].rank
    split = best_split(shape, [(rank, [orders]) for _, orders in parts])

    def side(axes: range) -> Array:
        factors = [
            jnp.stack([u.jets[i][orders[i]] for u, orders in parts]) for i in axes
        ]  # each (parts, points, rank)
        return jax.vmap(lambda *each: khatri_rao(each))(*factors)

    left, right = side(range(split)), side(range(split, len(shape)))
    return list(across(left, right).reshape(len(parts), *shape))


def group(
    terms: Terms, split: int
) -> tuple[dict[Orders, dict[Orders, Any]], dict[Orders, dict[Orders, Any]]]:
    """The terms by their left orders and by their right orders."""
    heads: dict[Orders, dict[Orders, Any]] = {}
    tails: dict[Orders, dict[Orders, Any]] = {}
    for orders, coefficient in terms.items():
        head, tail = orders[:split], orders[split:]
        heads.setdefault(head, {})[tail] = coefficient
        tails.setdefault(tail, {})[head] = coefficient
    return heads, tails


def cuts(shape: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """Where to cut the axes in two, and the sizes of the sides: of all cuts those whose larger side
    stays near the smallest possible."""
    sides = {s: (math.prod(shape[:s]), math.prod(shape[s:])) for s in range(1, len(shape))}
    smallest = min(max(pair) for pair in sides.values())
    return {s: pair for s, pair in sides.items() if max(pair) <= 2 * smallest}


def best_split(
    shape: tuple[int, ...],
    parts: Sequence[tuple[int, Sequence[Orders]]],
    whole: Sequence[Collection[int]] = (),
) -> int:
    """Where to split the axes for a merge of the least work.

    Arguments:
        shape: of the lattice.
        parts: the rank of each function, and the orders of its terms.
        whole: groups of axes that must stay on one side.

    Returns:
        The number of axes on the left.
    """
    sides = cuts(shape)

    def work(split: int) -> float:
        total = 0.0
        for rank, orders in parts:
            heads, tails = group(dict.fromkeys(orders), split)
            blocks = min(len(heads), len(tails))
            built = sides[split][0 if len(tails) <= len(heads) else 1] * len(orders)
            total += rank * (blocks * (math.prod(shape) + sum(sides[split])) + built)
        return total

    allowed = [s for s in sides if all(len({i < s for i in axes}) <= 1 for axes in whole)]
    return min(allowed, key=lambda s: (work(s), -s))


def _side(
    once: FactorCache,
    u: Separable,
    start: int,
    stop: int,
    terms: Mapping[Any, Any],
    varying: Mapping[int, Array],
) -> Array:
    """Σ coefficient · Khatri-Rao product of the axes start:stop differentiated by `orders`, times
    what varies along them."""
    products: list[Array] = []
    jets = u.jets[start:stop]
    small = min(
        range(len(jets)), key=lambda i: jets[i].shape[1]
    )  # scaling the smallest factor costs the least
    for marked, scale in terms.items():
        functions = [varying[o.by] for o in marked if isinstance(o, Weighed)]
        orders = [o.order if isinstance(o, Weighed) else o for o in marked]
        factors = [
            once.scaled(jet, order, scale if i == small else 1.0)
            for i, (jet, order) in enumerate(zip(jets, orders))
        ]
        for function in functions:
            along = [i for i, n in enumerate(function.shape[start:stop]) if n > 1]
            if len(along) <= 1:
                one = along[0] if along else 0
                factors[one] = factors[one] * function.reshape(-1, 1)
        made = once.product(factors)
        for function in functions:
            here = function.shape[start:stop]
            if sum(n > 1 for n in here) > 1:
                made = made * jnp.broadcast_to(
                    function.reshape(here), [jet.shape[1] for jet in jets]
                ).reshape(-1, 1)
        products.append(made)
    return add_up(products)


def _add(u: Separable, terms: Terms) -> Array:
    return add_up(
        coefficient
        * functools.reduce(operator.mul, (jet[order] for jet, order in zip(u.jets, orders)))
        for orders, coefficient in terms.items()
    )


def merge_at_points(parts: Sequence[tuple[Separable, Terms]]) -> Array:
    """`merge` at scattered points: Σ_j Π_i f_ij(x_i), all axes sampled at the same points."""
    return add_up(jnp.sum(_add(u, terms), axis=1) for u, terms in parts if terms)


def columns(
    parts: Parts, once: FactorCache | None = None, varying: Sequence[tuple[Array, Parts]] = ()
) -> list[Array]:
    """The factors of Σ c ∂ᵃu as one sum of products. Terms that differ along a single axis are one
    set of
    columns: f″g + fg″ + fg = (f″ + f) g + f g″.

    Arguments:
        parts: pairs of a `Separable` and of coefficients by orders.
        once: products of factors that others have made in this trace.
        varying: further parts, each with a function of one coordinate, as in `merge`.

    Returns:
        Per axis an array (points, columns), whose products add up to the sum.
    """
    once = once or FactorCache()
    coefficients = dict(enumerate(c for c, _ in varying))
    together = _together(parts, [(i, c, some) for i, (c, some) in enumerate(varying)])
    axes: list[list[Array]] = [[] for _ in together[0][0].axes]

    def factor(jet: Array, marked: Any, scale: Any) -> Array:
        if not isinstance(marked, Weighed):
            return once.scaled(jet, marked, scale)
        return once.scaled(jet, marked.order, scale) * coefficients[marked.by].reshape(-1, 1)

    for u, terms in together:
        for (axis, others), along in min(
            (_by_others(terms, axis) for axis in range(len(axes))), key=len
        ).items():
            for i, jet in enumerate(u.jets):
                of = along if i == axis else {others[i]: 1.0}
                axes[i].append(add_up(factor(jet, order, c) for order, c in of.items()))
    return [jnp.concatenate(blocks, 1) for blocks in axes]


def _by_others(terms: Terms, axis: int) -> dict[tuple[int, Orders], dict[int, Any]]:
    """The terms by all their orders but the one along `axis`."""
    found: dict[tuple[int, Orders], dict[int, Any]] = {}
    for orders, coefficient in terms.items():
        found.setdefault((axis, (*orders[:axis], 0, *orders[axis + 1 :])), {})[orders[axis]] = (
            coefficient
        )
    return found


class BatchedMerge:
    """The derivatives of all fields that are merged on one lattice, each by itself, in one batched
    product.

    A merge of a whole combination is less work, but a system has many, with twice as many products
    in the gradient. Where the lattice is small a GPU takes longer to start them than to do them:
    there it is better to do more at once.
    """

    def __init__(self, components: Sequence[Separable]):
        self.components, self.merges = components, set[frozenset[Key]]()

    @functools.cached_property
    def keys(self) -> set[Key]:
        return {key for merge in self.merges for key in merge}

    @functools.cached_property
    def values(self) -> dict[Key, Array]:
        """By component and orders. Made when it is first asked for: there may be no need to."""
        keys = sorted(self.keys)
        return dict(zip(keys, merge_each([(self.components[c], orders) for c, orders in keys])))

    @functools.cached_property
    def pays(self) -> bool:
        """Whether that is done sooner than the merges."""
        if default_device().platform != "gpu" or len({u.rank for u in self.components}) > 1:
            return False
        first = self.components[0]
        operations = 6 * len(self.keys) * first.rank * math.prod(first.shape)
        return operations / tuning.BATCHED_RATE[in_tf32()] < len(self.merges) * tuning.MERGE_START
