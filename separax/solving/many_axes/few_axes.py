"""Functions of many axes as sums of functions of few of them, and of products of all.

    f = Σ_S f_S(x_S) + Σ_j Π_i g_ij(x_i),    S of three axes at most

Every f_S is an array of Legendre coefficients without the constant ones, so that what cancels is
found to cancel: of a sum of functions of an axis each, nothing is left on the whole lattice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ...separable import exact_products, tucker_by_svd

FEW = 3  # axes of a function that is kept as an array
ALIKE = 1e-13
TINY = 1e-300
CUT = 1e-15

Support = tuple[int, ...]
Product = dict[int, np.ndarray]  # by axis, Legendre series; along the others it is one


@dataclass
class FewAxes:
    """A function of many axes.

    Attributes:
        degrees: the number of Legendre polynomials of an axis.
        few: by axes, coefficients without the constant polynomials; a number for no axes.
        products: of functions of more axes.
    """

    degrees: int
    few: dict[Support, np.ndarray] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)

    def add(self, product: Product, factor: float = 1.0) -> None:
        """Adds a product."""
        product = {i: f for i, f in product.items() if np.any(f[1:] != 0.0) or _scale(f) != f[0]}
        varying = {i: f for i, f in product.items() if np.any(f[1:] != 0.0)}
        factor *= math.prod(float(f[0]) for i, f in product.items() if i not in varying)
        if factor == 0.0 or any(not np.any(f) for f in product.values()):
            return
        if len(varying) > FEW:
            first, *rest = sorted(varying)
            self._join({first: factor * varying[first]} | {i: varying[i] for i in rest})
            return
        axes = tuple(sorted(varying))
        for chosen in range(2 ** len(axes)):
            own = tuple(a for k, a in enumerate(axes) if chosen >> k & 1)
            share = factor * math.prod(float(varying[a][0]) for a in axes if a not in own)
            made = functools.reduce(
                np.multiply.outer, (varying[a][1:] for a in own), np.asarray(share)
            )
            self.few[own] = self.few[own] + made if own in self.few else made

    def _join(self, product: Product) -> None:
        """Adds a product of many, to one that differs along one axis alone where there is one."""
        for place, other in enumerate(self.products):
            if other.keys() != product.keys():
                continue
            apart, factor = [], 1.0
            for i, f in product.items():
                share = float(np.vdot(other[i], f) / max(np.vdot(other[i], other[i]), TINY))
                if np.linalg.norm(f - share * other[i]) > ALIKE * np.linalg.norm(f):
                    apart.append(i)
                    if len(apart) > 1:
                        break
                else:
                    factor *= share
            if len(apart) < 2:
                at = apart[0] if apart else next(iter(product))
                extra = factor * (product[at] if apart else other[at])
                made = other[at] + extra
                self.products[place] = other | {at: made}
                if np.linalg.norm(made) <= ALIKE * np.linalg.norm(extra):
                    self.products.pop(place)
                return
        self.products.append(product)

    def each(self) -> list[Product]:
        """All of it as products."""
        found = []
        for axes, array in self.few.items():
            if not axes:
                found.append({0: float(array) * self._one()})
                continue
            wide = np.pad(array, [(1, 0)] * array.ndim)
            if len(axes) == 1:
                factors = [wide[:, None]]
            elif len(axes) == 2:
                u, sizes, v = np.linalg.svd(wide, full_matrices=False)
                kept = sizes > CUT * max(sizes[0], TINY)
                factors = [u[:, kept] * sizes[kept], v[kept].T]
            else:
                core, bases = tucker_by_svd(wide)
                factors = [b @ f for b, f in zip(bases, exact_products(core))]
            columns = range(factors[0].shape[1])
            found += [{a: f[:, r] for a, f in zip(axes, factors)} for r in columns]
        return [*found, *self.products]

    def _one(self) -> np.ndarray:
        return np.eye(1, self.degrees)[0]

    def applied(self, axis: int, operator: np.ndarray, constant: float = 1.0) -> FewAxes:
        """An operator along one axis, (degrees, degrees), times a number."""
        found = FewAxes(self.degrees)
        for product in self.each():
            own = product.get(axis)
            made = operator @ (self._one() if own is None else own)
            found.add(product | {axis: made}, constant)
        return found

    def plus(self, other: FewAxes, factor: float = 1.0) -> FewAxes:
        """A sum."""
        found = FewAxes(self.degrees, dict(self.few), list(self.products))
        for axes, array in other.few.items():
            extra = factor * array
            found.few[axes] = found.few[axes] + extra if axes in found.few else extra
        for product in other.products:
            found.add(product, factor)
        return found

    def without(self, size: float) -> FewAxes:
        """The same without functions that are smaller than this."""
        few = {s: a for s, a in self.few.items() if np.abs(a).max(initial=0.0) > size}
        kept = [p for p in self.products if _size(p.values()) > size]
        return FewAxes(self.degrees, few, kept)

    @property
    def size(self) -> float:
        """The largest function in it."""
        each = [float(np.abs(a).max(initial=0.0)) for a in self.few.values()]
        return max([*each, *(_size(p.values()) for p in self.products)], default=0.0)

    def tails(self, axis: int) -> float:
        """How much the last polynomials of an axis count, of the largest function in it."""
        last = max(2, self.degrees // 6)
        worst = 0.0
        for axes, array in self.few.items():
            if axis in axes:
                moved = np.moveaxis(array, axes.index(axis), 0)
                worst = max(worst, float(np.abs(moved[-last:]).max()))
        for p in self.products:
            if axis in p:
                cut = np.abs(p[axis][-last:]).max() / max(np.abs(p[axis]).max(), TINY)
                worst = max(worst, float(cut) * _size(p.values()))
        return worst


def _scale(series: np.ndarray) -> float:
    return 1.0 if series[0] == 1.0 else math.nan


def _size(factors: Iterable[np.ndarray]) -> float:
    return math.prod(float(np.abs(f).max()) for f in factors)
