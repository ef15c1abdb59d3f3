"""Tucker format: a core and orthonormal columns per axis, found by singular value decompositions.

u = Σ_abc G_abc f_a(t) g_b(x) h_c(y)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Factors = list[np.ndarray]  # per axis (points, rank)

EXACT = 1e-14  # relative: below this only rounding is left


def tucker_by_svd(values: np.ndarray) -> tuple[np.ndarray, Factors]:
    """values = core ×₁ Q₁ ×₂ Q₂ …, exact to 1e-14.

    Arguments:
        values: an array of any number of axes.

    Returns:
        The core; and per axis Q, orthonormal columns by decreasing size.
    """
    core, bases = values, []
    for axis in range(values.ndim):
        basis, sizes, _ = np.linalg.svd(_left(core, axis), full_matrices=False)
        kept = max(1, int(np.sum(sizes > 0.1 * EXACT * sizes[0])))
        bases.append(basis[:, :kept])
        core = multiply_core(core, {axis: basis[:, :kept].T})
    return core, bases


def leading_block(core: np.ndarray, tolerance: float) -> tuple[int, ...]:
    """The smallest leading block of a core that leaves out little.

    Arguments:
        core: whose lines are by decreasing size.
        tolerance: the norm that may be left out.

    Returns:
        Its shape.
    """
    return _ranks(core, tolerance / math.sqrt(core.ndim))


def _ranks(core: np.ndarray, allowed: float) -> tuple[int, ...]:
    """Per axis, how many of the first columns count: the others are at most `allowed` together."""
    found = []
    for axis in range(core.ndim):
        squares = np.sum(unfold(core, axis) ** 2, 1)
        left = np.sqrt(np.cumsum(squares[::-1])[::-1])  # [n]: the size of all but n columns
        found.append(max(1, int(np.sum(left > allowed))))
    return tuple(found)


def exact_products(core: np.ndarray) -> Factors:
    """A sum of products that is the core exactly: one per line of the core along its longest
    axis."""
    longest = int(np.argmax(core.shape))
    lines = np.moveaxis(core, longest, -1).reshape(-1, core.shape[longest])
    short = [n for axis, n in enumerate(core.shape) if axis != longest]
    units = [np.eye(n)[:, index.ravel()] for n, index in zip(short, np.indices(short))]
    return [*units[:longest], lines.T, *units[longest:]]


def khatri_rao_numpy(factors: Sequence[np.ndarray], rank: int) -> np.ndarray:
    """All products of rows: (Π_i points_i, rank) from factors (points_i, rank)."""
    product = np.ones((1, rank))
    for factor in factors:
        product = (product[:, None, :] * factor[None, :, :]).reshape(
            len(product) * len(factor), rank
        )
    return product


def dense_values(factors: Factors) -> np.ndarray:
    """The values of a sum of products, from its factors."""
    rank, half = factors[0].shape[1], (len(factors) + 1) // 2
    left, right = khatri_rao_numpy(factors[:half], rank), khatri_rao_numpy(factors[half:], rank)
    return (left @ right.T).reshape([f.shape[0] for f in factors])


ROUNDING = 1e-13  # relative: smaller columns are rounding
MOST_CORE = 2**24  # numbers in a core while it is made
TINY = 1e-300


@dataclass(frozen=True)
class Tucker:
    """A function in Tucker format, u = Σ_abc G_abc f_a(t) g_b(x) h_c(y).

    Attributes:
        factors: per axis the columns and their derivatives (orders, rows, columns): values on
            points, or coefficients of series.
        core: G.
    """

    factors: Sequence[np.ndarray]
    core: np.ndarray


def join(parts: Sequence[Tucker], along: int) -> list[Tucker]:
    """The same functions with one core for all, and one set of columns on every axis but one.

    Arguments:
        parts: the functions.
        along: the axis on which each keeps its own columns.

    Returns:
        The functions; their columns are orthonormal in their rows and by decreasing size, those of
        `along` over the rows of all functions together.
    """
    axes = range(parts[0].core.ndim)
    triangles = [[_triangle(f[0]) for f in part.factors] for part in parts]
    rows = sum(len(own[along]) for own in triangles)
    most = int((MOST_CORE / rows) ** (1 / max(1, len(axes) - 1)))
    shared: dict[int, np.ndarray] = {}
    for axis in axes:
        if axis != along:
            weighed = [
                part.factors[axis]
                @ _left(
                    multiply_core(part.core, {i: r for i, r in enumerate(own) if i != axis}), axis
                )
                for part, own in zip(parts, triangles)
            ]
            shared[axis] = _orthonormal(np.concatenate(weighed, -1), most)
    cores = [
        multiply_core(
            p.core, {axis: basis[0].T @ p.factors[axis][0] for axis, basis in shared.items()}
        )
        for p in parts
    ]
    flat = [unfold(core, along) for core in cores]
    _, sizes, right = np.linalg.svd(
        np.concatenate([own[along] @ f for own, f in zip(triangles, flat)]), full_matrices=False
    )
    kept = _number(sizes)
    turn = right[:kept].T / np.maximum(sizes[:kept], TINY)
    rest = [shared[axis].shape[-1] for axis in shared]
    core = np.moveaxis((sizes[:kept, None] * right[:kept]).reshape(kept, *rest), 0, along)
    return [
        Tucker(
            [part.factors[axis] @ (f @ turn) if axis == along else shared[axis] for axis in axes],
            core,
        )
        for part, f in zip(parts, flat)
    ]


def shorten(parts: Sequence[Tucker], tolerance: float) -> list[Tucker]:
    """What `join` made, without the last columns.

    Arguments:
        parts: the functions.
        tolerance: what may be left out along each axis, as a part of the whole.
    """
    core = parts[0].core
    ranks = _ranks(core, tolerance * float(np.linalg.norm(core)))
    core = core[tuple(map(slice, ranks))]
    return [Tucker([f[..., :rank] for f, rank in zip(part.factors, ranks)], core) for part in parts]


def sum_of_tuckers(parts: Sequence[Tucker]) -> Tucker:
    """A sum of functions without derivatives, sampled in the same rows, as one."""
    if len(parts) == 1:
        return parts[0]
    bases, triangles = [], []
    for each in zip(*(part.factors for part in parts)):
        basis, triangle = np.linalg.qr(np.concatenate([f[0] for f in each], 1))
        bases.append(basis[None])
        triangles.append(np.split(triangle, np.cumsum([f.shape[-1] for f in each])[:-1], axis=1))
    cores = [
        multiply_core(part.core, dict(enumerate(own))) for part, own in zip(parts, zip(*triangles))
    ]
    return Tucker(bases, np.sum(cores, axis=0))


def multiply_core(core: np.ndarray, matrices: Mapping[int, np.ndarray]) -> np.ndarray:
    """A core multiplied along some of its axes.

    Arguments:
        core: the array.
        matrices: by axis, (new, old).
    """
    for axis, matrix in matrices.items():
        core = np.moveaxis(np.tensordot(matrix, core, (1, axis)), 0, axis)
    return core


def unfold(core: np.ndarray, axis: int) -> np.ndarray:
    """A core as a matrix, with one row per index of an axis."""
    return np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1)


def _left(core: np.ndarray, axis: int) -> np.ndarray:
    """The unfolding along an axis, or, where that is wide, what stands left of orthonormal rows in
    it: both have the same singular values and left vectors."""
    wide = unfold(core, axis)
    return _triangle(wide.T).T if wide.shape[1] > wide.shape[0] else wide


def _triangle(matrix: np.ndarray) -> np.ndarray:
    """The matrix in terms of an orthonormal basis of its columns."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _number(sizes: np.ndarray) -> int:
    return max(1, int(np.sum(sizes > ROUNDING * sizes[0])))


def _orthonormal(jets: np.ndarray, most: int) -> np.ndarray:
    """Orthonormal combinations of the columns (orders, rows, columns), the largest first;
    derivatives follow."""
    left, sizes, right = np.linalg.svd(jets[0], full_matrices=False)
    kept = min(_number(sizes), most)
    made = jets @ (right[:kept].T / np.maximum(sizes[:kept], TINY))
    made[0] = left[
        :, :kept
    ]  # the same, but for rounding: combinations as small as that are not orthogonal
    return made
