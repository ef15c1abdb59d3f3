"""Figures of a solution: slices beside the reference, and the curves of its training. One style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..solution import Solution

# colours that stay apart without colour vision and in print (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE = {
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


def held_values(solution: Solution, shown: tuple[str, ...], fractions: tuple[float, ...]) -> list[dict[str, float]]:
    """Values of the axes that are not shown: time (or the first of them) at each fraction of its range, the rest at 5/8 of
    theirs, off the middle, where symmetric solutions are often zero."""
    box = solution.problem.box
    hidden = [a for a in box.axes if a not in shown]
    rest = {a: box[a][0] + 0.625 * (box[a][1] - box[a][0]) for a in hidden}
    if not hidden:
        return [{}]
    moved = "t" if "t" in hidden else hidden[0]
    low, high = box[moved]
    return [rest | {moved: low + f * (high - low)} for f in fractions]


def slices(solution: Solution, field: str | None = None, points: int = 128) -> Figure:
    """Two-dimensional slices of a field: the solution, and beside it the reference and the difference where there is one."""
    problem = solution.problem
    field = field or problem.fields[0]
    shown = shown_axes(solution)
    if len(shown) < 2:
        return line(solution, field)
    held = held_values(solution, shown, (0.125, 0.5, 0.875))
    columns = 3 if problem.reference is not None else 1
    figure, panels = new_figure(3.6 * columns + 0.4, 2.9 * len(held), len(held), columns)
    vertical, horizontal = shown
    grid = {a: np.linspace(*problem.box[a], points) for a in shown}
    for row, fixed in zip(panels, held):
        values = _values(solution, field, {**grid, **fixed})
        pictures = [("solution", values)]
        if columns == 3:
            true = _reference(solution, field, {**grid, **fixed})
            pictures += [("reference", true), ("difference", values - true)]
        limits = [min(p.min() for _, p in pictures[:2]), max(p.max() for _, p in pictures[:2])]
        where = ", ".join(f"{a} = {v:.3g}" for a, v in fixed.items())
        for panel, (title, picture) in zip(row, pictures):
            apart = title == "difference"
            most = float(np.abs(picture).max()) or 1.0
            image = panel.imshow(
                picture, origin="lower", aspect="auto", extent=(*problem.box[horizontal], *problem.box[vertical]),
                cmap="RdBu_r" if apart else "viridis", vmin=-most if apart else limits[0], vmax=most if apart else limits[1],
            )  # fmt: skip
            panel.set(title=f"{title}{f' at {where}' if where else ''}", xlabel=horizontal, ylabel=vertical)
            figure.colorbar(image, ax=panel, format="%.1e" if apart else None)
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
