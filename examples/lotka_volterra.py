"""Hares and foxes: an ordinary differential equation, in windows of time.

    h' = h (1 - f),   f' = f (h - 1),   t in [0, 12],   h = 2, f = 1 at t = 0.

One axis, two fields, nearly two cycles. Six windows, each started from where the last one ended.
The reference is scipy's, to ten digits. (An ODE solver needs a millisecond for this. It is here
because it shows windows with little else.)

    python examples/lotka_volterra.py

About 13 s of CPU time, compiling included; relative L2 error about 1e-6.
"""

import numpy as np
from scipy.integrate import solve_ivp

import separax as sx

END, WINDOWS = 12.0, 6


def populations(h, f):
    return {"hares": h.t - h * (1 - f), "foxes": f.t - f * (h - 1)}


problem = sx.Problem(
    sx.Box(t=(0, END)),
    populations,
    fields=("h", "f"),
    conditions=[
        sx.Initial(2.0, of="h", name="first hares"),
        sx.Initial(1.0, of="f", name="first foxes"),
    ],
)
recipe = sx.Recipe(
    sx.SPINN(rank=4, width=16, depth=2),
    points=64,
    steps=500,
    optimiser=[sx.Adam(5e-3, "cosine"), sx.BFGS(400)],
    sampler=sx.GaussLegendre(),
    precision="float64",
)


def main(steps: int = 900, windows: int = WINDOWS) -> dict[str, float]:
    """`steps` are those of one window."""
    solution = sx.solve(problem, recipe.with_steps(steps), windows=windows)
    times = np.linspace(0, END, 241)
    true = solve_ivp(
        lambda _, p: [p[0] * (1 - p[1]), p[1] * (p[0] - 1)],
        (0, END),
        [2, 1],
        "DOP853",
        times,
        rtol=1e-11,
        atol=1e-11,
    ).y
    largest = max(float(jump.max()) for jump in solution.jumps().values())
    return {
        "relative_l2": solution.relative_l2({"h": true[0], "f": true[1]}, t=times),
        "largest_jump": largest,
    }


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
