"""The training engine: parameters in, parameters out."""

from .hooks import AbstractHook, Hooks, TensorBoard
from .interrupt import Interrupt
from .progress import Progress, Report, Tell, clock, display
from .session import Session, check_memory, device_for
from .trainer import Compiled, Trainer, TrainState, program_bytes

__all__ = [
    "AbstractHook", "Compiled", "Hooks", "Interrupt", "Progress", "Report",
    "Session", "Tell", "TensorBoard", "TrainState", "Trainer", "check_memory", "clock",
    "device_for", "display", "program_bytes",
]  # fmt: skip
