"""A solution as plain data: numbers, words and arrays, from which it can be made again without the code of its problem."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..equations import Field, Problem, Tracer, formula_of
from ..recipe import Recipe
from ..residuals import Model
from ..solution import Ensemble, Solution
from .sampled_shape import samples

Description = tuple[dict[str, Any], dict[str, np.ndarray]]


def described(found: Solution | Ensemble) -> Description:
    """What a solution is, and its arrays: those of seed i and window j are called `i.j.network.…` and `i.j.unknowns.…`. What
    is built in is the same for all of them: `lift.x` are the series along x."""
    solutions = list(found) if isinstance(found, Ensemble) else [found]
    first = solutions[0]
    about = {
        "kind": "solution",
        "several": isinstance(found, Ensemble),
        "problem": _problem(first.problem),
        "recipe": _recipe(first.recipe),
        "network": _network(first.model),
        "solutions": [_solution(s) for s in solutions],
    }
    arrays: dict[str, np.ndarray] = {}
    for i, solution in enumerate(solutions):
        for j, window in enumerate(solution.windows):
            arrays |= {f"{i}.{j}.{name}": leaf for name, leaf in leaves(window.model).items()}
    if first.problem.shape is not None:
        arrays["shape"] = samples(first.problem.shape)
    if first.problem.lift is not None:
        arrays |= {
            f"lift.{axis}": each
            for axis, each in zip(first.problem.box.axes, first.problem.lift.series)
        }
    return about, arrays


def leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their names in it, copied: what they were taken from may be written over at once."""
    paths, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.array(leaf)
        for path, leaf in paths
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "box": {axis: list(problem.box[axis]) for axis in problem.box.axes},
        "fields": list(problem.fields),
        "terms": list(problem.names),
        "unknowns": problem.unknowns,
        "periodic": list(problem.periodic),
        "walls": [list(wall) for wall in problem.walls],
        "shape": None if problem.shape is None else list(problem.shape.axes),
    }


def _solution(solution: Solution) -> dict[str, Any]:
    derived, left_out = combinations(solution)
    return {
        "seed": solution.seed,
        "interrupted": solution.interrupted,
        "unknowns": solution.unknowns,
        "derived": derived,
        "left_out": left_out,
        "marched": solution.is_marched,
        "windows": [
            {
                "since": float(w.pieces[0].time_origin),
                "box": {axis: list(w.problem.box[axis]) for axis in w.problem.box.axes},
                "best_step": w.best_step,
                "best_loss": w.best_loss if math.isfinite(w.best_loss) else None,
                "memory_bytes": w.memory_bytes,
                "interrupted": w.interrupted,
                "timing": dataclasses.asdict(w.timing),
            }
            for w in solution.windows
        ],
    }


def combinations(solution: Solution) -> tuple[dict[str, Any], list[str]]:
    """Derived quantities without their functions: sums of derivatives as (component, orders, coefficient), others as formulas; and
    the names of those that are neither."""
    problem = solution.problem
    found: dict[str, Any] = {}
    with jax.enable_x64(True):
        tracer = Tracer(problem.box.axes, (2,) * problem.box.dimension)
        tracer.dtype = jnp.float64
        arrays = problem.box.lattice(2).arrays()
        quantities = problem.quantities(problem.field_map(tracer), arrays, solution.model.unknowns)
        for name in problem.derived:
            field = quantities[name]
            if (
                isinstance(field, Field)
                and field._terms
                and np.ndim(0.0 if field._plain is None else field._plain) == 0
            ):
                terms = [
                    [component, list(orders), float(c)]
                    for (component, orders), c in field._terms.items()
                ]
                found[name] = {
                    "terms": terms,
                    "constant": 0.0 if field._plain is None else float(field._plain),
                }
            elif (formula := formula_of(problem, name, solution.unknowns)) is not None:
                found[name] = formula.plain() | {"field": isinstance(field, Field)}
    return found, [name for name in problem.derived if name not in found]


def _network(model: Model) -> dict[str, Any]:
    """What is built, for a box of its own: that of the first window, in a march."""
    network = model.network
    return {"components": network.components, "axes": [_plain(axis) for axis in network.axes]}


def _recipe(recipe: Recipe) -> dict[str, Any]:
    return {
        "network": thing(recipe.network),
        "points": {k: int(n) for k, n in recipe.points.items()}
        if isinstance(recipe.points, Mapping)
        else _listed(recipe.points),
        "steps": recipe.steps,
        "total_steps": recipe.total_steps,
        "optimiser": [thing(one) for one in recipe.optimisers],
        "sampler": thing(recipe.sampler),
        "emphasis": float(recipe.emphasis),
        "weights": {k: float(v) for k, v in recipe.weights.items()},
        "precision": recipe.precision,
        "weighting": thing(recipe.weighting),
    }


def _listed(value: Any) -> Any:
    """Tuples as lists; NumPy's numbers as Python's."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_listed(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _plain(one: Any) -> dict[str, Any]:
    return {f.name: _listed(getattr(one, f.name)) for f in dataclasses.fields(one)}


def thing(one: Any) -> dict[str, Any]:
    """A part of a recipe: its kind and its arguments, where they are plain; words, where they are not (a schedule of the user's)."""
    if dataclasses.is_dataclass(one):
        arguments = _plain(one)
        if type(one).__module__.startswith("separax.") and all(
            _is_plain(v) for v in arguments.values()
        ):
            return {"kind": type(one).__name__, "arguments": arguments}
    return {"kind": type(one).__name__, "text": repr(one), "steps": getattr(one, "steps", None)}


def _is_plain(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, (bool, int, float, str))
        or (isinstance(value, list) and all(map(_is_plain, value)))
    )


def settings(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    """What makes two runs the same run."""
    return {
        "problem": problem.name,
        "box": repr(problem.box),
        "terms": list(problem.names),
        "equation": problem.fingerprint(),
        "recipe": re.sub(r" at 0x[0-9a-f]+", "", repr(recipe)),
        "points": recipe.counts(problem.box),
        "steps": recipe.total_steps,
        "precision": recipe.precision,
        "seeds": list(seeds),
    }
