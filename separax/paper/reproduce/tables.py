"""Published rows and ours side by side: in the terminal, in Markdown, as CSV; and tables kept up to date inside documents.

Times and memory are of different machines and counted differently (`CAVEAT`), so they say how much a user gets, not how much of
it is due to the method.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core import InputError, finite, listed, nearest, shown
from ...runs import write
from .plan import DEVICE, OTHER_EQUATION, Published, pointwise, published, seeds_of, steps_of
from .records import Record, furthest

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MISSING = "–"
PAPER_RANKS = {
    "diffusion": 32,
    "navier-stokes": 128,
    "navier-stokes-3d": 128,
}  # of the published rows, where a study of ranks is of interest
WITHIN = 1.25  # up to this ratio a row counts as reproduced
CAVEAT = (
    f"Ratio: ours over published, below 1 is better. ±: 70 % confidence interval of the mean over seeds. Published times and memory "
    f"are of one {DEVICE}, memory with all that the framework holds; ours are of the device named, memory of a step beyond the "
    f"parameters. ≈: from the published minutes of a run."
)


@dataclass(frozen=True)
class Row:
    """A published row and a record of ours, either of which may be missing."""

    problem: str
    network: str
    points: int | None
    axes: int
    published: Published | None = None
    record: Record | None = None

    @property
    def total(self) -> int | None:
        """Points in all."""
        if self.points is not None:
            return self.points**self.axes
        return self.published.total_points if self.published else None

    def _ours(self, name: str) -> Any:
        return None if self.record is None else self.record[name]

    @property
    def relative_l2(self) -> Interval | None:
        values = self._ours("relative_l2")
        return None if values is None else interval(values)

    @property
    def rmse(self) -> Interval | None:
        values = self._ours("rmse")
        return None if values is None else interval(values)

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
        if self.ms_per_step is None or self.published is None or self.published.step_ms is None:
            return None
        return self.published.step_ms / self.ms_per_step

    @property
    def memory_mb(self) -> float | None:
        return self._ours("memory_mb") if self._ours("status") != "skipped" else None

    @property
    def short(self) -> list[str]:
        """In which ways less was run than published."""
        if self.record is None or self.record["status"] != "done":
            return []
        notes, seeds, steps = [], seeds_of(self.problem), steps_of(self.problem, self.network)
        if len(self.record["seeds"]) < seeds:
            notes.append(f"{_plural(len(self.record['seeds']), 'seed')} of {seeds}")
        if self.record["steps"] < steps:
            notes.append(f"{self.record['steps']:,} steps of {steps:,}")
        return notes

    @property
    def notes(self) -> str:
        """What a reader must know to compare this row."""
        if self.record is None:
            return "not run"
        status, note = self.record["status"], " ".join(self.record["note"].split())
        if status == "skipped":
            return f"skipped: {note}"
        notes = [*self.short] if status == "done" else ["timed only"]
        notes += [f"{self.record['recipe']} recipe"] if self.record["recipe"] != "paper" else []
        notes += [self.record["precision"]] if self.record["precision"] != "float32" else []
        counts = self.record["settings"].get("points")
        if isinstance(counts, Mapping) and len(set(counts.values())) > 1:
            notes.append(" × ".join(map(str, counts.values())))
        notes += [note] if note else []
        return "; ".join(
            [*notes, self.published.remark] if self.published and self.published.remark else notes
        )


def compare(
    problem: str,
    records: Iterable[Record],
    published: Iterable[Published],
    recipe: str | None = "paper",
) -> list[Row]:
    """The rows of one problem, published or only ours, by network in the paper's order and by points. `recipe`: whose records
    (None: all). Of several records of a row the one that reaches furthest counts; those of a study of ranks are not rows of the tables."""
    mine = [
        r
        for r in records
        if r["problem"] == problem and recipe in (None, r["recipe"]) and "rank" not in r
    ]
    ours = furthest(mine, key=lambda r: (r["network"], r["points"], r["axes"]))
    rows, used = [], set()
    for theirs in published:
        if theirs.problem != problem:
            continue
        record = next((r for r in ours if theirs.about(r["network"], r["points"], r["axes"])), None)
        used.add(id(record))
        points = theirs.points if record is None else record["points"]
        rows.append(Row(problem, theirs.network, points, theirs.axes, theirs, record))
    rows += [
        Row(problem, r["network"], r["points"], r["axes"], None, r)
        for r in ours
        if id(r) not in used
    ]
    order = {network: i for i, network in reversed(list(enumerate(row.network for row in rows)))}
    return sorted(rows, key=lambda row: (order[row.network], row.total or 0))


@dataclass(frozen=True)
class Summary:
    """One problem in numbers."""

    problem: str
    rows: int  # published
    compared: int  # of these with an error of ours
    full: int  # of these with the published seeds and steps
    within: int  # of those compared, up to `WITHIN` times the published error
    slowest: float | None  # smallest number of times faster, of separable networks
    separable_seconds: float  # compiling and training, all seeds together
    pointwise_seconds: float


def summarise(rows: Sequence[Row]) -> list[Summary]:
    """One summary per problem, in the order of the rows."""
    return [
        _summary(problem, [r for r in rows if r.problem == problem])
        for problem in dict.fromkeys(r.problem for r in rows)
    ]


def _summary(problem: str, rows: Sequence[Row]) -> Summary:
    compared = [row for row in rows if row.ratio is not None]
    records = {id(row.record): row.record for row in rows if row.record is not None}.values()
    separable, others = (
        sum(_device_seconds(r) for r in records if pointwise(r["network"]) == which)
        for which in (False, True)
    )
    return Summary(
        problem=problem,
        rows=sum(row.published is not None for row in rows),
        compared=len(compared),
        full=sum(not row.short for row in compared),
        within=sum((row.ratio or 0.0) <= WITHIN for row in compared),
        slowest=min(
            (row.faster for row in rows if row.faster is not None and not pointwise(row.network)),
            default=None,
        ),
        separable_seconds=separable,
        pointwise_seconds=others,
    )


def _device_seconds(record: Record) -> float:
    """Compiling and training; where several rows were trained side by side (`workers`), this row's part of that time."""
    return ((record["train_seconds"] or 0.0) + (record["compile_seconds"] or 0.0)) / record.get(
        "workers", 1
    )


