"""Optimisers: what each of them reaches, and what becomes of a run when one follows another."""

import math
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import separax as sx
from separax.residuals.loss import Loss
from separax.runs.states import States
from separax.training.trainer import VALIDATION_DRAW


def recipe(*optimisers, **options):
    small = {
        "network": sx.SPINN(rank=4, width=8, depth=1, body="mlp"),
        "points": 10,
        "emphasis": 1.0,
    }
    return sx.Recipe(**(small | {"optimiser": list(optimisers)} | options))


def decay():
    """u' = -2u, u(0) = 1."""
    return sx.Problem(
        sx.Box(t=(0, 1)),
        lambda u: u.t + 2 * u,
        [sx.Initial(1.0)],
        reference=lambda t: jnp.exp(-2 * t),
    )


def parameters(solution):
    return np.concatenate(
        [np.ravel(leaf) for leaf in jax.tree.leaves(solution.model) if hasattr(leaf, "shape")]
    )


# --- least squares --------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
MATRIX = np.linalg.qr(RANDOM.normal(size=(40, 12)))[0] * np.logspace(0, -2, 12)
RIGHT = RANDOM.normal(size=40)


def least_squares(dtype):
    """‖Ax - b‖² with a condition number of 100, and its minimiser."""
    a, b = jnp.asarray(MATRIX, dtype), jnp.asarray(RIGHT, dtype)
    return lambda x: jnp.sum((a @ x - b) ** 2), np.linalg.lstsq(MATRIX, RIGHT)[0]


def searched(optimiser, function, start, steps):
    state = optimiser.init(function, start)

    def step(carry, _):
        return optimiser.step(function, *carry), None

    return jax.jit(lambda *carry: jax.lax.scan(step, carry, None, length=steps)[0])(start, state)


@pytest.mark.parametrize("optimiser", [sx.LBFGS(), sx.BFGS(), sx.BFGS(scaled=False)], ids=repr)
def test_least_squares(optimiser):
    """The minimiser to ten digits where Adam has not one."""
    with jax.enable_x64(True):
        function, minimiser = least_squares(jnp.float64)
        found, _ = searched(optimiser, function, jnp.zeros(12), 150)
        adam = sx.Adam(1e-2).transformation(lambda vector: vector)

        def step(carry, _):
            updates, state = adam.update(jax.grad(function)(carry[0]), carry[1], carry[0])
            return (optax.apply_updates(carry[0], updates), state), None

        (slow, _), _ = jax.lax.scan(
            step, (jnp.zeros(12), adam.init(jnp.zeros(12))), None, length=150
        )
        assert np.linalg.norm(found - minimiser) < 1e-10 * np.linalg.norm(minimiser)
        assert np.linalg.norm(slow - minimiser) > 0.1 * np.linalg.norm(minimiser)


@pytest.mark.parametrize("optimiser", [sx.LBFGS(), sx.BFGS()], ids=repr)
def test_single_precision_stays_single_and_ends_at_its_rounding(optimiser):
    """Also with float64 on, where optax makes float64 of whatever has no type; and steps that
    cannot help do no harm."""
    with jax.enable_x64(True):
        function, minimiser = least_squares(jnp.float32)
        found, state = searched(optimiser, function, jnp.zeros(12, jnp.float32), 400)
        assert found.dtype == jnp.float32
        assert float(state.value) == pytest.approx(float(function(found)), rel=1e-6)
        assert np.linalg.norm(found - minimiser) < 1e-6 * np.linalg.norm(minimiser)


def test_bfgs_explains_the_last_change_of_the_gradient():
    """The secant equation; and the estimate stays symmetric and positive, so that every direction
    leads down."""
    with jax.enable_x64(True):
        function, _ = least_squares(jnp.float64)
        search, at = sx.BFGS(), jnp.zeros(12)
        state = search.init(function, at)
        update = jax.jit(lambda at, state: search.step(function, at, state))
        for _ in range(15):
            after, new = update(at, state)
            step, change = np.asarray(after - at), np.asarray(new.gradient - state.gradient)
            inverse = np.asarray(new.inverse)
            assert np.linalg.norm(step) > 0
            np.testing.assert_allclose(
                inverse @ change, step, rtol=0, atol=1e-9 * np.linalg.norm(step)
            )
            np.testing.assert_allclose(
                inverse, inverse.T, rtol=0, atol=1e-12 * np.abs(inverse).max()
            )
            assert np.linalg.eigvalsh(inverse).min() > 0
            at, state = after, new


