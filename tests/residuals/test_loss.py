"""The loss: means of squares over drawn points, however they are computed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import exact_terms, growth, one, power, wave
from jax.flatten_util import ravel_pytree

import separax as sx
from separax.equations.tracing import Inputs
from separax.paper.catalogue import find
from separax.paper.step_time import PaperLoss
from separax.residuals.loss import Loss
from separax.residuals.model import Model, condition_squares, residual_factors
from separax.solution import Piece
from separax.training.trainer import Trainer

TINY = sx.SPINN(rank=3, width=8, depth=2, body="mlp")
POINTWISE = sx.PINN(width=8, depth=2, body="mlp")
CUBE = sx.Box(t=(0, 1), x=(-1, 1), y=(0, 2))
STRIP = sx.Box(t=(0, 1), x=(-1, 2))


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


class LatticeLoss(Loss):
    """Never takes the way without a lattice."""

    def avoids_lattice(self, at):
        return False


def recipe(network=TINY, **options):
    return sx.Recipe(network=network, **({"points": 6} | options))


def build(problem, how, loss=Loss, seed=0):
    """A loss, a model and one draw of points."""
    found = loss(problem, how)
    return (
        found,
        Model.build(problem, how, jax.random.key(seed)),
        found.draw(jax.random.key(7), jnp.array(0)),
    )


def at_places(loss, model, places):
    """The fields inside and where the conditions are."""
    inputs, sources = Inputs(model.unknowns, {}), loss.sources(model.network, places)
    return [loss.at(i, *each, inputs) for i, each in enumerate(zip(places, sources))]


def terms_and_gradients(problem, how, loss=Loss):
    """Every term, and the gradient of each by itself."""
    found, model, places = build(problem, how, loss)
    params, whole = ravel_pytree(model)
    both = jax.jit(
        lambda p: (found(whole(p), places), jax.jacrev(lambda q: found(whole(q), places))(p))
    )
    terms, slopes = both(params)
    return terms, np.asarray(slopes, np.float64)


def agree(one, other, rtol):
    """Terms one by one; gradients relative to the largest entry of each."""
    np.testing.assert_allclose(one[0], other[0], rtol=rtol)
    sizes = np.max(np.abs(other[1]), axis=1, keepdims=True)
    assert np.all(np.abs(one[1] - other[1]) <= rtol * sizes)


@pytest.mark.parametrize("network", [TINY, POINTWISE], ids=["separable", "pointwise"])
def test_constants_of_double_precision_leave_a_single_run_single(network):
    """np.float64 numbers are no plain ones to JAX: they would make a term, and with it the loss, double."""
    two = np.float64(2.0)
    problem = sx.Problem(
        STRIP,
        lambda u, x: u.t * u.value * two - u.xx,
        [
            sx.Initial(lambda x: two * x),
            sx.Dirichlet(0, of=lambda u: two * u.value**2),
            sx.Robin(1.0, a=two, b=1, on="x+"),
        ],
    )
    loss, model, places = build(problem, recipe(network))
    assert jax.eval_shape(loss, model, places).dtype == jnp.float32


# --- terms by hand -----------------------------------------------------------------------------------------------


def hand_conditions():
    return [
        sx.Initial(lambda x: x),
        sx.Dirichlet(lambda t: t, weight=3.0),
        sx.Neumann(1.0, on="x+"),
        sx.Data([[0.5, 0.5], [0.25, 1.0], [1.0, -1.0]], [0.0, 1.0, 2.0]),
    ]


def by_hand(t, x, mean):
    """The terms of u = t x² under `hand_conditions`, with a given mean over arrays that broadcast to the inside."""
    data = np.array([0.5 * 0.25 - 0, 0.25 - 1, 1 - 2])
    return {
        "residual": mean((x**2 - 2 * t) ** 2 + 0 * t * x),
        "initial": mean(x**2 + 0 * t),
        "dirichlet": mean((t - t) ** 2 + 0 * x) + mean((4 * t - t) ** 2 + 0 * x),
        "neumann": mean((4 * t - 1) ** 2 + 0 * x),
        "data": np.mean(data**2),
    }


@pytest.mark.parametrize("sampler", [sx.Uniform(), sx.Grid()], ids=["uniform", "grid"])
def test_terms_are_means_over_the_drawn_lattice(sampler):
    problem = sx.Problem(STRIP, lambda u: u.t - u.xx, hand_conditions())
    how = recipe(sampler=sampler, points=(5, 7), precision="float64")
    terms, places = exact_terms(problem, how, [[(1.0, power(1), power(2))]])
    t, x = np.asarray(places[0]["t"])[:, None], np.asarray(places[0]["x"])
    assert terms == pytest.approx(by_hand(t, x, np.mean), rel=1e-12)


@pytest.mark.parametrize("network", [TINY, POINTWISE], ids=["separable", "pointwise"])
def test_gauss_legendre_terms_are_integrals(network):
    """Polynomials of degree 2n - 1 are integrated exactly: the means are those over the box."""
    problem = sx.Problem(STRIP, lambda u: u.t - u.xx, hand_conditions())
    how = recipe(network, sampler=sx.GaussLegendre(), points=4, precision="float64")
    terms, _ = exact_terms(problem, how, [[(1.0, power(1), power(2))]])
    ts, xs = (np.linspace(*STRIP[a], 20001) for a in "tx")

    def mean(function, grid):
        return np.trapezoid(function(grid), grid) / (grid[-1] - grid[0])

    # E(x² - 2t)² = E x⁴ - 4 E t E x² + 4 E t²
    x4, x2, t2 = mean(lambda x: x**4, xs), mean(lambda x: x**2, xs), mean(lambda t: t**2, ts)
    expected = {
        "residual": x4 - 2 * x2 + 4 * t2,
        "initial": x2,
        "dirichlet": 9 * t2,
        "neumann": mean(lambda t: (4 * t - 1) ** 2, ts),
    }
    assert {k: terms[k] for k in expected} == pytest.approx(expected, rel=1e-6)
    assert terms["data"] == pytest.approx(by_hand(0.0, 0.0, float)["data"], rel=1e-12)


@pytest.mark.parametrize("network", [TINY, POINTWISE], ids=["separable", "pointwise"])
def test_gauss_legendre_weighs_jumps_too(network):
    """u = t² x jumps by 3t² from x = -1 to 2, its slope does not: the mean of 9 t⁴ over (0, 1) is 9/5."""
    problem = sx.Problem(STRIP, lambda u: u.t, [sx.Periodic(hard=False)])
    how = recipe(network, sampler=sx.GaussLegendre(), points=4, precision="float64")
    terms, _ = exact_terms(problem, how, [[(1.0, power(2), power(1))]])
    assert terms["periodic"] == pytest.approx(9 / 5, rel=1e-12)


def test_scattered_points_fill_the_box_and_its_faces():
    problem = sx.Problem(STRIP, lambda u: u, [sx.Dirichlet(0), sx.Initial(0)])
    _, (inside, sides, start) = exact_terms(
        problem, recipe(POINTWISE, points=(20, 30), precision="float64"), [[(1.0, one, one)]]
    )
    assert inside.shape == (600,)
    t, x = (np.asarray(c) for c in inside.coordinates)
    assert len(np.unique(t)) == len(np.unique(x)) == 600
    assert 0 <= t.min() < 0.02 < 0.98 < t.max() <= 1
    assert -1 <= x.min() < -0.94 < 1.94 < x.max() <= 2
    t, x = (np.asarray(c) for c in sides.coordinates)
    np.testing.assert_array_equal(x, np.repeat([-1.0, 2.0], 20))
    np.testing.assert_array_equal(t[:20], t[20:])
    np.testing.assert_array_equal(start.coordinates[0], np.zeros(30))


def test_scattered_terms_are_means_over_the_drawn_points():
    problem = sx.Problem(STRIP, lambda u: u.t - u.xx, hand_conditions())
    terms, places = exact_terms(
        problem, recipe(POINTWISE, precision="float64"), [[(1.0, power(1), power(2))]]
    )
    inside, start, sides, upper, _ = (
        {a: np.asarray(c) for a, c in place.arrays().items()} for place in places
    )
    data = by_hand(0.0, 0.0, float)["data"]
    lower, higher = np.split(sides["t"], 2)
    expected = {
        "residual": np.mean((inside["x"] ** 2 - 2 * inside["t"]) ** 2),
        "initial": np.mean(start["x"] ** 2),
        "dirichlet": np.mean((lower - lower) ** 2) + np.mean((4 * higher - higher) ** 2),
        "neumann": np.mean((4 * upper["t"] - 1) ** 2),
        "data": data,
    }
    assert terms == pytest.approx(expected, rel=1e-12)


def test_draws_depend_on_the_key_and_the_number_alone():
    loss, _, places = build(sx.Problem(STRIP, lambda u: u.t), recipe())
    again = loss.draw(jax.random.key(7), jnp.array(0))
    other = loss.draw(jax.random.key(7), jnp.array(1))
    np.testing.assert_array_equal(places[0]["x"], again[0]["x"])
    assert not np.any(np.isin(places[0]["x"], other[0]["x"]))


def test_the_total_is_weighted():
    problem = sx.Problem(STRIP, lambda u: u.t - u.xx, hand_conditions())
    loss = Loss(problem, recipe(weights={"dirichlet": 2.0, "residual": 0.5}, emphasis=1.0))
    assert loss.names == ("residual", "initial", "dirichlet", "neumann", "data")
    assert (
        float(loss.total(jnp.array([1.0, 10.0, 100.0, 1000.0, 10000.0])))
        == 0.5 + 10 + 600 + 1000 + 10000
    )
    stressed = Loss(
        problem, recipe(emphasis=7.0)
    )  # every condition, but neither residuals nor measured data
    np.testing.assert_allclose(stressed.weights, [1, 7, 21, 7, 1])


# --- without a lattice -------------------------------------------------------------------------------------------


def of_one_field(u, t, x, y):
    return {
        "wave": u.tt - u.xx - u.yy - 3 * u - jnp.sin(jnp.pi * x) * jnp.exp(-t) * y**2,
        "angles": u.t + u.xy - jnp.cos(2 * x + 3 * y - t) + 1,
        "no source": sx.laplacian(sx.laplacian(u)) + u.t,
        "drift": u.t
        - (1 + x**2) * u.xx
        + jnp.sin(y) * u.y
        + t * (u.x - jnp.cos(x))
        + 3 * y * (2 - x * t),
        "square and drift": u * u.x + u.t - jnp.cosh(x) * u.xx,
    }


def of_two_fields(u, v, k, t, x):
    return {
        "coefficient": u.t - k * u.xx - k**2 * jnp.sin(k * x) * t,
        "only varying": jnp.exp(-k * x) * (u.t + k * u),
        "first": u.t - v.x + jnp.tanh(x),
        "second": v.t - u.x,
    }


@pytest.mark.parametrize("sampler", [sx.Uniform(), sx.GaussLegendre()], ids=["uniform", "gauss"])
@pytest.mark.parametrize("residual", [of_one_field, of_two_fields])
def test_linear_residuals_need_no_lattice(residual, sampler):
    two = residual is of_two_fields
    fields, unknowns = (("u", "v"), {"k": 0.7}) if two else (("u",), None)
    problem = sx.Problem(CUBE, residual, fields=fields, unknowns=unknowns)
    how = recipe(points=(14, 16, 18), sampler=sampler)
    loss, model, places = build(problem, how)
    (inside,) = at_places(loss, model, places)
    for name, expression in loss.residuals(inside).items():
        assert residual_factors(loss, name, expression, inside) is not None
    short = terms_and_gradients(problem, how)
    agree(short, terms_and_gradients(problem, how, LatticeLoss), 2e-5)


def test_other_residuals_agree_with_the_lattice():
    """Among them values taken out of fields: they depend on the network and are no source terms."""

    def residual(u, t, x, y):
        mean = jnp.mean(u.value, axis=(0, 2), keepdims=True)
        return {
            "by value": u.tt - u.xx - u.yy + jnp.sin(3 * u.value),
            "square": u.t - u.xx + u**2,
            "value only": u.t - u.xx + 2 * u.x.value,
            "of two": u.t - jnp.sin(x * y) * (u.xx - x * u.y) + t * y * u + u.x * (x - y) - t * x,
            "of three": (x + y) * (t * u.t) + y * (u.x * (u.y + x)) - (t * u).x.y,
            "of a mean": u.t - mean * u.x,
            "not separable": u.t - u.xx - jnp.sqrt(1 + x**2 + y**2),
        }

    problem, how = sx.Problem(CUBE, residual), recipe(points=16)
    agree(terms_and_gradients(problem, how), terms_and_gradients(problem, how, LatticeLoss), 2e-5)


# --- the paper's way ---------------------------------------------------------------------------------------------


def paper_problems():
    def klein_gordon(u, t, x, y):
        return u.tt - u.xx - u.yy + u**2 - x * jnp.cos(t) * y

    yield sx.Problem(
        CUBE, klein_gordon, [sx.Initial(0, of=lambda u: u.t), sx.Dirichlet(lambda t: t, on="x")]
    )
    pair = [
        sx.Dirichlet(0, of=lambda u: u, hard=True),
        sx.Neumann(1, of=lambda v: v),
        sx.Periodic(on="t"),
    ]
    yield sx.Problem(
        STRIP,
        lambda u, v: {"a": u.t - v.x, "b": v.t + u * v.x},
        pair,
        fields=("u", "v"),
        name="pair",
    )
    yield sx.Problem(sx.Box(t=(0, 2)), lambda u: u.tt + u**3, [sx.Initial(1)], name="oscillator")


@pytest.mark.parametrize("problem", list(paper_problems()), ids=lambda p: p.name)
def test_one_pass_of_jets_agrees_with_one_pass_per_derivative(problem):
    how = recipe(sx.SPINN(rank=3, width=8, depth=2), points=5, precision="float64")
    agree(terms_and_gradients(problem, how), terms_and_gradients(problem, how, PaperLoss), 1e-9)


# --- conditions built in -----------------------------------------------------------------------------------------

NETWORKS = pytest.mark.parametrize("network", [TINY, POINTWISE], ids=["separable", "pointwise"])


def values(problem, network, of=None, **coordinates):
    """An untrained network on a lattice."""
    how = recipe(network, precision="float64")
    model = Model.build(problem, how, jax.random.key(1))
    solution = sx.Solution(problem, [Piece.of(model)])
    return np.asarray((solution.of(of) if of else solution)(**coordinates))


@NETWORKS
def test_zero_is_built_in_exactly(network):
    box = sx.Box(t=(0, 1), x=(-1, 3), y=(2, 5))
    problem = sx.Problem(
        box,
        lambda u: u.t - u.xx,
        [sx.Dirichlet(0, on=["x", "y+"], hard=True), sx.Initial(0, hard=True)],
    )
    inside = np.linspace(0.1, 0.9, 4)
    at = {"t": inside, "x": -1 + 4 * inside, "y": 2 + 3 * inside}
    for face in ({"x": -1.0}, {"x": 3.0}, {"y": 5.0}, {"t": 0.0}):
        np.testing.assert_allclose(values(problem, network, **(at | face)), 0, atol=1e-15)
    for other in ({}, {"y": 2.0}, {"t": 1.0}):
        assert np.min(np.abs(values(problem, network, **(at | other)))) > 1e-6


@NETWORKS
def test_periodicity_is_built_in_exactly(network):
    box = sx.Box(t=(0, 1), x=(-1, 3))
    problem = sx.Problem(box, lambda u: u.t - u.xx, [sx.Periodic()])
    ts = np.linspace(0, 1, 5)
    for of in (lambda u: u, lambda u: u.xxx):
        found = values(problem, network, of, t=ts, x=np.linspace(-1, 3, 9))
        np.testing.assert_allclose(found[:, 0], found[:, -1], rtol=1e-10, atol=1e-12)
        assert np.max(np.abs(found[:, 4] - found[:, 0])) > 1e-4


@NETWORKS
def test_zero_of_one_field_leaves_the_other_free(network):
    box = sx.Box(x=(0, 1), y=(0, 1))
    problem = sx.Problem(
        box, lambda u, v: u.x - v.y, [sx.Dirichlet(0, of=lambda v: v, hard=True)], fields=("u", "v")
    )
    ys = np.linspace(0.1, 0.8, 5)
    np.testing.assert_allclose(values(problem, network, lambda v: v, x=0.0, y=ys), 0, atol=1e-15)
    assert np.min(np.abs(values(problem, network, lambda u: u, x=0.0, y=ys))) > 1e-6


# --- gradients ---------------------------------------------------------------------------------------------------


@NETWORKS
def test_gradients_are_slopes(network):
    """Along a random direction, against a central difference, the unknown coefficient included."""
    conditions = [
        sx.Initial(lambda x, k: jnp.sin(k * x)),
        sx.Neumann(0),
        sx.Data([[0.5, 0.5]], [1.0]),
    ]
    problem = sx.Problem(
        STRIP, lambda u, k, x: u.t - k * u.xx + u**3 - x, conditions, unknowns={"k": 0.5}
    )
    loss, model, places = build(problem, recipe(network, precision="float64"))
    params, static = eqx.partition(model, eqx.is_array)

    @jax.jit
    def total(params):
        return loss.total(loss(eqx.combine(params, static), places))

    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(5), len(leaves))
    direction = jax.tree.unflatten(
        structure, [jax.random.normal(k, p.shape, p.dtype) for k, p in zip(keys, leaves)]
    )
    slope = sum(
        jnp.sum(g * d)
        for g, d in zip(jax.tree.leaves(jax.grad(total)(params)), jax.tree.leaves(direction))
    )
    step = 1e-5
    ahead, behind = (
        total(jax.tree.map(lambda p, d, s=s: p + s * step * d, params, direction)) for s in (1, -1)
    )
    assert float(slope) == pytest.approx(float((ahead - behind) / (2 * step)), rel=1e-6)


def test_growth_is_seen_by_every_term():
    """A function that solves everything has no loss at all: u = e^(t + 2x) with u_t = u_x / 2."""
    conditions = [
        sx.Initial(lambda x: jnp.exp(2 * x)),
        sx.Dirichlet(lambda t, x: jnp.exp(t + 2 * x)),
        sx.Neumann(lambda t: 2 * jnp.exp(t + 4), on="x+"),
        sx.Robin(0, 2, 1, on="x-"),
    ]
    problem = sx.Problem(STRIP, lambda u: u.t - u.x / 2, conditions)
    terms, _ = exact_terms(
        problem, recipe(precision="float64"), [[(1.0, growth(1.0), growth(2.0))]]
    )
    assert terms == pytest.approx(dict.fromkeys(problem.names, 0.0), abs=1e-22)
    wrong, _ = exact_terms(
        problem,
        recipe(precision="float64"),
        [[(1.0, growth(1.0), growth(2.0)), (1e-3, wave(1.0), one)]],
    )
    assert min(wrong.values()) < 1e-20 < wrong["residual"]


# --- quadratic residuals without a lattice -----------------------------------------------------------------------


def diffusion(u):
    return u.t - 0.05 * (u.x**2 + u.y**2 + u * (u.xx + u.yy))


def quadratic(u, x, c):
    return {
        "diffusion": diffusion(u),
        "porous": u.t - 0.025 * ((u**2).xx + (u**2).yy),
        "fisher": u.t - u.xx - u.yy - 6 * u * (1 - u) + u.x * u.xy + jnp.sin(x),
        "unknown": u.t + c * u * u.x - c**2 * u.xx,
    }


def coupled(u, v):
    return {"a": u.t + u * v.x - v * u.y + 2, "b": v.t + (u * v).x - v**2 + (u + v) * (u - v.x + 1)}


@pytest.mark.parametrize(
    ("residual", "sampler"),
    [
        (quadratic, sx.Uniform()),
        (coupled, sx.GaussLegendre()),
        pytest.param(quadratic, sx.GaussLegendre(), marks=pytest.mark.whole),
        pytest.param(coupled, sx.Uniform(), marks=pytest.mark.whole),
    ],
)
def test_quadratic_residuals_have_the_same_square_without_a_lattice(residual, sampler):
    fields = ("u", "v") if residual is coupled else ("u",)
    unknowns = {} if residual is coupled else {"c": 0.7}
    box = sx.Box(t=(0, 1), x=(-1, 1), y=(0, 3))
    problem = sx.Problem(box, residual, fields=fields, unknowns=unknowns)
    points = {"t": 30, "x": 40, "y": 50}
    how = recipe(sx.SPINN(rank=3, width=16, depth=2), points=points, sampler=sampler)
    loss, model, places = build(problem, how)
    inside, *_ = at_places(loss, model, places)
    for name, expression in loss.residuals(inside).items():
        assert residual_factors(loss, name, expression, inside) is not None
    quick, slow = (terms_and_gradients(problem, how, kind) for kind in (Loss, LatticeLoss))
    assert quick[0].dtype == jnp.float32
    agree(quick, slow, 2e-5)


def test_a_quadratic_residual_makes_no_lattice():
    problem = sx.Problem(sx.Box(t=(0, 1), x=(-1, 1), y=(0, 3)), diffusion)
    trainer = Trainer(Loss(problem, recipe(points=2048)))
    compiled = trainer.compile(trainer.init(jax.random.key(0)))
    assert compiled.bytes is not None
    assert compiled.bytes < 50e6  # 2048³ values would be 34 GB


def test_a_cubic_residual_keeps_the_lattice():
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(0, 3)), lambda u: u.t - u.xx - u**3 + u * u * u
    )
    loss, model, places = build(problem, recipe(points=16))
    (source,) = loss.sources(model.network, places)
    (expression,) = problem.expressions(source, places[0].arrays(), {}).values()
    assert expression.polynomial is None
    assert np.isfinite(float(loss(model, places)[0]))


# --- faces without a lattice -------------------------------------------------------------------------------------


SHORT = [
    sx.Dirichlet(0, name="zero"),
    sx.Initial(lambda x, y: jnp.sin(x + y) + 2, name="separable"),
    sx.Dirichlet(lambda t, x, y: x * y * jnp.exp(-t), weight=3.0, name="all faces"),
    sx.Dirichlet(lambda t, k: k * t**2, on="x-", name="unknown"),
    sx.Initial(lambda x: x, of=lambda u: u.t + 2 * u - 3 * u.xy, name="operator"),
    sx.Initial(lambda x: x, of=lambda u, k: k * u.t, name="by an unknown"),
    sx.Neumann(lambda t: 1 + t, on=["x", "y+"]),
    sx.Robin(0.5, a=2.0, b=-1.5, on="y"),
    sx.Periodic(hard=False, on="x"),
]
TABLE = np.outer([1.0, 2.0, 4.0], [1.0, 3.0, 5.0, 0.0])
LONG = [
    sx.Initial(lambda x, y: jnp.sqrt(1 + x**2 + y**2), name="target"),
    sx.Initial(0, of=lambda u: u**2, name="square"),
    sx.Initial(0, of=lambda u, x: x * u, name="coefficient"),
    sx.Initial(0, of=lambda u, x: u + x, name="offset"),
    sx.Initial(0, of=lambda u: jnp.sin(u.value), name="values"),
    sx.Initial(TABLE, lattice={"x": [-1.0, 0.0, 1.0], "y": [0.0, 0.5, 1.0, 2.0]}, name="array"),
]


def with_conditions(*conditions):
    return sx.Problem(CUBE, lambda u, k: u.t - k * u.xx, conditions, unknowns={"k": 0.7})


@pytest.mark.parametrize(
    ("conditions", "short", "sampler"),
    [
        (SHORT, True, sx.GaussLegendre()),
        (LONG, False, sx.Uniform()),
        pytest.param(SHORT, True, sx.Uniform(), marks=pytest.mark.whole),
    ],
)
def test_linear_conditions_need_no_lattice_and_others_agree_with_it(conditions, short, sampler):
    problem = with_conditions(*conditions)
    how = recipe(points=(14, 16, 18), sampler=sampler)
    loss, model, places = build(problem, how)
    for term, at in zip(problem.terms, at_places(loss, model, places)[1:]):
        assert (condition_squares(loss, term, at) is not None) == short
    found = terms_and_gradients(problem, how)
    assert not short or np.all(np.asarray(found[0]) > 1e-4)  # none is zero by itself
    agree(found, terms_and_gradients(problem, how, LatticeLoss), 5e-5)


def test_a_term_on_several_faces_of_a_large_network_keeps_the_lattice():
    """Where the sum is long against the face, a Gram matrix is the longer way."""
    problem, how = (
        with_conditions(sx.Dirichlet(0)),
        recipe(sx.SPINN(rank=256, width=8, depth=1), points=5),
    )
    loss, model, places = build(problem, how)
    each = zip(problem.terms, at_places(loss, model, places)[1:])
    assert all(condition_squares(loss, term, at) is None for term, at in each)


def products_of_a_step(problem, precision):
    """The precisions of all float32 products in the gradient of a loss."""
    recipe = sx.Recipe(sx.SPINN(rank=4, width=8, depth=2), 6, precision=precision)
    with jax.enable_x64(True):
        trainer = Trainer(Loss(problem, recipe))
        state = trainer.init(jax.random.key(0))

        def value(params):
            places = trainer.loss.draw(jax.random.key(1), jnp.zeros((), jnp.int32))
            return trainer.objective(places)(params)

        found, waiting = set(), [jax.make_jaxpr(jax.grad(value))(state.model).jaxpr]
    while waiting:
        for equation in waiting.pop().eqns:
            waiting += [
                getattr(p, "jaxpr", p)
                for p in equation.params.values()
                if hasattr(getattr(p, "jaxpr", p), "eqns")
            ]
            if (
                equation.primitive.name == "dot_general"
                and equation.invars[0].aval.dtype == jnp.float32
            ):
                found.add(equation.params["precision"])
    return found


@pytest.mark.parametrize("name", ["diffusion", "helmholtz"])
def test_products_are_rounded_only_where_that_was_asked_for(name):
    problem = find(name).make("paper")[0]
    highest, default = ((p, p) for p in (jax.lax.Precision.HIGHEST, jax.lax.Precision.DEFAULT))
    assert products_of_a_step(problem, "float32") == {highest}
    assert products_of_a_step(problem, "tf32") == {default}
    assert not products_of_a_step(problem, "float64")
