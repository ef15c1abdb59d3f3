"""Poisson's equation on the L-shape.

    -Δu = 1   in Ω = [-1, 1]² without the open quadrant x > 0, y > 0,   u = 0 on the boundary.

In polar coordinates at a corner of angle ω, φ counted from one of its edges, u is a sum of

    the particular part   r²/4 (cos 2φ - 1) + b r² (log r sin 2φ + φ cos 2φ),   b = -1/(2ω),
    terms that vanish on both edges   r^(kπ/ω) sin(kπφ/ω),   k = 1, 2, …

At the five corners with ω = π/2 only the logarithm, with b = -1/π, is not a polynomial. At the one
with ω = 3π/2, at the origin, b = -1/(3π), and the terms are r^(2k/3) sin(2kφ/3). So

    u = the particular part at the origin + the five logarithms + Im p(ζ) + Re q(z),
    ζ = (r e^(iφ))^(2/3) at the origin,

with polynomials p and q in z = x + iy: exact in -Δu = 1, whatever p and q are. Their coefficients
make u as small as possible on the boundary, by least squares. The error, being harmonic, is largest
on the boundary, where it is seen: `misfit`.

`reference` has a misfit of 2e-13 (u itself reaches 0.149, its L2 norm is 0.144), and takes 0.02
seconds to make.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core import whole
from .computed import Computed

CORNERS = (0, 1j, -1 + 1j, -1 - 1j, 1 - 1j, 1)  # around Ω, from the one with ω = 3π/2
# at the other five: the direction of the edge at which φ = 0
STARTS = np.array([1, -0.5, 0, 0.5, 1]) * np.pi
# powers of (z - centre)/radius stay near one on Ω, so that the fit is well-conditioned
CENTRE, RADIUS = -0.25 - 0.25j, 1.3


def _polar(z: np.ndarray, start: float, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """r and φ at the origin, φ continuous over a sector of `angle` from the direction `start`; its
    cut is opposite."""
    middle = start + angle / 2
    return np.abs(z), np.angle(z * np.exp(-1j * middle)) + angle / 2


def _logarithm(z: np.ndarray, start: float, angle: float) -> np.ndarray:
    """The harmonic r² (log r sin 2φ + φ cos 2φ): zero where φ = 0, and ±r² angle where φ is the
    angle."""
    r, phi = _polar(z, start, angle)
    return r**2 * (np.log(np.where(r > 0, r, 1)) * np.sin(2 * phi) + phi * np.cos(2 * phi))


def _particular(z: np.ndarray) -> np.ndarray:
    """-Δ of it is one; it is zero at the edges of the origin, but for the last five terms, which
    are harmonic."""
    r, phi = _polar(z, np.pi / 2, 3 * np.pi / 2)
    u = r**2 / 4 * (np.cos(2 * phi) - 1) - _logarithm(z, np.pi / 2, 3 * np.pi / 2) / (3 * np.pi)
    for corner, start in zip(CORNERS[1:], STARTS):
        u = u - _logarithm(z - corner, start, np.pi / 2) / np.pi
    return u


def _variables(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r, phi = _polar(z, np.pi / 2, 3 * np.pi / 2)
    return r ** (2 / 3) * np.exp(2j / 3 * phi), (z - CENTRE) / RADIUS


def boundary(points: int) -> np.ndarray:
    """Points on the boundary as complex numbers: for each edge as many again crowded at its ends,
    to 1e-14 of them."""
    crowded = (1 + np.tanh(np.linspace(-16, 16, points))) / 2
    along = np.concatenate([crowded, np.linspace(0, 1, points)])
    edges = zip(CORNERS, (*CORNERS[1:], CORNERS[0]))
    return np.concatenate([start + (end - start) * along for start, end in edges])


def solve(singular: int = 20, degree: int = 40) -> dict[str, np.ndarray]:
    """The coefficients of p (`singular`) and q (`regular`), and the largest value of |u| seen on
    the boundary (`misfit`).

    Arguments:
        singular: the degree of p, the expansion at the reentrant corner.
        degree: the degree of q.
    """
    singular, degree = whole("singular", singular, 0), whole("degree", degree, 0)
    # ζ³ is z² but for a factor, and q has that
    powers = np.array([k for k in range(1, singular + 1) if k % 3], int)
    z = boundary(150)
    zeta, scaled = _variables(z)
    of_q = scaled[:, None] ** np.arange(degree + 1)
    columns = np.c_[np.imag(zeta[:, None] ** powers), of_q.real, -of_q.imag[:, 1:]]
    size = np.abs(columns).max(axis=0)
    found = np.linalg.lstsq(columns / size, -_particular(z), rcond=1e-15)[0] / size
    of_p, real, imaginary = np.split(found, [len(powers), len(powers) + degree + 1])
    p = np.zeros(singular + 1)
    p[powers] = of_p
    solution = {"singular": p, "regular": real + 1j * np.concatenate([[0], imaginary])}
    return solution | {"misfit": np.abs(_value(solution, boundary(411))).max()}


def _value(solution: dict[str, np.ndarray], z: np.ndarray) -> np.ndarray:
    zeta, scaled = _variables(z)
    polynomial = np.polynomial.polynomial.polyval
    p, q = polynomial(zeta, solution["singular"]), polynomial(scaled, solution["regular"])
    return _particular(z) + p.imag + q.real


def expanded(solution: dict[str, np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """What `solve` returned as a function of x and y; nan outside of Ω."""

    def u(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        inside = (np.abs(x) <= 1) & (np.abs(y) <= 1) & ((x <= 0) | (y <= 0))
        return np.where(inside, _value(solution, x + 1j * y), np.nan)

    return u


reference = Computed("poisson-lshape", ("x", "y"), lambda: expanded(solve()))
