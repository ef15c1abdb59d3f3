"""What rank does a function need? The best sum of r products of one-dimensional functions, for
every r.

    min ‖u - Σ_{j ≤ r} Π_i f_ij(x_i)‖ / ‖u‖   in L2 of the box,

a lower bound on the error of any separable network of rank r, whatever its width, its depth and its
training.

The function is sampled on a Gauss-Legendre lattice and multiplied by the square roots of the
weights, so that the Euclidean norm of the array is the L2 norm of the function. In two axes the
answer is the singular value decomposition (Eckart and Young). In three and more the array is first
turned into a small core by orthogonal changes of basis along each axis (a Tucker decomposition),
which costs nothing in accuracy, and the core is fitted by damped Gauss-Newton steps. They start
from the fit of the smaller rank plus a fit of what it left over, and from random products; the best
is kept, so the error never grows with the rank.

In three and more axes what is found is an upper bound on the least error: the fit has local minima,
and a best approximation need not exist at all. ‖x‖² + 10t is a sum of one product per axis and no
fewer, and yet the limit of sums of *two*, ((1 + εa₁)(1 + εa₂)… - 1) / ε, whose terms grow without
bound as ε → 0. Such a fit reports an error far below what its rank would allow, and a large
`cancellation`: single products that much larger than the function they add up to, of which a
network in float32 keeps only 7 - log₁₀(cancellation) digits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..core import (
    InputError,
    as_array,
    call,
    check_fits,
    finite,
    fits,
    in_float64,
    parameters,
    shown,
    whole,
)
from ..domain import Box, Lattice, quadrature
from .fitting import by_descent, by_svd
from .separable import Separable
from .tucker import Factors

Points = int | Mapping[str, int] | Sequence[int]

RANKS = (1, 2, 4, 8, 16, 32, 64)
LATTICE = 2**21  # points of the lattice that is taken where none is asked for
MOST = 256  # of them along an axis
FINEST = 2048  # points along an axis, if they are asked for: a rule of more takes minutes to make
COPIES = 4  # of the lattice that are held at once


class Row(NamedTuple):
    """One line of a study: the relative L2 error of the best fit found with this rank, and what
    else `Fit` says."""

    rank: int
    relative_l2: float
    cancellation: float
    resolution: float


@dataclasses.dataclass(frozen=True)
class Fit:
    """A sum of products close to a function: its factors on the quadrature lattice, and how close
    it is.

    `cancellation` is √Σ‖product‖² / ‖function‖: about one for a sound fit, large where products
    nearly cancel. `resolution` is the relative size of what the lattice can hardly see of the
    function (its highest Legendre coefficients): an error far below it belongs to the lattice more
    than to the function, so ask for more points.
    """

    function: Separable
    relative_l2: float
    cancellation: float
    resolution: float

    @property
    def rank(self) -> int:
        return self.function.rank

    @property
    def row(self) -> Row:
        return Row(self.rank, self.relative_l2, self.cancellation, self.resolution)


def fit(
    function: Callable[..., Any],
    box: Box,
    rank: int,
    points: Points | None = None,
    starts: int = 3,
    seed: int = 0,
) -> Fit:
    """The best sum of products found for a function, min ‖u - Σ_{j ≤ r} Π_i f_ij(x_i)‖.

    Arguments:
        function: u, of the coordinates it names.
        box: where.
        rank: r. The ranks 1, 2, 4 … below it are fitted on the way.
        points: per axis of the Gauss-Legendre lattice; None: 256 in two axes, 128 in three, fewer
            in more.
        starts: from which each rank is tried, in three axes and more.
        seed: of the random ones among them.

    Returns:
        The factors, and how close they are.
    """
    rank = whole("rank", rank)
    below = [2**k for k in range(rank.bit_length()) if 2**k < rank]
    return fits_of(function, box, (*below, rank), points, starts, seed)[-1]


def study(
    function: Callable[..., Any],
    box: Box,
    ranks: Iterable[int] = RANKS,
    points: Points | None = None,
    starts: int = 3,
    seed: int = 0,
) -> list[Row]:
    """The error of the best sum of products found, against its rank.

    Arguments:
        function: of the coordinates it names.
        box: where.
        ranks: which ranks.
        points: as for `fit`.
        starts: as for `fit`.
        seed: as for `fit`.

    Returns:
        A row for every rank, in increasing order.
    """
    return [found.row for found in fits_of(function, box, ranks, points, starts, seed)]


def needed(rows: Iterable[Row], tolerance: float) -> int | None:
    """The smallest rank in a study whose error is at most a tolerance.

    Arguments:
        rows: the study.
        tolerance: the relative error. One that the lattice cannot see does not count as small.

    Returns:
        The rank; None where no row is good enough.
    """
    tolerance = finite("tolerance", tolerance, positive=True)
    return min(
        (row.rank for row in rows if max(row.relative_l2, row.resolution) <= tolerance),
        default=None,
    )


def fits_of(
    function: Callable[..., Any],
    box: Box,
    ranks: Iterable[int],
    points: Points | None = None,
    starts: int = 3,
    seed: int = 0,
) -> list[Fit]:
    """One fit per rank, in increasing order, each at least as close as the one before."""
    if (
        isinstance(ranks, (str, bytes))
        or not isinstance(ranks, Iterable)
        or not (listed := list(ranks))
    ):
        raise InputError(
            f"ranks must be one whole number or more, got {shown(ranks)}: write ranks={RANKS}"
        )
    ordered = sorted({whole("ranks", rank) for rank in listed})
    starts = whole("starts", starts)
    with in_float64():
        counts = box.counts(default_points(box) if points is None else points)
        shape = " × ".join(map(str, counts.values()))
        check_fits(
            f"a lattice of {shape} points",
            8 * COPIES * math.prod(counts.values()),
            f"write points={default_points(box)}",
        )
        if (most := max(counts.values())) > FINEST:
            raise InputError(
                f"points: {most} along an axis, of {FINEST} at most: write"
                f" points={default_points(box)}"
            )
        lattice = quadrature(box, counts, jnp.float64)
        values = sample(function, box, lattice)
        roots = [np.sqrt(np.asarray(w)) for w in lattice.weights]
        for axis, root in enumerate(roots):
            values *= root.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
        norm = float(np.linalg.norm(values))
        if norm == 0.0:
            raise InputError(
                "function is zero everywhere: it has no relative error. Give a function that is not"
            )
        values /= norm
        unseen = resolution(values)
        found = (
            by_svd(values, ordered)
            if values.ndim == 2
            else by_descent(values, ordered, starts, seed)
        )
        return [_as_fit(lattice, roots, norm, factors, error, unseen) for factors, error in found]


def default_points(box: Box) -> int:
    """As many per axis as keep the lattice at two million: 256 in two axes, 128 in three, 38 in
    four, 18 in five, 11 in six."""
    return max(2, min(MOST, int(LATTICE ** (1 / box.dimension) + 1e-9)))


def sample(function: Callable[..., Any], box: Box, lattice: Lattice) -> np.ndarray:
    """A function's values on a lattice, refused unless they are all finite."""
    names = parameters(function, {"coordinate": box.axes}, "function")
    values = as_array(call(function, names, lattice.arrays(), "function"), "function")
    if jnp.iscomplexobj(values):
        raise InputError(
            f"function must return real numbers, got {values.dtype}: study jnp.real and jnp.imag of"
            " it by themselves"
        )
    values = np.array(
        np.broadcast_to(fits(values, lattice.shape, "function's value"), lattice.shape), np.float64
    )
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        where = ", ".join(
            f"{a}={float(c[i]):.4g}" for a, c, i in zip(box.axes, lattice.coordinates, wrong[0])
        )
        raise InputError(
            f"function is not finite at {len(wrong)} of {values.size} points, first at {where}:"
            " change the box, or write the limit"
            " with jnp.where"
        )
    return values


