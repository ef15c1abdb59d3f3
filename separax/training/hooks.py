"""What a run tells others while it goes on: hooks, and one for TensorBoard.

    sx.solve(problem, callback=sx.TensorBoard("logs"))
    sx.solve(problem, callback=[mine, sx.TensorBoard("logs")])

A plain function is a callback too: it is called between launches with step, steps, loss, error and
rate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core import Diverged, InputError, shown
from .progress import Losses, Progress


class AbstractHook:
    """A hook is told of a run while it goes on. All of its methods are optional."""

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Called before the first step.

        Arguments:
            settings: what the run was asked for.
        """

    def on_update(
        self, *, step: int, steps: int, losses: Losses, error: float | None, rate: float
    ) -> None:
        """Called between launches, about twice a second.

        Arguments:
            step: how many steps were made.
            steps: how many there will be.
            losses: every term of the loss by name, and its "total".
            error: the relative L2 error, where the problem has a reference.
            rate: steps per second.
        """

    def on_end(self, solution: Any) -> None:
        """Called once, also at the end of a run that was stopped or diverged.

        Arguments:
            solution: what came out, with the best parameters.
        """


class Hooks:
    """The hooks and functions that a run tells of itself.

    Arguments:
        callback: a hook, a function, a list of them, or None.
    """

    def __init__(self, callback: Any):
        several = isinstance(callback, (list, tuple))
        given = list(callback) if several else [] if callback is None else [callback]
        for one in given:
            if isinstance(one, type) or not (callable(one) or isinstance(one, AbstractHook)):
                raise InputError(
                    "solve: callback must be a function of step, steps, loss, error and rate, or an"
                    f" object of a subclass of sx.AbstractHook; got {shown(one)}"
                )
        self._hooks = [one for one in given if isinstance(one, AbstractHook)]
        self._functions = [one for one in given if one not in self._hooks]

    def start(self, settings: Mapping[str, Any]) -> None:
        """Tells of the start of a run.

        Arguments:
            settings: what it was asked for.
        """
        for hook in self._hooks:
            hook.on_start(settings)

    def update(self, now: Progress) -> None:
        """Tells of a run that goes on.

        Arguments:
            now: how far it is.
        """
        known = {"step": now.step, "steps": now.steps, "error": now.error, "rate": now.rate}
        for function in self._functions:
            function(loss=now.losses["total"], **known)
        for hook in self._hooks:
            hook.on_update(losses=now.losses, **known)

    def end(self, finish: Callable[[], Any]) -> Any:
        """Tells what a run ends with, also where it diverged.

        Arguments:
            finish: ends the run.

        Returns:
            What `finish` returns.
        """
        try:
            solution = finish()
        except Diverged as error:
            self._end(error.solution)
            raise
        self._end(solution)
        return solution

    def _end(self, solution: Any) -> None:
        for hook in self._hooks:
            hook.on_end(solution)


class TensorBoard(AbstractHook):
    """Writes losses, error and speed to a folder that `tensorboard --logdir` shows.

    Needs `pip install separax[tensorboard]`.

    Arguments:
        folder: to write to.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            advice = "write pip install 'separax[tensorboard]'"
            raise InputError(f"TensorBoard: tensorboardX is not installed: {advice}") from None
        self._writer: Any = None
        self._make, self.folder = SummaryWriter, Path(folder)

    def on_start(self, settings: Mapping[str, Any]) -> None:
        try:
            self._writer = self._make(str(self.folder))
        except OSError as error:
            said = f"TensorBoard: cannot write to {self.folder} ({error.strerror})"
            raise InputError(f"{said}: choose another folder") from error
        lines = [f"- {name}: `{_short(value)}`" for name, value in settings.items()]
        self._writer.add_text("settings", "\n".join(lines))

    def on_update(self, *, step, steps, losses, error, rate) -> None:
        for name, value in losses.items():
            self._writer.add_scalar(f"loss/{name}", value, step)
        if error is not None:
            self._writer.add_scalar("relative_l2", error, step)
        self._writer.add_scalar("steps_per_second", rate, step)
        self._writer.flush()

    def on_end(self, solution: Any) -> None:
        self._writer.close()


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
