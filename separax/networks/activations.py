"""Activation functions with their Taylor rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..core import add_up


class Applied(NamedTuple):
    """A function applied to a jet's value: what it makes of it, its slope there, and what it makes of the further coefficients of a jet
    that begins with that value. One of these may be None, which stands for zero."""

    value: Array
    slope: Array
    along: Callable[[Sequence[Array | None]], list[Array]]


def tanh(value: Array) -> Applied:
    """y = tanh s from its own differential equation y′ = (1 - y²) s′, coefficient by coefficient."""
    here = jnp.tanh(value)
    first = 1 - here * here

    def along(s: Sequence[Array | None]) -> list[Array]:
        y, slope = [here], [first]  # the latter: coefficients of 1 - y²
        for k in range(1, len(s) + 1):
            y.append(
                add_up((j / k) * c * slope[k - j] for j, c in enumerate(s[:k], 1) if c is not None)
            )
            if k < len(s):
                slope.append(-add_up(y[j] * y[k - j] for j in range(k + 1)))
        return y[1:]

    return Applied(here, first, along)


def sin(value: Array) -> Applied:
    """sin s and cos s together: (sin s)′ = s′ cos s, (cos s)′ = -s′ sin s."""
    sine, cosine = jnp.sin(value), jnp.cos(value)

    def along(s: Sequence[Array | None]) -> list[Array]:
        sines, cosines = [sine], [cosine]
        for k in range(1, len(s) + 1):
            some = [((j / k) * c, k - j) for j, c in enumerate(s[:k], 1) if c is not None]
            sines.append(add_up(c * cosines[i] for c, i in some))
            cosines.append(-add_up(c * sines[i] for c, i in some))
        return sines[1:]

    return Applied(sine, cosine, along)


ACTIVATIONS = {"tanh": tanh, "sin": sin}
