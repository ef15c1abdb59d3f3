"""One process writes to a folder at a time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..core import InputError

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
