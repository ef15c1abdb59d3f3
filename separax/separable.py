"""Sums of products of one-dimensional functions, as a type with an algebra.

    u(x₁ … x_d) = Σ_j Π_i f_ij(x_i)

A `Separable` holds the factors f_ij sampled along each axis together with their derivatives ("jets"). Sums,
products, derivatives, integrals and inner products of such functions act on the factors; the lattice of N^d values
is made only when it is asked for, and then by one matrix product wherever the terms allow it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

from .devices import current
from .domain import Lattice
from .errors import DerivativeError, InputError, listed, whole

# On a GPU a float32 product is done in TF32 (10 bits) unless full precision is asked for, and residuals feel it.
PRECISION = lax.Precision.HIGHEST
SLICES = 32  # to add up in one kernel
# The products of a training step, which a recipe may want in TF32 all the same; what is traced inside of `rounded` has them so.
_of_a_step: ContextVar[lax.Precision] = ContextVar("precision of a step's products", default=PRECISION)

Orders = tuple[int, ...]  # how often to differentiate along each axis
Terms = Mapping[Orders, Any]  # a linear differential operator: Σ coefficient · ∂^orders
Parts = Sequence[tuple["Separable", Terms]]  # the sum of what operators make of several functions


@contextlib.contextmanager
def rounded(precision: str) -> Iterator[None]:
    """Inside, the products of a step are those of a recipe's precision."""
    token = _of_a_step.set(lax.Precision.DEFAULT if precision == "tf32" else PRECISION)
    try:
        yield
    finally:
        _of_a_step.reset(token)


def in_tf32() -> bool:
    """Whether the products of the step that is traced are rounded."""
    return _of_a_step.get() != PRECISION


def product(a: Array, b: Array) -> Array:
    """A matrix product of a training step."""
    return jnp.matmul(a, b, precision=_of_a_step.get())


def across(a: Float[Array, "*batch n rank"], b: Float[Array, "*batch m rank"]) -> Float[Array, "*batch n m"]:
    """a bᵀ, a product of a training step."""
    batch = tuple(range(a.ndim - 2))
    return lax.dot_general(a, b, (((a.ndim - 1,), (b.ndim - 1,)), (batch, batch)), precision=_of_a_step.get())


def in_own_precision(method: Callable[..., Any]) -> Callable[..., Any]:
    """float64 factors are worked on in float64, also where JAX was not told to allow it."""

    @functools.wraps(method)
    def wrapped(self: Separable, *arguments: Any, **options: Any) -> Any:
        if self.jets[0].dtype != jnp.float64:
            return method(self, *arguments, **options)
        with jax.enable_x64(True):
            return method(self, *arguments, **options)

    return wrapped


