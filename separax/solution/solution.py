"""What `solve` returns: a function of the coordinates that can be evaluated, differentiated and integrated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core import InputError, device_name, listed, nearest, on_cpu, to_device
from ..domain import Lattice, quadrature
from ..equations import Problem
from ..networks import MAX_ORDER, SeparableNetwork
from ..recipe import Recipe
from ..residuals import Model
from ..separable import Separable
from .errors import CHECKED, error_lattice, known_on_lattice, reference_on, squares
from .view import View


@dataclass(frozen=True)
class History:
    """What was seen during training: every named loss, and the relative L2 error where a reference exists."""

    steps: np.ndarray
    losses: dict[str, np.ndarray]
    total: np.ndarray
    error_steps: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    errors: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Timing:
    """Seconds spent compiling and training, and the time of a step."""

    compile_seconds: float
    train_seconds: float
    steps: int

    @property
    def ms_per_step(self) -> float:
        return 1e3 * self.train_seconds / self.steps if self.steps else math.nan


class Solution(View):
    """The solution of a problem: call it on a lattice, ask `.at` points, differentiate, integrate, measure.

    Attributes: `history` of the losses; `timing`; `memory_bytes` of a training step; `unknowns` found; `best_step` and
    `best_loss` of the parameters it holds; `seed`; `interrupted` if it was stopped early; `run_dir` if it was kept, and then its
    `record`; `estimate` of its relative L2 error and the `levels` of refinement behind it, where it was solved for without a recipe;
    `advice` where it was solved for and something is in the way: what, and what would help.
    """

    def __init__(
        self,
        problem: Problem,
        recipe: Recipe,
        model: Model,
        *,
        history: History,
        timing: Timing,
        seed: int = 0,
        best_step: int = 0,
        best_loss: float = math.nan,
        memory_bytes: int | None = None,
        interrupted: bool = False,
        run_dir: Path | None = None,
        since: float = 0.0,
    ):
        super().__init__(problem, recipe, model, problem.quantities, since)
        self.device = device_name()  # that it was found on
        self.estimate: float | None = None
        self.levels: tuple[Any, ...] = ()
        self.advice: tuple[str, ...] = ()
        self.history, self.timing, self.seed = history, timing, seed
        self.best_step, self.best_loss, self.memory_bytes = best_step, best_loss, memory_bytes
        self.interrupted, self.run_dir = interrupted, run_dir
        self.record: dict[str, Any] = {}
        self._measured: dict[
            str | None, tuple[Any, tuple[float, float]]
        ] = {}  # by field: the reference, and the errors

    @property
    def unknowns(self) -> dict[str, float]:
        return {k: float(v) for k, v in self.model.unknowns.items()}

    def separable(self, lattice: Lattice, order: int = 0) -> Any:
        """The factors on a lattice, with derivatives up to `order`: a `Separable` per field."""
        if not isinstance(self.model.network, SeparableNetwork):
            raise InputError(
                "separable: the network of this solution is not separable; solve with network=sx.SPINN(…)"
            )
        if not 0 <= order <= MAX_ORDER:
            raise InputError(f"separable: order must be from 0 to {MAX_ORDER}, got {order!r}")
        with self._precision():
            own = self._own_time(lattice)
            jets = self.model.network.jets(
                tuple(jnp.asarray(own[a], self.recipe.dtype) for a in self.problem.box.axes), order
            )
            return self._out(
                {
                    name: Separable(
                        self.problem.box.axes, [jet[i] for jet in jets], lattice.weights
                    )
                    for i, name in enumerate(self.problem.fields)
                }
            )

    def norm(self, points: int = 64) -> Any:
        """The L2 norm √∫u² of each field: from the factors, without a lattice."""
        with self._precision():
            rule = quadrature(self.problem.box, points, self.recipe.dtype)
            if self._is_separable() and self.problem.shape is None:
                found = self.separable(rule)
                return (
                    {k: float(u.norm()) for k, u in found.items()}
                    if isinstance(found, dict)
                    else float(found.norm())
                )
            return self._out(
                {
                    k: float(jnp.sqrt(rule.mean(jnp.nan_to_num(v) ** 2) * self.problem.box.volume))
                    for k, v in self._values(rule).items()
                }
            )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keeps the solution in a folder of its own, from which `sx.load(folder)` makes it again."""
        from ..runs import save  # what keeps solutions knows what they are, not the other way round

        return save(self, folder)

    # --- errors ------------------------------------------------------------------------------------------------

    def relative_l2(
        self, reference: Any = None, field: str | None = None, **coordinates: Any
    ) -> float:
        """‖û - u‖ / ‖u‖ over all fields, or over one, on a regular lattice or on the one given.

        `reference` is the problem's own, a function like it, or an array (by field a dict) on the given lattice.
        """
        return self.errors(reference, field, **coordinates)[0]

    def rmse(self, reference: Any = None, field: str | None = None, **coordinates: Any) -> float:
        """Root of the mean squared difference from the reference."""
        return self.errors(reference, field, **coordinates)[1]

    def errors(
        self, reference: Any = None, field: str | None = None, **coordinates: Any
    ) -> tuple[float, float]:
        """`relative_l2` and `rmse`, from one evaluation."""
        if reference is not None or coordinates:
            return self._errors(reference, field, coordinates)
        against = self.problem.reference
        if field not in self._measured or self._measured[field][0] is not against:
            # kept: a record, a page and whoever prints a solution ask for the same
            self._measured[field] = against, self._errors(None, field, {})
        return self._measured[field][1]

    def _errors(
        self, reference: Any, field: str | None, coordinates: Mapping[str, Any]
    ) -> tuple[float, float]:
        problem = self.problem
        if reference is None and problem.reference is None:
            raise InputError(f"relative_l2: {problem.no_reference()}")
        if field is not None and field not in problem.outputs:
            raise InputError(
                f"relative_l2: there is no field {field!r}; the fields are {listed(problem.outputs)}.{nearest(field, problem.outputs)}"
            )
        with self._precision(), on_cpu() as host:
            if reference is None and not coordinates:
                lattice, true = known_on_lattice(
                    problem, CHECKED[self._is_separable()], self.recipe.dtype
                )
            else:
                given = (
                    self._lattice((), coordinates)[0]
                    if coordinates
                    else error_lattice(problem, CHECKED[self._is_separable()])
                )
                lattice = to_device(self._cast(given), host)
                true = to_device(reference_on(problem, reference, lattice), host)
            ours = self._values(lattice, host)
            names = [field] if field else list(true)
            wide = [{k: jnp.asarray(v[k], jnp.float64) for k in names} for v in (ours, true)]
            difference, size, number = map(float, squares(problem, lattice, *wide))
        return math.sqrt(difference / size) if size else math.inf, math.sqrt(difference / number)

    def __repr__(self) -> str:
        error = (
            f", relative_l2={self.relative_l2():.2e}" if self.problem.reference is not None else ""
        )
        return f"Solution({self.problem.name!r}, loss={self.best_loss:.2e} at step {self.best_step:,}{error})"

    def _repr_html_(self) -> str:
        from ..output import of_solution

        return of_solution(self)


class Ensemble(Sequence):
    """Solutions of one problem from several seeds, trained at once."""

    def __init__(self, solutions: Sequence[Solution]):
        self.solutions = tuple(solutions)
        self.record: dict[str, Any] = {}
        for solution in self.solutions[1:]:
            if (
                solution.problem is self.solutions[0].problem
            ):  # they differ in their parameters alone
                solution._evaluate = self.solutions[
                    0
                ]._evaluate  # one compiled evaluation serves all

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, i):
        return self.solutions[i]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def relative_l2(self, *arguments: Any, **options: Any) -> np.ndarray:
        """The error of each."""
        return np.array([s.relative_l2(*arguments, **options) for s in self.solutions])

    def rmse(self, *arguments: Any, **options: Any) -> np.ndarray:
        return np.array([s.rmse(*arguments, **options) for s in self.solutions])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keeps all of them in one folder, as `Solution.save`."""
        from ..runs import save

        return save(self, folder)

    def __repr__(self) -> str:
        return f"Ensemble({', '.join(map(repr, self.solutions))})"