def test_bfgs_in_its_textbook_form():
    """One step of the plain method is the product form of the BFGS formula."""
    with jax.enable_x64(True):
        function, _ = least_squares(jnp.float64)
        search, at = sx.BFGS(scaled=False), jnp.zeros(12)
        state = search.init(function, at)
        update = jax.jit(lambda at, state: search.step(function, at, state))
        for _ in range(4):
            after, new = update(at, state)
            s, y = np.asarray(after - at), np.asarray(new.gradient - state.gradient)
            before = np.asarray(state.inverse) * (s @ y / (y @ y) if bool(state.fresh) else 1.0)
            left = np.eye(12) - np.outer(s, y) / (s @ y)
            np.testing.assert_allclose(
                new.inverse,
                left @ before @ left.T + np.outer(s, s) / (s @ y),
                rtol=1e-8,
                atol=1e-10,
            )
            at, state = after, new


def test_a_matrix_that_would_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("separax.core.devices.available", lambda: 1_000)
    with pytest.raises(
        sx.InputError,
        match=r"BFGS: the matrix of .* parameters would need .* use a smaller network, or sx.LBFGS",
    ):
        sx.solve(decay(), recipe(sx.BFGS(5), points=8))


@pytest.mark.parametrize("optimiser", [sx.LBFGS(), sx.BFGS()], ids=repr)
def test_what_cannot_be_evaluated_is_not_stepped_on(optimiser):
    """√x - x/4 from 1, downhill to where there is no root: it stays where the loss is a number."""
    with jax.enable_x64(True):
        found, state = searched(optimiser, lambda x: jnp.sum(jnp.sqrt(x) - x / 4), jnp.ones(1), 50)
        assert 0 <= float(found[0]) < 1
        assert math.isfinite(float(state.value))
        assert state.done


# --- one after the other --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "precision"),
    [
        (sx.LBFGS, "float32"),
        pytest.param(sx.LBFGS, "float64", marks=pytest.mark.whole),
        (sx.BFGS, "float64"),
    ],
)
def test_the_second_goes_on_where_adam_ended(second, precision):
    """On a rule of quadrature, where all losses are of the same points."""
    how = recipe(
        sx.Adam(1e-2, "cosine"),
        second(200),
        steps=400,
        sampler=sx.GaussLegendre(),
        precision=precision,
    )
    found = sx.solve(decay(), how)
    adam, total = found.history.total[:40], found.history.total
    assert total[40] <= adam.min() * (1 + 1e-4)
    assert found.best_loss < 1e-2 * total[40]
    assert found.best_step > 400
    assert found.history.errors[-1] < found.history.errors[found.history.error_steps == 400]
    assert parameters(found).dtype == precision
    np.testing.assert_allclose(np.sum([*found.history.losses.values()], axis=0), total, rtol=1e-4)


def test_a_stage_begins_from_the_best_on_one_draw_of_its_own():
    how = recipe(sx.Adam(2e-2), sx.LBFGS(100), steps=200, sampler=sx.Uniform(every=10))
    adam = sx.solve(decay(), recipe(sx.Adam(2e-2), steps=200, sampler=sx.Uniform(every=10)))
    both = sx.solve(decay(), how)
    with jax.enable_x64(True):
        loss = Loss(decay(), how)
        key = jax.random.split(jax.random.key(0))[1]
        own, unseen = (
            loss.draw(key, jnp.asarray(n, jnp.int32))
            for n in (how.stages[1].draw, VALIDATION_DRAW + 1)
        )
        begun, best = (
            float(loss.total(loss(found.model, at))) for found, at in ((adam, own), (both, unseen))
        )
    assert both.history.total[20] == pytest.approx(begun, rel=1e-3)
    assert both.best_loss == pytest.approx(best, rel=1e-3)
    falling = both.history.total[20:]
    assert np.all(np.diff(falling) < 1e-3 * falling[:-1])  # on new draws they would go up and down


