"""What saving costs: the time of a run that keeps its state over that of the same run that keeps
nothing.

    python benchmarks/saving.py --out results/cpu/saving.json

The two runs take turns in one process, `--repeats` times, with saves every `--every` seconds (the
default is 30) and long enough for several of them. `ratio` is of wall times from the first launch
to the last, and as noisy as the machine is busy; `waited` is the share of that time in which
training stood still for a save (the copy of the state, and what describes the solution).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from recording import keep

import separax as sx
from separax.paper.catalogue import find
from separax.solving import trained

# problem, network: a middling one with Adam, and a small one with the whole inverse Hessian of BFGS
ROWS = {
    "adam": (
        "helmholtz",
        lambda: sx.Recipe(sx.SPINN(rank=32, width=64, depth=4), points=64, optimiser=sx.Adam(1e-3)),
    ),
    "bfgs": (
        "klein-gordon-3d",
        lambda: sx.Recipe(
            sx.SPINN(rank=16, width=24, depth=2),
            points=16,
            optimiser=sx.BFGS(),
            precision="float64",
        ),
    ),
}


class Clock:
    """From the first update to the last, so that compiling does not count."""

    def __init__(self):
        self.first = self.last = self.waited = 0.0
        self.begun = self.done = 0

    def __call__(self, *, step: int, **_: object) -> None:
        self.last, self.done = time.perf_counter(), step
        if not self.first:
            self.first, self.begun, self.waited = self.last, step, 0.0

    @property
    def ms_per_step(self) -> float:
        return 1e3 * (self.last - self.first) / (self.done - self.begun)

    def watching(self, save: Callable[..., bool]) -> Callable[..., bool]:
        def timed(run: trained.Training, wait: bool = False) -> bool:
            began = time.perf_counter()
            done = save(run, wait)
            self.waited += (
                0.0 if wait else time.perf_counter() - began
            )  # the last one is not during training
            return done

        return timed


def measured(row: str, steps: int, folder: Path | None) -> Clock:
    name, how = ROWS[row]
    problem, _ = find(name).make("best", "spinn-mod")
    problem.reference = None
    clock, save = Clock(), trained.Training._save
    trained.Training._save = clock.watching(save)
    try:
        sx.solve(problem, how().with_steps(steps), out=folder, callback=clock, progress=False)
    finally:
        trained.Training._save = save
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    parser.add_argument("--seconds", type=float, default=100.0, help="of training, of each run")
    parser.add_argument("--every", type=float, default=trained.SAVE_SECONDS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default="-")
    options = parser.parse_args()
    trained.SAVE_SECONDS = options.every
    rows = []
    for row in options.rows:
        steps = max(
            200, round(options.seconds * 1e3 / measured(row, 400, None).ms_per_step / 100) * 100
        )
        without, kept, waited = [], [], []
        for number in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                for out in (
                    (None, Path(folder) / "run") if number % 2 else (Path(folder) / "run", None)
                ):
                    clock = measured(row, steps, out)
                    (without if out is None else kept).append(clock.ms_per_step)
                    waited += [] if out is None else [clock.waited / (clock.last - clock.first)]
                state = max(path.stat().st_size for path in (Path(folder) / "run").glob("state.*"))
        ratio = statistics.median(kept) / statistics.median(without)
        rows.append(
            {
                "row": row,
                "steps": steps,
                "save_seconds": options.every,
                "state_mb": state / 1e6,
                "ms_per_step_without": without,
            }
            | {"ms_per_step_kept": kept, "ratio": ratio, "waited": waited}
        )
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    keep(options.out, {"rows": rows})


if __name__ == "__main__":
    main()
