"""Fronts, waves, long times: what `sx.solve(problem)` makes of equations that evolve, without a word
about how.

    python benchmarks/fronts.py --out results/cpu/fronts.json
    python benchmarks/fronts.py --only burgers lorenz

References are exact or computed here by other means: quadrature of Cole and Hopf's formula, Fourier
modes with exponential Runge-Kutta steps (ETDRK4) or split steps, Taylor series in 80-bit numbers,
SciPy's DOP853. Each is computed twice, the second time coarser; how far the two are apart is kept
beside every row (`reference_error`). `seconds` are those of `sx.solve(problem)`, from the problem to
the solution, compiling and all; `load` is what else the machine did.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
from recording import keep

import separax as sx

PI = math.pi
TIMES, PLACES = 40, 257
Reference = Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # of t, x, and how fine: 1 or 2


@dataclass(frozen=True)
class Row:
    """A problem, the truth by field (fields, times, places), and the error and seconds to reach."""

    problem: Callable[[], sx.Problem]
    truth: Reference
    error: float
    seconds: float


# --- references ------------------------------------------------------------------------------------


def cole_hopf(t: np.ndarray, x: np.ndarray, fine: int, viscosity: float = 0.01 / PI) -> np.ndarray:
    """Quotients of Gaussian integrals by the trapezoidal rule."""
    y = np.linspace(-13, 13, 10_000 * fine + 1)
    found = []
    for time_ in t:
        own = []
        for at in x:
            shifted = at - np.sqrt(4 * viscosity * time_) * y
            log = -np.cos(PI * shifted) / (2 * PI * viscosity) - y**2
            w = np.exp(log - log.max())
            own.append(-(w * np.sin(PI * shifted)).sum() / w.sum())
        found.append(own)
    return np.array(found)[None]


def etdrk4(
    start: Callable[[np.ndarray], np.ndarray],
    bounds: tuple[float, float],
    linear: Callable[[np.ndarray], np.ndarray],
    nonlinear: Callable[[np.ndarray, np.ndarray], np.ndarray],
    modes: int,
    steps: int,
) -> Reference:
    """Fourier modes with Cox and Matthews' exponential Runge-Kutta steps of order four.

    Arguments:
        linear: from i k to the factor of a mode in u_t.
        nonlinear: from the modes and i k to what else is in u_t.
        modes, steps: of the finer run; the coarser has half as many of both.
    """

    def truth(t: np.ndarray, x: np.ndarray, fine: int) -> np.ndarray:
        number, each = modes * fine // 2, max(1, math.ceil(steps * fine / 2 / (len(t))))
        lower, upper = bounds
        grid = lower + (upper - lower) * np.arange(number) / number
        ik = 2j * PI / (upper - lower) * np.arange(number // 2 + 1)
        u, own = np.fft.rfft(start(grid)), linear(ik).astype(complex)
        found, before = [], 0.0
        circle = np.exp(1j * PI * (np.arange(32) + 0.5) / 16)
        for end in t:
            h = (end - before) / each
            full, half = np.exp(h * own), np.exp(h * own / 2)
            z = h * own[:, None] + circle
            e = np.exp(z)
            q = h * np.mean((np.exp(z / 2) - 1) / z, 1)
            a = h * np.mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3, 1)
            b = h * np.mean((2 + z + e * (z - 2)) / z**3, 1)
            c = h * np.mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3, 1)
            for _ in range(each):
                n1 = nonlinear(u, ik)
                p = half * u + q * n1
                n2 = nonlinear(p, ik)
                r = half * u + q * n2
                n3 = nonlinear(r, ik)
                n4 = nonlinear(half * p + q * (2 * n3 - n1), ik)
                u = full * u + a * n1 + 2 * b * (n2 + n3) + c * n4
            phases = np.exp(ik * (x[:, None] - lower))
            weights = np.r_[1, 2 * np.ones(len(ik) - 1)] / number
            found.append((phases @ (weights * u)).real)
            before = end
        return np.array(found)[None]

    return truth


def advected(speed: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """-speed u u_x, of modes without those that would be taken for others."""

    def term(u: np.ndarray, ik: np.ndarray) -> np.ndarray:
        kept = np.where(np.arange(len(u)) < 2 * len(u) / 3, u, 0)
        return -speed / 2 * ik * np.fft.rfft(np.fft.irfft(kept) ** 2)

    return term


def reaction(u: np.ndarray, ik: np.ndarray) -> np.ndarray:
    values = np.fft.irfft(u)
    return np.fft.rfft(5 * values - 5 * values**3)


def schroedinger(t: np.ndarray, x: np.ndarray, fine: int) -> np.ndarray:
    """i h_t + h_xx / 2 + |h|² h = 0 by split steps of order four."""
    number, steps = 4096 * fine, 2_000 * fine
    grid = -5 + 10 * np.arange(number) / number
    k = 2 * PI / 10 * np.fft.fftfreq(number, 1 / number)
    h, found, before = 2 / np.cosh(grid) + 0j, [], 0.0
    each = steps // len(t)
    third = 2 ** (1 / 3)
    parts = [1 / (2 - third), -third / (2 - third), 1 / (2 - third)]
    for end in t:
        dt = (end - before) / each
        turns = [np.exp(-0.5j * k**2 * dt * share) for share in parts]
        for _ in range(each):
            for share, turn in zip(parts, turns):
                h = h * np.exp(0.5j * dt * share * np.abs(h) ** 2)
                h = np.fft.ifft(turn * np.fft.fft(h))
                h = h * np.exp(0.5j * dt * share * np.abs(h) ** 2)
        values = np.exp(1j * np.outer(x + 5, k)) @ np.fft.fft(h) / number
        found.append(values)
        before = end
    each_field = np.array(found)
    return np.stack([each_field.real, each_field.imag])


def taylor(
    rate: Callable[..., Sequence[Any]], start: Sequence[float], step: float, order: int = 24
) -> Reference:
    """Taylor series in 80-bit numbers. `rate(product, *series)` gives the coefficients of the
    derivatives, `product(a, b)` being that of two series."""

    def truth(t: np.ndarray, x: np.ndarray, fine: int) -> np.ndarray:
        u, before, found = [np.longdouble(v) for v in start], np.longdouble(0), []
        for end in t.astype(np.longdouble):
            number = max(1, int(np.ceil(float(end - before) * fine / step)))
            h = (end - before) / number
            for _ in range(number):
                series = [[v] for v in u]
                for k in range(order):
                    at = rate(
                        lambda a, b, k=k: sum(a[i] * b[k - i] for i in range(k + 1)),
                        lambda a, k=k: a[k],
                        *series,
                    )
                    for own, value in zip(series, at):
                        own.append(value / (k + 1))
                u = [sum(c * h**k for k, c in enumerate(own)) for own in series]
            found.append([float(v) for v in u])
            before = end
        return np.array(found).T[..., None]

    return truth


def integrated(t: np.ndarray, x: np.ndarray, fine: int) -> np.ndarray:
    """van der Pol's equation, by SciPy's DOP853."""
    allowed = 1e-12 if fine == 1 else 1e-13
    found = scipy.integrate.solve_ivp(
        lambda t, u: [u[1], 100 * (1 - u[0] ** 2) * u[1] - u[0]],
        (0, 200), [2.0, 0.0], "DOP853", t, rtol=allowed, atol=allowed / 100,
    )  # fmt: skip
    return found.y[:1, :, None]


def known(function: Callable[..., Any]) -> Reference:
    """A formula of t, or of t and x."""

    def truth(t: np.ndarray, x: np.ndarray, fine: int) -> np.ndarray:
        with jax.enable_x64(True):
            found = function(t[:, None], x)
        return np.broadcast_to(np.asarray(found), (len(t), len(x)))[None]

    return truth


def sines(start: Callable[[np.ndarray], np.ndarray], number: int = 4_000) -> Reference:
    """Heat between cold ends, by the coefficients of its start."""

    def truth(t: np.ndarray, x: np.ndarray, fine: int) -> np.ndarray:
        k = np.arange(1, number * fine)
        modes = np.exp(-np.outer(t, (PI * k) ** 2)) * start(k)
        return (modes @ np.sin(PI * np.outer(k, x)))[None]

    return truth


# --- problems --------------------------------------------------------------------------------------


def on(
    residual: Callable[..., Any], start: Any, end: float, x: tuple[float, float], *more: Any
) -> Any:
    """A problem of one field in t and x."""
    return lambda: sx.Problem(
        sx.Box(t=(0, end), x=x), residual, [sx.Initial(start), *(more or (sx.Periodic(),))]
    )


def system(residual: Callable[..., Any], starts: dict[str, float], end: float) -> Any:
    """A problem of several fields in t."""
    return lambda: sx.Problem(
        sx.Box(t=(0, end)),
        residual,
        [sx.Initial(value, of=field) for field, value in starts.items()],
        fields=tuple(starts),
    )


def second_order(residual: Callable[..., Any], start: float, end: float) -> Any:
    return lambda: sx.Problem(
        sx.Box(t=(0, end)), residual, [sx.Initial(start), sx.Initial(0.0, of=lambda u: u.t)]
    )


def focusing(u: Any, v: Any) -> dict[str, Any]:
    square = u**2 + v**2
    return {"real": -v.t + 0.5 * u.xx + square * u, "imaginary": u.t + 0.5 * v.xx + square * v}


def waves() -> sx.Problem:
    return sx.Problem(
        sx.Box(t=(0, PI / 2), x=(-5, 5)),
        focusing,
        [sx.Initial(lambda x: 2 / jnp.cosh(x), of="u"), sx.Initial(0.0, of="v"), sx.Periodic()],
        fields=("u", "v"),
    )


def lorenz(x: Any, y: Any, z: Any) -> dict[str, Any]:
    return {"x": x.t - 10 * (y - x), "y": y.t - x * (28 - z) + y, "z": z.t - x * y + 8 / 3 * z}


def prey(x: Any, y: Any) -> dict[str, Any]:
    return {"x": x.t - 2 / 3 * x + 4 / 3 * x * y, "y": y.t - x * y + y}


def prey_rate(product: Any, now: Any, x: Any, y: Any) -> list[Any]:
    xy = product(x, y)
    return [(2 * now(x) - 4 * xy) / 3, xy - now(y)]


def lorenz_rate(product: Any, now: Any, x: Any, y: Any, z: Any) -> list[Any]:
    return [
        10 * (now(y) - now(x)),
        28 * now(x) - product(x, z) - now(y),
        product(x, y) - 8 * now(z) / 3,
    ]


def pulse(t: Any, x: Any) -> Any:
    return jnp.exp(-(((x - t - 0.2) * 50) ** 2) / 2)


def hat(k: np.ndarray) -> np.ndarray:
    return 8 / (PI * k) ** 2 * np.sin(PI * k / 2)


def step(k: np.ndarray) -> np.ndarray:
    return 2 / (PI * k) * (np.cos(0.3 * PI * k) - np.cos(0.7 * PI * k))


def chaotic(x: Any) -> Any:
    return np.cos(x) * (1 + np.sin(x))


UNIT, KS = (-1.0, 1.0), 100 / 16
ROWS = {
    "burgers": Row(
        on(lambda u: u.t + u * u.x - 0.01 / PI * u.xx, lambda x: -jnp.sin(PI * x), 1, UNIT, sx.Dirichlet(0)),
        cole_hopf, 1e-6, 20,
    ),
    "allen-cahn": Row(
        on(lambda u: u.t - 1e-4 * u.xx - 5 * u + 5 * u**3, lambda x: x**2 * jnp.cos(PI * x), 1, UNIT),
        etdrk4(lambda x: x**2 * np.cos(PI * x), UNIT, lambda k: 1e-4 * k**2, reaction, 16_384, 1_000),
        1e-6, 30,
    ),
    "kdv": Row(
        on(lambda u: u.t + u * u.x + 0.022**2 * u.xxx, lambda x: jnp.cos(PI * x), 1, UNIT),
        etdrk4(lambda x: np.cos(PI * x), UNIT, lambda k: -(0.022**2) * k**3, advected(1), 1024, 20_000),
        1e-7, 30,
    ),
    "kuramoto-sivashinsky": Row(
        on(lambda u: u.t + 5 * u * u.x + 0.5 * u.xx + 0.005 * u.xxxx, lambda x: -jnp.sin(PI * x), 1, UNIT),
        etdrk4(lambda x: -np.sin(PI * x), UNIT, lambda k: -0.5 * k**2 - 0.005 * k**4, advected(5), 512, 20_000),
        1e-6, 60,
    ),
    "kuramoto-sivashinsky, chaotic": Row(
        on(
            lambda u: u.t + KS * u * u.x + 100 / 16**2 * u.xx + 100 / 16**4 * u.xxxx,
            lambda x: jnp.cos(x) * (1 + jnp.sin(x)), 1, (0, 2 * PI),
        ),
        etdrk4(
            chaotic, (0, 2 * PI), lambda k: -100 / 16**2 * k**2 - 100 / 16**4 * k**4, advected(KS), 512, 25_000,
        ),
        1e-5, 120,
    ),
    "schroedinger": Row(waves, schroedinger, 1e-6, 60),
    "lotka-volterra": Row(
        system(prey, {"x": 4.0, "y": 0.1}, 60), taylor(prey_rate, (4.0, 0.1), 0.05), 1e-8, 10
    ),
    "lotka-volterra, from (1, 1)": Row(
        system(prey, {"x": 1.0, "y": 1.0}, 25), taylor(prey_rate, (1.0, 1.0), 0.05), 1e-8, 10
    ),
    "lorenz": Row(
        system(lorenz, {"x": 1.0, "y": 1.0, "z": 1.0}, 20), taylor(lorenz_rate, (1.0, 1.0, 1.0), 0.02), 1e-5, 30
    ),
    "van der pol": Row(
        second_order(lambda u: u.tt - 100 * (1 - u**2) * u.t + u, 2.0, 200), integrated, 1e-6, 30
    ),
    "oscillator": Row(
        second_order(lambda u: u.tt + 100**2 * u, 1.0, 10), known(lambda t, x: jnp.cos(100 * t)), 1e-8, 10
    ),
    "blow-up": Row(
        lambda: sx.Problem(sx.Box(t=(0, 0.99)), lambda u: u.t - u**2, [sx.Initial(1.0)]),
        known(lambda t, x: 1 / (1 - t)), 1e-8, 30,
    ),
    "pulse": Row(
        on(
            lambda u: u.t + u.x, lambda x: pulse(0.0, x), 1, (0, 2),
            sx.Dirichlet(lambda t: pulse(t, 0.0), on="x-"),
        ),
        known(pulse), 1e-6, 30,
    ),
    "heat from a hat": Row(
        on(lambda u: u.t - u.xx, lambda x: 2 * jnp.minimum(x, 1 - x), 0.1, (0, 1), sx.Dirichlet(0)),
        sines(hat), 1e-4, 30,
    ),
    "heat from a step": Row(
        on(
            lambda u: u.t - u.xx, lambda x: jnp.where(jnp.abs(x - 0.5) < 0.2, 1.0, 0.0), 0.1, (0, 1),
            sx.Dirichlet(0),
        ),
        sines(step), 1e-4, 30,
    ),
}  # fmt: skip


def relative(one: np.ndarray, other: np.ndarray) -> float:
    """The relative L2 difference, of the field that is worst."""
    axes = tuple(range(1, one.ndim))
    return float(np.max(np.sqrt(np.sum((one - other) ** 2, axes) / np.sum(other**2, axes))))


def measured(name: str, row: Row) -> dict[str, Any]:
    jax.clear_caches()
    load, problem = os.getloadavg()[0], row.problem()
    started, worked = time.perf_counter(), time.process_time()
    found = sx.solve(problem, progress=False)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    assert isinstance(found, sx.Solution)
    box = problem.box
    t = np.linspace(*box["t"], TIMES + 1)[1:]
    x = np.linspace(*box["x"], PLACES) if "x" in box.axes else np.zeros(1)
    fine, coarse = row.truth(t, x, 2), row.truth(t, x, 1)
    values = found(t=t, x=x) if "x" in box.axes else found(t=t)
    each = list(values.values()) if isinstance(values, dict) else [values]
    ours = np.stack([np.asarray(v, float).reshape(len(t), -1) for v in each])
    error = relative(ours, fine)
    return {
        "problem": name,
        "relative_l2": error,
        "reference_error": relative(coarse, fine),
        "estimate": found.estimate,
        "overstated": None if found.estimate is None else found.estimate / error,
        "seconds": seconds,
        "processor_seconds": processor,
        "load": load,
        "to_reach": {"relative_l2": row.error, "seconds": row.seconds},
        "levels": [vars(level) for level in found.levels],
        "windows": len(found.pieces),
        "advice": list(found.advice),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=list(ROWS), help="of the problems"
    )
    parser.add_argument("--out", default="-")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.only or ROWS:
        rows.append(row := measured(name, ROWS[name]))
        print(
            f"{name:30} error {row['relative_l2']:.1e} (reference {row['reference_error']:.0e})"
            f"   estimate {row['estimate']:.1e}   {row['seconds']:.1f} s, {row['processor_seconds']:.1f}"
            f" of the processor, load {row['load']:.0f}",
            file=sys.stderr,
            flush=True,
        )
        if options.out != "-":
            keep(options.out, {"rows": rows})
    if options.out == "-":
        keep(options.out, {"rows": rows})


if __name__ == "__main__":
    main()
