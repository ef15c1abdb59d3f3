"""Problems in a box by all products of integrated Legendre polynomials."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.solving.products import face_conditions, kronecker, line_functions
from separax.solving.products import level as box_level
from separax.solving.products import way as box_solution

PI = np.pi
ZERO = {("-", 0): 1.0}, {("+", 0): 1.0}
ENDS = {
    "zero": ZERO,
    "zero slope": ({("-", 1): 1.0}, {("+", 1): 1.0}),
    "at rest": ({("-", 0): 1.0}, {("-", 1): 1.0}),
    "periodic": ({("-", 0): -1.0, ("+", 0): 1.0}, {("-", 1): -1.0, ("+", 1): 1.0}),
    "mixed": ({("-", 0): 2.0, ("-", 1): -1.0}, {("+", 1): 1.0}),
    "clamped": (*ZERO, {("-", 1): 1.0}, {("+", 1): 1.0}),
}


@pytest.mark.parametrize("ends", ENDS)
def test_functions_satisfy_the_conditions_at_the_ends(ends):
    line = line_functions.LineFunctions(-1, 3, 30, ENDS[ends], 40)
    np.testing.assert_allclose(line.takes @ line.series, 0, atol=1e-10)
    np.testing.assert_allclose(line.takes @ line.blends, np.eye(line.order), atol=1e-10)
    for order in range(line.order + 1):  # derivatives of series are those of the functions
        np.testing.assert_allclose(line.derived(order) @ line.series, line.values(order), atol=1e-8)


@pytest.mark.parametrize("ends", ["zero", "zero slope", "periodic"])
def test_inverses_of_selfadjoint_operators_are_symmetric(ends):
    line = line_functions.LineFunctions(0, 2, 24, ENDS[ends], 30)
    second, plain = (line.tests @ line.values(k) for k in (2, 0))
    found = plain @ np.linalg.inv(second - plain)
    np.testing.assert_allclose(found, found.T, atol=1e-13)


def test_a_sum_of_products_of_operators_is_inverted_exactly():
    draw = np.random.default_rng(0)
    sizes = (4, 5, 6)
    plain = [draw.normal(size=(n, n)) for n in sizes]  # no eigenvectors to speak of: triangles
    other = [np.eye(n) + 0.1 * draw.normal(size=(n, n)) for n in sizes]
    plain[2] = plain[2] + plain[2].T
    other[2] = np.eye(6)
    terms = [tuple(other[j] if j == i else plain[j] for j in range(3)) for i in range(3)] + [
        tuple(plain)
    ]
    solver = kronecker.DirectSolver(kronecker.merged(terms), plain)
    right = draw.normal(size=sizes)
    found, values = solver.solve(right)
    whole = sum(np.kron(np.kron(a, b), c) for a, b, c in terms)
    np.testing.assert_allclose(whole @ found.ravel(), right.ravel(), atol=1e-8)
    made = np.kron(np.kron(*plain[:2]), plain[2]) @ found.ravel()
    np.testing.assert_allclose(values.ravel(), made, atol=1e-9)


def waves(number: float) -> sx.Problem:
    def exact(x, y):
        return jnp.sin(number * PI * x) * jnp.sin(number * PI * y)

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        lambda u, x, y: u.xx + u.yy + u - (1 - 2 * (number * PI) ** 2) * exact(x, y),
        [sx.Dirichlet(0)],
        reference=exact,
    )


def heat() -> sx.Problem:
    def exact(t, x):
        return jnp.exp(-t) * jnp.sin(x + t)

    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2)),
        lambda u, t, x: u.t - u.xx - jnp.exp(-t) * jnp.cos(x + t),
        [
            sx.Initial(jnp.sin),
            sx.Dirichlet(exact, on="x-", hard=True),
            sx.Neumann(lambda t: jnp.exp(-t) * jnp.cos(2 + t), on="x+"),
        ],
        reference=exact,
    )


def moving() -> sx.Problem:
    def exact(t, x):
        return jnp.sin(x - 3 * t)

    return sx.Problem(
        sx.Box(t=(0, 2), x=(0, 2 * PI)),
        lambda u: u.t + 3 * u.x,
        [sx.Initial(jnp.sin), sx.Periodic("x")],
        reference=exact,
    )


def curved() -> sx.Problem:
    """Coefficients of both axes, and a nonlinear term."""

    def exact(x, y):
        return jnp.exp(x * y)

    def residual(u, x, y):
        f = (1 + x**2 * y**2) * y**2 + 3 * x**2 + exact(x, y) * y
        return (1 + x**2 * y**2) * u.xx + 3 * u.yy + u * u.x - f * exact(x, y)

    return sx.Problem(sx.Box(x=(-1, 1), y=(0, 1)), residual, [sx.Dirichlet(exact)], reference=exact)


@pytest.mark.parametrize("problem", [lambda: waves(24), heat, moving, curved])
def test_smooth_problems_are_solved_to_rounding(problem):
    solution = sx.solve(problem(), progress=False)
    assert isinstance(solution.levels[-1], box_solution.ProductsLevel)
    error = solution.relative_l2()
    assert error < 3e-11
    assert error < solution.estimate < 3e-10


@pytest.mark.whole
def test_the_estimate_is_above_the_error_where_a_solution_is_rough():
    def exact(x, y):
        return jnp.abs(x - 0.1) ** 3 * y * (1 - y)

    problem = sx.Problem(
        sx.Box(x=(-1, 1), y=(0, 1)),
        lambda u, x, y: u.xx + u.yy - 6 * jnp.abs(x - 0.1) * y * (1 - y) + 2 * abs(x - 0.1) ** 3,
        [sx.Dirichlet(exact)],
        reference=exact,
    )
    solution = sx.solve(problem, progress=False)
    assert solution.relative_l2() < solution.estimate < 1e-4


def test_a_resonance_is_a_family_and_the_smallest_of_it_is_found():
    def exact(x, y):
        return jnp.sin(2 * PI * x) * jnp.sin(3 * PI * y)

    problem = sx.Problem(  # sin 1πx sin 2πy solves it, too
        sx.Box(x=(0, 1), y=(0, 1)),
        lambda u, x, y: u.xx + u.yy + 5 * PI**2 * u + 8 * PI**2 * exact(x, y),
        [sx.Dirichlet(0)],
        reference=exact,
    )
    solution = sx.solve(problem, progress=False)
    assert solution.relative_l2() < 1e-12
    assert solution.estimate == np.inf
    assert "family" in solution.advice[0]


def test_what_does_not_fit_is_left_to_other_ways():
    def of(residual, conditions, **options):
        return sx.Problem(sx.Box(x=(0, 1), y=(0, 1)), residual, conditions, **options)

    def poisson(u):
        return u.xx + u.yy - 1

    def read(problem):
        return face_conditions.box_problem(problem)

    assert read(of(poisson, [sx.Dirichlet(0)])) is not None
    assert read(of(poisson, [sx.Dirichlet(0, on="x")])) is None  # too few
    assert read(of(lambda u, v: {"a": u.xx - v, "b": v.yy - u}, [], fields=("u", "v"))) is None
    assert read(of(poisson, [sx.Dirichlet(0)], inside=lambda x, y: x + y < 1)) is None
    with jax.enable_x64(True), pytest.raises(box_level.Astray):  # conditions contradict each other
        torn = of(poisson, [sx.Dirichlet(0, on="x"), sx.Dirichlet(1, on="y")])
        found = read(torn)
        assert found is not None
        box_level.BoxLevel(found, (8, 8)).solved()
