"""The folder of a run: who may write to it, and what it was asked for.

settings.json              what was asked for, the version of these files, and the run's
                           identity, which every other file repeats
environment.json           versions, device, precision, seeds; of former sessions too, where a
                           run was resumed elsewhere
state.a.npz, state.b.npz   the two newest states: enough to go on exactly where the run stopped
solution.npz               the best parameters, with all that is needed to evaluate them without
                           the code of the problem
factors.npz                the same sampled along each axis: for any other tool
history.csv                every named loss, and the error where there is a reference
record.json                what came out, with the checksum of the history
windows/                   of a march: a folder like this one per window, without factors

What makes two runs the same run stands below, and what is said where they are not.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InputError, difference, part_to_data, say
from ..equations import Problem
from ..recipe import Recipe
from ..solution import environment, version
from .files import Damaged, npz, plain, read_sealed, sealed_json, write
from .states import NAMES, Lock, Saver, State, States


def settings(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    """What a run is asked for, in words and numbers: hooks are told, and tables compare it."""
    return {
        "problem": problem.name,
        "box": repr(problem.box),
        "terms": list(problem.names),
        "equation": problem.fingerprint(),
        "recipe": repr(recipe),
        "points": recipe.counts(problem.box),
        "steps": recipe.total_steps,
        "precision": recipe.precision,
        "seeds": list(seeds),
    }


def kept_settings(asked: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The same as a folder keeps it: with the recipe as data, from which it can be made again.

    Raises `InputError` where a part of the recipe has no name by which it could be found.
    """
    return {**asked, "recipe": part_to_data(recipe)}


