"""The training engine: parameters in, parameters out."""

from .hooks import AbstractHook, Hooks, TensorBoard
from .progress import display
from .session import Interrupt, Programs, Session, check_memory, device_for
from .trainer import Compiled, Trainer, TrainState, program_bytes

__all__ = [
    "AbstractHook",
    "Compiled",
    "Hooks",
    "Interrupt",
    "Programs",
    "Session",
    "TensorBoard",
    "TrainState",
    "Trainer",
    "check_memory",
    "device_for",
    "display",
    "program_bytes",
]
