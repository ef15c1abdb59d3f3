"""Where errors are measured, and against what."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, add_up, is_traced, listed, nearest, on_cpu, precision_for, to_device
from ..domain import Lattice
from ..equations import Problem

if TYPE_CHECKING:
    from .solution import Solution

CHECKED = {True: 2**20, False: 2**16}  # points on which errors are measured, separable or not


class Errors(NamedTuple):
    """How far a solution is from a reference: relative in L2, and the root mean square."""

    relative_l2: Any
    rmse: Any


class KnownValues(NamedTuple):
    """A lattice, and a reference's values there by field."""

    lattice: Lattice
    values: dict[str, Array]


def error_lattice(problem: Problem, most: int) -> Lattice:
    """The regular lattice on which errors are measured: up to 256 points per axis, `most` in
    all."""
    return problem.box.lattice(max(2, min(256, int(most ** (1 / problem.box.dimension) + 1e-9))))


def known_values(
    solution: Solution, reference: Any = None, coordinates: Mapping[str, Any] | None = None
) -> KnownValues:
    """A reference, or the problem's own, where a solution is compared with it: on the lattice of
    the coordinates given or on a regular one, rounded to the solution's precision."""
    problem = solution.problem
    with _measuring(solution, coordinates) as host:
        if coordinates:
            lattice = solution.lattice((), coordinates)[0]
        else:
            lattice = error_lattice(problem, CHECKED[solution.is_separable])
        dtype = jax.dtypes.canonicalize_dtype(solution.dtype)
        lattice = jax.tree.map(lambda a: jnp.asarray(a, dtype), lattice)
        found = KnownValues(lattice, reference_on(problem, reference, lattice))
        return found if host is None else KnownValues(*(to_device(each, host) for each in found))


def errors_against(
    solution: Solution,
    reference: Any,
    field: str | None,
    coordinates: Mapping[str, Any],
    known: KnownValues | None = None,
) -> Errors:
    """The errors of a solution against a reference, or against the problem's own."""
    problem = solution.problem
    if reference is None and problem.reference is None:
        raise InputError(f"relative_l2: {problem.no_reference()}")
    if field is not None and field not in problem.outputs:
        raise InputError(
            f"relative_l2: there is no field {field!r}; the fields are"
            f" {listed(problem.outputs)}.{nearest(field, problem.outputs)}"
        )
    lattice, true = known_values(solution, reference, coordinates) if known is None else known
    with _measuring(solution, lattice) as host:
        ours = solution.values(lattice, host)
        names, wide = [field] if field else list(true), jnp.result_type(float)
        pair = [{k: jnp.asarray(v[k], wide) for k in names} for v in (ours, true)]
        difference, size, number = squares(problem, lattice, *pair)
        relative = jnp.where(size > 0, jnp.sqrt(difference / size), jnp.inf)
        found = Errors(relative, jnp.sqrt(difference / number))
    return found if is_traced(found) else Errors(*map(float, found))


@contextlib.contextmanager
def _measuring(*trees: Any) -> Iterator[Any]:
    """In float64 on the processor, which is yielded; in a transformation of JAX as the caller
    does."""
    with precision_for(*trees) as traced:
        if traced:
            yield None
            return
        with on_cpu() as host:
            yield host


def squares(
    problem: Problem, lattice: Lattice, ours: Mapping[str, Array], true: Mapping[str, Array]
) -> tuple[Array, Array, Array]:
    """Σ (û - u)², Σ u² and the number of values, over the fields in `true` and the part of a
    lattice inside the shape."""
    here = jnp.ones((), bool) if problem.shape is None else problem.shape.mask(lattice.arrays())
    difference = add_up(jnp.sum(jnp.where(here, ours[k] - v, 0.0) ** 2) for k, v in true.items())
    size = add_up(jnp.sum(jnp.where(here, v, 0.0) ** 2) for v in true.values())
    return difference, size, len(true) * jnp.sum(jnp.broadcast_to(here, lattice.shape))


def reference_on(problem: Problem, reference: Any, lattice: Lattice) -> dict[str, Array]:
    """A reference's values by field, on a lattice."""
    given = reference.values() if isinstance(reference, Mapping) else [reference]
    if reference is None or any(map(callable, given)):
        function = problem.reference if reference is None else reference
        return problem.reference_values(lattice.arrays(), lattice.shape, function)
    arrays = dict(reference) if isinstance(reference, Mapping) else {problem.fields[0]: reference}
    for name, values in arrays.items():
        if name not in problem.outputs:
            raise InputError(
                f"reference: {name!r} is not a field; the fields are"
                f" {listed(problem.outputs)}.{nearest(name, problem.outputs)}"
            )
        if [n for n in np.shape(values) if n > 1] != [n for n in lattice.shape if n > 1]:
            where = ", ".join(f"{a}={a}s" for a in problem.box.axes)
            raise InputError(
                f"reference: an array of shape {np.shape(values)} on a lattice of {lattice.shape}:"
                f" give the coordinates it lies on, solution.relative_l2(values, {where})"
            )
    return {k: jnp.reshape(jnp.asarray(v), lattice.shape) for k, v in arrays.items()}


def jumps_of(solution: Solution, points: int) -> dict[str, np.ndarray]:
    """How far apart windows are where they meet.

    Arguments and returns: as of `Solution.jumps`.
    """
    box, windows = solution.problem.box, solution.windows
    space = {a: np.linspace(*box[a], points) for a in box.space}
    found: dict[str, list[float]] = {}
    for before, after, edge in zip(windows, windows[1:], solution.edges[1:]):
        lattice = Lattice(weights=None, **{a: space.get(a, np.array([edge])) for a in box.axes})
        one, other = before.values(lattice), after.values(lattice)
        for name in one:
            values = np.asarray(one[name], np.float64)
            difference = values - np.asarray(other[name], np.float64)
            size, jump = (math.sqrt(np.nanmean(each**2)) for each in (values, difference))
            found.setdefault(name, []).append(jump / (size or 1.0))
    return {name: np.array(each) for name, each in found.items()}
