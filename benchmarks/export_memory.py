"""The memory that an export of a large lattice takes, and how long it takes.

    python benchmarks/export_memory.py --points 1024 --out results/cpu/export_memory.json

Each format is written by a process of its own; its peak is what the system counted
(resource.getrusage), and the solution is a fresh Helmholtz network of rank 32 that was trained for
one step. Values at a few places of the file are compared with the solution's own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recording import keep

FORMATS = ("nc", "vtr", "npy", "npz")


def solved(folder: str) -> None:
    import separax as sx
    from separax.paper.catalogue import find

    problem, _ = find("helmholtz").make("best", "spinn-mod")
    sx.solve(
        problem,
        sx.Recipe(sx.SPINN(rank=32, width=64, depth=4), points=16, steps=1),
        out=folder,
        progress=False,
    )


def written(run: str, path: str, points: int, answer: Any) -> None:
    import separax as sx

    solution = sx.load(run)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    solution.export(path, points=points)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.put(
        {
            "seconds": seconds,
            "peak_mb": peak / 1e3,
            "before_mb": idle / 1e3,
            "difference": difference(solution, path, points),
        }
    )


def difference(solution: Any, path: str, points: int) -> float | None:
    """The largest one from the solution itself, at three rows of the file; None where it takes a
    reader of its own."""
    import h5netcdf
    import numpy as np

    nodes = {a: np.linspace(*solution.problem.box[a], points) for a in solution.problem.box.axes}
    found = []
    for row in (0, points // 3, points - 1):
        true = np.asarray(solution(**nodes | {"x": nodes["x"][row]}))
        if path.endswith(".nc"):
            with h5netcdf.File(path) as file:
                ours = file["u"][row]
        else:
            return None
        found.append(float(np.max(np.abs(ours - true))))
    return max(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    parser.add_argument("--out", default="-")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        process = context.Process(target=solved, args=(run,))
        process.start()
        process.join()
        for ending in options.formats:
            path, answer = Path(folder) / f"out.{ending}", context.Queue()
            process = context.Process(target=written, args=(run, str(path), options.points, answer))
            process.start()
            row = {"format": ending, "points": options.points, "bytes": None, **answer.get()}
            process.join()
            rows.append(row | {"bytes": path.stat().st_size})
            path.unlink()
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    keep(options.out, {"rows": rows})


if __name__ == "__main__":
    main()