class Separable(eqx.Module):
    """A separable function sampled along each axis: `jets[i]` has shape (derivatives, points, rank).

    `weights[i]` are quadrature weights along axis i, or None; integrals, inner products and norms need them.
    """

    __array_ufunc__ = None  # an array times a Separable is an error, not an array of Separables

    axes: tuple[str, ...] = eqx.field(static=True)
    jets: tuple[Float[Array, "order points rank"], ...]
    weights: tuple[Float[Array, " points"] | None, ...]

    def __init__(self, axes: Iterable[str], jets: Iterable[Array], weights: Iterable[Array | None] | None = None):
        self.axes, self.jets = tuple(axes), tuple(jets)
        self.weights = tuple(weights) if weights is not None else (None,) * len(self.axes)
        if not len(self.axes) == len(self.jets) == len(self.weights) > 0:
            raise InputError(
                f"Separable: {len(self.axes)} axes, {len(self.jets)} factors and {len(self.weights)} weights: give one of each per axis"
            )
        for axis, jet in zip(self.axes, self.jets):
            if jnp.ndim(jet) != 3 or jet.shape[2] != self.jets[0].shape[2]:
                raise InputError(
                    f"Separable: the factors of {axis} have shape {jnp.shape(jet)}: write (derivatives, points, rank), the same rank on every axis"
                )

    @classmethod
    def of(cls, lattice: Lattice, **factors: Array) -> Separable:
        """From values alone: one array of shape (points, rank) per axis of the lattice."""
        return cls(lattice.axes, (jnp.asarray(factors[axis])[None] for axis in lattice.axes), lattice.weights)

    @property
    def rank(self) -> int:
        return self.jets[0].shape[2]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(jet.shape[1] for jet in self.jets)

    @property
    def orders(self) -> Orders:
        """The highest derivative carried along each axis."""
        return tuple(jet.shape[0] - 1 for jet in self.jets)

    def _like(self, jets: Iterable[Array]) -> Separable:
        return Separable(self.axes, jets, self.weights)

    def _check_same_points(self, other: Separable, what: str) -> None:
        if self.axes != other.axes or self.shape != other.shape:
            raise InputError(
                f"{what}: ({listed(self.axes)}) on {self.shape} points and ({listed(other.axes)}) on {other.shape}: sample both on one lattice"
            )

    # --- the algebra -------------------------------------------------------------------------------------------

    @in_own_precision
    def __add__(self, other: Separable) -> Separable:
        if not isinstance(other, Separable):
            return NotImplemented
        self._check_same_points(other, "sum")
        return self._like(jnp.concatenate([a[: len(b)], b[: len(a)]], -1) for a, b in zip(self.jets, other.jets))

    def __neg__(self) -> Separable:
        return self * -1.0

    def __sub__(self, other: Separable) -> Separable:
        return self + (-other) if isinstance(other, Separable) else NotImplemented

    @in_own_precision
    def __mul__(self, other: Any) -> Separable:
        if isinstance(other, Separable):
            self._check_same_points(other, "product")
            return self._like(leibniz(a, b) for a, b in zip(self.jets, other.jets))
        if not isinstance(other, (int, float, np.ndarray, np.generic, jax.Array)) or np.ndim(other) != 0:
            return NotImplemented
        return self._like((self.jets[0] * jnp.asarray(other, self.jets[0].dtype), *self.jets[1:]))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Separable:
        return self * (1.0 / other)

    def derivative(self, **orders: int) -> Separable:
        """`u.derivative(x=2, t=1)`: differentiates the factors, nothing else."""
        for axis in orders:
            if axis not in self.axes:
                raise DerivativeError(f"derivative: there is no axis {axis!r}; the axes are {listed(self.axes)}")
        orders = {axis: whole(f"derivative: {axis}", order, 0) for axis, order in orders.items()}
        for axis, order in orders.items():
            if order > (held := self.orders[self.axes.index(axis)]):
                raise DerivativeError(
                    f"derivative: order {order} along {axis}, but the factors carry {held}: sample them with more derivatives"
                )
        return self._like(jet[orders.get(axis, 0) :] for axis, jet in zip(self.axes, self.jets))

    @in_own_precision
    def integral(self, *axes: str) -> Separable | Array:
        """The integral over the named axes (all of them if none is named): a Separable on the others, or a number."""
        for axis in axes:
            if axis not in self.axes:
                raise InputError(f"integral: there is no axis {axis!r}; the axes are {listed(self.axes)}")
        gone = axes or self.axes
        scale = jnp.ones(self.rank, self.jets[0].dtype)
        for axis, jet, weights in zip(self.axes, self.jets, self._weights(gone)):
            if axis in gone:
                scale = scale * jnp.matmul(weights, jet[0], precision=PRECISION)
        left = [i for i, axis in enumerate(self.axes) if axis not in gone]
        if not left:
            return jnp.sum(scale)
        jets = [self.jets[i] for i in left]
        return Separable([self.axes[i] for i in left], [jets[0] * scale, *jets[1:]], [self.weights[i] for i in left])

    def _weights(self, needed: Iterable[str]) -> list[Array]:
        for axis, weights in zip(self.axes, self.weights):
            if weights is None and axis in needed:
                raise InputError(f"integral: no quadrature weights along {axis}: sample on separax.quadrature(box, points)")
        return [w if w is not None else jnp.ones(n, self.jets[0].dtype) for w, n in zip(self.weights, self.shape)]

    @in_own_precision
    def inner(self, other: Separable) -> Array:
        """∫ u v over the box, from one Gram matrix per axis: O(N rank²) work, no lattice."""
        self._check_same_points(other, "inner product")
        gram = jnp.ones((self.rank, other.rank), self.jets[0].dtype)
        for a, b, w in zip(self.jets, other.jets, self._weights(self.axes)):
            gram = gram * jnp.matmul((a[0] * w[:, None]).T, b[0], precision=PRECISION)
        return jnp.sum(gram)

    @in_own_precision
    def norm(self) -> Array:
        """√∫ u² without a lattice and without squaring the rounding error.

        √inner(u, u) loses everything below √ε of the size of the single terms, which in float32 is 3e-4: the norm of
        a small difference of large terms comes out as 0. Here the factors are orthogonalised axis by axis (a QR of a
        tensor train), so that the error stays near ε of the size of the terms.
        """
        weights = self._weights(self.axes)
        carried = jnp.ones((1, self.rank), self.jets[0].dtype)  # rows: an orthonormal basis of the axes so far
        for jet, w in zip(self.jets, weights):
            factor = jet[0] * jnp.sqrt(w)[:, None]
            if factor.shape[0] > self.rank:
                factor = jnp.linalg.qr(factor, mode="r")
            carried = khatri_rao([carried, factor])
            if carried.shape[0] > self.rank:
                carried = jnp.linalg.qr(carried, mode="r")
        return jnp.linalg.norm(jnp.sum(carried, axis=1))

    # --- values ------------------------------------------------------------------------------------------------

    @in_own_precision
    def values(self) -> Array:
        """On the lattice: an array with one dimension per axis."""
        return merge([(self, {(0,) * len(self.axes): 1.0})])

    @in_own_precision
    def at_points(self) -> Array:
        """At scattered points: every axis sampled at the same number of points, taken together one by one."""
        if len(set(self.shape)) > 1:
            raise InputError(f"at_points: the axes are sampled at {self.shape} points: give every axis one coordinate per point")
        return merge_at_points([(self, {(0,) * len(self.axes): 1.0})])


