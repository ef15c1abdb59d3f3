"""The folder of a run: kept so that it survives being stopped, and can be read without the code that made it."""

from .checking import check
from .files import Damaged, write
from .folder import Run, read_settings
from .keeping import keep, keep_record, keep_solution
from .loading import load
from .lock import Busy
from .settings import settings

__all__ = [
    "Busy",
    "Damaged",
    "Run",
    "check",
    "keep",
    "keep_record",
    "keep_solution",
    "load",
    "read_settings",
    "settings",
    "write",
]
