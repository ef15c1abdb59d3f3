"""Formats: how the columns of the axes make a field. All are linear in the columns of every axis.

    "cp"      u = Σ_j f_1j(x) f_2j(y) f_3j(z)                     one index for all axes
    "tucker"  u = Σ_abc G_abc f_1a(x) f_2b(y) f_3c(z)             an index for each axis, and a core
    "train"   u = Σ_ab f_1a(x) f_2ab(y) f_3b(z)                   an index between neighbours

Ours are contractions, written as the indices that the columns of each axis carry; everything else
follows. Any format is a plain sum of products ("cp") of other columns, exactly, so that the whole
algebra of `Separable` serves it.
"""

from __future__ import annotations

import abc
import functools
import itertools
import math
import string
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import PRECISION, InputError

einsum = functools.partial(jnp.einsum, precision=PRECISION, optimize="greedy")
INDICES = string.ascii_uppercase  # of columns
PLACES = string.ascii_lowercase  # of the lattice's axes

Rank = int | tuple[int, ...] | Mapping[str, int]  # as `sx.SPINN` is given it


class AbstractFormat(eqx.Module):
    """How the columns of the axes make a field u = Σ_r Π_i g_ir(x_i).

    `sx.SPINN(merge=MyFormat)` calls `MyFormat(axes, rank)`, the names of the axes and the rank that
    SPINN was given. Fields are settings that can be hashed.
    """

    @property
    @abc.abstractmethod
    def ranks(self) -> tuple[int, ...]:
        """The number of columns of each axis."""

    @property
    def core_shape(self) -> tuple[int, ...] | None:
        """The shape of what is trained besides the columns; None where there is nothing."""
        return None

    @abc.abstractmethod
    def columns(self, factors: Sequence[Array], core: Array | None) -> tuple[Array, ...]:
        """The factors g_i of the plain sum of products that it is.

        Arguments:
            factors: per axis an array (…, columns), of whatever shape before. It must enter
                linearly, each row by itself.
            core: an array of `core_shape`, or None.
        Returns: per axis an array (…, products), with the same number of products.
        """

    @property
    def rank(self) -> int:
        """The number of products in the plain sum."""
        core = None if self.core_shape is None else jnp.zeros(self.core_shape)
        factors = [jnp.zeros((1, r)) for r in self.ranks]
        return jax.eval_shape(self.columns, factors, core)[0].shape[-1]

    @property
    def is_plain(self) -> bool:
        """Whether it is a plain sum of products itself."""
        return False

    @property
    def has_core(self) -> bool:
        """Whether a dense core joins the columns of all axes."""
        return False

    @property
    def contraction(self) -> Contraction:
        """The format itself, where it is one of ours; refused where it is not."""
        raise InputError(
            f"merge: {type(self).__name__} cannot be solved for by sx.Solve: write merge='cp',"
            " 'tucker' or 'train', or train it with another optimiser"
        )


