"""Problems in files of users: `separax solve FILE.py`.

A file is run as Python runs a module, so what stands below `if __name__ == "__main__":` is not. If it comes to call `solve`, what it was about to
solve, and how, is what is asked for, and the rest of it is not run: the figures a script draws at its end are not wanted here. If it does not
call it, its `Problem` is, with the `recipe` beside it.
"""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError, listed, nearest
from .problem import Problem
from .recipe import Recipe

SUFFIX = ".py"
_reading: ContextVar[bool] = ContextVar("whether a user's file is being read", default=False)


@dataclass(frozen=True)
class Asked:
    """What a file wants solved, how, and the further arguments of its call of `solve`."""

    problem: Problem
    recipe: Recipe | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class _Reached(BaseException):
    """The call of `solve` in a file; no exception that a file would catch."""

    def __init__(self, asked: Asked):
        super().__init__()
        self.asked = asked


def reached(problem: Problem, recipe: Recipe | None, **options: Any) -> None:
    """What `solve` says first: while a file is read, that is as far as it goes."""
    if _reading.get():
        raise _Reached(Asked(problem, recipe, options))


def is_file(text: str) -> bool:
    """Whether FILE.py or FILE.py:NAME is meant, and no name."""
    return text.endswith(SUFFIX) or f"{SUFFIX}:" in text


def asked(text: str) -> Asked:
    """What FILE.py, or NAME in it, asks for."""
    file, name = _parted(text)
    names, called = _run(file)
    beside = names.get("recipe")
    recipe = beside if isinstance(beside, Recipe) else None
    problems = {key: value for key, value in names.items() if isinstance(value, Problem) and not key.startswith("_")}
    if name is not None:
        return Asked(_problem(text, _looked_up(file, name, names)), recipe)
    if called is not None:
        return called
    if "problem" in problems or len({id(value) for value in problems.values()}) == 1:
        return Asked(problems.get("problem") or next(iter(problems.values())), recipe)
    if problems:
        raise InputError(f"{file} has several problems: write {' or '.join(f'{file}:{key}' for key in problems)}")
    raise InputError(f"{file} has no Problem: let it make one, problem = sx.Problem(box, residual, conditions)")


def named(text: str) -> Any:
    """What FILE.py:NAME is."""
    file, name = _parted(text)
    if name is None:
        raise InputError(f"{text}: which of its functions? Write {file}:NAME")
    return _looked_up(file, name, _run(file)[0])


def _parted(text: str) -> tuple[str, str | None]:
    if text.endswith(SUFFIX):
        return text, None
    file, _, name = text.rpartition(":")
    return file, name


def _looked_up(file: str, name: str, names: Mapping[str, Any]) -> Any:
    if name not in names:
        public = [n for n in names if not n.startswith("_") and not isinstance(names[n], types.ModuleType)]
        raise InputError(f"{file} has no {name!r}; it has {listed(public)}.{nearest(name, public)}")
    return names[name]


def _problem(text: str, found: Any) -> Problem:
    if not isinstance(found, Problem) and callable(found):
        try:
            found = found()
        except TypeError as error:
            raise InputError(f"{text}: a function that makes the problem is called without arguments: {error}") from error
    if not isinstance(found, Problem):
        raise InputError(f"{text} is no Problem, nor a function that makes one, but {found!r}")
    return found


def _run(file: str) -> tuple[dict[str, Any], Asked | None]:
    """The names in a file, and what it was about to solve."""
    path = Path(file)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        raise InputError(f"{file}: there is no such file ({error.strerror}): write the path of a Python file") from None
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"{file}{line}: this is not Python: {error.args[0]}") from None
    module = types.ModuleType(f"{path.stem}{SUFFIX}")  # no name of a module that could be imported
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where a dataclass looks for what its annotations mean
    sys.path.insert(0, str(path.resolve().parent))  # as `python FILE.py` does: its neighbours can be imported
    token = _reading.set(True)
    try:
        exec(code, module.__dict__)  # the user's own file, as `python FILE.py` runs it
    except _Reached as end:
        return vars(module), end.asked
    except InputError as error:
        raise InputError(f"{file}{_line(error, path)}: {error}") from error
    except SystemExit as error:
        raise InputError(f"{file}{_line(error, path)}: it ends itself before it has a problem (sys.exit)") from error
    except Exception as error:
        raise InputError(f"{file}{_line(error, path)}: {type(error).__name__}: {error}") from error
    finally:
        _reading.reset(token)
    return vars(module), None


def _line(error: BaseException, path: Path) -> str:
    """Where in the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
