"""Adam, with a constant or a scheduled rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import optax

from .rates import Rated


@dataclass(frozen=True)
class Adam(Rated):
    """Adam.

    Arguments:
        rate: the learning rate (its highest, where it is scheduled).
        schedule: "constant"; "cosine", down to zero at the last step; "exponential", down to `final` of it; or any
            function step → rate.
        warmup: steps over which the rate rises from zero at the start.
        final: what is left of the rate at the end of an exponential schedule.
        steps: how many, over which a schedule runs; None takes the recipe's.
    """

    searches: ClassVar[bool] = False
    solves: ClassVar[bool] = False
    sees: ClassVar[str] = "vector"

    def transform(self, steps: int) -> optax.GradientTransformation:
        """The optax transformation for a run of `steps` steps."""
        return optax.adam(self.rate_in(steps))
