"""The training engine: many steps per launch, host work only between launches.

    stage (of one optimiser) ─► launches ─► rounds ─► looks (on one draw of points, with one check for the best) ─► steps

A launch is one compiled program whose number of rounds is an argument, so that a stage compiles once whatever its number
of steps, and a launch can be as long as the time between two screen updates. Everything a step needs is a function of
the state and its step number: a run stopped between launches and continued is the run that was never stopped.

The best parameters are those of the lowest training loss, looked for every few steps and once more after a stage's last
step. A stage begins from the best of the one before, with a fresh optimiser, on new points. A loss on other points is
another loss, so the stage first measures its start on its own points; only what is lower than that there replaces it. A
stage that finds nothing better leaves what it was given.

An optimiser that keeps its points for a whole stage can come to fit them and nothing between. Its best parameters are
therefore those of the lowest loss on *other* points, which it never sees: it may go astray, the solution does not.
"""

from __future__ import annotations

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

from ..core import Options, options_for_few_runs, options_for_training, with_types_of
from ..domain import Uniform
from ..equations import ExtraInputs
from ..residuals import Loss, Model, Objective

ROUND = 100  # steps of a stage from which it has looks of several
UNSEEN = 2**30  # a number that no draw of a run reaches
HELD = 20_000  # steps of history a launch can hold


class TrainState(eqx.Module):
    """All that a run is at one step. Every leaf is an array, with a leading axis when several seeds are trained.

    The parameters are one flat vector: an optimiser's step is then one kernel instead of one per layer, which is what a
    small network's time on a GPU is made of.
    """

    model: Float[Array, " parameters"]
    optimiser: Any
    key: Array  # raw key data, so that it can be saved like any other array
    step: Int[Array, ""]
    best: Float[Array, " parameters"]
    best_loss: Float[Array, ""]
    best_step: Int[Array, ""]
    given: dict[
        str, Array
    ]  # extra inputs of the loss: where a window of time begins, and from what
    weighting: Any  # the state of the recipe's weighting
    sampler: Any  # the state of the recipe's sampler


