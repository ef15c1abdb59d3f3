"""How much memory there is, so that what cannot fit is refused before it is tried."""

from __future__ import annotations

from pathlib import Path

from .devices import default_device
from .errors import MemoryPrediction


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
