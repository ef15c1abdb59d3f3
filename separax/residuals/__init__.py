"""From a network and an equation to the terms of a loss, and to their linearisation."""

from .all_parameters import Residuals
from .linearise import linearised, roots
from .loss import Loss
from .model import Model
from .output_layers import Layers, block_sizes

__all__ = ["Layers", "Loss", "Model", "Residuals", "block_sizes", "linearised", "roots"]
