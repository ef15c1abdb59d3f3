"""What the paper shows of its flows: maps of vorticity and velocity beside the truth, an animation, and the error over time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..accuracy import reference_on
from ..catalogue.navier_stokes_3d import velocity, vorticity
from ..domain import Lattice
from ..loss import TIME
from ..report import cuts
from ..report.figures import panels, plot
from ..solution import Solution
from .figures import save

INSTANTS = 41  # of the error over time, and frames of an animation
FLOWS = ("navier-stokes", "navier-stokes-3d")
POINTS = {3: 128, 4: 32}  # per axis of space, of the error at an instant, by the number of axes
SHOWN = 128  # per axis of a map


def over_time(solutions: Sequence[Solution]) -> dict[str, Any]:
    """The relative L2 error at instants of time, one per seed: the mean over the components whose truth is known, as the paper's
    errors are."""
    box = solutions[0].problem.box
    times = np.linspace(*box[TIME], INSTANTS)
    space = {axis: np.linspace(*box[axis], POINTS[box.dimension]) for axis in box.space}

    def errors(t: float) -> list[float]:
        place = {axis: [t] if axis == TIME else space[axis] for axis in box.axes}
        lattice = Lattice(weights=None, **place)
        true = {k: np.asarray(v, np.float64) for k, v in reference_on(solutions[0].problem, None, lattice).items()}
        found = [solution(**place) for solution in solutions]
        return [float(np.mean([np.linalg.norm(one[k] - v) / np.linalg.norm(v) for k, v in true.items()])) for one in found]

    return {"t": times.tolist(), "relative_l2": [errors(t) for t in times]}


def pictures(problem: str, solution: Solution, folder: Path, stem: str) -> None:
    """The maps of a flow, and in the plane its animation."""
    start = f"{problem}-{stem}"
    if problem == "navier-stokes":
        low, high = solution.problem.box[TIME]
        maps = plot(solution, "x", "y", field="w", reference=True, points=SHOWN, t=[low, (low + high) / 2, high])
        save(maps, folder / f"{start}-vorticity.png")
        solution.animate(folder / f"{start}-vorticity.gif", "x", "y", field="w", frames=INSTANTS, rate=10)
        return
    for name, true in {"velocity": velocity, "vorticity": vorticity}.items():
        save(panels(_components(solution, true)), folder / f"{start}-{name}.png")


def _components(solution: Solution, true: Any) -> list[cuts.Picture]:
    """The components of a vector on a plane of space, half way through time, where the reference of a solution may not know them."""
    box = solution.problem.box
    shown = ("x", "y")
    held = {TIME: cuts.part(box, TIME, 0.5), "z": cuts.part(box, "z", 0.82)}
    across, up = np.meshgrid(*(np.linspace(*box[axis], SHOWN) for axis in shown), indexing="ij")
    found = []
    for name, values in true(x=across, y=up, **held).items():
        (picture,) = cuts.pictures(solution, name, cuts.Cut(shown, [held]), SHOWN, reference=False)
        found.append(dataclasses.replace(picture, reference=np.asarray(values)))
    return found
