"""Which device works, how much memory it has free, and in how many threads."""

from __future__ import annotations

import contextlib
import platform as machine
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import scipy
from threadpoolctl import threadpool_limits

from .errors import MemoryPrediction


def default_device() -> Any:
    """The default device: `jax_default_device` where it is set, else the first local one."""
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if chosen is None:
        return jax.local_devices()[0]
    return jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen


def device_name() -> str:
    """The name of the default device: "NVIDIA H200", or the processor's."""
    if default_device().platform != "cpu":
        return default_device().device_kind
    names = processors("model name")
    return f"{names[0]} × {len(names)}" if names else machine.processor() or "cpu"


def processors(*facts: str) -> list[str]:
    """What the system says of its processors: one of these facts of each; [] where it does not."""
    try:
        with open("/proc/cpuinfo") as file:
            return [line.split(":", 1)[1].strip() for line in file if line.startswith(facts)]
    except OSError:
        return []


@contextlib.contextmanager
def on_cpu() -> Iterator[Any]:
    """On the processor: a lattice of a million points takes it a moment, where a GPU's compiler
    takes several seconds before it begins."""
    host = jax.local_devices(backend="cpu")[0]
    with jax.default_device(host):
        yield host


def to_device(tree: Any, host: Any) -> Any:
    """A tree with its arrays on a device.

    Arguments:
        tree: a pytree; what is no array in it stays what it is.
        host: the device.
    """
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, host) if eqx.is_array(leaf) else leaf, tree
    )


# --- memory ---------------------------------------------------------------------------------------


def available() -> int | None:
    """The free bytes of the default device; None where they are not known."""
    device = default_device()
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    known = [free for free in (_of_machine(), _of_group()) if free is not None]
    return min(known, default=None)


def _of_machine(proc: Path = Path("/proc")) -> int | None:
    try:
        fields = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


# of control groups: the folder, and the files that hold the limit, what is used, and in its
# statistics what is used by files that were read, which are given up for more
GROUPS_2 = ("", "memory.max", "memory.current", "inactive_file")
GROUPS_1 = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _of_group(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What a container or a batch system leaves to this process and its like: beyond that it is
    killed, whatever the machine has."""
    try:
        lines = [line.split(":", 2) for line in (proc / "self" / "cgroup").read_text().splitlines()]
    except OSError:
        return None
    found = []
    for number, names, path in lines:
        if number != "0" and "memory" not in names.split(","):
            continue
        below, limit, used, stale = GROUPS_2 if number == "0" else GROUPS_1
        root = groups / below
        here = root / path.lstrip("/")
        for folder in (here, *here.parents):  # a limit of a group above holds, too
            if folder == root.parent:
                break
            try:
                most, now = (int((folder / name).read_text()) for name in (limit, used))
                statistics = (folder / "memory.stat").read_text().splitlines()
                kept = dict(line.split() for line in statistics)
                found.append(most - now + int(kept.get(stale, 0)))
            except (OSError, ValueError):  # no limit here ("max"), or no such group
                continue
    return max(0, min(found)) if found else None


def check_fits(what: str, needed: int | None, advice: str) -> None:
    """Refuses what needs more memory than there is.

    Arguments:
        what: would need it, in words.
        needed: the number of bytes; None where it is not known.
        advice: what to do instead.
    """
    free = available()
    if needed is not None and free is not None and needed > free:
        raise MemoryPrediction(
            f"{what} would need about {in_bytes(needed)}, but {in_bytes(free)} are free: {advice}"
        )


def in_bytes(number: float) -> str:
    """Bytes in words: "1.2 GB".

    Arguments:
        number: of bytes.
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if number < 1000 or unit == "PB":
            return f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError


# --- threads --------------------------------------------------------------------------------------

# Columns of a matrix from which on a decomposition is worth a second thread. The threads of
# OpenBLAS wait for each other by spinning: where other processes have the cores, two of them take
# ten times as long as one (n = 300: 3.0 instead of 0.5 ms; n = 1,000: 6 instead of 10 on two free
# cores).
WORTH_THREADS = 1_000


@contextlib.contextmanager
def threads_for(columns: int) -> Iterator[None]:
    """Decompositions in one thread where they are small, in as many as there are otherwise.

    Arguments:
        columns: of the largest matrix that is decomposed.
    """
    _ = scipy.linalg  # loads the library whose threads are counted, at its first use
    with threadpool_limits(1 if columns < WORTH_THREADS else None, user_api="blas"):
        yield
