"""What `solve` does without a recipe: sums of products of polynomials, solved for, refined until the error is small enough.

    level ─► Solve ─► how much do the last functions of each axis matter? is anything left of the residual? ─► next level

Every level begins with the solution of the one before. Which axes get more functions, and whether there are more products, follows
from what the last level left.

The error is estimated from what is left of the residual at points that were not solved on, times the most that a solution can move for a
residual of that size: the largest generalised eigenvalue of the fields' own normal matrix against that of the loss. Where something can
move without any residual, the conditions leave more than one solution, and nothing is promised but said. With more coefficients than
these matrices are decomposed for, two levels are compared instead.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .domain import GaussLegendre, Lattice
from .layers import Layers, block_sizes
from .loss import Loss, Model
from .networks import SPINN, SeparableNetwork
from .normal import mass
from .optimisers import Solve
from .problem import Problem
from .progress import say
from .recipe import Recipe
from .separable import add_up
from .session import Interrupt, Programs, Session, Window, check_memory
from .solution import Solution, error_lattice, on_host
from .training import Trainer

TOLERANCE = 1e-4
FUNCTIONS = (48, 24, 16, 9, 6, 5, 4)  # per axis to begin with, for one to seven axes
RANKS = (1, 8, 8, 6, 6, 6, 6)
MERGES = ("cp", "cp", "tucker", "cp", "cp", "cp", "cp")  # with two axes a core adds nothing, with four it is large
LEVELS = 6
STEPS = 40
MOST = 6_000  # coefficients: the matrix of their normal equations is factored in seconds
MATTERS = 0.1  # an axis is refined if cutting it short changes the solution by this part of the tolerance
DECOMPOSED = 2_500  # coefficients whose normal matrix is decomposed
BARELY = 2e-15  # of a scaled normal matrix: what rounding leaves of a direction that no residual feels
FEW = 12  # functions per axis that show how far a solution can move
LOOSE = 1e3  # a relative error this many times its residual: the solution is not determined
SAFE = 3.0  # of the estimate against what it leaves out


@dataclass(frozen=True)
class Level:
    """What was tried and what came out: `estimate` of the relative L2 error, `left` of the residual as a part of what it was for u = 0,
    and by axis how much the last of its functions matter."""

    functions: dict[str, int]
    rank: int
    left: float
    tails: dict[str, float]
    estimate: float
    seconds: float


def suits(problem: Problem) -> bool:
    """Whether the output layers of a problem can be solved for."""
    return problem.box.dimension <= len(FUNCTIONS) and not any(term.condition.jump for term in problem.terms)


def recipe_for(problem: Problem, functions: Mapping[str, int], rank: int, merge: Any = "cp") -> Recipe:
    periodic = [functions[a] // 2 for a in problem.box.axes if a in problem.periodic]
    frequencies = max(periodic, default=1)
    ranks = {a: min(rank, 1 + 2 * frequencies if a in problem.periodic else n) for a, n in functions.items()}
    network = SPINN(
        rank=rank if merge == "cp" else ranks,
        depth=0,
        body="mlp",
        functions=dict(functions),
        frequencies=frequencies,
        merge=merge,
    )
    points = {a: n + max(4, n // 3) for a, n in functions.items()}
    return Recipe(network, points, optimiser=Solve(STEPS), sampler=GaussLegendre(), precision="float64")


def automatic(problem: Problem, tolerance: float, seed: int, report: Callable[..., Any], interrupt: Interrupt) -> Solution:
    """The solution of the last level, with the `levels` and its `estimate`."""
    dimension = problem.box.dimension
    functions = dict.fromkeys(problem.box.axes, FUNCTIONS[dimension - 1])
    rank, merge, levels = RANKS[dimension - 1], MERGES[dimension - 1], []
    found: Solution | None = None
    for number in range(LEVELS):
        recipe = recipe_for(problem, functions, rank, merge)
        trainer = Trainer(Loss(problem, recipe))
        check_memory(trainer)
        started = None if found is None else _begun(problem, recipe, found.model, seed + number)
        session = Session(Programs(trainer), [seed], None, interrupt, Window(problem, 0, 0.0, {}, started))
        done = number * STEPS
        session.go(lambda step, steps, done=done, **now: report(step=done + step, steps=LEVELS * STEPS, **now))
        before, last = found, session.finish()
        assert isinstance(last, Solution)  # one seed
        found = last
        zero = _at_zero(trainer, session.state)
        left, tails = math.sqrt(found.best_loss / zero), _tails(found)
        loose, family = _looseness(found, zero)
        estimate = _estimate(before, found, levels, left, loose)
        levels.append(
            Level(dict(functions), rank, left, tails, estimate, found.timing.compile_seconds + found.timing.train_seconds)
        )
        found.levels, found.estimate = tuple(levels), estimate
        if family:
            say(
                f"{problem.name}: the conditions leave a family of solutions of {family} dimension{'s' * (family > 1)} at least (as far as these functions can tell):"
                " this is one of them. An initial or boundary condition is missing; an equation of second order in t needs u_t at the start too"
            )
        if family or estimate <= tolerance or interrupt.asked:
            break
        functions, rank = _refined(problem, levels[-1], tolerance)
        if sum(block_sizes(Loss(problem, recipe_for(problem, functions, rank, merge)))) > MOST:
            break
    assert found is not None  # there is one level at least
    return found


def _estimate(before: Solution | None, found: Solution, levels: list[Level], left: float, loose: float | None) -> float:
    if loose is not None:
        return SAFE * loose * left if loose < LOOSE else math.inf
    if before is None:
        return math.inf  # one level alone says nothing
    lattice = error_lattice(found.problem, 2**15)
    moved = found.relative_l2(before(lattice) if len(found.problem.outputs) == 1 else dict(before(lattice)), **_by_axis(lattice))
    # the last level's error, and by how much the residual has shrunk since
    return moved * min(1.0, left / max(levels[-1].left, 1e-300))


def _looseness(found: Solution, zero: float) -> tuple[float | None, int]:
    """The most that a solution can move, relative to its size, for a residual that is small relative to that of u = 0 (whose loss is
    `zero`); and in how many directions it can move for nothing. None where there are too many coefficients to tell.

    What moves most is smooth, so a few functions per axis tell, and rounding hides less among few.
    """
    problem, network = found.problem, found.recipe.network
    assert isinstance(network, SPINN)
    rank = network.rank if network.merge == "cp" else max(dict(network.rank).values())
    recipe = recipe_for(problem, {a: min(n, FEW) for a, n in dict(network.functions).items()}, rank, network.merge)
    trainer = Trainer(Loss(problem, recipe))
    trainer.like(jax.random.key(0))
    places = trainer.loss.draw(jax.random.key(0), jnp.zeros((), jnp.int32))
    layers = Layers(trainer.loss, lambda p: trainer._value(p, places, {})[0], trainer.model, places, {})
    inside = places[0]
    assert isinstance(inside, Lattice)  # as of any separable network
    if sum(layers.sizes) > DECOMPOSED:
        return None, 0

    def matrices(params: Array) -> tuple[Array, Array, Array]:
        model, basis = trainer.model(params), layers.basis(params)
        network = model.network
        assert isinstance(network, SeparableNetwork)
        fields = _values(network, network.features(inside.coordinates, 0), network.coefficients) + _known(
            network, inside.coordinates
        )
        size = add_up(inside.mean(field**2) for field in fields)
        return layers.normal(params, basis).matrix, mass(model, inside, basis), size

    felt, moves, size = map(np.asarray, jax.jit(matrices)(_begun(problem, recipe, found.model, 0)))
    diagonal = np.diag(felt)
    kept = diagonal > 1e-30 * diagonal.max()
    scale = 1 / np.sqrt(diagonal[kept])
    felt, moves = (m[np.ix_(kept, kept)] * scale[:, None] * scale for m in (felt, moves))
    lower = _root(felt)
    half = scipy.linalg.solve_triangular(lower, moves, lower=True)
    ratios = np.linalg.eigvalsh(scipy.linalg.solve_triangular(lower, half.T, lower=True))
    relative = np.sqrt(np.maximum(ratios, 0.0) * zero / max(float(size), 1e-300))
    return float(relative[-1]), int(np.sum(relative >= LOOSE))


def _root(matrix: np.ndarray) -> np.ndarray:
    """The Cholesky factor of a matrix whose diagonal is one, with as little added as rounding demands."""
    for more in (1.0, 1e1, 1e2, 1e3):
        with contextlib.suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(matrix + more * BARELY * len(matrix) * np.eye(len(matrix)))
    return np.linalg.cholesky(matrix + 1e-9 * len(matrix) * np.eye(len(matrix)))


def _by_axis(lattice: Any) -> dict[str, Any]:
    return dict(zip(lattice.axes, lattice.coordinates))


def _at_zero(trainer: Trainer, state: Any) -> float:
    """The loss of u = 0: the size of what is to be met."""
    zero = jnp.zeros_like(state.best)
    return max(float(jax.jit(trainer._on_unseen)(zero, state)), 1e-300)


def _tails(found: Solution) -> dict[str, float]:
    """By axis: the relative change of the solution where the last sixth of its functions is left out."""
    network = found.model.network
    assert isinstance(network, SeparableNetwork)
    with jax.enable_x64(True), on_host():
        lattice = error_lattice(found.problem, 2**14)
        coordinates = tuple(jnp.asarray(c) for c in lattice.coordinates)
        features = network.features(coordinates, 0)
        whole = _values(network, features, network.coefficients)
        size = float(jnp.linalg.norm(whole + _known(network, coordinates)))
        out = {}
        for i, (axis, known) in enumerate(zip(found.problem.box.axes, network.axes)):
            last = known.inputs - max(2, known.inputs // 6)
            cut = list(network.coefficients)
            cut[i] = cut[i].at[:, last:].set(0.0)
            out[axis] = float(jnp.linalg.norm(_values(network, features, cut) - whole)) / max(size, 1e-300)
    return out


def _values(network: SeparableNetwork, features: Any, coefficients: Any) -> Array:
    factors = [jnp.einsum("cnf,cfr->cnr", f[:, 0], c) for f, c in zip(features, coefficients)]
    cores = [None] * network.components if network.core is None else network.core
    return jnp.stack([network.merge.on_lattice([f[c] for f in factors], cores[c]) for c in range(network.components)])


def _known(network: SeparableNetwork, coordinates: Any) -> Array | float:
    """What is built into the fields."""
    return 0.0 if network.lift is None else network.lift.on_lattice(coordinates)


def _refined(problem: Problem, level: Level, tolerance: float) -> tuple[dict[str, int], int]:
    """More functions along the axes where they are missed; more products where they are not, or where that is all there is."""
    most = max(level.tails.values())
    short = {a for a, tail in level.tails.items() if tail > max(MATTERS * tolerance, 0.1 * most)}
    functions = {a: math.ceil(1.5 * n) if a in short else n for a, n in level.functions.items()}
    resolved = most < 0.3 * level.left or not short
    rank = level.rank if problem.box.dimension == 1 else math.ceil(1.5 * level.rank) if resolved else level.rank + 2
    return functions, rank


def _begun(problem: Problem, recipe: Recipe, model: Model, seed: int) -> Array:
    """Parameters of another network that is this one, as far as its functions and ranks go, and but for small new products."""
    with jax.enable_x64(True):
        new = Model.build(problem, recipe, jax.random.key(seed))
        old, fresh = model.network, new.network
        assert isinstance(old, SeparableNetwork)
        assert isinstance(fresh, SeparableNetwork)
        network = _more_products(old, fresh) if fresh.core is None else _wider(old, fresh)
        return ravel_pytree(eqx.filter(Model(network, model.unknowns), eqx.is_array))[0]


def _more_products(old: SeparableNetwork, fresh: SeparableNetwork) -> SeparableNetwork:
    started = []
    for had, has, was, random in zip(old.axes, fresh.axes, old.coefficients, fresh.coefficients):
        rank = min(was.shape[-1], random.shape[-1])
        size = np.asarray(jnp.linalg.norm(was, axis=1).mean(-1))  # by component
        own = (1e-2 * random * size[:, None, None]).at[..., :rank].set(0.0)
        source, target = _same(had, has)
        started.append(own.at[:, target, :rank].set(was[:, source, :rank]))
    return fresh.with_coefficients(started)


def _wider(old: SeparableNetwork, fresh: SeparableNetwork) -> SeparableNetwork:
    """A sum of products, or a core, as a core of other ranks: new columns are orthogonal to those there are, and count nothing yet."""
    diagonal = np.zeros(old.merge.ranks)
    diagonal[(np.arange(min(diagonal.shape)),) * diagonal.ndim] = 1.0
    cores = np.stack([diagonal] * old.components) if old.core is None else np.asarray(old.core)
    started = []
    for i, (had, has, was, new) in enumerate(zip(old.axes, fresh.axes, old.coefficients, fresh.coefficients)):
        source, target = _same(had, has)
        wide = np.zeros((*new.shape[:2], was.shape[2]))
        wide[:, target] = np.asarray(was)[:, source]
        basis, upper = np.linalg.qr(wide, mode="complete")
        rank = new.shape[2]
        started.append(jnp.asarray(basis[..., :rank]))
        turned = [np.tensordot(own[:rank], core, (1, i)) for own, core in zip(upper, cores)]
        cores = np.stack([np.moveaxis(each, 0, i) for each in turned])
    return fresh.with_coefficients(started, jnp.asarray(cores))


def _same(had: Any, has: Any) -> tuple[np.ndarray, np.ndarray]:
    """The places of the functions that two axes share."""
    if not had.frequencies:
        same = np.arange(min(had.inputs, has.inputs))
        return same, same
    # sines and cosines stand one after the other, not in order of frequency
    n = np.arange(1, 1 + min(had.frequencies, has.frequencies))
    return np.r_[0, n, n + had.frequencies], np.r_[0, n, n + has.frequencies]
