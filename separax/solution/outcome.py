"""What a run was: its history, its timing, how far off its result may be. It stands beside a
solution and is none of its leaves."""

from __future__ import annotations

import math
import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..core import device_name, is_traced
from ..recipe import Recipe


@dataclass(frozen=True)
class History:
    """What was seen during training: every term of the loss, and the error where there is a
    reference.

    Attributes:
        steps: the steps at which losses were recorded.
        losses: every term of the loss at these steps, by name.
        total: the weighted sum that was minimised.
        error_steps: the steps at which the error was measured.
        errors: the relative L2 error at those.
    """

    steps: np.ndarray
    losses: dict[str, np.ndarray]
    total: np.ndarray
    error_steps: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    errors: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def none(cls) -> History:
        """A history of nothing."""
        return cls(np.zeros(0, int), {}, np.zeros(0))

    @classmethod
    def joined(cls, each: Sequence[History], steps: int) -> History:
        """The histories of windows of `steps` steps, one after the other."""

        def join(arrays: list[np.ndarray]) -> np.ndarray:
            return np.concatenate(arrays)

        return cls(
            join([h.steps + i * steps for i, h in enumerate(each)]),
            {name: join([h.losses[name] for h in each]) for name in each[0].losses},
            join([h.total for h in each]),
            join([h.error_steps + i * steps for i, h in enumerate(each)]),
            join([h.errors for h in each]),
        )


@dataclass(frozen=True)
class Timing:
    """How long a run took.

    Attributes:
        compile_seconds: spent compiling.
        train_seconds: spent in steps.
        steps: how many there were.
    """

    compile_seconds: float
    train_seconds: float
    steps: int

    @property
    def ms_per_step(self) -> float:
        """Milliseconds of a step; not a number where there was none."""
        return 1e3 * self.train_seconds / self.steps if self.steps else math.nan


@dataclass(frozen=True)
class Outcome:
    """What a run was. A solution that went through a transformation of JAX has none.

    Attributes:
        recipe: how the problem was solved.
        history, timing: what was seen, and how long it took.
        seed: of the random numbers.
        best_step, best_loss: where the parameters of the solution were found.
        memory_bytes: of a training step.
        interrupted: whether the run was stopped before its last step.
        run_dir: the folder it is kept in.
        device: what it was computed on.
        estimate: of the relative L2 error, where output layers were solved for without a recipe.
        levels: the levels of refinement behind the estimate.
        advice: sentences about what is in the way of a better solution.
        record: the run in numbers, as `separax solve --json` prints it.
        windows: the outcome of every window of time.
        measured: by field, the reference and the errors that were measured against it.
    """

    recipe: Recipe
    history: History
    timing: Timing
    seed: int = 0
    best_step: int = 0
    best_loss: float = math.nan
    memory_bytes: int | None = None
    interrupted: bool = False
    run_dir: Path | None = None
    device: str = field(default_factory=device_name)
    estimate: float | None = None
    levels: tuple[Any, ...] = ()
    advice: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    windows: tuple[Outcome, ...] = ()
    measured: dict[str | None, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def joined(
        cls, recipe: Recipe, windows: Sequence[Outcome], interrupted: bool, run_dir: Path | None
    ) -> Outcome:
        """The outcome of a march through windows of time."""
        last = windows[-1]
        memory = [w.memory_bytes for w in windows if w.memory_bytes is not None]
        timing = Timing(
            sum(w.timing.compile_seconds for w in windows),
            sum(w.timing.train_seconds for w in windows),
            sum(w.timing.steps for w in windows),
        )
        return cls(
            recipe,
            History.joined([w.history for w in windows], recipe.total_steps),
            timing,
            seed=last.seed,
            best_step=(len(windows) - 1) * recipe.total_steps + last.best_step,
            best_loss=math.fsum(w.best_loss for w in windows) / len(windows),
            memory_bytes=max(memory, default=None),
            interrupted=last.interrupted or interrupted,
            run_dir=run_dir,
            device=last.device,
            windows=tuple(windows),
        )


class Beside:
    """An outcome, and the arrays whose outcome it is.

    It is equal to any other, so that solutions that differ in it alone share compiled programs. A
    program returns what was beside the solution it was first traced with; so an outcome counts only
    for the very arrays that it was made for.
    """

    def __init__(self, outcome: Outcome | None, tree: Any):
        first = next(iter(jax.tree.leaves(tree)), None)
        self._outcome = outcome
        self._first = None if outcome is None or is_traced(first) else weakref.ref(first)

    def outcome_of(self, tree: Any) -> Outcome | None:
        """The outcome, if it is that of the arrays in the tree."""
        first = next(iter(jax.tree.leaves(tree)), None)
        return self._outcome if self._first is not None and self._first() is first else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Beside)

    def __hash__(self) -> int:
        return 0


class AbstractRun(eqx.Module):
    """Answers about the run behind a solution: `solution.history` is `solution.outcome.history`."""

    @property
    @abstractmethod
    def outcome(self) -> Outcome:
        """What the run was: its recipe, history, timing, estimate, advice and record."""

    @property
    def recipe(self) -> Recipe:
        """How the problem was solved."""
        return self.outcome.recipe

    @property
    def history(self) -> History:
        """The losses during training, and the error where there is a reference."""
        return self.outcome.history

    @property
    def timing(self) -> Timing:
        """How long compiling and training took."""
        return self.outcome.timing

    @property
    def seed(self) -> int:
        """The seed of the random numbers."""
        return self.outcome.seed

    @property
    def best_step(self) -> int:
        """The step at which these parameters were found."""
        return self.outcome.best_step

    @property
    def best_loss(self) -> float:
        """The loss of these parameters."""
        return self.outcome.best_loss

    @property
    def memory_bytes(self) -> int | None:
        """The memory of a training step, where the device tells."""
        return self.outcome.memory_bytes

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its last step."""
        return self.outcome.interrupted

    @property
    def run_dir(self) -> Path | None:
        """The folder that the run is kept in."""
        return self.outcome.run_dir

    @property
    def device(self) -> str:
        """What the solution was computed on."""
        return self.outcome.device

    @property
    def estimate(self) -> float | None:
        """The estimated relative L2 error, where the problem was solved without a recipe."""
        return self.outcome.estimate

    @property
    def levels(self) -> tuple[Any, ...]:
        """The levels of refinement behind the estimate."""
        return self.outcome.levels

    @property
    def advice(self) -> tuple[str, ...]:
        """Sentences about what is in the way of a better solution, and what would help."""
        return self.outcome.advice

    @property
    def record(self) -> Mapping[str, Any]:
        """The run in numbers, as `separax solve --json` prints it."""
        return self.outcome.record
