"""Solutions with random parameters: whatever is done with a solution, it need not be a good one."""

import itertools

import jax
import numpy as np

from separax.residuals.model import Model
from separax.solution import History, Outcome, Piece, Solution, Timing


def untrained(problem, recipe, seed=0, since=0.0, steps=10, first=None):
    """As `solve` gives it, after no training at all. Networks of a march are all built for its `first` window."""
    with jax.enable_x64(True):
        model = Model.build(first or problem, recipe, jax.random.key(seed))
    at = np.arange(steps)
    losses = {name: np.exp(-at / (i + 2)) for i, name in enumerate(problem.names)}
    history = History(at, losses, sum(losses.values()), at[::2], 0.5 ** at[::2])
    outcome = Outcome(recipe, history, Timing(1.0, 2.0, steps), seed=seed, best_loss=0.1)
    return Solution(problem, [Piece.of(model, since)], outcome)


def untrained_march(problem, recipe, windows):
    edges = np.linspace(*problem.box["t"], windows + 1)
    parts = [
        untrained(
            problem.during(low, high),
            recipe,
            seed=i,
            since=low - edges[0],
            first=problem.during(*edges[:2]),
        )
        for i, (low, high) in enumerate(itertools.pairwise(edges))
    ]
    outcome = Outcome.joined(recipe, [part.outcome for part in parts], False, None)
    return Solution.joined(problem, parts, outcome)
