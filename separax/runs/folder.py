"""The folder of a run: who may write to it, and what it was asked for.

settings.toml      what was asked for, the version of these files, and the run's identity, which every other file repeats
environment.toml   versions, device, precision, seeds; of former sessions too, where a run was resumed elsewhere
state.a.npz, state.b.npz   the two newest states: enough to go on exactly where the run stopped
solution.npz       the best parameters, with all that is needed to evaluate them without the code of the problem
factors.npz        the same sampled along each axis: for any other tool
history.csv        every named loss, and the error where there is a reference
record.json        what came out, with the checksum of the history
windows/           of a march: a folder like this one per window, without factors
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InputError, say
from ..solution import environment, version
from .files import Damaged, npz, read_toml, sealed_toml, write
from .states import NAMES, Saver, State, States
from .toml import dumps

FORMAT = 1  # of the folder: another number, another version of separax
SETTINGS, ENVIRONMENT, SOLUTION, RECORD = (
    "settings.toml",
    "environment.toml",
    "solution.npz",
    "record.json",
)
Content = tuple[
    Mapping[str, Any], Mapping[str, np.ndarray]
]  # of an archive: what it is about, and its arrays
EARLIER = "settings.json"  # of the versions before there were numbers


def read_settings(folder: Path) -> dict[str, Any]:
    """What the run in a folder was asked for, with its `format` and identity (`run`); raises `InputError`."""
    if not folder.is_dir():
        raise InputError(f"run: {folder} is not a folder: name the one that solve(…, out=…) wrote")
    if not (folder / SETTINGS).exists():
        if (folder / EARLIER).exists():
            raise InputError(
                f"run: {folder} was written by an earlier version of separax ({EARLIER}): read it with that version, or solve again"
            )
        raise InputError(
            f"run: there is no run in {folder} (no {SETTINGS}): name the folder that solve(…, out=…) wrote"
        )
    found = read_toml(folder / SETTINGS)
    if "format" not in found or "run" not in found:
        raise Damaged(folder / SETTINGS, "does not hold the settings of a run")
    if found["format"] != FORMAT:
        raise InputError(
            f"run: {folder} has format {found['format']!r}, written by separax {found.get('separax', 'of another version')}; this version reads format {FORMAT}: read it with that version, or solve again"
        )
    return found


def read_environment(path: Path, identity: str | None) -> dict[str, Any]:
    """Where a run takes place; raises `Damaged`. Without an identity, that of any run."""
    found = read_toml(path)
    if "versions" not in found:
        raise Damaged(path, "does not say where a run takes place")
    if identity not in (None, found.pop("run", None)):
        raise Damaged(path, "is of another run")
    return found


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are read back."""
    return tomllib.loads(dumps(settings))


