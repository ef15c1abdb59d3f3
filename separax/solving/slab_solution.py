"""A problem that evolves, solved in slabs of time twice or more: how far apart two marches are says
how far off the coarser one is, and the finer becomes a solution."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from numpy.polynomial import legendre

from ..domain import TIME
from ..equations import Problem, disagreements
from ..networks import PiecewiseProducts
from ..recipe import Recipe
from ..residuals import Model
from ..solution import History, Outcome, Piece, Solution, Timing
from ..training import Progress
from .elements import restricted
from .evolution import Evolution, evolution_of
from .slabs import March, Precision, Slab
from .trained import Context

# what a first march is to leave of each slab, in t alone and in t and another axis
FIRST = {False: 1e-11, True: 1e-6}
AIM = {False: 1e-10, True: 1e-8}  # an estimate that is small enough whatever the tolerance
FINER = 0.1  # of the tolerance of the march before
SAFE = 0.5  # of what one more march is to reach
LEAST, LEAST_USEFUL = 1e-14, 1e-12  # tolerance of a slab
MARCHES = 5
MOST_SLABS = {False: 20_000, True: 3_000}  # of the first march
MORE, FEW = 5, 200  # of a finer one: so many times those of the last, and so many besides
GAIN = 0.5  # an estimate that one more march did not bring below this part of the last
ELEMENTS = (8, 11, 13, 9)  # so that the elements of two marches have few edges in common
MOST_ROWS = 512  # functions in time of a window, before they are compressed
MOST_RANK = 128
CUT = 1e-3  # of the estimate: what compressing may add
CAREFUL = 1.5  # an estimate against what it is made from: where rounding is all, no march is finer
ROUNDED = 1e-14


@dataclass(frozen=True)
class SlabLevel:
    """One march.

    Attributes:
        allowed: what each slab might be off.
        slabs, elements, newton: how many slabs, elements at most, and steps of Newton's method.
        estimate: by how much its solution differs from that of the march before.
        seconds: that it took.
    """

    allowed: float
    slabs: int
    elements: int
    newton: int
    estimate: float
    seconds: float


def solve_in_slabs(
    problem: Problem,
    tolerance: float,
    context: Context,
    before: Timing | None = None,
) -> Solution | None:
    """The solution of a problem that evolves, with its `estimate`, `levels` and `advice`.

    Arguments:
        problem: what to solve.
        tolerance: the relative L2 error that would do.
        context: who is told, and whether to stop. A march that is interrupted ends with the slabs
            that are done.
        before: how long other ways took that were tried before.

    Returns: None where the problem does not evolve, or no slab of it could be solved.
    """
    evolution = evolution_of(problem)
    if evolution is None:
        return None
    start = time.perf_counter()
    levels: list[SlabLevel] = []
    best: March | None = None
    space = evolution.axis is not None
    goal = min(tolerance, AIM[space])
    allowed, estimate = max(FIRST[space], LEAST), math.inf
    with np.errstate(all="ignore"):
        for number in range(MARCHES):
            began = time.perf_counter()
            most = MORE * levels[-1].slabs + FEW if levels else MOST_SLABS[space]
            march = March(evolution, _precision(space, allowed, number, most))
            march.run(_watching(problem, march, number, context))
            if not march.slabs or (best is not None and _gave_up(march, best)):
                break
            apart = math.inf if best is None else max(CAREFUL * _apart(best, march), ROUNDED)
            levels.append(_level(march, apart, time.perf_counter() - began))
            if apart > GAIN * estimate and apart < math.inf:
                # what a finer march could not gain is in the last two alike
                estimate = max(apart, estimate)
                break
            best, estimate = march, apart
            if estimate <= goal or allowed <= LEAST or context.interrupt.asked:
                break
            allowed = max(LEAST, _next_allowed(levels, estimate, goal))
    if best is None:
        return None
    seconds = time.perf_counter() - start
    compiling = min(evolution.compiling, seconds)
    timing = Timing(compiling, seconds - compiling, sum(level.newton for level in levels))
    if before is not None:
        each = zip(dataclasses.astuple(timing), dataclasses.astuple(before))
        timing = Timing(*(a + b for a, b in each))
    found = _solution(problem, best, levels, estimate, timing)
    words = _advice(problem, best, levels, estimate, tolerance, context.interrupt.asked)
    return found.with_outcome(advice=words)


def _next_allowed(levels: Sequence[SlabLevel], estimate: float, goal: float) -> float:
    """What the slabs of the next march may be off. An estimate is the error of the last march but
    one: the last is to be finer than that by no more than is needed to tell."""
    last = levels[-1].allowed
    if len(levels) > 1:
        error = estimate * last / levels[-2].allowed
        if error > SAFE * goal:
            return last * min(FINER, SAFE * goal / error)
    return FINER * last


def _gave_up(march: March, before: March) -> bool:
    """Whether a march ended, or was ended, where the coarser one went on."""
    return march.slabs[-1].end < before.slabs[-1].end and march.trouble != "stuck"


def _precision(space: bool, allowed: float, number: int, most: int) -> Precision:
    if not space:
        return Precision(allowed, 12, 1, 1, slabs=most)
    elements = ELEMENTS[number % len(ELEMENTS)]
    return Precision(allowed, 7 + number % 3, 8 + number % 3, elements, slabs=most)


def _watching(
    problem: Problem, march: March, number: int, context: Context
) -> Callable[[float], bool]:
    first, last = problem.box[TIME]
    began = said = time.perf_counter()

    def stopped(t: float) -> bool:
        nonlocal said
        now = time.perf_counter()
        if now - said > 0.5:
            said, done = now, len(march.slabs)
            share = (number + (t - first) / (last - first)) / MARCHES
            losses = {"total": march.precision.tolerance}
            context.report(Progress(int(1000 * share), 1000, losses, None, done / (now - began)))
        return context.interrupt.asked

    return stopped


def _level(march: March, estimate: float, seconds: float) -> SlabLevel:
    slabs = march.slabs
    return SlabLevel(
        march.precision.tolerance,
        len(slabs),
        max(len(s.edges) - 1 for s in slabs),
        sum(s.newton for s in slabs),
        estimate,
        seconds,
    )


def _apart(coarse: March, fine: March) -> float:
    """The relative L2 difference of two marches as far as both went, of the worst field."""
    end = min(coarse.slabs[-1].end, fine.slabs[-1].end)
    fields = range(len(fine.slabs[0].modes))
    apart, size = np.zeros(len(fields)), np.zeros(len(fields))
    starts = np.array([s.start for s in coarse.slabs])
    for slab in fine.slabs:
        if slab.start >= end:
            break
        number = slab.modes[0].shape[1]
        unit, weights = legendre.leggauss(number)
        times = (slab.start + slab.end) / 2 + slab.length / 2 * unit
        ours = slab.at_times(times)
        owner = np.searchsorted(starts, times, side="right") - 1
        middle, half = (slab.edges[1:] + slab.edges[:-1]) / 2, np.diff(slab.edges) / 2
        for o in np.unique(owner):
            here = owner == o
            theirs = coarse.slabs[o].at_times(times[here])
            for c in fields:
                points, share = legendre.leggauss(ours[c].shape[-1] + 1)
                basis = legendre.legvander(points, ours[c].shape[-1] - 1)
                u = ours[c][:, here] @ basis.T
                x = middle[:, None] + half[:, None] * points
                v = _at(coarse.slabs[o].edges, theirs[c], x)
                weigh = np.einsum("e,t,p->etp", half, weights[here] * slab.length, share)
                apart[c] += np.sum(weigh * (u - v) ** 2)
                size[c] += np.sum(weigh * u**2)
    found = np.sqrt(apart / np.maximum(size, 1e-300))
    return float(found.max()) if np.all(np.isfinite(found)) else math.inf


def _at(edges: np.ndarray, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (rows, instants, points) of (elements, instants, functions) at (rows, points)."""
    e = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    unit = 2 * (x - edges[e]) / (edges[e + 1] - edges[e]) - 1
    basis = legendre.legvander(unit, coefficients.shape[-1] - 1)
    return np.einsum("rpf,rptf->rtp", basis, coefficients[e])


