"""Taylor series carry exactly what nested differentiation computes."""

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from separax.networks.bases import fourier, piece, polynomial
from separax.networks.bodies import MLP, Layer, ModifiedMLP
from separax.networks.layers import ACTIVATIONS, dense
from separax.networks.taylor import (
    MAX_ORDER,
    DirectionalTaylor,
    constant,
    derivatives,
    multiply,
)

ORDERS = [0, 4]


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


def nested(function, x, order):
    """Derivatives 0 … order of a function of one number, by differentiating it again and again: (orders, points, features)."""

    def all_orders(at):
        out, current = [], function
        for _ in range(order + 1):
            out.append(current(at))
            current = jax.jacfwd(current)
        return jnp.stack(out)

    return jnp.swapaxes(jax.jit(jax.vmap(all_orders))(x), 0, 1)


def assert_close(found, expected, relative=1e-12):
    """Order by order, relative to the largest value of that order."""
    assert found.shape == expected.shape
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(
            ours, theirs, rtol=relative, atol=relative * max(np.max(np.abs(theirs)), 1e-300)
        )


def random_series(order, points=5, features=3, seed=0):
    """Taylor coefficients of no function in particular, and the polynomials of a step h that have them."""
    series = jnp.asarray(np.random.default_rng(seed).standard_normal((order + 1, points, features)))

    def function(h):
        return sum(c * h**k for k, c in enumerate(series))

    return series, function


def at_zero(function, order):
    """Derivatives 0 … order with respect to h at h = 0."""
    return nested(lambda h: function(h).ravel(), jnp.zeros(1), order)[:, 0]


def activated(name, series):
    return DirectionalTaylor.of(series).activate(ACTIVATIONS[name]).array


def through(body, series):
    return body.taylor(DirectionalTaylor.of(series)).array


POINTS = np.linspace(-0.9, 1.3, 6)
CUBIC = (0.3, -1.2, 0.5, 0.8)


# --- operations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_an_activation_of_any_series_is_differentiated_by_the_chain_rule(name, order):
    """tanh s and sin s for s with arbitrary Taylor coefficients."""
    series, function = random_series(order)
    found = jax.jit(lambda series: derivatives(activated(name, series)))(series)
    assert_close(
        found.reshape(order + 1, -1), at_zero(lambda h: getattr(jnp, name)(function(h)), order)
    )


def test_every_activation_is_covered_here():
    assert set(ACTIVATIONS) == {"tanh", "sin"}


def test_tanh_is_flat_and_finite_where_it_saturates():
    series = activated("tanh", polynomial(jnp.array([-500.0, 500.0]), (0.0, 1.0), 4))
    np.testing.assert_array_equal(series[0, :, 0], [-1.0, 1.0])
    np.testing.assert_array_equal(series[1:], 0.0)


@pytest.mark.parametrize("order", ORDERS)
def test_products_follow_the_product_rule(order):
    (a, f), (b, g) = random_series(order, seed=1), random_series(order, seed=2)
    assert_close(
        derivatives(multiply(a, b)).reshape(order + 1, -1), at_zero(lambda h: f(h) * g(h), order)
    )


def test_the_features_of_a_product_broadcast():
    a, b = random_series(3, features=4)[0], random_series(3, features=1, seed=1)[0]
    assert_close(multiply(a, b), multiply(a, jnp.tile(b, (1, 1, 4))))


@pytest.mark.parametrize("order", ORDERS)
def test_a_dense_layer_is_linear_and_its_bias_has_no_derivative(order):
    series, function = random_series(order)
    rng = np.random.default_rng(3)
    weight, bias = jnp.asarray(rng.standard_normal((3, 4))), jnp.asarray(rng.standard_normal(4))
    found = derivatives(dense(series, weight, bias))
    assert_close(
        found.reshape(order + 1, -1), at_zero(lambda h: function(h) @ weight + bias, order)
    )


