"""Steps that solve linear equations, damped until the loss falls (Levenberg and Marquardt): what
`Solve` and `GaussNewton` share, and `GaussNewton`, which solves for all weights."""

from __future__ import annotations

import abc
import functools
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


from dataclasses import InitVar

from ...core import check_fits

FIRST = 1e-3  # damping to begin with, as a part of the matrix' diagonal
LITTLE = 1e-3  # of the loss: a step that brings less brings next to nothing
PROBES = 16  # random combinations of all residuals that show how much each parameter matters
ENOUGH = 1e-8  # of a linear equation's right side that conjugate gradients may leave


class Rule(NamedTuple):
    """How damping changes from one step to the next.

    Attributes:
        grown: times what it was, where the loss did not fall.
        eased: the same where it fell, from the share it got of what was foreseen, and the tries.
        stale: steps that may bring next to nothing before it is over.
        smallest, largest: damping.
    """

    grown: float
    eased: Callable[[Array, Array], Array]
    stale: int
    smallest: float = 0.0
    largest: float = jnp.inf


class Damped(NamedTuple):
    """The state of damped steps.

    Attributes:
        value: the loss.
        damping: of the next step.
        number: of steps.
        stale: steps in a row that brought next to nothing.
        done: whether it is over.
    """

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

    check_every: ClassVar[int] = 1
    block: ClassVar[int] = 1

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        if recipe.precision != "float64":
            raise InputError(
                f"optimiser: {type(self).__name__} works in float64, got"
                f" precision={recipe.precision!r}: write precision='float64'"
            )

    def solves_all_of(self, network: Any) -> bool:
        return network.depth == 0

    def refuse_most(self, most: Any) -> None:
        """Refuses the old word for `largest_matrix`."""
        if most is not None:
            raise InputError(
                f"{type(self).__name__}: most is now called largest_matrix: write"
                f" largest_matrix={most!r}"
            )

    @abc.abstractmethod
    def improved(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        """A step, where there is still something to be gained.

        Arguments:
            objective: the loss on fixed points.
            params: as one vector.
            state: from the last step.

        Returns:
            The parameters and the state after it.
        """

    def step(
        self, objective: Objective, params: Parameters, state: Damped
    ) -> tuple[Parameters, Damped]:
        improved = functools.partial(self.improved, objective, params, state)
        return lax.cond(state.done, lambda: (params, state), improved)


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

    Arguments:
        params: the parameters now.
        state: with the loss there.
        objective: the loss.
        solved: for a damping, the parameters after the step, and by how much the loss would fall if
            it were the quadratic that the step minimises.
        tries: dampings that are tried.
        rule: how damping changes.
        patient: whether to go on where nothing lowers the loss.
        whole: whether the parameters are all of a problem that is nearly linear in them: then it is
            over as soon as next to nothing is foreseen.

    Returns:
        The parameters and the state after the step.
    """
    value = state.value

    def bad(carry: tuple[Array, ...]) -> Array:
        number, _, _, after, *_ = carry
        return (number < tries) & ~(after < value)

    def again(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        number, damping, *_, first = carry
        damping = jnp.where(number == 0, damping, damping * rule.grown)
        moved, foreseen = solved(damping)
        first = jnp.where(number == 0, foreseen, first)
        return number + 1, damping, moved, objective(moved), foreseen, first

    none, infinite = jnp.zeros((), value.dtype), jnp.full((), jnp.inf, value.dtype)
    start = (jnp.zeros((), jnp.int32), state.damping, params, infinite, none, none)
    number, damping, moved, after, foreseen, first = lax.while_loop(bad, again, start)
    found = after < value
    share = (value - after) / jnp.where(foreseen > 0, foreseen, value - after)
    eased = jnp.where(found, damping * rule.eased(share, number), FIRST)
    stale = jnp.where(found & (value - after > LITTLE * value), 0, state.stale + 1)
    stuck = (~found & ~jnp.asarray(patient)) | (stale >= rule.stale)
    return jnp.where(found, moved, params), Damped(
        jnp.where(found, after, value),
        jnp.clip(eased, rule.smallest, rule.largest),
        state.number + 1,
        stale,
        stuck | (jnp.asarray(whole) & (first <= LITTLE * value)),
    )


def by_cholesky(
    matrix: Array, gradient: Array, scale: Array | None = None
) -> Callable[[Scalar], tuple[Array, Scalar]]:
    """Damped steps from normal equations.

    Arguments:
        matrix: Jᵀ J.
        gradient: Jᵀ r, half the gradient of the loss.
        scale: the step is damped in parameters divided by it; where it is zero they stay.

    Returns:
        A function of the damping: the step, and by how much the loss would fall.
    """
    scale = jnp.ones_like(gradient) if scale is None else scale
    scaled = matrix * scale[:, None] * scale[None, :] + jnp.diag(jnp.where(scale > 0, 0.0, 1.0))

    def solved(damping: Scalar) -> tuple[Array, Scalar]:
        damped = scaled + damping * jnp.eye(len(gradient), dtype=matrix.dtype)
        factor = jax.scipy.linalg.cho_factor(damped, lower=True)
        step = -scale * jax.scipy.linalg.cho_solve(factor, scale * gradient)
        return step, -(2 * gradient @ step + step @ (matrix @ step))

    return solved


def by_conjugate_gradients(
    left: Callable[[Array], Array],
    like: Float[Array, " n"],
    number: Int[Array, ""],
    iterations: int,
    free: Bool[Array, " n"] | None = None,
    scaled: bool = False,
) -> tuple[Float[Array, " n"], Callable[[Scalar], tuple[Array, Scalar]]]:
    """Damped steps without a matrix.

    Arguments:
        left: the residuals after a step.
        like: an array like a step.
        number: of the step, from which random numbers are drawn.
        iterations: of conjugate gradients, at most.
        free: the parameters that may change; None: all.
        scaled: whether damping is in proportion to the diagonal, instead of the same for all.

    Returns:
        About the diagonal of Jᵀ J; and a function of the damping: the step, and by how much the
        loss would fall.
    """
    values, forward = jax.linearize(left, jnp.zeros_like(like))
    transposed = jax.linear_transpose(forward, like)

    def back(values: Array) -> Array:
        (found,) = transposed(values)
        return found if free is None else jnp.where(free, found, 0.0)

    gradient = back(values)
    # the mean of (Jᵀ z)² is the diagonal of Jᵀ J where z is 1 or -1 by chance
    key = jax.random.fold_in(jax.random.key(0), number)
    signs = jax.random.rademacher(key, (PROBES, len(values)), values.dtype)
    diagonal = jnp.mean(lax.map(lambda z: back(z) ** 2, signs), 0)
    added = jnp.maximum(diagonal, 1e-10 * jnp.max(diagonal)) if scaled else jnp.ones_like(diagonal)

    def solved(damping: Scalar) -> tuple[Array, Scalar]:
        # what no residual feels stays what it is
        weight = diagonal + damping * added
        safe = jnp.where(weight > 0, weight, 1.0)
        step, _ = jax.scipy.sparse.linalg.cg(
            lambda x: back(forward(x)) + damping * added * x,
            -gradient,
            tol=ENOUGH,
            maxiter=iterations,
            M=lambda x: jnp.where(weight > 0, x / safe, 0.0),
        )
        return step, -(2 * gradient @ step + jnp.sum(forward(step) ** 2))

    return diagonal, solved


# --- Gauss-Newton ---------------------------------------------------------------------------------

COPIES = 6  # of the matrix, at most, at one time
TINY = 1e-300
SAME = 1e-9  # relative difference of two losses on the same points, but for rounding
# Nielsen's: the better the linearised residuals foretold what came, the less damping
SMOOTH = Rule(4.0, lambda share, tries: jnp.maximum(1 / 3, 1 - (2 * share - 1) ** 3), stale=20)


class GaussNewton(AbstractDamped):
    """Gauss-Newton steps with Levenberg-Marquardt damping over all weights.

        optimiser=sx.GaussNewton(500), sampler=sx.Strata(), precision="float64"

    A loss is a sum of squares of residuals. Linearised in the weights, of hidden layers and unknown
    coefficients too, their least squares are a linear problem, whose solution is the step: that
    sees the curvature which quasi-Newton methods have to learn. `Solve` does it for output layers
    and leaves the features what they are; this one trains the features as well, so it is for
    networks with hidden layers. A step takes long, and few are needed. Points are drawn anew as
    often as the sampler says: on points that stay it fits these and nothing between, unless there
    are many more of them than weights. Best is `Strata`, whose points follow the residual.

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

    check_every: ClassVar[int] = 5
    block: ClassVar[int] = 5

    def __post_init__(self, most: Any):
        self.refuse_most(most)
        self.check_whole(steps=1, largest_matrix=0, iterations=1, tries=1)

    def renewed(self, state: Damped, value: Scalar) -> Damped:
        # what was over on the points before may go on on others
        same = jnp.abs(value - state.value) <= SAME * state.value
        none = jnp.zeros_like(state.stale)
        return state._replace(
            value=value, stale=jnp.where(same, state.stale, none), done=state.done & same
        )

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
                lambda step: residuals.vector(params + step), params, state.number, self.iterations
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
