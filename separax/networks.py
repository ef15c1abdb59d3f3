"""The two kinds of network: `SPINN`, one small network per axis, and `PINN`, one network of all coordinates.

Each is a frozen description (`SPINN(rank=32, width=64)`) that `build` turns into an Equinox module with weights, for
a given box. Both share their bodies (MLP and modified MLP), which take jets to jets, so that a single pass yields the
value and all derivatives along an axis.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from . import jets, merges
from .domain import Box, places_by_axis
from .errors import InputError, finite, one_of, whole
from .jets import Jet
from .lifts import Coordinates, Lift
from .merges import Merge

ROOT = "√"  # after the sides of a wall: a field leaves it like the root of the distance


class Axis(eqx.Module):
    """How one coordinate enters a network: raw, scaled to [-1, 1], as Fourier features of the axis' length, or as polynomials."""

    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)
    scaled: bool = eqx.field(static=True)
    frequencies: int = eqx.field(static=True)  # 0: not periodic
    walls: tuple[str, ...] = eqx.field(
        static=True
    )  # per component: the sides on which it is zero, "", "-", "+", "-+", "-+√"; "--": its slope, too
    functions: int = eqx.field(static=True, default=0)  # Chebyshev polynomials instead of the coordinate; 0: none
    rank: int = eqx.field(static=True, default=0)  # columns of this axis alone; 0: as many as the network says
    breaks: tuple[float, ...] = eqx.field(static=True, default=())  # where the polynomials may have a kink

    @property
    def inputs(self) -> int:
        if self.breaks:
            return 1 + (1 + len(self.breaks)) * (self.functions - 1)
        return self.functions or 1 + 2 * self.frequencies

    def _unit(self, x: Array) -> tuple[Array, float]:
        slope = 2 / (self.upper - self.lower)
        return (x - (self.lower + self.upper) / 2) * slope, slope

    def encode(self, x: Float[Array, " points"], order: int) -> Jet:
        if self.frequencies:
            return jets.fourier(x, self.upper - self.lower, self.frequencies, order)
        if self.functions and self.breaks:
            one = jets.constant(jnp.ones((len(x), 1), x.dtype), order)
            edges = itertools.pairwise((self.lower, *self.breaks, math.nextafter(self.upper, math.inf)))
            return jnp.concatenate([one, *(jets.piece(x, low, high, self.functions, order) for low, high in edges)], -1)
        if self.functions:
            unit, slope = self._unit(x)
            return jets.chebyshev(unit, self.functions, order) * _powers(slope, order, x.dtype)
        if not self.scaled:
            return jets.polynomial(x, (0.0, 1.0), order)
        return _in_unit(*self._unit(x), (0.0, 1.0), order)

    def envelope(self, x: Float[Array, " points"], order: int) -> Jet:
        """Per component, a function of this axis that is zero on its walls and of size one between.

        It is built from the differences to the bounds, which are exactly zero there whatever the rounding elsewhere.
        """
        below, above = x - jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype) - x
        length = self.upper - self.lower
        rising = jets.polynomial(below / length, (0.0, 1.0), order) * _powers(1 / length, order, x.dtype)
        falling = jets.polynomial(above / length, (0.0, 1.0), order) * _powers(-1 / length, order, x.dtype)
        one = jets.constant(jnp.ones((len(x), 1), x.dtype), order)

        def shape(wall: str) -> Jet:
            a, b = wall.count("-"), wall.count("+")
            if not a + b:
                return one
            product = functools.reduce(jets.multiply, [rising] * a + [falling] * b)
            largest = a**a * b**b / (a + b) ** (a + b)
            product = product if largest == 1 else product / largest
            return jets.root(product) if ROOT in wall else product

        shapes = {wall: shape(wall) for wall in dict.fromkeys(self.walls)}
        return jnp.concatenate([shapes[wall] for wall in self.walls], axis=-1)


