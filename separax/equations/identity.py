"""What a problem is called, and what makes two problems the same."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array

from ..core import in_float64
from ..domain import Place
from ..separable import Key
from .terms import example_lattice
from .tracing import AtPlace, Inputs, Tracer, values_of

if TYPE_CHECKING:
    from .problem import Problem

PACKAGE = Path(__file__).parents[1]
# names of functions that say what they are and not what equation they hold
GENERAL = frozenset(
    "residual residuals equation equations eq eqs eqn eqns pde pdes ode odes law laws system rhs"
    " lhs"
    " f g r fun func function inner wrapper wrapped named partial".split()
)


def name_of(residual: Any) -> str:
    """The name of a problem that was given none: that of its residual function, where that says
    something; else that of the file that makes the problem; "problem" where there is no file."""
    name = getattr(residual, "__name__", "")
    if name.isidentifier() and name.strip("_").lower() not in GENERAL and len(name) > 2:
        return name
    frame: Any = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if PACKAGE not in file.parents:
            break
        frame = frame.f_back
    else:
        return "problem"
    words = re.sub(r"\W+", "_", file.stem).strip("_")
    # a notebook's cells and what is typed into a terminal are no files
    is_file = file.suffix == ".py" and file.exists() and words and words != "main"
    return words if is_file else "problem"


def fingerprint(problem: Problem) -> str:
    """A digest of what the residuals and the conditions of a problem compute.

    Arguments:
        problem: with its functions.
    """
    seen: list[str] = []

    def note(terms: Mapping[Key, Any]) -> None:
        seen.append(repr(sorted((key, str(c)) for key, c in terms.items())))

    def traced(function: Callable[[AtPlace], Any], place: Place) -> str:
        tracer = Tracer(problem.box.axes, place.shape, on_request=note)

        def run(place: Place, unknowns: Mapping[str, Array]) -> Any:
            return function(AtPlace(problem, place, tracer, Inputs(unknowns, {})))

        closed = jax.make_jaxpr(run)(place, problem.no_unknowns())
        return str(closed.jaxpr) + "".join(map(_digest, closed.consts))

    def inside(at: AtPlace) -> list[Any]:
        found = problem.expressions(at.source, at.coordinates, at.unknowns)
        values = [values_of(e, at.source.shape, n) for n, e in found.items()]
        values += [g.value(at.coordinates) for g in problem.given if g.value is not None]
        return [*values, *([] if problem.shape is None else [problem.shape.mask(at.coordinates)])]

    with in_float64():  # the same whatever the caller's precision is
        text = traced(inside, example_lattice(problem.box.axes))
        for term in problem.terms:
            place = term.example(problem.box.axes)
            text += f"{term.name} {term.axis} {term.sides} {term.boundary} {term.weight}"
            text += traced(lambda at, t=term: [p.values for p in t.parts(at)], place)
            text += "".join(map(_digest, term.fixed.coordinates)) if term.fixed else ""
    text += "".join(seen)
    text += "".join(f"{g.component} {g.place}" for g in problem.given if g.value is not None)
    text += f"{problem.box} {problem.periodic} {problem.walls} {problem.unknowns}"
    return hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", text).encode()).hexdigest()[:16]


def _digest(array: Any) -> str:
    return hashlib.sha256(np.asarray(array, np.float64).tobytes()).hexdigest()
