"""The catalogue: every equation is solved by its reference, every `paper` recipe follows the paper,
every entry runs."""

import json
import math
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import separax as sx
from separax.cli.app import app
from separax.networks.architectures import NETWORKS, network_name
from separax.paper.catalogue import CATALOGUE, find, flow_mixing, poisson_lshape
from separax.paper.catalogue.entry import RECIPES
from separax.residuals.loss import Loss
from separax.residuals.model import Model
from separax.separable import AbstractValues

NAMES = [
    *("diffusion", "helmholtz", "klein-gordon", "klein-gordon-3d"),
    *("diffusion-5d", "flow-mixing", "poisson-lshape"),
]
FLOWS = ["navier-stokes", "navier-stokes-3d"]  # they have a file of tests of their own
EXACT = [
    name for name in NAMES if name not in ("diffusion", "poisson-lshape")
]  # a formula, not a table
QUICKLY = {"xla_backend_optimization_level": 0}  # compiled in a moment; it runs once
SMALL = sx.SPINN(rank=2, width=4, depth=1, body="mlp")


pytestmark = pytest.mark.usefixtures("own_cache")


class Derivatives:
    """The derivatives of a function with a bump of some height added to it, by nesting jax.grad, at
    up to `most` points.

    Points are filled up to `most`, so that each derivative is compiled once.
    """

    def __init__(self, function, most):
        self.function, self.most, self.compiled = function, most, {}

    def bumped(self, *given):
        *c, height = given
        return self.function(*c) + height * jnp.exp(
            sum((0.3 + 0.1 * i) * x / 4 for i, x in enumerate(c))
        )

    def __call__(self, orders, points, height):
        if orders not in self.compiled:
            found = self.bumped
            for axis, order in enumerate(orders):
                for _ in range(order):
                    found = jax.grad(found, axis)
            over_points = jax.vmap(found, in_axes=(*[0] * len(points), None))
            self.compiled[orders] = jax.jit(over_points, compiler_options=QUICKLY)
        filled = [np.pad(c, (0, self.most - len(c)), mode="edge") for c in points]
        return np.asarray(self.compiled[orders](*filled, height))[: len(points[0])]


class Differentiated(AbstractValues):
    """A source of values that asks `Derivatives`."""

    def __init__(self, place, derivatives, height):
        self.axes, self.shape, self.dtype = place.axes, place.shape, jnp.result_type(float)
        self.derivatives, self.height = derivatives, height
        self.points = [
            np.broadcast_to(np.asarray(place.arrays()[a], float), place.shape).ravel()
            for a in place.axes
        ]

    def values(self, terms):
        total = sum(
            c * self.derivatives(orders, self.points, self.height)
            for (_, orders), c in terms.items()
        )
        return jnp.reshape(jnp.asarray(total), self.shape)


def terms_of(problem, derivatives, height, points):
    """The unweighted loss terms by name of a function in place of a network."""

    class ExactLoss(Loss):
        def sources(self, network, places):
            return [Differentiated(place, derivatives, height) for place in places]

    loss = ExactLoss(
        problem, sx.Recipe(SMALL, points=points, sampler=sx.Uniform(), precision="float64")
    )
    places = loss.draw(jax.random.key(11), jnp.array(0))
    return dict(
        zip(
            loss.names,
            np.asarray(loss(SimpleNamespace(network=None, unknowns={}), places)).tolist(),
        )
    )


# --- the mathematics ------------------------------------------------------------------------------


def test_the_catalogue_is_the_papers():
    assert list(CATALOGUE) == [*NAMES[:4], *FLOWS, *NAMES[4:]]
    for name, entry in CATALOGUE.items():
        assert (entry.name, find(name)) == (name, entry)
        assert entry.problem("best").name == name
    with pytest.raises(sx.InputError, match=r"problem.*'helmoltz'.*Did you mean 'helmholtz'"):
        find("helmoltz")
    with pytest.raises(sx.InputError, match=r"recipe.*'papr'.*Did you mean 'paper'"):
        find("helmholtz").make("papr")
    with pytest.raises(sx.InputError, match=r"network.*'spin'.*Did you mean 'spinn'"):
        find("helmholtz").make("best", "spin")


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", EXACT)
def test_the_exact_solution_has_no_residual_and_meets_every_condition(name, recipe):
    """At random points, its derivatives by automatic differentiation; a slightly different function
    does not."""
    problem = CATALOGUE[name].problem(recipe)
    if recipe == "paper" and problem.fingerprint() == CATALOGUE[name].problem("best").fingerprint():
        return  # the same equation and conditions
    points = 3 if name == "diffusion-5d" else 5
    derivatives = Derivatives(problem.reference, points**problem.box.dimension)
    terms = terms_of(problem, derivatives, 0.0, points)
    assert set(terms) == set(problem.names)
    # derivatives of Helmholtz reach 160, and everything is squared
    assert terms == pytest.approx(dict.fromkeys(problem.names, 0.0), abs=(1e-11) ** 2)
    assert min(terms_of(problem, derivatives, 1e-4, points).values()) > 1e-14


