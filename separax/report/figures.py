"""Figures of a solution: slices beside the reference, and the curves of its training. One style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..rank import Row
    from ..solution import Solution

# colours that stay apart without colour vision and in print (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "legend.frameon": False,
    "image.cmap": "viridis",
}


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure that belongs to no window, so that it can be made anywhere."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False)


def shown_axes(solution: Solution) -> tuple[str, ...]:
    """Two axes to look at: the last two of space, or time and space."""
    axes = solution.problem.box.axes
    space = solution.problem.box.space
    return tuple(space[-2:]) if len(space) >= 2 else tuple(axes[-2:])


def held_values(solution: Solution, shown: tuple[str, ...]) -> list[dict[str, float]]:
    """Where to cut: time at its start, middle and end, or the first hidden axis at three places; the rest at one. Places in
    space are uneven parts of an axis, since even ones are often where a manufactured solution is zero."""
    box = solution.problem.box
    hidden = [a for a in box.axes if a not in shown]
    if not hidden:
        return [{}]

    def part(axis: str, fraction: float) -> float:
        return box[axis][0] + fraction * (box[axis][1] - box[axis][0])

    moved = "t" if "t" in hidden else hidden[0]
    rest = {a: part(a, 0.82) for a in hidden}
    return [rest | {moved: part(moved, f)} for f in ((0.0, 0.5, 1.0) if moved == "t" else (0.17, 0.45, 0.82))]


def slices(solution: Solution, field: str | None = None, points: int = 128) -> Figure:
    """Two-dimensional slices of a field: the solution, and beside it the reference and the difference where there is one.
    All slices share one colour scale, all differences another."""
    problem = solution.problem
    known = problem.reference if isinstance(problem.reference, Mapping) else problem.outputs
    field = field or next(name for name in problem.outputs if name in known)
    shown = shown_axes(solution)
    if len(shown) < 2:
        return line(solution, field)
    grid = {a: np.linspace(*problem.box[a], points) for a in shown}
    rows = []
    for fixed in held_values(solution, shown):
        pictures = {"solution": _values(solution, field, {**grid, **fixed})}
        if problem.reference is not None:
            pictures["reference"] = _reference(solution, field, {**grid, **fixed})
            pictures["difference"] = pictures["solution"] - pictures["reference"]
        rows.append((", ".join(f"{a} = {v:.3g}" for a, v in fixed.items()), pictures))
    columns = len(rows[0][1])
    values = [p for _, pictures in rows for title, p in pictures.items() if title != "difference"]
    limits = min(np.nanmin(v) for v in values), max(np.nanmax(v) for v in values)  # nothing is known outside a shape
    most = max((float(np.nanmax(np.abs(p["difference"]))) for _, p in rows if "difference" in p), default=1.0) or 1.0
    figure, panels = new_figure(3.5 * columns + 1.2, 2.7 * len(rows), len(rows), columns)
    horizontal, vertical = shown  # x to the right, as on paper
    extent = (*problem.box[horizontal], *problem.box[vertical])
    images = {}
    for row, (where, pictures) in zip(panels, rows):
        for panel, (title, picture) in zip(row, pictures.items()):
            low, high, colours = (-most, most, "RdBu_r") if title == "difference" else (*limits, "viridis")
            images[title] = panel.imshow(
                picture.T, origin="lower", aspect="auto", extent=extent, cmap=colours, vmin=low, vmax=high
            )
            panel.set(title=f"{title} at {where}" if where else title, xlabel=horizontal, ylabel=vertical)
    if "difference" in images:
        figure.colorbar(images["difference"], ax=list(panels[:, -1]), format="%.0e", shrink=0.8)
        figure.colorbar(images["solution"], ax=list(panels[:, :2].ravel()), shrink=0.8, location="left")
    else:
        figure.colorbar(images["solution"], ax=list(panels.ravel()), shrink=0.8)
    return figure


def line(solution: Solution, field: str) -> Figure:
    """A field of one axis."""
    (axis,) = solution.problem.box.axes
    figure, ((panel,),) = new_figure(7, 3.4)
    x = np.linspace(*solution.problem.box[axis], 512)
    panel.plot(x, _values(solution, field, {axis: x}), color=COLOURS[0], label="solution")
    if solution.problem.reference is not None:
        panel.plot(x, _reference(solution, field, {axis: x}), "--", color=COLOURS[1], label="reference")
        panel.legend()
    panel.set(xlabel=axis, ylabel=field)
    return figure


def against_rank(rows: Sequence[Row], name: str) -> Figure:
    """The error of the best sum of products against their number."""
    figure, ((panel,),) = new_figure(5.6, 3.6)
    panel.loglog([row.rank for row in rows], [row.relative_l2 for row in rows], "o-", color=COLOURS[0], base=2)
    panel.set_yscale("log")
    panel.set_xticks([row.rank for row in rows], [str(row.rank) for row in rows])
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.set(title=name, xlabel="rank", ylabel="relative L2 error of the best fit")
    return figure


def curves(solution: Solution) -> Figure:
    """The loss, its terms, and the error against the step."""
    history = solution.history
    known = len(history.errors) > 0
    figure, (panels,) = new_figure(5.2 * (1 + known), 3.4, 1, 1 + known)
    marks = ("-", "--", "-.", ":")
    if len(history.losses) > 1:
        for i, (name, values) in enumerate(history.losses.items()):
            panels[0].semilogy(history.steps, values, marks[i % 4], color=COLOURS[(i + 1) % len(COLOURS)], lw=0.8, label=name)
    panels[0].semilogy(history.steps, history.total, color=COLOURS[0], lw=1.0, label="loss")
    panels[0].set(xlabel="step", ylabel="loss")
    panels[0].legend()
    if known:
        panels[1].semilogy(history.error_steps, history.errors, color=COLOURS[2])
        panels[1].set(xlabel="step", ylabel="relative L2 error")
    return figure


def _values(solution: Solution, field: str, coordinates: dict[str, Any]) -> np.ndarray:
    found = solution(**coordinates)
    return np.asarray(found[field] if isinstance(found, dict) else found)


def _reference(solution: Solution, field: str, coordinates: dict[str, Any]) -> np.ndarray:
    from ..solution import reference_on

    lattice, dropped = solution._lattice((), coordinates)
    return np.squeeze(np.asarray(reference_on(solution.problem, None, lattice)[field]), dropped)
