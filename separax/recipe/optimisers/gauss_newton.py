"""Gauss-Newton for all weights: residuals linearised, and their least squares solved for."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ...core import check_fits
from .base import Objective, Parameters
from .damping import (
    FIRST,
    AbstractDamped,
    Damped,
    Rule,
    by_cholesky,
    by_conjugate_gradients,
    lowered,
)

COPIES = 6  # of the matrix, at most, at one time
TINY = 1e-300
# Nielsen's: the better the linearised residuals foretold what came, the less damping
SMOOTH = Rule(4.0, lambda share, tries: jnp.maximum(1 / 3, 1 - (2 * share - 1) ** 3), stale=20)


class GaussNewton(AbstractDamped):
    """Gauss-Newton steps with Levenberg-Marquardt damping over all weights.

        optimiser=[sx.Adam(5e-3, "cosine", steps=1_000), sx.GaussNewton(100)], precision="float64"

    A loss is a sum of squares of residuals. Linearised in the weights, of hidden layers and unknown
    coefficients too, their least squares are a linear problem, whose solution is the step: that
    sees the curvature which quasi-Newton methods have to learn. `Solve` does it for output layers
    and leaves the features what they are; this one trains the features as well, so it is for
    networks with hidden layers. A step takes long, and few are needed. Points are drawn once, as
    for `LBFGS`: give it more of them than it could fit, best `GaussLegendre`.

    The matrix of a separable network comes from one-dimensional Jacobians, at a small part of what
    all residuals' would cost. Where there are too many weights for a matrix, for pointwise
    networks, and where a soft `Periodic` condition joins two faces, the linear problem is solved by
    conjugate gradients instead, which need no matrix and leave something of it.

    Arguments:
        steps: at most how many; None takes the recipe's. It is over earlier when nothing is gained
            any more.
        largest_matrix: weights up to which there is a matrix; 0: never one.
        iterations: of conjugate gradients in one step, at most.
        tries: dampings that one step may try.
    """

    steps: int | None = 100
    largest_matrix: int = 3_000
    iterations: int = 200
    tries: int = 16
    most: InitVar[Any] = None

    def __post_init__(self, most: Any):
        self.refuse_most(most)
        self.check_whole(steps=1, largest_matrix=0, iterations=1, tries=1)

    def init(self, objective: Objective, params: Parameters) -> Damped:
        number = len(params)
        if number <= self.largest_matrix:
            check_fits(
                f"GaussNewton: the matrix of {number:,} × {number:,} weights",
                COPIES * 8 * number**2,
                "use a smaller network, or largest_matrix=0 for conjugate gradients",
            )
        return Damped.first(objective(params), FIRST)

    def improved(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        residuals = objective.residuals
        if residuals.separable and len(params) <= self.largest_matrix:
            normal = residuals.normal(params)
            diagonal, solved = jnp.diag(normal.matrix), by_cholesky(normal.matrix, normal.gradient)
        else:
            diagonal, solved = by_conjugate_gradients(
                lambda step: residuals.left(params + step), params, state.number, self.iterations
            )
        # Damping is in proportion to the loss, so that where that goes to zero, convergence is
        # quadratic; and the same for all weights: a weight that hardly matters now, as those of a
        # factor that the others have made small, is not free to go anywhere.
        first = FIRST * jnp.max(diagonal) / jnp.maximum(state.value, TINY)
        state = state._replace(damping=jnp.where(state.number == 0, first, state.damping))

        def moved(damping: Array) -> tuple[Array, Array]:
            step, foreseen = solved(damping * state.value)
            return params + step, foreseen

        return lowered(params, state, objective, moved, self.tries, SMOOTH)