@pytest.mark.parametrize("name", ["klein-gordon", "klein-gordon-3d"])
def test_the_papers_klein_gordon_lacks_the_initial_velocity(name):
    best, paper = (CATALOGUE[name].problem(recipe) for recipe in RECIPES)
    assert "initial u_t" in best.names
    assert paper.names == ("residual", "initial", "dirichlet")
    (velocity,) = [term for term in best.terms if term.name == "initial u_t"]
    assert {orders for _, orders in velocity.derivatives} == {(1, *[0] * (best.box.dimension - 1))}


@pytest.mark.whole
@pytest.mark.usefixtures("double")
def test_the_diffusion_reference_solves_its_equation():
    """u_t = α/2 Δ(u²) by differences of fourth order, away from the layer at the boundary."""
    problem = CATALOGUE["diffusion"].problem("best")
    random = np.random.default_rng(1)
    t, x, y = random.uniform(0.2, 0.9, 400), *random.uniform(-0.8, 0.8, (2, 400))

    def u(t, x, y):
        return np.asarray(problem.reference(t, x, y))

    h = 0.02

    def first(f):
        return (8 * (f(h) - f(-h)) - f(2 * h) + f(-2 * h)) / (12 * h)

    def second(f):
        return (16 * (f(h) + f(-h)) - f(2 * h) - f(-2 * h) - 30 * f(0)) / (12 * h**2)

    derivatives = {
        (1, 0, 0): first(lambda s: u(t + s, x, y)),
        (0, 1, 0): first(lambda s: u(t, x + s, y)),
        (0, 0, 1): first(lambda s: u(t, x, y + s)),
        (0, 2, 0): second(lambda s: u(t, x + s, y)),
        (0, 0, 2): second(lambda s: u(t, x, y + s)),
        (0, 0, 0): u(t, x, y),
    }
    place = sx.Points(problem.box.axes, (t, x, y))
    source = SimpleNamespace(
        axes=place.axes,
        shape=place.shape,
        dtype=jnp.float64,
        values=lambda terms: jnp.asarray(
            sum(c * derivatives[orders] for (_, orders), c in terms.items())
        ),
    )
    (residual,) = problem.expressions(source, place.arrays(), {}).values()
    size = np.abs(derivatives[1, 0, 0]).max()
    assert size > 0.02
    assert (
        np.abs(np.asarray(residual.evaluate())).max() < 1e-3 * size
    )  # of the differences; the reference is better


@pytest.mark.usefixtures("double")
def test_the_l_shape_is_where_its_reference_is_known_and_ends_where_that_is_zero():
    problem = CATALOGUE["poisson-lshape"].problem("paper")
    x, y = np.random.default_rng(2).uniform(-0.98, 0.98, (2, 4000))
    inside = np.asarray(problem.shape.mask({"x": x, "y": y}))
    assert inside.mean() == pytest.approx(3 / 4, abs=0.05)
    np.testing.assert_array_equal(inside, poisson_lshape.inside(x, y))
    np.testing.assert_array_equal(inside, np.isfinite(problem.reference(x, y)))
    points, _, weights = problem.shape.boundary()
    np.testing.assert_allclose(problem.reference(*points.T), 0, atol=1e-12)
    assert weights.sum() == pytest.approx(8, rel=1e-6)


@pytest.mark.parametrize("precision", [jnp.float32, jnp.float64])
@pytest.mark.usefixtures("double")
def test_rotation_has_its_limit_at_the_origin(precision):
    """ω → 1/0.385 with slope 0; nothing there is nan, neither forwards nor backwards."""
    zero = jnp.zeros((), precision)
    assert float(flow_mixing.rotation(zero, zero)) == pytest.approx(1 / 0.385, rel=1e-6)
    near = np.array([1e-7, 1e-5, 1e-3, 1e-1])
    r = np.hypot(near, near)
    series = (1 - 4 / 3 * r**2 + 17 / 15 * r**4) / 0.385  # of tanh r / (r cosh² r)
    np.testing.assert_allclose(
        flow_mixing.rotation(jnp.asarray(near, precision), near), series, rtol=1e-5
    )
    slopes, bends = (
        jax.jit(f(flow_mixing.rotation, (0, 1)))(zero, zero) for f in (jax.grad, jax.hessian)
    )
    np.testing.assert_array_equal(slopes, 0)
    assert np.all(np.isfinite(bends))
    gradient, bends = (
        jax.jit(f(flow_mixing.exact, (0, 1, 2)))(zero + 1, zero, zero)
        for f in (jax.grad, jax.hessian)
    )
    assert np.all(np.isfinite(bends))
    # of u = -tanh(y/2 cos ωt - x/2 sin ωt)
    np.testing.assert_allclose(
        gradient, [0, math.sin(1 / 0.385) / 2, -math.cos(1 / 0.385) / 2], rtol=1e-5
    )
    # its largest speed, r ω, is one
    radii = np.linspace(0, 4, 2001)
    assert np.max(radii * np.asarray(flow_mixing.rotation(radii, 0 * radii))) == pytest.approx(
        1, abs=1e-3
    )


