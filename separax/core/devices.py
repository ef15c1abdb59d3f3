"""Which device works: the one JAX prefers, or the processor where that is done sooner."""

from __future__ import annotations

import contextlib
import platform as machine
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax


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
