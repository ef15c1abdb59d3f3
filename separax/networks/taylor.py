"""Functions carried together with their derivatives, as truncated Taylor series, in one pass.

A `Taylor` array (..., orders, points, features) holds the coefficients f⁽ᵏ⁾ / k! of functions of
one variable. A `DirectionalTaylor` is a function of several: its value, its further coefficients
along some directions, and *operators*, sums of the coefficients that come next, each with its
weight. An operator like u_xx + u_yy + u_zz wants such a sum and not its parts, and the sum is all
that has to be carried: in what a network does to a series the highest coefficient is only ever
multiplied with a value. For three axes these are five rows, where the series along each have nine
in all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.jet import jet
from jaxtyping import Array, Float

from ..core import add_up

Taylor = Float[Array, "*batch order points features"]

MAX_ORDER = 8
# Nested differentiation of order k does 2ᵏ times the work, `jet` about k² times; but `jet` carries
# zeros. Measured on networks of three layers of 64, with their gradients: nested is the quicker one
# below order 4, also to compile; at 6 it takes three times as long.
JET_FROM = 4


def coefficients(taylor: Taylor, axis: int = -3) -> list[Array]:
    """The coefficients of a series, one by one.

    They are split off, not cut out: what comes back in a gradient is then put together as it lies,
    and not added up from arrays that are zero elsewhere.

    Arguments:
        taylor: the series.
        axis: along which its orders lie.
    """
    parts = lax.split(taylor, (1,) * taylor.shape[axis], taylor.ndim + axis)
    return [jnp.squeeze(part, axis) for part in parts]


def stack_orders(each: Sequence[Array]) -> Taylor:
    """The series with these coefficients."""
    return jnp.stack(each, axis=-3)


def derivatives(taylor: Taylor, orders: Sequence[int] | None = None) -> Taylor:
    """The derivatives k! c_k of a series.

    Arguments:
        taylor: the series.
        orders: of its coefficients, where they are not 0, 1, …
    """
    each = range(taylor.shape[-3]) if orders is None else orders
    factorials = np.array([math.factorial(k) for k in each], np.float64)
    return taylor * jnp.asarray(factorials, taylor.dtype)[:, None, None]


def constant(values: Float[Array, "*batch points features"], order: int) -> Taylor:
    """The series of something that does not depend on the variable."""
    return stack_orders([values] + [jnp.zeros_like(values)] * order)


def multiply(a: Taylor, b: Taylor) -> Taylor:
    """The product of two functions; features broadcast."""
    return stack_orders(cauchy(coefficients(a), coefficients(b)))


def cauchy(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """The coefficients of a product: c_k = Σ_j a_j b_{k-j}."""
    return [add_up(a[j] * b[k - j] for j in range(k + 1)) for k in range(len(a))]


def root(taylor: Taylor) -> Taylor:
    """y = √s from y² = s. Where s is zero, y is too, and its derivatives are infinite."""
    s = coefficients(taylor)
    y = [jnp.sqrt(s[0])]
    for k in range(1, len(s)):
        known = [y[j] * y[k - j] for j in range(1, k)]
        y.append((s[k] - add_up(known) if known else s[k]) / (2 * y[0]))
    return stack_orders(y)


# --- several directions -------------------------------------------------------------------------


class Rows(NamedTuple):
    """A `DirectionalTaylor` row by row. In what a network is given, None stands for a row of zeros,
    and a single point for one that is the same at all of them."""

    value: Array
    series: Sequence[Sequence[Any]]  # by direction the coefficients of order 1, 2, …
    operators: Sequence[Any]


@dataclass(frozen=True)
class Layout:
    """What the rows of a `DirectionalTaylor` are.

    Arguments:
        orders: of the series along each direction.
        operators: by operator the weight of each direction.
        axis: along which the rows lie in one array: -3, as in a `Taylor`, or -2, where the rows of
            a point are neighbours. On a GPU a kernel makes one row after another; of many points a
            row is more than its cache holds, and what several rows are made of would be fetched
            again for each. Neighbours are fetched once.
    """

    orders: tuple[int, ...]
    operators: tuple[tuple[float, ...], ...] = ()
    axis: int = -3

    def is_summed(self, direction: int) -> bool:
        """Whether the coefficient after the last one of a direction is part of an operator."""
        return any(weights[direction] for weights in self.operators)

    @property
    def row_orders(self) -> list[int]:
        """The order of every row."""
        series = [k for order in self.orders for k in range(1, order + 1)]
        tops = (
            next(order + 1 for order, w in zip(self.orders, weights) if w)
            for weights in self.operators
        )
        return [0, *series, *tops]

    def summed(self, tops: Sequence[Array | None]) -> list[Array]:
        """The operators, from what every direction has after its last coefficient."""
        return [
            add_up(w * top for w, top in zip(weights, tops) if w and top is not None)
            for weights in self.operators
        ]


class DirectionalTaylor:
    """A function of several variables with its derivatives along some directions.

    Only the product of a layer wants all rows in one array. Whatever is done to each point by
    itself is done row by row, so that what is the same everywhere, as the derivatives of a plain
    coordinate are, need not be written out for every point.

    Arguments:
        layout: what the rows are.
        rows: they, one by one; or
        array: all of them.
    """

    def __init__(self, layout: Layout, rows: Rows | None = None, array: Array | None = None):
        self.layout = layout
        if rows is not None:
            self.rows = rows
        if array is not None:
            self.array = array

    @classmethod
    def of(cls, taylor: Taylor) -> DirectionalTaylor:
        """A series along a single direction."""
        return cls(Layout((taylor.shape[-3] - 1,)), array=taylor)

    @functools.cached_property
    def rows(self) -> Rows:
        each = coefficients(self.array, self.layout.axis)
        ends = list(itertools.accumulate(self.layout.orders, initial=1))
        series = [each[a:b] for a, b in itertools.pairwise(ends)]
        return Rows(each[0], series, each[ends[-1] :])

    @functools.cached_property
    def array(self) -> Array:
        value, series, operators = self.rows
        every = [value, *itertools.chain.from_iterable(series), *operators]
        filled = [jnp.zeros_like(value) if row is None else row for row in every]
        return jnp.stack(jnp.broadcast_arrays(*filled), axis=self.layout.axis)

    @property
    def is_full(self) -> bool:
        """Whether every row has a number of its own at every point."""
        if "array" in vars(self):
            return True
        value, series, operators = self.rows
        every = itertools.chain(*series, operators)
        return all(row is not None and row.shape == value.shape for row in every)

    def _like(self, rows: Rows) -> DirectionalTaylor:
        return DirectionalTaylor(self.layout, rows)

    def __add__(self, other: DirectionalTaylor) -> DirectionalTaylor:
        return self._like(jax.tree.map(jnp.add, self.rows, other.rows))

    def __sub__(self, other: DirectionalTaylor) -> DirectionalTaylor:
        return self._like(jax.tree.map(jnp.subtract, self.rows, other.rows))

    def __mul__(self, other: DirectionalTaylor) -> DirectionalTaylor:
        a, b = self.rows, other.rows
        made, tops = [], []
        for i, (x, y) in enumerate(zip(a.series, b.series)):
            made.append(cauchy([a.value, *x], [b.value, *y])[1:])
            top = add_up(c * d for c, d in zip(x, y[::-1])) if self.layout.is_summed(i) else None
            tops.append(top)
        known = zip(a.operators, b.operators, self.layout.summed(tops))
        operators = [a.value * y + x * b.value + rest for x, y, rest in known]
        return self._like(Rows(a.value * b.value, made, operators))

    def split(self, number: int) -> list[DirectionalTaylor]:
        """So many functions whose features stand one after the other."""
        rows, structure = jax.tree.flatten(self.rows)
        each = zip(*(jnp.split(row, number, axis=-1) for row in rows))
        return [self._like(jax.tree.unflatten(structure, some)) for some in each]

    def activate(self, activation: Any) -> DirectionalTaylor:
        """An `AbstractActivation` of the function."""
        layout, (value, series, operators) = self.layout, self.rows
        summed = [layout.is_summed(i) for i in range(len(series))]
        highest = max((len(c) + top for c, top in zip(series, summed)), default=0)
        outer = activation.expand(value, highest)
        # the next coefficient but for slope · what the inner function has in its place, which is
        # known in sum only
        made = [outer.further([*c, None] if top else c) for c, top in zip(series, summed)]
        tops = [each[-1] if top else None for each, top in zip(made, summed)]
        new = [
            rest if old is None else outer.slope * old + rest
            for old, rest in zip(operators, layout.summed(tops))
        ]
        return self._like(Rows(outer.value, [m[: len(c)] for m, c in zip(made, series)], new))


# --- rules that are derived ---------------------------------------------------------------------


def series_at_zero(curve: Callable[[Array], Any], order: int, dtype: Any) -> list[Any]:
    """The coefficients of a function of one number at zero, by nested differentiation.

    Arguments:
        curve: the function.
        order: of the last coefficient.
        dtype: of the number.
    """

    def up_to(order: int, h: Array) -> tuple[Any, ...]:
        if order == 0:
            return (curve(h),)
        step = functools.partial(up_to, order - 1)
        values, slopes = jax.jvp(step, (h,), (jnp.ones_like(h),))
        return (*values, slopes[-1])

    each = up_to(order, jnp.zeros((), dtype))
    return [c / math.factorial(k) if k > 1 else c for k, c in enumerate(each)]


def series_of(
    function: Callable[[Array], Array], value: Array, further: Sequence[Array]
) -> list[Array]:
    """The coefficients of function(x(h)), from those of x(h).

    Arguments:
        function: whatever JAX differentiates.
        value: x(0).
        further: the coefficients of order 1, 2, … of x.

    Returns:
        As many coefficients as x has, the value first.
    """
    order = len(further)
    if order >= JET_FROM and _has_jet_rules(function, value):
        scaled = [math.factorial(k) * c for k, c in enumerate(further, 1)]
        first, others = jet(function, (value,), (scaled,))
        return [first, *(c / math.factorial(k) for k, c in enumerate(others, 1))]

    def curve(h: Array) -> Array:
        step = jnp.zeros_like(value)
        for c in reversed(further):
            step = step * h + c
        return function(value + step * h)

    return series_at_zero(curve, order, value.dtype)


def _has_jet_rules(function: Callable[[Array], Array], value: Array) -> bool:
    """Whether `jet` can differentiate a function. Derivatives that were given by hand are unknown
    to it: it would go through what they are to spare, such as the kink of a relu."""
    if "custom_jvp" in (text := str(jax.make_jaxpr(function)(value))) or "custom_vjp" in text:
        return False
    try:
        jax.eval_shape(lambda x: jet(function, (x,), ([x, x],)), value)
    except Exception:  # whatever it says: it is an experiment of JAX, and there is another way
        return False
    return True


def derived(function: Callable[[Array], Array], x: DirectionalTaylor) -> DirectionalTaylor:
    """Any differentiable function of a point, applied to a function of several variables.

    Arguments:
        function: (inputs,) → (outputs,).
        x: with inputs as its features.
    """
    layout, at_points = x.layout, jax.vmap(function)
    value, series, operators = DirectionalTaylor(layout, array=x.array).rows
    made, tops = [], []
    for i, own in enumerate(series):
        # a further coefficient enters the next one linearly: see `activate`
        beyond = [jnp.zeros_like(value)] if layout.is_summed(i) else []
        _, *each = series_of(at_points, value, [*own, *beyond])
        made.append(each[: len(own)])
        tops.append(each[-1] if beyond else None)
    new = [
        jax.jvp(at_points, (value,), (own,))[1] + rest
        for own, rest in zip(operators, layout.summed(tops))
    ]
    return DirectionalTaylor(layout, Rows(at_points(value), made, new))
