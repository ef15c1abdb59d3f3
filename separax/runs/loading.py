"""`load`: a solution from the folder of its run, without the code that defined its problem."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import InputError, say
from ..domain import TIME, AbstractSampler, Box, GaussLegendre, Grid, Uniform
from ..equations import Field, Formula, Problem
from ..networks import PINN, SPINN, Axis, KnownPart
from ..recipe import (
    BFGS,
    LBFGS,
    SOAP,
    AbstractMinimiser,
    AbstractWeighting,
    Adam,
    Causal,
    Constant,
    EarlyFirst,
    GaussNewton,
    Recipe,
    Solve,
)
from ..residuals import Model
from ..separable import Key
from ..solution import Ensemble, History, Outcome, Piece, Solution, Timing
from .files import Damaged, digest_of, read, read_json, read_npz
from .folder import RECORD, SOLUTION, read_settings
from .keeping import read_history
from .sampled_shape import SampledShape

PARTS = {
    part.__name__: part
    for part in (
        SPINN,
        PINN,
        Adam,
        SOAP,
        LBFGS,
        BFGS,
        GaussNewton,
        Solve,
        Uniform,
        Grid,
        GaussLegendre,
        Causal,
        Constant,
        EarlyFirst,
    )
}


def load(run: str | os.PathLike[str]) -> Solution | Ensemble:
    """The solution that a run left in its folder: a `Solution`, or an `Ensemble` where there were several seeds.

    It is evaluated, differentiated, integrated and exported like the one that `solve` returned. The functions of the problem
    are not kept: errors need a reference, `solution.relative_l2(exact)`. Quantities that were derived from the fields are there
    if they are formulas, computed point by point. Of a domain that is no box, samples are kept.
    """
    folder = Path(run)
    settings = read_settings(folder)
    if not (folder / SOLUTION).exists():
        raise InputError(
            f"run: {folder} has no solution yet ({SOLUTION}): go on with solve(…, out={str(folder)!r}, resume=True), which writes it"
        )
    try:
        about, arrays = read_npz(folder / SOLUTION)
        _check_identity(folder / SOLUTION, about, settings, "solution")
    except Damaged as error:
        raise Damaged(
            error.path,
            f"{error.reason}: go on with solve(…, out={str(folder)!r}, resume=True), which writes it anew from the state",
        ) from None
    record = _record(folder, settings)
    try:
        with jax.enable_x64(True):
            problems: list[KeptProblem] = []
            found: list[Solution] = []
            for i, kept in enumerate(about["solutions"]):
                # seeds share a problem, and then what is compiled for it, unless its derived quantities depend on what was found
                same = [
                    p
                    for p, other in zip(problems, about["solutions"])
                    if other["derived"] == kept["derived"]
                ]
                problems.append(
                    same[0]
                    if same
                    else KeptProblem(about["problem"], kept, arrays, settings["equation"])
                )
                found.append(_solution(folder, problems[-1], about, arrays, record, i))
    except (
        KeyError,
        TypeError,
        IndexError,
    ) as error:  # whole and ours, but of another version that forgot to say so
        raise Damaged(
            folder / SOLUTION, f"does not hold what it should ({type(error).__name__}: {error})"
        ) from error
    return (Ensemble(found) if about["several"] else found[0]).with_record(record)


def _check_identity(
    path: Path, about: Mapping[str, Any], settings: Mapping[str, Any], kind: str
) -> None:
    if about.get("kind") != kind:
        raise Damaged(path, f"is no {kind} but a {about.get('kind')}")
    if about.get("run") != settings["run"]:
        raise Damaged(path, f"is of another run ({about.get('run')}, not {settings['run']})")


def _record(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The record; empty with a word where it is damaged or not there yet."""
    path = folder / RECORD
    if not path.exists():
        say(
            f"the run in {folder} has not ended: its solution so far is loaded, without history and record"
        )
        return {}
    try:
        record = read_json(path, exact=True)
        if record.get("run") != settings["run"]:
            raise Damaged(path, f"is of another run ({record.get('run')}, not {settings['run']})")
        return record
    except Damaged as error:
        say(f"{error}: the solution is loaded without history and record")
        return {}


def _history(folder: Path, record: Mapping[str, Any], name: str) -> History:
    """A history, checked against the record; empty with a word where it is damaged."""
    nothing = History(np.zeros(0, int), {}, np.zeros(0))
    if not record:
        return nothing
    try:
        content = read(folder / name)
        if digest_of(content) != record.get("files", {}).get(name):
            raise Damaged(
                folder / name,
                f"is not the one that {RECORD} names: its checksum is of other content",
            )
    except Damaged as error:
        say(f"{error}: the solution is loaded without history")
        return nothing
    return read_history(content)


