"""Linear equations in many axes: sums of products, and no lattice of all axes."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.solving.many_axes import few_axes
from separax.solving.many_axes.way import ManyAxes
from separax.solving.products import way as box_solution

PI = np.pi
SIX = ("p", "q", "r", "x", "y", "z")


def test_what_cancels_is_found_to_cancel():
    draw = np.random.default_rng(0)
    one, other = few_axes.FewAxes(6), few_axes.FewAxes(6)
    f, g, h = draw.normal(size=(3, 6))
    one.add({0: f, 2: g})
    one.add({1: f, 2: h})
    other.add({2: g, 0: 2 * f}, 0.5)
    other.add({2: h, 1: f})
    assert not one.plus(other, -1.0).without(1e-13).few


def test_an_operator_along_an_axis_acts_on_constants_too():
    draw = np.random.default_rng(1)
    found, (f, g) = few_axes.FewAxes(5), draw.normal(size=(2, 5))
    found.add({0: f, 1: g})
    matrix = draw.normal(size=(5, 5))
    ones = np.eye(1, 5)[0]

    def dense(function):
        total = np.zeros((5, 5, 5))
        for product in function.each():
            each = [product.get(i, ones) for i in range(3)]
            total += functools.reduce(np.multiply.outer, each)
        return total

    for axis in range(3):
        made = np.moveaxis(np.tensordot(matrix, dense(found), (1, axis)), 0, axis)
        np.testing.assert_allclose(dense(found.applied(axis, matrix)), made, atol=1e-12)


def poisson(exact, source, conditions) -> sx.Problem:
    def residual(u, p, q, r, x, y, z):
        return sx.laplacian(u) - source(p, q, r, x, y, z)

    box = sx.Box(**dict.fromkeys(SIX, (0, 1)))
    return sx.Problem(box, residual, conditions(exact), reference=exact)


def additive() -> sx.Problem:
    return poisson(
        lambda p, q, r, x, y, z: p * q + jnp.sin(x) + jnp.exp(y) * z,
        lambda p, q, r, x, y, z: -jnp.sin(x) + jnp.exp(y) * z,
        lambda exact: [sx.Dirichlet(exact)],
    )


def product() -> sx.Problem:
    def exact(*each):
        return functools.reduce(operator.mul, (jnp.sin(PI * c) for c in each))

    return poisson(
        lambda p, q, r, x, y, z: exact(p, q, r, x, y, z),
        lambda p, q, r, x, y, z: -6 * PI**2 * exact(p, q, r, x, y, z),
        lambda exact: [sx.Dirichlet(0)],
    )


def parabolas() -> sx.Problem:
    """Its source has many eigenfunctions along every axis."""

    def exact(p, q, r, x, y, z):
        return p * (1 - p) * q * (1 - q) * r * (1 - r) * x * (1 - x) * y * (1 - y) * z * (1 - z)

    def source(p, q, r, x, y, z):
        each = (p, q, r, x, y, z)
        bumps = [c * (1 - c) for c in each]
        others = (
            functools.reduce(operator.mul, (b for j, b in enumerate(bumps) if j != i))
            for i in range(6)
        )
        return -2 * sum(others)

    return poisson(exact, source, lambda exact: [sx.Dirichlet(0)])


def heat() -> sx.Problem:
    def exact(t, p, q, x, y, z):
        waves = (jnp.sin(PI * c) for c in (p, q, x, y, z))
        return jnp.exp(-t) * functools.reduce(operator.mul, waves)

    def residual(u):
        return u.t - (u.pp + u.qq + u.xx + u.yy + u.zz) / (5 * PI**2)

    box = sx.Box(t=(0, 1), **dict.fromkeys("pqxyz", (0, 1)))
    return sx.Problem(box, residual, [sx.Initial(exact), sx.Dirichlet(0)], reference=exact)


@pytest.mark.parametrize("problem", [additive, product, heat])
def test_solutions_that_are_few_products_are_found_to_rounding(problem):
    solution = sx.solve(problem(), progress=False)
    assert isinstance(solution.levels[-1], box_solution.ProductsLevel)
    error = solution.relative_l2()  # at scattered points
    assert error < 1e-11
    assert error < solution.estimate < 1e-9


@pytest.mark.whole
def test_other_solutions_are_found_by_exponentials():
    solution = sx.solve(parabolas(), progress=False)
    assert solution.relative_l2() < solution.estimate < 1e-8


def test_other_operators_are_left_to_other_ways():
    def of(residual):
        return sx.Problem(sx.Box(**dict.fromkeys(SIX, (0, 1))), residual, [sx.Dirichlet(0)])

    way = ManyAxes()
    assert way.suits(of(lambda u: sx.laplacian(u)))
    assert not way.suits(of(lambda u: sx.laplacian(u) - u**2))
    assert not way.suits(of(lambda u: sx.laplacian(u) + u.xy))
    assert not way.suits(of(lambda u, x: sx.laplacian(u) + x * u.yy))


def test_errors_in_many_axes_are_measured_at_scattered_points():
    problem = additive()
    with jax.enable_x64(True):
        place = sx.solution.error_lattice(problem, 2**20)
    assert len(place.shape) == 1
