"""Values of fields from a network, on lattices and at scattered points.

`sources` runs a network once for all the places where values are wanted: a separable network sees every distinct
coordinate of an axis one time, whether the interior, a face or a data grid asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ..core import add_up
from ..domain import Lattice, Place, Rows, flatten
from ..separable import (
    AbstractValues,
    BatchedMerge,
    FactorCache,
    Key,
    Separable,
    Varying,
    columns,
    merge,
    merge_at_points,
)
from .pointwise_network import Orders, PointwiseNetwork, SumOfDerivatives
from .separable_network import SeparableNetwork


class SeparableSource(AbstractValues):
    """Formal combinations merged from factors."""

    def __init__(
        self,
        components: Sequence[Separable],
        place: Place,
        once: FactorCache,
        together: BatchedMerge | None = None,
    ):
        self.components, self.place, self.once, self.together = components, place, once, together
        self.axes, self.shape, self.dtype = place.axes, place.shape, components[0].jets[0].dtype
        self._made: dict[Any, Array] = {}

    def parts(self, terms: Mapping[Key, Any]) -> list[tuple[Separable, dict[tuple[int, ...], Any]]]:
        """The terms by component."""
        return [
            (u, {o: c for (i, o), c in terms.items() if i == k})
            for k, u in enumerate(self.components)
        ]

    def columns(self, terms: Mapping[Key, Any], varying: Varying = ()) -> list[Array]:
        """Per axis, factors (points, columns) whose products add up to the terms, and to those times functions of one coordinate."""
        return columns(self.parts(terms), self.once, [(c, self.parts(some)) for c, some in varying])

    def values(self, terms: Mapping[Key, Any]) -> Array:
        if self.together is not None and self.together.pays and self.together.keys >= set(terms):
            return add_up(
                jnp.asarray(c, self.dtype) * self.together.values[key] for key, c in terms.items()
            )
        key = _hashable(terms)
        if key is not None and key in self._made:
            return self._made[key]
        parts = self.parts(terms)
        values = (
            merge(parts, self.once) if isinstance(self.place, Lattice) else merge_at_points(parts)
        )
        if key is not None:
            self._made[key] = values
        return values

    def accepts_coefficient(self, shape: tuple[int, ...]) -> bool:
        return isinstance(self.place, Lattice) and is_thin(shape, self.shape)

    def weighed(self, terms: Mapping[Key, Any], varying: Varying) -> Array:
        """Σ terms + Σ array · terms, in one product as far as the arrays allow."""
        wanted = {key for _, some in [(None, terms), *varying] for key in some}
        if self.together is not None and self.together.pays and self.together.keys >= wanted:
            return super().weighed(terms, varying)
        return merge(self.parts(terms), self.once, [(c, self.parts(some)) for c, some in varying])


class PointwiseSource(AbstractValues):
    """Formal combinations added up from derivatives at each point.

    Where few combinations have all the derivatives of the highest order in them, like u_xx + u_yy, these are carried through the network as
    what they add up to (`separax.fans`). `each` gives one by one those that are carried only so, `summed`."""

    def __init__(
        self,
        place: Place,
        derivatives: Mapping[Orders | SumOfDerivatives, Array],
        summed: Collection[Orders] = (),
        each: Callable[[], Mapping[Any, Array]] = dict,
    ):
        self.axes, self.shape, self.dtype = (
            place.axes,
            place.shape,
            next(iter(derivatives.values())).dtype,
        )
        self._derivatives, self._summed, self._one_by_one = derivatives, summed, each

    def values(self, terms: Mapping[Key, Any]) -> Array:
        parts = [
            c * self._derivatives[o][:, i] for (i, o), c in terms.items() if o not in self._summed
        ]
        for i in {i for i, _ in terms}:
            parts += self._top(
                i, {o: c for (k, o), c in terms.items() if k == i and o in self._summed}
            )
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
    network: PointwiseNetwork,
    places: Sequence[Place],
    needs: Sequence[Iterable[Key]],
    inside: Iterable[Mapping[Key, Any]] | None,
) -> list[AbstractValues]:
    """One pass through the network for all places of which the same is wanted."""
    dtype = network.body.out.weight.dtype
    points = [flatten(place) if isinstance(place, Lattice) else place for place in places]
    coordinates = [tuple(jnp.asarray(c, dtype) for c in some.coordinates) for some in points]
    wanted = [frozenset(o for _, o in some) for some in needs]
    summed, sums = _sums(wanted[0], inside)
    groups: dict[Any, list[int]] = {}
    for i, orders in enumerate(wanted):
        groups.setdefault((orders - summed, sums) if i == 0 else (orders, frozenset()), []).append(
            i
        )
    found: dict[int, AbstractValues] = {}
    for (orders, tops), members in groups.items():
        joined = tuple(jnp.concatenate(along) for along in zip(*(coordinates[i] for i in members)))
        made = network.derivatives(joined, orders, tops)
        lengths = [len(coordinates[i][0]) for i in members]
        split = {key: lax.split(values, lengths) for key, values in made.items()}
        for k, i in enumerate(members):
            own = {key: parts[k] for key, parts in split.items()}
            some, each = (
                (summed, functools.partial(network.derivatives, coordinates[i], summed))
                if tops
                else ((), dict)
            )
            found[i] = PointwiseSource(places[i], own, some, each)
    return [found[i] for i in range(len(places))]


def _sums(
    orders: Set[Orders], asked: Iterable[Mapping[Key, Any]] | None
) -> tuple[frozenset[Orders], frozenset[SumOfDerivatives]]:
    """The derivatives of the highest order along one axis, and the sums of them that are asked for; neither where these are no fewer."""
    pure = {o for o in orders if sum(k > 0 for k in o) == 1}
    top = max((max(o) for o in pure), default=0)
    highest = frozenset(o for o in pure if max(o) == top)
    found, nothing = set[SumOfDerivatives](), frozenset()
    for terms in asked or ():
        for component in {i for i, _ in terms}:
            some = {o: c for (i, o), c in terms.items() if i == component and o in highest}
            whole = _sum(some)
            if some and whole is None:  # a coefficient that is found in training, say
                return nothing, nothing
            if whole is not None:
                found.add(whole[0])
    return (
        (highest, frozenset(found))
        if top > 1 and 0 < len(found) < len(highest)
        else (nothing, nothing)
    )


def _sum(terms: Mapping[Orders, Any]) -> tuple[SumOfDerivatives, float] | None:
    """Derivatives along single axes, of one order, as a multiple of a sum whose first weight is one; None if there are none, or not by plain
    numbers."""
    if any(not isinstance(c, float) for c in terms.values()):
        return None
    by_axis = sorted((o.index(max(o)), c) for o, c in terms.items() if c)
    if not by_axis:
        return None
    first = by_axis[0][1]
    return SumOfDerivatives(
        max(next(iter(terms))), tuple((axis, c / first) for axis, c in by_axis)
    ), first


def _hashable(terms: Mapping[Key, Any]) -> Any:
    """A key for terms whose coefficients are plain numbers; None where one is traced."""
    return frozenset(terms.items()) if all(isinstance(c, float) for c in terms.values()) else None


def highest(needs: Iterable[Key]) -> int:
    return max((max(orders) for _, orders in needs), default=0)


def sources(
    network: SeparableNetwork | PointwiseNetwork,
    places: Sequence[Place],
    needs: Sequence[Iterable[Key]],
    merges: Sequence[Iterable[frozenset[Key]]] | None = None,
    inside: Iterable[Mapping[Key, Any]] | None = None,
) -> list[AbstractValues]:
    """One source per place, each able to give the derivatives in `needs`. `merges`: what each will be asked to merge, `inside`: the
    combinations the first of them will be asked for, as far as that is known."""
    dtype = network.body.out.weight.dtype
    if isinstance(network, PointwiseNetwork):
        return _pointwise(network, places, needs, inside)
    asked = [Rows() for _ in network.axes]
    slices = [[r.add(c) for r, c in zip(asked, place.coordinates)] for place in places]
    jets = network.jets(
        tuple(r.all(dtype) for r in asked), max(highest(wanted) for wanted in needs)
    )
    made: list[AbstractValues] = []
    once, cuts = (
        FactorCache(),
        {},
    )  # faces have their coordinates in common with the inside, and then the jets there too

    def cut(component: int, axis: int, rows: slice) -> Array:
        key = (component, axis, rows.start, rows.stop)
        if key not in cuts:
            cuts[key] = jets[axis][component][:, rows]
        return cuts[key]

    shared: dict[Any, BatchedMerge] = {}
    for number, (place, rows) in enumerate(zip(places, slices)):
        weights = place.weights if isinstance(place, Lattice) else None
        each = [
            Separable(place.axes, [cut(i, k, s) for k, s in enumerate(rows)], weights)
            for i in range(network.components)
        ]
        together = None
        if merges is not None and isinstance(place, Lattice) and len(place.axes) > 1:
            # conditions on several quantities have their lattice in common
            together = shared.setdefault(tuple((s.start, s.stop) for s in rows), BatchedMerge(each))
            together.merges |= set(merges[number])
        made.append(SeparableSource(each, place, once, together))
    return made


def is_thin(coefficient: tuple[int, ...], lattice: tuple[int, ...]) -> bool:
    """Whether an array of one shape is a function of some of the coordinates of a lattice only: it may be multiplied before there is one."""
    within = len(coefficient) == len(lattice) > 1 and all(
        n in (1, whole) for n, whole in zip(coefficient, lattice)
    )
    return within and coefficient != lattice
