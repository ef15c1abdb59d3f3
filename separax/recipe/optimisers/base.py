"""The two kinds of optimisers: those that are given gradients, and those that evaluate the loss."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ...core import InputError, with_types_of
from ...equations import Problem
from ..part import AbstractPart

if TYPE_CHECKING:
    from ..recipe import Recipe

LOOK = 10  # steps between two looks for the best parameters, as in the paper
ROUND = 100  # steps between two syncs with the host

Parameters = Float[Array, " parameters"]
Scalar = Float[Array, ""]
Layers = Callable[[Parameters], Any]  # parameters as a tree of their layers' matrices and vectors


class Objective(Protocol):
    """A loss on some points, as a function of flat parameters. An optimiser takes what it wants.

    Attributes:
        layers: parameters as a tree of (stacks of) matrices, and vectors.
        residuals: the vector of whose squares the loss is the sum, linearised in all parameters.
        output_layers: the same for the output layers of a separable network, and its core.
        rows: the number of points, of all residuals and conditions.
    """

    @property
    def layers(self) -> Layers: ...

    @property
    def residuals(self) -> Any: ...

    @property
    def output_layers(self) -> Any: ...

    @property
    def rows(self) -> int: ...

    def __call__(self, params: Parameters) -> Scalar: ...

    def evaluated(self, params: Parameters, weighting: Any) -> tuple[Scalar, tuple[Array, Any]]:
        """The loss; every term and the unweighted total; the next state of the weighting."""
        ...

    def gradient(
        self, params: Parameters, weighting: Any
    ) -> tuple[tuple[Scalar, tuple[Array, Any]], Parameters]:
        """The same, and the gradient of the loss."""
        ...


class AbstractOptimiser(AbstractPart):
    """An optimiser makes parameters better, step by step.

    Subclass `AbstractMinimiser` for one that evaluates the loss itself, on points that stay. For
    one that is given gradients on points drawn anew, an Optax transformation is enough.

    Attributes:
        steps: how many; None takes the recipe's. It is never None while the optimiser is at work.
        look: steps between two looks for the best parameters, of which the history holds one.
        round: steps between two syncs with the host.
    """

    if TYPE_CHECKING:  # no field here: it would be the first of every optimiser

        @property
        def steps(self) -> int | None: ...

    look: ClassVar[int] = LOOK
    round: ClassVar[int] = ROUND

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        """Refuses a recipe that it cannot work with; `problem` is None while one is being made."""

    @abc.abstractmethod
    def init(self, objective: Objective, params: Parameters) -> Any:
        """The state before the first step: a pytree of arrays."""

    @abc.abstractmethod
    def run(
        self, objective: Objective, params: Parameters, state: Any, weighting: Any, number: int
    ) -> tuple[Parameters, Any, Any, Float[Array, "steps terms"]]:
        """Some steps on the same points.

        Returns:
            parameters, the optimiser's and the weighting's state, and the terms and the total
            where each step began.
        """

    @abc.abstractmethod
    def draws(self, every: int | None) -> int | None:
        """How many steps a draw of points serves, where a sampler's serves `every`; None: all."""

    @abc.abstractmethod
    def judged(self, seen: Callable[[], Scalar], unseen: Callable[[], Scalar]) -> Scalar:
        """The loss that says which parameters are best: on its own points, or on others."""

    def transformation(self, layers: Layers) -> optax.GradientTransformation:
        """The Optax transformation of gradients that it is, if it is one."""
        raise InputError(
            f"optimiser: {type(self).__name__} evaluates the loss itself and is no transformation"
            " of gradients: write optimiser=sx.Adam(1e-3), or put it first"
        )

    def numbers(self, objective: Objective) -> float:
        """How many numbers all its Jacobians have: few are done on the processor; else infinite."""
        return math.inf

    def exhausts(self, network: Any) -> bool:
        """Whether nothing of a network is left to be found after its last step."""
        return False

    @property
    def if_diverged(self) -> str:
        """What to try where the loss stops being finite."""
        return "Try a smaller rate, optimiser=sx.Adam(1e-3), or precision='float64'"