# --- tables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Words in rows and columns; how it is drawn is decided last. `headings` have two parts, `notes` one entry per row;
    `extra` columns are for pages, which are wider than terminals."""

    title: str
    headings: Sequence[tuple[str, str]]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    caption: str = ""
    left: frozenset[int] = frozenset({0})  # columns of words
    extra: frozenset[int] = frozenset()


def problem_table(rows: Sequence[Row]) -> Table:
    """All rows of one problem."""
    headings = [
        ("", "network"),
        ("", "points"),
        ("relative L2", "published"),
        ("relative L2", "ours"),
        ("", "ratio"),
    ]
    headings += [
        ("RMSE", "published"),
        ("RMSE", "ours"),
        ("ms/step", "published"),
        ("ms/step", "ours"),
        ("times", "faster"),
    ]
    headings += [("MB", "published"), ("MB", "ours")]
    caption = f"{CAVEAT} Ours: {_devices(rows)}."
    title = " and ".join(dict.fromkeys(row.problem for row in rows))
    return Table(
        title,
        headings,
        [_cells(row) for row in rows],
        [row.notes for row in rows],
        caption,
        extra=frozenset({5, 6}),
    )


def summary_table(rows: Sequence[Row]) -> Table:
    """One line per problem, of the rows of all of them."""
    headings = [
        ("", "problem"),
        ("published", "rows"),
        ("rows", "compared"),
        ("of these", "in full"),
        ("of these", f"within {WITHIN} ×"),
    ]
    headings += [
        ("slowest", "speed-up"),
        ("device seconds", "separable"),
        ("device seconds", "pointwise"),
    ]
    cells = [
        [s.problem, *map(str, (s.rows, s.compared, s.full, s.within)), times(s.slowest)]
        + [f"{seconds:,.0f}" for seconds in (s.separable_seconds, s.pointwise_seconds)]
        for s in summarise(rows)
    ]
    caption = (
        f"In full: with the published number of seeds and steps. Within: an error of at most {WITHIN} times the published one. "
        f"Speed-up: of a step of a separable network, ours on {_devices(rows)} over the published one on {DEVICE}. Device seconds: compiling and training, all seeds."
        + "".join(
            f" Of {problem} no row is compared: {why}." for problem, why in OTHER_EQUATION.items()
        )
    )
    return Table("summary", headings, cells, caption=caption)


def rank_table(records: Sequence[Record], published: Iterable[Published]) -> Table:
    """A study of ranks of one problem: error and time of a step; the published error where the paper's rank is its own."""
    theirs = list(published)

    def cells(record: Record) -> list[str]:
        row = Row(
            record["problem"], record["network"], record["points"], record["axes"], None, record
        )
        known = [
            p.relative_l2
            for p in theirs
            if p.problem == row.problem and p.about(row.network, record["points"], row.axes)
        ]
        paper = known[0] if known and record["rank"] == PAPER_RANKS.get(row.problem) else None
        return [
            row.network,
            size(row.problem, record["points"], row.axes),
            str(record["rank"]),
            brief(paper),
            brief_interval(row.relative_l2),
            brief(row.ms_per_step),
            brief(record["train_seconds"]),
        ]

    headings = [
        ("", "network"),
        ("", "points"),
        ("", "rank"),
        ("relative L2", "published"),
        ("relative L2", "ours"),
    ]
    headings += [("ms/step", "ours"), ("train", "seconds")]
    rows = sorted(records, key=lambda r: (r["network"], r["points"], r["rank"]))
    notes = [Row(r["problem"], r["network"], r["points"], r["axes"], None, r).notes for r in rows]
    devices = listed(dict.fromkeys(r["environment"]["device"] for r in rows))
    return Table(
        f"{rows[0]['problem']}, ranks",
        headings,
        [cells(r) for r in rows],
        notes,
        f"Ours: {devices}.",
    )


