"""What `solve` returns: a function of the coordinates that can be evaluated, differentiated and
integrated, inside any program of JAX too."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, is_traced, listed, shown
from ..domain import TIME, Box, Lattice, Points
from ..equations import Problem
from ..networks import MAX_ORDER
from ..recipe import Recipe
from ..residuals import Model
from ..separable import Separable
from .errors import Errors, KnownValues, errors_against, known_values
from .evaluation import Piece, by_piece, exported_program, values_at
from .integrals import integral_of, norms_of
from .operators import AbstractOperator, Applied, Derivative, Outputs, check_not_applied
from .outcome import Beside, History, Outcome, Timing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Solution(eqx.Module):
    """The solution of a problem: a function of its coordinates.

    Call it on a lattice, ask it `at` points, differentiate, integrate and measure it. It is an
    Equinox module whose leaves are its parameters: `jax.jit`, `grad`, `hessian` and `vmap` work over
    all of these, with respect to coordinates and to parameters. Outside a transformation it is
    evaluated in its own precision; inside one, the caller's precision counts.

    Attributes:
        pieces: the trained models; several, where time was cut into windows.
        problem: what was solved.
        edges: the instants between which each piece holds; empty without a time axis.
        operator: what is evaluated of the models: the fields, or what `d` and `of` made of them.
    """

    pieces: tuple[Piece, ...]
    problem: Problem = eqx.field(static=True)
    edges: tuple[float, ...] = eqx.field(static=True)
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
        self.problem, self.pieces = problem, tuple(pieces)
        bounds = problem.box[TIME] if TIME in problem.box.axes else ()
        self.edges = tuple(map(float, bounds if edges is None else edges))
        self.operator = Outputs().traced(problem) if operator is None else operator
        self._beside = Beside(outcome, self.pieces)

    @classmethod
    def joined(cls, problem: Problem, windows: Sequence[Solution], outcome: Outcome) -> Solution:
        """One solution from those of windows of time that follow each other."""
        edges = [windows[0].edges[0], *(window.edges[-1] for window in windows)]
        whole = edges[-1] == problem.box[TIME][1]
        return cls(
            problem if whole else problem.during(edges[0], edges[-1]),
            [window.pieces[0] for window in windows],
            outcome,
            edges,
        )

    def __reduce__(self) -> Any:
        return _rebuilt, (self.problem, self.pieces, self._known_outcome, self.edges, self.operator)

    # --- what the run was --------------------------------------------------------------------------

    @property
    def _known_outcome(self) -> Outcome | None:
        return self._beside.outcome_of(self.pieces)

    @property
    def outcome(self) -> Outcome:
        """What the run was: its recipe, history, timing, estimate, advice and record."""
        found = self._known_outcome
        if found is None:
            raise InputError(
                "outcome: this solution came out of a transformation of JAX, which keeps its function"
                " and not its run: ask the solution that `solve` returned"
            )
        return found

    def with_outcome(self, **changes: Any) -> Solution:
        """The same function, of whose run something else is said."""
        changed = dataclasses.replace(self.outcome, **changes)
        return Solution(self.problem, self.pieces, changed, self.edges, self.operator)

    def with_record(self, record: Mapping[str, Any]) -> Solution:
        """The same function, with the record of its run."""
        return self.with_outcome(record=dict(record))

    @property
    def recipe(self) -> Recipe:
        """How the problem was solved."""
        return self.outcome.recipe

    @property
    def history(self) -> History:
        """The losses during training, and the error where there is a reference."""
        return self.outcome.history

    @property
    def timing(self) -> Timing:
        """How long compiling and training took."""
        return self.outcome.timing

    @property
    def seed(self) -> int:
        """The seed of the random numbers."""
        return self.outcome.seed

    @property
    def best_step(self) -> int:
        """The step at which these parameters were found."""
        return self.outcome.best_step

    @property
    def best_loss(self) -> float:
        """The loss of these parameters."""
        return self.outcome.best_loss

    @property
    def memory_bytes(self) -> int | None:
        """The memory of a training step, where the device tells."""
        return self.outcome.memory_bytes

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its last step."""
        return self.outcome.interrupted

    @property
    def run_dir(self) -> Path | None:
        """The folder that the run is kept in."""
        return self.outcome.run_dir

    @property
    def device(self) -> str:
        """What the solution was computed on."""
        return self.outcome.device

    @property
    def estimate(self) -> float | None:
        """The estimated relative L2 error, where the problem was solved without a recipe."""
        return self.outcome.estimate

    @property
    def levels(self) -> tuple[Any, ...]:
        """The levels of refinement behind the estimate."""
        return self.outcome.levels

    @property
    def advice(self) -> tuple[str, ...]:
        """Sentences about what is in the way of a better solution, and what would help."""
        return self.outcome.advice

    @property
    def record(self) -> Mapping[str, Any]:
        """The run in numbers, as `separax solve --json` prints it."""
        return self.outcome.record

    # --- its parts ---------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The network and the unknown coefficients; of several windows, those of the first."""
        return self.pieces[0].model

    @property
    def unknowns(self) -> dict[str, Any]:
        """The coefficients that were found, by name: numbers, or traced scalars in a transformation."""
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
        known = self._known_outcome
        return len(self.pieces) > 1 or (known is not None and bool(known.windows))

    @property
    def windows(self) -> tuple[Solution, ...]:
        """The parts of a solution over several windows of time, each a solution on its own interval."""
        known = self._known_outcome
        outcomes = known.windows if known is not None else ()
        if not self.is_marched:
            return (self,)
        return tuple(
            Solution(
                self.problem.during(*self.edges[i : i + 2]),
                [piece],
                outcomes[i] if outcomes else None,
                operator=self.operator,
            )
            for i, piece in enumerate(self.pieces)
        )

    def jumps(self, points: int = 64) -> dict[str, np.ndarray]:
        """How far apart two windows are where they meet, relative to the size of the field there.

        Arguments:
            points: along each axis of space at which they are compared.

        Returns: by field, one number per inner edge.
        """
        box, windows = self.problem.box, self.windows
        space = {a: np.linspace(*box[a], points) for a in box.space}
        found: dict[str, list[float]] = {}
        for before, after, edge in zip(windows, windows[1:], self.edges[1:]):
            lattice = Lattice(weights=None, **{a: space.get(a, np.array([edge])) for a in box.axes})
            one, other = (
                {k: np.asarray(v, np.float64) for k, v in w.values(lattice).items()}
                for w in (before, after)
            )
            for name, values in one.items():
                size, jump = (
                    math.sqrt(np.nanmean(each**2)) for each in (values, values - other[name])
                )
                found.setdefault(name, []).append(jump / (size or 1.0))
        return {name: np.array(each) for name, each in found.items()}

    # --- values ------------------------------------------------------------------------------------

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
        """At scattered points: (n, axes) → (n,), or a dict of such arrays.

        Arguments:
            points: one row per point, columns in the order of the box's axes.
        """
        scattered = Points.of(self.problem.box, points)
        for axis, c in zip(scattered.axes, scattered.coordinates):
            self._check_inside(axis, c)
        return _only(self.values(scattered))

    def point(self, coordinates: Any) -> Any:
        """At one point: (axes,) → a number. What `jax.grad` and `jax.hessian` want.

        Arguments:
            coordinates: one number per axis, in the order of the box's axes.
        """
        return jax.tree.map(lambda v: v[0], self.at(jnp.asarray(coordinates)[None]))

    def values(self, place: Lattice | Points, host: Any = None) -> dict[str, Array]:
        """On a lattice or at scattered points, by name.

        Arguments:
            place: where, in the coordinates of the problem.
            host: the device that computes, if not the default one.
        """
        return values_at(self.pieces, self.edges, self.operator, self.problem, place, host)

    def lattice(
        self, arguments: Sequence[Any], coordinates: Mapping[str, Any]
    ) -> tuple[Lattice, tuple[int, ...]]:
        """A lattice from coordinates by name or in order, and the axes given as numbers, which a
        result does not keep. Refuses what is outside the box."""
        lattice, dropped = lattice_from(self.problem.box, arguments, coordinates)
        for axis, c in zip(lattice.axes, lattice.coordinates):
            self._check_inside(axis, c)
        return lattice, dropped

    def _check_inside(self, axis: str, coordinates: Any) -> None:
        # the network says something outside the box too, but it is not the solution of anything
        if axis not in self.problem.periodic:
            self.problem.box.check_inside(axis, coordinates, "solution")

    # --- operators ---------------------------------------------------------------------------------

    def d(self, **orders: int) -> Solution:
        """A partial derivative: `solution.d(x=2)(t=ts, x=xs)`.

        Arguments:
            orders: how often to differentiate along each axis.
        """
        return self.of_operator(Derivative(self.operator, tuple(orders.items())))

    def of(self, operator: Callable[..., Any]) -> Solution:
        """Any operator of the fields: `solution.of(lambda u: u.t - u.xx)(t=ts, x=xs)`.

        Arguments:
            operator: a function of the fields, coordinates and unknown coefficients that it names,
                with an expression or a dict of them as its result.
        """
        check_not_applied(self.operator, "of", "write both in one, solution.of(lambda u: …)")
        return self.of_operator(Applied.of(self.problem, operator))

    def of_operator(self, operator: AbstractOperator) -> Solution:
        """Another operator of the same models."""
        made = operator.traced(self.problem)
        return Solution(self.problem, self.pieces, self._known_outcome, self.edges, made)

    # --- integrals and factors ---------------------------------------------------------------------

    def integral(self, *axes: str, points: int = 64, **coordinates: Any) -> Any:
        """The integral over the named axes, by Gauss-Legendre quadrature.

        `solution.integral()` is a number; `solution.integral("x", t=ts)` has shape (len(ts),). A
        separable solution is integrated factor by factor, whatever the number of axes.

        Arguments:
            axes: to integrate over; all of them if none is named.
            points: of quadrature, along each of these, in each window.
            coordinates: of the other axes, by name.
        """
        box = self.problem.box
        for axis in axes:
            box.check_axis(axis, "integral")
        gone = axes or box.axes
        held = {a: [box[a][0]] for a in gone}
        lattice, dropped = self.lattice((), {**coordinates, **held})
        given = {a: lattice[a] for a in box.axes if a not in gone}
        found = integral_of(
            self.pieces, self.edges, self.operator, self.problem, gone, points, given
        )
        kept = [a for a in box.axes if a not in gone]
        single = tuple(kept.index(box.axes[i]) for i in dropped if box.axes[i] not in gone)
        return _only({k: jnp.squeeze(v, single) for k, v in found.items()})

    def norm(self, points: int = 64) -> Any:
        """The L2 norm √∫u² of each field: from the factors, without a lattice.

        Arguments:
            points: of quadrature along each axis, in each window.
        """
        found = norms_of(self.pieces, self.edges, self.operator, self.problem, points)
        return _only(found if is_traced(found) else {k: float(v) for k, v in found.items()})

    def separable(self, lattice: Lattice, order: int = 0) -> Any:
        """The factors on a lattice: a `Separable` per field, with derivatives up to `order`."""
        if not self.is_separable:
            raise InputError(
                "separable: the network of this solution is not separable; solve with network=sx.SPINN(…)"
            )
        if len(self.pieces) > 1:
            raise InputError(
                "separable: every window has factors of its own: write solution.windows[0].separable(lattice)"
            )
        if not 0 <= order <= MAX_ORDER:
            raise InputError(f"separable: order must be from 0 to {MAX_ORDER}, got {shown(order)}")
        check_not_applied(
            self.operator, "separable", "ask the solution, separable(lattice, order=1)"
        )
        axes = self.problem.box.axes
        ordered = Lattice(
            weights=dict(zip(lattice.axes, lattice.weights)), **{a: lattice[a] for a in axes}
        )

        def compute(piece: Piece, place: Lattice) -> Any:
            network: Any = piece.model.network
            jets = network.factors(piece.own_time(place).coordinates, order)
            return {
                name: Separable(axes, [jet[i] for jet in jets], ordered.weights)
                for i, name in enumerate(self.problem.fields)
            }

        return _only(by_piece(self.pieces, self.edges, ordered, 0, compute))

    # --- errors ------------------------------------------------------------------------------------

    def relative_l2(
        self, reference: Any = None, field: str | None = None, **coordinates: Any
    ) -> Any:
        """‖û - u‖ / ‖u‖ over all fields, or over one.

        Arguments:
            reference: the problem's own if it is not given; a function like it; or an array, by
                field a dict, on the lattice given.
            field: one of several.
            coordinates: by axis, of the lattice; a regular one if they are not given.
        """
        return self.errors(reference, field, **coordinates).relative_l2

    def rmse(self, reference: Any = None, field: str | None = None, **coordinates: Any) -> Any:
        """The root of the mean squared difference from the reference. Arguments as `relative_l2`."""
        return self.errors(reference, field, **coordinates).rmse

    def errors(
        self,
        reference: Any = None,
        field: str | None = None,
        known: KnownValues | None = None,
        **coordinates: Any,
    ) -> Errors:
        """`relative_l2` and `rmse`, from one evaluation. Arguments as `relative_l2`; `known` are
        values of the problem's reference that somebody has computed already."""
        check_not_applied(self.operator, "relative_l2", "compare the values with jnp")
        ask = lambda: errors_against(self, reference, field, coordinates, known)  # noqa: E731
        outcome = self._known_outcome
        if reference is not None or coordinates or outcome is None or is_traced(self.pieces):
            return ask()
        # kept: a record, a page and whoever prints a solution ask for the same
        against, kept = self.problem.reference, outcome.measured.get(field)
        if kept is None or kept[0] is not against:
            kept = outcome.measured[field] = against, ask()
        return kept[1]

    # --- outside of JAX ----------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keeps the solution in a folder of its own, from which `sx.load(folder)` makes it again."""
        from ..runs import save  # what keeps solutions knows what they are, not the other way round

        check_not_applied(self.operator, "save", "save the solution itself")
        return save(self, folder)

    def plot(
        self,
        x: Any = None,
        y: Any = None,
        *,
        field: str | None = None,
        reference: bool = False,
        points: int | None = None,
        at: Mapping[str, Any] | None = None,
        **held: Any,
    ) -> Figure:
        """A matplotlib figure of a slice or a line: `solution.plot(x="x", y="y", t=0.5)`.

        Arguments:
            x, y: the names of the axes to show to the right and upwards; x alone makes a line. A
                number holds the axis of that name, like any other: `solution.plot(x=0.3)`.
            field: of a system, which; the first whose truth is known otherwise.
            reference: show the reference and the difference beside it.
            points: along each axis shown.
            at: where axes are held, as a dict; for an axis called x or y while the word says what to
                show.
            held: where axes are held, by name; several values of one axis make several pictures.
        """
        from ..output import plot

        return plot(self, x, y, field=field, reference=reference, points=points, at=at, **held)

    def animate(
        self, path: str | os.PathLike[str], x: Any = None, y: Any = None, **options: Any
    ) -> Path:
        """A film along time, or along the axis `over` names: `solution.animate("out.gif", x="x")`.

        A GIF, or an MP4 where there is an ffmpeg (`separax[film]`).

        Arguments:
            path: the file to write.
            x, y: the axes to show, as for `plot`.
            options: `over`, `frames` (60), `rate` per second (20), and those of `plot`.
        """
        from ..output import animate

        return animate(self, path, x, y, **options)

    def to_xarray(
        self,
        *,
        points: int | Mapping[str, int] | None = None,
        units: Mapping[str, str] | None = None,
        **coordinates: Any,
    ) -> Any:
        """On a lattice, as an `xarray.Dataset` with named coordinates.

        Arguments:
            points: along axes that are not given.
            units: of fields and axes, by name.
            coordinates: by axis; one given as a number is a coordinate without a dimension.
        """
        from ..output import dataset, grid

        return dataset(grid(self, coordinates, points, units=units))

    def export(
        self,
        path: str | os.PathLike[str],
        /,
        *,
        field: str | None = None,
        points: int | Mapping[str, int] | None = None,
        units: Mapping[str, str] | None = None,
        at: Any = None,
        **coordinates: Any,
    ) -> Path:
        """Writes the solution to a file whose ending says how.

        `.nc`, `.vtr`, `.pvd`, `.csv`, `.npy` and `.npz` hold values on a lattice, written in pieces,
        so that it may be larger than memory. `.jax` holds the evaluation itself at any number of
        points, which runs without separax. `.png`, `.svg` and `.pdf` are figures, with the options of
        `plot`; `.gif` and `.mp4` films, with those of `animate`.

        Arguments:
            path: the file to write.
            field: one of several.
            points, units, coordinates: as for `to_xarray`.
            at: scattered points instead, (n, axes), for a table.
        """
        from ..output import export

        return export(self, path, coordinates, points, field, units, at)

    def program(self) -> bytes:
        """The evaluation at scattered points as a program of `jax.export`, which runs without
        separax: `jax.export.deserialize(program).call(points)` takes (n, axes) points, for any n."""
        return exported_program(self.pieces, self.edges, self.operator, self.problem)

    def __repr__(self) -> str:
        found = self._known_outcome
        if found is None or not isinstance(self.operator, Outputs):
            return f"Solution({self.problem.name!r}, of {listed(name or 'one value' for name in self.names)})"
        measured = found.measured.get(None)
        error = ""
        if measured is not None and measured[0] is self.problem.reference:
            error = f", relative_l2={measured[1].relative_l2:.2e}"
        return (
            f"Solution({self.problem.name!r}, loss={found.best_loss:.2e} at step"
            f" {found.best_step:,}{error})"
        )

    def _repr_html_(self) -> str:
        from ..output import of_solution

        return of_solution(self)


