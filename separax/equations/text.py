"""The equation of a problem, as a person would write it.

The catalogue's equations have a text of their own. Of a user's problem separax sees what the
residual computes: where that is a polynomial of derivatives with numbers in front, tracing it gives
the formula, u_tt - Δu + u² = f(t, x, y); otherwise the residual's own text is shown.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..core import in_float64
from ..domain import Lattice
from ..separable import Key
from .field import Field
from .polynomial import Polynomial
from .terms import example_lattice
from .tracing import Tracer

if TYPE_CHECKING:
    from .problem import Problem

MOST_TERMS = 24  # beyond, the text of the residual is easier to read
OFF = 1e-9


def equation(problem: Problem) -> dict[str, Any]:
    """`formulas`, one per residual, or the residual's text as `code`; either may be empty."""
    residual = getattr(problem, "residual", None)
    if not callable(residual):  # a solution read back from a file: its record knows
        return {"formulas": [], "code": ""}
    if problem.equation is not None:
        return {"formulas": [problem.equation], "code": ""}
    formulas = traced(problem)
    return {"formulas": formulas, "code": "" if formulas else _code(residual)}


def _code(residual: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(residual)).strip()
    except (OSError, TypeError):
        return ""


def traced(problem: Problem) -> list[str]:
    """The residuals as formulas; empty if one of them cannot be written as one."""
    if problem.unknowns:  # numbers here, whose names only the text knows
        return []
    try:
        with in_float64():
            found = _run(problem)
            formulas = [_formula(problem, name, each) for name, each in found.items()]
    # a residual may do anything with the few numbers it is shown here; its text still says what it
    # is
    except Exception:
        return []
    return formulas if all(formulas) else []  # pyright: ignore[reportReturnType]


def example(problem: Problem) -> tuple[Tracer, dict[str, Any]]:
    """A few points to run functions of fields on, where nothing but their formula matters."""
    axes = problem.box.axes
    place = example_lattice(axes)
    points = {}
    for axis, number in zip(axes, place.shape):
        low, high = problem.box[axis]
        # nowhere special
        inner = low + (high - low) * (0.2718 + 0.1 * np.sqrt(np.arange(1, number + 1)))
        points[axis] = inner
    with in_float64():
        coordinates = Lattice(weights=None, **points).arrays()
    return Tracer(axes, place.shape, jnp.float64), coordinates


def _run(problem: Problem) -> dict[str, Polynomial]:
    """The residuals as polynomials of derivatives; none where one of them is something else."""
    tracer, coordinates = example(problem)
    found = problem.expressions(tracer, coordinates, {})
    known = {k: e.polynomial for k, e in found.items() if isinstance(e, Field) and e.polynomial}
    return known if len(known) == len(found) and not tracer.uses_plain_values else {}


def _formula(problem: Problem, name: str, found: Polynomial) -> str | None:
    each = (("terms", _derivative), ("pairs", _product))
    parts = [
        (_number(float(c)), text(problem, key))
        for kind, text in each
        for key, c in getattr(found, kind).items()
    ]
    parts = _laplacians(problem, [(c, text) for c, text in parts if c != ""])
    right, plain = "0", found.plain
    if plain is not None and np.any(np.abs(np.asarray(plain)) > OFF):
        values = np.asarray(plain, float)
        if values.ndim == 0 or np.ptp(values) == 0:
            right = f"{-float(values.reshape(-1)[0]):.4g}"
        else:
            axes = [a for a, n in zip(problem.box.axes[-values.ndim :], values.shape) if n > 1]
            right = f"{_letter(problem, name)}({', '.join(axes)})"
    if not 0 < len(parts) <= MOST_TERMS:
        return None
    return f"{_joined(parts)} = {right}"


def _letter(problem: Problem, residual: str) -> str:
    """A name for what depends on the coordinates alone, one per residual."""
    taken = {*problem.outputs, *problem.box.axes, *problem.unknowns}
    letter = next((letter for letter in "fgqh" if letter not in taken), "F")
    number = problem.residuals.index(residual) + 1
    return letter if len(problem.residuals) == 1 else f"{letter}_{number}"


def _product(problem: Problem, key: Any) -> str:
    a, b = (_derivative(problem, each) for each in key)
    return f"{a}²" if a == b else f"{a} {b}"


def _derivative(problem: Problem, key: Key) -> str:
    component, orders = key
    axes = [axis for axis, n in zip(problem.box.axes, orders) for _ in range(n)]
    below = (
        ""
        if not axes
        else "_" + ("".join(axes) if all(len(a) == 1 for a in axes) else "{" + " ".join(axes) + "}")
    )
    return problem.fields[component] + below


def _number(value: float) -> str:
    """What stands in front: its sign alone where it is one, "" where it is nothing."""
    if abs(value) < OFF:
        return ""
    if abs(abs(value) - 1) < OFF:
        return "-" if value < 0 else "+"
    return f"{value:.4g}"


def _laplacians(problem: Problem, parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """u_xx + u_yy as Δu, where all space axes are there with the same number in front."""
    space = problem.box.space
    for field in problem.fields if len(space) > 1 and all(len(a) == 1 for a in space) else ():
        seconds = [f"{field}_{a}{a}" for a in space]
        found = {text: c for c, text in parts if text in seconds}
        if len(found) == len(space) and len(set(found.values())) == 1:
            at = next(i for i, (_, text) in enumerate(parts) if text in found)
            rest = [(c, text) for c, text in parts if text not in found]
            before = sum(text not in found for _, text in parts[:at])
            parts = [*rest[:before], (found[seconds[0]], f"Δ{field}"), *rest[before:]]
    return parts


def _joined(parts: list[tuple[str, str]]) -> str:
    """Terms with their signs between them."""
    out = ""
    for coefficient, text in parts:
        sign = "-" if coefficient.startswith("-") else "+"
        body = f"{coefficient.lstrip('+-')} {text}".strip()
        out += f" {sign} {body}" if out else f"{'-' if sign == '-' else ''}{body}"
    return out
