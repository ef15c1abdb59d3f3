"""What residuals and conditions count in a loss, where that is more than a number for each of them.

The factors of a weighting multiply the loss' own weights, and are constants to its gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..core import InputError, add_up, finite, listed, shown, whole
from ..domain import TIME, Box, Lattice, Place
from ..equations import Problem
from .optimisers.base import AbstractMinimiser
from .part import AbstractPart

if TYPE_CHECKING:
    from .recipe import Recipe

Scalar = Float[Array, ""]
DONE = 0.99  # above this, a weight holds nothing back
SLICES = 32  # at most, where no number is given


class Evaluation(Protocol):
    """The terms of a loss at one draw of points, each evaluated when it is asked for.

    Attributes:
        box: of the problem.
        counts: points per axis.
        place: the points inside.
        weights: what every term counts without a weighting, by name.
        means: every term by name. Many need no lattice.
        squares: the squared residuals at the points of `place`, by name.
        gradients: of every term in all parameters, by name. They cost a backward pass each.
    """

    box: Box
    counts: Mapping[str, int]
    place: Place
    weights: Mapping[str, float]
    means: Mapping[str, Scalar]
    squares: Mapping[str, Array]
    gradients: Mapping[str, Float[Array, " parameters"]]


class AbstractWeighting(AbstractPart):
    """A weighting says what terms and points count, and may learn that from step to step.

    Its state is a pytree of arrays, a part of the training state: a run that is resumed goes on
    with it. The history and what is reported are of the unweighted loss.
    """

    def init(self, names: Sequence[str]) -> Any:
        """The state before the first step.

        Arguments:
            names: of the terms of the loss.

        Returns:
            a pytree of arrays; None: it learns nothing.
        """
        return None

    def weigh(self, state: Any, evaluation: Evaluation) -> tuple[Mapping[str, Array], Any]:
        """The factors of this step, and the next state.

        Arguments:
            state: as `init` or the last step made it.
            evaluation: the terms of the loss at this step.

        Returns:
            factors by name of a term, 1 for those that are not named: a number, or for a residual
            one number per point of `evaluation.place`; and the state.
        """
        return {}, state

    def density(self, state: Any, box: Box, place: Place) -> Array | None:
        """What residuals count at the points of a place, whatever they are.

        Unlike the factors of `weigh` it is part of the loss, so every optimiser can have it.

        Arguments:
            state: the weighting's; None where it has none yet.
            box: of the problem.
            place: the points.

        Returns:
            numbers that broadcast to the points; None: all count alike.
        """
        return None

    def better(self, total: Scalar, best: Scalar) -> Bool[Array, ""]:
        """Whether parameters are better than the best so far.

        Arguments:
            total: their unweighted loss.
            best: the loss of the best so far.
        """
        return total < best

    def check(self, recipe: Recipe, problem: Problem) -> None:
        """Refuses what it cannot work with: by default, optimisers that compare losses.

        Arguments:
            recipe: that it is a part of.
            problem: to be solved.
        """
        if lines := [
            type(one).__name__ for one in recipe.optimisers if isinstance(one, AbstractMinimiser)
        ]:
            raise InputError(
                f"weighting: {listed(lines)} compares losses along a line, and the weights of"
                f" {type(self).__name__} change them on the way: write optimiser=sx.Adam(1e-3)"
            )


class Constant(AbstractWeighting):
    """All points of a term count alike, and terms as `emphasis` and `weights` of the recipe say."""

    def check(self, recipe: Recipe, problem: Problem) -> None:
        pass


class EarlyFirst(AbstractWeighting):
    """Residuals count less the later they are, by exp(-rate (t - t₀) / (t₁ - t₀)).

    A nonlinear equation has functions that leave small residuals nearly everywhere and have
    forgotten how they began. Where early residuals count more, these are not the smallest.

    Arguments:
        rate: how much less at the end of time; 0: all alike.
    """

    rate: float = 8.0

    def __post_init__(self):
        if finite("EarlyFirst: rate", self.rate) < 0:
            raise InputError(f"EarlyFirst: rate must not be negative, got {self.rate!r}")

    def init(self, names: Sequence[str]) -> Scalar:
        # data, so that other rates need no other program
        return jnp.asarray(self.rate, float)

    def density(self, state: Scalar | None, box: Box, place: Place) -> Array:
        low, high = box[TIME]
        rate = self.rate if state is None else state
        return jnp.exp(-rate * (place.arrays()[TIME] - low) / (high - low))

    def check(self, recipe: Recipe, problem: Problem) -> None:
        _check_time("EarlyFirst", problem)


class Causal(AbstractWeighting):
    """Weighs residuals so that early times are solved before late ones.

        sx.Recipe(weighting=sx.Causal(slices=16, tolerances=(1.0, 10.0)))

    Time is cut into slices, and the residuals of slice i are weighed by

        w_i = exp(-ε Σ_{k<i} L_k),

    L_k being the mean squared residuals of slice k, weighted as in the loss. The tolerance ε is
    taken from a rising list: the next one as soon as every weight is above 0.99, so that nothing is
    held back any more at this one.

    Notice: the authors of the method (Wang, Sankaran, Perdikaris, "Respecting causality is all you
    need for training physics-informed neural networks", 2022) state that causal weighting is
    patented and not for commercial use. It is here as the baseline that it is in the paper, and
    nothing uses it unless it is asked for.

    Arguments:
        slices: of time, of equal length; None: 32, or as many as there are points along t if they
            are fewer.
        tolerances: rising; the larger, the sooner a residual holds back what comes after it. They
            are relative to the loss, so an equation whose residuals are large needs smaller ones.

    Losses with different weights do not compare, so the parameters that are kept are the latest
    ones, not those of the lowest loss.
    """

    slices: int | None = None
    tolerances: tuple[float, ...] = (1e-2, 1e-1, 1.0, 1e1, 1e2)

    def __post_init__(self):
        if self.slices is not None:
            whole("Causal: slices", self.slices, 2)
        given, advice = self.tolerances, "write tolerances=(1e-2, 1e-1, 1.0)"
        if isinstance(given, str) or not isinstance(given, Iterable) or not (each := tuple(given)):
            came = shown(given)
            raise InputError(f"Causal: tolerances must be numbers that rise, got {came}: {advice}")
        each = tuple(finite("Causal: tolerances", one) for one in each)
        if each[0] < 0 or any(b <= a for a, b in itertools.pairwise(each)):
            said = f"Causal: tolerances must rise and not be negative, got {each}"
            raise InputError(f"{said}: {advice}")
        object.__setattr__(self, "tolerances", each)

    def number(self, points: int) -> int:
        """The number of slices.

        Arguments:
            points: along t.
        """
        return min(SLICES, points) if self.slices is None else self.slices

    def init(self, names: Sequence[str]) -> Int[Array, ""]:
        """The number of the first tolerance."""
        return jnp.zeros((), jnp.int32)

    def weigh(
        self, state: Int[Array, ""], evaluation: Evaluation
    ) -> tuple[Mapping[str, Array], Int[Array, ""]]:
        place, number = evaluation.place, self.number(evaluation.counts[TIME])
        times = place.coordinates[place.axes.index(TIME)]
        owner = time_slices(times, evaluation.box[TIME], number)
        squares = evaluation.squares
        losses = add_up(
            evaluation.weights[name] * slice_means(place, TIME, each, owner, number)
            for name, each in squares.items()
        )
        weights = causal_weights(losses, jnp.asarray(self.tolerances, losses.dtype)[state])
        here = weights[owner]
        if isinstance(place, Lattice):
            here = place.along(TIME, here)
        return dict.fromkeys(squares, here), self.advanced(state, jnp.min(weights))

    def advanced(self, tolerance: Int[Array, ""], least: Array) -> Int[Array, ""]:
        """The number of the next step's tolerance.

        Arguments:
            tolerance: the number of this step's.
            least: the least weight of this step.
        """
        following = jnp.minimum(tolerance + (least > DONE), len(self.tolerances) - 1)
        return following.astype(tolerance.dtype)

    def better(self, total: Scalar, best: Scalar) -> Bool[Array, ""]:
        # while late times are held back, a flat function has the lowest loss of all
        return total < jnp.inf

    def check(self, recipe: Recipe, problem: Problem) -> None:
        super().check(recipe, problem)
        _check_time("Causal", problem)
        points = recipe.counts(problem.box)[TIME]
        if self.number(points) > points:
            raise InputError(
                f"weighting: {self.slices} slices for {points} points along t: write"
                f" sx.Causal(slices={points}), or fewer"
            )


def _check_time(name: str, problem: Problem) -> None:
    if TIME not in problem.box.axes or TIME in problem.periodic:
        kind = f"{problem.box!r}, without a time axis 't',"
        if TIME in problem.periodic:
            kind = "what is periodic in t"
        raise InputError(
            f"weighting: {name} is for what has earlier and later times, {kind} has none:"
            " leave weighting out"
        )


def causal_weights(losses: Float[Array, " slices"], tolerance: Array) -> Float[Array, " slices"]:
    """w_i = exp(-ε Σ_{k<i} L_k); constants to a gradient."""
    before = jnp.cumsum(losses) - losses
    return jax.lax.stop_gradient(jnp.exp(-tolerance * before))


def time_slices(times: Array, bounds: tuple[float, float], number: int) -> Int[Array, " n"]:
    """The slice of every instant."""
    lower, upper = bounds
    return jnp.clip(((times - lower) * (number / (upper - lower))).astype(jnp.int32), 0, number - 1)


def slice_means(
    place: Place, axis: str, values: Array, owner: Int[Array, " n"], number: int
) -> Float[Array, " slices"]:
    """The mean of `values` over each slice of an axis, by the place's quadrature.

    It is 0 where a draw left a slice without points.
    """
    if isinstance(place, Lattice):
        at = place.axes.index(axis)
        size = place.weights[at]
        rest = {a: w for a, w in zip(place.axes, place.weights) if a != axis}
        for other, weight in rest.items():
            if weight is not None:
                values = values * place.along(other, weight / jnp.mean(weight))
        values = jnp.mean(values, axis=[i for i in range(len(place.axes)) if i != at])
    else:
        size = place.weights
    size = jnp.ones_like(values) if size is None else size.astype(values.dtype)
    total, count = (jax.ops.segment_sum(each, owner, number) for each in (size * values, size))
    return jnp.where(count > 0, total / jnp.where(count > 0, count, 1.0), 0.0)
