"""PINNacle, the field's wide benchmark: its problems as a user would write them, solved without a
recipe.

    python benchmarks/pinnacle/run.py --out results/cpu/pinnacle.json
    python benchmarks/pinnacle/run.py --only poisson-2d-cg gs

The problems are those of arXiv 2306.08827 as its public code states them. Errors are relative L2
errors of all fields together, against formulas or references of our own, whose own error stands
beside them. `seconds` are those of `sx.solve(problem)` with everything in it. Each row is solved in
a process of its own, so that its memory can be told.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from recording import keep, put_into  # noqa: E402
from row import Row, distance  # noqa: E402

import separax as sx  # noqa: E402

FILES = ("canonical", "steady", "evolving", "many", "inverse")
MORE = 120.0  # seconds for the reference and what surrounds a solve


def rows() -> dict[str, Row]:
    """All rows by name, of the files that there are."""
    found: dict[str, Row] = {}
    for name in FILES:
        if importlib.util.find_spec(name):
            found |= importlib.import_module(name).ROWS
    return found


def measured(name: str, row: Row) -> dict[str, Any]:
    """What a solve of a row comes to."""
    load, problem = os.getloadavg()[0], row.problem()
    started, worked = time.perf_counter(), time.process_time()
    found: Any = sx.solve(problem, progress=False)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    truth = row.truth()
    return {
        "problem": name,
        "relative_l2": distance(found, truth),
        "reference_error": truth.error,
        "estimate": found.estimate,
        "seconds": seconds,
        "processor_seconds": processor,
        "load": load,
        "peak_memory_mb": memory,
        "to_reach": row.to_reach,
        "published": row.published,
        "advice": list(found.advice),
    }


def in_a_process(name: str, row: Row) -> dict[str, Any]:
    """The same, in a process of its own that is stopped when it takes too long."""
    command = [sys.executable, str(Path(__file__)), "--only", name, "--here"]
    nothing = {"problem": name, "relative_l2": math.nan, "to_reach": row.to_reach}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=row.seconds + MORE, check=False
        )
    except subprocess.TimeoutExpired:
        return nothing | {"published": row.published, "trouble": f"no answer in {row.seconds} s"}
    if done.returncode:
        trouble = done.stderr.strip().splitlines()[-1:]
        return nothing | {"published": row.published, "trouble": " ".join(trouble)}
    return json.loads(done.stdout.splitlines()[-1])


HEAD = "| row | published | to reach | error | estimate | seconds |"


def table(found: list[dict[str, Any]]) -> str:
    """The rows of a record in Markdown; the error of a reference that is not much smaller stands
    behind that of the solution."""
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for row in found:
        error = "no answer"
        if "trouble" not in row:
            error = f"{row['relative_l2']:.0e}"
            if row["reference_error"] > row["relative_l2"] / 10:
                error += f" (reference {row['reference_error']:.0e})"
        published = "–" if row["published"] is None else f"{row['published']:.1e}"
        rest = "– | –"
        if "trouble" not in row:
            rest = f"{row['estimate']:.0e} | {row['seconds']:.0f}"
        lines.append(
            f"| {row['problem']} | {published} | {row['to_reach']:.0e} | {error} | {rest} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = rows()
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(every))
    parser.add_argument("--here", action="store_true", help="in this process, as a line of JSON")
    parser.add_argument("--out", default="-")
    parser.add_argument("--page", metavar="FILE", help="put the table of what --out holds there")
    options = parser.parse_args()
    if options.page:
        put_into(options.page, HEAD, table(json.loads(Path(options.out).read_text())["rows"]))
        return
    found = []
    for name in options.only or every:
        if options.here:
            print(json.dumps(measured(name, every[name])))
            continue
        found.append(row := in_a_process(name, every[name]))
        told = row.get("trouble") or (
            f"error {row['relative_l2']:.1e} (to reach {row['to_reach']:.0e})"
            f"   estimate {row['estimate']:.1e}   {row['seconds']:.1f} s"
        )
        print(f"{name:16} {told}", file=sys.stderr, flush=True)
    if not options.here:
        keep(options.out, {"rows": found})


if __name__ == "__main__":
    main()
