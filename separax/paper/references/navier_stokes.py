"""Incompressible flow in the periodic square, in 2+1 axes.

    ω_t + u ω_x + v ω_y = ν Δω,   ω = v_x - u_y,   u_x + v_y = 0   in [0, 2π]²,
    u and v given at t = 0,   ν = 0.01.

Fourier series in space. With u and v without divergence the nonlinear term is (v² - u²)_xy +
(uv)_xx - (uv)_yy: two transforms there and two back. Of n points per axis waves up to a third of n
are kept, so that products alias onto none of them. The mean velocity never changes; what it and
viscosity do to a wave, a factor, is done exactly, and the rest by the classical Runge-Kutta method
of order four.

Between its instants `reference` is a polynomial in time, locally. In space it is the Fourier series
itself on a lattice, and a polynomial between the points of a finer grid, locally, at scattered
points: to 1e-9 of the largest value the same.

The stated errors of `reference` are relative, in L2 over the box, for a flow like `random_flow()`:
until t = 1, against twice the resolution and half the time step, 2e-7 of the vorticity and 4e-8 of
the velocity were measured, most of it from the time step. It takes about seven seconds to make and
83 MB to keep. On fewer points `solve` takes 0.4, 1.2 and 3 seconds with 128, 192 and 256 per axis,
and errs by 9e-3, 7e-4 and 5e-5 of the vorticity, and by 1e-3, 5e-5 and 2e-6 of the velocity.
"""

from __future__ import annotations

import functools
import hashlib
import math
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import InputError, finite, shown, whole
from ..flow import (
    DIVERGENCE,
    LEAST,
    LENGTH,
    Flow,
    coefficients,
    on_lattice,
    up_to,
    values,
    velocity_symbols,
    wavenumbers,
)
from .computed import Axis, Computed, Table, cached, lattice_order

VISCOSITY = 0.01
RESOLUTION = 384  # points per axis of `reference`, or more where the initial arrays need them
# relative L2 over the box, of `reference` from `random_flow()`
STATED_ERROR = {"u": 1e-7, "v": 1e-7, "w": 5e-7}
COURANT = 1.0  # cells of the grid that the fluid may cross in one time step of `reference`
APART = 2.0  # cells that it may cross between two instants of `reference`
STENCIL = 10  # instants each value draws on, and points per axis where they are scattered
TAIL = 1e-4  # relative: how much the finest waves of `reference` may hold without a word
VERSION = 1  # of the solver: another number, and what is in the cache is computed again


