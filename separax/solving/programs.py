"""Residuals at points as compiled functions of a table of derivatives, with their slopes.

    r_i(∂ᵃu, ∂ᵇu, …; x)   and   ∂r_i / ∂(∂ᵃu)

What solves in elements or on points of its own has the derivatives of the fields as numbers; the
equation is the user's function, on whatever points.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import options_for_few_runs
from ..domain import Points
from ..equations import AtPlace, Inputs, Problem, TabulatedValues, values_of
from ..separable import Key


def residuals_of(problem: Problem, keys: Sequence[Key]) -> Callable[..., jax.Array]:
    """The residuals of a problem at points, from a table of derivatives.

    Arguments:
        problem: whose residuals.
        keys: the derivatives in the table.

    Returns:
        A function of the table (keys, points) and of the coordinates, one array per axis of the
        box, to (residuals, points).
    """

    def residuals(table: Any, *coordinates: Any) -> jax.Array:
        place = Points(problem.box.axes, coordinates)
        source = TabulatedValues(place, dict(zip(keys, table)))
        at = AtPlace(problem, place, source, Inputs({}, {}))
        found = problem.expressions(source, at.coordinates, {})
        return jnp.stack([values_of(e, place.shape, name) for name, e in found.items()])

    return residuals


class Linearised:
    """Residuals at points and how they change with every derivative, compiled.

    A row at a point depends on the table there alone, so one backward pass for each residual serves
    all points. Numbers of points are filled up to one of a few sizes, so that few programs are
    compiled.

    Arguments:
        residuals: from a table (keys, …, points) and arrays of the place, whose last axis is that
            of the points, too, to (residuals, points).
        sizes: numbers of points, ascending; more than the largest are done part by part.
        can_be_shared: whether a share of what is not linear in the table can be asked for.

    Attributes:
        seconds: that compiling took.
    """

    def __init__(
        self,
        residuals: Callable[..., jax.Array],
        sizes: Sequence[int],
        can_be_shared: bool = False,
    ):
        self.residuals, self.sizes, self.can_be_shared = residuals, sizes, can_be_shared
        self._seconds: dict[int, float] = {}  # by size, of the first run
        self._program: Callable[..., Any] | None = None

    @property
    def seconds(self) -> float:
        """The seconds that were spent compiling."""
        return sum(self._seconds.values())

    def __call__(
        self, table: np.ndarray, *place: np.ndarray, share: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The residuals, and how they change with every derivative.

        Arguments:
            table: the derivatives at the points, (keys, …, points).
            place: what else the residuals are a function of.
            share: of what is not linear in the table; 1 for the residuals themselves.

        Returns: (residuals, points) and (residuals, keys, …, points).
        """
        number, found = table.shape[-1], []
        size = next((s for s in self.sizes if s >= number), self.sizes[-1])
        for first in range(0, max(number, 1), size):
            part = [a[..., first : first + size] for a in (table, *place)]
            if beyond := size - part[0].shape[-1]:
                part = [np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, beyond)], "edge") for a in part]
            found.append(self._run(size, share, *part))
        if len(found) == 1:
            left, slopes = found[0]
        else:
            left, slopes = (np.concatenate(each, -1) for each in zip(*found))
        return left[..., :number], slopes[..., :number]

    def _run(self, size: int, share: float, *given: np.ndarray) -> Any:
        start = time.perf_counter()
        if self._program is None:
            self._program = jax.jit(self._linearised, compiler_options=options_for_few_runs())
        found = [np.asarray(each) for each in self._program(share, *given)]
        self._seconds.setdefault(size, time.perf_counter() - start)
        return found

    def _linearised(self, share: Any, table: Any, *place: Any) -> Any:
        def at(values: Any) -> Any:
            left = self.residuals(values, *place)
            if not self.can_be_shared:
                return left
            nothing = jnp.zeros_like(values)
            first, rest = jax.jvp(lambda v: self.residuals(v, *place), (nothing,), (values,))
            return share * left + (1 - share) * (first + rest)

        left, back = jax.vjp(at, table)
        rows = [jnp.zeros_like(left).at[i].set(1.0) for i in range(len(left))]
        return left, jnp.stack([back(row)[0] for row in rows])
