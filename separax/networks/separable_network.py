"""A built SPINN."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import InputError
from ..separable import Format
from .bodies import MLP, ModifiedMLP
from .encodings import Axis
from .known_part import Coordinates, KnownPart
from .taylor import DirectionalTaylor, Taylor, derivatives, multiply


def filled(coordinates: Coordinates) -> list[Array]:
    """Axes with fewer points filled up to the longest, so that one batched pass serves them all."""
    longest = max(len(c) for c in coordinates)
    return [jnp.pad(c, (0, longest - len(c)), mode="edge") for c in coordinates]


class SeparableNetwork(eqx.Module):
    """A built SPINN. The weights of all axes are stacked, so that one batched pass serves them all."""

    body: MLP | ModifiedMLP
    axes: tuple[Axis, ...]
    components: int = eqx.field(static=True)
    merge: Format = eqx.field(static=True)
    core: Float[Array, "components ..."] | None
    lift: KnownPart | None = eqx.field(
        static=True, default=None
    )  # what is known of the fields; not trained

    @property
    def rank(self) -> int:
        """Products in the plain sum that this is."""
        return self.merge.rank + (0 if self.lift is None else self.lift.rank)

    def jets(
        self, coordinates: Coordinates, order: int
    ) -> tuple[Float[Array, "components orders points rank"], ...]:
        """Per axis: every component's factors and their derivatives up to `order`. However the axes meet, these are the factors of a
        plain sum of products; those of what is known come last."""
        own = self.trained(coordinates, order)
        if self.lift is None:
            return own
        return tuple(
            jnp.concatenate(both, -1) for both in zip(own, self.lift.jets(coordinates, order))
        )

    def trained(
        self, coordinates: Coordinates, order: int
    ) -> tuple[Float[Array, "components orders points rank"], ...]:
        """`jets` of what the weights make."""
        return self.merge.columns(self.unmerged(coordinates, order), self.core)

    def unmerged(
        self, coordinates: Coordinates, order: int
    ) -> tuple[Float[Array, "components orders points columns"], ...]:
        """Per axis the columns that the merge joins, with their derivatives, from one pass over N·d coordinates.

        Axes may have different numbers of points: the shorter ones are filled up for the pass and cut afterwards.
        """
        full = filled(coordinates)
        encoded = self._encoded(full, order)
        features = self.body(
            encoded, DirectionalTaylor.of(encoded)
        )  # (axes, orders, points, components * widest)
        widest = max(self.merge.ranks)
        if any(wall for axis in self.axes for wall in axis.walls):
            envelopes = jnp.stack([axis.envelope(x, order) for axis, x in zip(self.axes, full)])
            features = multiply(features, jnp.repeat(envelopes, widest, axis=-1))
        features = derivatives(features).reshape(*features.shape[:-1], self.components, widest)
        each = zip(features, coordinates, self.merge.ranks)
        return tuple(jnp.moveaxis(f[:, : len(c), :, :rank], -2, 0) for f, c, rank in each)

    def _encoded(self, coordinates: Sequence[Array], order: int) -> Taylor:
        widest = max(axis.inputs for axis in self.axes)
        encoded = [axis.encode(x, order) for axis, x in zip(self.axes, coordinates)]
        return jnp.stack([jnp.pad(e, ((0, 0), (0, 0), (0, widest - e.shape[-1]))) for e in encoded])

    @property
    def _neural(self) -> bool:
        """Whether there are hidden layers."""
        return not isinstance(self.body, MLP) or bool(self.body.hidden)

    def features(
        self, coordinates: Coordinates, order: int
    ) -> tuple[Float[Array, "components orders points features"], ...]:
        """Per axis: the functions that the factors of a component are linear combinations of, with their derivatives. After hidden
        layers the last one belongs to the bias; polynomials have a constant already. Components differ where the walls do."""
        full = filled(coordinates)
        encoded = self._encoded(full, order)
        inner = self.body.features(encoded, DirectionalTaylor.of(encoded))
        if self._neural:
            one = jnp.zeros((*inner.shape[:-1], 1), inner.dtype).at[:, 0].set(1.0)
            inner = jnp.concatenate([inner, one], -1)
        found = []
        for axis, x, jet, c in zip(self.axes, full, inner, coordinates):
            walls = axis.envelope(x, order)  # (orders, points, components)
            own = jet if self._neural else jet[..., : axis.inputs]
            each = [
                derivatives(multiply(own, walls[..., i : i + 1])) for i in range(self.components)
            ]
            found.append(jnp.stack(each)[:, :, : len(c)])
        return tuple(found)

    @property
    def coefficients(self) -> tuple[Float[Array, "components features columns"], ...]:
        """Of the features, per axis: the weights and the bias of the output layer."""
        out, found = self.body.out, []
        for i, (axis, rank) in enumerate(zip(self.axes, self.merge.ranks)):
            own = (
                jnp.concatenate([out.weight[i], out.bias[i][None]])
                if self._neural
                else out.weight[i, : axis.inputs]
            )
            found.append(jnp.moveaxis(own.reshape(len(own), self.components, -1)[..., :rank], 1, 0))
        return tuple(found)

    def with_coefficients(
        self,
        coefficients: Sequence[Float[Array, "components features columns"]],
        core: Array | None = None,
    ) -> SeparableNetwork:
        """The same with other output layers, and another core if one is given."""
        weight, bias = self.body.out.weight, self.body.out.bias
        weights, biases = [], []
        for i, own in enumerate(coefficients):
            wide = jnp.pad(
                own, ((0, 0), (0, 0), (0, weight.shape[-1] // self.components - own.shape[-1]))
            )
            wide = jnp.moveaxis(wide, 0, 1).reshape(own.shape[1], -1)
            rows = len(wide) - self._neural
            weights.append(jnp.pad(wide[:rows], ((0, weight.shape[1] - rows), (0, 0))))
            biases.append(wide[-1] if self._neural else jnp.zeros_like(bias[i]))
        network = eqx.tree_at(
            lambda n: (n.body.out.weight, n.body.out.bias),
            self,
            (jnp.stack(weights), jnp.stack(biases)),
        )
        return network if core is None else eqx.tree_at(lambda n: n.core, network, core)

    def with_first_functions(self) -> SeparableNetwork:
        """The factors of every axis are its first functions, from slow to fast: where a solve of the core can begin."""
        made = []
        for axis, own in zip(self.axes, self.coefficients):
            k = np.arange(1, axis.frequencies + 1)
            order = (
                np.r_[0, np.stack([k, k + axis.frequencies], 1).ravel()]
                if axis.frequencies
                else np.arange(axis.inputs)
            )
            if own.shape[-1] > axis.inputs:
                raise InputError(
                    f"SPINN: rank {own.shape[-1]} of an axis with {axis.inputs} functions: give it at most as many as it has functions"
                )
            first = np.zeros(own.shape[1:])
            first[order[: own.shape[-1]], np.arange(own.shape[-1])] = 1.0
            made.append(jnp.broadcast_to(jnp.asarray(first, own.dtype), own.shape))
        return self.with_coefficients(made)
