"""What an optimiser that evaluates the loss itself gives the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

from jaxtyping import Array, Float


class Optimiser(Protocol):
    """What the engine asks of an optimiser."""

    searches: ClassVar[bool]
    solves: ClassVar[bool]
    sees: ClassVar[str]

    @property
    def steps(self) -> int | None: ...

    def transform(self, steps: int) -> Any: ...


Parameters = Float[Array, " parameters"]
Scalar = Float[Array, ""]


class Objective(Protocol):
    """A loss on fixed points, as a function of the parameters; and for who solves for output layers, what they are in it.

    A step for these is one vector of several blocks, whose `sizes` are known: one per axis, one for the core if there is one, and the
    unknowns of the equation. `phases` are the blocks that may be solved for alone, one after the other.
    """

    sizes: tuple[int, ...]
    core: bool
    phases: tuple[tuple[int, ...], ...]

    def __call__(self, params: Parameters) -> Scalar: ...

    def basis(
        self, params: Parameters
    ) -> Any: ...  # per axis and component: orthonormal combinations of its features

    def normal(self, params: Parameters, basis: Any) -> Any: ...  # a `separax.normal.Normal`

    def moved(self, params: Parameters, step: Array, basis: Any) -> Parameters: ...

    def left(
        self, params: Parameters
    ) -> Float[Array, " residuals"]: ...  # of whose squares the loss is the sum

    def resized(self, params: Parameters, size: float) -> Parameters: ...

    def balanced(
        self, params: Parameters
    ) -> Parameters: ...  # the same function, its factors of one size


class Linearised(Protocol):
    """A loss on fixed points, as a function of the parameters, and the residuals of whose squares it is the sum."""

    separable: bool  # whether there are normal equations

    def __call__(self, params: Parameters) -> Scalar: ...

    def left(self, params: Parameters) -> Float[Array, " residuals"]: ...

    def normal(self, params: Parameters) -> Any: ...  # a `separax.normal.Normal` in all parameters


class Search(NamedTuple):
    """`init(params, value, gradient)` makes a state whose `value` is the loss at the parameters;
    `update(params, state, objective)` makes the next parameters and their state."""

    init: Callable[[Parameters, Scalar, Parameters], Any]
    update: Callable[[Parameters, Any, Any], tuple[Parameters, Any]]
