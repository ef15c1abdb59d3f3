"""What evaluating a solution costs here, over what it costs in another checkout of separax.

    git worktree add cc12c94 cc12c94
    python benchmarks/evaluation.py cc12c94 --out results/cpu/bench_evaluation.json

The same solution (of a network that is hardly trained) is evaluated by a process of either
checkout, which take turns `--rounds` times: on a lattice of 256³ points, and at 10⁶ scattered
points. Both are warm, and are asked for one thing at a time; an evaluation is over when its values
are there. `ratio` is of the medians, ours over theirs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LATTICE, SCATTERED = 256, 10**6


def answer() -> None:
    """Reads names of evaluations, and says how many seconds each took."""
    import jax
    import numpy as np

    import separax as sx

    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1), z=(0, 1)),
        lambda u: u.xx + u.yy + u.zz,
        [sx.Dirichlet(lambda x, y, z: x * y * z)],
    )
    network = sx.SPINN(rank=64, width=64, depth=4)
    solution = sx.solve(problem, sx.Recipe(network, points=8, steps=2), progress=False)
    line = np.linspace(0, 1, LATTICE, dtype=np.float32)
    points = np.random.default_rng(0).uniform(size=(SCATTERED, 3)).astype(np.float32)
    evaluations = {
        "lattice": lambda: solution(x=line, y=line, z=line),
        "points": lambda: solution.at(points),
    }
    for name in map(str.strip, sys.stdin):
        begun = time.perf_counter()
        jax.block_until_ready(evaluations[name]())
        print(time.perf_counter() - begun, flush=True)


class Checkout:
    """A process that evaluates with the code of a checkout."""

    def __init__(self, folder: Path):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--answer"],
            env=os.environ | {"PYTHONPATH": str(folder.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, name: str) -> float:
        """How long an evaluation takes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", default="-")
    options = parser.parse_args()
    ours, theirs = Checkout(Path(__file__).parents[1]), Checkout(options.other)
    found = {}
    for name, size in (("lattice", f"{LATTICE}^3"), ("points", f"{SCATTERED:,}")):
        for each in (ours, theirs, ours, theirs):  # compiled, and once more
            each.seconds(name)
        taken = [(ours.seconds(name), theirs.seconds(name)) for _ in range(options.rounds)]
        here, there = zip(*taken)
        found[name] = {
            "points": size,
            "ratio": round(statistics.median(here) / statistics.median(there), 4),
            "median_ms": round(1e3 * statistics.median(here), 3),
            "median_ms_other": round(1e3 * statistics.median(there), 3),
            "least_ms": round(1e3 * min(here), 3),
            "least_ms_other": round(1e3 * min(there), 3),
        }
    from recording import keep

    keep(options.out, {"other": options.other.name, "rounds": options.rounds, **found})


if __name__ == "__main__":
    answer() if sys.argv[1:] == ["--answer"] else main()
