"""Figures like the paper's: error, time and memory against the number of points, the curve of training, and error against rank.

Ours are solid lines with filled marks and a band, the 70 % confidence interval over seeds; published figures are dashed lines
with hollow marks. A network has a colour and a mark of its own, so that either is enough to tell it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core import InputError
from ...domain import TIME, Lattice
from ...output import COLOURS, Cut, Picture, new_figure, panels, part, pictures, plot, png
from ...runs import write
from ...solution import Solution, reference_on
from ..catalogue.navier_stokes_3d import velocity, vorticity
from .plan import Published
from .records import Record, furthest
from .tables import Interval, Row, interval, lattice, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = ("pinn", "pinn-mod", "spinn", "spinn-mod")  # the networks of the paper's figure
MARKS = {
    "pinn": (COLOURS[4], "s"),
    "pinn-mod": (COLOURS[3], "D"),
    "spinn": (COLOURS[0], "o"),
    "spinn-mod": (COLOURS[2], "^"),
    "causal-pinn": (COLOURS[1], "v"),
    "spinn-mod+lbfgs": (COLOURS[5], "P"),
}
OTHER = (COLOURS[6], "X")
TITLES = {
    "diffusion": "Diffusion, (2+1)-d",
    "helmholtz": "Helmholtz, 3-d",
    "klein-gordon": "Klein-Gordon, (2+1)-d",
    "klein-gordon-3d": "Klein-Gordon, (3+1)-d",
    "navier-stokes": "Navier-Stokes, (2+1)-d",
    "navier-stokes-3d": "Navier-Stokes, (3+1)-d",
    "diffusion-5d": "Diffusion, (5+1)-d",
}
DPI = 200  # for print; pages show fewer
Band = tuple[float, Interval]


def four_columns(
    records: Iterable[Record],
    published: Iterable[Published],
    problems: Sequence[str],
    recipe: str = "paper",
) -> Figure:
    """One row per problem: relative L2 error, time of a step and memory against the points per axis; the curve of training at
    64 points per axis, or 16 where there are four axes and more, as in the paper."""
    if not problems:
        raise InputError(
            "problems must name at least one problem, got none: write e.g. problems=['diffusion']"
        )
    ours = [
        r for r in records if r["recipe"] == recipe and r["status"] != "skipped" and "rank" not in r
    ]
    theirs = [p for p in published if p.problem in problems]
    networks = _networks([*PAPER, *(r["network"] for r in ours if r["problem"] in problems)])
    figure, panels = new_figure(12, 2.35 * len(problems) + 0.6, len(problems), 4)
    for i, (problem, row) in enumerate(zip(problems, panels)):
        here = [r for r in ours if r["problem"] == problem]
        beside = [p for p in theirs if p.problem == problem and p.points is not None]
        for network in networks:
            mine = furthest(r for r in here if r["network"] == network)
            paper = [p for p in beside if p.network == network]
            _against_points(
                row[0], network, _bands(mine), [(p.points, p.relative_l2) for p in paper]
            )
            for panel, name in zip(row[1:3], ("ms_per_step", "memory_mb")):
                measured = [(r["points"], Interval(r[name], None, None)) for r in mine if r[name]]
                _against_points(
                    panel,
                    network,
                    measured,
                    [(p.points, v) for p in paper if (v := getattr(p, name))],
                )
        axes = (here[0]["axes"] if here else beside[0].axes) if here or beside else 3
        _training(row[3], networks, here, beside, 16 if axes >= 4 else 64, axes)
        row[0].set_title(
            f"({chr(ord('a') + i)}) {TITLES.get(problem, problem)}", loc="left", fontweight="bold"
        )
        for panel, label in zip(
            row, ("relative L2 error", "ms per step", "memory (MB)", "relative L2 error")
        ):
            panel.set_ylabel(label)
            _tidy(panel)
    for panel in panels[-1][:3]:
        panel.set_xlabel("points per axis")
    panels[-1][3].set_xlabel("step")
    _legend(figure, networks)
    _confess([r for r in ours if r["problem"] in problems and r["status"] == "done"], figure)
    return figure


def error_against_rank(records: Iterable[Record]) -> Figure:
    """Relative L2 error and time of a step against the rank, from records with the extra key "rank": one line for every
    problem, network and number of points."""
    found = [r for r in records if r["status"] != "skipped"]
    missing = [r for r in found if not isinstance(r.get("rank"), int)]
    if missing or not found:
        raise InputError(
            f"records must have a whole number 'rank', {len(missing)} of {len(found)} do not: write e.g. record['rank'] = 32"
        )
    figure, (panels,) = new_figure(9, 3.6, 1, 2)
    series = sorted({(r["problem"], r["network"], r["points"], r["axes"]) for r in found})
    looks = list(zip(COLOURS, "os^DvPX"))
    for i, (problem, network, points, axes) in enumerate(series):
        mine = [
            r
            for r in found
            if (r["problem"], r["network"], r["points"]) == (problem, network, points)
        ]
        mine = furthest(mine, key=lambda r: r["rank"])
        look = _look(network) if len(series) == 1 else looks[i % len(looks)]
        label = f"{TITLES.get(problem, problem)}, {network}, {size(problem, points, axes)}"
        _line(panels[0], look, _bands(mine, "rank"), label)
        _line(
            panels[1],
            look,
            [(r["rank"], Interval(r["ms_per_step"], None, None)) for r in mine if r["ms_per_step"]],
            label,
        )
    for panel, label in zip(panels, ("relative L2 error", "ms per step")):
        panel.set(xlabel="rank", ylabel=label)
        _tidy(panel)
        _ticks(panel, sorted({r["rank"] for r in found}))
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
    )
    _confess(found, figure)
    return figure


def error_over_time(records: Iterable[Record]) -> Figure:
    """Relative L2 error at instants of time, from records with the extra key "over_time": a panel for every problem, a line for every
    network and number of points."""
    found = [r for r in records if r.get("over_time")]
    if not found:
        raise InputError(
            "records: none has the key 'over_time': run a flow, separax reproduce navier-stokes"
        )
    problems = list(dict.fromkeys(r["problem"] for r in found))
    figure, (panels,) = new_figure(5.6 * len(problems), 3.8, 1, len(problems))
    for panel, problem in zip(panels, problems):
        mine = furthest(
            (r for r in found if r["problem"] == problem), key=lambda r: (r["network"], r["points"])
        )
        for look, r in zip(itertools.cycle(zip(COLOURS, "os^DvPX")), mine):
            bands = [
                (t, interval(each))
                for t, each in zip(r["over_time"]["t"], r["over_time"]["relative_l2"])
            ]
            _line(
                panel, look, bands, f"{r['network']}, {size(problem, r['points'], r['axes'])}", ms=3
            )
        panel.set(xlabel="t", ylabel="relative L2 error", title=TITLES.get(problem, problem))
        _tidy(panel)
        panel.legend(frameon=False)
    _confess(found, figure)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Writes a figure as PNG, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, png(figure, dpi=DPI))
    return path


# --- what is drawn -------------------------------------------------------------------------------------------------


def _bands(records: Iterable[Record], of: str = "points") -> list[Band]:
    return [
        (r[of], interval(r["relative_l2"]))
        for r in records
        if r["relative_l2"] is not None and max(r["relative_l2"]) > 0
    ]


def _networks(names: Iterable[str]) -> list[str]:
    """The names, each once, the known ones first."""
    found = set(names)
    return [n for n in MARKS if n in found] + sorted(found - set(MARKS))


def _look(network: str) -> tuple[str, str]:
    return MARKS.get(network, OTHER)


def _line(
    panel: Any, look: tuple[str, str], bands: Sequence[Band], label: str, **style: Any
) -> None:
    """A line with marks, and its band."""
    if not bands:
        return
    colour, mark = look
    x = [at for at, _ in bands]
    shown = {"marker": mark, "ms": 5, "lw": 1.6} | style
    panel.plot(
        x,
        [found.mean for _, found in bands],
        "-",
        color=colour,
        mec="white",
        mew=0.5,
        label=label,
        zorder=3,
        **shown,
    )
    # a single seed has no band; an interval that reaches zero has no place on a log scale: it ends at a tenth of the mean
    low = [f.mean if f.low is None else max(f.low, f.mean / 10) for _, f in bands]
    high = [f.mean if f.high is None else f.high for _, f in bands]
    if low != high:
        panel.fill_between(x, low, high, color=colour, alpha=0.22, lw=0, zorder=2)


def _against_points(
    panel: Any, network: str, ours: Sequence[Band], theirs: Sequence[tuple[Any, float]]
) -> None:
    colour, mark = _look(network)
    if theirs:
        panel.plot(
            *zip(*theirs),
            "--",
            color=colour,
            marker=mark,
            mfc="white",
            ms=5.5,
            lw=0.9,
            alpha=0.9,
            zorder=1,
            label=f"published {network}",
        )
    _line(panel, (colour, mark), ours, network)
    shown = [int(x) for line in panel.get_lines() for x in line.get_xdata()]
    if shown:
        doubled = [2**k for k in range(12) if min(shown) <= 2**k <= max(shown)]
        _ticks(panel, doubled or sorted(set(shown)))


def _training(
    panel: Any,
    networks: Sequence[str],
    ours: Sequence[Record],
    theirs: Sequence[Published],
    points: int,
    axes: int,
) -> None:
    """Curves at `points` per axis; a network that has none there is shown at its next smaller number, which is written beside."""
    longest = 0
    for network in networks:
        mine = [
            r
            for r in ours
            if r["network"] == network
            and r["points"] <= points
            and r["curve"]
            and r["curve"]["relative_l2"]
        ]
        if not mine:
            continue
        record = furthest(mine)[-1]
        steps, errors = record["curve"]["steps"], record["curve"]["relative_l2"]
        bands = [(step, interval(each)) for step, each in zip(steps, errors) if max(each) > 0]
        _line(
            panel, _look(network), bands, network, lw=1.3, markevery=max(1, len(bands) // 5), ms=4.5
        )
        longest = max(longest, steps[-1])
        if record["points"] != points and bands:
            place, colour = (bands[-1][0], bands[-1][1].mean), _look(network)[0]
            panel.annotate(
                lattice(record["points"], axes),
                place,
                (7, 0),
                textcoords="offset points",
                color=colour,
                fontsize=8,
                va="center",
            )
        for row in theirs:
            if row.network == network and row.points == record["points"]:
                colour, mark = _look(network)
                panel.plot(
                    [row.steps],
                    [row.relative_l2],
                    mark,
                    color=colour,
                    mfc="white",
                    ms=6,
                    zorder=4,
                    label=f"published {network}",
                )
    panel.set_title(f"{lattice(points, axes)} points", loc="right", fontsize=9)
    panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    if longest:
        panel.set_xlim(left=0)


def _ticks(panel: Any, at: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(list(at)))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _tidy(panel: Any) -> None:
    """A log scale with enough numbers on it to be read: powers of ten, or as many between them as it takes."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if not panel.get_lines():
        panel.text(
            0.5, 0.5, "no records", transform=panel.transAxes, ha="center", va="center", color="0.5"
        )
        panel.set(xticks=[], yticks=[])
        return
    panel.set_yscale("log")
    panel.autoscale_view()  # or the limits would still be those of a linear scale
    low, high = panel.get_ylim()
    between = (
        (1.0,)
        if high / low > 60
        else (1.0, 2.0, 5.0)
        if high / low > 5
        else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    )
    panel.yaxis.set_major_locator(LogLocator(subs=between))
    panel.yaxis.set_major_formatter(
        lambda y, _: (
            f"{y:,.0f}"
            if y >= 100
            else f"{y:.1e}".replace("e-0", "e-").replace(".0e", "e")
            if y < 1e-3
            else f"{y:g}"
        )
    )
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.grid(axis="y", color="0.9", lw=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5)


