"""The two kinds of network: `SPINN`, one small network per axis, and `PINN`, one network of all coordinates."""

from .architectures import NETWORKS, PINN, SPECTRAL, SPINN, network_name
from .bases import Line, function_degrees, slow_to_fast
from .bodies import ModifiedMLP, matrices
from .encodings import SQUARE_ROOT, Axis
from .known_part import Coordinates, KnownPart
from .piecewise import PiecewiseProducts
from .pointwise_network import PointwiseNetwork, along
from .separable_network import SeparableNetwork, filled
from .taylor import MAX_ORDER
from .values import SeparableSource, highest, is_thin, sources

__all__ = [
    "MAX_ORDER",
    "NETWORKS",
    "PINN",
    "SPECTRAL",
    "SPINN",
    "SQUARE_ROOT",
    "Axis",
    "Coordinates",
    "KnownPart",
    "Line",
    "ModifiedMLP",
    "PiecewiseProducts",
    "PointwiseNetwork",
    "SeparableNetwork",
    "SeparableSource",
    "along",
    "filled",
    "function_degrees",
    "highest",
    "is_thin",
    "matrices",
    "network_name",
    "slow_to_fast",
    "sources",
]
