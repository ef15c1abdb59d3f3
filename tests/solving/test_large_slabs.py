"""Marching in large slabs: differentiation along an axis, order in time, and what becomes of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.solving import elements
from separax.solving.large_slabs import way as large_solution
from separax.solving.large_slabs.averaged import Averaged, Dense
from separax.solving.large_slabs.evolution_in_space import evolution_in_space
from separax.solving.large_slabs.grids import FieldAxis, Grid
from separax.solving.large_slabs.slab import LargeSlab, Space, State, gmres
from separax.solving.trained import Context
from separax.training import Interrupt

PI = np.pi


def solved(problem: sx.Problem, tolerance: float) -> sx.Solution:
    with jax.enable_x64(True):
        found = large_solution.solve_in_large_slabs(
            problem, tolerance, Context(None, lambda now: None, Interrupt())
        )
    assert found is not None
    return found


def heat(end: float = 0.2, faces: sx.Condition | None = None) -> sx.Problem:
    return sx.Problem(
        sx.Box(t=(0, end), x=(0, 1), y=(0, 1)),
        lambda u: u.t - 0.1 * (u.xx + u.yy),
        [
            sx.Initial(lambda x, y: jnp.sin(PI * x) * jnp.sin(2 * PI * y)),
            sx.Dirichlet(0) if faces is None else faces,
        ],
        reference=lambda t, x, y: jnp.exp(-0.5 * PI**2 * t) * jnp.sin(PI * x) * jnp.sin(2 * PI * y),
        name="heat",
    )


# --- one axis ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [16, 17])
def test_waves_are_differentiated_exactly(number):
    axis = FieldAxis(Grid((1.0, 4.0), number, True))
    k = 2 * PI / 3 * 5
    x, between = axis.grid.points, np.linspace(1, 4, 9)
    assert np.allclose(axis.derivative(1) @ np.sin(k * x), k * np.cos(k * x))
    assert np.allclose(axis.derivative(2) @ np.sin(k * x), -(k**2) * np.sin(k * x))
    assert np.allclose(axis.at(between)[0] @ np.sin(k * x), np.sin(k * between))


@pytest.mark.parametrize("sides", [((1.0, 0.0), (2.0, 1.0)), ((0.0, 1.0), None), (None, None)])
def test_polynomials_meet_the_conditions_at_the_ends(sides):
    axis = FieldAxis(Grid((0.0, 3.0), 22, False), sides)
    ends = [(0.0, -1.0), (3.0, 1.0)]
    known = np.array([(s[0] + s[1] * n) * np.exp(x) for s, (x, n) in zip(sides, ends) if s])
    u = np.exp(axis.grid.points)
    second = axis.derivative(2) @ u + axis.of_conditions(2) @ known
    assert np.allclose(second, u, rtol=1e-8)
    inside, beyond = axis.at(np.array([0.0, 3.0]))
    assert np.allclose(inside @ u + beyond @ known, [1.0, np.exp(3.0)], rtol=1e-10)


@pytest.mark.parametrize("number", [32, 40])
def test_waves_in_pieces_are_the_same_functions(number):
    grid = Grid((0.0, 2.0), number, True)
    window = large_solution.waves_to_pieces(grid)
    edges = np.linspace(0, 2, window.shape[0] + 1)
    x = np.linspace(0, 1.999, 77)
    piece = np.searchsorted(edges, x, side="right") - 1
    unit = (x - edges[piece]) / (edges[1] - edges[0]) * 2 - 1
    basis = np.polynomial.legendre.legvander(unit, window.shape[1] - 1)
    u = np.exp(np.sin(PI * grid.points))
    assert np.allclose(np.einsum("pb,pbn,n->p", basis, window[piece], u), np.exp(np.sin(PI * x)))


# --- one slab ---------------------------------------------------------------------------------


def one_slab(problem: sx.Problem, stages: int, length: float, number: int = 9) -> LargeSlab:
    of = evolution_in_space(problem)
    assert of is not None
    grids = [Grid(problem.box[a], number, p) for a, p in zip(of.space, of.periodic)]
    space = Space(of, tuple(grids))
    x, y = (c.reshape(space.shape) for c in space.coordinates)
    values = [[np.sin(PI * x) * np.sin(2 * PI * y)] for _ in range(of.fields)]
    return LargeSlab(elements.time_rule(stages), 0.0, length, State(space, values, [None]))


@pytest.mark.parametrize("near", [Averaged, Dense])
def test_what_is_before_gmres_is_the_inverse_where_coefficients_are_constant(near):
    slab = one_slab(heat(), 3, 0.05)
    with jax.enable_x64(True):
        _, slopes = slab.residuals(slab.constant())
    inverse = near(slab, slopes)
    change = np.random.default_rng(0).normal(size=(1, 3, 9, 9))
    again = inverse(slab.changed(slopes, change))
    assert np.allclose(again, change, atol=1e-9 if near is Averaged else 1e-3)


def test_gmres_solves_what_it_is_given():
    rng = np.random.default_rng(0)
    matrix, right = np.eye(30) + 0.1 * rng.normal(size=(30, 30)), rng.normal(size=30)
    found, steps = gmres(lambda v: matrix @ v, lambda v: v, right, 1e-12)
    assert steps <= 30
    assert np.allclose(matrix @ found, right)


@pytest.mark.parametrize("stages", [2, 3])
def test_the_end_of_a_large_slab_has_twice_the_order_of_its_points(stages):
    errors = []
    for length in (0.1, 0.05):
        slab = one_slab(heat(), stages, length, 14)
        with jax.enable_x64(True):
            values, _ = slab.solved(
                slab.constant(), 1e-13, lambda s, slopes, n: Averaged(s, slopes)
            )
        true = slab.state.values[0][0] * np.exp(-0.5 * PI**2 * length)
        errors.append(np.abs(values[0, -1] - true).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 * stages, abs=0.7)


# --- whole problems ---------------------------------------------------------------------------


def check(problem: sx.Problem, tolerance: float) -> sx.Solution:
    found = solved(problem, tolerance)
    error = found.relative_l2()
    assert error <= found.estimate <= tolerance
    assert not found.advice
    assert all(np.all(jump < 1e-2 * tolerance) for jump in found.jumps().values())
    return found


def test_heat_between_cold_sides_is_as_good_as_it_says():
    found = check(heat(), 1e-6)
    inside = found(t=0.1, x=np.array([0.3]), y=np.array([0.2]))
    slope = jax.grad(lambda x: found.at(jnp.array([[0.1, x, 0.2]]))[0])(0.3)
    assert float(slope) == pytest.approx(float(inside[0, 0]) * PI / np.tan(0.3 * PI), rel=1e-4)


def test_what_is_asked_for_on_faces_may_change_in_time():
    def exact(t, x, y):
        return jnp.exp(-t) * jnp.exp(x) * jnp.sin(2 * y)

    def outward(t, x, y):
        return jnp.where(x > 0.5, 3.0, -1.0) * exact(t, x, y)  # u + 2 u_n where u_x = u

    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1), y=(0, 1)),
        lambda u, t, x, y: u.t - 0.1 * (u.xx + u.yy) + 0.7 * exact(t, x, y),
        [
            sx.Initial(lambda x, y: exact(0.0, x, y)),
            sx.Robin(outward, 1.0, 2.0, on="x"),
            sx.Dirichlet(exact, on="y"),
        ],
        reference=exact,
    )
    check(problem, 1e-5)


def test_a_wave_of_second_order_in_time():
    problem = sx.Problem(
        sx.Box(t=(0, 0.5), x=(0, 1), y=(0, 1)),
        lambda u: u.tt - u.xx - u.yy,
        [
            sx.Initial(lambda x, y: jnp.cos(PI * x) * jnp.cos(PI * y)),
            sx.Initial(0, of=lambda u: u.t),
            sx.Neumann(0),
        ],
        reference=lambda t, x, y: jnp.cos(np.sqrt(2) * PI * t) * jnp.cos(PI * x) * jnp.cos(PI * y),
    )
    check(problem, 1e-4)


def flow(walls: bool) -> sx.Problem:
    """A vortex street that decays: no divergence at any time, and a pressure without a start."""
    nu = 0.05

    def u(t, x, y):
        return 0.5 - jnp.cos(x - 0.5 * t) * jnp.sin(y) * jnp.exp(-2 * nu * t)

    def v(t, x, y):
        return jnp.sin(x - 0.5 * t) * jnp.cos(y) * jnp.exp(-2 * nu * t)

    def residual(u, v, p):
        return {
            "x": u.t + u * u.x + v * u.y + p.x - nu * (u.xx + u.yy),
            "y": v.t + u * v.x + v * v.y + p.y - nu * (v.xx + v.yy),
            "mass": u.x + v.y,
        }

    each = {"u": u, "v": v}
    starts = [sx.Initial(lambda x, y, f=f: f(0.0, x, y), of=k) for k, f in each.items()]
    sides = [sx.Dirichlet(f, of=k) for k, f in each.items()] if walls else [sx.Periodic()]
    size = 1.0 if walls else 2 * PI
    box = sx.Box(t=(0, 0.5), x=(0, size), y=(0, size))
    return sx.Problem(box, residual, [*starts, *sides], fields=("u", "v", "p"), reference=each)


@pytest.mark.parametrize("walls", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_flows_without_divergence(walls):
    found = solved(flow(walls), 1e-4)
    assert found.relative_l2() <= found.estimate <= 1e-4


def test_two_fields_that_react_agree_with_a_finer_march():
    def residual(u, v):
        size = u**2 + v**2
        return {
            "u": u.t - 0.02 * (u.xx + u.yy) - u + size * (u - 1.5 * v),
            "v": v.t - 0.02 * (v.xx + v.yy) - v + size * (v + 1.5 * u),
        }

    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1)),
        residual,
        [
            sx.Initial(lambda x, y: jnp.sin(PI * y), of="u"),
            sx.Initial(lambda x, y: jnp.sin(PI * x), of="v"),
            sx.Periodic(),
        ],
        fields=("u", "v"),
    )
    coarse, fine = solved(problem, 1e-3), solved(problem, 1e-6)
    at = np.random.default_rng(0).uniform([0, -1, -1], [1, 1, 1], (500, 3))
    for field in "uv":
        a, b = np.asarray(coarse.at(at)[field]), np.asarray(fine.at(at)[field])
        assert np.linalg.norm(a - b) <= coarse.estimate * np.linalg.norm(b)
    assert fine.estimate <= 1e-6


def test_what_was_done_when_it_was_interrupted_is_kept():
    class Stopped(Interrupt):
        calls = 0

        @property
        def asked(self) -> bool:
            self.calls += 1
            return self.calls > 3

    with jax.enable_x64(True):
        found = large_solution.solve_in_large_slabs(
            heat(), 1e-6, Context(None, lambda now: None, Stopped())
        )
    assert found is not None
    end = found.problem.box["t"][1]
    assert 0 < end < 0.2
    assert found.outcome.interrupted
    assert found.relative_l2() < 1e-6


def test_other_problems_are_left_to_others():
    box = sx.Box(t=(0, 1), x=(0, 1), y=(0, 1))
    start = sx.Initial(lambda x, y: x * y)

    def suits(residual, conditions, **more):
        return evolution_in_space(sx.Problem(box, residual, conditions, **more)) is not None

    assert suits(lambda u: u.t - u.xx - u.yy, [start, sx.Dirichlet(0)])
    assert not suits(lambda u: u.t - u.xx - u.yy, [sx.Dirichlet(0)])
    assert not suits(lambda u: u.t - u.xx - u.yy, [start, sx.Dirichlet(0, on="x")])
    assert not suits(lambda u: u.tt - u.xx - u.yy, [start, sx.Dirichlet(0)])
    assert not suits(
        lambda u, k: u.t - k * u.xx - u.yy, [start, sx.Dirichlet(0)], unknowns={"k": 1.0}
    )
