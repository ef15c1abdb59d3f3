"""Separable and pointwise networks: what they compute, how they begin, and how much work they are."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from separax.core.errors import InputError
from separax.domain.box import Box
from separax.domain.places import Lattice, Points, flatten
from separax.networks.architectures import NETWORKS, PINN, SPINN, network_name
from separax.networks.bodies import MLP, ModifiedMLP, first_layer
from separax.networks.encodings import Axis, Coordinate

BOX = Box(t=(0, 2), x=(-1, 1), y=(0.5, 3))
KEY = jax.random.key(3)
BODIES = ["mlp", "modified"]


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


def spinn(box=BOX, components=1, periodic=(), zero_faces=None, dtype=jnp.float64, **options):
    return filled(
        SPINN(**{"rank": 4, "width": 6, "depth": 2} | options),
        box,
        components,
        periodic,
        zero_faces,
        dtype,
    )


def pinn(box=BOX, components=1, periodic=(), zero_faces=None, dtype=jnp.float64, **options):
    return filled(
        PINN(**{"width": 6, "depth": 2} | options), box, components, periodic, zero_faces, dtype
    )


def filled(architecture, *arguments):
    """A network with weights and biases of our own: those it begins with have zero biases, and take longer to make."""
    rng = np.random.default_rng(1)
    shapes = eqx.filter_eval_shape(architecture.build, KEY, *arguments)

    def fill(leaf):
        return jnp.asarray(
            rng.standard_normal(leaf.shape) / math.sqrt(leaf.shape[-2] if leaf.ndim > 1 else 4),
            leaf.dtype,
        )

    return jax.tree.map(lambda leaf: fill(leaf) if hasattr(leaf, "dtype") else leaf, shapes)


def random_coordinates(counts, box=BOX):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.uniform(*box[a], n)) for a, n in zip(box.axes, counts))


@eqx.filter_jit
def factors_of(network, coordinates, order):
    return network.factors(coordinates, order)


def values_at(network, place, requests):
    """The values of several linear combinations {(component, orders): coefficient} at one place."""
    return places_values(network, [place], [requests])[0]


def places_values(network, places, requests):
    needs = [[key for terms in each for key in terms] for each in requests]

    @eqx.filter_jit
    def run(network, places):
        made = network.sources(places, needs)
        return [[source.values(terms) for terms in each] for source, each in zip(made, requests)]

    return run(network, jax.tree.map(jnp.asarray, places))


def close(found, expected, relative=1e-11):
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(
        found, expected, rtol=relative, atol=relative * max(1e-300, np.max(np.abs(expected)))
    )


@eqx.filter_jit
def forward(body, features):
    """A body of one network, written plainly: (points, inputs) → (points, outputs)."""
    act = body.activation
    if isinstance(body, MLP):
        h = features
        for layer in body.hidden:
            h = act(h @ layer.weight + layer.bias)
    else:
        gate, other, h = jnp.split(act(features @ body.first.weight + body.first.bias), 3, axis=-1)
        for layer in body.hidden:
            z = act(h @ layer.weight + layer.bias)
            h = (1 - z) * gate + z * other
    return h @ body.out.weight + body.out.bias


def own_body(network, i):
    """The body of one axis, cut out of the stacked ones."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[i]), network.body)


def scaled(x, bounds):
    lower, upper = bounds
    return (2 * x - lower - upper) / (upper - lower)


# --- SPINN ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "activation", "raw"),
    [("mlp", "tanh", False), ("modified", "sin", False), ("mlp", "sin", True)],
)
def test_the_factors_of_a_spinn_are_small_networks_of_one_coordinate_each(body, activation, raw):
    """Of the coordinate scaled to [-1, 1], or of the raw one."""
    network = spinn(body=body, activation=activation, scaled=not raw)
    coordinates = random_coordinates((5, 3, 4))
    for i, (axis, x, factor) in enumerate(
        zip(BOX.axes, coordinates, factors_of(network, coordinates, 0))
    ):
        close(
            factor[0, 0],
            forward(own_body(network, i), (x if raw else scaled(x, BOX[axis]))[:, None]),
        )


