"""The solution of a march: one function over the whole interval, made of the windows' solutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, add_up
from ..domain import TIME, Lattice, Place, Points
from ..equations import Problem
from ..recipe import Recipe
from .solution import History, Solution, Timing
from .view import Expressions, View


class Pieces(View):
    """Views of the windows as one: every instant is looked up in its window, an edge in the one it ends."""

    windows: Sequence[View]
    edges: np.ndarray

    def _values(self, place: Place, host: Any = None) -> dict[str, Array]:
        at = place.axes.index(TIME)
        times = np.asarray(place.coordinates[at])
        along = at if isinstance(place, Lattice) else 0
        return self._joined(
            times, along, lambda window, here: window._values(_taken(place, at, here), host)
        )

    def _joined(
        self, times: np.ndarray, along: int, values: Callable[[View, np.ndarray], dict[str, Array]]
    ) -> dict[str, Array]:
        """The `values` of each window at the instants that are its own (their places among all), put in order along an axis."""
        owner = self._owner(times)
        asked = [(number, np.flatnonzero(owner == number)) for number in np.unique(owner)]
        parts = [values(self.windows[number], here) for number, here in asked]
        back = np.argsort(np.concatenate([here for _, here in asked]))
        with self._precision():
            return {
                k: jnp.take(jnp.concatenate([p[k] for p in parts], along), back, along)
                for k in parts[0]
            }

    def _owner(self, times: np.ndarray) -> np.ndarray:
        """The window of every instant. Coordinates of single precision may lie a little beside an edge that they mean."""
        slack = min(
            4 * np.finfo(np.float32).eps * float(np.max(np.abs(self.edges))),
            1e-3 * float(np.min(np.diff(self.edges))),
        )
        return np.clip(
            np.searchsorted(self.edges[1:-1] + slack, times, side="left"), 0, len(self.windows) - 1
        )

    def _view(self, expressions: Expressions) -> View:
        made = Pieces(self.problem, self.recipe, self.model, expressions, self.since)
        made.windows, made.edges = (
            [window._view(expressions) for window in self.windows],
            self.edges,
        )
        return _shared(made)

    def integral(self, *axes: str, points: int = 64, **coordinates: Any) -> Any:
        """As of any solution; over time, the windows' integrals are added up."""
        for axis in axes:
            self.problem.box.check_axis(axis, "integral")
        if not axes or TIME in axes:
            found = [
                window.integral(*axes, points=points, **coordinates) for window in self.windows
            ]
            with self._precision():
                return (
                    {k: add_up(f[k] for f in found) for k in found[0]}
                    if isinstance(found[0], dict)
                    else add_up(found)
                )
        given, _ = self._lattice((), coordinates | {a: [self.problem.box[a][0]] for a in axes})
        times = np.asarray(given[TIME])
        one = np.ndim(coordinates[TIME]) == 0
        kept = [
            a
            for a in self.problem.box.axes
            if a not in axes and (a == TIME or np.ndim(coordinates[a]))
        ]
        at = kept.index(TIME)

        def values(window: View, here: np.ndarray) -> dict[str, Array]:
            inside = np.clip(
                times[here], *window.problem.box[TIME]
            )  # an edge may be rounded to beyond it
            part = window.integral(*axes, points=points, **coordinates | {TIME: inside})
            return part if isinstance(part, dict) else {"": part}

        joined = self._joined(times, at, values)
        with self._precision():
            return self._out({k: jnp.squeeze(v, at) if one else v for k, v in joined.items()})


class Marched(Pieces, Solution):
    """A solution over several windows of time, each with a network of its own. It is called, differentiated, integrated and
    measured like any other; `windows` are the parts, each a solution on its own interval, and `jumps()` what separates them."""

    windows: Sequence[Solution]

    @classmethod
    def joined(
        cls,
        problem: Problem,
        recipe: Recipe,
        windows: Sequence[Solution],
        edges: np.ndarray,
        run_dir: Path | None,
    ) -> Marched:
        reached = float(edges[len(windows)])
        last = windows[-1]
        steps = sum(window.timing.steps for window in windows)
        compiling, training = (
            sum(getattr(w.timing, n) for w in windows) for n in ("compile_seconds", "train_seconds")
        )
        memory = [w.memory_bytes for w in windows if w.memory_bytes is not None]
        found = cls(
            problem if reached == problem.box[TIME][1] else problem.during(edges[0], reached),
            recipe,
            windows[0].model,
            history=_history(windows, recipe.total_steps),
            timing=Timing(compiling, training, steps),
            seed=last.seed,
            best_step=(len(windows) - 1) * recipe.total_steps + last.best_step,
            best_loss=math.fsum(w.best_loss for w in windows) / len(windows),
            memory_bytes=max(memory, default=None),
            interrupted=last.interrupted or reached < problem.box[TIME][1],
            run_dir=run_dir,
        )
        found.windows, found.edges = list(windows), np.asarray(edges[: len(windows) + 1], float)
        return _shared(found)

    def separable(self, lattice: Lattice, order: int = 0) -> Any:
        raise InputError(
            "separable: every window has factors of its own: write solution.windows[0].separable(lattice)"
        )

    def norm(self, points: int = 64) -> Any:
        """The L2 norm √∫u² of each field, over all windows."""
        found = [window.norm(points) for window in self.windows]
        if isinstance(found[0], dict):
            return {k: math.sqrt(math.fsum(f[k] ** 2 for f in found)) for k in found[0]}
        return math.sqrt(math.fsum(f**2 for f in found))

    def jumps(self, points: int = 64) -> dict[str, np.ndarray]:
        """By field, how far apart two windows are where they meet, relative to the size of the field there: one number per edge."""
        box = self.problem.box
        space = {a: np.linspace(*box[a], points) for a in box.axes if a != TIME}
        found: dict[str, list[float]] = {}
        for before, after, edge in zip(self.windows, self.windows[1:], self.edges[1:]):
            lattice = Lattice(
                weights=None, **{a: np.array([edge]) if a == TIME else space[a] for a in box.axes}
            )
            one, other = (
                {k: np.asarray(v, np.float64) for k, v in w._values(lattice).items()}
                for w in (before, after)
            )
            for name, values in one.items():
                size, jump = (
                    math.sqrt(np.nanmean(each**2)) for each in (values, values - other[name])
                )
                found.setdefault(name, []).append(jump / (size or 1.0))
        return {name: np.array(each) for name, each in found.items()}


def _shared(pieces: Any) -> Any:
    """Windows differ in their parameters alone: one compiled evaluation serves all."""
    for window in pieces.windows[1:]:
        window._evaluate = pieces.windows[0]._evaluate
    return pieces


def _taken(place: Place, at: int, here: np.ndarray) -> Place:
    """The part of a place at some of its instants: a slice of a lattice, some of scattered points."""
    if isinstance(place, Points):
        return Points(place.axes, tuple(c[here] for c in place.coordinates))
    axes = {
        a: c[here] if i == at else c for i, (a, c) in enumerate(zip(place.axes, place.coordinates))
    }
    return Lattice(weights=None, **axes)


def _history(windows: Sequence[Solution], steps: int) -> History:
    """One after the other."""
    each = [window.history for window in windows]

    def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(arrays))

    return History(
        joined([h.steps + i * steps for i, h in enumerate(each)]),
        {name: joined([h.losses[name] for h in each]) for name in each[0].losses},
        joined([h.total for h in each]),
        joined([h.error_steps + i * steps for i, h in enumerate(each)]),
        joined([h.errors for h in each]),
    )
