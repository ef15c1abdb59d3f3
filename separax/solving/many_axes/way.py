"""Linear equations in many axes whose data are sums of products: no lattice is made.

    Σ_i A_i u + c u = f,    ℓ(u) = g on the faces

First a function with all that is given on the faces (`few_axes.py`): where u is a sum
of functions of few axes, that is u already. What is left is zero on the faces, and is found in the
eigenfunctions of the A_i: one by one where its right side has few of them, and otherwise by
exponentials, 1/(λ₁ + λ₂ + …) = Σ_q w_q Π exp(-s_q λ_i).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.polynomial import legendre

from ...core import threads_for
from ...equations import Field, Problem, Tracer
from ...separable import separate
from ...solution import Solution, Timing
from ..pieces import Products, piecewise_solution
from ..products.face_conditions import BoxProblem, FaceCondition, box_problem
from ..products.line_functions import LineFunctions
from ..products.way import ProductsLevel
from ..trained import Context
from ..ways import ROUNDED, AbstractWay, Turn
from .few_axes import FewAxes, Product

LEAST_AXES = 6  # with fewer all products are few enough
NUMBERS = (8, 12, 18, 27, 40, 60, 90)  # functions of an axis, level by level
NOTHING = 1e-13  # of what it is made from: what is left of a right side
AIM = 1e-12
SAFE = 3.0
FAINT = 1e-14  # of a right side, in one eigenfunction
MODES = 20_000  # products of eigenfunctions, one by one
TERMS = 1_000  # of a source, or of what is given on a face
FEW_PRODUCTS = 64
PRODUCTS = 4_000  # of a solution
PATIENCE = 20.0  # seconds
STEP = 0.3  # of the exponentials, in log s: an error of 1e-14
CANCELLED = 1e-10  # what may be left of sums of so many, which cancel in part


class Unsuited(Exception):
    """The problem's data are no sums of products, or its operator is of another kind."""


class ManyAxes(AbstractWay):
    """Sums of products, of problems in six axes and more."""

    def suits(self, problem: Problem) -> bool:
        return problem.box.dimension >= LEAST_AXES and _operators(problem) is not None

    def turn(self, problem: Problem) -> Turn:
        return Turn.FIRST

    def solve(self, problem: Problem, tolerance: float, context: Context) -> Solution | None:
        box = box_problem(problem)
        if box is None:
            return None
        began, levels = time.perf_counter(), []
        best: tuple[FewAxes, float] | None = None
        before: FewAxes | None = None
        with threads_for(1), np.errstate(all="ignore"):
            for number in NUMBERS:
                started = time.perf_counter()
                try:
                    level = _Level(box, number)
                    found, left = level.solved()
                except np.linalg.LinAlgError:
                    break
                except Unsuited:
                    # what more functions resolve may be all of it
                    if time.perf_counter() - began > PATIENCE:
                        break
                    continue
                apart = math.inf if before is None else _apart(before, found, problem)
                tails = {a: found.tails(i) / found.size for i, a in enumerate(problem.box.axes)}
                estimate = max(SAFE * apart, left, ROUNDED) if apart < math.inf else math.inf
                seconds = time.perf_counter() - started
                counts = dict.fromkeys(problem.box.axes, number)
                levels.append(ProductsLevel(counts, tails, estimate, seconds))
                worse = best is not None and estimate > best[1]
                if not worse:
                    best = found, estimate
                before = found
                if estimate <= max(AIM, left) or worse or context.interrupt.asked:
                    break
                if seconds > 10.0 and estimate <= tolerance:
                    break
        if best is None or best[1] == math.inf:
            return None
        timing = Timing(0.0, time.perf_counter() - began, len(levels))
        return _solution(problem, *best, levels, timing)


