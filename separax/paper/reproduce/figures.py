"""Figures like the paper's: error, time and memory against the number of points, curves of
training, error against rank; and maps of what rows found.

Ours are solid lines with filled marks and a band, the 70 % confidence interval over seeds;
published figures are dashed lines with hollow marks. A network has a colour and a mark of its own,
so that either is enough to tell it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...domain import TIME
from ...output import (
    COLOURS,
    Cut,
    Picture,
    new_figure,
    panels,
    part,
    pictures,
    plot,
    save_figure,
)
from ...solution import Solution
from ..catalogue.navier_stokes_3d import velocity, vorticity
from .plan import Job, Published, published, steps_of
from .records import Record
from .rows import Row, interval
from .tables import lattice, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Look = tuple[str, str]  # a colour and a mark
PAPER = ("pinn", "pinn-mod", "spinn", "spinn-mod")  # the networks of the paper's figure
LOOKS: dict[str, Look] = {
    "pinn": (COLOURS[4], "s"),
    "pinn-mod": (COLOURS[3], "D"),
    "spinn": (COLOURS[0], "o"),
    "spinn-mod": (COLOURS[2], "^"),
    "causal-pinn": (COLOURS[1], "v"),
    "spinn-mod+lbfgs": (COLOURS[5], "P"),
}
OTHER: Look = (COLOURS[6], "X")
SERIES: list[Look] = list(zip(COLOURS, "os^DvPX"))  # of lines that differ in more than the network
TITLES = {
    "diffusion": "Diffusion, (2+1)-d",
    "helmholtz": "Helmholtz, 3-d",
    "klein-gordon": "Klein-Gordon, (2+1)-d",
    "klein-gordon-3d": "Klein-Gordon, (3+1)-d",
    "navier-stokes": "Navier-Stokes, (2+1)-d",
    "navier-stokes-3d": "Navier-Stokes, (3+1)-d",
    "diffusion-5d": "Diffusion, (5+1)-d",
}
FOUR = ("diffusion", "helmholtz", "klein-gordon", "klein-gordon-3d")  # of the paper's figure
ERROR, TIME_OF_STEP = "relative L2 error", "ms per step"


def four_columns(records: Iterable[Record], problems: Sequence[str]) -> Figure:
    """One row for each problem: relative L2 error, time of a step and memory against the points per
    axis; and the curve of training at 64 points per axis, or 16 where there are four axes and more,
    as in the paper."""
    ours = [r for r in records if r["problem"] in problems and "rank" not in r]
    ours = sorted((r for r in ours if r["status"] != "skipped"), key=lambda r: r["points"])
    names = {*PAPER, *(r["network"] for r in ours)}
    networks = [n for n in LOOKS if n in names] + sorted(names - set(LOOKS))
    figure, grid = new_figure(12, 2.35 * len(problems) + 0.6, len(problems), 4)
    for i, (problem, row) in enumerate(zip(problems, grid)):
        here, theirs = [r for r in ours if r["problem"] == problem], published(problem)
        for panel, name in zip(row, ("relative_l2", "ms_per_step", "memory_mb")):
            for network in networks:
                paper = {
                    p.points: v for p in theirs if p.network == network and (v := getattr(p, name))
                }
                if paper:
                    _hollow(panel, network, paper, "--", ms=5.5, lw=0.9, alpha=0.9, zorder=1)
                mine = [r for r in here if r["network"] == network]
                _line(panel, _look(network), _values(mine, "points", name), network)
            _ticks_of_points(panel)
        axes = next((row["axes"] for row in here), theirs[0].axes if theirs else 3)
        _training(row[3], networks, here, theirs, 16 if axes >= 4 else 64, axes)
        title = f"({chr(ord('a') + i)}) {TITLES.get(problem, problem)}"
        row[0].set_title(title, loc="left", fontweight="bold")
        for panel, label in zip(row, (ERROR, TIME_OF_STEP, "memory (MB)", ERROR)):
            panel.set_ylabel(label)
            _tidy(panel)
    for panel, label in zip(grid[-1], (*["points per axis"] * 3, "step")):
        panel.set_xlabel(label)
    _legend(figure, networks)
    _say_what_is_short(figure, [r for r in ours if r["status"] == "done"])
    return figure


def error_against_rank(records: Iterable[Record]) -> Figure:
    """Relative L2 error and time of a step against the rank, from records with the key "rank": one
    line for every problem, network and number of points."""
    found = sorted(records, key=lambda r: r.get("rank", 0))
    figure, (row,) = new_figure(9, 3.6, 1, 2)
    series = sorted({(r["problem"], r["network"], r["points"], r["axes"]) for r in found})
    for look, (problem, network, points, axes) in zip(itertools.cycle(SERIES), series):
        about = (problem, network, points)
        mine = [r for r in found if (r["problem"], r["network"], r["points"]) == about]
        look = _look(network) if len(series) == 1 else look
        label = f"{TITLES.get(problem, problem)}, {network}, {size(problem, points, axes)}"
        for panel, name in zip(row, ("relative_l2", "ms_per_step")):
            _line(panel, look, _values(mine, "rank", name), label)
    for panel, label in zip(row, (ERROR, TIME_OF_STEP)):
        panel.set(xlabel="rank", ylabel=label)
        _tidy(panel)
        _ticks(panel, sorted({r["rank"] for r in found}))
    lines = row[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper center", ncols=2, frameon=False)
    _say_what_is_short(figure, found)
    return figure


# --- lines ---------------------------------------------------------------------------------------


def _look(network: str) -> Look:
    return LOOKS.get(network, OTHER)


def _values(records: Iterable[Record], against: str, name: str) -> dict[float, list[float]]:
    """What some records say, one number per seed or one in all, by points or by rank."""
    found = {r[against]: r[name] for r in records if r[name] is not None}
    return {x: v if isinstance(v, list) else [v] for x, v in found.items()}


def _line(
    panel: Any, look: Look, values: Mapping[float, Sequence[float]], label: str, **style: Any
) -> None:
    """A line of means with marks, and the band of their intervals; a log scale has no zero."""
    bands = {x: interval(several) for x, several in values.items() if max(several) > 0}
    if not bands:
        return
    colour, mark = look
    shown = {"marker": mark, "ms": 5, "lw": 1.6, "mec": "white", "mew": 0.5, "zorder": 3} | style
    means = [found.mean for found in bands.values()]
    panel.plot(list(bands), means, "-", color=colour, label=label, **shown)
    # a single seed has no band; one that reaches zero ends at a tenth of the mean
    low = [max(f.mean - (f.half or 0), f.mean / 10) for f in bands.values()]
    high = [f.mean + (f.half or 0) for f in bands.values()]
    if low != high:
        panel.fill_between(list(bands), low, high, color=colour, alpha=0.22, lw=0, zorder=2)


def _hollow(panel: Any, network: str, values: Mapping[int, float], line: str, **style: Any) -> None:
    """What was published, with hollow marks."""
    colour, mark = _look(network)
    found = {"color": colour, "marker": mark, "mfc": "white", "label": f"published {network}"}
    panel.plot(list(values), list(values.values()), line, **found, **style)


def _training(
    panel: Any,
    networks: Sequence[str],
    ours: Sequence[Record],
    theirs: Sequence[Published],
    points: int,
    axes: int,
) -> None:
    """Curves at `points` per axis; a network that has none there is shown at its next smaller
    number, which is written beside."""
    curves = [r for r in ours if r["points"] <= points and (r["curve"] or {}).get("relative_l2")]
    for network in networks:
        record = next((r for r in reversed(curves) if r["network"] == network), None)
        if record is None:
            continue
        look, steps = _look(network), record["curve"]["steps"]
        values = dict(zip(steps, record["curve"]["relative_l2"]))
        _line(panel, look, values, network, lw=1.3, markevery=max(1, len(steps) // 5), ms=4.5)
        if record["points"] != points:
            place, near = (steps[-1], float(np.mean(values[steps[-1]]))), "offset points"
            words = {"color": look[0], "fontsize": 8, "va": "center", "textcoords": near}
            panel.annotate(lattice(record["points"], axes), place, (7, 0), **words)
        for row in theirs:
            if row.network == network and row.points == record["points"]:
                steps = steps_of(row.problem, network)
                _hollow(panel, network, {steps: row.relative_l2}, "", ms=6, zorder=4)
    panel.set_title(f"{lattice(points, axes)} points", loc="right", fontsize=9)
    panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    if panel.get_lines():
        panel.set_xlim(left=0)


# --- axes and legends ----------------------------------------------------------------------------


def _ticks_of_points(panel: Any) -> None:
    """At powers of two."""
    shown = sorted({int(x) for line in panel.get_lines() for x in line.get_xdata()})
    doubled = [2**k for k in range(12) if shown and shown[0] <= 2**k <= shown[-1]]
    if shown:
        _ticks(panel, doubled or shown)


def _ticks(panel: Any, at: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(list(at)))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _tidy(panel: Any) -> None:
    """A log scale with enough numbers on it to be read: powers of ten, or as many between them as
    it takes."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if not panel.get_lines():
        middle = {"transform": panel.transAxes, "ha": "center", "va": "center", "color": "0.5"}
        panel.text(0.5, 0.5, "no records", **middle)
        panel.set(xticks=[], yticks=[])
        return
    panel.set_yscale("log")
    panel.autoscale_view()  # or the limits would still be those of a linear scale
    low, high = panel.get_ylim()
    few, many = (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    between = (1.0,) if high / low > 60 else few if high / low > 5 else many
    panel.yaxis.set_major_locator(LogLocator(subs=between))
    panel.yaxis.set_major_formatter(lambda y, _: _tick(y))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.grid(axis="y", color="0.9", lw=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5)


def _tick(y: float) -> str:
    """5e-4, 0.02, 1,000."""
    if y < 1e-3:
        return f"{y:.1e}".replace("e-0", "e-").replace(".0e", "e")
    return f"{y:,.0f}" if y >= 100 else f"{y:g}"


def _say_what_is_short(figure: Figure, records: Sequence[Record]) -> None:
    """Below the figure, how many of the records are of less than was published; the table says
    which."""
    less = sum(bool(Row.of(record).short) for record in records)
    if less:
        some = "all" if less == len(records) else f"{less} of {len(records)}"
        words = f"{some} of our errors are of fewer seeds or steps than published"
        figure.supxlabel(words, fontsize=8.5)


def _legend(figure: Figure, networks: Sequence[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ours = {"ms": 6, "lw": 1.6, "mec": "white", "mew": 0.5}
    theirs = {"color": "0.35", "ls": "--", "marker": "o", "mfc": "white", "ms": 6, "lw": 0.9}
    keys: list[Any] = []
    for network in networks:
        colour, mark = _look(network)
        keys.append(Line2D([], [], color=colour, marker=mark, label=network, **ours))
    keys.append(Line2D([], [], label="published", **theirs))
    keys.append(Patch(color="0.35", alpha=0.22, lw=0, label="70 % confidence"))
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), frameon=False)


# --- what is drawn -------------------------------------------------------------------------------

FRAMES = 41  # of an animation
SHOWN = 128  # points per axis of a map


def save_figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draws records as the paper draws its own; returns the files.

    Arguments:
        records: of rows.
        folder: of the figures.
    """
    tabled, files = [r for r in records if "rank" not in r], []
    if four := [name for name in FOUR if name in {r["problem"] for r in tabled}]:
        files.append(save_figure(four_columns(records, four), folder / "results.png"))
    if ranked := [r for r in records if "rank" in r and r["status"] == "done"]:
        files.append(save_figure(error_against_rank(ranked), folder / "rank.png"))
    return files


def draw(job: Job, solution: Solution, folder: Path) -> None:
    """Draws what the paper shows of a row; a study of ranks has no pictures.

    Arguments:
        job: the row.
        solution: of its first seed.
        folder: of the figures.
    """
    start = f"{job.problem}-{job.stem}"
    if job.rank is not None:
        return
    if job.problem.startswith("navier-stokes"):
        flow_pictures(job.problem, solution, folder, start)
    elif job.points == 64 or solution.problem.box.dimension == 2:
        known = solution.problem.reference is not None
        save_figure(plot(solution, reference=known), folder / f"{start}.png")


def flow_pictures(problem: str, solution: Solution, folder: Path, start: str) -> None:
    """Draws the maps of a flow, and in the plane its animation, into files whose names begin with
    `start`."""
    folder.mkdir(parents=True, exist_ok=True)
    if problem == "navier-stokes":
        low, high = solution.problem.box[TIME]
        instants = [low, (low + high) / 2, high]
        maps = plot(solution, "x", "y", field="w", reference=True, points=SHOWN, t=instants)
        save_figure(maps, folder / f"{start}-vorticity.png")
        film = folder / f"{start}-vorticity.gif"
        solution.animate(film, "x", "y", field="w", frames=FRAMES, rate=10)
        return
    for name, true in {"velocity": velocity, "vorticity": vorticity}.items():
        save_figure(panels(components(solution, true)), folder / f"{start}-{name}.png")


def components(solution: Solution, true: Any) -> list[Picture]:
    """The components of a vector on a plane of space, half way through time, beside the truth that
    the reference of a solution may not know."""
    box, shown = solution.problem.box, ("x", "y")
    held = {TIME: part(box, TIME, 0.5), "z": part(box, "z", 0.82)}
    across, up = np.meshgrid(*(np.linspace(*box[axis], SHOWN) for axis in shown), indexing="ij")
    found = []
    for name, values in true(x=across, y=up, **held).items():
        (picture,) = pictures(solution, name, Cut(shown, [held]), SHOWN, reference=False)
        found.append(dataclasses.replace(picture, reference=np.asarray(values)))
    return found
