"""The output layers solved for instead of trained: Gauss-Newton with normal equations."""

from __future__ import annotations

from dataclasses import InitVar
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ...core import InputError, check_fits, listed
from ...equations import Problem
from .base import Objective, Parameters
from .least_squares import (
    FIRST,
    AbstractDamped,
    Damped,
    Rule,
    by_cholesky,
    by_conjugate_gradients,
    lowered,
)

if TYPE_CHECKING:
    from ..recipe import Recipe

TENFOLD = Rule(
    grown=10.0,
    eased=lambda share, tries: jnp.where((tries == 1) & (share > 0.25), 0.1, 1.0),
    stale=5,
    smallest=1e-15,
    largest=1e6,
)
SIZES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the factors a solve may begin with


class Solve(AbstractDamped):
    """Solves for the output layers of a separable network; the hidden layers stay what they are.

        optimiser=sx.Solve(), sampler=sx.GaussLegendre(), precision="float64"
        optimiser=[sx.Adam(5e-3, "cosine", steps=5_000), sx.Solve(50)]  # on trained features

    With the factors of the other axes held, a separable network is linear in the output layer of an
    axis, and in the core of a Tucker merge: the first steps solve for one after the other. The
    steps after that take all of them at once (Gauss-Newton with Levenberg-Marquardt damping), which
    converges quadratically where the equation can be met. A linear residual needs no linearisation,
    a nonlinear one is linearised at every step. Points are drawn once and need to be more than the
    features of an axis: `GaussLegendre` is the sampler of choice.

    Arguments:
        steps: at most how many; None takes the recipe's. It is over earlier when nothing is gained
            any more.
        sweeps: how often to go round the axes first, a core being solved for before each of them;
            0: one step, of the first axis or the core.
        tries: dampings that one step may try.
        largest_matrix: coefficients up to which there is a matrix. More of them are solved for by
            conjugate gradients, which need none and leave something of the linear problem.
        iterations: of conjugate gradients in one step, at most.
    """

    steps: int | None = 60
    sweeps: int = 2
    tries: int = 16
    largest_matrix: int = 15_000
    iterations: int = 100
    most: InitVar[Any] = None

    def __post_init__(self, most: Any):
        self.refuse_most(most)
        self.check_whole(steps=1, sweeps=0, tries=1, largest_matrix=0, iterations=1)

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        network = recipe.network.solvable("optimiser: Solve")
        super().check(recipe, problem)
        if problem is None:
            return
        numbers = dict(network.functions)
        for axis, points in recipe.counts(problem.box).items():
            functions = numbers.get(axis, numbers.get(None, 0))
            # residuals would vanish at the points and nowhere else
            if axis not in problem.periodic and functions >= points:
                enough = functions + max(1, functions // 3)
                raise InputError(
                    f"points: {points} along {axis} cannot tell {functions} polynomials apart: use"
                    f" more than there are functions, e.g. points={enough}, or fewer functions"
                )
        if coupled := [term.name for term in problem.terms if term.couples_points]:
            raise InputError(
                f"optimiser: Solve cannot have {listed(coupled)} yet, where what is left at a point"
                " depends on others: build a Periodic condition in (hard=True), or use sx.BFGS"
            )

    def jacobian_numbers(self, objective: Objective) -> float:
        assert self.steps is not None  # never while it is at work
        return objective.rows * sum(objective.output_layers.sizes) * self.steps

    @property
    def if_diverged(self) -> str:
        return (
            "A root or a logarithm of a field that is negative at the start? Write the equation for"
            " another field, like log u, or train a network, sx.solve(problem, sx.Recipe())"
        )

    def init(self, objective: Objective, params: Parameters) -> Damped:
        # its first step finds out how good the start is: another program would be compiled for it
        return Damped.first(jnp.asarray(jnp.inf, params.dtype), 1e-8)

    def improved(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        layers = objective.output_layers
        params, value = lax.cond(
            state.number == 0, lambda: _sized(params, objective), lambda: (params, state.value)
        )
        phases = len(layers.phases)
        # a solve begins with one block at least: nothing moves where all is zero
        first = max(self.sweeps * phases, 1)
        # where there is one block only, every step is a step of it alone
        single = sum(size > 0 for size in layers.sizes) == 1
        alone = jnp.asarray(single) | (state.number < first)
        basis = layers.basis(params)
        free = _masks(layers.sizes, layers.phases)[jnp.where(alone, state.number % phases, -1)]
        number = sum(layers.sizes)
        if number <= self.largest_matrix:
            check_fits(
                f"Solve: the matrix of {number:,} × {number:,} coefficients",
                5 * 8 * number**2,
                "use fewer functions, a smaller rank, or conjugate gradients:"
                " sx.Solve(largest_matrix=0)",
            )
            normal = layers.normal(params, basis)
            diagonal = jnp.diag(normal.matrix)
            kept = diagonal > 1e-30 * jnp.max(diagonal)  # what no residual feels is left alone
            scale = jnp.where(free & kept, 1 / jnp.sqrt(jnp.where(kept, diagonal, 1.0)), 0.0)
            solved = by_cholesky(normal.matrix, normal.gradient, scale)
        else:
            _, solved = by_conjugate_gradients(
                lambda step: layers.vector(layers.moved(params, step, basis)),
                jnp.zeros(number, params.dtype),
                state.number,
                self.iterations,
                free,
                scaled=True,
            )
        # all axes at once is a larger venture than one: it begins with more caution
        damping = jnp.where(~alone & (state.number == first), FIRST, state.damping)

        def moved(damping: Array) -> tuple[Array, Array]:
            step, foreseen = solved(damping)
            return layers.moved(params, step, basis), foreseen

        # one axis may have nothing to gain where the next has
        patient = alone & ~jnp.asarray(single)
        begun = state._replace(value=value, damping=damping)
        after, then = lowered(
            params, begun, objective, moved, self.tries, TENFOLD, patient, whole=single
        )
        return jnp.where(then.value < value, layers.balanced(after), params), then


def _sized(params: Parameters, objective: Objective) -> tuple[Array, Array]:
    """The factors at the size that suits the problem best: a nonlinear one may be far from its
    solution at size one."""
    layers = objective.output_layers
    params = layers.balanced(params)
    # a core is linear in what it makes of the columns, so it can begin with nothing
    sizes = (*SIZES, 0.0) if layers.core else SIZES
    candidates = jnp.stack([layers.resized(params, size) for size in sizes])
    values = lax.map(objective, candidates)
    values = jnp.where(jnp.isfinite(values), values, jnp.inf)
    # the largest that will do: near zero no factor sees the others
    best = jnp.argmax(values <= 2 * jnp.min(values))
    return candidates[best], values[best]


def _masks(sizes: tuple[int, ...], phases: tuple[tuple[int, ...], ...]) -> Array:
    """Which coefficients a step may change, by its phase; in the last one all, and unknowns too."""
    block = np.repeat(np.arange(len(sizes)), sizes)
    return jnp.asarray([*(np.isin(block, phase) for phase in phases), np.ones(len(block), bool)])
