"""Poisson's equation in a flower: a domain that is not a box.

    -(u_xx + u_yy) = f   inside r = 0.7 + 0.2 cos 5θ,   u given on the petals' edge.

The shape is one function that is negative inside. f and the values on the edge are made from a
chosen solution, so that the error is exact.

    python examples/poisson_flower.py

About 29 s of CPU time, compiling included; relative L2 error about 1e-3.
"""

import jax.numpy as jnp

import separax as sx


def exact(x, y):
    return jnp.exp(x) * jnp.sin(2 * y) + 0.5 * jnp.cos(3 * x * y)


def minus_laplacian(x, y):
    return 3 * jnp.exp(x) * jnp.sin(2 * y) + 4.5 * (x**2 + y**2) * jnp.cos(3 * x * y)


def flower(x, y):
    return jnp.hypot(x, y) - (0.7 + 0.2 * jnp.cos(5 * jnp.arctan2(y, x)))


def poisson(u, x, y):
    return -sx.laplacian(u) - minus_laplacian(x, y)


problem = sx.Problem(
    sx.Box(x=(-0.95, 0.95), y=(-0.95, 0.95)),
    poisson,
    conditions=[sx.Dirichlet(exact, weight=10.0)],
    inside=flower,
    reference=exact,
)
recipe = sx.Recipe(sx.SPINN(rank=16, width=32, depth=3), points=48, steps=6_000)


def main(steps: int = 6_000) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    return {"relative_l2": solution.relative_l2()}


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