class Run:
    """A folder that holds one run, and may be written to until it is closed. A window of a march is part of its `whole`."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, Any],
        resume: bool = False,
        whole: Run | None = None,
    ):
        self.path, self.settings, self.whole = Path(directory), plain(settings), whole
        self.saver = Saver()
        self._lock: Lock | None = None
        if not resume and any(
            (self.path / name).exists() for name in (SETTINGS, EARLIER, SOLUTION, *NAMES)
        ):
            raise InputError(
                f"out: {self.path} holds a run already: continue it with --resume (resume=True), or choose another folder"
            )
        try:
            if whole is None:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = Lock(self.path)
            self._claim()
        except OSError as error:
            self.close()
            raise InputError(
                f"out: cannot write to {self.path} ({error.strerror}): choose another folder"
            ) from error
        except BaseException:
            self.close()
            raise

    def part(self, number: int) -> Run:
        """The run of a window."""
        folder = self.path / "windows" / f"{number:03d}"
        return Run(folder, self.settings | {"window": number}, resume=True, whole=self)

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

    # --- who it is -----------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        for draft in self.path.glob(
            ".*.draft"
        ):  # of a process that was killed: nobody else writes here now
            draft.unlink()
        identity = self._own() if self.whole is None else self._of_whole(self.whole)
        self.identity = identity or secrets.token_hex(8)
        self.states = States(self.path, self.identity)
        if self.whole is not None:  # a full disk does not stop a march on its way
            self.saver.do(self._write_settings)
        else:
            self._write_settings()
            self._write_environment()

    def _write_settings(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if self._kept is None:
            about = {"format": FORMAT, "run": self.identity, "separax": version("separax")}
            write(self.path / SETTINGS, sealed_toml(about | self.settings))

    def _read_settings(self) -> Damaged | None:
        """Finds what is kept here; returns what is wrong with it, if anything is."""
        self._kept: dict[str, Any] | None = None
        if (self.path / SETTINGS).exists() or (self.path / EARLIER).exists():
            try:
                self._kept = read_settings(self.path)
            except Damaged as error:
                return error
        return None

    def _of_whole(self, whole: Run) -> str:
        """The identity of a window: that of its march, and its number."""
        identity = f"{whole.identity}-{self.settings['window']:03d}"
        damage = self._read_settings()
        if self._kept is not None and self._kept["run"] != identity:
            self._kept, damage = None, Damaged(self.path / SETTINGS, "is of another run")
        if damage:
            say(f"{damage}: written anew")
        return identity

    def _own(self) -> str | None:
        """The identity of the run that is here; None: there is none."""
        damage = self._read_settings()
        if self._kept is None:
            return self._recovered(damage)
        identity = self._kept["run"]
        if not self._mended(self._kept):
            self._check_same(self._kept)
        return identity

    def _mended(self, kept: Mapping[str, Any]) -> bool:
        """Whether this is a march whose last window diverged, and only the recipe is another one now: then that window begins again.
        Those before it keep what they were made with in settings of their own."""
        reached = sorted((self.path / "windows").glob("[0-9]" * 3))
        if [k for k in self.settings if kept.get(k) != self.settings[k]] != [
            "recipe"
        ] or not reached:
            return False
        state = States(reached[-1], None).newest()
        if state is None or not state[0].get("trouble"):
            return False
        number, aside = 1, reached[-1].with_name(f"{reached[-1].name}.diverged")
        while aside.exists():
            number += 1
            aside = reached[-1].with_name(f"{reached[-1].name}.diverged{number}")
        reached[-1].rename(aside)
        say(
            f"window {int(reached[-1].name)} diverged (it is now in {aside}) and begins again with the recipe given"
        )
        self._kept = None  # the settings are written anew
        return True

    def _check_same(self, kept: Mapping[str, Any]) -> None:
        changed = [k for k in self.settings if kept.get(k) != self.settings[k]]
        if changed:
            first = changed[0]
            raise InputError(
                f"resume: {self.path} was run with {first} = {kept.get(first)!r}, not {self.settings[first]!r}: repeat the settings it was started with, or choose another folder"
            )

    def _recovered(self, damage: Damaged | None) -> str | None:
        """The identity where the settings are damaged or lost: every state has both."""
        for folder in (self.path, self.path / "windows" / "001"):
            state = States(folder, None).newest()
            if state is not None:
                self._check_same(state[0]["settings"])
                say(
                    f"{damage or f'{self.path / SETTINGS} is gone'}: written anew, as the state has it"
                )
                return state[0]["run"].split("-")[0]
        if damage:
            say(f"{damage}, and no state is good: the run starts again from the beginning")
            self._put_aside()
        return None

    def _write_environment(self) -> None:
        """Where the run takes place; where it took place before, if that was elsewhere."""
        now = {
            **environment(),
            "platform": platform.platform(),
            **{k: self.settings[k] for k in ("precision", "seeds")},
        }
        before: list[dict[str, Any]] = []
        path = self.path / ENVIRONMENT
        if path.exists():
            try:
                last = read_environment(path, self.identity)
                before = last.pop("before", [])
                other = [
                    k for k in ("device", "platform", "python", "versions") if last.get(k) != now[k]
                ]
                if not other:
                    return
                before.append(last)
                say(
                    f"{self.path} was begun with {other[0]} {last.get(other[0])}, and goes on with {now[other[0]]}: the last digits may differ from those of an uninterrupted run"
                )
            except Damaged as error:
                say(f"{error}: written anew")
        write(path, sealed_toml({"run": self.identity, **now, "before": before}))

    # --- state ---------------------------------------------------------------------------------------------------

    def state(self) -> State | None:
        """The newest good state, if there is one."""
        found = self.states.newest()
        if found is None:
            self._put_aside()
        return found

    def _put_aside(self) -> None:
        """What was computed is kept, if only under another name, where a run starts again."""
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
        """Has a state and the solution so far written; returns at once unless told to `wait`."""

        def work() -> (
            None
        ):  # the solution first: wherever there is a state to go on from, there is something to look at
            self.write(SOLUTION, *solution)
            self.states.write({"settings": self.settings, **about}, arrays)

        self.saver.start(work)
        if wait:
            self.saver.wait()

    def write(self, name: str, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """An archive of this run."""
        content = npz({"format": FORMAT, "run": self.identity, **about}, arrays)
        write(self.path / name, content)


try:
    import fcntl
except ImportError:  # not on Windows: there, two writers are not kept apart
    fcntl = None

NAME = ".lock"


class Busy(InputError):
    """Somebody else writes there."""


class Lock:
    """Held from its making to `release`. The system lets go of it when its process dies, so that none is ever left behind;
    the file only says who holds it."""

    def __init__(self, folder: Path):
        self.path = folder / NAME
        self._file: int | None = None
        while self._file is None:
            self._file = self._taken(folder)

    def _taken(self, folder: Path) -> int | None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 64).decode(errors="replace").strip()
            os.close(file)
            raise Busy(
                f"out: {owner or 'another process'} is writing the run in {folder}: wait until it has ended, or choose another folder"
            ) from None
        except OSError:  # a file system without locks
            pass
        try:
            same = os.stat(self.path).st_ino == os.fstat(file).st_ino
        except FileNotFoundError:
            same = False
        if not same:  # its last holder removed it in between: once more
            os.close(file)
            return None
        with contextlib.suppress(OSError):  # a full disk: nobody learns who it is
            os.truncate(file, 0)
            os.write(file, f"process {os.getpid()}".encode())
        return file

    def release(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._file)
            self._file = None
