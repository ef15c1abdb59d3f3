"""What an equation of the catalogue consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..domain import Uniform
from ..errors import one_of
from ..networks import NETWORKS, PINN, SPINN
from ..optimisers import Adam
from ..problem import Problem
from ..recipe import Recipe

RECIPES = ("best", "paper")


@dataclass(frozen=True)
class Entry:
    """An equation: its problem and its recipe, by the recipe's name (and the network's)."""

    name: str
    equation: str
    summary: str
    problem: Callable[[str], Problem]
    recipe: Callable[[str, str], Recipe]

    def make(self, recipe: str = "best", network: str = "spinn-mod") -> tuple[Problem, Recipe]:
        one_of("recipe", recipe, RECIPES)
        one_of("network", network, NETWORKS)
        return self.problem(recipe), self.recipe(recipe, network)


def paper_network(name: str) -> SPINN | PINN:
    """The paper's networks for its three- and four-axis equations, as its released code has them: raw coordinates, tanh,
    64/32 for the separable ones and 128 for the pointwise ones. "4 hidden layers" are three dense tanh layers of the plain
    separable network and four tanh levels of the modified one; the baseline's five are four in the code."""
    depth = {"spinn": 3, "spinn-mod": 4, "pinn": 4, "pinn-mod": 5}[name]
    size = {"rank": 32, "width": 64} if name.startswith("spinn") else {"width": 128}
    return NETWORKS[name](depth=depth, scaled=False, **size)


def paper_recipe(name: str, faces: Mapping[str, int]) -> Recipe:
    """Adam at 1e-3 for 50,000 steps, 64 points per axis redrawn every 100 steps, all weights 1.

    `faces` are the conditions on several faces and their number: the paper adds the face means for separable networks but
    averages over all boundary points for pointwise ones, so there the weights are divided.
    """
    weights = {} if name.startswith("spinn") else {term: 1 / n for term, n in faces.items()}
    points = 64 if name != "pinn-mod" else 54
    return Recipe(paper_network(name), points, 50_000, Adam(1e-3), Uniform(every=100), emphasis=1.0, weights=weights)
