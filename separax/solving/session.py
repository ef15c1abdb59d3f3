"""A run: from its first launch to its solution, stage after stage, on the screen and in its folder."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import (
    Diverged,
    InputError,
    check_fits,
    default_device,
    on_cpu,
    options_for_few_runs,
    say,
    to_device,
)
from ..domain import TIME, Lattice
from ..equations import Problem
from ..recipe import Solve
from ..residuals import Loss, Model, block_sizes
from ..runs import Run, described, keep, leaves
from ..solution import (
    Ensemble,
    History,
    Solution,
    Timing,
    View,
    error_lattice,
    make_record,
    reference_on,
    squares,
)
from ..training import Compiled, Trainer, TrainState

LAUNCH_SECONDS = 0.5  # between two screen updates, and the longest wait for Ctrl-C
SAVE_SECONDS = 30.0  # between two saves of the state
STATE = "state."  # what the names of a state's arrays begin with
# Numbers in all the Jacobians of a solve, up to which a processor is done before a GPU has compiled. Of the catalogue's solves those with
# 1e7 to 4e8 take 0.3 to 4 s on two cores, after 3 to 6 s of compiling; 0.2 to 0.7 s on an H200, after 6 to 16 s. The next have 4e9.
SMALL = 1e9
WATCHED = 2**15  # points of the lattice on which the error is followed during training


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


def suited(loss: Loss) -> contextlib.AbstractContextManager[Any]:
    """The device for a run: small solves are the processor's."""
    return (
        on_cpu()
        if default_device().platform != "cpu" and _is_small(loss)
        else contextlib.nullcontext()
    )


def _is_small(loss: Loss) -> bool:
    if not all(stage.optimiser.sees == "layers" for stage in loss.recipe.stages):
        return False
    places = jax.eval_shape(lambda: loss.draw(jax.random.key(0), jnp.zeros((), jnp.int32)))
    rows = sum(math.prod(place.shape) for place in places)
    return rows * sum(block_sizes(loss)) * loss.recipe.total_steps <= SMALL


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


class Programs:
    """What is compiled for a loss: the launch of every stage of its recipe, and the error that is followed. Made when it is
    needed (a finished stage is not), and once for all windows of a march."""

    def __init__(self, trainer: Trainer):
        self.loss, self.seeds = trainer.loss, trainer.seeds
        self._trainers = {0: trainer}
        self._launches: dict[int, Compiled] = {}
        self._error: Callable[..., Array] | None = None
        self._evaluate: Callable[..., dict[str, Array]] | None = None

    def trainer(self, stage: int) -> Trainer:
        if stage not in self._trainers:
            self._trainers[stage] = Trainer(self.loss, self.seeds, stage)
        return self._trainers[stage]

    def launch(self, stage: int, state: TrainState) -> tuple[Compiled, float]:
        """A stage's launch, and the seconds that compiling it took now."""
        if stage in self._launches:
            return self._launches[stage], 0.0
        self._launches[stage] = found = self.trainer(stage).compile(state)
        return found, found.seconds

    def share(self, solution: Solution) -> Solution:
        """The solution, evaluated by the program of the first one: windows and seeds differ in their parameters alone."""
        self._evaluate = self._evaluate or solution._evaluate
        solution._evaluate = self._evaluate
        return solution

    def error(self, trainer: Trainer, model: Model, names: Sequence[str]) -> Callable[..., Array]:
        """The relative L2 error as a function of parameters, a lattice, true values there and the start of a window."""
        if self._error is None:
            problem = self.loss.problem
            view = View(
                problem,
                self.loss.recipe,
                model,
                lambda *given: {n: problem.quantities(*given)[n] for n in names},
            )

            def error(
                params: Any, lattice: Lattice, true: dict[str, Array], since: Array | None
            ) -> Array:
                difference, size, _ = squares(
                    problem, lattice, view._compute(trainer.model(params), lattice, since), true
                )
                return jnp.sqrt(difference / size)

            each = error if self.seeds is None else jax.vmap(error, in_axes=(0, None, None, None))
            self._error = jax.jit(each, compiler_options=options_for_few_runs())
        return self._error


@dataclass(frozen=True)
class Window:
    """The part of a march that a session runs. `problem` is the whole problem with the box of this window, in which
    solutions speak; the loss has the box of the first one."""

    problem: Problem
    number: int
    since: float  # how long after the first window this one begins
    given: dict[str, Array]
    params: Array | None = None  # to begin with


