"""Bodies, activations, encodings and formats of a user's own."""

import math
import re
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.networks import Chebyshev, Coordinate, Fourier
from separax.networks.layers import as_activation
from separax.networks.taylor import JET_FROM, DirectionalTaylor, derivatives, series_of
from separax.residuals import Loss, Model
from separax.residuals.linearise import residuals
from separax.residuals.objective import weight_equations

BOX = sx.Box(t=(0, 2), x=(-1, 1))
KEY = jax.random.key(2)
ORDER = 4


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


def close(found, expected, relative=1e-10):
    size = max(1e-300, np.max(np.abs(expected)))
    np.testing.assert_allclose(found, expected, rtol=relative, atol=relative * size)


def nested(function, order, *at):
    """Derivatives 0 … order along the first argument, by differentiating again and again."""

    @jax.jit
    def every(*at):
        found, differentiated = [], function
        for _ in range(order + 1):
            found.append(differentiated(*at))
            differentiated = jax.jacfwd(differentiated)
        return jnp.stack(found)

    return every(*at)


# --- parts ---------------------------------------------------------------------------------------


def cubed_relu(x):
    return jax.nn.relu(x) ** 3


def bump(x):
    return jnp.where(x > 0, jnp.exp(-(x**2)), 1 / (1 + x**2))


def small_mlp(key, inputs, outputs, activation=jax.nn.gelu):
    return eqx.nn.MLP(inputs, outputs, 5, 2, activation, key=key)


class Plain(eqx.Module):
    """Our "mlp" of one hidden layer, written for one point; with a constant that is not trained."""

    hidden: jax.Array
    out: jax.Array
    shift: np.ndarray

    def __init__(self, key, inputs, outputs):
        first, second = jax.random.split(key)
        self.hidden = jax.random.normal(first, (inputs, 6))
        self.out = jax.random.normal(second, (6, outputs))
        self.shift = np.linspace(-1, 1, 6)

    def __call__(self, x):
        return jnp.tanh(x @ self.hidden + self.shift) @ self.out


class Squared(sx.AbstractBody):
    """A body with a rule of its own: the square of a linear function."""

    weight: jax.Array

    def __init__(self, key, inputs, outputs):
        self.weight = jax.random.normal(key, (inputs, outputs))

    def __call__(self, x):
        return (x @ self.weight) ** 2

    def taylor(self, x):
        linear = DirectionalTaylor(x.layout, array=x.array @ self.weight)
        return linear * linear


class Logarithm(sx.AbstractEncoding):
    """log(s + small) of the coordinate s in [0, 1], beside it."""

    small: float = 0.1

    def __call__(self, x, lower, upper):
        s = (x - lower) / (upper - lower)
        return jnp.stack([s, jnp.log(s + self.small)])


class Turning(sx.AbstractEncoding):
    """Periodic: a wave, and one that is none."""

    def __call__(self, x, lower, upper):
        angle = 2 * jnp.pi * (x - lower) / (upper - lower)
        return jnp.stack([jnp.sin(angle), jnp.exp(jnp.cos(angle))])


class Weighted(sx.AbstractFormat):
    """Σ_j w_j Π_i f_ij(x_i), the weights being trained."""

    axes: tuple
    number: int

    @property
    def ranks(self):
        return (self.number,) * len(self.axes)

    @property
    def core_shape(self):
        return (self.number,)

    def columns(self, factors, core):
        first, *others = factors
        return first * core, *others


class Blocks(sx.AbstractFormat):
    """Sums of products of sums of two columns: no core."""

    axes: tuple
    number: int

    @property
    def ranks(self):
        return (2 * self.number,) * len(self.axes)

    def columns(self, factors, core):
        return tuple(f[..., : self.number] + f[..., self.number :] for f in factors)


def heat(**options):
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.t - 0.1 * u.xx,
        [sx.Initial(lambda x: jnp.sin(jnp.pi * x)), sx.Dirichlet(0)],
        **options,
    )


def built(architecture, box=BOX, components=1, **options):
    return architecture.build(KEY, box, components, dtype=jnp.float64, **options)


# --- activations ---------------------------------------------------------------------------------

FUNCTIONS = [jax.nn.softplus, jax.nn.gelu, jax.nn.silu, cubed_relu, bump]


