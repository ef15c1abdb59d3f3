"""How to solve a problem: network, points, steps, optimiser."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core import InputError, finite, listed, nearest, one_of, shown, whole
from ..domain import AbstractSampler, Box, Uniform
from ..equations import Problem
from ..networks import PINN, SPINN, network_name
from .optimisers.base import AbstractOptimiser
from .optimisers.gradient import Adam, Optax
from .part import Arguments, as_code, is_transformation
from .weightings import AbstractWeighting, Constant

POINTS = (256, 64, 32, 16, 10, 8, 6)  # per axis, for one to seven axes: about as many in all
STEPS = 20_000
PRECISIONS = {"float32": jnp.float32, "float64": jnp.float64, "tf32": jnp.float32}


@dataclass(frozen=True)
class Stage:
    """One optimiser's part of a run.

    Arguments:
        number: which of the recipe's optimisers this is.
        optimiser: it, with its number of steps.
        steps: of this stage; `start` are those of the stages before it.
        every: how many steps one draw of points serves; None: one serves the stage.
        draw: the number of its first draw: the one after the last of the stage before.
    """

    number: int
    optimiser: AbstractOptimiser
    steps: int
    start: int
    every: int | None
    draw: int

    @property
    def end(self) -> int:
        """The number of steps made when the stage is over."""
        return self.start + self.steps


@dataclass(frozen=True)
class Recipe:
    """How to solve a problem.

    Arguments:
        network: `SPINN(…)` or `PINN(…)`.
        points: per axis: one number for all, a dict by axis, or one number per axis; None chooses
            by the number of axes. A pointwise network gets as many scattered points as the lattice
            would have.
        steps: of the optimiser that does not say how many itself.
        optimiser: `Adam(rate, schedule)`, `LBFGS()`, any Optax transformation, or several in
            sequence, `[Adam(1e-3), LBFGS(1_000)]`. Each begins from the best parameters of the one
            before.
        sampler: `Uniform`, `Grid`, `GaussLegendre`, or an `AbstractSampler` of your own.
        emphasis: factor of every condition (but not of `Data`) against the residuals. Conditions
            choose among the many functions that make a residual small, so they come first; at 1, as
            the paper has it, training may settle on one of the others.
        weights: factors of loss terms by name, on top of the conditions' own weights.
        precision: "float32" (with full-precision products), "float64", or "tf32": float32 with
            products of ten bits on GPUs.
        weighting: what points and terms count on top of that, where it changes during training:
            an `AbstractWeighting` such as `Causal()`.

    A recipe does not change, can be compared and hashed, and prints itself as the code that makes
    it again.
    """

    network: SPINN | PINN = field(default_factory=lambda: SPINN(rank=32, width=64, depth=3))
    points: int | Mapping[str, int] | Sequence[int] | None = field(default=None, hash=False)
    steps: int = STEPS
    optimiser: Any = field(default_factory=lambda: Adam(5e-3, "cosine"))
    sampler: AbstractSampler = field(default_factory=lambda: Uniform(every=10))
    emphasis: float = 10.0
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    precision: str = "float32"
    weighting: AbstractWeighting = field(default_factory=Constant)
    causal: InitVar[Any] = None

    def __repr__(self) -> str:
        return as_code(self)

    def constructor_arguments(self) -> Arguments:
        """The arguments that make this recipe, by position and by name."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        # records are compared by them: most of these were made before there were weightings
        if self.weighting == Constant():
            del given["weighting"]
        return (), given

    def __post_init__(self, causal: Any):
        if causal is not None:
            raise InputError(f"causal is now called weighting: write weighting={causal!r}")
        network_name(self.network)
        object.__setattr__(self, "steps", whole("steps", self.steps))
        one_of("precision", self.precision, PRECISIONS)
        if isinstance(self.points, np.ndarray):
            object.__setattr__(self, "points", self.points.tolist())
        if self.points is not None and (
            isinstance(self.points, str) or not isinstance(self.points, (Mapping, Sequence))
        ):
            whole("points", self.points)
        if not isinstance(self.weighting, AbstractWeighting):
            raise InputError(
                f"weighting must be a weighting, got {shown(self.weighting)}: write"
                " weighting=sx.Causal(), or a subclass of sx.AbstractWeighting"
            )
        if not isinstance(self.sampler, AbstractSampler):
            raise InputError(
                f"sampler must be Uniform(), Grid() or GaussLegendre(), got {shown(self.sampler)}:"
                " write sampler=sx.Uniform(), or a subclass of sx.AbstractSampler"
            )
        self._check_optimisers()
        finite("emphasis", self.emphasis, positive=True)
        if not isinstance(self.weights, Mapping):
            came = shown(self.weights)
            raise InputError(
                f"weights must be a dict, got {came}: write weights={{'initial': 10.0}}"
            )
        for name, weight in self.weights.items():
            if finite(f"weights[{name!r}]", weight) < 0:
                raise InputError(f"weights[{name!r}] must not be negative, got {shown(weight)}")

    def _check_optimisers(self) -> None:
        given = self.optimiser
        several = isinstance(given, (list, tuple)) and not is_transformation(given)
        made = tuple(map(_as_optimiser, given)) if several else (_as_optimiser(given),)
        if not made:
            raise InputError(
                "optimiser: there is none in the list: write"
                " optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]"
            )
        object.__setattr__(self, "optimiser", made if several else made[0])
        for one in made:
            one.check(self, None)
        open_ = [type(one).__name__ for one in made if one.steps is None]
        if len(open_) > 1:
            raise InputError(
                f"optimiser: {listed(open_)} do not say how many steps they take, and steps= is for"
                " one of them: write optimiser=[sx.Adam(1e-3), sx.LBFGS(steps=1_000)]"
            )
        if not open_ and self.steps not in (STEPS, self.total_steps):
            raise InputError(
                f"steps={self.steps:,} would be nobody's: {self.optimiser!r} says how many itself:"
                " leave one of the two out"
            )

    @property
    def optimisers(self) -> tuple[AbstractOptimiser, ...]:
        """In sequence, also where there is one."""
        return self.optimiser if isinstance(self.optimiser, tuple) else (self.optimiser,)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What each optimiser does; steps and draws of points go on counting from one to the
        next."""
        stages: list[Stage] = []
        start = draw = 0
        for optimiser in self.optimisers:
            steps = self.steps if optimiser.steps is None else optimiser.steps
            every = optimiser.steps_per_draw(self.sampler.every)
            working = _with_steps(optimiser, steps)
            stages.append(Stage(len(stages), working, steps, start, every, draw))
            start += steps
            if self.sampler.every is not None:  # otherwise there is only one draw
                draw += 1 if every is None else math.ceil(steps / every)
        return tuple(stages)

    @property
    def total_steps(self) -> int:
        """The steps of all optimisers."""
        return self.stages[-1].end

    def with_points(self, points: int | Mapping[str, int] | Sequence[int]) -> Recipe:
        """The same recipe with other points.

        Arguments:
            points: as for a recipe. One number leaves no more polynomials along an axis than so
                many points can tell apart.
        """
        network = self.network.for_points(points) if isinstance(points, int) else self.network
        return replace(self, network=network, points=points)

    def with_steps(self, total: int) -> Recipe:
        """The same recipe with other steps.

        Arguments:
            total: steps in all; every optimiser's part becomes longer or shorter alike.
        """
        total = whole("steps", total, len(self.optimisers))
        own = [s for s in self.optimisers if s.steps is not None]
        if len(self.optimisers) == 1 and not own:
            return replace(self, steps=total)
        parts = [max(1, round(stage.steps * total / self.total_steps)) for stage in self.stages]
        parts[parts.index(max(parts))] += total - sum(parts)  # what rounding left over
        shares = list(zip(self.optimisers, parts))
        changed = [one if one.steps is None else _with_steps(one, n) for one, n in shares]
        left = [n for one, n in shares if one.steps is None]
        return replace(self, optimiser=changed, steps=left[0] if left else STEPS)

    @property
    def dtype(self) -> Any:
        """The type of the parameters."""
        return PRECISIONS[self.precision]

    def counts(self, box: Box) -> dict[str, int]:
        """The number of points along each axis.

        Arguments:
            box: of the problem.
        """
        usual = POINTS[min(box.dimension, len(POINTS)) - 1]
        return box.counts(usual if self.points is None else self.points)

    def check(self, problem: Problem) -> None:
        """Refuses what does not fit a problem.

        Arguments:
            problem: to be solved.
        """
        self.counts(problem.box)
        self.weighting.check(self, problem)
        for name in self.weights:
            if name not in problem.names:
                raise InputError(
                    f"weights: there is no loss term {name!r}; the terms are"
                    f" {listed(problem.names)}.{nearest(name, problem.names)}"
                )
        for stage in self.stages:
            stage.optimiser.check(self, problem)


def _with_steps(optimiser: AbstractOptimiser, steps: int) -> AbstractOptimiser:
    """The same optimiser for so many steps."""
    made = copy.copy(optimiser)  # not made anew: its arguments may be others than its fields
    object.__setattr__(made, "steps", steps)
    return made


def _as_optimiser(given: Any) -> AbstractOptimiser:
    """An optimiser as it is; an Optax transformation as one."""
    if isinstance(given, AbstractOptimiser):
        if not hasattr(given, "steps"):
            raise InputError(
                f"optimiser: {type(given).__name__} does not say how many steps it takes: give it"
                " the field steps: int | None = None"
            )
        return given
    if is_transformation(given):
        return Optax(given)
    if inspect.isfunction(given) and given.__module__.startswith("optax"):
        name = given.__name__
        raise InputError(
            f"optimiser must be an optimiser or a list of them, got the function optax.{name}: call"
            f" it, optimiser=optax.{name}(…), or write optimiser=sx.Optax(optax.{name}, …)"
        )
    raise InputError(
        f"optimiser must be an optimiser or a list of them, got {shown(given)}: write"
        " optimiser=sx.Adam(1e-3), or optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]"
    )
