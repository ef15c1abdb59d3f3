"""Tables: published rows and ours side by side, and studies of ranks.

Times and memory are of different machines and counted differently (`CAVEAT`), so they say how much
a user gets, not how much of it is due to the method.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...core import listed
from .plan import DEVICE, ONLY_TOTALS, OTHER_EQUATION, RANKS, published
from .records import Record
from .rows import WITHIN, Interval, Row, interval, summarise

T = TypeVar("T")
MISSING = "–"
CAVEAT = (
    "Ratio: ours over published, below 1 is better. ±: 70 % confidence interval of the mean"
    " over seeds. ≈: from the published minutes of a run. Published times and memory are of one"
    f" {DEVICE}, memory with all that the framework holds; ours are of the device named, memory of"
    " a step beyond the parameters."
)


@dataclass(frozen=True)
class Table:
    """Words in rows and columns; how they are drawn is decided last.

    Arguments:
        title: what it is of.
        columns: the cells of each, by its heading of one line or two.
        notes: one for each row, or none at all.
        caption: what stands below.
        words: how many of the first columns hold words, not numbers.
        extra: how headings begin whose columns a narrow terminal leaves out, one after the other.
    """

    title: str
    columns: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()
    caption: str = ""
    words: int = 1
    extra: Sequence[str] = ()


def cells(rows: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> dict[str, list[str]]:
    """The columns of a table.

    Arguments:
        rows: of anything.
        columns: what each column says of a row, by its heading.

    Returns:
        The cells of each column, by its heading.
    """
    rows = list(rows)
    return {heading: [of(row) for row in rows] for heading, of in columns.items()}


def problem_table(rows: Sequence[Row]) -> Table:
    """All rows of one problem."""
    columns: dict[str, Callable[[Row], str]] = {
        "\nnetwork": lambda row: row.network,
        "\npoints": lambda row: size(row.problem, row.points, row.axes),
        "relative L2\npublished": lambda row: _published_error(row),
        "relative L2\nours": lambda row: brief(row.relative_l2),
        "\nratio": lambda row: brief(row.ratio),
        "RMSE\npublished": lambda row: brief(_theirs(row, "rmse")),
        "RMSE\nours": lambda row: brief(row.rmse),
        "ms/step\npublished": lambda row: _published_time(row),
        "ms/step\nours": lambda row: brief(row.ms_per_step),
        "times\nfaster": lambda row: times(row.faster),
        "MB\npublished": lambda row: brief(_theirs(row, "memory_mb")),
        "MB\nours": lambda row: brief(row.memory_mb),
    }
    return Table(
        rows[0].problem,
        cells(rows, columns),
        [row.notes for row in rows],
        f"Ours: {_devices(rows)}.",
        extra=("RMSE", "MB", "ms/step"),
    )


def summary_table(rows: Mapping[str, Sequence[Row]]) -> Table:
    """One line for each problem, of all its rows."""
    columns = {
        "\nproblem": lambda s: s.problem,
        "published\nrows": lambda s: str(s.rows),
        "rows\ncompared": lambda s: str(s.compared),
        "of these\nin full": lambda s: str(s.full),
        f"of these\nwithin {WITHIN} ×": lambda s: str(s.within),
        "slowest\nspeed-up": lambda s: times(s.slowest),
        "device seconds\nseparable": lambda s: f"{s.separable_seconds:,.0f}",
        "device seconds\npointwise": lambda s: f"{s.pointwise_seconds:,.0f}",
    }
    others = "".join(
        f" Of {name} no row is compared: {why}." for name, why in OTHER_EQUATION.items()
    )
    caption = (
        "In full: with the published number of seeds and steps. Within: an error of at most"
        f" {WITHIN} times the published one. Speed-up: of a step of a separable network, ours on"
        f" {_devices(row for some in rows.values() for row in some)} over the published one on"
        f" {DEVICE}. Device seconds: compiling and training, all seeds.{others}"
    )
    summaries = [summarise(name, some) for name, some in rows.items()]
    return Table("summary", cells(summaries, columns), (), caption, extra=["device seconds"])


def rank_table(records: Sequence[Record]) -> Table:
    """A study of ranks of one problem: error and time of a step; the published error where the
    rank is the paper's."""
    records = sorted(records, key=lambda r: (r["network"], r["points"], r["rank"]))
    problem, rows = records[0]["problem"], [Row.of(r) for r in records]
    known = {(p.network, p.points): p.relative_l2 for p in published(problem)}

    def theirs(r: Record) -> float | None:
        same = r["rank"] == RANKS.get(problem)
        return known.get((r["network"], r["points"])) if same else None

    columns: dict[str, Callable[[Record], str]] = {
        "\nnetwork": lambda r: r["network"],
        "\npoints": lambda r: size(problem, r["points"], r["axes"]),
        "\nrank": lambda r: str(r["rank"]),
        "relative L2\npublished": lambda r: brief(theirs(r)),
        "relative L2\nours": lambda r: brief(interval(r["relative_l2"])),
        "ms/step\nours": lambda r: brief(r["ms_per_step"]),
        "train\nseconds": lambda r: brief(r["train_seconds"]),
    }
    notes, caption = [row.notes for row in rows], f"Ours: {_devices(rows)}."
    return Table(f"{problem}, ranks", cells(records, columns), notes, caption)