def time_table(records: Sequence[Record]) -> Table:
    """The error of a flow at five instants, by network and points."""
    times = records[0]["over_time"]["t"]
    chosen = [round(i * (len(times) - 1) / 4) for i in range(5)]
    cells = [
        [r["network"], size(r["problem"], r["points"], r["axes"])]
        + [brief_interval(interval(r["over_time"]["relative_l2"][i])) for i in chosen]
        for r in records
    ]
    headings = [
        ("", "network"),
        ("", "points"),
        *(("relative L2", f"t = {times[i]:.3g}") for i in chosen),
    ]
    return Table(f"{records[0]['problem']}, error over time", headings, cells)


def _devices(rows: Sequence[Row]) -> str:
    return listed(
        dict.fromkeys(r.record["environment"]["device"] for r in rows if r.record is not None)
    )


def _cells(row: Row) -> list[str]:
    theirs = row.published
    return [
        row.network,
        lattice(
            None if theirs and theirs.total_points else row.points,
            row.axes,
            theirs.total_points if theirs else None,
        ),
        brief(theirs and theirs.relative_l2)
        + (f" ± {theirs.spread:.2g}" if theirs and theirs.spread else ""),
        brief_interval(row.relative_l2),
        brief(row.ratio),
        brief(theirs and theirs.rmse),
        brief(row.rmse and row.rmse.mean),
        ("≈ " if theirs and theirs.step_ms and not theirs.ms_per_step else "")
        + brief(theirs and theirs.step_ms),
        brief(row.ms_per_step),
        times(row.faster),
        brief(theirs and theirs.memory_mb),
        brief(row.memory_mb),
    ]


