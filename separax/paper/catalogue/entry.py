"""What an equation of the catalogue consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core import InputError, one_of
from ...domain import AbstractSampler, GaussLegendre, Uniform
from ...equations import Problem
from ...networks import NETWORKS, PINN, SPINN
from ...recipe import BFGS, Adam, Recipe, Solve
from ..flow import Flow

RECIPES = ("best", "paper")


@dataclass(frozen=True)
class Entry:
    """An equation of the catalogue: its problem and its recipe, by the recipe's name (and the
    network's).

    Arguments:
        name: of the problem.
        equation: as a formula.
        summary: what is said of it in a list.
        problem: makes the problem for a recipe, best or paper.
        recipe: makes the recipe of this name for a network.
        windows: of time, for networks that are trained.
        solved_windows: the same where output layers are solved for.
        solved: what `best` means if no network is named: a recipe that solves for output layers.
        solved_problem: where that has its own way to put the problem.
        takes_flow: whether `problem` can begin from a `Flow`.
    """

    name: str
    equation: str
    summary: str
    problem: Callable[..., Problem]
    recipe: Callable[[str, str], Recipe]
    windows: int = 1
    solved_windows: int = 1
    solved: Recipe | None = None
    solved_problem: Callable[[], Problem] | None = None
    takes_flow: bool = False

    def _is_solved(self, recipe: str, network: str | None) -> bool:
        """Whether the recipe that is meant solves for output layers."""
        return self.solved is not None and recipe == "best" and network is None

    def windows_of(self, recipe: str, network: str | None) -> int:
        """How many windows of time."""
        return self.solved_windows if self._is_solved(recipe, network) else self.windows

    def make(
        self, recipe: str = "best", network: str | None = None, flow: Flow | None = None
    ) -> tuple[Problem, Recipe]:
        """The problem and the recipe.

        Arguments:
            recipe: best or paper.
            network: by its name; None: the recipe's own.
            flow: to begin from.
        """
        one_of("recipe", recipe, RECIPES)
        if network is not None:
            one_of("network", network, NETWORKS)
        if flow is not None and not self.takes_flow:
            raise InputError(
                f"initial: {self.name} does not begin from a flow: leave it out, or solve"
                " navier-stokes"
            )
        is_solved = self._is_solved(recipe, network)
        if is_solved and self.solved and self.solved_problem:
            return self.solved_problem(), self.solved
        problem = self.problem(recipe) if flow is None else self.problem(recipe, flow)
        if is_solved and self.solved:
            return problem, self.solved
        return problem, self.recipe(recipe, network or "spinn-mod")


def paper_network(name: str, rank: int = 32) -> SPINN | PINN:
    """The paper's networks for its three- and four-axis equations: raw coordinates, tanh, 64/32 and
    four hidden layers for the separable ones, 128 and five for the pointwise ones. The released
    code has a layer less in its plain networks, which does not reach the published errors of the
    diffusion equation (0.0094 instead of 0.0075 at 64³); the text's number does.
    """
    depth = {"spinn": 4, "spinn-mod": 4, "pinn": 5, "pinn-mod": 5}[name]
    size = {"rank": rank, "width": 64} if name.startswith("spinn") else {"width": 128}
    return NETWORKS[name](depth=depth, scaled=False, **size)


def paper_recipe(
    name: str,
    faces: Mapping[str, int],
    *,
    rank: int = 32,
    points: int | None = None,
    steps: int = 50_000,
    weights: Mapping[str, float] | None = None,
    averaged: bool = False,
    precision: str | None = None,
) -> Recipe:
    """Adam at 1e-3 for 50,000 steps, 64 points per axis redrawn every 100 steps, all weights 1
    unless given.

    `faces` are the conditions on several faces and their number: the paper adds the face means for
    separable networks but averages over all boundary points for pointwise ones, so there the
    weights are divided; `averaged`: for both.
    """
    divided = averaged or not name.startswith("spinn")
    all_weights = dict(weights or {})
    if divided:
        all_weights |= {term: all_weights.get(term, 1.0) / n for term, n in faces.items()}
    points = points or (64 if name != "pinn-mod" else 54)
    # TF32 on a GPU for the pointwise ones, which are all products: what JAX does there unless it is
    # told otherwise
    precision = precision or ("float32" if name.startswith("spinn") else "tf32")
    return Recipe(
        paper_network(name, rank),
        points,
        steps,
        Adam(1e-3),
        Uniform(every=100),
        emphasis=1.0,
        weights=all_weights,
        precision=precision,
    )


def small_pointwise(name: str, points: int = 16) -> Recipe:
    """A pointwise network that a laptop can train: what `best` means for a baseline."""
    return Recipe(NETWORKS[name](width=64, depth=4), points, 10_000, Adam(2e-3, "cosine"))


def solved(
    rank: int | Mapping[str, int],
    functions: int | Mapping[str, int],
    points: int | Mapping[str, int],
    optimiser: Solve,
    *,
    sampler: AbstractSampler | None = None,
    emphasis: float = 10.0,
    weights: Mapping[str, float] | None = None,
    **network: Any,
) -> Recipe:
    """Sums of products of polynomials, whose coefficients are solved for on a rule of quadrature:
    nothing in it is neural.

    Arguments:
        rank, functions: of the network, by axis where these differ; `network`: what else it is
            told, such as merge="tucker" for solutions that are sums of too many products.
        points, optimiser, sampler, emphasis, weights: as in a `Recipe`.
    """
    return Recipe(
        SPINN(rank=rank, depth=0, body="mlp", functions=functions, **network),
        points,
        optimiser=optimiser,
        sampler=sampler or GaussLegendre(),
        emphasis=emphasis,
        weights=weights or {},
        precision="float64",
    )


def all_products(
    functions: Mapping[str, int],
    points: Mapping[str, int],
    steps: int,
    iterations: int,
    *,
    frequencies: int = 5,
    emphasis: float = 10.0,
    weights: Mapping[str, float] | None = None,
) -> Recipe:
    """A core with a coefficient for every product of the functions of each axis, which are too many
    for a matrix: by conjugate gradients.

    Arguments:
        functions, points: by axis.
        steps, iterations: of the solve.
        frequencies: waves along periodic axes.
        emphasis, weights: as in a `Recipe`.
    """
    return solved(
        functions,
        functions,
        points,
        Solve(steps, sweeps=0, tries=3, largest_matrix=0, iterations=iterations),
        emphasis=emphasis,
        weights=weights,
        merge="tucker",
        frequencies=frequencies,
    )


def quasi_newton(
    network: SPINN | PINN,
    points: int | Mapping[str, int],
    adam: int,
    bfgs: int,
    *,
    sampler: AbstractSampler | None = None,
    emphasis: float = 1.0,
    weights: Mapping[str, float] | None = None,
) -> Recipe:
    """A small network in float64 on a rule of quadrature: Adam to find the valley, then BFGS along
    its floor."""
    return Recipe(
        network,
        points,
        adam,
        [Adam(5e-3, "cosine"), BFGS(bfgs)],
        sampler or GaussLegendre(),
        emphasis=emphasis,
        weights=weights or {},
        precision="float64",
    )
