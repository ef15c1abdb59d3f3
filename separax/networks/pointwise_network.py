"""A built PINN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core import add_up, default_device
from .bodies import MLP, ModifiedMLP
from .encodings import Axis
from .known_part import Coordinates, KnownPart
from .taylor import DirectionalTaylor, Parts, Taylor, derivatives

Orders = tuple[int, ...]  # of a derivative, one per axis


class SumOfDerivatives(NamedTuple):
    """Σ weight · ∂^order along an axis, of a field: an operator of which the terms are not wanted."""

    order: int
    weights: tuple[tuple[int, float], ...]  # by the number of the axis


class PointwiseNetwork(eqx.Module):
    """A built PINN."""

    body: MLP | ModifiedMLP
    axes: tuple[Axis, ...]
    components: int = eqx.field(static=True)
    lift: KnownPart | None = eqx.field(
        static=True, default=None
    )  # what is known of the fields; not trained

    def rows(
        self, points: Coordinates, rays: Mapping[int, int], sums: Sequence[SumOfDerivatives] = ()
    ) -> Float[Array, "rows points components"]:
        """At scattered points, in one pass: the values, the derivatives along each of the axes in `rays` up to the order that stands there,
        and the sums, whose order comes next. Of what the weights make, without what is known."""
        weights = tuple(tuple(dict(one.weights).get(axis, 0.0) for axis in rays) for one in sums)
        fan = DirectionalTaylor(
            tuple(rays.values()), weights, axis=-3 if default_device().platform == "cpu" else -2
        )
        highest = {axis: order + fan.summed(i) for i, (axis, order) in enumerate(rays.items())}

        def each(part: Callable[[Axis, Array, int], Taylor]) -> list[Taylor]:
            return [
                part(axis, x, highest.get(i, 0))
                for i, (axis, x) in enumerate(zip(self.axes, points))
            ]

        parts = each(Axis.encode)

        def row(order: int, along: Mapping[int, float]) -> Array | None:
            """The coefficient of this order along some axes, each with its weight, and zeros for what the others make."""
            made = {
                i: w * parts[i][order]
                for i, w in along.items()
                if order == 1 or not self.axes[i].plain
            }
            if not made:
                return None
            if all(self.axes[i].plain for i in made):  # the same at every point
                made = {i: coefficient[:1] for i, coefficient in made.items()}
            one = next(iter(made.values()))
            return jnp.concatenate(
                [
                    made.get(i, jnp.zeros((len(one), axis.inputs), one.dtype))
                    for i, axis in enumerate(self.axes)
                ],
                -1,
            )

        value = jnp.concatenate([part[0] for part in parts], -1)
        own = [[row(k, {i: 1.0}) for k in range(1, order + 1)] for i, order in rays.items()]
        values = self.body(
            Parts(value, own, [row(one.order, dict(one.weights)) for one in sums]), fan
        )
        for axis, envelope in (
            enumerate(each(Axis.envelope)) if any(any(axis.walls) for axis in self.axes) else ()
        ):
            still = jnp.zeros_like(envelope[0])
            own = [
                [envelope[k] if i == axis else still for k in range(1, order + 1)]
                for i, order in rays.items()
            ]
            tops = [
                w * envelope[one.order] if (w := dict(one.weights).get(axis)) else still
                for one in sums
            ]
            values = fan.joined(fan.multiply(fan.parts(values), Parts(envelope[0], own, tops)))
        return derivatives(jnp.moveaxis(values, fan.axis, 0), fan.orders)

    def derivatives(
        self, points: Coordinates, needed: Iterable[Orders], sums: Iterable[SumOfDerivatives] = ()
    ) -> dict[Orders | SumOfDerivatives, Float[Array, "points components"]]:
        """Every partial derivative in `needed`, and the sums, whose order is higher than that of those along one axis alone."""
        needed, sums = set(needed), sorted(sums)
        pure = {o for o in needed if sum(k > 0 for k in o) <= 1}
        rays = {}
        for axis in range(len(self.axes)):
            under = [one.order - 1 for one in sums if axis in dict(one.weights)]
            if order := max([*(o[axis] for o in pure), *under], default=0):
                rays[axis] = order
        out: dict[Orders | SumOfDerivatives, Array] = {}
        if pure or sums:
            none = (0,) * len(self.axes)
            directions = [
                (*none[:i], k, *none[i + 1 :])
                for i, order in rays.items()
                for k in range(1, order + 1)
            ]
            rows = zip([none, *directions, *sums], self.rows(points, rays, sums))
            out = {
                key: row for key, row in rows if key in needed or isinstance(key, SumOfDerivatives)
            }
        for o in needed - pure:
            out[o] = self._mixed(points, o)
        return (
            out
            if self.lift is None
            else {key: own + self._known(points, key) for key, own in out.items()}
        )

    def _known(self, points: Coordinates, key: Orders | SumOfDerivatives) -> Array:
        """What the lift adds."""
        assert self.lift is not None
        if not isinstance(key, SumOfDerivatives):
            return self.lift.at_points(points, key)
        none = (0,) * len(self.axes)
        return add_up(
            w * self.lift.at_points(points, (*none[:i], key.order, *none[i + 1 :]))
            for i, w in key.weights
        )

    def _mixed(self, points: Coordinates, orders: Orders) -> Array:
        """A mixed derivative: a jet along the axis of the highest order, differentiated along the others."""
        main = orders.index(max(orders))

        def function(at: Coordinates, /) -> Array:
            return self.rows(at, {main: orders[main]})[-1]

        for axis, order in enumerate(orders):
            for _ in range(order if axis != main else 0):
                function = along(function, axis)
        return function(points)


def along(function: Callable[[Coordinates], Array], axis: int) -> Callable[[Coordinates], Array]:
    """The derivative of a function of coordinates along one of them, each at its own point."""

    def derivative(at: Coordinates) -> Array:
        moved = lambda c: function((*at[:axis], c, *at[axis + 1 :]))  # noqa: E731
        return jax.jvp(moved, (at[axis],), (jnp.ones_like(at[axis]),))[1]

    return derivative
