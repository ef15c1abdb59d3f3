"""What a figure was measured with: versions, device, time."""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from typing import Any

import jax

PACKAGES = ("separax", "jax", "jaxlib", "equinox", "optax", "numpy")


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "source"  # run from a checkout without an install


def device() -> str:
    """The device in words: "NVIDIA H200", or the processor's name."""
    first = jax.devices()[0]
    if first.platform != "cpu":
        return first.device_kind
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        return f"{names[0]} × {len(names)}" if names else "cpu"
    except OSError:
        return platform.processor() or "cpu"


def environment() -> dict[str, Any]:
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": device(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
    }
