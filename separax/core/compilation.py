"""How XLA compiles a program, by how often the program runs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import jax

from . import tuning
from .cache import keep_programs
from .devices import default_device

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
