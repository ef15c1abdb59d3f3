"""Which rows to run: those the paper reports, cut down to what is asked for."""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ...core import InputError, listed, one_of, whole
from ...equations import Problem
from ...networks import NETWORKS, SPINN
from ...recipe import LBFGS, Adam, Causal, Recipe
from ..catalogue import CATALOGUE

# the paper's name for pinn-mod with causal weights; run only if asked for: see the notice in `Causal`
CAUSAL = "causal-pinn"
RANKED = ("spinn", "spinn-mod")  # the networks of a study of ranks
BASELINES = ("timed", "smallest", "all")
BASELINE_SEEDS = 3
# where the paper's code spreads a number of points differently along the axes than its cube root
LATTICES = {
    "navier-stokes": {64: {"t": 16, "x": 128, "y": 128}, 128: {"t": 32, "x": 256, "y": 256}}
}


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
            assert isinstance(
                recipe.network, SPINN
            )  # `plan` gives ranks to separable networks alone
            changes["network"] = dataclasses.replace(recipe.network, rank=self.rank)
        if self.network.endswith(TUNED):
            assert isinstance(recipe.optimiser, Adam)
            changes["optimiser"] = [recipe.optimiser, LBFGS(LBFGS_STEPS)]
        if self.network == CAUSAL:
            changes["weighting"] = Causal()
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
        raise InputError(
            f"ranks: {listed(networks)} has none to choose: write networks={','.join(RANKED)}, or leave ranks out"
        )
    jobs: list[Job] = []
    for name in dict.fromkeys(problems or CATALOGUE):
        rows = [
            row for row in published() if row.problem == name and row.network in (networks or known)
        ]
        for network in dict.fromkeys(row.network for row in rows):
            sizes = _sizes(
                name,
                network,
                [row for row in rows if row.network == network],
                points,
                network in networks,
            )
            baseline = pointwise(network)
            chosen = seeds or (BASELINE_SEEDS if baseline else seeds_of(name))
            for size in sizes:
                train = (
                    not baseline
                    or baselines == "all"
                    or (baselines == "smallest" and size == min(sizes))
                )
                job = Job(
                    name,
                    network,
                    size,
                    tuple(range(first_seed, first_seed + chosen)),
                    steps,
                    None,
                    train,
                )
                jobs += [job] if not ranks else _with_ranks(job, ranks)
    if not jobs:
        asked = listed([*problems, *networks, *map(str, points)])
        raise InputError(
            f"reproduce: the paper has no row for {asked}: `separax reproduce --show` lists those it has"
        )
    # small rows first, baselines last; rows of one network and size share much of what a compiler has to try out
    return sorted(jobs, key=lambda job: (pointwise(job.network), job.points, job.network))


def _sizes(
    problem: str, network: str, rows: Iterable[Published], points: Sequence[int], named: bool
) -> list[int]:
    """The published sizes, or those asked for: all of them for a network that is named."""
    usual = PUBLISHED_POINTS.get(problem, {}).get(network)
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
    return [
        dataclasses.replace(job, rank=rank)
        for rank in sorted({whole("ranks", rank) for rank in ranks})
    ]


def left_out(
    jobs: Sequence[Job], problems: Sequence[str], networks: Sequence[str], points: Sequence[int]
) -> list[str]:
    """What was asked for and is in no job, in words."""
    planned = {(job.problem, job.network) for job in jobs}
    if problems:
        found = [
            f"{n} of {p}"
            for p in dict.fromkeys(problems)
            for n in dict.fromkeys(networks)
            if (p, n) not in planned
        ]
    else:
        found = [n for n in dict.fromkeys(networks) if n not in {network for _, network in planned}]
    return found + [
        f"{n} points" for n in dict.fromkeys(points) if n not in {job.points for job in jobs}
    ]


DEVICE = "NVIDIA RTX 3090"  # all published times and memory
SEEDS = {"navier-stokes": 3, "navier-stokes-3d": 5}  # seven elsewhere
STEPS = {
    "navier-stokes": 100_000,
    "poisson-lshape": 5_000,
}  # 50,000 elsewhere; of diffusion-5d that is not stated
TUNED = "+lbfgs"  # what a network's name ends in where L-BFGS follows Adam
LBFGS_STEPS = 1_000  # the paper says "a single outer loop", and not how many steps that is
PUBLISHED_POINTS = {
    "poisson-lshape": {"spinn-mod": 256, "pinn-mod": 64}
}  # where the paper's table does not say
# rows that are of another problem than the one that is stated: no ratio is made of them, or one that says so
OTHER_EQUATION = {"poisson-lshape": "the published figure is of -Δu + u = 1"}
DOUBTED = {"klein-gordon-3d": "the published figure may be of cos 2t"}


