"""The Chebyshev series of a solution's factors, as many of them as a page has room for.

Every factor becomes a Chebyshev series along its axis, cut where the rest would change no value by more than a small part of
the largest: a smooth factor needs a few dozen numbers where a table would need thousands, and the series can be evaluated
anywhere, not only on nodes. Here are those of a plain sum of products, which every window has for itself; of a network with a core, see
`cores`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.fft import dct

from ..compact import in_double
from ..fields import Key
from ..networks import SeparableNetwork

if TYPE_CHECKING:
    from ..solution import Solution

NODES = 256  # per axis: the longest series
MOST_NUMBERS = 400_000  # 1.6 MB as float32, 2.1 MB in a page
TOLERANCES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of the largest value; the first whose series fit is taken

Array = tuple[int, int, int]  # which factors: component, axis, order of the derivative


@dataclass(frozen=True)
class Output:
    """What can be looked at: Σ coefficient · ∂^orders of the components, plus a number."""

    terms: Mapping[Key, float]
    constant: float


Outputs = Mapping[Any, Output]
Scales = Mapping[Any, float]


@dataclass(frozen=True)
class Kept:
    """What a page has of a solution: by window the series (length, columns) of all the factors needed, and by component the core that
    joins their columns. Without cores it is a plain sum of products. An array may serve several windows."""

    windows: Sequence[Mapping[Array, np.ndarray]]
    cores: Mapping[int, np.ndarray]

    def derivative(self, window: int, key: Key, at: Sequence[np.ndarray]) -> np.ndarray:
        """At points of a window, their coordinates from -1 to 1."""
        component, orders = key
        series = [self.windows[window][component, axis, order] for axis, order in enumerate(orders)]
        rows = [chebval(s, c, tensor=True).T for s, c in zip(at, series)]
        if not self.cores:
            return np.sum(functools.reduce(operator.mul, rows), axis=1)
        values = np.tensordot(rows[0], self.cores[component], 1)
        for row in rows[1:]:
            values = np.einsum("nb...,nb->n...", values, row)
        return values


def nodes(window: Solution) -> list[np.ndarray]:
    unit = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    box = window.problem.box
    return [low + (unit + 1) * (high - low) / 2 for low, high in (box[a] for a in box.axes)]


def through(values: np.ndarray) -> np.ndarray:
    """The Chebyshev coefficients of values (…, nodes, columns)."""
    coefficients = np.asarray(dct(values, type=2, axis=-2)) / NODES
    coefficients[..., 0, :] /= 2
    return coefficients


# --- a plain sum of products -------------------------------------------------------------------------------------------


def jets_at(window: Solution, coordinates: Sequence[np.ndarray], order: int) -> list[np.ndarray]:
    """Per axis the factors (components, orders, points, rank) of the plain sum of products that any separable network is."""
    with jax.enable_x64(True):
        network, own = in_double(window, coordinates)
        return [np.asarray(jet) for jet in _jets(network, own, order)]


@eqx.filter_jit
def _jets(network: SeparableNetwork, coordinates: tuple[Any, ...], order: int) -> Any:
    return network.jets(coordinates, order)


def series(window: Solution, needed: Sequence[Array]) -> dict[Array, np.ndarray]:
    """The Chebyshev coefficients (NODES, rank) of all the factors needed."""
    jets = jets_at(window, nodes(window), max(order for *_, order in needed))
    return {(component, axis, order): through(jets[axis][component, order]) for component, axis, order in needed}


def lengths(found: Mapping[Array, np.ndarray], outputs: Outputs, scales: Scales, tolerance: float) -> list[int]:
    """How many coefficients each axis needs: what cutting its series leaves out, times the usual size of the other factors,
    stays below `tolerance` of the scale of every output."""
    axes = 1 + max(axis for _, axis, _ in found)
    tails = {k: np.sqrt(np.cumsum(c[::-1] ** 2, axis=0)[::-1]) for k, c in found.items()}  # [n]: the size of all but n terms
    needed = [1] * axes
    for name, output in outputs.items():
        errors = np.zeros((axes, NODES))
        for (component, orders), coefficient in output.terms.items():
            sizes = [tails[component, axis, order] for axis, order in enumerate(orders)]
            for axis in range(axes):
                others = np.prod([s[0] for i, s in enumerate(sizes) if i != axis], axis=0)
                errors[axis] += np.sum((coefficient * sizes[axis] * others) ** 2, axis=1)
        allowed = (tolerance * scales[name]) ** 2
        for axis in range(axes):
            enough = np.flatnonzero(errors[axis] <= allowed)
            needed[axis] = max(needed[axis], int(enough[0]) if enough.size else NODES)
    return needed


def plain(windows: Sequence[Solution], needed: Sequence[Array], outputs: Outputs, scales: Scales) -> Kept:
    """The factors of every window, as exact as they fit in a page."""
    every = [series(window, needed) for window in windows]
    short = [
        {key: c[: count[key[1]]].astype("<f4") for key, c in found.items()}
        for found, count in zip(every, _that_fit(every, outputs, scales))
    ]
    return Kept(short, {})


def _that_fit(every: Sequence[Mapping[Array, np.ndarray]], outputs: Outputs, scales: Scales) -> list[list[int]]:
    """The lengths of the series by window and axis, for the smallest tolerance with which they fit in a page."""

    def size(counts: Sequence[Sequence[int]]) -> int:
        return sum(count[axis] * c.shape[1] for found, count in zip(every, counts) for (_, axis, _), c in found.items())

    for tolerance in TOLERANCES:
        counts = [lengths(found, outputs, scales, tolerance) for found in every]
        if size(counts) <= MOST_NUMBERS:
            return counts
    part = MOST_NUMBERS / size(counts)  # very many windows or products: all series are cut alike
    return [[max(2, int(n * part)) for n in count] for count in counts]
