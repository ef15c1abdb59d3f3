"""Hard conditions: what a network has by construction, and what must be known for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import InputError, finite, listed, parameters
from ..networks import SQUARE_ROOT, KnownPart
from .boundary_interpolation import BoundaryData, boundary_interpolant

if TYPE_CHECKING:
    from .problem import Problem


@dataclass(frozen=True)
class BuiltIn:
    """What one condition builds into the network.

    Attributes:
        periodic: axes that become periodic.
        given: values and slopes on faces.
    """

    periodic: tuple[str, ...] = ()
    given: tuple[BoundaryData, ...] = ()


@dataclass(frozen=True)
class Construction:
    """What all hard conditions of a problem build into the network.

    Attributes:
        periodic: the periodic axes.
        walls: per axis and field the sides on which the network is zero.
        given: what is given there.
        lift: the function that has it; None where it is zero.
    """

    periodic: tuple[str, ...]
    walls: tuple[tuple[str, ...], ...]
    given: tuple[BoundaryData, ...]
    lift: KnownPart | None


def construction_of(problem: Problem) -> Construction:
    """What the conditions of a problem build into its network; refused where they contradict each
    other."""
    box, fields = problem.box, problem.fields
    periodic: list[str] = []
    given: dict[tuple[Any, ...], BoundaryData] = {}
    for condition in problem.conditions:
        if (own := condition.built_in(problem)) is None:
            continue
        periodic += [axis for axis in own.periodic if axis not in periodic]
        for each in own.given:
            before = given.setdefault((each.component, *each.place), each)
            if before is not each and (before.value or each.value):
                raise InputError(
                    f"{each.name}: {before.name} has built in the same on {each.axis + each.side}"
                    " already: leave one of them out"
                )
    for (component, axis, side, order), each in given.items():
        if axis in periodic:
            raise InputError(
                f"conditions: {axis} is both periodic and given on a face by construction: use"
                " hard=False for one of the two"
            )
        if order and (component, axis, side, 0) not in given:
            face = axis + side
            value = f"Dirichlet(f, on={face!r}, hard=True)"
            raise InputError(
                f"{each.name}: hard=True builds in a slope only together with the value on the same"
                f" face: write {'Initial(f, hard=True)' if face == 't-' else value}, too, or"
                " hard=False"
            )
    walls = tuple(
        tuple(_wall(component, axis, given, fields[component]) for component in range(len(fields)))
        for axis in box.axes
    )
    known = tuple(given.values())
    lift = boundary_interpolant(box, periodic, fields, known)
    return Construction(tuple(periodic), walls, known, lift)


def value_to_build_in(name: str, value: Any, coefficient: Any, problem: Problem) -> None:
    """Refuses a value that cannot be built in: it must be known, and between points, too.

    Arguments:
        name: of the condition.
        value: a number or a function of coordinates.
        coefficient: what stands before the field that has the value.
        problem: of the condition.
    """
    if not isinstance(coefficient, (int, float)):
        raise InputError(
            f"{name}: hard=True builds in a field itself, not one times an unknown coefficient:"
            " write hard=False"
        )
    if not callable(value):
        if np.ndim(value):
            raise InputError(
                f"{name}: value is an array, and hard=True needs it between its points, too: write"
                " a function of coordinates, or hard=False"
            )
        finite(f"{name}: value", value)
        return
    pool = {"coordinate": problem.box.axes, "unknown coefficient": tuple(problem.unknowns)}
    named = parameters(value, pool, f"{name}: value")
    if unknown := [n for n, _ in named if n in problem.unknowns]:
        raise InputError(
            f"{name}: value depends on {listed(unknown)}, which is not known before it is solved:"
            " write hard=False"
        )


def _wall(
    component: int, axis: str, given: Mapping[tuple[Any, ...], BoundaryData], field: str
) -> str:
    """The sides of an axis on which a network is zero, once for its value and once more for its
    slope."""
    here = [each for (c, a, *_), each in given.items() if (c, a) == (component, axis)]
    root = {each.is_root for each in here if each.order == 0}
    if len(root) > 1 or (True in root and any(each.order for each in here)):
        raise InputError(
            f"{here[-1].name}: {field} leaves one face of {axis} like a root and another, or its"
            ' slope, is given otherwise: write hard="root" for both faces, or hard=True'
        )
    sides = "".join(side for side in "-+" for each in here if each.side == side)
    return sides + SQUARE_ROOT * (root == {True})