class AbstractGradientOptimiser(AbstractOptimiser):
    """Steps along gradients, on points that are drawn anew: an Optax transformation."""

    @abc.abstractmethod
    def transformation(self, layers: Layers) -> optax.GradientTransformation: ...

    def init(self, objective: Objective, params: Parameters) -> Any:
        return self.transformation(objective.layers).init(params)

    def run(
        self, objective: Objective, params: Parameters, state: Any, weighting: Any, number: int
    ) -> tuple[Parameters, Any, Any, Float[Array, "steps terms"]]:
        transformation = optax.with_extra_args_support(self.transformation(objective.layers))

        def step(carry: Any, _: None) -> tuple[Any, Array]:
            params, state, weighting = carry
            (value, (record, after)), gradient = objective.gradient(params, weighting)
            updates: Any
            updates, new = transformation.update(
                gradient,
                state,
                params,
                value=value,
                grad=gradient,
                value_fn=lambda at: objective.evaluated(at, weighting)[0],
            )
            return (params + updates.astype(params.dtype), new, after), record

        (params, state, weighting), record = lax.scan(
            step, (params, state, weighting), None, length=number
        )
        return params, state, weighting, record

    def draws(self, every: int | None) -> int | None:
        return every

    def judged(self, seen: Callable[[], Scalar], unseen: Callable[[], Scalar]) -> Scalar:
        return seen()


class AbstractMinimiser(AbstractOptimiser):
    """Steps of an optimiser that evaluates the loss itself, on points that stay.

    Losses are compared from step to step, so one draw serves all of them. It can come to fit these
    points and nothing between: its best parameters are those of the lowest loss on other ones.
    """

    @abc.abstractmethod
    def init(self, objective: Objective, params: Parameters) -> Any:
        """The state before the first step. Its `value` is the loss at `params`, if it is known."""

    @abc.abstractmethod
    def step(self, objective: Objective, params: Parameters, state: Any) -> tuple[Parameters, Any]:
        """The next parameters, and their state, whose `value` is the loss there."""

    def run(
        self, objective: Objective, params: Parameters, state: Any, weighting: Any, number: int
    ) -> tuple[Parameters, Any, Any, Float[Array, "steps terms"]]:
        # a step knows the total but not the terms: those are evaluated once, and stand for all
        first, (record, _) = objective.evaluated(params, weighting)

        def step(carry: tuple[Parameters, Any], _: None) -> tuple[Any, Array]:
            params, state = carry
            return self.step(objective, params, state), state.value.astype(params.dtype)

        (params, state), totals = lax.scan(step, (params, state), None, length=number)
        terms = jnp.broadcast_to(record[:-1], (number, len(record) - 1))
        totals = totals.at[0].set(first)
        return params, state, weighting, jnp.concatenate([terms, totals[:, None]], 1)

    def draws(self, every: int | None) -> int | None:
        return None

    def judged(self, seen: Callable[[], Scalar], unseen: Callable[[], Scalar]) -> Scalar:
        return unseen()


def by_layer(inner: Any, layers: Layers) -> optax.GradientTransformationExtraArgs:
    """A transformation of a tree of layers as one of the vector that they make."""
    inner = optax.with_extra_args_support(inner)

    def update(updates: Any, state: Any, params: Any = None, **known: Any) -> tuple[Any, Any]:
        unravel = ravel_pytree(updates)[1]

        def joined(tree: Any) -> Any:
            return unravel(ravel_pytree(tree)[0])

        if "value_fn" in known:
            function = known["value_fn"]
            known |= {"grad": layers(known["grad"]), "value_fn": lambda at: function(joined(at))}
        made, new = inner.update(layers(updates), state, layers(params), **known)
        # Optax makes float64 of what has no type, where that is on
        return joined(made), with_types_of(state, new, "optimiser: Optax")

    return optax.GradientTransformationExtraArgs(lambda params: inner.init(layers(params)), update)
