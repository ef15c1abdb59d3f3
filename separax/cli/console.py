"""What the commands share: where words go, how refusals read, how lists are written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer
from rich.console import Console

words = Console(stderr=True, highlight=False)  # progress and words; results go to standard output


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turns refusals into a line on standard error and an exit code: 2 for bad input, 1 for a run that failed."""
    from ..core import Diverged, InputError

    try:
        yield
    except InputError as error:
        words.print(f"[bold red]error:[/] {_plain(error)}")
        raise typer.Exit(2) from None
    except Diverged as error:
        words.print(f"[bold red]stopped:[/] {_plain(error)}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        words.print(
            "[bold red]stopped[/] at once, as asked twice; nothing since the last save was kept"
        )
        raise typer.Exit(130) from None


def _plain(error: Exception) -> str:
    return str(error).replace("[", "\\[")


def several(values: list[str] | None) -> list[str]:
    """--points 16,32 --points 64 as one list."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def numbers(option: str, values: list[str] | None) -> list[int]:
    from ..core import InputError, whole

    try:
        return [whole(option, int(value)) for value in several(values)]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{option} must be whole numbers with commas between, got {','.join(values or [])!r}"
        ) from None
