"""Gauss-Newton over all weights: the normal equations against the dense Jacobian, and what the steps make of them."""

import os
import signal
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_normal import dense, system

import separax as sx
from separax.recipe.optimisers.least_squares import by_conjugate_gradients
from separax.residuals.linearise import residuals
from separax.residuals.loss import Loss
from separax.residuals.model import Model
from separax.residuals.objective import weight_equations
from separax.runs.states import States
from separax.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("double")

SMALL = sx.SPINN(rank=2, width=3, depth=2, body="mlp")


def recipe(network=SMALL, points=4, optimiser=None, **options):
    rule = {
        "optimiser": optimiser or sx.GaussNewton(),
        "sampler": sx.GaussLegendre(),
        "precision": "float64",
    }
    return sx.Recipe(network, points, **(rule | options))


def decay():
    return sx.Problem(sx.Box(t=(0, 1)), lambda u: u.t + 2 * u, [sx.Initial(1.0)])


def helmholtz():
    """Δu + u = q with the solution sin πx sin πy."""

    def exact(x, y):
        return jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        lambda u, x, y: u.xx + u.yy + u - (1 - 2 * jnp.pi**2) * exact(x, y),
        [sx.Dirichlet(0, hard=True)],
        reference=exact,
    )


# --- the matrix ------------------------------------------------------------------------------------------------------


def test_the_normal_equations_are_those_of_the_dense_jacobian():
    """Two fields, a nonlinear residual, an unknown, faces, data and a wall; in the order that flat parameters have."""
    how = recipe(sx.SPINN(rank=2, width=3, depth=2))
    loss = Loss(system(), how)
    model = Model.build(loss.problem, how, jax.random.key(3))
    places = loss.draw(jax.random.key(1), jnp.array(0))
    found = eqx.filter_jit(lambda m: weight_equations(loss, m, places, {}))(model)
    left, jacobian, _ = dense(loss, model, places)
    assert found.value == pytest.approx(float(left @ left), rel=1e-12)
    np.testing.assert_allclose(
        found.gradient, jacobian.T @ left, rtol=1e-9, atol=1e-12 * np.abs(found.gradient).max()
    )
    np.testing.assert_allclose(
        found.matrix, jacobian.T @ jacobian, rtol=1e-9, atol=1e-12 * np.abs(found.matrix).max()
    )


@pytest.mark.parametrize(
    "network", [SMALL, sx.PINN(width=3, depth=1, body="mlp")], ids=["spinn", "pinn"]
)
def test_the_loss_is_the_sum_of_the_squares_of_all_residuals(network):
    """Also where two faces are joined, whose residuals are half as many as their points."""
    joined = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.t + u * u.x,
        [sx.Initial(lambda x: x), sx.Periodic(hard=False, weight=3.0)],
    )
    loss = Loss(joined, recipe(network))
    model = Model.build(joined, loss.recipe, jax.random.key(0))
    places = loss.draw(jax.random.key(1), jnp.array(0))
    total, left = jax.jit(
        lambda: (loss.total(loss(model, places)), residuals(loss, model, places, {}))
    )()
    assert float(left @ left) == pytest.approx(float(total), rel=1e-12)


def on_points(network, points):
    """Helmholtz as an objective on fixed points, and parameters to begin with."""
    trainer = Trainer(Loss(helmholtz(), recipe(network, points)))
    state = trainer.init(jax.random.key(0))
    places = trainer.loss.draw(jax.random.key(0), jnp.array(0))
    return trainer.objective(places), state


def test_conjugate_gradients_take_the_step_that_the_matrix_gives():
    objective, state = on_points(SMALL, 6)
    damping = 1e-3 * jnp.ones(())
    matrix = jax.jit(objective.residuals.normal)(state.model)
    direct = -np.linalg.solve(matrix.matrix + damping * np.eye(len(state.model)), matrix.gradient)

    def stepped(params):
        _, solved = by_conjugate_gradients(
            lambda step: objective.residuals.vector(params + step),
            params,
            state.optimiser.number,
            2_000,
        )
        return solved(damping)

    step, gain = jax.jit(stepped)(state.model)
    np.testing.assert_allclose(step, direct, rtol=0, atol=1e-5 * np.abs(direct).max())
    foreseen = -(2 * matrix.gradient @ direct + direct @ (matrix.matrix @ direct))
    assert float(gain) == pytest.approx(float(foreseen), rel=1e-6)


# --- the steps -------------------------------------------------------------------------------------------------------


