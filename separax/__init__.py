"""separax: separable solutions of differential equations in JAX."""

from .core import DerivativeError, Diverged, InputError
from .domain import AbstractSampler, Box, GaussLegendre, Grid, Lattice, Points, Uniform, quadrature
from .equations import (
    AbstractCondition,
    Condition,
    Data,
    Dirichlet,
    Field,
    Initial,
    Neumann,
    Part,
    Periodic,
    Problem,
    Robin,
    Term,
    curl,
    div,
    grad,
    laplacian,
    tabulated,
)
from .networks import (
    PINN,
    SPINN,
    AbstractActivation,
    AbstractBody,
    AbstractEncoding,
    AbstractNetwork,
)
from .recipe import (
    BFGS,
    LBFGS,
    SOAP,
    AbstractGradientOptimiser,
    AbstractMinimiser,
    AbstractOptimiser,
    AbstractWeighting,
    Adam,
    Causal,
    Constant,
    EarlyFirst,
    GaussNewton,
    Optax,
    Recipe,
    Solve,
)
from .runs import load
from .separable import AbstractFormat, Separable
from .solution import Ensemble, Solution
from .solving import solve
from .training import AbstractHook, TensorBoard

__version__ = "0.1.0"
__all__ = [
    "BFGS", "LBFGS", "PINN", "SOAP", "SPINN", "AbstractActivation", "AbstractBody",
    "AbstractCondition", "AbstractEncoding", "AbstractFormat", "AbstractGradientOptimiser",
    "AbstractHook", "AbstractMinimiser", "AbstractNetwork", "AbstractOptimiser",
    "AbstractSampler", "AbstractWeighting", "Adam", "Box", "Causal", "Condition", "Constant",
    "Data", "DerivativeError", "Dirichlet", "Diverged", "EarlyFirst", "Ensemble", "Field",
    "GaussLegendre", "GaussNewton", "Grid", "Initial", "InputError", "Lattice", "Neumann",
    "Optax", "Part", "Periodic", "Points", "Problem", "Recipe", "Robin", "Separable",
    "Solution", "Solve", "TensorBoard", "Term", "Uniform", "curl", "div", "grad", "laplacian",
    "load", "quadrature", "solve", "tabulated",
]  # fmt: skip
