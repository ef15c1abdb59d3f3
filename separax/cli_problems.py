"""What the command line is asked to solve: a problem of the catalogue by its name, or one in a file of the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .problem import Problem
    from .recipe import Recipe


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
    from . import files

    if files.is_file(text):
        found = _in_file(text, recipe, network, initial)
    else:
        found = _in_catalogue(text, recipe or "best", network, initial, project)
    changes = {"points": points, "steps": steps, "precision": precision, "causal": causal or None}
    if found.recipe is None and all(change is None for change in changes.values()):
        return found
    without = {key: value for key, value in found.options.items() if key != "tolerance"}  # which is for solving without a recipe
    origin = "default" if found.recipe is None else found.origin
    return dataclasses.replace(found, recipe=_changed(found.recipe, **changes), options=without, origin=origin)


def _changed(recipe: Recipe | None, points: int | None, steps: int | None, precision: str | None, causal: bool | None) -> Recipe:
    from .causal import Causal
    from .recipe import Recipe

    how = recipe or Recipe()
    how = how if points is None else how.with_points(points)
    how = how if precision is None else dataclasses.replace(how, precision=precision)
    how = dataclasses.replace(how, causal=Causal()) if causal else how
    return how if steps is None else how.with_steps(steps)


def _in_catalogue(name: str, recipe: str, network: str | None, initial: Path | None, project: bool) -> Prepared:
    from .catalogue import CATALOGUE, find
    from .errors import InputError, listed, nearest
    from .flows import load_flow

    if name not in CATALOGUE:
        raise InputError(
            f"problem must be one of {listed(CATALOGUE)}, or a file of yours, FILE.py; got {name!r}.{nearest(name, CATALOGUE)}"
        )
    entry = find(name)
    problem, how = entry.make(recipe, network, None if initial is None else load_flow(initial, project))
    return Prepared(name, name, problem, how, {"windows": entry.windows_of(recipe, network)}, recipe)


def _in_file(text: str, recipe: str | None, network: str | None, initial: Path | None) -> Prepared:
    from .errors import InputError, one_of
    from .files import SUFFIX, asked
    from .networks import NETWORKS
    from .recipe import Recipe

    if recipe is not None:
        raise InputError(
            f"--recipe: {recipe} is for problems of the catalogue; a file says how itself, recipe = sx.Recipe(…), or leaves it open"
        )
    if initial is not None:
        raise InputError("--initial is for navier-stokes of the catalogue; a file begins from its own conditions")
    found = asked(text)
    how = found.recipe
    if network is not None:
        how = dataclasses.replace(how or Recipe(), network=NETWORKS[one_of("network", network, NETWORKS)]())
    given = {key: value for key, value in found.options.items() if value is not None}
    origin = "automatic" if how is None else "default" if found.recipe is None else "file"
    return Prepared(found.problem.name, Path(text.partition(SUFFIX)[0]).name, found.problem, how, given, origin)
