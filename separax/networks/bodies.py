"""What is between the encoded coordinates and the output: plain and modified multilayer perceptrons, from jets to jets or fans to fans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from .dense import dense
from .taylor import DirectionalTaylor, Parts, Taylor


class Layer(eqx.Module):
    weight: Float[Array, "*batch inputs outputs"]
    bias: Float[Array, "*batch outputs"]

    def __call__(self, jet: Taylor, fan: DirectionalTaylor) -> Taylor:
        return dense(jet, self.weight, self.bias, fan.axis)

    def parts(self, given: Taylor | Parts, fan: DirectionalTaylor) -> Parts:
        """The same row by row; of a row that is the same at all points, or zero, at no more expense than that."""
        if not isinstance(given, Parts):
            return fan.parts(self(given, fan))
        value = dense(given.value[None], self.weight, self.bias)[0]
        rows, structure = jax.tree.flatten((given.rays, given.sums))  # without those that are zero
        if rows:
            made = dense(jnp.concatenate(rows)[None], self.weight, jnp.zeros_like(self.bias))[0]
            rows = [
                jnp.broadcast_to(row, value.shape)
                for row in lax.split(made, [len(row) for row in rows])
            ]
        return Parts(value, *jax.tree.unflatten(structure, rows))


def glorot(
    key: PRNGKeyArray, batch: tuple[int, ...], inputs: int, outputs: int, dtype: Any
) -> Layer:
    """Glorot-normal weights and zero biases."""
    weight = jax.random.normal(key, (*batch, inputs, outputs), dtype) * math.sqrt(
        2 / (inputs + outputs)
    )
    return Layer(weight, jnp.zeros((*batch, outputs), dtype))


def first_layer(
    key: PRNGKeyArray,
    batch: tuple[int, ...],
    inputs: Sequence[int],
    outputs: int,
    steepness: float | None,
    dtype: Any,
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
    return Layer(
        jnp.stack(rows).reshape(*batch, widest, outputs), jnp.stack(biases).reshape(*batch, outputs)
    )


def matrices(model: Any) -> Any:
    """The same arrays, of which those that are no layer's weights are vectors: what is left are (stacks of) matrices."""

    def one(part: Any) -> Any:
        return (
            Layer(part.weight, jnp.ravel(part.bias)) if isinstance(part, Layer) else jnp.ravel(part)
        )

    return jax.tree.map(one, model, is_leaf=lambda part: isinstance(part, Layer))


class MLP(eqx.Module):
    """`depth` hidden layers, then a linear one."""

    hidden: tuple[Layer, ...]
    out: Layer
    activation: str = eqx.field(static=True)

    def features(self, given: Taylor | Parts, fan: DirectionalTaylor) -> Taylor:
        """What the last hidden layer gives: of these the output layer is a linear combination. `fan` says what the rows are."""
        for layer in self.hidden:
            given = fan.joined(fan.activate(self.activation, layer.parts(given, fan)))
        assert not isinstance(
            given, Parts
        )  # only a network without hidden layers would leave it so, and those are given jets
        return given

    def __call__(self, given: Taylor | Parts, fan: DirectionalTaylor) -> Taylor:
        return self.out(self.features(given, fan), fan)


class ModifiedMLP(eqx.Module):
    """Two gates U, V of the coordinate mixed into every hidden layer: h ← (1 - z) U + z V with z = act(dense(h)).

    U, V and the first h all see the coordinates, so they are one layer of three times the width (`first`).
    """

    first: Layer
    hidden: tuple[Layer, ...]
    out: Layer
    activation: str = eqx.field(static=True)

    def features(self, given: Taylor | Parts, fan: DirectionalTaylor) -> Taylor:
        """As for `MLP`."""
        first = self.first.parts(given, fan)
        gate, other, start = (fan.activate(self.activation, part) for part in thirds(first))
        step, h = jax.tree.map(jnp.subtract, other, gate), fan.joined(start)
        for layer in self.hidden:
            mixed = fan.multiply(fan.activate(self.activation, layer.parts(h, fan)), step)
            h = fan.joined(jax.tree.map(jnp.add, gate, mixed))
        return h

    def __call__(self, given: Taylor | Parts, fan: DirectionalTaylor) -> Taylor:
        return self.out(self.features(given, fan), fan)


def thirds(parts: Parts) -> list[Parts]:
    """Three layers that were one, apart again."""
    rows, structure = jax.tree.flatten(parts)
    return [
        jax.tree.unflatten(structure, some)
        for some in zip(*(jnp.split(row, 3, axis=-1) for row in rows))
    ]
