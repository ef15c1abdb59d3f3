"""Figures of a solution, for papers, notebooks and pages: slices beside the reference, lines,
curves of training. One style."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import InputError, listed, whole
from ..runs import writing
from ..separable import Row
from ..solution import Solution
from .cuts import (
    Picture,
    chosen,
    field_name,
    has_reference,
    largest,
    limits,
    pictures,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# colours that stay apart without colour vision and in print (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("-", "--", "-.", ":")  # lines also stay apart without any colour
# perceptually uniform; the second has its lightest colour at zero
VALUES, DIFFERENCES = "viridis", "coolwarm"
FRAME, GRID = "#59636e", "#d8dce2"
# what the style sheet of a page calls these colours, in its light and its dark form
ON_A_PAGE = {FRAME: "var(--faint)", GRID: "var(--line)"} | {
    colour.lower(): f"var(--s{i})" for i, colour in enumerate(COLOURS)
}
STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FRAME,
    "xtick.color": FRAME,
    "ytick.color": FRAME,
    "image.cmap": VALUES,
    "mathtext.fontset": "cm",
    "svg.fonttype": "none",  # words in an SVG stay words
    "svg.hashsalt": "separax",  # the same figure is the same file
}
FIGURES = {
    ".png": "a picture",
    ".svg": "a picture of lines and words",
    ".pdf": "a picture for print",
}
PRINTED = 300  # dots per inch of a saved PNG
MOST_POINTS = 400  # of one curve: more than the pixels it is drawn on

Curve = tuple[np.ndarray, np.ndarray]


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure that belongs to no window, so that it can be made anywhere.

    Arguments:
        width, height: in inches.
        rows, columns: of its panels.

    Returns: the figure, and its axes as an array (rows, columns).
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False)


def png(figure: Figure, **options: Any) -> bytes:
    """A figure as a PNG. The options are those of matplotlib's `savefig`."""
    return _saved(figure, "png", **options)


