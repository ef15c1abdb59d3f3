"""Conditions on faces without a lattice: what a linear operator of the network leaves of its target, as sums of products.

A face is a lattice with one axis cut down to its ends, so its mean square needs only Gram matrices, like that of a residual.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..domain import Lattice
from ..equations import Term
from ..networks import SeparableSource
from ..separable import Key, Square


def outward(term: Term) -> list[float]:
    """The sign of the outward normal on each side of a term."""
    return [{"-": -1.0, "+": 1.0}[side] for side in term.sides]


def face_sums(
    term: Term,
    place: Lattice,
    source: SeparableSource,
    field: Mapping[Key, Any] | None,
    along: Mapping[Key, Any] | None,
) -> list[list[Array]]:
    """What a term asks of the network: sums of products, each as factors (points, columns) per axis. A jump has two of them, that
    of the field and that of its derivative `along` the axis; other conditions have one."""
    wanted = [field if term.condition.jump or term.condition.mix[0] else None, along]
    made = [source.columns(terms) for terms in wanted if terms is not None]
    if term.axis is None:
        return made
    axis = place.axes.index(term.axis)
    if term.condition.jump:
        return [
            [jnp.diff(f, axis=0) if i == axis else f for i, f in enumerate(factors)]
            for factors in made
        ]
    parts = [part for part in term.condition.mix if part]
    if term.condition.mix[1]:
        signs = jnp.asarray(outward(term), source.dtype)[:, None]
        made[-1] = [signs * f if i == axis else f for i, f in enumerate(made[-1])]
    made = [
        [part * f if i == axis and part != 1.0 else f for i, f in enumerate(factors)]
        for part, factors in zip(parts, made)
    ]
    return [[jnp.concatenate(both, 1) for both in zip(*made)]]


def face_squares(
    term: Term,
    place: Lattice,
    sums: Sequence[Sequence[Array]],
    target: Sequence[Sequence[Array]],
    dtype: Any,
) -> list[Square]:
    """The sums less their target, which is a sum of products too, scaled so that their means add up to the term."""
    if term.condition.jump:
        weights = [None if axis == term.axis else w for axis, w in zip(place.axes, place.weights)]
        return [(factors, weights) for factors in sums]
    # a term adds up the means of its faces
    scale = math.sqrt(max(1, len(term.sides)))
    (asked,) = sums
    lengths = place.shape
    given = [
        [
            jnp.broadcast_to(p[i], (n,)).astype(dtype)[:, None] * (-1.0 if i == 0 else 1.0)
            for p in target
        ]
        for i, n in enumerate(lengths)
    ]
    factors = [jnp.concatenate([a, *g], 1) for a, g in zip(asked, given)]
    return [
        (
            [f * scale if i == 0 and scale != 1.0 else f for i, f in enumerate(factors)],
            place.weights,
        )
    ]
