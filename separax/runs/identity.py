"""What makes two runs the same run, and what is said where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import InputError, difference, part_to_data
from ..equations import Problem
from ..recipe import Recipe


def settings(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    """What a run is asked for, in words and numbers: hooks are told, and tables compare it."""
    return {
        "problem": problem.name,
        "box": repr(problem.box),
        "terms": list(problem.names),
        "equation": problem.fingerprint(),
        "recipe": repr(recipe),
        "points": recipe.counts(problem.box),
        "steps": recipe.total_steps,
        "precision": recipe.precision,
        "seeds": list(seeds),
    }


def kept_settings(asked: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The same as a folder keeps it: with the recipe as data, from which it can be made again.

    Raises `InputError` where a part of the recipe has no name by which it could be found.
    """
    return {**asked, "recipe": part_to_data(recipe)}


def changed(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """The names of the settings that are other ones than those that were kept."""
    return [name for name in asked if kept.get(name) != asked[name]]


def check_same(folder: Path, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuses to go on with the run in a folder if it was asked for something else."""
    for name in changed(kept, asked):
        where = "" if name == "recipe" else name  # what a recipe has are arguments themselves
        place, was, now = difference(kept.get(name), asked[name], where) or (name, "", "")
        what = f"{place or name} = {was}, not {now}"
        if name == "equation":  # its digest says nothing to anybody
            what = "another equation, other conditions or other unknowns"
        raise InputError(
            f"resume: {folder} was run with {what}: repeat the settings it was started with, or"
            " choose another folder"
        )
