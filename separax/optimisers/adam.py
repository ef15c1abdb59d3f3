"""Adam, with a constant or a scheduled rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import optax

from ..errors import InputError, finite, one_of, whole

SCHEDULES = ("constant", "cosine", "exponential")


@dataclass(frozen=True)
class Adam:
    """Adam.

    Arguments:
        rate: the learning rate (its highest, where it is scheduled).
        schedule: "constant"; "cosine", down to zero at the last step; "exponential", down to `final` of it; or any
            function step → rate.
        warmup: steps over which the rate rises from zero at the start.
        final: what is left of the rate at the end of an exponential schedule.
        steps: how many, over which a schedule runs; None takes the recipe's.
    """

    rate: float = 1e-3
    schedule: Literal["constant", "cosine", "exponential"] | optax.Schedule = "constant"
    warmup: int = 0
    final: float = 1e-3
    steps: int | None = None

    searches: ClassVar[bool] = False
    solves: ClassVar[bool] = False

    def __post_init__(self):
        finite("Adam: rate", self.rate, positive=True)
        finite("Adam: final", self.final, positive=True)
        whole("Adam: warmup", self.warmup, 0)
        if self.steps is not None:
            object.__setattr__(self, "steps", whole("Adam: steps", self.steps))
        if not callable(self.schedule):
            one_of("Adam: schedule", self.schedule, SCHEDULES)

    def rates(self, steps: int) -> optax.Schedule:
        if callable(self.schedule):
            return self.schedule
        if self.warmup >= steps:
            raise InputError(f"Adam: warmup={self.warmup} is not shorter than its {steps} steps")
        left = steps - self.warmup
        after = {
            "constant": lambda: optax.constant_schedule(self.rate),
            "cosine": lambda: optax.cosine_decay_schedule(self.rate, left),
            "exponential": lambda: optax.exponential_decay(self.rate, left, self.final),
        }[self.schedule]()
        if not self.warmup:
            return after
        return optax.join_schedules([optax.linear_schedule(0.0, self.rate, self.warmup), after], [self.warmup])

    def transform(self, steps: int) -> optax.GradientTransformation:
        """The optax transformation for a run of `steps` steps."""
        if self.schedule == "constant" and not self.warmup:
            return optax.adam(self.rate)  # no counter to keep
        return optax.adam(self.rates(steps))