def solve(
    u0: Any,
    v0: Any,
    times: Any,
    viscosity: float = VISCOSITY,
    resolution: int | None = None,
    points: int | None = None,
    courant: float = 0.5,
) -> dict[str, np.ndarray]:
    """The flow at some instants: arrays `t`, `x` (the points along y are the same), and `u`, `v`
    and the vorticity `w`.

    Arguments:
        u0, v0: the velocities at t = 0, arrays (n, n) indexed [x, y].
        times: instants from 0 on, in order.
        viscosity: ν; may be zero.
        resolution: points per axis to solve on; as many as u0 and v0 have unless given.
        points: per axis of the arrays returned; the resolution unless given.
        courant: how many cells of the grid the fluid may cross in a time step; up to 1.3 is stable.
    """
    flow, viscosity = _checked(u0, v0, viscosity)
    times = _instants(times)
    resolution = whole("resolution", flow.points if resolution is None else resolution, LEAST)
    points = whole("points", resolution if points is None else points, LEAST)
    series = march(flow, times, viscosity, resolution, finite("courant", courant, positive=True))
    highest, fields = series.shape[-1] - 1, {"w": series}
    for name, symbol, mean in zip("uv", velocity_symbols(highest), flow.mean):
        fields[name] = symbol * series
        fields[name][:, 0, 0] = mean
    held = min(highest, (points + 1) // 2 - 1)  # what a coarser grid cannot hold is left out
    found = {name: values(up_to(held, field), points) for name, field in fields.items()}
    return {"t": times, "x": LENGTH * np.arange(points) / points, **found}


def march(
    flow: Flow, times: np.ndarray, viscosity: float, resolution: int, courant: float
) -> np.ndarray:
    """The Fourier coefficients of the vorticity at the instants, as `coefficients` orders them."""
    highest = (resolution - 1) // 3
    kx, ky = wavenumbers(highest)
    of_squares, of_product = kx * ky, kx**2 - ky**2
    symbols = np.stack(velocity_symbols(highest))
    rates = -viscosity * (kx**2 + ky**2) - 1j * (kx * flow.mean[0] + ky * flow.mean[1])

    def bent(w: np.ndarray) -> tuple[np.ndarray, float]:
        """The nonlinear part of ω_t, without what the mean velocity does; the largest |u| + |v|."""
        u, v = values(symbols * w, resolution)
        squares, product = coefficients(np.stack([v * v - u * u, u * v]), highest)
        return of_squares * squares + of_product * product, float((np.abs(u) + np.abs(v)).max())

    w = coefficients(flow.resampled(resolution).vorticity, highest)
    t, found = 0.0, []
    for until in times:
        while t < until:
            first, speed = bent(w)
            steps = max(1, math.ceil((until - t) * speed * resolution / (courant * LENGTH)))
            step = (until - t) / steps
            half = np.exp(step / 2 * rates)
            second, _ = bent(half * (w + step / 2 * first))
            third, _ = bent(half * w + step / 2 * second)
            fourth, _ = bent(half * (half * w + step * third))
            w = half * (half * (w + step / 6 * first) + step / 3 * (second + third))
            w = w + step / 6 * fourth
            t = until if steps == 1 else t + step
        found.append(w)
    return np.stack(found)


def _checked(u0: Any, v0: Any, viscosity: Any) -> tuple[Flow, float]:
    try:
        flow = Flow(u0, v0)
    except InputError as error:
        raise InputError(f"u0 and v0: {error}") from None
    viscosity = finite("viscosity", viscosity)
    if viscosity < 0:
        raise InputError(
            f"viscosity must be zero or more, got {viscosity!r}: write viscosity={-viscosity!r}"
        )
    if flow.divergence > DIVERGENCE:
        raise InputError(
            f"u0 and v0 have a divergence of {flow.divergence:.1e} relative to their gradients:"
            " write flow = Flow(u0, v0).projected(), and give flow.u and flow.v"
        )
    return flow, viscosity


def _instants(times: Any) -> np.ndarray:
    instants = np.atleast_1d(np.asarray(times, np.float64))
    listed = instants.ndim == 1 and len(instants) > 0 and np.isfinite(instants).all()
    if not listed or instants[0] < 0 or (np.diff(instants) <= 0).any():
        raise InputError(
            f"times must be numbers from 0 on, each larger than the last, got {shown(times)}: write"
            " e.g. times=[0, 0.5, 1]"
        )
    return instants


@dataclass(frozen=True)
class Between:
    """A field as a function of t, x and y: the vorticity's Fourier coefficients at instants, times
    a symbol, plus a mean."""

    time: Axis
    vorticity: np.ndarray
    symbol: Any
    mean: float

    def __call__(self, t: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(t.shape, x.shape, y.shape)
        order = lattice_order((t, x, y), len(shape))
        if order is None:
            return self._at(*(np.broadcast_to(c, shape).ravel() for c in (t, x, y))).reshape(shape)
        matrix = self.time.matrix(t.ravel())
        used = matrix.any(axis=0)  # a window draws on few of the instants
        series = self.symbol * np.tensordot(matrix[:, used], self.vorticity[used], 1)
        return self.mean + on_lattice(series, x.ravel(), y.ravel()).transpose(order).reshape(shape)

    def _at(self, t: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One instant after the other, so that only one of them lies on a fine grid at a time."""
        x, y = np.mod(x, LENGTH), np.mod(y, LENGTH)
        places, weights = self.time.weights(t)
        found = np.full(len(t), self.mean)
        for instant in np.unique(places):
            points, column = np.nonzero(places == instant)
            found[points] += weights[points, column] * self._fine(instant)(x[points], y[points])
        return found

    def _fine(self, instant: int) -> Table:
        """The field at one instant on a fine grid, continued beyond its ends."""
        points = 6 * self.vorticity.shape[-1]  # for each of the finest waves
        axis = Axis(LENGTH * np.arange(-STENCIL, points + STENCIL + 1) / points, STENCIL)
        grid = values(self.symbol * self.vorticity[instant], points)
        return Table((axis, axis), np.pad(grid, (STENCIL, STENCIL + 1), mode="wrap"))


def interpolated(
    times: np.ndarray, vorticity: np.ndarray, mean: Sequence[float]
) -> dict[str, Between]:
    """What `march` returned as functions of t, x and y, periodic in x and y: u, v and w."""
    time, symbols = Axis(times, STENCIL), velocity_symbols(vorticity.shape[-1] - 1)
    velocities = {
        name: Between(time, vorticity, symbol, m) for name, symbol, m in zip("uv", symbols, mean)
    }
    return velocities | {"w": Between(time, vorticity, 1.0, 0.0)}


def reference(
    u0: Any, v0: Any, viscosity: float = VISCOSITY, end: float = 1.0, resolution: int | None = None
) -> dict[str, Computed]:
    """The flow from u0 and v0 until t = `end`: functions of t, x and y by name, u, v and the
    vorticity w.

    Arguments:
        u0, v0: the velocities at t = 0, arrays (n, n) indexed [x, y].
        viscosity: ν; may be zero.
        end: the last instant.
        resolution: points per axis to solve on; unless given 384, or as many as keep all the waves
            that u0 and v0 hold.
    """
    flow, viscosity = _checked(u0, v0, viscosity)
    end = finite("end", end, positive=True)
    if resolution is None:
        resolution = max(RESOLUTION, 3 * flow.points // 2)
    resolution = whole("resolution", resolution, LEAST)
    lock, made = threading.Lock(), {}

    def make(name: str) -> Between:
        with lock:  # the three are made together, once
            if not made:
                made.update(_made(flow, viscosity, end, resolution))
            return made[name]

    return {
        name: Computed(f"navier-stokes {name}", ("t", "x", "y"), functools.partial(make, name))
        for name in ("u", "v", "w")
    }


def _made(flow: Flow, viscosity: float, end: float, resolution: int) -> dict[str, Between]:
    initial = hashlib.sha256(flow.u.tobytes() + flow.v.tobytes()).hexdigest()
    settings = {"viscosity": viscosity, "end": end, "resolution": resolution}
    settings |= {"courant": COURANT, "apart": APART}

    def compute() -> dict[str, np.ndarray]:
        number = max(STENCIL, math.ceil(end * _rate(flow, viscosity, resolution)))
        times = np.linspace(0, end, 1 + number)
        # closer at the start, where no earlier ones help
        times = np.sort(np.r_[times, times[1:STENCIL:2] / 2])
        return {"t": times, "vorticity": march(flow, times, viscosity, resolution, COURANT)}

    found = cached("navier-stokes", {"initial": initial, **settings, "version": VERSION}, compute)
    if (tail := finest(found["vorticity"])) > TAIL:
        warnings.warn(
            f"navier_stokes.reference: the finest waves hold {tail:.1e} of the vorticity, and its"
            f" error is of that size: write resolution={3 * resolution // 2}",
            stacklevel=2,
        )
    return interpolated(found["t"], found["vorticity"], flow.mean)


def _rate(flow: Flow, viscosity: float, resolution: int) -> float:
    """How many instants to keep in a unit of time."""
    highest = (flow.points - 1) // 2
    kx, ky = wavenumbers(highest)
    energy = np.abs(coefficients(flow.vorticity, highest)) ** 2
    decay = viscosity * ((kx**2 + ky**2) * energy).sum() / max(energy.sum(), 1e-300)
    return max(flow.max_speed * resolution / (APART * LENGTH), 16 * decay)


def finest(vorticity: np.ndarray) -> float:
    """What the finest tenth of the waves hold, relative to all of them, where it is most: the error
    is of that size."""
    kx, ky = wavenumbers(vorticity.shape[-1] - 1)
    squares = np.abs(vorticity) ** 2
    edge = np.maximum(np.abs(kx), ky) > 0.9 * ky[-1]
    whole = squares.sum(axis=(1, 2))
    return float(np.sqrt(squares[:, edge].sum(axis=1) / np.where(whole > 0, whole, 1)).max())
