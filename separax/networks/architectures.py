"""The two kinds of network, described: `SPINN(rank=32, width=64)`, `PINN()`."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..core import InputError, finite, listed, one_of, shown, whole
from ..domain import Box, places_by_axis
from ..separable import KINDS, Format, sum_of_products, train_format, tucker_format
from .activations import ACTIVATIONS
from .bodies import MLP, Layer, ModifiedMLP, first_layer, glorot
from .encodings import Axis
from .known_part import KnownPart
from .piecewise import PiecewiseProducts
from .pointwise_network import PointwiseNetwork
from .separable_network import SeparableNetwork


def _whole(value: Any) -> Any:
    """8.0 as 8; what is no whole number is left for `__check_init__` to refuse by its name."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _functions(given: Any) -> tuple[tuple[str | None, int], ...]:
    """Numbers of polynomials by axis, None standing for all, as something that can be compared: 24 → ((None, 24),)."""
    each = dict(given) if isinstance(given, (Mapping, list, tuple)) else {None: given}
    return tuple(
        (axis, whole(f"SPINN: functions{'' if axis is None else f'[{axis!r}]'}", n))
        for axis, n in each.items()
    )


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
        one_of(f"{name}: activation", self.activation, ACTIVATIONS)
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
        lift: KnownPart | None = None,
    ) -> Any:
        """The network with weights, for a box; added to `lift`, if there is one."""
        axes = self._axes(box, periodic, walls or [[""] * components] * box.dimension)
        return dataclasses.replace(self._network(key, axes, components, dtype), lift=lift)

    def _network(
        self, key: PRNGKeyArray, axes: tuple[Axis, ...], components: int, dtype: Any
    ) -> Any:
        raise NotImplementedError

    def _axes(
        self, box: Box, periodic: Iterable[str], walls: Sequence[Sequence[str]]
    ) -> tuple[Axis, ...]:
        periodic = set(periodic)
        return tuple(
            Axis(*box[a], self.scaled, self.frequencies if a in periodic else 0, tuple(w))
            for a, w in zip(box.axes, walls)
        )

    def _body(
        self,
        key: PRNGKeyArray,
        batch: tuple[int, ...],
        inputs: Sequence[int],
        outputs: int,
        dtype: Any,
    ) -> MLP | ModifiedMLP:
        if self.depth == 0:
            return MLP((), first_layer(key, batch, inputs, outputs, None, dtype), self.activation)
        k_first, k_out, *k_hidden = jax.random.split(key, self.depth + 1)
        hidden = tuple(glorot(k, batch, self.width, self.width, dtype) for k in k_hidden)
        out = glorot(k_out, batch, self.width, outputs, dtype)
        if self.body == "mlp":
            first = first_layer(k_first, batch, inputs, self.width, self.steepness, dtype)
            return MLP((first, *hidden), out, self.activation)
        three = [
            first_layer(k, batch, inputs, self.width, self.steepness, dtype)
            for k in jax.random.split(k_first, 3)
        ]
        first = Layer(
            *(
                jnp.concatenate([getattr(layer, part) for layer in three], -1)
                for part in ("weight", "bias")
            )
        )
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
        one_of("SPINN: merge", self.merge, KINDS)
        if self.breaks and not self.functions:
            raise InputError(
                "SPINN: breaks are places where polynomials may have a kink: give functions, too"
            )
        if isinstance(self.rank, tuple):
            by_axis = bool(self.rank) and isinstance(self.rank[0], tuple)
            if self.merge == "cp" or by_axis != (self.merge == "tucker"):
                fits = {
                    "cp": "one number, rank=32",
                    "tucker": 'a number or a dict by axis, rank={"x": 20, "y": 20}',
                    "train": "a number or a list from the first axis on, rank=[8, 12]",
                }
                raise InputError(
                    f"SPINN: rank of merge={self.merge!r} is {fits[self.merge]}; got {self.rank!r}"
                )
        else:
            whole("SPINN: rank", self.rank)

    def _axes(
        self, box: Box, periodic: Iterable[str], walls: Sequence[Sequence[str]]
    ) -> tuple[Axis, ...]:
        numbers = dict(self.functions)
        ranks = dict(self.rank) if self.merge == "tucker" and isinstance(self.rank, tuple) else {}
        breaks = dict(self.breaks)
        for argument, given in (("functions", numbers), ("rank", ranks), ("breaks", breaks)):
            for axis in given:
                if axis is not None:
                    box.check_axis(axis, f"SPINN: {argument}")
        for axis in box.axes:
            if ranks and axis not in ranks:
                raise InputError(
                    f"SPINN: rank has no number for the axis {axis}: write one for each of {', '.join(box.axes)}"
                )
        for axis, places in breaks.items():
            low, high = box[axis]
            if not all(a < b for a, b in itertools.pairwise((low, *places, high))) or axis in set(
                periodic
            ):
                raise InputError(
                    f"SPINN: breaks[{axis!r}] = {list(places)}: they lie inside of an axis that is not periodic, one after the other,"
                    f" {low} < {axis} < {high}"
                )
            if not numbers.get(axis, numbers.get(None, 0)):
                raise InputError(
                    f"SPINN: breaks[{axis!r}] are kinks of polynomials: give functions along {axis}, too"
                )
        bare = [
            a
            for a in box.axes
            if numbers and a not in set(periodic) and not numbers.get(a, numbers.get(None, 0))
        ]
        if self.depth == 0 and bare:
            raise InputError(
                f"SPINN: with depth=0 there is nothing but functions={dict(self.functions)}, and {listed(bare)} has none: give a number for it, too"
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

    def merged(self, axes: Sequence[Axis]) -> Format:
        """How the factors of these axes meet."""
        number = len(axes)
        if self.merge == "tucker":
            return tucker_format([axis.rank or self.rank for axis in axes])
        if self.merge == "train":
            bonds = self.rank if isinstance(self.rank, tuple) else (self.rank,) * (number - 1)
            if len(bonds) != number - 1:
                raise InputError(
                    f"SPINN: rank has {len(bonds)} numbers: between {number} axes there are {number - 1}"
                )
            return train_format(number, bonds)
        return sum_of_products(number, self.rank)

    def _network(
        self, key: PRNGKeyArray, axes: tuple[Axis, ...], components: int, dtype: Any
    ) -> SeparableNetwork:
        merge = self.merged(axes)
        body = self._body(
            key, (len(axes),), [a.inputs for a in axes], components * max(merge.ranks), dtype
        )
        if not merge.core:
            return SeparableNetwork(body, axes, components, merge, None)
        core = jax.random.normal(jax.random.fold_in(key, 1), (components, *merge.core_shape), dtype)
        network = SeparableNetwork(
            body, axes, components, merge, core / math.sqrt(math.prod(merge.core_shape))
        )
        return network.with_first_functions() if self.depth == 0 else network


class PINN(_Architecture):
    """A pointwise network of all coordinates at once: the baseline. Arguments as for `SPINN`, less the rank."""

    width: int = eqx.field(static=True, default=128, converter=_whole)
    depth: int = eqx.field(static=True, default=5, converter=_whole)

    def _network(
        self, key: PRNGKeyArray, axes: tuple[Axis, ...], components: int, dtype: Any
    ) -> PointwiseNetwork:
        body = self._body(key, (), [sum(a.inputs for a in axes)], components, dtype)
        return PointwiseNetwork(body, axes, components)


SPECTRAL = "spinn-spectral"  # what has no hidden layers: there is nothing neural in it
NETWORKS: dict[str, Callable[..., SPINN | PINN]] = {
    "spinn": lambda **options: SPINN(body="mlp", **options),
    "spinn-mod": lambda **options: SPINN(body="modified", **options),
    "pinn": lambda **options: PINN(body="mlp", **options),
    "pinn-mod": lambda **options: PINN(body="modified", **options),
}


def network_name(network: SPINN | PINN | PiecewiseProducts) -> str:
    """The command line's word for a network."""
    if isinstance(network, PiecewiseProducts):
        return SPECTRAL
    if not isinstance(network, (SPINN, PINN)):
        raise InputError(
            f"network must be a SPINN or a PINN, got {shown(network)}: write network=sx.SPINN(rank=32, width=64, depth=4)"
        )
    if network.depth == 0:
        return SPECTRAL
    return type(network).__name__.lower() + ("-mod" if network.body == "modified" else "")