def documents(rows: Mapping[str, Sequence[Row]], records: Sequence[Record]) -> dict[str, str]:
    """The Markdown of every table, by the name that its place in a document has.

    Arguments:
        rows: of the paper, by problem.
        records: those among which the studies are.
    """
    found = {name: problem_table(some) for name, some in rows.items() if some}
    found["summary"] = summary_table(rows)
    for name in rows:
        done = [r for r in records if r["problem"] == name and r["status"] == "done"]
        if ranked := [r for r in done if "rank" in r]:
            found[f"{name}-ranks"] = rank_table(ranked)
    return {name: markdown(table) for name, table in found.items()}


# --- renderers: that of the terminal is `cli.console.drawn` --------------------------------------


def markdown(table: Table) -> str:
    """For documents, without the title; the notes are the last column."""
    columns = dict(table.columns) | ({"notes": table.notes} if table.notes else {})
    headings = [heading.replace("\n", " ").strip() for heading in columns]
    left = [i < table.words or heading == "notes" for i, heading in enumerate(headings)]
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in (headings, *zip(*columns.values()))
    ]
    lines.insert(1, "|" + "|".join("---" if words else "---:" for words in left) + "|")
    if table.caption:
        lines += ["", textwrap.fill(table.caption, 100, break_on_hyphens=False)]
    return "\n".join(lines)


# --- numbers in words ----------------------------------------------------------------------------


def brief(value: float | Interval | None) -> str:
    """A number in three digits, and two of what is after ±.

    Arguments:
        value: None stands for what is not known, a dash.
    """
    if isinstance(value, Interval):
        return brief(value.mean) + (f" ± {value.half:.2g}" if value.half is not None else "")
    if value is None:
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def times(value: float | None) -> str:
    """11.3 ×."""
    return MISSING if value is None else f"{brief(value)} ×"


def lattice(points: int, axes: int) -> str:
    """64³."""
    return f"{points}{str(axes).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def size(problem: str, points: int, axes: int) -> str:
    """64³; or 2¹⁸ where the paper gives the number of all points."""
    total = points**axes
    if problem not in ONLY_TOTALS:
        return lattice(points, axes)
    power = total.bit_length() - 1
    return lattice(2, power) if 2**power == total else f"{total:,}"


def _theirs(row: Row, name: str) -> Any:
    """What was published of a row."""
    return getattr(row.published, name, None)


def _published_error(row: Row) -> str:
    if row.published is None:
        return MISSING
    return brief(Interval(row.published.relative_l2, row.published.spread))


def _published_time(row: Row) -> str:
    derived = _theirs(row, "step_ms") and not _theirs(row, "ms_per_step")
    return ("≈ " if derived else "") + brief(_theirs(row, "step_ms"))


def _devices(rows: Iterable[Row]) -> str:
    found = (row.record["environment"]["device"] for row in rows if row.record is not None)
    return listed(dict.fromkeys(found))
