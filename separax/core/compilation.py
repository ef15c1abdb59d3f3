"""How XLA compiles a program, by how often the program runs; and the folder where programs and
arrays are kept that need not be computed twice."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from . import tuning
from .devices import default_device, processors

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


# --- options --------------------------------------------------------------------------------------

Options = dict[str, str | bool] | None

LISTEN_SECONDS = 0.05  # between two looks at whether to wait for the compiler any longer
# Kernels written for a step's own products take a fifth less time than those of a library. Finding
# the best of them takes seconds for the paper's networks, and minutes for wide ones (one NVIDIA
# H200): a step that runs 50,000 times is worth the seconds alone.
FROM_LIBRARY: dict[str, str | bool] = {"xla_gpu_enable_triton_gemm": False}
# What runs once or a few times: trying out kernels on a GPU, or the last of optimisation on a CPU,
# would take longer than it saves.
HASTY: dict[str, dict[str, str | bool]] = {
    "gpu": {**FROM_LIBRARY, "xla_gpu_autotune_level": "0"},
    "cpu": {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": "1"},
}


def options_for_training(columns: int) -> Options:
    """XLA's options for training steps.

    Arguments:
        columns: of the network, of all components together.
    """
    keep_programs()
    large = default_device().platform == "gpu" and columns > tuning.WIDE_NETWORK
    return _understood(FROM_LIBRARY) if large else None


def options_for_few_runs() -> Options:
    """XLA's options for programs that run a few times: evaluations, and solves, whose few large
    steps spend their time in libraries."""
    keep_programs()
    return _understood(HASTY.get(default_device().platform, {}))


def options_for_one_run() -> Options:
    """XLA's options for a program that runs once."""
    return _understood({"xla_backend_optimization_level": "0"})


def _understood(options: dict[str, str | bool]) -> Options:
    """Those of the options that the installed XLA has: it refuses to compile anything with others.
    JAX 0.12 has only the new emitters on a CPU."""
    return {name: value for name, value in options.items() if _is_understood(name, value)} or None


@functools.cache
def _is_understood(name: str, value: str | bool) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


class NotAwaited(Exception):
    """A program that is still being compiled when a run is to stop."""


def compiled_unless(stopped: Callable[[], bool], lowered: Any, options: Options) -> Any:
    """Compiles a program beside whoever waits for it: XLA hears no Ctrl-C while it compiles.

    Arguments:
        stopped: whether to wait no longer, which raises `NotAwaited`. The compiler goes on beside,
            and the cache keeps what it makes.
        lowered: the program, as `jax.jit(function).lower(…)` returns it.
        options: of XLA.

    Returns:
        The compiled program.
    """
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(lowered.compile(options))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="separax compiles").start()
    while not stopped():
        if wait([done], LISTEN_SECONDS).done:
            return done.result()
    raise NotAwaited
