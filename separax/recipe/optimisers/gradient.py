"""Learning rates, constant or scheduled: what Adam and SOAP share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import optax

from ...core import InputError, finite, one_of, whole
from ...equations import Problem
from .base import AbstractGradientOptimiser, Layers

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
        whole(f"{name}: warmup", self.warmup, 0)
        if self.steps is not None:
            object.__setattr__(self, "steps", whole(f"{name}: steps", self.steps))
        if not callable(self.schedule):
            one_of(f"{name}: schedule", self.schedule, SCHEDULES)
        elif self.warmup:
            raise InputError(
                f"{name}: warmup={self.warmup} is for the schedules by name; one of your own begins as it says: leave warmup out, or write"
                " optax.warmup_constant_schedule"
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
        return optax.join_schedules(
            [optax.linear_schedule(0.0, self.rate, self.warmup), after], [self.warmup]
        )

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
        schedule: "constant"; "cosine", down to zero at the last step; "exponential", down to `final` of it; or any
            function step → rate.
        warmup: steps over which the rate rises from zero at the start.
        final: what is left of the rate at the end of an exponential schedule.
        steps: how many, over which a schedule runs; None takes the recipe's.
    """

    def transformation(self, layers: Layers) -> optax.GradientTransformation:
        # one vector: each weight's step is its own, so one kernel serves all layers
        return optax.adam(self.rate_now())
