"""Rows of the benchmark without time: Poisson's equation around holes and on tables, flows that
stand still.

References: around four equal discs, multipoles (spectral); on tables, finite elements, refined;
for the other rows there are only splines with a smaller tolerance, compared with coarser ones: the
same method, and so no proof.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from row import Row, Truth

import separax as sx

PI = math.pi


def without(balls: Sequence[tuple[float, ...]]) -> Callable[..., jnp.ndarray]:
    """Negative outside of all balls (centre, radius)."""

    def apart(centre: Sequence[float], radius: float, at: Sequence[jnp.ndarray]) -> jnp.ndarray:
        return radius - jnp.sqrt(sum((x - c) ** 2 for x, c in zip(at, centre)))

    def of(*at: jnp.ndarray) -> jnp.ndarray:
        return functools.reduce(jnp.maximum, [apart(b[:-1], b[-1], at) for b in balls])

    return of


def outer_value(size: float, outside: float, on_discs: float) -> Callable[..., jnp.ndarray]:
    """One number on the sides of a square, another on the discs."""

    def value(x, y):
        on_side = jnp.maximum(jnp.abs(x), jnp.abs(y)) > size - 1e-9
        return jnp.where(on_side, outside, on_discs)

    return value


def inside_points(problem: sx.Problem, number: int = 20_000) -> np.ndarray:
    low, high = np.transpose([problem.box[a] for a in problem.box.axes])
    points = np.random.default_rng(0).uniform(low, high, (number, len(low)))
    return points if problem.shape is None else points[problem.shape.contains(points)]


def finer(problem: Callable[[], sx.Problem], tolerance: float) -> Callable[[], Truth]:
    """The truth as splines have it with a tolerance, and its distance from a coarser one."""

    def truth() -> Truth:
        of = problem()
        points = inside_points(of)
        each = []
        for asked in (10 * tolerance, tolerance):
            at = sx.solve(of, tolerance=asked, progress=False).at(points)
            each.append(
                {k: np.asarray(v) for k, v in (at if isinstance(at, dict) else {"": at}).items()}
            )
        coarse, fine = (np.concatenate(list(one.values())) for one in each)
        return Truth(points, each[1], float(np.linalg.norm(fine - coarse) / np.linalg.norm(fine)))

    return truth


# --- Poisson's equation --------------------------------------------------------------------------

FOUR = [(x, y, 0.1) for x in (-0.3, 0.3) for y in (-0.3, 0.3)]
SEVERAL = [(0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3)]
BALLS = [(0.4, 0.3, 0.6, 0.2), (0.6, 0.7, 0.6, 0.2), (0.2, 0.8, 0.7, 0.1), (0.6, 0.2, 0.3, 0.1)]


def four_discs() -> sx.Problem:
    """Δu = 0, 1 outside and 0 on four discs."""
    of = without(FOUR)
    return sx.Problem(
        sx.Box(x=(-0.5, 0.5), y=(-0.5, 0.5)),
        lambda u: u.xx + u.yy,
        [sx.Dirichlet(outer_value(0.5, 1.0, 0.0))],
        inside=lambda x, y: of(x, y),
        name="poisson-2d-c",
    )


def several_discs() -> sx.Problem:
    """-Δu + 64 u = f, 0.2 outside and 1 on four discs."""
    of = without(SEVERAL)

    def equation(u, x, y):
        source = 10 * (17 + x**2 + y**2) * jnp.sin(PI * x) * jnp.sin(4 * PI * y)
        return -u.xx - u.yy + 64 * u - source

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        equation,
        [sx.Dirichlet(outer_value(1.0, 0.2, 1.0))],
        inside=lambda x, y: of(x, y),
        name="poisson-2d-cg",
    )


def four_balls() -> sx.Problem:
    """-Δu + k² u = f around four balls, with a k that jumps; nothing flows out."""
    of = without(BALLS)

    def equation(u, x, y, z):
        waves = jnp.sin(PI * x), jnp.sin(10 * PI * y), jnp.sin(5 * PI * z)
        square = x**2 + y**2 + z**2
        source = 20 * jnp.exp(sum(waves)) * (square - 1) / (square + 1)
        source = source + 100 * waves[0] * waves[1] * waves[2]
        return -u.xx - u.yy - u.zz + jnp.where(z < 0.5, 64.0, 100.0) * u - source

    return sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1), z=(0, 1)),
        equation,
        [sx.Neumann(0)],
        inside=lambda x, y, z: of(x, y, z),
        name="poisson-3d-cg",
    )


# the benchmark's own tables are not public: coefficients log-uniform in [0.1, 10], sources normal
TABLE = np.exp(np.random.default_rng(2306).uniform(-math.log(10), math.log(10), (5, 5)))
SOURCES = np.random.default_rng(8827).normal(size=(5, 5))


def tables() -> sx.Problem:
    """a Δu + f = 0, a and f from tables of squares."""

    def equation(u, x, y):
        coefficients, sources = jnp.asarray(TABLE), jnp.asarray(SOURCES)
        i = jnp.clip((x + 10) // 4, 0, 4).astype(int)
        j = jnp.clip((y + 10) // 4, 0, 4).astype(int)
        return coefficients[i, j] * (u.xx + u.yy) + sources[i, j]

    box = sx.Box(x=(-10, 10), y=(-10, 10))
    return sx.Problem(box, equation, [sx.Robin(0, 1, 1)], name="poisson-2d-ms")


def multipoles() -> Truth:
    """Harmonic polynomials and poles of growing order in the discs, fitted to what is given."""

    def functions(z: np.ndarray, order: int) -> np.ndarray:
        columns = [np.ones(len(z))]
        for k in range(1, 2 * order + 1):
            columns += [((z / 0.7) ** k).real, ((z / 0.7) ** k).imag]
        for x, y, radius in FOUR:
            w = (z - (x + 1j * y)) / radius
            columns.append(np.log(np.abs(w)))
            for k in range(1, order + 1):
                columns += [(w**-k).real, (w**-k).imag]
        return np.stack(columns, 1)

    s = np.cos(PI * (np.arange(200) + 0.5) / 200) / 2
    angle = 2 * PI * np.arange(200) / 200
    sides = np.concatenate([s + 0.5j, s - 0.5j, 0.5 + 1j * s, -0.5 + 1j * s])
    circles = np.concatenate([x + 1j * y + r * np.exp(1j * angle) for x, y, r in FOUR])
    known = np.r_[np.ones(len(sides)), np.zeros(len(circles))]
    points = inside_points(four_discs())
    values = []
    for order in (20, 28):
        matrix = functions(np.r_[sides, circles], order)
        found = np.linalg.lstsq(matrix, known, rcond=1e-15)[0]
        values.append(functions(points @ [1, 1j], order) @ found)
    error = np.linalg.norm(values[1] - values[0]) / np.linalg.norm(values[1])
    return Truth(points, {"": values[1]}, float(error))


def finite_elements() -> Truth:
    """-Δu = f/a with ∂u/∂n = -u on squares of quadratic elements, twice as many the second time."""
    import skfem

    coarse, values = np.linspace(-10, 10, 5 * 2**4 + 1), []
    points = np.stack(np.meshgrid(coarse, coarse, indexing="ij"), -1).reshape(-1, 2)
    for halvings in (4, 5):
        line = np.linspace(-10, 10, 5 * 2**halvings + 1)
        basis = skfem.Basis(skfem.MeshQuad.init_tensor(line, line), skfem.ElementQuad2())

        @skfem.BilinearForm
        def stiffness(u, v, w):
            return u.grad[0] * v.grad[0] + u.grad[1] * v.grad[1]

        @skfem.BilinearForm
        def mass(u, v, w):
            return u * v

        @skfem.LinearForm
        def load(v, w):
            i, j = (np.clip((x + 10) // 4, 0, 4).astype(int) for x in w.x)
            return SOURCES[i, j] / TABLE[i, j] * v

        matrix = stiffness.assemble(basis) + mass.assemble(basis.boundary())
        found = skfem.solve(matrix, load.assemble(basis))
        corners = basis.mesh.p.T[:, ::-1]
        order = np.lexsort(np.round(corners, 9).T)  # by x, then y
        side = len(line)
        on_grid = found[basis.nodal_dofs[0]][order].reshape(side, side)
        values.append(on_grid[:: 2 ** (halvings - 4), :: 2 ** (halvings - 4)].ravel())
    error = np.linalg.norm(values[1] - values[0]) / np.linalg.norm(values[1])
    return Truth(points, {"": values[1]}, float(error))


# --- flows ---------------------------------------------------------------------------------------

VISCOSITY = 0.01


def navier_stokes(u, v, p):
    """u·∇u + ∇p = ν Δu, ∇·u = 0."""
    return {
        "along x": u * u.x + v * u.y + p.x - VISCOSITY * (u.xx + u.yy),
        "along y": u * v.x + v * v.y + p.y - VISCOSITY * (v.xx + v.yy),
        "mass": u.x + v.y,
    }


def cavity() -> sx.Problem:
    """A square whose lid moves."""
    return sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)),
        navier_stokes,
        [
            sx.Dirichlet(lambda x: 4 * x * (1 - x), on="y+", of="u"),
            sx.Dirichlet(0, on=("x", "y-"), of="u"),
            sx.Dirichlet(0, of="v"),
            sx.Data([[0.0, 0.0]], [0.0], of="p"),
        ],
        fields=("u", "v", "p"),
        name="ns-2d-c",
    )


def step() -> sx.Problem:
    """A channel that becomes wider, with an inflow, an outlet and walls."""

    def wall(x, y):
        return (x > 1e-6) & (x < 4 - 1e-9)

    def inlet(x, y):
        return x < 1e-6

    def outlet(x, y):
        return x > 4 - 1e-6

    boundary = {"on": "boundary"}
    return sx.Problem(
        sx.Box(x=(0, 4), y=(0, 2)),
        navier_stokes,
        [
            sx.Dirichlet(lambda y: 4 * y * (1 - y), of="u", where=inlet, **boundary),
            sx.Dirichlet(0, of="v", where=inlet, **boundary),
            sx.Dirichlet(0, of="u", where=wall, **boundary),
            sx.Dirichlet(0, of="v", where=wall, **boundary),
            sx.Dirichlet(0, of="p", where=outlet, **boundary),
        ],
        fields=("u", "v", "p"),
        inside=lambda x, y: (x > 2) | (y < 1),
        name="ns-2d-cg",
    )


ROWS = {
    "poisson-2d-c": Row(four_discs, multipoles, 1e-6, 8.15e-3),
    "poisson-2d-cg": Row(several_discs, finer(several_discs, 1e-7), 1e-6, 4.11e-3),
    "poisson-3d-cg": Row(four_balls, finer(four_balls, 1e-3), 1e-2, 5.67e-2),
    "poisson-2d-ms": Row(tables, finite_elements, 1e-4, 8.93e-1),
    "ns-2d-c": Row(cavity, finer(cavity, 1e-5), 1e-4, 2.35e-2),
    "ns-2d-cg": Row(step, finer(step, 1e-3), 1e-2, 1.98e-1),
}
