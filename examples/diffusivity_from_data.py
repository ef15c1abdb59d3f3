"""An inverse problem: how well does this plate conduct, and what is its temperature?

    u_t = κ (u_xx + u_yy)   in [0, 1]², t in [0, 1],   u = 0 on the faces,   κ unknown.

500 thermometers at random places and times, each wrong by about 2 % of the largest temperature.
Neither κ nor the initial temperature is given. The data are made with κ = 0.08 from an exact
solution with two modes.

    python examples/diffusivity_from_data.py

About 38 s of CPU time, compiling included; relative L2 error about 1e-2.
"""

import jax.numpy as jnp
import numpy as np

import separax as sx

KAPPA, NOISE = 0.08, 0.02


def exact(t, x, y):
    def mode(n):
        fades = jnp.exp(-(n**2 + 1) * KAPPA * jnp.pi**2 * t)
        return fades * jnp.sin(n * jnp.pi * x) * jnp.sin(jnp.pi * y)

    return mode(1) + 0.5 * mode(2)


random = np.random.default_rng(0)
points = random.uniform(0, 1, (500, 3))
measured = np.asarray(exact(*points.T)) + NOISE * random.normal(size=500)

problem = sx.Problem(
    sx.Box(t=(0, 1), x=(0, 1), y=(0, 1)),
    lambda u, kappa: u.t - kappa * sx.laplacian(u),
    conditions=[sx.Data(points, measured, weight=10.0), sx.Dirichlet(0, hard=True)],
    unknowns={"kappa": 0.5},
    reference=exact,
    name="diffusivity from data",
)
recipe = sx.Recipe(sx.SPINN(rank=8, width=32, depth=2), points=24, steps=8_000)


def main(steps: int = 8_000) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    kappa = solution.unknowns["kappa"]
    return {
        "kappa": kappa,
        "error of kappa": abs(kappa / KAPPA - 1),
        "relative_l2": solution.relative_l2(),
    }


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
