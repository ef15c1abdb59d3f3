"""A run of the training engine: stage after stage, launch after launch. It knows neither solutions nor folders."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..core import check_fits, default_device, on_cpu, tuning
from .trainer import Compiled, Trainer, TrainState

LAUNCH_SECONDS = 0.5  # between two screen updates, and the longest wait for Ctrl-C

# a session, every term of the loss and the total, and steps per second
Observer = Callable[["Session", Mapping[str, float], float], None]


def check_memory(trainer: Trainer) -> None:
    """Refuses a run whose step would not fit, before anything is compiled or written."""
    counts, itemsize = trainer.loss.counts, np.dtype(trainer.loss.recipe.dtype).itemsize
    if math.prod(counts.values()) * itemsize > 2**24:  # smaller ones always fit
        points = " × ".join(map(str, counts.values()))
        check_fits(
            f"points={points}: a training step",
            trainer.predicted_bytes(),
            "use fewer points, a smaller rank, or fewer seeds at once",
        )


def device_for(trainer: Trainer) -> contextlib.AbstractContextManager[Any]:
    """The device for a run: small solves are the processor's."""
    small = default_device().platform != "cpu" and _numbers(trainer) <= tuning.CPU_SOLVE
    return on_cpu() if small else contextlib.nullcontext()


def _numbers(trainer: Trainer) -> float:
    """How many numbers the Jacobians of all stages have."""
    loss = trainer.loss
    places = jax.eval_shape(lambda: loss.draw(jax.random.key(0), jax.numpy.zeros((), int)))
    objective = trainer.objective(places)
    return sum(stage.optimiser.numbers(objective) for stage in loss.recipe.stages)


class Interrupt:
    """Turns the first Ctrl-C (or SIGTERM) into a flag; the second one is Python's own."""

    def __init__(self):
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


class Programs:
    """The compiled launches of a loss, one per stage of its recipe. A launch is made when it is needed (a finished
    stage is not), and once for all windows of a march."""

    def __init__(self, trainer: Trainer):
        self.loss, self.seeds = trainer.loss, trainer.seeds
        self._trainers = {0: trainer}
        self._launches: dict[int, Compiled] = {}

    def trainer(self, stage: int) -> Trainer:
        """The trainer of a stage."""
        if stage not in self._trainers:
            self._trainers[stage] = Trainer(self.loss, self.seeds, stage)
        return self._trainers[stage]

    def launch(self, stage: int, state: TrainState) -> tuple[Compiled, float]:
        """A stage's launch, and the seconds that compiling it took now."""
        if stage in self._launches:
            return self._launches[stage], 0.0
        self._launches[stage] = found = self.trainer(stage).compile(state)
        return found, found.seconds


class Session:
    """One run from its first launch to its last.

    Attributes:
        state: where the run is.
        trainer: of the stage it is in.
        records: every term of the loss and the total, of the steps that the history holds.
        spent, compiling: seconds.
        bytes: of the largest launch.
        trouble: why there is nothing to go on with, if so.
    """

    def __init__(self, programs: Programs, state: TrainState, interrupt: Interrupt, stage: int = 0):
        self.programs, self.interrupt, self.state = programs, interrupt, state
        self.loss, self.trainer = programs.loss, programs.trainer(stage)
        self.records: list[np.ndarray] = []
        self.spent = self.compiling = 0.0
        self.bytes: int | None = None
        self.trouble: str | None = None

    @property
    def step(self) -> int:
        """Steps that were made, over all stages."""
        return int(np.max(self.state.step))

    def go(self, observe: Observer) -> None:
        """Stage after stage until the last step, an interrupt or trouble; `observe` is told after every launch."""
        while True:
            self._launches(observe)
            stopped = self.step < self.trainer.stage.end or self.interrupt.asked
            if stopped or self.trouble is not None or self.step == self.loss.recipe.total_steps:
                return
            self.trainer = self.programs.trainer(self.trainer.stage.number + 1)
            self.state = self.trainer.begin(self.state)
            self.compiling += self.trainer.spent()

    def _launches(self, observe: Observer) -> None:
        """Launch after launch until the stage's last step, an interrupt or trouble."""
        stage, length = self.trainer.stage, self.trainer.round
        step, rounds, rate = self.step, 1, 0.0
        while step < stage.end and not self.interrupt.asked and self.trouble is None:
            rounds = min(rounds, self.trainer.held, (stage.end - step) // length)
            launch = self._compiled()
            started = time.perf_counter()
            self.state, record = launch(self.state, rounds)
            took = time.perf_counter() - started
            self._keep(record, step)
            step += rounds * length
            self.spent += took
            # at once, so that a state at the end of its stage is always a closed one
            if step == stage.end:
                self.state = self.trainer.close(self.state)
                self.compiling += self.trainer.spent()
            rate = rounds * length / took if not rate else 0.7 * rate + 0.3 * rounds * length / took
            last = np.median(record[..., -1, :].reshape(-1, record.shape[-1]), axis=0)  # over seeds
            losses = {name: float(v) for name, v in zip((*self.loss.names, "total"), last)}
            observe(self, losses, rate)
            rounds = max(1, min(2 * rounds, round(rounds * LAUNCH_SECONDS / took)))

    def _compiled(self) -> Compiled:
        """This stage's launch. A run's compiling is the sum over its stages, its memory that of the largest."""
        launch, seconds = self.programs.launch(self.trainer.stage.number, self.state)
        self.compiling += seconds
        self.bytes = max((b for b in (self.bytes, launch.bytes) if b is not None), default=None)
        return launch

    def _keep(self, record: np.ndarray, start: int) -> None:
        """The history, thinned to every look of a stage; and the first loss that is not finite."""
        bad = ~np.isfinite(record)
        steps = start - self.trainer.stage.start + np.arange(record.shape[-2])
        self.records.append(record[..., steps % self.trainer.optimiser.look == 0, :])
        if not np.all(np.any(bad[..., -1], axis=-1)):  # with several seeds: as long as one is left
            return
        each = np.any(bad, axis=(-1, 0)) if bad.ndim == 3 else np.any(bad, axis=-1)
        first = int(np.argmax(each))
        here = np.any(bad[..., first, :].reshape(-1, bad.shape[-1]), axis=0)
        names = [n for n, b in zip((*self.loss.names, "total"), here) if b]
        named = ", ".join(repr(n) for n in names if n != "total") or repr("total")
        self.trouble = f"the loss stopped being finite at step {start + first:,} (term {named})"
