"""How far a solution may be from the true one, and whether there is but one.

Where e is its error and J how residuals and conditions change with the fields, a solution leaves r
= J e, to first order. For fields that are sums of all products of the first functions of each axis
(the solution has but few products) J is a matrix of moderate size, and

    e = δ + rest,    δ = J⁺ r.

What is left of r, orthogonal to all J can make, comes from functions beyond those. It can have come
from as large an error as the last third of these functions make of a residual of that size: beyond,
an equation rarely feels less. Where some fields change without any residual, r says nothing about
them: the conditions leave a family of solutions, of as many dimensions as there are such fields.
What can be added to a field by the very form of the equation (`gauge_freedom`) is none of these:
its error is measured without it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from ...core import doing, options_for_one_run
from ...domain import GaussLegendre, Lattice, Points
from ...equations import Problem, gauge_freedom
from ...networks import highest, slow_to_fast
from ...recipe import Recipe, Solve
from ...residuals import Loss, Model, linearised, roots
from ...separable import Key
from ...solution import Solution
from .levels import Level, cut_short, functions_of, points_for, polynomials, values

MODES = 1024  # products of functions, whose matrix is decomposed in a second
POINTS = 2**14  # inside
SMALL = 1e-9  # of all fields together: one that is smaller is zero but for rounding
NOTHING = 1e-10  # the norm of a solution that is zero but for rounding
LOOSE = 1e3  # a relative error this many times its residual: the solution is not determined
SAFE = 3.0  # of the estimate against what it leaves out
UNFELT = 1e-8  # of what u = 0 leaves: the most that a change of a free unknown leaves
ROUNDED = 1e-14  # relative error that rounding may leave in any solution
TINY = 1e-300
FAINT = 1e-2  # of a function's size in the box: it is hardly seen in a shape in which it has less


def estimated(found: Solution) -> Level:
    """What a solution is worth: its error, and what it lacks.

    Arguments:
        found: a solution whose coefficients were solved for.
    """
    problem, had = found.problem, functions_of(found.problem, found.model)
    counts = _counts(problem, had)
    loss = Loss(problem, _recipe(problem, counts, had, found.recipe))
    places = loss.draw(jax.random.key(0), jnp.zeros((), jnp.int32))
    inside = places[0]
    assert isinstance(inside, Lattice)  # as of any separable network
    seen = _evaluated(loss, found.model, places, inside)
    within = np.broadcast_to(_within(problem, inside), inside.shape)
    now, zero = (dict(zip(loss.names, terms)) for terms in seen.terms)
    total = max(float(loss.weights @ list(zero.values())), TINY)

    def norms(fields: np.ndarray) -> list[float]:
        return [float(np.linalg.norm(field * within)) for field in fields]

    # a field counts by its own size, however small it is beside others; but for one that is zero,
    # up to rounding
    size = float(np.linalg.norm(norms(seen.fields)))
    sizes = np.maximum(norms(seen.fields), SMALL * size)
    changes = np.array([norms(cut - seen.fields) for cut in seen.cut])
    tails = np.max(changes / np.maximum(sizes, TINY), 1)

    chosen = [
        slow_to_fast(f.shape[-1], a in problem.periodic)[: counts[a]]
        for a, f in zip(problem.box.axes, seen.features)
    ]
    turns = [
        _orthonormal(f[..., k], inside, i) for i, (f, k) in enumerate(zip(seen.features, chosen))
    ]
    order = max(highest(needs) for needs in loss.needs)
    smooth = ~np.tile(_any_from(counts, dict.fromkeys(counts, order + 2)), len(seen.fields))
    rows, usual = [], []
    for (left, slopes, unknowns, features), apart in zip(seen.parts, seen.scattered):
        turned = [
            np.einsum("conf,cfg->cong", f[..., k], turn)
            for f, k, turn in zip(features, chosen, turns)
        ]
        jacobian = jacobian_of(slopes, turned, left.shape[0], apart)
        usual.append(float(np.max(np.linalg.norm(jacobian[:, smooth], axis=0))))
        known = [column.reshape(-1, 1) for column in unknowns]
        rows.append(np.concatenate([*known, jacobian, left.reshape(-1, 1)], 1))
    # what a function as large as the solution has to change; where nothing is asked for, what
    # smooth functions change at most
    asked = math.sqrt(total) / max(size, TINY) if total > TINY else max(usual)
    pins = _pins(problem, counts)
    rows.append(np.pad(asked * pins, ((0, 0), (rows[0].shape[1] - 1 - pins.shape[1], 1))))
    matrix = np.concatenate(rows)
    # a row's measure: as much, or what smooth functions change there, if that is less: a source of
    # 1e4 says nothing about a wall
    measures = [min(asked, one) if one > 0 else asked for one in usual] + [asked]
    measure = np.repeat(measures, [len(some) for some in rows])
    thirds = {a: math.ceil(2 * n / 3) for a, n in counts.items()}
    last, new = (np.tile(_any_from(counts, first), len(seen.fields)) for first in (thirds, had))
    owner = np.repeat(np.arange(len(seen.fields)), len(last) // len(seen.fields))
    ahead = matrix.shape[1] - 1 - len(last)
    if problem.shape is not None:
        within_shape = _inside(matrix[:, ahead:-1], seen.features, chosen, turns, within)
        jacobian, last, new, owner = within_shape
        matrix = np.concatenate([matrix[:, :ahead], jacobian, matrix[:, -1:]], 1)
    # columns of unknowns first, so that fields only count for what no unknown can undo; the last
    # functions last
    turn = np.argsort(last, kind="stable")
    matrix[:, ahead:-1] = matrix[:, ahead:-1][:, turn]
    upper = _triangular(matrix, ahead)
    family = _unfelt(upper, asked) and _unfelt(_triangular(matrix / measure[:, None], ahead), 1.0)
    if not family and total <= TINY and size < NOTHING:  # u = 0, as nothing asks for anything else
        grown, products = ROUNDED, 0.0
    elif size == 0.0:
        grown = products = math.inf
    else:
        grown, products = _from(upper, last[turn], new[turn], owner[turn], sizes, found.best_loss)
    unknowns = {name: float(value) for name, value in found.model.unknowns.items()}
    return Level(
        functions=had,
        rank=max(found.model.network.separable.merge.ranks),
        left=math.sqrt(found.best_loss / total) if total > TINY else 0.0,
        tails=dict(zip(problem.box.axes, map(float, tails))),
        missed=_missed(problem, now, zero, size),
        estimate=math.inf if family else grown,
        products=math.inf if family else products,
        seconds=found.timing.compile_seconds + found.timing.train_seconds,
        family=family,
        free=_free(matrix, ahead, unknowns, math.sqrt(total)),
        grown=grown,
    )


class _Seen(NamedTuple):
    """A solution at some places, as arrays.

    Attributes:
        parts: of every place, the residuals there, their derivatives by those of the fields and by
            unknowns, and the functions of the basis.
        scattered: of every place, whether it is made of scattered points.
        features: the functions of the basis on the lattice inside.
        fields: on that lattice, by component.
        cut: by axis, the fields without the last functions of that axis.
        terms: of the loss, now and for u = 0.
    """

    parts: Any
    scattered: list[bool]
    features: Any
    fields: Any
    cut: Any
    terms: Any


def _evaluated(loss: Loss, model: Model, places: Any, inside: Lattice) -> _Seen:
    order = max(highest(needs) for needs in loss.needs)
    scattered: list[bool] = []

    def evaluated(model: Model) -> Any:
        network = model.network.separable
        basis = Model.build(loss.problem, loss.recipe, jax.random.key(0)).network.separable
        parts = []
        for part in linearised(loss, model, places, {}):
            scattered.append(isinstance(part.place, Points))
            functions = basis.features(part.place.coordinates, order)
            parts.append((part.residual, part.derivatives, part.by_unknown, functions))
        features = network.features(inside.coordinates, 0)
        built_in = network.known_part
        known = 0.0 if built_in is None else built_in.on_lattice(inside.coordinates)
        fields, *cut = (
            known + values(network, features, c)
            for c in (network.coefficients, *cut_short(network))
        )
        zero = network.with_coefficients([jnp.zeros_like(c) for c in network.coefficients])
        terms = [loss(m, places) for m in (model, Model(zero, model.unknowns))]
        return parts, basis.features(inside.coordinates, 0), fields, cut, terms

    arrays, static = eqx.partition(model, eqx.is_array)
    doing("estimating the error")
    program = jax.jit(lambda a: evaluated(eqx.combine(a, static))).lower(arrays)
    found = program.compile(options_for_one_run())(arrays)
    parts, *others = jax.tree.map(np.asarray, found)
    return _Seen(parts, scattered, *others)


def _free(
    matrix: np.ndarray, ahead: int, unknowns: Mapping[str, float], size: float
) -> tuple[str, ...]:
    """The unknowns that may change by as much as they are, if fields may follow, while residuals
    and conditions hardly change."""
    if not unknowns:
        return ()
    fields_first = np.concatenate([matrix[:, ahead:-1], matrix[:, :ahead]], 1)
    beyond = np.asarray(np.linalg.qr(fields_first, mode="r"))[-ahead:, -ahead:]
    values = np.array([abs(v) or 1.0 for v in unknowns.values()])
    _, felt, turned = np.linalg.svd(beyond * values)
    loose = turned[felt < UNFELT * size]
    return tuple(name for name, parts in zip(unknowns, np.abs(loose.T)) if np.any(parts > 0.1))


def _triangular(matrix: np.ndarray, ahead: int) -> np.ndarray:
    """The factor of J and r together, without the columns of unknowns, which are the first."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))[ahead:, ahead:]


