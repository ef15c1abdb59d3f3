"""What several files of tests need, and what makes them quick: programs that are compiled in haste,
once for all processes, and a core of its own for each of several workers."""

import contextlib
import ctypes
import gc
import os

# Nearly all the time goes into compiling, for a few steps each: less optimisation takes a third.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Threads of two workers on the same cores wait for each other, spinning. JAX makes as many threads
# as there are cores for the process.
if hasattr(os, "sched_setaffinity") and (worker := os.environ.get("PYTEST_XDIST_WORKER")):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})

import jax
import pytest

if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1" and jax.__version_info__ < (0, 12):
    # the older way of writing kernels; XLA ends the process where it does not know an option
    older = "--xla_cpu_use_fusion_emitters=false"
    if older not in (flags := os.environ.get("XLA_FLAGS", "")):
        os.environ["XLA_FLAGS"] = f"{flags} {older}"

from separax.core import keep_programs

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # Programs are kept as those of users are, in a folder beside: for the other worker, for what
    # tests start, and for the next run.
    with pytest.MonkeyPatch.context() as patch:
        kept = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        patch.setenv("SEPARAX_CACHE", os.path.join(kept, "separax", "tests"))
        keep_programs()
    if folder := jax.config.jax_compilation_cache_dir:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Of several workers one runs all tests of a file, which share what they compile."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """Programs of a file are let go of at its end: each takes two megabytes."""
    yield
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # no glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory):
    """Nothing touches the user's own cache. One folder for all tests of a file, so that a reference is computed once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPARAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield
