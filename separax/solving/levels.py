"""The levels of a solve without a recipe: how large a network each has, what it begins with, and what it says about the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..domain import GaussLegendre
from ..equations import Problem
from ..networks import SPINN, SeparableNetwork
from ..recipe import Recipe, Solve
from ..residuals import Model
from ..separable import multiply_core

STEPS = 40
ALL = (
    10**6
)  # products: with three axes they are few enough, and a linear equation is then solved in one step
MATRIX = 2_000  # coefficients of all products of three axes for which a matrix is quicker than conjugate gradients
ITERATIONS = 500
MATTERS = (
    0.1  # an axis is refined if cutting it short changes the solution by this part of the tolerance
)


@dataclass(frozen=True)
class Level:
    """What was tried and what came out: `left` of the residual as a part of what it was for u = 0; by axis how much the last of its
    functions matter (`tails`); by condition how far it is `missed`, as a part of what it asks for; `estimate` of the relative L2 error, and
    the part of it that more `products` of the same functions would take away."""

    functions: dict[str, int]
    rank: int
    left: float
    tails: dict[str, float]
    missed: dict[str, float]
    estimate: float
    products: float
    seconds: float


def recipe_for(
    problem: Problem, functions: Mapping[str, int], rank: int, merge: Any = "cp"
) -> Recipe:
    periodic = [functions[a] // 2 for a in problem.box.axes if a in problem.periodic]
    frequencies = max(periodic, default=1)
    ranks = {
        a: min(rank, 1 + 2 * frequencies if a in problem.periodic else n)
        for a, n in functions.items()
    }
    network = SPINN(
        rank=rank if merge == "cp" else ranks,
        depth=0,
        body="mlp",
        functions=dict(functions),
        frequencies=frequencies,
        merge=merge,
    )
    spare = 4 if problem.box.dimension <= 4 else 2  # with many axes every point counts
    points = {a: n + max(spare, n // 3) for a, n in functions.items()}
    optimiser = (
        Solve(STEPS, most=MATRIX, iterations=ITERATIONS)
        if problem.box.dimension == 3
        else Solve(STEPS)
    )
    return Recipe(
        network, points, optimiser=optimiser, sampler=GaussLegendre(), precision="float64"
    )


def cut_short(network: SeparableNetwork) -> list[list[Array]]:
    """By axis: the network's coefficients without the last sixth of its functions."""
    found = []
    for i, axis in enumerate(network.axes):
        last = axis.inputs - max(2, axis.inputs // 6)
        cut = list(network.coefficients)
        cut[i] = cut[i].at[:, last:].set(0.0)
        found.append(cut)
    return found


def values(network: SeparableNetwork, features: Any, coefficients: Any) -> Array:
    factors = [jnp.einsum("cnf,cfr->cnr", f[:, 0], c) for f, c in zip(features, coefficients)]
    cores = [None] * network.components if network.core is None else network.core
    return jnp.stack(
        [
            network.merge.contraction.on_lattice([f[c] for f in factors], cores[c])
            for c in range(network.components)
        ]
    )


def refined(
    problem: Problem, level: Level, tolerance: float, growth: float = 1.5
) -> tuple[dict[str, int], int]:
    """More functions along the axes where they are missed; more products where they are not, or where that is all there is."""
    most = max(level.tails.values())
    short = {a for a, tail in level.tails.items() if tail > max(MATTERS * tolerance, 0.1 * most)}
    few = problem.box.dimension <= 3  # axes: there are all products already
    grown = short or (set(level.functions) if few else set())
    functions = {a: math.ceil(growth * n) if a in grown else n for a, n in level.functions.items()}
    if few:
        return functions, 1 if problem.box.dimension == 1 else ALL
    resolved = most < level.products or not short
    return functions, math.ceil(1.5 * level.rank) if resolved else level.rank + 2


def constants(problem: Problem, recipe: Recipe, values: Sequence[float]) -> Array:
    """Parameters of a network along one axis whose fields are these numbers."""

    def parameters() -> Array:
        model = Model.build(problem, recipe, jax.random.key(0))
        network = model.network.separable
        (own,) = (
            jnp.zeros_like(c).at[:, 0, 0].set(jnp.asarray(values)) for c in network.coefficients
        )
        return ravel_pytree(
            eqx.filter(
                Model(network.with_coefficients([own], None), model.unknowns), eqx.is_array
            )
        )[0]

    with jax.enable_x64(True):
        return jax.jit(parameters)()


def begun(problem: Problem, recipe: Recipe, model: Model, seed: int) -> Array:
    """Parameters of another network that is this one, as far as its functions and ranks go, and but for small new products."""

    def parameters(coefficients: Any, core: Any, unknowns: Any) -> Array:
        network = Model.build(problem, recipe, jax.random.key(0)).network.separable
        return ravel_pytree(
            eqx.filter(Model(network.with_coefficients(coefficients, core), unknowns), eqx.is_array)
        )[0]

    def coefficients(key: Array) -> Any:
        return Model.build(problem, recipe, key).network.separable.coefficients

    with jax.enable_x64(True):
        # as few programs as can be: nearly all the time here is compiling
        random = [np.asarray(c) for c in jax.jit(coefficients)(jax.random.key(seed))]
        old, fresh = model.network.separable, Model.shapes(problem, recipe).network.separable
        was = [np.asarray(c) for c in jax.jit(lambda n: n.coefficients)(old)]
        if fresh.core is None:
            made, core = _more_products(old, fresh, was, random), None
        else:
            made, core = _wider(old, fresh, was, random)
        return jax.jit(parameters)(made, core, model.unknowns)


def _more_products(
    old: SeparableNetwork,
    fresh: SeparableNetwork,
    coefficients: list[np.ndarray],
    new: list[np.ndarray],
) -> list[np.ndarray]:
    started = []
    for had, has, was, random in zip(old.axes, fresh.axes, coefficients, new):
        rank = min(was.shape[-1], random.shape[-1])
        size = np.linalg.norm(was, axis=1).mean(-1)  # by component
        own = 1e-2 * random * size[:, None, None]
        own[..., :rank] = 0.0
        source, target = _same(had, has)
        own[:, target, :rank] = was[:, source, :rank]
        started.append(own)
    return started


def _wider(
    old: SeparableNetwork,
    fresh: SeparableNetwork,
    coefficients: list[np.ndarray],
    random: list[np.ndarray],
) -> tuple[list[np.ndarray], np.ndarray]:
    """A sum of products, or a core, as a core of other ranks: new columns are orthogonal to those there are, and count nothing yet."""
    diagonal = np.zeros(old.merge.ranks)
    diagonal[(np.arange(min(diagonal.shape)),) * diagonal.ndim] = 1.0
    cores = np.stack([diagonal] * old.components) if old.core is None else np.asarray(old.core)
    started = []
    for i, (had, has, was, new) in enumerate(zip(old.axes, fresh.axes, coefficients, random)):
        source, target = _same(had, has)
        wide = np.zeros((*new.shape[:2], was.shape[2]))
        wide[:, target] = was[:, source]
        basis, upper = np.linalg.qr(wide, mode="complete")
        rank = new.shape[2]
        started.append(basis[..., :rank])
        cores = np.stack([multiply_core(c, {i: own[:rank]}) for own, c in zip(upper, cores)])
    return started, cores


def _same(had: Any, has: Any) -> tuple[np.ndarray, np.ndarray]:
    """The places of the functions that two axes share."""
    degrees = [axis.encoding.degrees for axis in (had, has)]
    shared = min(each.max() for each in degrees)
    first, second = (np.flatnonzero(each <= shared) for each in degrees)
    return first, second
