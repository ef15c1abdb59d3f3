"""Networks: `SPINN`, one small body per axis, and `PINN`, one body of all coordinates."""

from .architectures import NETWORKS, PINN, SPECTRAL, SPINN, AbstractArchitecture, network_name
from .bases import Line, slow_to_fast
from .bodies import MLP, AbstractBody, ModifiedMLP
from .encodings import SQUARE_ROOT, AbstractEncoding, Chebyshev, Coordinate, Fourier
from .layers import AbstractActivation, Sin, Tanh
from .network import AbstractNetwork, Coordinates, KnownPart, highest
from .piecewise import PiecewiseProducts
from .pointwise_network import PointwiseNetwork, along
from .separable_network import SeparableNetwork, distinct, filled, is_thin
from .taylor import MAX_ORDER

__all__ = [
    "MAX_ORDER", "MLP", "NETWORKS", "PINN", "SPECTRAL", "SPINN", "SQUARE_ROOT",
    "AbstractActivation", "AbstractArchitecture", "AbstractBody", "AbstractEncoding",
    "AbstractNetwork", "Chebyshev", "Coordinate", "Coordinates", "Fourier", "KnownPart", "Line",
    "ModifiedMLP", "PiecewiseProducts", "PointwiseNetwork", "SeparableNetwork", "Sin", "Tanh",
    "along", "distinct", "filled", "highest", "is_thin", "network_name", "slow_to_fast",
]  # fmt: skip