def _operators(problem: Problem) -> tuple[dict[int, dict[int, float]], float, Any] | None:
    """By axis the derivatives along it with their coefficients, the coefficient of the field
    itself, and the residual of zero as a function of coordinates; None where it is something else.
    """
    if len(problem.fields) > 1 or len(problem.residuals) > 1 or problem.unknowns:
        return None
    known: list[Any] = []

    def residual(at: Any) -> Any:
        ((_, found),) = problem.expressions(at.source, at.coordinates, {}).items()
        known.append(found.known_values if isinstance(found, Field) else None)
        return found

    def run() -> Any:
        return problem.trace(residual, accepts=lambda *shapes: True)

    trace = run()
    found = trace.result
    if not isinstance(found, Field) or trace.uses_plain_values or found.varying_terms:
        return None
    part = found.known_polynomial
    if part is None or not part.is_known:
        return None
    along: dict[int, dict[int, float]] = {}
    plain = 0.0
    for (_, orders), coefficient in found.terms.items():
        places = [i for i, k in enumerate(orders) if k]
        if len(places) > 1 or not isinstance(coefficient, float):
            return None
        if places:
            along.setdefault(places[0], {})[orders[places[0]]] = coefficient
        else:
            plain += coefficient
    return along, plain, residual


@dataclass
class _Level:
    """A problem with so many functions of every axis."""

    box: BoxProblem
    number: int

    @functools.cached_property
    def lines(self) -> list[LineFunctions]:
        box = self.box.problem.box
        return [
            LineFunctions(
                *box[a],
                self.number + 4 - len(own),
                tuple(c.functional for c in own),
                self.number + 8,
            )
            for a, own in self.box.conditions.items()
        ]

    @property
    def degrees(self) -> int:
        return self.number + 4

    # --- reading ---------------------------------------------------------------------------------

    @functools.cached_property
    def _coordinates(self) -> dict[str, Any]:
        axes, many = self.box.problem.box.axes, len(self.lines)
        return {
            a: jnp.asarray(line.nodes).reshape([-1 if j == i else 1 for j in range(many)])
            for i, (a, line) in enumerate(zip(axes, self.lines))
        }

    def _read(self, function: Any) -> FewAxes:
        """A function of the coordinates."""
        products = separate(function, self._coordinates, dimension=len(self.lines), most=TERMS)
        if products is None:
            raise Unsuited
        found = FewAxes(self.degrees)
        for product in products:
            made: Product = {}
            factor = 1.0
            for i, own in enumerate(product):
                values = np.asarray(own, np.float64)
                if not np.all(np.isfinite(values)):
                    raise Unsuited
                if len(values) == 1:
                    factor *= float(values[0])
                else:
                    made[i] = self.lines[i].fitted(values)
            found.add(
                {0: np.eye(1, self.degrees)[0] * factor} | made if 0 not in made else made,
                1.0 if 0 not in made else factor,
            )
        return found

    def _source(self) -> FewAxes:
        problem = self.box.problem
        operators = _operators(problem)
        assert operators is not None
        tested = problem.trace(operators[2], accepts=lambda *shapes: True).result
        if tested.known_values is None:
            return FewAxes(self.degrees)

        def source(coordinates: Mapping[str, Any]) -> Any:
            return _known_values(problem, coordinates)

        return self._read(source)

    def _given(self, condition: FaceCondition, read: dict[Any, FewAxes]) -> FewAxes:
        if condition.value is None:
            return FewAxes(self.degrees)
        if condition.value not in read:
            read[condition.value] = self._read(condition.value)
        i = self.box.problem.box.index(condition.axis)
        side = next(iter(condition.functional))[0]
        ends = np.ones(self.degrees) if side == "+" else (-1.0) ** np.arange(self.degrees)
        return read[condition.value].applied(i, np.outer(np.eye(1, self.degrees)[0], ends))

    # --- solving ---------------------------------------------------------------------------------

    def solved(self) -> tuple[FewAxes, float]:
        """The solution, and how much it may be off by what was left out."""
        lift = self._lift()
        operators = _operators(self.box.problem)
        assert operators is not None
        along, plain, _ = operators
        source = self._source()
        parts = [source]
        for i, orders in along.items():
            line = self.lines[i]
            matrix = sum(c * line.differentiated(k) for k, c in orders.items())
            parts.append(lift.applied(i, np.asarray(matrix)))
        if plain:
            parts.append(FewAxes(self.degrees).plus(lift, plain))
        size = max(part.size for part in parts)
        left = functools.reduce(lambda a, b: a.plus(b), parts)
        # derivatives of series have as much more rounding
        left = left.without(NOTHING * max(size, lift.size * self.degrees**2 / 10))
        if not left.few and not left.products:
            return lift, 0.0
        rest = self._inverted(left, along, plain)
        return lift.plus(rest, -1.0), CANCELLED if len(rest.products) > FEW_PRODUCTS else 0.0

    def _lift(self) -> FewAxes:
        total, read = FewAxes(self.degrees), {}
        for i, (line, own) in enumerate(zip(self.lines, self.box.conditions.values())):
            for k, condition in enumerate(own):
                onto = np.outer(np.eye(1, self.degrees)[0], line.takes[k])
                missing = self._given(condition, read).plus(total.applied(i, onto), -1.0)
                scale = max((f.size for f in read.values()), default=0.0)
                missing = missing.without(NOTHING * scale)
                blend = np.outer(line.blends[:, k], np.eye(1, self.degrees)[0])
                total = total.plus(missing.applied(i, blend))
        return total

    def _inverted(
        self, right: FewAxes, along: Mapping[int, Mapping[int, float]], plain: float
    ) -> FewAxes:
        """The inverse of the operator, with zero on the faces."""
        axes = [self._modes(i, along.get(i, {})) for i in range(len(self.lines))]
        forward = [i for i, axis in enumerate(axes) if axis is None]
        if len(forward) > 1:
            raise Unsuited
        found, products = FewAxes(self.degrees), right.each()
        for product in products:
            one: np.ndarray = np.eye(1, self.degrees)[0]
            own: Product = {i: product.get(i, one) for i in range(len(axes))}
            shares = {i: a.share @ (a.test @ own[i]) for i, a in enumerate(axes) if a is not None}
            kept = {
                i: np.flatnonzero(np.abs(s) > FAINT * np.abs(s).max()) for i, s in shares.items()
            }
            if math.prod(len(k) for k in kept.values()) * len(products) <= MODES:
                self._by_modes(found, axes, shares, kept, plain, own, along)
            elif forward:
                raise Unsuited
            else:
                self._by_exponentials(found, axes, shares, kept, plain)
            if len(found.products) > PRODUCTS:
                raise Unsuited
        return found

    def _by_modes(
        self,
        found: FewAxes,
        axes: Sequence[_Modes | None],
        shares: Mapping[int, np.ndarray],
        kept: Mapping[int, np.ndarray],
        plain: float,
        product: Product,
        along: Mapping[int, Mapping[int, float]],
    ) -> None:
        """Products of eigenfunctions one by one; along an axis of time, an equation for each."""
        known = {i: a for i, a in enumerate(axes) if a is not None}
        top = math.prod(float(np.abs(s).max()) for s in shares.values())
        for modes in itertools.product(*(kept[i] for i in known)):
            value = plain + sum(float(a.values[m]) for a, m in zip(known.values(), modes))
            size = math.prod(float(shares[i][m]) for i, m in zip(known, modes))
            if abs(size) <= FAINT * top:
                continue
            made = {i: a.functions[:, m] for (i, a), m in zip(known.items(), modes)}
            for i in range(len(axes)):
                if axes[i] is None:
                    made[i] = self._forward(i, along[i], value, product[i])
                    value = 1.0
            found.add(made, size / value)

    def _forward(
        self, axis: int, orders: Mapping[int, float], value: float, right: np.ndarray
    ) -> np.ndarray:
        line = self.lines[axis]
        matrix = value * (line.tests @ line.values(0))
        for k, c in orders.items():
            matrix = matrix + c * (line.tests @ line.values(k))
        tested = line.norms[: line.number] * right[: line.number]
        return line.series @ np.linalg.solve(matrix, tested)

    def _by_exponentials(
        self,
        found: FewAxes,
        every: Sequence[_Modes | None],
        shares: Mapping[int, np.ndarray],
        kept: Mapping[int, np.ndarray],
        plain: float,
    ) -> None:
        """1/λ = ∫ exp(-λ eˣ + x) dx by the trapezoidal rule: it converges like exp(-π²/step)."""
        axes = [a for a in every if a is not None]
        sign = np.sign(axes[0].values[kept[0][0]])
        low = (
            sum(float(np.min(sign * a.values[k])) for a, k in zip(axes, kept.values()))
            + sign * plain
        )
        high = (
            sum(float(np.max(sign * a.values[k])) for a, k in zip(axes, kept.values()))
            + sign * plain
        )
        if low <= 0.0:
            raise Unsuited
        places = np.arange(math.log(1e-15 / high), math.log(40.0 / low), STEP)
        for x in places:
            s = math.exp(x)
            made: Product = {}
            factor = sign * STEP * s * math.exp(-s * sign * plain)
            for i, (a, own) in enumerate(zip(axes, shares.values())):
                made[i] = a.functions @ (own * np.exp(-s * sign * a.values))
            first = float(factor) * made[0]
            found.products.append(made | {0: first})

    def _modes(self, axis: int, orders: Mapping[int, float]) -> _Modes | None:
        line = self.lines[axis]
        number = line.number
        test = np.diag(line.norms[:number]) @ np.eye(number, line.degrees)
        mass = line.tests @ line.values(0)
        if not orders:
            eye = np.eye(number)
            return _Modes(np.zeros(number), line.series @ np.linalg.inv(mass), eye, test)
        matrix = sum(c * (line.tests @ line.values(k)) for k, c in orders.items())
        inverse = mass @ np.linalg.inv(np.asarray(matrix))
        if np.linalg.norm(inverse - inverse.T) > 1e-10 * np.linalg.norm(inverse):
            return None
        values, vectors = scipy.linalg.eigh((inverse + inverse.T) / 2)
        # u = K⁻¹ v with A u = v and u = λ⁻¹ v, tested
        functions = np.zeros((line.degrees, number))
        functions[:] = line.series @ np.linalg.solve(np.asarray(matrix), vectors) / values
        return _Modes(1 / values, functions, vectors.T, test)


