"""The levels of a solve without a recipe: how large a network each of them has, what it begins
with, and what it says about the next one."""

from __future__ import annotations

import dataclasses
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

from ...core import tuning
from ...domain import GaussLegendre
from ...equations import Problem
from ...networks import SPINN, SeparableNetwork
from ...recipe import Recipe, Solve
from ...residuals import Loss, Model, block_sizes
from ...separable import multiply_core

STEPS = 40
ALL = 10**6  # products: along two or three axes they are few, and a linear equation takes one step
MERGES = ("cp", "tucker", "tucker", "cp", "cp", "cp", "cp")  # with four axes a core is large
ITERATIONS = 500
# an axis is refined if cutting it short changes the solution by this part of the tolerance
MATTERS = 0.1


@dataclass(frozen=True)
class Level:
    """What was tried, and how good what came out is.

    Attributes:
        functions: of every axis.
        rank: the number of products of them.
        left: what is left of the residual, as a part of what it was for u = 0.
        tails: by axis, how much the last of its functions matter.
        missed: by condition, how far it is missed, as a part of what it asks for.
        estimate: of the relative L2 error; infinite where there is a family of solutions.
        products: the part of the error that more products of the same functions would take away.
        seconds: that it took.
        family: the dimensions of a family of solutions, at least; 0: there is none.
        free: unknown coefficients that nothing fixes, each by itself or together with others.
        grown: the estimate if what looks like a family is a solution that grows from little, so
            that much of it is hardly felt at the start.
    """

    functions: dict[str, int]
    rank: int
    left: float
    tails: dict[str, float]
    missed: dict[str, float]
    estimate: float
    products: float
    seconds: float
    family: int = 0
    free: tuple[str, ...] = ()
    grown: float = math.inf

    @classmethod
    def unknown(cls, functions: Mapping[str, int]) -> Level:
        """A level that was stopped before its first step: nothing is known of it.

        Arguments:
            functions: of every axis.
        """
        tails = dict.fromkeys(functions, math.inf)
        return cls(dict(functions), 0, math.inf, tails, {}, math.inf, math.inf, 0.0)

    @property
    def without_family(self) -> Level:
        """The same, where it is known that there is no family of solutions."""
        return dataclasses.replace(self, estimate=self.grown, family=0)


# --- recipes ------------------------------------------------------------------------------------


