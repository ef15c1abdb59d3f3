"""How to solve a problem: network, points, optimisers, weightings."""

from .optimisers.base import (
    AbstractGradientOptimiser,
    AbstractMinimiser,
    AbstractOptimiser,
    Layers,
    Objective,
)
from .optimisers.bfgs import BFGS
from .optimisers.gauss_newton import GaussNewton
from .optimisers.gradient import Adam
from .optimisers.lbfgs import LBFGS
from .optimisers.output_layers import Solve
from .optimisers.soap import SOAP
from .optimisers.wrapped import Optax
from .recipe import Recipe, Stage
from .weightings import AbstractWeighting, Causal, Constant, EarlyFirst, Evaluation

__all__ = [
    "BFGS",
    "LBFGS",
    "SOAP",
    "AbstractGradientOptimiser",
    "AbstractMinimiser",
    "AbstractOptimiser",
    "AbstractWeighting",
    "Adam",
    "Causal",
    "Constant",
    "EarlyFirst",
    "Evaluation",
    "GaussNewton",
    "Layers",
    "Objective",
    "Optax",
    "Recipe",
    "Solve",
    "Stage",
]
