"""What functions of a problem are given (fields, coordinates, unknowns, tabulated values), and what
they ask for when they run on nothing."""

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


from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import InputError, shown

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


# --- running functions on nothing -----------------------------------------------------------------


class Tracer(AbstractValues):
    """Values that are all zero, and that write down what is asked of them.

    Attributes:
        asked: the linear combinations of derivatives, in the order in which they were asked for;
            None in place of a coefficient that is no plain number.
        uses_plain_values: whether plain values of a field were handed out.
    """

    def __init__(
        self,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: Any = jnp.float32,
        *,
        accepts: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda *shapes: False,
        on_request: Callable[[Mapping[Key, Any]], None] = lambda terms: None,
    ):
        self.axes, self.shape, self.dtype = axes, shape, dtype
        self.asked: list[dict[Key, float | None]] = []
        self.uses_plain_values = False
        self._accepts, self._on_request = accepts, on_request

    @property
    def derivatives(self) -> frozenset[Key]:
        """All derivatives that were asked for."""
        return frozenset(key for terms in self.asked for key in terms)

    def values(self, terms: Mapping[Key, Any]) -> Array:
        self.asked.append({key: c if isinstance(c, float) else None for key, c in terms.items()})
        self._on_request(terms)
        return jnp.zeros(self.shape, self.dtype)

    def accepts_coefficient(self, shape: tuple[int, ...]) -> bool:
        return self._accepts(shape, self.shape)

    def note_plain_values(self) -> None:
        self.uses_plain_values = True


@dataclass(frozen=True)
class Trace:
    """What a function of fields did when it was run on nothing.

    Attributes:
        result: what it returned. Its arrays are no numbers: only its structure may be looked at.
        asked: the linear combinations of derivatives that it asked for.
        derivatives: all the derivatives in them.
        uses_plain_values: whether it took plain values of a field.
    """

    result: Any
    asked: tuple[dict[Key, float | None], ...]
    derivatives: frozenset[Key]
    uses_plain_values: bool


def by_name(result: Any) -> dict[str, Any]:
    """What a residual function returned, by name."""
    if isinstance(result, Mapping):
        if not result:
            raise InputError("residual returned an empty dict: return {'name': expression, …}")
        return {str(k): v for k, v in result.items()}
    if isinstance(result, (tuple, list)):
        return {f"residual {i + 1}": r for i, r in enumerate(result)}
    return {"residual": result}


def values_of(result: Any, shape: tuple[int, ...], argument: str) -> Array:
    """An expression's values, refused unless there is one per point.

    Arguments:
        result: a field or an array.
        shape: of the points.
        argument: what returned it, for the refusal.

    Returns:
        The array of values.
    """
    try:
        values = result.evaluate() if isinstance(result, Field) else jnp.asarray(result)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument} must return an expression of the fields, got {shown(result)} ({error})"
        ) from None
    if values.shape != tuple(shape):
        raise InputError(
            f"{argument} returned an array of shape {values.shape} where there is one value per"
            f" point, {tuple(shape)}: return an expression of the fields, without sums or reshapes"
        )
    return values


def is_linear(problem: Problem) -> bool:
    """Whether every residual of a problem is linear in the fields."""

    def residuals(at: Any) -> list[Any]:
        return list(problem.expressions(at.source, at.coordinates, at.unknowns).values())

    trace = problem.trace(residuals, accepts=lambda *shapes: True)
    parts = [e.known_polynomial if isinstance(e, Field) else None for e in trace.result]
    # an array made from u.value may be anything
    return (
        not problem.unknowns
        and not trace.uses_plain_values
        and all(p is not None and p.is_known for p in parts)
    )
