"""What a person sees while a run goes on: a live bar on a terminal, a few lines anywhere else."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

Losses = Mapping[str, float]  # every term of the loss by name, and its "total"


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        step: how many steps were made.
        steps: how many there will be.
        losses: every term of the loss by name, and its "total".
        error: the relative L2 error, where the problem has a reference.
        rate: steps per second.
    """

    step: int
    steps: int
    losses: Losses
    error: float | None
    rate: float

    def within(self, before: int, steps: int) -> Progress:
        """The same in a longer run.

        Arguments:
            before: its steps that were made before this one began.
            steps: of it in all.
        """
        return Progress(before + self.step, steps, self.losses, self.error, self.rate)

    @property
    def left(self) -> str:
        """The time until the last step, in words."""
        return clock((self.steps - self.step) / self.rate) if self.rate else "?"


Report = Callable[[Progress], None]


@contextlib.contextmanager
def display(title: str, wanted: bool | None) -> Iterator[Report]:
    """Shows a run while it goes on, on standard error.

    Arguments:
        title: the name of what is solved.
        wanted: True: a bar on a terminal, lines elsewhere; None: a bar on a terminal; False:
            nothing.

    Returns:
        A context manager, which yields the function to be told of progress.
    """
    terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and not terminal):
        yield lambda now: None
    elif terminal:
        with _bar(title) as tell:
            yield tell
    else:
        yield _lines(title, sys.stderr)


def clock(seconds: float) -> str:
    """12 → "0:12", 3725 → "1:02:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float | None) -> str:
    """0.00123 → "1.23e-03"; a dash for None."""
    return "–" if value is None else f"{value:.2e}"


def _lines(title: str, stream: TextIO) -> Report:
    """One line at the start, at every tenth of the run and at its end: for pipes, files and CI."""
    print(f"{title}: compiling", file=stream, flush=True)
    due = 0.1

    def tell(now: Progress) -> None:
        nonlocal due
        if now.step < due * now.steps:
            return
        due = now.step / now.steps + 0.1
        print(
            f"{title}: step {now.step:,} of {now.steps:,}  loss {number(now.losses['total'])}"
            f"  error {number(now.error)}  {now.rate:,.0f} steps/s  {now.left} left",
            file=stream,
            flush=True,
        )

    return tell


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Report]:
    """A live bar with loss, error, steps per second and time left."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("loss [cyan]{task.fields[loss]}"),
        TextColumn("error [green]{task.fields[error]}"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("[dim]{task.fields[left]}"),
    )
    started = time.perf_counter()
    with Bar(*columns, console=Console(stderr=True), expand=True) as bar:
        task = bar.add_task(title, total=None, loss="–", error="–", rate="compiling", left="")

        def tell(now: Progress) -> None:
            over = not now.rate or now.step >= now.steps
            bar.update(
                task,
                total=now.steps,
                completed=now.step,
                loss=number(now.losses["total"]),
                error=number(now.error),
                rate=f"{now.rate:,.0f} steps/s",
                left=clock(time.perf_counter() - started) if over else f"{now.left} left",
            )

        yield tell
