"""Steps that solve linear equations, damped until the loss falls (Levenberg and Marquardt): what `Solve` and `GaussNewton` share."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ...core import InputError
from ...equations import Problem
from .base import AbstractMinimiser, Objective, Parameters, Scalar

if TYPE_CHECKING:
    from ..recipe import Recipe

FIRST = 1e-3  # damping to begin with, as a part of the matrix' diagonal
LITTLE = 1e-3  # of the loss: a step that brings less brings next to nothing


class Rule(NamedTuple):
    """How damping changes from one step to the next."""

    grown: float  # times what it was, where the loss did not fall
    eased: Callable[
        [Array, Array], Array
    ]  # the same where it fell: of the share it got of what was foreseen, and of the tries
    stale: int  # steps that may bring next to nothing before it is over
    smallest: float = 0.0
    largest: float = jnp.inf


class Damped(NamedTuple):
    value: Float[Array, ""]
    damping: Float[Array, ""]
    number: Int[Array, ""]
    stale: Int[Array, ""]
    done: Bool[Array, ""]

    @classmethod
    def first(cls, value: Scalar, damping: float) -> Damped:
        none = jnp.zeros((), jnp.int32)
        return cls(value, jnp.asarray(damping, value.dtype), none, none, jnp.zeros((), bool))


class AbstractDamped(AbstractMinimiser):
    """A few long steps in float64, each of a damped linear problem, until nothing is gained."""

    look: ClassVar[int] = 1
    round: ClassVar[int] = 1

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        if recipe.precision != "float64":
            raise InputError(
                f"optimiser: {type(self).__name__} works in float64, got"
                f" precision={recipe.precision!r}: write precision='float64'"
            )

    def exhausts(self, network: Any) -> bool:
        return network.depth == 0

    @abc.abstractmethod
    def improved(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        """A step, where there is still something to be gained."""

    def step(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        return lax.cond(
            state.done,
            lambda: (params, state),
            lambda: self.improved(objective, params, state),
        )


def lowered(
    params: Parameters,
    state: Damped,
    objective: Callable[[Parameters], Scalar],
    solved: Callable[[Scalar], tuple[Parameters, Scalar]],
    tries: int,
    rule: Rule,
    patient: Array | bool = False,
    whole: bool = False,
) -> tuple[Parameters, Damped]:
    """A step with the first of some growing dampings that lowers the loss, or none.

    `solved(damping)` are the parameters after the step, and by how much the loss would fall if it were the quadratic that the step
    minimises. Where nothing lowers the loss it is over, unless it is `patient`. Where the parameters are the `whole` of a problem that is nearly
    linear in them, it is over as soon as next to nothing is foreseen.
    """
    value = state.value

    def bad(carry: tuple[Array, ...]) -> Array:
        number, _, _, after, *_ = carry
        return (number < tries) & ~(after < value)

    def again(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        number, damping, *_, first = carry
        damping = jnp.where(number == 0, damping, damping * rule.grown)
        moved, foreseen = solved(damping)
        return (
            number + 1,
            damping,
            moved,
            objective(moved),
            foreseen,
            jnp.where(number == 0, foreseen, first),
        )

    none = jnp.zeros((), value.dtype)
    start = (
        jnp.zeros((), jnp.int32),
        state.damping,
        params,
        jnp.full((), jnp.inf, value.dtype),
        none,
        none,
    )
    number, damping, moved, after, foreseen, first = lax.while_loop(bad, again, start)
    found = after < value
    share = (value - after) / jnp.where(foreseen > 0, foreseen, value - after)
    stale = jnp.where(found & (value - after > LITTLE * value), 0, state.stale + 1)
    return jnp.where(found, moved, params), Damped(
        jnp.where(found, after, value),
        jnp.clip(
            jnp.where(found, damping * rule.eased(share, number), FIRST),
            rule.smallest,
            rule.largest,
        ),
        state.number + 1,
        stale,
        (~found & ~jnp.asarray(patient))
        | (stale >= rule.stale)
        | (jnp.asarray(whole) & (first <= LITTLE * value)),
    )


def by_cholesky(
    matrix: Array, gradient: Array, scale: Array | None = None
) -> Callable[[Scalar], tuple[Array, Scalar]]:
    """The step for a damping from normal equations, and what it would gain; damped in parameters that are those of the matrix divided
    by `scale`, and leaving alone those whose scale is zero."""
    scale = jnp.ones_like(gradient) if scale is None else scale
    scaled = matrix * scale[:, None] * scale[None, :] + jnp.diag(jnp.where(scale > 0, 0.0, 1.0))

    def solved(damping: Scalar) -> tuple[Array, Scalar]:
        damped = scaled + damping * jnp.eye(len(gradient), dtype=matrix.dtype)
        factor = jax.scipy.linalg.cho_factor(damped, lower=True)
        step = -scale * jax.scipy.linalg.cho_solve(factor, scale * gradient)
        return step, -(2 * gradient @ step + step @ (matrix @ step))

    return solved


PROBES = 16  # random combinations of all residuals that show how much each parameter matters
ENOUGH = 1e-8  # of a linear equation's right side that conjugate gradients may leave


def by_conjugate_gradients(
    left: Callable[[Array], Array],
    like: Float[Array, " n"],
    number: Int[Array, ""],
    iterations: int,
    free: Bool[Array, " n"] | None = None,
    scaled: bool = False,
) -> tuple[Float[Array, " n"], Callable[[Scalar], tuple[Array, Scalar]]]:
    """About the diagonal of Jᵀ J, and the step for a damping with what it would gain, where `left` are the residuals after a step.

    Damping is added to the diagonal: the same for all, or `scaled` as the diagonal is. Steps that are not `free` are zero.
    """
    values, forward = jax.linearize(left, jnp.zeros_like(like))
    transposed = jax.linear_transpose(forward, like)

    def back(values: Array) -> Array:
        (found,) = transposed(values)
        return found if free is None else jnp.where(free, found, 0.0)

    gradient = back(values)
    # the mean of (Jᵀ z)² is the diagonal of Jᵀ J where z is 1 or -1 by chance
    signs = jax.random.rademacher(
        jax.random.fold_in(jax.random.key(0), number), (PROBES, len(values)), values.dtype
    )
    diagonal = jnp.mean(lax.map(lambda z: back(z) ** 2, signs), 0)
    added = jnp.maximum(diagonal, 1e-10 * jnp.max(diagonal)) if scaled else jnp.ones_like(diagonal)

    def solved(damping: Scalar) -> tuple[Array, Scalar]:
        # what no residual feels stays what it is
        weight = diagonal + damping * added
        step, _ = jax.scipy.sparse.linalg.cg(
            lambda x: back(forward(x)) + damping * added * x,
            -gradient,
            tol=ENOUGH,
            maxiter=iterations,
            M=lambda x: jnp.where(weight > 0, x / jnp.where(weight > 0, weight, 1.0), 0.0),
        )
        return step, -(2 * gradient @ step + jnp.sum(forward(step) ** 2))

    return diagonal, solved
