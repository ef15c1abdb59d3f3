"""L-BFGS: steps of a quasi-Newton method, each found by a line search."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from ...core import finite, whole
from .base import AbstractMinimiser, Objective, Parameters


class LBFGS(AbstractMinimiser):
    """L-BFGS with a zoom line search (optax's): for the last digits, from where Adam arrived.

        optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]

    Its points are drawn once and stay for the whole stage: losses on different points cannot be compared. Give it enough of
    them, or a rule (`sampler=sx.GaussLegendre()`), or it fits the points and not the equation. A step costs an evaluation with
    its gradient for every try of its line search (mostly one), and a few passes over the pairs it remembers: little beside a
    large lattice, most of the time beside a small one.

    Where a line search fails, it forgets what it remembers and starts again; where one along steepest descent fails, the
    precision is spent: it stays there, at one evaluation for every step that is left.

    Arguments:
        steps: how many; None takes the recipe's.
        memory: pairs of past steps and gradient differences that stand for the Hessian.
        tries: evaluations that one line search may take.
        slack: how far, relative to its size, the loss may seem to rise in a step whose slopes say that it fell (Hager and
            Zhang's approximate Wolfe condition). Losses in float32 are that uncertain long before gradients are.
    """

    steps: int | None = None
    memory: int = 20
    tries: int = 20
    slack: float = 1e-3

    def __post_init__(self):
        if self.steps is not None:
            object.__setattr__(self, "steps", whole("LBFGS: steps", self.steps))
        object.__setattr__(self, "memory", whole("LBFGS: memory", self.memory))
        object.__setattr__(self, "tries", whole("LBFGS: tries", self.tries))
        finite("LBFGS: slack", self.slack, positive=True)

    def _transformation(self) -> Any:
        line = optax.scale_by_zoom_linesearch(
            self.tries, approx_dec_rtol=self.slack, initial_guess_strategy="one"
        )
        return optax.lbfgs(memory_size=self.memory, linesearch=line)

    # All of it is float64 whatever the network is, because it works with small differences: of
    # losses that hardly change, and of gradients. The vectors are short beside a lattice, so that
    # costs nothing. Parameters are rounded to the network's precision before the loss sees them, so
    # the loss found on a line is the loss of the parameters it leads to.

    def init(self, objective: Objective, params: Parameters) -> LBFGSState:
        wide = jnp.float64
        value, gradient = jax.value_and_grad(objective)(params)
        return LBFGSState(
            self._transformation().init(params.astype(wide)),
            value.astype(wide),
            gradient.astype(wide),
            jnp.zeros((), bool),
        )

    def step(
        self, objective: Objective, params: Parameters, state: LBFGSState
    ) -> tuple[Parameters, LBFGSState]:
        start = params.astype(jnp.float64)

        def wide(at: Array) -> Array:
            return objective(at.astype(params.dtype)).astype(jnp.float64)

        gradient = jnp.where(
            state.done, 0.0, state.gradient
        )  # with nothing to go along, a search ends at its first try
        updates, after = self._transformation().update(
            gradient, state.inner, start, value=state.value, grad=gradient, value_fn=wide
        )
        memory, sign, line = after
        moved = (start + updates).astype(params.dtype)
        found = (line.info.decrease_error <= 0.0) & jnp.any(moved != params)
        found = (found | (line.value < state.value)) & jnp.isfinite(line.value)
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
