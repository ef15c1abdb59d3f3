"""What can be added to a field without an equation or a condition noticing: a pressure is known up to a constant, or up to a function of time,
where only its gradient is in the equation. That is no lack of conditions."""

from __future__ import annotations

import itertools

from .problem import Problem


def free(problem: Problem) -> dict[str, list[tuple[str, ...]]]:
    """By field, the axes that a function may depend on which can be added to it; () where that is a constant. Fields that are not named are
    fixed by their values somewhere."""
    keys = {*problem.needs, *(key for term in problem.terms for key in term.needs)}
    found = {}
    for c, field in enumerate(problem.fields):
        if any(walls[c] for walls in problem.walls):  # values that are built in
            continue
        # every derivative must be along an axis that the function does not depend on
        derivatives = [{a for a, order in zip(problem.box.axes, orders) if order} for component, orders in keys if component == c]
        some = [axes for n in range(problem.box.dimension) for axes in itertools.combinations(problem.box.axes, n)]
        unseen = [axes for axes in some if all(along - set(axes) for along in derivatives)]
        if unseen:
            found[field] = [axes for axes in unseen if not any(set(axes) < set(other) for other in unseen)]
    return found
