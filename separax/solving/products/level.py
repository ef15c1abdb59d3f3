"""One level of a solve in a box: so many functions of every axis, all products of them.

    u = L + Σ C_ab… φ_a(x) φ_b(y) …,    residual(u) = 0, tested with as many Legendre polynomials

L has what is given on the faces, and every φ has zero instead. Newton's method; each of its linear
systems is solved directly if the equation's coefficients are products of functions of one axis
each, and otherwise by GMRES, after such an operator that is close to it.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy

from ...separable import multiply_core
from .face_conditions import BoxProblem
from .kronecker import DirectSolver, Terms, merged
from .line_functions import LineFunctions

ALIKE = 1e-12  # relative: a coefficient that is as close to a product is one
CORNERS = 1e-7  # relative: how far two conditions may be apart where their faces meet
NEWTON = 25
SETTLED = 1e-13  # relative: a change of the solution that ends Newton's method
NEAR = 1e-9  # and one after which it may end, if the next is not smaller
KRYLOV = 60
NOISE = 1e-14  # relative: what rounding leaves in a right side, in every product alike
UNSURE = 0.02  # of what a step leaves: less than this may be rounding
STEPS = (1.0, 0.5, 0.25, 0.1, 0.03)


class Astray(Exception):
    """Newton's method does not get closer to a solution."""


@dataclass(frozen=True, eq=False)
class Solved:
    """What a level found.

    Attributes:
        core: the coefficients of the products.
        series: the solution as Legendre series.
        family: the dimensions of what the equation does not feel.
        steps: of Newton's method.
    """

    core: np.ndarray
    series: np.ndarray
    family: int
    steps: int


class _State(NamedTuple):
    """Coefficients, their values, and what is left: tested, its slopes, and how large its parts
    are."""

    core: np.ndarray
    values: np.ndarray
    tested: Any = None
    slopes: Any = None
    scale: float = 0.0


