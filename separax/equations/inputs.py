"""What a residual is given besides the fields: coordinates, unknowns, tabulated values."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core import add_up
from ..domain import TIME, Place
from ..separable import Key


class TabulatedValues:
    """A source of values that were computed before: one array per derivative."""

    def __init__(self, place: Place, values: Mapping[Key, Array]):
        self.axes, self.shape, self.table = place.axes, place.shape, values
        self.dtype = next(iter(values.values())).dtype

    def values(self, terms: Mapping[Key, Any]) -> Array:
        return add_up(c * self.table[key] for key, c in terms.items())


class ValuesByDerivative:
    """A source whose values are those of the derivatives, one by one."""

    def __init__(self, axes: tuple[str, ...], shape: tuple[int, ...], each: Mapping[Key, Array]):
        self.axes, self.shape, self.dtype, self.each = axes, shape, jnp.float64, each

    def values(self, terms: Mapping[Key, Any]) -> Array:
        parts = (
            self.each[key] if isinstance(c, float) and c == 1 else c * self.each[key]
            for key, c in terms.items()
        )
        return functools.reduce(operator.add, parts)


ExtraInputs = Mapping[
    str, Array
]  # what a loss is told besides: START, and values of conditions by their number in `values_name`
START = "start"  # the instant at which the local time of a window is the first


def values_name(term: int) -> str:
    return f"values {term}"


@dataclass(frozen=True)
class Inputs:
    """What functions of a problem are told besides the fields."""

    unknowns: Mapping[str, Array]
    given: ExtraInputs

    def coordinates(self, place: Place) -> dict[str, Array]:
        """The coordinates of a place; time as the problem counts it, where the network counts from the start of a window."""
        arrays = place.arrays()
        return arrays | {TIME: arrays[TIME] + self.given[START]} if START in self.given else arrays
