"""Figures of a solution, for papers and notebooks: slices beside the reference, lines, curves of training. One style."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import InputError, listed, whole
from .cuts import (
    Picture,
    chosen,
    default_held,
    field_name,
    has_reference,
    largest,
    limits,
    pictures,
    shown_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..separable import Row
    from ..solution import Solution

# colours that stay apart without colour vision and in print (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("-", "--", "-.", ":")  # lines also stay apart without any colour
VALUES, DIFFERENCES = (
    "viridis",
    "coolwarm",
)  # perceptually uniform; the second has its lightest colour at zero
STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "legend.frameon": False,
    "image.cmap": VALUES,
    "mathtext.fontset": "cm",
    "svg.fonttype": "none",  # words in an SVG stay words
    "svg.hashsalt": "separax",  # the same figure is the same file
}
ENDINGS = (".png", ".svg", ".pdf")
PRINTED = 300  # dots per inch of a saved PNG


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure that belongs to no window, so that it can be made anywhere."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False)


def png(figure: Figure, **options: Any) -> bytes:
    return _saved(figure, "png", **options)


def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    undated: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, **undated, **options)
    return buffer.getvalue()


def plot(
    view: Solution,
    x: Any = None,
    y: Any = None,
    *,
    field: str | None = None,
    reference: bool = False,
    points: int | None = None,
    at: Mapping[str, Any] | None = None,
    **held: Any,
) -> Figure:
    """`plot(solution, x="x", y="y", t=0.5)`; see `Solution.plot`."""
    if not held and not at and x is None and y is None:
        cut = default_held(view.problem.box, shown_axes(view.problem.box))
    else:
        cut = chosen(view.problem.box, x, y, at, held)
    name = field_name(view, field)
    if reference and not has_reference(view, name):
        raise InputError(
            f"plot: no reference of {name} is known: leave reference=True out, or give Problem(…, reference=exact)"
        )
    points = whole("points", (256 if len(cut.shown) == 2 else 512) if points is None else points, 2)
    found = pictures(view, name, cut, points, reference)
    return lines(found) if len(cut.shown) == 1 else panels(found)


def slices(solution: Solution, field: str | None = None, points: int = 128) -> Figure:
    """Two-dimensional slices of a field: the solution, and beside it the reference and the difference where there is one.
    All slices share one colour scale, all differences another."""
    name = field_name(solution, field)
    return plot(solution, field=name, points=points, reference=has_reference(solution, name))


def panels(found: Sequence[Picture]) -> Figure:
    """Two-dimensional pictures: in a row, or a row for each with the reference and the difference beside it."""
    if all(p.reference is None for p in found):
        columns = min(len(found), 3)
        rows = -(-len(found) // columns)
        figure, grid = new_figure(
            3.3 * columns + 1.0, _height(2.6, 2.8, found) * rows, rows, columns
        )
        scale = limits([p.values for p in found])
        images = [
            _image(panel, p, p.values, *scale, VALUES, p.where)
            for panel, p in zip(grid.ravel(), found)
        ]
        for panel in grid.ravel()[len(found) :]:
            panel.set_axis_off()
        figure.colorbar(
            images[0], ax=list(grid.ravel()), shrink=0.9, label=found[0].field, aspect=25
        )
        return figure
    figure, grid = new_figure(3.3 * 3 + 1.6, _height(2.3, 2.7, found) * len(found), len(found), 3)
    scale = limits([v for p in found for v in (p.values, p.reference) if v is not None])
    most = largest([p.difference for p in found if p.difference is not None])
    images = {}
    several = len({p.field for p in found}) > 1
    for row, picture in zip(grid, found):
        where = f" at {picture.where}" if picture.where else ""
        columns = {
            "solution": picture.values,
            "reference": picture.reference,
            "difference": picture.difference,
        }
        for panel, (title, values) in zip(row, columns.items()):
            chosen = (-most, most, DIFFERENCES) if title == "difference" else (*scale, VALUES)
            images[title] = _image(
                panel,
                picture,
                values,
                *chosen,
                (f"{picture.field}: " if several else "") + title + where,
            )
    figure.colorbar(
        images["difference"], ax=list(grid[:, -1]), format="%.2g", shrink=0.8, aspect=25
    )
    figure.colorbar(
        images["solution"],
        ax=list(grid[:, :2].ravel()),
        shrink=0.8,
        location="left",
        label="" if several else found[0].field,
        aspect=25,
    )
    return figure


def _height(width: float, usual: float, found: Sequence[Picture]) -> float:
    """Of a row of pictures, whose panels are so wide: with room for words where they are drawn to scale, or as usual."""
    to_scale = [p.proportion for p in found if p.proportion is not None]
    return width * max(to_scale) + 0.9 if len(to_scale) == len(found) else usual


def _image(
    panel: Any, picture: Picture, values: Any, low: float, high: float, colours: str, title: str
) -> Any:
    (across, xs), (up, ys) = picture.axes.items()  # x to the right, as on paper
    extent = (xs[0], xs[-1], ys[0], ys[-1])
    panel.set(title=title, xlabel=across, ylabel=up)
    panel.locator_params(
        nbins=5
    )  # whatever its size: the layout is made for the numbers before a panel is drawn to scale
    return panel.imshow(
        values.T,
        origin="lower",
        aspect="auto" if picture.proportion is None else "equal",
        extent=extent,
        cmap=colours,
        vmin=low,
        vmax=high,
        interpolation="nearest",
    )


def lines(found: Sequence[Picture]) -> Figure:
    """A field along one axis, one line per place; the reference as crosses on it."""
    figure, ((panel,),) = new_figure(6, 3.6)
    ((axis, xs),) = found[0].axes.items()
    for i, picture in enumerate(found):
        colour = COLOURS[i % len(COLOURS)]
        label = picture.where or "solution"
        panel.plot(xs, picture.values, MARKS[i % 4], color=colour, lw=1.5, label=label)
        if picture.reference is not None:
            few = slice(None, None, max(1, len(xs) // 24))
            named = "reference" if i == 0 else None
            panel.plot(xs[few], picture.reference[few], "x", color=colour, ms=5, label=named)
    if len(found) > 1 or found[0].reference is not None or found[0].where:
        panel.legend(frameon=False)
    panel.set(xlabel=axis, ylabel=found[0].field)
    panel.margins(x=0)
    panel.grid(alpha=0.25)
    return figure


def save_figure(solution: Solution, path: str | os.PathLike[str], **options: Any) -> Path:
    """A figure of a solution in a file: `save_figure(solution, "u.svg", x="x", y="y", t=0.5)`; the options are `plot`'s. The
    file's ending says what it is."""
    from ..runs import write

    path = Path(path)
    kind = known_ending(path, ENDINGS)
    figure = plot(solution, **options)
    content = _saved(figure, kind, **({"dpi": PRINTED} if kind == "png" else {}))
    return written(path, lambda: write(path, content))


