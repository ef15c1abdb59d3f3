"""Two chemicals that react and spread: a system (FitzHugh-Nagumo).

    u_t = 0.02 u_xx + 2 (u - u³ - v),   v_t = 0.05 v_xx + u - 0.5 v
    in [0, 2], t in [0, 2],   no flux at the ends.

u excites both, v holds both back, and v spreads faster. The reference is computed by scipy from the
equations in cosines (256 of them, to nine digits).

    python examples/reaction_diffusion.py

About 39 s of CPU time, compiling included; relative L2 error about 1e-2.
"""

import jax.numpy as jnp
import numpy as np
from scipy.fft import dct, idct
from scipy.integrate import solve_ivp

import separax as sx

SPREAD_U, SPREAD_V, LENGTH, END = 0.02, 0.05, 2.0, 2.0


def first_u(x):
    return 0.5 * jnp.cos(jnp.pi * x) + 0.2 * jnp.cos(jnp.pi * x / 2)


def first_v(x):
    return 0.1 * jnp.cos(jnp.pi * x)


def reaction(u, v):
    return {
        "u": u.t - SPREAD_U * u.xx - 2 * (u - u**3 - v),
        "v": v.t - SPREAD_V * v.xx - (u - 0.5 * v),
    }


def reference(times, number=256):
    """u and v at `times`, and the places x where they are: halfway between grid lines, so that
    cosines fit the ends."""
    xs = LENGTH * (np.arange(number) + 0.5) / number
    squares = (np.pi * np.arange(number) / LENGTH) ** 2

    def slope(_, both):
        u, v = both.reshape(2, number)
        curved_u, curved_v = (idct(-squares * dct(w, norm="ortho"), norm="ortho") for w in (u, v))
        return np.concatenate(
            [SPREAD_U * curved_u + 2 * (u - u**3 - v), SPREAD_V * curved_v + u - 0.5 * v]
        )

    start = np.concatenate([np.asarray(first(xs)) for first in (first_u, first_v)])
    found = solve_ivp(slope, (0, END), start, "RK45", times, rtol=1e-9, atol=1e-9).y.reshape(
        2, number, -1
    )
    return xs, {"u": found[0].T, "v": found[1].T}


problem = sx.Problem(
    sx.Box(t=(0, END), x=(0, LENGTH)),
    reaction,
    fields=("u", "v"),
    conditions=[
        sx.Initial(first_u, of="u", name="first u"),
        sx.Initial(first_v, of="v", name="first v"),
        sx.Neumann(0, of="u", name="flux of u"),
        sx.Neumann(0, of="v", name="flux of v"),
    ],
)
recipe = sx.Recipe(
    sx.SPINN(rank=10, width=24, depth=2),
    points={"t": 48, "x": 40},
    steps=2_000,
    optimiser=[sx.Adam(5e-3, "cosine"), sx.BFGS(1_000)],
    sampler=sx.GaussLegendre(),
    precision="float64",
)


def main(steps: int = 3_000) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    times = np.linspace(0, END, 81)
    xs, true = reference(times)
    return {
        f"relative_l2 of {name}": solution.relative_l2(true, name, t=times, x=xs) for name in true
    }


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
