"""Domains that are not boxes: their boundary, and what is solved, measured and refused on them."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import exact_terms, growth, one, power, wave
from scipy.special import ellipe
from untrained import untrained

import separax as sx
from separax.domain import shapes
from separax.domain.shapes import Shape

SQUARE = sx.Box(x=(-1, 1), y=(-1, 1))
CUBE = sx.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1))
TIMED = sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1))
TINY = sx.SPINN(rank=3, width=8, depth=2, body="mlp")
POINTWISE = sx.PINN(width=8, depth=2, body="mlp")
NETWORKS = pytest.mark.parametrize("network", [TINY, POINTWISE], ids=["separable", "pointwise"])


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def disc(x, y):
    return x**2 + y**2 - 1


def small_disc(x, y):
    return x**2 + y**2 - 0.64


def small_ball(x, y, z):
    return jnp.sqrt(x**2 + y**2 + z**2) - 0.8


def ellipse(x, y):
    return (x / 0.9) ** 2 + (y / 0.5) ** 2 - 1


def annulus(x, y):
    r = jnp.hypot(x, y)
    return jnp.maximum(r - 0.9, 0.4 - r)


def l_shape(x, y):
    return jnp.minimum(x, y)


def half_ball(x, y, z):
    return x**2 + y**2 + z**2 - 1


# function, box, area of the boundary, volume
SHAPES = {
    "interval": (lambda x: jnp.abs(x) - 0.3, sx.Box(x=(-1, 1)), 2, 0.6),
    "disc": (small_disc, SQUARE, 1.6 * np.pi, 0.64 * np.pi),
    "ellipse": (ellipse, SQUARE, 3.6 * ellipe(1 - (5 / 9) ** 2), 0.45 * np.pi),
    "annulus": (annulus, SQUARE, 2.6 * np.pi, (0.81 - 0.16) * np.pi),
    "L": (l_shape, SQUARE, 8, 3),
    "ball": (small_ball, CUBE, 4 * np.pi * 0.64, 4 / 3 * np.pi * 0.512),
    "half ball": (half_ball, sx.Box(x=(-1, 1), y=(-1, 1), z=(0, 1)), 3 * np.pi, 2 / 3 * np.pi),
}
EVERY = pytest.mark.parametrize("name", SHAPES)
BOTH = pytest.mark.parametrize("kind", ["signed", "indicator"])


def indicator(inside):
    """The same domain by a function that is true inside."""
    return functools.wraps(inside)(lambda **c: inside(**c) <= 0)


@functools.cache
def made(name, kind):
    """A shape whose boundary is found once."""
    inside, box, _, _ = SHAPES[name]
    shape = Shape(inside if kind == "signed" else indicator(inside), box)
    shape.boundary()
    return shape


# --- the boundary ---------------------------------------------------------------------------------


@BOTH
@EVERY
def test_area_and_divergence_theorem(name, kind):
    """∮ dS is the area, ∮ n dS = 0, ∮ x·n dS = d · volume."""
    _, _, area, volume = SHAPES[name]
    shape = made(name, kind)
    points, normals, weights = shape.boundary()
    assert shape.signed is (kind == "signed")
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-12)
    tolerance = 5e-5 if points.shape[1] < 3 else 5e-4
    assert weights.sum() == pytest.approx(area, rel=tolerance)
    np.testing.assert_allclose(weights @ normals, 0, atol=tolerance * area)
    assert weights @ np.sum(points * normals, axis=1) == pytest.approx(
        points.shape[1] * volume, rel=tolerance
    )


@BOTH
@EVERY
def test_points_lie_on_the_boundary_to_rounding(name, kind):
    """A hair further out along the normal is outside, a hair further in is inside, corners and
    edges left out."""
    inside, box, _, _ = SHAPES[name]
    points, normals, _ = made(name, kind).boundary()
    bounds = np.array([box[a] for a in box.axes])
    # on the boundary of the shape, or on a face of the box that cuts it off
    values = np.asarray(inside(**dict(zip(box.axes, points.T))))
    on_face = np.any(points == bounds[:, 0], axis=1) | np.any(points == bounds[:, 1], axis=1)
    assert np.all(values <= 1e-14)
    np.testing.assert_allclose(values[~on_face], 0, atol=2e-14)

    def holds(p):
        here = np.all((p >= bounds[:, 0]) & (p <= bounds[:, 1]), axis=1)
        return here & np.asarray(inside(**dict(zip(box.axes, p.T))) <= 0)

    hair = 1e-9
    away = np.abs(points).min(axis=1) > 1e-6 if name == "L" else np.ones(len(points), bool)
    assert not np.any(holds(points + hair * normals)[away])
    assert np.mean(holds(points - hair * normals)[away]) > 0.999  # all but those at an edge


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("disc", lambda p: p),
        ("ball", lambda p: p),
        ("ellipse", lambda p: p / [0.81, 0.25]),
        ("annulus", lambda p: p * np.sign(np.linalg.norm(p, axis=1, keepdims=True) - 0.65)),
    ],
)
@BOTH
def test_normals_are_exact(name, kind, gradient):
    """To rounding from a signed distance; from an indicator to the square of the length over which
    it is looked at."""
    points, normals, _ = made(name, kind).boundary()
    true = gradient(points)
    true = true / np.linalg.norm(true, axis=1, keepdims=True)
    np.testing.assert_allclose(normals, true, atol=1e-13 if kind == "signed" else 1e-6)


def test_the_corner_of_the_l_has_the_normals_of_its_edges():
    points, normals, weights = made("L", "indicator").boundary()
    inner = np.isclose(points[:, 0], 0, atol=1e-12) & (points[:, 1] > 1e-3)
    np.testing.assert_allclose(normals[inner], np.tile([1.0, 0.0], (inner.sum(), 1)), atol=1e-12)
    assert weights[inner].sum() == pytest.approx(1, abs=2e-3)
    for axis, side in ((0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)):  # edges that are faces of the box
        edge = points[:, axis] == side
        outward = np.zeros(2)
        outward[axis] = side
        np.testing.assert_array_equal(normals[edge], np.tile(outward, (edge.sum(), 1)))
        assert weights[edge].sum() == pytest.approx(2 if side < 0 else 1, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "kind"), [("disc", "signed"), ("disc", "indicator"), ("ellipse", "indicator")]
)
def test_perimeter_converges(monkeypatch, name, kind):
    """Lines that graze the curve make it order 3/2."""
    inside, box, area, _ = SHAPES[name]
    sizes, errors = [32, 128, 512], []
    for lines in sizes:
        monkeypatch.setitem(shapes.LINES, 2, lines)
        weights = Shape(inside if kind == "signed" else indicator(inside), box).boundary()[2]
        errors.append(abs(weights.sum() / area - 1))
    assert -np.polyfit(np.log(sizes), np.log(errors), 1)[0] > 1.2
    assert errors[-1] < 1e-4


def test_any_function_that_changes_sign_will_do():
    """Also one whose gradient vanishes on the boundary."""
    shape = Shape(lambda x, y: jnp.sign(x**2 + y**2 - 0.64), SQUARE)
    points, normals, weights = shape.boundary()
    assert weights.sum() == pytest.approx(1.6 * np.pi, rel=5e-5)
    np.testing.assert_allclose(normals, points / 0.8, atol=1e-6)


def test_a_ball_in_five_axes():
    """8π²/3 of area. Few lines, so a rough one, but in little memory."""
    box = sx.Box(**dict.fromkeys("vwxyz", (-1, 1)))
    points, normals, weights = Shape(
        lambda v, w, x, y, z: v**2 + w**2 + x**2 + y**2 + z**2 - 0.81, box
    ).boundary()
    np.testing.assert_allclose(normals, points / 0.9, atol=1e-12)
    assert weights.sum() == pytest.approx(8 / 3 * np.pi**2 * 0.9**4, rel=1e-2)


# --- drawn points ---------------------------------------------------------------------------------


def drawn(shape, count=1024, key=0, number=0, dtype=jnp.float64):
    key = None if key is None else jax.random.key(key)
    places = shape.draw(key, jnp.array(number), count, dtype)
    return {a: np.asarray(c) for a, c in places.arrays().items()}, dict(
        zip(places.axes, map(np.asarray, places.normals))
    )


@pytest.mark.parametrize("key", [0, None])
def test_drawn_points_are_spread_evenly_over_a_sphere(key):
    c, _ = drawn(made("ball", "signed"), 4096, key)
    x, y, z = (c[a] / 0.8 for a in "xyz")
    for values, mean in [
        (z**2, 1 / 3),
        (x**4, 1 / 5),
        (x * y, 0),
        (np.exp(y), math.sinh(1)),
        ((x * y * z) ** 2, 1 / 105),
    ]:
        assert np.mean(values) == pytest.approx(mean, abs=3e-3)


def test_points_count_by_arc_length_on_an_ellipse():
    """Half of them in either half, and no more where the curve is steep."""
    c, _ = drawn(made("ellipse", "signed"), 4000)
    angle = np.linspace(0, np.pi / 2, 100_001)
    arc = np.cumsum(np.hypot(0.9 * np.sin(angle), 0.5 * np.cos(angle)))
    parts = np.interp([0.3, 0.9], angle, arc / arc[-1])
    found = np.arctan2(np.abs(c["y"]) / 0.5, np.abs(c["x"]) / 0.9)
    assert [np.mean(found < a) for a in (0.3, 0.9)] == pytest.approx(parts, abs=3e-3)


def test_draws_depend_on_key_and_number_and_fixed_ones_do_not():
    shape = made("disc", "signed")
    first, again, other = (drawn(shape, 64, 1, n)[0]["x"] for n in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.mean(first == other) < 0.5
    np.testing.assert_array_equal(
        drawn(shape, 64, None, 0)[0]["x"], drawn(shape, 64, None, 1)[0]["x"]
    )


@pytest.mark.parametrize("key", [0, None])
def test_axes_the_shape_does_not_depend_on_are_covered(key):
    """Every cell of an 8 × 8 grid of (t, z), and of (angle, t), has its share of points."""
    box = sx.Box(t=(0, 2), x=(-1, 1), y=(-1, 1), z=(3, 4))
    c, n = drawn(Shape(small_disc, box), 4096, key)
    np.testing.assert_array_equal(n["t"], 0)
    np.testing.assert_array_equal(n["z"], 0)
    angle = np.arctan2(c["y"], c["x"])
    for a, b, bounds in [
        (c["t"], c["z"], [(0, 2), (3, 4)]),
        (angle, c["t"], [(-np.pi, np.pi), (0, 2)]),
    ]:
        cells, *_ = np.histogram2d(a, b, 8, bounds)
        assert cells.sum() == 4096
        # 64 expected each: five standard deviations of independent points, and much less of a rule
        assert np.abs(cells - 64).max() <= (40 if key is not None else 12)


# --- masks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_point_on_the_boundary_is_inside_whatever_its_rounding(dtype):
    shape = Shape(disc, sx.Box(x=(-1.5, 1.5), y=(-1.5, 1.5)))
    angle = np.linspace(0, 2 * np.pi, 1001)
    circle = np.stack([np.cos(angle), np.sin(angle)]).astype(dtype)
    hair = 1e-5 if dtype is np.float32 else 1e-13
    assert np.all(shape.mask(dict(zip("xy", circle))))
    assert not np.any(shape.mask(dict(zip("xy", circle * dtype(1 + hair)))))


@BOTH
def test_masks_broadcast(kind):
    x, y = np.linspace(-1, 0.99, 21), np.linspace(-1, 0.98, 31)  # none on the boundary
    found = made("ellipse", kind).mask({"x": x[:, None], "y": y[None]})
    np.testing.assert_array_equal(found, (x[:, None] / 0.9) ** 2 + (y / 0.5) ** 2 <= 1)


# --- the loss -------------------------------------------------------------------------------------

PARABOLA = [
    [(0.25, one, one), (-0.25, power(2), one), (-0.25, one, power(2))]
]  # (1 - r²)/4, of -Δu = 1 and 0 on the circle


@pytest.fixture
def coarse(monkeypatch):
    """Fewer points on the boundary, each as exact."""
    monkeypatch.setitem(shapes.LINES, 2, 256)


def recipe(network=TINY, **options):
    return sx.Recipe(network=network, **({"points": 12, "precision": "float64"} | options))


def poisson(u):
    return -u.xx - u.yy - 1


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    ("network", "sampler", "kind"),
    [
        (TINY, sx.Uniform(), "signed"),
        (TINY, sx.Grid(), "signed"),
        (TINY, sx.GaussLegendre(), "indicator"),
        (POINTWISE, sx.Uniform(), "indicator"),
        (POINTWISE, sx.GaussLegendre(), "signed"),
    ],
)
def test_the_exact_solution_on_a_disc_has_no_loss(network, sampler, kind):
    """With every kind of condition at once: u = 0, ∂u/∂n = -1/2 and 2u + 3 ∂u/∂n = -3/2 on the
    circle."""
    inside = disc if kind == "signed" else indicator(disc)
    conditions = [
        sx.Dirichlet(0),
        sx.Neumann(-0.5),
        sx.Robin(-1.5, 2, 3, on="boundary"),
        sx.Data([[0.6, 0.2], [0, 0]], [0.15, 0.25]),
    ]
    problem = sx.Problem(SQUARE, poisson, conditions, inside=inside)
    terms, _ = exact_terms(problem, recipe(network, sampler=sampler), PARABOLA)
    rounding = 1e-28 if kind == "signed" else 1e-14  # of normals found from an indicator, squared
    assert terms == pytest.approx(
        dict.fromkeys(("residual", "dirichlet", "neumann", "robin", "data"), 0.0), abs=rounding
    )
    wrong, _ = exact_terms(
        problem, recipe(network, sampler=sampler), [[*PARABOLA[0], (1e-3, growth(1.0), wave(2.0))]]
    )
    assert min(wrong.values()) > 1e-8


@pytest.mark.usefixtures("coarse")
@NETWORKS
@pytest.mark.parametrize("sampler", [sx.Uniform(), sx.GaussLegendre()], ids=["uniform", "gauss"])
def test_terms_are_means_over_what_is_inside(network, sampler):
    """u = e^x sin 2y under conditions it does not meet, against NumPy over the drawn points."""
    conditions = [
        sx.Dirichlet(lambda x, y: x * y),
        sx.Neumann(lambda x: x),
        sx.Dirichlet(0, on="y-", name="cut"),
    ]
    problem = sx.Problem(
        sx.Box(x=(-1, 1), y=(-0.5, 1)), lambda u, x: u.xx + u.y - x, conditions, inside=disc
    )
    terms, (inside, ring, ring_again, cut) = exact_terms(
        problem, recipe(network, sampler=sampler), [[(1.0, growth(1.0), wave(2.0))]]
    )

    def mean(place, values):
        c = place.arrays()
        x, y = (np.asarray(c[a]) for a in "xy")
        weights = np.ones(np.broadcast_shapes(x.shape, y.shape))
        if isinstance(place, sx.Lattice):
            for axis, w in zip(place.axes, place.weights):
                weights = weights * (1.0 if w is None else np.asarray(place.along(axis, w)))
        elif place.weights is not None:
            weights = weights * np.asarray(place.weights)
        return np.average(values(x, y) ** 2 + 0 * weights, weights=weights * (x**2 + y**2 <= 1))

    def u(x, y):
        return np.exp(x) * np.sin(2 * y)

    def slope(x, y):
        return 2 * np.exp(x) * np.cos(2 * y)

    assert mean(inside, lambda x, y: u(x, y) + slope(x, y) - x) == pytest.approx(
        terms["residual"], rel=1e-12
    )
    assert mean(cut, u) == pytest.approx(terms["cut"], rel=1e-12)
    for place, name in ((ring, "dirichlet"), (ring_again, "neumann")):
        x, y = (np.asarray(c) for c in place.coordinates)
        on_circle = np.abs(x**2 + y**2 - 1) < 1e-12
        assert np.all(
            on_circle | (y == -0.5)
        )  # the face that cuts the disc off is part of the boundary
        normal = np.where(on_circle, [x, y], [[0.0], [-1.0]])
        values = (
            u(x, y) - x * y
            if name == "dirichlet"
            else normal[0] * u(x, y) + normal[1] * slope(x, y) - x
        )
        assert np.mean(values**2) == pytest.approx(terms[name], rel=1e-12)
    x = np.asarray(ring.coordinates[0])
    y = np.asarray(ring.coordinates[1])
    chord, arc = math.sqrt(3), 4 * np.pi / 3
    assert np.mean(y == -0.5) == pytest.approx(chord / (chord + arc), abs=0.03)


@pytest.mark.usefixtures("coarse")
@NETWORKS
def test_heat_on_a_disc_counts_the_initial_values_inside(network):
    """u = e^(-2t) sin x sin y solves u_t = Δu."""
    box = sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1))

    def exact(t, x, y):
        return jnp.exp(-2 * t) * jnp.sin(x) * jnp.sin(y)

    conditions = [
        sx.Initial(exact),
        sx.Dirichlet(exact),
        sx.Initial(0, of=lambda u: u.t + 2 * u, name="rate"),
    ]
    problem = sx.Problem(box, lambda u: u.t - u.xx - u.yy, conditions, inside=disc)
    assert [(t.name, t.axis, t.boundary) for t in problem.terms] == [
        ("initial", "t", False),
        ("dirichlet", None, True),
        ("rate", "t", False),
    ]
    solution = [[(1.0, growth(-2.0), wave(1.0), wave(1.0))]]
    terms, (_, start, ring, _) = exact_terms(problem, recipe(network), solution)
    assert terms == pytest.approx(dict.fromkeys(problem.names, 0.0), abs=1e-28)
    t = np.asarray(ring.coordinates[0])
    assert 0 <= t.min() < 0.1
    assert 0.9 < t.max() <= 1
    # x⁴ is added, of which only what is inside counts
    wrong, _ = exact_terms(problem, recipe(network), [[*solution[0], (1.0, one, power(4), one)]])
    x, y = (np.broadcast_to(np.asarray(start.arrays()[a]), start.shape) for a in "xy")
    assert wrong["initial"] == pytest.approx(np.mean(x[x**2 + y**2 <= 1] ** 8), rel=1e-12)


@pytest.mark.usefixtures("coarse")
@NETWORKS
def test_a_cylinder_has_a_curved_side_and_two_flat_faces(network):
    """Dirichlet is the mean over the side plus the means over the parts of the faces z = ±2 that
    are inside."""
    box = sx.Box(x=(-1, 1), y=(-1, 1), z=(-2, 2))
    harmonic = [[(1.0, power(2), one, one), (1.0, one, power(2), one), (-2.0, one, one, power(2))]]

    def exact(x, y, z):
        return x**2 + y**2 - 2 * z**2

    def slope(x, y, z):  # 2 on the side, -8 on both faces
        return jnp.where(jnp.abs(z) == 2, -8.0, 2.0)

    problem = sx.Problem(
        box,
        lambda u: sx.laplacian(u),
        [sx.Dirichlet(exact), sx.Neumann(slope), sx.Neumann(-8, on="z", name="flat")],
        inside=disc,
    )
    assert [(t.name, t.axis, t.sides, t.boundary) for t in problem.terms] == [
        ("dirichlet", None, "", True),
        ("dirichlet", "z", "-+", False),
        ("neumann", None, "", True),
        ("neumann", "z", "-+", False),
        ("flat", "z", "-+", False),
    ]
    terms, _ = exact_terms(problem, recipe(network, points=8), harmonic)
    assert terms == pytest.approx(dict.fromkeys(problem.names, 0.0), abs=1e-26)
    zero = sx.Problem(box, lambda u: sx.laplacian(u), [sx.Dirichlet(0)], inside=disc)
    found, (_, side, faces) = exact_terms(zero, recipe(network, points=8), harmonic)
    z = np.asarray(side.coordinates[2])
    x, y = (np.broadcast_to(np.asarray(faces.arrays()[a]), faces.shape) for a in "xy")
    r2 = (x**2 + y**2)[x**2 + y**2 <= 1]
    assert found["dirichlet"] == pytest.approx(
        np.mean((1 - 2 * z**2) ** 2) + 2 * np.mean((r2 - 8) ** 2), rel=1e-12
    )


# --- solving and measuring ------------------------------------------------------------------------


def parabola(x, y):
    return (1 - x**2 - y**2) / 4


@pytest.fixture(scope="module")
def solution():
    problem = sx.Problem(SQUARE, poisson, [sx.Dirichlet(0)], inside=disc, reference=parabola)
    return untrained(problem, sx.Recipe(TINY, points=8))


@pytest.mark.whole
def test_a_pointwise_network_learns_on_a_shape():
    problem = sx.Problem(
        SQUARE, poisson, [sx.Dirichlet(0)], inside=indicator(disc), reference=parabola
    )
    how = sx.Recipe(
        sx.PINN(width=16, depth=2, body="mlp"),
        points=10,
        steps=300,
        optimiser=sx.Adam(1e-2, "cosine"),
    )
    found = sx.solve(problem, how)
    assert found.history.total[-1] < 1e-2 * found.history.total[0]
    assert found.relative_l2() < 0.3


def test_outside_nothing_is_said(solution):
    x = np.linspace(-1, 1, 41)
    inside = x[:, None] ** 2 + x**2 <= 1 + 1e-9
    values = np.asarray(solution(x=x, y=x))
    np.testing.assert_array_equal(np.isfinite(values), inside)
    np.testing.assert_array_equal(np.isfinite(solution.d(x=2)(x=x, y=x)), inside)
    scattered = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    np.testing.assert_allclose(solution.at(scattered), values.ravel(), rtol=1e-4, atol=1e-6)
    angle = np.linspace(0, 6, 100)
    assert np.all(np.isfinite(solution.at(np.stack([np.cos(angle), np.sin(angle)], 1))))


def test_errors_norms_and_integrals_count_the_inside_alone(solution):
    x, y = np.linspace(-1, 1, 37), np.linspace(-1, 1, 29)
    inside = x[:, None] ** 2 + y**2 <= 1
    ours, true = np.asarray(solution(x=x, y=y), np.float64)[inside], parabola(x[:, None], y)[inside]
    assert solution.relative_l2(x=x, y=y) == pytest.approx(
        np.linalg.norm(ours - true) / np.linalg.norm(true), rel=1e-4
    )
    assert solution.rmse(x=x, y=y) == pytest.approx(np.sqrt(np.mean((ours - true) ** 2)), rel=1e-4)
    rule = sx.quadrature(SQUARE, 48)
    weights = np.asarray(rule.weights[0])[:, None] * np.asarray(rule.weights[1])
    values = np.nan_to_num(np.asarray(solution(x=rule["x"], y=rule["y"]), np.float64))
    assert solution.integral(points=48) == pytest.approx(np.sum(weights * values), rel=1e-4)
    assert solution.norm(points=48) == pytest.approx(np.sqrt(np.sum(weights * values**2)), rel=1e-4)
    np.testing.assert_allclose(
        solution.integral("y", x=rule["x"], points=48),
        values @ np.asarray(rule.weights[1]),
        rtol=1e-3,
        atol=1e-6,
    )
    # through a mask the disc is a staircase
    assert solution.of(lambda u: 0 * u + 1).integral(points=48) == pytest.approx(np.pi, rel=2e-2)


def test_the_fingerprint_knows_the_shape():
    def found(inside, condition=None):
        return sx.Problem(
            SQUARE, poisson, [condition or sx.Dirichlet(0)], inside=inside
        ).fingerprint()

    same = found(lambda x, y: x**2 + y**2 - 1)
    prints = [
        same,
        found(ellipse),
        found(indicator(disc)),
        found(small_disc),
        found(None),
        found(disc, sx.Dirichlet(0, on=["x", "y"])),
    ]
    assert found(disc) == same
    assert len(set(prints)) == len(prints)


# --- parts of a boundary, windows of time, what is infinite outside -------------------------------


def solved(problem, functions, points, **options):
    """Solved for on a rule of quadrature, with a coefficient for every product."""
    ranks = dict.fromkeys(problem.box.axes, functions)
    network = sx.SPINN(rank=ranks, depth=0, functions=functions, merge="tucker")
    how = sx.Recipe(
        network, points, optimiser=sx.Solve(6), sampler=sx.GaussLegendre(), precision="float64"
    )
    return sx.solve(problem, how, progress=False, **options)


def test_a_condition_on_a_part_of_a_face_counts_there_alone():
    """x is zero on the lower half of x+ only as far as it is asked to be."""
    problem = sx.Problem(
        SQUARE,
        lambda u: u.xx + u.yy,
        [
            sx.Dirichlet(lambda y: y, on="x+", where=lambda y: y > 0),
            sx.Neumann(
                lambda y: 3 * y, on="x+", where=lambda x, y: (y <= 0) & (x > 0), name="below"
            ),
        ],
    )
    for network in (TINY, POINTWISE):
        terms, (_, face, _) = exact_terms(
            problem, recipe(network), [[(1.0, power(1), power(2))]]
        )  # u = x y²
        y = np.asarray(face.arrays()["y"]).ravel()
        above, below = y[y > 0], y[y <= 0]
        assert terms["dirichlet"] == pytest.approx(np.mean((above**2 - above) ** 2), rel=1e-12)
        if network is TINY:  # scattered points are drawn for each condition
            assert terms["below"] == pytest.approx(np.mean((below**2 - 3 * below) ** 2), rel=1e-12)


def test_a_ring_with_a_slope_on_one_of_its_circles():
    """u = x² - y²: its values on the outer circle, its slope towards the middle on the inner
    one."""
    exact = lambda x, y: x**2 - y**2  # noqa: E731
    problem = sx.Problem(
        SQUARE,
        lambda u: u.xx + u.yy,
        [
            sx.Dirichlet(exact, where=lambda x, y: x**2 + y**2 > 0.4),
            sx.Neumann(lambda x, y: -2 * exact(x, y) / 0.4, where=lambda x, y: x**2 + y**2 < 0.4),
        ],
        inside=annulus,
        reference=exact,
    )
    assert solved(problem, 5, 16).relative_l2() < 1e-10


def timed(t, x, y):
    return jnp.exp(-t) * x


@pytest.mark.whole
@pytest.mark.usefixtures("coarse")
def test_windows_of_time_on_a_shape_have_boundaries_of_their_own():
    problem = sx.Problem(
        TIMED,
        lambda u, t, x: u.t - u.xx - u.yy + jnp.exp(-t) * x,
        [sx.Initial(timed), sx.Dirichlet(timed)],
        inside=disc,
        reference=timed,
    )
    found = solved(problem, 5, 8, windows=2)
    assert max(window.relative_l2() for window in found.windows) < 1e-5


@pytest.mark.usefixtures("coarse")
@NETWORKS
def test_what_is_infinite_outside_leaves_the_gradient_finite(network):
    """u / r² in a ring whose hole has a point of the lattice at r = 0."""
    problem = sx.Problem(
        SQUARE,
        lambda u, x, y: u.xx + u.yy - u / (x**2 + y**2),
        [sx.Dirichlet(1.0), sx.Condition(0, on="y-", of=lambda u, x: u / x)],
        inside=annulus,
    )
    how = sx.Recipe(network, 9, 5, sampler=sx.GaussLegendre())
    found = sx.solve(problem, how, progress=False)
    assert np.all(np.isfinite(found.history.total))


# --- bad input ------------------------------------------------------------------------------------


def problem(*conditions, inside=disc, box=SQUARE, **options):
    return sx.Problem(box, poisson, conditions, inside=inside, **options)


two = jnp.stack
REFUSED = [
    (lambda: problem(inside=3), "inside must be a function | got 3 | inside=lambda x, y:"),
    (lambda: problem(inside=lambda x, w: x + w), "inside | 'w' | coordinates: x, y"),
    (lambda: problem(inside=lambda: 1.0), "inside depends on no coordinate | x, y"),
    (lambda: problem(inside=lambda t, x: x - t, box=TIMED), "depends on t | function of space"),
    (lambda: problem(inside=lambda x: 0 * x.astype(int)), "true or false, or a signed distance"),
    (lambda: problem(inside=lambda x, y: two([x, y])), "has shape (2, 2) | one value per point"),
    (lambda: problem(inside=lambda x, y: None), "inside must return | None"),
    (lambda: problem(inside=lambda x: np.sin(x)), "inside | jnp.sin(x) instead of np.sin(x)"),
    (lambda: problem(inside=lambda x, y: x > 0 and y > 0), "inside | Python's if"),
    (lambda: problem(inside=lambda x: 4 - x**2), "is positive | negative inside | check its sign"),
    (lambda: problem(inside=lambda x: x > 2), "inside is false | true inside | Box(x=(-1, 1)"),
    (lambda: problem(inside=lambda x: x**2 - 4), "holds everywhere | leave it out | bounding box"),
    (lambda: problem(inside=lambda x: x < 2), "inside holds everywhere"),
    (
        lambda: problem(sx.Dirichlet(0, on=["x", "boundary"]), inside=None),
        "dirichlet | on='boundary' | name faces | inside=lambda",
    ),
    (lambda: problem(sx.Dirichlet(0, on="bounds")), "dirichlet: on | 'bounds'"),
    (lambda: problem(sx.Dirichlet(0, on=5)), "dirichlet: on | got 5 | 'x-'"),
    (lambda: problem(sx.Dirichlet(0, hard=True)), "dirichlet | hard=True | write hard=False"),
    (lambda: problem(sx.Dirichlet(np.zeros(5))), "value is an array | coordinates | Data(points"),
    (lambda: problem(sx.Dirichlet(math.nan)), "dirichlet: value | finite | nan"),
    (lambda: problem(sx.Dirichlet(None)), "dirichlet: value | None"),
    (lambda: problem(sx.Dirichlet(lambda q: q)), "dirichlet: value | 'q'"),
    (lambda: problem(sx.Dirichlet(lambda x: two([x, x]))), "dirichlet: value | value per point"),
    (lambda: problem(sx.Neumann(0, of=lambda u: u.value)), "neumann: of must return a field"),
    (lambda: problem(sx.Data([[0.9, 0.9], [0, 0]], [0, 0])), "points | 1 of 2 | outside the shape"),
    (lambda: problem(sx.Periodic()), "periodic | shape depends on every axis | leave it out"),
    (lambda: problem(sx.Periodic("y", hard=False)), "periodic | on='y' | shape depends on y"),
    (lambda: problem(sx.Periodic("boundary")), "periodic | no opposite side | on='y'"),
    (lambda: problem(sx.Dirichlet(0, where=3)), "where must be a function of coordinates | got 3"),
    (lambda: problem(sx.Dirichlet(0, where=lambda x: x)), "where must be true or false | float"),
    (lambda: problem(sx.Dirichlet(0, where=lambda x: x > 2)), "is true nowhere on the boundary"),
    (
        lambda: problem(sx.Neumann(0, on="x-", where=lambda y: y > 2)),
        "neumann: where is true nowhere on x-",
    ),
    (lambda: problem(sx.Dirichlet(0, where=lambda q: q > 0)), "dirichlet: where | 'q'"),
    (
        lambda: problem(sx.Dirichlet(0, on="x-", hard=True, where=lambda y: y > 0), inside=None),
        "where | built in",
    ),
]


@pytest.mark.parametrize(("build", "words"), REFUSED)
def test_bad_input_is_named(build, words):
    with pytest.raises(sx.InputError) as error:
        build()
    for word in words.split(" | "):
        assert word in str(error.value)


def test_what_is_no_mistake_is_taken():
    angle = np.linspace(0, 6, 50)
    problem(
        sx.Data(np.stack([np.cos(angle), np.sin(angle)], 1), 0 * angle)
    )  # on the circle, to rounding
    along_z = problem(sx.Periodic(), sx.Dirichlet(0), box=sx.Box(x=(-1, 1), y=(-1, 1), z=(0, 1)))
    assert along_z.periodic == ("z",)
    half = problem(sx.Dirichlet(0, on="x-", hard=True), box=sx.Box(x=(0, 1), y=(-1, 1)))
    assert half.walls == (("-",), ("",))
    problem(sx.Dirichlet(lambda k: k, on=("boundary",)), unknowns={"k": 1.0})
