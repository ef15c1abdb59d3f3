"""The two kinds of network: `SPINN`, one small network per axis, and `PINN`, one network of all coordinates.

Each is a frozen description (`SPINN(rank=32, width=64)`) that `build` turns into an Equinox module with weights, for
a given box. Both share their bodies (MLP and modified MLP), which take jets to jets, so that a single pass yields the
value and all derivatives along an axis.
"""

from .architectures import NETWORKS, PINN, SPECTRAL, SPINN, network_name
from .axis import ROOT, Axis
from .bodies import MLP, Layer, ModifiedMLP, first_layer, matrices
from .pointwise import PointwiseNetwork
from .separable import SeparableNetwork, filled

__all__ = [
    "MLP",
    "NETWORKS",
    "PINN",
    "ROOT",
    "SPECTRAL",
    "SPINN",
    "Axis",
    "Layer",
    "ModifiedMLP",
    "PointwiseNetwork",
    "SeparableNetwork",
    "filled",
    "first_layer",
    "matrices",
    "network_name",
]