@pytest.mark.parametrize("function", [*FUNCTIONS, jnp.tanh, jnp.sin], ids=lambda f: f.__name__)
def test_the_taylor_rule_of_any_function_is_that_of_nested_differentiation(function):
    series = jnp.asarray(np.random.default_rng(0).standard_normal((ORDER + 1, 4, 3)))
    rule = as_activation(function)
    found = jax.jit(lambda s: DirectionalTaylor.of(s).activate(rule).array)(series)

    def along(h):
        return function(sum(c * h**k for k, c in enumerate(series)))

    close(derivatives(found), nested(along, ORDER, 0.0))


def test_functions_that_we_have_rules_for_are_ours():
    assert sx.SPINN(activation=jnp.tanh) == sx.SPINN()
    assert sx.PINN(activation=jnp.sin) == sx.PINN(activation="sin")
    assert repr(sx.SPINN(activation=jnp.sin)) == "SPINN(activation='sin')"


@pytest.mark.parametrize("body", ["modified"])
def test_networks_with_an_activation_of_ones_own_have_its_nested_derivatives(body):
    options = {"width": 4, "depth": 2, "body": body, "activation": jax.nn.silu}
    x = jnp.linspace(-0.8, 0.9, 3)
    network = built(sx.SPINN(rank=2, **options))
    found = jax.jit(lambda x: network.factors((x, x), ORDER))(x)
    for i in range(2):
        factor = lambda h, i=i: network.factors((x + h, x + h), 0)[i][:, 0]  # noqa: E731
        close(jnp.moveaxis(found[i], 1, 0), nested(factor, ORDER, 0.0))
    pointwise = built(sx.PINN(**options))
    needed = [(0, 0), (2, 0), (0, 3), (1, 2)]
    value = lambda t, x: pointwise.rows((t[None], x[None]), {})[0, 0]  # noqa: E731

    @jax.jit
    def expected(x):
        found = []
        for t_order, x_order in needed:
            function = value
            for axis in (0,) * t_order + (1,) * x_order:
                function = jax.jacfwd(function, axis)
            found.append(jax.vmap(function)(x, x))
        return found

    made = jax.jit(lambda x: pointwise.derivatives((x, x), set(needed)))(x)
    for orders, true in zip(needed, expected(x)):
        close(made[orders], true)


# --- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, JET_FROM])
@pytest.mark.parametrize("activation", [jax.nn.gelu, jax.nn.softplus], ids=["jet", "nested"])
def test_any_function_carries_series(activation, order):
    """By `jet` from some order on, where it has rules; it knows none that were given by hand."""
    module = small_mlp(KEY, 2, 3, activation)
    value, *further = jnp.asarray(np.random.default_rng(1).standard_normal((order + 1, 2)))

    def along(h):
        return module(value + sum(c * h**k for k, c in enumerate(further, 1)))

    found = jax.jit(lambda v: jnp.stack(series_of(module, v, further)))(value)
    factorials = np.array([math.factorial(k) for k in range(order + 1)])[:, None]
    close(found * factorials, nested(along, order, 0.0))
    used = "jet" in str(jax.make_jaxpr(lambda v: series_of(module, v, further))(value))
    assert not used  # nothing of it stays in the program


@pytest.mark.parametrize("make", [small_mlp, Plain, Squared], ids=lambda make: make.__name__)
def test_the_factors_of_a_spinn_are_modules_of_one_coordinate_each(make):
    network = built(sx.SPINN(rank=3, body=make), components=2)
    x = jnp.linspace(-0.7, 0.9, 4)
    found = jax.jit(lambda x: network.factors((x, x), 3))(x)
    for i, axis in enumerate(network.axes):
        weights = jax.tree.map(lambda leaf, i=i: leaf[i], network.body.weights)
        module = eqx.combine(weights, network.body.settings.tree)

        def columns(x, axis=axis, module=module):
            return module(axis.encode(x[None], 0)[0, 0]).reshape(2, 3)

        expected = jax.jit(jax.vmap(lambda x, f=columns: nested(f, 3, x)))(
            x
        )  # points, orders, components
        close(found[i], jnp.transpose(expected, (2, 1, 0, 3)))


