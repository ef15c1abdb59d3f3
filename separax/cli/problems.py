"""What the command line is asked to solve: a problem of the catalogue by its name, or one in a file of the user."""

from __future__ import annotations

import dataclasses
import sys
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import separax

from ..core import InputError, listed, nearest, shown
from ..equations import Problem
from ..recipe import Recipe


@dataclass(frozen=True)
class Prepared:
    """A problem, how to solve it (None: as `solve` does without a recipe), and what else `solve` is to be told."""

    name: str
    title: str  # of its folder
    problem: Problem
    recipe: Recipe | None
    options: Mapping[str, Any]
    origin: str  # of the recipe


def prepare(
    text: str,
    recipe: str | None,
    network: str | None,
    points: int | None = None,
    steps: int | None = None,
    precision: str | None = None,
    initial: Path | None = None,
    project: bool = False,
    causal: bool = False,
) -> Prepared:
    """A problem and its recipe, with the command line's changes."""

    if is_file(text):
        found = _in_file(text, recipe, network, initial)
    else:
        found = _in_catalogue(text, recipe or "best", network, initial, project)
    changes = {"points": points, "steps": steps, "precision": precision, "causal": causal or None}
    if found.recipe is None and all(change is None for change in changes.values()):
        return found
    without = {
        key: value for key, value in found.options.items() if key != "tolerance"
    }  # which is for solving without a recipe
    origin = "default" if found.recipe is None else found.origin
    return dataclasses.replace(
        found, recipe=_changed(found.recipe, **changes), options=without, origin=origin
    )


def _changed(
    recipe: Recipe | None,
    points: int | None,
    steps: int | None,
    precision: str | None,
    causal: bool | None,
) -> Recipe:
    from ..recipe import Causal, Recipe

    how = recipe or Recipe()
    how = how if points is None else how.with_points(points)
    how = how if precision is None else dataclasses.replace(how, precision=precision)
    how = dataclasses.replace(how, weighting=Causal()) if causal else how
    return how if steps is None else how.with_steps(steps)


def _in_catalogue(
    name: str, recipe: str, network: str | None, initial: Path | None, project: bool
) -> Prepared:
    from ..core import InputError, listed, nearest
    from ..paper import CATALOGUE, find, load_flow

    if name not in CATALOGUE:
        raise InputError(
            f"problem must be one of {listed(CATALOGUE)}, or a file of yours, FILE.py; got {name!r}.{nearest(name, CATALOGUE)}"
        )
    entry = find(name)
    problem, how = entry.make(
        recipe, network, None if initial is None else load_flow(initial, project)
    )
    return Prepared(
        name, name, problem, how, {"windows": entry.windows_of(recipe, network)}, recipe
    )


def _in_file(text: str, recipe: str | None, network: str | None, initial: Path | None) -> Prepared:
    from ..core import InputError, one_of
    from ..networks import NETWORKS
    from ..recipe import Recipe

    if recipe is not None:
        raise InputError(
            f"--recipe: {recipe} is for problems of the catalogue; a file says how itself, recipe = sx.Recipe(…), or leaves it open"
        )
    if initial is not None:
        raise InputError(
            "--initial is for navier-stokes of the catalogue; a file begins from its own conditions"
        )
    found = asked(text)
    how = found.recipe
    if network is not None:
        how = dataclasses.replace(
            how or Recipe(), network=NETWORKS[one_of("network", network, NETWORKS)]()
        )
    given = {key: value for key, value in found.options.items() if value is not None}
    origin = "automatic" if how is None else "default" if found.recipe is None else "file"
    return Prepared(
        found.problem.name, Path(text.partition(SUFFIX)[0]).name, found.problem, how, given, origin
    )


SUFFIX = ".py"


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


def _stop_here(
    problem: Problem,
    recipe: Recipe | None = None,
    *,
    tolerance: float | None = None,
    windows: int = 1,
    window: float | None = None,
    warm: bool = False,
    **_: Any,
) -> None:
    """Stands in for `separax.solve` while a file is read: that is as far as the file goes."""
    raise _Reached(
        Asked(
            problem,
            recipe,
            {"tolerance": tolerance, "windows": windows, "window": window, "warm": warm},
        )
    )


def is_file(text: str) -> bool:
    """Whether FILE.py or FILE.py:NAME is meant, and no name."""
    return text.endswith(SUFFIX) or f"{SUFFIX}:" in text


def asked(text: str) -> Asked:
    """What FILE.py, or NAME in it, asks for."""
    file, name = _parted(text)
    names, called = _run(file)
    beside = names.get("recipe")
    recipe = beside if isinstance(beside, Recipe) else None
    problems = {
        key: value
        for key, value in names.items()
        if isinstance(value, Problem) and not key.startswith("_")
    }
    if name is not None:
        return Asked(_problem(text, _looked_up(file, name, names)), recipe)
    if called is not None:
        return called
    if "problem" in problems or len({id(value) for value in problems.values()}) == 1:
        return Asked(problems.get("problem") or next(iter(problems.values())), recipe)
    if problems:
        raise InputError(
            f"{file} has several problems: write {' or '.join(f'{file}:{key}' for key in problems)}"
        )
    raise InputError(
        f"{file} has no Problem: let it make one, problem = sx.Problem(box, residual, conditions)"
    )


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
        public = [
            n for n in names if not n.startswith("_") and not isinstance(names[n], types.ModuleType)
        ]
        raise InputError(f"{file} has no {name!r}; it has {listed(public)}.{nearest(name, public)}")
    return names[name]


def _problem(text: str, found: Any) -> Problem:
    if not isinstance(found, Problem) and callable(found):
        try:
            found = found()
        except TypeError as error:
            raise InputError(
                f"{text}: a function that makes the problem is called without arguments: {error}"
            ) from error
    if not isinstance(found, Problem):
        raise InputError(f"{text} is no Problem, nor a function that makes one, but {shown(found)}")
    return found


def _run(file: str) -> tuple[dict[str, Any], Asked | None]:
    """The names in a file, and what it was about to solve."""
    path = Path(file)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        raise InputError(
            f"{file}: there is no such file ({error.strerror}): write the path of a Python file"
        ) from None
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"{file}{line}: this is not Python: {error.args[0]}") from None
    module = types.ModuleType(f"{path.stem}{SUFFIX}")  # no name of a module that could be imported
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where a dataclass looks for what its annotations mean
    sys.path.insert(
        0, str(path.resolve().parent)
    )  # as `python FILE.py` does: its neighbours can be imported
    solve, separax.solve = separax.solve, _stop_here
    try:
        exec(code, module.__dict__)  # the user's own file, as `python FILE.py` runs it
    except _Reached as end:
        return vars(module), end.asked
    except InputError as error:
        raise InputError(f"{file}{_line(error, path)}: {error}") from error
    except SystemExit as error:
        raise InputError(
            f"{file}{_line(error, path)}: it ends itself before it has a problem (sys.exit)"
        ) from error
    except Exception as error:
        raise InputError(f"{file}{_line(error, path)}: {type(error).__name__}: {error}") from error
    finally:
        separax.solve = solve
    return vars(module), None


def _line(error: BaseException, path: Path) -> str:
    """Where in the file."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    return f", line {lines[-1]}" if lines else ""
