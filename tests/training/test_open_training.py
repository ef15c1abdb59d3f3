"""Optimisers, samplers, weightings and hooks of a user's own."""

import dataclasses
import signal
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import separax as sx
from separax.core import options_for_few_runs
from separax.recipe import as_code
from separax.residuals.loss import Loss
from separax.runs.states import States
from separax.training.trainer import Trainer

NETWORK = sx.SPINN(rank=2, width=4, depth=2, body="mlp")


def heat():
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.t - 0.1 * u.xx,
        [sx.Initial(lambda x: jnp.sin(jnp.pi * x)), sx.Dirichlet(0)],
        name="heat",
    )


def recipe(*optimisers, **options):
    if optimisers:
        options["optimiser"] = list(optimisers) if len(optimisers) > 1 else optimisers[0]
    return sx.Recipe(**({"network": NETWORK, "points": 6, "steps": 40} | options))


def solved(how, **options):
    return sx.solve(heat(), how, progress=False, **options)


# --- optimisers -----------------------------------------------------------------------------------


class Descended(NamedTuple):
    value: Any
    rate: Any


class Descent(sx.AbstractMinimiser):
    """Steepest descent; a step is halved until the loss falls."""

    rate: float = 1e-2
    steps: int | None = None

    def init(self, objective, params):
        return Descended(objective(params), jnp.asarray(self.rate, params.dtype))

    def step(self, objective, params, state):
        gradient = jax.grad(objective)(params)
        rate = jax.lax.while_loop(
            lambda rate: ~(objective(params - rate * gradient) <= state.value) & (rate > 1e-12),
            lambda rate: rate / 2,
            2 * state.rate,
        )
        moved = params - rate * gradient
        return moved, Descended(objective(moved), rate)


def test_a_minimiser_keeps_its_points_and_begins_where_the_one_before_ended():
    found = solved(recipe(sx.Adam(1e-2), Descent(steps=30), sampler=sx.GaussLegendre()))
    fell = found.history.total[4:]
    assert np.all(np.diff(fell) <= 0)
    assert fell[-1] < fell[0]
    assert found.best_step > 40


@pytest.mark.parametrize(
    "optimiser",
    [
        optax.adam(1e-2),
        pytest.param(sx.Optax(optax.adam, 1e-2), marks=pytest.mark.whole),
        pytest.param(optax.flatten(optax.adam(1e-2)), marks=pytest.mark.whole),
    ],
    ids=["bare", "by name", "flattened"],
)
def test_adam_of_optax_is_ours(optimiser):
    """Layer by layer or all weights in one vector: each has a step of its own."""
    ours = solved(recipe(sx.Adam(1e-2), precision="float64"))
    found = solved(recipe(optimiser, precision="float64"))
    np.testing.assert_allclose(found.history.total, ours.history.total, rtol=1e-9)


def started(how):
    """A trainer, a fresh state, and its launch."""
    with jax.enable_x64(True):
        trainer = Trainer(Loss(heat(), how))
        state = trainer.init(jax.random.key(0))
        return trainer, state, trainer.compile(state)


def recorded(wanted):
    """A transformation that moves nothing and keeps what it is given."""

    def update(updates, state, params=None, **known):
        return jax.tree.map(jnp.zeros_like, updates), wanted(updates, params, known)

    return optax.GradientTransformationExtraArgs(
        lambda params: wanted(
            params, params, {"value": jnp.zeros(()), "value_fn": lambda _: jnp.zeros(())}
        ),
        update,
    )


def test_optax_is_given_value_gradient_and_function():
    def wanted(updates, params, known):
        return {"value": known["value"], "again": known["value_fn"](params), "slope": updates}

    trainer, state, launch = started(recipe(recorded(wanted), precision="float64"))
    with jax.enable_x64(True):
        params = jnp.copy(state.model)
        places = trainer.loss.draw(jax.random.wrap_key_data(state.key), jnp.array(0))
        after, record = launch(state, 1)
        objective = trainer.objective(places)
        value, slope = jax.jit(jax.value_and_grad(objective))(params)
    seen = after.optimiser
    assert float(seen["value"]) == pytest.approx(record[-1, -1], rel=1e-14)
    assert float(seen["again"]) == pytest.approx(record[-1, -1], rel=1e-12)
    np.testing.assert_array_equal(after.model, params)
    # forty steps on four draws; the first loss is that on the first of them
    assert record[0, -1] == pytest.approx(float(value), rel=1e-12)
    joined = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(seen["slope"])])
    assert joined.shape == slope.shape


