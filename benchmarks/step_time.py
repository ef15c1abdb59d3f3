"""Time and memory of one training step, ours and paper-style, in one run; writes a JSON record.

    python benchmarks/step_time.py --out results/step_time.json   # every row that fits the device
    python benchmarks/step_time.py --rows helmholtz-64 --out -    # some rows, to standard output

Every row warms up first, waits for the device, and takes the median of repeated launches; the
relative difference of the two gradients at one draw stands beside the times. Networks: modified MLP
4 × 64, rank 32, zero boundary built in; for navier-stokes the paper's, on 64³ points, and on 32 ×
256² where 128 stands for their cube root.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

import jax
import jax.numpy as jnp
from recording import keep

import separax as sx
from separax.paper import step_time as bench
from separax.paper.catalogue import navier_stokes
from separax.paper.reproduce.plan import LATTICES

PI = jnp.pi


def helmholtz() -> sx.Problem:
    def exact(x, y, z):
        return jnp.sin(4 * PI * x) * jnp.sin(4 * PI * y) * jnp.sin(3 * PI * z)

    def residual(u, x, y, z):
        return u.xx + u.yy + u.zz + u - (1 - 41 * PI**2) * exact(x, y, z)

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1)),
        residual,
        [sx.Dirichlet(0, hard=True)],
        name="helmholtz",
    )


def diffusion() -> sx.Problem:
    """u_t = α (|∇u|² + u Δu): six derivatives, five of them merged on their own."""

    def bump(x, y):
        return 0.25 * jnp.exp(-10 * ((x - 0.2) ** 2 + (y - 0.3) ** 2)) + 0.4 * jnp.exp(
            -15 * ((x + 0.1) ** 2 + (y + 0.5) ** 2)
        )

    def residual(u):
        return u.t - 0.05 * (u.x**2 + u.y**2 + u * (u.xx + u.yy))

    box = sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1))
    return sx.Problem(
        box, residual, [sx.Initial(bump), sx.Dirichlet(0, hard=True)], name="diffusion"
    )


PROBLEMS = {
    "helmholtz": helmholtz,
    "diffusion": diffusion,
    "navier-stokes": lambda: navier_stokes.problem("paper"),
}
ROWS = [
    # problem, points, seeds, precision, beside the paper-style step?
    ("helmholtz", 64, 1, "float32", True),
    ("helmholtz", 64, 7, "float32", False),
    ("helmholtz", 256, 1, "float32", True),
    ("diffusion", 256, 1, "float32", True),
    ("helmholtz", 1024, 1, "float32", False),
    ("diffusion", 64, 1, "float32", True),
    ("helmholtz", 64, 1, "float64", False),
    ("diffusion", 256, 1, "float64", False),
    ("navier-stokes", 64, 1, "float32", False),
    ("navier-stokes", 64, 1, "tf32", False),
    ("navier-stokes", 128, 1, "float32", False),
    ("navier-stokes", 128, 1, "tf32", False),
]


def recipe_of(problem: str, points: int, precision: str) -> sx.Recipe:
    if problem == "navier-stokes":
        here = LATTICES[problem][points] if points > 64 else points
        return dataclasses.replace(navier_stokes.recipe("paper"), points=here, precision=precision)
    network = sx.SPINN(rank=32, width=64, depth=4)
    return sx.Recipe(network, points, 100_000, sx.Adam(1e-3), precision=precision)


def label(problem: str, points: int, seeds: int, precision: str) -> str:
    return (
        f"{problem}-{points}"
        + (f"-{seeds}seeds" if seeds > 1 else "")
        + ("" if precision == "float32" else f"-{precision}")
    )


def measure(
    problem: str, points: int, seeds: int, precision: str, beside: bool, seconds: float
) -> dict:
    with jax.enable_x64(True):
        text = PROBLEMS[problem]()
        recipe = recipe_of(problem, points, precision)
        steps = 1000 if points < 128 else 200
        row = {
            "row": label(problem, points, seeds, precision),
            "problem": problem,
            "points": points,
            "seeds": seeds,
            "precision": precision,
        }
        row |= bench.ours(text, recipe, seeds, steps, seconds)
        if beside:
            slow = bench.paper_style(text, recipe, 100 if points < 128 else 20, seconds)
            row |= {f"paper_style_{k}": v for k, v in slow.items()}
            row |= {
                "faster": slow["ms_per_step"] / row["ms_per_step"],
                "gradient_difference": bench.disagreement(text, recipe),
            }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows",
        nargs="*",
        help="labels such as helmholtz-64; all that make sense on the device if left out",
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="how long to repeat each measurement"
    )
    parser.add_argument("--out", default="-", help="file to write, or - for standard output")
    options = parser.parse_args()
    small = jax.default_backend() == "cpu"
    chosen = [
        r
        for r in ROWS
        if (
            label(*r[:4]) in options.rows
            if options.rows
            else r[1] <= 64 or (r[0] == "helmholtz" and not r[4]) or not small
        )
    ]
    rows = []
    for row in chosen:
        rows.append(measure(*row, options.seconds))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    keep(options.out, {"rows": rows})


if __name__ == "__main__":
    main()