def changed(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """The names of the settings that are other ones than those that were kept."""
    return [name for name in asked if kept.get(name) != asked[name]]


def check_same(folder: Path, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuses to go on with the run in a folder if it was asked for something else."""
    for name in changed(kept, asked):
        where = "" if name == "recipe" else name  # what a recipe has are arguments themselves
        place, was, now = difference(kept.get(name), asked[name], where) or (name, "", "")
        what = f"{place or name} = {was}, not {now}"
        if name == "equation":  # its digest says nothing to anybody
            what = "another equation, other conditions or other unknowns"
        raise InputError(
            f"resume: {folder} was run with {what}: repeat the settings it was started with, or"
            " choose another folder"
        )


# --- the folder -----------------------------------------------------------------------------------

FORMAT = 3  # of the folder: another number, another version of separax
SETTINGS, ENVIRONMENT, SOLUTION, RECORD = (
    "settings.json",
    "environment.json",
    "solution.npz",
    "record.json",
)
FORMAT_1 = "settings.toml"  # what a folder of format 1 has instead
Content = tuple[Mapping[str, Any], Mapping[str, np.ndarray]]  # of an archive: about, and arrays


def read_settings(folder: Path) -> dict[str, Any]:
    """What the run in a folder was asked for.

    Arguments:
        folder: that `solve(…, out=folder)` wrote.

    Returns: the settings, with their `format`, the identity of the run (`run`) and the version of
        `separax`. Raises `InputError` where there is no run, or one of another format.
    """
    if not folder.is_dir():
        raise InputError(f"run: {folder} is not a folder: name the one that solve(…, out=…) wrote")
    other = f"this version reads format {FORMAT}: read it with that version, or solve again"
    if (folder / FORMAT_1).exists():
        raise InputError(
            f"run: {folder} has format 1 ({FORMAT_1}), of an earlier version of separax; {other}"
        )
    if not (folder / SETTINGS).exists():
        raise InputError(
            f"run: there is no run in {folder} (no {SETTINGS}): name the folder that"
            " solve(…, out=…) wrote"
        )
    found = read_sealed(folder / SETTINGS, "format")
    del found["sha256"]
    if found["format"] != FORMAT:
        raise InputError(
            f"run: {folder} has format {found['format']!r}, written by separax"
            f" {found['separax']}; {other}"
        )
    return found


class Run:
    """A folder that holds one run, and may be written to until it is closed.

    Arguments:
        directory: of the run; made where there is none.
        settings: what is asked for, as `kept_settings` has it.
        resume: go on with the run that is there; otherwise there must be none.
        march: the run that this one is a window of.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, Any],
        resume: bool = False,
        march: Run | None = None,
    ):
        self.path, self.settings, self.march = Path(directory), plain(settings), march
        self.saver = Saver()
        self._lock: Lock | None = None
        taken = (SETTINGS, FORMAT_1, SOLUTION, *NAMES)
        if not resume and any((self.path / name).exists() for name in taken):
            raise InputError(
                f"out: {self.path} holds a run already: continue it with --resume (resume=True),"
                " or choose another folder"
            )
        try:
            if march is None:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = Lock(self.path)
            self._open()
        except OSError as error:
            self.close()
            raise InputError(
                f"out: cannot write to {self.path} ({error.strerror}): choose another folder"
            ) from error
        except BaseException:
            self.close()
            raise

    def window(self, number: int) -> Run:
        """The run of a window of this march."""
        folder = self.path / "windows" / f"{number:03d}"
        return Run(folder, self.settings | {"window": number}, resume=True, march=self)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Waits for what is being written, and lets others write."""
        self.saver.wait()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- identity --------------------------------------------------------------------------------

    def _open(self) -> None:
        """Finds the identity of the run that is here, or begins one."""
        for draft in self.path.glob(".*.draft*"):  # of a process that was killed: the lock is ours
            draft.unlink()
        kept: dict[str, Any] | None = None
        damage: Damaged | None = None
        if (self.path / SETTINGS).exists() or (self.path / FORMAT_1).exists():
            try:
                kept = read_settings(self.path)
            except Damaged as error:
                damage = error
        if self.march is not None:
            self.identity = f"{self.march.identity}-{self.settings['window']:03d}"
            if kept is not None and kept["run"] != self.identity:
                kept, damage = None, Damaged(self.path / SETTINGS, "is of another run")
            if damage:
                say(f"{damage}: written anew")
            if kept is None:
                self.saver.do(self._write_settings)  # a full disk does not stop a march on its way
        else:
            if kept is None:
                self.identity = self._identity_of_state(damage) or secrets.token_hex(8)
            else:
                self.identity = kept["run"]
            if kept is None:
                self._write_settings()
            else:
                check_same(self.path, kept, self.settings)
            self._write_environment()
        self.states = States(self.path, self.identity)

    def _write_settings(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        about = {"format": FORMAT, "run": self.identity, "separax": version("separax")}
        write(self.path / SETTINGS, sealed_json(about | self.settings))

    def _identity_of_state(self, damage: Damaged | None) -> str | None:
        """The identity where the settings are damaged or lost: every state has both."""
        for folder in (self.path, self.path / "windows" / "001"):
            state = States(folder, None).newest()
            if state is not None:
                check_same(self.path, state[0]["settings"], self.settings)
                lost = damage or f"{self.path / SETTINGS} is gone"
                say(f"{lost}: written anew, as the state has it")
                return state[0]["run"].split("-")[0]
        if damage:
            say(f"{damage}, and no state is good: the run starts again from the beginning")
            self._put_aside()
        return None

    def _write_environment(self) -> None:
        """Writes where the run takes place, and where it took place before."""
        now = {
            **environment(),
            "platform": platform.platform(),
            **{k: self.settings[k] for k in ("precision", "seeds")},
        }
        before: list[dict[str, Any]] = []
        path = self.path / ENVIRONMENT
        try:
            last = read_sealed(path, "versions", self.identity) if path.exists() else {}
        except Damaged as error:
            say(f"{error}: written anew")
            last = {}
        if last:
            before = last.pop("before", [])
            same = ("device", "platform", "python", "versions")
            other = [name for name in same if last.get(name) != now[name]]
            if not other:
                return
            before.append({k: v for k, v in last.items() if k not in ("run", "sha256")})
            say(
                f"{self.path} was begun with {other[0]} {last.get(other[0])}, and goes on with"
                f" {now[other[0]]}: the last digits may differ from those of an uninterrupted run"
            )
        write(path, sealed_json({"run": self.identity, **now, "before": before}))

    # --- state -----------------------------------------------------------------------------------

    def state(self) -> State | None:
        """The newest good state, if there is one."""
        found = self.states.newest()
        if found is None:
            self._put_aside()
        return found

    def _put_aside(self) -> None:
        """Keeps what was computed, if only under another name, where a run starts again."""
        if (self.path / SOLUTION).exists():
            os.replace(self.path / SOLUTION, self.path / f"{SOLUTION}.old")
            say(f"the solution that was there is now in {self.path / SOLUTION}.old")

    def save(
        self,
        about: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        solution: Content,
        wait: bool,
    ) -> None:
        """Has a state and the solution so far written, and returns at once.

        Arguments:
            about, arrays: of the state.
            solution: as `to_data` returns it.
            wait: return when it is written.
        """

        def work() -> None:
            # the solution first: where there is a state, there is something to look at
            self.write(SOLUTION, *solution)
            self.states.write({"settings": self.settings, **about}, arrays)

        self.saver.start(work)
        if wait:
            self.saver.wait()

    def write(self, name: str, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Writes an archive of this run."""
        content = npz({"format": FORMAT, "run": self.identity, **about}, arrays)
        write(self.path / name, content)
