"""Operators that are sums of products of operators along single axes, solved directly.

    Σ_t ⊗_i O_ti c = f,    O_ti = (α_ti + β_ti T_i) K_i

Where the operators along an axis are combinations of two, K and another one, T = K'K⁻¹ is brought
to diagonal form (by orthogonal eigenvectors where it is symmetric) or else to Schur's triangular
one. What is left is a division, and substitution backwards along the triangular axes: n³ operations
per axis and n^{d+1} for what is transformed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ...separable import multiply_core

SAME = 1e-12  # relative: matrices that are as close are the same but for rounding
SYMMETRIC = 1e-11
SKEW = 1e3  # the condition of eigenvectors that are used
SOUND = 1e7  # the condition of an operator that is inverted
SINGULAR = 1e-12
FAINT = 1e-9  # of a right side: what may be left of it where the operator is zero

Terms = list[tuple[np.ndarray, ...]]  # by term, a matrix for each axis


def merged(terms: Terms) -> Terms:
    """The same operator in fewer products: those that differ along one axis alone are one."""
    done = False
    while not done:
        done = True
        for a in range(len(terms)):
            for b in range(a):
                if (both := _joined(terms[a], terms[b])) is not None:
                    terms = [t for k, t in enumerate(terms) if k not in (a, b)] + [both]
                    done = False
                    break
            if not done:
                break
    return terms


def _joined(
    first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...] | None:
    factors, apart = 1.0, []
    for i, (a, b) in enumerate(zip(first, second)):
        size = np.vdot(a, a)
        share = np.vdot(a, b) / size if size else 0.0
        if np.linalg.norm(b - share * a) > SAME * np.linalg.norm(b):
            apart.append(i)
        else:
            factors *= share
    if len(apart) > 1:
        return None
    at = apart[0] if apart else 0
    extra = factors * second[at] if apart else factors * first[at]
    return tuple(m + extra if i == at else m for i, m in enumerate(first))


@dataclass(frozen=True)
class _Axis:
    """The operators along one axis: (α + β T) K by term, T = V R V⁻¹.

    Attributes:
        alpha, beta: by term.
        inner: K, factored.
        vectors, inverse: V and its inverse.
        triangle: R; its diagonal alone where `is_diagonal`.
        values: (α + β T) V, if the values of the solution are (α + β T) K; None if they are not.
    """

    alpha: np.ndarray
    beta: np.ndarray
    inner: tuple[np.ndarray, np.ndarray]
    vectors: np.ndarray
    inverse: np.ndarray
    triangle: np.ndarray
    is_diagonal: bool
    values: np.ndarray | None


class DirectSolver:
    """The inverse of a sum of products of operators along single axes.

    Arguments:
        terms: the operator. Refused (`LinAlgError`) where the operators of an axis are not
            combinations of two, or where it is singular.
        values: by axis, what makes of coefficients what `solve` returns besides them.
    """

    def __init__(self, terms: Terms, values: Sequence[np.ndarray]):
        self.terms, self.values = terms, values
        self.axes = [_axis([t[i] for t in terms], m) for i, m in enumerate(values)]
        self.size = [len(m) for m in terms[0]]
        # the axes with triangles come last, the shortest first
        order = sorted(
            range(len(self.axes)), key=lambda i: (not self.axes[i].is_diagonal, self.size[i])
        )
        self.order = order
        self.diagonal = [i for i in order if self.axes[i].is_diagonal]
        self.triangular = [i for i in order if not self.axes[i].is_diagonal]
        self.factors = []
        for t in range(len(terms)):
            made = np.ones((1,) * len(self.diagonal))
            for place, i in enumerate(self.diagonal):
                axis = self.axes[i]
                own = axis.alpha[t] + axis.beta[t] * axis.triangle
                made = made * own.reshape([-1 if j == place else 1 for j in range(made.ndim)])
            self.factors.append(made)
        self.family = 0  # the dimensions of what it does not feel
        self.scale = 0.0  # of right sides
        self.solve(np.zeros(self.size))

    def solve(
        self, right: np.ndarray, bases: Sequence[np.ndarray] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """The solution for a right side, and its values.

        Arguments:
            right: an array with as many entries along each axis as there are functions; or, with
                `bases`, the core of one.
            bases: by axis, (functions, columns). Turned one by one, they are not rounded in
                products that they do not have, of which an operator may make much.
        """
        axes = self.axes
        inverses = [a.inverse for a in axes]
        if bases:
            inverses = [inverse @ basis for inverse, basis in zip(inverses, bases)]
        turned = multiply_core(right, dict(enumerate(inverses)))
        found = np.transpose(turned, self.order)
        found = self._substituted(self.factors, self.triangular, found)
        found = np.transpose(found, np.argsort(self.order))
        # the values by what an eigenvector becomes, which is small where the vector is fast: made
        # from coefficients, they would have the rounding of the fastest in the slow ones
        known = {i: a.values for i, a in enumerate(axes) if a.values is not None}
        values = multiply_core(found, known)
        found = multiply_core(found, {i: a.vectors for i, a in enumerate(axes)})
        for i, a in enumerate(axes):
            found = _inverted(a, found, i)
            if a.values is None:
                values = _inverted(a, multiply_core(values, {i: a.vectors}), i)
                values = multiply_core(values, {i: self.values[i]})
        return np.ascontiguousarray(np.real(found)), np.ascontiguousarray(np.real(values))

    def _substituted(
        self, factors: Sequence[np.ndarray], triangular: Sequence[int], right: np.ndarray
    ) -> np.ndarray:
        """The solution of Σ_t factors_t ⊗ (α + β R) … y = right, the triangular axes last."""
        if not triangular:
            total, size = sum(factors), sum(abs(f) for f in factors)
            unfelt = np.abs(total) <= SINGULAR * size
            if np.any(unfelt):
                found = np.abs(np.broadcast_to(right, unfelt.shape)[unfelt])
                self.scale = max(self.scale, float(np.max(np.abs(right))))
                if self.triangular or np.max(found) > FAINT * self.scale:
                    raise np.linalg.LinAlgError("singular")
                self.family = int(np.sum(unfelt))
                return np.where(unfelt, 0.0, right / np.where(unfelt, 1.0, total))
            return right / total
        axis = self.axes[triangular[0]]
        place = right.ndim - len(triangular)
        moved = np.moveaxis(right, place, 0)
        rows, made = axis.triangle, np.zeros(moved.shape, complex)
        for k in range(len(rows) - 1, -1, -1):
            # what the rows below have found already, and then how the other axes change it
            above = np.tensordot(rows[k, k + 1 :], made[k + 1 :], 1) if k + 1 < len(rows) else None
            own = moved[k]
            if above is not None and np.any(above):
                changed = self._applied(
                    [f * b for f, b in zip(factors, axis.beta)], triangular[1:], above
                )
                own = own - changed
            shares = [f * (a + b * rows[k, k]) for f, a, b in zip(factors, axis.alpha, axis.beta)]
            made[k] = self._substituted(shares, triangular[1:], own)
        return np.moveaxis(made, 0, place)

    def _applied(
        self, factors: Sequence[np.ndarray], triangular: Sequence[int], values: np.ndarray
    ) -> np.ndarray:
        total = np.zeros(values.shape, complex)
        behind = len(triangular)
        for t, factor in enumerate(factors):
            own = factor.reshape(factor.shape + (1,) * behind) * values
            for place, i in enumerate(triangular):
                axis = self.axes[i]
                matrix = axis.alpha[t] * np.eye(len(axis.triangle)) + axis.beta[t] * axis.triangle
                own = multiply_core(own, {own.ndim - behind + place: matrix})
            total = total + own
        return total


def _inverted(axis: _Axis, core: np.ndarray, place: int) -> np.ndarray:
    moved = np.moveaxis(core, place, 0)
    own = scipy.linalg.lu_solve(axis.inner, moved.reshape(len(moved), -1))
    return np.moveaxis(own.reshape(moved.shape), 0, place)


def _axis(matrices: Sequence[np.ndarray], values: np.ndarray) -> _Axis:
    first, second, shares = _span([*matrices, values])
    if shares is None:
        first, second, shares = _span(matrices)
    if shares is None:
        raise np.linalg.LinAlgError("operators of an axis that are no combinations of two")
    inner, other, change = _sound(first, second)
    shares = shares @ change
    has_values = len(shares) > len(matrices)
    alpha, beta = shares[: len(matrices)].T
    lu = scipy.linalg.lu_factor(inner)
    number = len(inner)

    def made(vectors: np.ndarray, inverse: np.ndarray, rows: np.ndarray, diagonal: bool) -> _Axis:
        own = None
        if has_values:
            a, b = shares[-1]
            own = vectors * (a + b * rows) if diagonal else a * vectors + b * (vectors @ rows)
        return _Axis(alpha, beta, lu, vectors, inverse, rows, diagonal, own)

    if other is None:
        one = np.eye(number)
        return made(one, one, np.zeros(number), True)
    matrix = scipy.linalg.lu_solve(lu, other.T, trans=1).T
    if np.linalg.norm(matrix - matrix.T) <= SYMMETRIC * np.linalg.norm(matrix):
        found, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2)
        return made(vectors, vectors.T, found, True)
    found, vectors = np.linalg.eig(matrix)
    if np.linalg.cond(vectors) <= SKEW:
        return made(vectors, np.linalg.inv(vectors), found, True)
    schur: Any = scipy.linalg.schur(matrix, output="complex")
    triangle, vectors = schur
    return made(vectors, vectors.conj().T, triangle, False)


def _span(
    matrices: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Two of the matrices that the others are combinations of, and these combinations; None for
    those where there are no such two."""
    flat = np.stack([m.ravel() for m in matrices])
    sizes = np.linalg.norm(flat, axis=1)
    units = flat / sizes[:, None]
    made: Any = scipy.linalg.qr(units.T, mode="economic", pivoting=True)
    _, upper, order = made
    rank = int(np.sum(np.abs(np.diag(upper)) > SAME * 10))
    if rank > 2:
        return matrices[0], None, None
    chosen = [matrices[i] for i in order[:rank]]
    shares = np.linalg.lstsq(np.stack([c.ravel() for c in chosen], 1), flat.T, rcond=None)[0].T
    if rank == 1:
        return chosen[0], None, np.pad(shares, ((0, 0), (0, 1)))
    return chosen[0], chosen[1], shares


def _sound(
    first: np.ndarray, second: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """A combination that can be inverted, another one, and the two given ones by these."""
    if second is None:
        return first, None, np.eye(2)
    sizes = np.linalg.norm(first, 2), np.linalg.norm(second, 2)
    ratio = sizes[0] / sizes[1]
    best = None
    # c₁ first + c₂ second; it is tried in an order from simple to less so
    for c in ((1.0, 0.0), (0.0, 1.0), (1.0, -ratio), (1.0, ratio), (1.0, -0.37 * ratio)):
        inner = c[0] * first + c[1] * second
        condition = np.linalg.cond(inner)
        if best is None or condition < 0.1 * best[0]:
            best = condition, c, inner
        if condition < 1e3:
            break
    assert best is not None
    condition, (a, b), inner = best
    if condition > SOUND:
        raise np.linalg.LinAlgError("operators of an axis that cannot be inverted")
    # inner = a first + b second, other = second (or first, where inner is second)
    if a == 0.0:
        return inner, first, np.array([[0.0, 1.0], [1.0 / b, 0.0]])
    return inner, second, np.array([[1.0 / a, -b / a], [0.0, 1.0]])
