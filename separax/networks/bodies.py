"""Bodies: what is between the encoded coordinates and the outputs of a network."""

from __future__ import annotations

import abc
import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from ..core import InputError, in_tf32, shown
from .layers import AbstractActivation, dense
from .taylor import DirectionalTaylor, Rows, derived

if TYPE_CHECKING:
    from .architectures import AbstractArchitecture

Make = Callable[[PRNGKeyArray, int, int], Callable[[Array], Array]]


class AbstractBody(eqx.Module):
    """A function of a point, (inputs,) → (outputs,), between encoded coordinates and outputs.

    Any module is one: `sx.SPINN(body=make)`, where `make(key, inputs, outputs)` returns it. A
    module of this class may carry derivatives in a way of its own.
    """

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The outputs at one point."""

    def taylor(self, x: DirectionalTaylor) -> DirectionalTaylor:
        """The outputs with their derivatives at many points, by default derived.

        Arguments:
            x: the inputs, with theirs.
        """
        return derived(self, x)


class Layer(eqx.Module):
    """x ↦ x W + b."""

    weight: Float[Array, "*batch inputs outputs"]
    bias: Float[Array, "*batch outputs"]

    def __call__(self, x: DirectionalTaylor) -> DirectionalTaylor:
        """The layer of a function. A row that is the same at all points is worked on once, and one
        of zeros not at all."""
        layout = x.layout
        if x.is_full:
            array = dense(x.array, self.weight, self.bias, layout.axis)
            return DirectionalTaylor(layout, array=array)
        value = dense(x.rows.value[None], self.weight, self.bias)[0]
        rows, structure = jax.tree.flatten(tuple(x.rows[1:]))
        if rows:
            made = dense(jnp.concatenate(rows)[None], self.weight, jnp.zeros_like(self.bias))[0]
            each = lax.split(made, [len(row) for row in rows])
            rows = [jnp.broadcast_to(row, value.shape) for row in each]
        return DirectionalTaylor(layout, Rows(value, *jax.tree.unflatten(structure, rows)))


class AbstractLayers(AbstractBody):
    """A body that ends with a linear layer: its outputs are combinations of features, which
    `sx.Solve` can solve for. The weights of all axes of a separable network are stacked."""

    if TYPE_CHECKING:  # no fields here: they would be the first of every body

        @property
        def out(self) -> Layer: ...

        @property
        def activation(self) -> AbstractActivation: ...

    @abc.abstractmethod
    def features(self, x: DirectionalTaylor) -> DirectionalTaylor:
        """What the last hidden layer gives."""

    @property
    def has_hidden_layers(self) -> bool:
        """Whether the features are more than the encoded coordinates."""
        return True

    def taylor(self, x: DirectionalTaylor) -> DirectionalTaylor:
        return self.out(self.features(x))

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return self.taylor(DirectionalTaylor.of(x[..., None, None, :])).array[..., 0, 0, :]


class MLP(AbstractLayers):
    """Hidden layers one after the other, then a linear one."""

    hidden: tuple[Layer, ...]
    out: Layer
    activation: AbstractActivation = eqx.field(static=True)

    @property
    def has_hidden_layers(self) -> bool:
        return bool(self.hidden)

    def features(self, x: DirectionalTaylor) -> DirectionalTaylor:
        for layer in self.hidden:
            x = layer(x).activate(self.activation)
        return x


class ModifiedMLP(AbstractLayers):
    """Two gates U, V of the coordinate mixed into every hidden layer: h ← (1 - z) U + z V with
    z = σ(W h + b). U, V and the first h all see the coordinates, so they are one layer of three
    times the width (`first`)."""

    first: Layer
    hidden: tuple[Layer, ...]
    out: Layer
    activation: AbstractActivation = eqx.field(static=True)

    def features(self, x: DirectionalTaylor) -> DirectionalTaylor:
        gate, other, h = (part.activate(self.activation) for part in self.first(x).split(3))
        step = other - gate
        for layer in self.hidden:
            h = gate + layer(h).activate(self.activation) * step
        return h


BODIES = {"modified": ModifiedMLP, "mlp": MLP}


# --- with weights -------------------------------------------------------------------------------


def build_layers(
    architecture: AbstractArchitecture,
    key: PRNGKeyArray,
    batch: tuple[int, ...],
    inputs: Sequence[int],
    outputs: int,
    dtype: Any,
) -> AbstractLayers:
    """One of our bodies.

    Arguments:
        architecture: says which, and how large.
        key: of the random weights.
        batch: (axes,) for a stack of bodies, () for one.
        inputs: of every body of the stack.
        outputs: of all of them.
        dtype: of the weights.
    """
    depth, width, activation = architecture.depth, architecture.width, architecture.activation
    if depth == 0:
        return MLP((), first_layer(key, batch, inputs, outputs, None, dtype), activation)
    k_first, k_out, *k_hidden = jax.random.split(key, depth + 1)
    hidden = tuple(glorot(k, batch, width, width, dtype) for k in k_hidden)
    out = glorot(k_out, batch, width, outputs, dtype)

    def first(key: PRNGKeyArray) -> Layer:
        return first_layer(key, batch, inputs, width, architecture.steepness, dtype)

    if architecture.body is MLP:
        return MLP((first(k_first), *hidden), out, activation)
    three = [first(k) for k in jax.random.split(k_first, 3)]
    joined = jax.tree.map(lambda *parts: jnp.concatenate(parts, -1), *three)
    return ModifiedMLP(joined, hidden, out, activation)


def glorot(
    key: PRNGKeyArray, batch: tuple[int, ...], inputs: int, outputs: int, dtype: Any
) -> Layer:
    """Glorot-normal weights and zero biases."""
    scale = math.sqrt(2 / (inputs + outputs))
    weight = jax.random.normal(key, (*batch, inputs, outputs), dtype) * scale
    return Layer(weight, jnp.zeros((*batch, outputs), dtype))


def first_layer(
    key: PRNGKeyArray,
    batch: tuple[int, ...],
    inputs: Sequence[int],
    outputs: int,
    steepness: float | None,
    dtype: Any,
) -> Layer:
    """The layer that sees the coordinates. Axes with fewer inputs than the widest are padded with
    zero weights, which stay zero (their inputs are), so that all axes can go through one batched
    product."""
    widest = max(inputs)
    keys = jax.random.split(key, 2 * len(inputs)).reshape(len(inputs), 2)
    rows, biases = [], []
    for (k_weight, k_bias), n in zip(keys, inputs):
        scale = math.sqrt(2 / (n + outputs)) if steepness is None else steepness / math.sqrt(n)
        weight = jax.random.normal(k_weight, (n, outputs), dtype) * scale
        rows.append(jnp.pad(weight, ((0, widest - n), (0, 0))))
        spread = 0.0 if steepness is None else steepness
        biases.append(jax.random.uniform(k_bias, (outputs,), dtype, -1, 1) * spread)
    weight, bias = jnp.stack(rows), jnp.stack(biases)
    return Layer(weight.reshape(*batch, widest, outputs), bias.reshape(*batch, outputs))


# --- a user's own -------------------------------------------------------------------------------


class Settings:
    """What a module has besides its trained arrays, as one value that can be hashed. NumPy arrays
    are compared by their numbers."""

    def __init__(self, tree: Any):
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree)
        self._key = (
            structure,
            *(
                (leaf.shape, str(leaf.dtype), leaf.tobytes())
                if isinstance(leaf, np.ndarray)
                else leaf
                for leaf in leaves
            ),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class OwnBody(AbstractBody):
    """A module of the user's own; in a separable network one for each axis, their arrays stacked.

    Arguments:
        weights: the module without all that is not trained.
        settings: the module without its weights.
        stacked: whether there is one for each axis.
    """

    weights: Any
    settings: Settings = eqx.field(static=True)
    stacked: bool = eqx.field(static=True)

    @classmethod
    def build(
        cls, make: Make, key: PRNGKeyArray, axes: int | None, inputs: int, outputs: int, dtype: Any
    ) -> OwnBody:
        """Modules with weights.

        Arguments:
            make: from a key, a number of inputs and one of outputs to a module.
            key: of the random weights.
            axes: the number of modules; None: one that is not stacked.
            inputs, outputs: of each.
            dtype: of the weights.
        """
        found = []

        def weights(key: PRNGKeyArray) -> Any:
            module = make(key, inputs, outputs)
            arrays, rest = eqx.partition(module, lambda leaf: isinstance(leaf, jax.Array))
            each = jax.tree.leaves(arrays)
            if not each or not all(map(eqx.is_inexact_array, each)):
                raise InputError(
                    f"body: {shown(make)} returns {shown(module)}: return a module with arrays of"
                    " floating-point numbers, which are trained; constants are arrays of NumPy"
                )
            found.append(Settings(rest))
            return jax.tree.map(lambda a: a.astype(dtype), arrays)

        made = weights(key) if axes is None else jax.vmap(weights)(jax.random.split(key, axes))
        return cls(made, found[0], axes is not None)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        module = eqx.combine(self.weights, self.settings.tree)
        return module(x).astype(x.dtype)

    def taylor(self, x: DirectionalTaylor) -> DirectionalTaylor:
        def one(weights: Any, array: Array) -> Array:
            body = OwnBody(weights, self.settings, False)
            module = eqx.combine(weights, self.settings.tree)
            given = DirectionalTaylor(x.layout, array=array)
            own = module.taylor(given) if isinstance(module, AbstractBody) else derived(body, given)
            return own.array

        exact = contextlib.nullcontext() if in_tf32() else jax.default_matmul_precision("highest")
        with exact:
            array = (jax.vmap(one) if self.stacked else one)(self.weights, x.array)
        return DirectionalTaylor(x.layout, array=array)
