"""What an optimiser that evaluates the loss itself gives the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float

Parameters = Float[Array, " parameters"]
Scalar = Float[Array, ""]


class Search(NamedTuple):
    """`init(params, value, gradient)` makes a state whose `value` is the loss at the parameters;
    `update(params, state, function)` makes the next parameters and their state."""

    init: Callable[[Parameters, Scalar, Parameters], Any]
    update: Callable[[Parameters, Any, Callable[[Parameters], Scalar]], tuple[Parameters, Any]]
