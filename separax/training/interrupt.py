"""What ends a run before its last step: Ctrl-C, or the end of the seconds that it was given."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any


class Interrupt:
    """Whether a run is to stop: after the first Ctrl-C (or SIGTERM; the second one is Python's
    own), or when its budget of seconds is spent. Whoever listens to the one listens to the other.

    Arguments:
        seconds: how long the run may take, from now on; None: as long as it likes.

    Attributes:
        seconds: the budget.
        ctrl_c: whether Ctrl-C was pressed.
        kept: seconds at the end of the budget that are kept for what comes after the last step,
            such as an estimate.
    """

    def __init__(self, seconds: float | None = None):
        self.seconds = math.inf if seconds is None else seconds
        self.ctrl_c = False
        self.kept = 0.0
        self._late = False
        self._began = time.perf_counter()
        self._before: dict[int, Any] = {}

    @property
    def left(self) -> float:
        """The seconds until the end of the budget; infinite where there is none."""
        return self._began + self.seconds - time.perf_counter()

    @property
    def asked(self) -> bool:
        """Whether the run is to stop."""
        return self.ctrl_c or self._late or self.left <= self.kept

    def allows(self, seconds: float) -> bool:
        """Whether what takes so long may begin; where it would not end within the budget, the run
        is asked to stop.

        Arguments:
            seconds: as far as can be told from what was done before.
        """
        self._late = self._late or seconds > self.left - self.kept
        return not self.asked

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: Any) -> None:
        if self.ctrl_c:
            raise KeyboardInterrupt
        self.ctrl_c = True

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
