"""Klein-Gordon equation in 3+1 axes.

    u_tt - Δu + u² = f   in [-1, 1]³, t in [0, 10],
    u = x + y + z at t = 0,   u given on the boundary,

with f and the boundary from the manufactured solution u = (x + y + z) cos t + x y z sin t, of rank
four.

As in 2+1 axes the paper leaves out u_t at t = 0, without which the solution is not unique; `best`
adds u_t = x y z. The paper's code divides the boundary term by six, here alone; so does `paper`.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...domain import Box
from ...equations import Dirichlet, Initial, Problem, laplacian
from ...networks import NETWORKS
from ...recipe import Recipe, Solve
from .entry import Entry, paper_recipe, quasi_newton, small_pointwise, solved

EQUATION = "u_tt - Δu + u² = f"


def exact(t, x, y, z):
    return (x + y + z) * jnp.cos(t) + x * y * z * jnp.sin(t)


def residual(u, t, x, y, z):
    f = exact(t, x, y, z) ** 2 - exact(t, x, y, z)
    return u.tt - laplacian(u) + u**2 - f


def problem(recipe: str = "best") -> Problem:
    box = Box(t=(0, 10), x=(-1, 1), y=(-1, 1), z=(-1, 1))
    conditions = [Initial(exact), Dirichlet(exact)]
    if recipe == "best":
        conditions.append(Initial(lambda x, y, z: x * y * z, of=lambda u: u.t, name="initial u_t"))
    return Problem(
        box, residual, conditions, reference=exact, name="klein-gordon-3d", equation=EQUATION
    )


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        return paper_recipe(
            network,
            {"dirichlet": 6},
            points=64 if network.startswith("spinn") else 16,
            averaged=True,
        )
    if network.startswith("pinn"):
        return small_pointwise(network, points=8)
    # as in 2+1 axes: it oscillates along t and is nearly linear along the others
    points = {"t": 32, "x": 8, "y": 8, "z": 8}
    return quasi_newton(NETWORKS[network](rank=8, width=20, depth=2), points, 1_000, 3_000)


KLEIN_GORDON_3D = Entry(
    "klein-gordon-3d",
    EQUATION,
    "3+1 axes, t in [0, 10], manufactured",
    problem,
    recipe,
    solved=solved(
        6,
        {"t": 28, "x": 4, "y": 4, "z": 4},
        {"t": 36, "x": 7, "y": 7, "z": 7},
        Solve(50, sweeps=2),
    ),
)
