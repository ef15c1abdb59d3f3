"""A solution that moves: GIF, or MP4 where there is an ffmpeg (`pip install separax[film]` brings
one)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InputError, whole
from ..solution import Solution
from .cuts import Picture, chosen, field_name, limits, shown_axes, values_on
from .figures import known_ending, lines, new_file, panels

FILMS = {".gif": "a film", ".mp4": "a film, with ffmpeg"}
BATCH = 16  # frames evaluated at once


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
    import matplotlib
    from matplotlib import animation

    path, box = Path(path), view.problem.box
    kind = known_ending(path, FILMS)
    encoder = _ffmpeg() if kind == "mp4" else ""
    if encoder is None:
        raise InputError(
            f"{path.name}: an MP4 needs ffmpeg, which is not installed: write {path.stem}.gif, or"
            " pip install separax[film]"
        )
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
    values = _values(view, name, {**cut.held[0], **axes}, over, moments, cut.shown)
    figure, update = _frame(Picture(name, {}, axes, values[0]), limits([values]))
    film = animation.FuncAnimation(
        figure, lambda i: update(values[i], f"{over} = {moments[i]:.3g}"), frames, blit=False
    )
    own: dict[str, Any] = {} if kind == "gif" else {"bitrate": 4000}
    writer = (animation.PillowWriter if kind == "gif" else animation.FFMpegWriter)(fps=rate, **own)
    with new_file(path) as draft, matplotlib.rc_context({"animation.ffmpeg_path": encoder}):
        film.save(str(draft), writer=writer, dpi=100)
    return path


def _ffmpeg() -> str | None:
    """The system's, or the one that imageio-ffmpeg carries."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return get_ffmpeg_exe()
    except (ImportError, RuntimeError):  # not installed, or without a program for this machine
        return None


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


def _values(
    view: Solution,
    name: str,
    coordinates: Mapping[str, Any],
    over: str,
    moments: np.ndarray,
    shown: tuple[str, ...],
) -> np.ndarray:
    """All frames: (frames, first shown axis, second)."""
    parts = [
        values_on(view, name, {**coordinates, over: moments[i : i + BATCH]}, (over, *shown))
        for i in range(0, len(moments), BATCH)
    ]
    return np.concatenate(parts)


def _frame(
    picture: Picture, scale: tuple[float, float]
) -> tuple[Any, Callable[[np.ndarray, str], Any]]:
    """The first frame, and what changes it into another."""
    figure = lines([picture]) if len(picture.axes) == 1 else panels([picture])
    panel = figure.axes[0]
    if len(picture.axes) == 1:
        spare = 0.05 * (scale[1] - scale[0])
        panel.set_ylim(scale[0] - spare, scale[1] + spare)
    else:
        panel.get_images()[0].set_clim(*scale)

    def update(values: np.ndarray, title: str) -> None:
        panel.set_title(title)
        if len(picture.axes) == 1:
            panel.get_lines()[0].set_ydata(values)
        else:
            panel.get_images()[0].set_data(values.T)

    return figure, update