@pytest.mark.parametrize(
    "options",
    [
        {"body": "mlp"},
        {"body": "modified", "activation": "sin", "scaled": False},
        {
            "components": 2,
            "zero_faces": [["", "-"], ["-+", ""], ["+", "-+"]],
            "periodic": ("t",),
            "frequencies": 2,
        },
    ],
    ids=["mlp", "modified", "walls"],
)
def test_the_factors_of_a_spinn_have_its_nested_derivatives(options):
    network = spinn(**options)
    coordinates = random_coordinates((3, 2, 4))
    found = factors_of(network, coordinates, 3)

    @jax.jit
    def nested(coordinates):
        value = lambda c: tuple(factor[:, 0] for factor in network.factors(c, 0))  # noqa: E731
        out = []
        for _ in range(4):
            out.append(value(coordinates))
            # every factor depends on its own coordinates, one by one: a tangent of ones differentiates them all
            value = functools.partial(
                lambda f, c: jax.jvp(f, (c,), (tuple(jnp.ones_like(x) for x in c),))[1], value
            )
        return tuple(jnp.stack(each, 1) for each in zip(*out))

    for factor, expected in zip(found, nested(coordinates)):
        for k in range(4):
            close(factor[:, k], expected[:, k])


def test_axes_may_have_different_numbers_of_points():
    """The shorter axes are filled up for the pass; nothing of it is seen outside."""
    network = spinn()
    coordinates = random_coordinates((7, 1, 4))
    found = factors_of(network, coordinates, 2)
    assert [factor.shape for factor in found] == [(1, 3, 7, 4), (1, 3, 1, 4), (1, 3, 4, 4)]
    for i, factor in enumerate(found):
        alone = [coordinates[i] if j == i else jnp.full(len(coordinates[i]), 0.7) for j in range(3)]
        close(factor, factors_of(network, tuple(alone), 2)[i], 1e-13)


@pytest.mark.parametrize("axes", [1, 2, 7])
def test_boxes_of_one_to_seven_axes(axes):
    box = Box(**{name: (0, 1 + i) for i, name in enumerate("txyzabc"[:axes])})
    network = spinn(box=box, rank=3)
    counts = tuple(range(2, 2 + axes))
    place = Lattice(**{a: np.linspace(*box[a], n) for a, n in zip(box.axes, counts)})
    (values,) = values_at(network, place, [{(0, (0,) * axes): 1.0}])
    factors = [
        factor[0, 0]
        for factor in factors_of(network, tuple(jnp.asarray(c) for c in place.coordinates), 0)
    ]
    assert values.shape == counts
    letters = "ijklmno"[:axes]
    close(
        values, np.einsum(",".join(letter + "r" for letter in letters) + "->" + letters, *factors)
    )


@pytest.mark.parametrize("make", [spinn, pinn])
def test_vector_outputs(make):
    """Components come from one body; each is what its own columns say, and they differ."""
    network = make(components=3)
    place = BOX.lattice((3, 4, 2))
    zero = (0, 0, 0)
    *each, mixed = values_at(
        network, place, [{(i, zero): 1.0} for i in range(3)] + [{(0, zero): 2.0, (2, zero): -1.0}]
    )
    close(mixed, 2 * each[0] - each[2])
    if make is spinn:
        columns = [
            forward(own_body(network, i), scaled(jnp.asarray(x), BOX[a])[:, None])
            for i, (a, x) in enumerate(zip(BOX.axes, place.coordinates))
        ]
        for i, values in enumerate(each):
            close(values, jnp.einsum("ar,br,cr->abc", *(c[:, 4 * i : 4 * i + 4] for c in columns)))
    else:
        points = flatten(place)
        inputs = jnp.stack([scaled(x, BOX[a]) for a, x in points.arrays().items()], 1)
        for i, values in enumerate(each):
            close(values.ravel(), forward(network.body, inputs)[:, i])
    assert min(np.max(np.abs(a - b)) for a, b in ((each[0], each[1]), (each[1], each[2]))) > 1e-3


# --- periodic axes and walls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [spinn, pinn])
def test_a_periodic_axis_is_periodic_in_value_and_derivatives_and_no_other_is(make):
    box = Box(t=(0, 1), x=(-0.7, 2.1))
    network = make(box=box, periodic=("x",), frequencies=3)
    place = Lattice(t=np.linspace(0, 1, 4), x=np.array([-0.7, 2.1, 0.4, 0.4 + 2.8]))
    found = values_at(
        network, place, [{(0, orders): 1.0} for orders in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 1))]
    )
    for values in found:
        scale = np.max(np.abs(values))
        assert scale > 1e-3
        assert np.max(np.abs(values[:, 0] - values[:, 1])) < 1e-12 * scale
        assert np.max(np.abs(values[:, 2] - values[:, 3])) < 1e-12 * scale
    assert np.max(np.abs(found[0][:, 0] - found[0][:, 2])) > 1e-3
    assert np.max(np.abs(found[0][0] - found[0][-1])) > 1e-3


