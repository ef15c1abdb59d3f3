"""The best sum of r products of vectors to an array, for several r: what `rank` does once a
function is sampled."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from .tucker import (
    EXACT,
    Factors,
    dense_values,
    exact_products,
    khatri_rao_numpy,
    leading_block,
    tucker_by_svd,
    unfold,
)

CHEAP, DIRECT = (
    2e7,
    4e7,
)  # operations of a step up to which more is tried, and up to which it is solved for directly


# --- two axes: the singular value decomposition -------------------------------------------------


def by_svd(matrix: np.ndarray, ranks: Sequence[int]) -> list[tuple[Factors, float]]:
    """The best sums of products to a matrix, by its singular value decomposition.

    Arguments:
        matrix: of two axes.
        ranks: the numbers of products.

    Returns:
        For each rank the factors, and the norm of what they leave.
    """
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    found = []
    for rank in ranks:
        short = max(
            0, rank - len(values)
        )  # more products than the lattice has points: the rest are zero
        pair = [
            np.pad(f[:, :rank] * np.sqrt(values[:rank]), ((0, 0), (0, short)))
            for f in (left, right.T)
        ]
        found.append((pair, float(np.linalg.norm(values[rank:]))))
    return found


def by_descent(
    values: np.ndarray, ranks: Sequence[int], starts: int, seed: int
) -> list[tuple[Factors, float]]:
    """Good sums of products to an array, by damped Gauss-Newton steps on its Tucker core.

    Arguments:
        values: an array of three axes or more.
        ranks: the numbers of products, increasing.
        starts: from which each is tried.
        seed: of the random ones among them.

    Returns:
        For each rank the factors, and the norm of what they leave.
    """
    core, bases = tucker_by_svd(values)
    rng = np.random.default_rng(seed)
    factors: Factors = [np.zeros((n, 0)) for n in core.shape]
    error, found = float(np.linalg.norm(core)), []
    for rank in ranks:
        if rank >= math.prod(core.shape) // max(core.shape):
            factors, error = exact_products(core), 0.0
        elif error > EXACT:
            factors, error = _raise_rank(core, factors, error, rank, starts, rng)
        padded = [np.pad(q @ f, ((0, 0), (0, rank - f.shape[1]))) for q, f in zip(bases, factors)]
        # against the samples themselves, so that what the core left out counts too
        left_over = float(np.linalg.norm(values - dense_values(padded)))
        if found and left_over > found[-1][1]:  # by rounding only
            padded, left_over = (
                [np.pad(f, ((0, 0), (0, rank - f.shape[1]))) for f in found[-1][0]],
                found[-1][1],
            )
        found.append((padded, left_over))
    return found


def _raise_rank(
    core: np.ndarray,
    factors: Factors,
    error: float,
    rank: int,
    starts: int,
    rng: np.random.Generator,
) -> tuple[Factors, float]:
    """From a fit to one of a larger rank: the best of several ways to fill up the new products,
    then polished.

    Only the leading block of the core that matters at the error at hand is worked on: what lies
    outside it is orthogonal to everything the fit can do inside. The block grows as the error
    falls.
    """
    shape = leading_block(core, 0.02 * error)
    block = core[tuple(map(slice, shape))]
    tries = []
    more = 2 if _work(shape, rank) < CHEAP else 1
    for number in range(more * starts):
        # every other start forgets the smaller fit: where that one cancels, it is no place to begin
        # from
        inside = [f[:n, : 0 if number % 2 else None] for f, n in zip(factors, shape)]
        rest = block - dense_values(inside)
        new = _descend(rest, _random(rest, rank - inside[0].shape[1], rng, number < 2), 15)[0]
        tries.append(
            _descend(block, [np.concatenate(pair, 1) for pair in zip(inside, new)], 25 * more)
        )
    best = min(tries, key=operator.itemgetter(1))[0]
    while True:
        best, inner = _descend(block, best, 400 * more, _work(shape, rank) < DIRECT)
        outside = core.copy()
        outside[tuple(map(slice, shape))] = 0.0
        discarded = float(np.linalg.norm(outside))
        whole_error = math.hypot(inner, discarded)
        wider = leading_block(core, 0.1 * max(inner, EXACT))
        if discarded <= 0.1 * inner or wider == shape or whole_error < EXACT:
            break
        shape = tuple(max(pair) for pair in zip(shape, wider))
        block = core[tuple(map(slice, shape))]
        best = [np.pad(f, ((0, n - f.shape[0]), (0, 0))) for f, n in zip(best, shape)]
    if (
        whole_error >= error
    ):  # the new products did not help: the smaller fit is also one of this rank
        return factors, error
    return [np.pad(f, ((0, n - f.shape[0]), (0, 0))) for f, n in zip(best, core.shape)], whole_error


def _work(shape: Sequence[int], rank: int) -> float:
    """Operations of a step that is solved for directly."""
    return math.prod(shape) * (rank * sum(shape)) ** 2


def _random(rest: np.ndarray, rank: int, rng: np.random.Generator, aimed: bool) -> Factors:
    """Products to begin with, of the size of `rest`: random mixtures of the directions along which
    it is large, or (not `aimed`) of all directions alike."""
    factors = []
    for axis, n in enumerate(rest.shape):
        unfolded = unfold(rest, axis)
        basis, sizes, _ = np.linalg.svd(unfolded @ unfolded.T)
        factors.append(
            (basis * np.sqrt(np.sqrt(sizes) if aimed else 1.0)) @ rng.standard_normal((n, rank))
        )
    scale = np.linalg.norm(rest) / max(np.linalg.norm(dense_values(factors)), 1e-300)
    return [f * scale ** (1 / rest.ndim) for f in factors]


def _gradient(rest: np.ndarray, factors: Factors) -> Factors:
    """Per axis, the derivative of ½‖Σ_j Π_i f_ij - u‖² by the factors, `rest` being the
    difference."""
    rank, out = factors[0].shape[1], []
    for axis, n in enumerate(rest.shape):
        left, right = (
            khatri_rao_numpy(factors[:axis], rank),
            khatri_rao_numpy(factors[axis + 1 :], rank),
        )
        folded = (rest.reshape(-1, right.shape[0]) @ right).reshape(left.shape[0], n, rank)
        out.append(np.einsum("lnr,lr->nr", folded, left))
    return out


def _product(arrays: Iterable[np.ndarray], rank: int) -> np.ndarray:
    return functools.reduce(operator.mul, arrays, np.ones((rank, rank)))


def _descend(
    target: np.ndarray, factors: Factors, steps: int, direct: bool = False
) -> tuple[Factors, float]:
    """Damped Gauss-Newton (Levenberg-Marquardt) on ‖target - Σ_j Π_i f_ij‖; returns the factors and
    that norm.

    Alternating least squares solves for one axis at a time and crawls where products nearly cancel;
    here all axes move together. The damping bounds a step where the Jacobian is singular (a
    product's factors can always be scaled against each other).
    """
    rank = factors[0].shape[1]
    if rank == 0:
        return factors, float(np.linalg.norm(target))
    factors = _balance(factors)
    rest = dense_values(factors) - target
    error, damping = float(np.linalg.norm(rest)), 1e-3
    patience = (
        40 if direct else 12
    )  # steps; long flat stretches are common, and where steps are cheap they are waited for
    history = [error]
    for _ in range(steps):
        if error < 0.1 * EXACT:
            break
        gradient = _gradient(rest, factors)
        solve = (_dense if direct else _iterated)(rest, factors, gradient)
        while True:
            step = solve(damping)
            moved = [f + s for f, s in zip(factors, step)]
            difference = dense_values(moved) - target
            size = float(np.linalg.norm(difference))
            if size < error:
                break
            damping *= 8
            if damping > 1e8:
                return factors, error
        expected = -sum(
            float(np.sum(g * s)) for g, s in zip(gradient, step)
        )  # of ½‖rest‖², twice the decrease at best
        gain = (error**2 - size**2) / max(expected, 1e-300)
        damping = max(
            damping * (1 / 5 if gain > 0.75 else 1.0 if gain > 0.25 else 3.0),
            1e-22 if direct else 1e-13,
        )
        factors, rest, error = _balance(moved), difference, size
        history.append(error)
        if len(history) > patience and error > 0.998 * history[-patience]:
            break
    return factors, error


def _dense(rest: np.ndarray, factors: Factors, gradient: Factors) -> Callable[[float], Factors]:
    """Steps from the Jacobian J itself: min ‖J step + rest‖² + damping ‖step‖². By orthogonal
    transformations, because JᵀJ would square a condition that is bad already."""
    rank, blocks = factors[0].shape[1], []
    for axis, f in enumerate(factors):
        left, right = (
            khatri_rao_numpy(factors[:axis], rank),
            khatri_rao_numpy(factors[axis + 1 :], rank),
        )
        block = np.einsum("lr,br,ac->labcr", left, right, np.eye(len(f)))
        blocks.append(block.reshape(rest.size, f.size))
    jacobian = np.concatenate(blocks, 1)
    orthogonal, triangle = np.linalg.qr(jacobian)
    aim = -orthogonal.T @ rest.ravel()
    left, sizes, right = np.linalg.svd(triangle, full_matrices=False)
    aim, scale = left.T @ aim, float(sizes[0] ** 2)
    ends = np.cumsum([f.size for f in factors])[:-1]

    def solve(damping: float) -> Factors:
        step = right.T @ (aim * sizes / (sizes**2 + damping * scale))
        return [part.reshape(f.shape) for part, f in zip(np.split(step, ends), factors)]

    return solve


def _iterated(rest: np.ndarray, factors: Factors, gradient: Factors) -> Callable[[float], Factors]:
    """Steps from the normal equations (JᵀJ + damping) step = -gradient, which are never formed: JᵀJ
    acts through the Gram matrices of the factors, and a few conjugate gradient steps,
    preconditioned by its diagonal blocks, solve with it."""
    axes, rank = range(len(factors)), factors[0].shape[1]
    grams = [f.T @ f for f in factors]
    others = [_product((g for k, g in enumerate(grams) if k != i), rank) for i in axes]
    pairs = {
        (i, j): _product((g for k, g in enumerate(grams) if k not in (i, j)), rank)
        for i in axes
        for j in range(i)
    }
    scale = max(float(np.max(np.diag(o))) for o in others)
    return lambda damping: _conjugate_gradients(factors, others, pairs, gradient, damping * scale)


def _conjugate_gradients(
    factors: Factors,
    others: Factors,
    pairs: Mapping[tuple[int, int], np.ndarray],
    gradient: Factors,
    damping: float,
    accuracy: float = 1e-2,
) -> Factors:
    rank = factors[0].shape[1]
    inverses = [np.linalg.inv(o + damping * np.eye(rank)) for o in others]
    axes = range(len(factors))

    def act(step: Factors) -> Factors:
        mixed = [s.T @ f for s, f in zip(step, factors)]
        out = []
        for i in axes:
            along = functools.reduce(
                operator.add, (pairs[max(i, j), min(i, j)] * mixed[j] for j in axes if j != i)
            )
            out.append(step[i] @ others[i] + factors[i] @ along + damping * step[i])
        return out

    def dot(a: Factors, b: Factors) -> float:
        return sum(float(np.vdot(x, y)) for x, y in zip(a, b))

    step = [np.zeros_like(f) for f in factors]
    left = [-g for g in gradient]
    aim = [r @ inverse for r, inverse in zip(left, inverses)]
    size = first = dot(left, aim)
    for _ in range(40):
        if not size > accuracy**2 * first:
            break
        turned = act(aim)
        curvature = dot(aim, turned)
        if not curvature > 0:  # rounding: the steps so far are still good ones
            break
        length = size / curvature
        step = [s + length * a for s, a in zip(step, aim)]
        left = [r - length * t for r, t in zip(left, turned)]
        preconditioned = [r @ inverse for r, inverse in zip(left, inverses)]
        size, before = dot(left, preconditioned), size
        aim = [p + (size / before) * a for p, a in zip(preconditioned, aim)]
    return step


def _balance(factors: Factors) -> Factors:
    """The same products, each of its factors of the same norm."""
    norms = np.maximum([np.linalg.norm(f, axis=0) for f in factors], 1e-150)
    means = np.exp(np.mean(np.log(norms), axis=0))
    return [f * (means / n) for f, n in zip(factors, norms)]
