"""What is between the encoded coordinates and the output: plain and modified multilayer perceptrons, from jets to jets or fans to fans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .. import jets
from ..fans import Fan
from ..jets import Jet


class Layer(eqx.Module):
    weight: Float[Array, "*batch inputs outputs"]
    bias: Float[Array, "*batch outputs"]

    def __call__(self, jet: Jet, fan: Fan) -> Jet:
        return jets.dense(jet, self.weight, self.bias, fan.axis)


def glorot(key: PRNGKeyArray, batch: tuple[int, ...], inputs: int, outputs: int, dtype: Any) -> Layer:
    """Glorot-normal weights and zero biases."""
    weight = jax.random.normal(key, (*batch, inputs, outputs), dtype) * math.sqrt(2 / (inputs + outputs))
    return Layer(weight, jnp.zeros((*batch, outputs), dtype))


def first_layer(
    key: PRNGKeyArray, batch: tuple[int, ...], inputs: Sequence[int], outputs: int, steepness: float | None, dtype: Any
) -> Layer:
    """The layer that sees the coordinates. Axes with fewer inputs than the widest are padded with zero weights, which
    stay zero (their inputs are), so that all axes can go through one batched product."""
    widest = max(inputs)
    keys = jax.random.split(key, 2 * len(inputs)).reshape(len(inputs), 2)
    rows, biases = [], []
    for (k_weight, k_bias), n in zip(keys, inputs):
        scale = math.sqrt(2 / (n + outputs)) if steepness is None else steepness / math.sqrt(n)
        weight = jax.random.normal(k_weight, (n, outputs), dtype) * scale
        rows.append(jnp.pad(weight, ((0, widest - n), (0, 0))))
        spread = 0.0 if steepness is None else steepness
        biases.append(jax.random.uniform(k_bias, (outputs,), dtype, -1, 1) * spread)
    return Layer(jnp.stack(rows).reshape(*batch, widest, outputs), jnp.stack(biases).reshape(*batch, outputs))


def matrices(model: Any) -> Any:
    """The same arrays, of which those that are no layer's weights are vectors: what is left are (stacks of) matrices."""

    def one(part: Any) -> Any:
        return Layer(part.weight, jnp.ravel(part.bias)) if isinstance(part, Layer) else jnp.ravel(part)

    return jax.tree.map(one, model, is_leaf=lambda part: isinstance(part, Layer))


class MLP(eqx.Module):
    """`depth` hidden layers, then a linear one."""

    hidden: tuple[Layer, ...]
    out: Layer
    activation: str = eqx.field(static=True)

    def features(self, jet: Jet, fan: Fan | None = None) -> Jet:
        """What the last hidden layer gives: of these the output layer is a linear combination. `fan` says what the rows of `jet` are, if it
        is no single one."""
        fan = fan or Fan.of(jet)
        for layer in self.hidden:
            jet = fan.activate(self.activation, layer(jet, fan))
        return jet

    def __call__(self, jet: Jet, fan: Fan | None = None) -> Jet:
        fan = fan or Fan.of(jet)
        return self.out(self.features(jet, fan), fan)


class ModifiedMLP(eqx.Module):
    """Two gates U, V of the coordinate mixed into every hidden layer: h ← (1 - z) U + z V with z = act(dense(h)).

    U, V and the first h all see the coordinates, so they are one layer of three times the width (`first`).
    """

    first: Layer
    hidden: tuple[Layer, ...]
    out: Layer
    activation: str = eqx.field(static=True)

    def features(self, jet: Jet, fan: Fan | None = None) -> Jet:
        """As for `MLP`."""
        fan = fan or Fan.of(jet)
        gate, other, h = jnp.split(fan.activate(self.activation, self.first(jet, fan)), 3, axis=-1)
        step = other - gate
        for layer in self.hidden:
            h = gate + fan.multiply(fan.activate(self.activation, layer(h, fan)), step)
        return h

    def __call__(self, jet: Jet, fan: Fan | None = None) -> Jet:
        fan = fan or Fan.of(jet)
        return self.out(self.features(jet, fan), fan)
