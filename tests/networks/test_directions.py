"""Series along several directions carry what nested differentiation computes, and sums of it."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.domain.places import Points
from separax.networks.architectures import PINN
from separax.networks.bodies import Layer
from separax.networks.layers import ACTIVATIONS, Elementwise
from separax.networks.pointwise_network import SumOfDerivatives
from separax.networks.taylor import DirectionalTaylor, Layout, Rows, derived, multiply
from separax.paper import step_time as bench
from separax.paper.catalogue import CATALOGUE
from separax.residuals.loss import Loss
from separax.residuals.model import Model

BOX = sx.Box(t=(0, 1), x=(-1, 2), y=(0, 3))
NUMBER = 4


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


def random_points(seed=0):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.uniform(*BOX[axis], 5)) for axis in BOX.axes)


def along(axis, order):
    return tuple(order if i == axis else 0 for i in range(len(BOX.axes)))


def built(placed=None, **options):
    return PINN(width=5, depth=2, **options).build(
        jax.random.key(3), BOX, dtype=jnp.float64, **(placed or {})
    )


def nested(network, points, orders):
    """A derivative of the values, by differentiating again and again."""

    def function(*at):
        return network.rows(tuple(c[None] for c in at), {})[0, 0]

    for axis, order in enumerate(orders):
        for _ in range(order):
            function = jax.jacfwd(function, axis)
    return jax.jit(jax.vmap(function))(*points)


def close(found, expected, relative=1e-10):
    np.testing.assert_allclose(
        found, expected, rtol=relative, atol=relative * np.max(np.abs(expected))
    )


# --- the algebra ---------------------------------------------------------------------------------

# two directions of one order and one of another, that is in no operator
LAYOUT = Layout((2, 1, 2), ((0.5, 0.0, -3.0), (1.0, 0.0, 1.0)))
NEIGHBOURS = dataclasses.replace(LAYOUT, axis=-2)


def series_along(seed, layout=LAYOUT):
    """For each direction a series, one order longer than the layout has it; all with one value."""
    rng = np.random.default_rng(seed)
    value = rng.standard_normal((NUMBER, 2))
    return [
        jnp.asarray(np.stack([value, *rng.standard_normal((order + 1, NUMBER, 2))]))
        for order in layout.orders
    ]


def joined(each, layout=LAYOUT):
    own = [[series[k] for k in range(1, order + 1)] for series, order in zip(each, layout.orders)]
    tops = [series[order + 1] for series, order in zip(each, layout.orders)]
    return DirectionalTaylor(layout, Rows(each[0][0], own, layout.summed(tops)))


def all_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        close(one, other, 1e-12)


EVERY = {**ACTIVATIONS, "silu": Elementwise(jax.nn.silu)}


@pytest.mark.parametrize("name", sorted(EVERY))
def test_an_activation_is_that_of_the_series_along_each_direction(name):
    each = series_along(0)
    alone = [DirectionalTaylor.of(series).activate(EVERY[name]).array for series in each]
    all_close(joined(each).activate(EVERY[name]).rows, joined(alone).rows)


def test_a_product_is_that_of_the_series_along_each_direction():
    left, right = series_along(1), series_along(2)
    made = joined(left) * joined(right)
    all_close(made.rows, joined([multiply(a, b) for a, b in zip(left, right)]).rows)


@pytest.mark.parametrize("name", ["composed", "relu"])
def test_any_function_of_a_point_is_differentiated_along_all_directions_at_once(name):
    """Beside it what it makes of each direction's series alone."""

    def function(x):
        if name == "relu":
            return jax.nn.relu(x) ** 3 + jnp.roll(x, 1)
        return jnp.stack([jnp.sin(x[0]) * x[1], jnp.tanh(x[0] + x[1] ** 2), x[0]])

    each = series_along(3)
    alone = [derived(function, DirectionalTaylor.of(series)).array for series in each]
    all_close(derived(function, joined(each)).rows, joined(alone).rows)


@pytest.mark.parametrize("layout", [LAYOUT, NEIGHBOURS], ids=["apart", "neighbours"])
def test_rows_are_joined_and_apart_again(layout):
    rows = joined(series_along(0), layout).rows
    again = DirectionalTaylor(layout, array=joined(series_along(0), layout).array).rows
    assert jax.tree.structure(again) == jax.tree.structure(rows)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(rows), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_of_a_point_are_neighbours_where_the_axis_says_so():
    apart, neighbours = (joined(series_along(0), layout).array for layout in (LAYOUT, NEIGHBOURS))
    np.testing.assert_array_equal(neighbours, jnp.moveaxis(apart, 0, 1))


