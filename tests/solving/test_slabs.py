"""Marching in slabs of time: polynomials, linear algebra, order, and what becomes of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from numpy.polynomial import legendre

import separax as sx
from separax.solving import elements
from separax.solving.slabs import evolution
from separax.solving.slabs import march as slabs
from separax.solving.slabs import way as slab_solution
from separax.solving.trained import Context
from separax.training import Interrupt

PI = np.pi


def marched(problem: sx.Problem, precision: slabs.Precision) -> slabs.March:
    found = evolution.evolution_of(problem)
    assert found is not None
    with jax.enable_x64(True):
        return slabs.March(found, precision).run()


def solved(problem: sx.Problem, tolerance: float = 1e-4) -> sx.Solution:
    with jax.enable_x64(True):
        found = slab_solution.solve_in_slabs(
            problem, tolerance, Context(None, lambda now: None, Interrupt())
        )
    assert found is not None
    return found


def burgers(viscosity: float = 0.05, end: float = 0.5) -> sx.Problem:
    return sx.Problem(
        sx.Box(t=(0, end), x=(-1, 1)),
        lambda u: u.t + u * u.x - viscosity * u.xx,
        [sx.Initial(lambda x: -jnp.sin(PI * x)), sx.Dirichlet(0)],
        name="burgers",
    )


def cole_hopf(t: float, x: np.ndarray, viscosity: float) -> np.ndarray:
    y = np.linspace(-9, 9, 8001)
    shifted = x[:, None] - np.sqrt(4 * viscosity * t) * y
    log = -np.cos(PI * shifted) / (2 * PI * viscosity) - y**2
    w = np.exp(log - log.max(1, keepdims=True))
    return -(w * np.sin(PI * shifted)).sum(1) / w.sum(1)


# --- polynomials and linear algebra -----------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_values_at_the_end_of_a_slab_have_twice_the_order_of_its_points(stages):
    rule = elements.time_rule(stages)

    def at_end(z: float) -> float:  # u' = z u on a slab of length one
        return np.linalg.solve(rule.inner - z * np.eye(stages), -rule.start)[-1]

    errors = [abs(at_end(-z) - np.exp(-z)) for z in (0.4, 0.2)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 * stages, abs=0.5)
    assert abs(at_end(-1e9)) < 1e-8  # what decays at once is gone


@pytest.mark.parametrize(("points", "continuity"), [(4, 1), (6, 2), (8, 3), (8, 4), (5, 0)])
def test_the_functions_of_an_element_have_the_values_of_its_nodes(points, continuity):
    rule = elements.space_rule(points, continuity)
    ends = np.array([-1.0, 1.0])
    made = (
        np.stack(
            [
                elements.derivatives_at(ends, rule.number, k) @ rule.functions.T
                for k in range(continuity)
            ]
        )
        if continuity
        else np.zeros((0, 2, rule.number))
    )
    expected = np.zeros_like(made)
    for side in range(2):
        for k in range(continuity):
            expected[k, side, side * continuity + k] = 1
    np.testing.assert_allclose(made, expected, atol=1e-8)
    assert np.linalg.matrix_rank(rule.functions) == points + continuity


@pytest.mark.parametrize("number", [1, 2, 5, 8])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_system_of_elements_is_solved_exactly(number, periodic):
    draw = np.random.default_rng(number)
    left, right = draw.normal(size=(2, number, 7, 3))
    inside, values = draw.normal(size=(number, 7, 4)), draw.normal(size=(number, 7))
    ends = elements.Ends(*draw.normal(size=(2, 3, 3)), draw.normal(size=3))
    y, z = elements.solve_elements(left, right, inside, values, None if periodic else ends)
    found = left @ y[:-1, :, None] + right @ y[1:, :, None] + inside @ z[..., None]
    np.testing.assert_allclose(found[..., 0], values, atol=1e-11)
    if periodic:
        np.testing.assert_array_equal(y[0], y[-1])
    else:
        np.testing.assert_allclose(ends.first @ y[0] + ends.last @ y[-1], ends.values, atol=1e-11)


def test_a_function_is_the_same_on_finer_elements_and_keeps_its_ends_on_coarser_ones():
    rule = elements.space_rule(5, 2)
    draw, old = np.random.default_rng(0), np.array([0.0, 0.5, 1.0, 2.0])
    own = elements.joined(old, draw.normal(size=(3, 1, 7)), rule, False)
    new = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0])
    fine = elements.restricted(old, new, own)
    back = elements.restricted(new, old, fine, rule)
    np.testing.assert_allclose(back, own, atol=1e-10)
    coarse = elements.restricted(old, np.array([0.0, 1.0, 2.0]), own, rule)
    for k in range(2):
        ends = elements.derivatives_at(np.array([-1.0, 1.0]), 7, k)
        before = np.array([own[0, 0] @ ends[0] * 4**k, own[1, 0] @ ends[1] * 4**k])
        after = np.array([coarse[0, 0] @ ends[0] * 2**k, coarse[0, 0] @ ends[1] * 2**k])
        np.testing.assert_allclose(after, before, atol=1e-9)


# --- marches ----------------------------------------------------------------------------------


def test_a_polynomial_of_the_space_is_exact():
    def exact(t, x):
        return t**2 * x**3 + 1 + x**5

    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 2)),
        lambda u, t, x: (
            u.t
            + u * u.x
            - u.xx
            - (2 * t * x**3 + exact(t, x) * (3 * t**2 * x**2 + 5 * x**4) - 6 * t**2 * x - 20 * x**3)
        ),
        [
            sx.Initial(lambda x: exact(0.0, x)),
            sx.Dirichlet(lambda t: exact(t, -1.0), on="x-"),
            sx.Neumann(lambda t: 12 * t**2 + 80, on="x+"),
        ],
    )
    march = marched(problem, slabs.Precision(1e-3, 3, 5, 2))
    last = march.slabs[-1]
    points = np.linspace(-1, 1, 5)
    values = last.at_times(np.array([1.0]))[0][:, 0] @ legendre.legvander(points, 6).T
    middle, half = (last.edges[1:] + last.edges[:-1]) / 2, np.diff(last.edges) / 2
    x = middle[:, None] + half[:, None] * points
    np.testing.assert_allclose(values, exact(1.0, x), atol=1e-10)


def test_the_error_falls_with_the_tolerance():
    errors = []
    for tolerance in (1e-5, 1e-7, 1e-9):
        march = marched(burgers(), slabs.Precision(tolerance, 6, 6, 4))
        last, x = march.slabs[-1], np.linspace(-1, 1, 101)
        e = np.clip(np.searchsorted(last.edges, x) - 1, 0, None)
        unit = 2 * (x - last.edges[e]) / np.diff(last.edges)[e] - 1
        own = last.at_times(np.array([last.end]))[0][e, 0]
        found = np.sum(own * legendre.legvander(unit, own.shape[1] - 1), 1)
        errors.append(np.abs(found - cole_hopf(last.end, x, 0.05)).max())
    for tolerance, error in zip((1e-5, 1e-7, 1e-9), errors):
        assert error < 20 * tolerance


def test_slabs_meet_with_their_slopes():
    march = marched(burgers(), slabs.Precision(1e-7, 6, 6, 4))
    for before, after in zip(march.slabs, march.slabs[1:]):
        if len(before.edges) != len(after.edges):
            continue
        for k in range(2):
            one, other = (
                (2 / s.length) ** k * (elements.derivatives_at(np.array([side]), m.shape[1], k) @ m)
                for s, side in ((before, 1.0), (after, -1.0))
                for m in (s.modes[0],)
            )
            np.testing.assert_allclose(one, other, atol=1e-7 * 100**k)


def test_a_chaotic_system_agrees_with_an_integrator():
    def lorenz(x, y, z):
        return {"x": x.t - 10 * (y - x), "y": y.t - x * (28 - z) + y, "z": z.t - x * y + 8 / 3 * z}

    problem = sx.Problem(
        sx.Box(t=(0, 5)), lorenz, [sx.Initial(1.0, of=f) for f in "xyz"], fields=("x", "y", "z")
    )
    found = solved(problem)

    def rate(t, u):
        return [10 * (u[1] - u[0]), u[0] * (28 - u[2]) - u[1], u[0] * u[1] - 8 / 3 * u[2]]

    times = np.linspace(0, 5, 41)
    true = scipy.integrate.solve_ivp(
        rate, (0, 5), [1.0, 1, 1], "DOP853", times, rtol=1e-13, atol=1e-13
    )
    ours = found(t=times)
    for name, row in zip("xyz", true.y):
        assert np.linalg.norm(ours[name] - row) < 1e-8 * np.linalg.norm(row)


def test_a_stiff_equation_of_second_order_agrees_with_an_integrator():
    problem = sx.Problem(
        sx.Box(t=(0, 30)),
        lambda u: u.tt - 20 * (1 - u**2) * u.t + u,
        [sx.Initial(2.0), sx.Initial(0.0, of=lambda u: u.t)],
    )
    found, times = solved(problem), np.linspace(0, 30, 61)
    true = scipy.integrate.solve_ivp(
        lambda t, u: [u[1], 20 * (1 - u[0] ** 2) * u[1] - u[0]],
        (0, 30), [2.0, 0.0], "Radau", times, rtol=1e-11, atol=1e-12,
    )  # fmt: skip
    assert np.linalg.norm(found(t=times) - true.y[0]) < 1e-7 * np.linalg.norm(true.y[0])


# --- solutions --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def front() -> sx.Solution:
    return sx.solve(burgers(0.01 / PI, 1.0), progress=False)


def test_a_sharp_front_is_solved_without_a_recipe(front):
    x = np.linspace(-1, 1, 401)
    for t in (0.25, 1.0):
        true = cole_hopf(t, x, 0.01 / PI)
        assert np.linalg.norm(front(t=t, x=x) - true) < 1e-6 * np.linalg.norm(true)
    assert 0 < front.estimate < 1e-6
    assert front.advice == ()
    assert len(front.levels) > 1
    assert front.outcome.timing.steps == sum(level.newton for level in front.levels)


def test_a_solution_of_slabs_is_a_function_like_any_other(front, tmp_path):
    point = jnp.array([0.37, -0.11])
    slope = (
        front.at((point + jnp.array([0, 1e-4]))[None])
        - front.at((point - jnp.array([0, 1e-4]))[None])
    ) / 2e-4
    assert jax.grad(lambda x: front.at(jnp.array([[0.37, x]]))[0])(-0.11) == pytest.approx(
        float(slope[0]), rel=1e-3
    )
    assert front.d(x=1).at(point[None])[0] == pytest.approx(float(slope[0]), rel=1e-3)
    assert jax.jit(lambda s, p: s.at(p))(front, point[None])[0] == pytest.approx(
        float(front.at(point[None])[0]), rel=1e-4
    )
    again = sx.load(front.save(tmp_path / "run"))
    x = np.linspace(-1, 1, 33)
    np.testing.assert_array_equal(again(t=[0.3, 0.9], x=x), front(t=[0.3, 0.9], x=x))
    assert again.estimate == front.estimate


def test_the_residual_is_small_between_the_points(front):
    draw = np.random.default_rng(0).uniform((0.01, -1), (1, 1), (500, 2))
    left = front.of(lambda u: u.t + u * u.x - 0.01 / PI * u.xx).at(draw)
    assert np.abs(left).max() < 1e-3


@pytest.mark.parametrize("end", [2.0, 20.0])
def test_the_estimate_is_no_less_than_the_error_and_not_much_more(end):
    problem = sx.Problem(
        sx.Box(t=(0, end)),
        lambda u, v: {"u": u.t - v, "v": v.t + 9 * u},
        [sx.Initial(1.0, of="u"), sx.Initial(0.0, of="v")],
        fields=("u", "v"),
        reference={"u": lambda t: jnp.cos(3 * t), "v": lambda t: -3 * jnp.sin(3 * t)},
    )
    found = solved(problem)
    assert found.relative_l2() <= found.estimate <= 40 * max(found.relative_l2(), 1e-14)


def test_a_wave_is_followed_without_damping():
    problem = sx.Problem(
        sx.Box(t=(0, 4), x=(0, 1)),
        lambda u: u.tt - u.xx,
        [
            sx.Initial(lambda x: jnp.sin(3 * PI * x)),
            sx.Initial(0.0, of=lambda u: u.t),
            sx.Dirichlet(0, hard=True),
        ],
        reference=lambda t, x: jnp.sin(3 * PI * x) * jnp.cos(3 * PI * t),
    )
    found = solved(problem, 1e-6)
    assert found.relative_l2() <= found.estimate < 1e-6


def test_what_blows_up_is_solved_up_to_there():
    problem = sx.Problem(sx.Box(t=(0, 2)), lambda u: u.t - u**2, [sx.Initial(1.0)])
    found = sx.solve(problem, progress=False)
    assert found.problem.box["t"][1] == pytest.approx(1, abs=1e-3)
    assert "blow up" in found.advice[0]
    assert found(t=0.9) == pytest.approx(10, rel=1e-8)


def test_what_jumps_at_the_start_is_smoothed():
    problem = sx.Problem(
        sx.Box(t=(0, 0.02), x=(0, 1)),
        lambda u: u.t - u.xx,
        [sx.Initial(lambda x: jnp.where(x < 0.5, 1.0, 0.0)), sx.Neumann(0)],
    )
    found, x = solved(problem), np.linspace(0, 1, 41)
    k = np.arange(1, 400)
    series = 0.5 + (2 / (k * PI) * np.sin(k * PI / 2) * np.exp(-((k * PI) ** 2) * 0.02)) @ np.cos(
        np.outer(k * PI, x)
    )
    np.testing.assert_allclose(found(t=0.02, x=x), series, atol=1e-6)


def test_a_periodic_condition_that_is_not_built_in_is_one_all_the_same():
    def problem(hard: bool) -> sx.Problem:
        return sx.Problem(
            sx.Box(t=(0, 0.3), x=(0, 1)),
            lambda u: u.t + u * u.x - 0.05 * u.xx,
            [sx.Initial(lambda x: jnp.sin(2 * PI * x)), sx.Periodic("x", hard=hard)],
        )

    soft, hard = (solved(problem(h)) for h in (False, True))
    x = np.linspace(0, 1, 33)
    np.testing.assert_array_equal(soft(t=0.3, x=x), hard(t=0.3, x=x))


def test_what_is_interrupted_keeps_the_slabs_that_are_done():
    found = slab_solution
    problem = burgers()
    asked = iter([False] * 3)

    class Pressed(Interrupt):
        @property
        def asked(self) -> bool:
            return next(asked, True)

    with jax.enable_x64(True):
        part = found.solve_in_slabs(problem, 1e-4, Context(None, lambda now: None, Pressed()))
    assert part is not None
    assert part.interrupted
    assert 0 < part.problem.box["t"][1] < 0.5
    assert np.isfinite(part(t=part.problem.box["t"][1], x=0.3))
    assert part.estimate is not None
    assert part.estimate < 1e-3  # of a coarser march, made for that alone
    assert "where it was stopped" in part.advice[0]


BOX = sx.Box(t=(0, 1), x=(0, 1))


@pytest.mark.parametrize(
    "problem",
    [
        sx.Problem(BOX, lambda u: u.t - u.xx, [sx.Initial(0.0)]),
        sx.Problem(BOX, lambda u: u.t - u.xx, [sx.Dirichlet(0.0)]),
        sx.Problem(BOX, lambda u: u.tt - u.xx, [sx.Initial(0.0), sx.Dirichlet(0)]),
        sx.Problem(BOX, lambda u: u.t + u.x, [sx.Initial(0.0), sx.Dirichlet(0)]),
        sx.Problem(
            BOX,
            lambda u, k: u.t - k * u.xx,
            [sx.Initial(0.0), sx.Dirichlet(0)],
            unknowns={"k": 1.0},
        ),
        sx.Problem(sx.Box(x=(0, 1)), lambda u: u.xx - 1, [sx.Dirichlet(0)]),
        sx.Problem(
            sx.Box(t=(0, 1), x=(0, 1), y=(0, 1)),
            lambda u: u.t - u.xx - u.yy,
            [sx.Initial(0.0), sx.Dirichlet(0)],
        ),
    ],
)  # fmt: skip
def test_what_does_not_evolve_is_left_to_other_ways(problem):
    assert evolution.evolution_of(problem) is None
