"""What a run is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..problem import Problem
from ..recipe import Recipe


def settings(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    """What makes two runs the same run."""
    return {
        "problem": problem.name,
        "box": repr(problem.box),
        "terms": list(problem.names),
        "equation": problem.fingerprint(),
        "recipe": re.sub(r" at 0x[0-9a-f]+", "", repr(recipe)),
        "points": recipe.counts(problem.box),
        "steps": recipe.total_steps,
        "precision": recipe.precision,
        "seeds": list(seeds),
    }
