"""The training engine: parameters in, parameters out."""

from .hooks import Hooks, TensorBoard
from .progress import display
from .trainer import Compiled, Trainer, TrainState, program_bytes

__all__ = ["Compiled", "Hooks", "TensorBoard", "TrainState", "Trainer", "display", "program_bytes"]