def polynomials(
    problem: Problem, functions: Mapping[str, int], rank: int, merge: str = "cp"
) -> SPINN:
    """Sums of products of polynomials, of waves along periodic axes.

    Arguments:
        problem: to be solved.
        functions: of every axis.
        rank: the number of products, or of the columns of every axis, as far as there are so many.
        merge: how the axes meet.
    """
    waves = max((functions[axis] // 2 for axis in problem.periodic), default=1)
    most = dict(functions) | dict.fromkeys(problem.periodic, 1 + 2 * waves)
    return SPINN(
        rank=rank if merge == "cp" else {axis: min(rank, n) for axis, n in most.items()},
        depth=0,
        body="mlp",
        functions=dict(functions),
        frequencies=waves,
        merge=merge,  # pyright: ignore[reportArgumentType]
    )


def points_for(functions: Mapping[str, int], spare: int = 4) -> dict[str, int]:
    """Points per axis on which so many functions are told apart, with at least `spare` more."""
    return {axis: n + max(spare, n // 3) for axis, n in functions.items()}


def recipe_for(
    problem: Problem, functions: Mapping[str, int], rank: int, merge: str | None = None
) -> Recipe:
    """The recipe of a level.

    Arguments:
        problem: to be solved.
        functions: of every axis.
        rank: as for `polynomials`.
        merge: how the axes meet; None chooses by their number.
    """
    dimension = problem.box.dimension
    network = polynomials(problem, functions, rank, merge or MERGES[dimension - 1])
    optimiser = Solve(STEPS)
    if dimension == 3:
        optimiser = Solve(STEPS, largest_matrix=tuning.MATRIX_IN_3D, iterations=ITERATIONS)
    points = points_for(functions, 4 if dimension <= 4 else 2)  # with many axes every point counts
    return Recipe(
        network, points, optimiser=optimiser, sampler=GaussLegendre(), precision="float64"
    )


def coefficients_of(problem: Problem, recipe: Recipe) -> int:
    """The number of coefficients that a recipe solves for."""
    return sum(block_sizes(Loss(problem, recipe)))


def refined(
    problem: Problem, level: Level, tolerance: float, growth: float = 1.5
) -> tuple[dict[str, int], int]:
    """The functions and the products of the next level.

    There are more functions along the axes where they are missed; more products where they are not,
    or where that is all there is.
    """
    most = max(level.tails.values())
    short = {a for a, tail in level.tails.items() if tail > max(MATTERS * tolerance, 0.1 * most)}
    few = problem.box.dimension <= 3  # axes: there are all products already
    grown = short or (set(level.functions) if few else set())
    functions = {a: math.ceil(growth * n) if a in grown else n for a, n in level.functions.items()}
    if few:
        return functions, 1 if problem.box.dimension == 1 else ALL
    resolved = most < level.products or not short
    return functions, math.ceil(1.5 * level.rank) if resolved else level.rank + 2


# --- networks -----------------------------------------------------------------------------------


def functions_of(problem: Problem, model: Model) -> dict[str, int]:
    """The number of functions of every axis."""
    return {a: axis.inputs for a, axis in zip(problem.box.axes, model.network.separable.axes)}


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
    """The fields on a lattice, by component.

    Arguments:
        network: the network.
        features: its functions on the lattice, by axis.
        coefficients: of these functions, by axis.
    """
    factors = [jnp.einsum("cnf,cfr->cnr", f[:, 0], c) for f, c in zip(features, coefficients)]
    cores = [None] * network.components if network.core is None else network.core
    each = [
        network.merge.contraction.on_lattice([f[c] for f in factors], core)
        for c, core in enumerate(cores)
    ]
    return jnp.stack(each)


def _parameters(
    problem: Problem, recipe: Recipe, coefficients: Any, core: Any, unknowns: Any
) -> Array:
    """The parameters of a recipe's network with these coefficients, as one vector."""
    network = Model.build(problem, recipe, jax.random.key(0)).network.separable
    made = Model(network.with_coefficients(coefficients, core), unknowns)
    return ravel_pytree(eqx.filter(made, eqx.is_array))[0]


def constants(problem: Problem, recipe: Recipe, values: Sequence[float]) -> Array:
    """Parameters of a network along one axis whose fields are these numbers."""

    def parameters() -> Array:
        model = Model.build(problem, recipe, jax.random.key(0))
        (own,) = (jnp.zeros_like(c) for c in model.network.separable.coefficients)
        own = own.at[:, 0, 0].set(jnp.asarray(values))
        return _parameters(problem, recipe, [own], None, model.unknowns)

    return jax.jit(parameters)()


def with_unknowns(
    problem: Problem, recipe: Recipe, seed: int, unknowns: Mapping[str, float]
) -> Array:
    """Parameters of a random network, and of unknown coefficients with these values."""

    def parameters(unknowns: Mapping[str, Array]) -> Array:
        made = Model.build(problem, recipe, jax.random.key(seed))
        return ravel_pytree(eqx.filter(Model(made.network, dict(unknowns)), eqx.is_array))[0]

    return jax.jit(parameters)({k: jnp.asarray(v, recipe.dtype) for k, v in unknowns.items()})


def begun(problem: Problem, recipe: Recipe, model: Model, seed: int) -> Array:
    """Parameters of another network that is this one, but for small new products.

    Arguments:
        problem: to be solved.
        recipe: of the other network.
        model: this one; what the other one has no functions or ranks for is left out.
        seed: of the random new products.
    """

    def built(key: Array) -> SeparableNetwork:
        return Model.build(problem, recipe, key).network.separable

    # as few programs as can be: nearly all the time here is compiling
    random = jax.jit(lambda key: built(key).coefficients)(jax.random.key(seed))
    old, fresh = model.network.separable, jax.eval_shape(built, jax.random.key(0))
    was = jax.jit(lambda network: network.coefficients)(old)
    was, random = [np.asarray(c) for c in was], [np.asarray(c) for c in random]
    if fresh.core is None:
        made, core = _more_products(old, fresh, was, random), None
    else:
        made, core = _wider(old, fresh, was, random)
    return jax.jit(lambda *known: _parameters(problem, recipe, *known))(made, core, model.unknowns)


def _more_products(
    old: SeparableNetwork,
    fresh: SeparableNetwork,
    coefficients: list[np.ndarray],
    random: list[np.ndarray],
) -> list[np.ndarray]:
    """The coefficients of a sum of more products, the new ones small."""
    started = []
    for had, has, was, new in zip(old.axes, fresh.axes, coefficients, random):
        rank = min(was.shape[-1], new.shape[-1])
        size = np.linalg.norm(was, axis=1).mean(-1)  # by component
        own = 1e-2 * new * size[:, None, None]
        own[..., :rank] = 0.0
        source, target = _shared(had, has)
        own[:, target, :rank] = was[:, source, :rank]
        started.append(own)
    return started


def _wider(
    old: SeparableNetwork,
    fresh: SeparableNetwork,
    coefficients: list[np.ndarray],
    random: list[np.ndarray],
) -> tuple[list[np.ndarray], np.ndarray]:
    """A sum of products, or a core, as a core of other ranks.

    New columns are orthogonal to those there are, and count nothing yet.
    """
    diagonal = np.zeros(old.merge.ranks)
    diagonal[(np.arange(min(diagonal.shape)),) * diagonal.ndim] = 1.0
    cores = np.stack([diagonal] * old.components) if old.core is None else np.asarray(old.core)
    started = []
    for i, (had, has, was, new) in enumerate(zip(old.axes, fresh.axes, coefficients, random)):
        source, target = _shared(had, has)
        wide = np.zeros((*new.shape[:2], was.shape[2]))
        wide[:, target] = was[:, source]
        basis, upper = np.linalg.qr(wide, mode="complete")
        rank = new.shape[2]
        started.append(basis[..., :rank])
        cores = np.stack([multiply_core(c, {i: own[:rank]}) for own, c in zip(upper, cores)])
    return started, cores


def _shared(had: Any, has: Any) -> tuple[np.ndarray, np.ndarray]:
    """The places of the functions that two axes share."""
    degrees = [axis.encoding.degrees for axis in (had, has)]
    most = min(each.max() for each in degrees)
    first, second = (np.flatnonzero(each <= most) for each in degrees)
    return first, second