class Contraction(AbstractFormat):
    """A sum over indices.

    Arguments:
        indices: those of the columns of each axis.
        core: those of the core, "" where there is none.
        sizes: of all indices.
    """

    indices: tuple[str, ...]
    core: str
    sizes: tuple[tuple[str, int], ...]

    def size(self, indices: str) -> tuple[int, ...]:
        """The sizes of some indices."""
        known = dict(self.sizes)
        return tuple(known[i] for i in indices)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(math.prod(self.size(own)) for own in self.indices)

    @property
    def core_shape(self) -> tuple[int, ...] | None:
        return self.size(self.core) or None

    @property
    def rank(self) -> int:
        return math.prod(self.size(self._summed))

    @property
    def contraction(self) -> Contraction:
        return self

    @property
    def is_plain(self) -> bool:
        return len({*self.indices}) == 1 and not self.core

    @property
    def has_core(self) -> bool:
        return bool(self.core)

    @property
    def _absorbing(self) -> int:
        """The axis into whose factors the core goes: the widest, which leaves the shortest sum."""
        return max(range(len(self.indices)), key=lambda i: self.ranks[i])

    @property
    def _summed(self) -> str:
        every = "".join(index for index, _ in self.sizes)
        return every.replace(self.indices[self._absorbing], "") if self.core else every

    def _shaped(self, i: int, factor: Array) -> Array:
        return factor.reshape(*factor.shape[:-1], *self.size(self.indices[i]))

    def _contracted(
        self,
        places: Sequence[str],
        factors: Sequence[Array],
        core: Array | None,
        out: str,
        without: int | None = None,
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
        return einsum(f"{','.join(spec for spec, _ in terms)}->{out}", *(v for _, v in terms))

    def on_lattice(self, factors: Sequence[Array], core: Array | None) -> Array:
        """The field on a lattice, from factors (points, columns) per axis."""
        places = PLACES[: len(factors)]
        return self._contracted(places, factors, core, places)

    def at_points(self, factors: Sequence[Array], core: Array | None) -> Array:
        """The field at scattered points, from factors (points, columns) per axis."""
        return self._contracted("n" * len(factors), factors, core, "n")

    def environment(self, i: int, factors: Sequence[Array], core: Array | None) -> Array:
        """What the columns of axis i are multiplied by, on the lattice of the other axes: (points…,
        columns of i), with one point along axis i itself."""
        places = PLACES[: len(factors)]
        rest = places.replace(places[i], "")
        made = self._contracted(places, factors, core, rest + self.indices[i], i)
        shape = [1 if k == i else len(f) for k, f in enumerate(factors)]
        return made.reshape(*shape, self.ranks[i])

    def environment_at_points(self, i: int, factors: Sequence[Array], core: Array | None) -> Array:
        """The same at scattered points: (points, columns of i)."""
        place = "n" * (len(factors) > 1)
        made = self._contracted("n" * len(factors), factors, core, place + self.indices[i], i)
        return jnp.broadcast_to(made.reshape(-1, self.ranks[i]), (len(factors[0]), self.ranks[i]))

    def columns(self, factors: Sequence[Array], core: Array | None) -> tuple[Array, ...]:
        if self.is_plain:
            return tuple(factors)
        summed, absorbing, made = self._summed, self._absorbing, []
        for i, (own, factor) in enumerate(zip(self.indices, factors)):
            shaped, before = self._shaped(i, factor), factor.shape[:-1]
            if self.core and i == absorbing:
                spec = f"...{own},{self.core}->...{summed}"
                wide = jnp.einsum(spec, shaped, core, precision=PRECISION)
            else:
                here = "".join(index for index in summed if index in own)
                turned = jnp.einsum(f"...{own}->...{here}", shaped)
                sizes = (self.size(k)[0] if k in own else 1 for k in summed)
                thin = turned.reshape(*before, *sizes)
                wide = jnp.broadcast_to(thin, (*before, *self.size(summed)))
            made.append(wide.reshape(*before, self.rank))
        return tuple(made)


def sum_of_products(axes: Sequence[str], rank: Rank) -> Contraction:
    """u = Σ_j Π_i f_ij(x_i), `rank` products."""
    if not isinstance(rank, int):
        raise _misfit("cp", "one number, rank=32", rank)
    return Contraction(("A",) * len(axes), "", (("A", rank),))


def tucker_format(axes: Sequence[str], rank: Rank) -> Contraction:
    """Columns of every axis, `rank` or rank[axis] of them, and a core that joins them."""
    if isinstance(rank, tuple):
        raise _misfit("tucker", 'a number or a dict by axis, rank={"x": 20, "y": 20}', rank)
    ranks = dict.fromkeys(axes, rank) if isinstance(rank, int) else rank
    for axis in axes:
        if axis not in ranks:
            raise InputError(
                f"SPINN: rank has no number for the axis {axis}: write one for each of"
                f" {', '.join(axes)}"
            )
    indices = INDICES[: len(axes)]
    sizes = tuple((index, ranks[axis]) for index, axis in zip(indices, axes))
    return Contraction(tuple(indices), indices, sizes)


def train_format(axes: Sequence[str], rank: Rank) -> Contraction:
    """`rank` between neighbours, or a number for each of these, one fewer than there are axes."""
    if isinstance(rank, Mapping):
        raise _misfit("train", "a number or a list from the first axis on, rank=[8, 12]", rank)
    number = len(axes)
    bonds = (rank,) * (number - 1) if isinstance(rank, int) else tuple(rank)
    if len(bonds) != number - 1:
        raise InputError(
            f"SPINN: rank has {len(bonds)} numbers: between {number} axes there are {number - 1}"
        )
    around = ["", *INDICES[: number - 1], ""]
    indices = tuple(a + b for a, b in itertools.pairwise(around))
    return Contraction(indices, "", tuple(zip(INDICES, bonds)))


def _misfit(merge: str, wanted: str, rank: Rank) -> InputError:
    return InputError(f"SPINN: rank of merge={merge!r} is {wanted}; got {rank!r}")


FORMATS = {"cp": sum_of_products, "tucker": tucker_format, "train": train_format}
