"""Optimisers along gradients: Adam, what it shares with SOAP, and any Optax transformation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import optax

from ...core import InputError, finite, one_of, shown, whole
from ...equations import Problem
from ..part import Arguments, is_transformation
from .base import AbstractGradientOptimiser, Layers, Objective, Parameters, by_layer

if TYPE_CHECKING:
    from ..recipe import Recipe

SCHEDULES = ("constant", "cosine", "exponential")


class AbstractScheduled(AbstractGradientOptimiser):
    """An optimiser whose steps have a rate."""

    rate: float = 1e-3
    schedule: Literal["constant", "cosine", "exponential"] | optax.Schedule = "constant"
    warmup: int = 0
    final: float = 1e-3
    steps: int | None = None

    def __post_init__(self):
        name = type(self).__name__
        finite(f"{name}: rate", self.rate, positive=True)
        finite(f"{name}: final", self.final, positive=True)
        self.check_whole(warmup=0, steps=1)
        if not callable(self.schedule):
            one_of(f"{name}: schedule", self.schedule, SCHEDULES)
        elif self.warmup:
            raise InputError(
                f"{name}: warmup={self.warmup} is for the schedules by name; one of your own begins"
                " as it says: leave warmup out, or write optax.warmup_constant_schedule"
            )

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        if self.steps is not None:
            self.rates(self.steps)

    def rates(self, steps: int) -> optax.Schedule:
        """The rate as a function of the step, in a run of `steps` steps."""
        if callable(self.schedule):
            return self.schedule
        if self.warmup >= steps:
            raise InputError(
                f"{type(self).__name__}: warmup={self.warmup} is not shorter than its {steps} steps"
            )
        left = steps - self.warmup
        after = {
            "constant": lambda: optax.constant_schedule(self.rate),
            "cosine": lambda: optax.cosine_decay_schedule(self.rate, left),
            "exponential": lambda: optax.exponential_decay(self.rate, left, self.final),
        }[self.schedule]()
        if not self.warmup:
            return after
        before = optax.linear_schedule(0.0, self.rate, self.warmup)
        return optax.join_schedules([before, after], [self.warmup])

    def rate_now(self) -> float | optax.Schedule:
        """The rate: a number where it never changes, which needs no counter."""
        if self.schedule == "constant" and not self.warmup:
            return self.rate
        assert self.steps is not None  # never while it is at work
        return self.rates(self.steps)


class Adam(AbstractScheduled):
    """Adam.

    Arguments:
        rate: the learning rate (its highest, where it is scheduled).
        schedule: "constant"; "cosine", down to zero at the last step; "exponential", down to
            `final` of it; or any function step → rate.
        warmup: steps over which the rate rises from zero at the start.
        final: what is left of the rate at the end of an exponential schedule.
        steps: how many, over which a schedule runs; None takes the recipe's.
    """

    def transformation(self, layers: Layers) -> optax.GradientTransformation:
        # one vector: each weight's step is its own, so one kernel serves all layers
        return optax.adam(self.rate_now())


class Optax(AbstractGradientOptimiser):
    """An Optax transformation of gradients as an optimiser.

        optimiser=optax.adamw(1e-3)                          # is made one without a word
        optimiser=sx.Optax(optax.adamw, 1e-3, steps=5_000)   # the same, and can be kept in a folder

    It transforms the tree of the network's layers: matrices, one per axis and layer, and vectors.
    `optax.flatten(…)` around one whose steps are weight by weight makes them one vector again.
    Where it takes more than gradients and parameters, it is given `value`, the loss, `grad`, its
    gradient, and `value_fn`, the loss as a function of the tree.

    Arguments:
        make: the function that makes the transformation, or a transformation.
        arguments: of that function. One that has to be made by a call itself is written the same
            way: `sx.Optax(optax.adamw, sx.Optax(optax.cosine_decay_schedule, 1e-3, 5_000))`.
        steps: how many; None takes the recipe's.
        options: arguments of that function by name.
    """

    make: Any
    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]
    steps: int | None

    def __init__(self, make: Any, *arguments: Any, steps: int | None = None, **options: Any):
        self.make, self.arguments, self.options = make, arguments, tuple(options.items())
        self.steps = None if steps is None else whole("Optax: steps", steps)
        if not callable(make) and (not is_transformation(make) or arguments or options):
            raise InputError(
                f"Optax: the first argument must be a function of optax, got {shown(make)}:"
                " write sx.Optax(optax.adamw, 1e-3)"
            )

    def constructor_arguments(self) -> Arguments:
        return (self.make, *self.arguments), dict(self.options) | {"steps": self.steps}

    def call(self) -> Any:
        """What the function makes of its arguments."""
        if is_transformation(self.make):
            return self.make
        arguments = [a.call() if isinstance(a, Optax) else a for a in self.arguments]
        options = {k: v.call() if isinstance(v, Optax) else v for k, v in self.options}
        try:
            return self.make(*arguments, **options)
        except (TypeError, ValueError) as error:
            raise InputError(f"optimiser: {self!r} cannot be made: {error}") from error

    def check(self, recipe: Recipe, problem: Problem | None) -> None:
        made = self.call()
        if not is_transformation(made):
            raise InputError(
                f"optimiser: {shown(self.make)} makes a {type(made).__name__} and no transformation"
                " of gradients: write sx.Optax(optax.adamw, 1e-3)"
            )
        if problem is None:
            return
        sample = {"matrix": jnp.ones((3, 2)), "vector": jnp.ones(2)}
        try:
            self._try(by_layer(made, lambda tree: tree), sample)
        except InputError as error:
            # of what else may be wrong with a sample, the network's own layers decide
            if "argument" in str(error.__cause__) or "provided" in str(error.__cause__):
                raise

    def init(self, objective: Objective, params: Parameters) -> Any:
        transformation = self.transformation(objective.layers)
        self._try(transformation, params)
        return transformation.init(params)

    def _try(self, transformation: optax.GradientTransformationExtraArgs, params: Any) -> None:
        """Makes a step without numbers, to see whether there is all that it needs."""

        def update() -> Any:
            known = {"value": jnp.zeros(()), "grad": params, "value_fn": lambda at: jnp.zeros(())}
            return transformation.update(params, transformation.init(params), params, **known)

        try:
            jax.eval_shape(update)
        except Exception as error:
            said = next(iter(str(error).splitlines()), "")
            raise InputError(
                f"optimiser: {self!r} makes no step of gradients, parameters, value, grad and"
                f" value_fn ({said}): write optimiser=optax.adamw(1e-3),"
                " or a subclass of sx.AbstractMinimiser"
            ) from error

    def transformation(self, layers: Layers) -> optax.GradientTransformationExtraArgs:
        return by_layer(self.call(), lambda vector: _matrix_by_matrix(layers(vector)))


def _matrix_by_matrix(tree: Any) -> Any:
    """The matrices of several axes one by one: Optax takes what has three dimensions for others."""
    return jax.tree.map(lambda leaf: list(leaf) if leaf.ndim > 2 else leaf, tree)
