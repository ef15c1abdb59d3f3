"""Functions of several variables carried together with their derivatives along some directions, in one pass.

A fan is jets along several directions, its rays, which have their value in common. An array of shape (..., rows, points, features) holds the value,
the further coefficients of every ray, and *sums*: of the coefficients that come after the last ones of some rays, each with its
weight. An operator like u_xx + u_yy + u_zz wants such a sum and not its parts, and the sum is all that has to be carried: in what a network does to a
jet the highest coefficient is only ever multiplied with a value. For three axes these are five rows, where a jet along each has nine in all.

A jet (`separax.jets`) is a fan of one ray.

Only a layer's product wants all rows in one array. Whatever is done to each point by itself is done to the `Parts` of a fan, so that a row that is
the same everywhere, as the derivatives of a plain coordinate are, need not be written out for every point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..core import add_up
from .activations import ACTIVATIONS

Taylor = Float[Array, "*batch order points features"]

MAX_ORDER = 8


def rows(jet: Taylor, axis: int = -3) -> list[Array]:
    """Its coefficients. They are split off, not cut out one by one: what comes back in a gradient is then put together as they lie, and not
    added up from arrays that are zero elsewhere."""
    return [
        jnp.squeeze(part, axis) for part in lax.split(jet, (1,) * jet.shape[axis], jet.ndim + axis)
    ]


def stack_orders(coefficients: Sequence[Array]) -> Taylor:
    return jnp.stack(coefficients, axis=-3)


def derivatives(jet: Taylor, orders: Sequence[int] | None = None) -> Taylor:
    """Taylor coefficients → derivatives; `orders` of the coefficients, if they are not 0, 1, …"""
    factorials = np.array([math.factorial(k) for k in orders or range(jet.shape[-3])], np.float64)
    return jet * jnp.asarray(factorials, jet.dtype)[:, None, None]


def constant(values: Float[Array, "*batch points features"], order: int) -> Taylor:
    """The jet of something that does not depend on the variable."""
    return stack_orders([values] + [jnp.zeros_like(values)] * order)


def multiply(a: Taylor, b: Taylor) -> Taylor:
    """Product of functions. Features broadcast."""
    return stack_orders(cauchy(rows(a), rows(b)))


def cauchy(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """The coefficients of a product."""
    return [add_up(a[j] * b[k - j] for j in range(k + 1)) for k in range(len(a))]


def root(jet: Taylor) -> Taylor:
    """y = √s from y² = s. Where s is zero, y is too, and its derivatives are infinite."""
    s = rows(jet)
    y = [jnp.sqrt(s[0])]
    for k in range(1, len(s)):
        y.append(
            (s[k] - add_up(y[j] * y[k - j] for j in range(1, k))) / (2 * y[0])
            if k > 1
            else s[1] / (2 * y[0])
        )
    return stack_orders(y)


class Parts(NamedTuple):
    """A fan row by row: the value, the further coefficients of every ray, the sums. What a layer is given may have None for a row of zeros, and a
    single point in a row that is the same at all of them."""

    value: Array
    rays: Sequence[Sequence[Any]]  # Array, or None
    sums: Sequence[Any]


@dataclass(frozen=True)
class DirectionalTaylor:
    """What the rows of an array are: `rays` are the orders of the jets, `sums` the weights of each ray in a sum.

    Rows lie along `axis`: -3 as in a jet, or -2, where those of a point are neighbours. On a GPU a kernel makes one row after another; of many points
    a row is more than its cache holds, and what several rows are made of would be fetched again for each. Neighbours are fetched once.
    """

    rays: tuple[int, ...]
    sums: tuple[tuple[float, ...], ...] = ()
    axis: int = -3

    @classmethod
    def of(cls, jet: Taylor) -> DirectionalTaylor:
        """A single jet."""
        return cls((jet.shape[-3] - 1,))

    def summed(self, ray: int) -> bool:
        return any(weights[ray] for weights in self.sums)

    @property
    def orders(self) -> list[int]:
        """Of every row."""
        rays = [k for order in self.rays for k in range(1, order + 1)]
        tops = [
            next(order + 1 for order, w in zip(self.rays, weights) if w) for weights in self.sums
        ]
        return [0, *rays, *tops]

    def parts(self, jet: Taylor) -> Parts:
        each, ends = rows(jet, self.axis), list(itertools.accumulate(self.rays, initial=1))
        return Parts(each[0], [each[a:b] for a, b in itertools.pairwise(ends)], each[ends[-1] :])

    def joined(self, parts: Parts) -> Taylor:
        return jnp.stack(
            [parts.value, *itertools.chain.from_iterable(parts.rays), *parts.sums], axis=self.axis
        )

    def added(self, tops: Sequence[Array | None]) -> list[Array]:
        """The sums of what every ray has above its last coefficient."""
        return [
            add_up(w * top for w, top in zip(weights, tops) if w and top is not None)
            for weights in self.sums
        ]

    def activate(self, name: str, parts: Parts) -> Parts:
        applied = ACTIVATIONS[name](parts.value)
        # the next coefficient but for slope · what the jet has in its place, which is known in sum only
        made = [
            applied.along([*ray, None] if self.summed(i) else ray)
            for i, ray in enumerate(parts.rays)
        ]
        tops = [one[-1] if self.summed(i) else None for i, one in enumerate(made)]
        new = [
            rest if old is None else applied.slope * old + rest
            for old, rest in zip(parts.sums, self.added(tops))
        ]
        return Parts(applied.value, [one[: len(ray)] for one, ray in zip(made, parts.rays)], new)

    def multiply(self, a: Parts, b: Parts) -> Parts:
        made, tops = [], []
        for i, (x, y) in enumerate(zip(a.rays, b.rays)):
            made.append(cauchy([a.value, *x], [b.value, *y])[1:])
            tops.append(add_up(c * d for c, d in zip(x, y[::-1])) if self.summed(i) else None)
        sums = [
            a.value * y + x * b.value + rest for x, y, rest in zip(a.sums, b.sums, self.added(tops))
        ]
        return Parts(a.value * b.value, made, sums)
