"""How far a solution may be from the true one, and whether there is but one.

Where e is its error and J how residuals and conditions change with the fields, a solution leaves r = J e, to first order. For fields that are
sums of all products of the first functions of each axis (the solution has but few products) J is a matrix of moderate size, and

    e = δ + rest,    δ = J⁺ r.

What is left of r, orthogonal to all J can make, comes from functions beyond those. It can have come from as large an error as the last
third of these functions make of a residual of that size: beyond, an equation rarely feels less. Where some fields change without any
residual, r says nothing about them: the conditions leave a family of solutions, of as many dimensions as there are such fields. What can be
added to a field by the very form of the equation (`gauges`) is none of these: its error is measured without it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from ..domain import GaussLegendre, Lattice, Points
from ..equations import Problem, gauge_freedom
from ..networks import SPINN, highest, slow_to_fast
from ..recipe import Recipe, Solve
from ..residuals import Loss, Model, linearised, roots
from ..separable import Key
from ..solution import Solution
from .levels import cut_short, values

MODES = 1024  # products of functions, whose matrix is decomposed in a second
POINTS = 2**14  # inside
SMALL = 1e-9  # of all fields together: one that is smaller is zero but for rounding
NOTHING = 1e-10  # the norm of a solution that is zero but for rounding
LOOSE = 1e3  # a relative error this many times its residual: the solution is not determined
SAFE = 3.0  # of the estimate against what it leaves out
UNFELT = 1e-8  # of what u = 0 leaves: what a change of an unknown that is fixed by nothing leaves at most
ROUNDED = 1e-14  # relative error that rounding may leave in any solution
TINY = 1e-300
ONCE: dict[str, str | bool] = {
    "xla_backend_optimization_level": "0"
}  # for a program that runs once
FAINT = 1e-2  # of a function in a shape, as a part of its size in the box: what is less is hardly seen there


@dataclass(frozen=True)
class Estimate:
    """`error`: relative, in L2; infinite where there is a `family` of solutions, of so many dimensions at least. `grown`: what the error would be if that
    were none, but a solution that grows from little, so that much of it is hardly felt at the start. `products`: the part of it
    that more products of the functions there are would take away. `left`, `tails` and `missed` are those of a `Level`. `free`: unknown
    coefficients that nothing fixes, each by itself or only together with the others."""

    error: float
    family: int
    products: float
    left: float
    tails: dict[str, float]
    missed: dict[str, float]
    free: tuple[str, ...] = ()
    grown: float = math.inf

    @property
    def settled(self) -> Estimate:
        """The same, where it is known that there is no family."""
        return dataclasses.replace(self, error=self.grown, family=0) if self.family else self


def estimated(found: Solution) -> Estimate:
    problem = found.problem
    had = _functions(found)
    counts = _counts(problem, had)
    recipe = _recipe(problem, counts, had, found.recipe)
    loss = Loss(problem, recipe)
    first = jax.random.key(0)
    places = loss.draw(first, jnp.zeros((), jnp.int32))
    inside = places[0]
    assert isinstance(inside, Lattice)  # as of any separable network
    order = max(highest(needs) for needs in loss.needs)
    scattered: list[bool] = []

    def evaluated(model: Model) -> Any:
        network = model.network.separable
        basis = Model.build(problem, recipe, first).network.separable
        parts = linearised(loss, model, places, {})
        scattered[:] = [isinstance(part.place, Points) for part in parts]
        each = [
            (
                part.residual,
                part.derivatives,
                part.by_unknown,
                basis.features(part.place.coordinates, order),
            )
            for part in parts
        ]
        features = network.features(inside.coordinates, 0)
        known = network.known_part
        built_in = 0.0 if known is None else known.on_lattice(inside.coordinates)
        fields = [
            built_in + values(network, features, c)
            for c in (network.coefficients, *cut_short(network))
        ]
        nothing = Model(
            network.with_coefficients([jnp.zeros_like(c) for c in network.coefficients]),
            model.unknowns,
        )
        terms = [loss(m, places) for m in (model, nothing)]
        return each, basis.features(inside.coordinates, 0), fields, terms

    arrays, static = eqx.partition(found.model, eqx.is_array)
    program = jax.jit(lambda a: evaluated(eqx.combine(a, static))).lower(arrays).compile(ONCE)
    each, own, (fields, *cut), terms = jax.tree.map(np.asarray, program(arrays))
    within = np.broadcast_to(_within(problem, inside), inside.shape)
    norms = np.array(
        [
            [np.linalg.norm(f * within) for f in some]
            for some in (fields, *(other - fields for other in cut))
        ]
    )
    # a field counts by its own size, however small it is beside others; but for one that is zero, up to rounding
    size = float(np.linalg.norm(norms[0]))
    sizes = np.maximum(norms[0], SMALL * size)
    tails = np.max(norms[1:] / np.maximum(sizes, TINY), 1)
    now, zero = (dict(zip(loss.names, t)) for t in terms)
    chosen = [
        slow_to_fast(f.shape[-1], a in problem.periodic)[: counts[a]]
        for a, f in zip(problem.box.axes, own)
    ]
    turns = [_orthonormal(f[..., k], inside, i) for i, (f, k) in enumerate(zip(own, chosen))]
    smooth = ~np.tile(_any_from(counts, dict.fromkeys(counts, order + 2)), len(fields))
    rows, usual = [], []
    for apart, (left, slopes, unknowns, features) in zip(scattered, each):
        turned = [
            np.einsum("conf,cfg->cong", f[..., k], turn)
            for f, k, turn in zip(features, chosen, turns)
        ]
        jacobian = _jacobian(slopes, turned, left.shape[0], apart)
        usual.append(float(np.max(np.linalg.norm(jacobian[:, smooth], axis=0))))
        known = [column.reshape(-1, 1) for column in unknowns]
        rows.append(np.concatenate([*known, jacobian, left.reshape(-1, 1)], 1))
    total = max(float(loss.weights @ list(zero.values())), TINY)
    pins = _pins(problem, counts)
    # what a function as large as the solution has to change; where nothing is asked for, what smooth functions change at most
    asked = math.sqrt(total) / max(size, TINY) if total > TINY else max(usual)
    rows.append(np.pad(asked * pins, ((0, 0), (rows[0].shape[1] - 1 - pins.shape[1], 1))))
    matrix = np.concatenate(rows)
    # a row's measure: as much, or what smooth functions change there, if that is less: a source of 1e4 says nothing about a wall
    measures = [min(asked, one) if one > 0 else asked for one in usual] + [asked]
    measure = np.repeat(measures, [len(some) for some in rows])
    thirds = {a: math.ceil(2 * n / 3) for a, n in counts.items()}
    last, new = (np.tile(_any_from(counts, first), len(fields)) for first in (thirds, had))
    owner = np.repeat(np.arange(len(fields)), len(last) // len(fields))
    ahead = matrix.shape[1] - 1 - len(last)
    if problem.shape is not None:
        jacobian, last, new, owner = _inside(matrix[:, ahead:-1], own, chosen, turns, within)
        matrix = np.concatenate([matrix[:, :ahead], jacobian, matrix[:, -1:]], 1)
    # columns of unknowns first, so that fields only count for what no unknown can undo; the last functions last
    turn = np.argsort(last, kind="stable")
    matrix[:, ahead:-1] = matrix[:, ahead:-1][:, turn]
    upper = _triangular(matrix, ahead)
    family = _unfelt(upper, asked) and _unfelt(_triangular(matrix / measure[:, None], ahead), 1.0)
    if not family and total <= TINY and size < NOTHING:  # u = 0, as nothing asks for anything else
        error, products = ROUNDED, 0.0
        grown = error
    elif size == 0.0:
        error = grown = products = math.inf
    else:
        grown, products = _from(upper, last[turn], new[turn], owner[turn], sizes, found.best_loss)
        error, products = (math.inf, math.inf) if family else (grown, products)
    return Estimate(
        error,
        family,
        products,
        left=math.sqrt(found.best_loss / total) if total > TINY else 0.0,
        tails=dict(zip(problem.box.axes, map(float, tails))),
        missed=_missed(problem, now, zero, size),
        free=_free(
            matrix, ahead, {k: float(v) for k, v in found.model.unknowns.items()}, math.sqrt(total)
        ),
        grown=grown,
    )


def _free(
    matrix: np.ndarray, ahead: int, unknowns: Mapping[str, float], size: float
) -> tuple[str, ...]:
    """The unknowns that may change by as much as they are, if fields may follow, and next to nothing is felt of it."""
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
    """How many functions change rows by next to nothing of a measure: the solution is determined up to these."""
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
    """Error and products, from the triangular factor of J and r together, of the field that is worst; which columns of J are of the last
    functions, which of functions that the solution has not, and of which field; the fields' sizes; and the loss of the solution
    at points that were not solved on."""
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
    """By condition, how far it is missed, as a part of what it asks for: of what it leaves for u = 0. Zero on a wall asks for as much as
    what is asked for elsewhere, or as the fields are large."""
    names = list(dict.fromkeys(term.name for term in problem.terms))
    most = max((zero[name] for name in names), default=0.0) or max(size**2, TINY)
    return {n: math.sqrt(now[n] / (zero[n] if zero[n] > 1e-4 * most else most)) for n in names}


def _functions(found: Solution) -> dict[str, int]:
    network = found.model.network.separable
    return {a: axis.inputs for a, axis in zip(found.problem.box.axes, network.axes)}


def _counts(problem: Problem, had: Mapping[str, int]) -> dict[str, int]:
    """Functions per axis: half as many again as the solution has, or as many as their products allow."""
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
    frequencies = max((counts[a] // 2 for a in problem.periodic), default=1)
    finest = {a: max(n, had[a]) for a, n in counts.items()}
    points = {a: n + max(4, n // 3) for a, n in finest.items()}
    while math.prod(points.values()) > POINTS:
        spare = {a: n / (counts[a] + 1) for a, n in points.items()}
        widest = max(spare, key=spare.__getitem__)
        if spare[widest] <= 1:
            break
        points[widest] -= 1
    basis = SPINN(rank=1, depth=0, body="mlp", functions=dict(counts), frequencies=frequencies)
    rule = GaussLegendre(breaks=getattr(solved.sampler, "breaks", ()))
    return Recipe(
        basis,
        points,
        optimiser=Solve(1),
        sampler=rule,
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
    """What makes the features of an axis orthonormal in the mean over it: (components, features, combinations)."""
    weights = inside.weights[axis]
    counts = np.ones(inside.shape[axis]) if weights is None else np.asarray(weights)
    root = np.sqrt(counts / counts.sum())[:, None]
    return np.stack([np.linalg.inv(np.linalg.qr(root * f[0], mode="r")) for f in features])


def _products(factors: Sequence[np.ndarray], apart: bool) -> np.ndarray:
    """Every product of functions, one of each axis, at points of a lattice or one by one: (points, products)."""

    def at_each(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)

    return functools.reduce(at_each if apart else np.kron, factors)


def _jacobian(
    slopes: Mapping[Key, np.ndarray], features: Sequence[np.ndarray], parts: int, apart: bool
) -> np.ndarray:
    components, number = features[0].shape[0], math.prod(f.shape[-1] for f in features)
    some = next(iter(slopes.values()))
    found = np.zeros((parts, some[0].size, components, number))
    for (component, orders), slope in slopes.items():
        if np.any(slope):
            here = _products([f[component, o] for f, o in zip(features, orders)], apart)
            found[:, :, component] += slope.reshape(parts, -1, 1) * here
    return found.reshape(-1, components * number)


def _pins(problem: Problem, counts: Mapping[str, int]) -> np.ndarray:
    """Rows of a Jacobian that feel what an equation does not, where that is in the form of it: constants along some axes."""
    shape, every = tuple(counts.values()), gauge_freedom(problem)
    found = []
    for c, field in enumerate(problem.fields):
        for axes in every.get(field, []):
            constant = [
                np.arange(n) == 0 if a not in axes else np.ones(n, bool) for a, n in counts.items()
            ]
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
    """The same for combinations of products that are orthonormal in a shape instead of in its box, without those that are hardly seen there.
    The last are the third that is seen least; none is said to be new. And the field of each."""
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
