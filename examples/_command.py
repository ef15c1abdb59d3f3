"""What the examples share: their command line, and the record of a run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from separax.cli.console import explained
from separax.runs.files import write
from separax.solution.record import environment


def command(main: Callable[..., dict[str, float]], header: str | None) -> None:
    """Runs `main(steps)` with the options of the command line and prints what it found.

    `--record FILE` keeps it: command, seed, seconds (compiling included) by the clock and of all
    cores, what was found, versions and device.
    """
    parser = argparse.ArgumentParser(
        description=header, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, help="steps in all; the full size if left out")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="add this run to a JSON file of records"
    )
    asked = parser.parse_args()
    started, worked = time.perf_counter(), time.process_time()
    try:
        with explained():
            found = main() if asked.steps is None else main(steps=asked.steps)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    for name, value in found.items():
        print(f"{name:24} {value:.3g}")
    print(f"{'seconds':24} {seconds:.1f}")
    if asked.record is not None:
        name = Path(sys.argv[0]).stem
        steps = "" if asked.steps is None else f" --steps {asked.steps}"
        run = {
            "command": f"python examples/{name}.py{steps}",
            "seed": 0,
            "seconds": round(seconds, 1),
        }
        run |= {"cpu_seconds": round(cpu, 1), "found": found}
        kept: dict[str, Any] = json.loads(asked.record.read_text()) if asked.record.exists() else {}
        kept[name] = run | environment()
        write(asked.record, (json.dumps(dict(sorted(kept.items())), indent=1) + "\n").encode())