def test_a_dense_layer_over_a_batch_is_one_layer_each():
    rng = np.random.default_rng(4)
    series = jnp.asarray(rng.standard_normal((2, 3, 5, 4)))
    weight, bias = (
        jnp.asarray(rng.standard_normal((2, 4, 6))),
        jnp.asarray(rng.standard_normal((2, 6))),
    )
    found = dense(series, weight, bias)
    assert found.shape == (2, 3, 5, 6)
    for i in range(2):
        assert_close(found[i], dense(series[i], weight[i], bias[i]))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("coefficients", [(2.0,), (0.0, 1.0), (0.5, 0.5), (1.0, 0.0, -1.0), CUBIC])
def test_polynomials(coefficients, order):
    found = jax.jit(lambda x: derivatives(polynomial(x, coefficients, order)))(POINTS)
    assert_close(
        found,
        nested(
            lambda x: sum(c * x**k for k, c in enumerate(coefficients))[None] + 0 * x, POINTS, order
        ),
    )


@pytest.mark.parametrize("order", ORDERS)
def test_fourier_features(order):
    """1, sin kωx and cos kωx with ω = 2π / period."""
    period, frequencies = 2.2, 3

    def features(x):
        angles = 2 * jnp.pi / period * jnp.arange(1, frequencies + 1) * x
        return jnp.concatenate([jnp.ones(1), jnp.sin(angles), jnp.cos(angles)])

    found = derivatives(fourier(POINTS, period, frequencies, order))
    assert_close(found, nested(features, POINTS, order))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_piece_has_slopes_up_to_its_ends_and_none_beyond(dtype):
    """Its upper end is the next one's, unless there is no next one; T₁ has slope one half on a piece four wide."""
    x = jnp.asarray([-2.0, -1.0, 2.9, 3.0, 3.5], dtype)
    inner, last = (piece(x, -1.0, 3.0, 3, 1, last=last)[1, :, 0] for last in (False, True))
    np.testing.assert_allclose(inner, [0, 0.5, 0.5, 0, 0], atol=1e-6)
    np.testing.assert_allclose(last, [0, 0.5, 0.5, 0.5, 0], atol=1e-6)


def test_coefficients_become_derivatives_by_factorials():
    series = jnp.ones((MAX_ORDER + 1, 1, 1))
    np.testing.assert_array_equal(
        derivatives(series).ravel(), [math.factorial(k) for k in range(MAX_ORDER + 1)]
    )


def test_the_highest_order_of_all():
    """d⁸/dx⁸ sin 2x = 2⁸ sin 2x; y = tanh x solves y′ = 1 - y², coefficient by coefficient."""
    sine = derivatives(activated("sin", polynomial(POINTS, (0.0, 2.0), MAX_ORDER)))
    assert_close(sine[8:], 256 * np.sin(2 * POINTS)[None, :, None])
    y = activated("tanh", polynomial(POINTS, (0.0, 1.0), MAX_ORDER))
    slope = y[1:] * np.arange(1, MAX_ORDER + 1)[:, None, None]
    assert_close(slope, (constant(np.ones((6, 1)), MAX_ORDER) - multiply(y, y))[:-1])


def test_series_keep_the_precision_they_are_given():
    x = jnp.asarray(POINTS, jnp.float32)

    def made(x):
        both = polynomial(x, CUBIC, 2), fourier(x, 2.0, 2, 2)
        return [
            (
                series,
                activated("tanh", series),
                activated("sin", series),
                multiply(series, series),
                derivatives(series),
            )
            for series in both
        ]

    assert {leaf.dtype for leaf in jax.tree.leaves(jax.eval_shape(made, x))} == {
        jnp.dtype("float32")
    }


# --- whole bodies ---------------------------------------------------------------------------------------------------


def random_layer(rng, inputs, outputs):
    return Layer(
        jnp.asarray(rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)),
        jnp.asarray(0.3 * rng.standard_normal(outputs)),
    )


