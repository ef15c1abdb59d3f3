"""Quasi-Newton methods, L-BFGS and BFGS: steps along lines, which a line search follows.

All of it is float64 whatever the network is, because it works with small differences: of losses
that hardly change, and of gradients. The vectors are short beside a lattice, so that costs nothing.
Parameters are rounded to the network's precision before the loss sees them, so the loss found on a
line is the loss of the parameters it leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from ...core import check_fits, finite
from .base import AbstractMinimiser, Objective, Parameters

WIDE = jnp.float64


class LBFGS(AbstractMinimiser):
    """L-BFGS with a zoom line search (optax's): for the last digits, from where Adam arrived.

        optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]

    Its points are drawn once and stay for the whole stage: losses on different points cannot be
    compared. Give it enough of them, or a rule (`sampler=sx.GaussLegendre()`), or it fits the
    points and not the equation. A step costs an evaluation with its gradient for every try of its
    line search (mostly one), and a few passes over the pairs it remembers: little beside a large
    lattice, most of the time beside a small one.

    Where a line search fails, it forgets what it remembers and starts again; where one along
    steepest descent fails, the precision is spent: it stays there, at one evaluation for every step
    that is left.

    Arguments:
        steps: how many; None takes the recipe's.
        memory: pairs of past steps and gradient differences that stand for the Hessian.
        tries: evaluations that one line search may take.
        slack: how far, relative to its size, the loss may seem to rise in a step whose slopes say
            that it fell (Hager and Zhang's approximate Wolfe condition). Losses in float32 are that
            uncertain long before gradients are.
    """

    steps: int | None = None
    memory: int = 20
    tries: int = 20
    slack: float = 1e-3

    def __post_init__(self):
        self.check_whole(steps=1, memory=1, tries=1)
        finite("LBFGS: slack", self.slack, positive=True)

    def _transformation(self) -> Any:
        line = _line_search(self.tries, self.slack)
        return optax.lbfgs(memory_size=self.memory, linesearch=line)

    def init(self, objective: Objective, params: Parameters) -> LBFGSState:
        value, gradient = jax.value_and_grad(objective)(params)
        inner = self._transformation().init(params.astype(WIDE))
        return LBFGSState(inner, value.astype(WIDE), gradient.astype(WIDE), jnp.zeros((), bool))

    def step(
        self, objective: Objective, params: Parameters, state: LBFGSState
    ) -> tuple[Parameters, LBFGSState]:
        # with nothing to go along, a search ends at its first try
        gradient = jnp.where(state.done, 0.0, state.gradient)
        start, function = params.astype(WIDE), _in_float64(objective, params)
        step, (memory, sign, line) = self._transformation().update(
            gradient, state.inner, start, value=state.value, grad=gradient, value_fn=function
        )
        moved = (start + step).astype(params.dtype)
        found = _is_lower(line, moved, params, state.value)
        steepest = memory.count == 1  # nothing was remembered
        kept = memory._replace(  # pairs of no weight are pairs forgotten
            count=jnp.where(found, memory.count, 0),
            weights_memory=jnp.where(found, memory.weights_memory, 0.0),
        )
        return jnp.where(found, moved, params), LBFGSState(
            (kept, sign, line),
            jnp.where(found, line.value, state.value),
            jnp.where(found, line.grad, state.gradient),
            state.done | (steepest & ~found),
        )


class LBFGSState(NamedTuple):
    inner: Any  # optax's: the remembered pairs
    value: Float[Array, ""]  # the loss at the parameters and
    gradient: Float[Array, " parameters"]  # its gradient: a line search ends with both
    done: Bool[Array, ""]  # not even steepest descent leads anywhere


class BFGS(AbstractMinimiser):
    """Self-scaled BFGS with a zoom line search (optax's): the whole inverse Hessian.

        optimiser=[sx.Adam(5e-3, "cosine", steps=2_000), sx.BFGS(3_000)], precision="float64"

    For networks of up to some ten thousand parameters, and high accuracy. A residual's loss is
    badly conditioned, and L-BFGS forgets most of what it saw of that. This one keeps all of it, in
    a matrix of parameters × parameters, and enlarges it where the last step showed it too small
    (Al-Baali's self-scaling), without which early, poor estimates last long. Points are drawn once,
    as for `LBFGS`.

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
        self.check_whole(steps=1, tries=1)
        finite("BFGS: slack", self.slack, positive=True)

    def init(self, objective: Objective, params: Parameters) -> BFGSState:
        number = params.shape[0]
        check_fits(
            f"BFGS: the matrix of {number:,} × {number:,} parameters",
            3 * 8 * number**2,
            "use a smaller network, or sx.LBFGS",
        )
        value, gradient = jax.value_and_grad(objective)(params)
        true = jnp.ones((), bool)
        line = _line_search(self.tries, self.slack).init(params.astype(WIDE))
        inverse = jnp.eye(number, dtype=WIDE)
        return BFGSState(line, inverse, value.astype(WIDE), gradient.astype(WIDE), true, ~true)

    def step(
        self, objective: Objective, params: Parameters, state: BFGSState
    ) -> tuple[Parameters, BFGSState]:
        # with nothing to go along, a search ends at its first try
        gradient = jnp.where(state.done, 0.0, state.gradient)
        newton = -(state.inverse @ gradient)
        # steepest descent knows no length: begin with a step of one at most
        direction = jnp.where(
            state.fresh, newton / jnp.maximum(jnp.linalg.norm(newton), 1.0), newton
        )
        start, function = params.astype(WIDE), _in_float64(objective, params)
        step, line = _line_search(self.tries, self.slack).update(
            direction, state.line, start, value=state.value, grad=gradient, value_fn=function
        )
        moved = (start + step).astype(params.dtype)
        found = _is_lower(line, moved, params, state.value)
        length = jnp.linalg.norm(step) / jnp.maximum(jnp.linalg.norm(newton), 1e-300)
        # the curvature along the step, by the estimate so far
        expected = -length * (step @ gradient) if self.scaled else None
        inverse, known = _improved(state, step, line.grad - gradient, expected)
        nothing = jnp.eye(params.shape[0], dtype=inverse.dtype)
        return jnp.where(found, moved, params), BFGSState(
            line,
            jnp.where(found, inverse, nothing),  # what led nowhere is forgotten
            jnp.where(found, line.value, state.value),
            jnp.where(found, line.grad, state.gradient),
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
    """The inverse Hessian that also explains how the gradient changed along the last step.

    Arguments:
        state: before the step.
        step: the last step s.
        change: how the gradient changed along it, y.
        expected: the curvature that the estimate had along it, if that is to be scaled.

    Returns:
        The inverse Hessian, the one before where the loss is not convex along the step; and whether
        it is convex.
    """
    curvature = step @ change
    known = curvature > 1e-14 * jnp.linalg.norm(step) * jnp.linalg.norm(change)
    safe = jnp.where(known, curvature, 1.0)
    # the first pair gives the identity its size
    size = jnp.where(state.fresh, safe / jnp.maximum(change @ change, 1e-300), 1.0)
    inverse = size * state.inverse
    ratio = 1.0
    if expected is not None:
        short = jnp.minimum(1.0, safe / jnp.maximum(expected, 1e-300))
        ratio = jnp.where(state.fresh, 1.0, short)
    # H ← (H - (Hy sᵀ + s yᵀH) / sᵀy + (yᵀHy) s sᵀ / (sᵀy)²) / ratio + s sᵀ / sᵀy,
    # as one symmetric product of two vectors
    image, scaled = inverse @ change, safe * ratio
    half = step * (0.5 / safe) * ((change @ image) / scaled + 1.0) - image / scaled
    improved = inverse / ratio + jnp.outer(half, step) + jnp.outer(step, half)
    return jnp.where(known, improved, state.inverse), known


def _line_search(tries: int, slack: float) -> Any:
    return optax.scale_by_zoom_linesearch(
        tries, approx_dec_rtol=slack, initial_guess_strategy="one"
    )


def _in_float64(objective: Objective, params: Parameters) -> Callable[[Array], Array]:
    """The loss of the parameters that a point on a line is rounded to."""
    return lambda at: objective(at.astype(params.dtype)).astype(WIDE)


def _is_lower(line: Any, moved: Parameters, params: Parameters, value: Array) -> Bool[Array, ""]:
    """Whether a line search moved the parameters to a lower loss than `value`."""
    accepted = (line.info.decrease_error <= 0.0) & jnp.any(moved != params)
    return (accepted | (line.value < value)) & jnp.isfinite(line.value)
