"""Poisson equation on an L-shaped domain.

    -Δu = 1   in [-1, 1]² without [0, 1]²,   u = 0 on the boundary.

The solution has a corner singularity (u ~ r^(2/3) at the origin). The reference is computed
(`separax.reference.lshape`). The data that the paper's 0.0322 was measured against solve -Δu + u =
1, a different problem (the two differ by a tenth), so the published figure does not measure this
one.

The singularity is more than the residual's square can take: the second derivatives of u are not
square-integrable, so among the smooth functions a network can be, those close to u have a large
residual. `best` therefore solves the first-order system

    p = u_x,  q = u_y,  p_x + q_y = -1,

whose terms all stay finite, and builds the zero on the faces of the bounding box into u.
Polynomials on the three squares of the L, joined continuously, are solved for, all products of them
at once: the equation is linear, so that is one step. The conditions on the two inner edges weigh
much, since nothing builds them in.

`paper`: 256 points per axis, rank 128, 5,000 steps, boundary weight 1000, as in the released code;
the points of the bounding box that are outside count nothing, as in the paper's text (the code
splits the L in two rectangles instead).
"""

from __future__ import annotations

from ...domain import Box, GaussLegendre
from ...equations import Dirichlet, Problem
from ...networks import NETWORKS
from ...recipe import Recipe, Solve
from ..references.lshape import reference
from .entry import Entry, paper_recipe, quasi_newton, small_pointwise, solved

EQUATION = "-Δu = 1"


def inside(x, y):
    return (x <= 0) | (y <= 0)


def residual(u):
    return -u.xx - u.yy - 1


def system(u, p, q):
    return {"flux x": u.x - p, "flux y": u.y - q, "balance": p.x + q.y + 1}


def problem(recipe: str = "best") -> Problem:
    box = Box(x=(-1, 1), y=(-1, 1))
    about = {"inside": inside, "name": "poisson-lshape", "equation": EQUATION}
    if recipe == "paper":
        return Problem(box, residual, [Dirichlet(0)], reference=reference, **about)
    faces = Dirichlet(0, on=("x", "y"), of="u", hard=True)
    conditions, fields = [faces, Dirichlet(0, on="boundary", of="u")], ("u", "p", "q")
    return Problem(box, system, conditions, fields=fields, reference={"u": reference}, **about)


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        points = 256 if network.startswith("spinn") else 64
        return paper_recipe(
            network, {}, rank=128, points=points, steps=5_000, weights={"dirichlet": 1000.0}
        )
    if network.startswith("pinn"):
        return small_pointwise(network, points=48)
    size = NETWORKS[network](rank=16, width=20, depth=2, steepness=4.0)
    return quasi_newton(
        size, 128, 1_000, 3_000, sampler=CORNER, emphasis=100.0, weights={"balance": 0.1}
    )


FUNCTIONS = 12  # on each half of an axis
# the rule ends where the L does, and crowds at its corner
CORNER = GaussLegendre(breaks={"x": 0.0, "y": 0.0})

POISSON_LSHAPE = Entry(
    "poisson-lshape",
    EQUATION,
    "two axes, L-shaped domain, computed reference",
    problem,
    recipe,
    solved=solved(
        2 * FUNCTIONS - 1,
        FUNCTIONS,
        4 * FUNCTIONS,
        Solve(3, sweeps=1),
        sampler=CORNER,
        emphasis=1000.0,
        merge="tucker",
        breaks={"x": 0.0, "y": 0.0},
    ),
)
