"""BFGS with self-scaling: a quasi-Newton method that keeps the whole inverse Hessian."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from ...core import check_fits, finite, whole
from .base import AbstractMinimiser, Objective, Parameters


class BFGS(AbstractMinimiser):
    """Self-scaled BFGS with a zoom line search (optax's): for networks of up to some ten thousand parameters, and high accuracy.

        optimiser=[sx.Adam(5e-3, "cosine", steps=2_000), sx.BFGS(3_000)], precision="float64"

    A residual's loss is badly conditioned, and L-BFGS forgets most of what it saw of that. This one keeps all of it, in a matrix of
    parameters × parameters, and enlarges it where the last step showed it too small (Al-Baali's self-scaling), without which
    early, poor estimates last long. Points are drawn once, as for `LBFGS`.

    Arguments:
        steps: how many; None takes the recipe's.
        tries: evaluations that one line search may take.
        slack: as for `LBFGS`.
        scaled: False for plain BFGS.
    """

    steps: int | None = None
    tries: int = 20
    slack: float = 1e-3
    scaled: bool = True

    def __post_init__(self):
        if self.steps is not None:
            object.__setattr__(self, "steps", whole("BFGS: steps", self.steps))
        object.__setattr__(self, "tries", whole("BFGS: tries", self.tries))
        finite("BFGS: slack", self.slack, positive=True)

    def _line(self) -> Any:
        return optax.scale_by_zoom_linesearch(
            self.tries, approx_dec_rtol=self.slack, initial_guess_strategy="one"
        )

    def init(self, objective: Objective, params: Parameters) -> BFGSState:
        wide, number = jnp.float64, params.shape[0]
        check_fits(
            f"BFGS: the matrix of {number:,} × {number:,} parameters",
            3 * 8 * number**2,
            "use a smaller network, or sx.LBFGS",
        )
        value, gradient = jax.value_and_grad(objective)(params)
        true = jnp.ones((), bool)
        return BFGSState(
            self._line().init(params.astype(wide)),
            jnp.eye(number, dtype=wide),
            value.astype(wide),
            gradient.astype(wide),
            true,
            ~true,
        )

    def step(
        self, objective: Objective, params: Parameters, state: BFGSState
    ) -> tuple[Parameters, BFGSState]:
        start = params.astype(jnp.float64)

        def wide(at: Array) -> Array:
            return objective(at.astype(params.dtype)).astype(jnp.float64)

        gradient = jnp.where(
            state.done, 0.0, state.gradient
        )  # with nothing to go along, a search ends at its first try
        newton = -(state.inverse @ gradient)
        # steepest descent knows no length: begin with a step of one at most
        direction = jnp.where(
            state.fresh, newton / jnp.maximum(jnp.linalg.norm(newton), 1.0), newton
        )
        step, after = self._line().update(
            direction, state.line, start, value=state.value, grad=gradient, value_fn=wide
        )
        moved = (start + step).astype(params.dtype)
        found = (after.info.decrease_error <= 0.0) & jnp.any(moved != params)
        found = (found | (after.value < state.value)) & jnp.isfinite(after.value)
        length = jnp.linalg.norm(step) / jnp.maximum(jnp.linalg.norm(newton), 1e-300)
        expected = -length * (
            step @ gradient
        )  # the curvature along the step, by the estimate so far
        inverse, known = _improved(
            state, step, after.grad - gradient, expected if self.scaled else None
        )
        number = params.shape[0]
        return jnp.where(found, moved, params), BFGSState(
            after,
            jnp.where(
                found, inverse, jnp.eye(number, dtype=inverse.dtype)
            ),  # what led nowhere is forgotten
            jnp.where(found, after.value, state.value),
            jnp.where(found, after.grad, state.gradient),
            jnp.where(found, state.fresh & ~known, True),
            state.done | (state.fresh & ~found),
        )


class BFGSState(NamedTuple):
    line: Any  # optax's
    inverse: Float[Array, "parameters parameters"]  # of the Hessian, estimated
    value: Float[Array, ""]
    gradient: Float[Array, " parameters"]
    fresh: Bool[Array, ""]  # the estimate is still the identity
    done: Bool[Array, ""]  # not even steepest descent leads anywhere


def _improved(
    state: BFGSState, step: Array, change: Array, expected: Array | None
) -> tuple[Array, Array]:
    """The inverse Hessian that also explains how the gradient changed along the last step, where that is convex; and whether
    it is. `expected` is the curvature that the estimate so far had along it, if it is to be scaled."""
    curvature = step @ change
    known = curvature > 1e-14 * jnp.linalg.norm(step) * jnp.linalg.norm(change)
    safe = jnp.where(known, curvature, 1.0)
    # the first pair gives the identity its size
    inverse = (
        jnp.where(state.fresh, safe / jnp.maximum(change @ change, 1e-300), 1.0) * state.inverse
    )
    spread = inverse @ change
    ratio = (
        1.0
        if expected is None
        else jnp.where(state.fresh, 1.0, jnp.minimum(1.0, safe / jnp.maximum(expected, 1e-300)))
    )
    # H ← (H - (Hy sᵀ + s yᵀH) / sᵀy + (yᵀHy) s sᵀ / (sᵀy)²) / ratio + s sᵀ / sᵀy, as one symmetric product of two vectors
    half = step * (0.5 / safe) * ((change @ spread) / (safe * ratio) + 1.0) - spread / (
        safe * ratio
    )
    improved = inverse / ratio + jnp.outer(half, step) + jnp.outer(step, half)
    return jnp.where(known, improved, state.inverse), known
