"""Burgers' equation: a wave that steepens into a front.

    u_t + u u_x = ν u_xx   in [-1, 1], t in [0, 1],   ν = 0.02,   u = -sin πx at t = 0,
    u = 0 at both ends.

The two halves of the wave run into each other and make a front of width about ν at x = 0. The
reference is the formula of Cole and Hopf, its integrals by Gauss-Hermite quadrature. A small
network in float64, Adam to find the valley and BFGS along its floor; the points of the rule crowd
at x = 0, where the front is.

    python examples/burgers.py

About 77 s of CPU time, compiling included; relative L2 error about 1e-4.
"""

import jax.numpy as jnp
import numpy as np

import separax as sx

NU = 0.02
NODES, WEIGHTS = np.polynomial.hermite.hermgauss(100)


def exact(t, x):
    def average(function):
        return sum(w * function(x - jnp.sqrt(4 * NU * t) * z) for z, w in zip(NODES, WEIGHTS))

    def weight(y):
        return jnp.exp(-jnp.cos(jnp.pi * y) / (2 * jnp.pi * NU))

    return -average(lambda y: jnp.sin(jnp.pi * y) * weight(y)) / average(weight)


def burgers(u):
    return u.t + u * u.x - NU * u.xx


problem = sx.Problem(
    sx.Box(t=(0, 1), x=(-1, 1)),
    burgers,
    conditions=[sx.Initial(lambda x: -jnp.sin(jnp.pi * x)), sx.Dirichlet(0, hard=True)],
    reference=exact,
)
recipe = sx.Recipe(
    sx.SPINN(rank=12, width=24, depth=3),
    points={"t": 48, "x": 96},
    steps=2_000,
    optimiser=[sx.Adam(5e-3, "cosine"), sx.BFGS(1_500)],
    sampler=sx.GaussLegendre(breaks={"x": 0.0}),
    precision="float64",
)


def main(steps: int = 3_500) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    front = solution.d(x=1)(t=1.0, x=0.0)
    return {"relative_l2": solution.relative_l2(), "slope_of_front": float(front)}


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
