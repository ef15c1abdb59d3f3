"""Boxes, lattices, scattered points and the samplers that draw them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separax.core.errors import InputError
from separax.domain.box import Box
from separax.domain.places import Lattice, Points, flatten
from separax.domain.samplers import GaussLegendre, Grid, Uniform, quadrature
from separax.equations.field import Field

NAMES = ("t", "x", "y", "z", "theta", "a", "b")
BOX = Box(t=(0, 10), x=(-1, 1), theta=(2, 5))
COUNTS = {"t": 5, "x": 4, "theta": 3}
KEY = jax.random.key(7)
SAMPLERS = [Uniform(), Grid(), Grid(shifts=0), GaussLegendre()]


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


def draw(sampler, number=0, key=KEY, box=BOX, counts=COUNTS, dtype=jnp.float64):
    return sampler.lattice(key, jnp.array(number), box, counts, dtype)


# --- boxes ----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)), min_size=1, max_size=7))
def test_a_box_keeps_one_to_seven_axes_in_the_order_they_are_written(pairs):
    bounds = {name: (lower, lower + length) for name, (lower, length) in zip(NAMES, pairs)}
    box = Box(**bounds)
    assert box.axes == tuple(bounds)
    assert box.dimension == len(bounds)
    assert {axis: box[axis] for axis in box.axes} == bounds
    assert [box.index(axis) for axis in box.axes] == list(range(len(bounds)))
    assert box.volume == pytest.approx(math.prod(upper - lower for lower, upper in bounds.values()))


def test_space_is_every_axis_but_time():
    assert BOX.space == ("x", "theta")
    assert Box(x=(0, 1)).space == ("x",)
    assert Box(t=(0, 1)).space == ()


def test_boxes_are_equal_if_names_bounds_and_order_are():
    assert Box(x=(0, 1), y=(0, 2)) == Box(x=(0.0, 1.0), y=(0.0, 2.0))
    assert hash(Box(x=(0, 1), y=(0, 2))) == hash(Box(x=(0.0, 1.0), y=(0.0, 2.0)))
    assert Box(x=(0, 1), y=(0, 2)) != Box(y=(0, 2), x=(0, 1))
    assert Box(x=(0, 1)) != Box(x=(0, 2))
    assert Box(x=(0, 1)) != {"x": (0, 1)}


def test_the_text_of_a_box_is_what_one_writes():
    assert repr(BOX) == "Box(t=(0, 10), x=(-1, 1), theta=(2, 5))"


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("x", {"x": "-+"}),
        ("x-", {"x": "-"}),
        ("theta+", {"theta": "+"}),
        (["x-", "x+"], {"x": "-+"}),
        (["x+", "x-"], {"x": "-+"}),
        (["x", "x-"], {"x": "-+"}),
        (("t-", "theta"), {"t": "-", "theta": "-+"}),
        ([], {}),
    ],
)
def test_faces_by_name(on, expected):
    assert BOX.faces(on) == expected


@pytest.mark.parametrize(
    "points", [8, np.int64(8), 8.0, (8, 8, 8), [8, 8, 8], {"theta": 8, "x": 8, "t": 8}]
)
def test_counts_from_one_number_a_sequence_or_a_mapping(points):
    counts = BOX.counts(points)
    assert list(counts.items()) == [("t", 8), ("x", 8), ("theta", 8)]
    assert all(type(n) is int for n in counts.values())


def test_a_lattice_of_a_box_has_both_ends_and_one_point_is_the_middle():
    lattice = BOX.lattice({"t": 3, "x": 1, "theta": 2})
    assert lattice.shape == (3, 1, 2)
    np.testing.assert_array_equal(lattice["t"], [0, 5, 10])
    np.testing.assert_array_equal(lattice["x"], [0])
    np.testing.assert_array_equal(lattice["theta"], [2, 5])


# --- what a box refuses ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in dir(Field) if not name.startswith("_")])
def test_an_axis_cannot_hide_an_attribute_of_a_field(name):
    """u.d, u.value, u.shape … already mean something, so u.<axis> could not be a derivative."""
    with pytest.raises(InputError, match=f"axis name '{name}'"):
        Box(**{name: (0, 1)})


# --- lattices and points --------------------------------------------------------------------------


def test_coordinates_broadcast_to_the_lattice():
    t, x, theta = np.linspace(0, 10, 5), np.linspace(-1, 1, 4), np.linspace(2, 5, 3)
    lattice = Lattice(t=t, x=x, theta=theta)
    arrays = lattice.arrays()
    assert lattice.shape == (5, 4, 3)
    assert [a.shape for a in arrays.values()] == [(5, 1, 1), (1, 4, 1), (1, 1, 3)]
    total = arrays["t"] + 10 * arrays["x"] + 100 * arrays["theta"]
    np.testing.assert_allclose(total, t[:, None, None] + 10 * x[:, None] + 100 * theta, rtol=1e-15)


def test_the_mean_of_a_lattice_is_the_integral_over_the_volume():
    """mean of t² (1 + x) θ = ∫ t² (1 + x) θ / volume = 100/3 · 1 · 7/2."""
    lattice = quadrature(BOX, COUNTS)
    c = lattice.arrays()
    assert lattice.mean(c["t"] ** 2 * (1 + c["x"]) * c["theta"]) == pytest.approx(
        100 / 3 * 3.5, rel=1e-13
    )


@pytest.mark.parametrize("weighted", [(), ("t",), ("x", "theta"), ("t", "x", "theta")])
def test_flattening_keeps_points_values_and_means(weighted):
    rng = np.random.default_rng(1)
    lattice = BOX.lattice(COUNTS)
    weights = {a: jnp.asarray(rng.uniform(0.5, 1, COUNTS[a])) for a in weighted}
    lattice = Lattice(weights=weights, **dict(zip(lattice.axes, lattice.coordinates)))
    values = jnp.asarray(rng.standard_normal(lattice.shape))
    points = flatten(lattice)
    assert points.axes == lattice.axes
    assert points.shape == (60,)
    for axis in lattice.axes:
        np.testing.assert_array_equal(
            points.arrays()[axis], np.broadcast_to(lattice.arrays()[axis], lattice.shape).ravel()
        )
    assert (points.weights is None) == (not weighted)
    assert points.mean(values.ravel()) == pytest.approx(float(lattice.mean(values)), rel=1e-13)


def test_points_of_an_array_take_columns_in_the_order_of_the_axes():
    array = np.arange(12.0).reshape(4, 3)
    points = Points.of(BOX, array)
    assert points.shape == (4,)
    np.testing.assert_array_equal(points.arrays()["theta"], array[:, 2])


# --- samplers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_every_sampler_stays_inside_the_bounds_with_the_asked_numbers_and_precision(sampler, dtype):
    for number in range(3):
        lattice = draw(sampler, number, counts={"t": 50, "x": 1, "theta": 20}, dtype=dtype)
        assert lattice.shape == (50, 1, 20)
        for axis in BOX.axes:
            lower, upper = BOX[axis]
            assert lattice[axis].dtype == dtype
            assert np.all(lattice[axis] >= lower)
            assert np.all(lattice[axis] <= upper)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_draw_is_a_function_of_the_key_and_the_number_alone(sampler):
    jitted = jax.jit(
        lambda number: sampler.lattice(KEY, number, BOX, COUNTS, jnp.float64).coordinates
    )
    draw(sampler, 1)
    for once, again, traced in zip(
        draw(sampler, 5).coordinates, draw(sampler, 5).coordinates, jitted(5)
    ):
        np.testing.assert_array_equal(once, again)
        np.testing.assert_allclose(once, traced, rtol=1e-15)


@pytest.mark.parametrize("sampler", [Uniform(), Grid()], ids=repr)
def test_random_draws_change_with_the_number_the_key_and_the_axis(sampler):
    square = Box(x=(0, 1), y=(0, 1))
    counts = {"x": 6, "y": 6}
    first = draw(sampler, 0, box=square, counts=counts)
    assert not np.any(first["x"] == draw(sampler, 1, box=square, counts=counts)["x"])
    assert not np.any(first["x"] == draw(sampler, 0, jax.random.key(8), square, counts)["x"])
    assert not np.any(first["x"] == first["y"])


def test_uniform_fills_the_axis_evenly():
    """The mean and the variance of 4000 draws on (2, 5) are 3.5 and 3²/12, within five standard
    deviations."""
    x = np.asarray(draw(Uniform(), counts={"t": 1, "x": 1, "theta": 4000})["theta"])
    assert x.mean() == pytest.approx(3.5, abs=5 * math.sqrt(0.75 / 4000))
    assert x.var() == pytest.approx(0.75, abs=5 * 0.75 * math.sqrt(0.8 / 4000))


def test_uniform_scattered_points_are_drawn_one_by_one():
    points = Uniform().points(KEY, jnp.array(0), BOX, COUNTS, {}, jnp.float64)
    assert points.shape == (60,)
    for axis in BOX.axes:
        values = np.asarray(points.arrays()[axis])
        assert len(np.unique(values)) == 60
        assert BOX[axis][0] <= values.min() <= values.max() <= BOX[axis][1]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_scattered_points_with_an_axis_held(sampler):
    points = sampler.points(KEY, jnp.array(0), BOX, COUNTS, {"x": 1.0}, jnp.float64)
    assert points.axes == BOX.axes
    assert points.shape == (15,)
    np.testing.assert_array_equal(points.arrays()["x"], 1.0)
    assert len(np.unique(points.arrays()["t"])) > 1


@pytest.mark.parametrize("number", range(4))
def test_a_grid_is_regular_and_its_shift_is_a_part_of_its_spacing(number):
    lattice = draw(Grid(), number, counts={"t": 20, "x": 7, "theta": 3})
    for axis, n in zip(BOX.axes, (20, 7, 3)):
        lower, upper = BOX[axis]
        spacing = (upper - lower) / n
        np.testing.assert_allclose(np.diff(lattice[axis]), spacing, rtol=1e-12)
        assert lower <= lattice[axis][0] < lower + spacing


@pytest.mark.parametrize("seed", range(5))
def test_one_shift_of_a_grid_lies_in_each_part_of_its_spacing(seed):
    starts = [float(draw(Grid(), number, jax.random.key(seed))["x"][0]) for number in range(8)]
    assert sorted(int(8 * (start + 1) / 0.5) for start in starts) == list(range(8))


@pytest.mark.parametrize("n", range(1, 7))
def test_gauss_legendre_integrates_degree_2n_minus_1_exactly_and_no_more(n):
    nodes, weights = GaussLegendre().axis(KEY, jnp.array(0), (2.0, 5.0), n, jnp.float64)
    for degree in range(2 * n + 1):
        exact = (5.0 ** (degree + 1) - 2.0 ** (degree + 1)) / (degree + 1)
        relative = abs(float(jnp.sum(weights * nodes**degree)) / exact - 1)
        assert (relative < 1e-13) == (degree < 2 * n)


def test_gauss_legendre_points_are_the_same_at_every_draw():
    np.testing.assert_array_equal(
        draw(GaussLegendre(), 0)["t"], draw(GaussLegendre(), 9, jax.random.key(1))["t"]
    )
    assert GaussLegendre().every is None


def test_gauss_legendre_on_a_face_integrates_over_the_other_axes():
    """On x = 1, the mean of t θ over (0, 10) × (2, 5) is 5 · 3.5, whatever x counts."""
    points = GaussLegendre().points(KEY, jnp.array(0), BOX, COUNTS, {"x": 1.0}, jnp.float64)
    c = points.arrays()
    assert points.mean(c["t"] * c["theta"]) == pytest.approx(17.5, rel=1e-13)
    assert jnp.sum(points.weights) == pytest.approx(30.0, rel=1e-13)


def test_broken_rules_integrate_what_is_smooth_between_the_breaks():
    """|x|³ y² on [-1, 2] × [0, 1]: exact with a break at 0, of low order without."""
    box = Box(x=(-1, 2), y=(0, 1))
    exact = (1 / 4 + 4) / 3

    def integral(rule, points):
        with jax.enable_x64(True):
            lattice = rule.lattice(
                jax.random.key(0), jnp.array(0), box, box.counts(points), jnp.float64
            )
            weights = lattice.weights[0][:, None] * lattice.weights[1]
            return float(jnp.sum(weights * jnp.abs(lattice["x"][:, None]) ** 3 * lattice["y"] ** 2))

    assert integral(GaussLegendre(breaks={"x": 0.0}), {"x": 7, "y": 3}) == pytest.approx(
        exact, rel=1e-13
    )
    assert integral(GaussLegendre(breaks={"x": [1.0, 0.0]}), {"x": 9, "y": 3}) == pytest.approx(
        exact, rel=1e-13
    )
    assert abs(integral(GaussLegendre(), {"x": 7, "y": 3}) - exact) > 1e-6 * exact


@pytest.mark.parametrize("n", [5, 8])
def test_along_periodic_axes_a_rule_of_evenly_spaced_points_is_exact_for_waves(n):
    box = Box(t=(0, 1), x=(-1, 2))
    lattice = (
        GaussLegendre()
        .on(("x",))
        .lattice(jax.random.key(0), jnp.array(0), box, {"t": 3, "x": n}, jnp.float64)
    )
    assert lattice["x"].shape == (n,)
    wave = 2 * jnp.pi * lattice.along("x", lattice["x"]) / 3
    for k in range(1, n):
        assert (
            float(jnp.abs(lattice.mean(jnp.cos(k * wave) + 0 * lattice.along("t", lattice["t"]))))
            < 1e-14
        )
    assert float(lattice.mean(lattice.along("t", lattice["t"]) ** 5 + 0 * wave)) == pytest.approx(
        1 / 6, rel=1e-14
    )


# --- what is refused ------------------------------------------------------------------------------

REFUSED = [
    (lambda: Box(), "Box | at least one axis | Box(t=(0, 1), x=(-1, 1))"),
    (lambda: Box(x=3), "x | pair (lower, upper) | got 3 | x=(0, 1)"),
    (lambda: Box(x=(0, 1, 2)), "x | pair | (0, 1, 2) | x=(0, 1)"),
    (lambda: Box(x="01"), "x | pair | '01' | x=(0, 1)"),
    (lambda: Box(x=(1, 0)), "x | reversed | (1, 0) | x=(0, 1)"),
    (lambda: Box(x=(2, 2)), "x | equal | (2, 2) | x=(2, 3)"),
    (lambda: Box(x=(0, math.inf)), "x | finite | inf"),
    (lambda: Box(x=(math.nan, 1)), "x | finite | nan"),
    (lambda: Box(x=(None, 1)), "x | number | None"),
    (lambda: Box(**{"class": (0, 1)}), "axis name | 'class' | 'theta'"),
    (lambda: Box(**{"2x": (0, 1)}), "axis name | '2x' | 'theta'"),
    (lambda: Box(_x=(0, 1)), "axis name | '_x' | 'theta'"),
    (lambda: Box(d=(0, 1)), "axis name | 'd' | another name"),
    (lambda: BOX.counts(0), "points | at least 1 | got 0 | points=32"),
    (lambda: BOX.counts(2.5), "points | whole number | 2.5"),
    (lambda: BOX.counts(True), "points | True"),
    (lambda: BOX.counts("8"), "points | '8'"),
    (lambda: BOX.counts((8, 8)), "points | 2 numbers | 3 axes | t, x, theta"),
    (lambda: BOX.counts((8, 0, 8)), "points['x'] | got 0"),
    (lambda: BOX.counts({"t": 8, "x": 8}), "points | theta | dict(t=32, x=32, theta=32)"),
    (lambda: BOX.counts({"t": 8, "x": 8, "thet": 8}), "'thet' | Did you mean 'theta'?"),
    (lambda: BOX.faces("y"), "on | 'y' | t, t-, t+, x"),
    (lambda: BOX.faces(""), "on | '' | x-"),
    (lambda: BOX.faces("x*"), "on | 'x*'"),
    (lambda: BOX.faces("thet-"), "on | 'thet-' | Did you mean 'theta-'?"),
    (lambda: BOX.faces(["x", 3]), "on | 3 | 't-'"),
    (lambda: BOX["thet"], "no axis 'thet' | Did you mean 'theta'?"),
    (lambda: Lattice(x=np.zeros(3), y=1.0), "Lattice: y | one-dimensional | y=jnp.linspace"),
    (lambda: Lattice(y=np.zeros((3, 1))), "Lattice: y | one-dimensional | (3, 1)"),
    (lambda: Points.of(BOX, np.zeros((4, 2))), "shape (n, 3) | t, x, theta | (4, 2)"),
    (lambda: Points.of(BOX, np.zeros(3)), "shape (n, 3) | t, x, theta | (3,)"),
    (lambda: Uniform(every=0), "Uniform: every | at least 1 | got 0"),
    (lambda: Uniform(every=2.5), "Uniform: every | 2.5"),
    (lambda: Grid(shifts=-1), "Grid: shifts | at least 0 | got -1"),
    (lambda: draw(GaussLegendre(breaks={"x": 5.0})), "between -1 and 1"),
    (lambda: draw(GaussLegendre(breaks={"z": 0.0})), "no axis 'z'"),
    (lambda: draw(GaussLegendre(breaks={"x": [0, 0.1, 0.2, 0.3]})), "each with a point"),
    (lambda: GaussLegendre(breaks=[0.0]), "must be a dict by axis"),
    (lambda: GaussLegendre(breaks={"x": "middle"}), "breaks['x'] must be a number"),
    (lambda: GaussLegendre(breaks={"x": 0.0}, even=("x",)), "x has breaks and even points"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_bad_input_is_refused_with_what_came_and_what_to_write(make, words):
    with pytest.raises(InputError) as raised:
        make()
    for word in words.split(" | "):
        assert word in str(raised.value)