def _unfelt(upper: np.ndarray, measure: float) -> int:
    """How many functions change rows by next to nothing of a measure: the solution is determined up
    to these."""
    number = upper.shape[1] - 1
    return int(np.sum(measure >= LOOSE * np.asarray(scipy.linalg.svdvals(upper[:number, :number]))))


def _from(
    upper: np.ndarray,
    last: np.ndarray,
    new: np.ndarray,
    owner: np.ndarray,
    sizes: np.ndarray,
    unseen: float,
) -> tuple[float, float]:
    """The error of the field that is worst, and the part of it that more products would take away.

    Arguments:
        upper: the triangular factor of J and r together.
        last: which columns of J are of the last functions.
        new: which are of functions that the solution has not.
        owner: of which field each is.
        sizes: of the fields.
        unseen: the loss of the solution at points that were not solved on.
    """
    number = upper.shape[1] - 1
    factor, low, high = upper[:number, :number], upper[:number, -1], upper[number:, -1]
    if not np.all(np.diag(factor)):
        return math.inf, math.inf
    inverse = np.asarray(scipy.linalg.solve_triangular(factor, np.eye(number)))
    # points that were not solved on may show more of what is left
    rest = math.sqrt(max(float(high @ high), unseen - float(low @ low)))
    step = inverse @ low
    error = products = 0.0
    for field, size in enumerate(sizes):
        mine = owner == field
        moved = np.linalg.norm(step[mine]) + rest * np.linalg.norm(inverse[mine][:, last], 2)
        error = max(error, float(moved / size))
        products = max(products, float(np.linalg.norm(step[mine & ~new]) / size))
    return max(SAFE * error, ROUNDED), SAFE * products