# --- as a solution ---------------------------------------------------------------------------


def _solution(
    problem: Problem,
    march: March,
    levels: Sequence[SlabLevel],
    estimate: float,
    timing: Timing,
) -> Solution:
    slabs, space = march.slabs, march.evolution.axis is not None
    windows = (
        _compressed(slabs, min(max(CUT * estimate, 1e-14), 1e-10)) if space else [_alone(slabs)]
    )
    recipe, pieces, edges = _pieces(problem, march.evolution, windows)
    end = slabs[-1].end
    whole = end == problem.box[TIME][1]
    outcome = Outcome(
        recipe,
        History.none(),
        timing,
        best_loss=0.0,
        interrupted=not whole,
        estimate=estimate,
        levels=tuple(levels),
    )
    if len(pieces) > 1:
        each = [_window_outcome(recipe, timing, len(pieces)) for _ in pieces]
        outcome = Outcome(**{**vars(outcome), "windows": tuple(each)})
    solved = problem if whole else problem.during(problem.box[TIME][0], end)
    return Solution(solved, pieces, outcome, edges)


def _window_outcome(recipe: Recipe, timing: Timing, number: int) -> Outcome:
    part = Timing(
        timing.compile_seconds / number, timing.train_seconds / number, timing.steps // number
    )
    return Outcome(recipe, History.none(), part, best_loss=0.0)


