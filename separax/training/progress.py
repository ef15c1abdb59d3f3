"""What a person sees while a run goes on: a live bar on a terminal, a few plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO


class Update(Protocol):
    """Called between launches. Any function of this shape can be a callback of `solve`; more than that is in `separax.hooks`."""

    def __call__(
        self, *, step: int, steps: int, loss: float, error: float | None, rate: float
    ) -> None: ...


def clock(seconds: float) -> str:
    """12 → "0:12", 3725 → "1:02:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2e}"


class Lines:
    """One line at the start, at every tenth of the run and at its end: for pipes, files and CI."""

    def __init__(self, title: str, stream: TextIO):
        self.title, self.stream, self.next = title, stream, 0.1

    def __enter__(self) -> Lines:
        print(f"{self.title}: compiling", file=self.stream, flush=True)
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __call__(
        self,
        *,
        step: int,
        steps: int,
        losses: Mapping[str, float],
        error: float | None,
        rate: float,
    ) -> None:
        if step < self.next * steps:
            return
        self.next = step / steps + 0.1
        left = clock((steps - step) / rate) if rate else "?"
        print(
            f"{self.title}: step {step:,} of {steps:,}  loss {number(losses['total'])}  error {number(error)}  {rate:,.0f} steps/s  {left} left",
            file=self.stream,
            flush=True,
        )


class Bar:
    """A live bar with loss, error, steps per second and time left."""

    def __init__(self, title: str):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("loss [cyan]{task.fields[loss]}"),
            TextColumn("error [green]{task.fields[error]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("[dim]{task.fields[left]}"),
            console=Console(stderr=True),
            expand=True,
        )
        self.title, self.started = title, time.perf_counter()
        self.task = self.bar.add_task(
            title, total=None, loss="–", error="–", rate="compiling", left=""
        )

    def __enter__(self) -> Bar:
        self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.stop()

    def __call__(
        self,
        *,
        step: int,
        steps: int,
        losses: Mapping[str, float],
        error: float | None,
        rate: float,
    ) -> None:
        left = (
            f"{clock((steps - step) / rate)} left"
            if rate and step < steps
            else f"{clock(time.perf_counter() - self.started)}"
        )
        self.bar.update(
            self.task,
            total=steps,
            completed=step,
            loss=number(losses["total"]),
            error=number(error),
            rate=f"{rate:,.0f} steps/s",
            left=left,
        )


class Silent:
    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __call__(self, **_: Any) -> None:
        pass


def display(title: str, wanted: bool | None) -> Bar | Lines | Silent:
    """A bar on a terminal, lines elsewhere; None means a bar on a terminal and silence elsewhere."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        return Silent()
    return Bar(title) if sys.stderr.isatty() else Lines(title, sys.stderr)
