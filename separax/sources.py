"""Values of fields from a network, on lattices and at scattered points.

`sources` runs a network once for all the places where values are wanted: a separable network sees every distinct
coordinate of an axis one time, whether the interior, a face or a data grid asks for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array

from .devices import current
from .domain import Lattice, Points, flatten
from .fields import Key, Source, Varying, may_wait
from .networks import PointwiseNetwork, SeparableNetwork
from .networks.pointwise import Orders, Sum
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

    def columns(self, terms: Mapping[Key, Any], varying: Varying = ()) -> list[Array]:
        """Per axis, factors (points, columns) whose products add up to the terms, and to those times functions of one coordinate."""
        return columns(self.parts(terms), self.once, [(c, self.parts(some)) for c, some in varying])

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

    def takes(self, coefficient: tuple[int, ...]) -> bool:
        return isinstance(self.place, Lattice) and may_wait(coefficient, self.shape)

    def weighed(self, terms: Mapping[Key, Any], varying: Varying) -> Array:
        """Σ terms + Σ array · terms, in one product as far as the arrays allow."""
        wanted = {key for _, some in [(None, terms), *varying] for key in some}
        if self.together is not None and self.together.pays and self.together.keys >= wanted:
            return add_up([*([self.values(terms)] if terms else []), *(c * self.values(some) for c, some in varying)])
        return merge(self.parts(terms), self.once, [(c, self.parts(some)) for c, some in varying])


class PointwiseSource:
    """Formal combinations added up from derivatives at each point.

    Where few combinations have all the derivatives of the highest order in them, like u_xx + u_yy, these are carried through the network as
    what they add up to (`separax.fans`). `each` gives one by one those that are carried only so, `summed`."""

    def __init__(
        self,
        place: Place,
        derivatives: Mapping[Orders | Sum, Array],
        summed: Collection[Orders] = (),
        each: Callable[[], Mapping[Any, Array]] = dict,
    ):
        self.axes, self.shape, self.dtype = place.axes, place.shape, next(iter(derivatives.values())).dtype
        self._derivatives, self._summed, self._one_by_one = derivatives, summed, each

    def values(self, terms: Mapping[Key, Any]) -> Array:
        parts = [c * self._derivatives[o][:, i] for (i, o), c in terms.items() if o not in self._summed]
        for i in {i for i, _ in terms}:
            parts += self._top(i, {o: c for (k, o), c in terms.items() if k == i and o in self._summed})
        return add_up(parts).reshape(self.shape)

    def _top(self, component: int, terms: Mapping[Orders, Any]) -> list[Array]:
        """The terms of the highest order, where sums of them were carried."""
        whole = _sum(terms)
        if whole is not None and whole[0] in self._derivatives:
            return [whole[1] * self._derivatives[whole[0]][:, component]]
        return [c * self._each[o][:, component] for o, c in terms.items()]

    @functools.cached_property
    def _each(self) -> Mapping[Any, Array]:
        """Made when it is asked for: by who wants something else than was said."""
        return self._one_by_one()


def _pointwise(
    network: PointwiseNetwork, places: Sequence[Place], needs: Sequence[Iterable[Key]], inside: Iterable[Mapping[Key, Any]] | None
) -> list[Source]:
    """One pass through the network for all places of which the same is wanted."""
    dtype = network.body.out.weight.dtype
    points = [flatten(place) if isinstance(place, Lattice) else place for place in places]
    coordinates = [tuple(jnp.asarray(c, dtype) for c in some.coordinates) for some in points]
    wanted = [frozenset(o for _, o in some) for some in needs]
    summed, sums = _sums(wanted[0], inside)
    groups: dict[Any, list[int]] = {}
    for i, orders in enumerate(wanted):
        groups.setdefault((orders - summed, sums) if i == 0 else (orders, frozenset()), []).append(i)
    found: dict[int, Source] = {}
    for (orders, tops), members in groups.items():
        joined = tuple(jnp.concatenate(along) for along in zip(*(coordinates[i] for i in members)))
        made = network.derivatives(joined, orders, tops)
        lengths = [len(coordinates[i][0]) for i in members]
        split = {key: lax.split(values, lengths) for key, values in made.items()}
        for k, i in enumerate(members):
            own = {key: parts[k] for key, parts in split.items()}
            some, each = (summed, functools.partial(network.derivatives, coordinates[i], summed)) if tops else ((), dict)
            found[i] = PointwiseSource(places[i], own, some, each)
    return [found[i] for i in range(len(places))]


def _sums(orders: Set[Orders], asked: Iterable[Mapping[Key, Any]] | None) -> tuple[frozenset[Orders], frozenset[Sum]]:
    """The derivatives of the highest order along one axis, and the sums of them that are asked for; neither where these are no fewer."""
    pure = {o for o in orders if sum(k > 0 for k in o) == 1}
    top = max((max(o) for o in pure), default=0)
    highest = frozenset(o for o in pure if max(o) == top)
    found, nothing = set[Sum](), frozenset()
    for terms in asked or ():
        for component in {i for i, _ in terms}:
            some = {o: c for (i, o), c in terms.items() if i == component and o in highest}
            whole = _sum(some)
            if some and whole is None:  # a coefficient that is found in training, say
                return nothing, nothing
            if whole is not None:
                found.add(whole[0])
    return (highest, frozenset(found)) if top > 1 and 0 < len(found) < len(highest) else (nothing, nothing)


def _sum(terms: Mapping[Orders, Any]) -> tuple[Sum, float] | None:
    """Derivatives along single axes, of one order, as a multiple of a sum whose first weight is one; None if there are none, or not by plain
    numbers."""
    if any(not isinstance(c, float) for c in terms.values()):
        return None
    by_axis = sorted((o.index(max(o)), c) for o, c in terms.items() if c)
    if not by_axis:
        return None
    first = by_axis[0][1]
    return Sum(max(next(iter(terms))), tuple((axis, c / first) for axis, c in by_axis)), first


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
    inside: Iterable[Mapping[Key, Any]] | None = None,
) -> list[Source]:
    """One source per place, each able to give the derivatives in `needs`. `merges`: what each will be asked to merge, `inside`: the
    combinations the first of them will be asked for, as far as that is known."""
    dtype = network.body.out.weight.dtype
    if isinstance(network, PointwiseNetwork):
        return _pointwise(network, places, needs, inside)
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
