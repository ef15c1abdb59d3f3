"""Classical solvers on the paper's equations: what a network has to be measured against.

    OPENBLAS_NUM_THREADS=1 python benchmarks/classical.py results/cpu/classical.json

Chebyshev collocation where the domain is a box, waves where it is periodic, corner expansions on
the L-shape. Each solver runs twice and the second time counts; errors are in relative L2, against
exact solutions where there are any, and against the catalogue's references otherwise.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from separax.paper.flow import random_flow
from separax.paper.references import diffusion, lshape, navier_stokes
from separax.paper.references.diffusion import chebyshev
from separax.runs.files import write
from separax.solution.record import environment


def relative(ours: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(ours - true) / np.linalg.norm(true))


def helmholtz(intervals: int = 32) -> Callable[[], float]:
    """Δu + u = q in [-1, 1]³, u = 0 on the faces: diagonal in the eigenvectors of the second
    derivative."""
    x, derivative = chebyshev(intervals)
    inside = x[1:-1]
    waves = np.sin(4 * np.pi * inside), np.sin(4 * np.pi * inside), np.sin(3 * np.pi * inside)
    exact = np.einsum("i,j,k->ijk", *waves)
    values, vectors = np.linalg.eig((derivative @ derivative)[1:-1, 1:-1])
    values, vectors = values.real, vectors.real
    back = np.linalg.inv(vectors)
    u = (1 - 41 * np.pi**2) * exact
    for axis in range(3):
        u = np.moveaxis(np.tensordot(back, u, (1, axis)), 0, axis)
    u = u / (values[:, None, None] + values[:, None] + values + 1)
    for axis in range(3):
        u = np.moveaxis(np.tensordot(vectors, u, (1, axis)), 0, axis)
    return lambda: relative(u, exact)


def klein_gordon(intervals: int = 8) -> Callable[[], float]:
    """u_tt - Δu + u² = f in [-1, 1]², t in [0, 10]: collocation in space, Runge-Kutta of order
    eight in time."""
    x, derivative = chebyshev(intervals)
    second, shape = derivative @ derivative, (intervals + 1,) * 2
    xs, ys = x[:, None], x[None, :]

    def exact(t: float) -> np.ndarray:
        return (xs + ys) * np.cos(2 * t) + xs * ys * np.sin(2 * t)

    def held(t: float, u: np.ndarray) -> np.ndarray:
        """u with the boundary's values, which are known."""
        out = exact(t)
        out[1:-1, 1:-1] = u
        return out

    inner = (intervals - 1, intervals - 1)

    def rate(t: float, both: np.ndarray) -> np.ndarray:
        part, speed = both.reshape(2, *inner)
        u, true = held(t, part), exact(t)
        force = second @ u + u @ second.T - u**2 + true**2 - 4 * true
        return np.concatenate([speed.ravel(), force[1:-1, 1:-1].ravel()])

    start = np.concatenate([exact(0.0)[1:-1, 1:-1].ravel(), (2 * xs * ys)[1:-1, 1:-1].ravel()])
    times = np.linspace(0, 10, 101)
    found = solve_ivp(rate, (0, 10), start, "DOP853", times, rtol=1e-11, atol=1e-12).y[
        : inner[0] ** 2
    ]
    ours = np.stack([held(t, u.reshape(inner)) for t, u in zip(times, found.T)])
    assert ours.shape[1:] == shape
    return lambda: relative(ours, np.stack([exact(t) for t in times]))


def diffusion_equation() -> Callable[[], float]:
    """The reference's own solver with fewer points, against the reference."""
    found = diffusion.solve(resolution=64, instants=16, tolerance=1e-6)
    function = diffusion.interpolated(found)
    axes = (
        np.linspace(0, 1, 101)[:, None, None],
        np.linspace(-1, 1, 101)[:, None],
        np.linspace(-1, 1, 101),
    )
    return lambda: relative(function(*axes), np.asarray(diffusion.reference(*axes)))


def poisson_lshape() -> Callable[[], float]:
    """Corner expansions of a lower degree than the reference's, against the reference."""
    function = lshape.expanded(lshape.solve(singular=12, degree=20))
    x, y = np.meshgrid(np.linspace(-1, 1, 201), np.linspace(-1, 1, 201), indexing="ij")
    inside = (x < 0) | (y < 0)
    return lambda: relative(
        function(x[inside], y[inside]), np.asarray(lshape.reference(x[inside], y[inside]))
    )


def chaotic_flow() -> Callable[[], float]:
    """The reference's own solver with fewer waves, against the reference."""
    flow, times = random_flow(0), np.linspace(0, 1, 21)
    found = navier_stokes.solve(flow.u, flow.v, times, courant=1.0)
    axes = times[:, None, None], found["x"][:, None], found["x"]
    return lambda: relative(
        found["w"], np.asarray(navier_stokes.reference(flow.u, flow.v)["w"](*axes))
    )


METHODS = {
    "helmholtz": (helmholtz, "Chebyshev, 31³ points"),
    "klein-gordon": (klein_gordon, "Chebyshev, 7² points; Runge-Kutta of order 8"),
    "diffusion": (diffusion_equation, "Chebyshev, 63² points; Runge-Kutta of order 5"),
    "poisson-lshape": (poisson_lshape, "corner expansions, 34 terms"),
    "navier-stokes": (chaotic_flow, "pseudo-spectral, 128² points; Runge-Kutta of order 4"),
}


def main() -> None:
    rows: dict[str, Any] = {}
    for problem, (solve, method) in METHODS.items():
        solve()
        started = time.perf_counter()
        error = solve()
        seconds = time.perf_counter() - started
        rows[problem] = {"method": method, "seconds": seconds, "relative_l2": error()}
        print(f"{problem:16} {method:48} {seconds:8.3f} s   {rows[problem]['relative_l2']:.1e}")
    if len(sys.argv) > 1:
        kept = {
            "command": f"python {' '.join(sys.argv)}",
            "threads": os.environ.get("OPENBLAS_NUM_THREADS"),
            "rows": rows,
            **environment(),
        }
        write(Path(sys.argv[1]), (json.dumps(kept, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
