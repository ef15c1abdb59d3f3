"""A solution as data: numbers, words and arrays, from which it can be made again without the code
of its problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import part_to_data
from ..domain import TIME
from ..equations import Field, Problem, formula_of
from ..solution import Ensemble, Solution, expressions, linear_outputs
from .files import leaves
from .sampled_shape import samples

# what is kept of the outcome of every window; a solution that was not marched is one window
OF_A_WINDOW = ("best_step", "best_loss", "memory_bytes", "interrupted", "timing")


def to_data(found: Solution | Ensemble) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A solution as data.

    Returns: what it is, as JSON can hold it, and its arrays. Those of seed i and window j are
        called `i.j.network.…` and `i.j.unknowns.…`; `lift.x` is the known part's series along x,
        the same for all of them.
    """
    first = found.solutions[0]
    about = {
        "kind": "solution",
        "several": isinstance(found, Ensemble),
        "problem": _problem(first.problem),
        "recipe": part_to_data(first.recipe),
        "network_time": _network_time(first),
        "solutions": [_solution(s) for s in found.solutions],
    }
    arrays: dict[str, np.ndarray] = {}
    for i, solution in enumerate(found.solutions):
        for j, window in enumerate(solution.windows):
            arrays |= {f"{i}.{j}.{name}": leaf for name, leaf in leaves(window.model).items()}
    if first.problem.shape is not None:
        arrays["shape"] = samples(first.problem.shape)
    if first.problem.lift is not None:
        series = zip(first.problem.box.axes, first.problem.lift.series)
        arrays |= {f"lift.{axis}": each for axis, each in series}
    return about, arrays


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "box": _box(problem),
        "fields": list(problem.fields),
        "terms": list(problem.names),
        "unknowns": problem.unknowns,
        "periodic": list(problem.periodic),
        "walls": [list(wall) for wall in problem.walls],
        "shape": None if problem.shape is None else list(problem.shape.axes),
    }


def _box(problem: Problem) -> dict[str, list[float]]:
    return {axis: list(problem.box[axis]) for axis in problem.box.axes}


def _network_time(solution: Solution) -> list[float] | None:
    """The interval of time that networks are built for: in a march, that of the first window."""
    axes = solution.problem.box.axes
    if TIME not in axes:
        return None
    axis = solution.model.network.axes[axes.index(TIME)]
    return [axis.lower, axis.upper]


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
                "time_origin": w.origins[0],
                "box": _box(w.problem),
                **{name: part_to_data(getattr(w.outcome, name)) for name in OF_A_WINDOW},
            }
            for w in solution.windows
        ],
    }


def combinations(solution: Solution) -> tuple[dict[str, Any], list[str]]:
    """Derived quantities without their functions.

    Returns: by name, sums of derivatives as (component, orders, coefficient), and others as
        formulas; and the names of those that are neither.
    """
    problem, linear, plain = solution.problem, linear_outputs(solution), expressions(solution)
    found: dict[str, Any] = {}
    for name in problem.derived:
        if name in linear:
            terms = [
                [c, list(orders), factor] for (c, orders), factor in linear[name].terms.items()
            ]
            found[name] = {"terms": terms, "constant": linear[name].constant}
        elif (formula := formula_of(problem, name, solution.unknowns)) is not None:
            found[name] = formula.plain() | {"field": isinstance(plain[name], Field)}
    return found, [name for name in problem.derived if name not in found]
