"""A trained solve: a session that is watched, kept and made a solution."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import Diverged, InputError, on_cpu, options_for_few_runs, say, to_device
from ..domain import Lattice
from ..equations import Problem
from ..residuals import Model
from ..runs import Run, keep, leaves, to_data, with_leaves
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
from ..training import Interrupt, Programs, Session, TrainState

SAVE_SECONDS = 30.0  # between two saves of the state
STATE = "state."  # what the names of a state's arrays begin with
WATCHED = 2**15  # points of the lattice on which the error is followed during training


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


class ErrorProgram:
    """The relative L2 error of a model, compiled once for all windows of a march."""

    def __init__(self, programs: Programs):
        self.programs = programs
        self._compiled: Callable[..., Array] | None = None

    def __call__(self, params: Any, origin: Any, lattice: Lattice, true: dict[str, Array]) -> Array:
        """The errors by seed, of parameters whose network counts time from `origin`."""
        if self._compiled is None:
            problem, trainer = self.programs.loss.problem.whole, self.programs.trainer(0)
            operator = Selected(Outputs(), tuple(true)).traced(problem)

            def error(params: Any, origin: Any, lattice: Lattice, true: Any) -> Array:
                piece = Piece(trainer.model(params), origin)
                ours = evaluate(piece, operator, problem, lattice)
                difference, size, _ = squares(problem, lattice, ours, true)
                return jnp.sqrt(difference / size)

            each = error
            if self.programs.seeds is not None:
                each = jax.vmap(error, in_axes=(0, None, None, None))
            self._compiled = jax.jit(each, compiler_options=options_for_few_runs())
        return self._compiled(params, origin, lattice, true)


class Training:
    """One run from its first launch to its solution: a session, the error that is followed, the states that are
    kept in the run's folder."""

    def __init__(
        self,
        programs: Programs,
        seeds: Sequence[int],
        run: Run | None,
        interrupt: Interrupt,
        window: Window | None = None,
        error: ErrorProgram | None = None,
    ):
        self.loss, self.seeds, self.run, self.interrupt = programs.loss, list(seeds), run, interrupt
        self.window = window or Window(self.loss.problem, 0, 0.0, {})
        self.several = programs.seeds is not None
        self.errors: list[tuple[int, Any]] = []
        self._error = error or ErrorProgram(programs)
        self._operator = Outputs().traced(self.window.problem)
        self.session = self._begun(programs)

    def _begun(self, programs: Programs) -> Session:
        """A fresh session, or the one that the run's folder holds."""
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
            begun = self.window
            state = programs.trainer(0).init(keys, begun.given, begun.params, begun.weighting)
            return Session(programs, state, self.interrupt)
        about, arrays = kept
        like = programs.trainer(about["stage"]).like(keys, self.window.given)
        state = _restored(like, arrays, self.run)
        session = Session(programs, state, self.interrupt, about["stage"])
        session.records = [arrays["history"]] if arrays["history"].size else []
        session.spent, session.bytes = about["spent"], about["memory"]
        session.trouble = about.get("trouble")  # it would come to the same again
        self.errors = list(zip(arrays["error_steps"].tolist(), arrays["errors"]))
        return session

    def go(self, report: Callable[..., Any]) -> None:
        """Trains until the last step, an interrupt or trouble, and keeps the last state."""
        watch, steps, begun = self._watch(), self.loss.recipe.total_steps, self.session.step
        saved = time.perf_counter()

        def observe(session: Session, losses: Mapping[str, float], rate: float) -> None:
            nonlocal saved
            error = watch(session.state.best, session.step) if watch else None
            try:
                report(step=session.step, steps=steps, losses=losses, error=error, rate=rate)
            except BaseException:
                self._save(wait=True)  # a callback may raise whatever it likes; the run is kept
                raise
            if time.perf_counter() - saved > SAVE_SECONDS and self._save():
                saved = time.perf_counter()

        self.session.go(observe)
        if self.session.step > begun:
            self._save(wait=True)

    def _save(self, wait: bool = False) -> bool:
        """Copies the state, and has it written while training goes on; False where the last one is still being written."""
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

    def _watch(self) -> Callable[[Any, int], float] | None:
        """Follows the relative L2 error of the best parameters, where there is a reference."""
        problem = self.window.problem
        if problem.reference is None:
            return None
        with on_cpu() as host:
            lattice = jax.tree.map(
                lambda a: jnp.asarray(a, self.loss.recipe.dtype), error_lattice(problem, WATCHED)
            )
            true = to_device(reference_on(problem, None, lattice), host)
            origin = jnp.asarray(self.window.time_origin, jnp.float64)

        def watch(params: Any, step: int) -> float:
            with on_cpu() as host:
                found = np.asarray(self._error(to_device(params, host), origin, lattice, true))
            self.errors.append((step, found))
            return float(np.mean(found))

        return watch

    def _one(self, tree: Any, i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i], tree) if self.several else tree

    def _model(self, i: int) -> Model:
        return self.session.trainer.model(self._one(self.session.state.best, i))

    def _solution(self, i: int) -> Solution:
        names, session, recipe = self.loss.names, self.session, self.loss.recipe
        nothing = np.zeros((*([len(self.seeds)] if self.several else []), 0, len(names) + 1))
        table = self._one(np.concatenate([nothing, *session.records], axis=-2), i)
        steps = np.concatenate([np.arange(s.start, s.end, s.optimiser.look) for s in recipe.stages])
        history = History(
            steps[: len(table)],
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
            best_step=int(self._one(session.state.best_step, i)),
            best_loss=float(self._one(session.state.best_loss, i)),
            memory_bytes=session.bytes,
            interrupted=session.step < recipe.total_steps,
            run_dir=self.run.path if self.run is not None else None,
        )
        piece = Piece.of(self._model(i), self.window.time_origin)
        return Solution(self.window.problem, [piece], outcome, operator=self._operator)

    def _found(self) -> Solution | Ensemble:
        solutions = [self._solution(i) for i in range(len(self.seeds))]
        return Ensemble(solutions) if self.several else solutions[0]

    def finish(self, look: Callable[[Solution], Solution] | None = None) -> Solution | Ensemble:
        """The solution, kept in the run's folder after a last `look`; raises `Diverged` with it where there was trouble."""
        out, trouble = self._found(), self.session.trouble
        if look is not None and isinstance(out, Solution) and trouble is None:
            out = out if self.interrupt.asked else look(out)
        if self.run is not None:
            out = keep_or_say(self.run, out, make_record(out) | {"trouble": trouble})
        if trouble is not None:
            first = out[0] if isinstance(out, Ensemble) else out
            where = f"in {self.run.path}" if self.run else "in this error's .solution"
            what = self.loss.recipe.optimisers[0].if_diverged
            raise Diverged(
                f"{trouble}; the best parameters, from step {first.best_step:,}, are {where}. {what}",
                out,
            )
        return out


def keep_or_say(run: Run, found: Solution | Ensemble, result: dict[str, Any]) -> Any:
    """Writes the result to the run's folder; on failure, warns. Returns the solution with its record."""
    try:
        found = found.with_record(keep(run, found, result))
    except Exception as error:
        found = found.with_record(result)
        say(
            f"{run.path} could not be written ({type(error).__name__}: {error}): the solution is only in memory; keep it with solution.save(folder)"
        )
    if run.saver.trouble is not None:
        say(
            f"the last state of this run is not kept in {run.path} ({run.saver.trouble}): resuming it goes on from the one before"
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
