"""Pointwise networks: one body of all coordinates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..core import InputError, add_up, default_device
from ..domain import Lattice, Place, flatten
from ..separable import AbstractValues, Key
from .encodings import Axis
from .network import AbstractNetwork, Coordinates
from .taylor import DirectionalTaylor, Layout, Rows, Taylor, derivatives

Orders = tuple[int, ...]  # of a derivative, one per axis


class SumOfDerivatives(NamedTuple):
    """Σ weight · ∂^order along an axis, of a field: an operator whose terms are not wanted."""

    order: int
    weights: tuple[tuple[int, float], ...]  # by the number of the axis


Derivatives = Mapping[Orders | SumOfDerivatives, Float[Array, "points components"]]


class PointwiseNetwork(AbstractNetwork):
    """A `PINN` with weights."""

    @property
    def is_separable(self) -> bool:
        return False

    @property
    def separable(self) -> NoReturn:
        raise InputError("this network is pointwise, not separable: write network=sx.SPINN(…)")

    @property
    def outputs(self) -> int:
        return self.components

    def rows(
        self,
        points: Coordinates,
        orders: Mapping[int, int],
        operators: Sequence[SumOfDerivatives] = (),
    ) -> Float[Array, "rows points components"]:
        """What the weights make, without the known part, in one pass: values and derivatives.

        Arguments:
            points: scattered points.
            orders: by axis, of the highest derivative along it.
            operators: sums of derivatives of the order that comes next.

        Returns:
            The values, the derivatives along each of the axes, the operators.
        """
        weights = tuple(tuple(dict(o.weights).get(axis, 0.0) for axis in orders) for o in operators)
        side = -3 if default_device().platform == "cpu" else -2
        layout = Layout(tuple(orders.values()), weights, axis=side)
        highest = {a: order + layout.is_summed(i) for i, (a, order) in enumerate(orders.items())}

        def each(part: Callable[[Axis, Array, int], Taylor]) -> list[Taylor]:
            numbers = (highest.get(i, 0) for i in range(len(self.axes)))
            return [part(*given) for given in zip(self.axes, points, numbers)]

        def in_rows(
            value: Array, row: Callable[[int, Mapping[int, float]], Array | None]
        ) -> DirectionalTaylor:
            """From coefficients of an order, summed along axes with weights."""
            series = [[row(k, {i: 1.0}) for k in range(1, n + 1)] for i, n in orders.items()]
            sums = [row(one.order, dict(one.weights)) for one in operators]
            return DirectionalTaylor(layout, Rows(value, series, sums))

        encoded = each(Axis.encode)
        plain = [axis.encoding.is_plain for axis in self.axes]

        def row(order: int, along: Mapping[int, float]) -> Array | None:
            """Zeros for the features of the other axes; None where all are zero."""
            made = {
                i: w * encoded[i][order] for i, w in along.items() if order == 1 or not plain[i]
            }
            if not made:
                return None
            if all(plain[i] for i in made):  # the same at every point
                made = {i: coefficient[:1] for i, coefficient in made.items()}
            one = next(iter(made.values()))
            nothing = (jnp.zeros((len(one), axis.inputs), one.dtype) for axis in self.axes)
            return jnp.concatenate([made.get(i, zero) for i, zero in enumerate(nothing)], -1)

        found = self.body.taylor(in_rows(jnp.concatenate([e[0] for e in encoded], -1), row))

        def zero_on_faces(number: int, envelope: Taylor) -> DirectionalTaylor:
            def row(order: int, along: Mapping[int, float]) -> Array:
                weight = along.get(number, 0.0)
                return weight * envelope[order] if weight else jnp.zeros_like(envelope[0])

            return in_rows(envelope[0], row)

        if any(any(axis.zero_faces) for axis in self.axes):
            for number, envelope in enumerate(each(Axis.envelope)):
                found = found * zero_on_faces(number, envelope)
        return derivatives(jnp.moveaxis(found.array, side, 0), layout.row_orders)

    def derivatives(
        self,
        points: Coordinates,
        needed: Iterable[Orders],
        operators: Iterable[SumOfDerivatives] = (),
    ) -> dict[Orders | SumOfDerivatives, Float[Array, "points components"]]:
        """Every partial derivative in `needed`, and the operators, whose order is higher than that
        of the derivatives along one axis alone."""
        needed, operators = set(needed), sorted(operators)
        none = (0,) * len(self.axes)
        pure = {o for o in needed if sum(k > 0 for k in o) <= 1}
        orders = {}
        for axis in range(len(self.axes)):
            under = [one.order - 1 for one in operators if axis in dict(one.weights)]
            if order := max([*(o[axis] for o in pure), *under], default=0):
                orders[axis] = order
        out: dict[Orders | SumOfDerivatives, Array] = {}
        if pure or operators:
            directions = [_along(none, i, k) for i, n in orders.items() for k in range(1, n + 1)]
            rows = zip([none, *directions, *operators], self.rows(points, orders, operators))
            out = {key: row for key, row in rows if key in needed or key in operators}
        out |= {o: self._mixed(points, o) for o in needed - pure}
        known = self.known_part
        if known is None:
            return out
        for key in out:
            terms = (
                [(w, _along(none, i, key.order)) for i, w in key.weights]
                if isinstance(key, SumOfDerivatives)
                else [(1.0, key)]
            )
            out[key] = out[key] + add_up(w * known.at_points(points, o) for w, o in terms)
        return out

    def _mixed(self, points: Coordinates, orders: Orders) -> Array:
        """A mixed derivative: a series along the axis of the highest order, differentiated along
        the others."""
        main = orders.index(max(orders))

        def function(at: Coordinates, /) -> Array:
            return self.rows(at, {main: orders[main]})[-1]

        for axis, order in enumerate(orders):
            for _ in range(order if axis != main else 0):
                function = along(function, axis)
        return function(points)

    # --- values ----------------------------------------------------------------------------------

    def sources(
        self,
        places: Sequence[Place],
        needs: Sequence[Iterable[Key]],
        merges: Sequence[Iterable[frozenset[Key]]] | None = None,
        asked: Iterable[Mapping[Key, Any]] | None = None,
    ) -> list[AbstractValues]:
        points = [flatten(place) if isinstance(place, Lattice) else place for place in places]
        coordinates = [tuple(jnp.asarray(c, self.dtype) for c in p.coordinates) for p in points]
        wanted = [frozenset(o for _, o in some) for some in needs]
        summed, operators = _operators(wanted[0], asked)
        # places of which the same is wanted share a pass
        groups: dict[Any, list[int]] = {}
        for i, orders in enumerate(wanted):
            key = (orders - summed, operators) if i == 0 else (orders, frozenset())
            groups.setdefault(key, []).append(i)
        found: dict[int, AbstractValues] = {}
        for (orders, tops), members in groups.items():
            joined = tuple(
                jnp.concatenate(each) for each in zip(*(coordinates[i] for i in members))
            )
            made = self.derivatives(joined, orders, tops)
            lengths = [len(coordinates[i][0]) for i in members]
            split = {key: lax.split(values, lengths) for key, values in made.items()}
            for k, i in enumerate(members):
                own = {key: parts[k] for key, parts in split.items()}
                each = functools.partial(self.derivatives, coordinates[i], summed)
                found[i] = PointwiseSource(places[i], own, summed if tops else (), each)
        return [found[i] for i in range(len(places))]


def _along(none: Orders, axis: int, order: int) -> Orders:
    """A derivative along one axis."""
    return (*none[:axis], order, *none[axis + 1 :])


def along(function: Callable[[Coordinates], Array], axis: int) -> Callable[[Coordinates], Array]:
    """The derivative of a function of coordinates along one of them, each at its own point."""

    def derivative(at: Coordinates) -> Array:
        moved = lambda c: function((*at[:axis], c, *at[axis + 1 :]))  # noqa: E731
        return jax.jvp(moved, (at[axis],), (jnp.ones_like(at[axis]),))[1]

    return derivative


class PointwiseSource(AbstractValues):
    """Values added up from derivatives at each point.

    Where few combinations have all the derivatives of the highest order in them, like u_xx + u_yy,
    these are carried through the network as what they add up to.

    Arguments:
        place: where the values are.
        found: derivatives and operators.
        summed: the derivatives that are carried in operators only.
        each: gives these one by one.
    """

    def __init__(
        self,
        place: Place,
        found: Derivatives,
        summed: Collection[Orders],
        each: Callable[[], Derivatives],
    ):
        self.axes, self.shape = place.axes, place.shape
        self.dtype = next(iter(found.values())).dtype
        self._found, self._summed, self._one_by_one = found, summed, each

    def values(self, terms: Mapping[Key, Any]) -> Array:
        known = {key: c for key, c in terms.items() if key[1] not in self._summed}
        parts = [c * self._found[o][:, i] for (i, o), c in known.items()]
        for component in {i for i, _ in terms}:
            rest = {o: c for (i, o), c in terms.items() if i == component and o in self._summed}
            parts += self._operator(component, rest)
        return add_up(parts).reshape(self.shape)

    def _operator(self, component: int, terms: Mapping[Orders, Any]) -> list[Array]:
        """Terms of the highest order, where sums of them were carried."""
        whole = _as_operator(terms)
        if whole is not None and whole[0] in self._found:
            return [whole[1] * self._found[whole[0]][:, component]]
        return [c * self._each[o][:, component] for o, c in terms.items()]

    @functools.cached_property
    def _each(self) -> Derivatives:
        """Made where something else is wanted than was announced."""
        return self._one_by_one()


def _operators(
    orders: Set[Orders], asked: Iterable[Mapping[Key, Any]] | None
) -> tuple[frozenset[Orders], frozenset[SumOfDerivatives]]:
    """The derivatives of the highest order along one axis, and the sums of them that are asked for;
    neither where these are no fewer."""
    pure = {o for o in orders if sum(k > 0 for k in o) == 1}
    top = max((max(o) for o in pure), default=0)
    highest = frozenset(o for o in pure if max(o) == top)
    found, nothing = set[SumOfDerivatives](), (frozenset(), frozenset())
    for terms in asked or ():
        for component in {i for i, _ in terms}:
            some = {o: c for (i, o), c in terms.items() if i == component and o in highest}
            whole = _as_operator(some)
            if some and whole is None:  # a coefficient that is found in training, say
                return nothing
            if whole is not None:
                found.add(whole[0])
    return (highest, frozenset(found)) if top > 1 and 0 < len(found) < len(highest) else nothing


def _as_operator(terms: Mapping[Orders, Any]) -> tuple[SumOfDerivatives, float] | None:
    """Derivatives along single axes, of one order, as a multiple of a sum whose first weight is
    one; None if there are none, or not by plain numbers."""
    if any(not isinstance(c, float) for c in terms.values()):
        return None
    by_axis = sorted((o.index(max(o)), c) for o, c in terms.items() if c)
    if not by_axis:
        return None
    first = by_axis[0][1]
    weights = tuple((axis, c / first) for axis, c in by_axis)
    return SumOfDerivatives(max(next(iter(terms))), weights), first
