"""A loss on some points as a function of flat parameters: all that an optimiser works with."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core import rounded
from ..domain import Place
from ..equations import ExtraInputs
from .all_parameters import Residuals
from .loss import WEIGHTING, Loss
from .model import Model
from .output_layers import OutputLayers


class Objective:
    """A loss on some points, as a function of the parameters.

    Arguments:
        loss: of a problem under a recipe.
        model: parameters as a network and unknowns.
        layers: parameters as a tree of (stacks of) matrices, and vectors.
        places: the points: the inside, then those of each condition.
        given: extra inputs of the loss.
        weighting: the state of the recipe's weighting; it stays what it is.
    """

    def __init__(
        self,
        loss: Loss,
        model: Callable[[Array], Model],
        layers: Callable[[Array], Any],
        places: Sequence[Place],
        given: ExtraInputs,
        weighting: Any = None,
    ):
        self.loss, self.model, self.layers = loss, model, layers
        self.places, self.given, self.weighting = tuple(places), given, weighting

    def __call__(self, params: Float[Array, " parameters"]) -> Float[Array, ""]:
        return self.evaluated(params, self.weighting)[0]

    def evaluated(self, params: Array, weighting: Any) -> tuple[Array, tuple[Array, Any]]:
        """The loss; every term and the unweighted total; the next state of the weighting."""
        with rounded(self.loss.recipe.precision):
            terms, weighed, after = self.loss.weighed(
                self.model(params), self.places, self.given, weighting
            )
        total = self.loss.total(terms)
        value = total if weighed is terms else self.loss.total(weighed)
        return value, (jnp.append(terms, total), after)

    def gradient(self, params: Array, weighting: Any) -> tuple[tuple[Array, Any], Array]:
        """The same, and the gradient of the loss."""
        return jax.value_and_grad(self.evaluated, has_aux=True)(params, weighting)

    @property
    def rows(self) -> int:
        return sum(math.prod(place.shape) for place in self.places)

    @functools.cached_property
    def residuals(self) -> Residuals:
        return Residuals(self.loss, self.model, self.places, self._inputs)

    @functools.cached_property
    def output_layers(self) -> OutputLayers:
        return OutputLayers(self.loss, self.model, self.places, self._inputs)

    @property
    def _inputs(self) -> dict[str, Any]:
        return {**self.given, WEIGHTING: self.weighting}
