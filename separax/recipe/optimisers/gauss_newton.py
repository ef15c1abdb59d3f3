"""Gauss-Newton for all weights: residuals linearised, and their least squares solved for."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from ...core import check_fits, whole
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
    """Gauss-Newton steps with Levenberg-Marquardt damping over all weights, hidden layers and unknown coefficients too.

        optimiser=[sx.Adam(5e-3, "cosine", steps=1_000), sx.GaussNewton(100)], precision="float64"

    A loss is a sum of squares of residuals. Linearised in the weights, their least squares are a linear problem, whose solution is the
    step: that sees the curvature which quasi-Newton methods have to learn. `Solve` does it for output layers and leaves the features what
    they are; this one trains the features as well, so it is for networks with hidden layers. A step takes long, and few are needed. Points
    are drawn once, as for `LBFGS`: give it more of them than it could fit, best `GaussLegendre`.

    The matrix of a separable network comes from one-dimensional Jacobians, at a small part of what all residuals' would cost. Where there
    are too many weights for a matrix, for pointwise networks, and where a soft `Periodic` condition joins two faces, the linear problem is
    solved by conjugate gradients instead, which need no matrix and leave something of it.

    Arguments:
        steps: at most how many; None takes the recipe's. It is over earlier when nothing is gained any more.
        most: weights for which there is a matrix; 0: never one.
        iterations: of conjugate gradients in one step, at most.
        tries: dampings that one step may try.
    """

    steps: int | None = 100
    most: int = 3_000
    iterations: int = 200
    tries: int = 16

    def __post_init__(self):
        if self.steps is not None:
            object.__setattr__(self, "steps", whole("GaussNewton: steps", self.steps))
        object.__setattr__(self, "most", whole("GaussNewton: most", self.most, 0))
        object.__setattr__(self, "iterations", whole("GaussNewton: iterations", self.iterations))
        object.__setattr__(self, "tries", whole("GaussNewton: tries", self.tries))

    def init(self, objective: Objective, params: Parameters) -> Damped:
        number = len(params)
        if number <= self.most:
            check_fits(
                f"GaussNewton: the matrix of {number:,} × {number:,} weights",
                COPIES * 8 * number**2,
                "use a smaller network, or most=0 for conjugate gradients",
            )
        return Damped.first(objective(params), FIRST)

    def improved(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        residuals = objective.residuals
        if residuals.separable and len(params) <= self.most:
            normal = residuals.normal(params)
            diagonal, solved = jnp.diag(normal.matrix), by_cholesky(normal.matrix, normal.gradient)
        else:
            diagonal, solved = by_conjugate_gradients(
                lambda step: residuals.left(params + step), params, state.number, self.iterations
            )
        # Damping is in proportion to the loss, so that where that goes to zero, convergence is quadratic; and the same for all weights:
        # a weight that hardly matters now, as those of a factor that the others have made small, is not free to go anywhere.
        first = FIRST * jnp.max(diagonal) / jnp.maximum(state.value, TINY)
        state = state._replace(damping=jnp.where(state.number == 0, first, state.damping))

        def moved(damping: Array) -> tuple[Array, Array]:
            step, foreseen = solved(damping * state.value)
            return params + step, foreseen

        return lowered(params, state, objective, moved, self.tries, SMOOTH)
