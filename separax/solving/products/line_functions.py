"""Functions of one coordinate for a solve by many of them: Legendre polynomials, integrated.

    u⁽ᵐ⁾ = Σ_j c_j P_j,    u = ∫ⁿ… + Σ_{k<m} d_k P_k,    ℓ(u) = 0

m is the order of the equation along the axis, and the constants of integration d follow from the
conditions ℓ at its ends. An equation for the c is one of the second kind: however many functions
there are, it is hardly worse conditioned than what it stands for, where derivatives of polynomials
lose four digits for every ten times as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.polynomial import legendre

DEPENDENT = 1e-9  # of the largest: conditions that are as near to a combination of others
NOISE = 1e-15  # of the largest value: what rounding adds to a series, for each of 2j + 1

Functional = dict[tuple[str, int], float]  # by side and order of a derivative: its factor


@dataclass(frozen=True, eq=False)
class LineFunctions:
    """The first functions of an axis that satisfy conditions at its ends.

    Attributes:
        lower, upper: where the axis begins and ends.
        number: of functions.
        conditions: what is zero of each function; as many as the equation's order.
        points: of the quadrature.
    """

    lower: float
    upper: float
    number: int
    conditions: tuple[Functional, ...]
    points: int

    @property
    def order(self) -> int:
        """The order of the equation along the axis."""
        return len(self.conditions)

    @property
    def degrees(self) -> int:
        """The number of Legendre polynomials that the functions are made of."""
        return self.number + self.order

    @property
    def half(self) -> float:
        """Half of the length."""
        return (self.upper - self.lower) / 2

    @cached_property
    def _rule(self) -> tuple[np.ndarray, np.ndarray]:
        return legendre.leggauss(self.points)

    @property
    def nodes(self) -> np.ndarray:
        """The points of the quadrature."""
        return self.scaled(self._rule[0])

    def scaled(self, unit: np.ndarray) -> np.ndarray:
        """Coordinates from those of [-1, 1]."""
        return (self.lower + self.upper) / 2 + self.half * unit

    @cached_property
    def norms(self) -> np.ndarray:
        """The sizes of the Legendre polynomials in L2 of [-1, 1]."""
        return np.sqrt(2 / (2 * np.arange(self.degrees) + 1))

    @cached_property
    def _integrals(self) -> list[np.ndarray]:
        """By order of the derivative, the Legendre series of the m-fold integrals of P_j / |P_j|
        and of the polynomials below degree m."""
        n, m = self.number, self.order
        found = [np.zeros((n + m, n + m)) for _ in range(m + 1)]
        series = np.zeros((n + m, n))
        series[np.arange(n), np.arange(n)] = 1 / self.norms[:n]
        for k in range(m, -1, -1):
            found[k][:, :n] = series * self.half ** (m - k)
            series = _integrated(series)
        for k in range(m + 1):
            for i in range(k, m):
                own = np.zeros(i + 1)
                own[i] = 1.0
                own = legendre.legder(own, k) if k else own
                found[k][: len(own), n + i] = own * self.half**-k
        return found

    @cached_property
    def _eliminated(self) -> np.ndarray:
        """The functions that satisfy the conditions, by integrals and low polynomials."""
        n, m = self.number, self.order
        if not m:
            return np.eye(n)
        takes = np.stack([self._taken(self._integrals, each) for each in self.conditions])
        takes /= np.linalg.norm(takes, axis=1, keepdims=True)
        first = np.r_[np.arange(n, n + m), np.arange(min(n, m + 2))]
        wanted = takes[:, first] * np.r_[np.full(m, 10.0), np.ones(len(first) - m)]
        made: Any = scipy.linalg.qr(wanted, mode="economic", pivoting=True)
        _, upper, order = made
        sizes = np.abs(np.diag(upper))
        if sizes[-1] < DEPENDENT * sizes[0]:
            raise np.linalg.LinAlgError("the conditions at the ends are not independent")
        out = first[order[:m]]
        kept = np.setdiff1d(np.arange(n + m), out)
        found = np.zeros((n + m, n))
        found[kept, np.arange(n)] = 1.0
        found[out] = -np.linalg.solve(takes[:, out], takes[:, kept])
        return found

    def _taken(self, series: Sequence[np.ndarray], functional: Functional) -> np.ndarray:
        signs = (-1.0) ** np.arange(self.degrees)
        total = np.zeros(series[0].shape[1])
        for (side, order), factor in functional.items():
            ends = np.ones(self.degrees) if side == "+" else signs
            total += factor * (ends @ series[order])
        return total

    @cached_property
    def series(self) -> np.ndarray:
        """The functions as Legendre series, (degrees, number)."""
        return self._integrals[0] @ self._eliminated

    def values(self, order: int, unit: np.ndarray | None = None) -> np.ndarray:
        """A derivative of the functions at the nodes, or at others of [-1, 1]."""
        if unit is None:
            if order not in self._values:
                self._values[order] = self._at_nodes @ (self._integrals[order] @ self._eliminated)
            return self._values[order]
        known = legendre.legvander(unit, self.degrees - 1)
        return known @ (self._integrals[order] @ self._eliminated)

    @cached_property
    def _values(self) -> dict[int, np.ndarray]:
        return {}

    @cached_property
    def _at_nodes(self) -> np.ndarray:
        return legendre.legvander(self._rule[0], self.degrees - 1)

    @cached_property
    def tests(self) -> np.ndarray:
        """From values at the nodes to the products with P_j / |P_j|, (number, points)."""
        return self._fit[: self.number] * self.norms[: self.number, None]

    @cached_property
    def _fit(self) -> np.ndarray:
        weighed = self._rule[1][:, None] * self._at_nodes
        return (weighed / self.norms**2).T

    # --- Legendre series, for what is given at the ends ------------------------------------------

    def fitted(self, values: np.ndarray) -> np.ndarray:
        """The Legendre series (degrees, …) of values (points, …) at the nodes, without what is
        rounding: its derivatives would be large."""
        found = np.tensordot(self._fit, values, 1)
        rounded = NOISE * np.abs(values).max() * (2 * np.arange(self.degrees) + 1)
        found[np.abs(found) < rounded.reshape(-1, *[1] * (found.ndim - 1))] = 0.0
        return found

    def derived(self, order: int, unit: np.ndarray | None = None) -> np.ndarray:
        """A derivative of the Legendre polynomials at the nodes, or at others of [-1, 1]."""
        known = self._at_nodes if unit is None else legendre.legvander(unit, self.degrees - 1)
        return known @ self.differentiated(order)

    def differentiated(self, order: int) -> np.ndarray:
        """A derivative of Legendre series, (degrees, degrees)."""
        own = np.eye(self.degrees)
        for _ in range(order):
            own = _differentiated(own) / self.half
        return own

    @cached_property
    def takes(self) -> np.ndarray:
        """What the conditions take of a Legendre series, (conditions, degrees)."""
        most = max((order for each in self.conditions for _, order in each), default=0)
        series = [self.differentiated(k) for k in range(most + 1)]
        return np.array([self._taken(series, each) for each in self.conditions]).reshape(
            -1, self.degrees
        )

    @cached_property
    def blends(self) -> np.ndarray:
        """Polynomials of low degree, (degrees, conditions), of which each has one of what the
        conditions take and none of the others."""
        m = self.order
        found = np.zeros((self.degrees, m))
        if m:
            few = min(2 * m + 1, self.degrees)
            wanted = self.takes[:, :few] * 10.0 ** -np.arange(few)
            made: Any = scipy.linalg.qr(wanted, mode="economic", pivoting=True)
            order = made[2]
            out = order[:m]
            found[out] = np.linalg.inv(self.takes[:, out])
        return found


def _integrated(series: np.ndarray) -> np.ndarray:
    """The Legendre series of integrals, up to constants: ∫P_j = (P_{j+1} - P_{j-1}) / (2j + 1)."""
    shares = series / (2 * np.arange(len(series)) + 1)[:, None]
    found = np.zeros_like(series)
    found[1:] = shares[:-1]
    found[:-1] -= shares[1:]
    found[0] = 0.0  # the constant is one of those that the conditions fix
    return found


def _differentiated(series: np.ndarray) -> np.ndarray:
    """The Legendre series of derivatives: P'_{j+1} = (2j + 1) P_j + P'_{j-1}."""
    found = np.zeros_like(series)
    degrees = np.arange(len(series))
    for parity in (0, 1):
        # P_j' = Σ (2k + 1) P_k over k = j - 1, j - 3, …
        own = series[1 - parity :: 2]
        sums = np.cumsum(own[::-1], axis=0)[::-1]
        rows = degrees[parity::2]
        above = sums if parity == 0 else sums[1:]
        count = min(len(rows), len(above))
        found[rows[:count]] = (2 * rows[:count] + 1)[:, None] * above[:count]
    return found
