"""From a network and an equation to the terms of a loss, and to their linearisation."""

from .linearise import linearised, roots
from .loss import Loss
from .model import Model
from .objective import Objective
from .output_layers import block_sizes

__all__ = ["Loss", "Model", "Objective", "block_sizes", "linearised", "roots"]