def test_padded_weights_are_zero_and_stay_zero():
    """An axis with one input next to a periodic one with 2K + 1: rows that no input feeds, of zero weights and slopes."""
    weight = first_layer(KEY, (3,), [1, 7, 1], 6, None, jnp.float64).weight
    network, coordinates = (
        spinn(periodic=("x",), frequencies=3, body="mlp"),
        random_coordinates((3, 4, 5)),
    )
    slope = eqx.filter_jit(
        eqx.filter_grad(lambda n: sum(jnp.sum(factor**2) for factor in n.factors(coordinates, 1)))
    )(network)
    for stacked in (weight, slope.body.hidden[0].weight):
        assert stacked.shape == (3, 7, 6)
        np.testing.assert_array_equal(stacked[::2, 1:], 0.0)
        assert np.all(stacked[1] != 0)
        assert np.all(stacked[::2, 0] != 0)


@pytest.mark.parametrize("make", [spinn, pinn])
def test_walls_vanish_exactly(make):
    """u = 0 on both faces of x for one component, on the lower or the upper one for others: not nearly, but 0."""
    bounds, walls = (0, 10), [["-+", "-", "+", ""], ["", "", "", ""]]
    network = make(box=Box(x=bounds, y=(0, 1)), components=4, zero_faces=walls, dtype=jnp.float32)
    place = Lattice(
        x=np.array([*bounds, 0.4 * bounds[0] + 0.6 * bounds[1]]), y=np.linspace(0, 1, 5)
    )
    both, lower, upper, free = (
        np.asarray(v) for v in values_at(network, place, [{(i, (0, 0)): 1.0} for i in range(4)])
    )
    for wall in (both[:2], lower[0], upper[1]):
        np.testing.assert_array_equal(wall, 0.0)
    for inside in (both[2], lower[1:], upper[[0, 2]], free):
        assert np.all(inside != 0)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(
    "bounds",
    [(0, 0.3), (0.05, 1.1), (0, 2 * math.pi), (-1e3, 1.0)],
)
def test_envelopes_are_zero_on_their_walls_whatever_the_bounds(dtype, bounds):
    axis = Axis(float(bounds[0]), float(bounds[1]), Coordinate(), ("-+", "-", "+"))
    ends = jax.jit(lambda x: axis.envelope(x, 0)[0])(jnp.asarray(bounds, dtype))
    np.testing.assert_array_equal(ends[0, :2], 0.0)
    np.testing.assert_array_equal(ends[1, ::2], 0.0)
    np.testing.assert_allclose([ends[0, 2], ends[1, 1]], 1.0, rtol=4 * jnp.finfo(dtype).eps)


# --- PINN -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"body": "modified", "scaled": False},
        {
            "components": 2,
            "zero_faces": [["", "-"], ["-+", ""], ["+", ""]],
            "periodic": ("y",),
            "frequencies": 2,
            "body": "mlp",
        },
    ],
    ids=["modified", "walls"],
)
def test_the_derivatives_of_a_pinn_pure_and_mixed_are_nested_gradients(options):
    network = pinn(width=4, **options)
    points = random_coordinates((4, 4, 4))
    needed = [(0, 0, 0), (1, 0, 0), (0, 3, 0), (0, 0, 2), (1, 1, 0), (0, 1, 2), (1, 1, 1)]
    found = jax.jit(lambda p: network.derivatives(p, needed))(points)
    assert set(found) == set(needed)

    def value(t, x, y):
        return network.rows((t[None], x[None], y[None]), {})[0, 0]

    @jax.jit
    def nested(points):
        out = []
        for orders in needed:
            function = value
            for argument, order in enumerate(orders):
                for _ in range(order):
                    function = jax.jacfwd(function, argument)
            out.append(jax.vmap(function)(*points))
        return out

    for orders, expected in zip(needed, nested(points)):
        close(found[orders], expected)


