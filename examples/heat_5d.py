"""Heat in five dimensions: where a lattice is out of reach.

    u_t = κ (u_vv + u_ww + u_xx + u_yy + u_zz)   in [0, π]⁵, t in [0, 1],   κ = 0.1,
    u = 0 on all ten faces.

Two modes at once, one of them twice as fine. The training lattice has 40⁶ = four thousand million
points, of which nothing is ever made: the equation is linear, and its loss comes from one small
matrix per axis.

    python examples/heat_5d.py

About 19 s of CPU time, compiling included; relative L2 error about 1e-3.
"""

import jax.numpy as jnp

import separax as sx

KAPPA = 0.1


def exact(t, v, w, x, y, z):
    def mode(n):
        fades = jnp.exp(-5 * n**2 * KAPPA * t)
        return (
            fades
            * jnp.sin(n * v)
            * jnp.sin(n * w)
            * jnp.sin(n * x)
            * jnp.sin(n * y)
            * jnp.sin(n * z)
        )

    return mode(1) + 0.5 * mode(2)


def heat(u):
    return u.t - KAPPA * sx.laplacian(u)


side = (0, jnp.pi)
problem = sx.Problem(
    sx.Box(t=(0, 1), v=side, w=side, x=side, y=side, z=side),
    heat,
    conditions=[sx.Initial(exact, weight=10.0), sx.Dirichlet(0, hard=True)],
    reference=exact,
)
recipe = sx.Recipe(sx.SPINN(rank=4, width=32, depth=2), points=40, steps=10_000)


def main(steps: int = 10_000) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    return {"relative_l2": solution.relative_l2()}


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
