"""The folder of a run: kept so that it survives being stopped, and can be read without the code that made it."""

from .checking import check
from .files import Damaged, write
from .folder import Run, read_settings
from .keeping import keep, keep_record, keep_solution
from .loading import load
from .settings import settings

__all__ = ["Damaged", "Run", "check", "keep", "keep_record", "keep_solution", "load", "read_settings", "settings", "write"]