@pytest.mark.parametrize("body", BODIES)
def test_a_pinn_is_one_network_of_all_coordinates(body):
    network = pinn(body=body)
    points = random_coordinates((4, 4, 4))
    inputs = jnp.stack([scaled(x, BOX[a]) for a, x in zip(BOX.axes, points)], 1)
    close(
        jax.jit(lambda p: network.derivatives(p, [(0, 0, 0)]))(points)[0, 0, 0],
        forward(network.body, inputs),
    )


# --- one text, every network ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [spinn, pinn])
def test_a_lattice_and_its_points_one_by_one_have_the_same_values(make):
    network = make(components=2)
    place = BOX.lattice((4, 3, 5))
    needs = [(0, (2, 0, 0)), (0, (0, 2, 0)), (0, (0, 0, 0)), (1, (0, 1, 0)), (1, (1, 0, 1))]
    terms = dict(zip(needs, (1.0, -0.5, 3.0, 2.0, -1.0)))
    (lattice,), (scattered,) = (values_at(network, p, [terms]) for p in (place, flatten(place)))
    assert lattice.shape == (4, 3, 5)
    assert scattered.shape == (60,)
    close(jnp.ravel(lattice), scattered)


def test_several_places_at_once_are_the_places_one_by_one():
    network = spinn(components=2)
    inside = BOX.lattice((5, 4, 3))
    face = Lattice(t=jnp.array([0.0]), x=inside["x"], y=inside["y"])
    data = Points(BOX.axes, random_coordinates((7, 7, 7)))
    requests = [
        [{(0, (1, 0, 0)): 1.0}, {(1, (0, 2, 0)): 1.0}],
        [{(0, (0, 0, 0)): 1.0}],
        [{(1, (0, 0, 1)): 1.0}],
    ]
    together = places_values(network, [inside, face, data], requests)
    for found, place, request in zip(together, [inside, face, data], requests):
        for ours, alone in zip(found, values_at(network, place, request)):
            close(ours, alone)


# --- the amount of work ---------------------------------------------------------------------------------------------


@pytest.fixture
def passes(monkeypatch):
    """The shapes of what comes out of a body's hidden layers, call by call: of its rows and points."""
    seen = []
    for body in (MLP, ModifiedMLP):

        def counted(self, x, original=body.features):
            found = original(self, x)
            seen.append(found.array.shape[:-1])
            return found

        monkeypatch.setattr(body, "features", counted)
    return seen


@pytest.mark.parametrize("body", BODIES)
def test_every_coordinate_goes_through_the_network_once(passes, body):
    """Inside, two faces that share its coordinates and data of its own: one pass, each array of an axis once."""
    network = spinn(body=body)
    inside = BOX.lattice((9, 8, 7))
    initial = Lattice(t=np.array([0.0]), x=inside["x"], y=inside["y"])
    walls = Lattice(t=inside["t"], x=np.array([-1.0, 1.0]), y=inside["y"])
    data = Points(BOX.axes, random_coordinates((4, 4, 4)))
    nothing, needs = [(0, (0, 0, 0))], [(0, (1, 0, 0)), (0, (0, 2, 0))]
    jax.eval_shape(
        lambda: [
            source.shape
            for source in network.sources(
                [inside, initial, walls, data], [needs, nothing, nothing, nothing]
            )
        ]
    )
    # t: 9 inside + 1 initial + 4 data; x: 8 + 2 + 4; y: 7 + 4; filled up to the longest
    assert passes == [(3, 3, 14)]


@pytest.mark.parametrize("make", [spinn, pinn])
def test_passes_of_a_spinn_are_linear_in_the_points_of_an_axis_and_those_of_a_pinn_are_not(
    passes, make
):
    network = make()
    needs = [(0, (2, 0, 0)), (0, (0, 2, 0)), (0, (0, 0, 2))]
    for n in (4, 8):
        jax.eval_shape(
            lambda n=n: network.sources([BOX.lattice(n)], [needs])[0].values(
                dict.fromkeys(needs, 1.0)
            )
        )
    few, many = (math.prod(shape) for shape in passes)
    assert few == (
        3 * 3 * 4 if make is spinn else (1 + 2 * 3) * 4**3
    )  # a PINN has one value for all axes
    assert many == few * (2 if make is spinn else 8)


# --- how networks begin ---------------------------------------------------------------------------------------------


def layers(body):
    if isinstance(body, MLP):
        return [*body.hidden, body.out]
    return [body.first, *body.hidden, body.out]


