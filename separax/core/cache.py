"""The cache folder: arrays that were computed, and the programs that JAX compiled."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import warnings
from importlib import metadata
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from .devices import processors

MOST_BYTES = 2 * 10**9  # of programs: when there are more, those used longest ago go
LEAST_SECONDS = 0.0  # of compiling: a solve has many small programs, which together take seconds
OFF = "off"  # as SEPARAX_CACHE: nothing is kept


def cache_folder() -> Path | None:
    """The folder for what need not be computed twice.

    Returns: $SEPARAX_CACHE, or `separax` in the system's cache folder; None where SEPARAX_CACHE is
    "off". Raises `OSError` or `RuntimeError` where there is no home folder.
    """
    if chosen := os.environ.get("SEPARAX_CACHE"):
        return None if chosen == OFF else Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "separax"


@functools.cache
def keep_programs() -> None:
    """Turns on JAX's cache of compiled programs for this process.

    A second process then reads a program instead of compiling it. Nothing is changed where JAX was
    given a folder already (`jax_compilation_cache_dir`), and a folder that cannot be used is none.
    """
    chosen = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if chosen is not None:
        return
    try:
        base = cache_folder()
        if base is None:
            return
        folder = base / "programs" / _machine()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return
        forget_oldest(folder, MOST_BYTES)
    except (OSError, RuntimeError):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    compilation_cache.reset_cache()  # what was compiled before has told JAX that there is none
    # a full disk, or a file that another process is just writing: then a program is compiled
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def forget_oldest(folder: Path, most: int) -> None:
    """Removes files of a folder, those used longest ago first, until all of them have at most
    `most` bytes. Another process may do the same."""
    with os.scandir(folder) as entries:
        files = [(entry.path, entry.stat()) for entry in entries if entry.is_file()]
    files.sort(key=lambda file: max(file[1].st_atime, file[1].st_mtime))
    total = sum(stat.st_size for _, stat in files)
    for path, stat in files:
        if total <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= stat.st_size


def _machine() -> str:
    """What a program depends on that JAX does not look at: the processor it was compiled for."""
    flags = next(iter(processors("flags", "Features")), "")
    text = f"{platform.machine()} {platform.processor()} {flags}"
    return f"jaxlib-{metadata.version('jaxlib')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
