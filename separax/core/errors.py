"""What separax says when it is asked for something it cannot do.

Every message names the argument, what came, and what to write instead; all of them are raised
before anything is compiled, except `Diverged`, which carries the best solution found so far.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import numbers
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LONGEST = 60  # characters that a message shows of a value
# objects that have no better text than their address; then functions and methods
ADDRESSES = (
    re.compile(r"<([\w.<>]+) object at 0x[0-9a-f]+>"),
    re.compile(r"<function ([\w.<>]+) at 0x[0-9a-f]+>"),
    re.compile(r"<(?:bound method|built-in function|built-in method|ufunc) '?([\w.]+)'?[^>]*>"),
)


class InputError(ValueError):
    """An argument that cannot be used, with what to write instead."""


class DerivativeError(InputError, AttributeError):
    """A derivative that does not exist (an attribute error too, so that `hasattr` keeps its
    meaning)."""


class MemoryPrediction(InputError, MemoryError):
    """A computation that would not fit in memory, refused before it is tried."""


class Diverged(ArithmeticError):
    """A loss that stopped being finite.

    Arguments:
        message: the sentence.
        solution: with the best parameters that were found before.
    """

    def __init__(self, message: str, solution: Any = None):
        super().__init__(message)
        self.solution = solution


def listed(names: Iterable[str]) -> str:
    """Names with commas between them, for a sentence.

    Arguments:
        names: any number of them.

    Returns:
        "a, b, c"; "none" where there is none.
    """
    return ", ".join(str(name) for name in names) or "none"


def nearest(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x'?", where something known is close to what came.

    Arguments:
        name: what came.
        known: what it could have been.

    Returns:
        The question, with a space before it; nothing where nothing is close.
    """
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def shown(value: Any) -> str:
    """What came, short enough for a sentence.

    Arguments:
        value: anything at all.

    Returns:
        A function by its name, an array by its shape and type, other things as Python shows them,
        without addresses and cut at 60 characters.
    """
    if callable(value) and isinstance(getattr(value, "__name__", None), str):
        name, kind = _name_of(value.__name__), "class" if isinstance(value, type) else "function"
        return name if name == "a lambda" else f"the {kind} {name}"
    is_abstract = not hasattr(value, "__array__")  # a shape and a type without numbers
    if hasattr(value, "dtype") and (getattr(value, "ndim", 0) or is_abstract):
        return f"an array of shape {tuple(value.shape)} of {value.dtype}"
    text = repr(value)
    for address in ADDRESSES:
        text = address.sub(lambda found: _name_of(found[1]), text)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _name_of(path: str) -> str:
    """The last part of the path of a function or a class."""
    name = path.rpartition(".")[2]
    return "a lambda" if name == "<lambda>" else name


def whole(argument: str, value: Any, least: int = 1) -> int:
    """A whole number.

    Arguments:
        argument: its name, for the refusal.
        value: what came.
        least: the smallest that is allowed.

    Returns:
        The value as an int; refused unless it is whole and at least `least`.
    """
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or int(value) != value or value < least:  # pyright: ignore[reportArgumentType]
        raise InputError(
            f"{argument} must be a whole number of at least {least}, got {shown(value)}: write e.g."
            f" {argument.rpartition(': ')[2]}={max(least, 32)}"
        )
    return int(value)  # pyright: ignore[reportArgumentType]


def finite(argument: str, value: Any, positive: bool = False) -> float:
    """A finite number.

    Arguments:
        argument: its name, for the refusal.
        value: what came.
        positive: whether it must be positive, too.

    Returns:
        The value as a float.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{argument} must be a number, got {shown(value)}") from None
    if not math.isfinite(number) or (positive and number <= 0):
        raise InputError(
            f"{argument} must be a {'positive' if positive else 'finite'} number, got"
            f" {shown(value)}"
        )
    return number


def one_of(argument: str, value: Any, known: Iterable[str]) -> Any:
    """One of several words.

    Arguments:
        argument: its name, for the refusal.
        value: what came.
        known: the words that are known.

    Returns:
        The value; refused unless it is one of them.
    """
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise InputError(
            f"{argument} must be one of {listed(known)}; got"
            f" {shown(value)}.{nearest(str(value), known)}"
        )
    return value


_SHOWS: list[Callable[[str], None]] = []  # who is told what is being done


def doing(text: str) -> None:
    """Says what begins now, to the bar if there is one: a compiler tells nothing itself.

    Arguments:
        text: such as "compiling the steps of Adam".
    """
    for show in _SHOWS:
        show(text)


@contextlib.contextmanager
def shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Has a function told what is being done.

    Arguments:
        show: is given the text of every `doing`.
    """
    _SHOWS.append(show)
    try:
        yield
    finally:
        _SHOWS.remove(show)


def say(text: str) -> None:
    """Prints a sentence on standard error, beside a bar if there is one.

    Arguments:
        text: the sentence.
    """
    print(f"separax: {text}", file=sys.stderr, flush=True)
