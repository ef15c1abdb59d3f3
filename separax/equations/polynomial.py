"""Expressions of degree two at most in the derivatives of the unknowns."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import add_up
from ..separable import Key, Pair


@dataclass(frozen=True)
class Polynomial:
    """Σ c ∂ᵃu + Σ c ∂ᵃu ∂ᵇv + plain: an expression of degree two at most, `plain` depending on the
    coordinates alone."""

    terms: dict[Key, Any] = field(default_factory=dict)
    pairs: dict[Pair, Any] = field(default_factory=dict)
    plain: Any = None  # an array that broadcasts to the lattice; None: nothing

    @property
    def is_known(self) -> bool:
        """Whether this depends on the coordinates alone."""
        return not self.terms and not self.pairs

    def __add__(self, other: Polynomial) -> Polynomial:
        both = [p for p in (self.plain, other.plain) if p is not None]
        plain = add_up(both) if both else None
        return Polynomial(_sum(self.terms, other.terms), _sum(self.pairs, other.pairs), plain)

    def scaled(self, scale: Any) -> Polynomial:
        def each(some: Mapping[Any, Any]) -> dict[Any, Any]:
            return {k: c * scale for k, c in some.items()}

        return Polynomial(
            each(self.terms), each(self.pairs), None if self.plain is None else self.plain * scale
        )

    def times(self, other: Polynomial) -> Polynomial | None:
        """The product, if it is of degree two and its constants are numbers: an array times a field
        is neither."""
        if self.is_known and other.is_known:
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
        """The derivative by `shift`, of first order along one axis; unknown where `plain`
        varies."""
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
