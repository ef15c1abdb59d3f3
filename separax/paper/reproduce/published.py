"""The rows that the paper published, and what it says about how they were made."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources
from typing import Any

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
