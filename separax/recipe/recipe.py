"""How to solve a problem: network, points, steps, optimiser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core import InputError, finite, listed, nearest, one_of, whole
from ..domain import TIME, Box, Sampler, Uniform
from ..equations import Problem
from ..networks import PINN, SPINN, network_name
from .optimisers.base import Optimiser
from .optimisers.gradient import Adam
from .weightings import Causal

POINTS = (256, 64, 32, 16, 10, 8, 6)  # per axis, for one to seven axes: about as many in all
STEPS = 20_000
FUNCTIONS_PER_POINT = 0.8
LOOK = 10  # the best parameters are looked for every so many steps, as the paper does
PRECISIONS = {"float32": jnp.float32, "float64": jnp.float64, "tf32": jnp.float32}


@dataclass(frozen=True)
class Stage:
    """One optimiser's part of a run.

    Arguments:
        number: which of the recipe's optimisers this is.
        steps: of this stage; `start` are those of the stages before it.
        every: how many steps one draw of points serves; None: one serves the stage.
        draw: the number of its first draw: the one after the last of the stage before.
    """

    number: int
    optimiser: Optimiser
    steps: int
    start: int
    every: int | None
    draw: int

    @property
    def end(self) -> int:
        return self.start + self.steps

    @property
    def look(self) -> int:
        """The history holds every so many steps: of those that solve, each."""
        return 1 if self.optimiser.solves else LOOK


@dataclass(frozen=True)
class Recipe:
    """How to solve a problem.

    Arguments:
        network: `SPINN(…)` or `PINN(…)`.
        points: per axis: one number for all, a dict by axis, or one number per axis; None chooses by the number of axes. A
            pointwise network gets as many scattered points as the lattice would have.
        steps: of the optimiser that does not say how many itself.
        optimiser: `Adam(rate, schedule)`, `LBFGS()`, or several in sequence, `[Adam(1e-3), LBFGS(1_000)]`. Each begins from
            the best parameters of the one before.
        sampler: `Uniform`, `Grid` or `GaussLegendre`.
        emphasis: factor of every condition (but not of `Data`) against the residuals. Conditions choose among the many functions that make a
            residual small, so they come first; at 1, as the paper has it, training may settle on one of the others.
        weights: factors of loss terms by name, on top of the conditions' own weights.
        precision: "float32" (with full-precision products), "float64", or "tf32": float32 with products of ten bits on GPUs.
        causal: `Causal()` weighs residuals so that early times are solved before late ones; read its notice. None: they count alike.
    """

    network: SPINN | PINN = field(default_factory=lambda: SPINN(rank=32, width=64, depth=3))
    points: int | Mapping[str, int] | Sequence[int] | None = None
    steps: int = STEPS
    optimiser: Optimiser | Sequence[Optimiser] = field(default_factory=lambda: Adam(5e-3, "cosine"))
    sampler: Sampler = field(default_factory=lambda: Uniform(every=10))
    emphasis: float = 10.0
    weights: Mapping[str, float] = field(default_factory=dict)
    precision: str = "float32"
    causal: Causal | None = None

    def __repr__(self) -> str:
        # a recipe without causal weights is described as it was before there were any: kept runs are compared by it
        said = [f for f in fields(self) if f.name != "causal" or self.causal is not None]
        return f"Recipe({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in said)})"

    def __post_init__(self):
        network_name(self.network)
        object.__setattr__(self, "steps", whole("steps", self.steps))
        one_of(
            "precision",
            self.precision if isinstance(self.precision, str) else repr(self.precision),
            PRECISIONS,
        )
        if self.points is not None and (
            not isinstance(self.points, (Mapping, Sequence, np.ndarray))
            or isinstance(self.points, str)
        ):
            whole("points", self.points)
        if not isinstance(self.sampler, Sampler):
            raise InputError(
                f"sampler must be Uniform(), Grid() or GaussLegendre(), got {self.sampler!r}"
            )
        self._check_optimisers()
        if self.causal is not None and not isinstance(self.causal, Causal):
            raise InputError(
                f"causal must be a Causal or None, got {self.causal!r}: write causal=sx.Causal()"
            )
        finite("emphasis", self.emphasis, positive=True)
        if not isinstance(self.weights, Mapping):
            raise InputError(
                f"weights must be a dict by name of a loss term, got {self.weights!r}: write weights={{'initial': 10.0}}"
            )
        for name, weight in self.weights.items():
            if finite(f"weights[{name!r}]", weight) < 0:
                raise InputError(f"weights[{name!r}] must not be negative, got {weight!r}")

    def _check_optimisers(self) -> None:
        if isinstance(self.optimiser, (list, tuple)):
            object.__setattr__(self, "optimiser", tuple(self.optimiser))
        for one in self.optimisers:
            if isinstance(one, type) or not all(
                hasattr(one, name) for name in ("transform", "steps", "searches", "solves", "sees")
            ):
                raise InputError(
                    f"optimiser must be an optimiser or a list of them, got {one!r}: write"
                    " optimiser=sx.Adam(1e-3), or optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]"
                )
        for one in self.optimisers:
            name = type(one).__name__
            if one.sees == "layers" and not isinstance(self.network, SPINN):
                raise InputError(
                    f"optimiser: {name} needs a separable network, got {self.network!r}: write network=sx.SPINN(…)"
                )
            if one.solves and self.precision != "float64":
                raise InputError(
                    f"optimiser: {name} works in float64, got precision={self.precision!r}: write precision='float64'"
                )
        if not self.optimisers:
            raise InputError(
                "optimiser: there is none in the list: write optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]"
            )
        open_ = [type(one).__name__ for one in self.optimisers if one.steps is None]
        if len(open_) > 1:
            raise InputError(
                f"optimiser: {listed(open_)} do not say how many steps they take, and steps={self.steps:,} can be only one's:"
                " give the others their own, optimiser=[sx.Adam(1e-3), sx.LBFGS(steps=1_000)]"
            )
        if not open_ and self.steps not in (STEPS, self.total_steps):
            raise InputError(
                f"steps={self.steps:,} would be nobody's: {self.optimiser!r} says how many itself: leave one of the two out"
            )

    @property
    def optimisers(self) -> tuple[Optimiser, ...]:
        """In sequence, also where there is one."""
        return self.optimiser if isinstance(self.optimiser, tuple) else (self.optimiser,)  # pyright: ignore[reportReturnType]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What each optimiser does: steps and draws of points go on counting from one to the next."""
        stages: list[Stage] = []
        start = draw = 0
        for optimiser in self.optimisers:
            steps = self.steps if optimiser.steps is None else optimiser.steps
            every = None if optimiser.searches else self.sampler.every
            stages.append(Stage(len(stages), optimiser, steps, start, every, draw))
            start += steps
            if self.sampler.every is not None:  # otherwise there is only one draw
                draw += 1 if every is None else math.ceil(steps / every)
        return tuple(stages)

    @property
    def total_steps(self) -> int:
        return self.stages[-1].end

    def with_points(self, points: int | Mapping[str, int] | Sequence[int]) -> Recipe:
        """The same with so many points per axis, and no more polynomials along an axis than they can tell apart."""
        network = self.network
        if isinstance(network, SPINN) and network.functions and isinstance(points, int):
            pieces = 1 + max((len(places) for _, places in network.breaks), default=0)
            most = max(1, int(FUNCTIONS_PER_POINT * points / pieces))
            waves, all_waves = (
                min(network.frequencies, max(1, (most - 1) // 2)),
                1 + 2 * network.frequencies,
            )
            fewer = {
                axis: 1 + 2 * waves if n == all_waves else min(n, most)
                for axis, n in network.functions
            }
            network = replace(network, functions=tuple(fewer.items()), frequencies=waves)
            network = replace(network, rank=network.possible_rank())
        return replace(self, network=network, points=points)

    def with_steps(self, total: int) -> Recipe:
        """The same with `total` steps in all: every optimiser's part becomes longer or shorter alike."""
        total = whole("steps", total, len(self.optimisers))
        own = [s for s in self.optimisers if s.steps is not None]
        if len(self.optimisers) == 1 and not own:
            return replace(self, steps=total)
        parts = [max(1, round(stage.steps * total / self.total_steps)) for stage in self.stages]
        parts[parts.index(max(parts))] += total - sum(parts)  # what rounding left over
        changed = [
            replace(one, steps=None if one.steps is None else n)  # pyright: ignore[reportArgumentType]
            for one, n in zip(self.optimisers, parts)
        ]
        rest = [n for one, n in zip(self.optimisers, parts) if one.steps is None]
        return replace(self, optimiser=changed, steps=rest[0] if rest else STEPS)  # pyright: ignore[reportArgumentType]

    @property
    def dtype(self) -> Any:
        return PRECISIONS[self.precision]

    def counts(self, box: Box) -> dict[str, int]:
        """Points per axis."""
        return box.counts(
            POINTS[min(box.dimension, len(POINTS)) - 1] if self.points is None else self.points
        )

    def _check_resolved(self, problem: Problem) -> None:
        """With fewer points than polynomials, residuals would vanish at the points and nowhere else."""
        assert isinstance(self.network, SPINN)  # `Solve` has no other
        numbers = dict(self.network.functions)
        for axis, points in self.counts(problem.box).items():
            functions = numbers.get(axis, numbers.get(None, 0))
            if axis not in problem.periodic and functions >= points:
                raise InputError(
                    f"points: {points} along {axis} cannot tell {functions} polynomials apart: use more than there are functions, e.g."
                    f" points={functions + functions // 3}, or fewer functions"
                )

    def _check_causal(self, causal: Causal, problem: Problem) -> None:
        if TIME not in problem.box.axes or TIME in problem.periodic:
            kind = (
                "what is periodic in t"
                if TIME in problem.periodic
                else f"{problem.box!r}, without a time axis 't',"
            )
            raise InputError(f"causal: {kind} has no earlier and later: leave causal out")
        if searching := [type(one).__name__ for one in self.optimisers if one.searches]:
            raise InputError(
                f"causal: {listed(searching)} compares losses along a line, and causal weights change them on the way: write optimiser=sx.Adam(1e-3)"
            )
        points = self.counts(problem.box)[TIME]
        if causal.number(points) > points:
            raise InputError(
                f"causal: {causal.slices} slices for {points} points along t: write sx.Causal(slices={points}), or fewer"
            )

    def check(self, problem: Problem) -> None:
        """Refuses what does not fit the problem."""
        self.counts(problem.box)
        if self.causal is not None:
            self._check_causal(self.causal, problem)
        for name in self.weights:
            if name not in problem.names:
                raise InputError(
                    f"weights: there is no loss term {name!r}; the terms are {listed(problem.names)}.{nearest(name, problem.names)}"
                )
        for stage in self.stages:
            stage.optimiser.transform(stage.steps)
            if stage.optimiser.sees == "layers":
                self._check_resolved(problem)
            if stage.optimiser.sees == "layers" and any(
                term.condition.jump for term in problem.terms
            ):
                raise InputError(
                    "optimiser: Solve cannot join two faces: build a Periodic condition in (hard=True), or use sx.BFGS"
                )