def svg(figure: Figure, name: str) -> str:
    """A figure as an element of a page, in the page's own font and colours.

    Arguments:
        figure: in colours of this module.
        name: what it shows, for those who cannot see it.
    """
    text = _saved(figure, "svg", transparent=True).decode()
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r' font-family: [^;"]*;?| transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r'(<g) id="[^"]*"| style="image-rendering[^"]*"', r"\1", text)
    # marks where they are used: a page refers to nothing, not even to itself
    marks = dict(re.findall(r'<path id="(\w+)" d="([^"]*)"', text))
    use = r'<use xlink:href="#(\w+)" x="([^"]*)" y="([^"]*)"'
    text = re.sub(
        use, lambda m: f'<path d="{marks[m[1]]}" transform="translate({m[2]} {m[3]})"', text
    )
    text = re.sub(r"#[0-9a-f]{6}(?=[;\"])", lambda c: ON_A_PAGE.get(c[0], c[0]), text)
    box = re.search(r'viewBox="[^"]*"', text)
    inside = text[text.index(">", text.index("<svg")) + 1 :]
    return f'<svg role="img" aria-label="{escape(name)}" {box[0] if box else ""}>{inside}'


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
    """A figure of a slice or a line, `plot(solution, x="x", y="y", t=0.5)`: see `Solution.plot`."""
    cut = chosen(view.problem.box, x, y, at, held)
    name = field_name(view, field)
    if reference and not has_reference(view, name):
        raise InputError(
            f"plot: no reference of {name} is known: leave reference=True out, or give"
            " Problem(…, reference=exact)"
        )
    points = whole("points", (256 if len(cut.shown) == 2 else 512) if points is None else points, 2)
    found = pictures(view, name, cut, points, reference)
    return lines(found) if len(cut.shown) == 1 else panels(found)


# --- pictures -----------------------------------------------------------------------------------


class Scale(NamedTuple):
    """The meaning of colours: a colour map, and the values of its two ends."""

    label: str
    colours: str
    low: float
    high: float


class Panel(NamedTuple):
    """Values on the axes of a picture, in the colours of a scale."""

    title: str
    picture: Picture
    values: Any
    scale: Scale

    def draw(self, axes: Any) -> Any:
        """Draws the values as an image, which is returned; the first axis to the right."""
        (across, xs), (up, ys) = self.picture.axes.items()
        axes.set(title=self.title, xlabel=across, ylabel=up)
        # whatever its size: the layout is made for the numbers before it is drawn to scale
        axes.locator_params(nbins=5)
        return axes.imshow(
            self.values.T,
            origin="lower",
            aspect="auto" if self.picture.proportion is None else "equal",
            extent=(xs[0], xs[-1], ys[0], ys[-1]),
            cmap=self.scale.colours,
            vmin=self.scale.low,
            vmax=self.scale.high,
            interpolation="none",
        )


def panels_of(found: Sequence[Picture]) -> list[list[Panel]]:
    """A row for each picture: the solution, and the reference and the difference where there are
    any. All values share one scale, all differences another."""
    several, known = len({p.field for p in found}) > 1, found[0].reference is not None
    values = [v for p in found for v in (p.values, p.reference) if v is not None]
    scale = Scale("" if several else found[0].field, VALUES, *limits(values))
    most = largest([p.difference for p in found if p.difference is not None])
    off = Scale("difference", DIFFERENCES, -most, most)
    if not known:
        return [[Panel(p.where, p, p.values, scale)] for p in found]
    rows = []
    for p in found:
        columns = (("solution", p.values), ("reference", p.reference), ("difference", p.difference))
        name, where = f"{p.field}: " if several else "", f" at {p.where}" if p.where else ""
        rows.append(
            [
                Panel(name + title + where, p, v, off if title == "difference" else scale)
                for title, v in columns
            ]
        )
    return rows


def panels(found: Sequence[Picture]) -> Figure:
    """Two-dimensional pictures in rows of three, or each with its reference and the difference."""
    rows = panels_of(found)
    flat = list(itertools.chain(*rows))
    columns = min(len(flat), 3)
    count = -(-len(flat) // columns)
    figure, grid = new_figure(3.3 * columns + 1.4, _height(2.5, found) * count, count, columns)
    drawn = [(panel.scale, axes, panel.draw(axes)) for panel, axes in zip(flat, grid.ravel())]
    for axes in grid.ravel()[len(flat) :]:
        axes.set_axis_off()
    scales = dict.fromkeys(scale for scale, *_ in drawn)
    for scale in scales:
        on = [axes for own, axes, _ in drawn if own == scale]
        image = next(image for own, _, image in drawn if own == scale)
        left = len(scales) > 1 and scale.colours == VALUES
        form = "%.2g" if scale.colours == DIFFERENCES else None
        where: Any = "left" if left else "right"
        figure.colorbar(
            image, ax=on, label=scale.label, shrink=0.8, aspect=25, location=where, format=form
        )
    return figure


def single(panel: Panel) -> Figure:
    """A panel by itself."""
    figure, ((axes,),) = new_figure(4.2, _height(3.4, [panel.picture]))
    panel.draw(axes)
    return figure


def colour_bar(scale: Scale) -> Figure:
    """A scale by itself."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure, ((axes,),) = new_figure(4.2, 0.62)
    image = ScalarMappable(Normalize(scale.low, scale.high), scale.colours)
    figure.colorbar(image, cax=axes, orientation="horizontal", label=scale.label)
    return figure


def _height(width: float, found: Sequence[Picture]) -> float:
    """The height of a row of pictures, of panels of such a width: with room for words where they
    are drawn to scale, as usual elsewhere."""
    to_scale = [p.proportion for p in found if p.proportion is not None]
    return width * max(to_scale) + 0.9 if len(to_scale) == len(found) else 1.1 * width


# --- lines --------------------------------------------------------------------------------------


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
    panel.grid(color=GRID)
    return figure


def curves(
    named: Mapping[str, Curve],
    across: str,
    up: str,
    title: str = "",
    log: bool = False,
    width: float = 5.2,
) -> Figure | None:
    """Curves in one frame, with a legend below them.

    Arguments:
        named: coordinates and values by name.
        across, up: the names of the axes.
        title: above them.
        log: whether the axis upwards is logarithmic.
        width: in inches.

    Returns: the figure; None where there is no point to draw.
    """
    thin = [(i, name, *_thinned(*curve, log)) for i, (name, curve) in enumerate(named.items())]
    drawn = [(i, name, x, y) for i, name, x, y in thin if len(x)]
    if not drawn:
        return None
    figure, ((panel,),) = new_figure(width, 3.4)
    for i, name, x, y in drawn:
        panel.plot(x, y, MARKS[i % 4], color=COLOURS[i % len(COLOURS)], lw=1.4, label=name)
    panel.set(xlabel=across, ylabel=up, yscale="log" if log else "linear")
    low, high = min(y.min() for *_, y in drawn), max(y.max() for *_, y in drawn)
    if log and high < 10 * low:  # a frame of at least a decade
        panel.set_ylim(low / 3, high * 3)
    panel.set_title(title, loc="left")
    panel.margins(x=0)
    panel.locator_params(axis="x", integer=across == "step", nbins=6)
    panel.grid(color=GRID)
    if len(named) > 1:
        longest = 5 + max(len(name) for name in named)
        columns = max(1, min(len(drawn), int(15 * width) // longest))
        figure.legend(loc="outside lower left", ncols=columns, frameon=False)
    return figure


def _thinned(x: np.ndarray, y: np.ndarray, log: bool) -> Curve:
    """The finite part of a curve, in at most MOST_POINTS points: the lowest and the highest of each
    stretch, so that neither peaks nor dips are lost."""
    x, y = np.asarray(x), np.asarray(y, float)
    known = np.isfinite(y) & ((y > 0) if log else True)
    x, y = x[known], y[known]
    if len(x) <= MOST_POINTS:
        return x, y
    stretches = np.array_split(np.arange(len(x)), MOST_POINTS // 2)
    ends = {s[find(y[s])] for s in stretches for find in (np.argmin, np.argmax)}
    return x[sorted(ends)], y[sorted(ends)]


def against_rank(rows: Sequence[Row], name: str) -> Figure:
    """The error of the best sum of products against their number."""
    figure, ((panel,),) = new_figure(5.6, 3.6)
    ranks, errors = [row.rank for row in rows], [row.relative_l2 for row in rows]
    panel.loglog(ranks, errors, "o-", color=COLOURS[0], base=2)
    panel.set_yscale("log")
    panel.set_xticks(ranks, [str(rank) for rank in ranks])
    panel.minorticks_off()
    panel.grid(color=GRID)
    panel.set(title=name, xlabel="rank", ylabel="relative L2 error of the best fit")
    return figure


# --- files --------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Writes a figure to a file, whole or not at all.

    Arguments:
        figure: of matplotlib.
        path: of the file, whose ending says what it is: .png, .svg or .pdf.

    Returns: the path.
    """
    path = Path(path)
    kind = known_ending(path, FIGURES)
    content = _saved(figure, kind, **({"dpi": PRINTED} if kind == "png" else {}))
    with new_file(path) as draft:
        draft.write_bytes(content)
    return path


def known_ending(path: Path, known: Iterable[str]) -> str:
    """What a file's ending says, refused unless it is known."""
    ending, known = path.suffix.lower(), tuple(known)
    if ending not in known:
        raise InputError(
            f"{path.name}: a figure's name ends in one of {listed(known)}: write e.g."
            f" {path.stem}{known[0]}"
        )
    return ending[1:]


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A draft that takes the place of a path at the end; a folder that cannot be written to is
    named."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as draft:
            yield draft
    except OSError as error:
        raise InputError(
            f"{path}: cannot write there ({error.strerror or error}): choose another folder"
        ) from error
