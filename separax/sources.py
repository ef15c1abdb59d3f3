"""Values of fields from a network, on lattices and at scattered points.

`sources` runs a network once for all the places where values are wanted: a separable network sees every distinct
coordinate of an axis one time, whether the interior, a face or a data grid asks for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .devices import current
from .domain import Lattice, Points, flatten
from .fields import Key, Source
from .networks import PointwiseNetwork, SeparableNetwork
from .separable import Once, Separable, add_up, columns, in_tf32, merge, merge_at_points, merge_each

Place = Lattice | Points

# What a GPU takes to start the products of a merge and of its gradient, and the operations it does in a second of a batched product, in
# full precision and in TF32: measured on one NVIDIA H200
LAUNCHES = 15e-6
RATES = {False: 1.5e13, True: 1e14}


class Together:
    """The derivatives of all fields that are merged on one lattice, each by itself, in one batched product.

    A merge of a whole combination is less work, but a system has many, with twice as many products in the gradient. Where the lattice is
    small a GPU takes longer to start them than to do them: there it is better to do more at once.
    """

    def __init__(self, components: Sequence[Separable]):
        self.components, self.merges = components, set[frozenset[Key]]()

    @functools.cached_property
    def keys(self) -> set[Key]:
        return {key for merge in self.merges for key in merge}

    @functools.cached_property
    def values(self) -> dict[Key, Array]:
        """By component and orders. Made when it is first asked for: there may be no need to."""
        keys = sorted(self.keys)
        return dict(zip(keys, merge_each([(self.components[c], orders) for c, orders in keys])))

    @functools.cached_property
    def pays(self) -> bool:
        """Whether that is done sooner than the merges."""
        if current().platform != "gpu" or len({u.rank for u in self.components}) > 1:
            return False
        first = self.components[0]
        operations = 6 * len(self.keys) * first.rank * math.prod(first.shape)
        return operations / RATES[in_tf32()] < len(self.merges) * LAUNCHES


class SeparableSource:
    """Formal combinations merged from factors."""

    def __init__(self, components: Sequence[Separable], place: Place, once: Once, together: Together | None = None):
        self.components, self.place, self.once, self.together = components, place, once, together
        self.axes, self.shape, self.dtype = place.axes, place.shape, components[0].jets[0].dtype
        self._made: dict[Any, Array] = {}

    def parts(self, terms: Mapping[Key, Any]) -> list[tuple[Separable, dict[tuple[int, ...], Any]]]:
        """The terms by component."""
        return [(u, {o: c for (i, o), c in terms.items() if i == k}) for k, u in enumerate(self.components)]

    def columns(self, terms: Mapping[Key, Any]) -> list[Array]:
        """Per axis, factors (points, columns) whose products add up to the terms."""
        return columns(self.parts(terms), self.once)

    def values(self, terms: Mapping[Key, Any]) -> Array:
        if self.together is not None and self.together.pays and self.together.keys >= set(terms):
            return add_up(jnp.asarray(c, self.dtype) * self.together.values[key] for key, c in terms.items())
        key = _hashable(terms)
        if key is not None and key in self._made:
            return self._made[key]
        parts = self.parts(terms)
        values = merge(parts, self.once) if isinstance(self.place, Lattice) else merge_at_points(parts)
        if key is not None:
            self._made[key] = values
        return values


class PointwiseSource:
    """Formal combinations added up from derivatives at each point."""

    def __init__(self, derivatives: Mapping[tuple[int, ...], Array], place: Place):
        self.derivatives, self.axes, self.shape = derivatives, place.axes, place.shape
        self.dtype = next(iter(derivatives.values())).dtype

    def values(self, terms: Mapping[Key, Any]) -> Array:
        return add_up(c * self.derivatives[orders][:, i] for (i, orders), c in terms.items()).reshape(self.shape)


def _hashable(terms: Mapping[Key, Any]) -> Any:
    """A key for terms whose coefficients are plain numbers; None where one is traced."""
    return frozenset(terms.items()) if all(isinstance(c, float) for c in terms.values()) else None


class Rows:
    """The coordinates of one axis wanted by several places, each array once."""

    def __init__(self):
        self.arrays: list[Array] = []
        self.slices: dict[Any, slice] = {}
        self.length = 0

    def add(self, coordinates: Array) -> slice:
        # tables of several quantities at one instant have an array for it each
        key = id(coordinates) if isinstance(coordinates, Tracer) else (coordinates.dtype, np.asarray(coordinates).tobytes())
        if key not in self.slices:
            self.slices[key] = slice(self.length, self.length + len(coordinates))
            self.arrays.append(coordinates)
            self.length += len(coordinates)
        return self.slices[key]

    def all(self, dtype: Any) -> Array:
        return (
            jnp.concatenate([jnp.asarray(a, dtype) for a in self.arrays])
            if len(self.arrays) > 1
            else jnp.asarray(self.arrays[0], dtype)
        )


def highest(needs: Iterable[Key]) -> int:
    return max((max(orders) for _, orders in needs), default=0)


def sources(
    network: SeparableNetwork | PointwiseNetwork,
    places: Sequence[Place],
    needs: Sequence[Iterable[Key]],
    merges: Sequence[Iterable[frozenset[Key]]] | None = None,
) -> list[Source]:
    """One source per place, each able to give the derivatives in `needs`. `merges`: what each will be asked to merge, as far as that is
    known."""
    dtype = network.body.out.weight.dtype
    if isinstance(network, PointwiseNetwork):
        found: list[Source] = []
        for place, wanted in zip(places, needs):
            points = flatten(place) if isinstance(place, Lattice) else place
            coordinates = tuple(jnp.asarray(c, dtype) for c in points.coordinates)
            found.append(PointwiseSource(network.derivatives(coordinates, {o for _, o in wanted}), place))
        return found
    asked = [Rows() for _ in network.axes]
    slices = [[r.add(c) for r, c in zip(asked, place.coordinates)] for place in places]
    jets = network.jets(tuple(r.all(dtype) for r in asked), max(highest(wanted) for wanted in needs))
    made: list[Source] = []
    once, cuts = Once(), {}  # faces have their coordinates in common with the inside, and then the jets there too

    def cut(component: int, axis: int, rows: slice) -> Array:
        key = (component, axis, rows.start, rows.stop)
        if key not in cuts:
            cuts[key] = jets[axis][component][:, rows]
        return cuts[key]

    shared: dict[Any, Together] = {}
    for number, (place, rows) in enumerate(zip(places, slices)):
        weights = place.weights if isinstance(place, Lattice) else None
        each = [Separable(place.axes, [cut(i, k, s) for k, s in enumerate(rows)], weights) for i in range(network.components)]
        together = None
        if merges is not None and isinstance(place, Lattice) and len(place.axes) > 1:
            # conditions on several quantities have their lattice in common
            together = shared.setdefault(tuple((s.start, s.stop) for s in rows), Together(each))
            together.merges |= set(merges[number])
        made.append(SeparableSource(each, place, once, together))
    return made
