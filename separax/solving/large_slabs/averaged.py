"""What GMRES is given for a large slab: inverses of operators that are near its own.

Radau's matrix is diagonalised, so that stages part: A⁻¹/h ⊗ M + I ⊗ J falls into the operators
μ/h M + J, of which those of conjugate μ are conjugate.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import scipy

from ...equations import gauge_freedom
from ..elements import TimeRule
from .slab import Array, LargeSlab, Space, along

SINGULAR = 1e-11  # of the product of the sizes of its rows: a determinant that is zero
MOST_DENSE = 4_000  # unknowns per stage for which there is a matrix


@dataclass(frozen=True)
class Stages:
    """Radau's matrix, diagonalised: one of each pair of conjugate eigenvalues.

    Attributes:
        values: the eigenvalues μ.
        there, back: from stages to eigenvectors' amplitudes, and from these to stages.
    """

    values: Array
    there: Array
    back: Array

    @classmethod
    def of(cls, rule: TimeRule) -> Stages:
        """Those of a rule."""
        values, vectors = np.linalg.eig(rule.inner)
        mine = np.imag(values) > -1e-9
        twice = np.where(np.imag(values[mine]) > 1e-9, 2.0, 1.0)
        return cls(values[mine], np.linalg.inv(vectors)[mine], vectors[:, mine] * twice)


def can_be_averaged(space: Space) -> bool:
    """Whether all fields have the same functions along each axis, so that modes do not mix."""
    return all(own == space.axes[0] for own in space.axes)


class Averaged:
    """The operator with coefficients averaged over space and time: modes of space part, and every
    one is a small matrix for the fields.

    Waves are what periodic axes have; eigenvectors of the second derivative with its conditions
    what others have. First derivatives along these are left out.
    """

    def __init__(self, slab: LargeSlab, slopes: Array):
        of, space = slab.of, slab.space
        self.length, self.space, self.stages = slab.length, space, Stages.of(slab.time)
        weighed = slopes * space.weights
        each = np.sum(weighed, axis=tuple(range(3, slopes.ndim))).mean(2)
        axes = space.axes[0]
        self.vectors = [None if a.grid.periodic else a.modes[1:] for a in axes]

        def symbol(i: int, order: int) -> Array:
            if space.grids[i].periodic:
                return space.grids[i].symbol(order)
            if order % 2:
                return np.zeros(space.shape[i])
            return axes[i].modes[0] ** (order // 2)

        shape, fields = space.shape, of.fields
        blocks = np.zeros((len(self.stages.values), *shape, fields, fields), complex)
        for number, key in enumerate(of.keys):
            time, orders = of.orders(key)
            modes = functools.reduce(
                np.multiply.outer, [symbol(i, o) for i, o in enumerate(orders)]
            )
            for j, mu in enumerate(self.stages.values):
                factor = each[:, number] * (mu / slab.length) ** time
                blocks[j, ..., key[0]] += modes[..., None] * factor
        self.inverse = np.ascontiguousarray(np.moveaxis(_inverses(blocks), (-2, -1), (1, 2)))

    def __call__(self, right: Array) -> Array:
        """The inverse applied to (residuals, instants, points)."""
        amounts = np.einsum("js,rs...->jr...", self.stages.there, right)
        waves = [i + 2 for i, v in enumerate(self.vectors) if v is None]
        if waves:
            amounts = np.asarray(scipy.fft.fftn(amounts, axes=waves, overwrite_x=True))
        for i, own in enumerate(self.vectors):
            if own is not None:
                amounts = along(own[1], amounts, i + 2)
        number = self.inverse.shape[1]
        found = np.zeros((len(amounts), number, *self.space.shape), complex)
        for c, r in itertools.product(range(number), range(amounts.shape[1])):
            found[:, c] += self.inverse[:, c, r] * amounts[:, r]
        for i, own in enumerate(self.vectors):
            if own is not None:
                found = along(own[0], found, i + 2)
        if waves:
            found = np.asarray(scipy.fft.ifftn(found, axes=waves, overwrite_x=True))
        real = np.einsum("sj,jc...->cs...", np.real(self.stages.back), np.real(found))
        return real - np.einsum("sj,jc...->cs...", np.imag(self.stages.back), np.imag(found))


def _inverses(blocks: Array) -> Array:
    """The inverses of many small matrices; pseudo-inverses of those that are singular."""
    fields = blocks.shape[-1]
    if fields == 1:
        small = np.abs(blocks) <= SINGULAR * np.abs(blocks).max()
        return np.where(small, 0.0, 1 / np.where(small, 1.0, blocks))
    rows = np.linalg.norm(blocks, axis=-1, keepdims=True)
    scaled = blocks / np.where(rows == 0, 1.0, rows)
    flat = scaled.reshape(-1, fields, fields)
    bad = np.abs(np.linalg.det(flat)) < SINGULAR
    found = np.empty_like(flat)
    found[~bad] = np.linalg.inv(flat[~bad])
    found[bad] = np.linalg.pinv(flat[bad], rcond=1e-9)
    return found.reshape(blocks.shape) / np.where(rows == 0, 1.0, rows).swapaxes(-1, -2)


class Dense:
    """The operator of one instant as a matrix, in LU factors of single precision."""

    def __init__(self, slab: LargeSlab, slopes: Array):
        of, space = slab.of, slab.space
        self.length, self.space, self.stages = slab.length, space, Stages.of(slab.time)
        points, fields = math.prod(space.shape), of.fields
        mean = slopes.mean(2).reshape(len(slopes), len(of.keys), points)
        scale = 1 / np.maximum(np.abs(mean).max((1, 2)), 1e-300)
        self.factors = []
        gauge = gauge_freedom(of.problem)
        for mu in self.stages.values:
            matrix = np.zeros((len(slopes), points, fields, points), np.complex64)
            for number, key in enumerate(of.keys):
                time, orders = of.orders(key)
                step = (mu / slab.length) ** time
                whole = functools.reduce(
                    np.kron, [a.derivative(o) for a, o in zip(space.axes[key[0]], orders)]
                )
                for r in range(len(slopes)):
                    own = mean[r, number] * scale[r] * step
                    if np.any(own):
                        matrix[r, :, key[0]] += own[:, None] * whole
            flat = matrix.reshape(len(slopes) * points, -1)
            for c, name in enumerate(of.problem.fields):
                if name in gauge:
                    # what nothing feels, here a constant, is fixed by a rank of one more
                    row = int(np.argmin([np.abs(matrix[r, :, c]).max() for r in range(fields)]))
                    size = np.abs(flat).max() / points
                    flat[row * points : (row + 1) * points, c * points : (c + 1) * points] += size
            self.factors.append(scipy.linalg.lu_factor(flat, overwrite_a=True, check_finite=False))
        self.scale = scale

    def __call__(self, right: Array) -> Array:
        """The inverse applied to (residuals, instants, points)."""
        shape = (len(right), self.stages.there.shape[1], -1)
        scaled = right.reshape(shape) * self.scale[:, None, None]
        amounts = np.einsum("js,rsp->jrp", self.stages.there, scaled)
        found = np.stack(
            [
                scipy.linalg.lu_solve(f, a.ravel().astype(np.complex64), check_finite=False)
                for f, a in zip(self.factors, amounts)
            ]
        ).reshape(amounts.shape)
        back = np.einsum("sj,jcp->csp", self.stages.back, found).real
        return back.reshape(-1, shape[1], *self.space.shape)


class Alternating:
    """One axis after the other, with coefficients as they are at every point: of an operator
    d + Σ_i A_i, with what is diagonal in d, the product of the d + A_i, between them d⁻¹.

    Fields are taken apart; derivatives along two axes at once are left out.
    """

    def __init__(self, slab: LargeSlab, slopes: Array):
        of, space = slab.of, slab.space
        self.length, self.space, self.stages = slab.length, space, Stages.of(slab.time)
        mean = slopes.mean(2)
        self.rows = equations_of_fields(slab, slopes)
        self.diagonal: list[list[Array]] = []
        self.inverses: list[list[list[Array]]] = []
        for mu in self.stages.values:
            diagonals, each = [], []
            for c, r in enumerate(self.rows):
                diagonal = np.zeros(space.shape, np.complex64)
                for number, key in enumerate(of.keys):
                    time, orders = of.orders(key)
                    if key[0] == c and not any(orders):
                        diagonal += mean[r, number] * (mu / slab.length) ** time
                diagonals.append(diagonal)
                each.append([self._along(slab, mean[r], c, i, diagonal, mu) for i in self.places])
            self.diagonal.append(diagonals)
            self.inverses.append(each)

    @property
    def places(self) -> range:
        """The axes of space by number."""
        return range(len(self.space.shape))

    def _along(
        self, slab: LargeSlab, slopes: Array, c: int, i: int, diagonal: Array, mu: complex
    ) -> Array:
        """The inverse of d + A_i for every line along an axis: (lines, points, points)."""
        number = self.space.shape[i]
        matrices = np.zeros((diagonal.size // number, number, number), np.complex64)
        for k, key in enumerate(slab.of.keys):
            time, orders = slab.of.orders(key)
            if key[0] == c and orders[i] and sum(orders) == orders[i]:
                own = np.moveaxis(slopes[k], i, -1).reshape(-1, number, 1)
                step = (mu / slab.length) ** time
                matrices += own * step * self.space.axes[c][i].derivative(orders[i])
        at = np.arange(number)
        matrices[:, at, at] += np.moveaxis(diagonal, i, -1).reshape(-1, number)
        return np.linalg.inv(matrices)

    def __call__(self, right: Array) -> Array:
        """The inverse applied to (residuals, instants, points)."""
        amounts = np.einsum("js,rs...->jr...", self.stages.there, right[self.rows])
        amounts = amounts.astype(np.complex64)
        for j, c in itertools.product(*(range(n) for n in amounts.shape[:2])):
            own = amounts[j, c]
            for i in self.places:
                own = own * self.diagonal[j][c] if i else own
                lines = np.moveaxis(own, i, -1)
                found = self.inverses[j][c][i] @ lines.reshape(-1, lines.shape[-1], 1)
                own = np.moveaxis(found.reshape(lines.shape), -1, i)
            amounts[j, c] = own
        return np.real(np.einsum("sj,jc...->cs...", self.stages.back, amounts))


def equations_of_fields(slab: LargeSlab, slopes: Array) -> list[int]:
    """By field, the residual that its highest derivative in time is in; an empty list where some
    field has none of its own."""
    found = []
    for c, highest in enumerate(slab.of.times):
        sizes = np.zeros(len(slopes))
        for number, key in enumerate(slab.of.keys):
            time, orders = slab.of.orders(key)
            if key[0] == c and time == highest > 0 and not any(orders):
                sizes += np.abs(slopes[:, number]).max(axis=tuple(range(1, slopes.ndim - 1)))
        found.append(int(np.argmax(sizes)) if sizes.any() else -1)
    return found if sorted(found) == list(range(len(slopes))) else []