def _advice(
    problem: Problem,
    march: March,
    levels: Sequence[SlabLevel],
    estimate: float,
    tolerance: float,
    interrupted: bool,
) -> tuple[str, ...]:
    words = [
        f"{each.words}: no solution has both, and close to there this one is in between"
        for each in disagreements(problem)
    ]
    end = march.slabs[-1].end
    if end < problem.box[TIME][1] and not interrupted:
        why = {
            "stuck": "beyond, the slabs of time become too short: it may blow up there",
            "too many elements": "beyond, it becomes finer than elements can follow",
            "too many slabs": "beyond, there would be too many slabs of time",
        }[march.trouble]
        words.append(f"solved up to t = {end:.6g}; {why}")
    if estimate > tolerance:
        words.append(
            f"the error is estimated to be {estimate:.0e}, not below the tolerance of"
            f" {tolerance:g}: that is by how much solutions with {levels[-1].slabs} and"
            f" {levels[max(0, len(levels) - 2)].slabs} slabs of time differ"
        )
        words.append(
            "rounding is the limit: a march that is finer does not come closer; ask for less"
            if levels[-1].allowed <= LEAST_USEFUL
            else "small differences may grow that much on the way: a shorter interval of time would"
            " help"
        )
    return tuple(words)


@dataclass(frozen=True)
class _Window:
    """Some slabs as a sum of products: by axis edges and coefficients (fields, pieces, polynomials,
    products)."""

    edges: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray, ...]


def _alone(slabs: Sequence[Slab]) -> _Window:
    """Functions of time alone."""
    edges = np.array([slabs[0].start, *(s.end for s in slabs)])
    each = [np.stack([s.modes[c][0, :, 0] for s in slabs]) for c in range(len(slabs[0].modes))]
    return _Window((edges,), (np.stack(each)[..., None],))


def _compressed(slabs: Sequence[Slab], cut: float) -> list[_Window]:
    """Slabs as few sums of products, of few products each."""
    rows = sum(s.modes[0].shape[1] for s in slabs)
    half = len(slabs) // 2
    if rows > MOST_ROWS and half:
        return _compressed(slabs[:half], cut) + _compressed(slabs[half:], cut)
    found = _one_window(slabs, cut)
    if found.factors[0].shape[-1] > MOST_RANK and half:
        return _compressed(slabs[:half], cut) + _compressed(slabs[half:], cut)
    return [found]


