"""Causal weights: what happens later counts only once what happens earlier is right.

Time is cut into slices, and the residuals of slice i are weighed by

    w_i = exp(-ε Σ_{k<i} L_k),

L_k being the mean squared residuals of slice k, weighted as in the loss. The weights are constants to the gradient. The tolerance ε is
taken from a rising list: the next one as soon as every weight is above 0.99, so that nothing is held back any more at this one.

Notice: the authors of the method (Wang, Sankaran, Perdikaris, "Respecting causality is all you need for training physics-informed neural
networks", 2022) state that causal weighting is patented and not for commercial use. It is here as the baseline that it is in the paper,
and nothing uses it unless it is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..core import InputError, finite, whole
from ..domain import Lattice, Place

DONE = 0.99  # above this, a weight holds nothing back
SLICES = 32  # at most, where no number is given


@dataclass(frozen=True)
class Causal:
    """Weighs residuals so that early times are solved before late ones: `Recipe(causal=Causal())`.

    Notice: its authors state that causal weighting is patented and not for commercial use. It is offered as a baseline.

    Arguments:
        slices: of time, of equal length; None: 32, or as many as there are points along t if they are fewer.
        tolerances: rising; the larger, the sooner a residual holds back what comes after it. They are relative to the loss, so an
            equation whose residuals are large needs smaller ones.

    The history and what is reported are of the plain loss; only the gradient is of the weighted one. Losses with different weights do
    not compare, so the parameters that are kept are the latest ones, not those of the lowest loss.
    """

    slices: int | None = None
    tolerances: tuple[float, ...] = (1e-2, 1e-1, 1.0, 1e1, 1e2)

    def __post_init__(self):
        if self.slices is not None:
            whole("Causal: slices", self.slices, 2)
        given = self.tolerances
        if isinstance(given, str) or not isinstance(given, Iterable) or not (each := tuple(given)):
            raise InputError(
                f"Causal: tolerances must be numbers that rise, got {given!r}: write tolerances=(1e-2, 1e-1, 1.0)"
            )
        each = tuple(finite("Causal: tolerances", one) for one in each)
        if each[0] < 0 or any(b <= a for a, b in itertools.pairwise(each)):
            raise InputError(
                f"Causal: tolerances must rise and not be negative, got {each}: write tolerances=(1e-2, 1e-1, 1.0)"
            )
        object.__setattr__(self, "tolerances", each)

    def number(self, points: int) -> int:
        """Of slices, where there are so many points along t."""
        return min(SLICES, points) if self.slices is None else self.slices

    def advanced(self, tolerance: Int[Array, ""], least: Array) -> Int[Array, ""]:
        """The number of the next step's tolerance, where the least weight of this one is `least`."""
        return jnp.minimum(tolerance + (least > DONE), len(self.tolerances) - 1).astype(
            tolerance.dtype
        )


def causal_weights(losses: Float[Array, " slices"], tolerance: Array) -> Float[Array, " slices"]:
    """w_i = exp(-ε Σ_{k<i} L_k); constants to a gradient."""
    before = jnp.cumsum(losses) - losses
    return jax.lax.stop_gradient(jnp.exp(-tolerance * before))


def time_slices(times: Array, bounds: tuple[float, float], number: int) -> Int[Array, " n"]:
    """The slice of every instant."""
    lower, upper = bounds
    return jnp.clip(((times - lower) * (number / (upper - lower))).astype(jnp.int32), 0, number - 1)


def slice_means(
    place: Place, axis: str, values: Array, owner: Int[Array, " n"], number: int
) -> Float[Array, " slices"]:
    """The mean of `values` over each slice of an axis, by the place's quadrature; 0 where a draw left a slice without points."""
    if isinstance(place, Lattice):
        at = place.axes.index(axis)
        size = place.weights[at]
        rest = {a: w for a, w in zip(place.axes, place.weights) if a != axis}
        for other, weight in rest.items():
            if weight is not None:
                values = values * place.along(other, weight / jnp.mean(weight))
        values = jnp.mean(values, axis=[i for i in range(len(place.axes)) if i != at])
    else:
        size = place.weights
    size = jnp.ones_like(values) if size is None else size.astype(values.dtype)
    total, count = (jax.ops.segment_sum(each, owner, number) for each in (size * values, size))
    return jnp.where(count > 0, total / jnp.where(count > 0, count, 1.0), 0.0)


RATES = (25.0, 8.0, 0.0)


def early_inputs(rates: Sequence[float], dtype: Any) -> list[dict[str, Array]]:
    """What the loss is told for each of the rates; for none of them, nothing."""
    return [{EARLY: jnp.asarray(rate, dtype)} for rate in rates] or [{}]


EARLY = "early"  # how fast what residuals count falls with time: by exp(-early) over all of it
