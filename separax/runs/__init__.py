"""The folder of a run: it survives being stopped, and can be read without the code that made it."""

from .describing import described, leaves, settings
from .files import Damaged, npz, read_json, read_npz, seal, shown, write, writing
from .folder import Busy, Run, read_settings
from .keeping import check, keep, keep_record, keep_solution, save
from .loading import load

__all__ = [
    "Busy",
    "Damaged",
    "Run",
    "check",
    "described",
    "keep",
    "keep_record",
    "keep_solution",
    "leaves",
    "load",
    "npz",
    "read_json",
    "read_npz",
    "read_settings",
    "save",
    "seal",
    "settings",
    "shown",
    "write",
    "writing",
]
