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

Parameters = Float[Array, " parameters"]
Scalar = Float[Array, ""]
Layers = Callable[[Parameters], Any]  # parameters as a tree of their layers' matrices and vectors
Evaluate = Callable[[], Scalar]
Evaluated = tuple[Scalar, tuple[Array, Any]]
# parameters, states of optimiser and weighting, and the terms of the loss where each step began
Ran = tuple[Parameters, Any, Any, Float[Array, "steps terms"]]


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

    def evaluated(self, params: Parameters, weighting: Any) -> Evaluated:
        """The loss, and what stands beside it.

        Arguments:
            params: the parameters.
            weighting: the state of the recipe's weighting.

        Returns:
            the loss; every term and the unweighted total; the next state of the weighting.
        """
        ...

    def gradient(self, params: Parameters, weighting: Any) -> tuple[Evaluated, Parameters]:
        """The gradient of the loss.

        Arguments:
            params, weighting: as for `evaluated`.

        Returns:
            what `evaluated` returns, and the gradient.
        """
        ...


class AbstractOptimiser(AbstractPart):
    """An optimiser makes parameters better, step by step.

    Subclass `AbstractMinimiser` for one that evaluates the loss itself, on points that stay. For
    one that is given gradients on points drawn anew, an Optax transformation is enough.

    Attributes:
        steps: how many; None takes the recipe's. It is never None while the optimiser is at work.
        check_every: steps between two checks for the best parameters; the history holds one each.
        block: steps on the device between two chances to stop.
    """

    if TYPE_CHECKING:  # no field here: it would be the first of every optimiser

        @property
        def steps(self) -> int | None: ...

    check_every: ClassVar[int] = 10  # as in the paper
    block: ClassVar[int] = 100

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        """Refuses what it cannot work with.

        Arguments:
            recipe: that it is a part of.
            problem: to be solved; None while the recipe is being made.
        """

    @abc.abstractmethod
    def init(self, objective: Objective, params: Parameters) -> Any:
        """The state before the first step.

        Arguments:
            objective: the loss on the first points.
            params: the parameters there.

        Returns:
            a pytree of arrays.
        """

    @abc.abstractmethod
    def run(
        self, objective: Objective, params: Parameters, state: Any, weighting: Any, number: int
    ) -> Ran:
        """Some steps on the same points.

        Arguments:
            objective: the loss on these points.
            params: the parameters to begin with.
            state: of the optimiser.
            weighting: the state of the recipe's weighting.
            number: of steps.

        Returns:
            parameters, the optimiser's and the weighting's state, and the terms and the total
            where each step began.
        """

    @abc.abstractmethod
    def steps_per_draw(self, every: int | None) -> int | None:
        """How many steps one draw of points serves; None: all.

        Arguments:
            every: how many one of the recipe's sampler does.
        """

    @abc.abstractmethod
    def validation_loss(self, own: Evaluate, other: Evaluate) -> Scalar:
        """The loss that says which parameters are best.

        Arguments:
            own: evaluates it on the points of the steps.
            other: evaluates it on points of which no step knows.
        """

    def transformation(self, layers: Layers) -> optax.GradientTransformation:
        """The Optax transformation of gradients that it is; refused where it is none.

        Arguments:
            layers: makes a tree of layers of flat parameters.
        """
        raise InputError(
            f"optimiser: {type(self).__name__} evaluates the loss itself and is no transformation"
            " of gradients: write optimiser=sx.Adam(1e-3), or put it first"
        )

    def jacobian_numbers(self, objective: Objective) -> float:
        """How many numbers the Jacobians of all steps have; infinite where there are none.

        Arguments:
            objective: the loss.
        """
        return math.inf

    def solves_all_of(self, network: Any) -> bool:
        """Whether all parameters of a network are solved for, and none is trained.

        Arguments:
            network: of the recipe.
        """
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
    ) -> Ran:
        transformation = optax.with_extra_args_support(self.transformation(objective.layers))

        def step(carry: Any, _: None) -> tuple[Any, Array]:
            params, state, weighting = carry
            (value, (record, after)), gradient = objective.gradient(params, weighting)
            known: dict[str, Any] = {"value": value, "grad": gradient}
            known["value_fn"] = lambda at: objective.evaluated(at, weighting)[0]
            updates: Any
            updates, new = transformation.update(gradient, state, params, **known)
            return (params + updates.astype(params.dtype), new, after), record

        (params, state, weighting), record = lax.scan(
            step, (params, state, weighting), None, length=number
        )
        return params, state, weighting, record

    def steps_per_draw(self, every: int | None) -> int | None:
        return every

    def validation_loss(self, own: Evaluate, other: Evaluate) -> Scalar:
        return own()


class AbstractMinimiser(AbstractOptimiser):
    """Steps of an optimiser that evaluates the loss itself.

    Losses are compared from step to step, so one draw serves all of them, unless `renewed` says
    what becomes of the state on other points. It can come to fit its points and nothing between:
    its best parameters are those of the lowest loss on other ones.
    """

    def renewed(self, state: Any, value: Scalar) -> Any:
        """The state on points that may be new; None, as here, where points have to stay.

        Arguments:
            state: from the last step.
            value: the loss on the points that come.
        """
        return None

    @abc.abstractmethod
    def init(self, objective: Objective, params: Parameters) -> Any:
        """The state before the first step.

        Arguments:
            objective: the loss, on the points of all steps.
            params: the parameters to begin with.

        Returns:
            a pytree of arrays whose `value` is the loss at `params`; ∞ where it is not known yet.
        """

    @abc.abstractmethod
    def step(self, objective: Objective, params: Parameters, state: Any) -> tuple[Parameters, Any]:
        """One step.

        Arguments:
            objective: the loss.
            params: the parameters now.
            state: as `init` or the last step made it.

        Returns:
            the next parameters, and their state, whose `value` is the loss there.
        """

    def run(
        self, objective: Objective, params: Parameters, state: Any, weighting: Any, number: int
    ) -> Ran:
        name = f"optimiser: {type(self).__name__}"
        if not hasattr(state, "value"):
            raise InputError(
                f"{name} begins with a state that does not have the loss as its value: let init"
                " return a NamedTuple with a field named value"
            )
        # a step knows the total but not the terms: those are evaluated once, and stand for all
        first, (record, _) = objective.evaluated(params, weighting)
        other = self.renewed(state, first)
        state = state if other is None else with_types_of(state, other, name)

        def step(carry: tuple[Parameters, Any], _: None) -> tuple[Any, Array]:
            params, state = carry
            after = with_types_of(carry, self.step(objective, params, state), name)
            return after, state.value.astype(params.dtype)

        (params, state), totals = lax.scan(step, (params, state), None, length=number)
        terms = jnp.broadcast_to(record[:-1], (number, len(record) - 1))
        totals = totals.at[0].set(first)
        return params, state, weighting, jnp.concatenate([terms, totals[:, None]], 1)

    def steps_per_draw(self, every: int | None) -> int | None:
        stays = type(self).renewed is AbstractMinimiser.renewed
        return None if stays else every

    def validation_loss(self, own: Evaluate, other: Evaluate) -> Scalar:
        return other()


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
