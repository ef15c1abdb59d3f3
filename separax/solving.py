"""`solve`: from a problem and a recipe to a solution."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .domain import Lattice
from .errors import Diverged, InputError, whole
from .loss import Loss
from .memory import check_fits
from .networks import network_name
from .problem import Problem
from .progress import Update, display
from .recipe import Recipe
from .report.record import environment
from .runs import Run
from .solution import Ensemble, History, Solution, Timing, View, error_lattice, on_host, reference_on, squares, to_host
from .training import LOOK, Compiled, Trainer, TrainState

LAUNCH_SECONDS = 0.5  # between two screen updates, and the longest wait for Ctrl-C
SAVE_SECONDS = 30.0  # between two saves of the state
WATCHED = 2**15  # points of the lattice on which the error is followed during training


def solve(
    problem: Problem,
    recipe: Recipe | None = None,
    *,
    seed: int | Sequence[int] = 0,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    callback: Update | None = None,
) -> Solution | Ensemble:
    """Solves a problem.

    Arguments:
        problem: what to solve.
        recipe: how; a good one by default.
        seed: of the random numbers; several seeds are trained at once and give an `Ensemble`.
        out: a folder to keep the run in: settings, state, history and record.
        resume: go on with the run that `out` holds.
        progress: show a bar (True), nothing (False), or a bar if there is a terminal (None).
        callback: called between launches with step, steps, loss, error and rate.

    Ctrl-C ends a run cleanly: the solution has the best parameters so far, and `interrupted` set. A loss that stops being
    finite raises `Diverged`, which carries the solution too.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"solve: problem must be a Problem, got {problem!r}: write sx.solve(sx.Problem(box, residual, conditions))"
        )
    recipe = Recipe() if recipe is None else recipe
    if not isinstance(recipe, Recipe):
        raise InputError(f"solve: recipe must be a Recipe, got {recipe!r}: write recipe=sx.Recipe(points=32, steps=10_000)")
    if callback is not None and not callable(callback):
        raise InputError(f"solve: callback must be a function of step, steps, loss, error and rate, got {callback!r}")
    if resume and out is None:
        raise InputError("solve: resume=True needs the folder of the run to go on with: write out='runs/mine', resume=True")
    several = isinstance(seed, Iterable)
    seeds = [whole("seed", s, 0) for s in (seed if isinstance(seed, Iterable) else [seed])]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seed: give one seed or several different ones, got {seed!r}")
    with jax.enable_x64(True):
        trainer = Trainer(Loss(problem, recipe), len(seeds) if several else None)
        check_memory(trainer)
        run = Run(out, settings(problem, recipe, seeds), resume) if out is not None else None
        with display(problem.name, progress) as shown, Interrupt() as interrupt:
            session = Session(trainer, seeds, run, interrupt)
            session.go(lambda **now: [report(**now) for report in (shown, callback) if report is not None])
        return session.finish()


def settings(problem: Problem, recipe: Recipe, seeds: Sequence[int]) -> dict[str, Any]:
    """What makes two runs the same run."""
    return {
        "problem": problem.name,
        "box": repr(problem.box),
        "terms": list(problem.names),
        "equation": problem.fingerprint(),
        "recipe": re.sub(r" at 0x[0-9a-f]+", "", repr(recipe)),
        "points": recipe.counts(problem.box),
        "steps": recipe.total_steps,
        "precision": recipe.precision,
        "seeds": list(seeds),
    }


def check_memory(trainer: Trainer) -> None:
    """Refuses a run whose step would not fit, before anything is compiled or written."""
    counts, itemsize = trainer.loss.counts, np.dtype(trainer.loss.recipe.dtype).itemsize
    if math.prod(counts.values()) * itemsize > 2**24:  # smaller ones always fit
        points = " × ".join(map(str, counts.values()))
        check_fits(
            f"points={points}: a training step",
            trainer.predicted_bytes(),
            "use fewer points, a smaller rank, or fewer seeds at once",
        )


class Interrupt:
    """Turns the first Ctrl-C (or SIGTERM) into a flag; the second one is Python's own."""

    def __init__(self):
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


