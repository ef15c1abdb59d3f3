"""The points of one axis of space, and what differentiates functions there.

    u(x) = Σ_j u_j ℓ_j(x),   u_j the values at the points,

by waves along a periodic axis (points at equal distances), by polynomials along any other (Gauss's
points). Conditions at the ends of an axis, a u + b ∂u/∂n = g, are eliminated: a polynomial has the
values at the points, and meets the conditions that its field has there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from ..elements import derivatives_at

Side = tuple[float, float] | None  # a and b of a condition; None: there is none


@dataclass(frozen=True)
class Grid:
    """The points of an axis.

    Attributes:
        bounds: of the axis.
        number: of points.
        periodic: whether it is.
    """

    bounds: tuple[float, float]
    number: int
    periodic: bool

    @property
    def length(self) -> float:
        """Of the axis."""
        return self.bounds[1] - self.bounds[0]

    @property
    def points(self) -> np.ndarray:
        """Where equations hold."""
        if self.periodic:
            return self.bounds[0] + self.length * np.arange(self.number) / self.number
        return self.bounds[0] + self.length * (1 + _gauss(self.number)[0]) / 2

    @property
    def weights(self) -> np.ndarray:
        """Of a mean over the axis."""
        if self.periodic:
            return np.full(self.number, 1 / self.number)
        return _gauss(self.number)[1] / 2

    @property
    def waves(self) -> np.ndarray:
        """The wave numbers of the discrete Fourier transform, of a periodic axis."""
        return 2 * np.pi / self.length * np.fft.fftfreq(self.number, 1 / self.number)

    def symbol(self, order: int) -> np.ndarray:
        """What the derivative of this order makes of each wave. The first derivative of the wave
        that has two points per period is not seen at the points."""
        found = (1j * self.waves) ** order
        if order % 2 and self.number % 2 == 0:
            found[self.number // 2] = 0.0
        return found

    def sizes(self, values: np.ndarray, axis: int) -> np.ndarray:
        """The sizes of the functions of the axis from low to high, as root mean squares over all
        else."""
        moved = np.moveaxis(values, axis, 0).reshape(self.number, -1)
        if self.periodic:
            found = np.abs(np.fft.rfft(moved, axis=0)) / self.number
        else:
            found = np.abs(_to_legendre(self.number) @ moved)
            found /= np.sqrt(2 * np.arange(self.number) + 1)[:, None]
        return np.sqrt(np.mean(found**2, 1))


@functools.lru_cache(64)
def _gauss(number: int) -> tuple[np.ndarray, np.ndarray]:
    return legendre.leggauss(number)


@functools.lru_cache(64)
def _to_legendre(number: int) -> np.ndarray:
    points, weights = _gauss(number)
    values = legendre.legvander(points, number - 1)
    return (np.arange(number) + 0.5)[:, None] * values.T * weights


@dataclass(frozen=True)
class FieldAxis:
    """What one field is along one axis: values at the points, and its conditions at the ends.

    Attributes:
        grid: the points.
        sides: the conditions at the lower and at the upper end.
    """

    grid: Grid
    sides: tuple[Side, Side] = (None, None)

    @property
    def number(self) -> int:
        """Of polynomials."""
        return self.grid.number + sum(s is not None for s in self.sides)

    @functools.cached_property
    def coefficients(self) -> np.ndarray:
        """From values at the points and of the conditions to Legendre coefficients."""
        unit, number = _gauss(self.grid.number)[0], self.number
        rows = [legendre.legvander(unit, number - 1)]
        ends = [derivatives_at(np.array([-1.0, 1.0]), number, k) for k in range(2)]
        for i, side in enumerate(self.sides):
            if side is not None:
                outward = (2 * i - 1) * 2 / self.grid.length
                rows.append((side[0] * ends[0][i] + side[1] * outward * ends[1][i])[None])
        return np.linalg.inv(np.concatenate(rows))

    @functools.cached_property
    def _derivatives(self) -> dict[int, np.ndarray]:
        return {}

    def derivative(self, order: int) -> np.ndarray:
        """The derivative at the points, from the values there: (points, points)."""
        if order not in self._derivatives:
            if self.grid.periodic:
                each = np.fft.ifft(
                    self.grid.symbol(order)[:, None] * np.fft.fft(np.eye(self.grid.number), axis=0),
                    axis=0,
                )
                self._derivatives[order] = np.ascontiguousarray(each.real)
            else:
                self._derivatives[order] = self._all(order)[:, : self.grid.number].copy()
        return self._derivatives[order]

    def of_conditions(self, order: int) -> np.ndarray:
        """The derivative at the points, from the values of the conditions."""
        return self._all(order)[:, self.grid.number :]

    def _all(self, order: int) -> np.ndarray:
        if -1 - order not in self._derivatives:
            unit = _gauss(self.grid.number)[0]
            basis = derivatives_at(unit, self.number, order) * (2 / self.grid.length) ** order
            self._derivatives[-1 - order] = basis @ self.coefficients
        return self._derivatives[-1 - order]

    @functools.cached_property
    def modes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The second derivative diagonalised, without conditions' values: its eigenvalues, its
        eigenvectors and their inverse."""
        values, vectors = np.linalg.eig(self.derivative(2))
        if np.abs(np.imag(values)).max() < 1e-8 * np.abs(values).max():
            values, vectors = np.real(values), np.real(vectors)
        return values, vectors, np.linalg.inv(vectors)

    def slopes_at_ends(self) -> np.ndarray:
        """The first derivative at both ends, from the values at the points and of conditions."""
        basis = derivatives_at(np.array([-1.0, 1.0]), self.number, 1)
        return basis @ self.coefficients * 2 / self.grid.length

    def at(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values at any points, from those at the points and from those of the conditions."""
        grid = self.grid
        if grid.periodic:
            return _waves_at(grid, points), np.zeros((len(points), 0))
        unit = 2 * (points - grid.bounds[0]) / grid.length - 1
        found = legendre.legvander(unit, self.number - 1) @ self.coefficients
        return found[:, : grid.number], found[:, grid.number :]


@functools.lru_cache(256)
def field_axis(grid: Grid, sides: tuple[Side, Side]) -> FieldAxis:
    """What a field is along an axis; the same one for the same points and conditions."""
    return FieldAxis(grid, sides)


def _waves_at(grid: Grid, points: np.ndarray) -> np.ndarray:
    angle = (
        2
        * np.pi
        * ((points - grid.bounds[0])[:, None] / grid.length - np.arange(grid.number) / grid.number)
    )
    # the sum of all waves: the last one of an even number counts half twice
    top, bottom = np.sin(grid.number * angle / 2), np.sin(angle / 2)
    if grid.number % 2 == 0:
        top = top * np.cos(angle / 2)
    near = np.abs(bottom) < 1e-9
    return np.where(near, 1.0, top / np.where(near, 1.0, grid.number * bottom))