def _confess(records: Sequence[Record], figure: Figure) -> None:
    """Below the figure, how many of the records are of less than was published; the table says which."""
    less = sum(
        bool(Row(r["problem"], r["network"], r["points"], r["axes"], None, r).short)
        for r in records
    )
    if less:
        some = "all" if less == len(records) else f"{less} of {len(records)}"
        figure.supxlabel(
            f"{some} of our errors are of fewer seeds or steps than published", fontsize=8.5
        )


def _legend(figure: Figure, networks: Sequence[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Any] = []
    for network in networks:
        colour, mark = _look(network)
        keys.append(
            Line2D(
                [], [], color=colour, marker=mark, ms=6, lw=1.6, mec="white", mew=0.5, label=network
            )
        )
    keys.append(
        Line2D(
            [], [], color="0.35", ls="--", marker="o", mfc="white", ms=6, lw=0.9, label="published"
        )
    )
    keys.append(Patch(color="0.35", alpha=0.22, lw=0, label="70 % confidence"))
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), frameon=False)


INSTANTS = 41  # of the error over time, and frames of an animation
FLOWS = ("navier-stokes", "navier-stokes-3d")
POINTS = {3: 128, 4: 32}  # per axis of space, of the error at an instant, by the number of axes
SHOWN = 128  # per axis of a map


