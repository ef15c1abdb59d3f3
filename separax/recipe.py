"""How to solve a problem: network, points, steps, optimiser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from .domain import Box, Sampler, Uniform
from .errors import InputError, finite, listed, nearest, one_of, whole
from .networks import PINN, SPINN, network_name
from .optimisers import Adam
from .problem import Problem

POINTS = (256, 64, 32, 16, 10, 8, 6)  # per axis, for one to seven axes: about as many in all
PRECISIONS = {"float32": jnp.float32, "float64": jnp.float64}


@dataclass(frozen=True)
class Recipe:
    """How to solve a problem.

    Arguments:
        network: `SPINN(…)` or `PINN(…)`.
        points: per axis: one number for all, a dict by axis, or one number per axis; None chooses by the number of axes. A
            pointwise network gets as many scattered points as the lattice would have.
        steps: of the optimiser.
        optimiser: `Adam(rate, schedule)`.
        sampler: `Uniform`, `Grid` or `GaussLegendre`.
        emphasis: factor of every condition (but not of `Data`) against the residuals. Conditions choose among the many functions that make a
            residual small, so they come first; at 1, as the paper has it, training may settle on one of the others.
        weights: factors of loss terms by name, on top of the conditions' own weights.
        precision: "float32" (with full-precision products) or "float64".
    """

    network: SPINN | PINN = field(default_factory=lambda: SPINN(rank=32, width=64, depth=3))
    points: int | Mapping[str, int] | Sequence[int] | None = None
    steps: int = 20_000
    optimiser: Adam = field(default_factory=lambda: Adam(5e-3, "cosine"))
    sampler: Sampler = field(default_factory=lambda: Uniform(every=10))
    emphasis: float = 10.0
    weights: Mapping[str, float] = field(default_factory=dict)
    precision: str = "float32"

    def __post_init__(self):
        network_name(self.network)
        object.__setattr__(self, "steps", whole("steps", self.steps))
        one_of("precision", self.precision if isinstance(self.precision, str) else repr(self.precision), PRECISIONS)
        if self.points is not None and (
            not isinstance(self.points, (Mapping, Sequence, np.ndarray)) or isinstance(self.points, str)
        ):
            whole("points", self.points)
        if isinstance(self.optimiser, type) or not hasattr(self.optimiser, "transform"):
            raise InputError(f"optimiser must be an optimiser, got {self.optimiser!r}: write optimiser=sx.Adam(1e-3)")
        if not isinstance(self.sampler, Sampler):
            raise InputError(f"sampler must be Uniform(), Grid() or GaussLegendre(), got {self.sampler!r}")
        finite("emphasis", self.emphasis, positive=True)
        if not isinstance(self.weights, Mapping):
            raise InputError(
                f"weights must be a dict by name of a loss term, got {self.weights!r}: write weights={{'initial': 10.0}}"
            )
        for name, weight in self.weights.items():
            if finite(f"weights[{name!r}]", weight) < 0:
                raise InputError(f"weights[{name!r}] must not be negative, got {weight!r}")

    @property
    def dtype(self) -> Any:
        return PRECISIONS[self.precision]

    def counts(self, box: Box) -> dict[str, int]:
        """Points per axis."""
        return box.counts(POINTS[min(box.dimension, len(POINTS)) - 1] if self.points is None else self.points)

    def check(self, problem: Problem) -> None:
        """Refuses what does not fit the problem."""
        self.counts(problem.box)
        for name in self.weights:
            if name not in problem.names:
                raise InputError(
                    f"weights: there is no loss term {name!r}; the terms are {listed(problem.names)}.{nearest(name, problem.names)}"
                )
        self.optimiser.transform(self.steps)
