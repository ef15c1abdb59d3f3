"""Where an equation lives: boxes with named axes, lattices and scattered points in them, and how points are drawn."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import keyword
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .errors import InputError, finite, listed, nearest, whole

# words that mean something else where an axis is named: attributes of a field (`u.d(x=2)`, `u.value`) and options that
# stand beside coordinates (`solution.integral("x", points=64, t=ts)`)
RESERVED = ("self", "d", "value", "shape", "linear", "weights", "points", "field", "reference", "boundary", "units", "at")
SIDES = ("-", "+")


class Box:
    """A box with named axes: `Box(t=(0, 10), x=(-1, 1), y=(-1, 1))`.

    The order of the axes is the order in which they are written; it is the order of the dimensions of every array
    on a lattice and of the columns of scattered points. `t` is time: `Initial` acts on its lower face, and
    `Dirichlet` and `Neumann` on every face of every other axis.
    """

    def __init__(self, /, **bounds: tuple[float, float]):
        if not bounds:
            raise InputError("Box needs at least one axis: write e.g. Box(t=(0, 1), x=(-1, 1))")
        checked: dict[str, tuple[float, float]] = {}
        for name, pair in bounds.items():
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise InputError(
                    f"Box: axis name {name!r} cannot be a parameter of your functions: write e.g. {'x'!r} or {'theta'!r}"
                )
            if name in RESERVED:
                raise InputError(
                    f"Box: axis name {name!r} means something else in separax (reserved: {listed(RESERVED)}): choose another name"
                )
            if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable) or len(ends := tuple(pair)) != 2:
                raise InputError(f"Box: {name} must be a pair (lower, upper), got {pair!r}: write {name}=(0, 1)")
            lower, upper = (finite(f"Box: a bound of {name}", end) for end in ends)
            if not lower < upper:
                kind = "equal" if lower == upper else "reversed"
                raise InputError(
                    f"Box: the bounds of {name} are {kind}, got {ends!r}: write the lower first, {name}=({min(lower, upper):g}, {max(lower, upper + (lower == upper)):g})"
                )
            checked[name] = (lower, upper)
        self._bounds = checked

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self._bounds)

    @property
    def space(self) -> tuple[str, ...]:
        """Every axis but time."""
        return tuple(axis for axis in self.axes if axis != "t")

    @property
    def dimension(self) -> int:
        return len(self._bounds)

    @property
    def volume(self) -> float:
        return math.prod(upper - lower for lower, upper in self._bounds.values())

    def __getitem__(self, axis: str) -> tuple[float, float]:
        return self._bounds[self.check_axis(axis, "Box")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and tuple(self._bounds.items()) == tuple(other._bounds.items())

    def __hash__(self) -> int:
        return hash(tuple(self._bounds.items()))

    def __repr__(self) -> str:
        return f"Box({', '.join(f'{axis}=({low:g}, {high:g})' for axis, (low, high) in self._bounds.items())})"

    def _repr_html_(self) -> str:
        from .report.notebook import of_box

        return of_box(self)

    def check_axis(self, axis: str, argument: str) -> str:
        if axis not in self._bounds:
            raise InputError(f"{argument}: there is no axis {axis!r} in {self!r}.{nearest(axis, self.axes)}")
        return axis

    def index(self, axis: str) -> int:
        return self.axes.index(axis)

    def counts(self, points: int | Mapping[str, int] | Sequence[int], argument: str = "points") -> dict[str, int]:
        """Points per axis from one number for all, a mapping by axis name, or one number per axis in order."""
        if isinstance(points, Mapping):
            for axis in points:
                self.check_axis(axis, argument)
            if missing := [axis for axis in self.axes if axis not in points]:
                raise InputError(
                    f"{argument}: no number of points for {listed(missing)}: write {argument}=dict({', '.join(f'{a}=32' for a in self.axes)})"
                )
            return {axis: whole(f"{argument}[{axis!r}]", points[axis]) for axis in self.axes}
        if isinstance(points, np.ndarray) and points.ndim == 1:
            points = points.tolist()
        if isinstance(points, Sequence) and not isinstance(points, str):
            if len(points) != self.dimension:
                raise InputError(
                    f"{argument}: {len(points)} numbers for {self.dimension} axes ({listed(self.axes)}): write one per axis, or a single one for all"
                )
            return {axis: whole(f"{argument}[{axis!r}]", n) for axis, n in zip(self.axes, points)}
        return dict.fromkeys(self.axes, whole(argument, points))

    def faces(self, on: str | Sequence[str], argument: str = "on") -> dict[str, str]:
        """Faces by name as {axis: sides}: "x" is both faces of x ("-+"), "x-" the lower one, "x+" the upper one."""
        found: dict[str, str] = {}
        if not isinstance(on, (str, Sequence)):
            raise InputError(f"{argument} must name a face or several, got {on!r}: write e.g. {self.axes[0] + '-'!r}")
        for name in [on] if isinstance(on, str) else on:
            if not isinstance(name, str):
                raise InputError(f"{argument}: a face is a name, got {name!r}: write e.g. {self.axes[0] + '-'!r}")
            axis, sides = (name[:-1], name[-1]) if name[-1:] in SIDES else (name, "-+")
            if axis not in self._bounds:
                known = [axis + side for axis in self.axes for side in ("", *SIDES)]
                raise InputError(
                    f"{argument}: there is no face {name!r} in {self!r}; its faces are {listed(known)}.{nearest(name, known)}"
                )
            found[axis] = "".join(side for side in SIDES if side in found.get(axis, "") + sides)
        return found

    def check_inside(self, axis: str, coordinates: Any, argument: str) -> None:
        """Refuses coordinates outside the axis (but for rounding) and those that are not numbers."""
        if isinstance(coordinates, jax.core.Tracer) or np.size(coordinates) == 0:  # pyright: ignore[reportAttributeAccessIssue]
            return
        lower, upper = self._bounds[axis]
        slack = 1e-5 * (upper - lower)
        least, most = float(np.min(coordinates)), float(np.max(coordinates))
        if not (least >= lower - slack and most <= upper + slack):
            raise InputError(
                f"{argument}: {axis} runs over ({lower:g}, {upper:g}), got values from {least:g} to {most:g}: stay inside the box"
            )

    def ends(self, axis: str, sides: str) -> tuple[float, ...]:
        lower, upper = self._bounds[axis]
        return tuple({"-": lower, "+": upper}[side] for side in sides)

    def lattice(self, points: int | Mapping[str, int] | Sequence[int]) -> Lattice:
        """A regular lattice, both ends of every axis included (the middle where an axis has one point)."""
        counts = self.counts(points)
        return Lattice(
            weights=None,
            **{
                a: np.linspace(*self._bounds[a], n) if (n := counts[a]) > 1 else np.mean(self._bounds[a], keepdims=True)
                for a in self.axes
            },
        )


class Lattice(eqx.Module):
    """Factorised coordinates: one array per axis, every combination a point. `Lattice(x=xs, y=ys)`.

    `weights` are those of a quadrature rule per axis (they add up to the length of the axis), or None where the
    points count alike.
    """

    axes: tuple[str, ...] = eqx.field(static=True)
    coordinates: tuple[Any, ...]  # arrays (n,), NumPy's or JAX's
    weights: tuple[Float[Array, " n"] | None, ...]

    def __init__(self, /, *, weights: Mapping[str, Any] | None = None, **coordinates: Any):
        self.axes = tuple(coordinates)
        # arrays stay the objects they are: `sources` knows shared coordinates by identity
        self.coordinates = tuple(np.asarray(c) if isinstance(c, (list, tuple)) else c for c in coordinates.values())
        self.weights = tuple((weights or {}).get(axis) for axis in self.axes)
        for axis, values in zip(self.axes, self.coordinates):
            if np.ndim(values) != 1:
                raise InputError(
                    f"Lattice: {axis} must be a one-dimensional array, got shape {np.shape(values)}: write {axis}=jnp.linspace(0, 1, 32)"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.coordinates)

    def __getitem__(self, axis: str) -> Array:
        return self.coordinates[self.axes.index(axis)]

    def arrays(self) -> dict[str, Array]:
        """The coordinates as arrays that broadcast to the lattice."""
        return {axis: self.along(axis, c) for axis, c in zip(self.axes, self.coordinates)}

    def along(self, axis: str, values: Array) -> Array:
        """One-dimensional `values` laid along `axis`."""
        place = self.axes.index(axis)
        return jnp.reshape(values, [-1 if i == place else 1 for i in range(len(self.axes))])

    def mean(self, values: Array) -> Array:
        """The mean over the lattice, by quadrature along the axes that have weights."""
        for axis, weights in zip(self.axes, self.weights):
            if weights is not None:
                values = values * self.along(axis, weights / jnp.mean(weights))
        return jnp.mean(values)


class Points(eqx.Module):
    """Scattered points: one coordinate array per axis, all of one length."""

    axes: tuple[str, ...] = eqx.field(static=True)
    coordinates: tuple[Float[Array, " n"], ...]
    weights: Float[Array, " n"] | None = None
    normals: tuple[Float[Array, " n"], ...] | None = None  # outward, per axis, of points on the boundary of a shape

    @classmethod
    def of(cls, box: Box, points: Any, argument: str = "points") -> Points:
        """From an array of shape (n, number of axes), columns in the order of the box's axes."""
        shape = np.shape(points)
        if len(shape) != 2 or shape[1] != box.dimension:
            raise InputError(
                f"{argument} must have shape (n, {box.dimension}), one column per axis ({listed(box.axes)}), got {shape}"
            )
        if not isinstance(points, jax.Array):  # left in NumPy's float64 until a run's precision is known
            points = np.asarray(points, dtype=float)
        return cls(box.axes, tuple(points[:, i] for i in range(box.dimension)))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.coordinates[0]),)

    def arrays(self) -> dict[str, Array]:
        return dict(zip(self.axes, self.coordinates))

    def mean(self, values: Array) -> Array:
        return jnp.mean(values if self.weights is None else values * self.weights / jnp.mean(self.weights))


