"""Diffusion in 5+1 axes.

    u_t = Δu   in [-1, 1]⁵, t in [0, 1],   u = ‖x‖² at t = 0,   u given on the boundary,

with the boundary from the exact solution u = ‖x‖² + 10 t, of rank six. The paper reports one run at
8⁶ points and has no public code for it; `paper` takes the settings of its other runs.
"""

from __future__ import annotations

from ...domain import Box
from ...equations import Dirichlet, Initial, Problem, laplacian
from ...networks import NETWORKS
from ...recipe import Recipe, Solve
from .entry import Entry, paper_recipe, quasi_newton, small_pointwise, solved

EQUATION = "u_t = Δu"


def exact(t, v, w, x, y, z):
    return v**2 + w**2 + x**2 + y**2 + z**2 + 10 * t


def residual(u):
    return u.t - laplacian(u)


def problem(recipe: str = "best") -> Problem:
    box = Box(t=(0, 1), v=(-1, 1), w=(-1, 1), x=(-1, 1), y=(-1, 1), z=(-1, 1))
    return Problem(
        box,
        residual,
        [Initial(exact), Dirichlet(exact)],
        reference=exact,
        name="diffusion-5d",
        equation=EQUATION,
    )


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        return paper_recipe(
            network, {"dirichlet": 10}, points=8 if network.startswith("spinn") else 4
        )
    if network.startswith("pinn"):
        return small_pointwise(network, points=4)
    return quasi_newton(NETWORKS[network](rank=8, width=12, depth=2), 6, 500, 1_500, emphasis=10.0)


DIFFUSION_5D = Entry(
    "diffusion-5d",
    EQUATION,
    "5+1 axes, polynomial solution",
    problem,
    recipe,
    # all products of three polynomials an axis: one linear step, whatever the seed
    solved=solved(3, 3, 4, Solve(5), merge="tucker"),
)
