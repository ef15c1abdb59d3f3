"""Nonlinear diffusion in 2+1 axes.

    u_t = α (|∇u|² + u Δu) = α/2 Δ(u²)   in [-1, 1]², t in [0, 1],   u = three Gaussians at t = 0,
    u = 0 on the boundary,

with α = 0.05. There is no exact solution; the reference is computed (`paper.references.diffusion`).

The three Gaussians stand as the paper's text has them. Its errors were measured on data with x and
y swapped, which is the same problem mirrored. They are not quite zero on the boundary (0.0094 at
most), so the true solution has a thin layer there.

`best` builds the zero on the boundary in, with a root of the distance, and solves for a core and
the columns of each axis.

`paper`: initial and boundary values as penalties of weight 1.
"""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp

from ...domain import Box, GaussLegendre
from ...equations import Dirichlet, Initial, Problem
from ...networks import NETWORKS
from ...recipe import LBFGS, Adam, Recipe, Solve
from ..references.diffusion import ALPHA, reference
from ..references.diffusion import initial as gaussians
from .entry import Entry, paper_recipe, small_pointwise, solved

EQUATION = "u_t = α(|∇u|² + uΔu)"


def initial(x, y):
    return gaussians(x, y, jnp.exp)


def residual(u):
    return u.t - ALPHA * (u.x**2 + u.y**2 + u * (u.xx + u.yy))


def problem(recipe: str = "best", hard: Literal[False, "root"] = False) -> Problem:
    box = Box(t=(0, 1), x=(-1, 1), y=(-1, 1))
    conditions = [Initial(initial), Dirichlet(0, hard=hard)]
    return Problem(
        box, residual, conditions, reference=reference, name="diffusion", equation=EQUATION
    )


def solved_problem() -> Problem:
    """The same for a solve: where u is zero on the boundary the flux -α u u_n is finite, so that u
    goes like the root of the distance."""
    return problem(hard="root")


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        return paper_recipe(network, {"dirichlet": 4})
    if network.startswith("pinn"):
        return small_pointwise(network)
    # the rule's points crowd at the boundary, where the layer is
    stages = [Adam(5e-3, "cosine"), LBFGS(4_000)]
    return Recipe(
        NETWORKS[network](rank=48, width=64, depth=3),
        56,
        15_000,
        stages,
        GaussLegendre(),
        emphasis=1.0,
    )


DIFFUSION = Entry(
    "diffusion",
    EQUATION,
    "2+1 axes, three Gaussians spreading, computed reference",
    problem,
    recipe,
    solved=solved(
        {"t": 6, "x": 24, "y": 24},
        {"t": 12, "x": 60, "y": 60},
        {"t": 16, "x": 72, "y": 72},
        Solve(9, sweeps=0),
        merge="tucker",
    ),
    solved_problem=solved_problem,
)
