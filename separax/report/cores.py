"""A solution with a core, for a page: few columns per axis, their series, and the core that joins them.

How many columns are kept, and how much of their series, follows from what the rest would add to every output, derivatives included: a
vorticity needs the fast columns of a stream function more than the stream function does. The windows of a march share the core and
their columns in space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import compact
from ..compact import Tucker, times, unfolded
from ..fields import Key
from ..loss import TIME
from . import series
from .series import Array, Kept, Outputs, Scales

if TYPE_CHECKING:
    from ..solution import Solution

TOLERANCES = 10.0 ** np.arange(-7, 0.01, 0.125)  # of the largest value, in the mean; the first with which it all fits is taken

Left = dict[Any, np.ndarray]  # what is left out by keeping n = 0, 1, … of something, relative to the largest value


def with_cores(windows: Sequence[Solution], needed: Sequence[Array], outputs: Outputs, scales: Scales) -> Kept:
    """The most exact columns and cores that fit in a page."""
    axes = windows[0].problem.box.axes
    along = axes.index(TIME) if TIME in axes else 0
    order = max(order for *_, order in needed)
    parts = [compact.columns(window, series.nodes(window), order) for window in windows]
    found = {
        c: compact.joined([Tucker([series.through(f) for f in part[c].factors], part[c].core) for part in parts], along)
        for c in sorted({component for component, *_ in needed})
    }
    columns, rows = _left_out(found, along, outputs, scales)
    for tolerance in TOLERANCES:
        ranks, lengths = ({k: _enough(left, tolerance) for k, left in each.items()} for each in (columns, rows))
        cores = {c: parts[0].core[tuple(slice(ranks[c, axis]) for axis in range(len(axes)))] for c, parts in found.items()}
        copies = {k: len(windows) if k[1] == along else 1 for k in needed}
        size = sum(core.size for core in cores.values()) + sum(copies[k] * lengths[k] * ranks[k[:2]] for k in needed)
        if size <= series.MOST_NUMBERS:
            break

    def short(window: int, key: Array) -> np.ndarray:
        component, axis, order = key
        return found[component][window].factors[axis][order, : lengths[key], : ranks[component, axis]].astype("<f4")

    shared = {key: short(0, key) for key in needed if key[1] != along}
    own = [{key: short(i, key) for key in needed if key[1] == along} for i in range(len(windows))]
    return Kept([shared | each for each in own], {c: core.astype("<f4") for c, core in cores.items()})


def _left_out(found: Mapping[int, Sequence[Tucker]], along: int, outputs: Outputs, scales: Scales) -> tuple[Left, Left]:
    """By component and axis what the columns after the first n add to an output, and by array what the coefficients after the first n of
    its series do; of all outputs the most."""
    made: dict[Key, list[tuple[np.ndarray, np.ndarray]]] = {}
    columns: Left = {}
    rows: Left = {}
    for name, output in outputs.items():
        here: tuple[Left, Left] = {}, {}
        for key, coefficient in output.terms.items():
            component, orders = key
            if key not in made:
                made[key] = _of_derivative(found[component], along, orders)
            for axis, (left, order) in enumerate(zip(made[key], orders)):
                for each, place, size in zip(here, ((component, axis), (component, axis, order)), left):
                    each[place] = each.get(place, 0.0) + abs(coefficient) / scales[name] * size
        for every, each in zip((columns, rows), here):
            every |= {place: np.maximum(every.get(place, 0.0), left) for place, left in each.items()}
    return columns, rows


def _of_derivative(parts: Sequence[Tucker], along: int, orders: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per axis the size of a derivative's part in the columns after the first n, and in the coefficients after the first n."""
    core = parts[0].core
    series = [
        np.stack([part.factors[axis][order] for part in (parts if axis == along else parts[:1])])
        for axis, order in enumerate(orders)
    ]
    grams = [np.einsum("wmr,wms->rs", s, s, optimize=True) / len(s) for s in series]
    found = []
    for axis, (own, gram) in enumerate(zip(series, grams)):
        others = times(core, {i: g for i, g in enumerate(grams) if i != axis})
        inner = unfolded(core, axis) @ unfolded(others, axis).T  # what the columns of this axis are multiplied by, squared
        dropped = np.cumsum(np.cumsum((inner * gram)[::-1, ::-1], 0), 1).diagonal()[::-1]
        cut = np.cumsum(np.sum((own @ inner) * own, axis=(0, 2))[::-1])[::-1] / len(own)
        found.append(tuple(np.sqrt(np.maximum(each, 0.0)) for each in (dropped, cut)))
    return found


def _enough(left: np.ndarray, tolerance: float) -> int:
    small = np.flatnonzero(left <= tolerance)
    return max(1, int(small[0])) if small.size else len(left)
