"""From what is given on faces to one function that has it all: transfinite interpolation.

Along one axis, P u = Σ_k B_k(x) · (what is given of u at an end), with Hermite's polynomials B: it
has the given values and slopes at the ends of that axis. The faces of all axes are met by the
Boolean sum of the axes' projections, one axis after the other,

    L ← L + P_i (u - L),

which needs of u only what is given, as long as faces agree where they meet. All of it happens on
series along the axes, so L is a sum of products as the data are.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, in_float64
from ..domain import Box
from ..networks import KnownPart, Line
from ..separable import dense_values, exact_products, separate, tucker_by_svd

FUNCTIONS = 129  # of a series while it is made; those that are not needed are left out in the end
TAIL = 16  # the last degrees, which must have faded
FADED = 1e-13  # relative: what the tail may have
NOISE = 1e-15  # relative: what is not told from rounding
AGREE = 1e-6  # relative: how far two conditions may be apart where their faces meet
SAMPLES = 64
SAME = 1e-13  # how far two columns of size one may be apart that are taken for one
TINY = 1e-300
MOST_CORE = 2**22  # numbers in what a sum of products is compressed through

FactorsByAxis = list[np.ndarray]  # of products: per axis the series (FUNCTIONS, columns)


@dataclass(frozen=True, eq=False)
class BoundaryData:
    """What a hard condition says on one face of one field: its value, or its slope along the axis.

    Attributes:
        name: of the condition.
        component: the number of the field.
        axis: the axis whose face it is.
        side: which of its faces, "-" or "+".
        order: 0 for the value, 1 for the slope.
        value: a function of the coordinates by name; None: zero.
        is_root: whether the field leaves zero like the root of the distance.
    """

    name: str
    component: int
    axis: str
    side: str
    order: int
    value: Callable[[Mapping[str, Array]], Array] | None
    is_root: bool = False

    @property
    def place(self) -> tuple[str, str, int]:
        return self.axis, self.side, self.order


def boundary_interpolant(
    box: Box, periodic: Sequence[str], fields: Sequence[str], given: Sequence[BoundaryData]
) -> KnownPart | None:
    """The known function L that takes all that is given on faces.

    Arguments:
        box: whose faces they are.
        periodic: its periodic axes.
        fields: their names, for refusals.
        given: values and slopes on faces.

    Returns:
        L as series along the axes; None where all that is given is zero.
    """
    if not any(each.value for each in given):
        return None
    lines = [Line(*box[axis], axis in periodic) for axis in box.axes]
    found: list[FactorsByAxis] = []
    with in_float64():
        for component, field in enumerate(fields):
            own = [each for each in given if each.component == component]
            data = [_series(box, lines, each) for each in own]
            _check_corners(box, lines, field, own, data)
            found.append(_boolean_sum(box, lines, own, data))
    rank = max(each[0].shape[1] for each in found)
    if not rank:  # functions that are zero everywhere
        return None
    stacked = [
        np.stack([np.pad(s[i], ((0, 0), (0, rank - s[i].shape[1]))) for s in found])
        for i in range(len(lines))
    ]
    return KnownPart(box, periodic, [_shortened(line, each) for line, each in zip(lines, stacked)])


def _shortened(line: Line, series: np.ndarray) -> np.ndarray:
    """Series (components, functions, columns) without the functions that none of them has."""
    degrees = line.degrees(FUNCTIONS)
    used = degrees[np.any(series != 0, axis=(0, 2))]
    return np.stack([line.cut(each, int(max(used, default=0))) for each in series])


# --- what is given, as sums of products ---------------------------------------------------------


def _constant(columns: int) -> np.ndarray:
    return np.pad(np.ones((1, columns)), ((0, FUNCTIONS - 1), (0, 0)))


def _series(box: Box, lines: Sequence[Line], given: BoundaryData) -> FactorsByAxis:
    """A condition's values on its face, as a sum of products over all axes: constant along its
    own."""
    if given.value is None:
        return [np.zeros((FUNCTIONS, 0)) for _ in lines]
    at, end = box.index(given.axis), box.ends(given.axis, given.side)[0]
    nodes = [np.array([end]) if i == at else line.nodes(FUNCTIONS) for i, line in enumerate(lines)]
    shaped = {
        a: x.reshape([-1 if i == j else 1 for j in range(len(nodes))])
        for i, (a, x) in enumerate(zip(box.axes, nodes))
    }
    coordinates = {a: jax.ShapeDtypeStruct(x.shape, jnp.float64) for a, x in shaped.items()}
    shape = jax.eval_shape(given.value, coordinates).shape
    shape = (1,) * (len(lines) - len(shape)) + shape
    depends = [i for i, n in enumerate(shape) if n > 1]
    if len(depends) > 2:
        return _by_reading(box, lines, given, {a: jnp.asarray(x) for a, x in shaped.items()})
    # an axis on which nothing depends is as good as a point
    few = {
        a: x if i in depends or i == at else x.ravel()[:1].reshape([1] * len(lines))
        for i, (a, x) in enumerate(shaped.items())
    }
    values = np.asarray(jax.jit(given.value)(few), np.float64).reshape(
        [FUNCTIONS if i in depends else 1 for i in range(len(lines))]
    )
    _check_finite(given, values)
    for i in depends:
        values = np.moveaxis(_faded(box, lines, given, i, np.moveaxis(values, i, 0)), 0, i)
    found = [_constant(1) for _ in lines]
    if len(depends) < 2:
        series = values.reshape(-1, 1)
        found[depends[0] if depends else at] = np.pad(
            series, ((0, FUNCTIONS - len(series)), (0, 0))
        )
        return found
    matrix = np.squeeze(values)
    rows, columns = (
        np.any(matrix != 0, 1),
        np.any(matrix != 0, 0),
    )  # a function that is not there must not come in by rounding
    left, sizes, right = np.linalg.svd(matrix[rows][:, columns], full_matrices=False)
    rank = int(np.sum(sizes > NOISE * np.max(sizes, initial=0.0)))
    found = [
        np.zeros((FUNCTIONS, rank)) if i in depends else _constant(rank) for i in range(len(lines))
    ]
    found[depends[0]][rows], found[depends[1]][columns] = (
        left[:, :rank] * sizes[:rank],
        right[:rank].T,
    )
    return found


def _by_reading(
    box: Box, lines: Sequence[Line], given: BoundaryData, coordinates: Mapping[str, Array]
) -> FactorsByAxis:
    """A function of three axes or more, by the products that its `jnp` code is made of."""
    assert given.value is not None  # zero depends on nothing
    products = separate(given.value, coordinates, dimension=len(lines))
    if products is None:
        raise InputError(
            f"{given.name}: hard=True needs values that are a sum of products of functions of one"
            " coordinate each, and those on"
            f" {given.axis + given.side} cannot be read as one (of two coordinates any smooth"
            " function can): write such a sum with"
            " +, *, jnp.sin, jnp.exp …, or hard=False"
        )
    found: list[list[np.ndarray]] = [[] for _ in lines]
    for product in products:
        for i, factor in enumerate(product):
            values = np.asarray(factor, np.float64)[:, None]
            _check_finite(given, values)
            series = _faded(box, lines, given, i, values) if len(values) > 1 else values
            found[i].append(np.pad(series, ((0, FUNCTIONS - len(series)), (0, 0))))
    return _joined([np.concatenate(each, 1) for each in found])


def _check_finite(given: BoundaryData, values: np.ndarray) -> None:
    if not np.all(np.isfinite(values)):
        raise InputError(
            f"{given.name}: its values on {given.axis + given.side} are not all finite: hard=True"
            " needs them on the whole face, write hard=False"
        )


def _faded(
    box: Box, lines: Sequence[Line], given: BoundaryData, axis: int, values: np.ndarray
) -> np.ndarray:
    """The series through values along an axis (the first dimension), if they have come to an end:
    without what rounding has added."""
    line = lines[axis]
    found, degrees = line.fitted(values), line.degrees(FUNCTIONS)
    sizes = np.max(np.abs(found), axis=tuple(range(1, found.ndim)))
    if np.max(sizes[degrees > degrees.max() - TAIL]) > FADED * np.max(sizes):
        periodic = f" (or not periodic in {box.axes[axis]})" if line.periodic else ""
        raise InputError(
            f"{given.name}: hard=True needs smooth values, and those on {given.axis + given.side}"
            f" are too rough in {box.axes[axis]} for"
            f" {'waves' if line.periodic else 'polynomials'} up to degree"
            f" {degrees.max()}{periodic}: write hard=False"
        )
    last = max(degrees[sizes > NOISE * np.max(sizes)], default=0)
    found[degrees > last] = 0.0
    return found


# --- the interpolation --------------------------------------------------------------------------


def _functionals(line: Line, places: Sequence[tuple[str, int]]) -> np.ndarray:
    """What each place (side, order) takes of a series: rows (places, FUNCTIONS)."""
    one, ends = np.eye(FUNCTIONS), {"-": line.lower, "+": line.upper}
    return np.stack(
        [
            (line.values(np.array([ends[s]]), FUNCTIONS) @ line.derivative(one, order))[0]
            for s, order in places
        ]
    )


def _boolean_sum(
    box: Box, lines: Sequence[Line], given: Sequence[BoundaryData], data: Sequence[FactorsByAxis]
) -> FactorsByAxis:
    total: FactorsByAxis = [np.zeros((FUNCTIONS, 0)) for _ in lines]
    for i, (axis, line) in enumerate(zip(box.axes, lines)):
        own = [(each, series) for each, series in zip(given, data) if each.axis == axis]
        if not own:
            continue
        takes = _functionals(line, [(each.side, each.order) for each, _ in own])
        number = len(own)
        # the polynomials of which each has one of these and none of the others
        blends = np.pad(np.linalg.inv(takes[:, :number]), ((0, FUNCTIONS - number), (0, 0)))
        parts = [total]
        for k, (_, series) in enumerate(own):
            has = takes[k] @ total[i]
            parts.append(
                [
                    blends[:, k : k + 1] * series[i][:1] if j == i else s
                    for j, s in enumerate(series)
                ]
            )
            parts.append(
                [-blends[:, k : k + 1] * has if j == i else s for j, s in enumerate(total)]
            )
        total = _compressed([np.concatenate(each, 1) for each in zip(*parts)])
    return total


def _joined(factors: FactorsByAxis) -> FactorsByAxis:
    """The same sum, of which products that differ along one axis alone are one."""
    for i in range(len(factors)):
        sizes = [np.maximum(np.linalg.norm(f, axis=0), TINY) for f in factors]
        units = [f / size for k, (f, size) in enumerate(zip(factors, sizes)) if k != i]
        own = factors[i] * functools.reduce(
            operator.mul, (size for k, size in enumerate(sizes) if k != i), 1.0
        )
        kept: list[int] = []
        made: list[np.ndarray] = []
        for column in range(own.shape[1]):
            for n, other in enumerate(kept):
                signs = [np.sign(u[:, column] @ u[:, other]) for u in units]
                if all(
                    np.linalg.norm(u[:, column] - s * u[:, other]) < SAME
                    for u, s in zip(units, signs)
                ):
                    made[n] = made[n] + math.prod(signs) * own[:, column]
                    break
            else:
                kept.append(column)
                made.append(own[:, column])
        parts = iter(units)
        factors = [
            np.stack(made, 1) if k == i else next(parts)[:, kept] for k in range(len(factors))
        ]
    return factors


def _compressed(factors: FactorsByAxis) -> FactorsByAxis:
    """The same sum in fewer products, where there is one: by joining them, and through a core whose
    every line is one."""
    factors = _joined(factors) if factors[0].shape[1] else factors
    sizes = [np.linalg.norm(f, axis=0) for f in factors]
    weights = functools.reduce(operator.mul, sizes)
    kept = weights > 0
    factors = [f[:, kept] for f in factors]
    if np.sum(kept) < 2:
        return factors
    bases, inner = [], []
    for i, f in enumerate(factors):
        rows = np.any(f != 0, axis=1)  # a function that no column has must not come in by rounding
        own = f[rows] / sizes[i][kept]
        left, found, _ = np.linalg.svd(own * weights[kept], full_matrices=False)
        left = left[:, found > 0.1 * NOISE * found[0]]
        basis = np.zeros((len(f), left.shape[1]))
        basis[rows] = left
        bases.append(basis)
        inner.append(left.T @ own * (weights[kept] if i == 0 else 1.0))
    if math.prod(len(each) for each in inner) > MOST_CORE:
        return factors
    core, turned = tucker_by_svd(dense_values(inner))
    made = exact_products(core)
    lines = functools.reduce(operator.mul, (np.linalg.norm(f, axis=0) for f in made))
    counts = lines > 0.1 * NOISE * np.max(lines)
    if np.sum(counts) >= np.sum(kept):
        return factors
    return [basis @ turn @ f[:, counts] for basis, turn, f in zip(bases, turned, made)]


# --- where faces meet ---------------------------------------------------------------------------


def _check_corners(
    box: Box,
    lines: Sequence[Line],
    field: str,
    given: Sequence[BoundaryData],
    data: Sequence[FactorsByAxis],
) -> None:
    """Refuses conditions that contradict each other."""
    places = np.clip(
        np.random.default_rng(0).uniform(-0.1, 1.1, (len(lines), SAMPLES)), 0, 1
    )  # with some on the edges
    known = [
        line.values(line.lower + line.length * at, FUNCTIONS) for line, at in zip(lines, places)
    ]

    def sampled(
        data: FactorsByAxis, changed: int, takes: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Values at points of a face, where one axis' series are taken otherwise than at points."""
        each = [takes(s) if i == changed else known[i] @ s for i, s in enumerate(data)]
        return np.sum(functools.reduce(operator.mul, each), 1)

    for n, a in enumerate(given):
        for m, b in enumerate(given[:n]):
            if a.axis == b.axis or not (a.value or b.value):
                continue
            both: list[np.ndarray] = []
            size = 0.0
            for series, other in ((data[n], b), (data[m], a)):
                j = box.index(other.axis)
                row = _functionals(lines[j], [(other.side, other.order)])[0]
                both.append(sampled(series, j, lambda s, row=row: row @ s))
                inside = sampled(
                    series,
                    j,
                    lambda s, j=j, other=other: known[j] @ lines[j].derivative(s, other.order),
                )
                size = max(size, float(np.max(np.abs(inside), initial=0.0)))
            apart = float(np.max(np.abs(both[0] - both[1])))
            if apart > AGREE * max(size, *(float(np.max(np.abs(each))) for each in both)):
                raise InputError(
                    f"{b.name} and {a.name}: both are built in (hard=True), but where"
                    f" {b.axis + b.side} and {a.axis + a.side} meet they contradict"
                    f" each other: {_called(field, a, b)} differs by up to {apart:.2g} there. Give"
                    " both the same values where they meet, or write"
                    " hard=False for one of them"
                )


def _called(field: str, *given: BoundaryData) -> str:
    """What two conditions both say: u, u_t, or u_tx."""
    along = "".join(each.axis for each in given if each.order)
    return f"{field}_{along}" if along else field
