"""Expressions of degree two at most in the derivatives of the unknowns."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..separable import Key, Pair

# A source may also have `takes`, which says of the shape of an array whether to leave its product with a combination to
# `weighed(terms, varying)`, the values of Σ terms + Σ array · terms.


@dataclass(frozen=True)
class Polynomial:
    """Σ c ∂ᵃu + Σ c ∂ᵃu ∂ᵇv + plain: an expression of degree two at most, `plain` depending on the coordinates alone."""

    terms: dict[Key, Any] = field(default_factory=dict)
    pairs: dict[Pair, Any] = field(default_factory=dict)
    plain: Any = None  # an array that broadcasts to the lattice; None: nothing

    def __add__(self, other: Polynomial) -> Polynomial:
        plain = (
            other.plain
            if self.plain is None
            else self.plain
            if other.plain is None
            else self.plain + other.plain
        )
        return Polynomial(_sum(self.terms, other.terms), _sum(self.pairs, other.pairs), plain)

    def scaled(self, scale: Any) -> Polynomial:
        def each(some: Mapping[Any, Any]) -> dict[Any, Any]:
            return {k: c * scale for k, c in some.items()}

        return Polynomial(
            each(self.terms), each(self.pairs), None if self.plain is None else self.plain * scale
        )

    def times(self, other: Polynomial) -> Polynomial | None:
        """The product, if it is of degree two and its constants are numbers: an array times a field is neither."""
        if not self.terms and not self.pairs and not other.terms and not other.pairs:
            return Polynomial(
                plain=None
                if self.plain is None or other.plain is None
                else self.plain * other.plain
            )
        if self.pairs or other.pairs or np.ndim(self.plain) or np.ndim(other.plain):
            return None
        out = Polynomial()
        for a, c in self.terms.items():
            for b, e in other.terms.items():
                out = out + Polynomial(pairs={(min(a, b), max(a, b)): c * e})
        if other.plain is not None:
            out = out + self.scaled(other.plain)
        if self.plain is not None:
            out = out + Polynomial(other.terms).scaled(self.plain)
        return out

    def moved(self, shift: tuple[int, ...]) -> Polynomial | None:
        """The derivative by `shift`, of first order along one axis; unknown where `plain` varies."""
        if np.ndim(self.plain):
            return None

        def by(key: Key) -> Key:
            return key[0], tuple(map(operator.add, key[1], shift))

        pairs: dict[Pair, Any] = {}
        for (a, b), c in self.pairs.items():
            for first, second in ((by(a), b), (a, by(b))):
                pairs = _sum(pairs, {(min(first, second), max(first, second)): c})
        return Polynomial({by(k): c for k, c in self.terms.items()}, pairs)


NOTHING = Polynomial()


def _sum(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> dict[Any, Any]:
    return {**a, **{k: a[k] + c if k in a else c for k, c in b.items()}}
