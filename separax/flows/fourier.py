"""Fourier series of real fields on the periodic square [0, 2π]²: Σ a(k, l) e^(i(kx + ly)).

A wave of exactly two points has no phase on the grid and so no derivative: it counts as nothing.
"""

from __future__ import annotations

import numpy as np
import scipy.fft


def coefficients(values: np.ndarray, highest: int) -> np.ndarray:
    """Fourier coefficients of real values on the grid, up to the wavenumber `highest` along x and y.

    They are (…, 2 highest + 1, highest + 1): wavenumbers 0, 1, …, highest, -highest, …, -1 along x, and 0 … highest along y;
    those with a negative wavenumber along y are conjugate to them. They do not depend on the grid.
    """
    return up_to(highest, np.asarray(scipy.fft.rfft2(values, norm="forward")))


def up_to(highest: int, series: np.ndarray) -> np.ndarray:
    """The coefficients of the waves up to `highest` only."""
    return np.concatenate([series[..., : highest + 1, : highest + 1], series[..., -highest:, : highest + 1]], axis=-2)


def values(series: np.ndarray, points: int) -> np.ndarray:
    """The inverse of `coefficients`, on a grid of `points` per axis: more than twice the highest wavenumber."""
    highest = series.shape[-1] - 1
    spectrum = np.zeros((*series.shape[:-2], points, points // 2 + 1), complex)
    spectrum[..., : highest + 1, : highest + 1] = series[..., : highest + 1, :]
    spectrum[..., -highest:, : highest + 1] = series[..., highest + 1 :, :]
    return np.asarray(scipy.fft.irfft2(spectrum, s=(points, points), norm="forward", overwrite_x=True))


def on_lattice(series: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The series at every pair of the points x and y: (…, len(x), len(y))."""
    kx, ky = wavenumbers(series.shape[-1] - 1)
    waves = np.where(ky > 0, 2, 1) * np.exp(1j * y[:, None] * ky)  # twice, for the conjugate half that is left out
    # one large product each, not one per leading index: those would wait for threads on a busy machine
    found = np.tensordot(np.tensordot(series, waves, (-1, 1)), np.exp(1j * x[:, None] * kx[:, 0]), (-2, 1))
    return np.real(np.swapaxes(found, -1, -2))


def wavenumbers(highest: int) -> tuple[np.ndarray, np.ndarray]:
    """Along x (a column) and along y (a row), in the order of `coefficients`."""
    k = np.arange(highest + 1.0)
    return np.concatenate([k, -k[:0:-1]])[:, None], k


def velocity_symbols(highest: int) -> tuple[np.ndarray, np.ndarray]:
    """What the vorticity's coefficients are multiplied with to give those of u and v, but for the mean flow.

    u = ψ_y, v = -ψ_x and ω = v_x - u_y = -Δψ for a stream function ψ.
    """
    kx, ky = wavenumbers(highest)
    inverse = 1 / np.where((kx == 0) & (ky == 0), np.inf, kx**2 + ky**2)
    return 1j * ky * inverse, -1j * kx * inverse
