"""The output layers solved for instead of trained: Gauss-Newton with the normal equations of `separax.normal`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..errors import whole
from ..memory import check_fits
from .search import Objective, Parameters, Scalar, Search

SMALLEST, FIRST, LARGEST = 1e-15, 1e-3, 1e6  # damping, as a part of the matrix' diagonal
STALE = 10  # steps that may bring next to nothing before it is over
LITTLE = 1e-3  # what "next to nothing" is, as a part of the loss
SIZES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the factors a solve may begin with


@dataclass(frozen=True)
class Solve:
    """Solves for the output layers of a separable network, the hidden layers staying what they are.

        recipe = sx.Recipe(sx.SPINN(rank=6, depth=0, functions=24), 32, optimiser=sx.Solve(), sampler=sx.GaussLegendre(), precision="float64")
        optimiser=[sx.Adam(5e-3, "cosine", steps=5_000), sx.Solve(50)]  # after training, on the features that training found

    With the factors of the other axes held, a separable network is linear in the output layer of an axis: the first steps solve
    for one axis after the other. The steps after that take all of them at once (Gauss-Newton with Levenberg-Marquardt damping), which
    converges quadratically where the equation can be met. A linear residual needs no linearisation, a nonlinear one is linearised at
    every step. Points are drawn once and need to be more than the features of an axis: `GaussLegendre` is the sampler of choice.

    Arguments:
        steps: at most how many; None takes the recipe's. It is over earlier when nothing is gained any more.
        sweeps: how often to go round the axes first.
        tries: dampings that one step may try.
    """

    steps: int | None = 60
    sweeps: int = 2
    tries: int = 16

    searches: ClassVar[bool] = True
    solves: ClassVar[bool] = True
    sees: ClassVar[str] = "layers"

    def __post_init__(self):
        if self.steps is not None:
            object.__setattr__(self, "steps", whole("Solve: steps", self.steps))
        object.__setattr__(self, "sweeps", whole("Solve: sweeps", self.sweeps, 0))
        object.__setattr__(self, "tries", whole("Solve: tries", self.tries))

    def transform(self, steps: int) -> Search:
        """The same for any number of steps."""
        return Search(_init, self._update)

    def _update(self, params: Parameters, state: SolveState, objective: Objective) -> tuple[Parameters, SolveState]:
        return lax.cond(state.done, lambda: (params, state), lambda: self._step(params, state, objective))

    def _step(self, params: Parameters, state: SolveState, objective: Objective) -> tuple[Parameters, SolveState]:
        params, value = lax.cond(state.number == 0, lambda: _sized(params, objective), lambda: (params, state.value))
        axes = objective.shape[0]
        alone = state.number < self.sweeps * axes
        normal, basis, shape = objective.normal(params), objective.basis(params), objective.shape
        matrix, gradient = in_basis(normal.matrix, normal.gradient, basis, shape)
        free = _free(shape, len(gradient), jnp.where(alone, state.number % axes, -1))
        kept = jnp.diag(matrix) > 1e-30 * jnp.max(jnp.diag(matrix))  # what no residual feels is left alone
        free = free & kept
        scale = jnp.where(free, 1 / jnp.sqrt(jnp.where(kept, jnp.diag(matrix), 1.0)), 0.0)
        scaled = matrix * scale[:, None] * scale[None, :] + jnp.diag(jnp.where(free, 0.0, 1.0))
        # all axes at once is a larger venture than one: it begins with more caution
        damping = jnp.where(state.number == self.sweeps * axes, FIRST, state.damping)

        def tried(damping: Array) -> tuple[Array, Array, Array]:
            damped = scaled + damping * jnp.eye(len(gradient), dtype=matrix.dtype)
            factor = jax.scipy.linalg.cho_factor(damped, lower=True)
            step = -scale * jax.scipy.linalg.cho_solve(factor, scale * gradient)
            foreseen = -(2 * gradient @ step + step @ (matrix @ step))
            moved = objective.moved(params, _out_of_basis(step, basis, shape))
            return moved, objective(moved), foreseen

        def bad(carry: tuple[Array, ...]) -> Array:
            number, _, _, after, _ = carry
            return (number < self.tries) & ~(after < value)

        def again(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            number, damping, *_ = carry
            damping = jnp.where(number == 0, damping, jnp.maximum(damping, SMALLEST) * 10)
            return number + 1, damping, *tried(damping)

        start = (jnp.zeros((), jnp.int32), damping, params, jnp.full((), jnp.inf, value.dtype), jnp.zeros((), value.dtype))
        number, damping, moved, after, foreseen = lax.while_loop(bad, again, start)
        found = after < value
        good = (number == 1) & (value - after > 0.25 * foreseen)
        stale = jnp.where(found & (value - after > LITTLE * value), 0, state.stale + 1)
        # one axis may have nothing to gain where the next has
        done = (~found & ~alone) | (stale >= STALE)
        return jnp.where(found, objective.balanced(moved), params), SolveState(
            jnp.where(found, after, value),
            jnp.clip(jnp.where(found, jnp.where(good, damping / 10, damping), FIRST), SMALLEST, LARGEST),
            state.number + 1,
            stale,
            done,
        )


class SolveState(NamedTuple):
    value: Float[Array, ""]
    damping: Float[Array, ""]
    number: Int[Array, ""]
    stale: Int[Array, ""]
    done: Bool[Array, ""]


def _init(params: Parameters, value: Scalar, gradient: Parameters) -> SolveState:
    none = jnp.zeros((), jnp.int32)
    return SolveState(value, jnp.asarray(1e-8, value.dtype), none, none, jnp.zeros((), bool))


def _sized(params: Parameters, objective: Objective) -> tuple[Array, Array]:
    """The factors at the size that suits the problem best: a nonlinear one may be far from its solution at size one."""
    candidates = jnp.stack([objective.resized(params, size) for size in SIZES])
    values = lax.map(objective, candidates)
    values = jnp.where(jnp.isfinite(values), values, jnp.inf)
    best = jnp.argmax(values <= 2 * jnp.min(values))  # the largest that will do: near zero no factor sees the others
    return candidates[best], values[best]


def _free(shape: tuple[int, ...], number: int, axis: Array) -> Array:
    """Which coefficients a step may change: those of one axis, or all (-1), and then the unknowns too."""
    own = jnp.broadcast_to(jnp.arange(shape[0])[:, None, None, None], shape).ravel()
    others = jnp.full(number - len(own), -1)
    return (jnp.concatenate([own, others]) == axis) | (axis < 0)


def in_basis(matrix: Array, gradient: Array, basis: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The normal equations in coefficients of other combinations of the features; unknowns stay what they are."""
    turned = jax.vmap(lambda column: _towards(column, basis, shape), 1, 1)(matrix)
    return jax.vmap(lambda row: _towards(row, basis, shape))(turned), _towards(gradient, basis, shape)


def _towards(vector: Array, basis: Array, shape: tuple[int, ...]) -> Array:
    own = vector[: _size(shape)].reshape(shape)
    return jnp.concatenate([jnp.einsum("acfr,acfg->acgr", own, basis).ravel(), vector[_size(shape) :]])


def _out_of_basis(step: Array, basis: Array, shape: tuple[int, ...]) -> Array:
    own = step[: _size(shape)].reshape(shape)
    return jnp.concatenate([jnp.einsum("acfg,acgr->acfr", basis, own).ravel(), step[_size(shape) :]])


def _size(shape: tuple[int, ...]) -> int:
    axes, components, features, rank = shape
    return axes * components * features * rank


def check_matrix(number: int) -> None:
    check_fits(
        f"Solve: the matrix of {number:,} × {number:,} coefficients", 5 * 8 * number**2, "use fewer functions or a smaller rank"
    )
