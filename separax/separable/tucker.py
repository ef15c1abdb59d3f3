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


# --- three axes and more: a core, then damped Gauss-Newton ------------------------------------------------------------


def tucker_by_svd(values: np.ndarray) -> tuple[np.ndarray, Factors]:
    """values = core ×₁ Q₁ ×₂ Q₂ …, the columns of each Q orthonormal and by decreasing size; exact to 1e-14."""
    core, bases = values, []
    for axis in range(values.ndim):
        unfolded = np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1)
        # the triangular factor has the singular values and left vectors of the (very wide) unfolding
        small = (
            np.asarray(np.linalg.qr(unfolded.T, mode="r")).T
            if unfolded.shape[1] > unfolded.shape[0]
            else unfolded
        )
        basis, sizes, _ = np.linalg.svd(small, full_matrices=False)
        kept = max(1, int(np.sum(sizes > 0.1 * EXACT * sizes[0])))
        bases.append(basis[:, :kept])
        core = np.moveaxis(np.tensordot(basis[:, :kept], core, (0, axis)), 0, axis)
    return core, bases


def leading_block(core: np.ndarray, tolerance: float) -> tuple[int, ...]:
    """The smallest leading block of a core that leaves out at most `tolerance` (in norm)."""
    shape = []
    for axis in range(core.ndim):
        sizes = np.linalg.norm(np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1), axis=1)
        tails = np.sqrt(
            np.cumsum(sizes[::-1] ** 2)[::-1]
        )  # tails[k]: what is left out by keeping k
        shape.append(max(1, int(np.sum(tails > tolerance / math.sqrt(core.ndim)))))
    return tuple(shape)


def exact_products(core: np.ndarray) -> Factors:
    """A sum of products that is the core exactly: one per line of the core along its longest axis."""
    longest = int(np.argmax(core.shape))
    lines = np.moveaxis(core, longest, -1).reshape(-1, core.shape[longest])
    short = [n for axis, n in enumerate(core.shape) if axis != longest]
    units = [np.eye(n)[:, index.ravel()] for n, index in zip(short, np.indices(short))]
    return [*units[:longest], lines.T, *units[longest:]]


def khatri_rao_numpy(factors: Sequence[np.ndarray], rank: int) -> np.ndarray:
    product = np.ones((1, rank))
    for factor in factors:
        product = (product[:, None, :] * factor[None, :, :]).reshape(
            len(product) * len(factor), rank
        )
    return product


def dense_values(factors: Factors) -> np.ndarray:
    rank, half = factors[0].shape[1], (len(factors) + 1) // 2
    left, right = khatri_rao_numpy(factors[:half], rank), khatri_rao_numpy(factors[half:], rank)
    return (left @ right.T).reshape([f.shape[0] for f in factors])


ROUNDING = 1e-13  # relative: smaller columns are rounding
MOST_CORE = 2**24  # numbers in a core while it is made
TINY = 1e-300


@dataclass(frozen=True)
class Tucker:
    """`factors` are, per axis, columns and their derivatives (orders, rows, columns): values on points, or coefficients of series."""

    factors: Sequence[np.ndarray]
    core: np.ndarray


def join(parts: Sequence[Tucker], along: int) -> list[Tucker]:
    """The same functions with one core for all and the same columns on every axis but `along`, orthonormal in their rows and by
    decreasing size; those of `along` are orthonormal over the rows of all parts together."""
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
    """What `joined` made, without the last columns: along each axis they add less than `tolerance` of the whole."""
    core = parts[0].core
    allowed = tolerance * float(np.linalg.norm(core))
    ranks = []
    for axis in range(core.ndim):
        left = np.sqrt(
            np.cumsum(np.sum(unfold(core, axis) ** 2, 1)[::-1])[::-1]
        )  # [n]: the size of all but n columns
        ranks.append(max(1, int(np.sum(left > allowed))))
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
    """A core multiplied along some of its axes."""
    for axis, matrix in matrices.items():
        core = np.moveaxis(np.tensordot(matrix, core, (1, axis)), 0, axis)
    return core


def unfold(core: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1)


def _left(core: np.ndarray, axis: int) -> np.ndarray:
    """What stands left of orthonormal rows in the (very wide) unfolding along an axis."""
    return _triangle(unfold(core, axis).T).T


def _triangle(matrix: np.ndarray) -> np.ndarray:
    """The matrix in terms of an orthonormal basis of its columns."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _number(sizes: np.ndarray) -> int:
    return max(1, int(np.sum(sizes > ROUNDING * sizes[0])))


def _orthonormal(jets: np.ndarray, most: int) -> np.ndarray:
    """Orthonormal combinations of the columns (orders, rows, columns), the largest first; derivatives follow."""
    left, sizes, right = np.linalg.svd(jets[0], full_matrices=False)
    kept = min(_number(sizes), most)
    made = jets @ (right[:kept].T / np.maximum(sizes[:kept], TINY))
    made[0] = left[
        :, :kept
    ]  # the same, but for rounding: combinations as small as that are not orthogonal
    return made