def known_ending(path: Path, known: Sequence[str]) -> str:
    """What a file's ending says, refused unless it is known."""
    ending = path.suffix.lower()
    if ending not in known:
        raise InputError(
            f"{path.name}: a figure's name ends in one of {listed(known)}: write e.g. {path.stem}{known[0]}"
        )
    return ending[1:]


def written(path: Path, save: Any) -> Path:
    """The path, once `save` has written it; a folder that cannot be written to is named."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save()
    except OSError as error:
        raise InputError(
            f"{path}: cannot write there ({error.strerror or error}): choose another folder"
        ) from error
    return path


def against_rank(rows: Sequence[Row], name: str) -> Figure:
    """The error of the best sum of products against their number."""
    figure, ((panel,),) = new_figure(5.6, 3.6)
    panel.loglog(
        [row.rank for row in rows],
        [row.relative_l2 for row in rows],
        "o-",
        color=COLOURS[0],
        base=2,
    )
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
    if len(history.losses) > 1:
        for i, (name, values) in enumerate(history.losses.items()):
            panels[0].semilogy(
                history.steps,
                values,
                MARKS[i % 4],
                color=COLOURS[(i + 1) % len(COLOURS)],
                lw=0.8,
                label=name,
            )
    panels[0].semilogy(history.steps, history.total, color=COLOURS[0], lw=1.0, label="loss")
    panels[0].set(xlabel="step", ylabel="loss")
    panels[0].legend(frameon=False)
    if known:
        panels[1].semilogy(history.error_steps, history.errors, color=COLOURS[2])
        panels[1].set(xlabel="step", ylabel="relative L2 error")
    for panel in panels:
        panel.locator_params(axis="x", integer=True)  # there are no half steps
    return figure
