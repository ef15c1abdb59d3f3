"""Published rows and records of ours, side by side, in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .plan import DOUBTED, OTHER_EQUATION, Published, pointwise, published, seeds_of, steps_of
from .records import Record

LEVEL = 0.70  # of the paper's confidence intervals
WITHIN = 1.25  # up to this ratio a row counts as reproduced


class Interval(NamedTuple):
    """A mean, and half of its confidence interval; None for a single value, which has no spread."""

    mean: float
    half: float | None


def interval(values: Sequence[float]) -> Interval:
    """The mean of some values and its confidence interval by Student's t, which is right for a few
    values of a normal law:  mean ± t s / √n."""
    if len(values) == 1:
        return Interval(float(values[0]), None)
    from scipy.stats import t

    quantile = float(t.ppf((1 + LEVEL) / 2, len(values) - 1))
    spread = float(np.std(values, ddof=1))
    return Interval(float(np.mean(values)), quantile * spread / math.sqrt(len(values)))


@dataclass(frozen=True)
class Row:
    """A published row and a record of ours, either of which may be missing."""

    problem: str
    network: str
    points: int
    axes: int
    published: Published | None = None
    record: Record | None = None

    @classmethod
    def of(cls, record: Record) -> Row:
        """A record alone, as a row."""
        about = {name: record[name] for name in ("problem", "network", "points", "axes")}
        return cls(**about, record=record)

    def _ours(self, name: str) -> Any:
        return None if self.record is None else self.record[name]

    @property
    def relative_l2(self) -> Interval | None:
        values = self._ours("relative_l2")
        return None if values is None else interval(values)

    @property
    def rmse(self) -> float | None:
        values = self._ours("rmse")
        return None if values is None else interval(values).mean

    @property
    def ratio(self) -> float | None:
        """Our relative L2 error over the published one: below 1 is better."""
        ours = self.relative_l2
        if ours is None or self.published is None or self.problem in OTHER_EQUATION:
            return None
        return ours.mean / self.published.relative_l2

    @property
    def ms_per_step(self) -> float | None:
        return self._ours("ms_per_step")

    @property
    def faster(self) -> float | None:
        """How many times less time a step takes than the published one."""
        theirs = self.published.step_ms if self.published else None
        return theirs / self.ms_per_step if theirs and self.ms_per_step else None

    @property
    def memory_mb(self) -> float | None:
        return self._ours("memory_mb")

    @property
    def device_seconds(self) -> float:
        """Compiling and training; where rows were trained side by side (`workers`), this row's
        part of that time."""
        spent = (self._ours("train_seconds") or 0.0) + (self._ours("compile_seconds") or 0.0)
        return spent / (self.record or {}).get("workers", 1)

    @property
    def short(self) -> list[str]:
        """In which ways less was run than published."""
        if self.record is None or self.record["status"] != "done":
            return []
        seeds, steps = len(self.record["seeds"]), self.record["steps"]
        all_seeds, all_steps = seeds_of(self.problem), steps_of(self.problem, self.network)
        notes = [f"{plural(seeds, 'seed')} of {all_seeds}"] if seeds < all_seeds else []
        return notes + ([f"{steps:,} steps of {all_steps:,}"] if steps < all_steps else [])

    @property
    def notes(self) -> str:
        """What a reader must know to compare this row."""
        if self.record is None:
            return "not run"
        note = " ".join(self.record["note"].split())
        if self.record["status"] == "skipped":
            return f"skipped: {note}"
        notes = self.short if self.record["status"] == "done" else ["timed only"]
        if self.record["precision"] != "float32":
            notes.append(self.record["precision"])
        counts = self.record["settings"].get("points")
        if isinstance(counts, Mapping) and len(set(counts.values())) > 1:
            notes.append(" × ".join(map(str, counts.values())))
        remarks = OTHER_EQUATION | DOUBTED if self.published else {}
        return "; ".join(filter(None, [*notes, note, remarks.get(self.problem)]))


def compare(problem: str, records: Iterable[Record]) -> list[Row]:
    """The rows of one problem, published or only ours, by network in the paper's order and by
    points. Records of a study of ranks are not among them."""
    found = [r for r in records if r["problem"] == problem and "rank" not in r]
    ours = {(r["network"], r["points"]): r for r in found}
    rows = [
        Row(problem, p.network, p.points, p.axes, p, ours.get((p.network, p.points)))
        for p in published(problem)
    ]
    known = {(row.network, row.points) for row in rows}
    rows += [Row.of(record) for key, record in ours.items() if key not in known]
    networks = list(dict.fromkeys(row.network for row in rows))
    return sorted(rows, key=lambda row: (networks.index(row.network), row.points))


@dataclass(frozen=True)
class Summary:
    """The rows of one problem in numbers."""

    problem: str
    rows: int  # published
    compared: int  # of these with an error of ours
    full: int  # of these with the published seeds and steps
    within: int  # of those compared, up to `WITHIN` times the published error
    slowest: float | None  # smallest number of times faster, of separable networks
    separable_seconds: float  # compiling and training, all seeds together
    pointwise_seconds: float


def summarise(problem: str, rows: Sequence[Row]) -> Summary:
    """The summary of the rows of a problem."""
    compared = [row for row in rows if row.ratio is not None]
    faster = [row.faster for row in rows if row.faster and not pointwise(row.network)]
    # two published rows may stand beside the same record
    recorded = {id(row.record): row for row in rows if row.record is not None}.values()
    separable, others = (
        sum(row.device_seconds for row in recorded if pointwise(row.network) == which)
        for which in (False, True)
    )
    return Summary(
        problem,
        sum(row.published is not None for row in rows),
        len(compared),
        sum(not row.short for row in compared),
        sum((row.ratio or 0.0) <= WITHIN for row in compared),
        min(faster, default=None),
        separable,
        others,
    )


def plural(number: int, word: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