def test_optax_is_given_a_matrix_per_axis_and_layer():
    shapes = []

    def init(params):
        shapes[:] = [leaf.shape for leaf in jax.tree.leaves(params)]
        return optax.EmptyState()

    transformation = optax.GradientTransformation(
        init, lambda updates, s, params=None: (updates, s)
    )
    trainer, _, _ = started(recipe(transformation))
    assert sorted(shape for shape in shapes if len(shape) == 2) == sorted(
        2 * [(1, 4), (4, 4), (4, 2)]
    )
    assert all(len(shape) < 3 for shape in shapes)
    assert (
        sum(int(np.prod(shape)) for shape in shapes) == trainer.init(jax.random.key(0)).model.size
    )


# --- samplers -------------------------------------------------------------------------------------


class Watching(sx.AbstractSampler):
    """Uniform points, a part of them from what it was told last."""

    every: int | None = 20

    def init(self, box, counts, dtype):
        n = tuple(counts[axis] for axis in box.axes)
        return {"squares": jnp.zeros(n), "number": jnp.zeros((), jnp.int32)}

    def axis(self, key, number, bounds, n, dtype):
        return jax.random.uniform(jax.random.fold_in(key, number), (n,), dtype, *bounds), None

    def lattice(self, key, number, box, counts, dtype, state=None):
        drawn = super().lattice(key, number, box, counts, dtype)
        shift = jnp.tanh(jnp.mean(state["squares"])).astype(dtype) / 2
        return sx.Lattice(t=drawn["t"] * (1 - shift), x=drawn["x"])

    def learn(self, state, key, number, place, squares):
        (found,) = squares(place).values()
        return {"squares": jnp.broadcast_to(found, place.shape), "number": number}


def test_a_sampler_is_told_of_the_last_draw_before_the_next():
    how = recipe(steps=200, sampler=Watching(every=100), precision="float64")
    trainer, state, launch = started(how)
    with jax.enable_x64(True):
        key = jax.random.wrap_key_data(jnp.copy(state.key))
        first, _ = launch(state, 1)
        assert first.sampler["number"] == 0
        params = jnp.copy(first.model)
        last, record = launch(first, 1)
        place, *_ = trainer.loss.draw(key, jnp.array(0))
        squares = jax.jit(lambda p: trainer.loss.squares(trainer.model(p), place, {}))
        (expected,) = squares(params).values()
        np.testing.assert_allclose(last.sampler["squares"], expected, rtol=1e-9)
        assert last.sampler["number"] == 1
        # and the next draw follows from that
        places = trainer.loss.draw(key, jnp.array(1), last.sampler)
        loss = trainer.loss
        total = jax.jit(lambda p: loss.total(loss(trainer.model(p), places)))(params)
    assert record[0, -1] == pytest.approx(float(total), rel=1e-9)


# --- weightings -----------------------------------------------------------------------------------


class Balanced(sx.AbstractWeighting):
    """All terms pull alike, by a mean over some steps."""

    keep: float = 0.9

    def init(self, names):
        return {name: jnp.ones(()) for name in names}

    def weigh(self, state, evaluation):
        sizes = {name: jnp.linalg.norm(g) for name, g in evaluation.gradients.items()}
        wanted = {name: sum(sizes.values()) / size for name, size in sizes.items()}
        state = {name: self.keep * state[name] + (1 - self.keep) * wanted[name] for name in sizes}
        return state, state


def prepared(how):
    """The loss on one draw as a function of parameters, and some of these."""
    trainer = Trainer(Loss(heat(), how))
    places = trainer.loss.draw(jax.random.key(1), jnp.array(0))
    state = trainer.init(jax.random.key(2))
    objective = trainer.objective(places, {}, state.weighting)
    return objective, state


