"""Networks, described: `SPINN(rank=32, width=64)`, `PINN()`."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..core import InputError, finite, listed, nearest, shown, whole
from ..domain import Box, places_by_axis
from ..separable import FORMATS, AbstractFormat, tucker_format
from . import checks
from .bodies import BODIES, AbstractBody, ModifiedMLP, OwnBody, build_layers
from .encodings import AbstractEncoding, Axis, Chebyshev, Coordinate, Fourier
from .layers import ACTIVATIONS, Elementwise, as_activation
from .network import AbstractNetwork, KnownPart
from .piecewise import PiecewiseProducts
from .pointwise_network import Orders, PointwiseNetwork
from .separable_network import SeparableNetwork

Axes = tuple[Axis, ...]
WORDS = {**BODIES, **ACTIVATIONS, **FORMATS}


def _part(argument: str, given: Any, known: Mapping[str, Any], others: str) -> Any:
    """Our own part for its word; what can be called as it is."""
    if callable(given):
        return given
    if not isinstance(given, str) or given not in known:
        raise InputError(
            f"{argument} must be one of {listed(known)}, or {others}; got"
            f" {shown(given)}.{nearest(str(given), known)}"
        )
    return known[given]


def _as_given(value: Any) -> Any:
    """A setting as a user writes it: our own parts by their words."""
    value = value.function if isinstance(value, Elementwise) else value
    return next((word for word, part in WORDS.items() if value == part), value)


def _word(value: Any) -> Any:
    """What stands for a value in a description: our own parts by their words, others by name."""
    value = _as_given(value)
    return checks.name_of(value) if callable(value) else value


def _pairs(given: Any) -> bool:
    """Whether numbers are given by axis."""
    first = next(iter(given), None) if isinstance(given, (list, tuple)) else None
    return isinstance(given, Mapping) or isinstance(first, (list, tuple))


FUNCTIONS_PER_POINT = 0.8  # along an axis: more than points can tell apart would be free


class AbstractArchitecture(eqx.Module):
    """What SPINN and PINN share: the body and how coordinates enter it."""

    width: int = eqx.field(static=True, default=64)
    depth: int = eqx.field(static=True, default=4)
    body: Any = eqx.field(static=True, default="modified")
    activation: Any = eqx.field(static=True, default="tanh")
    scaled: bool = eqx.field(static=True, default=True)
    steepness: float | None = eqx.field(static=True, default=None)
    frequencies: int = eqx.field(static=True, default=5)
    encodings: Any = eqx.field(static=True, default=(), kw_only=True)

    def __post_init__(self):
        who = type(self).__name__
        least = 0 if getattr(self, "functions", ()) or self.encodings else 1
        activation = _part(f"{who}: activation", self.activation, ACTIVATIONS, "a function of JAX")
        if self.steepness is not None:
            finite(f"{who}: steepness", self.steepness, positive=True)
        self._set(
            width=whole(f"{who}: width", self.width),
            depth=whole(f"{who}: depth", self.depth, least),
            frequencies=whole(f"{who}: frequencies", self.frequencies),
            body=_part(f"{who}: body", self.body, BODIES, "a function that makes a module"),
            activation=as_activation(activation),
            encodings=checks.encodings(f"{who}: encodings", self.encodings),
        )
        for name in ("body", "activation", "encodings"):
            checks.settings(f"{who}: {name}", getattr(self, name))

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        # kept runs are compared by it, and most of them are older than parts of one's own
        default = {field.name: field.default for field in dataclasses.fields(self)}
        said = [f"{k}={v!r}" for k, v in self.settings.items() if v != default[k]]
        line = f"{type(self).__name__}({', '.join(said)})"
        apart = ",\n  ".join(said)
        return line if len(line) <= 80 else f"{type(self).__name__}(\n  {apart}\n)"

    def constructor_arguments(self) -> tuple[tuple[()], dict[str, Any]]:
        """The arguments that make this network, without those that are default."""
        given = {f: _as_given(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return (), {f.name: value for f, value in given.items() if value != f.default}

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments by name: our own parts by their words, functions by their names."""
        return {f.name: _word(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def for_points(self, points: int) -> AbstractArchitecture:
        """The network for so many points per axis: with no more functions than they tell apart.

        Arguments:
            points: along each axis.
        """
        return self

    @property
    @abc.abstractmethod
    def is_separable(self) -> bool:
        """Whether its networks are sums of products of functions of single coordinates."""

    @abc.abstractmethod
    def solvable(self, who: str) -> SPINN:
        """The network itself, where it has output layers that can be solved for; refused where it
        has none.

        Arguments:
            who: wants to solve for them, for the refusal.
        """

    def build(
        self,
        key: PRNGKeyArray,
        box: Box,
        components: int = 1,
        periodic: Collection[str] = (),
        zero_faces: Sequence[Sequence[str]] | None = None,
        dtype: Any = jnp.float32,
        known_part: KnownPart | None = None,
    ) -> AbstractNetwork:
        """The network with weights.

        Arguments:
            key: of the random weights.
            box: where it is defined.
            components: the number of fields.
            periodic: the axes along which it is periodic.
            zero_faces: per axis and field the sides on which it is zero.
            dtype: of the weights.
            known_part: what it is added to, if anything.
        """
        encodings = self._encodings(box, periodic)
        faces = zero_faces or [("",) * components] * box.dimension
        axes = tuple(
            Axis(*box[name], encodings[name], tuple(own)) for name, own in zip(box.axes, faces)
        )
        network = self._network(key, box.axes, axes, components, dtype)
        return dataclasses.replace(network, known_part=known_part)

    @abc.abstractmethod
    def _network(
        self, key: PRNGKeyArray, names: Sequence[str], axes: Axes, components: int, dtype: Any
    ) -> AbstractNetwork: ...

    def _encodings(self, box: Box, periodic: Collection[str]) -> dict[str, AbstractEncoding]:
        """How the coordinate of every axis enters the network."""
        own = dict(self.encodings)
        for axis in own:
            box.check_axis(axis, f"{type(self).__name__}: encodings")
        plain, waves = Coordinate(self.scaled), Fourier(self.frequencies)
        return {a: own.get(a, waves if a in periodic else plain) for a in box.axes}

    def _body(
        self, key: PRNGKeyArray, axes: int | None, inputs: Sequence[int], outputs: int, dtype: Any
    ) -> AbstractBody:
        """A body with weights, or a stack of one for each of some axes."""
        if self.depth == 0 or self.body in BODIES.values():
            batch = () if axes is None else (axes,)
            return build_layers(self, key, batch, inputs, outputs, dtype)
        return OwnBody.build(self.body, key, axes, max(inputs), outputs, dtype)

    def check(
        self, box: Box, periodic: Collection[str], components: int, derivatives: Iterable[Orders]
    ) -> None:
        """Refuses parts of the user's own that cannot do what a problem needs.

        Arguments:
            box, periodic, components: as for `build`.
            derivatives: that the problem is made of.
        """
        who, own = type(self).__name__, self.body not in BODIES.values()
        # the factors of an axis are differentiated along it alone
        each = (max(o) if self.is_separable else sum(o) for o in derivatives)
        order = max(each, default=0)
        for axis, encoding in dict(self.encodings).items():
            if axis in periodic:
                checks.periodic(f"{who}: encodings[{axis!r}]", encoding, box[axis])
        outputs = self._outputs(box, components)
        if self.depth and own:
            encodings = self._encodings(box, periodic).values()
            inputs = (max if self.is_separable else sum)(each.size for each in encodings)
            checks.body(f"{who}: body", self.body, inputs, outputs, order)
        elif self.depth and self.activation not in ACTIVATIONS.values():
            checks.activation(f"{who}: activation", self.activation, order)

    @abc.abstractmethod
    def _outputs(self, box: Box, components: int) -> int:
        """The number of outputs of a body."""


class SPINN(AbstractArchitecture):
    """A separable network: one body per axis, u = Σ_j Π_i f_ij(x_i).

    Arguments:
        rank: the number of products per field.
        width, depth: of the hidden layers.
        body: "modified", "mlp", or any function `make(key, inputs, outputs)` that returns a module
            of one point, (inputs,) → (outputs,), such as an `eqx.nn.MLP`.
        activation: "tanh", "sin", or any elementwise function of JAX.
        scaled: inputs in [-1, 1] (False: raw coordinates, as the paper has them).
        steepness: of the first layer's features over an axis (None: Glorot, as the paper has it).
        frequencies: of the encoding of periodic axes.
        encodings: by axis an `sx.AbstractEncoding` of your own.
        functions: Chebyshev polynomials instead of the coordinate of every other axis, a number or
            a dict by axis. With functions, `depth=0` leaves the hidden layers out: a sum of
            products of polynomials, for `Solve`.
        merge: how the axes meet: "cp", that sum of products; "tucker", where every axis has a rank
            of its own (`rank={"t": 6, "x": 20, "y": 20}`, or one number) and a dense core joins
            them, u = Σ_abc G_abc f_a(t) g_b(x) h_c(y); "train", where neighbours share an index
            (`rank=12`, or `rank=[8, 12]` from the first axis on); or a subclass of
            `sx.AbstractFormat`.
        breaks: by axis places at which the polynomials may have a kink, `breaks={"x": 0.5}`: as
            many on either side, joined continuously. For layers of different materials, and for
            corners.
    """

    rank: Any = eqx.field(static=True, default=32)
    functions: Any = eqx.field(static=True, default=())
    merge: Any = eqx.field(static=True, default="cp")
    breaks: Any = eqx.field(static=True, default=())

    def __post_init__(self):
        functions, rank = self.functions, self.rank
        each = functions if _pairs(functions) or functions == () else {None: functions}
        names = {a: f"functions{'' if a is None else f'[{a!r}]'}" for a in dict(each)}
        if _pairs(rank):
            rank = tuple((a, whole(f"SPINN: rank[{a!r}]", n)) for a, n in dict(rank).items())
        elif isinstance(rank, (list, tuple)):
            rank = tuple(whole("SPINN: rank", n) for n in rank)
        else:
            rank = whole("SPINN: rank", rank)
        self._set(
            functions=tuple((a, whole(f"SPINN: {names[a]}", n)) for a, n in dict(each).items()),
            rank=rank,
            merge=_part("SPINN: merge", self.merge, FORMATS, "an sx.AbstractFormat"),
            breaks=places_by_axis("SPINN", self.breaks),
        )
        super().__post_init__()
        checks.settings("SPINN: merge", self.merge)
        if self.merge in FORMATS.values():  # refuses a rank that is none of its kind
            given: Any = self.rank
            numbers = 1 + len(given) if isinstance(given, tuple) else 1
            self._format(tuple(dict(given)) if _pairs(given) else ("",) * numbers)
        if self.breaks and not self.functions:
            raise InputError(
                "SPINN: breaks are places where polynomials may have a kink: give functions, too"
            )

    @property
    def is_separable(self) -> bool:
        return True

    def solvable(self, who: str) -> SPINN:
        if self.depth and self.body not in BODIES.values():
            raise InputError(
                f"{who} needs a body with a linear output layer, got body={shown(self.body)}: write"
                " body='modified' or body='mlp', or use another optimiser"
            )
        if self.merge not in FORMATS.values():
            raise InputError(
                f"{who} needs merge='cp', 'tucker' or 'train', got merge={shown(self.merge)}: use"
                " one of these, or another optimiser"
            )
        return self

    def _number(self, axis: str | None) -> int:
        """The number of polynomials along an axis."""
        numbers = dict(self.functions)
        return numbers.get(axis, numbers.get(None, 0))

    def _encodings(self, box: Box, periodic: Collection[str]) -> dict[str, AbstractEncoding]:
        ranks = dict(self.rank) if _pairs(self.rank) else {}
        breaks, found = dict(self.breaks), super()._encodings(box, periodic)
        given = {"functions": dict(self.functions), "rank": ranks, "breaks": breaks}
        for argument, axis in ((k, axis) for k, each in given.items() for axis in each):
            if axis is not None:
                box.check_axis(axis, f"SPINN: {argument}")
        for axis, places in breaks.items():
            low, high = box[axis]
            inside = all(a < b for a, b in itertools.pairwise((low, *places, high)))
            if not inside or axis in periodic:
                raise InputError(
                    f"SPINN: breaks[{axis!r}] = {list(places)}: they lie inside of an axis that is"
                    f" not periodic, one after the other, {low} < {axis} < {high}"
                )
            if not self._number(axis):
                raise InputError(
                    f"SPINN: breaks[{axis!r}] are kinks of polynomials: give functions along"
                    f" {axis}, too"
                )
        others = [a for a in box.axes if a not in periodic and a not in dict(self.encodings)]
        bare = [axis for axis in others if not self._number(axis)]
        if self.depth == 0 and bare:
            raise InputError(
                f"SPINN: with depth=0 there is nothing but functions={dict(self.functions)}, and"
                f" {listed(bare)} has none: give a number for it, too"
            )
        for axis in others:
            if number := self._number(axis):
                found[axis] = Chebyshev(number, breaks.get(axis, ()))
        return found

    def _format(self, names: Sequence[str]) -> AbstractFormat:
        """How the columns of these axes meet."""
        return self.merge(names, dict(self.rank) if _pairs(self.rank) else self.rank)

    def _outputs(self, box: Box, components: int) -> int:
        merge = self._format(box.axes)
        if self.merge not in FORMATS.values():
            checks.format("SPINN: merge", merge, box.dimension)
        return components * max(merge.ranks)

    def for_points(self, points: int) -> SPINN:
        if not self.functions:
            return self
        pieces = 1 + max((len(places) for _, places in self.breaks), default=0)
        most = max(1, int(FUNCTIONS_PER_POINT * points / pieces))
        all_waves, waves = 1 + 2 * self.frequencies, min(self.frequencies, max(1, (most - 1) // 2))
        fewer = tuple(
            (axis, 1 + 2 * waves if n == all_waves else min(n, most)) for axis, n in self.functions
        )
        fitting = dataclasses.replace(self, functions=fewer, frequencies=waves)
        return dataclasses.replace(fitting, rank=fitting.possible_rank())

    def possible_rank(self) -> Any:
        """The rank, or what of it the functions of an axis allow where it must not be more."""
        if self.merge is not tucker_format or self.depth or not self.functions:
            return self.rank
        breaks = dict(self.breaks)

        def most(axis: str | None) -> int:
            return Chebyshev(self._number(axis) or 1, breaks.get(axis, ())).size

        if isinstance(self.rank, tuple):
            return {axis: min(rank, most(axis)) for axis, rank in self.rank}
        return min(self.rank, *(most(axis) for axis in {*dict(self.functions), *breaks}))

    def _network(
        self, key: PRNGKeyArray, names: Sequence[str], axes: Axes, components: int, dtype: Any
    ) -> SeparableNetwork:
        merge, core = self._format(names), None
        outputs = components * max(merge.ranks)
        body = self._body(key, len(axes), [a.inputs for a in axes], outputs, dtype)
        if shape := merge.core_shape:
            core = jax.random.normal(jax.random.fold_in(key, 1), (components, *shape), dtype)
            core = core / math.sqrt(math.prod(shape))
        network = SeparableNetwork(body, axes, components, None, merge, core)
        return network.with_first_functions() if self.depth == 0 and merge.has_core else network


class PINN(AbstractArchitecture):
    """A pointwise network of all coordinates at once: the baseline.

    Arguments:
        width, depth: of the hidden layers.
        body, activation, scaled, steepness, frequencies, encodings: as for `SPINN`.
    """

    width: int = eqx.field(static=True, default=128)
    depth: int = eqx.field(static=True, default=5)

    @property
    def is_separable(self) -> bool:
        return False

    def solvable(self, who: str) -> NoReturn:
        raise InputError(
            f"{who} needs a separable network, got {self!r}: write network=sx.SPINN(…)"
        )

    def _outputs(self, box: Box, components: int) -> int:
        return components

    def _network(
        self, key: PRNGKeyArray, names: Sequence[str], axes: Axes, components: int, dtype: Any
    ) -> PointwiseNetwork:
        inputs = sum(axis.inputs for axis in axes)
        body = self._body(key, None, [inputs], components, dtype)
        return PointwiseNetwork(body, axes, components, None)


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
    if not isinstance(network, AbstractArchitecture):
        raise InputError(
            f"network must be a SPINN or a PINN, got {shown(network)}: write"
            " network=sx.SPINN(rank=32, width=64, depth=4)"
        )
    if network.depth == 0:
        return SPECTRAL
    kinds = {BODIES["mlp"]: "", ModifiedMLP: "-mod"}
    return type(network).__name__.lower() + kinds.get(network.body, "-own")