@pytest.mark.parametrize("make", [small_mlp, Plain, Squared], ids=lambda make: make.__name__)
def test_the_derivatives_of_a_pinn_are_those_of_its_module(make):
    """Also those that are carried as a sum."""
    network = built(sx.PINN(body=make))
    points = (jnp.linspace(0.1, 1.9, 4), jnp.linspace(-0.7, 0.9, 4))

    def value(t, x):
        encoded = [a.encode(c[None], 0)[0, 0] for a, c in zip(network.axes, (t, x))]
        return network.body(jnp.concatenate(encoded))[0]

    wave = {(0, (2, 0)): 1.0, (0, (0, 2)): -4.0}
    place = sx.Points(BOX.axes, points)
    (source,) = network.sources([place], [{*wave, (0, (1, 1))}], asked=[wave])
    second = lambda i, j: jax.jit(jax.vmap(jax.jacfwd(jax.jacfwd(value, i), j)))(*points)  # noqa: E731
    close(source.values(wave), second(0, 0) - 4 * second(1, 1))
    close(source.values({(0, (1, 1)): 1.0}), second(0, 1))


@pytest.mark.parametrize("kind", [sx.SPINN, sx.PINN])
def test_weights_are_those_of_the_key_in_the_precision_of_the_run(kind):
    network = kind(body=small_mlp)
    single = network.build(KEY, BOX)
    assert {leaf.dtype for leaf in jax.tree.leaves(single)} == {np.dtype("float32")}
    again, other = built(network), network.build(jax.random.key(5), BOX, dtype=jnp.float64)
    for one, same, another in zip(*map(jax.tree.leaves, (built(network), again, other))):
        np.testing.assert_array_equal(one, same)
        assert one.ndim == another.ndim
    weights = jax.tree.leaves(again.body)[0]
    assert np.all(np.asarray(weights) != np.asarray(jax.tree.leaves(other.body)[0]))
    if kind is sx.SPINN:
        assert np.all(np.asarray(weights[0]) != np.asarray(weights[1]))


def test_constants_of_a_module_are_not_trained_and_its_matrices_are_seen_as_such():
    model = Model.build(heat(), sx.Recipe(sx.SPINN(rank=2, body=Plain)), KEY)
    leaves = jax.tree.leaves(model)
    assert [leaf.shape for leaf in leaves] == [(2, 1, 6), (2, 6, 2)]
    assert [leaf.shape for leaf in jax.tree.leaves(model.layers())] == [(2, 1, 6), (2, 6, 2)]
    linear = Model.build(heat(), sx.Recipe(sx.PINN(body=small_mlp)), KEY)
    assert {leaf.ndim for leaf in jax.tree.leaves(linear.layers())} == {1, 2}


def recipe(network, **options):
    return sx.Recipe(network, 4, **({"precision": "float64"} | options))


@pytest.mark.parametrize(
    "network",
    [
        sx.SPINN(rank=2, body=Plain),
        sx.SPINN(rank=2, width=3, depth=1, activation=jax.nn.silu),
        sx.SPINN(rank=2, width=3, depth=1, encodings={"t": Logarithm()}),
    ],
    ids=["body", "activation", "encoding"],
)
def test_the_normal_equations_are_those_of_the_dense_jacobian(network):
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u, k: u.t - k * u.xx + u**2,
        [sx.Initial(lambda x: x), sx.Data(np.array([[0.3, 0.4]]), np.array([0.2]))],
        unknowns={"k": 0.3},
    )
    loss = Loss(problem, recipe(network, optimiser=sx.GaussNewton(), sampler=sx.GaussLegendre()))
    model = Model.build(problem, loss.recipe, KEY)
    places = loss.draw(KEY, jnp.array(0))
    found = eqx.filter_jit(lambda m: weight_equations(loss, m, places, {}))(model)
    flat, whole = jax.flatten_util.ravel_pytree(model)
    left = jax.jit(lambda p: residuals(loss, whole(p), places, {}))
    matrix = jax.jit(jax.jacfwd(left))(flat)
    assert found.value == pytest.approx(float(loss.total(loss(model, places))), rel=1e-12)
    close(found.gradient, matrix.T @ left(flat))
    close(found.matrix, matrix.T @ matrix)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    "network",
    [
        sx.SPINN(rank=2, body=small_mlp, merge=Weighted, encodings={"t": Logarithm()}),
        sx.PINN(body=small_mlp, encodings={"t": Logarithm()}),
        sx.SPINN(rank=2, width=4, depth=1, activation=cubed_relu, merge=Blocks),
    ],
    ids=["spinn", "pinn", "blocks"],
)
def test_losses_and_gradients_have_the_precision_of_the_run(network, precision):
    how = recipe(network, precision=precision)
    loss = Loss(heat(), how)
    model, places = Model.build(heat(), how, KEY), loss.draw(KEY, jnp.array(0))
    shapes = jax.eval_shape(jax.value_and_grad(lambda m: loss.total(loss(m, places))), model)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {np.dtype(precision)}


