"""A run in numbers, and what it was measured with: versions, device, time."""

from __future__ import annotations

import datetime
import math
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from ..core import device_name
from ..equations import equation
from ..networks import network_name
from .solution import Ensemble, Solution

PACKAGES = ("separax", "jax", "jaxlib", "equinox", "optax", "numpy")


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "source"  # run from a checkout without an install


def environment() -> dict[str, Any]:
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": device_name(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
    }


def make_record(found: Solution | Ensemble) -> dict[str, Any]:
    """A run in numbers: what `separax solve --json` prints."""
    solutions, first = found.solutions, found.solutions[0]
    known = first.problem.reference is not None
    each = Ensemble(solutions).errors() if known else [(None, None)] * len(solutions)
    errors, spreads = zip(*each)
    counts = first.recipe.counts(first.problem.box)
    same = len(set(counts.values())) == 1

    def mean(values: Sequence[Any]) -> float | None:
        return float(np.mean(values)) if known else None

    out: dict[str, Any] = {
        "problem": first.problem.name,
        "equation": equation(first.problem),
        "network": network_name(first.recipe.network),
        "points": next(iter(counts.values())) if same else counts,
        "steps": first.timing.steps,
        "seed": first.seed,
        "seeds": len(solutions),
        "precision": first.recipe.precision,
        "relative_l2": mean(errors),
        "rmse": mean(spreads),
        "loss": float(np.mean([s.best_loss for s in solutions])),
        "best_step": first.best_step,
        **({"estimate": first.estimate} if first.estimate is not None else {}),
        **({"advice": list(first.advice)} if first.advice else {}),
        "train_seconds": first.timing.train_seconds,
        "compile_seconds": first.timing.compile_seconds,
        "ms_per_step": first.timing.ms_per_step,
        "peak_memory_mb": None if first.memory_bytes is None else first.memory_bytes / 1e6,
        "interrupted": first.interrupted,
        "run_dir": None if first.run_dir is None else str(first.run_dir),
        **environment(),
        "device": first.device,
    }
    if len(solutions) > 1:
        out["relative_l2_each"] = list(errors)
    if first.unknowns:
        out["unknowns"] = first.unknowns
    if first.is_marched and known:  # the mean over windows is what the paper reports
        windows = np.array([[_error(window) for window in s.windows] for s in solutions])
        out["relative_l2_windows"] = [float(v) for v in windows.mean(axis=0)]
    return _finite(out)


def _finite(value: Any) -> Any:
    """The same without numbers that a record cannot hold: None stands for them."""
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _error(window: Solution) -> float:
    """Measured already where the window has a record of its own."""
    return window.record.get("relative_l2") or window.relative_l2()
