"""What can be added to a field without an equation or a condition noticing: a pressure is known up
to a constant, or up to a function of time, where only its gradient is in the equation. That is no
lack of conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .problem import Problem
from .terms import ValueTerm


def gauge_freedom(problem: Problem) -> dict[str, list[tuple[str, ...]]]:
    """Gauge freedom: what can be added to a field without changing a residual or a condition. A
    pressure of which only ∇p occurs is known up to a function of time, {"p": [("t",)]}; [()] is a
    constant.

    Arguments:
        problem: its residuals and conditions.

    Returns:
        By field, the axes of the functions that can be added to it. Fields that are not named are
        fixed by their values somewhere.
    """
    keys = {*problem.derivatives, *(k for term in problem.terms for k in term.derivatives)}
    found = {}
    for c, field in enumerate(problem.fields):
        if any(walls[c] for walls in problem.walls):  # values that are built in
            continue
        # every derivative must be along an axis that the function does not depend on
        derivatives = [
            {a for a, order in zip(problem.box.axes, orders) if order}
            for component, orders in keys
            if component == c
        ]
        some = [
            axes
            for n in range(problem.box.dimension)
            for axes in itertools.combinations(problem.box.axes, n)
        ]
        unseen = [axes for axes in some if all(along - set(axes) for along in derivatives)]
        if unseen:
            found[field] = [
                axes for axes in unseen if not any(set(axes) < set(other) for other in unseen)
            ]
    return found


CLEARLY = 1e-2  # of what a condition asks for: missed by more than that, it is not met
MUCH = 0.1  # of the largest value that is asked for
ALONG = 7  # points per axis at which conditions are compared


def missing_starts(problem: Problem, axes: Sequence[str] | None = None) -> list[str]:
    """Fields with fewer conditions along an axis than derivatives.

    Arguments:
        problem: its residuals and conditions.
        axes: which axes; None: all of them.

    Returns:
        A sentence for each.
    """
    found = []
    for i, axis in enumerate(problem.box.axes):
        if axes is not None and axis not in axes:
            continue
        if axis in problem.periodic or (problem.shape is not None and axis in problem.shape.axes):
            continue
        for c, field in enumerate(problem.fields):
            order = max(
                (orders[i] for component, orders in problem.derivatives if component == c),
                default=0,
            )
            own = [
                t
                for t in problem.terms
                if t.axis == axis and any(component == c for component, _ in t.derivatives)
            ]
            number = sum(len(t.sides) for t in own) + sum(
                side in "-+" for side in problem.walls[i][c]
            )
            if number >= order:
                continue
            derivative = f"{field}_{axis * order}"
            if axis == "t" and order == 2 and number == 1:
                found.append(
                    f"There is {derivative} but one condition at the start: an initial {field}_t"
                    " would fix it,"
                    f" sx.Initial(…, of=lambda {field}: {field}.t)"
                )
            else:
                found.append(
                    f"There is {derivative}, but {number or 'no'} condition{'s' * (number != 1)}"
                    f" along {axis}"
                )
    return found


# --- conditions that contradict each other ------------------------------------------------------


@dataclass(frozen=True)
class PrescribedValue:
    """The value that a field has on a face."""

    name: str
    axis: str
    side: str
    field: int
    value: Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Disagreement:
    """Two conditions that give one field two values where their faces meet.

    Attributes:
        words: which they are, by how much they differ, and where.
        jump: whether they differ by much, on an edge of two faces and not all over one: more
            functions then bring next to nothing.
    """

    words: str
    # by much, on an edge of two faces and not all over one: more functions bring next to nothing
    jump: bool


def disagreements(problem: Problem) -> list[Disagreement]:
    """Pairs of conditions that give one field two values where their faces meet."""
    given = _given(problem)
    size = max((float(np.max(np.abs(_values(problem, one, {})))) for one in given), default=0.0)
    found = []
    for one, other in itertools.combinations(given, 2):
        if one.field != other.field or (one.axis == other.axis and one.side != other.side):
            continue
        held = {one.axis: one.side, other.axis: other.side}
        apart = float(np.max(np.abs(_values(problem, one, held) - _values(problem, other, held))))
        if apart > CLEARLY * size:
            where = " and ".join(
                f"{axis} = {_end(problem, axis, side):g}" for axis, side in held.items()
            )
            words = f"{one.name!r} and {other.name!r} differ by {apart:.2g} at {where}"
            found.append(Disagreement(words, one.axis != other.axis and apart > MUCH * size))
    return found


def given_values(problem: Problem) -> list[float] | None:
    """The mean of what conditions say each field is; None if they do not say it of all, or
    something is built in."""
    if problem.given or any(any(walls) for walls in problem.walls) or problem.periodic:
        return None
    each = [
        [float(np.mean(_values(problem, one, {}))) for one in _given(problem) if one.field == c]
        for c in range(len(problem.fields))
    ]
    return [float(np.mean(some)) for some in each] if all(each) else None


def _given(problem: Problem) -> list[PrescribedValue]:
    """The conditions that give values of a field, those that are built in too."""
    found, unknowns = [], dict[str, Any](problem.unknowns)
    for term in problem.terms:
        if not isinstance(term, ValueTerm) or term.axis is None:
            continue
        field = problem.trace(term.prescribed_field).result
        if field is not None:
            found += [
                PrescribedValue(
                    term.name, term.axis, side, field, lambda at, t=term: t.value(at, unknowns)
                )
                for side in term.sides
            ]
    for built in problem.given:
        if not built.order:
            value = built.value or (lambda at: 0.0)
            found.append(
                PrescribedValue(built.name, built.axis, built.side, built.component, value)
            )
    return found


def _end(problem: Problem, axis: str, side: str) -> float:
    return problem.box[axis]["-+".index(side)]


def _values(problem: Problem, given: PrescribedValue, held: Mapping[str, str]) -> np.ndarray:
    """What a condition asks for at some points of its face, or of the edge where the axes in `held`
    end."""
    ends = {given.axis: given.side} | dict(held)
    lines = [
        np.array([_end(problem, axis, ends[axis])])
        if axis in ends
        else np.linspace(*problem.box[axis], ALONG)
        for axis in problem.box.axes
    ]
    return np.asarray(
        given.value(dict(zip(problem.box.axes, np.meshgrid(*lines, indexing="ij", sparse=True))))
    )
