"""What separax says when it is asked for something it cannot do.

Every message names the argument, what came, and what to write instead; all of them are raised before anything is
compiled, except `Diverged`, which carries the best solution found so far.
"""

from __future__ import annotations

import difflib
import math
import numbers
import sys
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """An argument that cannot be used, with what to write instead."""


class DerivativeError(InputError, AttributeError):
    """A derivative that does not exist (an attribute error too, so that `hasattr` keeps its meaning)."""


class MemoryPrediction(InputError, MemoryError):
    """A computation that would not fit in memory, refused before it is tried."""


class Diverged(ArithmeticError):
    """A loss that stopped being finite. `solution` holds the best parameters found before."""

    def __init__(self, message: str, solution: Any = None):
        super().__init__(message)
        self.solution = solution


def listed(names: Iterable[str]) -> str:
    return ", ".join(str(name) for name in names) or "none"


def nearest(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x'?" where something known is close to `name`, otherwise nothing."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def whole(argument: str, value: Any, least: int = 1) -> int:
    """`value` as an int, refused unless it is a whole number of at least `least`."""
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or int(value) != value or value < least:  # pyright: ignore[reportArgumentType]
        raise InputError(
            f"{argument} must be a whole number of at least {least}, got {value!r}: write e.g. {argument}={max(least, 32)}"
        )
    return int(value)  # pyright: ignore[reportArgumentType]


def finite(argument: str, value: Any, positive: bool = False) -> float:
    """`value` as a float, refused unless it is a finite (and, if asked, positive) number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{argument} must be a number, got {value!r}") from None
    if not math.isfinite(number) or (positive and number <= 0):
        raise InputError(
            f"{argument} must be a {'positive' if positive else 'finite'} number, got {value!r}"
        )
    return number


def one_of(argument: str, value: Any, known: Iterable[str]) -> Any:
    """`value`, refused unless it is one of the `known` words."""
    known = tuple(known)
    if value not in known:
        raise InputError(
            f"{argument} must be one of {listed(known)}; got {value!r}.{nearest(str(value), known)}"
        )
    return value


def say(text: str) -> None:
    """A word on standard error, beside a bar if there is one."""
    print(f"separax: {text}", file=sys.stderr, flush=True)