class Trainer:
    """Compiles and runs the launches of one stage of a loss' recipe, for one seed or for several at once."""

    def __init__(self, loss: Loss, seeds: int | None = None, stage: int = 0):
        self.loss, self.seeds, self.stage = loss, seeds, loss.recipe.stages[stage]
        self.optimiser = self.stage.optimiser
        steps, self.every = self.stage.steps, self.stage.every
        # Rounds must divide the stage, so that every launch is made of whole ones. Looks must
        # divide rounds, draws, and what the history holds: some optimisers know terms there alone.
        self.round = math.gcd(steps, self.optimiser.round)
        longest = self.optimiser.look if steps >= ROUND else 1
        self.look = math.gcd(longest, self.round, self.every or longest)
        self.held = max(1, HELD // self.round)
        self.traces = 0  # how often the launch was traced: once per stage
        self._seconds = 0.0  # of its first and last look: nearly all of it compiling
        self._whole: tuple[Callable[[Array], Model], Callable[[Array], Any]] | None = None
        self._jitted: dict[str, Callable[..., Any]] = {}

    @functools.cached_property
    def unseen(self) -> Loss:
        """The loss on points that no step is made on, as many and drawn the cheapest way."""
        recipe = dataclasses.replace(self.loss.recipe, sampler=Uniform())
        return type(self.loss)(self.loss.problem, recipe)

    # --- what happens once in a stage ----------------------------------------------------------------------------

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
        """Shapes and types of this stage's states."""
        return jax.eval_shape(self._each(self._init), key, given or {}, None, None)

    def begin(self, before: TrainState) -> TrainState:
        """The first state of this stage, from the last one of the stage before."""
        return self._once(self._begin, before)

    def close(self, state: TrainState) -> TrainState:
        """A last look: at the parameters the last step left, on the points it saw."""
        return self._once(self._close, state)

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function if self.seeds is None else jax.vmap(function)

    def _jit(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """One of our functions for all seeds, compiled once however often it is called."""
        if function.__name__ not in self._jitted:
            self._jitted[function.__name__] = jax.jit(
                self._each(function), compiler_options=options_for_few_runs()
            )
        return self._jitted[function.__name__]

    def _once(self, function: Callable[..., TrainState], argument: Any) -> TrainState:
        started = time.perf_counter()
        out = jax.block_until_ready(self._jit(function)(argument))
        self._seconds += time.perf_counter() - started
        return out

    def spent(self) -> float:
        """The seconds that `begin` and `close` took since they were last asked for."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _init(
        self, key: PRNGKeyArray, given: ExtraInputs, params: Array | None, weighting: Any
    ) -> TrainState:
        k_model, k_points = jax.random.split(key)
        model = self._build(k_model)
        model, none = model if params is None else params, jnp.zeros((), jnp.int32)
        recipe = self.loss.recipe
        state = TrainState(
            model,
            None,
            jax.random.key_data(k_points),
            none,
            model,
            jnp.asarray(jnp.inf, recipe.dtype),
            none,
            dict(given),
            recipe.weighting.init(self.loss.names) if weighting is None else weighting,
            self.loss.learned(),
        )
        optimiser = self.optimiser.init(self._objective(state), model)
        return dataclasses.replace(state, optimiser=optimiser)

    def _build(self, key: PRNGKeyArray) -> Array:
        """Fresh parameters as one vector; and how such a vector becomes a network again."""
        arrays, static = eqx.partition(
            Model.build(self.loss.problem, self.loss.recipe, key), eqx.is_array
        )
        model, unravel = ravel_pytree(arrays)
        self._whole = (
            lambda params: eqx.combine(unravel(params), static),
            ravel_pytree(arrays.layers())[1],
        )
        return model

    def _begin(self, before: TrainState) -> TrainState:
        start = before.best
        objective = self._objective(before)
        # on other points the first look finds out how good the start is: no program for that alone
        total = self.optimiser.judged(
            lambda: self._total(objective, start), lambda: jnp.asarray(jnp.inf, start.dtype)
        )
        optimiser = self.optimiser.init(objective, start)
        # two copies, because a launch takes over the memory of its argument
        copy = jnp.copy(start)
        return dataclasses.replace(
            before, model=jnp.copy(start), optimiser=optimiser, best=copy, best_loss=total
        )

    def _close(self, state: TrainState) -> TrainState:
        last = dataclasses.replace(state, step=jnp.asarray(self.stage.end - 1, state.step.dtype))
        total = self.optimiser.judged(
            lambda: self._total(self._objective(last), state.model),
            lambda: self._on_unseen(state.model, state),
        )
        return self._compared(state, state, total)

    def _compared(self, state: TrainState, seen: TrainState, total: Array) -> TrainState:
        """`state` with the best parameters so far, where those of `seen` have a loss of `total`; NaN is not better."""
        better = self.loss.recipe.weighting.better(total, state.best_loss)
        return dataclasses.replace(
            state,
            best=jnp.where(better, seen.model, state.best),
            best_loss=jnp.where(better, total, state.best_loss),
            best_step=jnp.where(better, seen.step, state.best_step),
        )

    def model(self, params: Float[Array, " parameters"]) -> Model:
        """Parameters as they stand in a state, made a network again."""
        return self._known()[0](params)

    def layers(self, params: Float[Array, " parameters"]) -> Any:
        """The same as a tree of matrices and vectors."""
        return self._known()[1](params)

    def _known(self) -> tuple[Callable[[Array], Model], Callable[[Array], Any]]:
        """How parameters become a network: a run that is resumed builds nothing itself."""
        if self._whole is None:
            jax.eval_shape(self._build, jax.random.key(0))
        assert self._whole is not None  # building says so
        return self._whole

    # --- the compiled part -------------------------------------------------------------------------------------

    def objective(
        self, places: Any, given: ExtraInputs | None = None, weighting: Any = None
    ) -> Objective:
        """The loss on some places, as an optimiser sees it."""
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

    def _on_unseen(self, params: Any, state: TrainState) -> Array:
        """The loss on points that no step of this stage is made on."""
        number = jnp.asarray(UNSEEN + self.stage.number, jnp.int32)
        places = self.unseen.draw(jax.random.wrap_key_data(state.key), number)
        return self._objective(state, places)(params)

    def _look(self, state: TrainState, places: Any) -> tuple[TrainState, Array]:
        """Some steps on one draw of points; returns every step's terms and total."""
        params, optimiser, weighting, record = self.optimiser.run(
            self._objective(state, places),
            state.model,
            state.optimiser,
            state.weighting,
            self.look,
        )
        after = dataclasses.replace(
            state,
            model=params,
            optimiser=optimiser,
            weighting=weighting,
            step=state.step + self.look,
        )
        # the first loss of a look belongs to the parameters it began with
        total = self.optimiser.judged(
            lambda: record[0, -1], lambda: self._on_unseen(state.model, state)
        )
        return self._compared(after, state, total), record

    def _round(self, state: TrainState) -> tuple[TrainState, Array]:
        """Look after look, on one draw of points for all of them or on one for each."""
        once = self.every is None or self.every % self.round == 0
        state, kept = self._drawn(state) if once else (state, None)

        def look(state, _):
            return self._look(*((state, kept) if once else self._drawn(state)))

        state, record = lax.scan(look, state, None, length=self.round // self.look)
        return state, record.reshape(self.round, -1)

    def _launch(self, state: TrainState, rounds: Int[Array, ""]) -> tuple[TrainState, Array]:
        self.traces += 1
        held = jnp.full(
            (self.held, self.round, len(self.loss.names) + 1), jnp.nan, self.loss.recipe.dtype
        )

        def body(i, carry):
            state, held = carry
            state, record = self._round(state)
            return state, lax.dynamic_update_index_in_dim(held, record, i, 0)

        return lax.fori_loop(0, rounds, body, (state, held))

    def predicted_bytes(self) -> int:
        """What a step will need, before anything is compiled: the results of all its products and their cotangents."""

        loss = self.unseen  # the same numbers of points, drawn the cheapest way

        def forward(params: Any, key: Array, weighting: Any) -> Array:
            places = loss.draw(key, jnp.zeros((), jnp.int32))
            objective = Objective(loss, self.model, self.layers, places, {})
            return objective.evaluated(params, weighting)[0]

        key = jax.random.key(0)
        # not those of a whole state, for which points are drawn: Gauss's rule takes seconds for many
        params = jax.eval_shape(self._build, key)
        # values that a residual without a lattice does not use are in the program as written, not in the compiled one
        weighting = jax.eval_shape(lambda: loss.recipe.weighting.init(loss.names))
        jaxpr = jax.make_jaxpr(forward)(params, key, weighting).jaxpr
        used, _ = partial_eval.dce_jaxpr(jaxpr, [True])
        # what a face is compared with, and the difference, which a residual's own lattice is fused with
        faces = jax.eval_shape(lambda key: loss.draw(key, jnp.zeros((), jnp.int32)), key)[1:]
        beside = (
            sum(math.prod(place.shape) for place in faces)
            * jnp.dtype(self.loss.recipe.dtype).itemsize
        )
        return 2 * (self.seeds or 1) * (_product_bytes(used) + beside)

    def compile(self, state: TrainState) -> Compiled:
        """The launch, compiled for states like this one, with what it took."""
        started = time.perf_counter()
        launch = self._launch if self.seeds is None else jax.vmap(self._launch, in_axes=(0, None))
        lowered = jax.jit(launch, donate_argnums=0).lower(state, jnp.zeros((), jnp.int32))
        program = lowered.compile(self._options())
        return Compiled(program, time.perf_counter() - started, program_bytes(program))

    def _options(self) -> Options:
        if self.round == self.optimiser.round == 1:  # a few long steps
            return options_for_few_runs()
        model = Model.shapes(self.loss.problem, self.loss.recipe)
        return options_for_training(model.network.outputs)


@dataclass(frozen=True)
class Compiled:
    program: Callable[..., tuple[TrainState, Array]]
    seconds: float
    bytes: int | None  # arguments, results and temporaries of one launch

    def __call__(self, state: TrainState, rounds: int) -> tuple[TrainState, np.ndarray]:
        """Runs `rounds` rounds and waits for them; returns the state and (seeds,) steps × (terms, total)."""
        state, held = self.program(state, jnp.asarray(rounds, jnp.int32))
        record = np.asarray(held[..., :rounds, :, :])
        return state, record.reshape(*record.shape[:-3], -1, record.shape[-1])


def program_bytes(program: Any) -> int | None:
    """Bytes of a compiled program's arguments, results and temporaries, where the backend tells."""
    try:
        found = program.memory_analysis()
    except (NotImplementedError, RuntimeError):
        return None
    if found is None:
        return None
    return (
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )


def _product_bytes(jaxpr: Any) -> int:
    """Bytes of the results of all matrix products of a program: what it cannot fuse away."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            out = equation.outvars[0].aval
            total += math.prod(out.shape) * out.dtype.itemsize
        for inner in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr"),
        ):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                total += _product_bytes(getattr(inner, "jaxpr", inner))
    return total