class Session:
    """One run from its first launch to its solution, stage after stage."""

    def __init__(
        self,
        programs: Programs,
        seeds: Sequence[int],
        run: Run | None,
        interrupt: Interrupt,
        window: Window | None = None,
    ):
        self.programs, self.trainer, self.loss = programs, programs.trainer(0), programs.loss
        self.seeds, self.run, self.interrupt = list(seeds), run, interrupt
        self.window = window or Window(self.loss.problem, 0, 0.0, {})
        self.several = programs.seeds is not None
        self.records: list[np.ndarray] = []
        self.errors: list[tuple[int, Any]] = []
        self.spent = self.compiling = 0.0
        self.bytes: int | None = None
        self.trouble: str | None = None
        self.state = self._first_state()

    def _first_state(self) -> TrainState:
        """A fresh state, or the one that the run's folder holds."""
        keys = (
            jax.vmap(jax.random.key)(jnp.asarray(self.seeds))
            if self.several
            else jax.random.key(self.seeds[0])
        )
        if self.window.number:
            again = jax.vmap(jax.random.fold_in, (0, None)) if self.several else jax.random.fold_in
            keys = again(keys, self.window.number)
        kept = self.run.state() if self.run is not None else None
        if self.run is None or kept is None:
            return self.trainer.init(keys, self.window.given, self.window.params)
        about, arrays = kept
        self.trainer = self.programs.trainer(about["stage"])
        self.records = [arrays["history"]] if arrays["history"].size else []
        self.errors = list(zip(arrays["error_steps"].tolist(), arrays["errors"]))
        self.spent, self.bytes = about["spent"], about["memory"]
        self.trouble = about.get("trouble")  # it would come to the same again
        return _restored(self.trainer.like(keys, self.window.given), arrays, self.run)

    def _compiled(self) -> Compiled:
        """This stage's launch. A run's compiling is the sum over its stages, its memory that of the largest."""
        launch, seconds = self.programs.launch(self.trainer.stage.number, self.state)
        self.compiling += seconds
        self.bytes = max((b for b in (self.bytes, launch.bytes) if b is not None), default=None)
        return launch

    @property
    def step(self) -> int:
        return int(np.max(self.state.step))

    def go(self, report: Callable[..., Any]) -> None:
        """Stage after stage until the last step, an interrupt or trouble."""
        watch = self._watch()
        begun = self.step
        while True:
            self._launches(report, watch)
            stopped = (
                self.step < self.trainer.stage.end
                or self.interrupt.asked
                or self.trouble is not None
            )
            if stopped or self.step == self.loss.recipe.total_steps:
                break
            self._next()
        if self.step > begun:
            self._save(wait=True)

    def _next(self) -> None:
        """On to the next stage."""
        self.trainer = self.programs.trainer(self.trainer.stage.number + 1)
        self.state = self.trainer.begin(self.state)
        self.compiling += self.trainer.spent()

    def _launches(
        self, report: Callable[..., Any], watch: Callable[[Any, int], float] | None
    ) -> None:
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
            if (
                step == stage.end
            ):  # at once, so that a state at the end of its stage is always a closed one
                self.state = self.trainer.close(self.state)
                self.compiling += self.trainer.spent()
            rate = rounds * length / took if not rate else 0.7 * rate + 0.3 * rounds * length / took
            error = watch(self.state.best, step) if watch else None
            last = np.median(record[..., -1, :].reshape(-1, record.shape[-1]), axis=0)  # over seeds
            losses = {name: float(value) for name, value in zip((*self.loss.names, "total"), last)}
            self._report(report, step=step, steps=steps, losses=losses, error=error, rate=rate)
            rounds = max(1, min(2 * rounds, round(rounds * LAUNCH_SECONDS / took)))
            if time.perf_counter() - saved > SAVE_SECONDS and self._save():
                saved = time.perf_counter()

    def _report(self, report: Callable[..., Any], **now: Any) -> None:
        try:
            report(**now)
        except BaseException:
            self._save(wait=True)  # a callback may raise whatever it likes; the run is kept
            raise

    def _keep(self, record: np.ndarray, start: int) -> None:
        """The history, thinned to every look of a stage; and the first loss that is not finite."""
        bad = ~np.isfinite(record)
        steps = start - self.trainer.stage.start + np.arange(record.shape[-2])
        self.records.append(record[..., steps % self.trainer.stage.look == 0, :])
        hopeless = np.all(np.any(bad[..., -1], axis=-1))  # with several seeds: when none is left
        if hopeless:
            first = int(
                np.argmax(np.any(bad, axis=(-1, 0)) if bad.ndim == 3 else np.any(bad, axis=-1))
            )
            here = np.any(bad[..., first, :].reshape(-1, bad.shape[-1]), axis=0)
            names = [n for n, b in zip((*self.loss.names, "total"), here) if b]
            named = [n for n in names if n != "total"] or names
            self.trouble = f"the loss stopped being finite at step {start + first:,} (term {', '.join(map(repr, named))})"

    def _save(self, wait: bool = False) -> bool:
        """Copies the state, and has it written while training goes on; False where the last one is still being written."""
        if self.run is None or (self.run.saver.busy and not wait):
            return self.run is None
        about = {
            "stage": self.trainer.stage.number,
            "step": self.step,
            "spent": self.spent,
            "memory": self.bytes,
        }
        about["trouble"] = self.trouble
        arrays = {STATE + name: leaf for name, leaf in leaves(self.state).items()}
        arrays["history"] = np.concatenate(self.records, axis=-2) if self.records else np.zeros(0)
        arrays["error_steps"] = np.array([step for step, _ in self.errors], int)
        arrays["errors"] = np.array([np.asarray(error) for _, error in self.errors])
        self.run.save(about, arrays, described(self._found()), wait)
        return True

    def _watch(self) -> Callable[[Any, int], float] | None:
        """Follows the relative L2 error of the best parameters, where there is a reference."""
        problem, recipe = self.loss.problem, self.loss.recipe
        if problem.reference is None:
            return None
        with on_cpu() as host:
            # the same lattice twice: as the network counts time, and as the reference does
            lattice, where = (
                jax.tree.map(lambda a: jnp.asarray(a, recipe.dtype), error_lattice(p, WATCHED))
                for p in (problem, self.window.problem)
            )
            true = to_device(reference_on(self.window.problem, None, where), host)
            model = self.trainer.model(to_device(self._one(self.state.best, 0), host))
            compiled = self.programs.error(self.trainer, model, list(true))
            since = (
                jnp.asarray(self.window.since, recipe.dtype) if TIME in problem.box.axes else None
            )

        def watch(params: Any, step: int) -> float:
            with on_cpu() as host:
                found = np.asarray(compiled(to_device(params, host), lattice, true, since))
            self.errors.append((step, found))
            return float(np.mean(found))

        return watch

    def _one(self, tree: Any, i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i], tree) if self.several else tree

    def _solution(self, i: int) -> Solution:
        names, done = self.loss.names, self.step
        nothing = (
            np.zeros((len(self.seeds), 0, len(names) + 1))
            if self.several
            else np.zeros((0, len(names) + 1))
        )
        table = self._one(np.concatenate([nothing, *self.records], axis=-2), i)
        history = History(
            np.concatenate([np.arange(s.start, s.end, s.look) for s in self.loss.recipe.stages])[
                : len(table)
            ],
            {name: table[:, k] for k, name in enumerate(names)},
            table[:, -1],
            np.array([step for step, _ in self.errors], int),
            np.array([self._one(error, i) for _, error in self.errors], float),
        )
        found = Solution(
            self.window.problem,
            self.loss.recipe,
            self.trainer.model(self._one(self.state.best, i)),
            history=history,
            timing=Timing(self.compiling, self.spent, done),
            seed=self.seeds[i],
            best_step=int(self._one(self.state.best_step, i)),
            best_loss=float(self._one(self.state.best_loss, i)),
            memory_bytes=self.bytes,
            interrupted=done < self.loss.recipe.total_steps,
            run_dir=self.run.path if self.run is not None else None,
            since=self.window.since,
        )
        return self.programs.share(found)

    def _found(self) -> Solution | Ensemble:
        solutions = [self._solution(i) for i in range(len(self.seeds))]
        return Ensemble(solutions) if self.several else solutions[0]

    def finish(self, look: Callable[[Solution], None] | None = None) -> Solution | Ensemble:
        """The solution, kept in the run's folder after a last `look`; raises `Diverged` with it where there was trouble."""
        out = self._found()
        if (
            look is not None
            and isinstance(out, Solution)
            and self.trouble is None
            and not self.interrupt.asked
        ):
            look(out)
        if self.run is not None:
            keep_or_say(self.run, out, make_record(out) | {"trouble": self.trouble})
        if self.trouble is not None:
            first = out[0] if isinstance(out, Ensemble) else out
            where = f"in {self.run.path}" if self.run else "in this error's .solution"
            solving = isinstance(self.loss.recipe.optimisers[0], Solve)
            what = (
                "A root or a logarithm of a field that is negative at the start? Write the equation for another field, like log u, or train a network:"
                " sx.solve(problem, sx.Recipe())"
                if solving
                else "Try a smaller rate, optimiser=sx.Adam(1e-3), or precision='float64'"
            )
            raise Diverged(
                f"{self.trouble}; the best parameters, from step {first.best_step:,}, are {where}. {what}",
                out,
            )
        return out


def keep_or_say(run: Run, found: Solution | Ensemble, result: dict[str, Any]) -> None:
    """Keeps what came out. Neither a full disk nor anything else takes it from who waited for it: the solution is still returned."""
    try:
        found.record = keep(run, found, result)
    except Exception as error:
        found.record = result
        say(
            f"{run.path} could not be written ({type(error).__name__}: {error}): the solution is only in memory; keep it with solution.save(folder)"
        )
    if run.saver.trouble is not None:
        say(
            f"the last state of this run is not kept in {run.path} ({run.saver.trouble}): resuming it goes on from the one before"
        )


def _restored(like: Any, arrays: Mapping[str, np.ndarray], run: Run) -> Any:
    """A saved state in the shape of its stage's states."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    found = [
        arrays.get(STATE + jax.tree_util.keystr(path, simple=True, separator="."))
        for path, _ in paths
    ]
    for old, (_, new) in zip(found, paths):
        if old is None or old.shape != new.shape or old.dtype != new.dtype:
            raise InputError(
                f"resume: the state in {run.path} does not fit this network: repeat the settings it was started with, and the versions in environment.toml"
            )
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in found])