def _missed(
    problem: Problem, now: Mapping[str, float], zero: Mapping[str, float], size: float
) -> dict[str, float]:
    """By condition, how far it is missed, as a part of what it asks for: of what it leaves for
    u = 0. Zero on a wall asks for as much as what is asked for elsewhere, or as the fields are
    large."""
    names = list(dict.fromkeys(term.name for term in problem.terms))
    most = max((zero[name] for name in names), default=0.0) or max(size**2, TINY)
    return {n: math.sqrt(now[n] / (zero[n] if zero[n] > 1e-4 * most else most)) for n in names}


def _counts(problem: Problem, had: Mapping[str, int]) -> dict[str, int]:
    """Functions per axis: half as many again as the solution has, or as many as their products
    allow."""
    most = {a: math.ceil(1.5 * n) for a, n in had.items()}
    counts = dict.fromkeys(problem.box.axes, 1)
    while True:
        room = [
            a
            for a, n in counts.items()
            if n < most[a]
            and len(problem.fields) * math.prod(counts.values()) * (n + 1) <= MODES * n
        ]
        if not room:
            return counts
        counts[min(room, key=counts.__getitem__)] += 1


def _recipe(
    problem: Problem, counts: Mapping[str, int], had: Mapping[str, int], solved: Recipe
) -> Recipe:
    """Those functions, and points for them and for what is left of the solution's residual."""
    points = points_for({a: max(n, had[a]) for a, n in counts.items()})
    while math.prod(points.values()) > POINTS:
        spare = {a: n / (counts[a] + 1) for a, n in points.items()}
        widest = max(spare, key=spare.__getitem__)
        if spare[widest] <= 1:
            break
        points[widest] -= 1
    return Recipe(
        polynomials(problem, counts, 1),
        points,
        optimiser=Solve(1),
        sampler=GaussLegendre(breaks=getattr(solved.sampler, "breaks", ())),
        emphasis=solved.emphasis,
        weights=dict(solved.weights),
        precision="float64",
    )


