"""Functions from tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from measuring import order

import separax as sx

RNG = np.random.default_rng(0)


def test_a_spline_is_scipys():
    from scipy.interpolate import CubicSpline

    at, values, x = np.sort(RNG.uniform(0, 1, 9)), RNG.normal(size=9), np.linspace(0.0, 1.0, 50)
    x = np.clip(x, at[0], at[-1])
    with jax.enable_x64(True):
        found = sx.tabulated(values, x=at)(jnp.asarray(x))
        np.testing.assert_allclose(found, CubicSpline(at, values)(x), rtol=0, atol=1e-12)


def test_the_order_is_four_and_two():
    def error(n, degree):
        at = np.linspace(0, 1, n)
        k = sx.tabulated(np.sin(3 * at), x=at, degree=degree)
        x = np.linspace(0.3, 0.7, 201)  # where the ends are not felt
        return float(np.abs(k(x) - np.sin(3 * x)).max())

    with jax.enable_x64(True):
        for degree in (1, 3):
            sizes = (32, 64, 128)
            rate = order([n - 1 for n in sizes], [error(n, degree) for n in sizes])
            assert rate == pytest.approx(degree + 1, abs=0.3)


def test_cubics_in_two_axes_are_exact_on_lattices_and_points_and_have_derivatives():
    def true(x, y):
        return (1 + x - 2 * x**3) * (y**2 - y**3 / 3)

    xs, ys = np.sort(RNG.uniform(0, 1, 6)), np.sort(RNG.uniform(0, 2, 7))
    with jax.enable_x64(True):
        k = sx.tabulated(true(xs[:, None], ys), x=xs, y=ys)
        x, y = RNG.uniform(0, 1, (5, 1)), RNG.uniform(0, 2, (1, 4))
        np.testing.assert_allclose(k(x, y), true(x, y), rtol=0, atol=1e-11)
        np.testing.assert_allclose(
            jax.jvp(lambda x: k(x, 0.7), (x,), (np.ones_like(x),))[1],
            (1 - 6 * x**2) * (0.7**2 - 0.7**3 / 3),
            atol=1e-10,
        )


def test_a_table_is_a_coefficient():
    """(k u')' = 0 with k = 1 + x has u = log(1 + x) / log 2."""
    at = np.linspace(0, 1, 4)
    k, slope = sx.tabulated(1 + at, x=at), sx.tabulated(np.ones(4), x=at)
    problem = sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, x: k(x) * u.xx + slope(x) * u.x,
        [sx.Condition(0.0, on="x=0"), sx.Condition(1.0, on="x=1")],
    )
    found = sx.solve(problem, progress=False)
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(found(x=x), np.log1p(x) / np.log(2), atol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sx.tabulated([1, 2, 3], x=[0, 1]), "do not fit"),
        (lambda: sx.tabulated([1, 2, 3]), "an axis for each"),
        (lambda: sx.tabulated([1, np.nan], x=[0, 1], degree=1), "not finite"),
        (lambda: sx.tabulated([1, 2], x=[1, 0], degree=1), "increase"),
        (lambda: sx.tabulated([1, 2], x=[0, 1]), "degree=1"),
        (lambda: sx.tabulated("table", x=[0, 1]), "numbers"),
        (lambda: sx.tabulated([1, 2], x=[0, 1], degree=1)(0.1, 0.2), "2 coordinates"),
    ],
)
def test_bad_tables(make, words):
    with pytest.raises(sx.InputError, match=words):
        make()
