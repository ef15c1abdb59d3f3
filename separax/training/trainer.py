"""The training engine: many steps per launch, host work only between launches.

    stage (of one optimiser) ─► launches ─► blocks ─► checks (of some steps on one draw of points)

A launch is one compiled program whose number of blocks is an argument, so that a stage compiles
once whatever its number of steps, and a launch can be as long as the time between two screen
updates. Everything a step needs is a function of the state and its step number: a run stopped
between launches and continued is the run that was never stopped.

The best parameters are those of the lowest training loss, checked every few steps and once more
after a stage's last step. A stage begins from the best of the one before, with a fresh optimiser,
on new points. A loss on other points is another loss, so the stage first measures its start on its
own points; only what is lower than that there replaces it. A stage that finds nothing better leaves
what it was given.

An optimiser that keeps its points for a whole stage can come to fit them and nothing between. Its
best parameters are therefore those of the lowest loss on *other* points, which no step of it is
made on: it may go astray, the solution does not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.interpreters import partial_eval
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..core import (
    NotAwaited,
    Options,
    compiled_unless,
    doing,
    options_for_few_runs,
    options_for_training,
    with_types_of,
)
from ..domain import Uniform
from ..equations import ExtraInputs
from ..residuals import Loss, Model, Objective

LONG = 100  # steps of a stage from which it is checked only every few of them
VALIDATION_DRAW = 2**30  # a number that no draw of a run reaches
HISTORY = 20_000  # steps of history a launch can hold


class TrainState(eqx.Module):
    """All that a run is at one step.

    Every leaf is an array, with a leading axis when several seeds are trained. The parameters are
    one flat vector: an optimiser's step is then one kernel instead of one per layer, which is what
    a small network's time on a GPU is made of.

    Arguments:
        model: the parameters.
        optimiser: the state of the stage's optimiser.
        key: raw key data, so that it can be saved like any other array.
        step: how many steps were made.
        best, best_loss, best_step: the best parameters, their loss, and when they were found.
        given: extra inputs of the loss: where a window of time begins, and from what.
        weighting: the state of the recipe's weighting.
        sampler: the state of the recipe's sampler.
    """

    model: Float[Array, " parameters"]
    optimiser: Any
    key: Array
    step: Int[Array, ""]
    best: Float[Array, " parameters"]
    best_loss: Float[Array, ""]
    best_step: Int[Array, ""]
    given: dict[str, Array]
    weighting: Any
    sampler: Any


class Trainer:
    """Compiles and runs the launches of one stage of a loss' recipe.

    Arguments:
        loss: with its problem and its recipe.
        seeds: how many are trained at once; None: one, without an axis for it.
        stage: the number of the stage.
        hurried: whether to make as few steps as can be between two chances to stop.
    """

    def __init__(self, loss: Loss, seeds: int | None = None, stage: int = 0, hurried: bool = False):
        self.hurried = hurried
        self.loss, self.seeds, self.stage = loss, seeds, loss.recipe.stages[stage]
        self.optimiser = self.stage.optimiser
        steps, self.every = self.stage.steps, self.stage.every
        # Blocks must divide the stage, so that every launch is made of whole ones. Checks must
        # divide blocks, draws, and what the history holds: some optimisers know terms there alone.
        most = self.optimiser.check_every if hurried else self.optimiser.block
        self.block = math.gcd(steps, most)
        longest = self.optimiser.check_every if steps >= LONG else 1
        self.check_every = math.gcd(longest, self.block, self.every or longest)
        self.most_blocks = max(1, HISTORY // self.block)
        self.traces = 0  # how often the launch was traced: once per stage
        self._stages = {stage: self}
        self._launched: Compiled | None = None
        self._whole: tuple[Callable[[Array], Model], Callable[[Array], Any]] | None = None
        self._jit = functools.cache(self._jitted)

    @functools.cached_property
    def validation(self) -> Loss:
        """The loss on points that no step is made on, as many and drawn the cheapest way."""
        recipe = dataclasses.replace(self.loss.recipe, sampler=Uniform())
        return type(self.loss)(self.loss.problem, recipe)

    def of_stage(self, stage: int) -> Trainer:
        """The trainer of another stage, always the same one.

        Arguments:
            stage: the number of the stage.
        """
        if stage not in self._stages:
            self._stages[stage] = other = type(self)(self.loss, self.seeds, stage, self.hurried)
            other._stages = self._stages
        return self._stages[stage]

    # --- what happens once in a stage ------------------------------------------------------------

    def init(
        self,
        key: PRNGKeyArray,
        given: ExtraInputs | None = None,
        params: Array | None = None,
        weighting: Any = None,
    ) -> TrainState:
        """A fresh state; with several seeds, one entry each.

        Arguments:
            key: of the random numbers of a seed.
            given: extra inputs of the loss.
            params: to begin with; None: fresh ones.
            weighting: the state to begin with; None: the weighting's own.
        """
        return self._jit(self._init)(key, given or {}, params, weighting)

    def like(self, key: PRNGKeyArray, given: ExtraInputs | None = None) -> Any:
        """Shapes and types of this stage's states.

        Arguments:
            key, given: as for `init`.
        """
        return jax.eval_shape(self._each(self._init), key, given or {}, None, None)

    def begin(self, before: TrainState) -> TrainState:
        """The first state of this stage.

        Arguments:
            before: the last state of the stage before.
        """
        return self._jit(self._begin)(before)

    def close(self, state: TrainState) -> TrainState:
        """A last check: of the parameters that the last step left, on its points.

        Arguments:
            state: after the last step.
        """
        return self._jit(self._close)(state)

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function if self.seeds is None else jax.vmap(function)

    def _jitted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """One of our functions for all seeds, compiled once however often it is called."""
        return jax.jit(self._each(function), compiler_options=options_for_few_runs())

    def _init(
        self, key: PRNGKeyArray, given: ExtraInputs, params: Array | None, weighting: Any
    ) -> TrainState:
        k_model, k_points = jax.random.split(key)
        model = self._build(k_model)
        model, none = model if params is None else params, jnp.zeros((), jnp.int32)
        recipe = self.loss.recipe
        if weighting is None:
            weighting = recipe.weighting.init(self.loss.names)
        state = TrainState(
            model=model,
            optimiser=None,
            key=jax.random.key_data(k_points),
            step=none,
            best=model,
            best_loss=jnp.asarray(jnp.inf, recipe.dtype),
            best_step=none,
            given=dict(given),
            weighting=weighting,
            sampler=self.loss.learned(),
        )
        optimiser = self.optimiser.init(self._objective(state), model)
        return dataclasses.replace(state, optimiser=optimiser)

    def _build(self, key: PRNGKeyArray) -> Array:
        """Fresh parameters as one vector; and how such a vector becomes a network again."""
        model = Model.build(self.loss.problem, self.loss.recipe, key)
        arrays, static = eqx.partition(model, eqx.is_array)
        params, unravel = ravel_pytree(arrays)
        layers = ravel_pytree(arrays.layers())[1]
        self._whole = (lambda params: eqx.combine(unravel(params), static)), layers
        return params

    def _begin(self, before: TrainState) -> TrainState:
        start = before.best
        objective = self._objective(before)
        # on other points the first check finds out how good the start is: no program for that alone
        total = self.optimiser.validation_loss(
            lambda: self._total(objective, start), lambda: jnp.asarray(jnp.inf, start.dtype)
        )
        optimiser = self.optimiser.init(objective, start)
        # two copies, because a launch takes over the memory of its argument
        model, best = jnp.copy(start), jnp.copy(start)
        return dataclasses.replace(
            before, model=model, optimiser=optimiser, best=best, best_loss=total
        )

    def _close(self, state: TrainState) -> TrainState:
        last = dataclasses.replace(state, step=jnp.asarray(self.stage.end - 1, state.step.dtype))
        total = self.optimiser.validation_loss(
            lambda: self._total(self._objective(last), state.model),
            lambda: self._validate(state.model, state),
        )
        return self._compared(state, state, total)

    def _compared(self, state: TrainState, seen: TrainState, total: Array) -> TrainState:
        """`state` with the best parameters so far, where those of `seen` have a loss of `total`.

        NaN is not better.
        """
        better = self.loss.recipe.weighting.better(total, state.best_loss)
        return dataclasses.replace(
            state,
            best=jnp.where(better, seen.model, state.best),
            best_loss=jnp.where(better, total, state.best_loss),
            best_step=jnp.where(better, seen.step, state.best_step),
        )

    def model(self, params: Float[Array, " parameters"]) -> Model:
        """Parameters as a network and unknowns.

        Arguments:
            params: as they stand in a state.
        """
        return self._known()[0](params)

    def layers(self, params: Float[Array, " parameters"]) -> Any:
        """Parameters as a tree of matrices and vectors.

        Arguments:
            params: as they stand in a state.
        """
        return self._known()[1](params)

    def _known(self) -> tuple[Callable[[Array], Model], Callable[[Array], Any]]:
        """How parameters become a network: a run that is resumed builds nothing itself."""
        if self._whole is None:
            jax.eval_shape(self._build, jax.random.key(0))
        assert self._whole is not None  # building says so
        return self._whole

    # --- the compiled part -----------------------------------------------------------------------

    def objective(
        self, places: Any, given: ExtraInputs | None = None, weighting: Any = None
    ) -> Objective:
        """The loss on some places, as an optimiser sees it.

        Arguments:
            places: the points of all terms.
            given: extra inputs of the loss.
            weighting: the state of the recipe's weighting.
        """
        return Objective(self.loss, self.model, self.layers, places, given or {}, weighting)

    def _objective(self, state: TrainState, places: Any = None) -> Objective:
        """The same for a state, on some places or on those of its step."""
        places = self._draw(state, state.step) if places is None else places
        return self.objective(places, state.given, state.weighting)

    def _total(self, objective: Objective, params: Array) -> Array:
        """The unweighted loss."""
        return objective.evaluated(params, objective.weighting)[1][0][-1]

    def _number(self, step: Any) -> Array:
        """The number of a step's draw."""
        number = (step - self.stage.start) // self.every if self.every else 0
        return jnp.asarray(self.stage.draw + number, jnp.int32)

    def _draw(self, state: TrainState, step: Any) -> Any:
        """The points of a step."""
        key = jax.random.wrap_key_data(state.key)
        return self.loss.draw(key, self._number(step), state.sampler)

    def _drawn(self, state: TrainState) -> tuple[TrainState, Any]:
        """The points of the state's step, from what the sampler learns where they are new."""
        if self.every and state.sampler is not None:
            key, step = jax.random.wrap_key_data(state.key), state.step

            def learned() -> Any:
                model, (place, *_) = self.model(state.model), self._draw(state, step - 1)
                after = self.loss.sampler.learn(
                    state.sampler,
                    key,
                    self._number(step),
                    place,
                    lambda place: self.loss.squares(model, place, state.given),
                )
                name = type(self.loss.sampler).__name__
                return with_types_of(state.sampler, after, f"sampler: {name}")

            new = (step > self.stage.start) & ((step - self.stage.start) % self.every == 0)
            sampler = lax.cond(new, learned, lambda: state.sampler)
            state = dataclasses.replace(state, sampler=sampler)
        return state, self._draw(state, state.step)

    def _validate(self, params: Any, state: TrainState) -> Array:
        """The loss on points that no step of this stage is made on."""
        number = jnp.asarray(VALIDATION_DRAW + self.stage.number, jnp.int32)
        places = self.validation.draw(jax.random.wrap_key_data(state.key), number)
        return self._objective(state, places)(params)

    def _check(self, state: TrainState, places: Any) -> tuple[TrainState, Array]:
        """Some steps on one draw of points; returns every step's terms and total."""
        objective, steps = self._objective(state, places), self.check_every
        params, optimiser, weighting, record = self.optimiser.run(
            objective, state.model, state.optimiser, state.weighting, steps
        )
        after = dataclasses.replace(
            state, model=params, optimiser=optimiser, weighting=weighting, step=state.step + steps
        )
        # the first loss belongs to the parameters that the steps began with
        total = self.optimiser.validation_loss(
            lambda: record[0, -1], lambda: self._validate(state.model, state)
        )
        return self._compared(after, state, total), record

    def _block(self, state: TrainState) -> tuple[TrainState, Array]:
        """Check after check, on one draw of points for all of them or on one for each."""
        once = self.every is None or self.every % self.block == 0
        state, kept = self._drawn(state) if once else (state, None)

        def check(state, _):
            return self._check(*((state, kept) if once else self._drawn(state)))

        state, record = lax.scan(check, state, None, length=self.block // self.check_every)
        return state, record.reshape(self.block, -1)

    def _launch(self, state: TrainState, blocks: Int[Array, ""]) -> tuple[TrainState, Array]:
        self.traces += 1
        shape = (self.most_blocks, self.block, len(self.loss.names) + 1)

        def body(i, carry):
            state, held = carry
            state, record = self._block(state)
            return state, lax.dynamic_update_index_in_dim(held, record, i, 0)

        held = jnp.full(shape, jnp.nan, self.loss.recipe.dtype)
        return lax.fori_loop(0, blocks, body, (state, held))

    def predicted_bytes(self) -> int:
        """The bytes that a step will need, before anything is compiled: the results of all its
        products and their cotangents."""
        loss = self.validation  # the same numbers of points, drawn the cheapest way

        def forward(params: Any, key: Array, weighting: Any) -> Array:
            places = loss.draw(key, jnp.zeros((), jnp.int32))
            objective = Objective(loss, self.model, self.layers, places, {})
            return objective.evaluated(params, weighting)[0]

        key = jax.random.key(0)
        # not those of a whole state, for which points are drawn: Gauss's rule takes seconds for
        # many
        params = jax.eval_shape(self._build, key)
        # values that a residual without a lattice does not use are not in the compiled program
        weighting = jax.eval_shape(lambda: loss.recipe.weighting.init(loss.names))
        jaxpr = jax.make_jaxpr(forward)(params, key, weighting).jaxpr
        used, _ = partial_eval.dce_jaxpr(jaxpr, [True])
        # what a face is compared with, and the difference, which a residual's lattice is fused with
        faces = jax.eval_shape(lambda key: loss.draw(key, jnp.zeros((), jnp.int32)), key)[1:]
        points = sum(math.prod(place.shape) for place in faces)
        beside = points * jnp.dtype(self.loss.recipe.dtype).itemsize
        return 2 * (self.seeds or 1) * (_product_bytes(used) + beside)

    def launch(
        self, state: TrainState, stopped: Callable[[], bool] = lambda: False
    ) -> tuple[Compiled | None, float]:
        """The launch, compiled when it is first asked for: a finished stage needs none, and all
        windows of a march share one.

        Arguments:
            state: one like those that it will be given.
            stopped: whether to wait for the compiler no longer.

        Returns:
            the launch, None where it was not waited for; and the seconds that this took.
        """
        if self._launched is not None:
            return self._launched, 0.0
        started = time.perf_counter()
        doing(f"compiling the steps of {type(self.optimiser).__name__}")
        with contextlib.suppress(NotAwaited):
            self._launched = self.compile(state, stopped)
        return self._launched, time.perf_counter() - started

    def compile(self, state: TrainState, stopped: Callable[[], bool] = lambda: False) -> Compiled:
        """Compiles the launch.

        Arguments:
            state: one like those that it will be given.
            stopped: whether to wait for the compiler no longer, which raises `NotAwaited`.
        """
        started = time.perf_counter()
        launch = self._launch if self.seeds is None else jax.vmap(self._launch, in_axes=(0, None))
        lowered = jax.jit(launch, donate_argnums=0).lower(state, jnp.zeros((), jnp.int32))
        program = compiled_unless(stopped, lowered, self._options())
        return Compiled(program, time.perf_counter() - started, program_bytes(program))

    def _options(self) -> Options:
        if self.block == self.optimiser.block == 1:  # a few long steps
            return options_for_few_runs()
        model = Model.shapes(self.loss.problem, self.loss.recipe)
        return options_for_training(model.network.outputs)


@dataclass(frozen=True)
class Compiled:
    """A compiled launch.

    Attributes:
        program: from a state and a number of blocks to a state and the history.
        seconds: that compiling took.
        bytes: of arguments, results and temporaries of one launch.
    """

    program: Callable[..., tuple[TrainState, Array]]
    seconds: float
    bytes: int | None

    def __call__(self, state: TrainState, blocks: int) -> tuple[TrainState, np.ndarray]:
        """Runs some blocks of steps and waits for them.

        Arguments:
            state: to begin with; its memory is taken over.
            blocks: how many.

        Returns:
            the state, and every step's terms and total, (steps, terms + 1), by seed where there are
            several.
        """
        state, held = self.program(state, jnp.asarray(blocks, jnp.int32))
        record = np.asarray(held[..., :blocks, :, :])
        return state, record.reshape(*record.shape[:-3], -1, record.shape[-1])


def program_bytes(program: Any) -> int | None:
    """The bytes of a compiled program's arguments, results and temporaries.

    Arguments:
        program: as `lower(…).compile()` returns it.

    Returns:
        The number; None where the backend does not tell.
    """
    try:
        found = program.memory_analysis()
    except (NotImplementedError, RuntimeError):
        return None
    if found is None:
        return None
    needed = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return needed - found.alias_size_in_bytes


def _product_bytes(jaxpr: Any) -> int:
    """Bytes of the results of all matrix products of a program: what it cannot fuse away."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            out = equation.outvars[0].aval
            total += math.prod(out.shape) * out.dtype.itemsize
        values = list(equation.params.values())
        for inner in filter(_is_program, jax.tree.leaves(values, is_leaf=_is_program)):
            total += _product_bytes(getattr(inner, "jaxpr", inner))
    return total


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")
