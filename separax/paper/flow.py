"""Velocity fields on the periodic square [0, 2π]², u_x + v_y = 0: from arrays, or at random from a
seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
import scipy.ndimage

from ..core import InputError, finite, whole

LENGTH = 2 * np.pi  # of the square's sides
LEAST = 4  # points per axis: with fewer, a solver that keeps a third of the waves keeps none
DIVERGENCE = 1e-3  # relative: how far from zero that of a flow may be
# a random flow has wavenumbers up to this many times its peak; beyond, they would hold 1e-6 of the
# energy
BAND = 6


@dataclass(frozen=True, eq=False)
class Flow:
    """A velocity field on the points x_i = 2πi/n, y_j = 2πj/n of the periodic square.

    Arguments:
        u, v: the velocities along x and y, arrays (n, n) of real numbers, indexed [x, y].
    """

    u: np.ndarray
    v: np.ndarray

    def __post_init__(self):
        for name in ("u", "v"):
            array = numbers(name, getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        fit({"u": self.u, "v": self.v})

    @classmethod
    def of_vorticity(cls, w: Any) -> Flow:
        """The flow without a mean velocity that has a vorticity v_x - u_y.

        Arguments:
            w: the vorticity, an array (n, n) indexed [x, y] whose mean is zero.
        """
        w = numbers("w", w)
        fit({"w": w})
        mean, largest = abs(w.mean()), np.abs(w).max()
        if mean > DIVERGENCE * largest:
            raise InputError(
                f"w has a mean of {w.mean():.3g} (its largest value is {largest:.3g}), but that of"
                " a periodic flow is zero: write w - w.mean(), or give u and v"
            )
        return cls(*_turning(w))

    @property
    def points(self) -> int:
        """Per axis."""
        return len(self.u)

    @property
    def axis(self) -> np.ndarray:
        """The coordinates of the points along x, and along y."""
        return LENGTH * np.arange(self.points) / self.points

    @property
    def mean(self) -> tuple[float, float]:
        """The mean velocity, which viscosity and pressure leave as it is."""
        return float(self.u.mean()), float(self.v.mean())

    @property
    def max_speed(self) -> float:
        """The largest √(u² + v²) on the grid."""
        return float(np.hypot(self.u, self.v).max())

    @property
    def vorticity(self) -> np.ndarray:
        """v_x - u_y."""
        (_, u_y), (v_x, _) = self._gradients()
        return v_x - u_y

    @property
    def divergence(self) -> float:
        """The largest |u_x + v_y|, relative to the largest of |u_x|, |u_y|, |v_x| and |v_y|."""
        gradients = self._gradients()
        largest = np.abs(gradients).max()
        found = np.abs(gradients[0, 0] + gradients[1, 1]).max()
        return float(found / largest) if largest > 0 else 0.0

    def resampled(self, points: int) -> Flow:
        """The same Fourier series on another grid; what that cannot hold is left out.

        Arguments:
            points: per axis.
        """
        points = whole("points", points, LEAST)
        if points == self.points:
            return self
        highest = (min(points, self.points) - 1) // 2
        return Flow(*(values(coefficients(a, highest), points) for a in (self.u, self.v)))

    def projected(self) -> Flow:
        """The nearest flow without divergence: the same vorticity and mean velocity."""
        u, v = _turning(self.vorticity)
        return Flow(u + self.u.mean(), v + self.v.mean())

    def _gradients(self) -> np.ndarray:
        """u_x, u_y; v_x, v_y: (2, 2, n, n)."""
        highest = (self.points - 1) // 2
        kx, ky = wavenumbers(highest)
        series = coefficients(np.stack([self.u, self.v]), highest)
        return values(1j * np.stack([kx * series, ky * series], axis=1), self.points)

    def __repr__(self) -> str:
        size, speed = f"{self.points}×{self.points}", f"max_speed={self.max_speed:.4g}"
        return f"Flow({size}, {speed}, divergence={self.divergence:.1e})"


def _turning(w: np.ndarray) -> np.ndarray:
    """u and v of a vorticity, without a mean velocity."""
    highest = (len(w) - 1) // 2
    return values(np.stack(velocity_symbols(highest)) * coefficients(w, highest), len(w))


def numbers(name: str, given: Any) -> np.ndarray:
    """A finite array of float64."""
    array = np.asarray(given)
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{name} must hold real numbers, got an array of {array.dtype}: write"
            f" {name}.astype(float), or its real part"
        )
    if bad := np.count_nonzero(~np.isfinite(array)):
        raise InputError(
            f"{name} is not a number or infinite at {bad} of {array.size} points: fill them in; a"
            " periodic flow has a value everywhere"
        )
    return np.array(array, np.float64)


def fit(arrays: Mapping[str, np.ndarray]) -> None:
    """All of one shape, and that a square of enough points."""
    for name, a in arrays.items():
        if a.ndim != 2:
            raise InputError(
                f"{name} must be an array (n, n) indexed [x, y], got the shape {a.shape}"
            )
        if a.shape[0] != a.shape[1]:
            raise InputError(
                f"{name} must have as many points along x as along y, got"
                f" {a.shape[0]}×{a.shape[1]}: resample it, e.g. with"
                f" scipy.signal.resample({name}, {max(a.shape)},"
                f" axis={a.shape.index(min(a.shape))})"
            )
        if len(a) < LEAST:
            raise InputError(
                f"{name} must have at least {LEAST}×{LEAST} points, got {len(a)}×{len(a)}: give a"
                " finer grid"
            )
    if len({a.shape for a in arrays.values()}) > 1:
        shapes = " and ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise InputError(f"u and v must be on the same grid, got {shapes}: resample one of them")


def random_flow(seed: int = 0, points: int = 128, speed: float = 5.0, peak: int = 3) -> Flow:
    """A random flow without divergence: Gaussian, isotropic, of energy spectrum

        E(k) ~ exp(-4 log²(k/peak)) / k.

    That is the spectrum of JAX-CFD's `filtered_velocity_field`, and its usual peak. The field
    depends on the seed, the speed and the peak only: on another grid it has other points, but the
    same function lies below.

    Arguments:
        seed: the same one gives the same field.
        points: per axis, more than 12 times the peak.
        speed: the largest √(u² + v²) on the square; no point of the grid need lie where it is
            reached.
        peak: the wavenumber about which the energy lies.

    Returns:
        The flow, on so many points.
    """
    seed, points, peak = whole("seed", seed, 0), whole("points", points), whole("peak", peak)
    speed, highest = finite("speed", speed, positive=True), BAND * peak
    if points <= 2 * highest:
        raise InputError(
            f"points must be more than {2 * highest} for waves up to {BAND} times peak={peak}, got"
            f" {points}: write points={2 * highest + 2} or a smaller peak"
        )
    kx, ky = wavenumbers(highest)
    k = np.hypot(kx, ky)
    k[0, 0] = np.inf
    # energy is k² |ψ|², and there are 2πk waves of about the wavenumber k
    held = np.where(k <= highest, k, peak)
    size = np.where(k <= highest, np.exp(-2 * np.log(held / peak) ** 2) * k**-2.0, 0)
    real, imaginary = np.random.default_rng(seed).standard_normal((2, *size.shape))
    stream = size * (real + 1j * imaginary)
    # both are there, and belong to one real wave
    stream[highest + 1 :, 0] = stream[highest:0:-1, 0].conj()
    series = np.stack([1j * ky * stream, -1j * kx * stream])
    series *= speed / _largest_speed(series)
    return Flow(*values(series, points))


def _largest_speed(series: np.ndarray) -> float:
    """The maximum of √(u² + v²) over the square, also between the points of a grid."""
    grid = 16 * (series.shape[-1] - 1)
    speeds = np.hypot(*values(series, grid))
    peaks = speeds == scipy.ndimage.maximum_filter(speeds, 3, mode="wrap")
    peaks &= speeds > 0.98 * speeds.max()
    largest = 0.0
    # the highest one on the grid need not be the highest one
    for x, y in np.argwhere(peaks) * LENGTH / grid:
        reach = LENGTH / grid
        while reach > 1e-8:  # the error is of its square
            xs, ys = (c + np.linspace(-reach, reach, 9) for c in (x, y))
            speeds = np.hypot(*on_lattice(series, xs, ys))
            i, j = np.unravel_index(speeds.argmax(), speeds.shape)
            x, y, reach = xs[i], ys[j], reach / 3
        largest = max(largest, float(speeds.max()))
    return largest


def coefficients(values: np.ndarray, highest: int) -> np.ndarray:
    """Fourier coefficients of real values on the grid, up to a wavenumber along x and y.

    They are (…, 2 highest + 1, highest + 1): wavenumbers 0, 1, …, highest, -highest, …, -1 along x,
    and 0 … highest along y; those with a negative wavenumber along y are conjugate to them. They do
    not depend on the grid.
    """
    return up_to(highest, np.asarray(scipy.fft.rfft2(values, norm="forward")))


def up_to(highest: int, series: np.ndarray) -> np.ndarray:
    """The coefficients of the waves up to `highest` only."""
    kept = series[..., : highest + 1]
    return np.concatenate([kept[..., : highest + 1, :], kept[..., -highest:, :]], axis=-2)


def values(series: np.ndarray, points: int) -> np.ndarray:
    """The inverse of `coefficients`, on a grid of `points` per axis: more than twice the highest
    wavenumber."""
    highest = series.shape[-1] - 1
    spectrum = np.zeros((*series.shape[:-2], points, points // 2 + 1), complex)
    spectrum[..., : highest + 1, : highest + 1] = series[..., : highest + 1, :]
    spectrum[..., -highest:, : highest + 1] = series[..., highest + 1 :, :]
    return np.asarray(
        scipy.fft.irfft2(spectrum, s=(points, points), norm="forward", overwrite_x=True)
    )


def on_lattice(series: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The series at every pair of the points x and y: (…, len(x), len(y))."""
    kx, ky = wavenumbers(series.shape[-1] - 1)
    # twice, for the conjugate half that is left out
    along_y = np.where(ky > 0, 2, 1) * np.exp(1j * y[:, None] * ky)
    along_x = np.exp(1j * x[:, None] * kx[:, 0])
    # one large product each, not one per leading index: those would wait for threads
    found = np.tensordot(np.tensordot(series, along_y, (-1, 1)), along_x, (-2, 1))
    return np.real(np.swapaxes(found, -1, -2))


def wavenumbers(highest: int) -> tuple[np.ndarray, np.ndarray]:
    """Along x (a column) and along y (a row), in the order of `coefficients`."""
    k = np.arange(highest + 1.0)
    return np.concatenate([k, -k[:0:-1]])[:, None], k


def velocity_symbols(highest: int) -> tuple[np.ndarray, np.ndarray]:
    """What the vorticity's coefficients are multiplied with to give those of u and v, but for the
    mean flow.

    u = ψ_y, v = -ψ_x and ω = v_x - u_y = -Δψ for a stream function ψ.
    """
    kx, ky = wavenumbers(highest)
    inverse = 1 / np.where((kx == 0) & (ky == 0), np.inf, kx**2 + ky**2)
    return 1j * ky * inverse, -1j * kx * inverse
