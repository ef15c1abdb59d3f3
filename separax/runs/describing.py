"""A solution as data: numbers, words and arrays, from which it can be made again without the code
of its problem; a shape by samples."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array

from ..core import in_float64, part_to_data
from ..domain import TIME, Box, Shape
from ..equations import Field, Problem, formula_of
from ..solution import Ensemble, Solution, expressions, linear_outputs
from .files import leaves

# nodes per axis, by the number of axes of the shape; odd, so that the middle is one of them
NODES = {1: 4097, 2: 513, 3: 97}
FEWEST_NODES = 17  # beyond three axes
MOST = 1e30  # of a distance


@functools.lru_cache(maxsize=4)  # a run asks again at every save
def samples(shape: Shape) -> np.ndarray:
    """`inside` on a regular lattice of the shape's axes.

    Returns: signed distances, or whether a node is inside, by axis.
    """
    count = NODES.get(len(shape.axes), FEWEST_NODES)
    with in_float64():
        grids = jnp.meshgrid(
            *(jnp.linspace(*shape.box[a], count) for a in shape.axes), indexing="ij", sparse=True
        )
        found = jnp.broadcast_to(
            shape.indicator(dict(zip(shape.axes, grids))), (count,) * len(shape.axes)
        )
        return np.asarray(found, np.float32 if shape.signed else bool)


class Samples:
    """The function `inside` of a shape, from its samples.

    A signed distance is interpolated linearly. Of an indicator nothing is known between a node
    inside and one outside, so a point is inside only where all nodes around it are: less than a
    spacing of the samples is lost at the boundary, and nothing where the boundary runs along nodes.

    Arguments:
        box: that the samples fill.
        axes: that the shape depends on.
        table: the samples, as `samples` returns them.
    """

    def __init__(self, box: Box, axes: tuple[str, ...], table: np.ndarray):
        self.bounds, self.table = {axis: box[axis] for axis in axes}, table
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(a, kind) for a in axes])

    def __call__(self, **coordinates: Any) -> Array:
        places = []
        for (axis, (lower, upper)), count in zip(self.bounds.items(), self.table.shape):
            at = (jnp.asarray(coordinates[axis]) - lower) * ((count - 1) / (upper - lower))
            nearest = jnp.round(at)
            slack = 4 * jnp.finfo(at.dtype).eps * count
            places.append(jnp.where(jnp.abs(at - nearest) <= slack, nearest, at))
        # a distance may be infinite, and the weight of its node zero
        table = jnp.asarray(np.clip(self.table.astype(np.float32), -MOST, MOST), places[0].dtype)
        found = map_coordinates(table, jnp.broadcast_arrays(*places), order=1, mode="nearest")
        return found if self.table.dtype != bool else found >= 1 - 1e-5


def sampled_shape(box: Box, axes: tuple[str, ...], table: np.ndarray) -> Shape:
    """A shape from its samples, in a box with these and perhaps other axes."""
    return Shape(Samples(box, axes, table), box)


# --- a solution as data ---------------------------------------------------------------------------

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