def flatten(lattice: Lattice) -> Points:
    """The points of a lattice one by one, with the products of its weights."""
    grids = jnp.meshgrid(*lattice.coordinates, indexing="ij")
    weights = None
    if any(w is not None for w in lattice.weights):
        each = [jnp.ones_like(c) if w is None else w for c, w in zip(lattice.coordinates, lattice.weights)]
        weights = functools.reduce(operator.mul, jnp.meshgrid(*each, indexing="ij")).ravel()
    return Points(lattice.axes, tuple(g.ravel() for g in grids), weights)


class Sampler(eqx.Module):
    """Draws the points of training. A draw is a function of the key and of its number alone, so that a run resumed at
    any step sees the points it would have seen. `every` is how many steps one draw serves; None: there is only one."""

    every: eqx.AbstractVar[int | None]

    def on(self, periodic: Sequence[str]) -> Sampler:
        """The same for functions that are periodic along some axes."""
        return self

    def axis(
        self, key: PRNGKeyArray, number: Array, bounds: tuple[float, float], n: int, dtype: Any
    ) -> tuple[Array, Array | None]:
        """Coordinates and weights of one axis."""
        raise NotImplementedError

    def lattice(self, key: PRNGKeyArray, number: Array, box: Box, counts: Mapping[str, int], dtype: Any) -> Lattice:
        drawn = {
            a: self.axis(k, number, box[a], counts[a], dtype) for a, k in zip(box.axes, jax.random.split(key, box.dimension))
        }
        return Lattice(weights={a: w for a, (_, w) in drawn.items()}, **{a: c for a, (c, _) in drawn.items()})

    def points(
        self, key: PRNGKeyArray, number: Array, box: Box, counts: Mapping[str, int], held: Mapping[str, float], dtype: Any
    ) -> Points:
        """As many scattered points as the lattice has, with the axes in `held` at one value: the lattice's own."""
        lattice = self.lattice(key, number, box, counts, dtype)
        free = {a: lattice[a] for a in box.axes if a not in held} | {a: jnp.full(1, v, dtype) for a, v in held.items()}
        weights = {a: w for a, w in zip(lattice.axes, lattice.weights) if a not in held}
        return flatten(Lattice(weights=weights, **{a: free[a] for a in box.axes}))