@dataclass(frozen=True, eq=False)
class BoxLevel:
    """A problem with so many functions of every axis.

    Attributes:
        box: the problem.
        numbers: of functions, by axis.
    """

    box: BoxProblem
    numbers: tuple[int, ...]

    @cached_property
    def lines(self) -> list[LineFunctions]:
        """The functions of each axis."""
        box, found = self.box.problem.box, []
        for axis, n in zip(box.axes, self.numbers):
            own = tuple(c.functional for c in self.box.conditions[axis])
            found.append(LineFunctions(*box[axis], n, own, n + max(4, n // 8) + len(own)))
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the lattice of the quadrature."""
        return tuple(line.points for line in self.lines)

    @cached_property
    def coordinates(self) -> np.ndarray:
        """Of the lattice, (axes, points)."""
        return _all([line.nodes for line in self.lines])

    # --- what is given on the faces --------------------------------------------------------------

    @cached_property
    def lift(self) -> np.ndarray | None:
        """L as Legendre series; None where it is zero. Raises `Astray` where conditions contradict
        each other."""
        conditions = [self.box.conditions[a] for a in self.box.problem.box.axes]
        if not any(c.value for own in conditions for c in own):
            return None
        total = np.zeros([line.degrees for line in self.lines])
        given = []
        for i, (line, own) in enumerate(zip(self.lines, conditions)):
            each = [self._series(i, k) for k in range(len(own))]
            given.append(each)
            for k, data in enumerate(each):
                missing = np.expand_dims(data - np.tensordot(line.takes[k], total, (0, i)), i)
                blend = line.blends[:, k].reshape([-1 if j == i else 1 for j in range(total.ndim)])
                total = total + blend * missing
        size = 1e-300
        worst = 0.0
        for i, (line, each) in enumerate(zip(self.lines, given)):
            for k, data in enumerate(each):
                scale = np.abs(line.takes[k, : line.order + 1]).max()
                worst = max(
                    worst, np.abs(np.tensordot(line.takes[k], total, (0, i)) - data).max() / scale
                )
                size = max(size, np.abs(data).max() / scale)
        if worst > CORNERS * size:
            raise Astray
        total[np.abs(total) < 1e-17 * np.abs(total).max()] = 0.0
        return total

    def _series(self, axis: int, number: int) -> np.ndarray:
        """What a condition gives on its face, as Legendre series of the other axes."""
        name = self.box.problem.box.axes[axis]
        condition = self.box.conditions[name][number]
        side = next(iter(condition.functional))[0]
        line = self.lines[axis]
        end = np.array([line.upper if side == "+" else line.lower])
        each = [end if i == axis else other.nodes for i, other in enumerate(self.lines)]
        values = self.box.given(condition, _all(each)).reshape([len(x) for x in each])
        values = np.squeeze(values, axis)
        others = [other for i, other in enumerate(self.lines) if i != axis]
        for i, other in enumerate(others):
            values = np.moveaxis(other.fitted(np.moveaxis(values, i, 0)), 0, i)
        return values

    # --- values and residuals --------------------------------------------------------------------

    def table(
        self, core: np.ndarray, lifted: bool, units: Sequence[np.ndarray] | None = None
    ) -> np.ndarray:
        """The derivatives in the residual, (keys, points), of a sum of all products.

        Arguments:
            core: the coefficients of the products.
            lifted: with what is given on the faces.
            units: scattered points instead of the lattice, each from -1 to 1.
        """
        lift = self.lift if lifted else None
        found = []
        for _, orders in self.box.keys:
            own = self._at(core, [f.values for f in self.lines], orders, units)
            if lift is not None:
                own = own + self._at(lift, [f.derived for f in self.lines], orders, units)
            found.append(own.ravel())
        return np.stack(found)

    @staticmethod
    def _at(
        core: np.ndarray,
        functions: Sequence[Callable[..., np.ndarray]],
        orders: Sequence[int],
        units: Sequence[np.ndarray] | None,
    ) -> np.ndarray:
        if units is None:
            return multiply_core(core, {i: f(k) for i, (f, k) in enumerate(zip(functions, orders))})
        each = [f(k, unit) for f, k, unit in zip(functions, orders, units)]
        found = np.tensordot(each[0], core, 1)
        for own in each[1:]:
            found = np.einsum("pn...,pn->p...", found, own)
        return found

    def tested(self, values: np.ndarray) -> np.ndarray:
        """The products of values on the lattice with Legendre polynomials."""
        core = values.reshape(self.shape)
        return multiply_core(core, {i: line.tests for i, line in enumerate(self.lines)})

    def residual(self, core: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """What is left, tested; the slopes on the lattice; and how large the parts of it are."""
        table = self.table(core, True)
        left, slopes = self.box.linearised(table, self.coordinates)
        parts = np.linalg.norm(slopes * table) + np.linalg.norm(
            left - np.sum(slopes * table, axis=0)
        )
        if not (np.all(np.isfinite(left)) and np.all(np.isfinite(slopes))):
            raise Astray
        tested = self.tested(left)
        scale = float(parts) * np.linalg.norm(tested) / max(np.linalg.norm(left), 1e-300)
        return tested, slopes, max(float(scale), 1e-300)

    def applied(self, slopes: np.ndarray, core: np.ndarray) -> np.ndarray:
        """How the tested residual changes with the coefficients."""
        return self.tested(np.sum(slopes * self.table(core, False), axis=0))

    def series(self, core: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The solution as Legendre series.

        Arguments:
            core: the coefficients of the products.
            values: the products with Legendre polynomials, more exactly.
        """
        found = multiply_core(core, {i: line.series for i, line in enumerate(self.lines)})
        own = values
        for i, line in enumerate(self.lines):
            norms = line.norms[: line.number]
            own = own / norms.reshape([-1 if j == i else 1 for j in range(own.ndim)])
        found[tuple(slice(n) for n in self.numbers)] = own
        return found if self.lift is None else found + self.lift

    def size(self, series: np.ndarray) -> np.ndarray:
        """The same for normalised polynomials: squares add up to the mean square."""
        for i, line in enumerate(self.lines):
            own = line.norms / math.sqrt(2)
            series = series * own.reshape([-1 if j == i else 1 for j in range(series.ndim)])
        return series

    # --- solving ---------------------------------------------------------------------------------

    def solved(self, start: np.ndarray | None = None, seconds: float = math.inf) -> Solved:
        """The coefficients of the solution.

        Arguments:
            start: coefficients to begin with; zero if it is left out.
            seconds: after which Newton's method is given up.

        Raises `Astray` or `LinAlgError` where there is none to be found.
        """
        now = _State(np.zeros(self.numbers), np.zeros(self.numbers))
        if start is not None:
            now = _State(start, multiply_core(start, dict(enumerate(self._masses))))
        now = self._at_state(now.core, now.values)
        kept: tuple[np.ndarray, DirectSolver, bool] | None = None
        last, noise, steps = math.inf, 0.0, 0
        began = time.perf_counter()
        while steps < NEWTON:
            if time.perf_counter() - began > seconds and last > NEAR:
                raise Astray
            steps += 1
            if kept is None or not np.array_equal(kept[0], now.slopes):
                kept = now.slopes, *self._solver(now.slopes)
            _, solver, exact = kept
            if exact:
                left = float(np.linalg.norm(now.tested))
                if left < 10 * noise:
                    break
                level = max(noise, UNSURE * left) if noise else NOISE * left
                noise = noise or level
                found, values = solver.solve(*_cleaned(-now.tested, level))
            else:
                found, values = self._iterated(now, solver, last)
            size = np.linalg.norm(self.size(self.series(now.core + found, now.values + values)))
            change = float(np.linalg.norm(values) / np.sqrt(2.0**values.ndim) / max(size, 1e-300))
            if not np.isfinite(change):
                raise Astray
            now = self._stepped(now, found, values, exact)
            if change <= SETTLED or (change <= NEAR and change > 0.3 * last):
                break
            last = change
        else:
            if last > 1e-6:
                raise Astray
        assert kept is not None
        return Solved(now.core, self.series(now.core, now.values), kept[1].family, steps)

    @cached_property
    def _masses(self) -> list[np.ndarray]:
        return [line.tests @ line.values(0) for line in self.lines]

    def _at_state(self, core: np.ndarray, values: np.ndarray) -> _State:
        return _State(core, values, *self.residual(core))

    def _stepped(self, now: _State, found: np.ndarray, values: np.ndarray, exact: bool) -> _State:
        """The state after as long a step as helps."""
        before = np.linalg.norm(now.tested)
        for step in STEPS:
            try:
                made = self._at_state(now.core + step * found, now.values + step * values)
            except Astray:
                continue
            left = np.linalg.norm(made.tested)
            if exact or left < (1 - 0.1 * step) * before or left < 1e-10 * made.scale:
                return made
        raise Astray

    def _iterated(
        self, now: _State, solver: DirectSolver, change: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """GMRES, as far as the next step of Newton's method is worth."""
        shape, size = now.tested.shape, now.tested.size

        def applied(flat: np.ndarray) -> np.ndarray:
            return self.applied(now.slopes, solver.solve(flat.reshape(shape))[0]).ravel()

        made: Any = scipy.sparse.linalg.LinearOperator
        operator = made((size, size), matvec=applied)
        wanted = max(1e-12, min(1e-2, 1e-3 * change))
        found, _ = scipy.sparse.linalg.gmres(
            operator, -now.tested.ravel(), rtol=wanted, restart=KRYLOV, maxiter=1
        )
        return solver.solve(found.reshape(shape))

    # --- an operator that can be inverted --------------------------------------------------------

    def _solver(self, slopes: np.ndarray) -> tuple[DirectSolver, bool]:
        """The inverse of the linearised equation, or of one close to it; and whether it is that."""
        parts = [self._products(own) for own in slopes]
        terms: Terms = []
        for (_, orders), (products, _) in zip(self.box.keys, parts):
            for product in products:
                terms.append(
                    tuple(
                        line.tests @ (own[:, None] * line.values(k))
                        for line, own, k in zip(self.lines, product, orders)
                    )
                )
        exact = all(same for _, same in parts)
        try:
            return DirectSolver(merged(terms), self._masses), exact
        except np.linalg.LinAlgError as error:
            if str(error) == "singular" and exact:
                raise
        return self._nearby(slopes), False

    def _nearby(self, slopes: np.ndarray) -> DirectSolver:
        """The same with constant coefficients and without mixed derivatives."""
        plain, terms = self._masses, []
        for (_, orders), own in zip(self.box.keys, slopes):
            if sum(k > 0 for k in orders) < 2:
                one = [
                    line.tests @ line.values(k) if k else m
                    for line, k, m in zip(self.lines, orders, plain)
                ]
                one[0] = np.mean(own) * one[0]
                if np.mean(own):
                    terms.append(tuple(one))
        if not terms:
            raise np.linalg.LinAlgError("no operator of single axes")
        return DirectSolver(merged(terms), self._masses)

    def _products(self, values: np.ndarray) -> tuple[list[list[np.ndarray]], bool]:
        """A coefficient on the lattice as products of functions of one axis, or one that is close;
        and whether it is equal."""
        core = values.reshape(self.shape)
        most = np.abs(core).max()
        ones = [np.ones(n) for n in core.shape]
        if most == 0.0:
            return [], True
        mean = float(core.mean())
        if np.abs(core - mean).max() <= ALIKE * most:
            return [[mean * ones[0], *ones[1:]]], True
        # a product, if it is one: the lines through its largest value
        peak = np.unravel_index(int(np.argmax(np.abs(core))), core.shape)
        lines = [
            core[tuple(slice(None) if j == i else p for j, p in enumerate(peak))]
            for i in range(core.ndim)
        ]
        factors = [lines[0], *(line / core[peak] for line in lines[1:])]
        if np.abs(core - _outer(factors)).max() <= ALIKE * most:
            return [factors], True
        # a sum of functions of one axis each
        each = [
            core.mean(tuple(j for j in range(core.ndim) if j != i)) - mean for i in range(core.ndim)
        ]
        total = mean + sum(
            own.reshape([-1 if j == i else 1 for j in range(core.ndim)])
            for i, own in enumerate(each)
        )
        made = [[mean * ones[0], *ones[1:]]] + [
            [own if j == i else ones[j] for j in range(core.ndim)]
            for i, own in enumerate(each)
            if np.abs(own).max() > ALIKE * most
        ]
        if np.abs(core - total).max() <= ALIKE * most:
            return made, True
        return [[mean * ones[0], *ones[1:]]], False


def _cleaned(core: np.ndarray, level: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """A right side as a core and bases, without what is rounding. Few products make up what there
    is of it; rounding is in all of them, and what it leaves in the slow ones counts most."""
    bases = []
    for i in range(core.ndim):
        flat = np.moveaxis(core, i, 0).reshape(core.shape[i], -1)
        short = (
            np.asarray(np.linalg.qr(flat.T, mode="r")).T if flat.shape[1] > flat.shape[0] else flat
        )
        left, sizes, _ = np.linalg.svd(short, full_matrices=False)
        kept = left[:, : max(1, int(np.sum(sizes > level)))]
        bases.append(kept)
        core = multiply_core(core, {i: kept.T})
    return core, bases


def _outer(factors: Sequence[np.ndarray]) -> np.ndarray:
    return functools.reduce(np.multiply.outer, factors)


def _all(each: Sequence[np.ndarray]) -> np.ndarray:
    """All points of a lattice, (axes, points)."""
    return np.stack([x.ravel() for x in np.meshgrid(*each, indexing="ij")])