@dataclass(frozen=True)
class _Modes:
    """The eigenfunctions of an operator along an axis.

    Attributes:
        values: its eigenvalues.
        functions: as Legendre series, (degrees, number).
        share: from tested values to what each eigenfunction has of them.
        test: from Legendre series to tested values.
    """

    values: np.ndarray
    functions: np.ndarray
    share: np.ndarray
    test: np.ndarray


def _known_values(problem: Problem, coordinates: Mapping[str, Any]) -> Any:
    """The residual of zero."""
    # NumPy's own has arrays of 64 axes at most
    shape = tuple(max(own) for own in zip(*(np.shape(c) for c in coordinates.values())))
    source = Tracer(problem.box.axes, shape, jnp.float64, accepts=lambda *shapes: True)
    ((_, found),) = problem.expressions(source, coordinates, {}).items()
    return found.known_values


def _at_points(function: FewAxes, unit: np.ndarray) -> np.ndarray:
    """Values at scattered points, (axes, points) from -1 to 1."""
    known = [legendre.legvander(x, function.degrees - 1) for x in unit]
    total = np.zeros(unit.shape[1])
    for product in function.each():
        total += functools.reduce(np.multiply, (known[i] @ f for i, f in product.items()))
    return total


def _apart(before: FewAxes, now: FewAxes, problem: Problem) -> float:
    """The relative L2 difference at scattered points."""
    unit = np.random.default_rng(0).uniform(-1, 1, (problem.box.dimension, 1000))
    one, other = (_at_points(each, unit) for each in (before, now))
    return float(np.linalg.norm(one - other) / max(np.linalg.norm(other), 1e-300))


def _solution(
    problem: Problem,
    found: FewAxes,
    estimate: float,
    levels: Sequence[ProductsLevel],
    timing: Timing,
) -> Solution:
    products = found.each() or [{}]
    one: np.ndarray = np.eye(1, found.degrees)[0]
    factors: list[np.ndarray] = []
    for i in range(problem.box.dimension):
        columns = np.stack([p.get(i, one) for p in products], 1)
        factors.append(columns[None, None])
    if not found.each():
        factors[0] = 0.0 * factors[0]
    edges = {a: np.array(problem.box[a], float) for a in problem.box.axes}
    return piecewise_solution(problem, [Products(edges, tuple(factors))], timing, estimate, levels)
