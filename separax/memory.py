"""How much memory there is, so that what cannot fit is refused before it is tried."""

from __future__ import annotations

from .devices import current
from .errors import MemoryPrediction


def available() -> int | None:
    """Free bytes on the device JAX uses, or None where nobody tells."""
    device = current()
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def check_fits(what: str, needed: int | None, advice: str) -> None:
    """Refuses `what` if it needs more than there is."""
    free = available()
    if needed is not None and free is not None and needed > free:
        raise MemoryPrediction(f"{what} would need about {size(needed)}, but {size(free)} are free: {advice}")


def size(number: float) -> str:
    """Bytes in words: "1.2 GB"."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if number < 1000 or unit == "PB":
            return f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError
