"""What can be added to a field without an equation or a condition noticing: a pressure is known up to a constant, or up to a function of time,
where only its gradient is in the equation. That is no lack of conditions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from .problem import Problem


def free(problem: Problem) -> dict[str, list[tuple[str, ...]]]:
    """By field, the axes that a function may depend on which can be added to it; () where that is a constant. Fields that are not named are
    fixed by their values somewhere."""
    keys = {*problem.needs, *(key for term in problem.terms for key in term.needs)}
    found = {}
    for c, field in enumerate(problem.fields):
        if any(side[c] for side in problem.walls):  # built in
            continue
        orders = [o for component, o in keys if component == c]
        # every derivative must be along an axis that the function does not depend on
        all_of = range(len(problem.box.axes))
        unseen = [some for some in _subsets(all_of) if all(any(o[i] for i in all_of if i not in some) for o in orders)]
        largest = [some for some in unseen if not any(set(some) < set(other) for other in unseen)]
        if largest:
            found[field] = [tuple(problem.box.axes[i] for i in some) for some in largest]
    return found


def _subsets(items: Iterable[int]) -> list[tuple[int, ...]]:
    items = list(items)
    return [some for n in range(len(items)) for some in itertools.combinations(items, n)]