def _in_unit(unit: Array, slope: float, coefficients: Sequence[float], order: int) -> Jet:
    """A polynomial of the scaled coordinate, its derivatives taken along the unscaled one."""
    return jets.polynomial(unit, coefficients, order) * _powers(slope, order, unit.dtype)


def _powers(slope: float, order: int, dtype: Any) -> Array:
    return jnp.asarray(slope ** np.arange(order + 1), dtype)[:, None, None]


class Layer(eqx.Module):
    weight: Float[Array, "*batch inputs outputs"]
    bias: Float[Array, "*batch outputs"]

    def __call__(self, jet: Jet) -> Jet:
        return jets.dense(jet, self.weight, self.bias)


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

    def features(self, jet: Jet) -> Jet:
        """What the last hidden layer gives: of these the output layer is a linear combination."""
        act = jets.ACTIVATIONS[self.activation]
        for layer in self.hidden:
            jet = act(layer(jet))
        return jet

    def __call__(self, jet: Jet) -> Jet:
        return self.out(self.features(jet))


class ModifiedMLP(eqx.Module):
    """Two gates U, V of the coordinate mixed into every hidden layer: h ← (1 - z) U + z V with z = act(dense(h)).

    U, V and the first h all see the coordinates, so they are one layer of three times the width (`first`).
    """

    first: Layer
    hidden: tuple[Layer, ...]
    out: Layer
    activation: str = eqx.field(static=True)

    def features(self, jet: Jet) -> Jet:
        """As for `MLP`."""
        act = jets.ACTIVATIONS[self.activation]
        gate, other, h = jnp.split(act(self.first(jet)), 3, axis=-1)
        step = other - gate
        for layer in self.hidden:
            h = gate + jets.multiply(act(layer(h)), step)
        return h

    def __call__(self, jet: Jet) -> Jet:
        return self.out(self.features(jet))


