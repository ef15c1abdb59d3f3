"""A trained solve: a session that is watched, kept and made a solution; and what goes on around
every solve."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import Diverged, InputError, on_cpu, options_for_few_runs, say, to_device
from ..domain import Lattice
from ..equations import Problem
from ..recipe import Recipe
from ..residuals import Loss
from ..runs import Run, keep, kept_settings, leaves, settings, to_data, with_leaves
from ..solution import (
    Ensemble,
    History,
    Outcome,
    Outputs,
    Piece,
    Selected,
    Solution,
    Timing,
    error_lattice,
    evaluate,
    make_record,
    reference_on,
    squares,
)
from ..training import (
    Hooks,
    Interrupt,
    Progress,
    Report,
    Session,
    Tell,
    Trainer,
    TrainState,
    display,
)

SAVE_SECONDS = 30.0  # between two saves of the state
STATE = "state."  # what the names of a state's arrays begin with
WATCHED = 2**15  # points of the lattice on which the error is followed during training


# --- what goes on around a solve ----------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """What goes on around a solve.

    Attributes:
        run: the folder that it is kept in; None: it is not kept.
        report: is told how far it is.
        interrupt: whether it is to stop.
        tell: is told what deserves a line of its own.
    """

    run: Run | None
    report: Report
    interrupt: Interrupt
    tell: Tell = lambda text: None

    def tell_level(self, what: str, estimate: float, then: str = "") -> None:
        """Tells of a level that is done.

        Arguments:
            what: it was.
            estimate: of the error; infinite where it is not known.
            then: what comes next.
        """
        error = f"estimated error {estimate:.0e}" if estimate < math.inf else ""
        self.tell(", ".join(part for part in (what, error, then) if part))

    def part(self, before: int, steps: int, run: Run | None = None, place: str = "") -> Context:
        """The context of a part of the solve.

        Arguments:
            before: steps that were made before this part.
            steps: of the whole solve.
            run: the folder that the part is kept in.
            place: where the part is in a solve that does not know how many it will have, in words.
        """
        return dataclasses.replace(
            self, run=run, report=lambda now: self.report(now.within(before, steps, place))
        )


@dataclass(frozen=True)
class Asked:
    """What `solve` was asked for, besides how to solve. The arguments are those of `solve`."""

    problem: Problem
    seeds: list[int]
    several: bool
    out: str | os.PathLike[str] | None
    resume: bool
    progress: bool | None
    hooks: Hooks
    interrupt: Interrupt

    @property
    def seeds_at_once(self) -> int | None:
        """The number of seeds; None where there is one alone."""
        return len(self.seeds) if self.several else None

    def trainer(self, loss: Loss) -> Trainer:
        """The trainer of the first stage, with short launches where there is a budget."""
        return Trainer(loss, self.seeds_at_once, hurried=self.interrupt.seconds < math.inf)

    def settings(self, recipe: Recipe, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of a run: as they are told, and as a folder keeps them.

        A part of the recipe that could not be made again is refused here, if there is a folder.
        """
        told = settings(self.problem, recipe, self.seeds) | more
        return told, told if self.out is None else kept_settings(told, recipe)

    @contextlib.contextmanager
    def begun(self, told: Mapping[str, Any], kept: Mapping[str, Any]) -> Iterator[Context]:
        """Opens the folder, tells hooks of the start, shows a bar and waits for Ctrl-C.

        Arguments:
            told: the settings for hooks.
            kept: the settings for the folder.
        """
        with contextlib.ExitStack() as stack:
            run = None
            if self.out is not None:
                run = stack.enter_context(Run(self.out, kept, self.resume))
            self.hooks.start(told)
            shown, tell = stack.enter_context(display(self.problem.name, self.progress))

            def report(now: Progress) -> None:
                shown(now)
                self.hooks.update(now)

            yield Context(run, report, stack.enter_context(self.interrupt), tell)