def _within(problem: Problem, inside: Lattice) -> np.ndarray:
    """√ of what a point of the lattice counts; nothing outside a shape."""
    share = np.asarray(roots(inside, 1.0))
    if problem.shape is None:
        return share
    mask = np.broadcast_to(np.asarray(problem.shape.mask(inside.arrays())), inside.shape)
    return np.where(mask, share, 0.0) / math.sqrt(float(inside.mean(jnp.asarray(mask, float))))


def _orthonormal(features: np.ndarray, inside: Lattice, axis: int) -> np.ndarray:
    """What makes the features of an axis orthonormal in the mean over it, as an array of
    (components, features, combinations)."""
    weights = inside.weights[axis]
    counts = np.ones(inside.shape[axis]) if weights is None else np.asarray(weights)
    root = np.sqrt(counts / counts.sum())[:, None]
    return np.stack([np.linalg.inv(np.linalg.qr(root * f[0], mode="r")) for f in features])


def _products(factors: Sequence[np.ndarray], apart: bool) -> np.ndarray:
    """Every product of functions, one of each axis, at points of a lattice or one by one, as an
    array of (points, products)."""

    def at_each(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)

    return functools.reduce(at_each if apart else np.kron, factors)


def jacobian_of(
    slopes: Mapping[Key, np.ndarray], features: Sequence[np.ndarray], parts: int, apart: bool
) -> np.ndarray:
    """How residuals at a place change with the coefficient of every product of functions.

    Arguments:
        slopes: how they change with every derivative of a field.
        features: by axis, functions and their derivatives (components, orders, points, functions).
        parts: residuals.
        apart: whether the points are scattered.
    """
    components, number = features[0].shape[0], math.prod(f.shape[-1] for f in features)
    some = next(iter(slopes.values()))
    found = np.zeros((parts, some[0].size, components, number))
    for (component, orders), slope in slopes.items():
        if np.any(slope):
            here = _products([f[component, o] for f, o in zip(features, orders)], apart)
            found[:, :, component] += slope.reshape(parts, -1, 1) * here
    return found.reshape(-1, components * number)


def _pins(problem: Problem, counts: Mapping[str, int]) -> np.ndarray:
    """Rows of a Jacobian that feel what can be added by the form of an equation: constants along
    some axes."""
    shape, every = tuple(counts.values()), gauge_freedom(problem)
    found = []
    for c, field in enumerate(problem.fields):
        for axes in every.get(field, []):
            constant = [(np.arange(n) == 0) | (a in axes) for a, n in counts.items()]
            inside = functools.reduce(np.multiply.outer, constant).ravel()
            found += [c * math.prod(shape) + i for i in np.flatnonzero(inside)]
    return np.eye(len(problem.fields) * math.prod(shape))[sorted(set(found))]


def _any_from(counts: Mapping[str, int], first: Mapping[str, int]) -> np.ndarray:
    """Which products have a function of some axis from the `first` of that axis on."""
    each = [np.arange(n) >= first[a] for a, n in counts.items()]
    return functools.reduce(lambda a, b: (a[:, None] | b).ravel(), each)


def _inside(
    jacobian: np.ndarray, own: Any, chosen: Any, turns: Any, within: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The Jacobian of combinations of products that are orthonormal in a shape instead of in its
    box, without those that are hardly seen there.

    Returns:
        The Jacobian; which columns are of the last functions, the third that is seen least; which
        of new ones: none; and of which field each is.
    """
    made, last, owner = [], [], []
    for c, block in enumerate(np.split(jacobian, own[0].shape[0], 1)):
        here = _products([f[c, 0][:, k] @ turn[c] for f, k, turn in zip(own, chosen, turns)], False)
        _, sizes, turned = np.linalg.svd(within.reshape(-1, 1) * here, full_matrices=False)
        seen = sizes > FAINT * sizes[0]
        made.append(block @ (turned[seen].T / sizes[seen]))
        last.append(np.arange(seen.sum()) >= math.ceil(2 * seen.sum() / 3))
        owner.append(np.full(seen.sum(), c))
    found = np.concatenate(last)
    return np.concatenate(made, 1), found, np.zeros_like(found), np.concatenate(owner)
