"""What a notebook shows of a box, a problem and a solution; and formulas as MathML, which browsers
typeset by themselves: "u_tt - Δu + u² = f" and the like."""

from __future__ import annotations

import base64
import re
from html import escape

from ..domain import Box
from ..equations import Problem, equation
from ..solution import Solution
from .cuts import field_name
from .figures import plot, png

LETTERS = (
    "alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ kappa κ lambda λ lam λ mu μ"
    " nu ν xi ξ pi π rho ρ sigma σ tau τ phi φ chi χ psi ψ omega ω"
).split()
GREEK: dict[str, str] = dict(zip(LETTERS[::2], LETTERS[1::2]))
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
    |(?P<operator>[Δ∇∂])
    |(?P<name>[α-ω]|[^\W\d_Δα-ω⁰¹²³⁴⁵⁶⁷⁸⁹]+)
    |(?P<below>_(?:\{[^{}]*\}|[^\W_⁰¹²³⁴⁵⁶⁷⁸⁹]+))
    |(?P<above>[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^\d+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def mathml(formula: str, display: str = "block") -> str:
    """A formula as a MathML element.

    Arguments:
        formula: subscripts follow `_` (`u_xx`, `u_{theta theta}`), powers are raised digits or
            follow `^`; everything is escaped.
        display: on a line of its own ("block") or among words ("inline").
    """
    atoms: list[list[str]] = []  # each an element with what is below and above it
    before = "sign"
    for found in TOKEN.finditer(formula):
        kind, text = str(found.lastgroup), found.group()
        if kind == "space":
            if before != "sign" and formula[found.end() :][:1].isalpha():
                atoms.append(['<mspace width="0.2em"/>', "", ""])  # a product
            continue
        before = kind
        if kind in ("below", "above") and atoms:
            if kind == "below":
                atoms[-1][1] += _below(text[1:])
            else:
                atoms[-1][2] += f"<mn>{escape(text.strip('^').translate(POWERS))}</mn>"
        else:
            atoms.append([_atom(kind, text), "", ""])
    inside = "".join(_scripted(*atom) for atom in atoms)
    return f'<math display="{display}"><mrow>{inside}</mrow></math>'


def _atom(kind: str, text: str) -> str:
    if kind == "number":
        return _number(text)
    if kind == "name":
        return f"<mi>{escape(GREEK.get(text, text))}</mi>"
    if kind == "operator":
        return f'<mo rspace="0" lspace="0">{text}</mo>'
    if text == "|":
        return '<mo stretchy="false" rspace="0" lspace="0">|</mo>'
    return f"<mo>{escape({'-': '−', '*': '·'}.get(text, text))}</mo>"


def _number(text: str) -> str:
    if "e" not in text:
        return f"<mn>{text}</mn>"
    mantissa, exponent = text.split("e")
    power = str(int(exponent)).replace("-", "−")
    return f"<mn>{mantissa}</mn><mo>·</mo><msup><mn>10</mn><mn>{power}</mn></msup>"


def _below(text: str) -> str:
    words = text.strip("{}").split()
    if len(words) == 1 and words[0] not in GREEK and not words[0].isdigit():
        words = list(words[0])  # u_xx: one letter per axis
    return "".join(f"<mi>{escape(GREEK.get(word, word))}</mi>" for word in words)


def _scripted(element: str, below: str, above: str) -> str:
    if below and above:
        return f"<msubsup>{element}<mrow>{below}</mrow><mrow>{above}</mrow></msubsup>"
    if below:
        return f"<msub>{element}<mrow>{below}</mrow></msub>"
    return f"<msup>{element}<mrow>{above}</mrow></msup>" if above else element


# --- notebooks ----------------------------------------------------------------------------------

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