# --- encodings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", [Logarithm(), Turning(), Coordinate(), Fourier(2), Chebyshev(5)], ids=repr
)
def test_an_encoding_has_its_nested_derivatives(encoding):
    x = jnp.linspace(-0.9, 0.8, 5)
    found = jax.jit(lambda x: derivatives(encoding.taylor(x, -1.0, 1.0, ORDER)))(x)
    each = lambda x: nested(lambda x: encoding(x, -1.0, 1.0), ORDER, x)  # noqa: E731
    expected = jax.jit(jax.vmap(each))(x)
    assert found.shape == (ORDER + 1, 5, encoding.size)
    close(found, jnp.moveaxis(expected, 0, 1), 1e-9)


@pytest.mark.parametrize("kind", [sx.SPINN, sx.PINN])
def test_our_own_encodings_come_in_by_the_same_door(kind):
    """By their flags or as parts: the same weights, and the same values."""
    flags = {"frequencies": 2, "scaled": False}
    parts = {"encodings": {"t": Fourier(2), "x": Coordinate(scaled=False)}}
    if kind is sx.SPINN:
        flags = {"frequencies": 2, "functions": {"x": 4}}
        parts = {"encodings": {"t": Fourier(2), "x": Chebyshev(4)}}
    one, other = (built(kind(width=4, **given), periodic=("t",)) for given in (flags, parts))
    for ours, same in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(ours, same)
    assert one.axes == other.axes


def test_a_periodic_encoding_makes_a_periodic_network():
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 2)),
        lambda u: u.t + u.x,
        [sx.Initial(lambda x: jnp.sin(2 * jnp.pi * x / 3)), sx.Periodic("x")],
    )
    how = recipe(sx.SPINN(rank=2, width=4, depth=1, encodings={"x": Turning()}))
    network = Model.build(Loss(problem, how).problem, how, KEY).network
    ends = network.factors((jnp.zeros(1), jnp.array([-1.0, 2.0])), 2)[1]
    close(ends[:, :, 0], ends[:, :, 1])


# --- formats -------------------------------------------------------------------------------------


def test_a_format_of_ones_own_is_the_sum_that_it_says():
    network = built(sx.SPINN(rank=3, width=4, depth=1, merge=Weighted), components=2)
    assert network.core.shape == (2, 3)
    assert network.rank == 3
    lattice = BOX.lattice((4, 5))
    coordinates = tuple(jnp.asarray(c) for c in lattice.coordinates)
    columns = [f[:, 0] for f in network.columns(coordinates, 0)]
    expected = jnp.einsum("cj,caj,cbj->cab", network.core, *columns)
    needs = [(0, (0, 0)), (1, (0, 0)), (0, (0, 2))]
    (source,) = network.sources([lattice], [needs])
    for i in range(2):
        close(source.values({(i, (0, 0)): 1.0}), expected[i])
    slopes = network.columns(coordinates, 2)
    second = jnp.einsum("j,aj,bj->ab", network.core[0], slopes[0][0, 0], slopes[1][0, 2])
    close(source.values({needs[2]: 1.0}), second)


# --- kept runs -----------------------------------------------------------------------------------