def _rebuilt(
    problem: Problem,
    pieces: Sequence[Piece],
    outcome: Outcome | None,
    edges: Sequence[float],
    operator: AbstractOperator,
) -> Solution:
    return Solution(problem, pieces, outcome, edges, operator)


def _only(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def lattice_from(
    box: Box, arguments: Sequence[Any], coordinates: Mapping[str, Any]
) -> tuple[Lattice, tuple[int, ...]]:
    """A lattice from what a user writes, and the axes that were given as numbers.

    Arguments:
        box: whose axes they are.
        arguments: a `Lattice`, or coordinates in the order of the axes.
        coordinates: by axis, arrays or numbers.

    Returns: the lattice, and the places of its axes that a result does not keep.
    """
    if len(arguments) == 1 and isinstance(arguments[0], Lattice):
        coordinates, arguments = dict(zip(arguments[0].axes, arguments[0].coordinates)), ()
    given = dict(zip(box.axes, arguments)) | dict(coordinates)
    if len(arguments) > box.dimension:
        raise InputError(
            f"solution: {len(arguments)} arrays for {box.dimension} axes ({listed(box.axes)})"
        )
    for axis in given:
        box.check_axis(axis, "solution")
    if missing := [axis for axis in box.axes if axis not in given]:
        raise InputError(
            f"solution: no coordinates for {listed(missing)}: write"
            f" solution({', '.join(f'{a}={a}s' for a in box.axes)}) with one array or number per axis"
        )
    for axis, c in given.items():
        if np.ndim(c) > 1:
            raise InputError(
                f"solution: {axis} must be a number or a one-dimensional array, got shape"
                f" {np.shape(c)}; for scattered points use solution.at(points)"
            )
    dropped = tuple(i for i, axis in enumerate(box.axes) if np.ndim(given[axis]) == 0)
    flat = {
        a: jnp.reshape(c, -1) if isinstance(c, jax.Array) else np.reshape(c, -1)
        for a, c in given.items()
    }
    return Lattice(weights=None, **{a: flat[a] for a in box.axes}), dropped


class Ensemble(Sequence):
    """Solutions of one problem from several seeds, trained at once. `record` is the run in numbers."""

    def __init__(self, solutions: Sequence[Solution], record: Mapping[str, Any] | None = None):
        self.solutions, self.record = tuple(solutions), dict(record or {})

    def with_record(self, record: Mapping[str, Any]) -> Ensemble:
        """The same solutions, with the record of their run."""
        return Ensemble(self.solutions, record)

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, i):
        return self.solutions[i]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def errors(self, *arguments: Any, **options: Any) -> list[Errors]:
        """Those of each; what is known of the problem is computed once for all."""
        own = not arguments and set(options) <= {"field"}
        first = self.solutions[0]
        known = known_values(first) if own and first.problem.reference is not None else None
        return [s.errors(*arguments, known=known, **options) for s in self.solutions]

    def relative_l2(self, *arguments: Any, **options: Any) -> np.ndarray:
        """The error of each. Arguments as of a solution."""
        return np.array([e.relative_l2 for e in self.errors(*arguments, **options)])

    def rmse(self, *arguments: Any, **options: Any) -> np.ndarray:
        """The root mean square error of each. Arguments as of a solution."""
        return np.array([e.rmse for e in self.errors(*arguments, **options)])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keeps all of them in one folder, as `Solution.save`."""
        from ..runs import save

        return save(self, folder)

    def __repr__(self) -> str:
        return f"Ensemble({', '.join(map(repr, self.solutions))})"