class Session:
    """One run from its first launch to its solution, stage after stage."""

    def __init__(self, trainer: Trainer, seeds: Sequence[int], run: Run | None, interrupt: Interrupt):
        self.trainer, self.loss, self.seeds, self.run, self.interrupt = trainer, trainer.loss, list(seeds), run, interrupt
        self.several = trainer.seeds is not None
        self.records: list[np.ndarray] = []
        self.errors: list[tuple[int, Any]] = []
        self.spent = self.compiling = 0.0
        self.bytes: int | None = None
        self.trouble: str | None = None
        self.launch: Compiled | None = None  # compiled when it is needed: a finished stage is not
        self.state = self._first_state()

    def _first_state(self) -> TrainState:
        """A fresh state, or the one that the run's folder holds."""
        keys = jax.vmap(jax.random.key)(jnp.asarray(self.seeds)) if self.several else jax.random.key(self.seeds[0])
        stage = self.run.saved_stage() if self.run is not None else None
        if self.run is None or stage is None:
            return self.trainer.init(keys)
        if stage > 0:
            self.trainer = Trainer(self.loss, self.trainer.seeds, stage)
        state, self.records, self.errors, self.spent, self.bytes = self.run.load_state(self.trainer.like(keys))
        return state

    def _compiled(self) -> Compiled:
        """This stage's launch. A run's compiling is the sum over its stages, its memory that of the largest."""
        if self.launch is None:
            self.launch = self.trainer.compile(self.state)
            self.compiling += self.launch.seconds
            self.bytes = max((b for b in (self.bytes, self.launch.bytes) if b is not None), default=None)
        return self.launch

    @property
    def step(self) -> int:
        return int(np.max(self.state.step))

    def go(self, report: Callable[..., Any]) -> None:
        """Stage after stage until the last step, an interrupt or trouble."""
        watch = self._watch()
        begun = self.step
        while True:
            self._launches(report, watch)
            stopped = self.step < self.trainer.stage.end or self.interrupt.asked or self.trouble is not None
            if stopped or self.step == self.loss.recipe.total_steps:
                break
            self._next()
        if self.step > begun:
            self._save()

    def _next(self) -> None:
        """On to the next stage."""
        self.compiling += self.trainer.seconds
        self.trainer = Trainer(self.loss, self.trainer.seeds, self.trainer.stage.number + 1)
        self.state, self.launch = self.trainer.begin(self.state), None

    def _launches(self, report: Callable[..., Any], watch: Callable[[Any, int], float] | None) -> None:
        """Launch after launch until the stage's last step, an interrupt or trouble."""
        stage, length = self.trainer.stage, self.trainer.round
        steps, step = self.loss.recipe.total_steps, self.step
        rounds, saved, rate = 1, time.perf_counter(), 0.0
        while step < stage.end and not self.interrupt.asked and self.trouble is None:
            rounds = min(rounds, self.trainer.held, (stage.end - step) // length)
            launch = self._compiled()
            started = time.perf_counter()
            self.state, record = launch(self.state, rounds)
            took = time.perf_counter() - started
            self._keep(record, step)
            step += rounds * length
            self.spent += took
            if step == stage.end:  # at once, so that a state at the end of its stage is always a closed one
                self.state = self.trainer.close(self.state)
            rate = rounds * length / took if not rate else 0.7 * rate + 0.3 * rounds * length / took
            error = watch(self.state.best, step) if watch else None
            self._report(report, step=step, steps=steps, loss=float(np.median(record[..., -1, -1])), error=error, rate=rate)
            rounds = max(1, min(2 * rounds, round(rounds * LAUNCH_SECONDS / took)))
            if time.perf_counter() - saved > SAVE_SECONDS:
                self._save()
                saved = time.perf_counter()

    def _report(self, report: Callable[..., Any], **now: Any) -> None:
        try:
            report(**now)
        except BaseException:
            self._save()  # a callback may raise whatever it likes; the run is kept
            raise

    def _keep(self, record: np.ndarray, start: int) -> None:
        """The history, thinned to every look of a stage; and the first loss that is not finite."""
        bad = ~np.isfinite(record)
        steps = start - self.trainer.stage.start + np.arange(record.shape[-2])
        self.records.append(record[..., steps % LOOK == 0, :])
        hopeless = np.all(np.any(bad[..., -1], axis=-1))  # with several seeds: when none is left
        if hopeless:
            first = int(np.argmax(np.any(bad, axis=(-1, 0)) if bad.ndim == 3 else np.any(bad, axis=-1)))
            here = np.any(bad[..., first, :].reshape(-1, bad.shape[-1]), axis=0)
            names = [n for n, b in zip((*self.loss.names, "total"), here) if b]
            named = [n for n in names if n != "total"] or names
            self.trouble = f"the loss stopped being finite at step {start + first:,} (term {', '.join(map(repr, named))})"

    def _save(self) -> None:
        if self.run is not None:
            self.run.save_state(self.trainer.stage.number, self.state, self.records, self.errors, self.spent, self.bytes)
            self.run.save_best(self.state.best)

    def _watch(self) -> Callable[[Any, int], float] | None:
        """Follows the relative L2 error of the best parameters, where there is a reference."""
        problem, recipe = self.loss.problem, self.loss.recipe
        if problem.reference is None:
            return None
        with on_host() as host:
            lattice = jax.tree.map(lambda a: jnp.asarray(a, recipe.dtype), error_lattice(problem, WATCHED))
            true = to_host(reference_on(problem, None, lattice), host)
            model = self.trainer.model(to_host(self._one(self.state.best, 0), host))
            view = View(problem, recipe, model, lambda fields, c, k: {n: fields[n] for n in true})

        def error(params: Any, lattice: Lattice, true: dict[str, Array]) -> Array:
            difference, size, _ = squares(problem, lattice, view._compute(self.trainer.model(params), lattice), true)
            return jnp.sqrt(difference / size)

        compiled = jax.jit(jax.vmap(error, in_axes=(0, None, None)) if self.several else error)

        def watch(params: Any, step: int) -> float:
            with on_host() as host:
                found = np.asarray(compiled(to_host(params, host), lattice, true))
            self.errors.append((step, found))
            return float(np.mean(found))

        return watch

    def _one(self, tree: Any, i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i], tree) if self.several else tree

    def _solution(self, i: int) -> Solution:
        names, done = self.loss.names, self.step
        nothing = np.zeros((len(self.seeds), 0, len(names) + 1)) if self.several else np.zeros((0, len(names) + 1))
        table = self._one(np.concatenate([nothing, *self.records], axis=-2), i)
        history = History(
            np.concatenate([np.arange(s.start, s.end, LOOK) for s in self.loss.recipe.stages])[: len(table)],
            {name: table[:, k] for k, name in enumerate(names)},
            table[:, -1],
            np.array([step for step, _ in self.errors], int),
            np.array([self._one(error, i) for _, error in self.errors], float),
        )
        return Solution(
            self.loss.problem,
            self.loss.recipe,
            self.trainer.model(self._one(self.state.best, i)),
            history=history,
            timing=Timing(self.compiling + self.trainer.seconds, self.spent, done),
            seed=self.seeds[i],
            best_step=int(self._one(self.state.best_step, i)),
            best_loss=float(self._one(self.state.best_loss, i)),
            memory_bytes=self.bytes,
            interrupted=done < self.loss.recipe.total_steps,
            run_dir=self.run.path if self.run is not None else None,
        )

    def finish(self) -> Solution | Ensemble:
        """The solution, kept in the run's folder; raises `Diverged` with it where there was trouble."""
        solutions = [self._solution(i) for i in range(len(self.seeds))]
        out = Ensemble(solutions) if self.several else solutions[0]
        if self.run is not None:
            for solution in solutions:
                self.run.save_history(solution.history, f"-seed{solution.seed}" if self.several else "")
            self.run.save_record(record(out) | {"trouble": self.trouble})
        if self.trouble is not None:
            where = f"in {self.run.path}" if self.run else "in this error's .solution"
            raise Diverged(
                f"{self.trouble}; the best parameters, from step {solutions[0].best_step:,}, are {where}."
                " Try a smaller rate, optimiser=sx.Adam(1e-3), or precision='float64'",
                out,
            )
        return out


def record(found: Solution | Ensemble) -> dict[str, Any]:
    """A run in numbers: what `separax solve --json` prints."""
    solutions = list(found) if isinstance(found, Ensemble) else [found]
    first = solutions[0]
    known = first.problem.reference is not None
    errors = [s.relative_l2() if known else None for s in solutions]
    spreads = [s.rmse() if known else None for s in solutions]
    counts = first.recipe.counts(first.problem.box)
    same = len(set(counts.values())) == 1

    def mean(values: Sequence[Any]) -> float | None:
        return float(np.mean(values)) if known else None

    out: dict[str, Any] = {
        "problem": first.problem.name,
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
        "train_seconds": first.timing.train_seconds,
        "compile_seconds": first.timing.compile_seconds,
        "ms_per_step": first.timing.ms_per_step,
        "peak_memory_mb": None if first.memory_bytes is None else first.memory_bytes / 1e6,
        "interrupted": first.interrupted,
        "run_dir": None if first.run_dir is None else str(first.run_dir),
        **environment(),
    }
    if len(solutions) > 1:
        out["relative_l2_each"] = errors
    if first.unknowns:
        out["unknowns"] = first.unknowns
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in out.items()}
