"""How fast a step is, beside a step done the paper's way, in the same run.

The paper-style step evaluates the same loss of the same network, the way the paper's code is built:
each derivative comes from its own nested forward-mode pass through the whole network, and Python
calls one compiled step at a time. In a separable network each axis' network is run on its own, and
each derivative merged onto the lattice by itself.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import PRECISION, InputError, in_float64
from ..domain import Lattice, Place, flatten
from ..equations import Problem
from ..networks import ModifiedMLP, PointwiseNetwork, SeparableNetwork, along
from ..recipe import Recipe
from ..residuals import Loss, Model
from ..separable import AbstractValues, Key
from ..training import Trainer, program_bytes

SLOW_ROUND = 10  # steps to a round of a pointwise network


class PaperNetwork(eqx.Module):
    """The same weights laid out as the paper's code has them: a network of its own per axis, every
    layer on its own."""

    bodies: list[dict[str, Any]]
    network: SeparableNetwork  # for the encodings; its own weights are not used
    is_separable: ClassVar[bool] = True

    @classmethod
    def split(cls, network: SeparableNetwork) -> PaperNetwork:
        bodies = []
        for i in range(len(network.axes)):
            body = jax.tree.map(lambda leaf, i=i: leaf[i], network.layers)
            layers = {
                "hidden": [(la.weight, la.bias) for la in body.hidden],
                "out": (body.out.weight, body.out.bias),
            }
            if isinstance(body, ModifiedMLP):
                layers["first"] = list(
                    zip(jnp.split(body.first.weight, 3, -1), jnp.split(body.first.bias, 3, -1))
                )
            bodies.append(layers)
        return cls(bodies, jax.tree.map(jax.lax.stop_gradient, network))

    def features(self, i: int, x: Array) -> Array:
        """The factors of axis i: (points, components · rank)."""
        body, axis = self.bodies[i], self.network.axes[i]
        activation = self.network.layers.activation

        def dense(h: Array, layer: tuple[Array, Array]) -> Array:
            return jnp.matmul(h, layer[0], precision=PRECISION) + layer[1]

        h = axis.encode(x, 0)[0]
        h = jnp.pad(h, ((0, 0), (0, max(a.inputs for a in self.network.axes) - h.shape[-1])))
        if "first" in body:
            gate, other, h = (activation(dense(h, layer)) for layer in body["first"])
            for layer in body["hidden"]:
                z = activation(dense(h, layer))
                h = (1 - z) * gate + z * other
        else:
            for layer in body["hidden"]:
                h = activation(dense(h, layer))
        h = dense(h, body["out"])
        if any(axis.zero_faces):
            rank = h.shape[-1] // self.network.components
            h = h * jnp.repeat(axis.envelope(x, 0)[0], rank, axis=-1)
        return h


class PaperSource(AbstractValues):
    """Derivatives one by one, by nested jvp through the whole network."""

    def __init__(self, network: PaperNetwork | PointwiseNetwork, place: Place):
        self.network, self.axes, self.shape = network, place.axes, place.shape
        self.dtype = jax.tree.leaves(network)[0].dtype
        if not isinstance(network, PaperNetwork) and isinstance(place, Lattice):
            place = flatten(place)
        self.coordinates = place.coordinates

    def _forward(self, coordinates: tuple[Array, ...]) -> Array:
        """Every component on the lattice, the axes' networks run one after the other; or at the
        points."""
        if not isinstance(self.network, PaperNetwork):
            nothing = (0,) * len(coordinates)
            return self.network.derivatives(coordinates, {nothing})[nothing]
        components = self.network.network.components
        factors = [
            self.network.features(i, x).reshape(len(x), components, -1)
            for i, x in enumerate(coordinates)
        ]
        merged, *others = factors
        if not others:
            return jnp.sum(merged, -1)
        for factor in others[:-1]:
            merged = jnp.einsum("...kr,nkr->...nkr", merged, factor, precision=PRECISION)
        return jnp.einsum("...kr,nkr->...nk", merged, others[-1], precision=PRECISION)

    def values(self, terms: Mapping[Key, Any]) -> Array:
        coordinates = tuple(jnp.asarray(c, self.dtype) for c in self.coordinates)
        total: Any = 0.0
        for (component, orders), coefficient in terms.items():
            function: Callable[[tuple[Array, ...]], Array] = self._forward
            for axis, order in enumerate(orders):
                for _ in range(order):
                    function = along(function, axis)
            total = total + coefficient * function(coordinates)[..., component].reshape(self.shape)
        return total


class PaperLoss(Loss):
    """The same loss from paper-style sources."""

    def sources(self, network: Any, places: Any) -> list[Any]:
        separable = network.is_separable
        if separable and self.problem.lift is not None:
            raise InputError(
                "bench: the paper's way has no values built in but zero: write hard=False for the"
                " others"
            )
        if separable and not all(isinstance(place, Lattice) for place in places):
            raise InputError(
                "bench: the paper's separable network has no scattered points: leave out Data"
                " conditions"
            )
        return [PaperSource(in_the_papers_way(network), place) for place in places]


def in_the_papers_way(network: Any) -> PaperNetwork | PointwiseNetwork:
    """A network laid out as the paper's code has it; a pointwise one stays what it is."""
    if isinstance(network, PaperNetwork) or not network.is_separable:
        return network
    return PaperNetwork.split(network.separable)


