"""Ranks: exact ones are recovered, two axes agree with Eckart and Young, errors are those of the factors that come with them."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from separax.cli.app import app
from separax.core.errors import InputError, MemoryPrediction
from separax.domain.box import Box
from separax.domain.samplers import quadrature
from separax.separable import rank
from separax.separable.fitting import _conjugate_gradients, _dense, _gradient
from separax.separable.tucker import tucker_by_svd

CUBE = Box(x=(-1, 1), y=(-1, 1), z=(-1, 1))
PLANE = Box(t=(0, 10), x=(-1, 1), y=(-1, 1))


def helmholtz(x, y, z):
    return jnp.sin(4 * jnp.pi * x) * jnp.sin(4 * jnp.pi * y) * jnp.sin(3 * jnp.pi * z)


def klein_gordon(t, x, y):
    return (x + y) * jnp.cos(2 * t) + x * y * jnp.sin(2 * t)


def smooth(x, y):
    return jnp.exp(-x * y) + jnp.sin(3 * x * x - y)


def relative_l2(found, function, box, points):
    """Of a fit's factors, by quadrature and without separax's algebra."""
    with jax.enable_x64(True):
        lattice = quadrature(box, points)
        exact = np.broadcast_to(np.asarray(function(**lattice.arrays())), lattice.shape)
    letters = "abcdef"[: box.dimension]
    made = np.einsum(
        ",".join(c + "r" for c in letters) + "->" + letters,
        *(np.asarray(jet[0]) for jet in found.function.jets),
    )
    weight = np.einsum(",".join(letters) + "->" + letters, *map(np.asarray, lattice.weights))
    return np.sqrt(np.sum(weight * (made - exact) ** 2) / np.sum(weight * exact**2))


# --- two axes ---------------------------------------------------------------------------------------------------------


def test_two_axes_are_eckart_young():
    box, points = Box(x=(0, 2), y=(-1, 3)), {"x": 40, "y": 30}
    with jax.enable_x64(True):
        lattice = quadrature(box, points)
        values = np.asarray(smooth(**lattice.arrays()))
    x, y = (np.sqrt(np.asarray(w)) for w in lattice.weights)
    sizes = np.linalg.svd(x[:, None] * values * y, compute_uv=False)
    for row in rank.study(smooth, box, range(1, 12), points):
        expected = np.linalg.norm(sizes[row.rank :]) / np.linalg.norm(sizes)
        assert row.relative_l2 == pytest.approx(expected, rel=1e-6, abs=1e-14)


def test_singular_values_are_those_of_the_function_not_of_the_lattice():
    few, many = (
        rank.study(smooth, Box(x=(0, 2), y=(-1, 3)), (1, 3, 5), points) for points in (48, 96)
    )
    for a, b in zip(few, many):
        assert a.relative_l2 == pytest.approx(b.relative_l2, rel=1e-8)
        assert a.resolution < 1e-10


# --- three axes and more ----------------------------------------------------------------------------------------------


def test_klein_gordon_has_rank_three():
    one, two, three, four = rank.fits_of(klein_gordon, PLANE, (1, 2, 3, 4), points=32)
    assert one.relative_l2 > 0.5
    assert three.relative_l2 < 1e-12
    assert four.relative_l2 < 1e-12
    # it is a limit of sums of two products, whose terms grow: small errors come with cancellation, and never reach zero
    assert two.relative_l2 > 1e-9
    assert two.cancellation > 10
    assert four.cancellation < 10


def test_six_axes():
    box = Box(t=(0, 1), **{f"x{i}": (-1, 1) for i in range(5)})

    def diffusion(t, x0, x1, x2, x3, x4):
        return x0**2 + x1**2 + x2**2 + x3**2 + x4**2 + 10 * t

    rows = rank.study(diffusion, box, (1, 2, 6), points=5)
    assert [row.relative_l2 for row in rows] == sorted(
        (row.relative_l2 for row in rows), reverse=True
    )
    assert rows[1].relative_l2 > 1e-8
    assert rows[2].relative_l2 < 1e-10


@given(number=st.integers(1, 4), dimension=st.integers(3, 4), seed=st.integers(0, 10**6))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_sums_of_products_are_found(number, dimension, seed):
    """A sum of r random products (of quintics) is fitted exactly by r products, and better than by r - 1."""
    coefficients = np.random.default_rng(seed).standard_normal((dimension, 6, number))
    names = ("t", "x", "y", "z")[:dimension]

    def factor(axis, x):
        return sum(
            c * jnp.cos(k * jnp.arccos(x))[..., None] for k, c in enumerate(coefficients[axis])
        )

    def function(t, x, y, z=None):
        given = [v for v in (t, x, y, z) if v is not None]
        return jnp.sum(
            jnp.prod(
                jnp.stack(jnp.broadcast_arrays(*map(factor, range(dimension), given))), axis=0
            ),
            axis=-1,
        )

    rows = rank.study(
        function, Box(**dict.fromkeys(names, (-1, 1))), range(1, number + 1), points=8, starts=4
    )
    assert rows[-1].relative_l2 < 1e-9
    assert number == 1 or rows[-2].relative_l2 > 1e-6


def test_errors_fall_and_are_those_of_the_factors():
    def function(x, y, z):
        return 1 / (4 + x + y * z)

    found = rank.fits_of(function, CUBE, (1, 2, 3, 4), points=12)
    errors = [f.relative_l2 for f in found]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3
    for f in found:
        assert f.relative_l2 == pytest.approx(
            relative_l2(f, function, CUBE, 12), rel=1e-4, abs=1e-14
        )
        assert f.function.shape == (12, 12, 12)
        assert f.function.jets[0].dtype == jnp.float64
        assert f.function.rank == f.rank


def test_tucker_is_exact():
    values = np.random.default_rng(0).standard_normal((5, 3, 6))
    values[:, 2] = values[:, 0]
    core, (a, b, c) = tucker_by_svd(values)
    assert core.shape == (5, 2, 6)
    np.testing.assert_allclose(np.einsum("abc,ia,jb,kc->ijk", core, a, b, c), values, atol=1e-13)
    np.testing.assert_allclose(b.T @ b, np.eye(2), atol=1e-14)


def test_the_jacobian_and_the_gram_matrices_agree():
    """The two ways to solve for a step of a fit are the same step."""
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((n, 2)) for n in (4, 3, 5)]
    rest = rng.standard_normal((4, 3, 5))
    gradient = _gradient(rest, factors)
    direct = _dense(rest, factors, gradient)(1e-1)
    grams = [f.T @ f for f in factors]
    others = [grams[1] * grams[2], grams[0] * grams[2], grams[0] * grams[1]]
    pairs = {(1, 0): grams[2], (2, 0): grams[1], (2, 1): grams[0]}
    # the damping is relative to a scale which the two take differently
    blocks = [np.einsum("br,cr,ai->abcir", factors[1], factors[2], np.eye(4)).reshape(60, -1)]
    blocks.append(np.einsum("ar,cr,bi->abcir", factors[0], factors[2], np.eye(3)).reshape(60, -1))
    blocks.append(np.einsum("ar,br,ci->abcir", factors[0], factors[1], np.eye(5)).reshape(60, -1))
    jacobian = np.concatenate(blocks, 1)
    np.testing.assert_allclose(
        np.concatenate([g.ravel() for g in gradient]), jacobian.T @ rest.ravel(), atol=1e-12
    )
    damping = 1e-1 * np.linalg.norm(jacobian, 2) ** 2
    iterated = _conjugate_gradients(factors, others, pairs, gradient, damping, 1e-9)
    for a, b in zip(direct, iterated):
        np.testing.assert_allclose(a, b, atol=1e-7)
    expected = np.linalg.solve(
        jacobian.T @ jacobian + damping * np.eye(24), -jacobian.T @ rest.ravel()
    )
    np.testing.assert_allclose(np.concatenate([s.ravel() for s in direct]), expected, atol=1e-12)


def test_a_lattice_too_coarse_says_so():
    coarse, fine = (rank.fit(helmholtz, CUBE, 1, points=n).resolution for n in (12, 40))
    assert coarse > 0.1
    assert fine < 1e-8


def test_needed():
    rows = [rank.Row(1, 0.5, 1, 0), rank.Row(2, 1e-2, 1, 0), rank.Row(4, 1e-4, 1, 0)]
    assert rank.needed(rows, 1e-2) == 2
    assert rank.needed(rows, 1e-3) == 4
    assert rank.needed(rows, 1e-9) is None
    assert rank.needed([row._replace(resolution=2e-3) for row in rows], 1e-2) == 2
    assert (
        rank.needed([row._replace(resolution=2e-3) for row in rows], 1e-3) is None
    )  # the lattice cannot tell
    with pytest.raises(InputError, match="tolerance"):
        rank.needed(rows, 0)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (
            lambda x, y, z: 1 / (x - x),
            {"points": 8},
            "function is not finite at 512 of 512 points, first at x=",
        ),
        (lambda x, q: x, {}, "its parameter 'q' is not known here"),
        (lambda x: jnp.exp(1j * x), {"points": 8}, "real numbers"),
        (lambda x: 0 * x, {"points": 8}, "zero everywhere"),
        (lambda x: jnp.ones((3, 3)), {"points": 8}, "does not broadcast"),
        (lambda x: x, {"ranks": ()}, "ranks"),
        (lambda x: x, {"ranks": (2, 0)}, "ranks"),
        (lambda x: x, {"points": {"x": 8}}, "points"),
    ],
)
def test_refusals(function, options, message):
    with pytest.raises(InputError, match=message):
        rank.study(function, CUBE, **options)


def test_what_does_not_fit_is_refused_before_it_is_tried():
    box = Box(**{f"x{i}": (0, 1) for i in range(6)})
    with pytest.raises(MemoryPrediction, match="64 × 64"):
        rank.study(lambda x0: x0, box, points=64)
    assert rank.default_points(box) ** 6 <= rank.LATTICE
    with pytest.raises(
        InputError, match="points: 6000 along an axis, of 2048 at most: write points=256"
    ):
        rank.study(lambda x: x, Box(x=(0, 1), y=(0, 1)), points={"x": 6000, "y": 3})
    with pytest.raises(MemoryPrediction, match="1000000 × 1000000"):
        rank.study(lambda x: x, Box(x=(0, 1), y=(0, 1)), points=1_000_000)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def ask(tmp_path):
    """Asks `separax rank`, beside a file with a problem."""
    (tmp_path / "mine.py").write_text(
        "import separax as sx\n"
        "box = sx.Box(x=(-1, 1), y=(-1, 1))\n"
        "one = sx.Problem(box, lambda u: u.xx + u.yy, reference=lambda x, y: abs(x - y))\n"
    )
    file = str(tmp_path / "mine.py:one")

    def run(*arguments):
        return CliRunner().invoke(app, ["rank", *(a.replace("FILE", file) for a in arguments)])

    return run


def test_the_command_tells_what_its_lattice_cannot_see(ask):
    done = ask("FILE", "--ranks", "4,16", "--points", "8", "--json")
    assert done.exit_code == 0, done.output
    assert (
        json.loads(done.stdout)["needed"] is None
    )  # sixteen products of eight points are exact, and say nothing about |x - y|
    shown = ask("FILE", "--ranks", "1").stdout
    assert ":one" in shown.replace("\n", "").replace(" ", "")  # and no picture of a 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["helmholtz", "--field", "u"], "leave --field out"),
        (["navier-stokes-3d"], "write --field with one of wx, wy, wz"),
        (["navier-stokes-3d", "--field", "wq"], "field must be one of wx, wy, wz"),
        (["poisson-lshape"], "its domain is no box"),
        (["FILE", "--field", "u"], "leave --field out"),
        (["FILE", "--tolerance", "0"], "tolerance must be a positive number"),
        (["FILE", "--out", "curve.bmp"], "ends in one of .png, .svg, .pdf"),
    ],
)
def test_what_the_command_refuses(ask, arguments, words):
    done = ask(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert words in " ".join(done.stderr.split())
