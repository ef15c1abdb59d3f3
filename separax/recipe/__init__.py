"""How to solve a problem: network, points, optimisers, weightings."""

from .optimisers.bfgs import BFGS
from .optimisers.gauss_newton import GaussNewton
from .optimisers.gradient import Adam
from .optimisers.lbfgs import LBFGS
from .optimisers.output_layers import Solve
from .optimisers.soap import SOAP
from .recipe import LOOK, Recipe
from .weightings import EARLY, RATES, Causal, causal_weights, early_inputs, slice_means, time_slices

__all__ = [
    "BFGS",
    "EARLY",
    "LBFGS",
    "LOOK",
    "RATES",
    "SOAP",
    "Adam",
    "Causal",
    "GaussNewton",
    "Recipe",
    "Solve",
    "causal_weights",
    "early_inputs",
    "slice_means",
    "time_slices",
]
