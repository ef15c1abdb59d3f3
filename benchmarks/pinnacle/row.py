"""What a row of the benchmark is: a problem, the truth at points, and the error to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import separax as sx


@dataclass(frozen=True)
class Truth:
    """What is known of a solution.

    Attributes:
        points: where, (n, axes) in the order of the box.
        values: by field ("" where there is one without a name), (n,).
        error: how far off they may be themselves, as a relative L2 error; found by computing them
            twice.
    """

    points: np.ndarray
    values: dict[str, np.ndarray]
    error: float = 0.0


@dataclass(frozen=True)
class Row:
    """A problem of the benchmark.

    Attributes:
        problem: makes it, as a user would write it.
        truth: computes the reference.
        to_reach: the relative L2 error that is wanted.
        published: the best error that others have reported.
        seconds: that a solve may take.
    """

    problem: Callable[[], sx.Problem]
    truth: Callable[[], Truth]
    to_reach: float
    published: float | None = None
    seconds: float = 300.0


def known(
    problem: Callable[[], sx.Problem], function: Callable[..., Any], number: int = 20_000
) -> Callable[[], Truth]:
    """The truth as a formula: at random points inside, of NumPy arrays.

    Arguments:
        problem: whose box and shape hold the points.
        function: of the coordinates by name in the order of the box; its result is an array, or a
            dict of arrays by field.
        number: of points.
    """

    def truth() -> Truth:
        of = problem()
        low, high = np.transpose([of.box[a] for a in of.box.axes])
        points = np.random.default_rng(0).uniform(low, high, (number, len(low)))
        if of.shape is not None:
            points = points[np.asarray(of.shape.mask(dict(zip(of.box.axes, points.T))))]
        values = function(*points.T)
        values = values if isinstance(values, dict) else {"": values}
        return Truth(points, {k: np.broadcast_to(v, len(points)) for k, v in values.items()})

    return truth


def distance(found: Any, truth: Truth) -> float:
    """The relative L2 error of all fields together at the points of the truth.

    Arguments:
        found: the solution.
        truth: what is known.
    """
    at = found.at(truth.points)
    at = at if isinstance(at, dict) else {"": at}
    ours = np.concatenate([np.asarray(at[k], float) for k in truth.values])
    theirs = np.concatenate(list(truth.values.values()))
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
