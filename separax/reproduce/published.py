"""Every figure the paper reports ("Separable Physics-Informed Neural Networks", Cho et al., NeurIPS 2023), one row each."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

from ..errors import one_of

DEVICE = "NVIDIA RTX 3090"  # all published times and memory
SEEDS = {"navier-stokes": 3, "navier-stokes-3d": 5}  # seven elsewhere
STEPS = {"navier-stokes": 100_000, "poisson-lshape": 5_000}  # 50,000 elsewhere; of diffusion-5d that is not stated
TUNED = "+lbfgs"  # what a network's name ends in where L-BFGS follows Adam
LBFGS_STEPS = 1_000  # the paper says "a single outer loop", and not how many steps that is
POINTS = {"poisson-lshape": {"spinn-mod": 256, "pinn-mod": 64}}  # where the paper's table does not say
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
        return points == POINTS.get(self.problem, {}).get(network)


def pointwise(network: str) -> bool:
    """Whether a network is one of the baselines."""
    return not network.startswith("spinn")


def seeds_of(problem: str) -> int:
    return SEEDS.get(problem, 7)


def steps_of(problem: str, network: str) -> int:
    return STEPS.get(problem, 50_000) + (LBFGS_STEPS if network.endswith(TUNED) else 0)


def published(problem: str | None = None, network: str | None = None, points: int | None = None) -> list[Published]:
    """The published rows, in the paper's order: all of them, or those of a problem, a network, a number of points per axis."""
    rows = _rows()
    if problem is not None:
        one_of("problem", problem, dict.fromkeys(row.problem for row in rows))
    if network is not None:
        one_of("network", network, dict.fromkeys(row.network for row in rows))
    return [
        row for row in rows if problem in (None, row.problem) and network in (None, row.network) and points in (None, row.points)
    ]


@functools.cache
def _rows() -> tuple[Published, ...]:
    text = resources.files("separax").joinpath("reproduce", "published.csv").read_text("utf-8")
    return tuple(_row(cells) for cells in csv.DictReader(text.splitlines()))


def _row(cells: dict[str, str]) -> Published:
    def number(name: str) -> float | None:
        return float(cells[name]) if cells[name] else None

    points, minutes = cells["points_per_axis"], cells["total_minutes"]
    total = points.removesuffix(" total") if points.endswith(" total") else None  # "2^15 total"
    window = minutes.removesuffix(" per window") if minutes.endswith(" per window") else None  # "9 per window"
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
