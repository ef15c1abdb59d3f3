"""Error against seconds, method by method, on the catalogue's equations.

    python benchmarks/study.py helmholtz klein-gordon --seconds 60 --out results/cpu/study
    python benchmarks/study.py --draw docs/pictures --page PAGE --out results/cpu/study

Every method begins from nothing and is stopped after so many seconds, compiling included; a solve
ends by itself. The errors are those that a run itself reports while it goes on. `paper` is our run
of the paper's recipe; what the paper prints and what a classical solver needs
(`benchmarks/classical.py`) are drawn beside the curves.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import matplotlib
from recording import keep, put_into

import separax as sx
from separax.equations.problem import Problem
from separax.output.figures import COLOURS, MARKS, STYLE, new_figure
from separax.paper.catalogue import CATALOGUE
from separax.paper.reproduce.rows import Published, published
from separax.recipe.recipe import Recipe

METHODS = ("paper", "adam", "soap", "lbfgs", "gauss-newton", "solve")
LABELS = {
    "paper": "the paper's recipe",
    "adam": "Adam, cosine rate",
    "soap": "SOAP, cosine rate",
    "lbfgs": "Adam, then L-BFGS",
    "gauss-newton": "Adam, then Gauss-Newton",
    "solve": "solved (separax solve)",
}
SMALL = {"width": 12, "depth": 2}  # a network with a matrix of all weights
PART = {
    "navier-stokes": 0.1
}  # of the interval of time, where all of it would take too long: the first of the paper's windows
PRINTED_STEPS = 50_000
NEVER = 10**6  # steps: the time ends a run before


def prepared(name: str, method: str, steps: int) -> tuple[Problem, Recipe]:
    """What is solved and how; `steps` are those over which a rate falls to zero."""
    entry = CATALOGUE[name]
    kind = "paper" if method == "paper" else "best"
    problem, recipe = entry.make(kind, None if method == "solve" else "spinn-mod")
    if name in PART:
        problem = entry.problem(kind, end=PART[name])
    if method in ("solve", "paper"):
        return problem, recipe
    stages, parts = {
        "adam": (sx.Adam(5e-3, "cosine"), 1),
        "soap": (sx.SOAP(3e-3, "cosine"), 4),
        "lbfgs": ([sx.Adam(5e-3, "cosine"), sx.LBFGS(NEVER)], 10),
        "gauss-newton": ([sx.Adam(5e-3, "cosine"), sx.GaussNewton(NEVER)], 20),
    }[method]
    if method == "gauss-newton":
        recipe = dataclasses.replace(recipe, network=dataclasses.replace(recipe.network, **SMALL))
    precision = "float64" if method in ("lbfgs", "gauss-newton") else "float32"
    changes: dict[str, Any] = {
        "optimiser": stages,
        "steps": steps // parts,
        "precision": precision,
        "sampler": sx.GaussLegendre(),
    }
    return problem, dataclasses.replace(recipe, **changes)


def measured(name: str, method: str, seconds: float, steps: int) -> dict[str, Any]:
    problem, recipe = prepared(name, method, steps)
    began = time.perf_counter()
    curve: list[tuple[float, int, float, float | None]] = []

    def watch(step: int, loss: float, error: float | None, **_: Any) -> None:
        late = bool(curve) and curve[-1][0] > seconds
        curve.append((round(time.perf_counter() - began, 3), step, loss, error))
        if curve[-1][0] > seconds and not late and method != "solve":  # a solve ends by itself
            os.kill(os.getpid(), signal.SIGINT)  # as a person would: the run ends with what it has

    network = None if method == "solve" else "spinn-mod"
    windows = round(
        PART.get(name, 1.0)
        * CATALOGUE[name].windows_of("paper" if method == "paper" else "best", network)
    )
    found = sx.solve(problem, recipe, windows=windows, progress=False, callback=watch)
    assert not isinstance(found, sx.Ensemble)  # one seed
    if windows > 1 and found.interrupted:
        raise SystemExit(
            f"{name} {method}: {seconds:g} seconds end before the last window of time: give it more"
            " --seconds"
        )
    return {
        "problem": name,
        "method": method,
        "seconds": round(time.perf_counter() - began, 2),
        "compile_seconds": round(found.timing.compile_seconds, 2),
        "relative_l2": found.relative_l2(),
        "recipe": repr(recipe),
        "seed": 0,
        "columns": ["seconds", "step", "loss", "relative_l2"],
        "curve": curve,
    }


def trained(row: Published) -> float | None:
    """The seconds that a printed error took: as printed, of a window if there are several, or of
    50,000 steps."""
    if row.total_minutes is not None or row.window_minutes is not None:
        return 60 * (row.total_minutes or row.window_minutes or 0.0)
    return None if row.ms_per_step is None else PRINTED_STEPS * row.ms_per_step / 1000


def draw(
    name: str, records: dict[str, dict[str, Any]], classical: dict[str, Any] | None, folder: Path
) -> Path:
    figure, ((panel,),) = new_figure(8.5, 4)
    for i, (method, record) in enumerate(records.items()):
        known = [(t, e) for t, _, _, e in record["curve"] if e is not None]
        best = [min(e for _, e in known[: k + 1]) for k in range(len(known))]
        panel.loglog(
            [*(t for t, _ in known), record["seconds"]],
            [*best, record["relative_l2"]],
            MARKS[i % len(MARKS)],
            color=COLOURS[i % len(COLOURS)],
            label=LABELS[method],
        )
        panel.plot(
            record["seconds"], record["relative_l2"], "o", color=COLOURS[i % len(COLOURS)], ms=5
        )
    rows = [
        (seconds, row)
        for row in published(name)
        if row.network.startswith("spinn") and (seconds := trained(row))
    ]
    if rows:
        panel.plot(
            [seconds for seconds, _ in rows],
            [r.relative_l2 for _, r in rows],
            "k^",
            ms=4,
            label="printed in the paper",
        )
    if classical:
        panel.plot(
            [classical["seconds"]], [classical["relative_l2"]], "k*", ms=9, label="classical solver"
        )
    panel.set_xlabel("seconds, compiling included")
    panel.set_ylabel("relative L2 error")
    panel.set_title(name + (f", until t = {PART[name]:g}" if name in PART else ""))
    panel.grid(True, which="major", alpha=0.3)
    panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    path = folder / f"study-{name}.svg"
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, metadata={"Date": None})
    return path


def table(studies: dict[str, dict[str, dict[str, Any]]]) -> str:
    """What every method had reached in the end, and when."""
    lines = [
        "| problem | " + " | ".join(LABELS[m] for m in METHODS) + " |",
        "|---" * (1 + len(METHODS)) + "|",
    ]
    for name, records in studies.items():
        cells = [
            f"{r['relative_l2']:.0e}, {r['seconds']:.0f} s" if (r := records.get(m)) else "–"
            for m in METHODS
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help=f"equations of the catalogue: {', '.join(CATALOGUE)}"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seconds", type=float, default=60.0, help="after which a run is stopped")
    parser.add_argument("--steps", type=int, default=20_000, help="over which a rate falls to zero")
    parser.add_argument(
        "--out",
        default="results/cpu/study",
        help="folder of the records, one per equation and method",
    )
    parser.add_argument("--draw", metavar="FOLDER", help="draw what is there")
    parser.add_argument("--page", metavar="FILE", help="replace its table by one of what is there")
    given = parser.parse_args()
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        for method in given.methods:
            found = measured(name, method, given.seconds, given.steps)
            keep(str(out / f"{name}-{method}.json"), found)
            print(
                f"{name:18} {method:13} {found['relative_l2']:.2e} in {found['seconds']:.1f} s",
                flush=True,
            )
    paths = {name: {m: out / f"{name}-{m}.json" for m in METHODS} for name in CATALOGUE}
    found = {
        name: {m: json.loads(p.read_text()) for m, p in each.items() if p.exists()}
        for name, each in paths.items()
    }
    studies = {name: records for name, records in found.items() if records}
    if given.draw:
        classical = json.loads(Path("results/cpu/classical.json").read_text())["rows"]
        for name, records in studies.items():
            print(draw(name, records, classical.get(name), Path(given.draw)))
    if given.page:
        put_into(given.page, "| problem |", table(studies))


if __name__ == "__main__":
    main()
