"""Fields that are polynomials on a lattice of pieces, compressed and made a solution.

On the piece e = (e₁, e₂, …) a field is u = Σ_b c_eb Π_i P_bᵢ(ξᵢ), ξᵢ in [-1, 1], with Legendre's
polynomials P. What solves in elements finds such coefficients; along two axes a singular value
decomposition makes few products of them, along more a Tucker form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

from ..core import in_float64
from ..domain import TIME
from ..equations import Problem
from ..networks import PiecewiseProducts
from ..recipe import Recipe
from ..residuals import Model
from ..separable import leading_block, tucker_by_svd
from ..solution import History, Outcome, Piece, Solution, Timing
from .elements import restricted

Edges = Mapping[str, np.ndarray]
TINY = 1e-300


@dataclass(frozen=True)
class Products:
    """Fields as sums of products of piecewise polynomials.

    Attributes:
        edges: by axis, of the pieces.
        factors: by axis, (fields, pieces, polynomials, columns).
        cores: of the fields, (fields, columns, …), where there are three axes or more; None where
            the columns of the same number are multiplied.
    """

    edges: Edges
    factors: tuple[np.ndarray, ...]
    cores: np.ndarray | None = None

    @classmethod
    def of(
        cls, edges: Edges, fields: Sequence[tuple[Sequence[np.ndarray], np.ndarray]]
    ) -> Products:
        """Fields of which each has factors by axis and a core of its own.

        Arguments:
            edges: of the pieces, by axis.
            fields: by field, the factors (pieces, polynomials, columns) and the core.
        """
        factors = []
        for own in zip(*(factors for factors, _ in fields)):
            shape = np.max([f.shape for f in own], axis=0)
            factors.append(np.stack([padded(f, *shape) for f in own]))
        if len(edges) < 3:
            return cls(edges, tuple(factors))
        shape = np.max([core.shape for _, core in fields], axis=0)
        return cls(edges, tuple(factors), np.stack([padded(core, *shape) for _, core in fields]))

    def ordered(self, axes: Sequence[str]) -> Products:
        """The same with the axes in another order."""
        order = [list(self.edges).index(axis) for axis in axes]
        cores = self.cores
        if cores is not None:
            cores = cores.transpose(0, *(1 + i for i in order))
        edges = {axis: self.edges[axis] for axis in axes}
        return Products(edges, tuple(self.factors[i] for i in order), cores)


def compressed(edges: Edges, fields: Sequence[np.ndarray], cut: float) -> Products:
    """Coefficients on a lattice of pieces as few products.

    Arguments:
        edges: of the pieces, by axis.
        fields: by field the Legendre coefficients, (pieces, polynomials, pieces, polynomials, …).
        cut: the relative L2 norm that may be left out of a field.
    """
    return Products.of(edges, [_one_field(list(edges.values()), field, cut) for field in fields])


def _one_field(
    edges: Sequence[np.ndarray], field: np.ndarray, cut: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """The factors (pieces, polynomials, columns) by axis, and the core."""
    weights = []
    for own, number in zip(edges, field.shape[1::2]):
        # short pieces count a little more than their length: what is cut there could be seen
        lengths = np.maximum(np.diff(own), (own[-1] - own[0]) / (len(own) - 1))
        weights.append(np.sqrt(lengths[:, None] / (2 * np.arange(number) + 1)))
    weighed = field
    for i, weight in enumerate(weights):
        shape = [1] * field.ndim
        shape[2 * i : 2 * i + 2] = weight.shape
        weighed = weighed * weight.reshape(shape)
    columns, core = low_rank(weighed.reshape([w.size for w in weights]), cut)
    return [c.reshape(*w.shape, -1) / w[..., None] for c, w in zip(columns, weights)], core


def low_rank(values: np.ndarray, cut: float) -> tuple[list[np.ndarray], np.ndarray]:
    """An array as few products: by axis columns, and the core that joins them; along two axes
    columns of the same number are multiplied, and the core is of ones.

    Arguments:
        values: with as many dimensions as there are axes.
        cut: the part of their norm that may be left out.
    """
    if values.ndim == 1:
        return [values[:, None]], np.ones(1)
    if values.ndim == 2:
        u, sizes, v = scipy.linalg.svd(values, full_matrices=False)
        left = np.sqrt(np.cumsum(sizes[::-1] ** 2))[::-1]
        rank = max(1, int(np.sum(left > cut * max(left[0], TINY))))
        roots = np.sqrt(sizes[:rank])
        return [u[:, :rank] * roots, v[:rank].T * roots], np.ones(rank)
    core, columns = tucker_by_svd(values)
    kept = leading_block(core, cut * float(np.linalg.norm(core)))
    return [c[:, :n] for c, n in zip(columns, kept)], core[tuple(slice(n) for n in kept)]


def padded(array: np.ndarray, *shape: int) -> np.ndarray:
    """An array with zeros behind it, up to a shape."""
    return np.pad(array, [(0, n - m) for n, m in zip(shape, array.shape)])


def _divided(edges: np.ndarray, factors: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """The same functions (fields, pieces, polynomials, columns) in so many pieces."""
    parts = pieces - len(edges) + 2
    finer = np.r_[edges[:-1], np.linspace(edges[-2], edges[-1], parts + 1)[1:]]
    if parts == 1:
        return edges, factors
    last = factors[:, -1:].transpose(1, 0, 3, 2)
    divided = restricted(edges[-2:], finer[-parts - 1 :], last).transpose(1, 0, 3, 2)
    return finer, np.concatenate([factors[:, :-1], divided], 1)


def piecewise_solution(
    problem: Problem,
    windows: Sequence[Products],
    timing: Timing,
    estimate: float,
    levels: Sequence[Any] = (),
    interrupted: bool = False,
) -> Solution:
    """Windows of time that follow each other, or the one that there is, as a solution.

    All of them become networks of one shape: the last pieces of those with fewer are divided.

    Arguments:
        problem: that was solved. Where the last window ends before its interval of time does, the
            solution is of the time until then.
        windows: the fields.
        timing: how long it took.
        estimate: of the relative L2 error.
        levels: what was tried.
        interrupted: whether it was stopped before its end.
    """
    axes, fields = problem.box.axes, len(problem.fields)
    windows = [window.ordered(axes) for window in windows]
    shapes = [np.max([w.factors[i].shape[1:] for w in windows], 0) for i in range(len(axes))]
    columns = [int(shape[2]) for shape in shapes]
    joined = windows[0].cores is not None
    rank: Any = tuple(zip(axes, columns)) if joined else max(columns)
    network = PiecewiseProducts(
        rank, tuple((a, int(s[0]), int(s[1])) for a, s in zip(axes, shapes))
    )
    solved, first, instants, pieces = problem, problem, None, []
    if TIME in axes:
        instants = [float(w.edges[TIME][0]) for w in windows]
        instants.append(float(windows[-1].edges[TIME][-1]))
        first = problem.during(*instants[:2])
        if instants[-1] != problem.box[TIME][1]:
            solved = problem.during(instants[0], instants[-1])
    with in_float64():
        for number, window in enumerate(windows):
            origin = 0.0 if instants is None else instants[number] - instants[0]
            arrays: dict[str, tuple[Any, Any]] = {}
            for axis, shape, factor in zip(axes, shapes, window.factors):
                own = window.edges[axis] - (origin if axis == TIME else 0.0)
                own, factor = _divided(own, factor, int(shape[0]))
                filled = np.stack([padded(f, *shape[:2], max(columns)) for f in factor])
                flat = np.moveaxis(filled, 0, 2).reshape(*shape[:2], fields * max(columns))
                arrays[axis] = jnp.asarray(own), jnp.asarray(flat)
            core = None
            if window.cores is not None:
                core = jnp.stack([jnp.asarray(padded(c, *columns)) for c in window.cores])
            made = network.filled(first.box, fields, arrays, core)
            pieces.append(Piece.of(Model(made, {}), origin))
    recipe = Recipe(network, precision="float64")  # pyright: ignore[reportArgumentType]
    number = len(pieces)
    part = Timing(
        timing.compile_seconds / number, timing.train_seconds / number, timing.steps // number
    )
    each = [Outcome(recipe, History.none(), part, best_loss=0.0) for _ in pieces]
    outcome = Outcome(
        recipe,
        History.none(),
        timing,
        best_loss=0.0,
        interrupted=interrupted,
        estimate=estimate,
        levels=tuple(levels),
        windows=tuple(each) if len(each) > 1 else (),
    )
    return Solution(solved, pieces, outcome, instants)
