"""A run of the training engine: stage after stage, launch after launch.

It knows neither solutions nor folders.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping

import jax
import numpy as np

from ..core import check_fits, default_device, on_cpu, threads_for, tuning
from ..residuals import block_sizes
from .interrupt import Interrupt
from .trainer import Trainer, TrainState

LAUNCH_SECONDS = 0.5  # between two screen updates, and the longest wait for Ctrl-C

# a session, every term of the loss and the total, and steps per second
Observer = Callable[["Session", Mapping[str, float], float], None]


def check_memory(trainer: Trainer) -> None:
    """Refuses a run whose step would not fit, before anything is compiled or written.

    Arguments:
        trainer: of the run's first stage.
    """
    counts, itemsize = trainer.loss.counts, np.dtype(trainer.loss.recipe.dtype).itemsize
    if math.prod(counts.values()) * itemsize > 2**24:  # smaller ones always fit
        points = " × ".join(map(str, counts.values()))
        check_fits(
            f"points={points}: a training step",
            trainer.predicted_bytes(),
            "use fewer points, a smaller rank, or fewer seeds at once",
        )


@contextlib.contextmanager
def device_for(trainer: Trainer) -> Iterator[None]:
    """The device for a run: small solves are the processor's, and done in one thread.

    Arguments:
        trainer: of the run's first stage.
    """
    loss, network = trainer.loss, trainer.loss.recipe.network
    with contextlib.ExitStack() as stack:
        if all(stage.optimiser.solves_all_of(network) for stage in loss.recipe.stages):
            stack.enter_context(threads_for(sum(block_sizes(loss))))
        if is_for_the_processor(trainer):
            stack.enter_context(on_cpu())
        yield


def is_for_the_processor(trainer: Trainer) -> bool:
    """Whether a run leaves the GPU there is for the processor.

    Arguments:
        trainer: of the run's first stage.
    """
    if default_device().platform == "cpu":
        return False
    loss = trainer.loss
    places = jax.eval_shape(lambda: loss.draw(jax.random.key(0), jax.numpy.zeros((), int)))
    objective = trainer.objective(places)
    numbers = sum(stage.optimiser.jacobian_numbers(objective) for stage in loss.recipe.stages)
    return numbers <= tuning.CPU_SOLVE


class Session:
    """One run from its first launch to its last.

    Arguments:
        trainer: of the stage that it is in.
        state: where it is.
        interrupt: whether it is to stop.

    Attributes:
        state: where the run is.
        trainer: of the stage it is in.
        records: every term of the loss and the total, of the steps that the history holds.
        spent, compiling: seconds.
        bytes: of the largest launch.
        trouble: why there is nothing to go on with, if so.
    """

    def __init__(self, trainer: Trainer, state: TrainState, interrupt: Interrupt):
        self.trainer, self.state, self.interrupt = trainer, state, interrupt
        self.loss = trainer.loss
        self.records: list[np.ndarray] = []
        self.spent = self.compiling = 0.0
        self.bytes: int | None = None
        self.trouble: str | None = None

    @property
    def step(self) -> int:
        """Steps that were made, over all stages."""
        return int(np.max(self.state.step))

    def go(self, observe: Observer) -> None:
        """Goes on until the last step, an interrupt or trouble.

        Arguments:
            observe: is told after every launch.
        """
        while True:
            self._launches(observe)
            stopped = self.step < self.trainer.stage.end or self.interrupt.asked
            if stopped or self.trouble is not None or self.step == self.loss.recipe.total_steps:
                return
            self.trainer = self.trainer.of_stage(self.trainer.stage.number + 1)
            self._once(self.trainer.begin)

    def _launches(self, observe: Observer) -> None:
        """Launch after launch until the stage's last step, an interrupt or trouble."""
        stage, length = self.trainer.stage, self.trainer.block
        step, blocks, rate, last_block = self.step, 1, 0.0, 0.0
        while step < stage.end and not self.interrupt.asked and self.trouble is None:
            blocks = min(blocks, self.trainer.most_blocks, (stage.end - step) // length)
            launch, seconds = self.trainer.launch(self.state, lambda: self.interrupt.asked)
            self.compiling += seconds
            if launch is None or not self.interrupt.allows(blocks * last_block):
                return
            # the memory of a run is that of its largest launch
            self.bytes = max((b for b in (self.bytes, launch.bytes) if b is not None), default=None)
            started = time.perf_counter()
            self.state, record = launch(self.state, blocks)
            took = time.perf_counter() - started
            self._keep(record, step)
            step += blocks * length
            self.spent += took
            # at once, so that a state at the end of its stage is always a closed one
            if step == stage.end:
                self._once(self.trainer.close)
            rate = blocks * length / took if not rate else 0.7 * rate + 0.3 * blocks * length / took
            last = np.median(record[..., -1, :].reshape(-1, record.shape[-1]), axis=0)  # over seeds
            losses = {name: float(v) for name, v in zip((*self.loss.names, "total"), last)}
            observe(self, losses, rate)
            last_block = took / blocks
            blocks = max(1, min(2 * blocks, round(LAUNCH_SECONDS / last_block)))

    def _once(self, change: Callable[[TrainState], TrainState]) -> None:
        """Changes the state by what runs once in a stage: nearly all of its time is compiling."""
        started = time.perf_counter()
        self.state = jax.block_until_ready(change(self.state))
        self.compiling += time.perf_counter() - started

    def _keep(self, record: np.ndarray, start: int) -> None:
        """The history, thinned to every check of a stage; and the first loss that is not finite."""
        bad = ~np.isfinite(record)
        steps = start - self.trainer.stage.start + np.arange(record.shape[-2])
        self.records.append(record[..., steps % self.trainer.optimiser.check_every == 0, :])
        if not np.all(np.any(bad[..., -1], axis=-1)):  # with several seeds: as long as one is left
            return
        each = np.any(bad, axis=(-1, 0)) if bad.ndim == 3 else np.any(bad, axis=-1)
        first = int(np.argmax(each))
        here = np.any(bad[..., first, :].reshape(-1, bad.shape[-1]), axis=0)
        names = [n for n, b in zip((*self.loss.names, "total"), here) if b]
        named = ", ".join(repr(n) for n in names if n != "total") or repr("total")
        self.trouble = f"the loss stopped being finite at step {start + first:,} (term {named})"
