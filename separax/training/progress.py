"""What a person sees while a run goes on: a live bar on a terminal, a few lines anywhere else."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..core import shown_by

Losses = Mapping[str, float]  # every term of the loss by name, and its "total"
QUIET = 10.0  # seconds without a word, after which a line says how far a run is


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        step: how many steps were made.
        steps: how many there will be.
        losses: every term of the loss by name, and its "total".
        error: the relative L2 error, where the problem has a reference.
        rate: steps per second.
        place: where a run is that does not know how many steps it will make, in words.
    """

    step: int
    steps: int
    losses: Losses
    error: float | None
    rate: float
    place: str = ""

    def within(self, before: int, steps: int, place: str = "") -> Progress:
        """The same in a longer run.

        Arguments:
            before: its steps that were made before this one began.
            steps: of it in all.
            place: where this one is in it, in words.
        """
        if place:
            place = f"{place}, step {self.step} of {self.steps}"
        return dataclasses.replace(
            self, step=before + self.step, steps=steps, place=place or self.place
        )

    @property
    def left(self) -> str:
        """The time until the last step, in words."""
        return clock((self.steps - self.step) / self.rate) if self.rate else "?"

    @property
    def words(self) -> str:
        """How far the run is, for a line."""
        figures = f"loss {number(self.losses['total'])}  error {number(self.error)}"
        if self.place:
            return self.place if self.error is None else f"{self.place}  error {number(self.error)}"
        return (
            f"step {self.step:,} of {self.steps:,}  {figures}  {self.rate:,.0f} steps/s "
            f" {self.left} left"
        )


Report = Callable[[Progress], None]
Tell = Callable[[str], None]


@contextlib.contextmanager
def display(title: str, wanted: bool | None) -> Iterator[tuple[Report, Tell]]:
    """Shows a run while it goes on, on standard error.

    Arguments:
        title: the name of what is solved.
        wanted: True or None: a bar on a terminal, lines elsewhere, where True has one at every
            tenth of the run, too; False: nothing.

    Returns:
        A context manager, which yields the functions to be told of progress, and of what deserves a
        line of its own.
    """

    def tell(text: str) -> None:
        print(f"{title}: {text}", file=sys.stderr, flush=True)

    if wanted is False:
        yield (lambda now: None), (lambda text: None)
    elif sys.stderr.isatty():
        with _bar(title) as (report, show), shown_by(show):
            yield report, tell
    else:
        lines = _Lines(tell, tenths=wanted is True)
        try:
            with shown_by(lines.show):
                yield lines.report, lines.tell
        finally:
            lines.over.set()


def clock(seconds: float) -> str:
    """12 → "0:12", 3725 → "1:02:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float | None) -> str:
    """0.00123 → "1.23e-03"; a dash for None."""
    return "–" if value is None else f"{value:.2e}"


class _Lines:
    """Lines for pipes, files, notebooks and CI: what a run tells; and how far it is, where it told
    nothing for a while.

    Arguments:
        print: prints a line.
        tenths: whether there is one at the start, at every tenth of the run and at its end.

    Attributes:
        over: is set when there is nothing more to tell.
    """

    def __init__(self, print: Tell, tenths: bool):
        self.over = threading.Event()
        self._print, self._tenths, self._done = print, tenths, 0
        self._began = self._said = time.perf_counter()
        self._now: Progress | None = None
        self._doing = "compiling"
        if tenths:
            self.tell("compiling")
        threading.Thread(target=self._keep_talking, name="separax progress", daemon=True).start()

    def tell(self, text: str) -> None:
        """Prints a line."""
        self._said = time.perf_counter()
        self._print(text)

    def show(self, text: str) -> None:
        """Remembers what is being done."""
        self._now, self._doing = None, text

    def report(self, now: Progress) -> None:
        """Remembers how far a run is, and prints it at every tenth."""
        self._now = now
        if self._tenths and 10 * now.step // now.steps > self._done:
            self._done = 10 * now.step // now.steps
            self.tell(now.words)

    def _keep_talking(self) -> None:
        # a compiler or a long step tells nothing itself
        while not self.over.wait(max(0.1, self._said + QUIET - time.perf_counter())):
            if time.perf_counter() - self._said >= QUIET:
                far = self._doing if self._now is None else self._now.words
                self.tell(f"after {clock(time.perf_counter() - self._began)}  {far}")


@contextlib.contextmanager
def _bar(title: str) -> Iterator[tuple[Report, Tell]]:
    """A live bar with loss, error, steps per second and time left; where the speed stands, what is
    being done before there is one."""
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

        def show(text: str) -> None:
            if not bar.tasks[task].finished:
                bar.update(task, rate=text)

        yield tell, show