def add_up(arrays: Iterable[Array]) -> Array:
    """The sum of one array or more, which unlike `sum` does not begin with the number 0."""
    return functools.reduce(operator.add, arrays)


def leibniz(a: Array, b: Array) -> Array:
    """Jets of all products of a column of `a` with a column of `b`: (fg)⁽ᵏ⁾ = Σ binom(k, j) f⁽ʲ⁾ g⁽ᵏ⁻ʲ⁾."""
    order = min(len(a), len(b))
    outer = [[(a[i][:, :, None] * b[j][:, None, :]).reshape(a.shape[1], -1) for j in range(order - i)] for i in range(order)]
    return jnp.stack([add_up(math.comb(k, j) * outer[j][k - j] for j in range(k + 1)) for k in range(order)])


def khatri_rao(factors: Sequence[Array]) -> Array:
    """Column-wise outer product: (n₁, r), (n₂, r), … → (n₁ n₂ …, r)."""
    product = factors[0]
    for factor in factors[1:]:
        rows = _repeated(product, len(factor), 1) * _repeated(factor, len(product), 0)
        product = _as_it_lies(rows).reshape(-1, product.shape[-1])
    return product


def _as_it_lies(array: Array) -> Array:
    """The same. On a GPU, XLA would lay out what several seeds make with the points innermost, and turn it round before each product."""
    if current().platform != "gpu" or not isinstance(array, Tracer):
        return array
    return with_layout_constraint(array, Layout(major_to_minor=tuple(range(array.ndim))))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _repeated(factor: Array, number: int, axis: int) -> Array:
    """A factor along a new axis. Its gradient is a sum along that, which XLA on a GPU would do over rows, for which it turns the array
    round, and all others that this one has to do with: written as a sum of slices it is done as the array lies."""
    return _plain(factor, number, axis)


def _plain(factor: Array, number: int, axis: int) -> Array:
    return jnp.broadcast_to(jnp.expand_dims(factor, axis), (*factor.shape[:axis], number, *factor.shape[axis:]))


