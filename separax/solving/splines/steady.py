"""Problems without time, as splines want them: residuals and conditions at points, as functions of
a table of derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...domain import TIME, Points
from ...equations import (
    AtPlace,
    BoundaryData,
    Inputs,
    Problem,
    TabulatedValues,
    ValueTerm,
    gauge_freedom,
    is_linear,
)
from ...separable import Key
from ..programs import Linearised, residuals_of

MANY, FEW = 4096, 512  # points of a compiled program, inside and at conditions
MOST_MEASURED = 16  # points of `Data`: with more it is a fit, not a condition

Coordinates = Mapping[str, jax.Array]


@dataclass(frozen=True, eq=False)
class SteadyCondition:
    """What holds on one face, on the boundary of the shape, or at points.

    Attributes:
        name: of the condition.
        keys: the derivatives that it is made of.
        program: its residual.
        axis, side: the face; none: the boundary of the shape, or `points`.
        points: where it holds, (points, axes).
        where: from coordinates to whether a point counts.
    """

    name: str
    keys: tuple[Key, ...]
    program: Linearised
    axis: str | None = None
    side: str = ""
    points: np.ndarray | None = None
    where: Callable[[Coordinates], Any] | None = None


@dataclass(frozen=True, eq=False)
class Steady:
    """A problem without time.

    Attributes:
        problem: it.
        keys: the derivatives in its residuals.
        inside: the residuals.
        conditions: what holds besides.
        orders: by field and axis, the order of the highest derivative in the residuals.
        is_linear: whether all of it is linear in the fields.
    """

    problem: Problem
    keys: tuple[Key, ...]
    inside: Linearised
    conditions: tuple[SteadyCondition, ...]
    orders: tuple[tuple[int, ...], ...]
    is_linear: bool

    @property
    def order(self) -> int:
        """Of the highest derivative."""
        return max(sum(orders) for _, orders in self.keys)

    @property
    def compiling(self) -> float:
        """The seconds that were spent compiling."""
        programs = {id(c.program): c.program for c in self.conditions}.values()
        return self.inside.seconds + sum(p.seconds for p in programs)


def steady_of(problem: Problem) -> Steady | None:
    """A problem as splines solve it; None where they cannot: with a time axis, unknowns or
    measurements, more than three axes, conditions on a lattice of their own, two conditions of one
    kind on one face."""
    box = problem.box
    if TIME in box.axes or box.dimension > 3 or problem.unknowns:
        return None
    keys = tuple(sorted(problem.derivatives))
    if not keys or not any(any(orders) for _, orders in keys):
        return None
    conditions: list[SteadyCondition] = []
    for term in problem.terms:
        if not isinstance(term, ValueTerm):
            return None
        fixed = term.fixed
        if fixed is not None and (
            not isinstance(fixed, Points) or fixed.shape[0] > MOST_MEASURED or term.axis is not None
        ):
            return None
        if fixed is None and term.axis is None and not term.boundary:
            return None
        conditions += _of_term(problem, term)
    for given in problem.given:
        if given.is_root:
            return None
        conditions.append(_of_given(problem, given))
    plain = [(c.axis, c.side, c.keys) for c in conditions if c.axis and c.where is None]
    plain = [one for one in plain if len(one[2]) == 1]
    if len(set(plain)) < len(plain):
        return None
    for name, some in gauge_freedom(problem).items():
        if some != [()]:
            return None
        conditions.append(_of_constant(problem, problem.fields.index(name)))
    orders = tuple(
        tuple(max((o[a] for k, o in keys if k == c), default=0) for a in range(box.dimension))
        for c in range(len(problem.fields))
    )
    linear = is_linear(problem)

    return Steady(
        problem,
        keys,
        Linearised(residuals_of(problem, keys), (MANY,), not linear),
        tuple(conditions),
        orders,
        linear,
    )


def _of_term(problem: Problem, term: ValueTerm) -> list[SteadyCondition]:
    keys = tuple(sorted(term.derivatives))
    found = []
    for side in term.sides or [""]:
        one = dataclasses.replace(term, sides=side, where=None)

        def residual(table: Any, points: Any, normals: Any, one: ValueTerm = one) -> Any:
            outward = tuple(normals) if one.boundary else None
            place = Points(problem.box.axes, tuple(points), normals=outward)
            source = TabulatedValues(place, dict(zip(keys, table)))
            (part,) = one.parts(AtPlace(problem, place, source, Inputs({}, {})))
            return part.values[None]

        if term.fixed is not None:
            points = np.stack([np.asarray(c, float) for c in term.fixed.coordinates], 1)
            values = np.asarray(term.value({}, {}), float)
            for point, value in zip(points, values):
                at = dataclasses.replace(one, value=lambda c, k, v=value: jnp.asarray(v))
                found.append(
                    SteadyCondition(
                        term.name,
                        keys,
                        Linearised(lambda *a, f=residual, t=at: f(*a, one=t), (FEW,)),
                        points=point[None],
                    )
                )
            continue
        where = term.where
        found.append(
            SteadyCondition(
                term.name, keys, Linearised(residual, (FEW,)), term.axis, side, None, where
            )
        )
    return found


def _of_given(problem: Problem, given: BoundaryData) -> SteadyCondition:
    orders = tuple(given.order if a == given.axis else 0 for a in problem.box.axes)

    def residual(table: Any, points: Any, normals: Any) -> Any:
        del normals
        value = 0.0
        if given.value is not None:
            value = given.value(dict(zip(problem.box.axes, points)))
        return table - jnp.broadcast_to(value, table.shape[1:])

    key = (given.component, orders)
    return SteadyCondition(given.name, (key,), Linearised(residual, (FEW,)), given.axis, given.side)


def _of_constant(problem: Problem, component: int) -> SteadyCondition:
    """What fixes a field that is known up to a constant: zero in the middle, or at a point of the
    shape."""
    box = problem.box
    within = {} if problem.shape is None else problem.shape.within
    point = [within.get(a, (box[a][0] + box[a][1]) / 2) for a in box.axes]
    key = (component, (0,) * box.dimension)
    program = Linearised(lambda table, points, normals: table, (FEW,))
    return SteadyCondition("constant", (key,), program, points=np.array([point]))


def places_of(
    condition: SteadyCondition,
    problem: Problem,
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    nodes: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of a condition, (points, axes), their normals, and the area that each stands for.

    Arguments:
        condition: what holds there.
        problem: of the condition.
        lines: by axis points of a quadrature rule and their weights.
        nodes: by axis places that are close enough together to find all of a shape's boundary.
    """
    box, shape = problem.box, problem.shape
    if condition.points is not None:
        points = condition.points
        return points, np.zeros_like(points), np.zeros(len(points))
    if condition.axis is None:
        assert shape is not None
        own = {a: (ln, n) for a, ln, n in zip(box.axes, lines, nodes) if a in shape.axes}
        at, out, area = shape.boundary_near(
            {a: ln for a, (ln, _) in own.items()}, {a: n for a, (_, n) in own.items()}
        )
        each = [lines[i] for i, a in enumerate(box.axes) if a not in shape.axes]
        grid = [np.arange(len(at)), *(np.arange(len(x)) for x, _ in each)]
        numbers = [n.ravel() for n in np.meshgrid(*grid, indexing="ij")]
        points, normals = np.zeros((2, len(numbers[0]), box.dimension))
        area, others = area[numbers[0]], iter(zip(each, numbers[1:]))
        for i, a in enumerate(box.axes):
            if a in shape.axes:
                points[:, i] = at[numbers[0], shape.axes.index(a)]
                normals[:, i] = out[numbers[0], shape.axes.index(a)]
            else:
                (x, weights), number = next(others)
                points[:, i], area = x[number], area * weights[number]
    else:
        index = box.index(condition.axis)
        end = box.ends(condition.axis, condition.side)[0]
        each = [
            (np.array([end]), np.ones(1)) if i == index else line for i, line in enumerate(lines)
        ]
        points = np.stack([g.ravel() for g in np.meshgrid(*(x for x, _ in each), indexing="ij")], 1)
        weights = np.meshgrid(*(w for _, w in each), indexing="ij")
        area = np.prod([w.ravel() for w in weights], axis=0)
        normals = np.zeros_like(points)
        normals[:, index] = 1.0 if condition.side == "+" else -1.0
        if shape is not None:
            here = shape.contains(points[:, [box.index(a) for a in shape.axes]])
            points, normals, area = points[here], normals[here], area[here]
    if condition.where is not None:
        at = dict(zip(box.axes, map(jnp.asarray, points.T)))
        here = np.broadcast_to(np.asarray(condition.where(at)), len(points))
        points, normals, area = points[here], normals[here], area[here]
    return points, normals, area