class Equations:
    """Six nonlinear equations that can be met, as a loss."""

    def __init__(self, separable):
        rng = np.random.default_rng(0)
        self.separable, self.solution = separable, jnp.asarray(rng.normal(size=6))
        self.residuals = self
        self.matrix = jnp.asarray(np.eye(6) + 0.2 * rng.normal(size=(6, 6)))

    def vector(self, params):
        def sides(p):
            return self.matrix @ p + 0.3 * jnp.sin(p) * p[::-1]

        return sides(params) - sides(self.solution)

    def __call__(self, params):
        return jnp.sum(self.vector(params) ** 2)

    def normal(self, params):
        jacobian = jax.jacfwd(self.vector)(params)
        return SimpleNamespace(
            matrix=jacobian.T @ jacobian, gradient=jacobian.T @ self.vector(params)
        )


@pytest.mark.parametrize("separable", [True, False], ids=["matrix", "conjugate gradients"])
def test_what_can_be_met_is_met_quadratically(separable):
    """The digits double: a loss is at most some hundred times the square of the one before, down to rounding."""
    objective = Equations(separable)
    search, at = sx.GaussNewton(), objective.solution + 0.3
    state = search.init(objective, at)
    update = jax.jit(lambda *carry: search.step(objective, *carry))
    values = [float(state.value)]
    for _ in range(12):
        at, state = update(at, state)
        values.append(float(state.value))
    values = np.array(values)
    near = (values[:-1] < 1e-1) & (values[:-1] > 1e-13)
    assert near.sum() >= 2
    assert np.all(values[1:][near] < 100 * values[:-1][near] ** 2)
    assert values[-1] < 1e-27
    np.testing.assert_allclose(at, objective.solution, atol=1e-12)


@pytest.mark.whole
def test_fewer_steps_than_l_bfgs():
    """Below 1e-6 in 60 steps, where L-BFGS is above 1e-3 after 600."""
    objective, state = on_points(sx.SPINN(rank=4, width=8, depth=2, body="mlp"), 12)

    def after(optimiser, steps):
        start = jax.jit(lambda params: optimiser.init(objective, params))(state.model)

        def step(carry, _):
            return optimiser.step(objective, *carry), None

        return float(
            jax.jit(lambda *carry: jax.lax.scan(step, carry, None, length=steps)[0])(
                state.model, start
            )[1].value
        )

    assert after(sx.GaussNewton(), 60) < 1e-6
    assert after(sx.LBFGS(), 600) > 1e-3


@pytest.mark.whole
def test_a_pointwise_network_by_conjugate_gradients():
    found = sx.solve(
        decay(),
        recipe(sx.PINN(width=6, depth=1, body="mlp"), 12, sx.GaussNewton(40)),
        progress=False,
    )
    assert found.best_loss < 1e-5


@pytest.mark.parametrize(
    "most", [3_000, pytest.param(0, marks=pytest.mark.whole)], ids=["matrix", "conjugate gradients"]
)
def test_a_run_that_was_stopped_ends_as_if_it_had_not(tmp_path, monkeypatch, most):
    monkeypatch.setattr(
        "separax.training.session.LAUNCH_SECONDS", 0.0
    )  # launches as short as they get
    how = recipe(points=12, optimiser=sx.GaussNewton(15, most))

    def ctrl_c(step, **_):
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    straight = sx.solve(decay(), how, out=tmp_path / "straight", progress=False)
    stopped = sx.solve(decay(), how, out=tmp_path / "stopped", callback=ctrl_c, progress=False)
    assert stopped.interrupted
    assert stopped.timing.steps == 5
    resumed = sx.solve(decay(), how, out=tmp_path / "stopped", resume=True, progress=False)
    assert not resumed.interrupted
    assert np.all(np.diff(straight.history.total[:8]) < 0)  # there was something left to do
    (_, a), (_, b) = (States(tmp_path / name, None).newest() for name in ("straight", "stopped"))
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], name)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sx.GaussNewton(0), "GaussNewton: steps"),
        (lambda: sx.GaussNewton(largest_matrix=-1), "GaussNewton: largest_matrix"),
        (lambda: sx.GaussNewton(iterations=0), "GaussNewton: iterations"),
        (lambda: sx.GaussNewton(tries=1.5), "GaussNewton: tries"),
        (
            lambda: recipe(precision="float32"),
            "GaussNewton works in float64, got precision='float32': write precision='float64'",
        ),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(sx.InputError, match=words):
        make()


def test_a_matrix_that_would_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("separax.core.devices.available", lambda: 1_000)
    with pytest.raises(
        sx.InputError, match=r"GaussNewton: the matrix of .* weights would need .* largest_matrix=0"
    ):
        sx.solve(decay(), recipe())
