"""The rows that the paper published, what it says about how they were made, and which of them to
run."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ...core import InputError, listed, one_of, whole
from ...equations import Problem
from ...networks import NETWORKS
from ...recipe import LBFGS, Causal, Recipe
from ..catalogue import CATALOGUE

DEVICE = "NVIDIA RTX 3090"  # of all published times and memory
TUNED = "+lbfgs"  # the end of a network's name where L-BFGS follows Adam
LBFGS_STEPS = 1_000  # the paper says "a single outer loop", and not how many steps that is
SEEDS = {"navier-stokes": 3, "navier-stokes-3d": 5}  # seven elsewhere
STEPS = {"navier-stokes": 100_000, "poisson-lshape": 5_000}  # 50,000 elsewhere
RANKS = {"diffusion": 32, "navier-stokes": 128, "navier-stokes-3d": 128}  # of the published rows
ONLY_TOTALS = ("navier-stokes",)  # whose points are given in all, 2¹⁸, and not per axis
# problems whose published figures are, or may be, of another equation than the one that is stated
OTHER_EQUATION = {"poisson-lshape": "the published figure is of -Δu + u = 1"}
DOUBTED = {"klein-gordon-3d": "the published figure may be of cos 2t"}


@dataclass(frozen=True)
class Published:
    """One published row. What was not reported is None.

    `points` are points per axis: the root of the total where only that was reported, and those of
    the released code where nothing was. `spread` is printed beside the error. Where only the time
    of one window of several was reported it is in `window_minutes`.
    """

    problem: str
    network: str
    points: int
    axes: int
    relative_l2: float
    spread: float | None
    rmse: float | None
    ms_per_step: float | None
    memory_mb: float | None
    total_minutes: float | None
    window_minutes: float | None
    source: str

    @property
    def step_ms(self) -> float | None:
        """Milliseconds of a step: as reported, or from the minutes of a whole run or window."""
        minutes = self.total_minutes or self.window_minutes
        steps = steps_of(self.problem, self.network)
        return self.ms_per_step or (None if minutes is None else 60_000 * minutes / steps)


def published(problem: str | None = None) -> list[Published]:
    """The published rows, in the paper's order: all of them, or those of a problem."""
    return [row for row in _rows() if problem in (None, row.problem)]


def pointwise(network: str) -> bool:
    """Whether a network is one of the baselines."""
    return not network.startswith("spinn")


def seeds_of(problem: str) -> int:
    """Over how many seeds the paper averages."""
    return SEEDS.get(problem, 7)


def steps_of(problem: str, network: str) -> int:
    """For how many steps the paper trains: of one window of time, where there are several."""
    return STEPS.get(problem, 50_000) + (LBFGS_STEPS if network.endswith(TUNED) else 0)


@functools.cache
def _rows() -> tuple[Published, ...]:
    text = resources.files("separax.paper.reproduce").joinpath("published.csv").read_text("utf-8")
    return tuple(
        Published(**{name: _value(name, cell) for name, cell in cells.items()})
        for cells in csv.DictReader(text.splitlines())
    )


def _value(name: str, cell: str) -> Any:
    """What a cell of a column holds: a text, a whole number, a number or nothing."""
    if name in ("problem", "network", "source"):
        return cell
    if name in ("points", "axes"):
        return int(cell)
    return float(cell) if cell else None


# --- jobs -----------------------------------------------------------------------------------------

# the paper's name for pinn-mod with causal weights; run only if asked for: see the notice in
# `Causal`
CAUSAL = "causal-pinn"
RANKED = {"spinn", "spinn-mod"}  # the networks of a study of ranks
KNOWN = {*NETWORKS, *(name + TUNED for name in NETWORKS)} & {row.network for row in published()}
BASELINES = ("timed", "smallest", "all")
BASELINE_SEEDS = 3
# where the paper's code has other numbers of points along the axes than the root of their total
LATTICES = {
    "navier-stokes": {64: {"t": 16, "x": 128, "y": 128}, 128: {"t": 32, "x": 256, "y": 256}}
}


@dataclass(frozen=True)
class Job:
    """A row to run: a network on a problem, at a number of points per axis.

    Arguments:
        steps, rank: None stands for the recipe's.
        train: False: only measure the time and the memory of a step.
    """

    problem: str
    network: str
    points: int
    seeds: tuple[int, ...]
    steps: int | None = None
    rank: int | None = None
    train: bool = True

    @property
    def stem(self) -> str:
        return stem(self.network, self.points, self.rank)

    def path(self, folder: Path) -> Path:
        """Of its record."""
        return folder / self.problem / f"{self.stem}.json"

    def make(self) -> tuple[Problem, Recipe]:
        """The problem and the paper's recipe, with what was asked for."""
        network = "pinn-mod" if self.network == CAUSAL else self.network.removesuffix(TUNED)
        problem, recipe = CATALOGUE[self.problem].make("paper", network)
        points = LATTICES.get(self.problem, {}).get(self.points, self.points)
        recipe = dataclasses.replace(recipe, points=points)
        if self.steps is not None:
            recipe = dataclasses.replace(recipe, steps=self.steps)
        if self.rank is not None:
            ranked = dataclasses.replace(recipe.network, rank=self.rank)  # pyright: ignore
            recipe = dataclasses.replace(recipe, network=ranked)
        if self.network.endswith(TUNED):
            tuned = [*recipe.optimisers, LBFGS(LBFGS_STEPS)]
            recipe = dataclasses.replace(recipe, optimiser=tuned)
        if self.network == CAUSAL:
            recipe = dataclasses.replace(recipe, weighting=Causal())
        return problem, recipe

    def __str__(self) -> str:
        rank = f", rank {self.rank}" if self.rank else ""
        return f"{self.problem}, {self.network}, {self.points} points per axis{rank}"


