"""`separax doctor`: what this installation computes with, and what it lacks."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil

from rich.console import Console
from rich.table import Table

EXTRAS = {  # what each needs, and what it is for
    "gpu": ("jax_cuda13_plugin", "NVIDIA GPUs"),
    "files": ("xarray", "NetCDF and xarray"),
    "tensorboard": ("tensorboardX", "losses in TensorBoard"),
}


def doctor() -> None:
    """Print devices, versions, memory and the cache, and what is missing for a GPU."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (*_computing(), *_kept(), *_extras()):
        table.add_row(name, value)
    Console(highlight=False).print(table)


def _computing() -> list[tuple[str, str]]:
    import jax

    from ..core import available, device_name, in_bytes
    from ..solution import PACKAGES, version

    free = available()
    devices = jax.devices()
    found = [
        ("versions", ", ".join(f"{package} {version(package)}" for package in PACKAGES)),
        ("python", f"{platform.python_version()} on {platform.platform()}"),
        ("device", f"{device_name()}{f', {len(devices)} of them' if len(devices) > 1 else ''}"),
        ("free memory", "unknown" if free is None else in_bytes(free)),
    ]
    if devices[0].platform == "cpu":
        found.append(("gpu", _missing_for_a_gpu()))
    return found


def _missing_for_a_gpu() -> str:
    """Why everything runs on the processor, and what to do if there is a GPU."""
    driver = shutil.which("nvidia-smi") is not None
    plugin = importlib.util.find_spec(EXTRAS["gpu"][0]) is not None
    asked = os.environ.get("JAX_PLATFORMS")
    if driver and plugin and asked:
        return f"not used, since JAX_PLATFORMS={asked}: unset it"
    if driver and plugin:
        return (
            "[yellow]there is an NVIDIA driver and a plugin for it, but JAX cannot use them[/]:"
            """ python -c 'import jax; jax.devices("cuda")' says why"""
        )
    if driver:
        return (
            "[yellow]there is an NVIDIA driver, but JAX has no plugin for it[/]:"
            " pip install 'separax\\[gpu]'"
        )
    if platform.system() != "Linux":
        return "none that JAX can use: its plugin for NVIDIA GPUs is for Linux"
    plugin_too = "" if plugin else ", then pip install 'separax\\[gpu]'"
    return f"no NVIDIA driver is installed (there is no nvidia-smi): install one{plugin_too}"


def _kept() -> list[tuple[str, str]]:
    from ..core import cache_folder, in_bytes

    try:
        folder = cache_folder()
    except (OSError, RuntimeError) as error:
        return [("cache", f"none ({error}): set SEPARAX_CACHE to a folder")]
    if folder is None:
        return [("cache", "turned off by SEPARAX_CACHE=off: every program is compiled anew")]
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return [("cache", f"{folder}, {in_bytes(size)}")]


def _extras() -> list[tuple[str, str]]:
    found = []
    for extra, (module, use) in EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        state = "installed" if there else f"not installed: pip install 'separax[{extra}]'"
        found.append(
            (f"separax[{extra}]".replace("[", "\\["), f"{use}: {state}".replace("[", "\\["))
        )
    return found