class Uniform(Sampler):
    """Independent uniform draws, anew every `every` steps (the paper's): per axis for a lattice, per point otherwise."""

    every: int | None = eqx.field(static=True, default=100, converter=lambda n: whole("Uniform: every", n))

    def axis(self, key, number, bounds, n, dtype):
        return jax.random.uniform(jax.random.fold_in(key, number), (n,), dtype, *bounds), None

    def points(self, key, number, box, counts, held, dtype):
        total = math.prod(n for axis, n in counts.items() if axis not in held)
        drawn = [self.axis(k, number, box[a], total, dtype)[0] for a, k in zip(box.axes, jax.random.split(key, box.dimension))]
        return Points(box.axes, tuple(jnp.full(total, held[a], dtype) if a in held else c for a, c in zip(box.axes, drawn)))


class Grid(Sampler):
    """A regular grid, its upper end left out, moved by a random part of its spacing: `shifts` fixed random shifts taken
    in turn, each for `every` steps (the paper's Navier-Stokes runs). `shifts=0` leaves it unmoved.

    Of eight shifts one lies in each eighth of the spacing. Where all of them happen to be large, a network finds room between the initial
    values and the first points to leave them behind."""

    shifts: int = eqx.field(static=True, default=8, converter=lambda n: whole("Grid: shifts", n, 0))
    every: int | None = eqx.field(static=True, default=100, converter=lambda n: whole("Grid: every", n))

    def axis(self, key, number, bounds, n, dtype):
        lower, upper = bounds
        shift = 0.0
        if self.shifts:
            turn = number % self.shifts
            part = jax.random.permutation(jax.random.fold_in(key, self.shifts), self.shifts)[turn]
            shift = (part + jax.random.uniform(jax.random.fold_in(key, turn), (), dtype)) / self.shifts
        return lower + (upper - lower) / n * (jnp.arange(n, dtype=dtype) + shift), None


