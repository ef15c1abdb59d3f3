"""How the factors of the axes make a field: three sums of products, all linear in the factors of each axis.

    "cp"      u = Σ_j f_1j(x) f_2j(y) f_3j(z)                        one index for all axes
    "tucker"  u = Σ_abc G_abc f_1a(x) f_2b(y) f_3c(z)                an index for each axis, and a small dense core
    "train"   u = Σ_ab f_1a(x) f_2ab(y) f_3b(z)                      an index between neighbours

A merge is written as the indices that the columns of each axis carry. Everything else follows by contraction. `columns` makes any of
them a plain sum of products ("cp"), exactly, so that the whole algebra of `Separable` serves them all.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array

from ..core import PRECISION

einsum = functools.partial(jnp.einsum, precision=PRECISION, optimize="greedy")
KINDS = ("cp", "tucker", "train")
INDICES = string.ascii_uppercase  # of columns
PLACES = string.ascii_lowercase  # of the lattice's axes


@dataclass(frozen=True)
class Format:
    """`indices[i]` are those of the columns of axis i, `core` those of the core ("" where there is none), `sizes` of all indices."""

    indices: tuple[str, ...]
    core: str
    sizes: tuple[tuple[str, int], ...]

    def size(self, indices: str) -> tuple[int, ...]:
        known = dict(self.sizes)
        return tuple(known[i] for i in indices)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Columns per axis."""
        return tuple(math.prod(self.size(own)) for own in self.indices)

    @property
    def core_shape(self) -> tuple[int, ...]:
        return self.size(self.core)

    @property
    def rank(self) -> int:
        """Products in the plain sum that `columns` makes."""
        return math.prod(self.size(self._summed))

    @property
    def _absorbing(self) -> int:
        """The axis into whose factors the core goes: the widest, which leaves the shortest sum."""
        return max(range(len(self.indices)), key=lambda i: self.ranks[i])

    @property
    def _summed(self) -> str:
        every = "".join(index for index, _ in self.sizes)
        return every.replace(self.indices[self._absorbing], "") if self.core else every

    # --- on values ---------------------------------------------------------------------------------------------------

    def _shaped(self, i: int, factor: Array) -> Array:
        return factor.reshape(*factor.shape[:-1], *self.size(self.indices[i]))

    def _contracted(
        self,
        places: Sequence[str],
        factors: Sequence[Array],
        core: Array | None,
        out: str,
        without: int | None,
    ) -> Array:
        terms = [
            (p + own, self._shaped(i, f))
            for i, (p, own, f) in enumerate(zip(places, self.indices, factors))
            if i != without
        ]
        if core is not None:
            terms.append((self.core, core))
        if not terms:  # one axis alone
            return jnp.ones(self.size(out), factors[0].dtype)
        return einsum(
            f"{','.join(spec for spec, _ in terms)}->{out}", *(value for _, value in terms)
        )

    def on_lattice(self, factors: Sequence[Array], core: Array | None) -> Array:
        """Values from factors (points, columns) per axis."""
        places = PLACES[: len(factors)]
        return self._contracted(places, factors, core, places, None)

    def at_points(self, factors: Sequence[Array], core: Array | None) -> Array:
        return self._contracted("n" * len(factors), factors, core, "n", None)

    def others(self, i: int, factors: Sequence[Array], core: Array | None) -> Array:
        """What the columns of axis i are multiplied by, on the lattice of the other axes: (points…, columns of i), with one point
        along axis i itself."""
        places = PLACES[: len(factors)]
        rest = places.replace(places[i], "")
        made = self._contracted(places, factors, core, rest + self.indices[i], i)
        shape = [1 if k == i else len(f) for k, f in enumerate(factors)]
        return made.reshape(*shape, self.ranks[i])

    def others_at_points(self, i: int, factors: Sequence[Array], core: Array | None) -> Array:
        number = len(factors[0])
        place = "n" * (len(factors) > 1)
        made = self._contracted("n" * len(factors), factors, core, place + self.indices[i], i)
        return jnp.broadcast_to(made.reshape(-1, self.ranks[i]), (number, self.ranks[i]))

    # --- as a plain sum of products ----------------------------------------------------------------------------------

    def columns(self, factors: Sequence[Array], core: Array | None) -> tuple[Array, ...]:
        """The factors (components, …, columns) of the plain sum of products that this is; `core` by component."""
        if len({*self.indices}) == 1 and not self.core:
            return tuple(factors)
        summed, absorbing, made = self._summed, self._absorbing, []
        for i, (own, factor) in enumerate(zip(self.indices, factors)):
            shaped = self._shaped(i, factor)
            if self.core and i == absorbing:
                wide = jnp.einsum(
                    f"n...{own},n{self.core}->n...{summed}", shaped, core, precision=PRECISION
                )
            else:
                here = "".join(index for index in summed if index in own)
                turned = jnp.einsum(f"...{own}->...{here}", shaped)
                wide = turned.reshape(
                    *factor.shape[:-1], *(self.size(k)[0] if k in own else 1 for k in summed)
                )
                wide = jnp.broadcast_to(wide, (*factor.shape[:-1], *self.size(summed)))
            made.append(wide.reshape(*factor.shape[:-1], self.rank))
        return tuple(made)


def sum_of_products(axes: int, rank: int) -> Format:
    return Format(("A",) * axes, "", (("A", rank),))


def tucker_format(ranks: Sequence[int]) -> Format:
    indices = INDICES[: len(ranks)]
    return Format(tuple(indices), indices, tuple(zip(indices, ranks)))


def train_format(axes: int, bonds: Sequence[int]) -> Format:
    """`bonds` between neighbours, one fewer than there are axes."""
    indices = INDICES[: axes - 1]
    around = ["", *indices, ""]
    return Format(
        tuple(a + b for a, b in itertools.pairwise(around)), "", tuple(zip(indices, bonds))
    )
