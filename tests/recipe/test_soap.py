"""SOAP: Adam in the eigenbasis of a layer's gradients."""

import dataclasses
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.residuals.model import Model
from separax.runs.states import States


def turned(rng, n, condition):
    """A symmetric matrix with eigenvectors of its own."""
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (basis * np.logspace(0, -np.log10(condition), n)) @ basis.T


def quadratic(seed=0, n=12):
    """½ ⟨W - T, A (W - T) B⟩: its Hessian is B ⊗ A, of condition 10⁴, its axes not those of W."""
    rng = np.random.default_rng(seed)
    a, b, target = turned(rng, n, 100), turned(rng, n, 100), rng.normal(size=(n, n))

    def value(w):
        return 0.5 * jnp.sum((w - target) * (a @ (w - target) @ b))

    return value, jnp.zeros((n, n))


def descended(optimiser, value, start, steps):
    """The values of `steps` steps, and where and in which state they end."""
    whole = dataclasses.replace(optimiser, steps=steps)
    transform = whole.transformation(lambda vector: vector)

    def step(carry, _):
        at, state = carry
        found, gradient = jax.value_and_grad(value)(at)
        updates, state = transform.update(gradient, state, at)
        return (jax.tree.map(jnp.add, at, updates), state), found

    (at, state), values = jax.jit(lambda *c: jax.lax.scan(step, c, None, length=steps))(
        start, transform.init(start)
    )
    return np.append(values, value(at)), at, state


@pytest.mark.usefixtures("double")
def test_a_hessian_whose_axes_are_not_those_of_the_weights():
    """Fewer steps than a fifth of Adam's, to a loss a thousand times lower."""
    value, start = quadratic()
    soap, *_ = descended(sx.SOAP(0.1, "cosine"), value, start, 300)
    adam, *_ = descended(sx.Adam(0.1, "cosine"), value, start, 1_500)
    assert soap[-1] < 2e-6 * soap[0]
    assert adam.min() > soap[-1]
    cosine, *_ = descended(sx.Adam(0.1, "cosine"), value, start, 300)
    assert soap[-1] < 1e-3 * cosine[-1]


@pytest.mark.usefixtures("double")
def test_turning_the_weights_turns_the_steps():
    """W → U W V of orthogonal U and V changes nothing that SOAP does, but all that Adam does."""
    value, start = quadratic(n=6)
    rng = np.random.default_rng(1)
    u, v = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    for optimiser, same in ((sx.SOAP(0.05, every=1), True), (sx.Adam(0.05), False)):
        plain, *_ = descended(optimiser, value, start, 30)
        other, *_ = descended(optimiser, lambda w: value(u.T @ w @ v.T), u @ start @ v, 30)
        assert np.allclose(plain, other, rtol=1e-6) == same


@pytest.mark.usefixtures("double")
def test_along_their_own_axes_it_is_adam():
    """Without eigenvectors; and for vectors, whatever else it does."""
    value, start = quadratic()
    adam, at, _ = descended(sx.Adam(0.1), value, start, 100)
    soap, there, _ = descended(
        sx.SOAP(0.1, every=0, gradients=0.9, squares=0.999), value, start, 100
    )
    np.testing.assert_allclose(soap, adam, rtol=1e-12)
    np.testing.assert_allclose(there, at, rtol=1e-10)
    _, at, _ = descended(sx.Adam(0.1), lambda w: value(w.reshape(12, 12)), start.ravel(), 100)
    soap = sx.SOAP(0.1, gradients=0.9, squares=0.999)
    _, there, _ = descended(soap, lambda w: value(w.reshape(12, 12)), start.ravel(), 100)
    np.testing.assert_allclose(there, at, rtol=1e-10)


@pytest.mark.usefixtures("double")
def test_a_stack_of_matrices_is_each_of_them_alone():
    functions = [quadratic(seed) for seed in range(3)]
    starts = jnp.stack([start for _, start in functions])
    _, together, state = descended(
        sx.SOAP(0.1), lambda w: sum(f(one) for (f, _), one in zip(functions, w)), starts, 40
    )
    for (function, start), found in zip(functions, together):
        np.testing.assert_allclose(
            found, descended(sx.SOAP(0.1), function, start, 40)[1], rtol=1e-8
        )
    for side in state[0].sides[0]:
        basis = np.asarray(side.basis)
        np.testing.assert_allclose(
            np.swapaxes(basis, 1, 2) @ basis, np.broadcast_to(np.eye(12), (3, 12, 12)), atol=1e-12
        )