@functools.lru_cache(maxsize=64)
def _legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import roots_legendre  # its banded eigenvalue problem is quick also for thousands of points

    return roots_legendre(n)


def places_by_axis(who: str, given: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Breakpoints by axis, as something that can be compared: {"x": 0} → (("x", (0.0,)),)."""
    pairs = isinstance(given, (list, tuple)) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given)
    if not isinstance(given, Mapping) and not pairs:
        raise InputError(f"{who}: breaks must be a dict by axis, got {given!r}: write breaks={{'x': 0.0}}")
    each = {axis: at if isinstance(at, Iterable) and not isinstance(at, str) else [at] for axis, at in dict(given).items()}
    return tuple((axis, tuple(sorted(finite(f"{who}: breaks[{axis!r}]", v) for v in at))) for axis, at in each.items())


def _breaks(given: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return places_by_axis("GaussLegendre", given)


class GaussLegendre(Sampler):
    """Gauss-Legendre quadrature: fixed points whose weighted mean integrates polynomials of degree 2n - 1 exactly.

    `breaks` are places along an axis where something is not smooth, {"x": 0.0} or {"x": [0.0, 0.5]}: the rule is then made of
    pieces between them, which share the axis' points, so that they crowd at both sides of a break. Along the axes in `even` points are
    evenly spaced, the best rule for what is periodic; axes that are periodic by construction are among them anyway.
    """

    breaks: Any = eqx.field(static=True, default=(), converter=_breaks)
    every: int | None = eqx.field(static=True, default=None)
    even: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)

    def __check_init__(self):
        if both := [axis for axis, _ in self.breaks if axis in self.even]:
            raise InputError(
                f"GaussLegendre: {both[0]} has breaks and even points, which have none: leave it out of one of the two"
            )

    def on(self, periodic):
        broken = {axis for axis, _ in self.breaks}
        return dataclasses.replace(self, even=dict.fromkeys([*self.even, *(a for a in periodic if a not in broken)]))

    def axis(self, key, number, bounds, n, dtype):
        nodes, weights = _legendre(n)
        lower, upper = bounds
        half = (upper - lower) / 2
        return jnp.asarray(lower + half * (nodes + 1), dtype), jnp.asarray(half * weights, dtype)

    def lattice(self, key, number, box, counts, dtype):
        plain = super().lattice(key, number, box, counts, dtype)
        coordinates, weights = dict(zip(plain.axes, plain.coordinates)), dict(zip(plain.axes, plain.weights))
        for axis, at in self.breaks:
            box.check_axis(axis, "GaussLegendre: breaks")
            ends = [box[axis][0], *at, box[axis][1]]
            pieces = list(itertools.pairwise(ends))
            if any(low >= high for low, high in pieces) or counts[axis] < len(pieces):
                raise InputError(
                    f"GaussLegendre: breaks[{axis!r}] = {list(at)} must lie between {ends[0]:g} and {ends[-1]:g}, each with a point at least"
                )
            shares = [counts[axis] // len(pieces) + (i < counts[axis] % len(pieces)) for i in range(len(pieces))]
            drawn = [self.axis(key, number, piece, share, dtype) for piece, share in zip(pieces, shares)]
            coordinates[axis] = jnp.concatenate([c for c, _ in drawn])
            weights[axis] = jnp.concatenate([w for _, w in drawn])
        for axis in self.even:
            box.check_axis(axis, "GaussLegendre: even")
            coordinates[axis], weights[axis] = Grid(shifts=0).axis(key, number, box[axis], counts[axis], dtype)
        return Lattice(weights=weights, **coordinates)


def quadrature(box: Box, points: int | Mapping[str, int], dtype: Any = None) -> Lattice:
    """The Gauss-Legendre lattice of a box."""
    return GaussLegendre().lattice(jax.random.key(0), jnp.array(0), box, box.counts(points), dtype or jnp.result_type(float))
