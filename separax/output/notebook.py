"""What a notebook shows of a box, a problem and a solution."""

from __future__ import annotations

import base64
from html import escape

from ..domain import Box
from ..equations import Problem, equation
from ..solution import Solution
from .cuts import field_name
from .figures import plot, png
from .mathml import mathml

CELL = 'style="text-align:left;padding:.15em 1em .15em 0"'


def _table(rows: list[tuple[str, str]]) -> str:
    """Rows of a name (plain text) and its HTML."""
    body = "".join(
        f"<tr><td {CELL}>{escape(name)}</td><td {CELL}>{value}</td></tr>" for name, value in rows
    )
    return f'<table style="border-collapse:collapse">{body}</table>'


def of_box(box: Box) -> str:
    return _table([(f"{axis}", f"{box[axis][0]:g} … {box[axis][1]:g}") for axis in box.axes])


def of_problem(problem: Problem) -> str:
    found = equation(problem)
    text = (
        "<br>".join(mathml(f, "inline") for f in found["formulas"])
        or f"<pre>{escape(found['code'])}</pre>"
    )
    bounds = " × ".join(
        f"{a} ∈ [{problem.box[a][0]:g}, {problem.box[a][1]:g}]" for a in problem.box.axes
    )
    built_in = [f"periodic in {a}" for a in problem.periodic]
    conditions = [name for name in problem.names if name not in problem.residuals]
    rows = [
        ("equation", text),
        ("domain", escape(bounds) + (" (a part of it)" if problem.shape is not None else "")),
        ("fields", escape(", ".join(problem.outputs))),
        ("conditions", escape(", ".join([*conditions, *built_in])) or "built into the network"),
    ]
    if problem.unknowns:
        rows.append(("unknown coefficients", escape(", ".join(problem.unknowns))))
    return f"<b>{escape(problem.name)}</b>{_table(rows)}"


def of_solution(solution: Solution) -> str:
    name = field_name(solution, None)
    picture = base64.b64encode(png(plot(solution, field=name, points=96))).decode()
    facts = [
        f"loss {solution.best_loss:.2e} at step {solution.best_step:,}",
        f"{solution.timing.train_seconds:.1f} s of training",
    ]
    if solution.problem.reference is not None:
        facts.insert(0, f"relative L2 error {solution.relative_l2():.2e}")
    facts += [f"{k} = {v:.5g}" for k, v in solution.unknowns.items()]
    return (
        f"<b>{escape(solution.problem.name)}</b>: {escape(', '.join(facts))}<br>"
        f'<img alt="slices of {escape(name)}" style="max-width:100%"'
        f' src="data:image/png;base64,{picture}">'
    )