# --- the parts of a solution -----------------------------------------------------------------------------------------


def _solution(
    folder: Path,
    problem: KeptProblem,
    about: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    record: Mapping[str, Any],
    i: int,
) -> Solution:
    """That of one seed."""
    kept = about["solutions"][i]
    recipe = _recipe(about["recipe"])
    name = f"history-seed{kept['seed']}.csv" if about["several"] else "history.csv"
    history = _history(folder, record, name)
    known: dict[str, Any] = {"seed": kept["seed"], "run_dir": folder}
    known |= {"device": record["device"]} if "device" in record else {}
    windows = []
    for j, window in enumerate(kept["windows"]):
        bounds = window["box"].get(TIME)
        part = (
            history
            if not kept["marched"]
            else _part(history, j * recipe.total_steps, (j + 1) * recipe.total_steps)
        )
        outcome = Outcome(
            recipe,
            part,
            Timing(**window["timing"]),
            best_step=window["best_step"],
            best_loss=np.nan if window["best_loss"] is None else window["best_loss"],
            memory_bytes=window["memory_bytes"],
            interrupted=window["interrupted"],
            **known,
        )
        model = _model(
            about["network"],
            recipe,
            problem,
            {k: arrays[k] for k in arrays if k.startswith(f"{i}.{j}.")},
            f"{i}.{j}.",
        )
        inside = problem.during(*bounds) if kept["marched"] else problem
        windows.append(Solution(inside, [Piece.of(model, window["since"])], outcome))
    said: dict[str, Any] = {"advice": tuple(record.get("advice", ()))}
    if "estimate" in record:  # a record has no infinite numbers
        said["estimate"] = math.inf if record["estimate"] is None else record["estimate"]
    if not kept["marched"]:
        return windows[0].with_outcome(**said)
    outcomes = [window.outcome for window in windows]
    whole = Outcome.joined(recipe, outcomes, kept["interrupted"], folder)
    return Solution.joined(problem, windows, replace(whole, **said))


def _part(history: History, start: int, end: int) -> History:
    """The part of a march's history that belongs to a window, counted from its start."""
    seen = (history.steps >= start) & (history.steps < end)
    known = (history.error_steps > start) & (history.error_steps <= end)
    return History(
        history.steps[seen] - start,
        {name: each[seen] for name, each in history.losses.items()},
        history.total[seen],
        history.error_steps[known] - start,
        history.errors[known],
    )


def _model(
    network: Mapping[str, Any],
    recipe: Recipe,
    problem: Problem,
    arrays: Mapping[str, np.ndarray],
    prefix: str,
) -> Model:
    """A network of the kept architecture with the kept weights."""
    kept: list[dict[str, Any]] = [
        {k: tuple(v) if isinstance(v, list) else v for k, v in axis.items()}
        for axis in network["axes"]
    ]
    axes = tuple(Axis(**axis) for axis in kept)

    def build(key: Any) -> Model:
        unknowns = {k: jnp.zeros((), recipe.dtype) for k in problem.unknowns}
        built = recipe.network._network(key, axes, network["components"], recipe.dtype)
        return Model(dataclasses.replace(built, lift=problem.lift), unknowns)

    like = eqx.filter_eval_shape(build, jax.random.key(0))
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    for path, leaf in paths:
        name = prefix + jax.tree_util.keystr(path, simple=True, separator=".")
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise TypeError(f"{name} has shape {arrays[name].shape} and type {arrays[name].dtype}")
        found.append(jnp.asarray(arrays[name]))
    return jax.tree.unflatten(structure, found)


def _recipe(kept: Mapping[str, Any]) -> Recipe:
    stages = [_thing(one) for one in kept["optimiser"]]
    return Recipe(
        _thing(kept["network"]),
        kept["points"],
        kept["steps"],
        stages[0] if len(stages) == 1 else stages,
        _thing(kept["sampler"], sampler=True),
        kept["emphasis"],
        kept["weights"],
        kept["precision"],
        _thing(kept["weighting"], weighting=True),
    )