@pytest.mark.whole
def test_what_fits_the_points_alone_is_not_taken_for_the_solution():
    """Six points of a steep equation, and a network that can do anything between them."""
    steep = sx.Problem(
        sx.Box(t=(0, 1)),
        lambda u, t: u.t + 40 * (t - 0.5) * u,
        [sx.Initial(0.01)],
        reference=lambda t: 0.01 * jnp.exp(20 * t * (1 - t)),
    )
    network = sx.SPINN(rank=8, width=24, depth=2, steepness=12.0)
    before = recipe(
        sx.Adam(5e-3, steps=600),
        network=network,
        points=6,
        sampler=sx.Uniform(every=10),
        precision="float64",
    )
    after = recipe(
        sx.Adam(5e-3, steps=600),
        sx.BFGS(300),
        network=network,
        points=6,
        precision="float64",
        sampler=sx.Uniform(every=10),
    )
    adam, both = sx.solve(steep, before), sx.solve(steep, after)
    assert both.history.total[-1] < 1e-4 * both.history.total[60]  # the points are fitted
    assert both.best_loss > 10 * both.history.total[-1]  # and only the points
    assert both.relative_l2() < 1.05 * adam.relative_l2()


def test_a_stage_that_diverges_leaves_the_best_of_the_one_before():
    steep = sx.Problem(sx.Box(t=(0, 1)), lambda u: u.t + u**5, [sx.Initial(1.0)])
    with pytest.raises(sx.Diverged, match="the best parameters") as error:
        sx.solve(steep, recipe(sx.LBFGS(30), sx.Adam(1e18, steps=100)))
    found = error.value.solution
    assert 0 < found.best_step <= 30
    assert np.all(np.isfinite(found(t=np.linspace(0, 1, 5))))


def test_the_last_parameters_are_looked_at_too():
    how = recipe(sx.Adam(1e-3), steps=1)
    found = sx.solve(decay(), how)
    assert found.best_step == 1
    assert found.best_loss < found.history.total[0]
    with jax.enable_x64(True):
        loss = Loss(decay(), how)
        places = loss.draw(jax.random.split(jax.random.key(0))[1], jnp.asarray(0))
        assert float(loss.total(loss(found.model, places))) == pytest.approx(
            found.best_loss, rel=1e-5
        )


@pytest.mark.whole
def test_seeds_trained_together_are_those_trained_alone():
    how = recipe(sx.Adam(1e-2), sx.LBFGS(20), steps=20, precision="float64")
    _, together = sx.solve(decay(), how, seed=[3, 4])
    alone = sx.solve(decay(), how, seed=4)
    np.testing.assert_allclose(together.history.total, alone.history.total, rtol=1e-6)
    np.testing.assert_allclose(parameters(together), parameters(alone), atol=1e-6)


# --- stopping and going on ------------------------------------------------------------------------