def ours(
    problem: Problem, recipe: Recipe, seeds: int = 1, steps: int = 1000, seconds: float = 3.0
) -> dict[str, Any]:
    """Time and memory of our step, many to a launch.

    Arguments:
        problem, recipe: what to train.
        seeds: of several, the time of one step of all of them.
        steps: of a launch, or fewer where they are slow: a quarter of the time.
        seconds: how long to repeat the launch.

    Returns:
        "ms_per_step", "compile_seconds", and "memory_mb", None where the backend does not tell.
    """
    if not recipe.network.is_separable:  # its steps are long: rounds of a few suffice
        recipe = dataclasses.replace(recipe, steps=SLOW_ROUND)
    trainer = Trainer(Loss(problem, recipe), None if seeds == 1 else seeds)
    key = jax.random.key(0)
    state = trainer.init(key if seeds == 1 else jax.random.split(key, seeds))
    launch = trainer.compile(state)
    state, _ = launch(state, 1)
    started = time.perf_counter()
    state, _ = launch(state, 1)
    fitting = int(seconds / 4 / (time.perf_counter() - started))
    rounds = max(1, min(trainer.most_blocks, steps // trainer.block, fitting))
    holder = [state]

    def run() -> int:
        holder[0], record = launch(holder[0], rounds)
        return len(record) if seeds == 1 else record.shape[1]

    return _measured(run, seconds, launch.seconds, launch.bytes)


def paper_style(
    problem: Problem, recipe: Recipe, steps: int = 100, seconds: float = 3.0
) -> dict[str, Any]:
    """Time and memory of the paper-style step, one Python call each.

    Arguments:
        problem, recipe: what to train.
        steps: between two looks at the clock.
        seconds: how long to repeat them.

    Returns:
        As `ours` does.
    """
    loss = PaperLoss(problem, recipe)
    trainer = Trainer(loss)
    model = trainer.model(trainer.init(jax.random.key(0)).model)
    params, static = eqx.partition(in_the_papers_way(model.network), eqx.is_array)
    first = recipe.stages[0]  # the one our step is timed with, too
    optimiser = first.optimiser.transformation(lambda params: params)
    state = optimiser.init(params)
    places = jax.jit(loss.draw)(jax.random.key(1), jnp.array(0))

    def value(params: Any, places: Any) -> Array:
        return loss.total(loss(Model(eqx.combine(params, static), model.unknowns), places))

    @jax.jit
    def step(params: Any, state: Any, places: Any) -> tuple[Any, Any, Array]:
        total, gradient = jax.value_and_grad(value)(params, places)
        updates, state = optimiser.update(gradient, state, params)
        return eqx.apply_updates(params, updates), state, total

    started = time.perf_counter()
    program = step.lower(params, state, places).compile()
    compiled = time.perf_counter() - started
    carried = [params, state]

    def run() -> int:
        for _ in range(steps):
            carried[0], carried[1], total = step(carried[0], carried[1], places)
        jax.block_until_ready(total)
        return steps

    return _measured(run, seconds, compiled, program_bytes(program))


def _measured(
    run: Callable[[], int], seconds: float, compiled: float, used: int | None
) -> dict[str, Any]:
    """The median over repeats of the time per step, and what is known of the program.

    Arguments:
        run: does some steps, waits for them and says how many.
        seconds: how long to repeat it; three times at least.
        compiled: the seconds of compiling.
        used: the bytes that the program needs.
    """
    run()
    found: list[float] = []
    started = time.perf_counter()
    while len(found) < 3 or time.perf_counter() - started < seconds:
        begin = time.perf_counter()
        steps = run()
        found.append((time.perf_counter() - begin) / steps)
    return {
        "ms_per_step": 1e3 * statistics.median(found),
        "compile_seconds": compiled,
        "memory_mb": None if used is None else used / 1e6,
    }


def disagreement(problem: Problem, recipe: Recipe) -> float:
    """Relative difference of the two gradients at one draw: both steps must do the same thing."""
    found = []
    for kind in (Loss, PaperLoss):
        trainer = Trainer(kind(problem, recipe))
        params = trainer.init(jax.random.key(0)).model
        places = trainer.loss.draw(jax.random.key(1), jnp.array(0))
        found.append(jax.jit(jax.grad(trainer.objective(places)))(params))
    own, theirs = found
    return float(jnp.linalg.norm(own - theirs) / jnp.linalg.norm(theirs))


def compare(
    problem: Problem, recipe: Recipe, seeds: int = 1, seconds: float = 3.0
) -> dict[str, Any]:
    """Both steps of a problem, side by side.

    Arguments:
        problem, recipe: what to train.
        seeds: also time so many at once.
        seconds: how long to repeat each measurement.

    Returns:
        What `ours` and `paper_style` return, by these names, and "seeds" for several; how many
        times "faster" ours is, the "gradient_difference", "points" and "precision".
    """
    with in_float64():
        few = 100 if recipe.network.is_separable else SLOW_ROUND
        rows: dict[str, Any] = {
            "points": max(recipe.counts(problem.box).values()),
            "precision": recipe.precision,
            "ours": ours(problem, recipe, seconds=seconds),
            "paper_style": paper_style(problem, recipe, few, seconds),
            "gradient_difference": disagreement(problem, recipe),
        }
        if seeds > 1:
            rows["seeds"] = ours(problem, recipe, seeds, seconds=seconds)
    faster = rows["paper_style"]["ms_per_step"] / rows["ours"]["ms_per_step"]
    return rows | {"faster": faster}