@pytest.mark.parametrize("body", BODIES)
def test_a_spinn_begins_with_glorot_normal_weights_and_zero_biases(body):
    """Variance 2 / (inputs + outputs) per axis, and a kurtosis of 3 (a uniform distribution has 1.8)."""
    width, rank = 128, 64
    network = SPINN(width=width, depth=3, rank=rank, body=body).build(KEY, BOX, 2)
    *hidden, out = layers(network.body)
    for layer in (*hidden, out):
        np.testing.assert_array_equal(layer.bias, 0.0)
    expected = [2 / (1 + width)] + [2 / (2 * width)] * (len(hidden) - 1) + [2 / (width + 2 * rank)]
    for layer, variance in zip((*hidden, out), expected):
        for weight in np.asarray(layer.weight):
            # the variance of n normal numbers is known to √(2 / n), their mean to √(1 / n), their kurtosis to √(24 / n)
            assert weight.var() == pytest.approx(variance, rel=5 * math.sqrt(2 / weight.size))
            assert abs(weight.mean()) < 5 * math.sqrt(variance / weight.size)
            assert np.mean(weight**4) / weight.var() ** 2 == pytest.approx(
                3, abs=5 * math.sqrt(24 / weight.size)
            )


def test_the_numbers_of_layers_and_their_widths():
    """`depth` hidden layers, then a linear one; the two gates of a modified body are made along with the first."""

    def shapes(architecture):
        return [
            layer.weight.shape
            for layer in layers(eqx.filter_eval_shape(architecture.build, KEY, BOX, 2).body)
        ]

    assert shapes(SPINN(width=5, depth=3, rank=4, body="mlp")) == [
        (3, 1, 5),
        (3, 5, 5),
        (3, 5, 5),
        (3, 5, 8),
    ]
    assert shapes(SPINN(width=5, depth=3, rank=4, body="modified")) == [
        (3, 1, 15),
        (3, 5, 5),
        (3, 5, 5),
        (3, 5, 8),
    ]
    assert shapes(PINN(width=5, depth=1, body="mlp")) == [(3, 5), (5, 2)]


def test_steepness_is_that_of_the_first_layers_features():
    """Weights of standard deviation s and biases uniform in [-s, s]: features turn all over the axis."""
    first = layers(
        SPINN(width=2000, rank=1, depth=1, body="mlp", steepness=7.0).build(KEY, BOX).body
    )[0]
    assert np.asarray(first.weight).std() == pytest.approx(7.0, rel=5 / math.sqrt(2 * 6000))
    bias = np.asarray(first.bias)
    assert np.max(np.abs(bias)) <= 7.0
    assert bias.var() == pytest.approx(49 / 3, rel=5 * math.sqrt(0.8 / 6000))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("make", [spinn, pinn])
def test_networks_are_built_and_run_in_the_asked_precision(make, dtype):
    architecture = SPINN(rank=4) if make is spinn else PINN()

    def run():
        network = architecture.build(KEY, BOX, 1, ("y",), [["-+"], [""], [""]], dtype)
        return network.body, network.sources([BOX.lattice(3)], [[(0, (2, 0, 0))]])[0].values(
            {(0, (2, 0, 0)): 1.0}
        )

    assert {
        leaf.dtype for leaf in jax.tree.leaves(eqx.filter_eval_shape(run)) if hasattr(leaf, "dtype")
    } == {jnp.dtype(dtype)}


# --- settings and what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_by_name(name):
    assert network_name(NETWORKS[name](width=8)) == name


@pytest.mark.parametrize("kind", [SPINN, PINN])
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("width", 0, "width | at least 1 | got 0"),
        ("width", 2.5, "width | whole number | 2.5"),
        ("depth", math.nan, "depth | nan"),
        ("frequencies", 0, "frequencies | got 0"),
        ("body", "modifed", "body | 'modifed' | modified, mlp | Did you mean 'modified'?"),
        ("body", None, "body | None | modified, mlp"),
        ("activation", "tan", "activation | 'tan' | tanh, sin | Did you mean 'tanh'?"),
        ("steepness", 0, "steepness | positive | 0"),
        ("steepness", "steep", "steepness | number | 'steep'"),
    ],
)
def test_bad_settings_are_refused_with_the_argument_and_what_came(kind, option, value, words):
    with pytest.raises(InputError) as raised:
        kind(**{option: value})
    for word in (kind.__name__, *words.split(" | ")):
        assert word in str(raised.value)
