"""Products of separable functions as separable functions: u v = Σ_jk Π_i f_ij g_ik.

A quadratic expression is separable too, of rank r². Squares and products such as u², u_x² and u
u_xx are symmetric in j and k, so that r (r + 1) / 2 columns per axis are enough; and those that
differ along a single axis are one set of columns: u_x² + u u_xx costs what u² does. Its norm then
needs no lattice (`separable.mean_square`), which for N³ points of a rank that is small against N is
less work by far, and needs next to no memory.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import PRECISION, InputError, add_up
from .merging import Pair
from .separable import Separable

Square = tuple[
    Sequence[Array], Sequence[Array | None]
]  # of a sum of products: its factors and weights, per axis


def mean_square(factors: Sequence[Array], weights: Sequence[Array | None]) -> Array:
    """The mean over a lattice of (Σ_j Π_i f_ij)², from one Gram matrix per axis: O(N rank²) work.

    Arguments:
        factors: per axis an array (points, columns).
        weights: per axis those of a quadrature rule, or None.
    """
    return mean_squares([(factors, weights)])[0]


def mean_squares(squares: Sequence[Square]) -> Float[Array, " squares"]:
    """`mean_square` of several sums of products, in the same kernels.

    The Gram matrices are made and multiplied in float64 whatever the precision of the factors: a
    residual is a small difference of large terms, and squares of float32 would leave nothing of it.
    So float64 must be on (`jax.enable_x64`). Axes of different lengths and sums of different length
    are filled up with zeros, so that one batched product serves all.
    """
    if jnp.result_type(float) != jnp.float64:
        raise InputError(
            "mean_square: squares of float32 lose what is left of a residual: call it inside"
            " jax.enable_x64(True)"
        )
    longest = max(f.shape[0] for factors, _ in squares for f in factors)
    widest = max(f.shape[1] for factors, _ in squares for f in factors)
    filled = []
    for factors, weights in squares:
        wide = [f.astype(jnp.float64) for f in factors]
        weighed = [
            f if w is None else f * jnp.sqrt(w.astype(jnp.float64) / jnp.mean(w))[:, None]
            for f, w in zip(wide, weights)
        ]
        filled.append(
            jnp.stack(
                [jnp.pad(f, ((0, longest - f.shape[0]), (0, widest - f.shape[1]))) for f in weighed]
            )
        )
    numbers = np.array(
        [math.prod(f.shape[0] for f in factors) for factors, _ in squares], np.float64
    )
    return (jax.vmap(_sum_of_squares)(jnp.stack(filled)) / numbers).astype(squares[0][0][0].dtype)


@jax.custom_vjp
def _sum_of_squares(factors: Float[Array, "axes points columns"]) -> Array:
    """Σ over the lattice of (Σ_j Π_i f_ij)². Its gradient needs one product per axis, not the two
    that differentiating a Gram matrix as a general product would make."""
    return _grams(factors)[0]


def _grams(factors: Array) -> tuple[Array, tuple[Array, Array]]:
    grams = jnp.matmul(jnp.swapaxes(factors, 1, 2), factors, precision=PRECISION)
    one = [] if len(grams) > 1 else [jnp.ones_like(grams[0])]
    others = jnp.stack(
        [
            functools.reduce(operator.mul, one + [g for j, g in enumerate(grams) if j != i])
            for i in range(len(grams))
        ]
    )
    return jnp.sum(grams[0] * others[0]), (factors, others)


def _grams_backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array]:
    factors, others = kept
    return (2.0 * cotangent * jnp.matmul(factors, others, precision=PRECISION),)


_sum_of_squares.defvjp(_grams, _grams_backward)

Along = tuple[int, int]  # orders of the two factors along one axis


@dataclass(frozen=True)
class Block:
    """Products of two components that share their factors on every axis but one, where they are
    added up."""

    components: tuple[int, int]
    symmetric: bool
    axis: int  # the one along which terms are added
    signature: tuple[Along, ...]  # of the other axes; that of `axis` is not used
    along: tuple[tuple[Along, Any], ...]  # on `axis`: orders and coefficients

    def size(self, ranks: Sequence[int]) -> int:
        i, j = self.components
        return ranks[i] * (ranks[i] + 1) // 2 if self.symmetric else ranks[i] * ranks[j]


def blocks(pairs: Mapping[Pair, Any]) -> list[Block]:
    """Pairs of derivatives in as few blocks as adding along one axis gives."""
    kinds: dict[tuple[tuple[int, int], bool], dict[tuple[Along, ...], Any]] = {}
    for ((i, a), (j, b)), coefficient in pairs.items():
        symmetric = i == j and sum(m != n for m, n in zip(a, b)) <= 1
        signature = tuple((min(m, n), max(m, n)) if symmetric else (m, n) for m, n in zip(a, b))
        kind = kinds.setdefault(((i, j), symmetric), {})
        kind[signature] = kind[signature] + coefficient if signature in kind else coefficient
    found: list[Block] = []
    for (components, symmetric), signatures in kinds.items():
        left = dict(signatures)
        while left:  # the largest group first, along whichever axis it adds up
            axis, others, along = max(_groups(left), key=lambda group: len(group[2]))
            found.append(Block(components, symmetric, axis, others, tuple(along.items())))
            left = {s: c for s, c in left.items() if _without(s, axis) != others}
    return found


def _groups(
    signatures: Mapping[tuple[Along, ...], Any],
) -> list[tuple[int, tuple[Along, ...], dict[Along, Any]]]:
    """For every axis, the signatures that differ along it alone: (axis, what they share, what they
    do along it)."""
    found: list[tuple[int, tuple[Along, ...], dict[Along, Any]]] = []
    for axis in range(len(next(iter(signatures)))):
        groups: dict[tuple[Along, ...], dict[Along, Any]] = {}
        for signature, coefficient in signatures.items():
            groups.setdefault(_without(signature, axis), {})[signature[axis]] = coefficient
        found += [(axis, others, along) for others, along in groups.items()]
    return found


def _without(signature: tuple[Along, ...], axis: int) -> tuple[Along, ...]:
    return (*signature[:axis], (-1, -1), *signature[axis + 1 :])


def product_columns(components: Sequence[Separable], found: Sequence[Block]) -> list[list[Array]]:
    """The factors of products of two components, in float64: a residual is a small difference of
    them.

    Arguments:
        components: the functions that are multiplied, on one lattice.
        found: what `blocks` made of the products.

    Returns:
        Per axis one array (points, columns) for each block; the products of a column over the axes
        add up to the products.
    """
    spread = {
        i: _spread(components[i])
        for i in sorted({block.components[0] for block in found if block.symmetric})
    }
    per_axis: list[list[Array]] = []
    for axis in range(len(components[0].axes)):
        made = _Products(
            [u.jets[axis].astype(jnp.float64) for u in components],
            {i: each[axis] for i, each in spread.items()},
        )
        per_axis.append([_factor(block, axis, made) for block in found])
    return per_axis


def _spread(component: Separable) -> list[tuple[Array, Array]]:
    """Per axis, columns j and k of every pair j ≤ k, picked by a product with zeros and ones: its
    transpose is one too, where that of an indexed read would be a scattered write. One product
    serves all axes if they are sampled alike."""
    chosen = jnp.asarray(_selection(component.rank))
    jets = component.jets
    if len({jet.shape for jet in jets}) == 1:
        picked = list(jnp.matmul(jnp.stack(jets).astype(jnp.float64), chosen, precision=PRECISION))
    else:
        picked = [jnp.matmul(jet.astype(jnp.float64), chosen, precision=PRECISION) for jet in jets]
    half = chosen.shape[1] // 2
    return [(each[..., :half], each[..., half:]) for each in picked]


def _factor(block: Block, axis: int, made: _Products) -> Array:
    if axis != block.axis:
        return made(block, block.signature[axis])
    total = add_up(_times(c, made(block, orders)) for orders, c in block.along)
    # a symmetric pair stands for (j, k) and (k, j)
    return (
        total * _multiplicity(made.jets[block.components[0]].shape[-1])
        if block.symmetric
        else total
    )


def _times(coefficient: Any, factor: Array) -> Array:
    return factor if isinstance(coefficient, float) and coefficient == 1.0 else coefficient * factor


class _Products:
    """The products of columns along one axis, each made once."""

    def __init__(self, jets: Sequence[Array], spread: Mapping[int, tuple[Array, Array]]):
        self.jets, self.spread = jets, spread
        self._made: dict[tuple[tuple[int, int], bool, Along], Array] = {}

    def __call__(self, block: Block, orders: Along) -> Array:
        key = (block.components, block.symmetric, orders)
        if key not in self._made:
            self._made[key] = (
                self._symmetric(block, orders) if block.symmetric else self._full(block, orders)
            )
        return self._made[key]

    def _full(self, block: Block, orders: Along) -> Array:
        a, b = (self.jets[i][order] for i, order in zip(block.components, orders))
        return (a[:, :, None] * b[:, None, :]).reshape(a.shape[0], -1)

    def _symmetric(self, block: Block, orders: Along) -> Array:
        first, second = self.spread[block.components[0]]
        m, n = orders
        return (
            first[m] * second[m] if m == n else 0.5 * (first[m] * second[n] + first[n] * second[m])
        )


@functools.lru_cache(maxsize=16)
def _selection(rank: int) -> np.ndarray:
    one = np.eye(rank)
    j, k = np.triu_indices(rank)
    return np.concatenate([one[:, j], one[:, k]], axis=1)


@functools.lru_cache(maxsize=16)
def _multiplicity(rank: int) -> np.ndarray:
    j, k = np.triu_indices(rank)
    return np.where(j == k, 1.0, 2.0)
