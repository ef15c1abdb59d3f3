"""Damages files of runs in a thousand ways, and looks whether it is noticed and whether anything
wrong comes out.

    python benchmarks/corrupt_loop.py --count 1000 --out results/cpu/corrupt_loop.json

One file of a run (one seed, two seeds, two windows) has bytes changed, is cut, emptied, or swapped
for one of another run or for another one of its own. Then, each time: `separax.runs.keeping.check`
must name it; `sx.load` must refuse in words or give the very same solution; and the state that
would be resumed from must be one that was saved, or none.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from loops import KINDS, parser, solve
from recording import keep

import separax as sx
from separax.runs.describing import to_data
from separax.runs.folder import read_settings
from separax.runs.keeping import check
from separax.runs.states import NAMES, States
from separax.solving import trained
from separax.training import session

WAYS = ("changed", "cut", "emptied", "swapped for another run's", "swapped for another of its own")


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def damage(path: Path, way: str, name: Path, other: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if way == "changed":
        for _ in range(draw.choice((1, 1, 2, 8))):
            data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
    elif way == "cut":
        del data[draw.randrange(1, len(data)) :]
    elif way == "emptied":
        data.clear()
    elif way == "swapped for another run's":
        data = bytearray((other / name).read_bytes())
    else:
        # the two states of a run may stand in for each other: they carry their number
        own = [
            n
            for n in files(path.parents[len(name.parts) - 1])
            if n != name and not {n.name, name.name} <= set(NAMES)
        ]
        data = bytearray((path.parents[len(name.parts) - 1] / draw.choice(own)).read_bytes())
    path.write_bytes(data)


def content(solution: Any) -> tuple[Any, dict[str, bytes]]:
    """All that a solution is, to compare it with another one."""
    about, arrays = to_data(solution)
    return about, {name: leaf.tobytes() for name, leaf in arrays.items()}


def states(folder: Path) -> dict[Path, list[bytes]]:
    """The bytes of the states of every part of a run."""
    parts = (folder, *folder.glob("windows/*"))
    return {
        p.relative_to(folder): [(p / n).read_bytes() for n in NAMES if (p / n).exists()]
        for p in parts
    }


def main() -> None:
    options = parser(__doc__ or "", 1000).parse_args()
    trained.SAVE_SECONDS = session.LAUNCH_SECONDS = 0.0
    draw = random.Random(options.seed)
    found = dict.fromkeys(
        ("detected", "load_refused", "load_the_same", "load_wrong", "resume_wrong", "tracebacks"), 0
    )
    ways = dict.fromkeys(WAYS, 0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for kind in KINDS:
            solve(kind, place / kind, 400)
            solve(kind, place / f"other {kind}", 400)  # the same run, of another identity
        expected = {kind: content(sx.load(place / kind)) for kind in KINDS}
        known = {kind: states(place / kind) for kind in KINDS}
        for kind in KINDS:
            assert not check(place / kind)
        for number in range(options.count):
            kind, folder = draw.choice(KINDS), place / "damaged"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(place / kind, folder)
            while True:  # a file swapped for one with the same content is none the worse for it
                chosen, way = draw.choice(files(folder)), draw.choice(WAYS)
                damage(folder / chosen, way, chosen, place / f"other {kind}", draw)
                if (folder / chosen).read_bytes() != (place / kind / chosen).read_bytes():
                    break
            ways[way] += 1
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    noticed = bool(check(folder))
                    wrong = resumed_wrong(folder, known[kind])
                    try:
                        same = content(sx.load(folder)) == expected[kind]
                        found["load_the_same" if same else "load_wrong"] += 1
                    except sx.InputError:
                        found["load_refused"] += 1
                found["detected"] += noticed
                found["resume_wrong"] += wrong
                if not noticed:
                    print(f"not noticed: {kind}, {chosen}, {way}", file=sys.stderr)
            except Exception:
                found["tracebacks"] += 1
                print(f"{kind}, {chosen}, {way}", file=sys.stderr)
                traceback.print_exc()
            if number % 100 == 99:
                print(number + 1, found, file=sys.stderr, flush=True)
    keep(options.out, {"seed": options.seed, "damaged": options.count, **found, "ways": ways})
    if (
        found["detected"] < options.count
        or found["load_wrong"]
        or found["resume_wrong"]
        or found["tracebacks"]
    ):
        sys.exit(1)


def resumed_wrong(folder: Path, known: dict[Path, list[bytes]]) -> bool:
    """Whether a state would be resumed from that was never saved here."""
    wrong = False
    for part, contents in known.items():
        place = folder / part
        with contextlib.suppress(sx.InputError):
            identity = read_settings(place)["run"]
            states = States(place, identity)
            if states.newest() is not None:
                wrong |= (place / NAMES[1 - states._turn]).read_bytes() not in contents
    return wrong


if __name__ == "__main__":
    main()