# --- recipes --------------------------------------------------------------------------------------

# rank, points per axis, steps, and weights by kind of network, where they are not one
PAPER = {
    "diffusion": (32, 64, 50_000, {}, {"dirichlet": 1 / 4}),
    "helmholtz": (32, 64, 50_000, {}, {"dirichlet": 1 / 6}),
    "klein-gordon": (32, 64, 50_000, {}, {"dirichlet": 1 / 4}),
    "klein-gordon-3d": (32, 64, 50_000, {"dirichlet": 1 / 6}, {"dirichlet": 1 / 6}),
    "diffusion-5d": (32, 8, 50_000, {}, {"dirichlet": 1 / 10}),
    "flow-mixing": (128, 256, 50_000, {"residual": 10}, {"residual": 10, "dirichlet": 1 / 4}),
    "poisson-lshape": (128, 256, 5_000, {"dirichlet": 1000}, {"dirichlet": 1000}),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_paper_recipes_follow_the_paper(name, network):
    problem, recipe = CATALOGUE[name].make("paper", network)
    rank, points, steps, separable, pointwise = PAPER[name]
    weights = Loss(problem, recipe).weights  # with emphasis and all
    expected = separable if network.startswith("spinn") else pointwise
    assert dict(zip(problem.names, weights)) == pytest.approx(
        {n: expected.get(n, 1.0) for n in problem.names}
    )
    precision = "float32" if network.startswith("spinn") and name != "flow-mixing" else "tf32"
    assert (recipe.steps, recipe.total_steps, recipe.precision) == (steps, steps, precision)
    assert (recipe.optimiser.rate, recipe.optimiser.schedule) == (1e-3, "constant")
    assert isinstance(recipe.sampler, sx.Uniform)
    assert recipe.sampler.every == 100
    how = recipe.network
    assert (how.scaled, how.settings["activation"], how.steepness) == (False, "tanh", None)
    if network.startswith("spinn"):
        assert recipe.points == points
        assert (how.rank, how.width) == (rank, 64)
    else:
        assert how.width == 128
    # as the text says: four hidden layers, five for the baselines
    levels = {"spinn": 4, "spinn-mod": 4, "pinn": 5, "pinn-mod": 5}[network]
    body = eqx.filter_eval_shape(Model.build, problem, recipe, jax.random.key(0)).network.body
    dense = [layer.weight.shape[-2:] for layer in (*body.hidden, body.out)]
    modified = network.endswith("-mod")
    assert len(body.hidden) == (levels - 1 if modified else levels)
    assert dense[1:-1] == [(how.width, how.width)] * (len(dense) - 2)
    assert dense[-1] == (how.width, rank if network.startswith("spinn") else 1)
    if modified:
        assert body.first.weight.shape[-1] == 3 * how.width


@pytest.mark.parametrize("network", ["spinn-mod", "pinn"])
@pytest.mark.parametrize("name", NAMES)
def test_every_network_of_the_best_recipes_fits_its_problem(name, network):
    """All that is done before anything is computed: the loss of a drawn lattice has one value per
    term."""
    problem, recipe = CATALOGUE[name].make("best", network)
    assert network_name(recipe.network) == network
    loss = Loss(problem, recipe)
    assert np.all(loss.weights > 0)

    def terms(key):
        return loss(Model.build(problem, recipe, key), loss.draw(key, jnp.array(0)))

    with jax.enable_x64(True):
        assert eqx.filter_eval_shape(terms, jax.random.key(0)).shape == (len(problem.names),)


# --- the command line -----------------------------------------------------------------------------


QUICK = [("diffusion-5d", "best"), ("poisson-lshape", "paper")]
EVERY = [(name, "best") for name in NAMES] + [(name, "paper") for name in [*NAMES, FLOWS[1]]]


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        pytest.param(*case, marks=pytest.mark.whole if case in QUICK else pytest.mark.slow)
        for case in EVERY
    ],
)
def test_every_problem_is_solved_by_name(name, recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points = "4" if name == "diffusion-5d" else "8"
    options = ["--recipe", recipe, "--network", "spinn-mod" if recipe == "best" else "spinn"]
    done = CliRunner().invoke(
        app,
        ["solve", name, *options, "--points", points, "--steps", "40", "--out", "run", "--json"],
    )
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["problem"], result["recipe"], result["points"]) == (name, recipe, int(points))
    assert 0 < result["relative_l2"] < 10
    assert 0 < result["rmse"] < 100
    assert result["loss"] > 0
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
