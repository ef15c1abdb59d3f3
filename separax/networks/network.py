"""What networks have in common."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax

from ..domain import Place
from ..separable import AbstractValues, Key
from .bodies import AbstractBody
from .encodings import Axis
from .known_part import KnownPart

if TYPE_CHECKING:
    from .separable_network import SeparableNetwork


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