MODULE = """
import equinox as eqx
import jax

def make(key, inputs, outputs):
    return eqx.nn.MLP(inputs, outputs, 4, 1, jax.numpy.tanh, key=key)

def other(key, inputs, outputs):
    return eqx.nn.MLP(inputs, outputs, 4, 1, jax.numpy.sin, key=key)

def soft(x):
    return x * jax.nn.sigmoid(2 * x)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module beside a script."""
    (tmp_path / "own_networks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("own_networks")
    sys.modules.pop("own_networks", None)


def test_a_run_with_parts_of_ones_own_is_kept_loaded_and_not_resumed_with_others(own, tmp_path):
    def solve(network, **options):
        how = sx.Recipe(network, 4, 10)
        return sx.solve(heat(), how, out=tmp_path / "run", progress=False, **options)

    network = sx.SPINN(rank=2, body=own.make)
    found = solve(network)
    again = sx.load(tmp_path / "run")
    at = {"t": np.array([0.2, 0.9]), "x": np.array([0.3, 0.7])}
    np.testing.assert_array_equal(again(**at), found(**at))
    assert again.recipe.network == network
    with pytest.raises(
        sx.InputError, match=r"network.body = own_networks.make, not own_networks.o"
    ):
        solve(sx.SPINN(rank=2, body=own.other), resume=True)
    with pytest.raises(sx.InputError, match=r"network.activation = .*own_networks.soft"):
        solve(sx.SPINN(rank=2, activation=own.soft), resume=True)


@pytest.mark.parametrize(
    "network",
    [
        sx.SPINN(rank=2, body=lambda *given: small_mlp(given[0], *given[1:])),
        sx.SPINN(rank=2, width=4, activation=lambda x: jnp.exp(-(x**2))),
    ],
    ids=["body", "activation"],
)
def test_a_lambda_cannot_be_kept_and_that_is_said_first(network, tmp_path, monkeypatch):
    monkeypatch.setattr("separax.training.trainer.Trainer.compile", None)
    with pytest.raises(sx.InputError, match=r"network.*a lambda has no name"):
        sx.solve(heat(), sx.Recipe(network, 4, 10), out=tmp_path / "run", progress=False)


# --- what is refused -----------------------------------------------------------------------------


def batched(key, inputs, outputs):
    weight = jax.random.normal(key, (inputs, outputs))
    return eqx.nn.Lambda(jax.tree_util.Partial(lambda w, x: jax.lax.dot(x, w)[:, :1], weight))


def wide(key, inputs, outputs):
    return small_mlp(key, inputs, outputs + 1)


def whole(key, inputs, outputs):
    return jax.tree_util.Partial(lambda n, x: x, jnp.arange(3))


def relu_mlp(key, inputs, outputs):
    return eqx.nn.MLP(inputs, outputs, 5, 2, key=key)


class Flat(sx.AbstractEncoding):
    def __call__(self, x, lower, upper):
        return x


class Trained(sx.AbstractEncoding):
    weights: jax.Array

    def __call__(self, x, lower, upper):
        return self.weights * x


class Uneven(Blocks.__base__):
    axes: tuple
    rank_: int

    @property
    def ranks(self):
        return (2, 3)

    def columns(self, factors, core):
        return tuple(factors)


class Curved(Blocks.__base__):
    axes: tuple
    rank_: int

    @property
    def ranks(self):
        return (2, 2)

    def columns(self, factors, core):
        return tuple(f**2 for f in factors)


class Short(Curved):
    @property
    def ranks(self):
        return (2,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"body": wide}, r"body: wide: .*returns an array of shape \(\d+,\): .*one point"),
        ({"body": batched}, r"body: batched: its module fails: .*given one point"),
        ({"body": lambda key: key}, r"body: a lambda\(key, \d+, \d+\) fails: TypeError"),
        ({"body": lambda *given: 3.0}, r"returns 3.0: return a module with arrays"),
        ({"body": lambda *given: jnp.sin}, r"sin: return a module with arrays"),
        ({"body": whole}, r"return a module with arrays of floating-point numbers"),
        ({"body": relu_mlp}, r"body: relu_mlp is not smooth enough: .*order 1 jumps .*order 2"),
        ({"activation": jax.nn.relu}, r"relu is not smooth enough: its derivative of order 1"),
        ({"activation": jax.nn.softmax}, r"activation: softmax is not elementwise"),
        ({"activation": jnp.sum}, r"activation: sum is not elementwise"),
        ({"activation": jnp.log}, r"log is not smooth enough: it jumps or is infinite"),
        (
            {"activation": lambda x: x + jnp.ones(3)},
            r"activation: a lambda fails: (Type|Value)Error",
        ),
        ({"activation": 3}, r"activation must be one of tanh, sin, or a function of JAX"),
        (
            {"encodings": {"x": Flat()}},
            r"encodings\['x'\]: Flat returns .*shape \(\) of float32 for",
        ),
        ({"encodings": {"x": jnp.sin}}, r"encodings\['x'\] must be an encoding, got"),
        ({"encodings": {"x": Trained(np.ones(2))}}, r"encodings: .*cannot be compared"),
        ({"encodings": {"z": Logarithm()}}, r"encodings: .*'z'"),
        ({"encodings": Logarithm()}, r"encodings must be a dict by axis"),
    ],
)
@pytest.mark.parametrize("kind", [sx.SPINN, sx.PINN])
def test_what_cannot_work_is_refused_before_anything_compiles(kind, options, words):
    with pytest.raises(sx.InputError, match=re.compile(words, re.DOTALL)) as raised:
        network = kind(**options)
        Loss(heat(), recipe(network))
        built(network, heat().box)
    assert kind.__name__ in str(raised.value) or "module with arrays" in words


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        (Uneven, r"merge: Uneven: columns makes .* of .*: return one array per axis"),
        (Curved, r"merge: Curved: the field is not linear in the columns of axis 1"),
        (Short, r"merge: Short: ranks = \(2,\): write one number for each of 2 axes"),
        (lambda axes, rank: 3, r"merge must return an sx.AbstractFormat, got 3"),
        ("tuker", r"merge must be one of cp, tucker, train.*Did you mean 'tucker'"),
    ],
)
def test_formats_that_do_not_fit_are_refused(merge, words):
    with pytest.raises(sx.InputError, match=words):
        Loss(heat(), recipe(sx.SPINN(rank=2, merge=merge)))