def test_a_run_stopped_in_any_stage_resumes_bit_for_bit(tmp_path, monkeypatch):
    """Stopped where L-BFGS would begin, and inside L-BFGS."""
    monkeypatch.setattr(
        "separax.training.session.LAUNCH_SECONDS", 0.0
    )  # launches as short as they get
    how = recipe(sx.Adam(1e-2, "cosine"), sx.LBFGS(300), steps=200, sampler=sx.Uniform(every=10))
    straight = sx.solve(decay(), how, out=tmp_path / "straight")
    for stop, stage in ((200, 0), (400, 1)):

        def ctrl_c(step, stop=stop, **_):
            if step == stop:
                os.kill(os.getpid(), signal.SIGINT)

        stopped = sx.solve(
            decay(), how, out=tmp_path / "stopped", resume=stop > 200, callback=ctrl_c
        )
        assert stopped.interrupted
        assert stopped.timing.steps == stop
        assert States(tmp_path / "stopped", None).newest()[0]["stage"] == stage
    resumed = sx.solve(decay(), how, out=tmp_path / "stopped", resume=True)
    assert not resumed.interrupted
    np.testing.assert_array_equal(parameters(straight), parameters(resumed))
    np.testing.assert_array_equal(straight.history.steps, resumed.history.steps)
    np.testing.assert_array_equal(straight.history.total, resumed.history.total)
    np.testing.assert_array_equal(straight.history.errors, resumed.history.errors)
    assert (straight.best_step, straight.best_loss) == (resumed.best_step, resumed.best_loss)
    (_, a), (_, b) = (States(tmp_path / name, None).newest() for name in ("straight", "stopped"))
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
    with pytest.raises(sx.InputError, match=r"optimiser\[1\].memory = 20, not 5"):
        sx.solve(
            decay(),
            recipe(sx.Adam(1e-2, "cosine"), sx.LBFGS(300, memory=5), steps=200),
            out=tmp_path / "stopped",
            resume=True,
        )


# --- bad input ------------------------------------------------------------------------------------


def refused(make, *words):
    with pytest.raises(sx.InputError) as error:
        make()
    for word in words:
        assert word in str(error.value)


def test_bad_input():
    refused(lambda: sx.LBFGS(0), "LBFGS: steps", "0")
    refused(lambda: sx.LBFGS(memory=0), "LBFGS: memory", "0")
    refused(lambda: sx.LBFGS(tries=1.5), "LBFGS: tries", "1.5")
    refused(lambda: sx.LBFGS(slack=-1), "LBFGS: slack", "-1")
    refused(lambda: sx.Adam(steps=-3), "Adam: steps", "-3")
    refused(
        lambda: sx.Adam(schedule=lambda step: 1e-3, warmup=5), "Adam: warmup=5", "leave warmup out"
    )
    refused(recipe, "optimiser", "none", "optimiser=[sx.Adam(1e-3), sx.LBFGS(1_000)]")
    refused(lambda: recipe(sx.Adam(), sx.LBFGS), "optimiser must be", "LBFGS", "sx.LBFGS(1_000)")
    refused(lambda: recipe(sx.Adam(), "lbfgs"), "optimiser must be", "'lbfgs'", "sx.LBFGS(1_000)")
    refused(
        lambda: recipe(sx.Adam(), sx.LBFGS()),
        "Adam, LBFGS do not say how many steps",
        "sx.LBFGS(steps=1_000)",
    )
    refused(
        lambda: recipe(sx.Adam(steps=10), sx.LBFGS(10), steps=500),
        "steps=500",
        "leave one of the two out",
    )
    refused(
        lambda: sx.solve(decay(), recipe(sx.Adam(warmup=50, steps=20), sx.LBFGS(10))),
        "warmup=50",
        "20 steps",
    )


def test_a_schedule_runs_over_its_own_stage():
    first, second = recipe(
        sx.Adam(1e-2, "cosine"), sx.Adam(1e-3, "cosine", steps=50), steps=100
    ).stages
    assert (first.steps, second.steps) == (100, 50)
    for stage in (first, second):
        assert isinstance(stage.optimiser, sx.Adam)
        assert float(stage.optimiser.rates(stage.steps)(stage.steps)) == pytest.approx(0.0)


@pytest.mark.parametrize("total", [3, 40, 999, 30_000])
def test_a_recipe_with_other_steps_keeps_its_proportions(total):
    open_ended = sx.Recipe(optimiser=[sx.Adam(1e-3), sx.LBFGS(500)], steps=2_000)
    closed = sx.Recipe(optimiser=[sx.Adam(1e-3, steps=2_000), sx.LBFGS(500)])
    for recipe in (open_ended, closed):
        changed = recipe.with_steps(total)
        assert changed.total_steps == total
        assert abs(changed.stages[1].steps - total / 5) <= 1
    assert sx.Recipe().with_steps(total).total_steps == total
