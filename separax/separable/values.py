"""Where the values of derivatives come from: one abstract class for all that gives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxtyping import Array

from ..core import add_up
from .merging import Key, Varying

if TYPE_CHECKING:
    from .separable import Separable


class AbstractValues(ABC):
    """The values of linear combinations of derivatives, at the points of a place.

    A separable network merges them from factors, a pointwise network adds them up, a table looks
    them up, and a tracer only writes down what it was asked for.

    Attributes:
        axes: the names of the coordinates.
        shape: of the arrays of values, one number per point.
        dtype: of the numbers.
        separable: the fields, where they are sums of products; else nothing.
    """

    separable: Sequence[Separable] = ()
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any

    @abstractmethod
    def values(self, terms: Mapping[Key, Any]) -> Array:
        """Σ c ∂ᵃu, the array of values.

        Arguments:
            terms: coefficients c by derivative (component, orders).
        """

    def factors(self, terms: Mapping[Key, Any], varying: Varying = ()) -> list[Array] | None:
        """Per axis factors (points, columns) whose products add up to Σ c ∂ᵃu + Σ array · Σ c ∂ᵃu;
        None where the fields are no sums of products.

        Arguments:
            terms: coefficients c by derivative.
            varying: pairs of an array, 1 long along all axes but one, and the terms that it
                multiplies.
        """
        return None

    def accepts_coefficient(self, shape: tuple[int, ...]) -> bool:
        """Whether the product of an array of this shape with derivatives is better left to
        `weighed` than made from values."""
        return False

    def weighed(self, terms: Mapping[Key, Any], varying: Varying) -> Array:
        """Σ c ∂ᵃu + Σ array · Σ c ∂ᵃu.

        Arguments:
            terms: coefficients by derivative.
            varying: pairs of an array and of the terms that it multiplies.
        """
        plain = [self.values(terms)] if terms else []
        return add_up([*plain, *(array * self.values(some) for array, some in varying)])

    def note_plain_values(self) -> None:  # noqa: B027
        """Called when plain values of a field are handed out: from there on nobody can tell whether
        an array depends on the unknowns. Only a tracer wants to know."""
