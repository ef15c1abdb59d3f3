"""What the loops that kill runs and damage their files have in common: three kinds of small runs,
and how they are recorded."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import separax as sx

KINDS = ("one seed", "two seeds", "two windows")


def problem() -> sx.Problem:
    def exact(t, x):
        return jnp.exp(-t) * jnp.sin(jnp.pi * x)

    conditions = [sx.Initial(exact), sx.Dirichlet(0, hard=True)]
    box = sx.Box(t=(0, 1), x=(0, 2))
    return sx.Problem(
        box,
        lambda u: u.t - u.xx / jnp.pi**2,
        conditions,
        derived={"flux": lambda u: -u.x},
        name="heat",
    )


def solve(kind: str, folder: Path, steps: int, seed: int = 0, **options: Any) -> Any:
    """Goes on with what is in the folder. Two optimisers in sequence."""
    stages = [sx.Adam(5e-3, "cosine", steps=steps), sx.LBFGS(steps // 4)]
    how = sx.Recipe(sx.SPINN(rank=4, width=12, depth=2), points=12, optimiser=stages)
    seeds = [seed, seed + 1] if kind == "two seeds" else seed
    windows = 2 if kind == "two windows" else 1
    return sx.solve(
        problem(),
        how,
        seed=seeds,
        windows=windows,
        out=folder,
        resume=True,
        progress=False,
        **options,
    )


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "about"}


def same(one: Path, other: Path) -> bool:
    """Whether two archives hold the same bits."""
    a, b = arrays(one), arrays(other)
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a
    )


def parser(text: str, count: int) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--count", type=int, default=count)
    found.add_argument("--seed", type=int, default=0, help="of the random moments, files and bytes")
    found.add_argument("--out", default="-", help="file to write, or - for standard output")
    return found
