"""`load`: a solution from the folder of its run, without the code that defined its problem."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core import InputError, data_to_part, in_float64, say
from ..domain import TIME, Box
from ..equations import Field, Formula, Problem
from ..networks import KnownPart
from ..recipe import Recipe
from ..residuals import Model
from ..separable import Key
from ..solution import Ensemble, History, Outcome, Piece, Solution
from .describing import OF_A_WINDOW, sampled_shape
from .files import Damaged, read_npz, read_sealed, with_leaves
from .folder import RECORD, SOLUTION, read_settings
from .keeping import read_history, read_kept

Arrays = Mapping[str, np.ndarray]


def load(run: str | os.PathLike[str]) -> Solution | Ensemble:
    """The solution that a run left in its folder.

    It is evaluated, differentiated, integrated and exported like the one that `solve` returned. The
    functions of the problem are not kept: errors need a reference, `solution.relative_l2(exact)`.
    Quantities that were derived from the fields are there if they are formulas, computed point by
    point. Of a domain that is no box, samples are kept. The parts of the recipe are found by their
    names: those of your own must be importable, and only folders that you trust should be loaded.

    Arguments:
        run: the folder that `solve(…, out=folder)` or `solution.save(folder)` wrote.
    Returns: a `Solution`, or an `Ensemble` where there were several seeds.
    """
    folder = Path(run)
    settings = read_settings(folder)
    again = f"go on with solve(…, out={str(folder)!r}, resume=True), which writes it"
    if not (folder / SOLUTION).exists():
        raise InputError(f"run: {folder} has no solution yet ({SOLUTION}): {again}")
    try:
        about, arrays = read_npz(folder / SOLUTION, settings["run"], "solution")
    except Damaged as error:
        raise Damaged(error.path, f"{error.reason}: {again} anew from the state") from None
    record = _record(folder, settings["run"])
    try:
        with in_float64():
            found = _solutions(folder, about, arrays, record, settings["equation"])
    except (KeyError, TypeError, IndexError) as error:  # ours, of a version that forgot to say so
        raise Damaged(
            folder / SOLUTION, f"does not hold what it should ({type(error).__name__}: {error})"
        ) from error
    return (Ensemble(found) if about["several"] else found[0]).with_record(record)


def _record(folder: Path, run: str) -> dict[str, Any]:
    """The record; empty with a word where it is damaged or not there yet."""
    if not (folder / RECORD).exists():
        say(
            f"the run in {folder} has not ended: its solution so far is loaded, without history and"
            " record"
        )
        return {}
    try:
        return read_sealed(folder / RECORD, "files", run)
    except Damaged as error:
        say(f"{error}: the solution is loaded without history and record")
        return {}


def _history(path: Path, record: Mapping[str, Any]) -> History:
    """A history, checked against the record; empty with a word where it is damaged."""
    if not record:
        return History.none()
    try:
        return read_history(read_kept(path, record["files"]))
    except Damaged as error:
        say(f"{error}: the solution is loaded without history")
        return History.none()


# --- solutions ----------------------------------------------------------------------------------


def _solutions(
    folder: Path, about: Mapping[str, Any], arrays: Arrays, record: Mapping[str, Any], equation: str
) -> list[Solution]:
    """The solutions of all seeds.

    They share a problem, and then what is compiled for it, unless its derived quantities depend on
    what was found.
    """
    recipe = data_to_part(about["recipe"], Recipe)
    found: list[Solution] = []
    for i, kept in enumerate(about["solutions"]):
        same = (
            one.problem
            for one, other in zip(found, about["solutions"])
            if other["derived"] == kept["derived"]
        )
        problem = next(same, None) or _problem(about["problem"], kept, arrays, equation)
        like = _shapes(problem, recipe, about["network_time"])
        models = [
            with_leaves(like, arrays, prefix=f"{i}.{j}.") for j in range(len(kept["windows"]))
        ]
        name = f"history-seed{kept['seed']}.csv" if about["several"] else "history.csv"
        history = _history(folder / name, record)
        found.append(_solution(folder, problem, recipe, kept, models, history, record))
    return found


def _shapes(problem: Problem, recipe: Recipe, time: tuple[float, float] | None) -> Model:
    """The model that was trained, with the shapes of its arrays instead of them.

    Networks of a march are built for the first window.
    """
    first = problem.during(*time) if time is not None else problem
    return Model.shapes(first, recipe)


def _solution(
    folder: Path,
    problem: Problem,
    recipe: Recipe,
    kept: Mapping[str, Any],
    models: list[Model],
    history: History,
    record: Mapping[str, Any],
) -> Solution:
    """The solution of one seed."""
    marched, steps = kept["marched"], recipe.total_steps
    device: dict[str, Any] = {"device": record["device"]} if "device" in record else {}
    windows = []
    for j, (window, model) in enumerate(zip(kept["windows"], models)):
        seen = _part(history, j * steps, (j + 1) * steps) if marched else history
        known: dict[str, Any] = {n: data_to_part(window[n]) for n in OF_A_WINDOW} | device
        outcome = Outcome(recipe, seen, seed=kept["seed"], run_dir=folder, **known)
        inside = problem.during(*window["box"][TIME]) if marched else problem
        windows.append(Solution(inside, [Piece.of(model, window["time_origin"])], outcome))
    said: dict[str, Any] = {"advice": tuple(record.get("advice", ()))}
    if "estimate" in record:  # a record has no infinite numbers
        said["estimate"] = math.inf if record["estimate"] is None else record["estimate"]
    if not marched:
        return windows[0].with_outcome(**said)
    outcomes = [window.outcome for window in windows]
    whole = Outcome.joined(recipe, outcomes, kept["interrupted"], folder)
    return Solution.joined(problem, windows, dataclasses.replace(whole, **said))


def _part(history: History, start: int, end: int) -> History:
    """What was seen from one step to another, counted from the first of them."""
    here = (history.steps >= start) & (history.steps < end)
    errors = (history.error_steps > start) & (history.error_steps <= end)
    return History(
        history.steps[here] - start,
        {name: values[here] for name, values in history.losses.items()},
        history.total[here],
        history.error_steps[errors] - start,
        history.errors[errors],
    )


# --- the problem --------------------------------------------------------------------------------


def _problem(
    kept: Mapping[str, Any], solution: Mapping[str, Any], arrays: Arrays, equation: str
) -> Problem:
    """A problem without its functions."""
    box = Box(**{axis: tuple(bounds) for axis, bounds in kept["box"].items()})
    series = [arrays[f"lift.{axis}"] for axis in box.axes if f"lift.{axis}" in arrays]
    fields, same = tuple(kept["fields"]), ("name", "terms", "unknowns", "periodic", "walls")
    return Problem.without_functions(
        box,
        fields=fields,
        shape=sampled_shape(box, kept["shape"], arrays["shape"]) if "shape" in arrays else None,
        lift=KnownPart(box, kept["periodic"], series) if series else None,
        derived={
            name: Combination(fields, each) if "terms" in each else KeptFormula(fields, each)
            for name, each in solution["derived"].items()
        },
        left_out=solution["left_out"],
        fingerprint=equation,
        **{name: kept[name] for name in same},
    )


class Combination:
    """A derived quantity that is a sum of derivatives, Σ coefficient · ∂^orders u, and a constant.

    Arguments:
        fields: the names of the fields.
        kept: as `combinations` has it.
    """

    def __init__(self, fields: tuple[str, ...], kept: Mapping[str, Any]):
        self.terms: dict[Key, float] = {
            (component, tuple(orders)): c for component, orders, c in kept["terms"]
        }
        self.constant, self.fields = kept["constant"], fields

    def __call__(self, **given: Any) -> Field:
        found = Field(given[self.fields[0]].source, self.terms)
        return found + self.constant if self.constant else found


class KeptFormula:
    """Any other derived quantity, computed point by point from derivatives and coordinates.

    Arguments:
        fields: the names of the fields.
        kept: as `combinations` has it.
    """

    def __init__(self, fields: tuple[str, ...], kept: Mapping[str, Any]):
        self.formula, self.is_field, self.fields = Formula.read(kept), kept["field"], fields

    def __call__(self, **given: Any) -> Any:
        source = given[self.fields[0]].source
        inputs = [
            given[key] if isinstance(key, str) else Field(source, {key: 1.0})
            for key in self.formula.inputs
        ]
        found = self.formula(inputs)
        if self.is_field:
            return found
        # what was made of plain values cannot be differentiated, as before it was kept
        return jnp.broadcast_to(found.value if isinstance(found, Field) else found, source.shape)
