"""Curves and pictures as inline SVG: they follow the page's colours, print sharply, and need no script.

Lines differ in colour and in dashes, so that either is enough to tell them apart.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from .cuts import Picture

WIDTH, NARROW, HEIGHT = 400, 280, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 12, 40
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2", "1 2")
STYLES = 7
MOST_POINTS = 400  # of one curve: more than the pixels it is drawn on
FLOOR = 1e-300


@dataclass(frozen=True)
class Series:
    label: str
    x: np.ndarray
    y: np.ndarray


def number(value: float) -> str:
    """A number of a few characters."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    size = abs(value)
    if 1e-3 <= size < 1e5:
        return f"{value:.4g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def thinned(x: np.ndarray, y: np.ndarray, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """The finite part of a curve, in at most MOST_POINTS points: the lowest and the highest of each stretch, so that
    neither peaks nor dips are lost."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    fine = np.isfinite(x) & np.isfinite(y) & ((y > FLOOR) if log else True)
    x, y = x[fine], y[fine]
    if len(x) <= MOST_POINTS:
        return x, y
    chosen = []
    for stretch in np.array_split(np.arange(len(x)), MOST_POINTS // 2):
        chosen += sorted({stretch[np.argmin(y[stretch])], stretch[np.argmax(y[stretch])]})
    return x[chosen], y[chosen]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two."""
    step = 10 ** math.floor(math.log10((high - low) / most)) if high > low else 1.0
    step *= next((m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= most), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten between two, at most seven of them."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 7))
    return [10.0**i for i in range(first, last + 1, every)]


def chart(
    series: Sequence[Series],
    across: str,
    up: str,
    log: bool = False,
    title: str = "",
    named: bool = True,
    width: int = WIDTH,
) -> str:
    """Lines in one frame, as a figure with its legend below."""
    drawn = [(s, *thinned(s.x, s.y, log)) for s in series]
    drawn = [(i, s, x, y) for i, (s, x, y) in enumerate(drawn) if len(x)]
    if not drawn:
        return ""
    low_x, high_x = min(x.min() for *_, x, _ in drawn), max(x.max() for *_, x, _ in drawn)
    low, high = min(y.min() for *_, y in drawn), max(y.max() for *_, y in drawn)
    if log:
        low, high = (low, high) if high > 10 * low else (low / 3, high * 3)
    else:
        spare = 0.05 * (high - low) or 0.5
        low, high = low - spare, high + spare
    high_x = high_x if high_x > low_x else low_x + 1
    inner_x, inner_y = width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at_x(x: np.ndarray | float) -> np.ndarray:
        return LEFT + (np.asarray(x) - low_x) / (high_x - low_x) * inner_x

    def at_y(y: np.ndarray | float) -> np.ndarray:
        part = (
            np.log(np.asarray(y) / low) / np.log(high / low)
            if log
            else (np.asarray(y) - low) / (high - low)
        )
        return TOP + (1 - part) * inner_y

    marks = []
    for value in decades(low, high) if log else ticks(low, high, 5):
        y = float(at_y(value))
        marks.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{width - RIGHT}"/>')
        marks.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_tick(value, log)}</text>'
        )
    for value in ticks(low_x, high_x, width // 80):
        x = float(at_x(value))
        marks.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        marks.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_thousands(value)}</text>'
        )
    lines = [
        f'<path class="line s{i % STYLES}" stroke-dasharray="{DASHES[i % STYLES]}" d="{_path(at_x(x), at_y(y))}"/>'
        for i, _, x, y in drawn
    ]
    frame = f'<path class="frame" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{width - RIGHT}"/>'
    words = (
        f'<text x="{LEFT + inner_x / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(across)}</text>'
        f'<text transform="translate(13 {TOP + inner_y / 2}) rotate(-90)" text-anchor="middle">{escape(up)}</text>'
    )
    name = escape(title or f"{up} against {across}", quote=True)
    svg = f'<svg class="chart" viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{name}">{"".join(marks)}{frame}{"".join(lines)}{words}</svg>'
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    return f"<figure>{caption}{svg}{legend([(i, s.label) for i, s, *_ in drawn]) if named and len(drawn) > 1 else ''}</figure>"


def legend(labels: Sequence[tuple[int, str]]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 34 8" aria-hidden="true"><path class="line s{i % STYLES}" stroke-dasharray="{DASHES[i % STYLES]}" d="M1 4H33"/></svg>{escape(label)}</li>'
        for i, label in labels
    )
    return f'<ul class="legend">{items}</ul>'


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y))


def _tick(value: float, log: bool) -> str:
    if not log:
        return number(value).replace("-", "−")
    exponent = round(math.log10(value))
    if -2 <= exponent <= 3:
        return f"{value:g}"
    return f'10<tspan dy="-5" font-size="8.5">{str(exponent).replace("-", "−")}</tspan>'


def _thousands(value: float) -> str:
    return (
        f"{int(value):,}".replace(",", "\u202f")
        if abs(value) >= 1000
        else f"{value:g}".replace("-", "−")
    )


# --- pictures ---------------------------------------------------------------------------------------------------------


def image(values: np.ndarray, low: float, high: float, colours: str) -> str:
    """Values as a PNG in a data URL, the first axis to the right and the second upwards; what is not known is left clear."""
    from matplotlib import colormaps
    from matplotlib.image import imsave

    part = np.clip((values.T[::-1] - low) / (high - low), 0, 1)
    pixels = colormaps[colours](np.nan_to_num(part), bytes=True)
    pixels[..., 3] = np.where(np.isfinite(part), 255, 0)
    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def panel(
    picture: Picture, values: np.ndarray, low: float, high: float, colours: str, title: str
) -> str:
    """One picture in its frame."""
    (across, xs), (up, ys) = picture.axes.items()
    width, height, left, bottom, top = 300, 250, 44, 34, 6
    inner_x, inner_y = width - left - 12, height - top - bottom
    marks = []
    for value in ticks(float(xs[0]), float(xs[-1]), 4):
        x = left + (value - xs[0]) / (xs[-1] - xs[0]) * inner_x
        marks.append(f'<path class="frame" d="M{x:.1f} {height - bottom}v4"/>')
        marks.append(
            f'<text x="{x:.1f}" y="{height - bottom + 16}" text-anchor="middle">{number(value).replace("-", "−")}</text>'
        )
    for value in ticks(float(ys[0]), float(ys[-1]), 4):
        y = top + (1 - (value - ys[0]) / (ys[-1] - ys[0])) * inner_y
        marks.append(f'<path class="frame" d="M{left} {y:.1f}h-4"/>')
        marks.append(
            f'<text x="{left - 7}" y="{y + 4:.1f}" text-anchor="end">{number(value).replace("-", "−")}</text>'
        )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg class="picture" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title, quote=True)}"><image x="{left}" y="{top}" width="{inner_x}" height="{inner_y}" '
        f'preserveAspectRatio="none" href="{image(values, low, high, colours)}"/>'
        f'<rect class="frame" x="{left}" y="{top}" width="{inner_x}" height="{inner_y}"/>{"".join(marks)}'
        f'<text x="{left + inner_x / 2}" y="{height - 3}" text-anchor="middle">{escape(across)}</text>'
        f'<text x="9" y="{top + inner_y / 2}" text-anchor="middle">{escape(up)}</text></svg></figure>'
    )


def colour_bar(low: float, high: float, colours: str, label: str) -> str:
    """A scale shared by several pictures."""
    low, high = (
        0.0 if abs(end) < 1e-6 * (high - low) else float(f"{end:.3g}") for end in (low, high)
    )
    gradient = image(np.linspace(0, 1, 128)[:, None], 0, 1, colours)
    return (
        f'<div class="scale"><span>{escape(label)}</span><span>{number(low).replace("-", "−")}</span>'
        f'<img alt="" src="{gradient}"><span>{number(high).replace("-", "−")}</span></div>'
    )
