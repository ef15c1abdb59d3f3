"""The run directory: settings, state, history, record. Written atomically, so that a run survives being stopped.

settings.json   what was asked for
state.npz       parameters, optimiser and its number, key, step, best so far: enough to go on exactly where the run stopped
best.npz        the best parameters
history.csv     every named loss, and the error where there is a reference
record.json     what came out, with versions and device
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InputError
from .solution import History


def write(path: Path, content: bytes) -> None:
    """Write, flush, rename: a reader sees the old file or the new one, never half of one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


class Run:
    """A directory that holds one run."""

    def __init__(self, directory: str | os.PathLike[str], settings: Mapping[str, Any], resume: bool = False):
        self.path = Path(directory)
        self.settings = dict(settings)
        self._claim(resume)

    def _claim(self, resume: bool) -> None:
        kept = self.path / "settings.json"
        if kept.exists():
            if not resume:
                raise InputError(
                    f"out: {self.path} holds a run already: continue it with --resume (resume=True), or choose another folder"
                )
            before = json.loads(kept.read_text())
            changed = [k for k in self.settings if before.get(k) != json.loads(json.dumps(self.settings[k]))]
            if changed:
                first = changed[0]
                raise InputError(
                    f"resume: {self.path} was run with {first} = {before.get(first)!r}, not {self.settings[first]!r}: repeat the settings it was started with, or choose another folder"
                )
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write(kept, (json.dumps(self.settings, indent=1) + "\n").encode())
        except OSError as error:
            raise InputError(f"out: cannot write to {self.path} ({error.strerror}): choose another folder") from error

    # --- state ---------------------------------------------------------------------------------------------------

    def save_state(
        self,
        stage: int,
        state: Any,
        history: list[np.ndarray],
        errors: list[tuple[int, Any]],
        spent: float,
        memory: int | None,
    ) -> None:
        """`stage` says which of the recipe's optimisers the state belongs to; `spent` are seconds, `memory` bytes."""
        leaves = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        record = np.concatenate(history, axis=-2) if history else np.zeros(0)
        steps = np.array([s for s, _ in errors])
        values = np.array([np.asarray(e) for _, e in errors])
        numbers = {"stage": np.array(stage), "spent": np.array(spent), "memory": np.array(memory or 0)}
        write(self.path / "state.npz", _npz(**leaves, **numbers, history=record, error_steps=steps, errors=values))

    def saved_stage(self) -> int | None:
        """Which of the recipe's optimisers the saved state belongs to; None if nothing was saved yet."""
        path = self.path / "state.npz"
        if not path.exists():
            return None
        with np.load(path) as kept:
            return int(kept["stage"])

    def load_state(self, like: Any) -> tuple[Any, list[np.ndarray], list[tuple[int, Any]], float, int | None]:
        """The saved state in the shape of its stage's states, with the history, seconds and bytes so far."""
        leaves, structure = jax.tree.flatten(like)
        with np.load(self.path / "state.npz") as kept:
            found = [kept[f"leaf_{i}"] for i in range(len(leaves))]
            history, errors = kept["history"], list(zip(kept["error_steps"].tolist(), kept["errors"]))
            spent, memory = float(kept["spent"]), int(kept["memory"]) or None
        for old, new in zip(found, leaves):
            if old.shape != new.shape or old.dtype != new.dtype:
                raise InputError(
                    f"resume: the state in {self.path} does not fit this network: repeat the settings it was started with"
                )
        state = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in found])
        return state, [history] if history.size else [], errors, spent, memory

    # --- results -------------------------------------------------------------------------------------------------

    def save_best(self, params: Any) -> None:
        write(self.path / "best.npz", _npz(**{f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(params))}))

    def save_history(self, history: History, suffix: str = "") -> None:
        text = io.StringIO()
        table = csv.writer(text)
        error = dict(zip(history.error_steps.tolist(), history.errors.tolist()))
        table.writerow(["step", "total", *history.losses, "relative_l2"])
        rows = {int(s): i for i, s in enumerate(history.steps)}
        for step in sorted({*rows, *error}):
            losses = (
                [f"{a[rows[step]]:.6e}" for a in (history.total, *history.losses.values())]
                if step in rows
                else [""] * (1 + len(history.losses))
            )
            table.writerow([step, *losses, f"{error[step]:.6e}" if step in error else ""])
        write(self.path / f"history{suffix}.csv", text.getvalue().encode())

    def save_record(self, record: Mapping[str, Any]) -> None:
        write(self.path / "record.json", (json.dumps(record, indent=1) + "\n").encode())


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
