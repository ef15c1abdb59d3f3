"""The reference of incompressible flow: exact solutions, measured orders, what it must conserve,
and another method."""

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import order
from scipy.integrate import solve_ivp

import separax as sx
from separax.core.errors import InputError
from separax.paper.flow import Flow, random_flow
from separax.paper.references import navier_stokes
from separax.paper.references.navier_stokes import reference, solve

pytestmark = pytest.mark.usefixtures("own_cache")


def grid(points):
    return 2 * np.pi * np.arange(points) / points


def away(values, truth):
    return np.linalg.norm(values - truth) / np.linalg.norm(truth)


def calm(points=32):
    """A flow that 64 points per axis resolve to five digits, and 96 to nine."""
    return random_flow(seed=3, points=points, speed=1.0, peak=2)


def exact_vortices(t, x, y, wavenumber=1, viscosity=0.01, mean=(0, 0)):
    """The vortices of Taylor and Green, on a mean flow: they decay, and move with it."""
    k, fade = wavenumber, np.exp(-2 * viscosity * wavenumber**2 * t)
    x, y = k * (x - mean[0] * t), k * (y - mean[1] * t)
    u, v = mean[0] - np.cos(x) * np.sin(y) * fade, mean[1] + np.sin(x) * np.cos(y) * fade
    return {"u": u, "v": v, "w": 2 * k * np.cos(x) * np.cos(y) * fade}


# --- exact solutions and symmetries ---------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    points=st.integers(16, 33),
    wavenumber=st.integers(1, 5),
    viscosity=st.floats(0, 1),
    mean=st.tuples(st.floats(-9, 9), st.floats(-9, 9)),
)
def test_vortices_decay_and_move_with_the_mean_flow_exactly(points, wavenumber, viscosity, mean):
    x, times = grid(points), np.array([0, 0.3, 1])
    start = exact_vortices(0, x[:, None], x, wavenumber, viscosity, mean)
    found = solve(start["u"], start["v"], times, viscosity)
    true = exact_vortices(times[:, None, None], x[:, None], x, wavenumber, viscosity, mean)
    np.testing.assert_array_equal(found["x"], x)
    for name in ("u", "v", "w"):
        np.testing.assert_allclose(found[name], true[name], atol=1e-11)


def shifted(u, v):
    return np.roll(u, (5, 2), (-2, -1)), np.roll(v, (5, 2), (-2, -1))


def turned(u, v):
    """By a quarter: what was at (x, y) is at (-y, x), and (u, v) becomes (-v, u)."""
    return tuple(np.roll(np.swapaxes(a, -1, -2)[..., ::-1, :], 1, -2) for a in (-v, u))


def mirrored(u, v):
    return tuple(np.roll(a[..., ::-1, :], 1, -2) for a in (-u, v))


@pytest.mark.parametrize("change", [shifted, turned, mirrored])
def test_the_solution_of_a_changed_flow_is_the_changed_solution(change):
    flow = calm()
    plain, other = solve(flow.u, flow.v, [0.5]), solve(*change(flow.u, flow.v), [0.5])
    for found, expected in zip((other["u"], other["v"]), change(plain["u"], plain["v"])):
        np.testing.assert_allclose(found, expected, atol=1e-12)


# --- what is conserved ----------------------------------------------------------------------------


def mean_of(*arrays):
    return sum((a**2).mean(axis=(-2, -1)) for a in arrays)


def test_energy_goes_where_viscosity_takes_it():
    """d/dt ½⟨u² + v²⟩ = -ν⟨ω²⟩ and d/dt ½⟨ω²⟩ = -ν⟨|∇ω|²⟩, integrated over time; at any
    resolution."""
    flow, viscosity = random_flow(seed=1, points=32, speed=3, peak=2), 0.02
    nodes, weights = np.polynomial.legendre.leggauss(12)
    times = np.r_[0, (1 + nodes) / 2, 1]
    found = solve(flow.u + 0.5, flow.v, times, viscosity, courant=0.25)
    energy, enstrophy = mean_of(found["u"], found["v"]) / 2, mean_of(found["w"]) / 2
    lost = viscosity * (weights / 2) @ mean_of(found["w"])[1:-1]
    assert lost > 0.05 * energy[0]
    assert energy[0] - energy[-1] == pytest.approx(lost, rel=1e-7)
    slopes = [Flow(w, 0 * w)._gradients()[0] for w in found["w"]]
    lost = viscosity * (weights / 2) @ [mean_of(*s) for s in slopes[1:-1]]
    assert enstrophy[0] - enstrophy[-1] == pytest.approx(lost, rel=1e-6)