@pytest.mark.parametrize("layout", [LAYOUT, NEIGHBOURS], ids=["apart", "neighbours"])
def test_a_layer_takes_rows_that_are_the_same_everywhere_or_zero(layout):
    """One point stands for all, None for zeros: the layer's values and their gradient are those of
    the rows written out."""
    value, series, operators = joined(series_along(0)).rows
    rows = Rows(value, [[series[0][0][:1], None], *series[1:]], [operators[0], None])
    layer = Layer(
        jnp.asarray(np.random.default_rng(1).standard_normal((2, 3))), jnp.array([0.5, -1.0, 2.0])
    )
    given = DirectionalTaylor(layout, rows)
    assert not given.is_full
    full = given.array

    def short(layer):
        return layer(DirectionalTaylor(layout, rows)).array

    def long(layer):
        return layer(DirectionalTaylor(layout, array=full)).array

    all_close(jax.jit(short)(layer), jax.jit(long)(layer))
    weights = np.random.default_rng(2).standard_normal(jax.eval_shape(long, layer).shape)
    found, expected = (
        jax.jit(jax.grad(lambda layer, way=way: jnp.sum(weights * way(layer) ** 2)))(layer)
        for way in (short, long)
    )
    all_close(found, expected)


def test_every_row_has_its_order():
    assert LAYOUT.row_orders == [0, 1, 2, 1, 1, 2, 3, 3]


# --- networks -------------------------------------------------------------------------------------------------------


WALLS = {"components": 2, "zero_faces": [["", "-"], ["-+", ""], ["+", ""]]}


@pytest.mark.parametrize(
    ("options", "one"),
    [
        ({"body": "modified"}, SumOfDerivatives(3, ((0, 0.3), (2, -2.0)))),
        (
            {"body": "mlp", "activation": "sin", "scaled": False},
            SumOfDerivatives(2, ((0, 1.5), (1, -0.4), (2, 2.0))),
        ),
        ({"body": "modified", "placed": WALLS}, SumOfDerivatives(2, ((0, 1.0), (1, -3.0)))),
        (
            {"body": "mlp", "frequencies": 2, "placed": {"periodic": ("y",)}},
            SumOfDerivatives(3, ((1, 0.7), (2, 1.0))),
        ),
    ],
    ids=["modified", "sine", "walls", "periodic"],
)
def test_a_sum_is_that_of_the_nested_derivatives(options, one):
    network, points = built(**options), random_points()
    wanted = {along(0, 1), along(0, 0)}, {one}
    found = eqx.filter_jit(lambda n: dict(n.derivatives(points, *wanted)))(network)
    assert set(found) == {along(0, 1), along(0, 0), one}
    each = [w * nested(network, points, along(axis, one.order)) for axis, w in one.weights]
    close(found[one], sum(each))
    close(found[along(0, 1)], nested(network, points, along(0, 1)))


def test_derivatives_of_a_plain_coordinate_are_not_written_out(monkeypatch):
    """Those of the first order are the same everywhere, higher ones zero; waves along y are
    neither."""
    network, seen = built(frequencies=2, placed={"periodic": ("y",)}), []
    layer = Layer.__call__
    monkeypatch.setattr(Layer, "__call__", lambda self, x: seen.append(x) or layer(self, x))
    sums = [SumOfDerivatives(3, ((0, 1.0), (i, 1.0))) for i in (1, 2)]
    jax.eval_shape(lambda: network.rows(random_points(), {0: 2, 2: 2}, sums))
    value, ((first, second), waves), (plain, mixed) = seen[0].rows
    assert [len(row) for row in (value, first, *waves, mixed)] == [5, 1, 5, 5, 5]
    assert second is None
    assert plain is None


@pytest.mark.parametrize("body", ["mlp", "modified"])
def test_a_network_is_the_same_on_a_gpu(monkeypatch, body):
    """Where the rows of a point are neighbours: values, derivatives, sums, mixed ones, and their gradient by the weights."""
    network = built(body=body, placed={"zero_faces": [["", ""], ["-+", ""], ["", "-"]]})
    wanted = {along(0, 0), along(0, 1), along(1, 1), along(2, 3), (0, 1, 1)}

    def total(network):
        found = network.derivatives(
            random_points(), wanted, {SumOfDerivatives(2, ((0, 1.5), (1, -1.0)))}
        )
        return sum(jnp.sum(jnp.sin(value)) for value in found.values()), found

    def evaluated():
        both = eqx.filter_value_and_grad(total, has_aux=True)
        return eqx.filter_jit(lambda network: both(network))(network)

    here, gradient = evaluated()
    monkeypatch.setattr(
        "separax.networks.pointwise_network.default_device", lambda: SimpleNamespace(platform="gpu")
    )
    seen = []
    monkeypatch.setattr(
        "separax.networks.pointwise_network.Layout",
        lambda *a, **k: seen.append(Layout(*a, **k)) or seen[-1],
    )
    there, turned = evaluated()
    assert {layout.axis for layout in seen} == {-2}
    for one, other in zip(
        jax.tree.leaves((there, turned)), jax.tree.leaves((here, gradient)), strict=True
    ):
        close(one, other, 1e-12)


# --- sources --------------------------------------------------------------------------------------------------------

WAVE = {(0, along(0, 2)): 1.0, (0, along(1, 2)): -4.0, (0, along(2, 2)): -4.0}


def passes(network, monkeypatch):
    """What each pass through a network carries."""
    seen = []
    rows = type(network).rows
    monkeypatch.setattr(
        type(network),
        "rows",
        lambda self, points, orders, operators=(): (
            seen.append((dict(orders), list(operators))) or rows(self, points, orders, operators)
        ),
    )
    return seen


