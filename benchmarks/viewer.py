"""How fast the viewer of a report is, in headless Chromium; writes a JSON record.

    python benchmarks/viewer.py --out results/cpu/viewer.json

The page of a solution in t, x, y with 128 products (of random parameters: pictures cost the same
whatever they show) is opened, t is played for some seconds, and every frame is timed: frames per
second as the browser shows them (at most 60), and the milliseconds that a frame of 256² values
takes to compute and draw. `load_before` is the load of the machine: other work on it takes frames
away.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import jax
import numpy as np
from playwright.sync_api import sync_playwright
from recording import keep

import separax as sx
from separax.output.page import write_report
from separax.residuals.model import Model
from separax.solution import History, Outcome, Piece, Solution, Timing
from separax.solution.record import make_record

FRAMES = """(seconds) => new Promise((done) => {
  const viewer = separaxViewer;
  const spent = [];
  const draw = viewer.draw.bind(viewer);
  viewer.draw = () => { draw(); spent.push(viewer.spent); };
  const started = performance.now();
  viewer.play(viewer.factors.time);
  setTimeout(() => {
    viewer.play(viewer.factors.time);
    viewer.draw = draw;
    done({ spent, seconds: (performance.now() - started) / 1000 });
  }, 1000 * seconds);
})"""
SLICE = """() => {
  const { factors, values, point, output } = separaxViewer;
  const spent = [];
  for (let i = 0; i < 60; i += 1) {
    point[0] = i / 60;
    const started = performance.now();
    factors.slice(output, 1, 2, point, values);
    spent.push(performance.now() - started);
  }
  return spent;
}"""


def untrained(rank: int) -> Solution:
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1)),
        lambda u: u.t - u.xx - u.yy,
        [sx.Initial(0)],
        name="viewer",
    )
    recipe = sx.Recipe(sx.SPINN(rank=rank, width=32, depth=2))
    with jax.enable_x64(True):
        model = Model.build(problem, recipe, jax.random.key(0))
    steps = np.arange(1, 100)
    history = History(steps, {"residual": 1.0 / steps}, 1.0 / steps)
    outcome = Outcome(recipe, history, Timing(0.0, 1.0, 99), best_loss=0.01)
    return Solution(problem, [Piece.of(model)], outcome)


def measure(page_file: Path, seconds: float, repeats: int) -> dict:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome")
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(page_file.as_uri())
        page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        opened = page.evaluate(
            "performance.now()"
        )  # from the start of the navigation to the second frame
        page.evaluate(FRAMES, 1.0)  # warm
        runs = [page.evaluate(FRAMES, seconds) for _ in range(repeats)]
        spent = [ms for run in runs for ms in run["spent"]]
        slices = page.evaluate(SLICE)
        out = {
            "browser": browser.version,
            "opened_ms": round(opened, 1),
            "frames_per_second": [round(len(run["spent"]) / run["seconds"], 1) for run in runs],
            "frame_ms_median": round(float(np.median(spent)), 2),
            "frame_ms_95th": round(float(np.percentile(spent, 95)), 2),
            "slice_ms_median": round(float(np.median(slices)), 2),
        }
        browser.close()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to play")
    parser.add_argument("--repeats", type=int, default=5, help="how often")
    parser.add_argument("--out", default="-", help="file to write, or - for standard output")
    options = parser.parse_args()
    solution = untrained(options.rank)
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(solution, Path(folder), make_record(solution))
        row = {
            "rank": options.rank,
            "grid": 256,
            "load_before": os.getloadavg()[0],
            "page_bytes": page.stat().st_size,
            **measure(page, options.seconds, options.repeats),
        }
    keep(options.out, row)


if __name__ == "__main__":
    main()