def rich_table(table: Table) -> RichTable:
    """For a terminal of 120 columns. Notes are numbered and stand below."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    numbers = {note: str(i + 1) for i, note in enumerate(dict.fromkeys(filter(None, table.notes)))}
    shown = [i for i in range(len(table.headings)) if i not in table.extra]
    drawn = RichTable(
        title=escape(table.title),
        title_justify="left",
        title_style="bold",
        caption="\n".join(
            [
                *(f"{number}  {escape(note)}" for note, number in numbers.items()),
                escape(table.caption),
            ]
        ),
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for i in shown:
        words, heading = i in table.left, "\n".join(table.headings[i])
        drawn.add_column(
            heading,
            justify="left" if words else "right",
            style="bold cyan" if words else None,
            no_wrap=True,
        )
    if numbers:
        drawn.add_column("\nnote", justify="right", no_wrap=True)
    for i, cells in enumerate(table.cells):
        if table.notes and i and cells[0] != table.cells[i - 1][0]:
            drawn.add_section()  # a gap between networks
        drawn.add_row(
            *(escape(cells[k]) for k in shown),
            *([numbers.get(table.notes[i], "")] if numbers else []),
        )
    return drawn


def markdown(table: Table) -> str:
    """For documents, without the title; the notes are the last column."""
    headings = [" ".join(filter(None, heading)) for heading in table.headings] + (
        ["notes"] if table.notes else []
    )
    rules = [
        "---" if i in table.left or name == "notes" else "---:" for i, name in enumerate(headings)
    ]
    rows = (
        [[*cells, note] for cells, note in zip(table.cells, table.notes)]
        if table.notes
        else table.cells
    )
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in (headings, *rows)
    ]
    lines.insert(1, "|" + "|".join(rules) + "|")
    return "\n".join([*lines, *(["", table.caption] if table.caption else [])])


COLUMNS: dict[str, Callable[[Row], Any]] = {
    "problem": lambda row: row.problem,
    "network": lambda row: row.network,
    "points": lambda row: row.points,
    "axes": lambda row: row.axes,
    "published_relative_l2": lambda row: row.published and row.published.relative_l2,
    "relative_l2": lambda row: row.relative_l2 and row.relative_l2.mean,
    "relative_l2_low": lambda row: row.relative_l2 and row.relative_l2.low,
    "relative_l2_high": lambda row: row.relative_l2 and row.relative_l2.high,
    "ratio": lambda row: row.ratio,
    "published_rmse": lambda row: row.published and row.published.rmse,
    "rmse": lambda row: row.rmse and row.rmse.mean,
    "published_ms_per_step": lambda row: row.published and row.published.step_ms,
    "ms_per_step": lambda row: row.ms_per_step,
    "times_faster": lambda row: row.faster,
    "published_memory_mb": lambda row: row.published and row.published.memory_mb,
    "memory_mb": lambda row: row.memory_mb,
    "seeds": lambda row: row.record and len(row.record["seeds"]),
    "steps": lambda row: row.record and row.record["steps"],
    "status": lambda row: row.record["status"] if row.record else "not run",
    "device": lambda row: row.record and row.record["environment"]["device"],
    "notes": lambda row: row.notes,
}


def csv_text(rows: Iterable[Row]) -> str:
    """For other programs: every digit, and empty cells for what is missing."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(COLUMNS)
    sheet.writerows([get(row) for get in COLUMNS.values()] for row in rows)
    return out.getvalue()


# --- numbers in words ----------------------------------------------------------------------------------------------


def brief(value: float | None) -> str:
    """Three digits."""
    if value is None:
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def brief_interval(found: Interval | None) -> str:
    if found is None or found.half is None:
        return brief(found and found.mean)
    return f"{brief(found.mean)} ± {found.half:.2g}"


def times(value: float | None) -> str:
    return MISSING if value is None else f"{brief(value)} ×"


def lattice(points: int | None, axes: int, total: int | None = None) -> str:
    """64³, or 2¹⁵ where only the total is known."""
    if points is not None:
        return f"{points}{_raised(axes)}"
    power = total.bit_length() - 1 if total else 0
    return MISSING if not total else f"2{_raised(power)}" if 2**power == total else f"{total:,}"


def size(problem: str, points: int, axes: int) -> str:
    """As `lattice`, of a run of ours: by the total where that is what the paper gives."""
    total = any(row.problem == problem and row.total_points for row in published())
    return lattice(None, axes, points**axes) if total else lattice(points, axes)


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