def test_without_viscosity_energy_and_enstrophy_stay():
    flow = random_flow(seed=1, points=32, speed=3, peak=2)
    losses = []
    for courant in (1.0, 0.5):
        found = solve(flow.u, flow.v, [0, 0.5, 1], viscosity=0, courant=courant)
        energy, enstrophy = mean_of(found["u"], found["v"]), mean_of(found["w"])
        losses.append((np.ptp(energy) / energy[0], np.ptp(enstrophy) / enstrophy[0]))
    assert np.max(losses[0]) < 1e-4
    assert (
        np.divide(*losses) > 20
    ).all()  # only the time step loses any, and that with the order five
    assert away(found["w"][-1], found["w"][0]) > 0.5  # and yet it moves


def test_the_mean_velocity_and_the_divergence_stay():
    flow = random_flow(points=64, speed=3)
    found = solve(flow.u + 0.7, flow.v - 0.2, [0.2, 0.4])
    for u, v, w in zip(found["u"], found["v"], found["w"]):
        after = Flow(u, v)
        assert after.mean == pytest.approx((0.7, -0.2), abs=1e-13)
        assert after.divergence < 1e-12
        np.testing.assert_allclose(after.vorticity, w, atol=1e-11)


# --- measured orders ------------------------------------------------------------------------------


def test_the_error_in_time_is_of_order_four():
    flow = random_flow(seed=2, points=32, speed=3, peak=2)
    numbers = np.array([1.0, 0.5, 0.25, 0.125])
    *found, truth = (solve(flow.u, flow.v, [1.0], courant=c)["w"] for c in (*numbers, 1 / 64))
    errors = [away(w, truth) for w in found]
    assert order(1 / numbers, errors) == pytest.approx(4, abs=0.3)
    assert errors[0] < 1e-3


def test_the_error_in_space_falls_faster_than_any_power():
    flow, sizes = calm(), np.array([32, 48, 64, 80])
    # the same time step for all, or its error would show at 64 points
    *found, truth = (
        solve(flow.u, flow.v, [1.0], 0.02, n, 32, courant=n / 320)["w"] for n in (*sizes, 160)
    )
    errors = [away(w, truth) for w in found]
    slopes = -np.diff(np.log(errors)) / np.diff(np.log(sizes))
    assert slopes[-1] > 1.5 * slopes[0] > 4
    assert errors[-1] < 1e-6


# --- another method -------------------------------------------------------------------------------


def by_finite_differences(flow, points, end, viscosity):
    """ω at `end` with second differences only: Arakawa's form of the nonlinear term, and a factored
    matrix for -Δψ = ω."""
    h = 2 * np.pi / points
    ring = scipy.sparse.diags_array(
        [1.0, 1, -2, 1, 1], offsets=[1 - points, -1, 0, 1, points - 1], shape=(points, points)
    )
    one = scipy.sparse.eye_array(points)
    laplace = ((scipy.sparse.kron(ring, one) + scipy.sparse.kron(one, ring)) / h**2).tocsc()
    poisson = scipy.sparse.linalg.splu(-laplace[1:, 1:])  # ψ is zero at one point

    def at(a, i, j):
        return np.roll(a, (-i, -j), (0, 1))

    def bracket(a, b):
        """a_x b_y - a_y b_x, as the mean of three forms that together keep energy and enstrophy."""
        sides = [(1, 0), (0, 1), (-1, 0), (0, -1)]
        total = 0
        for (i, j), (k, m) in zip(sides, sides[1:] + sides[:1]):
            corner = at(b, i + k, j + m)
            total = total + at(a, i, j) * (
                at(b, k, m) - at(b, -k, -m) + corner - at(b, i - k, j - m)
            )
            total = total + at(a, i + k, j + m) * (at(b, k, m) - at(b, i, j))
        return total / (12 * h**2)

    def rate(t, flat):
        psi = np.r_[0, poisson.solve(flat[1:])].reshape(points, points)
        return bracket(psi, flat.reshape(points, points)).ravel() + viscosity * (laplace @ flat)

    start = flow.resampled(points).vorticity.ravel()
    return solve_ivp(rate, (0, end), start, rtol=1e-7, atol=1e-7).y[:, -1].reshape(points, points)