def stem(network: str, points: int, rank: int | None = None) -> str:
    """The name of a row's files, without their endings."""
    return f"{network}-{points}" + (f"-rank{rank}" if rank else "")


def plan(
    problems: Sequence[str] = (),
    *,
    networks: Sequence[str] = (),
    points: Sequence[int] = (),
    seeds: int | None = None,
    first_seed: int = 0,
    steps: int | None = None,
    ranks: Sequence[int] = (),
    baselines: str = "smallest",
) -> list[Job]:
    """The jobs of a reproduction, cheap ones first.

    Arguments:
        problems: names; every problem of the catalogue with a published row if empty.
        networks: which of spinn, spinn-mod, pinn, pinn-mod (and spinn-mod+lbfgs); all if empty.
            causal-pinn is run only if it is named.
        points: per axis; the published ones if empty. A network that is named is run on all of
            them; the others on those that are published for them, or on all if none is.
        seeds: how many, trained at once; the paper's number if None, and three for the baselines.
        first_seed: the seeds are first_seed, first_seed + 1, …
        steps: of each run; the paper's if None.
        ranks: instead of the tables, a study: the separable networks with each of these ranks.
        baselines: train the pointwise networks at their "smallest" size, at "all" sizes, or only
            measure a step ("timed").

    Returns:
        One job for each row; refused where there is none.
    """
    for name in problems:
        one_of("problem", name, CATALOGUE)
    for name in networks:
        one_of("networks", name, sorted(KNOWN | {CAUSAL}))
    one_of("baselines", baselines, BASELINES)
    if seeds is not None:
        whole("seeds", seeds)
    whole("seed", first_seed, 0)
    if steps is not None:
        whole("steps", steps)
    points = sorted({whole("points", n) for n in points})
    ranks = sorted({whole("ranks", rank) for rank in ranks})
    wanted = set(networks or KNOWN) & (RANKED if ranks else KNOWN | {CAUSAL})
    if not wanted:
        raise InputError(
            f"ranks: {listed(networks)} has none to choose: write networks=spinn,spinn-mod, or"
            " leave ranks out"
        )
    jobs = []
    for name in dict.fromkeys(problems or CATALOGUE):
        found = [row for row in published(name) if row.network in wanted]
        for network in dict.fromkeys(row.network for row in found):
            usual = {row.points for row in found if row.network == network}
            sizes = _sizes(network, usual, points, network in networks)
            baseline = pointwise(network)
            number = seeds or (BASELINE_SEEDS if baseline else seeds_of(name))
            trained = {"timed": [], "smallest": sizes[:1], "all": sizes}[baselines]
            for size, rank in itertools.product(sizes, ranks or [None]):
                train = not baseline or size in trained
                several = tuple(range(first_seed, first_seed + number))
                jobs.append(Job(name, network, size, several, steps, rank, train))
    if not jobs:
        asked = listed([*problems, *networks, *map(str, points)])
        raise InputError(
            f"reproduce: the paper has no row for {asked}: `separax reproduce --show` lists those"
            " it has"
        )
    # small rows first, baselines last; rows of one network and size share what a compiler tries out
    return sorted(jobs, key=lambda job: (pointwise(job.network), job.points, job.network))


def _sizes(network: str, usual: set[int], asked: Sequence[int], named: bool) -> list[int]:
    """The published sizes, or those asked for: all of these for a network that is named."""
    if not asked or named:
        return list(asked) or sorted(usual)
    fitting = [n for n in asked if n in usual]
    return fitting or ([] if network.endswith(TUNED) else list(asked))


def left_out(
    jobs: Sequence[Job], problems: Sequence[str], networks: Sequence[str], points: Sequence[int]
) -> list[str]:
    """What was asked for and is in no job, in words."""
    planned = {(job.problem, job.network) for job in jobs}
    if problems:
        pairs = itertools.product(dict.fromkeys(problems), dict.fromkeys(networks))
        found = [
            f"{network} of {name}" for name, network in pairs if (name, network) not in planned
        ]
    else:
        found = [n for n in dict.fromkeys(networks) if n not in {network for _, network in planned}]
    sizes = {job.points for job in jobs}
    return found + [f"{n} points" for n in dict.fromkeys(points) if n not in sizes]
