"""Problems for one field in a box, with as many conditions on the faces of each axis as the
equation has derivatives along it: what a solve by products of functions of the axes wants to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core import options_for_few_runs
from ...equations import (
    Field,
    JumpTerm,
    Problem,
    ValueTerm,
)
from ...separable import Key
from ..programs import Linearised, residuals_of
from .line_functions import Functional

CHUNK = 2**12  # points of a compiled program

Values = Callable[[dict[str, Any]], Any]  # of coordinates that broadcast


@dataclass(frozen=True, eq=False)
class FaceCondition:
    """ℓ(u) = g, ℓ made of derivatives along an axis at one of its ends, or at both.

    Attributes:
        axis: the axis.
        functional: ℓ.
        value: g, a function of the other coordinates; None: zero.
    """

    axis: str
    functional: Functional
    value: Values | None = None


@dataclass(frozen=True, eq=False)
class BoxProblem:
    """A problem for one field in a box.

    Attributes:
        problem: it.
        keys: the derivatives in its residual.
        orders: by axis, that of the highest derivative.
        conditions: by axis, as many as the order.
    """

    problem: Problem
    keys: tuple[Key, ...]
    orders: dict[str, int]
    conditions: dict[str, tuple[FaceCondition, ...]]

    def linearised(
        self, table: np.ndarray, coordinates: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The residual at points, and how it changes with every derivative.

        Arguments:
            table: the derivatives in `keys`, (keys, points).
            coordinates: of the points, (axes, points).

        Returns: (points,) and (keys, points).
        """
        left, slopes = self.inside(table, *coordinates)
        return left[0], slopes[0]

    @cached_property
    def inside(self) -> Linearised:
        """The residual at points."""
        return Linearised(residuals_of(self.problem, self.keys), (CHUNK,))

    @cached_property
    def _seen(self) -> dict[Any, float]:
        return {}

    @property
    def compiling(self) -> float:
        """The seconds that were spent compiling."""
        return self.inside.seconds + sum(self._seen.values())

    def given(self, condition: FaceCondition, coordinates: np.ndarray) -> np.ndarray:
        """What a condition gives at points of its face, (axes, points)."""
        number = coordinates.shape[1]
        found = np.zeros(number)
        if condition.value is None:
            return found
        which = self._values.index(condition.value)
        for start in range(0, number, CHUNK):
            here = slice(start, start + CHUNK)
            began = time.perf_counter()
            each = np.asarray(self._program_of_faces(_filled(coordinates[:, here]))[which])
            self._seen.setdefault("faces", time.perf_counter() - began)
            found[here] = each[: found[here].size]
        return found

    @cached_property
    def _values(self) -> list[Values]:
        each = (c.value for own in self.conditions.values() for c in own)
        return list(dict.fromkeys(value for value in each if value is not None))

    @cached_property
    def _program_of_faces(self) -> Callable[..., Any]:
        axes = self.problem.box.axes

        def values(coordinates: Any) -> Any:
            at = dict(zip(axes, coordinates))
            return jnp.stack([jnp.broadcast_to(v(at), coordinates[0].shape) for v in self._values])

        return jax.jit(values, compiler_options=options_for_few_runs())


def _filled(array: np.ndarray) -> np.ndarray:
    return np.pad(array, [(0, 0), (0, CHUNK - array.shape[1])], "edge")


def box_problem(problem: Problem) -> BoxProblem | None:
    """A problem as one for a field in a box; None where it is none: several fields, unknowns, a
    shape, measurements, more or fewer conditions along an axis than derivatives."""
    if (
        len(problem.fields) > 1
        or len(problem.residuals) > 1
        or problem.unknowns
        or problem.shape is not None
    ):
        return None
    axes = problem.box.axes
    keys = tuple(sorted(problem.derivatives))
    orders = {a: max(key[1][i] for key in keys) for i, a in enumerate(axes)}
    found: dict[str, list[FaceCondition]] = {a: [] for a in axes}
    same = set(problem.periodic)
    for term in problem.terms:
        if isinstance(term, JumpTerm) and _along(problem, term, term.axis) == {0: 1.0}:
            same.add(str(term.axis))
        elif (own := _of_term(problem, term)) is None:
            return None
        else:
            found[own[0].axis] += own
    for given in problem.given:
        if given.is_root:
            return None
        found[given.axis].append(
            FaceCondition(given.axis, {(given.side, given.order): 1.0}, given.value)
        )
    for axis in same:
        if found[axis]:
            return None
        for k in range(orders[axis]):
            found[axis].append(FaceCondition(axis, {("-", k): -1.0, ("+", k): 1.0}))
    for axis, own in found.items():
        if len(own) != orders[axis]:
            return None
        if any(order >= orders[axis] for each in own for _, order in each.functional):
            return None
    return BoxProblem(problem, keys, orders, {a: tuple(own) for a, own in found.items()})


def _along(problem: Problem, term: ValueTerm | JumpTerm, axis: str | None) -> dict[int, float]:
    """What a term is about, if it is a combination of derivatives along its axis, by their order;
    empty if it is something else."""
    found = problem.trace(lambda at: term.operator(at.fields, at.coordinates, at.unknowns)).result
    if axis is None or not isinstance(found, Field) or not found.is_formal:
        return {}
    at, made = problem.box.index(axis), {}
    for (_, orders), coefficient in found.terms.items():
        if sum(orders) != orders[at] or not isinstance(coefficient, float):
            return {}
        made[orders[at]] = coefficient
    return made


def _of_term(problem: Problem, term: Any) -> list[FaceCondition] | None:
    plain = isinstance(term, ValueTerm) and term.where is None and term.fixed is None
    if not plain or term.axis is None or not (along := _along(problem, term, term.axis)):
        return None
    value = _known(problem, term)
    made = []
    for side in term.sides:
        functional: Functional = {}
        for order, coefficient in along.items():
            outward = 1.0 if side == "+" else -1.0
            for k, factor in (
                (order, term.value_factor),
                (order + 1, outward * term.normal_factor),
            ):
                if factor:
                    functional[side, k] = functional.get((side, k), 0.0) + factor * coefficient
        made.append(FaceCondition(term.axis, functional, value))
    return made


def _known(problem: Problem, term: ValueTerm) -> Values | None:
    """The value of a term as a function of coordinates; None where it is zero."""

    def value(coordinates: dict[str, Any]) -> Any:
        return term.value(coordinates, {})

    one = {a: jax.ShapeDtypeStruct((1,), jnp.float64) for a in problem.box.axes}
    if jax.eval_shape(value, one).shape == ():
        middle = {a: jnp.asarray(sum(problem.box[a]) / 2) for a in problem.box.axes}
        if float(value(middle)) == 0.0:
            return None
    return value
