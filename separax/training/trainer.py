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
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.interpreters import partial_eval
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..core import Options, options_for_few_runs, options_for_training, rounded
from ..domain import Uniform
from ..equations import ExtraInputs
from ..networks import matrices
from ..recipe import LOOK
from ..residuals import Layers, Loss, Model, Residuals

ROUND = 100  # steps between two syncs with the host
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
    ]  # what the loss is told besides: nothing, or where a window of time begins, and from what
    tolerance: Int[Array, ""] | None = (
        None  # the number of the one that causal weights are at, where there are any
    )


class Trainer:
    """Compiles and runs the launches of one stage of a loss' recipe, for one seed or for several at once."""

    def __init__(self, loss: Loss, seeds: int | None = None, stage: int = 0):
        self.loss, self.seeds, self.stage = loss, seeds, loss.recipe.stages[stage]
        steps, self.every, self.searches = (
            self.stage.steps,
            self.stage.every,
            self.stage.optimiser.searches,
        )
        # rounds must divide the stage, so that every launch is made of whole ones; looks must divide rounds and draws
        self.round = (
            1 if self.stage.optimiser.solves else math.gcd(steps, ROUND)
        )  # a solve's steps are few and long
        longest = LOOK if steps >= ROUND else 1
        self.look = max(
            n for n in range(1, longest + 1) if self.round % n == 0 and (self.every or n) % n == 0
        )
        if (
            self.searches
        ):  # the terms are known where a look begins, so the history must find them there
            self.look = math.gcd(self.look, LOOK)
        self.held = max(1, HELD // self.round)
        self.unseen = (
            type(loss)(loss.problem, dataclasses.replace(loss.recipe, sampler=Uniform()))
            if self.searches
            else None
        )
        self.optimiser: Any = self.stage.optimiser.transform(steps)
        if self.stage.optimiser.sees == "matrices":
            self.optimiser = self._by_layer(self.optimiser)
        self.traces = 0  # how often the launch was traced: once per stage
        self._seconds = 0.0  # of its first and last look: nearly all of it compiling
        self._whole: Callable[[Array], Model] | None = None
        self._layers: Callable[[Array], Any] | None = None
        self._jitted: dict[str, Callable[..., Any]] = {}

    # --- what happens once in a stage ----------------------------------------------------------------------------

    def init(
        self, key: PRNGKeyArray, given: ExtraInputs | None = None, params: Array | None = None
    ) -> TrainState:
        """A fresh state, with parameters of its own or with those of `params`; with several seeds, one entry each."""
        return self._jit(self._init)(key, given or {}, params)

    def like(self, key: PRNGKeyArray, given: ExtraInputs | None = None) -> Any:
        """Shapes and types of this stage's states."""
        return jax.eval_shape(self._each(self._init), key, given or {}, None)

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

    def _init(self, key: PRNGKeyArray, given: ExtraInputs, params: Array | None) -> TrainState:
        k_model, k_points = jax.random.split(key)
        model = self._build(k_model)
        model, none = model if params is None else params, jnp.zeros((), jnp.int32)
        unknown = jnp.asarray(jnp.inf, self.loss.recipe.dtype)
        first = None if self.loss.recipe.causal is None else none
        state = TrainState(
            model,
            None,
            jax.random.key_data(k_points),
            none,
            model,
            unknown,
            none,
            dict(given),
            first,
        )
        if self.searches:
            return self._begin(state)
        return dataclasses.replace(state, optimiser=self.optimiser.init(model))

    def _build(self, key: PRNGKeyArray) -> Array:
        """Fresh parameters as one vector; and how such a vector becomes a network again."""
        arrays, static = eqx.partition(
            Model.build(self.loss.problem, self.loss.recipe, key), eqx.is_array
        )
        model, unravel = ravel_pytree(arrays)
        self._whole = lambda params: eqx.combine(unravel(params), static)
        self._layers = ravel_pytree(matrices(arrays))[1]
        return model

    def _by_layer(self, inner: Any) -> optax.GradientTransformation:
        """A transformation of matrices as one of the vector that they make."""

        def split(vector: Any) -> Any:
            self._known()
            assert self._layers is not None
            return self._layers(vector)

        def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            updates, state = inner.update(split(updates), state, split(params))
            return ravel_pytree(updates)[0], state

        return optax.GradientTransformation(lambda params: inner.init(split(params)), update)

    def _begin(self, before: TrainState) -> TrainState:
        start = before.best
        places = self._draw(before.key, self.stage.start)
        if self.searches:
            # the first look finds out how good the start is: another program for that would have to be compiled
            total = jnp.asarray(jnp.inf, start.dtype)
            optimiser = self.optimiser.init(start, *self._first(start, places, before.given))
        else:
            total, optimiser = (
                self._value(start, places, before.given)[0],
                self.optimiser.init(start),
            )
        # two copies, because a launch takes over the memory of its argument
        copy = jnp.copy(start)
        return dataclasses.replace(
            before, model=jnp.copy(start), optimiser=optimiser, best=copy, best_loss=total
        )

    def _first(self, start: Array, places: Any, given: ExtraInputs) -> tuple[Array, Array]:
        """The loss and its gradient where a stage begins, as far as they are of use: every program takes its time to compile."""
        if self.stage.optimiser.sees == "layers":
            return jnp.asarray(jnp.inf, start.dtype), jnp.zeros_like(start)
        if self.stage.optimiser.solves:
            return self._value(start, places, given)[0], jnp.zeros_like(start)
        (value, _), gradient = jax.value_and_grad(self._value, has_aux=True)(start, places, given)
        return value, gradient

    def _close(self, state: TrainState) -> TrainState:
        if self.searches:
            return self._compared(state, state, self._on_unseen(state.model, state))
        places = self._draw(state.key, self.stage.end - 1)
        return self._compared(state, state, self._value(state.model, places, state.given)[0])

    def _compared(self, state: TrainState, seen: TrainState, total: Array) -> TrainState:
        """`state` with the best parameters so far, where those of `seen` have a loss of `total`; NaN is not better."""
        # while causal weights hold late times back, a flat function has the lowest loss of all: then the latest are the best
        better = total < (state.best_loss if state.tolerance is None else jnp.inf)
        return dataclasses.replace(
            state,
            best=jnp.where(better, seen.model, state.best),
            best_loss=jnp.where(better, total, state.best_loss),
            best_step=jnp.where(better, seen.step, state.best_step),
        )

    def model(self, params: Float[Array, " parameters"]) -> Model:
        """Parameters as they stand in a state, made a network again."""
        self._known()
        assert self._whole is not None
        return self._whole(params)

    def _known(self) -> None:
        """How parameters become a network: a run that is resumed builds nothing itself."""
        if self._whole is None:
            jax.eval_shape(self._build, jax.random.key(0))

    # --- the compiled part -------------------------------------------------------------------------------------

    def _value(self, params: Any, places: Any, given: ExtraInputs) -> tuple[Array, Array]:
        with rounded(self.loss.recipe.precision):
            terms = self.loss(self.model(params), places, given)
        return self.loss.total(terms), terms

    def _followed(
        self, params: Any, places: Any, given: ExtraInputs, tolerance: Array | None
    ) -> tuple[Array, tuple[Array, Any]]:
        """What a gradient is taken of; with the step's terms and total, and the tolerance of the next one."""
        causal = self.loss.recipe.causal
        if causal is None or tolerance is None:
            total, terms = self._value(params, places, given)
            return total, (jnp.append(terms, total), None)
        size = jnp.asarray(causal.tolerances, self.loss.recipe.dtype)[tolerance]
        with rounded(self.loss.recipe.precision):
            terms, weighed, least = self.loss.causal(self.model(params), places, given, size)
        record = jnp.append(terms, self.loss.total(terms))
        return self.loss.total(weighed), (record, causal.advanced(tolerance, least))

    def _draw(self, key: Array, step: Any) -> Any:
        """The points of a step."""
        number = (step - self.stage.start) // self.every if self.every else 0
        return self.loss.draw(
            jax.random.wrap_key_data(key), jnp.asarray(self.stage.draw + number, jnp.int32)
        )

    def _on_unseen(self, params: Any, state: TrainState) -> Array:
        """The loss on points that no step of this stage is made on."""
        assert self.unseen is not None  # only a stage that searches asks
        number = jnp.asarray(UNSEEN + self.stage.number, jnp.int32)
        return self._value(
            params, self.unseen.draw(jax.random.wrap_key_data(state.key), number), state.given
        )[0]

    def _look(self, state: TrainState, places: Any) -> tuple[TrainState, Array]:
        """Some steps on one draw of points; returns every step's terms and total."""
        after, record = (self._searched if self.searches else self._stepped)(state, places)
        after = dataclasses.replace(after, step=state.step + self.look)
        # the first loss of a look belongs to the parameters it began with
        total = self._on_unseen(state.model, state) if self.searches else record[0, -1]
        return self._compared(after, state, total), record

    def _stepped(self, state: TrainState, places: Any) -> tuple[TrainState, Array]:
        """Steps along one gradient each."""

        def step(carry, _):
            params, optimiser, tolerance = carry
            gradient, (record, tolerance) = jax.grad(self._followed, has_aux=True)(
                params, places, state.given, tolerance
            )
            updates, optimiser = self.optimiser.update(gradient, optimiser, params)
            params = params + updates.astype(params.dtype)
            return (params, optimiser, tolerance), record

        first = (state.model, state.optimiser, state.tolerance)
        (params, optimiser, tolerance), record = lax.scan(step, first, None, length=self.look)
        return dataclasses.replace(
            state, model=params, optimiser=optimiser, tolerance=tolerance
        ), record

    def _searched(self, state: TrainState, places: Any) -> tuple[TrainState, Array]:
        """Steps of an optimiser that evaluates the loss itself. It knows the total where it is, but not the terms: those are
        evaluated once, where the look begins, and stand for all of it."""
        first, terms = self._value(state.model, places, state.given)

        def objective(at: Array) -> Array:
            return self._value(at, places, state.given)[0]

        kind = {"layers": Layers, "residuals": Residuals}.get(self.stage.optimiser.sees)
        asked = kind(self.loss, objective, self.model, places, state.given) if kind else objective

        def step(carry, _):
            params, optimiser = carry
            total = optimiser.value.astype(params.dtype)
            return self.optimiser.update(params, optimiser, asked), total

        (params, optimiser), totals = lax.scan(
            step, (state.model, state.optimiser), None, length=self.look
        )
        totals = totals.at[0].set(first)
        record = jnp.concatenate(
            [jnp.broadcast_to(terms, (self.look, len(terms))), totals[:, None]], 1
        )
        return dataclasses.replace(state, model=params, optimiser=optimiser), record

    def _round(self, state: TrainState) -> tuple[TrainState, Array]:
        """Look after look, on one draw of points for all of them or on one for each."""
        once = self.every is None or self.every % self.round == 0
        kept = self._draw(state.key, state.step) if once else None

        def look(state, _):
            return self._look(state, kept if once else self._draw(state.key, state.step))

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

        # the same numbers of points, drawn the cheapest way
        loss = type(self.loss)(
            self.loss.problem, dataclasses.replace(self.loss.recipe, sampler=Uniform())
        )

        def forward(params: Any, key: Array) -> Array:
            first = jnp.zeros((), jnp.int32)
            return self._followed(
                params, loss.draw(key, first), {}, None if loss.recipe.causal is None else first
            )[0]

        key = jax.random.key(0)
        # not those of a whole state, for which points are drawn: Gauss's rule takes seconds for many
        params = jax.eval_shape(self._build, key)
        # values that a residual without a lattice does not use are in the program as written, not in the compiled one
        used, _ = partial_eval.dce_jaxpr(jax.make_jaxpr(forward)(params, key).jaxpr, [True])
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
        if self.stage.optimiser.solves:
            return options_for_few_runs()
        model = jax.eval_shape(
            lambda key: self.model(self._init(key, {}, None).model), jax.random.key(0)
        )
        return options_for_training(model.network.body.out.weight.shape[-1])


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