def _whole(value: Any) -> Any:
    """8.0 as 8; what is no whole number is left for `__check_init__` to refuse by its name."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _functions(given: Any) -> tuple[tuple[str | None, int], ...]:
    """Numbers of polynomials by axis, None standing for all, as something that can be compared: 24 → ((None, 24),)."""
    each = dict(given) if isinstance(given, (Mapping, list, tuple)) else {None: given}
    return tuple((axis, whole(f"SPINN: functions{'' if axis is None else f'[{axis!r}]'}", n)) for axis, n in each.items())


def _breaks(given: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return places_by_axis("SPINN", given)


def _rank(given: Any) -> Any:
    """A number; or numbers by axis (Tucker) or in order (train), as something that can be compared."""
    if isinstance(given, Mapping):
        return tuple((axis, whole(f"SPINN: rank[{axis!r}]", n)) for axis, n in given.items())
    if isinstance(given, (list, tuple)) and all(isinstance(each, (list, tuple)) for each in given):
        return tuple((axis, whole(f"SPINN: rank[{axis!r}]", n)) for axis, n in given)
    if isinstance(given, (list, tuple)):
        return tuple(whole("SPINN: rank", n) for n in given)
    return _whole(given)


class _Architecture(eqx.Module):
    """What SPINN and PINN share: the body and how coordinates enter it."""

    width: int = eqx.field(static=True, default=64, converter=_whole)
    depth: int = eqx.field(static=True, default=4, converter=_whole)
    body: Literal["modified", "mlp"] = eqx.field(static=True, default="modified")
    activation: Literal["tanh", "sin"] = eqx.field(static=True, default="tanh")
    scaled: bool = eqx.field(static=True, default=True)
    steepness: float | None = eqx.field(static=True, default=None)
    frequencies: int = eqx.field(static=True, default=5, converter=_whole)

    def __check_init__(self):
        name = type(self).__name__
        for argument in ("width", "frequencies"):
            whole(f"{name}: {argument}", getattr(self, argument))
        whole(f"{name}: depth", self.depth, 0 if getattr(self, "functions", ()) else 1)
        one_of(f"{name}: body", self.body, ("modified", "mlp"))
        one_of(f"{name}: activation", self.activation, jets.ACTIVATIONS)
        if self.steepness is not None:
            finite(f"{name}: steepness", self.steepness, positive=True)

    def build(
        self,
        key: PRNGKeyArray,
        box: Box,
        components: int = 1,
        periodic: Iterable[str] = (),
        walls: Sequence[Sequence[str]] | None = None,
        dtype: Any = jnp.float32,
        lift: Lift | None = None,
    ) -> Any:
        """The network with weights, for a box; added to `lift`, if there is one."""
        axes = self._axes(box, periodic, walls or [[""] * components] * box.dimension)
        return dataclasses.replace(self._network(key, axes, components, dtype), lift=lift)

    def _network(self, key: PRNGKeyArray, axes: tuple[Axis, ...], components: int, dtype: Any) -> Any:
        raise NotImplementedError

    def _axes(self, box: Box, periodic: Iterable[str], walls: Sequence[Sequence[str]]) -> tuple[Axis, ...]:
        periodic = set(periodic)
        return tuple(
            Axis(*box[a], self.scaled, self.frequencies if a in periodic else 0, tuple(w)) for a, w in zip(box.axes, walls)
        )

    def _body(
        self, key: PRNGKeyArray, batch: tuple[int, ...], inputs: Sequence[int], outputs: int, dtype: Any
    ) -> MLP | ModifiedMLP:
        if self.depth == 0:
            return MLP((), first_layer(key, batch, inputs, outputs, None, dtype), self.activation)
        k_first, k_out, *k_hidden = jax.random.split(key, self.depth + 1)
        hidden = tuple(glorot(k, batch, self.width, self.width, dtype) for k in k_hidden)
        out = glorot(k_out, batch, self.width, outputs, dtype)
        if self.body == "mlp":
            first = first_layer(k_first, batch, inputs, self.width, self.steepness, dtype)
            return MLP((first, *hidden), out, self.activation)
        three = [first_layer(k, batch, inputs, self.width, self.steepness, dtype) for k in jax.random.split(k_first, 3)]
        first = Layer(*(jnp.concatenate([getattr(layer, part) for layer in three], -1) for part in ("weight", "bias")))
        return ModifiedMLP(first, hidden, out, self.activation)


class SPINN(_Architecture):
    """A separable network: one body per axis, u = Σ_j Π_i f_ij(x_i).

    Arguments: `rank` the number of products per field; `width` and `depth` of the hidden layers; `body` "modified" or
    "mlp"; `activation` "tanh" or "sin"; `scaled` inputs in [-1, 1] (False: raw coordinates, as the paper has them);
    `steepness` of the first layer's features over an axis (None: Glorot, as the paper has it); `frequencies` of the
    encoding of periodic axes; `functions` Chebyshev polynomials instead of the coordinate of every other axis, a number or a
    dict by axis. With functions, `depth=0` leaves the hidden layers out: a sum of products of polynomials, for `Solve`.

    `merge` is how the axes meet: "cp", that sum of products; "tucker", where every axis has a rank of its own
    (`rank={"t": 6, "x": 20, "y": 20}`, or one number) and a dense core joins them, u = Σ_abc G_abc f_a(t) g_b(x) h_c(y); "train",
    where neighbours share an index (`rank=12`, or `rank=[8, 12]` from the first axis on).

    `breaks={"x": 0.5}` lets the polynomials have a kink there: as many on either side, joined continuously. For layers of different
    materials, and for corners.
    """

    rank: Any = eqx.field(static=True, default=32, converter=_rank)
    functions: Any = eqx.field(static=True, default=(), converter=_functions)
    merge: Literal["cp", "tucker", "train"] = eqx.field(static=True, default="cp")
    breaks: Any = eqx.field(static=True, default=(), converter=_breaks)

    def __check_init__(self):
        one_of("SPINN: merge", self.merge, merges.KINDS)
        if self.breaks and not self.functions:
            raise InputError("SPINN: breaks are places where polynomials may have a kink: give functions, too")
        if isinstance(self.rank, tuple):
            by_axis = bool(self.rank) and isinstance(self.rank[0], tuple)
            if self.merge == "cp" or by_axis != (self.merge == "tucker"):
                fits = {
                    "cp": "one number, rank=32",
                    "tucker": 'a number or a dict by axis, rank={"x": 20, "y": 20}',
                    "train": "a number or a list from the first axis on, rank=[8, 12]",
                }
                raise InputError(f"SPINN: rank of merge={self.merge!r} is {fits[self.merge]}; got {self.rank!r}")
        else:
            whole("SPINN: rank", self.rank)

    def _axes(self, box: Box, periodic: Iterable[str], walls: Sequence[Sequence[str]]) -> tuple[Axis, ...]:
        numbers = dict(self.functions)
        ranks = dict(self.rank) if self.merge == "tucker" and isinstance(self.rank, tuple) else {}
        breaks = dict(self.breaks)
        for argument, given in (("functions", numbers), ("rank", ranks), ("breaks", breaks)):
            for axis in given:
                if axis is not None:
                    box.check_axis(axis, f"SPINN: {argument}")
        for axis in box.axes:
            if ranks and axis not in ranks:
                raise InputError(f"SPINN: rank has no number for the axis {axis}: write one for each of {', '.join(box.axes)}")
        for axis, places in breaks.items():
            low, high = box[axis]
            if not all(low < place < high for place in places) or axis in set(periodic):
                raise InputError(
                    f"SPINN: breaks[{axis!r}] = {list(places)}: they lie inside of an axis that is not periodic, {low} < {axis} < {high}"
                )
        plain = super()._axes(box, periodic, walls)
        return tuple(
            dataclasses.replace(
                axis,
                functions=0 if axis.frequencies else numbers.get(name, numbers.get(None, 0)),
                rank=ranks.get(name, 0),
                breaks=breaks.get(name, ()),
            )
            for name, axis in zip(box.axes, plain)
        )

    def possible_rank(self) -> Any:
        """The rank, or what of it the functions of an axis allow where it must not be more."""
        if self.merge != "tucker" or self.depth or not self.functions:
            return self.rank
        number, breaks = dict(self.functions), dict(self.breaks)

        def most(axis: str | None) -> int:
            return 1 + (1 + len(breaks.get(axis, ()))) * (number.get(axis, number.get(None, 1)) - 1)

        if isinstance(self.rank, tuple):
            return {axis: min(rank, most(axis)) for axis, rank in self.rank}
        return min(self.rank, *(most(axis) for axis in {*number, *breaks}))

    def merged(self, axes: Sequence[Axis]) -> Merge:
        """How the factors of these axes meet."""
        number = len(axes)
        if self.merge == "tucker":
            return merges.tucker([axis.rank or self.rank for axis in axes])
        if self.merge == "train":
            bonds = self.rank if isinstance(self.rank, tuple) else (self.rank,) * (number - 1)
            if len(bonds) != number - 1:
                raise InputError(f"SPINN: rank has {len(bonds)} numbers: between {number} axes there are {number - 1}")
            return merges.train(number, bonds)
        return merges.plain(number, self.rank)

    def _network(self, key: PRNGKeyArray, axes: tuple[Axis, ...], components: int, dtype: Any) -> SeparableNetwork:
        merge = self.merged(axes)
        body = self._body(key, (len(axes),), [a.inputs for a in axes], components * max(merge.ranks), dtype)
        if not merge.core:
            return SeparableNetwork(body, axes, components, merge, None)
        core = jax.random.normal(jax.random.fold_in(key, 1), (components, *merge.core_shape), dtype)
        network = SeparableNetwork(body, axes, components, merge, core / math.sqrt(math.prod(merge.core_shape)))
        return network.with_first_functions() if self.depth == 0 else network


class PINN(_Architecture):
    """A pointwise network of all coordinates at once: the baseline. Arguments as for `SPINN`, less the rank."""

    width: int = eqx.field(static=True, default=128, converter=_whole)
    depth: int = eqx.field(static=True, default=5, converter=_whole)

    def _network(self, key: PRNGKeyArray, axes: tuple[Axis, ...], components: int, dtype: Any) -> PointwiseNetwork:
        body = self._body(key, (), [sum(a.inputs for a in axes)], components, dtype)
        return PointwiseNetwork(body, axes, components)


def _filled(coordinates: Coordinates) -> list[Array]:
    """Axes with fewer points filled up to the longest, so that one batched pass serves them all."""
    longest = max(len(c) for c in coordinates)
    return [jnp.pad(c, (0, longest - len(c)), mode="edge") for c in coordinates]


class SeparableNetwork(eqx.Module):
    """A built SPINN. The weights of all axes are stacked, so that one batched pass serves them all."""

    body: MLP | ModifiedMLP
    axes: tuple[Axis, ...]
    components: int = eqx.field(static=True)
    merge: Merge = eqx.field(static=True)
    core: Float[Array, "components ..."] | None
    lift: Lift | None = eqx.field(static=True, default=None)  # what is known of the fields; not trained

    @property
    def rank(self) -> int:
        """Products in the plain sum that this is."""
        return self.merge.rank + (0 if self.lift is None else self.lift.rank)

    def jets(self, coordinates: Coordinates, order: int) -> tuple[Float[Array, "components orders points rank"], ...]:
        """Per axis: every component's factors and their derivatives up to `order`. However the axes meet, these are the factors of a
        plain sum of products; those of what is known come last."""
        own = self.trained(coordinates, order)
        if self.lift is None:
            return own
        return tuple(jnp.concatenate(both, -1) for both in zip(own, self.lift.jets(coordinates, order)))

    def trained(self, coordinates: Coordinates, order: int) -> tuple[Float[Array, "components orders points rank"], ...]:
        """`jets` of what the weights make."""
        return self.merge.columns(self.unmerged(coordinates, order), self.core)

    def unmerged(self, coordinates: Coordinates, order: int) -> tuple[Float[Array, "components orders points columns"], ...]:
        """Per axis the columns that the merge joins, with their derivatives, from one pass over N·d coordinates.

        Axes may have different numbers of points: the shorter ones are filled up for the pass and cut afterwards.
        """
        filled = _filled(coordinates)
        features = self.body(self._encoded(filled, order))  # (axes, orders, points, components * widest)
        widest = max(self.merge.ranks)
        if any(wall for axis in self.axes for wall in axis.walls):
            envelopes = jnp.stack([axis.envelope(x, order) for axis, x in zip(self.axes, filled)])
            features = jets.multiply(features, jnp.repeat(envelopes, widest, axis=-1))
        features = jets.derivatives(features).reshape(*features.shape[:-1], self.components, widest)
        each = zip(features, coordinates, self.merge.ranks)
        return tuple(jnp.moveaxis(f[:, : len(c), :, :rank], -2, 0) for f, c, rank in each)

    def _encoded(self, filled: Sequence[Array], order: int) -> Jet:
        widest = max(axis.inputs for axis in self.axes)
        encoded = [axis.encode(x, order) for axis, x in zip(self.axes, filled)]
        return jnp.stack([jnp.pad(e, ((0, 0), (0, 0), (0, widest - e.shape[-1]))) for e in encoded])

    @property
    def _neural(self) -> bool:
        """Whether there are hidden layers."""
        return not isinstance(self.body, MLP) or bool(self.body.hidden)

    def features(self, coordinates: Coordinates, order: int) -> tuple[Float[Array, "components orders points features"], ...]:
        """Per axis: the functions that the factors of a component are linear combinations of, with their derivatives. After hidden
        layers the last one belongs to the bias; polynomials have a constant already. Components differ where the walls do."""
        filled = _filled(coordinates)
        inner = self.body.features(self._encoded(filled, order))
        if self._neural:
            one = jnp.zeros((*inner.shape[:-1], 1), inner.dtype).at[:, 0].set(1.0)
            inner = jnp.concatenate([inner, one], -1)
        found = []
        for axis, x, jet, c in zip(self.axes, filled, inner, coordinates):
            walls = axis.envelope(x, order)  # (orders, points, components)
            own = jet if self._neural else jet[..., : axis.inputs]
            each = [jets.derivatives(jets.multiply(own, walls[..., i : i + 1])) for i in range(self.components)]
            found.append(jnp.stack(each)[:, :, : len(c)])
        return tuple(found)

    @property
    def coefficients(self) -> tuple[Float[Array, "components features columns"], ...]:
        """Of the features, per axis: the weights and the bias of the output layer."""
        out, found = self.body.out, []
        for i, (axis, rank) in enumerate(zip(self.axes, self.merge.ranks)):
            own = jnp.concatenate([out.weight[i], out.bias[i][None]]) if self._neural else out.weight[i, : axis.inputs]
            found.append(jnp.moveaxis(own.reshape(len(own), self.components, -1)[..., :rank], 1, 0))
        return tuple(found)

    def with_coefficients(
        self, coefficients: Sequence[Float[Array, "components features columns"]], core: Array | None = None
    ) -> SeparableNetwork:
        """The same with other output layers, and another core if one is given."""
        weight, bias = self.body.out.weight, self.body.out.bias
        weights, biases = [], []
        for i, own in enumerate(coefficients):
            wide = jnp.pad(own, ((0, 0), (0, 0), (0, weight.shape[-1] // self.components - own.shape[-1])))
            wide = jnp.moveaxis(wide, 0, 1).reshape(own.shape[1], -1)
            rows = len(wide) - self._neural
            weights.append(jnp.pad(wide[:rows], ((0, weight.shape[1] - rows), (0, 0))))
            biases.append(wide[-1] if self._neural else jnp.zeros_like(bias[i]))
        network = eqx.tree_at(lambda n: (n.body.out.weight, n.body.out.bias), self, (jnp.stack(weights), jnp.stack(biases)))
        return network if core is None else eqx.tree_at(lambda n: n.core, network, core)

    def with_first_functions(self) -> SeparableNetwork:
        """The factors of every axis are its first functions, from slow to fast: where a solve of the core can begin."""
        made = []
        for axis, own in zip(self.axes, self.coefficients):
            k = np.arange(1, axis.frequencies + 1)
            order = np.r_[0, np.stack([k, k + axis.frequencies], 1).ravel()] if axis.frequencies else np.arange(axis.inputs)
            if own.shape[-1] > axis.inputs:
                raise InputError(
                    f"SPINN: rank {own.shape[-1]} of an axis with {axis.inputs} functions: give it at most as many as it has functions"
                )
            first = np.zeros(own.shape[1:])
            first[order[: own.shape[-1]], np.arange(own.shape[-1])] = 1.0
            made.append(jnp.broadcast_to(jnp.asarray(first, own.dtype), own.shape))
        return self.with_coefficients(made)


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


SPECTRAL = "spinn-spectral"  # what has no hidden layers: there is nothing neural in it
NETWORKS: dict[str, Callable[..., SPINN | PINN]] = {
    "spinn": lambda **options: SPINN(body="mlp", **options),
    "spinn-mod": lambda **options: SPINN(body="modified", **options),
    "pinn": lambda **options: PINN(body="mlp", **options),
    "pinn-mod": lambda **options: PINN(body="modified", **options),
}


def network_name(network: SPINN | PINN) -> str:
    """The command line's word for a network."""
    if not isinstance(network, (SPINN, PINN)):
        raise InputError(
            f"network must be a SPINN or a PINN, got {network!r}: write network=sx.SPINN(rank=32, width=64, depth=4)"
        )
    if network.depth == 0:
        return SPECTRAL
    return type(network).__name__.lower() + ("-mod" if network.body == "modified" else "")
