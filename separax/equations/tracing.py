"""Running an equation on nothing, to find out what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import InputError, add_up
from ..separable import Key, Varying
from .field import Field

if TYPE_CHECKING:
    from .problem import Problem


class Tracer:
    """A source of values that only writes down what is asked of it."""

    def __init__(
        self,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        waits: Callable[..., bool] = lambda *shapes: False,
    ):
        self.axes, self.shape, self.dtype = axes, shape, jnp.float32
        self.waits = waits  # of which coefficients it is told, as a separable network is: by their shape and the lattice's
        self.asked: list[
            dict[Key, float | None]
        ] = []  # combinations; None: a coefficient that is no plain number
        self.opened = False  # whether plain values of a field were handed out
        self.note: Callable[[Mapping[Key, Any]], None] = lambda terms: None

    def exposed(self) -> None:
        self.opened = True

    @property
    def needs(self) -> frozenset[Key]:
        return frozenset(key for terms in self.asked for key in terms)

    @property
    def merged(self) -> list[frozenset[Key]]:
        return [frozenset(terms) for terms in self.asked]

    def values(self, terms: Mapping[Key, Any]) -> Array:
        self.asked.append({key: c if isinstance(c, float) else None for key, c in terms.items()})
        self.note(terms)
        return jnp.zeros(self.shape, self.dtype)

    def takes(self, coefficient: tuple[int, ...]) -> bool:
        return self.waits(coefficient, self.shape)

    def weighed(self, terms: Mapping[Key, Any], varying: Varying) -> Array:
        return add_up([self.values(terms), *(array * self.values(some) for array, some in varying)])


def by_name(result: Any) -> dict[str, Any]:
    if isinstance(result, Mapping):
        if not result:
            raise InputError("residual returned an empty dict: return {'name': expression, …}")
        return {str(k): v for k, v in result.items()}
    if isinstance(result, (tuple, list)):
        return {f"residual {i + 1}": r for i, r in enumerate(result)}
    return {"residual": result}


def values_of(result: Any, shape: tuple[int, ...], argument: str) -> Array:
    """An expression's values, refused unless there is one per point."""
    try:
        values = result._values() if isinstance(result, Field) else jnp.asarray(result)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument} must return an expression of the fields, got {result!r} ({error})"
        ) from None
    if values.shape != tuple(shape):
        raise InputError(
            f"{argument} returned an array of shape {values.shape} where there is one value per point, {tuple(shape)}: return an expression of the fields, without sums or reshapes"
        )
    return values


def is_linear(problem: Problem) -> bool:
    tracer, coordinates, unknowns = problem._example()
    tracer.waits = lambda *shapes: True
    parts: list[Any] = []

    def run(c: Mapping[str, Array], k: Mapping[str, Array]) -> int:
        found = problem.expressions(tracer, c, k).values()
        parts.extend(e._part if isinstance(e, Field) else None for e in found)
        return 0

    jax.eval_shape(run, coordinates, unknowns)
    # an array made from u.value may be anything
    return (
        not problem.unknowns
        and not tracer.opened
        and all(p is not None and not p.terms and not p.pairs for p in parts)
    )
