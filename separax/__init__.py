"""separax: separable physics-informed neural networks in JAX."""

from .domain import Box, GaussLegendre, Grid, Lattice, Points, Uniform, quadrature
from .errors import DerivativeError, Diverged, InputError
from .fields import Field, curl, div, grad, laplacian
from .networks import PINN, SPINN
from .optimisers import Adam
from .problem import Condition, Data, Dirichlet, Initial, Neumann, Periodic, Problem, Robin
from .recipe import Recipe
from .separable import Separable