# --- documents -----------------------------------------------------------------------------------------------------

# markers stand on lines of their own, so that text may speak about them
BEGIN = re.compile(r"^<!-- separax:(?P<name>[\w-]+) -->[ \t]*\r?$", re.MULTILINE)
END = re.compile(r"^<!-- /separax -->[ \t]*\r?$", re.MULTILINE)


def inject(markdown_file: str | os.PathLike[str], name: str, table_markdown: str) -> bool:
    """Replaces what is between `<!-- separax:NAME -->` and `<!-- /separax -->`; returns whether the file changed."""
    path, text = _document(markdown_file)
    found = [part for part in _parts(path, text) if part[0] == name]
    if not found:
        names = [part[0] for part in _parts(path, text)]
        raise InputError(
            f"name: {path} has no place for {name!r} (it has {listed(names)}): write the lines <!-- separax:{name} --> and "
            f"<!-- /separax --> there.{nearest(name, names)}"
        )
    if BEGIN.search(table_markdown) or END.search(table_markdown):
        raise InputError(
            f"table_markdown: the table for {name!r} holds a marker line of its own: leave it out"
        )
    new = text
    for _, start, end in reversed(
        found
    ):  # from the end, so that the places before it stay where they are
        new = new[:start] + _framed(table_markdown) + new[end:]
    if new != text:
        write(path, new.encode())
    return new != text


def stale(markdown_file: str | os.PathLike[str], tables: Mapping[str, str]) -> list[str]:
    """The names of the places in a document that are not what `tables` (by name) say; a place of no table is one of them."""
    path, text = _document(markdown_file)
    return [
        n
        for n, start, end in _parts(path, text)
        if n not in tables or text[start:end] != _framed(tables[n])
    ]


def places(markdown_file: str | os.PathLike[str]) -> list[str]:
    """The names of the places for tables that a document has."""
    return [name for name, _, _ in _parts(*_document(markdown_file))]


def _document(markdown_file: str | os.PathLike[str]) -> tuple[Path, str]:
    path = Path(markdown_file)
    try:
        return path, path.read_bytes().decode("utf-8")  # as it is, line ends too
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"markdown_file: {path} cannot be read ({error}): name a Markdown file"
        ) from None


def _framed(table_markdown: str) -> str:
    return f"\n{table_markdown.strip()}\n"


def _parts(path: Path, text: str) -> list[tuple[str, int, int]]:
    """The places for tables: name, start and end of what is between the markers."""
    parts, after = [], 0
    while begin := BEGIN.search(text, after):
        end, following = END.search(text, begin.end()), BEGIN.search(text, begin.end())
        if end is None or (following is not None and following.start() < end.start()):
            raise InputError(
                f"{path}: the place for {begin['name']!r} has no end: write the line <!-- /separax --> below its table"
            )
        parts.append((begin["name"], begin.end(), end.start()))
        after = end.end()
    return parts


LEVEL = 0.70  # of the paper's confidence intervals


class Interval(NamedTuple):
    """A mean and its confidence interval; `low` and `high` are None for a single value, which says nothing of a spread."""

    mean: float
    low: float | None
    high: float | None

    @property
    def half(self) -> float | None:
        """What stands after ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The mean of `values` and its confidence interval by Student's t, which is right for a few values of a normal law."""
    if not 0 < finite("level", level) < 1:
        raise InputError(f"level must be between 0 and 1, got {level!r}: write e.g. level=0.7")
    found = np.asarray(values, float)
    if found.ndim != 1 or found.size == 0:
        raise InputError(f"values must be a list of at least one number, got {shown(values)}")
    if not np.all(np.isfinite(found)):
        raise InputError(
            f"values must be finite, got {shown(values)}: leave out the seeds that failed, and say so"
        )
    mean = float(np.mean(found))
    if found.size == 1:
        return Interval(mean, None, None)
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, found.size - 1) * np.std(found, ddof=1)) / math.sqrt(
        found.size
    )
    return Interval(mean, mean - half, mean + half)
