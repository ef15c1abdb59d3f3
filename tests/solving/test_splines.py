"""Splines for problems without time: exact where the solution is in their space, of their order
elsewhere, with jumps and corners found by themselves."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.core import in_float64
from separax.solving.splines.functions import splines_between
from separax.solving.splines.rough_places import has_holes, rough_places
from separax.solving.splines.steady import steady_of
from separax.solving.splines.system import NormalEquations, SplineSystem
from separax.solving.splines.way import SplineSpace

UNIT = sx.Box(x=(0, 1))
SQUARE = sx.Box(x=(0, 1), y=(0, 1))


@pytest.mark.parametrize("periodic", [False, True])
def test_finer_splines_are_the_same_function(periodic):
    coarse = splines_between((0, 2), 12, 5, {0.7: 4}, periodic)
    fine = coarse.refined(np.arange(coarse.cells) % 3 + 1)
    coefficients = np.random.default_rng(0).normal(size=coarse.number)
    x = np.linspace(0, 2, 400, endpoint=False)
    same = fine.matrix(x) @ (fine.from_coarser(coarse) @ coefficients)
    assert same == pytest.approx(coarse.matrix(x) @ coefficients, abs=1e-13)
    np.testing.assert_allclose(coarse.matrix(x).sum(1), 1, atol=1e-14)


def test_a_knot_that_is_repeated_leaves_fewer_continuous_derivatives():
    splines = splines_between((0, 1), 8, 5, {0.3: 4})
    ends = np.array([-1.0, 1.0])
    cell = int(splines.cell_of(np.array([0.3]))[0])
    jumps = []
    for order in range(4):
        values = splines.in_cells(ends, order)
        dense = np.zeros((2, splines.number))
        dense[0, splines.functions[cell - 1]] = values[cell - 1, 1]
        dense[1, splines.functions[cell]] = values[cell, 0]
        jumps.append(np.abs(dense[1] - dense[0]).max() / np.abs(dense).max())
    assert max(jumps[:2]) < 1e-12
    assert min(jumps[2:]) > 0.1


def exact_l2(cells, degree):
    """The error of Poisson's equation around a hole, with so many cells a side."""

    def exact(x, y):
        return jnp.sin(3 * x) * jnp.cosh(y)

    problem = sx.Problem(
        SQUARE,
        lambda u, x, y: u.xx + u.yy + 8 * exact(x, y),
        [sx.Dirichlet(exact)],
        inside=lambda x, y: 0.2 - jnp.hypot(x - 0.45, y - 0.52),
    )
    steady = steady_of(problem)
    axis = splines_between((0, 1), cells, degree)
    space = SplineSpace(((axis, axis),))
    system = SplineSystem(steady, space)
    rows = system.rows(np.zeros(space.number))
    found = NormalEquations(rows, space.order).step([r.left for r in rows])
    points = np.random.default_rng(0).random((2000, 2))
    points = points[problem.shape.contains(points)]
    left, right = (axis.matrix(x) for x in points.T)
    u = np.einsum("ni,ij,nj->n", left, found.reshape(axis.number, -1), right)
    return np.abs(u - exact(*points.T)).max()


@in_float64()
def test_the_order_around_a_hole():
    coarse, fine = exact_l2(8, 5), exact_l2(16, 5)
    assert fine < 1e-6
    assert np.log2(coarse / fine) > 4.5


@pytest.mark.parametrize("a", [0.1, 0.3, 0.9])
def test_a_source_that_jumps_is_solved_for_exactly(a):
    problem = sx.Problem(UNIT, lambda u, x: -u.xx - jnp.where(x < a, 1.0, 0.0), [sx.Dirichlet(0)])

    def exact(x):
        slope = a - a**2 / 2
        return jnp.where(x < a, slope * x - x**2 / 2, (slope - a) * (x - 1))

    solution = sx.solve(problem)
    assert solution.relative_l2(exact) < 1e-12
    assert solution.estimate >= solution.relative_l2(exact)


@in_float64()
def test_jumps_are_found_to_rounding():
    table = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2)))

    def source(x, y):
        return table[(3 * x).astype(int).clip(0, 2), jnp.where(y < 0.45, 0, 1)]

    problem = sx.Problem(SQUARE, lambda u, x, y: u.xx + u.yy - source(x, y), [sx.Dirichlet(0)])
    places = rough_places(steady_of(problem))
    assert places.jumps[0] == pytest.approx((1 / 3, 2 / 3), abs=1e-15)
    assert places.jumps[1] == pytest.approx((0.45,), abs=1e-15)
    smooth = sx.Problem(
        SQUARE, lambda u, x, y: u.xx + u.yy - jnp.tanh(200 * (x - y)), [sx.Dirichlet(0)]
    )
    assert rough_places(steady_of(smooth)).none


@in_float64()
def test_corners_are_found():
    step = sx.Problem(
        sx.Box(x=(0, 4), y=(0, 2)),
        lambda u: u.xx + u.yy - 1,
        [sx.Dirichlet(0)],
        inside=lambda x, y: (x > 2) | (y < 1),
    )
    assert rough_places(steady_of(step)).corners == pytest.approx(np.array([[2.0, 1.0]]), abs=1e-9)
    lid = sx.Problem(
        SQUARE,
        lambda u: u.xx + u.yy,
        [sx.Dirichlet(1, on="y+"), sx.Dirichlet(0, on=("x", "y-"))],
    )
    found = rough_places(steady_of(lid)).contradictions
    assert found.tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_holes_are_told_from_what_faces_cut():
    def shape(inside):
        return sx.Problem(SQUARE, lambda u: u.xx + u.yy, [sx.Dirichlet(0)], inside=inside).shape

    assert has_holes(shape(lambda x, y: 0.2 - jnp.hypot(x - 0.5, y - 0.5)))
    assert not has_holes(shape(lambda x, y: jnp.hypot(x - 0.5, y - 0.5) - 0.4))
    assert not has_holes(shape(lambda x, y: 0.2 - jnp.hypot(x, y - 0.5)))


@pytest.mark.whole
def test_the_estimate_is_above_the_error_in_a_layer():
    thin = 1e-3

    def exact(x):
        return x - jnp.exp((x - 1) / thin)

    problem = sx.Problem(UNIT, lambda u: -thin * u.xx + u.x - 1, [sx.Dirichlet(0)])
    for tolerance in (1e-2, 1e-5):
        solution = sx.solve(problem, tolerance=tolerance)
        error = solution.relative_l2(exact)
        assert error <= solution.estimate <= tolerance


@pytest.mark.whole
def test_four_holes():
    discs = [(x, y) for x in (-0.3, 0.3) for y in (-0.3, 0.3)]

    def inside(x, y):
        return functools.reduce(jnp.maximum, [0.1 - jnp.hypot(x - a, y - b) for a, b in discs])

    def value(x, y):
        return jnp.where(jnp.maximum(jnp.abs(x), jnp.abs(y)) > 0.5 - 1e-9, 1.0, 0.0)

    box = sx.Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    problem = sx.Problem(box, lambda u: u.xx + u.yy, [sx.Dirichlet(value)], inside=inside)
    coarse, fine = sx.solve(problem, tolerance=1e-3), sx.solve(problem, tolerance=1e-5)
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
    points = points[problem.shape.contains(points)]
    apart = np.linalg.norm(coarse.at(points) - fine.at(points)) / np.linalg.norm(fine.at(points))
    assert apart <= coarse.estimate + fine.estimate
    assert coarse.estimate <= 1e-3
    assert fine.estimate <= 1e-5
