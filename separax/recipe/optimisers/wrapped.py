"""Optax transformations as optimisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax

from ...core import InputError, whole
from ...equations import Problem
from .base import AbstractGradientOptimiser, Layers, Objective, Parameters, by_layer

if TYPE_CHECKING:
    from ..recipe import Recipe


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
                f"Optax: the first argument must be a function of optax, got {make!r}:"
                " write sx.Optax(optax.adamw, 1e-3)"
            )

    def __repr__(self) -> str:
        each = [_name(self.make), *map(_name, self.arguments)]
        each += [f"{name}={_name(value)}" for name, value in (*self.options, ("steps", self.steps))]
        return f"Optax({', '.join(each)})"

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
                f"optimiser: {_name(self.make)} makes a {type(made).__name__} and no transformation"
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
            raise InputError(
                f"optimiser: {self!r} makes no step of gradients, parameters, value, grad and"
                f" value_fn ({error}): write optimiser=optax.adamw(1e-3), or a subclass of"
                " sx.AbstractMinimiser"
            ) from error

    def transformation(self, layers: Layers) -> optax.GradientTransformationExtraArgs:
        return by_layer(self.call(), lambda vector: _matrix_by_matrix(layers(vector)))


def is_transformation(given: Any) -> bool:
    """Whether something is an Optax transformation of gradients."""
    return isinstance(given, optax.GradientTransformation)


def _matrix_by_matrix(tree: Any) -> Any:
    """The matrices of several axes one by one: Optax takes what has three dimensions for others."""
    return jax.tree.map(lambda leaf: list(leaf) if leaf.ndim > 2 else leaf, tree)


def _name(value: Any) -> str:
    if is_transformation(value):
        return f"<{value.update.__qualname__.split('.')[0]}>"
    return getattr(value, "__name__", repr(value)) if callable(value) else repr(value)