@dataclass(frozen=True)
class Published:
    """One published row. What was not reported is None.

    `points` are points per axis; where only their total was reported it is in `total_points`. Where only the time of one
    window of several was reported it is in `window_minutes`, and `total_minutes` is None.
    """

    problem: str
    network: str
    points: int | None
    axes: int
    relative_l2: float
    rmse: float | None
    ms_per_step: float | None
    memory_mb: float | None
    total_minutes: float | None
    source: str
    spread: float | None = None  # of relative_l2, as printed beside it
    total_points: int | None = None
    window_minutes: float | None = None

    @property
    def seeds(self) -> int:
        """Over how many seeds the paper averages."""
        return seeds_of(self.problem)

    @property
    def steps(self) -> int:
        """For how many steps (of one time window, if there are several) the paper trains."""
        return steps_of(self.problem, self.network)

    @property
    def step_ms(self) -> float | None:
        """Milliseconds of a step: as reported, or from the minutes of a whole run or window."""
        minutes = self.total_minutes or self.window_minutes
        return self.ms_per_step or (None if minutes is None else 60_000 * minutes / self.steps)

    @property
    def remark(self) -> str | None:
        """Why this row may be of another problem than ours."""
        return OTHER_EQUATION.get(self.problem) or DOUBTED.get(self.problem)

    def about(self, network: str, points: int, axes: int) -> bool:
        """Whether a run of ours with these settings is to be put beside this row."""
        if network != self.network:
            return False
        if self.points is not None:
            return points == self.points
        if self.total_points is not None:
            return points**axes == self.total_points
        return points == PUBLISHED_POINTS.get(self.problem, {}).get(network)


def pointwise(network: str) -> bool:
    """Whether a network is one of the baselines."""
    return not network.startswith("spinn")


def seeds_of(problem: str) -> int:
    return SEEDS.get(problem, 7)


def steps_of(problem: str, network: str) -> int:
    return STEPS.get(problem, 50_000) + (LBFGS_STEPS if network.endswith(TUNED) else 0)


def published(
    problem: str | None = None, network: str | None = None, points: int | None = None
) -> list[Published]:
    """The published rows, in the paper's order: all of them, or those of a problem, a network, a number of points per axis."""
    rows = _rows()
    if problem is not None:
        one_of("problem", problem, dict.fromkeys(row.problem for row in rows))
    if network is not None:
        one_of("network", network, dict.fromkeys(row.network for row in rows))
    return [
        row
        for row in rows
        if problem in (None, row.problem)
        and network in (None, row.network)
        and points in (None, row.points)
    ]


@functools.cache
def _rows() -> tuple[Published, ...]:
    text = resources.files("separax.paper.reproduce").joinpath("published.csv").read_text("utf-8")
    return tuple(_row(cells) for cells in csv.DictReader(text.splitlines()))


def _row(cells: dict[str, str]) -> Published:
    def number(name: str) -> float | None:
        return float(cells[name]) if cells[name] else None

    points, minutes = cells["points_per_axis"], cells["total_minutes"]
    total = points.removesuffix(" total") if points.endswith(" total") else None  # "2^15 total"
    window = (
        minutes.removesuffix(" per window") if minutes.endswith(" per window") else None
    )  # "9 per window"
    base, power = map(int, total.split("^")) if total else (0, 0)
    return Published(
        problem=cells["problem"],
        network=cells["network"],
        points=int(points) if points and total is None else None,
        axes=int(cells["axes"]),
        relative_l2=float(cells["relative_l2"]),
        rmse=number("rmse"),
        ms_per_step=number("ms_per_step"),
        memory_mb=number("memory_mb"),
        total_minutes=None if window else number("total_minutes"),
        source=cells["source"],
        spread=number("relative_l2_spread"),
        total_points=base**power if total else None,
        window_minutes=float(window) if window else None,
    )
