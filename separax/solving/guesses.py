"""First guesses of unknown coefficients that are better than those of the user.

Where fields stand linearly in an equation they follow from the unknowns k by least squares,

    f(k) = min_u |r₀(k) + J(k) u|²,

which takes a moment for a few functions. So many k's are tried, over decades around the guess, and
the best are improved by Gauss-Newton steps in log |k|. An unknown keeps the sign of its guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from ..core import options_for_few_runs, threads_for
from ..domain import GaussLegendre, Points
from ..equations import Problem
from ..networks import highest
from ..recipe import Recipe, Solve
from ..residuals import Loss, Model, linearised
from ..training import Interrupt
from .polynomials.estimate import jacobian_of
from .polynomials.levels import points_for, polynomials

FUNCTIONS = (32, 10, 5)  # per axis, for one to three axes
DECADES = 4.0  # to both sides of a guess
TRIED = {1: 128, 2: 256}  # guesses, for one unknown and two; MANY for more
MANY = 512
IMPROVED = 6  # of these, the best
STEPS = 60
DIFFERENT = 0.5  # decades: two that are closer end alike
LINEAR = 1e-6


def better_guess(problem: Problem, interrupt: Interrupt) -> dict[str, float] | None:
    """Values of the unknowns that leave less of residuals and conditions than others do.

    Arguments:
        problem: with unknowns.
        interrupt: whether to stop.

    Returns: None where the fields are not linear in the equation, or there are too many axes.
    """
    if not problem.unknowns or problem.box.dimension > len(FUNCTIONS):
        return None
    with threads_for(1):
        return _better_guess(problem, interrupt)


def _better_guess(problem: Problem, interrupt: Interrupt) -> dict[str, float] | None:
    left_by = _projected(problem)
    if left_by is None:
        return None
    names = list(problem.unknowns)
    own = np.array([problem.unknowns[name] or 1.0 for name in names])

    def left(logs: np.ndarray) -> np.ndarray:
        return left_by(dict(zip(names, own * 10.0**logs)))

    number = TRIED.get(len(names), MANY)
    spread = scipy.stats.qmc.Halton(len(names), scramble=False).random(number)
    tries = np.concatenate([np.zeros((1, len(names))), DECADES * (2 * spread - 1)])
    found: list[tuple[float, np.ndarray]] = []
    for logs in tries:
        if interrupt.asked:
            break
        found.append((float(np.sum(left(logs) ** 2)), logs))
    found = sorted((each for each in found if math.isfinite(each[0])), key=lambda each: each[0])
    chosen: list[np.ndarray] = []
    for _, logs in found:
        if all(np.max(np.abs(logs - other)) > DIFFERENT for other in chosen):
            chosen.append(logs)
    best, values = math.inf, None
    for logs in chosen[:IMPROVED]:
        if interrupt.asked:
            break
        ended = scipy.optimize.least_squares(left, logs, xtol=1e-10, max_nfev=STEPS)
        if ended.cost < best:
            best, values = ended.cost, ended.x
    return None if values is None else dict(zip(names, (own * 10.0**values).tolist()))


def _projected(problem: Problem) -> Callable[[Mapping[str, float]], np.ndarray] | None:
    """From unknowns to what the best fields for them leave; None where these are not found by
    linear least squares."""
    counts = dict.fromkeys(problem.box.axes, FUNCTIONS[problem.box.dimension - 1])
    recipe = Recipe(
        polynomials(problem, counts, 1),
        points_for(counts),
        optimiser=Solve(1),
        sampler=GaussLegendre(),
        precision="float64",
    )
    loss = Loss(problem, recipe)
    places = loss.draw(jax.random.key(0), jnp.zeros((), jnp.int32))
    order = max(highest(needs) for needs in loss.needs)
    model = jax.jit(lambda key: eqx.filter(Model.build(problem, recipe, key), eqx.is_array))
    arrays = model(jax.random.key(0))
    whole = Model.build(problem, recipe, jax.random.key(0))
    static = eqx.filter(whole, eqx.is_array, inverse=True)
    scattered: list[bool] = []

    def evaluated(unknowns: Mapping[str, jax.Array], scale: jax.Array) -> list:
        network = eqx.combine(arrays, static).network.separable
        scaled = network.with_coefficients([scale * c for c in network.coefficients])
        scattered.clear()
        parts = []
        for part in linearised(loss, Model(scaled, dict(unknowns)), places, {}):
            scattered.append(isinstance(part.place, Points))
            functions = network.features(part.place.coordinates, order)
            parts.append((part.residual, part.derivatives, functions))
        return parts

    program = jax.jit(evaluated, compiler_options=options_for_few_runs())

    def rows(values: Mapping[str, float], scale: float) -> tuple[np.ndarray, np.ndarray]:
        known = {name: jnp.asarray(value, float) for name, value in values.items()}
        parts = jax.tree.map(np.asarray, program(known, jnp.asarray(scale, float)))
        matrix = [
            jacobian_of(slopes, features, residual.shape[0], apart)
            for (residual, slopes, features), apart in zip(parts, scattered)
        ]
        return np.concatenate(matrix), np.concatenate([r.ravel() for r, _, _ in parts])

    def left(values: Mapping[str, float]) -> np.ndarray:
        matrix, right = rows(values, 0.0)
        size = np.linalg.norm(matrix, axis=0)
        scaled = matrix / np.where(size > 0, size, 1.0)
        if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(right))):
            return np.full(right.shape, 1e150)
        found: Any = scipy.linalg.lstsq(scaled, -right, 1e-13, lapack_driver="gelsy")
        solved = found[0]
        return right + scaled @ solved

    first, second = (rows(problem.unknowns, scale)[0] for scale in (0.0, 1.0))
    same = np.linalg.norm(second - first) <= LINEAR * np.linalg.norm(first)
    return left if same else None
