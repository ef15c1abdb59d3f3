"""separax: separable physics-informed neural networks in JAX."""

from .causal import Causal
from .conditions import Condition, Data, Dirichlet, Initial, Neumann, Periodic, Robin
from .domain import Box, GaussLegendre, Grid, Lattice, Points, Uniform, quadrature
from .errors import DerivativeError, Diverged, InputError
from .fields import Field, curl, div, grad, laplacian
from .hooks import TensorBoard
from .networks import PINN, SPINN
from .optimisers import BFGS, LBFGS, SOAP, Adam, GaussNewton, Solve
from .problem import Problem
from .recipe import Recipe
from .runs import load
from .separable import Separable
from .solution import Ensemble, Solution
from .solving import solve

__version__ = "0.1.0"
__all__ = [
    "BFGS", "LBFGS", "PINN", "SOAP", "SPINN", "Adam", "Box", "Causal", "Condition", "Data", "DerivativeError", "Dirichlet", "Diverged", "Ensemble", "Field",
    "GaussLegendre", "GaussNewton", "Grid", "Initial", "InputError", "Lattice", "Neumann", "Periodic", "Points", "Problem", "Recipe", "Robin",
    "Separable", "Solution", "Solve", "TensorBoard", "Uniform", "curl", "div", "grad", "laplacian", "load", "quadrature", "solve",
]  # fmt: skip