def test_an_operator_is_carried_as_one_row(monkeypatch):
    network = built(body="modified")
    seen = passes(network, monkeypatch)
    place = Points(BOX.axes, random_points())
    (source,) = network.sources([place], [set(WAVE)], asked=[WAVE])
    found = source.values(WAVE)
    assert seen == [({0: 1, 1: 1, 2: 1}, [SumOfDerivatives(2, ((0, 1.0), (1, -4.0), (2, -4.0)))])]
    close(found, sum(c * nested(network, place.coordinates, o)[:, 0] for (_, o), c in WAVE.items()))
    close(source.values({k: -0.5 * c for k, c in WAVE.items()}), -0.5 * found, 1e-14)
    assert len([rays for rays, _ in seen if rays]) == 1


def test_what_was_not_said_is_given_all_the_same(monkeypatch):
    """A residual may take another way through its own text at points than it took on nothing."""
    network = built(body="mlp")
    seen = passes(network, monkeypatch)
    place = Points(BOX.axes, random_points())
    (source,) = network.sources([place], [set(WAVE)], asked=[WAVE])
    for key in WAVE:
        close(source.values({key: 2.0}), 2 * nested(network, place.coordinates, key[1])[:, 0])
    assert len([rays for rays, _ in seen if rays]) == 2  # one more, for all of them


@pytest.mark.parametrize(
    "asked",
    [
        [{key: 1.0} for key in WAVE],  # each by itself: as many sums as derivatives
        [dict.fromkeys(WAVE)],  # coefficients that are not known yet
        None,
    ],
    ids=["apart", "unknown", "nothing"],
)
def test_where_sums_save_nothing_there_are_none(asked, monkeypatch):
    network = built(body="mlp")
    seen = passes(network, monkeypatch)
    network.sources([Points(BOX.axes, random_points())], [set(WAVE)], asked=asked)
    assert seen == [({0: 2, 1: 2, 2: 2}, [])]


@pytest.mark.parametrize("name", ["klein-gordon", "diffusion"])
def test_the_paper_equations_and_their_gradients_are_what_they_were(name, monkeypatch):
    """Second derivatives one by one, or added up on the way through the network."""
    problem, recipe = CATALOGUE[name].make("paper", "pinn-mod")
    loss = Loss(problem, dataclasses.replace(recipe, points=3, precision="float64"))
    model = Model.build(problem, loss.recipe, jax.random.key(1))
    places = loss.draw(jax.random.key(0), jnp.asarray(0))

    def value_and_gradient():
        both = eqx.filter_value_and_grad(lambda m: loss.total(loss(m, places)))
        value, gradient = eqx.filter_jit(lambda model: both(model))(model)
        return value, jax.flatten_util.ravel_pytree(eqx.filter(gradient, eqx.is_array))[0]

    seen = passes(model.network, monkeypatch)
    value, gradient = value_and_gradient()
    assert sum(len(sums) for _, sums in seen) == 1
    monkeypatch.setitem(vars(problem), "asked", None)
    expected, direction = value_and_gradient()
    assert sum(len(sums) for _, sums in seen) == 1
    close(value, expected, 1e-12)
    close(gradient, direction, 1e-11)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["helmholtz", "navier-stokes"])
def test_a_step_of_the_papers_way_has_the_same_gradient(name):
    """Every derivative by its own nested passes; in the flow also mixed ones, and data on a grid."""
    problem, recipe = CATALOGUE[name].make("paper", "pinn-mod")
    small = dataclasses.replace(
        recipe, network=dataclasses.replace(recipe.network, width=8), points=3, precision="float64"
    )
    assert bench.disagreement(problem, small) < 1e-12


@pytest.mark.whole
def test_so_it_has_with_values_built_in():
    problem = sx.Problem(
        BOX,
        lambda u: u.t - u.xx - u.yy,
        [sx.Initial(lambda x, y: jnp.sin(x + y), hard=True), sx.Dirichlet(1.0)],
    )
    recipe = sx.Recipe(PINN(width=8, depth=2), points=3, steps=10, precision="float64")
    assert bench.disagreement(problem, recipe) < 1e-12


def test_conditions_of_which_the_same_is_wanted_share_a_pass(monkeypatch):
    """Initial values and those on four faces: values of one field all of them."""
    problem, recipe = CATALOGUE["klein-gordon"].make("paper", "pinn")
    loss = Loss(problem, dataclasses.replace(recipe, points=3, precision="float64"))
    model = Model.build(problem, loss.recipe, jax.random.key(1))
    places = loss.draw(jax.random.key(0), jnp.asarray(0))
    seen = passes(model.network, monkeypatch)

    @jax.jit
    def pairs():
        together = loss.sources(model.network, places)
        assert len(seen) == 2
        for place, needs, source in list(zip(places, loss.needs, together))[1:]:
            (alone,) = model.network.sources([place], [needs])
            found.extend((source.values({key: 1.0}), alone.values({key: 1.0})) for key in needs)
        return found

    found = []
    for together, alone in pairs():
        close(together, alone, 1e-14)
