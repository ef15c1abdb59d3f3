"""Flow mixing in 2+1 axes: a front wound up by a vortex.

    u_t + a u_x + b u_y = 0   in [-4, 4]², t in [0, 4],
    a = -ω y,  b = ω x,   ω = sech²(r) tanh(r) / (0.385 r),

with initial and boundary values from the exact solution u = -tanh(y/2 cos ωt - x/2 sin ωt). ω needs
its limit 1/0.385 at r = 0. The solution is not of finite rank: the best fit found of rank 16 is
8e-4 away, of rank 32 8e-5 (`separax rank`).

`best` builds the given values in and solves for the coefficients of all products of polynomials, by
conjugate gradients: the equation is linear, so that is one step.

`paper`: rank 128, 256 points per axis, the equation's residual weighing ten times, as in the
released code.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...domain import Box
from ...equations import Dirichlet, Initial, Problem
from ...networks import NETWORKS
from ...recipe import Recipe
from .entry import Entry, all_products, paper_recipe, quasi_newton, small_pointwise

EQUATION = "u_t + a u_x + b u_y = 0"
FASTEST = 0.385


def rotation(x, y):
    """ω(r), through a place where r = 0 does no harm."""
    r = jnp.sqrt(jnp.maximum(x**2 + y**2, 1e-12))
    return jnp.tanh(r) / jnp.cosh(r) ** 2 / (FASTEST * r)


def exact(t, x, y):
    angle = rotation(x, y) * t
    return -jnp.tanh(y / 2 * jnp.cos(angle) - x / 2 * jnp.sin(angle))


def residual(u, x, y):
    omega = rotation(x, y)
    return u.t + omega * (x * u.y - y * u.x)


def problem(recipe: str = "best", hard: bool = False) -> Problem:
    box = Box(t=(0, 4), x=(-4, 4), y=(-4, 4))
    conditions = [Initial(exact, hard=hard), Dirichlet(exact, hard=hard)]
    return Problem(
        box, residual, conditions, reference=exact, name="flow-mixing", equation=EQUATION
    )


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        points = 256 if network.startswith("spinn") else 32
        # of its steps on 256³ points products are the most: TF32 on a GPU, as the paper's code has
        # it, leaves the error where it is
        return paper_recipe(
            network,
            {"dirichlet": 4},
            rank=128,
            points=points,
            weights={"residual": 10.0},
            precision="tf32",
        )
    if network.startswith("pinn"):
        return small_pointwise(network)
    return quasi_newton(NETWORKS[network](rank=24, width=24, depth=2), 48, 1_000, 3_000)


FLOW_MIXING = Entry(
    "flow-mixing",
    EQUATION,
    "2+1 axes, a front wound up by a vortex",
    problem,
    recipe,
    solved=all_products({"t": 18, "x": 128, "y": 128}, {"t": 22, "x": 140, "y": 140}, 1, 1_000),
    solved_problem=lambda: problem(hard=True),
)
