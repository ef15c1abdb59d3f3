"""What networks have in common, and the known part that a problem adds to one."""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..domain import Box, Place
from ..separable import AbstractValues, Key
from .bases import Line
from .bodies import AbstractBody
from .encodings import Axis

if TYPE_CHECKING:
    from .separable_network import SeparableNetwork


Coordinates = tuple[Float[Array, " points"], ...]


class KnownPart:
    """A sum of products of series per component.

    Nothing of it is trained. It is compared by its numbers, so that it can be a static part of a
    network: a constant of what is compiled.

    Arguments:
        box: where it is.
        periodic: the axes along which its series are of waves.
        series: per axis (components, functions, columns).
    """

    def __init__(self, box: Box, periodic: Iterable[str], series: Sequence[np.ndarray]):
        periodic = set(periodic)
        self.lines = tuple(Line(*box[axis], axis in periodic) for axis in box.axes)
        self.series = tuple(np.asarray(each, np.float64) for each in series)
        self._key = self.lines, tuple((each.shape, each.tobytes()) for each in self.series)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownPart) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"KnownPart(rank={self.rank})"

    @property
    def rank(self) -> int:
        """The number of products."""
        return self.series[0].shape[2]

    def varies(self, axis: int) -> bool:
        """Whether it depends on the coordinate of an axis."""
        return self.series[axis].shape[1] > 1

    def factors(
        self, coordinates: Coordinates, order: int
    ) -> tuple[Float[Array, "components orders points columns"], ...]:
        """Per axis the factors with their derivatives, as those of a network."""
        found = []
        for line, series, x in zip(self.lines, self.series, coordinates):
            components, functions, columns = series.shape
            flat = line.factors(x, np.moveaxis(series, 0, 1).reshape(functions, -1), order)
            found.append(jnp.moveaxis(flat.reshape(order + 1, len(x), components, columns), 2, 0))
        return tuple(found)

    def at_points(
        self, points: Coordinates, orders: tuple[int, ...]
    ) -> Float[Array, "points components"]:
        """A derivative at scattered points."""
        factors = [f[:, order] for f, order in zip(self.factors(points, max(orders)), orders)]
        return jnp.sum(functools.reduce(operator.mul, factors), -1).T

    def on_lattice(self, coordinates: Coordinates) -> Float[Array, "components ..."]:
        """The values on a lattice."""
        factors = [f[:, 0] for f in self.factors(coordinates, 0)]
        made = factors[0]
        for factor in factors[1:]:
            made = (made[:, :, None] * factor[:, None]).reshape(len(made), -1, self.rank)
        return jnp.sum(made, -1).reshape(len(made), *(len(c) for c in coordinates))


# --- networks -------------------------------------------------------------------------------------


class AbstractNetwork(eqx.Module):
    """A network with weights: the fields of a problem, as functions of its coordinates.

    Attributes:
        body: what is trained of it.
        axes: how coordinates enter it.
        components: the number of fields.
        known_part: what it is added to; not trained.
    """

    body: AbstractBody
    axes: tuple[Axis, ...]
    components: int = eqx.field(static=True)
    known_part: KnownPart | None = eqx.field(static=True)

    @property
    @abc.abstractmethod
    def is_separable(self) -> bool:
        """Whether it is a sum of products of functions of single coordinates."""

    @property
    @abc.abstractmethod
    def separable(self) -> SeparableNetwork:
        """The network itself, where it is separable; refused where it is not."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """The number of outputs of its body."""

    @abc.abstractmethod
    def sources(
        self,
        places: Sequence[Place],
        needs: Sequence[Iterable[Key]],
        merges: Sequence[Iterable[frozenset[Key]]] | None = None,
        asked: Iterable[Mapping[Key, Any]] | None = None,
    ) -> list[AbstractValues]:
        """The values of its fields at several places, from one pass through the network.

        Arguments:
            places: lattices or scattered points.
            needs: by place the derivatives that are wanted.
            merges: by place the sets of derivatives that will be merged together, and
            asked: the combinations that the first place will be asked for, as far as known.
        """

    @property
    def dtype(self) -> Any:
        """The precision of its weights."""
        return jax.tree.leaves(self.body)[0].dtype


def highest(needs: Iterable[Key]) -> int:
    """The highest order along an axis of some derivatives."""
    return max((max(orders) for _, orders in needs), default=0)
