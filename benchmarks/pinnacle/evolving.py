"""Rows of the benchmark in time and two axes of space, and two more of that kind that others have
published: Ginzburg-Landau and Grey-Scott with fast reactions.

References are computed by other means: waves or sines in space, and exponential time differencing
of fourth order in time, with two lengths of step, of which the difference is what they are off.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import scipy.fft
from row import Row, Truth, known

import separax as sx

PI = math.pi
INSTANTS = 8  # at which references are kept


# --- references -------------------------------------------------------------------------------


def etdrk4(
    linear: np.ndarray,
    rest: Callable[[np.ndarray, float], np.ndarray],
    start: np.ndarray,
    times: np.ndarray,
    steps: int,
) -> list[np.ndarray]:
    """Solves v' = L v + N(v, t) for diagonal L, by exponential time differencing of fourth order
    (Kassam and Trefethen).

    Arguments:
        linear: L.
        rest: N.
        start: v at the first instant.
        times: instants at which it is wanted, at equal distances.
        steps: from one of these to the next.
    """
    h = (times[1] - times[0]) / steps
    roots = np.exp(1j * PI * (np.arange(1, 33) - 0.5) / 32)
    z = h * linear[..., None] + roots
    e, half = np.exp(h * linear), np.exp(h * linear / 2)
    between = h * np.mean((np.exp(z / 2) - 1) / z, -1).real
    first = h * np.mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3, -1).real
    second = h * np.mean((2 + z + np.exp(z) * (-2 + z)) / z**3, -1).real
    third = h * np.mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3, -1).real
    v, found, t = start, [start], float(times[0])
    for _ in times[1:]:
        for _ in range(steps):
            n = rest(v, t)
            a = half * v + between * n
            na = rest(a, t + h / 2)
            b = half * v + between * na
            nb = rest(b, t + h / 2)
            c = half * a + between * (2 * nb - n)
            nc = rest(c, t + h)
            v = e * v + first * n + 2 * second * (na + nb) + third * nc
            t += h
        found.append(v)
    return found


def of_waves(
    side: tuple[float, float],
    end: float,
    diffusion: dict[str, float],
    reaction: Callable[..., tuple[np.ndarray, ...]],
    start: Callable[..., tuple[np.ndarray, ...]],
    number: int,
    steps: int,
    shift: dict[str, float],
) -> Truth:
    """The truth of u_t = D Δu + R(u) on a periodic square.

    Arguments:
        side: of the square.
        end: of time.
        diffusion: D by field.
        reaction: R of all fields, with - s u left out for the shifts s.
        start: of x and y.
        number: of points per axis.
        steps: of time from one instant that is kept to the next.
        shift: s by field.
    """
    length = side[1] - side[0]
    times = np.linspace(0, end, INSTANTS + 1)

    def solved(number: int, steps: int) -> np.ndarray:
        axis = side[0] + length * np.arange(number) / number
        k = 2 * PI / length * np.fft.fftfreq(number, 1 / number)
        size = (k**2)[:, None] + (2 * PI / length * np.fft.rfftfreq(number, 1 / number)) ** 2
        linear = np.stack([-d * size - shift[f] for f, d in diffusion.items()])

        def rest(v: np.ndarray, t: float) -> np.ndarray:
            u = scipy.fft.irfft2(v, s=(number, number))
            return scipy.fft.rfft2(np.stack(reaction(*u)))

        first = scipy.fft.rfft2(np.stack(start(*np.meshgrid(axis, axis, indexing="ij"))))
        each = etdrk4(linear, rest, first, times, steps)
        return np.stack([scipy.fft.irfft2(v, s=(number, number)) for v in each[1:]])

    fine = solved(number, steps)
    coarse = solved(number // 2, steps // 2)
    error = np.linalg.norm(fine[:, :, ::2, ::2] - coarse) / np.linalg.norm(coarse)
    axis = side[0] + length * np.arange(number) / number
    kept = fine[:, :, ::4, ::4]
    points = np.stack(np.meshgrid(times[1:], axis[::4], axis[::4], indexing="ij"), -1)
    values = {f: kept[:, i].ravel() for i, f in enumerate(diffusion)}
    return Truth(points.reshape(-1, 3), values, float(error))


# --- reaction and diffusion -------------------------------------------------------------------


def gray_scott() -> sx.Problem:
    """Spots that divide: slow reactions, thin rims."""
    return sx.Problem(
        sx.Box(t=(0, 200), x=(-1, 1), y=(-1, 1)),
        lambda u, v: {
            "u": u.t - 1e-5 * (u.xx + u.yy) - 0.04 * (1 - u) + u * v**2,
            "v": v.t - 5e-6 * (v.xx + v.yy) + 0.1 * v - u * v**2,
        },
        [
            sx.Initial(lambda x, y: 1 - jnp.exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)), of="u"),
            sx.Initial(lambda x, y: jnp.exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)), of="v"),
            sx.Periodic(),
        ],
        fields=("u", "v"),
        name="gs",
    )


def gray_scott_truth() -> Truth:
    def reaction(u, v):
        return 0.04 - u * v**2, u * v**2

    def start(x, y):
        return (
            1 - np.exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)),
            np.exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)),
        )

    diffusion, shift = {"u": 1e-5, "v": 5e-6}, {"u": 0.04, "v": 0.1}
    return of_waves((-1, 1), 200, diffusion, reaction, start, 512, 50, shift)


def fast_gray_scott() -> sx.Problem:
    """Grey-Scott with reactions at rates of a thousand."""
    return sx.Problem(
        sx.Box(t=(0, 2), x=(-1, 1), y=(-1, 1)),
        lambda u, v: {
            "u": u.t - 0.2 * (u.xx + u.yy) - 40 * (1 - u) + 1000 * u * v**2,
            "v": v.t - 0.1 * (v.xx + v.yy) + 100 * v - 1000 * u * v**2,
        },
        [
            sx.Initial(lambda x, y: 1 - jnp.exp(-10 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)), of="u"),
            sx.Initial(lambda x, y: jnp.exp(-10 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)), of="v"),
            sx.Periodic(),
        ],
        fields=("u", "v"),
        name="grey-scott",
    )


def fast_gray_scott_truth() -> Truth:
    def reaction(u, v):
        return 40 - 1000 * u * v**2, 1000 * u * v**2

    def start(x, y):
        return (
            1 - np.exp(-10 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)),
            np.exp(-10 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)),
        )

    diffusion, shift = {"u": 0.2, "v": 0.1}, {"u": 40.0, "v": 100.0}
    return of_waves((-1, 1), 2, diffusion, reaction, start, 256, 1000, shift)


def ginzburg_landau() -> sx.Problem:
    """Spirals of a complex amplitude A = u + iv."""

    def residual(u, v):
        size = u**2 + v**2
        return {
            "u": u.t - 0.004 * (u.xx + u.yy) - 10 * u + 10 * size * (u - 1.5 * v),
            "v": v.t - 0.004 * (v.xx + v.yy) - 10 * v + 10 * size * (v + 1.5 * u),
        }

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1)),
        residual,
        [
            sx.Initial(lambda x, y: 10 * y * jnp.exp(-25 * (x**2 + y**2)), of="u"),
            sx.Initial(lambda x, y: 10 * x * jnp.exp(-25 * (x**2 + y**2)), of="v"),
            sx.Periodic(),
        ],
        fields=("u", "v"),
        name="ginzburg-landau",
    )


def ginzburg_landau_truth() -> Truth:
    def reaction(u, v):
        size = u**2 + v**2
        return -10 * size * (u - 1.5 * v), -10 * size * (v + 1.5 * u)

    def start(x, y):
        peak = 10 * np.exp(-25 * (x**2 + y**2))
        return y * peak, x * peak

    diffusion, shift = {"u": 0.004, "v": 0.004}, {"u": -10.0, "v": -10.0}
    return of_waves((-1, 1), 1, diffusion, reaction, start, 256, 150, shift)


# --- heat -------------------------------------------------------------------------------------


def many_scales() -> sx.Problem:
    """Heat that is conducted well along one axis alone."""
    return sx.Problem(
        sx.Box(t=(0, 5), x=(0, 1), y=(0, 1)),
        lambda u: u.t - u.xx / (500 * PI) ** 2 - u.yy / PI**2,
        [sx.Initial(lambda x, y: jnp.sin(20 * PI * x) * jnp.sin(PI * y)), sx.Dirichlet(0)],
        name="heat-2d-ms",
    )


def many_scales_truth(t, x, y):
    return np.exp(-t * (1 + 0.04**2)) * np.sin(20 * PI * x) * np.sin(PI * y)


def long_time() -> sx.Problem:
    """Heat with a source that is a function of the heat, over a long time."""

    def residual(u, t, x, y):
        source = 5 * jnp.sin(u.value**2) * (1 + 2 * jnp.sin(PI * t / 4))
        pattern = jnp.sin(4 * PI * x) * jnp.sin(2 * PI * y)
        return u.t - 0.001 * (u.xx + u.yy) - source * pattern

    return sx.Problem(
        sx.Box(t=(0, 100), x=(0, 1), y=(0, 1)),
        residual,
        [sx.Initial(lambda x, y: jnp.sin(4 * PI * x) * jnp.sin(3 * PI * y)), sx.Dirichlet(0)],
        name="heat-2d-lt",
    )


@functools.cache
def _of_sines(number: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    axis = np.arange(1, number) / number
    times = np.linspace(0, 100, INSTANTS + 1)
    k = (PI * np.arange(1, number)) ** 2
    linear = -0.001 * (k[:, None] + k)
    pattern = np.sin(4 * PI * axis)[:, None] * np.sin(2 * PI * axis)

    def rest(v: np.ndarray, t: float) -> np.ndarray:
        u = scipy.fft.idstn(v, type=1)
        return scipy.fft.dstn(5 * np.sin(u**2) * (1 + 2 * np.sin(PI * t / 4)) * pattern, type=1)

    start = np.sin(4 * PI * axis)[:, None] * np.sin(3 * PI * axis)
    each = etdrk4(linear, rest, scipy.fft.dstn(start, type=1), times, steps)
    return times[1:], np.stack([scipy.fft.idstn(v, type=1) for v in each[1:]])


def long_time_truth() -> Truth:
    times, fine = _of_sines(256, 2000)
    _, coarse = _of_sines(128, 1000)
    error = np.linalg.norm(fine[:, 1::2, 1::2] - coarse) / np.linalg.norm(coarse)
    axis = np.arange(1, 256)[1::2] / 256
    points = np.stack(np.meshgrid(times, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    return Truth(points, {"": fine[:, 1::2, 1::2].ravel()}, float(error))


ROWS = {
    "heat-2d-ms": Row(many_scales, known(many_scales, many_scales_truth), 1e-8, 1.40e-2),
    "heat-2d-lt": Row(long_time, long_time_truth, 1e-3, 9.98e-1),
    "gs": Row(gray_scott, gray_scott_truth, 1e-3, 9.33e-2),
    "grey-scott": Row(fast_gray_scott, fast_gray_scott_truth, 1e-4, 8.42e-4, 600.0),
    "ginzburg-landau": Row(ginzburg_landau, ginzburg_landau_truth, 1e-4, 1.49e-2, 600.0),
}