def test_the_solution_agrees_with_finite_differences():
    flow, end, viscosity = random_flow(seed=5, points=16, speed=1.0, peak=1), 0.6, 0.02
    sizes = [32, 64, 128]
    truth = solve(flow.u, flow.v, [end], viscosity, resolution=64, points=128)["w"][0]
    assert away(truth, flow.resampled(128).vorticity) > 0.2
    found = [by_finite_differences(flow, n, end, viscosity) for n in sizes]
    errors = [away(w, truth[:: 128 // n, :: 128 // n]) for n, w in zip(sizes, found)]
    assert order(sizes, errors) == pytest.approx(2, abs=0.2)
    extrapolated = (4 * found[-1][::2, ::2] - found[-2]) / 3
    assert away(extrapolated, truth[::2, ::2]) < 2e-4


# --- the reference --------------------------------------------------------------------------------

SETTINGS = {"viscosity": 0.02, "end": 1.5, "resolution": 96}


@pytest.fixture(scope="module")
def flow():
    still = random_flow(seed=4, points=48, speed=2.0, peak=2)
    return Flow(still.u + 0.4, still.v - 0.3)


@pytest.fixture(scope="module")
def fields(flow):
    return reference(flow.u, flow.v, **SETTINGS)


def scattered(number, seed=0):
    draw = np.random.default_rng(seed)
    return draw.uniform(0, 1.5, number), *draw.uniform(0, 2 * np.pi, (2, number))


def test_between_instants_and_points_it_is_the_solution(flow, fields):
    times = np.array([0, 0.001, 0.0713, 0.25, 0.8, 1.4987, 1.5])
    truth = solve(flow.u, flow.v, times, 0.02, resolution=144, points=90, courant=0.5)
    x = truth["x"]
    for name, allowed in {"u": 3e-7, "v": 3e-7, "w": 3e-6}.items():
        assert away(fields[name](times[:, None, None], x[:, None], x), truth[name]) < allowed


def test_the_functions_solve_the_equation(fields):
    """With differences of order six of what is interpolated, which know nothing of Fourier
    series."""
    u, v, w = fields["u"], fields["v"], fields["w"]
    t, x, y = scattered(40)
    t, h = 0.05 + 0.9 * t, 0.01  # shorter differences would see the joints between polynomials

    def along(f, axis, weights):
        moved = [[c + i * h * (n == axis) for n, c in enumerate((t, x, y))] for i in range(-3, 4)]
        return sum(weight * f(*place) for weight, place in zip(weights, moved))

    first = np.array([-1, 9, -45, 0, 45, -9, 1]) / (60 * h)
    second = np.array([2, -27, 270, -490, 270, -27, 2]) / (180 * h**2)
    size = np.abs(along(w, 0, first)).max()
    carried = u(t, x, y) * along(w, 1, first) + v(t, x, y) * along(w, 2, first)
    spread = 0.02 * (along(w, 1, second) + along(w, 2, second))
    np.testing.assert_allclose(along(w, 0, first) + carried, spread, atol=1e-4 * size)
    np.testing.assert_allclose(along(u, 1, first), -along(v, 2, first), atol=1e-6)
    np.testing.assert_allclose(along(v, 1, first) - along(u, 2, first), w(t, x, y), atol=1e-5)


def test_it_is_periodic_in_space_and_unknown_beyond_its_time(fields):
    t, x, y = scattered(20)
    for name, field in fields.items():
        np.testing.assert_allclose(
            field(t, x + 2 * np.pi, y - 4 * np.pi), field(t, x, y), atol=1e-6
        )
        np.testing.assert_allclose(
            field(0.3, x[:, None] + 2 * np.pi, y), field(0.3, x[:, None], y), atol=1e-11
        )
        assert np.isnan(field(np.array([-0.1, 0.2, 1.6]), x[:3], y[:3])).tolist() == [
            True,
            False,
            True,
        ], name
        assert np.isnan(field(1.6, x[:, None], y)).all()


def test_what_viscosity_takes_at_once_is_followed():
    """A shear flow has no nonlinear term: u = Σ sin(ky) e^(-νk²t), here with waves that are gone at
    a fiftieth of the time."""
    y, waves = grid(24), np.arange(1, 8)[:, None, None]
    start = np.sin(waves[:, 0] * y).sum(axis=0) * np.ones((24, 1))
    u = reference(start, 0 * start, viscosity=1.0, end=1.0, resolution=36)["u"]
    t, y = np.linspace(0, 1, 333)[:, None], np.linspace(0, 6, 20)
    true = (np.sin(waves * y) * np.exp(-(waves**2) * t)).sum(axis=0)
    np.testing.assert_allclose(u(t, 0.3, y), true, atol=1e-5)


def test_nothing_is_solved_until_there_are_numbers_and_then_once_for_all(flow, monkeypatch):
    solved, march = [], navier_stokes.march
    monkeypatch.setattr(
        "separax.paper.references.navier_stokes.march",
        lambda *arguments: solved.append(1) or march(*arguments),
    )
    monkeypatch.setenv("SEPARAX_CACHE", os.environ["SEPARAX_CACHE"] + "-2")
    fields = reference(flow.u, flow.v, 0.02, 0.1, 72)

    def residual(u, v):
        return {"x": u.t + u.value * u.x, "y": v.t}

    box = sx.Box(t=(0, 0.1), x=(0, 2 * np.pi), y=(0, 2 * np.pi))
    velocities = {name: fields[name] for name in ("u", "v")}
    problem = sx.Problem(box, residual, fields=("u", "v"), reference=velocities)
    assert jax.eval_shape(fields["w"], *(jax.ShapeDtypeStruct((3,), jnp.float32),) * 3).shape == (
        3,
    )
    assert solved == []
    place = problem.box.lattice(5)
    found = problem.reference_values(place.arrays(), place.shape, problem.reference)
    assert found["u"].shape == found["v"].shape == (5, 5, 5)
    fields["w"](0.05, 1.0, 2.0)
    assert solved == [1]
    reference(flow.u, flow.v, 0.02, 0.1, 72)["v"](0.05, 1.0, 2.0)  # from the cache
    assert solved == [1]
    for other in (
        (2 * flow.u, 2 * flow.v, 0.02, 0.1, 72),
        (flow.u, flow.v, 0.03, 0.1, 72),
        (flow.u, flow.v, 0.02, 0.2, 72),
    ):
        reference(*other)["v"](0.05, 1.0, 2.0)
    assert len(solved) == 4


def test_waves_too_fine_for_the_grid_are_said(flow):
    with pytest.warns(UserWarning, match=r"finest waves hold .* of the vorticity.*resolution=54"):
        reference(flow.u, flow.v, 0.001, 0.5, 36)["u"](0.1, 0.2, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reference(flow.u, flow.v, **SETTINGS)["u"](0.1, 0.2, 0.3)


def test_the_finest_waves_tell_the_error():
    flow = calm()
    truth = solve(flow.u, flow.v, [1.0], 0.02, 160, courant=0.5)["w"]
    for n in (48, 64, 80):
        vorticity = navier_stokes.march(flow, np.array([1.0]), 0.02, n, n / 320)
        error = away(solve(flow.u, flow.v, [1.0], 0.02, n, 160, n / 320)["w"], truth)
        assert 0.1 * error < navier_stokes.finest(vorticity) < 10 * error


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"viscosity": -0.1}, "viscosity"),
        ({"viscosity": "thick"}, "viscosity"),
        ({"resolution": 3}, "resolution"),
        ({"points": 2.5}, "points"),
        ({"courant": 0}, "courant"),
        ({"times": [0.5, 0.2]}, "times"),
        ({"times": [-1, 0.2]}, "times"),
        ({"times": [0, np.nan]}, "times"),
        ({"times": []}, "times"),
        ({"u0": np.zeros(8)}, r"u0 and v0: u .*\(8,\)"),
        ({"u0": np.zeros((8, 9))}, "8×9"),
        ({"u0": np.zeros((16, 16))}, "same grid"),
        ({"v0": np.full((8, 8), np.inf)}, "64 of 64"),
        ({"u0": np.sin(grid(8))[:, None] * np.ones(8)}, r"divergence.*projected\(\)"),
    ],
)
def test_what_cannot_be_solved_is_refused(bad, words):
    arguments = {"u0": np.zeros((8, 8)), "v0": np.zeros((8, 8)), "times": [0, 1]} | bad
    with pytest.raises(InputError, match=words):
        solve(**arguments)


def test_a_flow_at_rest_stays_at_rest():
    found = solve(np.zeros((8, 8)), np.zeros((8, 8)), [0, 5])
    assert all((found[name] == 0).all() for name in ("u", "v", "w"))
    assert reference(np.zeros((8, 8)), np.zeros((8, 8)), resolution=8)["w"](0.3, 1.0, 2.0) == 0


@pytest.mark.slow
def test_the_stated_error():
    flow, times = random_flow(), np.array([0.0021, 0.05, 0.123, 0.237, 0.4567, 0.801, 1])
    truth = solve(flow.u, flow.v, times, resolution=576, points=256, courant=0.5)
    x = truth["x"]
    for name, field in reference(flow.u, flow.v).items():
        assert (
            away(field(times[:, None, None], x[:, None], x), truth[name])
            < navier_stokes.STATED_ERROR[name]
        )
