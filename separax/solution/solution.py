"""What `solve` returns: a function of the coordinates that can be evaluated, differentiated and
integrated, inside any program of JAX too."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, is_traced, listed
from ..domain import TIME, Lattice, Points
from ..equations import Problem
from ..residuals import Model
from .errors import (
    Errors,
    KnownValues,
    errors_against,
    integral_of,
    jumps_of,
    known_values,
    norms_of,
)
from .evaluation import Piece, lattice_from, values_at
from .exports import AbstractExport
from .factors import factors_on
from .operators import AbstractOperator, Applied, Derivative, Outputs, check_not_applied
from .outcome import AbstractRun, Beside, Outcome


class Solution(AbstractRun, AbstractExport):
    """The solution of a problem: a function of its coordinates.

    Call it on a lattice, ask it `at` points, differentiate, integrate and measure it. It is an
    Equinox module whose leaves are its parameters: `jax.jit`, `grad`, `hessian` and `vmap` work
    over all of these, with respect to coordinates and to parameters. Outside a transformation it is
    evaluated in its own precision; inside one, the caller's precision counts.

    Attributes:
        models: the trained models; several, where time was cut into windows.
        problem: what was solved.
        edges: the instants between which each model holds; empty without a time axis.
        origins: the instants from which each model counts time.
        operator: what is evaluated of the models: the fields, or what `d` and `of` made of them.
    """

    models: tuple[Model, ...]
    problem: Problem = eqx.field(static=True)
    edges: tuple[float, ...] = eqx.field(static=True)
    origins: tuple[float, ...] = eqx.field(static=True)
    operator: AbstractOperator = eqx.field(static=True)
    _beside: Beside = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        pieces: Sequence[Piece],
        outcome: Outcome | None = None,
        edges: Sequence[float] | None = None,
        operator: AbstractOperator | None = None,
    ):
        self.problem, self.models = problem, tuple(piece.model for piece in pieces)
        self.origins = tuple(float(piece.time_origin) for piece in pieces)
        bounds = problem.box[TIME] if TIME in problem.box.axes else ()
        self.edges = tuple(map(float, bounds if edges is None else edges))
        self.operator = Outputs().traced(problem) if operator is None else operator
        self._beside = Beside(outcome, self.models)

    @classmethod
    def joined(cls, problem: Problem, windows: Sequence[Solution], outcome: Outcome) -> Solution:
        """One solution from those of windows of time that follow each other.

        Arguments:
            problem: on the whole interval.
            windows: the solutions, in order.
            outcome: what the run was.
        """
        edges = [windows[0].edges[0], *(window.edges[-1] for window in windows)]
        if edges[-1] != problem.box[TIME][1]:
            problem = problem.during(edges[0], edges[-1])
        return cls(problem, [window.pieces[0] for window in windows], outcome, edges)

    def __reduce__(self) -> Any:
        return Solution, (self.problem, self.pieces, self._outcome, self.edges, self.operator)

    # --- its run ---------------------------------------------------------------------------------

    @property
    def _outcome(self) -> Outcome | None:
        return self._beside.outcome_of(self.models)

    @property
    def outcome(self) -> Outcome:
        """What the run was: its recipe, history, timing, estimate, advice and record."""
        found = self._outcome
        if found is None:
            raise InputError(
                "outcome: this solution came out of a transformation of JAX, which keeps its"
                " function and not its run: ask the solution that `solve` returned"
            )
        return found

    def with_outcome(self, **changes: Any) -> Solution:
        """The same function, of whose run something else is said.

        Arguments:
            changes: by the name of what is said, as in `solution.outcome`.
        """
        changed = dataclasses.replace(self.outcome, **changes)
        return Solution(self.problem, self.pieces, changed, self.edges, self.operator)

    def with_record(self, record: Mapping[str, Any]) -> Solution:
        """The same function, with the record of its run.

        Arguments:
            record: numbers and words by name.
        """
        return self.with_outcome(record=dict(record))

    # --- its parts -------------------------------------------------------------------------------

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """Itself alone: those of an ensemble are several."""
        return (self,)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The models, each with the instant from which it counts time."""
        return tuple(map(Piece.of, self.models, self.origins))

    @property
    def model(self) -> Model:
        """The network and the unknown coefficients; of several windows, those of the first."""
        return self.models[0]

    @property
    def unknowns(self) -> dict[str, Any]:
        """The coefficients that were found, by name: numbers, or traced scalars in a
        transformation."""
        found = self.model.unknowns
        return dict(found) if is_traced(found) else {k: float(v) for k, v in found.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is evaluated; "" where there is one without a name."""
        return self.operator.names

    @property
    def dtype(self) -> np.dtype:
        """The precision in which it is evaluated outside transformations."""
        return np.dtype(self.pieces[0].dtype)

    @property
    def is_separable(self) -> bool:
        """Whether it is a sum of products of functions of single coordinates."""
        return self.pieces[0].is_separable

    @property
    def is_marched(self) -> bool:
        """Whether it was solved window by window."""
        known = self._outcome
        return len(self.models) > 1 or (known is not None and bool(known.windows))

    @property
    def windows(self) -> tuple[Solution, ...]:
        """The parts of a solution over several windows of time, each a solution on its own
        interval."""
        if not self.is_marched:
            return (self,)
        known = self._outcome
        outcomes = (known and known.windows) or [None] * len(self.models)
        return tuple(
            Solution(
                self.problem.during(*self.edges[i : i + 2]), [piece], own, operator=self.operator
            )
            for i, (piece, own) in enumerate(zip(self.pieces, outcomes))
        )

    # --- values ----------------------------------------------------------------------------------

    def __call__(self, *arguments: Any, **coordinates: Any) -> Any:
        """On a lattice: `solution(t=ts, x=xs)` has shape (len(ts), len(xs)).

        Arguments:
            arguments: a `Lattice`, or coordinates in the order of the box's axes.
            coordinates: by axis, an array or a number; an axis given as a number is left out.

        Returns: an array; a dict of arrays where there are several fields.
        """
        lattice, dropped = self.lattice(arguments, coordinates)
        return _only({k: jnp.squeeze(v, dropped) for k, v in self.values(lattice).items()})

    def at(self, points: Any) -> Any:
        """At scattered points: (n, axes) → (n,).

        Arguments:
            points: one row per point, columns in the order of the box's axes.

        Returns: an array; a dict of arrays where there are several fields.
        """
        scattered = Points.of(self.problem.box, points)
        self._check_inside(scattered)
        return _only(self.values(scattered))

    def point(self, coordinates: Any) -> Any:
        """At one point: (axes,) → a number. What `jax.grad` and `jax.hessian` want.

        Arguments:
            coordinates: one number per axis, in the order of the box's axes.

        Returns: a scalar; a dict of scalars where there are several fields.
        """
        return jax.tree.map(lambda v: v[0], self.at(jnp.asarray(coordinates)[None]))

    def values(self, place: Lattice | Points, host: Any = None) -> dict[str, Array]:
        """On a lattice or at scattered points, by name.

        Arguments:
            place: where, in the coordinates of the problem.
            host: the device that computes, if not the default one.

        Returns: arrays of the place's shape; coordinates are not checked.
        """
        return values_at(self, place, host)

    def lattice(
        self, arguments: Sequence[Any], coordinates: Mapping[str, Any]
    ) -> tuple[Lattice, tuple[int, ...]]:
        """A lattice from coordinates. Refuses what is outside the box.

        Arguments:
            arguments: coordinates in the order of the axes.
            coordinates: by the name of the axis.

        Returns:
            The lattice, and the places of the axes given as numbers, which a result does not keep.
        """
        lattice, dropped = lattice_from(self.problem.box, arguments, coordinates)
        self._check_inside(lattice)
        return lattice, dropped

    def _check_inside(self, place: Lattice | Points) -> None:
        # the network says something outside the box too, but it is not the solution of anything
        for axis, c in zip(place.axes, place.coordinates):
            if axis not in self.problem.periodic:
                self.problem.box.check_inside(axis, c, "solution")

    # --- operators -------------------------------------------------------------------------------

    def d(self, **orders: int) -> Solution:
        """A partial derivative: `solution.d(x=2)(t=ts, x=xs)` is ∂²u/∂x².

        Arguments:
            orders: how often to differentiate along each axis.

        Returns: a solution whose values are the derivative's.
        """
        return self.of_operator(Derivative(self.operator, tuple(orders.items())))

    def of(self, operator: Callable[..., Any]) -> Solution:
        """Any operator of the fields: `solution.of(lambda u: u.t - u.xx)(t=ts, x=xs)`.

        Arguments:
            operator: a function of the fields, coordinates and unknown coefficients that it names,
                with an expression or a dict of them as its result.

        Returns: a solution whose values are the operator's.
        """
        check_not_applied(self.operator, "of", "write both in one, solution.of(lambda u: …)")
        return self.of_operator(Applied.of(self.problem, operator))

    def of_operator(self, operator: AbstractOperator) -> Solution:
        """Another operator of the same models.

        Arguments:
            operator: what is evaluated of the fields.
        """
        made = operator.traced(self.problem)
        return Solution(self.problem, self.pieces, self._outcome, self.edges, made)

    # --- integrals and factors -------------------------------------------------------------------

    def integral(self, *axes: str, points: int = 64, **coordinates: Any) -> Any:
        """The integral ∫u over the named axes, by Gauss-Legendre quadrature.

        `solution.integral()` is a number; `solution.integral("x", t=ts)` has shape (len(ts),). A
        separable solution is integrated factor by factor, whatever the number of axes.

        Arguments:
            axes: to integrate over; all of them if none is named.
            points: of quadrature, along each of these, in each window.
            coordinates: of the other axes, by name.

        Returns: an array with a dimension for each axis that is given as an array; a dict of arrays
            where there are several fields.
        """
        box = self.problem.box
        for axis in axes:
            box.check_axis(axis, "integral")
        gone = axes or box.axes
        held = {a: [box[a][0]] for a in gone}
        lattice, dropped = self.lattice((), {**coordinates, **held})
        kept = [a for a in box.axes if a not in gone]
        found = integral_of(self, gone, points, {a: lattice[a] for a in kept})
        single = tuple(kept.index(box.axes[i]) for i in dropped)
        return _only({k: jnp.squeeze(v, single) for k, v in found.items()})

    def norm(self, points: int = 64) -> Any:
        """The L2 norm √∫u² of each field: from the factors, without a lattice.

        Arguments:
            points: of quadrature along each axis, in each window.

        Returns: a number; a dict of numbers where there are several fields.
        """
        found = norms_of(self, points)
        return _only(found if is_traced(found) else {k: float(v) for k, v in found.items()})

    def separable(self, lattice: Lattice, order: int = 0) -> Any:
        """The factors f_ij of u = Σ_j Π_i f_ij(x_i) on a lattice.

        Arguments:
            lattice: the points of each axis.
            order: up to which derivatives are wanted.

        Returns: a `Separable`; a dict of them where there are several fields.
        """
        return _only(factors_on(self, lattice, order))

    # --- errors ----------------------------------------------------------------------------------

    def relative_l2(
        self, reference: Any = None, field: str | None = None, **coordinates: Any
    ) -> Any:
        """The relative L2 error ‖û - u‖ / ‖u‖ over all fields, or over one.

        Arguments:
            reference: the problem's own if it is not given; a function like it; or an array, by
                field a dict, on the lattice given.
            field: one of several.
            coordinates: by axis, of the lattice; a regular one if they are not given.

        Returns: a number.
        """
        return self.errors(reference, field, **coordinates).relative_l2

    def rmse(self, reference: Any = None, field: str | None = None, **coordinates: Any) -> Any:
        """The root of the mean squared difference from the reference.

        Arguments:
            reference, field, coordinates: as of `relative_l2`.

        Returns: a number.
        """
        return self.errors(reference, field, **coordinates).rmse

    def errors(
        self,
        reference: Any = None,
        field: str | None = None,
        known: KnownValues | None = None,
        **coordinates: Any,
    ) -> Errors:
        """`relative_l2` and `rmse`, from one evaluation.

        Arguments:
            reference, field, coordinates: as of `relative_l2`.
            known: values of the problem's reference that were computed already.
        """
        check_not_applied(self.operator, "relative_l2", "compare the values with jnp")
        ask = lambda: errors_against(self, reference, field, coordinates, known)  # noqa: E731
        outcome = self._outcome
        if reference is not None or coordinates or outcome is None or is_traced(self.models):
            return ask()
        # kept: a record, a page and whoever prints a solution ask for the same
        against, kept = self.problem.reference, outcome.measured.get(field)
        if kept is None or kept[0] is not against:
            kept = outcome.measured[field] = against, ask()
        return kept[1]

    def jumps(self, points: int = 64) -> dict[str, np.ndarray]:
        """How far apart two windows are where they meet, relative to the size of the field there.

        Arguments:
            points: along each axis of space at which they are compared.

        Returns: by field, one number per inner edge.
        """
        return jumps_of(self, points)

    def __repr__(self) -> str:
        name, found = self.problem.name, self._outcome
        if found is None or not isinstance(self.operator, Outputs):
            return f"Solution({name!r}, of {listed(name or 'one value' for name in self.names)})"
        measured, error = found.measured.get(None), ""
        if measured is not None and measured[0] is self.problem.reference:
            error = f", relative_l2={measured[1].relative_l2:.2e}"
        at = f"{found.best_loss:.2e} at step {found.best_step:,}"
        return f"Solution({name!r}, loss={at}{error})"


def _only(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else dict(values)


class Ensemble(Sequence):
    """Solutions of one problem from several seeds, trained at once.

    Attributes:
        solutions: one for each seed.
        record: the run in numbers.
    """

    def __init__(self, solutions: Sequence[Solution], record: Mapping[str, Any] | None = None):
        self.solutions, self.record = tuple(solutions), dict(record or {})

    def with_record(self, record: Mapping[str, Any]) -> Ensemble:
        """The same solutions, with the record of their run.

        Arguments:
            record: numbers and words by name.
        """
        return Ensemble(self.solutions, record)

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, i):
        return self.solutions[i]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def errors(self, *arguments: Any, **options: Any) -> list[Errors]:
        """The errors of each; what is known of the problem is computed once for all.

        Arguments:
            arguments, options: as of `Solution.errors`.
        """
        own = not arguments and set(options) <= {"field"}
        first = self.solutions[0]
        known = known_values(first) if own and first.problem.reference is not None else None
        return [s.errors(*arguments, known=known, **options) for s in self.solutions]

    def relative_l2(self, *arguments: Any, **options: Any) -> np.ndarray:
        """The relative L2 error of each.

        Arguments:
            arguments, options: as of `Solution.relative_l2`.
        """
        return np.array([e.relative_l2 for e in self.errors(*arguments, **options)])

    def rmse(self, *arguments: Any, **options: Any) -> np.ndarray:
        """The root mean square error of each.

        Arguments:
            arguments, options: as of `Solution.rmse`.
        """
        return np.array([e.rmse for e in self.errors(*arguments, **options)])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keeps all of them in one folder, as `Solution.save`.

        Arguments:
            folder: to be made, or without a run.
        """
        from ..runs import save

        return save(self, folder)

    def __repr__(self) -> str:
        return f"Ensemble({', '.join(map(repr, self.solutions))})"
