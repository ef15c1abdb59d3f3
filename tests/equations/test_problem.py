"""Problems: equations hold for their exact solutions, conditions mean what they say, on lattices and at points alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import Exact, exact_terms, growth, one, power, wave

import separax as sx
from separax.domain.places import flatten
from separax.residuals.loss import Loss

HALF = np.pi / 2
SQUARE = sx.Box(x=(-1, 2), y=(0, 1))
STRIP = sx.Box(t=(0, 1), x=(-1, 2))
TINY = sx.SPINN(rank=3, width=8, depth=2)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["separable", "pointwise"])
def recipe(request):
    network = TINY if request.param == "separable" else sx.PINN(width=8, depth=2)
    return sx.Recipe(network=network, points=6, precision="float64")


def residuals(problem, components, unknowns=None, points=False):
    """The residuals by name of known functions, on a lattice or at its points one by one."""
    place = problem.box.lattice(range(5, 5 + problem.box.dimension))
    place = flatten(place) if points else place
    found = problem.expressions(Exact(place, components), place.arrays(), unknowns or {})
    return {name: np.asarray(getattr(e, "value", e)).reshape(-1) for name, e in found.items()}


def nothing(u):
    return u


# --- equations ---------------------------------------------------------------------------------------------------


def klein_gordon():
    """(x + y) cos 2t + xy sin 2t."""

    def exact(t, x, y):
        return (x + y) * jnp.cos(2 * t) + x * y * jnp.sin(2 * t)

    def residual(u, t, x, y):
        return u.tt - u.xx - u.yy + u**2 - (exact(t, x, y) ** 2 - 4 * exact(t, x, y))

    cosine, sine = wave(2.0, HALF), wave(2.0)
    u = [
        (1.0, cosine, power(1), one),
        (1.0, cosine, one, power(1)),
        (1.0, sine, power(1), power(1)),
    ]
    return sx.Problem(sx.Box(t=(0, 10), x=(-1, 1), y=(-1, 1)), residual), [u]


def heat():
    """exp(-4t) sin 2x."""
    return sx.Problem(STRIP, lambda u: u.t - u.xx), [[(1.0, growth(-4.0), wave(2.0))]]


def burgers_in_conservation_form():
    """x / (1 + t) solves u_t + (u²/2)_x = 0; here with s = log(1 + t): u = x e^(-s) and u_t = e^(-s) u_s."""
    residual = lambda u, s: jnp.exp(-s) * u.s + (u**2 / 2).x  # noqa: E731
    return sx.Problem(sx.Box(s=(0, 1), x=(-1, 1)), residual), [[(1.0, growth(-1.0), power(1))]]


def biharmonic():
    """Δ²(x⁴ + x²y²) = 32."""
    u = [(1.0, power(4), one), (1.0, power(2), power(2))]
    return sx.Problem(SQUARE, lambda u: sx.laplacian(sx.laplacian(u)) - 32), [u]


def taylor_green():
    """Decaying vortices: velocity and pressure of the Navier-Stokes equations."""
    nu = 0.1

    def residual(u, v, p):
        return {
            "x momentum": u.t + u * u.x + v * u.y + p.x - nu * sx.laplacian(u),
            "y momentum": v.t + u * v.x + v * v.y + p.y - nu * sx.laplacian(v),
            "continuity": sx.div((u, v)),
        }

    sine, cosine, decay = wave(1.0), wave(1.0, HALF), growth(-2 * nu)
    u, v = [(1.0, decay, cosine, sine)], [(-1.0, decay, sine, cosine)]
    p = [
        (-0.25, growth(-4 * nu), wave(2.0, HALF), one),
        (-0.25, growth(-4 * nu), one, wave(2.0, HALF)),
    ]
    return sx.Problem(sx.Box(t=(0, 1), x=(0, 6), y=(0, 6)), residual, fields=("u", "v", "p")), [
        u,
        v,
        p,
    ]


def vorticity_of_beltrami():
    """curl v = v for the ABC flow with A = B = C = 1, through the transport equation of its vorticity w = curl v."""

    def residual(u, v, w):
        return dict(zip("abc", (a - b for a, b in zip(sx.curl((u, v, w)), (u, v, w)))))

    sine, cosine = wave(1.0), wave(1.0, HALF)
    u = [(1.0, one, one, sine), (1.0, one, cosine, one)]
    v = [(1.0, sine, one, one), (1.0, one, one, cosine)]
    w = [(1.0, one, sine, one), (1.0, cosine, one, one)]
    return sx.Problem(sx.Box(x=(0, 6), y=(0, 6), z=(0, 6)), residual, fields=("u", "v", "w")), [
        u,
        v,
        w,
    ]


def logistic():
    """u = e^t solves u' = u, and u' = u (1 + log u) - t u."""
    return sx.Problem(sx.Box(t=(0, 2)), lambda u, t: u.t - u * (1 + np.log(u)) + t * u), [
        [(1.0, growth(1.0))]
    ]


EQUATIONS = [
    klein_gordon,
    heat,
    burgers_in_conservation_form,
    biharmonic,
    taylor_green,
    vorticity_of_beltrami,
    logistic,
]


@pytest.mark.parametrize("points", [False, True], ids=["lattice", "points"])
@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: e.__name__)
def test_the_residual_of_the_exact_solution_is_zero(equation, points):
    problem, components = equation()
    for values in residuals(problem, components, points=points).values():
        np.testing.assert_allclose(values, 0, atol=1e-10)


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: e.__name__)
def test_one_text_gives_the_same_values_on_a_lattice_and_at_points(equation):
    """Not zero here: every component has something added."""
    problem, components = equation()
    added = (0.3, *[wave(1.3, 0.2)] * problem.box.dimension)
    lattice, points = (
        residuals(problem, [[*c, added] for c in components], points=p) for p in (False, True)
    )
    assert lattice.keys() == points.keys()
    for name in lattice:
        np.testing.assert_allclose(lattice[name], points[name], rtol=1e-12, atol=1e-12)
        assert np.max(np.abs(lattice[name])) > 0.1


def test_only_the_derivatives_an_equation_has_are_asked_for():
    problem, _ = klein_gordon()
    assert problem.derivatives == {(0, o) for o in [(0, 0, 0), (2, 0, 0), (0, 2, 0), (0, 0, 2)]}
    # the linear part in one merge, the square in another
    assert sorted(len(terms) for terms in problem.asked) == [1, 3]


def test_residuals_are_named():
    problem, _ = taylor_green()
    assert problem.names == ("x momentum", "y momentum", "continuity")
    pair = sx.Problem(STRIP, lambda u, v: (u.t - v.x, v.t - u.x), fields=("u", "v"))
    assert pair.names == ("residual 1", "residual 2")
    assert heat()[0].names == ("residual",)


def test_functions_get_what_they_name_in_any_order():
    box = sx.Box(t=(0, 1), x=(0, 1), theta=(0, 1))
    seen = {}

    def residual(theta, u, t):
        seen.update(theta=theta.shape, t=t.shape)
        return u.t - theta * t

    sx.Problem(box, residual)
    assert seen == {"t": (2, 1, 1), "theta": (1, 1, 4)}


def test_unknown_coefficients_enter_equations_and_conditions():
    problem = sx.Problem(
        STRIP,
        lambda u, k: u.t - k * u.xx,
        [sx.Initial(lambda x, k: jnp.sin(k * x))],
        unknowns={"k": 1.0},
    )
    for k in (2.0, 5.0):
        solution = [[(1.0, growth(-(k**3)), wave(k))]]
        np.testing.assert_allclose(
            residuals(problem, solution, {"k": jnp.asarray(k)})["residual"], 0, atol=1e-10
        )
        terms, _ = exact_terms(
            problem, sx.Recipe(network=TINY, precision="float64"), solution, {"k": jnp.asarray(k)}
        )
        assert terms["initial"] == pytest.approx(0, abs=1e-25)


# --- conditions --------------------------------------------------------------------------------------------------


def term_of(recipe, condition, u, box=STRIP):
    problem = sx.Problem(box, nothing, [condition])
    terms, places = exact_terms(problem, recipe, [u])
    return terms[problem.names[1]], places


FADING = [(1.0, growth(-4.0), wave(2.0))]  # e^(-4t) sin 2x
SQUARE_OF_X = [(1.0, one, power(2))]  # outward slopes 2 at x = -1, 4 at x = 2
XS, TS = np.linspace(-1, 2, 11), np.linspace(0, 1, 7)
APART = np.array([-0.9, 0.1, 0.2, 1.7])
SCATTERED = np.random.default_rng(0).uniform([0, -1], [1, 2], (9, 2))
MEASURED = np.exp(-4 * SCATTERED[:, 0]) * np.sin(2 * SCATTERED[:, 1])
sine = lambda x: jnp.sin(2 * x)  # noqa: E731
# a condition, a function, and the mean square of what is missing, added up over faces
CONDITIONS = [
    (sx.Initial(sine), FADING, 0),
    (sx.Initial(lambda x: -4 * sine(x), of=lambda u: u.t), FADING, 0),
    (sx.Initial(0, of=lambda u: u.tt - 4 * u.xx - 32 * u), FADING, 0),
    (sx.Dirichlet(lambda t, x: t + x**2), [(1.0, power(1), one), *SQUARE_OF_X], 0),
    (sx.Dirichlet(lambda t: 0 * t), SQUARE_OF_X, 1 + 16),
    (sx.Dirichlet(0, on="x-"), SQUARE_OF_X, 1),
    (sx.Dirichlet(0, on=("x+", "x-")), SQUARE_OF_X, 17),
    (sx.Neumann(2, on="x-"), SQUARE_OF_X, 0),
    (sx.Neumann(lambda x: jnp.where(x < 0, 2.0, 4.0)), SQUARE_OF_X, 0),
    (sx.Neumann(0), SQUARE_OF_X, 4 + 16),
    (sx.Neumann(-2, on="x-"), SQUARE_OF_X, 16),
    (sx.Neumann(lambda t: 4 * t, on="x+", of=lambda u, t: t * u), SQUARE_OF_X, 0),
    (sx.Neumann(2 * TS, on="x-"), [(1.0, power(1), power(2))], 0),
    (sx.Robin(13, 3, 5, on="x-"), SQUARE_OF_X, 0),
    (sx.Robin(0, 3, 5), SQUARE_OF_X, 13**2 + 32**2),
    (sx.Robin(0, 1, 0), SQUARE_OF_X, 17),
    (sx.Robin(0, 0, 1), SQUARE_OF_X, 20),
    # x jumps by 3, its slope does not; x² jumps by 3 and its slope by 6
    (sx.Periodic(hard=False), [(1.0, growth(1.0), wave(4 * np.pi / 3))], 0),
    (sx.Periodic(hard=False), [(1.0, one, power(1))], 9),
    (sx.Periodic(hard=False), SQUARE_OF_X, 9 + 36),
    (sx.Periodic(hard=False, of=lambda u: u.x), [(1.0, one, power(1))], 0),
    (sx.Condition(16, on="x+", of=lambda u: u * u.x), SQUARE_OF_X, 0),
    (sx.Condition(lambda x: 2 * x**3, on="t+", of=lambda u: u * u.x), SQUARE_OF_X, 0),
    (sx.Condition(1, on="t", of=lambda u, x: u - x**2 + 4), SQUARE_OF_X, 18),
    (sx.Initial(np.sin(2 * XS)), FADING, 0),  # on the regular grid of the face
    (sx.Initial(np.sin(2 * XS) + XS), FADING, np.mean(XS**2)),
    (sx.Initial(np.sin(2 * APART), lattice={"x": APART}), FADING, 0),
    (sx.Initial(np.sin(2 * APART) - APART, lattice=sx.Lattice(x=APART)), FADING, np.mean(APART**2)),
    (sx.Data(SCATTERED, MEASURED), FADING, 0),  # the points themselves must not be rounded
    (sx.Data(SCATTERED, MEASURED + 3), FADING, 9),
    (sx.Data(SCATTERED, -4 * MEASURED, of=lambda u: u.t), FADING, 0),
]


@pytest.mark.parametrize(("condition", "u", "expected"), CONDITIONS)
def test_a_condition_counts_what_is_missing(recipe, condition, u, expected):
    found, _ = term_of(recipe, condition, u)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-24)


def test_values_and_faces_are_where_they_are_said_to_be(recipe):
    off, places = term_of(recipe, sx.Initial(lambda x: sine(x) + x), FADING)
    face = places[1].arrays()
    assert off == pytest.approx(float(np.mean(np.asarray(face["x"]) ** 2)), rel=1e-12)
    np.testing.assert_array_equal(face["t"], 0)
    np.testing.assert_allclose(term_of(recipe, sx.Initial(XS), FADING)[1][1]["x"], XS, atol=1e-14)
    four, places = term_of(recipe, sx.Dirichlet(lambda x: x - 3), [(1.0, power(1), one)], SQUARE)
    assert four == pytest.approx(4 * 9, rel=1e-12)
    assert len(places) == 3  # the inside, the faces of x, the faces of y


def test_built_in_conditions_are_no_loss_terms():
    hard = sx.Problem(STRIP, nothing, [sx.Periodic(), sx.Initial(0, hard=True)])
    assert hard.names == ("residual",)
    assert hard.periodic == ("x",)
    assert hard.walls == (("-",), ("",))
    walled = sx.Problem(SQUARE, nothing, [sx.Dirichlet(0, hard=True, on=["x-", "y"])])
    assert walled.walls == (("-",), ("-+",))


def test_built_in_zero_of_one_field_of_two():
    pair = sx.Problem(
        SQUARE,
        lambda u, v: u.x - v.y,
        [sx.Dirichlet(0, of=lambda v: v, hard=True)],
        fields=("u", "v"),
    )
    assert pair.walls == (("", "-+"), ("", "-+"))


def test_arrays_on_a_periodic_axis_leave_its_end_out(recipe):
    xs = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    box = sx.Box(t=(0, 1), x=(0, 2 * np.pi))
    problem = sx.Problem(box, nothing, [sx.Initial(np.sin(xs)), sx.Periodic()])
    terms, _ = exact_terms(problem, recipe, [[(1.0, growth(-1.0), wave(1.0))]])
    assert terms["initial"] == pytest.approx(0, abs=1e-28)


def test_arrays_on_a_face_of_two_axes(recipe):
    """One dimension per other axis, in the order of the box."""
    box = sx.Box(y=(0, 1), t=(0, 1), x=(-1, 1))
    ys, xs = np.linspace(0, 1, 4), np.linspace(-1, 1, 5)
    u = [(1.0, power(3), growth(1.0), wave(2.0))]
    values = ys[:, None] ** 3 * np.sin(2 * xs)
    assert term_of(recipe, sx.Initial(values), u, box)[0] == pytest.approx(0, abs=1e-28)
    on_upper = sx.Condition(np.e * values, on="t+")
    assert term_of(recipe, on_upper, u, box)[0] == pytest.approx(0, abs=1e-28)


def test_data_points_keep_float64_when_the_problem_is_made_outside():
    """A problem is made before `solve` turns to float64; its data must not have become float32 by then."""
    points = np.random.default_rng(0).uniform([0, -1], [1, 2], (9, 2))
    with jax.enable_x64(False):
        problem = sx.Problem(STRIP, nothing, [sx.Data(points, points[:, 1])])
    terms, _ = exact_terms(
        problem, sx.Recipe(network=TINY, points=4, precision="float64"), [[(1.0, one, power(1))]]
    )
    assert terms["data"] == pytest.approx(0, abs=1e-30)


def test_weights_and_names(recipe):
    conditions = [
        sx.Initial(0, weight=5.0),
        sx.Initial(0, of=lambda u: u.t),
        sx.Dirichlet(0, on="x-", name="left"),
        sx.Dirichlet(0, on="x+", name="right", weight=2.0),
        sx.Dirichlet(1, on="x+", name="right"),
    ]
    problem = sx.Problem(STRIP, nothing, conditions)
    assert problem.names == ("residual", "initial", "initial 2", "left", "right", "right 2")
    loss = Loss(
        problem,
        sx.Recipe(
            network=recipe.network,
            weights={"left": 3.0, "right": 10.0},
            emphasis=1.0,
            precision="float64",
        ),
    )
    np.testing.assert_array_equal(loss.weights, [1, 5, 1, 3, 20, 1])
    assert float(loss.total(jnp.arange(6.0))) == 0 + 5 + 2 + 9 + 80 + 5


def test_conditions_of_a_system(recipe):
    def residual(u, v):
        return {"first": u.t - v.x, "second": v.t - u.x}

    conditions = [
        sx.Initial(lambda x: jnp.sin(x), of=lambda u: u),
        sx.Initial(0, of=lambda v: v),
        sx.Condition(
            0,
            on="t+",
            of=lambda u, v, t, x: u * jnp.sin(t) * jnp.sin(x) - v * jnp.cos(t) * jnp.sin(x),
            name="both",
        ),
    ]
    problem = sx.Problem(STRIP, residual, conditions, fields=("u", "v"))
    # u = cos t sin x, v = sin t cos x solve v_t = cos t cos x = u_x and u_t = -sin t sin x = v_x
    u, v = [(1.0, wave(1.0, HALF), wave(1.0))], [(1.0, wave(1.0), wave(1.0, HALF))]
    terms, places = exact_terms(problem, recipe, [u, v])
    for name in ("first", "second", "initial", "initial 2"):
        assert terms[name] == pytest.approx(0, abs=1e-26)
    x = np.asarray(places[3].arrays()["x"])
    expected = np.mean((np.sin(1) * np.cos(1) * np.sin(x) * (np.sin(x) - np.cos(x))) ** 2)
    assert terms["both"] == pytest.approx(expected, rel=1e-12)


def test_references_by_field():
    def residual(u, v):
        return {"first": u.t - v.x, "second": v.t - u.x}

    lattice = STRIP.lattice(4)
    for reference in ({"u": lambda t: t, "v": lambda x: x}, lambda t, x: {"u": t, "v": x}):
        problem = sx.Problem(STRIP, residual, fields=("u", "v"), reference=reference)
        found = problem.reference_values(lattice.arrays(), lattice.shape, problem.reference)
        np.testing.assert_allclose(found["u"], np.broadcast_to(lattice["t"][:, None], (4, 4)))
        np.testing.assert_allclose(found["v"], np.broadcast_to(lattice["x"], (4, 4)))


def test_an_ordinary_differential_equation(recipe):
    """u'' = -u, u(0) = 0, u'(0) = 1."""
    box = sx.Box(t=(0, 3))
    problem = sx.Problem(box, lambda u: u.tt + u, [sx.Initial(0), sx.Initial(1, of=lambda u: u.t)])
    terms, _ = exact_terms(problem, recipe, [[(1.0, wave(1.0))]])
    assert terms == pytest.approx({"residual": 0, "initial": 0, "initial 2": 0}, abs=1e-28)


def test_the_same_function_has_the_same_loss_on_both_kinds_of_network():
    """Gauss-Legendre points are the same for both, so every term must be, too."""
    conditions = [
        sx.Initial(lambda x: x, weight=2.0),
        sx.Neumann(lambda t: t),
        sx.Robin(1, 2, 3, on="x-"),
        sx.Periodic(hard=False),
        sx.Condition(np.linspace(0, 1, 5), on="t+"),
        sx.Data([[0.5, 0.5], [0.1, 1.2]], [1.0, 2.0]),
    ]
    problem = sx.Problem(STRIP, lambda u, x: u.t - (u * u.x).x + x * u.xx, conditions)
    u = [[(1.0, growth(-1.0), wave(2.0, 0.3)), (0.5, power(1), power(2))]]
    options = {"sampler": sx.GaussLegendre(), "points": (5, 7), "precision": "float64"}
    separable, _ = exact_terms(problem, sx.Recipe(network=TINY, **options), u)
    pointwise, _ = exact_terms(problem, sx.Recipe(network=sx.PINN(width=8, depth=2), **options), u)
    assert separable == pytest.approx(pointwise, rel=1e-12)
    assert all(term > 1e-3 for term in separable.values())
