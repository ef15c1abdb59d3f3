"""Several rows at once: a step of a small network leaves most of a GPU idle, and compiling leaves all of it so.

Each worker is a process of its own that trains its share of the rows, while this one compiles the steps it will time when they
are done and the device is its own. Where the driver offers it (NVIDIA's MPS), the workers' kernels run side by side.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError

QUICK = "--xla_gpu_autotune_level=0"  # workers spend less on compiling, at the price of slower steps


class Workers:
    """Several processes of `separax reproduce`, each training its share of the rows. What they say goes to files in `logs`."""

    def __init__(self, arguments: Sequence[str], number: int, logs: Path):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a device's memory is for all of them, and for us
        environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()}
        logs.mkdir(parents=True, exist_ok=True)
        self.logs, self.running = logs, []
        for i in range(1, number + 1):
            command = [sys.executable, "-m", "separax", "reproduce", *arguments, "--share", f"{i}/{number}"]
            with open(self.log(i), "wb") as log:
                # in a session of its own, so that Ctrl-C reaches it once, through us
                each = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            self.running.append(each)

    def log(self, number: int) -> Path:
        return self.logs / f"worker{number}.log"

    def alive(self) -> bool:
        return any(each.poll() is None for each in self.running)

    def wait(self) -> list[int]:
        """Their exit codes."""
        return [each.wait() for each in self.running]

    def interrupt(self) -> list[int]:
        """Stops them and waits: every one keeps what it has."""
        for each in self.running:
            if each.poll() is None:
                each.send_signal(signal.SIGINT)
        return self.wait()


def part(text: str) -> tuple[int, int]:
    """ "2/6": the second of six shares, as where it begins and how far apart its rows are."""
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise InputError(f"share: {text!r} is not a share of the rows: write --share 2/6 for the second of six")
    return int(number) - 1, int(of)


def spelled(options: Mapping[str, Any]) -> list[str]:
    """Options as they are typed; those that were not given, and lists once for each entry."""
    lists = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in options.items() if value is not None}
    return [word for name, values in lists.items() for value in values for word in (name, str(value))]
