"""What the command line is asked to solve: a problem of the catalogue by its name, or one in a file
of the user."""

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

from ..core import InputError, listed, nearest, one_of, shown
from ..equations import Problem
from ..networks import NETWORKS
from ..paper import CATALOGUE, load_flow
from ..recipe import Causal, Recipe
from ..solving import solve

SUFFIX = ".py"
PASSED_ON = ("tolerance", "windows", "window", "warm", "seconds")  # from a file's call of `solve`


@dataclass(frozen=True)
class Prepared:
    """A problem and how to solve it.

    Arguments:
        name: of the problem.
        title: of the folder of its run.
        problem: what to solve.
        recipe: None: as `solve` does without a recipe.
        options: further arguments of `solve`.
        origin: where the recipe is from: best, paper, file, default or automatic.
    """

    name: str
    title: str
    problem: Problem
    recipe: Recipe | None
    options: Mapping[str, Any]
    origin: str


def prepare(
    text: str,
    recipe: str | None = None,
    network: str | None = None,
    *,
    initial: Path | None = None,
    project: bool = False,
    points: int | None = None,
    steps: int | None = None,
    precision: str | None = None,
    causal: bool = False,
) -> Prepared:
    """A problem and its recipe, with the command line's changes.

    Arguments:
        text: the name of a problem of the catalogue, FILE.py or FILE.py:NAME.
        recipe, network: which of the catalogue's.
        initial: the file of a flow to begin from; `project`: its part without divergence.
        points, steps, precision, causal: changes of the recipe.
    """
    if is_file(text):
        found = _in_file(text, recipe, network, initial)
    else:
        found = _in_catalogue(text, recipe or "best", network, initial, project)
    how = found.recipe
    if points is not None or steps is not None or precision is not None or causal:
        how = how or Recipe()
    if how is None:
        return found
    if points is not None:
        how = how.with_points(points)
    if precision is not None:
        how = dataclasses.replace(how, precision=precision)
    if causal:
        how = dataclasses.replace(how, weighting=Causal())
    if steps is not None:
        how = how.with_steps(steps)
    # a tolerance is for solving without a recipe
    options = {name: value for name, value in found.options.items() if name != "tolerance"}
    origin = "default" if found.recipe is None else found.origin
    return dataclasses.replace(found, recipe=how, options=options, origin=origin)


def _in_catalogue(
    name: str, recipe: str, network: str | None, initial: Path | None, project: bool
) -> Prepared:
    if name not in CATALOGUE:
        raise InputError(
            f"problem must be one of {listed(CATALOGUE)}, or a file of yours, FILE.py; got"
            f" {name!r}.{nearest(name, CATALOGUE)}"
        )
    entry, flow = CATALOGUE[name], None if initial is None else load_flow(initial, project)
    problem, how = entry.make(recipe, network, flow)
    return Prepared(
        name, name, problem, how, {"windows": entry.windows_of(recipe, network)}, recipe
    )


def _in_file(text: str, recipe: str | None, network: str | None, initial: Path | None) -> Prepared:
    if recipe is not None:
        raise InputError(
            f"--recipe: {recipe} is for problems of the catalogue; a file says how itself,"
            " recipe = sx.Recipe(…), or leaves it open"
        )
    if initial is not None:
        raise InputError(
            "--initial is for navier-stokes of the catalogue; a file begins from its own conditions"
        )
    found = asked(text)
    how, origin = found.recipe, "automatic" if found.recipe is None else "file"
    if network is not None:
        chosen = NETWORKS[one_of("network", network, NETWORKS)]()
        how = dataclasses.replace(how or Recipe(), network=chosen)
        origin = "default" if found.recipe is None else "file"
    title = Path(text.partition(SUFFIX)[0]).name
    return Prepared(found.problem.name, title, found.problem, how, found.options, origin)


@dataclass(frozen=True)
class Asked:
    """What a file wants solved, how, and the further arguments of its call of `solve`."""

    problem: Problem
    recipe: Recipe | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class _Reached(Exception):
    """A file called `solve`: it is not needed any further."""


def is_file(text: str) -> bool:
    """Whether FILE.py or FILE.py:NAME is meant, and no name."""
    return text.endswith(SUFFIX) or f"{SUFFIX}:" in text


def asked(text: str) -> Asked:
    """What FILE.py, or NAME in it, asks for."""
    file, name = _parted(text)
    names, called = _run(file)
    recipe = names.get("recipe")
    recipe = recipe if isinstance(recipe, Recipe) else None
    if name is not None:
        return Asked(_problem(text, _looked_up(file, name, names)), recipe)
    if called is not None:
        return called
    public = {key: value for key, value in names.items() if not key.startswith("_")}
    problems = {key: value for key, value in public.items() if isinstance(value, Problem)}
    if "problem" in problems or len({id(value) for value in problems.values()}) == 1:
        return Asked(problems.get("problem") or next(iter(problems.values())), recipe)
    if problems:
        raise InputError(
            f"{file} has several problems: write {' or '.join(f'{file}:{key}' for key in problems)}"
        )
    raise InputError(
        f"{file} has no Problem: let it make one, problem = sx.Problem(box, residual, conditions)"
    )


def _parted(text: str) -> tuple[str, str | None]:
    """FILE.py:NAME in its parts."""
    if text.endswith(SUFFIX):
        return text, None
    file, _, name = text.rpartition(":")
    return file, name


def _looked_up(file: str, name: str, names: Mapping[str, Any]) -> Any:
    """What a file calls by a name; refused with the nearest where there is none."""
    if name not in names:
        own = (key for key, value in names.items() if not isinstance(value, types.ModuleType))
        public = [key for key in own if not key.startswith("_")]
        raise InputError(f"{file} has no {name!r}; it has {listed(public)}.{nearest(name, public)}")
    return names[name]


def _problem(text: str, found: Any) -> Problem:
    """What was named, if it is a problem or makes one."""
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
    path, reached = Path(file), []
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        raise InputError(
            f"{file}: there is no such file ({error.strerror}): write the path of a Python file"
        ) from None
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"{file}{line}: this is not Python: {error.args[0]}") from None

    def noted(problem: Problem, recipe: Recipe | None = None, **options: Any) -> None:
        """Stands in for `separax.solve` while the file is read: that is as far as it goes."""
        if not isinstance(problem, Problem) or not isinstance(recipe, (Recipe, type(None))):
            solve(problem, recipe)  # it says what is wrong
        given = {k: v for k in PASSED_ON if (v := options.get(k)) is not None}
        reached.append(Asked(problem, recipe, given))
        raise _Reached

    module = types.ModuleType(f"{path.stem}{SUFFIX}")  # no name of a module that could be imported
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where a dataclass looks for what its annotations mean
    # as `python FILE.py` does: its neighbours can be imported
    sys.path.insert(0, str(path.resolve().parent))
    before, separax.solve = separax.solve, noted
    try:
        exec(code, module.__dict__)  # the user's own file, as `python FILE.py` runs it
    except (Exception, SystemExit) as error:
        if not reached:  # what comes after the call of `solve` does not count
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            said = f"{kind}{error}"
            if isinstance(error, SystemExit):
                said = "it ends itself before it has a problem (sys.exit)"
            raise InputError(f"{file}{_line(error, path)}: {said}") from error
    finally:
        separax.solve = before
    return vars(module), reached[0] if reached else None


def _line(error: BaseException, path: Path) -> str:
    """Where in the file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
