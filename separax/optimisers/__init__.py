"""Optimisers, one file each. A recipe has one, or several that follow each other.

An optimiser has `steps`, its own number of them or None for the recipe's; `transform(steps)`, what it does in so many
steps; `searches`, whether it evaluates the loss itself; `solves`, whether it solves linear equations, in few long steps in
float64; and what it `sees`: parameters as one "vector", as the "matrices" of the layers, with the "residuals" they leave, or output
"layers" alone, which takes a separable network:

    searches   transform(steps) gives    a step
    False      an optax transformation   takes one gradient, on whatever points there are
    True       a `Search`                compares losses along a line, so its points must stay what they are
"""

from typing import Any, ClassVar, Protocol

from .adam import Adam
from .bfgs import BFGS
from .gauss_newton import GaussNewton
from .lbfgs import LBFGS
from .search import Search
from .soap import SOAP
from .solve import Solve


class Optimiser(Protocol):
    """What the engine asks of an optimiser."""

    searches: ClassVar[bool]
    solves: ClassVar[bool]
    sees: ClassVar[str]

    @property
    def steps(self) -> int | None: ...

    def transform(self, steps: int) -> Any: ...


__all__ = ["BFGS", "LBFGS", "SOAP", "Adam", "GaussNewton", "Optimiser", "Search", "Solve"]