@_repeated.defjvp
def _repeated_tangents(number: int, axis: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    made, change = _repeated(primals[0], number, axis), tangents[0]
    most = next((n for n in range(math.isqrt(number), 0, -1) if number % n == 0), 1)
    if current().platform != "gpu" or number // most > SLICES:
        return made, _plain(change, number, axis)
    if number <= SLICES:
        return made, jnp.stack([change] * number, axis)
    outer = lax.optimization_barrier(jnp.stack([change] * most, axis))
    return made, jnp.stack([outer] * (number // most), axis + 1).reshape(made.shape)


class Once:
    """Factors and products of factors, each made once for all who ask. A compiler would find that two are the same, but not that of
    their transposes: sharing them, a gradient adds up what comes back to one before it goes on. A large system's program is a
    fraction of what it would be."""

    def __init__(self):
        self._made: dict[Any, tuple[Any, Array]] = {}

    def _once(self, key: Any, kept: Any, make: Callable[[], Array]) -> Array:
        if key not in self._made:
            self._made[key] = kept, make()  # what the key speaks of is kept, so that its id stays its own
        return self._made[key][1]

    def factor(self, jet: Array, order: int) -> Array:
        return self._once((id(jet), order), jet, lambda: jet[order])

    def scaled(self, jet: Array, order: int, coefficient: Any) -> Array:
        if not isinstance(coefficient, float):
            return self.factor(jet, order) * jnp.asarray(coefficient, jet.dtype)
        if coefficient == 1.0:
            return self.factor(jet, order)
        return self._once(
            (id(jet), order, coefficient), jet, lambda: self.factor(jet, order) * jnp.asarray(coefficient, jet.dtype)
        )

    def product(self, factors: Sequence[Array]) -> Array:
        return self._once(tuple(map(id, factors)), factors, lambda: khatri_rao(factors))


class Weighed(NamedTuple):
    """An order along an axis, of a term that is multiplied by a function of coordinates: `by` is its number."""

    order: int
    by: int


def merge(parts: Parts, once: Once | None = None, varying: Sequence[tuple[Array, Parts]] = ()) -> Array:
    """Σ over parts of Σ coefficient · ∂^orders u, on the lattice, in one matrix product.

    The axes are split into a left and a right group. Terms that share their right factor are added on the left before
    anything is multiplied (or the other way round), so the inner dimension of the product is the rank times the number
    of *distinct* factors on one side: the Laplacian in three axes costs two ranks, not three.

    `varying` are further parts, each multiplied by a function of some coordinates: an array with one dimension per axis, of length one where it is
    constant. Where those it varies along are all on one side, it is multiplied into that side, and the product stays one.
    """
    once = once or Once()
    shape = (parts or varying[0][1])[0][0].shape
    if len(shape) == 1:
        return add_up(jnp.sum(_add(u, terms), axis=1) * c for c, some in [(1.0, parts), *varying] for u, terms in some if terms)
    inside, beyond = fitting(shape, [c.shape for c, _ in varying])
    left_over = [c * merge(some, once) for c, some in (varying[i] for i in beyond)]
    together = _together(parts, [(i, *varying[i]) for i in inside])
    return add_up([*([_merged(together, once, {i: varying[i][0] for i in inside})] if together else []), *left_over])


def _together(parts: Parts, varying: Sequence[tuple[int, Array, Parts]]) -> list[tuple[Separable, dict[Any, Any]]]:
    """All terms of a function, so that they share what they can; those with a coefficient, which come with its number, have a mark."""
    whole: dict[int, tuple[Separable, dict[Any, Any]]] = {}
    for u, terms in [*parts, *((u, _marked(some, c.shape, i)) for i, c, each in varying for u, some in each)]:
        known = whole.setdefault(id(u), (u, {}))[1]
        known |= {orders: known[orders] + c if orders in known else c for orders, c in terms.items()}
    return [(u, terms) for u, terms in whole.values() if terms]


def fitting(shape: tuple[int, ...], coefficients: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Which coefficients, of these shapes, go into one side of a product, all cut at one place; and which are left."""
    along = [{i for i, n in enumerate(one) if n > 1} for one in coefficients]

    def inside(split: int) -> list[int]:
        return [k for k, axes in enumerate(along) if all(i < split for i in axes) or all(i >= split for i in axes)]

    most = max((inside(s) for s in cuts(shape)), key=len)
    return most, [k for k in range(len(along)) if k not in most]


def _marked(terms: Terms, shape: tuple[int, ...], by: int) -> dict[Any, Any]:
    """The terms, with a mark on the first axis along which their coefficient varies."""
    first = next((i for i, n in enumerate(shape) if n > 1), 0)
    return {(*o[:first], Weighed(o[first], by), *o[first + 1 :]): c for o, c in terms.items()}


def _merged(parts: Sequence[tuple[Separable, Mapping[Any, Any]]], once: Once, coefficients: Mapping[int, Array]) -> Array:
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
    """∂^orders u of every part on the lattice, in one batched product. All are of one shape and rank."""
    shape, rank = parts[0][0].shape, parts[0][0].rank
    split = best_split(shape, [(rank, [orders]) for _, orders in parts])

    def side(axes: range) -> Array:
        factors = [jnp.stack([u.jets[i][orders[i]] for u, orders in parts]) for i in axes]  # each (parts, points, rank)
        return jax.vmap(lambda *each: khatri_rao(each))(*factors)

    left, right = side(range(split)), side(range(split, len(shape)))
    return list(across(left, right).reshape(len(parts), *shape))


def group(terms: Terms, split: int) -> tuple[dict[Orders, dict[Orders, Any]], dict[Orders, dict[Orders, Any]]]:
    """The terms by their left orders and by their right orders."""
    heads: dict[Orders, dict[Orders, Any]] = {}
    tails: dict[Orders, dict[Orders, Any]] = {}
    for orders, coefficient in terms.items():
        head, tail = orders[:split], orders[split:]
        heads.setdefault(head, {})[tail] = coefficient
        tails.setdefault(tail, {})[head] = coefficient
    return heads, tails


def cuts(shape: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """Where to cut the axes in two, and the sizes of the sides: of all cuts those whose larger side stays near the smallest possible."""
    sides = {s: (math.prod(shape[:s]), math.prod(shape[s:])) for s in range(1, len(shape))}
    smallest = min(max(pair) for pair in sides.values())
    return {s: pair for s, pair in sides.items() if max(pair) <= 2 * smallest}


def best_split(
    shape: tuple[int, ...], parts: Sequence[tuple[int, Sequence[Orders]]], whole: Sequence[Collection[int]] = ()
) -> int:
    """The cut of the least work among those that leave each group of axes in `whole` on one side."""
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


def _side(once: Once, u: Separable, start: int, stop: int, terms: Mapping[Any, Any], varying: Mapping[int, Array]) -> Array:
    """Σ coefficient · Khatri-Rao product of the axes start:stop differentiated by `orders`, times what varies along them."""
    products: list[Array] = []
    jets = u.jets[start:stop]
    small = min(range(len(jets)), key=lambda i: jets[i].shape[1])  # scaling the smallest factor costs the least
    for marked, scale in terms.items():
        functions = [varying[o.by] for o in marked if isinstance(o, Weighed)]
        orders = [o.order if isinstance(o, Weighed) else o for o in marked]
        factors = [once.scaled(jet, order, scale if i == small else 1.0) for i, (jet, order) in enumerate(zip(jets, orders))]
        for function in functions:
            along = [i for i, n in enumerate(function.shape[start:stop]) if n > 1]
            if len(along) <= 1:
                one = along[0] if along else 0
                factors[one] = factors[one] * function.reshape(-1, 1)
        made = once.product(factors)
        for function in functions:
            here = function.shape[start:stop]
            if sum(n > 1 for n in here) > 1:
                made = made * jnp.broadcast_to(function.reshape(here), [jet.shape[1] for jet in jets]).reshape(-1, 1)
        products.append(made)
    return add_up(products)


def _add(u: Separable, terms: Terms) -> Array:
    return add_up(
        coefficient * functools.reduce(operator.mul, (jet[order] for jet, order in zip(u.jets, orders)))
        for orders, coefficient in terms.items()
    )


def merge_at_points(parts: Sequence[tuple[Separable, Terms]]) -> Array:
    """`merge` at scattered points: Σ_j Π_i f_ij(x_i), all axes sampled at the same points."""
    return add_up(jnp.sum(_add(u, terms), axis=1) for u, terms in parts if terms)


def columns(parts: Parts, once: Once | None = None, varying: Sequence[tuple[Array, Parts]] = ()) -> list[Array]:
    """Per axis, factors (points, columns) whose products add up to Σ coefficient · ∂^orders u. `varying` are further parts, each multiplied by a
    function of one coordinate, as in `merge`.

    Terms that differ along a single axis are one set of columns: f″g + fg″ + fg = (f″ + f) g + f g″.
    """
    once = once or Once()
    coefficients = dict(enumerate(c for c, _ in varying))
    together = _together(parts, [(i, c, some) for i, (c, some) in enumerate(varying)])
    axes: list[list[Array]] = [[] for _ in together[0][0].axes]

    def factor(jet: Array, marked: Any, scale: Any) -> Array:
        if not isinstance(marked, Weighed):
            return once.scaled(jet, marked, scale)
        return once.scaled(jet, marked.order, scale) * coefficients[marked.by].reshape(-1, 1)

    for u, terms in together:
        for (axis, others), along in min((_by_others(terms, axis) for axis in range(len(axes))), key=len).items():
            for i, jet in enumerate(u.jets):
                of = along if i == axis else {others[i]: 1.0}
                axes[i].append(add_up(factor(jet, order, c) for order, c in of.items()))
    return [jnp.concatenate(blocks, 1) for blocks in axes]


def _by_others(terms: Terms, axis: int) -> dict[tuple[int, Orders], dict[int, Any]]:
    """The terms by all their orders but the one along `axis`."""
    found: dict[tuple[int, Orders], dict[int, Any]] = {}
    for orders, coefficient in terms.items():
        found.setdefault((axis, (*orders[:axis], 0, *orders[axis + 1 :])), {})[orders[axis]] = coefficient
    return found


Square = tuple[Sequence[Array], Sequence[Array | None]]  # of a sum of products: its factors and weights, per axis


def mean_square(factors: Sequence[Array], weights: Sequence[Array | None]) -> Array:
    """The mean over a lattice of (Σ_j Π_i f_ij)², from one Gram matrix per axis: no lattice, O(N rank²) work."""
    return mean_squares([(factors, weights)])[0]


def mean_squares(squares: Sequence[Square]) -> Float[Array, " squares"]:
    """`mean_square` of several sums of products, in the same kernels.

    The Gram matrices are made and multiplied in float64 whatever the precision of the factors: a residual is a small
    difference of large terms, and squares of float32 would leave nothing of it. So float64 must be on (`jax.enable_x64`).
    Axes of different lengths and sums of different length are filled up with zeros, so that one batched product serves all.
    """
    if jnp.result_type(float) != jnp.float64:
        raise InputError("mean_square: squares of float32 lose what is left of a residual: call it inside jax.enable_x64(True)")
    longest = max(f.shape[0] for factors, _ in squares for f in factors)
    widest = max(f.shape[1] for factors, _ in squares for f in factors)
    filled = []
    for factors, weights in squares:
        wide = [f.astype(jnp.float64) for f in factors]
        weighed = [f if w is None else f * jnp.sqrt(w.astype(jnp.float64) / jnp.mean(w))[:, None] for f, w in zip(wide, weights)]
        filled.append(jnp.stack([jnp.pad(f, ((0, longest - f.shape[0]), (0, widest - f.shape[1]))) for f in weighed]))
    numbers = np.array([math.prod(f.shape[0] for f in factors) for factors, _ in squares], np.float64)
    return (jax.vmap(_sum_of_squares)(jnp.stack(filled)) / numbers).astype(squares[0][0][0].dtype)


@jax.custom_vjp
def _sum_of_squares(factors: Float[Array, "axes points columns"]) -> Array:
    """Σ over the lattice of (Σ_j Π_i f_ij)². Its gradient needs one product per axis, not the two that differentiating a
    Gram matrix as a general product would make."""
    return _grams(factors)[0]


def _grams(factors: Array) -> tuple[Array, tuple[Array, Array]]:
    grams = jnp.matmul(jnp.swapaxes(factors, 1, 2), factors, precision=PRECISION)
    one = [] if len(grams) > 1 else [jnp.ones_like(grams[0])]
    others = jnp.stack(
        [functools.reduce(operator.mul, one + [g for j, g in enumerate(grams) if j != i]) for i in range(len(grams))]
    )
    return jnp.sum(grams[0] * others[0]), (factors, others)


def _grams_backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array]:
    factors, others = kept
    return (2.0 * cotangent * jnp.matmul(factors, others, precision=PRECISION),)


_sum_of_squares.defvjp(_grams, _grams_backward)
