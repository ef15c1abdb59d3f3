"""Who writes to a folder of a run, and the two newest states there.

One process writes to a folder at a time. States are written beside the training, so that
the device goes on.

The two files take turns: a new state goes where the older of the two was, so that whatever happens
to it (the process is killed, the disk is full, the file is damaged later) the other one is still
there, and still good.

Not Orbax: a run here is some small arrays on one host, and what it needs (a checksum of every file,
the run's identity in each, a fallback to the state before, files that NumPy opens) is not what
Orbax is for, which is sharded arrays written by many hosts.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InputError, say
from .files import Damaged, npz, read_npz, write

try:
    import fcntl
except ImportError:  # not on Windows: there, two writers are not kept apart
    fcntl = None

NAME = ".lock"


class Busy(InputError):
    """Another process writes to the folder."""


class Lock:
    """The right to write to a folder, held until `release`.

    The system takes it back when the process dies, so that none is ever left behind; the file only
    says who holds it.

    Arguments:
        folder: to be written to. Raises `Busy` where another process holds its lock.
    """

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
                f"out: {owner or 'another process'} is writing the run in {folder}: wait until it"
                " has ended, or choose another folder"
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
        """Lets other processes write."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._file)
            self._file = None


# --- states ---------------------------------------------------------------------------------------

NAMES = ("state.a.npz", "state.b.npz")

State = tuple[dict[str, Any], dict[str, np.ndarray]]  # what it is about, and its arrays


class States:
    """The two states in a folder."""

    def __init__(self, folder: Path, identity: str | None):
        self.folder, self.identity = folder, identity
        self._turn = 0  # the place in NAMES of the file that is written next
        self._last = 0  # how many states were written

    def newest(self) -> State | None:
        """The newest state that is good, with a word about what is not; None: there is none."""
        found: list[tuple[int, int, State]] = []
        damaged: list[Damaged] = []
        for place, name in enumerate(NAMES):
            if (self.folder / name).exists():
                try:
                    state = read_npz(self.folder / name, self.identity, "state")
                    found.append((state[0]["number"], place, state))
                except Damaged as error:
                    damaged.append(error)
        if not found:
            self._say(damaged, "this part of the run starts again from the beginning")
            return None
        self._last, place, state = max(found, key=lambda one: one[0])
        self._turn = 1 - place
        self._say(damaged, f"the other state, of step {state[0]['step']:,}, is used")
        return state

    def _say(self, damaged: list[Damaged], instead: str) -> None:
        if damaged:
            say(f"{'; '.join(map(str, damaged))}: {instead}")

    def write(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a state in place of the older one."""
        number = self._last + 1
        content = npz({"kind": "state", "run": self.identity, "number": number, **about}, arrays)
        write(self.folder / NAMES[self._turn], content)
        self._last, self._turn = number, 1 - self._turn


class Saver:
    """Writes in a thread of its own, one thing at a time.

    What cannot be written (a full disk) stops nobody: it is said once, tried again the next time,
    and said at the end if it never worked (`trouble`).
    """

    def __init__(self):
        self.trouble: Exception | None = None
        self._thread: threading.Thread | None = None
        self._said = False

    @property
    def busy(self) -> bool:
        """Whether something is being written."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Has something written, once the last thing is."""
        self.wait()
        self._thread = threading.Thread(target=self.do, args=(work,), name="separax: saving")
        self._thread.start()

    def wait(self) -> None:
        """Returns when nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def do(self, work: Callable[[], None]) -> None:
        """Writes something here and now."""
        try:
            work()
            self.trouble = None
        except Exception as error:  # whatever it is, it takes nothing from the training beside it
            self.trouble = error
            if not self._said:
                self._said = True
                say(
                    "the run goes on, but could not be saved just now"
                    f" ({error.__class__.__name__}: {error}); what was saved before is good"
                )
