"""An operator applied to a solution, as a function of the coordinates: on lattices, at points, drawn, exported, integrated."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import InputError, call, check_fits, listed, options_for_few_runs, parameters, to_device
from ..domain import TIME, Lattice, Place, Points, Shape, quadrature, slabs
from ..equations import START, Field, Inputs, Problem, values_of
from ..networks import SeparableNetwork, SeparableSource, Source, sources
from ..recipe import Recipe
from ..residuals import Model
from ..separable import Key, Separable, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLAB = {True: 2**22, False: 2**15}  # points evaluated at once, separable or not

AnyPlace = TypeVar("AnyPlace", bound=Place)

# (fields, coordinates, unknowns) → expressions by name
Expressions = Callable[
    [Mapping[str, Field], Mapping[str, Array], Mapping[str, Array]], dict[str, Any]
]


class View:
    """An operator applied to a solution: `solution.d(x=2)`, `solution.of(lambda u: u.t - u.xx)`.

    `since`: the instant from which the network counts time; not zero for windows of a marched solution."""

    def __init__(
        self,
        problem: Problem,
        recipe: Recipe,
        model: Model,
        expressions: Expressions,
        since: float = 0.0,
    ):
        self.problem, self.recipe, self.model, self.since = problem, recipe, model, since
        self._expressions = expressions
        self._needs = self._trace()
        # its stub does not have what it hands on to jax.jit
        self._evaluate = eqx.filter_jit(self._compute, compiler_options=options_for_few_runs())  # pyright: ignore[reportCallIssue]

    def _trace(self) -> frozenset[Key]:
        """What the operator needs, found by running it on nothing; refuses what cannot be evaluated."""
        tracer, coordinates, unknowns = self.problem._example()

        names: list[str] = []

        def run(c: Any, k: Any) -> int:
            found = self._expressions(self.problem.field_map(tracer), c, k)
            names.extend(found)
            for expression in found.values():
                values_of(expression, tracer.shape, "of")
            return 0

        jax.eval_shape(run, coordinates, unknowns)
        self.names = tuple(names)  # of the values; "" where there is one without a name
        return frozenset(tracer.needs)

    def _on(self, model: Model, place: Place, since: Array | None) -> tuple[Source, dict[str, Any]]:
        """The expressions on a place of the network's own time."""
        (source,) = sources(model.network, [place], [self._needs])
        coordinates = self._known(model, since).coordinates(place)
        return source, self._expressions(
            self.problem.field_map(source), coordinates, model.unknowns
        )

    def _known(self, model: Model, since: Array | None) -> Inputs:
        return Inputs(model.unknowns, {} if since is None else {START: since})

    def _compute(self, model: Model, place: Place, since: Array | None) -> dict[str, Array]:
        source, found = self._on(model, place, since)
        return {k: values_of(e, source.shape, "of") for k, e in found.items()}

    def _own_time(self, place: AnyPlace) -> AnyPlace:
        """A place with the time that the network counts."""
        if not self.since:
            return place
        at = place.axes.index(TIME)
        moved = (
            *place.coordinates[:at],
            np.asarray(place.coordinates[at], np.float64) - self.since,
            *place.coordinates[at + 1 :],
        )
        return eqx.tree_at(lambda p: p.coordinates, place, moved)

    def _since(self) -> Array | None:
        return jnp.asarray(self.since, self.recipe.dtype) if self.since else None

    def _is_separable(self) -> bool:
        return isinstance(self.model.network, SeparableNetwork)

    def _precision(self) -> Any:
        return jax.enable_x64(True)

    def _cast(self, place: AnyPlace) -> AnyPlace:
        return jax.tree.map(lambda a: jnp.asarray(a, self.recipe.dtype), place)

    def _values(self, place: Place, host: Any = None) -> dict[str, Array]:
        """On any place, slab by slab along its first dimension where it is large; on the `host` device, if one is named."""
        model = self.model if host is None else to_device(self.model, host)
        with self._precision():
            place = self._cast(self._own_time(place))
            total = math.prod(place.shape)
            check_fits(
                f"a lattice of {' × '.join(map(str, place.shape))} values",
                2 * total * np.dtype(self.recipe.dtype).itemsize,
                "evaluate fewer points at a time",
            )
            cut = slabs(place, SLAB[self._is_separable()])
            parts = [self._inside(self._evaluate(model, slab, self._since()), slab) for slab in cut]
            return (
                parts[0]
                if len(parts) == 1
                else {k: jnp.concatenate([p[k] for p in parts]) for k in parts[0]}
            )

    def _inside(self, values: dict[str, Array], place: Place) -> dict[str, Array]:
        """Nothing is said about what is outside the problem's shape."""
        if self.problem.shape is None:
            return values
        mask = self.problem.shape.mask(self._known(self.model, self._since()).coordinates(place))
        return {k: jnp.where(mask, v, jnp.nan) for k, v in values.items()}

    def _out(self, values: Mapping[str, Any]) -> Any:
        return next(iter(values.values())) if len(values) == 1 else values

    def _lattice(
        self, arguments: tuple[Any, ...], coordinates: Mapping[str, Any]
    ) -> tuple[Lattice, tuple[int, ...]]:
        """Coordinates by name or in order; numbers are axes of the lattice that the result does not keep."""
        box = self.problem.box
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
                f"solution: no coordinates for {listed(missing)}: write solution({', '.join(f'{a}={a}s' for a in box.axes)}) with one array or number per axis"
            )
        for axis, c in given.items():
            if np.ndim(c) > 1:
                raise InputError(
                    f"solution: {axis} must be a number or a one-dimensional array, got shape {np.shape(c)}; for scattered points use solution.at(points)"
                )
            self._check_inside(axis, c)
        dropped = tuple(i for i, axis in enumerate(box.axes) if np.ndim(given[axis]) == 0)
        return Lattice(
            weights=None,
            **{
                a: jnp.reshape(given[a], -1)
                if isinstance(given[a], jax.Array)
                else np.reshape(given[a], -1)
                for a in box.axes
            },
        ), dropped

    def _check_inside(self, axis: str, coordinates: Any) -> None:
        """The network says something outside the box too, but it is not the solution of anything."""
        if axis not in self.problem.periodic:
            self.problem.box.check_inside(axis, coordinates, "solution")

    def __call__(self, *arguments: Any, **coordinates: Any) -> Any:
        """On a lattice: `solution(t=ts, x=xs)` has shape (len(ts), len(xs)); an axis given as a number is left out."""
        lattice, dropped = self._lattice(arguments, coordinates)
        return self._out({k: jnp.squeeze(v, dropped) for k, v in self._values(lattice).items()})

    def at(self, points: Any) -> Any:
        """At scattered points: (n, axes) → (n,)."""
        scattered = Points.of(self.problem.box, points)
        for axis, c in zip(scattered.axes, scattered.coordinates):
            self._check_inside(axis, c)
        return self._out(self._values(scattered))

    def d(self, **orders: int) -> View:
        """A partial derivative: `solution.d(x=2)(t=ts, x=xs)`."""
        return self._view(
            lambda *given: {
                k: e.d(**orders)
                for k, e in self._expressions(*given).items()
                if isinstance(e, Field)
            }
        )

    def of(self, operator: Callable[..., Any]) -> View:
        """Any operator of the fields: `solution.of(lambda u: u.t - u.xx)(t=ts, x=xs)`."""
        names = parameters(
            operator, {**self.problem._pool, "derived quantity": tuple(self.problem.derived)}, "of"
        )

        def expressions(
            fields: Mapping[str, Field],
            coordinates: Mapping[str, Array],
            unknowns: Mapping[str, Array],
        ) -> dict[str, Any]:
            own = self._expressions(fields, coordinates, unknowns)
            if set(own) != set(self.problem.outputs):
                raise InputError(
                    "of: this is an operator of the solution already: write both in one, solution.of(lambda u: …)"
                )
            found = call(operator, names, {**own, **coordinates, **unknowns}, "of")
            return found if isinstance(found, dict) else {"": found}

        return self._view(expressions)

    def _view(self, expressions: Expressions) -> View:
        """Other expressions of the same solution."""
        return View(self.problem, self.recipe, self.model, expressions, self.since)

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
        """A matplotlib figure of a slice or a line: `solution.plot(x="x", y="y", t=0.5)`, `solution.plot(x="x", t=[0, 1])`.

        Arguments:
            x, y: the names of the axes to show to the right and upwards; x alone makes a line. A number holds the axis of that
                name, like any other: `solution.plot(x=0.3)`.
            field: of a system, which; the first whose truth is known otherwise.
            reference: show the reference and the difference beside it.
            points: along each axis shown.
            at: where axes are held, as a dict; for an axis called x or y while the word says what to show.
            held: where axes are held, by name; several values of one axis make several pictures.
        """
        from ..output import plot

        return plot(self, x, y, field=field, reference=reference, points=points, at=at, **held)

    def animate(
        self, path: str | os.PathLike[str], x: Any = None, y: Any = None, **options: Any
    ) -> Path:
        """A film along time, or along the axis `over` names: `solution.animate("out.gif", x="x", y="y")`.

        A GIF, or an MP4 where there is an ffmpeg (`separax[film]`). `frames` (60), `rate` per second (20), `field`, `points`, `at` and axes held
        by name as for `plot`.
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
        """On a lattice, as an `xarray.Dataset` with named coordinates: `solution.to_xarray(t=ts, x=0.5, units={"x": "m"})`.

        An axis that is not given gets `points` of its own; one given as a number is a coordinate without a dimension.
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
        """Writes values on a lattice to a file whose ending says how: `.nc`, `.vtr`, `.pvd`, `.csv`, `.npy` or `.npz`.

        Coordinates as for `to_xarray`; `field` writes one of several; `at` are scattered points instead, (n, axes), for a table.
        It is written in pieces: a lattice may be larger than memory.

        `.png`, `.svg` and `.pdf` are figures, with the options of `plot`; `.gif` and `.mp4` films, with those of `animate`.
        """
        from ..output import export

        return export(self, path, coordinates, points, field, units, at)

    def integral(self, *axes: str, points: int = 64, **coordinates: Any) -> Any:
        """The integral over the named axes (all if none is named), by Gauss-Legendre quadrature with `points` points each.

        `solution.integral()` is a number; `solution.integral("x", t=ts)` has shape (len(ts),). A separable solution is
        integrated factor by factor, whatever the number of axes.
        """
        box = self.problem.box
        for axis in axes:
            box.check_axis(axis, "integral")
        gone = axes or box.axes
        with self._precision():
            rule = quadrature(box, points, self.recipe.dtype)
            given, dropped = self._lattice((), {**coordinates, **{a: rule[a] for a in gone}})
            weights = {a: rule.weights[box.index(a)] for a in gone}
            lattice = self._cast(
                self._own_time(Lattice(weights=weights, **dict(zip(given.axes, given.coordinates))))
            )
            source, found = self._on(self.model, lattice, self._since())
            out = {}
            for k, expression in found.items():
                left = _integral(source, expression, lattice, gone, self.problem.shape)
                out[k] = jnp.squeeze(
                    left, tuple(sum(box.axes[j] not in gone for j in range(i)) for i in dropped)
                )
        return self._out(out)


def _integral(
    source: Source, expression: Any, lattice: Lattice, gone: Sequence[str], shape: Shape | None
) -> Array:
    formal = isinstance(expression, Field) and expression.linear and expression._formal
    if isinstance(source, SeparableSource) and formal and shape is None:
        factors = (c[None] for c in columns(source.parts(expression._terms)))
        left = Separable(lattice.axes, factors, lattice.weights).integral(*gone)
        return left.values() if isinstance(left, Separable) else left
    check_fits("the lattice of this integral", math.prod(lattice.shape) * 8, "use fewer points=")
    values = values_of(expression, source.shape, "of")
    if shape is not None:
        values = jnp.where(shape.mask(lattice.arrays()), values, 0.0)
    for axis in sorted(set(gone), key=lattice.axes.index, reverse=True):
        place = lattice.axes.index(axis)
        weights = lattice.weights[place]
        assert weights is not None  # every axis that is integrated over has a rule
        values = jnp.tensordot(values, weights, ([place], [0]), precision="highest")
    return values