def _one_window(slabs: Sequence[Slab], cut: float) -> _Window:
    times = np.array([slabs[0].start, *(s.end for s in slabs)])
    edges = np.unique(np.concatenate([s.edges for s in slabs]))
    # short pieces count a little more than their length: what is cut there could be seen
    lengths, steps = np.diff(edges), np.diff(times)
    lengths = np.maximum(lengths, lengths.sum() / len(lengths))
    steps = np.maximum(steps, steps.sum() / len(steps))
    in_time, in_space = [], []
    for c in range(len(slabs[0].modes)):
        each = np.stack([restricted(s.edges, edges, s.modes[c]) for s in slabs])
        number, polynomials = each.shape[2], each.shape[3]
        first = np.sqrt(steps[:, None] / (2 * np.arange(number) + 1))
        second = np.sqrt(lengths[:, None] / (2 * np.arange(polynomials) + 1))
        weighed = np.moveaxis(each, 1, 2) * first[:, :, None, None] * second
        u, sizes, v = scipy.linalg.svd(weighed.reshape(first.size, -1), full_matrices=False)
        left = np.sqrt(np.cumsum(sizes[::-1] ** 2))[::-1]
        rank = max(1, int(np.sum(left > cut * max(left[0], 1e-300))))
        roots = np.sqrt(sizes[:rank])
        in_time.append((u[:, :rank] * roots).reshape(*first.shape, rank) / first[..., None])
        in_space.append((v[:rank].T * roots).reshape(*second.shape, rank) / second[..., None])
    polynomials = max(f.shape[1] for f in in_space)
    rank = max(f.shape[2] for f in in_space)
    return _Window(
        (times, edges),
        tuple(
            np.stack([_padded(f, f.shape[0], wide or f.shape[1], rank) for f in each])
            for each, wide in ((in_time, 0), (in_space, polynomials))
        ),
    )


def _padded(array: np.ndarray, *shape: int) -> np.ndarray:
    return np.pad(array, [(0, n - m) for n, m in zip(shape, array.shape)])


def _pieces(
    problem: Problem, evolution: Evolution, windows: Sequence[_Window]
) -> tuple[Recipe, list[Piece], list[float]]:
    """Windows as networks of one shape: what they lack of it is zero, and beyond the axis."""
    fields = len(problem.fields)
    axes = [TIME] if evolution.axis is None else [TIME, evolution.axis]
    shapes = [
        np.max([w.factors[i].shape[1:] for w in windows], axis=0).tolist() for i in range(len(axes))
    ]
    rank = max(shape[2] for shape in shapes)
    network = PiecewiseProducts(rank, tuple((a, s[0], s[1]) for a, s in zip(axes, shapes)))
    recipe = Recipe(network, precision="float64")  # pyright: ignore[reportArgumentType]
    first = problem.during(windows[0].edges[0][0], windows[0].edges[0][-1])
    pieces = []
    with jax.enable_x64(True):
        for window in windows:
            origin = float(window.edges[0][0] - windows[0].edges[0][0])
            arrays: dict[str, tuple[Any, Any]] = {}
            for axis, shape, edges, factor in zip(axes, shapes, window.edges, window.factors):
                own = edges - origin if axis == TIME else edges
                beyond = own[-1] + np.arange(1, 1 + shape[0] - factor.shape[1])
                filled = np.stack([_padded(f, *shape[:2], rank) for f in factor])
                flat = np.moveaxis(filled, 0, 2).reshape(*shape[:2], fields * rank)
                arrays[axis] = jnp.asarray(np.r_[own, beyond]), jnp.asarray(flat)
            made = network.filled(first.box, fields, arrays)
            pieces.append(Piece.of(Model(made, {}), origin))
    edges = [float(windows[0].edges[0][0]), *(float(w.edges[0][-1]) for w in windows)]
    return recipe, pieces, edges