def of_order(order):
    return sx.Problem(
        sx.Box(x=(0, 1)), lambda u: u.d(x=order) - 1, [sx.Initial(0), sx.Dirichlet(0)][1:]
    )


@pytest.mark.parametrize(
    ("function", "order"), [(cubed_relu, 4), (jax.nn.elu, 3), (jnp.abs, 2), (jnp.sign, 1)]
)
def test_an_activation_has_the_derivatives_that_the_equation_needs(function, order):
    network = sx.SPINN(rank=2, width=4, activation=function)
    with pytest.raises(
        sx.InputError, match=f"is not smooth enough: .*needs derivatives of order {order}"
    ):
        Loss(of_order(order), recipe(network))
    if order > 1:
        Loss(of_order(order - 1), recipe(network))


def test_mixed_derivatives_ask_more_of_a_pointwise_network():
    problem = sx.Problem(BOX, lambda u: u.d(t=1, x=1), [sx.Initial(0)])
    Loss(problem, recipe(sx.SPINN(rank=2, width=4, activation=jax.nn.relu)))
    with pytest.raises(sx.InputError, match="relu is not smooth enough"):
        Loss(problem, recipe(sx.PINN(width=4, activation=jax.nn.relu)))


def test_a_periodic_axis_wants_a_periodic_encoding():
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)), lambda u: u.t + u.x, [sx.Initial(1.0), sx.Periodic("x")]
    )
    with pytest.raises(sx.InputError, match=r"encodings\['x'\]: the axis is periodic, but"):
        Loss(problem, recipe(sx.SPINN(encodings={"x": Logarithm()})))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"body": small_mlp}, "Solve needs a body with a linear output layer"),
        ({"merge": Weighted}, "Solve needs merge='cp', 'tucker' or 'train'"),
    ],
)
def test_what_needs_output_layers_says_so(options, words):
    network = sx.SPINN(rank=2, **options)
    with pytest.raises(sx.InputError, match=words):
        sx.Recipe(network, optimiser=sx.Solve(), precision="float64")
    made = built(network)
    for use in (lambda: made.features(((jnp.zeros(1),) * 2), 0), lambda: made.coefficients):
        if "body" in options:
            with pytest.raises(sx.InputError, match="linear output layer"):
                use()
