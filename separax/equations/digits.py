"""Numbers that were rounded to float32 before a problem was made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import Literal

from ..core import in_float64
from ..domain import Points
from .tracing import AtPlace, Inputs, TabulatedValues

if TYPE_CHECKING:
    from .problem import Problem

SHORT = 12  # bits: 0.5, 3.0 and 1 / 256 are what they are in float32, too
LOST = 1.2e-7  # what a float32 number may be off, relative to its size


def of_few_digits(problem: Problem) -> list[str]:
    """The residuals and conditions that hold numbers of float32, which end after seven digits:
    `jnp.sin(0.3)` is one where JAX was not told of float64.

    Arguments:
        problem: whose functions are traced.
    """
    held = [c for c in problem.conditions if any(_is_rounded(v) for v in vars(c).values())]
    names = [getattr(c, "name", type(c).__name__) for c in held]
    axes = problem.box.axes
    unknowns: dict[str, Any] = dict.fromkeys(problem.unknowns, 1.0)
    keys = sorted(problem.derivatives)

    def residuals(table: Any, *coordinates: Any) -> Any:
        place = Points(axes, coordinates)
        source = TabulatedValues(place, dict(zip(keys, table)))
        at = AtPlace(problem, place, source, Inputs(unknowns, {}))
        found = problem.expressions(source, at.coordinates, unknowns)
        return [getattr(e, "evaluate", lambda e=e: e)() for e in found.values()]

    with in_float64():
        point = [np.full(3, np.mean(problem.box[a])) for a in axes]
        if _any_rounded(residuals, np.ones((len(keys), 3)), *point):
            names.append("residual")
        for term in problem.terms:
            value = getattr(term, "value", None)
            fixed = getattr(term, "fixed", None)
            if callable(value) and fixed is None:
                at = dict(zip(axes, point))
                if _any_rounded(lambda value=value, at=at: value(at, unknowns)):
                    names.append(term.name)
    return list(dict.fromkeys(names))


def _any_rounded(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function holds rounded numbers of its own."""
    try:
        closed = jax.make_jaxpr(function)(*arguments)
    except Exception:  # what cannot be traced like this says nothing
        return False
    return any(map(_is_rounded, (*closed.consts, *_literals(closed.jaxpr))))


def _literals(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield from (v.val for v in equation.invars if isinstance(v, Literal))
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                inside = getattr(inner, "jaxpr", inner)
                yield from getattr(inner, "consts", ())
                yield from _literals(inside)
    yield from (v.val for v in jaxpr.outvars if isinstance(v, Literal))


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _is_rounded(value: Any) -> bool:
    """Whether numbers are of float32, and longer than those that are the same in both."""
    if getattr(value, "dtype", None) != np.float32:
        return False
    mantissas = np.frexp(np.asarray(value))[0].astype(float) * 2.0**SHORT
    return bool(np.any(mantissas != np.round(mantissas)))
