"""A solution that moves, as a GIF."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InputError, whole
from ..solution import Solution
from .cuts import Picture, chosen, field_name, limits, shown_axes, values_on
from .figures import known_ending, lines, new_file, panels

FILM = ".gif"


def animate(
    view: Solution,
    path: str | os.PathLike[str],
    x: Any = None,
    y: Any = None,
    *,
    over: str | None = None,
    field: str | None = None,
    frames: int = 60,
    rate: int = 20,
    points: int | None = None,
    at: Mapping[str, Any] | None = None,
    **held: Any,
) -> Path:
    """`animate(solution, "out.gif", x="x", y="y")`; see `Solution.animate`."""
    from matplotlib import animation

    path, box = Path(path), view.problem.box
    known_ending(path, [FILM])
    frames, rate = whole("frames", frames, 2), whole("rate", rate)
    if box.dimension == 1:
        raise InputError(
            f"animate: {box!r} has one axis and nothing to move along: write solution.plot()"
        )
    over = _over(view, over, x, y)
    if over in {**(at or {}), **held}:
        raise InputError(
            f"animate: {over} moves and is held too: leave {over}= out, or name another axis,"
            " over=…"
        )
    cut = chosen(box, x, y, at, {**held, over: box[over][0]})
    if len(cut.held) > 1:
        raise InputError(
            "animate: one picture moves at a time: give a single value to each axis that is held"
        )
    name = field_name(view, field)
    moments = np.linspace(*box[over], frames)
    points = whole("points", (160 if len(cut.shown) == 2 else 400) if points is None else points, 2)
    axes = {a: np.linspace(*box[a], points) for a in cut.shown}
    values = values_on(view, name, {**cut.held[0], **axes, over: moments}, (over, *cut.shown))
    is_line, (low, high) = len(cut.shown) == 1, limits([values])
    first = Picture(name, {}, axes, values[0])
    figure = lines([first]) if is_line else panels([first])
    panel = figure.axes[0]
    if is_line:
        spare = 0.05 * (high - low)
        panel.set_ylim(low - spare, high + spare)
    else:
        panel.get_images()[0].set_clim(low, high)

    def update(i: int) -> None:
        panel.set_title(f"{over} = {moments[i]:.3g}")
        if is_line:
            panel.get_lines()[0].set_ydata(values[i])
        else:
            panel.get_images()[0].set_data(values[i].T)

    film = animation.FuncAnimation(figure, update, frames, blit=False)
    with new_file(path) as draft:
        film.save(str(draft), writer=animation.PillowWriter(fps=rate), dpi=100)
    return path


def _over(view: Solution, over: str | None, x: Any, y: Any) -> str:
    """The axis that moves: time, or the first one that is not shown."""
    box = view.problem.box
    if over is not None:
        return box.check_axis(over, "animate: over")
    named = [v for v in (x, y) if isinstance(v, str)]
    shown = named or shown_axes(box, ["t"] if "t" in box.axes else [box.axes[0]])
    hidden = [a for a in box.axes if a not in shown]
    if not hidden:
        raise InputError(
            f"animate: {', '.join(shown)} are all the axes: show one less, e.g. x={shown[0]!r}"
            " alone"
        )
    return "t" if "t" in hidden else hidden[0]
