"""Which rows to run: those the paper reports, cut down to what is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..catalogue import CATALOGUE
from ..causal import Causal
from ..errors import InputError, listed, one_of, whole
from ..networks import NETWORKS, SPINN
from ..optimisers import LBFGS, Adam
from ..problem import Problem
from ..recipe import Recipe
from .published import LBFGS_STEPS, POINTS, TUNED, Published, pointwise, published, seeds_of

CAUSAL = (
    "causal-pinn"  # the paper's name for pinn-mod with causal weights; run only if it is asked for (see the notice in `causal`)
)
RANKED = ("spinn", "spinn-mod")  # the networks of a study of ranks
BASELINES = ("timed", "smallest", "all")
BASELINE_SEEDS = 3
# where the paper's code spreads a number of points differently along the axes than its cube root
LATTICES = {"navier-stokes": {64: {"t": 16, "x": 128, "y": 128}, 128: {"t": 32, "x": 256, "y": 256}}}


@dataclass(frozen=True)
class Job:
    """A row to run: a network on a problem at a number of points per axis."""

    problem: str
    network: str
    points: int
    seeds: tuple[int, ...]
    steps: int | None = None  # None: the recipe's
    rank: int | None = None  # None: the recipe's
    train: bool = True  # False: time and memory of a step alone

    @property
    def stem(self) -> str:
        return f"{self.network}-{self.points}" + (f"-rank{self.rank}" if self.rank else "")

    def path(self, folder: Path) -> Path:
        return folder / self.problem / f"{self.stem}.json"

    def make(self) -> tuple[Problem, Recipe]:
        network = "pinn-mod" if self.network == CAUSAL else self.network.removesuffix(TUNED)
        problem, recipe = CATALOGUE[self.problem].make("paper", network)
        points = LATTICES.get(self.problem, {}).get(self.points, self.points)
        changes: dict[str, object] = {"points": points}
        if self.steps is not None:
            changes["steps"] = self.steps
        if self.rank is not None:
            assert isinstance(recipe.network, SPINN)  # `plan` gives ranks to separable networks alone
            changes["network"] = dataclasses.replace(recipe.network, rank=self.rank)
        if self.network.endswith(TUNED):
            assert isinstance(recipe.optimiser, Adam)
            changes["optimiser"] = [recipe.optimiser, LBFGS(LBFGS_STEPS)]
        if self.network == CAUSAL:
            changes["causal"] = Causal()
        return problem, dataclasses.replace(recipe, **changes)  # pyright: ignore[reportArgumentType]


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
        networks: which of spinn, spinn-mod, pinn, pinn-mod (and spinn-mod+lbfgs); all if empty. causal-pinn is run only if it is named.
        points: per axis; the published ones if empty. A network that is named is run on all of them; otherwise those are that are published for
            it, or all if none is.
        seeds: how many, trained at once; the paper's number if None, and three for the pointwise baselines.
        first_seed: the seeds are first_seed, first_seed + 1, …
        steps: of each run; the paper's if None.
        ranks: instead of the tables, a study: the separable networks with each of these ranks.
        baselines: train the pointwise networks at their "smallest" size, at "all" sizes, or only measure a step ("timed").
    """
    known = {row.network for row in published()} & {*NETWORKS, *(n + TUNED for n in NETWORKS)}
    for name in problems:
        one_of("problem", name, CATALOGUE)
    for name in networks:
        one_of("networks", name, sorted(known | {CAUSAL}))
    one_of("baselines", baselines, BASELINES)
    if seeds is not None:
        whole("seeds", seeds)
    if ranks and networks and not set(networks) & set(RANKED):
        raise InputError(f"ranks: {listed(networks)} has none to choose: write networks={','.join(RANKED)}, or leave ranks out")
    jobs: list[Job] = []
    for name in dict.fromkeys(problems or CATALOGUE):
        rows = [row for row in published() if row.problem == name and row.network in (networks or known)]
        for network in dict.fromkeys(row.network for row in rows):
            sizes = _sizes(name, network, [row for row in rows if row.network == network], points, network in networks)
            baseline = pointwise(network)
            chosen = seeds or (BASELINE_SEEDS if baseline else seeds_of(name))
            for size in sizes:
                train = not baseline or baselines == "all" or (baselines == "smallest" and size == min(sizes))
                job = Job(name, network, size, tuple(range(first_seed, first_seed + chosen)), steps, None, train)
                jobs += [job] if not ranks else _with_ranks(job, ranks)
    if not jobs:
        asked = listed([*problems, *networks, *map(str, points)])
        raise InputError(f"reproduce: the paper has no row for {asked}: `separax reproduce --show` lists those it has")
    # small rows first, baselines last; rows of one network and size share much of what a compiler has to try out
    return sorted(jobs, key=lambda job: (pointwise(job.network), job.points, job.network))


def _sizes(problem: str, network: str, rows: Iterable[Published], points: Sequence[int], named: bool) -> list[int]:
    """The published sizes, or those asked for: all of them for a network that is named."""
    usual = POINTS.get(problem, {}).get(network)
    found = {n for row in rows if (n := _per_axis(row) or usual) is not None}
    asked = {whole("points", n) for n in points}
    if not asked or named:
        return sorted(asked or found)
    return sorted(asked & found or (set() if network.endswith(TUNED) else asked))


def _per_axis(row: Published) -> int | None:
    """Points per axis; where only their total is published, its root."""
    return row.points if row.total_points is None else round(row.total_points ** (1 / row.axes))


def _with_ranks(job: Job, ranks: Sequence[int]) -> list[Job]:
    if job.network not in RANKED:
        return []
    return [dataclasses.replace(job, rank=rank) for rank in sorted({whole("ranks", rank) for rank in ranks})]


def left_out(jobs: Sequence[Job], problems: Sequence[str], networks: Sequence[str], points: Sequence[int]) -> list[str]:
    """What was asked for and is in no job, in words."""
    planned = {(job.problem, job.network) for job in jobs}
    if problems:
        found = [f"{n} of {p}" for p in dict.fromkeys(problems) for n in dict.fromkeys(networks) if (p, n) not in planned]
    else:
        found = [n for n in dict.fromkeys(networks) if n not in {network for _, network in planned}]
    return found + [f"{n} points" for n in dict.fromkeys(points) if n not in {job.points for job in jobs}]