def test_terms_that_are_balanced_pull_alike(double):
    how = recipe(precision="float64", emphasis=1.0, weighting=Balanced(keep=0.0))
    objective, state = prepared(how)

    def weighed(params):
        terms, factors, after = objective.loss.weighed(
            objective.model(params), objective.places, {}, state.weighting
        )
        return factors, (terms, after)

    slopes, (terms, after) = jax.jit(jax.jacrev(weighed, has_aux=True))(state.model)
    sizes = np.linalg.norm(slopes, axis=1)
    np.testing.assert_allclose(sizes, sizes[0], rtol=1e-9)
    plain = jax.jit(objective.loss.__call__)(objective.model(state.model), objective.places)
    np.testing.assert_allclose(terms, plain, rtol=1e-12)
    # the gradient that an optimiser is given is theirs, and what is reported is the loss without
    (_, (record, _)), gradient = jax.jit(objective.gradient)(state.model, state.weighting)
    np.testing.assert_allclose(gradient, np.sum(slopes, 0), rtol=1e-9, atol=1e-12)
    assert record[-1] == pytest.approx(float(np.sum(terms)), rel=1e-12)
    assert set(after) == set(objective.loss.names)


class Late(sx.AbstractWeighting):
    """Residuals count t, each at its point; the initial values three times."""

    def weigh(self, state, evaluation):
        return {"residual": evaluation.place.arrays()["t"], "initial": jnp.array(3.0)}, state


def test_points_are_weighed_one_by_one(double):
    how = recipe(precision="float64", emphasis=1.0, weighting=Late())
    objective, state = prepared(how)
    inside = objective.places[0]

    @jax.jit
    def evaluated(params):
        model, loss = objective.model(params), objective.loss
        return objective(params), loss(model, objective.places), loss.squares(model, inside, {})

    value, terms, squares = evaluated(state.model)
    terms, (squares,) = dict(zip(objective.loss.names, terms)), squares.values()
    expected = jnp.mean(inside.arrays()["t"] * squares) + 3 * terms["initial"] + terms["dirichlet"]
    assert float(value) == pytest.approx(float(expected), rel=1e-12)


def test_normal_equations_know_the_density(double):
    """Residuals that count less the later they are do so for every optimiser."""
    how = recipe(precision="float64", weighting=sx.EarlyFirst(3.0))
    objective, state = prepared(how)
    assert state.weighting == 3.0

    @jax.jit
    def both(params):
        layers = objective.output_layers
        normal = objective.residuals.normal(params)
        by_layers = layers.normal(params, layers.basis(params)).value
        return normal.value, by_layers, 2 * normal.gradient, jax.value_and_grad(objective)(params)

    by_weights, by_layers, gradient, (value, slope) = both(state.model)
    assert float(by_weights) == pytest.approx(float(value), rel=1e-10)
    assert float(by_layers) == pytest.approx(float(value), rel=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10)
    unweighed = Loss(heat(), dataclasses.replace(how, weighting=sx.Constant()))
    plain = jax.jit(lambda p: unweighed.total(unweighed(objective.model(p), objective.places)))
    assert value < plain(state.model)


# --- resuming -------------------------------------------------------------------------------------


def test_a_run_goes_on_with_the_state_of_its_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("separax.training.session.LAUNCH_SECONDS", 0.0)
    how = recipe(sampler=Watching(), weighting=Balanced(), steps=120)

    def stop(step, **_):
        if step >= 60:
            signal.raise_signal(signal.SIGINT)

    whole = solved(how, out=tmp_path / "whole")
    assert solved(how, out=tmp_path / "run", callback=stop).interrupted
    again = solved(how, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(again.history.total, whole.history.total)
    (_, one), (_, other) = (States(tmp_path / name, None).newest() for name in ("whole", "run"))
    assert {"state.weighting.initial", "state.sampler.squares"} < set(one)
    assert one["state.sampler.number"] == 5
    assert one["state.weighting.initial"] != 1.0
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


# --- recipes and what is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        sx.Recipe(),
        sx.Recipe(sx.PINN(width=8), points=(4, 5), precision="tf32", weights={"initial": 2.0}),
        sx.Recipe(
            sx.SPINN(rank=3, depth=0, functions={"x": 8, "y": 6}, breaks={"x": 0.5}),
            np.array([12, 9]),
            optimiser=[sx.SOAP(1e-3, steps=40), sx.Solve(5)],
            sampler=sx.GaussLegendre(breaks={"x": [0.5]}),
            precision="float64",
        ),
        sx.Recipe(optimiser=sx.Adam(1e-3, jnp.sin), weighting=sx.Causal(slices=4)),
        sx.Recipe(optimiser=sx.Optax(optax.adamw, 1e-3, weight_decay=1e-4, steps=9)),
    ],
)
def test_a_recipe_prints_itself_as_code_that_makes_it_again(made):
    modules = {"optax": optax, "jax": jax}
    assert eval(repr(made), vars(sx) | modules) == made
    assert eval(as_code(made, importing=True), {"sx": sx, **modules}) == made
    assert hash(eval(repr(made), vars(sx) | modules)) == hash(made)


