"""The training engine: parameters in, parameters out."""

from .hooks import AbstractHook, Hooks, TensorBoard
from .progress import Progress, Report, display
from .session import Interrupt, Session, check_memory, device_for
from .trainer import Compiled, Trainer, TrainState, program_bytes

__all__ = [
    "AbstractHook", "Compiled", "Hooks", "Interrupt", "Progress", "Report",
    "Session", "TensorBoard", "TrainState", "Trainer", "check_memory", "device_for", "display",
    "program_bytes",
]  # fmt: skip
