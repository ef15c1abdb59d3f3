"""How to solve a problem: network, points, optimisers, weightings."""

from .optimisers.base import (
    AbstractGradientOptimiser,
    AbstractMinimiser,
    AbstractOptimiser,
    Layers,
    Objective,
)
from .optimisers.gradient import Adam, Optax
from .optimisers.least_squares import GaussNewton
from .optimisers.output_layers import Solve
from .optimisers.quasi_newton import BFGS, LBFGS
from .optimisers.soap import SOAP
from .part import as_code
from .recipe import Recipe, Stage
from .weightings import AbstractWeighting, Causal, Constant, EarlyFirst, Evaluation

__all__ = [
    "BFGS", "LBFGS", "SOAP", "AbstractGradientOptimiser", "AbstractMinimiser",
    "AbstractOptimiser", "AbstractWeighting", "Adam", "Causal", "Constant", "EarlyFirst",
    "Evaluation", "GaussNewton", "Layers", "Objective", "Optax", "Recipe", "Solve", "Stage",
    "as_code",
]  # fmt: skip
