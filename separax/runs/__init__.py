"""The folder of a run: it survives being stopped, and can be read without the code that made it."""

from .describing import to_data
from .files import (
    Damaged,
    digest_of,
    leaves,
    npz,
    read_json,
    read_npz,
    seal,
    with_leaves,
    write,
    writing,
)
from .folder import Run, kept_settings, settings
from .keeping import check, keep, keep_record, keep_solution, save
from .loading import load
from .states import Busy

__all__ = [
    "Busy", "Damaged", "Run", "check", "digest_of", "keep", "keep_record", "keep_solution",
    "kept_settings", "leaves", "load", "npz", "read_json", "read_npz", "save", "seal", "settings",
    "to_data", "with_leaves", "write", "writing",
]  # fmt: skip
