"""The mean over seeds and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import InputError, finite

LEVEL = 0.70  # of the paper's confidence intervals


class Interval(NamedTuple):
    """A mean and its confidence interval; `low` and `high` are None for a single value, which says nothing of a spread."""

    mean: float
    low: float | None
    high: float | None

    @property
    def half(self) -> float | None:
        """What stands after ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The mean of `values` and its confidence interval by Student's t, which is right for a few values of a normal law."""
    if not 0 < finite("level", level) < 1:
        raise InputError(f"level must be between 0 and 1, got {level!r}: write e.g. level=0.7")
    found = np.asarray(values, float)
    if found.ndim != 1 or found.size == 0:
        raise InputError(f"values must be a list of at least one number, got {values!r}")
    if not np.all(np.isfinite(found)):
        raise InputError(f"values must be finite, got {values!r}: leave out the seeds that failed, and say so")
    mean = float(np.mean(found))
    if found.size == 1:
        return Interval(mean, None, None)
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, found.size - 1) * np.std(found, ddof=1)) / math.sqrt(found.size)
    return Interval(mean, mean - half, mean + half)