def resolution(values: np.ndarray) -> float:
    """The norm of the highest tenth of the Legendre coefficients along each axis, of values times
    the roots of weights."""
    total = 0.0
    for axis, n in enumerate(values.shape):
        nodes, weights = np.polynomial.legendre.leggauss(n)
        degrees = np.arange(
            n - max(1, min(n - 1, max(2, n // 10))), n
        )  # two at least: of an even function one is zero
        high = np.polynomial.legendre.legvander(nodes, n - 1)[:, degrees] * np.sqrt(
            weights[:, None] * (degrees + 0.5)
        )
        total += float(np.sum(np.tensordot(high, values, (0, axis)) ** 2))
    return math.sqrt(total)


def _as_fit(
    lattice: Lattice,
    roots: Sequence[np.ndarray],
    norm: float,
    factors: Factors,
    error: float,
    unseen: float,
) -> Fit:
    sizes = functools.reduce(operator.mul, (np.linalg.norm(f, axis=0) for f in factors))
    share = norm ** (1 / len(factors))
    unweighted = {
        a: jnp.asarray(share * f / root[:, None])
        for a, f, root in zip(lattice.axes, factors, roots)
    }
    return Fit(Separable.of(lattice, **unweighted), error, float(np.linalg.norm(sizes)), unseen)