def over_time(solutions: Sequence[Solution]) -> dict[str, Any]:
    """The relative L2 error at instants of time, one per seed: the mean over the components whose truth is known, as the paper's
    errors are."""
    box = solutions[0].problem.box
    times = np.linspace(*box[TIME], INSTANTS)
    space = {axis: np.linspace(*box[axis], POINTS[box.dimension]) for axis in box.space}

    def errors(t: float) -> list[float]:
        place = {axis: [t] if axis == TIME else space[axis] for axis in box.axes}
        lattice = Lattice(weights=None, **place)
        true = {
            k: np.asarray(v, np.float64)
            for k, v in reference_on(solutions[0].problem, None, lattice).items()
        }
        found = [solution(**place) for solution in solutions]
        return [
            float(
                np.mean([np.linalg.norm(one[k] - v) / np.linalg.norm(v) for k, v in true.items()])
            )
            for one in found
        ]

    return {"t": times.tolist(), "relative_l2": [errors(t) for t in times]}


def flow_pictures(problem: str, solution: Solution, folder: Path, stem: str) -> None:
    """The maps of a flow, and in the plane its animation."""
    start = f"{problem}-{stem}"
    if problem == "navier-stokes":
        low, high = solution.problem.box[TIME]
        maps = plot(
            solution,
            "x",
            "y",
            field="w",
            reference=True,
            points=SHOWN,
            t=[low, (low + high) / 2, high],
        )
        save(maps, folder / f"{start}-vorticity.png")
        solution.animate(
            folder / f"{start}-vorticity.gif", "x", "y", field="w", frames=INSTANTS, rate=10
        )
        return
    for name, true in {"velocity": velocity, "vorticity": vorticity}.items():
        save(panels(_components(solution, true)), folder / f"{start}-{name}.png")


def _components(solution: Solution, true: Any) -> list[Picture]:
    """The components of a vector on a plane of space, half way through time, where the reference of a solution may not know them."""
    box = solution.problem.box
    shown = ("x", "y")
    held = {TIME: part(box, TIME, 0.5), "z": part(box, "z", 0.82)}
    across, up = np.meshgrid(*(np.linspace(*box[axis], SHOWN) for axis in shown), indexing="ij")
    found = []
    for name, values in true(x=across, y=up, **held).items():
        (picture,) = pictures(solution, name, Cut(shown, [held]), SHOWN, reference=False)
        found.append(dataclasses.replace(picture, reference=np.asarray(values)))
    return found
