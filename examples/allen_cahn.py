"""Allen-Cahn: two phases part, quickly at first and then slowly. Time windows on a stiff problem.

    u_t = 0.001 u_xx + 5 (u - u³)   in [-1, 1], t in [0, 1],   u = x² cos πx at t = 0,   periodic.

u is driven to 1 or -1 and keeps thin layers between. Over the whole interval one network is easily
drawn to a solution that has forgotten how it began; five windows, each begun with the network of
the last one, are not. The reference is computed by scipy with 512 Fourier modes, to nine digits.

    python examples/allen_cahn.py

About 34 s of CPU time, compiling included; relative L2 error about 6e-3.
"""

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import separax as sx

SPREAD, WINDOWS = 1e-3, 5


def first(x):
    return x**2 * jnp.cos(jnp.pi * x)


def allen_cahn(u):
    return u.t - SPREAD * u.xx - 5 * (u - u**3)


def reference(times, number=512):
    """u at `times`, and the places x where it is."""
    xs = -1 + 2 * np.arange(number) / number
    squares = (np.pi * np.fft.rfftfreq(number, 1 / number)) ** 2

    def slope(_, u):
        return SPREAD * np.fft.irfft(-squares * np.fft.rfft(u), number) + 5 * (u - u**3)

    return xs, solve_ivp(
        slope, (0, 1), np.asarray(first(xs), float), "LSODA", times, rtol=1e-9, atol=1e-9
    ).y.T


problem = sx.Problem(
    sx.Box(t=(0, 1), x=(-1, 1)),
    allen_cahn,
    conditions=[sx.Initial(first, weight=10.0), sx.Periodic()],
)
recipe = sx.Recipe(
    sx.SPINN(rank=16, width=32, depth=2, frequencies=8), points={"t": 24, "x": 96}, steps=3_000
)


def main(steps: int = 3_000, windows: int = WINDOWS) -> dict[str, float]:
    """`steps` are those of one window."""
    solution = sx.solve(problem, recipe.with_steps(steps), windows=windows, warm=True)
    times = np.linspace(0, 1, 51)
    xs, true = reference(times)
    return {
        "relative_l2": solution.relative_l2(true, t=times, x=xs),
        "largest_jump": float(solution.jumps()["u"].max()),
    }


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
