"""Kills runs with SIGKILL at random moments, resumes them, and compares what they end with bit by
bit with an uninterrupted run.

    python benchmarks/kill_loop.py --count 200 --out results/cpu/kill_loop.json

Runs of three kinds (one seed, two seeds, two windows; Adam, then L-BFGS) take turns. Each is killed
four times, at a moment that is uniform over about the time that an uninterrupted run takes from the
start of its process (programs are compiled before), resumed each time, and left to end. States are
saved twenty times a second, so that many kills fall into a save.
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from loops import KINDS, parser, same, solve
from recording import keep

KILLS = 4  # of each run
STEPS = 4000


def run(kind: str, folder: Path) -> None:
    import jax

    from separax.solving import trained
    from separax.training import session

    # programs are compiled once for all processes: kills then fall into training and saving, not
    # into compiling
    jax.config.update("jax_compilation_cache_dir", str(folder.parent / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    trained.SAVE_SECONDS = session.LAUNCH_SECONDS = 0.05
    solve(kind, folder, STEPS)


def started(kind: str, folder: Path) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("forkserver").Process(target=run, args=(kind, folder))
    process.start()
    return process


def step(folder: Path) -> int:
    """The step of the newest state, over all windows."""
    from separax.runs.states import States

    found = [States(place, None).newest() for place in (folder, *folder.glob("windows/*"))]
    return sum(state[0]["step"] for state in found if state is not None)


def main() -> None:
    options = parser(__doc__ or "", 200).parse_args()
    multiprocessing.set_forkserver_preload(["loops"])
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        seconds = {}
        for kind in (
            *KINDS,
            *KINDS,
        ):  # the first time they are compiled, the second time they are measured
            began = time.perf_counter()
            shutil.rmtree(place / kind, ignore_errors=True)
            process = started(kind, place / kind)
            process.join()
            assert process.exitcode == 0
            seconds[kind] = time.perf_counter() - began
            print(f"{kind}: {seconds[kind]:.0f} s", file=sys.stderr, flush=True)
        kills = resumes = late = identical = runs = backwards = 0
        while kills < options.count:
            kind, folder = KINDS[runs % len(KINDS)], place / f"run {runs}"
            runs += 1
            before = 0
            for _ in range(min(KILLS, options.count - kills)):
                process = started(kind, folder)
                process.join(draw.uniform(0, seconds[kind]))
                killed = process.is_alive()
                process.kill()
                process.join()
                backwards += (now := step(folder)) < before
                before = now
                kills += killed
                late += not killed  # it had ended before
                seconds[kind] *= 1.03 if killed else 0.8  # as the machine is more or less busy
                resumes += killed and now > 0
            process = started(kind, folder)
            process.join()
            names = [
                "solution.npz",
                *(f"windows/{w}/solution.npz" for w in ("001", "002") if kind == "two windows"),
            ]
            good = process.exitcode == 0 and all(same(folder / n, place / kind / n) for n in names)
            identical += good
            print(f"{kills} kills, {runs} runs, {identical} identical", file=sys.stderr, flush=True)
    found = {
        "kills": kills,
        "runs": runs,
        "identical": identical,
        "kills_with_a_state_to_resume_from": resumes,
    }
    keep(
        options.out,
        {"seed": options.seed}
        | found
        | {"ended_before_their_kill": late, "states_lost": backwards, "steps": STEPS},
    )
    if identical < runs or backwards:
        sys.exit(1)


if __name__ == "__main__":
    main()
