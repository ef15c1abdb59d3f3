"""Hard conditions: what a network has by construction, and what must be known for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array

from ..core import InputError, finite, listed, parameters
from ..networks import SQUARE_ROOT, KnownPart
from .boundary_interpolation import BoundaryData, boundary_interpolant
from .conditions import Condition
from .terms import Resolver, check_both


@dataclass(frozen=True)
class BuiltIn:
    """The periodic axes; per axis and field the sides on which the network is zero; what is given there, and the function that has it."""

    periodic: tuple[str, ...]
    walls: tuple[tuple[str, ...], ...]
    given: tuple[BoundaryData, ...]
    lift: KnownPart | None


def built_in(resolver: Resolver) -> BuiltIn:
    box, fields = resolver.box, resolver.fields
    periodic: list[str] = []
    given: dict[tuple[Any, ...], tuple[BoundaryData, Condition]] = {}
    for condition in (c for c in resolver.conditions if c.hard):
        if condition.hard == "root" and condition.jump:
            raise InputError(
                f'{condition.name}: hard="root" is for values of zero: write hard=True'
            )
        if resolver._on_boundary(condition):
            raise InputError(
                f"{condition.name}: hard=True builds values into the faces of a box; on the boundary of a shape write hard=False"
            )
        if condition.points is not None:
            raise InputError(
                f"{condition.name}: hard=True builds values into faces; at scattered points write hard=False"
            )
        if condition.jump:
            periodic += [axis for axis in _periodic(resolver, condition) if axis not in periodic]
            continue
        for each in _given(resolver, condition):
            before = given.setdefault((each.component, *each.place), (each, condition))[0]
            if before is not each and (before.value or each.value):
                raise InputError(
                    f"{each.name}: {before.name} has built in the same on {each.axis + each.side} already: leave one of them out"
                )
    for (component, axis, side, order), (each, _) in given.items():
        if axis in periodic:
            raise InputError(
                f"conditions: {axis} is both periodic and given on a face by construction: use hard=False for one of the two"
            )
        if order and (component, axis, side, 0) not in given:
            value = (
                "Initial(f, hard=True)"
                if axis + side == "t-"
                else f"Dirichlet(f, on={axis + side!r}, hard=True)"
            )
            raise InputError(
                f"{each.name}: hard=True builds in a slope only together with the value on the same face: write {value}, too, or hard=False"
            )
    walls = tuple(
        tuple(_wall(component, axis, given, fields[component]) for component in range(len(fields)))
        for axis in box.axes
    )
    known = tuple(each for each, _ in given.values())
    return BuiltIn(
        tuple(periodic), walls, known, boundary_interpolant(box, periodic, fields, known)
    )


def _periodic(resolver: Resolver, condition: Condition) -> list[str]:
    faces = resolver._faces(condition)
    for axis, sides in faces.items():
        check_both(condition.name, axis, sides)
    if condition.of is not None:
        raise InputError(
            f"{condition.name}: built in, it makes every field periodic; for one operator alone write hard=False"
        )
    return list(faces)


def _given(resolver: Resolver, condition: Condition) -> list[BoundaryData]:
    """What a condition says on each of its faces."""
    box, name, faces = resolver.box, condition.name, resolver._faces(condition)
    plain = resolver._trace_operator(condition, resolver._operator(condition), None)[1]
    (component, orders), coefficient = (
        next(iter(plain.items())) if plain and len(plain) == 1 else ((0, (2,)), 0.0)
    )
    along = [box.axes[i] for i, order in enumerate(orders) if order]
    # a value, or a slope along the one axis whose faces these are
    if sum(orders) > 1 or condition.mix != (1.0, 0.0) or (along and list(faces) != along):
        raise InputError(
            f"{name}: hard=True builds in the value of one field, or its slope along the normal of a face: write Dirichlet(f, hard=True),"
            " Initial(g, of=lambda u: u.t, hard=True), or hard=False for other operators"
        )
    zero = not callable(condition.value) and np.ndim(condition.value) == 0 and condition.value == 0
    if condition.hard == "root" and not (zero and not along):
        raise InputError(
            f'{name}: hard="root" is for values of zero: write hard=True, or the value 0'
        )
    found = []
    for axis, sides in faces.items():
        value = None if zero else _value(resolver, condition, faces, axis, coefficient)
        found += [BoundaryData(name, component, axis, side, sum(orders), value) for side in sides]
    return found


def _value(
    resolver: Resolver, condition: Condition, faces: dict[str, str], axis: str, coefficient: Any
) -> Callable[[Mapping[str, Array]], Array]:
    value, name = condition.value, condition.name
    if not isinstance(coefficient, (int, float)):
        raise InputError(
            f"{name}: hard=True builds in a field itself, not one times an unknown coefficient: write hard=False"
        )
    if not callable(value) and np.ndim(value):
        raise InputError(
            f"{name}: value is an array, and hard=True needs it between its points, too: write a function of coordinates, or hard=False"
        )
    if callable(value):
        pool = {"coordinate": resolver.box.axes, "unknown coefficient": tuple(resolver.unknowns)}
        if unknown := [
            n for n, _ in parameters(value, pool, f"{name}: value") if n in resolver.unknowns
        ]:
            raise InputError(
                f"{name}: value depends on {listed(unknown)}, which is not known before it is solved: write hard=False"
            )
    else:
        finite(f"{name}: value", value)
    evaluate, _ = resolver._value(condition, faces, axis, faces[axis])
    return lambda coordinates: evaluate(coordinates, {}) / coefficient


def _wall(
    component: int,
    axis: str,
    given: Mapping[tuple[Any, ...], tuple[BoundaryData, Condition]],
    field: str,
) -> str:
    """The sides of an axis on which a network is zero, once for its value and once more for its slope."""
    here = [
        (each, condition)
        for (c, a, *_), (each, condition) in given.items()
        if (c, a) == (component, axis)
    ]
    root = {condition.hard == "root" for each, condition in here if each.order == 0}
    if len(root) > 1 or (True in root and any(each.order for each, _ in here)):
        raise InputError(
            f'{here[-1][0].name}: {field} leaves one face of {axis} like a root and another, or its slope, is given otherwise: write hard="root"'
            " for both faces, or hard=True"
        )
    return "".join(side for side in "-+" for each, _ in here if each.side == side) + SQUARE_ROOT * (
        root == {True}
    )
