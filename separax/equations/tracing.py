"""Running functions of fields on nothing, to find out what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core import InputError, shown
from ..separable import AbstractValues, Key
from .field import Field

if TYPE_CHECKING:
    from .problem import Problem


class Tracer(AbstractValues):
    """Values that are all zero, and that write down what is asked of them.

    Attributes:
        asked: the linear combinations of derivatives, in the order in which they were asked for;
            None in place of a coefficient that is no plain number.
        uses_plain_values: whether plain values of a field were handed out.
    """

    def __init__(
        self,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: Any = jnp.float32,
        *,
        accepts: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda *shapes: False,
        on_request: Callable[[Mapping[Key, Any]], None] = lambda terms: None,
    ):
        self.axes, self.shape, self.dtype = axes, shape, dtype
        self.asked: list[dict[Key, float | None]] = []
        self.uses_plain_values = False
        self._accepts, self._on_request = accepts, on_request

    @property
    def derivatives(self) -> frozenset[Key]:
        """All derivatives that were asked for."""
        return frozenset(key for terms in self.asked for key in terms)

    def values(self, terms: Mapping[Key, Any]) -> Array:
        self.asked.append({key: c if isinstance(c, float) else None for key, c in terms.items()})
        self._on_request(terms)
        return jnp.zeros(self.shape, self.dtype)

    def accepts_coefficient(self, shape: tuple[int, ...]) -> bool:
        return self._accepts(shape, self.shape)

    def note_plain_values(self) -> None:
        self.uses_plain_values = True


@dataclass(frozen=True)
class Trace:
    """What a function of fields did when it was run on nothing.

    Attributes:
        result: what it returned. Its arrays are no numbers: only its structure may be looked at.
        asked: the linear combinations of derivatives that it asked for.
        derivatives: all the derivatives in them.
        uses_plain_values: whether it took plain values of a field.
    """

    result: Any
    asked: tuple[dict[Key, float | None], ...]
    derivatives: frozenset[Key]
    uses_plain_values: bool


def by_name(result: Any) -> dict[str, Any]:
    """What a residual function returned, by name."""
    if isinstance(result, Mapping):
        if not result:
            raise InputError("residual returned an empty dict: return {'name': expression, …}")
        return {str(k): v for k, v in result.items()}
    if isinstance(result, (tuple, list)):
        return {f"residual {i + 1}": r for i, r in enumerate(result)}
    return {"residual": result}


def values_of(result: Any, shape: tuple[int, ...], argument: str) -> Array:
    """An expression's values, refused unless there is one per point.

    Arguments:
        result: a field or an array.
        shape: of the points.
        argument: what returned it, for the refusal.

    Returns:
        The array of values.
    """
    try:
        values = result.evaluate() if isinstance(result, Field) else jnp.asarray(result)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument} must return an expression of the fields, got {shown(result)} ({error})"
        ) from None
    if values.shape != tuple(shape):
        raise InputError(
            f"{argument} returned an array of shape {values.shape} where there is one value per"
            f" point, {tuple(shape)}: return an expression of the fields, without sums or reshapes"
        )
    return values


def is_linear(problem: Problem) -> bool:
    """Whether every residual of a problem is linear in the fields."""

    def residuals(at: Any) -> list[Any]:
        return list(problem.expressions(at.source, at.coordinates, at.unknowns).values())

    trace = problem.trace(residuals, accepts=lambda *shapes: True)
    parts = [e.known_polynomial if isinstance(e, Field) else None for e in trace.result]
    # an array made from u.value may be anything
    return (
        not problem.unknowns
        and not trace.uses_plain_values
        and all(p is not None and p.is_known for p in parts)
    )