class Stateless(sx.AbstractMinimiser):
    def init(self, objective, params): ...

    def step(self, objective, params, state): ...


class Valueless(sx.AbstractMinimiser):
    steps: int | None = None

    def init(self, objective, params):
        return (objective(params),)

    def step(self, objective, params, state):
        return params, state


class Widening(sx.AbstractMinimiser):
    steps: int | None = None

    def init(self, objective, params):
        return Descended(objective(params), jnp.ones((), params.dtype))

    def step(self, objective, params, state):
        return params, state._replace(rate=jnp.ones(2, params.dtype))


class Unknown(sx.AbstractWeighting):
    def weigh(self, state, evaluation):
        return {"residal": 2.0 * jnp.ones(())}, state


class Pointwise(sx.AbstractWeighting):
    def weigh(self, state, evaluation):
        return {"initial": jnp.ones(6)}, state


class Growing(sx.AbstractWeighting):
    def weigh(self, state, evaluation):
        return {}, (state, jnp.ones(2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: recipe(optax.adamw),
            r"got the function optax.adamw: call it, optimiser=optax.adamw\(…\), or write",
        ),
        (
            lambda: recipe(lambda g: g),
            "optimiser must be an optimiser or a list of them, got a lambda",
        ),
        (
            lambda: recipe(sx.Optax(optax.adamw)),
            r"Optax\(optax.adamw, steps=None\) cannot be made: .*learning_rate",
        ),
        (
            lambda: sx.Optax(3),
            r"the first argument must be a function of optax, got 3: write sx.Optax\(optax.adamw",
        ),
        (lambda: sx.Optax(optax.adam, 1e-3, steps=0), "Optax: steps"),
        (
            lambda: recipe(sx.Optax(optax.constant_schedule, 1e-3)),
            "constant_schedule makes a function and no transformation",
        ),
        (
            lambda: recipe(optax.contrib.sophia(1e-3)),
            r"makes no step of .*value_fn \(obj_fn must be provided",
        ),
        (
            lambda: recipe(optax.contrib.sam(optax.adam(1e-3), optax.sgd(1e-2))),
            "makes no step of gradients",
        ),
        (
            lambda: recipe(Valueless()),
            "Valueless begins with a state that does not have the loss as its value",
        ),
        (
            lambda: recipe(Widening()),
            r"Widening returned a state of another structure .*rate=\(2,\)",
        ),
        (
            lambda: recipe(Stateless()),
            "Stateless does not say how many steps it takes: give it the field steps",
        ),
        (
            lambda: recipe(sampler="uniform"),
            "sampler must be .*got 'uniform'.*subclass of sx.AbstractSampler",
        ),
        (
            lambda: recipe(weighting=None),
            "weighting must be a weighting, got None.*subclass of sx.AbstractWeighting",
        ),
        (
            lambda: recipe(causal=sx.Causal()),
            "causal is now called weighting: write weighting=Causal",
        ),
        (
            lambda: recipe(Descent(), weighting=Balanced()),
            "weighting: Descent compares losses along a line",
        ),
        (
            lambda: recipe(weighting=Unknown()),
            "weighting: there is no loss term 'residal'.*residual",
        ),
        (
            lambda: recipe(weighting=Pointwise()),
            r"the condition 'initial' was given factors of shape \(6,\): give it one",
        ),
        (
            lambda: recipe(weighting=Growing()),
            "weighting: Growing returned a state of another structure",
        ),
        (lambda: sx.EarlyFirst(-1.0), "EarlyFirst: rate must not be negative"),
    ],
)
def test_bad_input_is_refused_before_anything_is_compiled(make, words, monkeypatch):
    options_for_few_runs()  # finds out with a program of its own which options XLA has
    monkeypatch.setattr(jax.stages.Lowered, "compile", None)
    with pytest.raises(sx.InputError, match=words):
        solved(make())
