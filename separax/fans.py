"""Functions of several variables carried together with their derivatives along some directions, in one pass.

A fan is jets along several directions, its rays, which have their value in common. An array of shape (..., rows, points, features) holds the value,
the further coefficients of every ray, and *sums*: of the coefficients that come after the last ones of some rays, each with its
weight. An operator like u_xx + u_yy + u_zz wants such a sum and not its parts, and the sum is all that has to be carried: in what a network does to a
jet the highest coefficient is only ever multiplied with a value. For three axes these are five rows, where a jet along each has nine in all.

A jet (`separax.jets`) is a fan of one ray.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array

from .jets import ACTIVATIONS, Jet, cauchy, rows
from .separable import add_up


@dataclass(frozen=True)
class Fan:
    """What the rows of an array are: `rays` are the orders of the jets, `sums` the weights of each ray in a sum.

    Rows lie along `axis`: -3 as in a jet, or -2, where those of a point are neighbours. On a GPU a kernel makes one row after another; of many points
    a row is more than its cache holds, and what several rows are made of would be fetched again for each. Neighbours are fetched once.
    """

    rays: tuple[int, ...]
    sums: tuple[tuple[float, ...], ...] = ()
    axis: int = -3

    @classmethod
    def of(cls, jet: Jet) -> Fan:
        """A single jet."""
        return cls((jet.shape[-3] - 1,))

    def summed(self, ray: int) -> bool:
        return any(weights[ray] for weights in self.sums)

    @property
    def orders(self) -> list[int]:
        """Of every row."""
        rays = [k for order in self.rays for k in range(1, order + 1)]
        tops = [next(order + 1 for order, w in zip(self.rays, weights) if w) for weights in self.sums]
        return [0, *rays, *tops]

    def parts(self, jet: Jet) -> tuple[Array, list[Sequence[Array]], Sequence[Array]]:
        """The value, the further coefficients of every ray, the sums."""
        each, ends = rows(jet, self.axis), list(itertools.accumulate(self.rays, initial=1))
        return each[0], [each[a:b] for a, b in itertools.pairwise(ends)], each[ends[-1] :]

    def joined(self, value: Array, rays: Sequence[Sequence[Array]], sums: Sequence[Array]) -> Jet:
        return jnp.stack([value, *itertools.chain.from_iterable(rays), *sums], axis=self.axis)

    def added(self, tops: Sequence[Array | None]) -> list[Array]:
        """The sums of what every ray has above its last coefficient."""
        return [add_up(w * top for w, top in zip(weights, tops) if w and top is not None) for weights in self.sums]

    def activate(self, name: str, jet: Jet) -> Jet:
        value, rays, sums = self.parts(jet)
        applied = ACTIVATIONS[name](value)
        # the next coefficient but for slope · what the jet has in its place, which is known in sum only
        made = [applied.along([*ray, None] if self.summed(i) else ray) for i, ray in enumerate(rays)]
        tops = [one[-1] if self.summed(i) else None for i, one in enumerate(made)]
        new = [applied.slope * old + rest for old, rest in zip(sums, self.added(tops))]
        return self.joined(applied.value, [one[: len(ray)] for one, ray in zip(made, rays)], new)

    def multiply(self, a: Jet, b: Jet) -> Jet:
        (left, left_rays, left_sums), (right, right_rays, right_sums) = (self.parts(jet) for jet in (a, b))
        made, tops = [], []
        for i, (x, y) in enumerate(zip(left_rays, right_rays)):
            made.append(cauchy([left, *x], [right, *y])[1:])
            tops.append(add_up(c * d for c, d in zip(x, y[::-1])) if self.summed(i) else None)
        sums = [left * y + x * right + rest for x, y, rest in zip(left_sums, right_sums, self.added(tops))]
        return self.joined(left * right, made, sums)
