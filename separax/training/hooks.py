"""What a run tells others while it goes on: hooks, and one for TensorBoard.

    sx.solve(problem, callback=sx.TensorBoard("logs"))
    sx.solve(problem, callback=[mine, sx.TensorBoard("logs")])

A plain function is a callback too: it is called between launches with step, steps, loss, error and rate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import Diverged, InputError, shown
from .progress import Update


class AbstractHook:
    """A hook is told of a run while it goes on. All of its methods are optional."""

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Called before the first step.

        Arguments:
            settings: what the run was asked for.
        """

    def on_update(
        self,
        *,
        step: int,
        steps: int,
        losses: Mapping[str, float],
        error: float | None,
        rate: float,
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
        """Called once, with whatever came out, also of a run that was stopped or diverged."""


class Hooks(AbstractHook):
    """Some hooks and functions as one."""

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
        self._functions: list[Update] = [one for one in given if one not in self._hooks]

    def on_start(self, settings: Mapping[str, Any]) -> None:
        for hook in self._hooks:
            hook.on_start(settings)

    def on_update(
        self,
        *,
        step: int,
        steps: int,
        losses: Mapping[str, float],
        error: float | None,
        rate: float,
    ) -> None:
        now = {"step": step, "steps": steps, "error": error, "rate": rate}
        for function in self._functions:
            function(loss=losses["total"], **now)
        for hook in self._hooks:
            hook.on_update(losses=losses, **now)

    def on_end(self, solution: Any) -> None:
        for hook in self._hooks:
            hook.on_end(solution)

    def ended(self, finish: Callable[[], Any]) -> Any:
        """What `finish` returns, or the solution that its `Diverged` carries, is told and handed on."""
        try:
            solution = finish()
        except Diverged as error:
            self.on_end(error.solution)
            raise
        self.on_end(solution)
        return solution


class TensorBoard(AbstractHook):
    """Writes losses, error and speed to a folder that `tensorboard --logdir` shows. Needs `pip install separax[tensorboard]`."""

    def __init__(self, folder: str | os.PathLike[str]):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise InputError(
                "TensorBoard: tensorboardX is not installed: write pip install 'separax[tensorboard]'"
            ) from None
        self._writer: Any = None
        self._make, self.folder = SummaryWriter, Path(folder)

    def on_start(self, settings: Mapping[str, Any]) -> None:
        try:
            self._writer = self._make(str(self.folder))
        except OSError as error:
            raise InputError(
                f"TensorBoard: cannot write to {self.folder} ({error.strerror}): choose another folder"
            ) from error
        self._writer.add_text(
            "settings",
            "\n".join(f"- {name}: `{_short(value)}`" for name, value in settings.items()),
        )

    def on_update(
        self,
        *,
        step: int,
        steps: int,
        losses: Mapping[str, float],
        error: float | None,
        rate: float,
    ) -> None:
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
        return ", ".join(f"{k} = {v}" for k, v in value.items())
    return (
        ", ".join(map(str, value))
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )
