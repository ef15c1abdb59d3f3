"""Helmholtz equation in three axes.

    Δu + k² u = q   in [-1, 1]³,   u = 0 on the boundary,

with q from the manufactured solution u = sin(4πx) sin(4πy) sin(3πz) and k = 1. The solution has
rank one; a Chebyshev solver reaches 1e-12 on it in milliseconds.

`paper`: the boundary as a penalty of weight 1. `best`: zero boundary values built into the factors.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...domain import Box, GaussLegendre
from ...equations import Dirichlet, Problem, laplacian
from ...networks import NETWORKS
from ...recipe import Adam, Recipe, Solve
from .entry import Entry, paper_recipe, solved

EQUATION = "Δu + k²u = q"
WAVES = (4, 4, 3)
K = 1.0


def exact(x, y, z):
    a, b, c = (jnp.pi * n for n in WAVES)
    return jnp.sin(a * x) * jnp.sin(b * y) * jnp.sin(c * z)


def residual(u, x, y, z):
    q = (K**2 - jnp.pi**2 * sum(n**2 for n in WAVES)) * exact(x, y, z)
    return laplacian(u) + K**2 * u - q


def problem(recipe: str = "best") -> Problem:
    box = Box(x=(-1, 1), y=(-1, 1), z=(-1, 1))
    return Problem(
        box,
        residual,
        [Dirichlet(0, hard=recipe == "best")],
        reference=exact,
        name="helmholtz",
        equation=EQUATION,
    )


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        return paper_recipe(network, {"dirichlet": 6})
    if network.startswith("pinn"):
        return Recipe(
            NETWORKS[network](width=64, depth=4, steepness=4.0), 16, 10_000, Adam(2e-3, "cosine")
        )
    # the residual is separable, so quadrature points cost next to nothing; 96 of them leave the
    # features nothing to hide in
    size = NETWORKS[network](rank=8, width=32, depth=3, steepness=4.0)
    return Recipe(size, 96, 30_000, Adam(5e-3, "cosine"), GaussLegendre())


HELMHOLTZ = Entry(
    "helmholtz",
    EQUATION,
    "three axes, zero boundary, manufactured sine waves",
    problem,
    recipe,
    solved=solved(2, 36, 44, Solve(20, sweeps=2)),
)