def _thing(kept: Mapping[str, Any], sampler: bool = False, weighting: bool = False) -> Any:
    """A part of a recipe; a description of it where it was the user's own."""
    if "text" in kept:
        if weighting:
            return KeptWeighting(kept["text"])
        return (
            KeptSampler(text=kept["text"])
            if sampler
            else KeptOptimiser(kept["text"], kept["steps"])
        )
    arguments = dict(kept["arguments"])
    if "breaks" in arguments:
        arguments["breaks"] = dict(arguments["breaks"])
    return PARTS[kept["kind"]](**arguments)


class KeptOptimiser(AbstractMinimiser):
    """An optimiser of which only a description is left."""

    text: str
    steps: int | None

    def init(self, objective: Any, params: Any) -> Any:
        raise InputError(f"optimiser: {self.text} was not kept with its run: give it anew")

    def step(self, objective: Any, params: Any, state: Any) -> Any:
        return self.init(objective, params)

    def __repr__(self) -> str:
        return self.text


class KeptWeighting(AbstractWeighting):
    """A weighting of which only a description is left."""

    text: str

    def check(self, recipe: Any, problem: Any) -> None:
        raise InputError(f"weighting: {self.text} was not kept with its run: give it anew")

    def __repr__(self) -> str:
        return self.text


class KeptSampler(AbstractSampler):
    """A sampler of which only a description is left."""

    text: str = eqx.field(static=True, default="a sampler")
    every: int | None = eqx.field(static=True, default=None)

    def axis(self, key: Any, number: Any, bounds: Any, n: Any, dtype: Any) -> Any:
        raise InputError(f"sampler: {self.text} was not kept with its run: give it anew")

    def __repr__(self) -> str:
        return self.text


class KeptProblem(Problem):
    """What is left of a problem in the folder of a run: all but its functions."""

    def __init__(
        self,
        kept: Mapping[str, Any],
        solution: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        equation: str,
    ):
        self.box = Box(**{axis: tuple(bounds) for axis, bounds in kept["box"].items()})
        self.name, self.fields, self.unknowns = (
            kept["name"],
            tuple(kept["fields"]),
            dict(kept["unknowns"]),
        )
        self.periodic, self.walls = tuple(kept["periodic"]), tuple(map(tuple, kept["walls"]))
        self.shape = (
            None
            if "shape" not in arrays
            else SampledShape(self.box, tuple(kept["shape"]), arrays["shape"])
        )
        built_in = [arrays[f"lift.{axis}"] for axis in self.box.axes if f"lift.{axis}" in arrays]
        self.given, self.lift = (
            (),
            KnownPart(self.box, self.periodic, built_in) if built_in else None,
        )
        self.reference, self.conditions, self.terms = None, (), ()
        self.residuals = tuple(kept["terms"])
        self.left_out = tuple(solution["left_out"])
        self.derived = {
            name: Combination(self, each) if "terms" in each else KeptFormula(self, each)
            for name, each in solution["derived"].items()
        }
        self._derived_arguments = {
            name: [(each, False) for each in (*self.fields, *self.box.axes)]
            for name in self.derived
        }
        self._equation = equation

    def fingerprint(self) -> str:
        return self._equation

    def residual(self, **_: Any) -> Any:
        raise InputError(
            f"{self.name}: the functions of a problem are not kept with its run: make the problem anew to solve it"
        )

    def no_reference(self) -> str:
        return f"{self.name} was loaded from its run, which does not keep the functions of the problem: give the reference, solution.relative_l2(exact)"


class Combination:
    """Σ coefficient · ∂^orders of the fields, plus a constant."""

    def __init__(self, problem: Problem, kept: Mapping[str, Any]):
        self.terms: dict[Key, float] = {
            (component, tuple(orders)): c for component, orders, c in kept["terms"]
        }
        self.constant, self.fields = kept["constant"], problem.fields

    def __call__(self, **given: Any) -> Field:
        found = Field(given[self.fields[0]]._source, self.terms)
        return found + self.constant if self.constant else found


class KeptFormula:
    """Anything else that is computed point by point from derivatives and coordinates."""

    def __init__(self, problem: Problem, kept: Mapping[str, Any]):
        self.formula, self.is_field, self.fields = Formula.read(kept), kept["field"], problem.fields

    def __call__(self, **given: Any) -> Any:
        source = given[self.fields[0]]._source
        found = self.formula(
            [
                given[key] if isinstance(key, str) else Field(source, {key: 1.0})
                for key in self.formula.inputs
            ]
        )
        if self.is_field:
            return found
        # what was made of plain values cannot be differentiated, as before it was kept
        return jnp.broadcast_to(found.value if isinstance(found, Field) else found, source.shape)