def mlp(rng, activation):
    """A body, and the same network written plainly for one number."""
    body = MLP(
        (random_layer(rng, 1, 6), random_layer(rng, 6, 6)),
        random_layer(rng, 6, 3),
        ACTIVATIONS[activation],
    )

    def forward(x):
        h = x[None]
        for layer in body.hidden:
            h = getattr(jnp, activation)(h @ layer.weight + layer.bias)
        return h @ body.out.weight + body.out.bias

    return body, forward


def modified_mlp(rng, activation, depth=2):
    hidden = tuple(random_layer(rng, 6, 6) for _ in range(depth))
    body = ModifiedMLP(
        random_layer(rng, 1, 18), hidden, random_layer(rng, 6, 3), ACTIVATIONS[activation]
    )
    act = getattr(jnp, activation)

    def forward(x):
        first = act(x[None] @ body.first.weight + body.first.bias)
        gate, other, h = first[:6], first[6:12], first[12:]
        for layer in body.hidden:
            z = act(h @ layer.weight + layer.bias)
            h = (1 - z) * gate + z * other
        return h @ body.out.weight + body.out.bias

    return body, forward


@pytest.mark.parametrize("activation", ["tanh", "sin"])
@pytest.mark.parametrize("make", [mlp, modified_mlp])
def test_a_body_takes_series_to_the_derivatives_of_the_plain_network(make, activation):
    body, forward = make(np.random.default_rng(5), activation)
    found = jax.jit(lambda x: derivatives(through(body, polynomial(x, (0.0, 1.0), 4))))(POINTS)
    assert_close(
        found, nested(forward, POINTS, 4), 1e-11
    )  # fourth derivatives are sums of hundreds of products


@pytest.mark.parametrize("points", [5, 200])
@pytest.mark.parametrize("inputs", [1, 6])
@pytest.mark.parametrize("axis", [-3, -2])
def test_the_gradient_of_a_layer_is_the_same_on_a_gpu(monkeypatch, points, inputs, axis):
    """There it is added up in parts. Beside it what a product and a sum, differentiated as they are, would give. Orders lie along `axis`."""
    rng = np.random.default_rng(0)
    series = jnp.asarray(rng.normal(size=(2, 3, points, inputs)))
    weight, bias = (
        jnp.asarray(rng.normal(size=(2, inputs, 4))),
        jnp.asarray(rng.normal(size=(2, 4))),
    )
    back = jnp.asarray(rng.normal(size=(2, 3, points, 4)))

    def plain(series, weight, bias):
        out = jnp.einsum("bkni,bio->bkno", series, weight)
        return out.at[:, 0].add(bias[:, None])

    def turned(series, weight, bias):
        return jnp.moveaxis(dense(jnp.moveaxis(series, -3, axis), weight, bias, axis), axis, -3)

    def gradients(layer):
        total = jax.grad(lambda *a: jnp.sum(back * layer(*a)), (0, 1, 2))
        return jax.jit(lambda *a: (layer(*a), *total(*a)))(series, weight, bias)

    expected = gradients(plain)
    for platform in ("cpu", "gpu"):
        monkeypatch.setattr(
            "separax.networks.layers.default_device",
            lambda platform=platform: SimpleNamespace(platform=platform),
        )
        for one, other in zip(gradients(turned), expected):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    in_parts = f"f64[2,{3 * points // 128},{inputs},4]" in str(
        jax.make_jaxpr(lambda: gradients(turned))()
    )
    assert in_parts == (inputs > 1 and points >= 128)


def test_a_layer_of_which_nothing_is_differentiated_has_no_tangent():
    series, weight, bias = jnp.ones((2, 3, 2)), jnp.ones((2, 4)), jnp.ones(4)
    out, moved = jax.jvp(lambda s: (dense(series, weight, bias), s), (1.0,), (1.0,))[1]
    assert not np.any(np.asarray(out))
    assert moved == 1.0
