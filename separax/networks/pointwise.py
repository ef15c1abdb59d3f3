"""A built PINN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import jets
from ..jets import Jet
from ..lifts import Coordinates, Lift
from .axis import Axis
from .bodies import MLP, ModifiedMLP


class PointwiseNetwork(eqx.Module):
    """A built PINN."""

    body: MLP | ModifiedMLP
    axes: tuple[Axis, ...]
    components: int = eqx.field(static=True)
    lift: Lift | None = eqx.field(static=True, default=None)  # what is known of the fields; not trained

    def jets(self, points: Coordinates, along: Sequence[int], order: int) -> Float[Array, "along orders points components"]:
        """Values and derivatives up to `order` along each of the axes `along`, at scattered points, in one pass: of what the weights
        make, without what is known."""

        def direction(chosen: int, part: Callable[[Axis, Array, int], Jet]) -> list[Jet]:
            each = []
            for i, (axis, x) in enumerate(zip(self.axes, points)):
                each.append(part(axis, x, order) if i == chosen else jets.constant(part(axis, x, 0)[0], order))
            return each

        encoded = jnp.stack([jnp.concatenate(direction(i, Axis.encode), -1) for i in along])
        values = self.body(encoded)
        if any(wall for axis in self.axes for wall in axis.walls):
            for envelope in zip(*(direction(i, Axis.envelope) for i in along)):
                values = jets.multiply(values, jnp.stack(envelope))
        return jets.derivatives(values)

    def derivatives(
        self, points: Coordinates, needed: Iterable[tuple[int, ...]]
    ) -> dict[tuple[int, ...], Float[Array, "points components"]]:
        """Every partial derivative in `needed` (a tuple of orders, one per axis)."""
        needed = set(needed)
        pure = {o for o in needed if sum(k > 0 for k in o) <= 1}
        along = sorted({o.index(max(o)) for o in pure if any(o)}) or [0]
        order = max((max(o) for o in pure), default=0)
        out = {}
        if pure:
            passed = self.jets(points, along, order)
            for o in pure:
                axis = o.index(max(o)) if any(o) else along[0]
                out[o] = passed[along.index(axis), max(o)]
        for o in needed - pure:
            out[o] = self._mixed(points, o)
        return out if self.lift is None else {o: own + self.lift.at_points(points, o) for o, own in out.items()}

    def _mixed(self, points: Coordinates, orders: tuple[int, ...]) -> Array:
        """A mixed derivative: a jet along the axis of the highest order, differentiated along the others."""
        main = orders.index(max(orders))

        def function(at: Coordinates, /) -> Array:
            return self.jets(at, [main], orders[main])[0, -1]

        for axis, order in enumerate(orders):
            for _ in range(order if axis != main else 0):
                function = _along(function, axis)
        return function(points)


def _along(function: Callable[[Coordinates], Array], axis: int) -> Callable[[Coordinates], Array]:
    def derivative(at: Coordinates) -> Array:
        moved = lambda c: function((*at[:axis], c, *at[axis + 1 :]))  # noqa: E731
        return jax.jvp(moved, (at[axis],), (jnp.ones_like(at[axis]),))[1]

    return derivative
