"""Rows of the benchmark in time and one axis: the canonical ones."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from row import Row, Truth, known

import separax as sx

sys.path.insert(0, str(Path(__file__).parents[1]))
from fronts import ROWS as FRONTS

PI = math.pi


def from_front(name: str, times: int = 40, places: int = 257) -> Row:
    """A row that `benchmarks/fronts.py` has."""
    row = FRONTS[name]

    def truth() -> Truth:
        box = row.problem().box
        t, x = np.linspace(*box["t"], times + 1)[1:], np.linspace(*box["x"], places)
        coarse, fine = (row.truth(t, x, k)[0] for k in (1, 2))
        points = np.stack(np.meshgrid(t, x, indexing="ij"), -1).reshape(-1, 2)
        error = np.linalg.norm(coarse - fine) / np.linalg.norm(fine)
        return Truth(points, {"": fine.ravel()}, float(error))

    published = {"burgers": 1.34e-2, "kuramoto-sivashinsky, chaotic": 9.46e-1}[name]
    return Row(row.problem, truth, row.error, published)


def waves() -> sx.Problem:
    """Two waves of different speed of oscillation on a string."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.tt - 4 * u.xx,
        [
            sx.Initial(lambda x: jnp.sin(PI * x) + 0.5 * jnp.sin(4 * PI * x)),
            sx.Initial(0, of=lambda u: u.t),
            sx.Dirichlet(0),
        ],
        name="wave-1d-c",
    )


def two_waves(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    first = np.sin(PI * x) * np.cos(2 * PI * t)
    return first + 0.5 * np.sin(4 * PI * x) * np.cos(8 * PI * t)


ROWS = {
    "burgers-1d-c": from_front("burgers"),
    "wave-1d-c": Row(waves, known(waves, two_waves), 1e-10, 1.63e-2),
    "ks": from_front("kuramoto-sivashinsky, chaotic"),
}
