"""References that are computed: their measured orders and errors, the facts they must obey, and the
cache they are kept in."""

import shutil
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem
from measuring import order
from scipy.integrate import RK45
from skfem.models.poisson import laplace, unit_load

import separax as sx
from separax.core.errors import InputError
from separax.paper.references import computed as cache
from separax.paper.references import diffusion, lshape
from separax.paper.references.computed import Axis, Computed, Table

pytestmark = pytest.mark.usefixtures("own_cache")


def gauss(ends, points=3):
    """Gauss quadrature on each of the intervals between `ends`: nodes and weights."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    half = np.diff(ends)[:, None] / 2
    return ((ends[:-1] + ends[1:])[:, None] / 2 + half * nodes).ravel(), (half * weights).ravel()


# --- tables and lazy functions --------------------------------------------------------------------


def smooth(t, x, y):
    return np.exp(-t) * np.sin(2 * x + y) + x * y


def table(nodes, stencil=6):
    t, x, y = (Axis(np.linspace(a, 1, nodes), stencil) for a in (0, -1, -1))
    return Table((t, x, y), smooth(t.nodes[:, None, None], x.nodes[:, None], y.nodes))


@pytest.fixture
def made():
    """A lazy function, and the list of the times it was made."""
    made = []
    return Computed("smooth", ("t", "x", "y"), lambda: made.append(1) or table(20)), made


def lattice(counts=(5, 4, 3), seed=0):
    draw = np.random.default_rng(seed)
    t, x, y = (
        draw.uniform(0, 1, counts[0]),
        draw.uniform(-1, 1, counts[1]),
        draw.uniform(-1, 1, counts[2]),
    )
    return t[:, None, None], x[:, None], y


@pytest.mark.parametrize("stencil", [2, 4, 5, 8])
def test_a_table_converges_with_the_order_of_its_stencil(stencil):
    place, sizes = lattice((40, 40, 40)), np.array([12, 24, 48])
    errors = [np.abs(table(n + 1, stencil)(*place) - smooth(*place)).max() for n in sizes]
    assert order(sizes, errors) > stencil - 0.5


def test_a_lattice_and_scattered_points_get_the_same_values(made):
    function, _ = made
    place = lattice()
    values = function(*place)
    assert values.shape == (5, 4, 3)
    points = [c.ravel() for c in np.broadcast_arrays(*place)]
    np.testing.assert_allclose(function(*points).reshape(5, 4, 3), values, atol=1e-14)
    # the axes of the result may come in any order, and some arrays may be numbers
    t, x, y = (c.ravel() for c in place)
    np.testing.assert_allclose(
        function(t, x[:, None, None], y[:, None]), values.transpose(1, 2, 0), atol=1e-14
    )
    np.testing.assert_allclose(function(t[1], x[:, None], y), values[1], atol=1e-14)
    np.testing.assert_allclose(function(t[:, None], x[2], y[None, :]), values[:, 2], atol=1e-14)
    np.testing.assert_allclose(function(t[0], x[:3], y), np.diag(values[0, :3]), atol=1e-14)
    assert function(t[0], x[0], y[0]).shape == ()
    assert function(t[:0], x[:0], y[:0]).shape == (0,)


def test_nothing_is_made_until_there_are_numbers_and_then_only_once(made):
    function, times = made
    assert function.lazy
    shape = jax.eval_shape(function, *(jax.ShapeDtypeStruct((3, 1), jnp.float32),) * 3)
    assert (shape.shape, shape.dtype, times) == ((3, 1), jnp.float32, [])
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1)), lambda u: u.t - u.xx, reference=function
    )
    assert times == []
    place = problem.box.lattice(4)
    found = problem.reference_values(place.arrays(), place.shape, problem.reference)["u"]
    np.testing.assert_allclose(found, smooth(*map(np.asarray, place.arrays().values())), atol=1e-3)
    function(0.1, 0.2, 0.3)
    assert times == [1]


@pytest.mark.parametrize("double", [False, True])
def test_the_same_values_come_out_inside_of_jit_and_vmap(made, double):
    function, _ = made
    with jax.enable_x64(double):
        place = [jnp.asarray(c) for c in lattice()]
        values = function(*place)
        assert values.dtype == place[0].dtype == (jnp.float64 if double else jnp.float32)
        np.testing.assert_array_equal(jax.jit(function)(*place), values)
        near = {"rtol": 0, "atol": 1e-14 if double else 1e-6}
        partly = jax.jit(lambda t: function(t, 0.1, y=0.2))(place[0])
        np.testing.assert_allclose(partly, function(place[0], 0.1, 0.2), **near)
        points = [jnp.ravel(c) for c in jnp.broadcast_arrays(*place)]
        np.testing.assert_allclose(jax.vmap(function)(*points), function(*points), **near)
        at_each_t = jax.vmap(function, (0, None, None))(points[0], 0.1, 0.2)
        np.testing.assert_allclose(at_each_t, function(points[0], 0.1, 0.2), **near)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.1, 0.2), "y"),
        ((0.1, 0.2, 0.3, 0.4), "t, x, y"),
        ((np.zeros(2), np.zeros(3), 0.0), "t (2,)"),
    ],
)
def test_a_call_that_cannot_be_is_refused_in_words(made, arguments, words):
    with pytest.raises(InputError) as error:
        made[0](*arguments)
    assert words in str(error.value)
    assert "smooth" in str(error.value)


# --- the cache ------------------------------------------------------------------------------------


class Work:
    """Something to compute that counts how often it was."""

    def __init__(self):
        self.done = 0

    def __call__(self):
        self.done += 1
        return {"a": np.arange(6.0).reshape(2, 3), "b": np.array(7), "c": np.array([1 + 2j])}

    def same(self, found):
        return found.keys() == self().keys() and all(
            np.array_equal(found[k], v) and found[k].dtype == v.dtype and found[k].shape == v.shape
            for k, v in self().items()
        )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPARAX_CACHE", str(tmp_path / "some" / "where"))
    return tmp_path / "some" / "where"


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("silent")
def test_what_was_computed_is_found_again_and_other_settings_are_another_file(here):
    work = Work()
    first = cache.cached("work", {"n": 3, "version": 1}, work)
    again = cache.cached("work", {"version": 1, "n": 3}, work)
    assert work.done == 1
    assert work.same(first)
    assert work.same(again)
    work.done = 0
    cache.cached("work", {"n": 3, "version": 2}, work)
    cache.cached("work", {"n": 4, "version": 1}, work)
    cache.cached("other", {"n": 3, "version": 1}, work)
    assert work.done == 3
    assert sorted(f.name.split("-")[0] for f in here.iterdir()) == ["other", "work", "work", "work"]


def truncate(path, other):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path, other):
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(5).tobytes())] ^= 1  # in the last number of `a`
    path.write_bytes(content)


def empty(path, other):
    path.write_bytes(b"")


def swap(path, other):
    shutil.copy(other, path)


def change(path, other):
    """A whole and readable file, but with other numbers."""
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **arrays | {"a": arrays["a"] + 1e-9})


def forget(path, other):
    np.savez(path, a=np.zeros(3))


def pickles(path, other):
    np.savez(path, a=np.array([{}], dtype=object))


@pytest.mark.parametrize("damage", [truncate, flip, empty, swap, change, forget, pickles])
def test_a_damaged_file_is_computed_again_with_a_word(here, damage):
    work = Work()
    cache.cached("work", {"n": 2}, work)
    (other,) = here.iterdir()
    cache.cached("work", {"n": 3}, work)
    (path,) = set(here.iterdir()) - {other}
    damage(path, other)
    work.done = 0
    with pytest.warns(UserWarning, match="computed again") as said:
        found = cache.cached("work", {"n": 3}, work)
    assert (work.done, len(said)) == (1, 1)
    assert str(path) in str(said[0].message)
    assert work.same(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work.done = 0
        cache.cached("work", {"n": 3}, work)  # it was repaired
    assert work.done == 0


def test_whichever_byte_is_flipped_the_arrays_are_right(here):
    work = Work()
    cache.cached("work", {}, work)
    (path,) = here.iterdir()
    content = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(0, len(content), 3):
            path.write_bytes(content[:i] + bytes([content[i] ^ 0x55]) + content[i + 1 :])
            assert work.same(cache.cached("work", {}, work)), i


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("SEPARAX_CACHE", str(tmp_path / "file" / "below"))
    work = Work()
    with pytest.warns(UserWarning, match="cannot be written.*SEPARAX_CACHE"):
        assert work.same(cache.cached("work", {}, work))


# --- nonlinear diffusion --------------------------------------------------------------------------

EDGES = 1 - np.geomspace(1e-5, 1, 24)  # crowded at the boundary, as the layer is
EDGES = np.unique(np.r_[-1, -EDGES, EDGES, 1, np.linspace(-0.9, 0.9, 37)])
SPACE, SPACE_WEIGHTS = gauss(EDGES)
TIME, TIME_WEIGHTS = gauss(np.linspace(0, 1, 17) ** 3)


def box_norm(values):
    return np.sqrt(
        np.einsum(
            "txy,t,x,y->", values**2, TIME_WEIGHTS, SPACE_WEIGHTS, SPACE_WEIGHTS, optimize=True
        )
    )


def on_box(function):
    return function(TIME[:, None, None], SPACE[:, None], SPACE)


@pytest.fixture(scope="module")
def truth():
    return on_box(diffusion.reference)


def away(solution, truth):
    return box_norm(on_box(diffusion.interpolated(solution)) - truth) / box_norm(truth)


def test_diffusion_converges_faster_than_any_finite_difference(truth):
    sizes = np.array([48, 64, 96])
    errors = [away(diffusion.solve(n, 24, 1e-7), truth) for n in sizes]
    assert order(sizes, errors) > 4
    assert errors[-1] < 1e-4


def test_the_error_in_time_follows_the_tolerance():
    fine = diffusion.solve(48, 4, 1e-12)["u"]
    tolerances = np.array([1e-4, 1e-5, 1e-6, 1e-7, 1e-8])
    errors = np.array(
        [np.abs(diffusion.solve(48, 4, tolerance)["u"] - fine).max() for tolerance in tolerances]
    )
    assert (errors < 10 * tolerances).all()


def test_diffusion_agrees_with_the_exact_solution_of_barenblatt():
    """u = (C - r²/(16 √s))₊ / √s with s = s₀ + α t/2: a kink that travels, never reaching the
    boundary."""

    def exact(t, x, y):
        root = np.sqrt(0.01 + diffusion.ALPHA * t / 2)
        return np.maximum(0.15 - (x**2 + y**2) / (16 * root), 0) / root

    def start(x, y):
        return exact(0, x, y)

    values, sizes = on_box(exact), np.array([32, 48, 64, 96])
    found = [
        on_box(diffusion.interpolated(diffusion.solve(n, 16, 1e-7, start), start)) for n in sizes
    ]
    errors = [box_norm(u - values) / box_norm(values) for u in found]
    assert order(sizes, errors) > 1.3  # that of a kink between nodes
    assert errors[-1] < 5e-3


def test_the_edge_where_the_conditions_of_diffusion_disagree():
    """What docs/understand/measured.md says of it: nobody who keeps the wall at zero comes closer
    on the lattice of the catalogue."""
    t, x = np.linspace(0, 1, 101), np.linspace(-1, 1, 101)
    values = diffusion.reference(t[:, None, None], x[:, None], x)
    wall = np.max(np.abs(np.broadcast_arrays(x[:, None], x)), axis=0) == 1
    assert np.max(values[0][wall]) == pytest.approx(0.0094, abs=5e-5)
    assert not np.any(values[1:, wall])
    assert np.linalg.norm(values[0][wall]) / np.linalg.norm(values) == pytest.approx(
        4.5e-4, abs=5e-6
    )


def test_mirrored_initial_values_give_the_mirrored_solution():
    plain = diffusion.solve(32, 4, 1e-6)["u"]
    turned = diffusion.solve(32, 4, 1e-6, lambda x, y: diffusion.initial(y, x))["u"]
    mirrored = diffusion.solve(32, 4, 1e-6, lambda x, y: diffusion.initial(-x, y))["u"]
    np.testing.assert_allclose(turned, plain.transpose(0, 2, 1), atol=1e-12)
    np.testing.assert_allclose(mirrored, plain[:, ::-1], atol=1e-7)


def finite_differences(intervals, instants):
    """The same equation by second differences on nodes graded by a formula, so that half the
    intervals nest: x and u."""
    s = np.linspace(-1, 1, intervals + 1)
    x = 0.1 * s + 0.9 * np.sin(np.pi * s / 2)
    h = np.diff(x)
    left, right = diffusion.ALPHA / (h[1:] + h[:-1]) / np.array([h[:-1], h[1:]])
    u, inner = np.zeros((len(instants) + 1, len(x), len(x))), (len(x) - 2,) * 2
    u[0, 1:-1, 1:-1] = diffusion.initial(x[1:-1, None], x[1:-1])
    w = np.zeros_like(u[0])

    def rate(t, flat):
        w[1:-1, 1:-1] = flat.reshape(inner) * np.abs(flat.reshape(inner))
        middle = w[1:-1, 1:-1]
        along_x = left[:, None] * (w[:-2, 1:-1] - middle) + right[:, None] * (w[2:, 1:-1] - middle)
        return (along_x + left * (w[1:-1, :-2] - middle) + right * (w[1:-1, 2:] - middle)).ravel()

    for i, (start, end) in enumerate(zip((0, *instants), instants)):
        method = RK45(
            rate, start, u[i, 1:-1, 1:-1].ravel(), end, rtol=1e-7, atol=1e-8, first_step=1e-6
        )
        with np.errstate(all="ignore"):
            while method.status == "running":
                method.step()
        u[i + 1, 1:-1, 1:-1] = method.y.reshape(inner)
    return x, u[1:]


def against_finite_differences(sizes):
    """Relative L2 differences between finite differences and the reference, per instant;
    extrapolated at the end."""
    instants, found, differences = (0.1, 0.5, 1.0), [], []
    for n in sizes:
        x, u = finite_differences(n, instants)
        found.append((x, u))
    for x, u in [*found, (found[-2][0], (4 * found[-1][1][:, ::2, ::2] - found[-2][1]) / 3)]:
        true, weights = (
            diffusion.reference(np.array(instants)[:, None, None], x[:, None], x),
            np.gradient(x),
        )
        size = [np.sqrt(np.einsum("txy,x,y->t", v**2, weights, weights)) for v in (u - true, true)]
        differences.append(size[0] / size[1])
    return np.array(differences)


def test_diffusion_agrees_with_another_method():
    *plain, extrapolated = against_finite_differences([50, 100, 200])
    assert order([50, 100, 200], np.max(plain, axis=1)) == pytest.approx(2, abs=0.1)
    assert extrapolated.max() < 6e-6


def test_diffusion_obeys_its_maximum_principle_and_its_conditions(truth):
    x = np.linspace(-1, 1, 81)
    t = np.linspace(0, 1, 21)
    u = diffusion.reference(t[:, None, None], x[:, None], x)
    np.testing.assert_array_equal(u[0], diffusion.initial(x[:, None], x))
    assert (u[1:, [0, -1]] == 0).all()
    assert (u[1:, :, [0, -1]] == 0).all()
    assert u.min() >= 0
    assert (np.diff(u.max(axis=(1, 2))) < 0).all()
    assert np.isfinite(truth).all()
    cubes = np.einsum("txy,x,y->t", truth**3, SPACE_WEIGHTS, SPACE_WEIGHTS, optimize=True)
    assert (np.diff(cubes) < 0).all()  # its rate is -3α/2 ∫|∇u²|²


def test_diffusion_loses_through_the_boundary_what_it_loses():
    """d/dt ∫u = α/2 ∮ ∂u²/∂n, integrated over t in [0.2, 1]."""
    t, weights = gauss(np.linspace(0.2, 1, 5))
    y, y_weights = gauss(np.linspace(-1, 1, 41))
    near = 1e-4  # u² leaves the boundary like a straight line
    flux = 0
    for side in (-1, 1):
        inner = np.array([side * (1 - near)])
        flux += np.einsum(
            "txy,t,y->",
            diffusion.reference(t[:, None, None], inner[:, None], y) ** 2,
            weights,
            y_weights,
        )
        flux += np.einsum(
            "txy,t,x->",
            diffusion.reference(t[:, None, None], y[:, None], inner) ** 2,
            weights,
            y_weights,
        )
    start, end = diffusion.reference(np.array([0.2, 1])[:, None, None], SPACE[:, None], SPACE)
    lost = SPACE_WEIGHTS @ (start - end) @ SPACE_WEIGHTS
    assert lost > 0
    assert lost == pytest.approx(diffusion.ALPHA / 2 * flux / near, rel=2e-2)


@pytest.mark.parametrize("bad", [{"resolution": 2.5}, {"instants": 0}, {"tolerance": 0}])
def test_diffusion_refuses_what_it_cannot_solve_with(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        diffusion.solve(**bad)


@pytest.mark.slow
def test_the_stated_error_of_diffusion(truth):
    assert away(diffusion.solve(224, 64, 1e-9), truth) < diffusion.STATED_ERROR


# --- the L-shape ----------------------------------------------------------------------------------


def test_the_expansion_converges_exponentially_and_its_error_is_known():
    """The error is harmonic, so it is nowhere larger than on the boundary, where u should be
    zero."""
    sizes = np.array([6, 9, 12, 15])
    solutions = [lshape.solve(n, 2 * n) for n in sizes]
    misfits = [float(s["misfit"]) for s in solutions]
    assert -np.polyfit(sizes, np.log10(misfits), 1)[0] > 0.4  # digits per term
    x = np.linspace(-1, 1, 101)
    true = lshape.reference(x[:, None], x)
    for solution, misfit in zip(solutions, misfits):
        assert np.nanmax(np.abs(lshape.expanded(solution)(x[:, None], x) - true)) <= 1.01 * misfit
    assert lshape.solve()["misfit"] < 1e-12
    assert np.nanmax(np.abs(lshape.expanded(lshape.solve(30, 60))(x[:, None], x) - true)) < 1e-12


def test_the_expansion_solves_the_equation_on_the_l_shape_only():
    h = 1e-3
    x, y = np.array([-0.5, 0.3, -0.9, -0.2]), np.array([0.2, -0.7, -0.9, -0.2])
    u = lshape.reference
    laplacian = (u(x + h, y) + u(x - h, y) + u(x, y + h) + u(x, y - h) - 4 * u(x, y)) / h**2
    np.testing.assert_allclose(laplacian, -1, atol=1e-4)
    x = np.linspace(-1, 1, 101)
    values = u(x[:, None], x)
    outside = (x[:, None] > 0) & (x > 0)
    np.testing.assert_array_equal(np.isnan(values), outside)
    np.testing.assert_allclose(values, values.T, atol=1e-12)
    assert np.nanmin(values) > -1e-12
    square = 0.2946854  # the largest value on the square [-1, 1]², which holds Ω
    assert np.nanmax(values) < square
    assert np.isnan(u(1.1, -0.5))


def finite_elements(intervals, grading, element):
    """Relative L2 difference between finite elements and the expansion; nodes at ±(i/n)^grading
    along both axes."""
    half = np.linspace(0, 1, intervals // 2 + 1) ** grading
    nodes = np.r_[-half[:0:-1], half]
    mesh = skfem.MeshTri.init_tensor(nodes, nodes)
    middle = mesh.p[:, mesh.t].mean(axis=1)
    mesh = mesh.remove_elements(np.flatnonzero((middle > 0).all(axis=0)))
    basis = skfem.Basis(mesh, element, intorder=6)
    u = skfem.solve(
        *skfem.condense(laplace.assemble(basis), unit_load.assemble(basis), D=basis.get_dofs())
    )
    true = lshape.reference(*np.asarray(basis.global_coordinates()))
    difference = np.asarray(basis.interpolate(u)) - true
    return np.sqrt((difference**2 * basis.dx).sum() / (true**2 * basis.dx).sum())


@pytest.mark.parametrize(
    ("grading", "element", "expected", "finest"),
    [
        (
            1,
            skfem.ElementTriP1(),
            4 / 3,
            3e-3,
        ),  # what the corner leaves of order two on a regular mesh
        (1.5, skfem.ElementTriP1(), 2, 2e-3),
        (2, skfem.ElementTriP2(), 3, 2e-5),
    ],
)
def test_finite_elements_converge_to_the_expansion_with_the_order_of_theory(
    grading, element, expected, finest
):
    sizes = np.array([24, 48, 96])
    errors = [finite_elements(n, grading, element) for n in sizes]
    assert order(sizes, errors) == pytest.approx(expected, abs=0.25)
    assert errors[-1] < finest


@pytest.mark.parametrize("bad", [{"singular": -1}, {"degree": 1.5}])
def test_the_expansion_refuses_degrees_that_are_none(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        lshape.solve(**bad)
