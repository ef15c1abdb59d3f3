"""Causal weights: early times before late ones."""

import dataclasses
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.core.errors import InputError
from separax.domain.places import flatten
from separax.equations.tracing import Inputs
from separax.recipe import weightings as causal
from separax.residuals.loss import Loss
from separax.residuals.model import Model
from separax.runs.states import States

BOX = sx.Box(t=(0, 2), x=(0, 2 * jnp.pi))
SEPARABLE = sx.SPINN(rank=4, width=8, depth=1, body="mlp")
POINTWISE = sx.PINN(width=8, depth=1, body="mlp")


def moving(t, x):
    return jnp.sin(x - 6 * t)


def advection():
    return sx.Problem(
        BOX,
        lambda u: {"along": u.t + 6 * u.x},
        [sx.Initial(moving), sx.Periodic()],
        reference=moving,
    )


def recipe(network=SEPARABLE, **options):
    return sx.Recipe(
        **{"network": network, "points": 16, "steps": 200, "weighting": sx.Causal(slices=8)}
        | options
    )


# --- the weights ----------------------------------------------------------------------------------


def test_weights_are_the_formula(double):
    losses = jnp.array([0.5, 2.0, 0.25, 4.0])
    expected = np.exp(-0.3 * np.array([0.0, 0.5, 2.5, 2.75]))
    np.testing.assert_allclose(causal.causal_weights(losses, jnp.array(0.3)), expected, rtol=1e-14)
    np.testing.assert_array_equal(causal.causal_weights(losses, jnp.array(0.0)), 1.0)
    assert not np.any(
        jax.jacobian(lambda each: causal.causal_weights(each, jnp.array(0.3)))(losses)
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_slices_of_a_lattice_are_those_of_its_points(double, weighted):
    """By hand: the instants in no order, one slice without any, quadrature along both axes or along
    none."""
    t, x = np.array([1.9, 0.1, 0.6, 0.4, 0.0, 2.0]), np.array([0.0, 1.0, 3.0])
    along, across = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.array([0.5, 1.0, 2.0])
    lattice = sx.Lattice(t=t, x=x, weights={"t": along, "x": across} if weighted else None)
    values = np.arange(18.0).reshape(6, 3) ** 2
    owner = causal.time_slices(jnp.asarray(t), (0.0, 2.0), 4)
    np.testing.assert_array_equal(owner, [3, 0, 1, 0, 0, 3])
    found = causal.slice_means(lattice, "t", jnp.asarray(values), owner, 4)
    size = along[:, None] * across if weighted else np.ones((6, 3))
    expected = [
        np.average(values[rows], weights=size[rows]) if rows else 0.0
        for rows in ([1, 3, 4], [2], [], [0, 5])
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    points = flatten(lattice)
    again = causal.slice_means(points, "t", jnp.asarray(values.ravel()), jnp.repeat(owner, 3), 4)
    np.testing.assert_allclose(again, expected, rtol=1e-12)


# --- the loss -------------------------------------------------------------------------------------


def prepared(network):
    """A loss, parameters, what makes them a model, a draw of points, and the residual's squares as
    a function of parameters."""
    how = sx.Causal(slices=8, tolerances=(0.0, 0.2, 1.0))
    options = {"precision": "float64", "weights": {"along": 3.0}, "weighting": how}
    loss = Loss(advection(), recipe(network, **options))
    model = eqx.filter_jit(lambda key: Model.build(loss.problem, loss.recipe, key))(
        jax.random.key(0)
    )
    params, rest = eqx.partition(model, eqx.is_array)
    places = jax.jit(loss.draw)(jax.random.key(1), jnp.array(0))

    def squares(params):
        (source, *_) = loss.sources(eqx.combine(params, rest).network, places)
        return loss.squared(loss.at(0, places[0], source, Inputs({}, {})))["along"]

    return loss, params, lambda params: eqx.combine(params, rest), places, squares


@pytest.mark.parametrize("network", [SEPARABLE, POINTWISE], ids=["separable", "pointwise"])
def test_the_loss_is_weighed_slice_by_slice(double, network):
    loss, params, model, places, squares = prepared(network)
    found = jax.jit(lambda params, state: loss.weighed(model(params), places, {}, state))
    plain, weighed, state = found(params, jnp.array(1))
    expected, by_point = jax.jit(lambda params: (loss(model(params), places), squares(params)))(
        params
    )
    np.testing.assert_allclose(plain, expected, rtol=1e-12)
    times = np.broadcast_to(places[0].arrays()["t"], by_point.shape).ravel()
    owner, by_point = np.minimum(times / 2 * 8, 7).astype(int), np.asarray(by_point).ravel()
    means = np.array(
        [3.0 * by_point[owner == k].mean() if np.any(owner == k) else 0.0 for k in range(8)]
    )
    weights = np.array([np.exp(-0.2 * means[:k].sum()) for k in range(8)])
    at = loss.names.index("along")
    assert weighed[at] == pytest.approx(np.mean(weights[owner] * by_point), rel=1e-10)
    assert weights.min() < 0.99
    assert state == 1  # late times are held back, so this tolerance stays
    np.testing.assert_array_equal(np.delete(weighed, at), np.delete(plain, at))
    assert weighed[at] < 0.9 * plain[at]
    plain, weighed, state = found(params, jnp.array(0))
    np.testing.assert_allclose(weighed, plain, rtol=1e-14)
    assert state == 1  # nothing is held back: the next tolerance


def test_the_gradient_takes_the_weights_for_constants(double):
    loss, params, model, places, squares = prepared(SEPARABLE)
    place, at = places[0], loss.names.index("along")

    def with_fixed_weights(params, fixed):
        owner = causal.time_slices(place["t"], (0.0, 2.0), 8)
        means = causal.slice_means(place, "t", squares(fixed), owner, 8)
        return jnp.mean(
            causal.causal_weights(3.0 * means, jnp.array(0.2))[owner][:, None] * squares(params)
        )

    found = jax.jit(jax.grad(lambda p: loss.weighed(model(p), places, {}, jnp.array(1))[1][at]))(
        params
    )
    expected = jax.jit(jax.grad(with_fixed_weights))(params, params)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


# --- training -------------------------------------------------------------------------------------


def test_the_tolerance_rises_once_nothing_is_held_back():
    how = sx.Causal(tolerances=(0.1, 1.0, 10.0))
    at = jnp.array(0, jnp.int32)
    assert [int(how.advanced(at, jnp.array(w))) for w in (0.5, 0.99, 0.995)] == [0, 0, 1]
    assert int(how.advanced(jnp.array(2), jnp.array(1.0))) == 2


@pytest.mark.whole
def test_early_times_are_solved_first():
    """Without weights a fast wave soon becomes flat, which leaves no residual but at the start;
    with them it is the late residuals that wait, and the start is followed."""
    x = np.linspace(0, 2 * np.pi, 32)
    early, late = np.linspace(0, 0.25, 8), np.linspace(1.75, 2, 8)
    true = np.asarray(moving(early[:, None], x))

    def trained(weights):
        network = sx.SPINN(rank=8, width=24, depth=2, body="mlp")
        how = sx.Recipe(network, {"t": 32, "x": 12}, 1000, sx.Adam(5e-3), weighting=weights)
        text = sx.Problem(BOX, lambda u: u.t + 6 * u.x, [sx.Initial(moving), sx.Periodic()])
        found = sx.solve(text, how, progress=False)
        left = [float(np.std(found.of(lambda u: u.t + 6 * u.x)(t=t, x=x))) for t in (early, late)]
        return np.linalg.norm(found(t=early, x=x) - true) / np.linalg.norm(true), left

    plain, (plain_early, plain_late) = trained(sx.Constant())
    causal, (early_left, late_left) = trained(sx.Causal(slices=16, tolerances=(1.0, 10.0)))
    assert causal < 0.75 * plain
    assert plain_late < plain_early
    assert early_left < late_left


def test_a_run_goes_on_with_its_tolerance(tmp_path, monkeypatch):
    monkeypatch.setattr("separax.training.session.LAUNCH_SECONDS", 0.0)
    how = recipe(steps=40, points=8, weighting=sx.Causal(slices=8, tolerances=(0.0, 1e-9, 1e3)))
    text = sx.Problem(BOX, lambda u: {"along": u.t + 6 * u.x}, [sx.Initial(moving), sx.Periodic()])

    def stop(step, **_):
        if step >= 20:
            signal.raise_signal(signal.SIGINT)

    whole = sx.solve(text, how, progress=False)
    assert sx.solve(text, how, out=tmp_path / "run", callback=stop, progress=False).interrupted
    again = sx.solve(text, how, out=tmp_path / "run", resume=True, progress=False)
    t, x = np.linspace(0, 2, 5), np.linspace(0, 6, 7)
    np.testing.assert_array_equal(again(t=t, x=x), whole(t=t, x=x))
    np.testing.assert_array_equal(again.history.total, whole.history.total)
    _, state = States(tmp_path / "run", None).newest()
    assert state["state.weighting"] == 2  # two that hold nothing back, then one that does
    assert whole.best_step == 40  # the latest, not those of the lowest loss
    assert sx.load(tmp_path / "run").recipe == how
    with pytest.raises(InputError, match=r"resume: .*weighting = Causal"):
        sx.solve(
            text,
            dataclasses.replace(how, weighting=sx.Constant()),
            out=tmp_path / "run",
            resume=True,
            progress=False,
        )


# --- refused --------------------------------------------------------------------------------------

STILL = sx.Problem(sx.Box(x=(0, 1), y=(0, 1)), lambda u: u.xx + u.yy, [sx.Dirichlet(0)])
CYCLE = sx.Problem(
    sx.Box(t=(0, 1), x=(0, 1)), lambda u: u.t - u.xx, [sx.Periodic(on="t"), sx.Dirichlet(0)]
)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sx.Causal(slices=1), "Causal: slices.*at least 2, got 1"),
        (lambda: sx.Causal(tolerances=()), r"Causal: tolerances.*got \(\).*write"),
        (lambda: sx.Causal(tolerances=0.1), "Causal: tolerances.*got 0.1.*write"),
        (lambda: sx.Causal(tolerances=(1.0, 0.1)), "must rise"),
        (lambda: sx.Causal(tolerances=(-1.0, 0.1)), "not be negative"),
        (
            lambda: recipe(weighting=0.1),
            r"weighting must be a weighting, got 0.1: write weighting=sx.Causal\(\)",
        ),
        (
            lambda: recipe(causal=sx.Causal()),
            r"causal is now called weighting: write weighting=Causal",
        ),
        (
            lambda: sx.solve(STILL, recipe()),
            "weighting: .*without a time axis 't'.*leave weighting out",
        ),
        (
            lambda: sx.solve(CYCLE, recipe()),
            "weighting: .*what is periodic in t.*leave weighting out",
        ),
        (
            lambda: sx.solve(advection(), recipe(optimiser=sx.LBFGS(10), steps=10)),
            r"weighting: LBFGS .*write optimiser=sx.Adam",
        ),
        (
            lambda: sx.solve(advection(), recipe(points=6)),
            r"weighting: 8 slices for 6 points along t: write sx.Causal\(slices=6\)",
        ),
    ],
)
def test_what_cannot_be_is_named(make, words):
    with pytest.raises(InputError, match=words):
        make()