# --- training -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """The part of a march that is trained.

    Attributes:
        problem: the whole problem with the box of this window, in which solutions speak; the loss
            has the box of the first one.
        number: of the window.
        time_origin: how long after the first window this one begins.
        given: extra inputs of the loss: the start of the window and the state there.
        params: to begin with.
        weighting: the state of the recipe's weighting to begin with; None: its own.
    """

    problem: Problem
    number: int
    time_origin: float
    given: dict[str, Array]
    params: Array | None = None
    weighting: Any = None


class FollowedError:
    """The relative L2 error of the best parameters, compiled once for all windows of a march.

    Arguments:
        trainer: of the first stage.
    """

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self._compiled: Callable[..., Array] | None = None

    def during(self, window: Window) -> Callable[[Array], np.ndarray] | None:
        """A function from parameters to their errors, by seed; None where there is no reference."""
        problem, dtype = window.problem, self.trainer.loss.recipe.dtype
        if problem.reference is None:
            return None
        with on_cpu() as host:
            lattice = error_lattice(problem, WATCHED)
            lattice = jax.tree.map(lambda a: jnp.asarray(a, dtype), lattice)
            true = to_device(reference_on(problem, None, lattice), host)
            origin = jnp.asarray(window.time_origin, jnp.float64)

        def error(params: Array) -> np.ndarray:
            with on_cpu() as host:
                program = self._program(true)
                return np.asarray(program(to_device(params, host), origin, lattice, true))

        return error

    def _program(self, true: Mapping[str, Array]) -> Callable[..., Array]:
        if self._compiled is None:
            problem, trainer = self.trainer.loss.problem.whole, self.trainer
            operator = Selected(Outputs(), tuple(true)).traced(problem)

            def error(params: Any, origin: Any, lattice: Lattice, true: Any) -> Array:
                piece = Piece(trainer.model(params), origin)
                ours = evaluate(piece, operator, problem, lattice)
                difference, size, _ = squares(problem, lattice, ours, true)
                return jnp.sqrt(difference / size)

            if trainer.seeds is not None:
                error = jax.vmap(error, in_axes=(0, None, None, None))
            self._compiled = jax.jit(error, compiler_options=options_for_few_runs())
        return self._compiled


class Training:
    """One run from its first launch to its solution.

    Arguments:
        trainer: of the first stage.
        seeds: of the random numbers.
        context: the folder, who is told, and whether to stop.
        window: the part of a march; None: it is no march.
        error: how the error is followed; None: anew.
    """

    def __init__(
        self,
        trainer: Trainer,
        seeds: Sequence[int],
        context: Context,
        window: Window | None = None,
        error: FollowedError | None = None,
    ):
        self.loss, self.seeds, self.context = trainer.loss, list(seeds), context
        self.run = context.run
        self.window = window or Window(self.loss.problem, 0, 0.0, {})
        self.several = trainer.seeds is not None
        self.errors: list[tuple[int, Any]] = []
        self._error = error or FollowedError(trainer)
        self._operator = Outputs().traced(self.window.problem)
        self.session = self._begun(trainer)

    def _begun(self, trainer: Trainer) -> Session:
        """A fresh session, or the one that the run's folder holds."""
        window, interrupt = self.window, self.context.interrupt
        keys = jax.random.key(self.seeds[0])
        if self.several:
            keys = jax.vmap(jax.random.key)(jnp.asarray(self.seeds))
        if window.number:
            again = jax.vmap(jax.random.fold_in, (0, None)) if self.several else jax.random.fold_in
            keys = again(keys, window.number)
        kept = self.run.state() if self.run is not None else None
        if self.run is None or kept is None:
            state = trainer.init(keys, window.given, window.params, window.weighting)
            return Session(trainer, state, interrupt)
        about, arrays = kept
        trainer = trainer.of_stage(about["stage"])
        state = _restored(trainer.like(keys, window.given), arrays, self.run)
        session = Session(trainer, state, interrupt)
        session.records = [arrays["history"]] if arrays["history"].size else []
        session.spent, session.bytes = about["spent"], about["memory"]
        session.trouble = about.get("trouble")  # it would come to the same again
        self.errors = list(zip(arrays["error_steps"].tolist(), arrays["errors"]))
        return session

    def go(self) -> None:
        """Trains until the last step, an interrupt or trouble, and keeps the last state."""
        error, steps = self._error.during(self.window), self.loss.recipe.total_steps
        begun, saved = self.session.step, time.perf_counter()

        def observe(session: Session, losses: Mapping[str, float], rate: float) -> None:
            nonlocal saved
            mean = None
            if error is not None:
                self.errors.append((session.step, error(session.state.best)))
                mean = float(np.mean(self.errors[-1][1]))
            try:
                self.context.report(Progress(session.step, steps, losses, mean, rate))
            except BaseException:
                self._save(wait=True)  # a callback may raise whatever it likes; the run is kept
                raise
            if time.perf_counter() - saved > SAVE_SECONDS and self._save():
                saved = time.perf_counter()

        self.session.go(observe)
        if self.session.step > begun:
            self._save(wait=True)

    def _save(self, wait: bool = False) -> bool:
        """Copies the state, and has it written while training goes on; False where the last one is
        still being written."""
        if self.run is None or (self.run.saver.busy and not wait):
            return self.run is None
        session = self.session
        about = {
            "stage": session.trainer.stage.number,
            "step": session.step,
            "spent": session.spent,
            "memory": session.bytes,
            "trouble": session.trouble,
        }
        arrays = {STATE + name: leaf for name, leaf in leaves(session.state).items()}
        records = session.records
        arrays["history"] = np.concatenate(records, axis=-2) if records else np.zeros(0)
        arrays["error_steps"] = np.array([step for step, _ in self.errors], int)
        arrays["errors"] = np.array([np.asarray(error) for _, error in self.errors])
        self.run.save(about, arrays, to_data(self._found()), wait)
        return True

    def _one(self, tree: Any, i: int) -> Any:
        """What belongs to one of the seeds."""
        return jax.tree.map(lambda leaf: leaf[i], tree) if self.several else tree

    def _solution(self, i: int) -> Solution:
        names, session, recipe = self.loss.names, self.session, self.loss.recipe
        now = session.state
        best, step, loss = self._one((now.best, now.best_step, now.best_loss), i)
        records = [self._one(record, i) for record in session.records]
        table = np.concatenate([np.zeros((0, len(names) + 1)), *records])
        checks = [np.arange(s.start, s.end, s.optimiser.check_every) for s in recipe.stages]
        history = History(
            np.concatenate(checks)[: len(table)],
            {name: table[:, k] for k, name in enumerate(names)},
            table[:, -1],
            np.array([step for step, _ in self.errors], int),
            np.array([self._one(error, i) for _, error in self.errors], float),
        )
        outcome = Outcome(
            recipe,
            history,
            Timing(session.compiling, session.spent, session.step),
            seed=self.seeds[i],
            best_step=int(step),
            best_loss=float(loss),
            memory_bytes=session.bytes,
            interrupted=session.step < recipe.total_steps,
            run_dir=self.run.path if self.run is not None else None,
        )
        piece = Piece.of(session.trainer.model(best), self.window.time_origin)
        return Solution(self.window.problem, [piece], outcome, operator=self._operator)

    def _found(self) -> Solution | Ensemble:
        solutions = [self._solution(i) for i in range(len(self.seeds))]
        return Ensemble(solutions) if self.several else solutions[0]

    def finish(self, advise: Callable[[Any], Any] | None = None) -> Solution | Ensemble:
        """The solution, kept in the run's folder; raises `Diverged` with it where there was
        trouble.

        Arguments:
            advise: adds advice to what was found without trouble.
        """
        out, trouble = self._found(), self.session.trouble
        if advise is not None and trouble is None:
            out = advise(out)
        if self.run is not None:
            out = keep_or_say(self.run, out, make_record(out) | {"trouble": trouble})
        if trouble is not None:
            first = out[0] if isinstance(out, Ensemble) else out
            where = f"in {self.run.path}" if self.run else "in this error's .solution"
            advice = self.loss.recipe.optimisers[0].if_diverged
            raise Diverged(
                f"{trouble}; the best parameters, from step {first.best_step:,}, are {where}."
                f" {advice}",
                out,
            )
        return out


def keep_or_say(run: Run, found: Solution | Ensemble, result: dict[str, Any]) -> Any:
    """Writes the result to the run's folder; on failure, warns and still returns the solution.

    Arguments:
        run: the folder.
        found: the solution, or those of several seeds.
        result: the record of the run.

    Returns:
        The solution with its record.
    """
    try:
        found = found.with_record(keep(run, found, result))
    except Exception as error:
        found = found.with_record(result)
        say(
            f"{run.path} could not be written ({type(error).__name__}: {error}): the solution is"
            " only in memory; keep it with solution.save(folder)"
        )
    if run.saver.trouble is not None:
        say(
            f"the last state of this run is not kept in {run.path} ({run.saver.trouble}): resuming"
            " it goes on from the one before"
        )
    return found


def _restored(like: TrainState, arrays: Mapping[str, np.ndarray], run: Run) -> TrainState:
    """A saved state in the shape of its stage's states."""
    try:
        return with_leaves(like, arrays, prefix=STATE)
    except TypeError as error:
        raise InputError(
            f"resume: the state in {run.path} does not fit this network ({error}): repeat the"
            " settings it was started with, and the versions in environment.json"
        ) from None