@pytest.mark.usefixtures("double")
def test_orthogonal_iteration_finds_the_eigenvectors():
    """Of gradients that vary, by the hundredth step: G Gᵀ is diagonal in the basis."""
    value, start = quadratic()
    _, _, state = descended(sx.SOAP(1e-3, every=1), value, start, 200)
    for side in state[0].sides[0]:
        inside = np.asarray(side.basis.T @ side.mean @ side.basis)
        assert np.all(np.abs(inside - np.diag(np.diag(inside))) < 1e-6 * np.abs(inside).max())


def decay():
    return sx.Problem(sx.Box(t=(0, 1)), lambda u: u.t + 2 * u, [sx.Initial(1.0)])


def recipe(*optimisers, **options):
    return sx.Recipe(
        sx.SPINN(rank=4, width=8, depth=2, body="mlp"),
        10,
        optimiser=list(optimisers),
        emphasis=1.0,
        **options,
    )


def parameters(solution):
    return np.concatenate(
        [np.ravel(leaf) for leaf in jax.tree.leaves(solution.model) if hasattr(leaf, "shape")]
    )


@pytest.mark.parametrize(
    "network",
    [sx.SPINN(rank=2, width=4, depth=2), sx.PINN(width=4, depth=2, body="mlp")],
    ids=["spinn", "pinn"],
)
def test_only_the_weights_of_layers_are_matrices(network):
    """The biases of all axes are a table of numbers, and still no matrix."""
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u, k: u.t - k * u.xx,
        [sx.Initial(1.0)],
        unknowns={"k": 1.0},
    )
    model = Model.build(problem, sx.Recipe(network), jax.random.key(0))
    layers = [model.network.body.out, *model.network.body.hidden]
    shaped = {id(leaf) for leaf in jax.tree.leaves(model.layers()) if leaf.ndim > 1}
    assert {id(layer.weight) for layer in layers} <= shaped
    assert all(leaf.ndim == 1 for leaf in jax.tree.leaves(model.layers()) if id(leaf) not in shaped)
    plain, again = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(m)])
        for m in (model, model.layers())
    )
    np.testing.assert_array_equal(plain, again)  # in the order they had


@pytest.mark.whole
def test_a_network_trained_by_it_and_resumed_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "separax.training.session.LAUNCH_SECONDS", 0.0
    )  # launches as short as they get
    how = recipe(sx.SOAP(1e-2, "cosine", warmup=10, steps=300))
    straight = sx.solve(decay(), how, out=tmp_path / "straight")
    assert straight.history.total[29] < 0.02 * straight.history.total[0]

    def ctrl_c(step, **_):
        if step == 200:
            os.kill(os.getpid(), signal.SIGINT)

    assert sx.solve(decay(), how, out=tmp_path / "stopped", callback=ctrl_c).timing.steps == 200
    resumed = sx.solve(decay(), how, out=tmp_path / "stopped", resume=True)
    np.testing.assert_array_equal(parameters(straight), parameters(resumed))
    np.testing.assert_array_equal(straight.history.total, resumed.history.total)
    (_, a), (_, b) = (States(tmp_path / name, None).newest() for name in ("straight", "stopped"))
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
    assert sx.load(tmp_path / "straight").recipe.optimisers == how.optimisers


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sx.SOAP(rate=0), "SOAP: rate"),
        (lambda: sx.SOAP(schedule="linear"), "SOAP: schedule"),
        (lambda: sx.SOAP(every=-1), "SOAP: every"),
        (
            lambda: sx.SOAP(gradients=1.0),
            "SOAP: gradients must be at least 0 and below 1, got 1.0: write gradients=0.95",
        ),
        (lambda: sx.SOAP(squares="much"), "SOAP: squares must be a number"),
        (
            lambda: sx.solve(decay(), recipe(sx.SOAP(warmup=50, steps=20))),
            "SOAP: warmup=50 is not shorter than its 20 steps",
        ),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(sx.InputError, match=words):
        make()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_is_not_taken_for_a_gradient(dtype, seed):
    """A gradient u vᵀ has one direction, and a first step of length one along it; in all the others
    there is only rounding."""
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        gradient = jnp.asarray(1e4 * np.outer(rng.normal(size=32), rng.normal(size=8)), dtype)
        transform = sx.SOAP(1.0, steps=10).transformation(lambda vector: vector)
        step, _ = jax.jit(transform.update)(gradient, transform.init(gradient))
    step, gradient = np.asarray(step), np.asarray(gradient)
    assert step.dtype == dtype
    np.testing.assert_allclose(step, -gradient / np.linalg.norm(gradient), atol=0.02)
