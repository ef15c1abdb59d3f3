"""What functions of a problem are given: fields, coordinates, unknowns, tabulated values."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core import add_up
from ..domain import TIME, Lattice, Place, Points
from ..separable import AbstractValues, Key
from .field import Field

if TYPE_CHECKING:
    from .problem import Problem


class TabulatedValues(AbstractValues):
    """Values that were computed before: one array per derivative."""

    def __init__(self, place: Place, values: Mapping[Key, Array]):
        self.axes, self.shape, self.table = place.axes, place.shape, values
        self.dtype = next(iter(values.values())).dtype

    def values(self, terms: Mapping[Key, Any]) -> Array:
        return add_up(c * self.table[key] for key, c in terms.items())


class ValuesByDerivative(AbstractValues):
    """Values that are those of the derivatives, one by one."""

    def __init__(self, axes: tuple[str, ...], shape: tuple[int, ...], each: Mapping[Key, Array]):
        self.axes, self.shape, self.dtype, self.each = axes, shape, jnp.float64, each

    def values(self, terms: Mapping[Key, Any]) -> Array:
        parts = (
            self.each[key] if isinstance(c, float) and c == 1 else c * self.each[key]
            for key, c in terms.items()
        )
        return functools.reduce(operator.add, parts)


# Extra inputs of a loss: START, and values of conditions by their number in `values_name`.
ExtraInputs = Mapping[str, Array]
START = "start"  # the instant at which the local time of a window is the first


def values_name(term: int) -> str:
    """The name of the values of a term, by its number, among the extra inputs."""
    return f"values {term}"


@dataclass(frozen=True)
class Inputs:
    """What functions of a problem are given besides the fields."""

    unknowns: Mapping[str, Array]
    given: ExtraInputs

    def coordinates(self, place: Place) -> dict[str, Array]:
        """The coordinates of a place; time as the problem counts it, where the network counts from
        the start of a window."""
        arrays = place.arrays()
        return arrays | {TIME: arrays[TIME] + self.given[START]} if START in self.given else arrays


@dataclass(frozen=True, eq=False)
class AtPlace:
    """The fields of a problem at the points of a place: what residuals and terms are made from.

    Attributes:
        problem: whose fields they are.
        place: a lattice or scattered points.
        source: where the values of the fields come from.
        inputs: the unknowns, and what a window hands on.
        tabulated: the values of the condition that is evaluated, where a window hands them on.
    """

    problem: Problem
    place: Place
    source: AbstractValues
    inputs: Inputs
    tabulated: Array | None = None

    @functools.cached_property
    def fields(self) -> dict[str, Field]:
        """The fields by name."""
        return self.problem.field_map(self.source)

    @functools.cached_property
    def coordinates(self) -> dict[str, Array]:
        """The coordinates by name, as arrays that broadcast. Points outside the problem's shape are
        moved inside: what a function makes of them counts nothing, but were it infinite, the
        gradient of what does count would be no number."""
        found, shape = self.inputs.coordinates(self.place), self.problem.shape
        return found if shape is None or self._on_boundary else shape.safe_coordinates(found)

    @property
    def unknowns(self) -> Mapping[str, Array]:
        """The unknown coefficients by name."""
        return self.inputs.unknowns

    @property
    def _on_boundary(self) -> bool:
        """Whether the place is on the boundary of a shape: only these points have normals."""
        return isinstance(self.place, Points) and self.place.normals is not None

    def inside(self, values: Array, where: Array | None = None) -> Array:
        """Values scaled so that their mean square over the place is that over a part of it.

        Arguments:
            values: one per point.
            where: true on the part that counts, besides being inside the problem's shape (all of
                its boundary is).

        Returns:
            The scaled values, zero where they do not count.
        """
        shape = self.problem.shape
        masks = [] if shape is None or self._on_boundary else [shape.mask(self.place.arrays())]
        masks += [] if where is None else [where]
        if not masks:
            return values
        mask = jnp.broadcast_to(functools.reduce(jnp.logical_and, masks), values.shape)
        share = self.place.mean(mask.astype(values.dtype))
        return jnp.where(mask, values, 0.0) / jnp.sqrt(jnp.maximum(share, 1e-12))

    def on_faces(self, values: Any, axis: str) -> tuple[Array, Array]:
        """Values on both faces of an axis, taken apart.

        Arguments:
            values: a field or an array, at a place on both faces of the axis.
            axis: the name of the axis.

        Returns:
            The values on the lower face and those on the upper one.
        """
        array = values.evaluate() if isinstance(values, Field) else jnp.asarray(values)
        if isinstance(self.place, Lattice):
            at = self.place.axes.index(axis)
            if array.ndim == 0 or array.shape[at] == 1:  # the same on both
                return array, array
            first, second = jnp.split(array, 2, axis=at)
            return first, second
        half = self.place.shape[0] // 2
        return (array, array) if array.ndim == 0 else (array[:half], array[half:])

    def lower_face(self, axis: str) -> Place:
        """The lower one of both faces of an axis that the place is on."""
        place = self.place
        if isinstance(place, Lattice):
            return Lattice(
                weights={a: w for a, w in zip(place.axes, place.weights) if a != axis},
                **{a: c[:1] if a == axis else c for a, c in zip(place.axes, place.coordinates)},
            )
        half = place.shape[0] // 2
        weights = None if place.weights is None else place.weights[:half]
        return Points(place.axes, tuple(c[:half] for c in place.coordinates), weights)
