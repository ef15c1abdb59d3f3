"""How XLA compiles a program for a GPU, by how often the program runs. Elsewhere its own settings are good."""

from __future__ import annotations

import jax

Options = dict[str, str | bool] | None

# Kernels written for a step's own products take a fifth less time than those of a library. Finding the best of them takes seconds for the
# paper's networks, and minutes for wide ones (one NVIDIA H200): a step that runs 50,000 times is worth the seconds alone.
FROM_LIBRARY: dict[str, str | bool] = {"xla_gpu_enable_triton_gemm": False}
WIDE = 200  # columns of all components together


def often(columns: int) -> Options:
    """For training steps of a network with so many columns."""
    return FROM_LIBRARY if jax.default_backend() == "gpu" and columns > WIDE else None


def seldom() -> Options:
    """For what runs once or a few times: trying out kernels would take longer than running them."""
    return {**FROM_LIBRARY, "xla_gpu_autotune_level": "0"} if jax.default_backend() == "gpu" else None
