"""Heat in an insulated plate: Neumann conditions.

    u_t = κ (u_xx + u_yy)   in [0, 1]², t in [0, 1],   κ = 0.05,   ∂u/∂n = 0 on all four faces.

Nothing leaves the plate, so the mean temperature stays what it is while the differences die out.
The exact solution is a constant and two cosine modes.

    python examples/heat_insulated.py

About 14 s of CPU time, compiling included; relative L2 error about 1e-3.
"""

import jax.numpy as jnp

import separax as sx

KAPPA = 0.05


def exact(t, x, y):
    slow = jnp.exp(-KAPPA * jnp.pi**2 * t) * jnp.cos(jnp.pi * x)
    fast = jnp.exp(-5 * KAPPA * jnp.pi**2 * t) * jnp.cos(jnp.pi * x) * jnp.cos(2 * jnp.pi * y)
    return 1 + slow + 0.5 * fast


def heat(u):
    return u.t - KAPPA * sx.laplacian(u)


problem = sx.Problem(
    sx.Box(t=(0, 1), x=(0, 1), y=(0, 1)),
    heat,
    conditions=[sx.Initial(exact), sx.Neumann(0)],
    reference=exact,
)
recipe = sx.Recipe(sx.SPINN(rank=16, width=32, depth=3), points=32, steps=6_000)


def main(steps: int = 6_000) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    heat_at = solution.integral("x", "y", t=jnp.array([0.0, 1.0]))
    return {"relative_l2": solution.relative_l2(), "heat_lost": abs(float(heat_at[1] - heat_at[0]))}


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
