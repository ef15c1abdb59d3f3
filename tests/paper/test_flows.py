"""Flows to start from: what a random one must be, and what a file must hold, or be refused for by
name."""

import warnings

import numpy as np
import pytest
import scipy.io
from hypothesis import example, given, settings
from hypothesis import strategies as st

from separax.core.errors import InputError
from separax.paper.flow import (
    Flow,
    coefficients,
    on_lattice,
    random_flow,
    values,
)
from separax.paper.flow_files import load_flow


def grid(points):
    return 2 * np.pi * np.arange(points) / points


def stirred(x, y):
    """A flow without divergence and without symmetry, by formula: u, v and its vorticity."""
    u = np.cos(2 * y + 0.3) + np.sin(x) * np.cos(y) + 0.5 + 0 * x
    v = np.sin(3 * x - 0.4) - np.cos(x) * np.sin(y) - 0.2 + 0 * y
    return (
        u,
        v,
        3 * np.cos(3 * x - 0.4)
        + np.sin(x) * np.sin(y)
        + 2 * np.sin(2 * y + 0.3)
        + np.sin(x) * np.sin(y),
    )


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- flows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [8, 9, 32, 33])
def test_vorticity_and_divergence_are_those_of_the_function(points):
    x = grid(points)
    u, v, w = stirred(x[:, None], x)
    flow = Flow(u, v)
    np.testing.assert_allclose(flow.vorticity, w, atol=1e-13)
    assert flow.divergence < 1e-14
    assert flow.mean == pytest.approx((0.5, -0.2), abs=1e-15)
    assert flow.max_speed == np.sqrt(u**2 + v**2).max()
    strained = Flow(u + np.sin(x)[:, None], v)
    gradients = [
        np.cos(x)[:, None] * (1 + np.cos(x)),
        -np.sin(x)[:, None] * np.sin(x) - 2 * np.sin(2 * x + 0.3),
    ]
    gradients += [
        3 * np.cos(3 * x - 0.4)[:, None] + np.sin(x)[:, None] * np.sin(x),
        -np.cos(x)[:, None] * np.cos(x),
    ]
    assert strained.divergence == pytest.approx(1 / np.abs(gradients[:3]).max())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), points=st.integers(4, 24), other=st.integers(4, 40))
def test_series_values_and_flows_on_other_grids_are_the_same_function(seed, points, other):
    highest = (points - 1) // 2
    noise = np.random.default_rng(seed).standard_normal((2, points, points))
    flow = Flow(*values(coefficients(noise, highest), points))
    held, x = min(highest, (other - 1) // 2), grid(other)
    series = coefficients(np.stack([flow.u, flow.v]), held)
    found = flow.resampled(other)
    np.testing.assert_allclose([found.u, found.v], on_lattice(series, x, x), atol=1e-12)
    np.testing.assert_allclose(coefficients(np.stack([found.u, found.v]), held), series, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), points=st.integers(4, 33))
def test_projecting_keeps_the_vorticity_and_is_orthogonal(seed, points):
    flow = Flow(*np.random.default_rng(seed).standard_normal((2, points, points)))
    kept = flow.projected()
    assert kept.divergence < 1e-12
    assert kept.mean == pytest.approx(flow.mean, abs=1e-13)
    np.testing.assert_allclose(kept.vorticity, flow.vorticity, atol=1e-11)
    again = kept.projected()
    np.testing.assert_allclose([again.u, again.v], [kept.u, kept.v], atol=1e-13)
    removed = ((flow.u - kept.u) * kept.u + (flow.v - kept.v) * kept.v).mean()
    assert removed == pytest.approx(
        0, abs=1e-12
    )  # so that no other flow without divergence is nearer


def test_the_velocity_comes_back_from_the_vorticity():
    x = grid(24)
    u, v, w = stirred(x[:, None], x)
    flow = Flow.of_vorticity(w)
    np.testing.assert_allclose([flow.u, flow.v], [u - 0.5, v + 0.2], atol=1e-14)
    with pytest.raises(InputError, match=r"mean of 1.*w - w\.mean\(\)"):
        Flow.of_vorticity(w + 1)


# --- random flows ---------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    peak=st.integers(1, 5),
    more=st.integers(1, 40),
    speed=st.floats(0.01, 100),
)
def test_a_random_flow_has_no_divergence_and_no_mean(seed, peak, more, speed):
    flow = random_flow(seed, 12 * peak + more, speed, peak)
    assert flow.points == 12 * peak + more
    assert flow.divergence < 1e-13
    assert np.hypot(*flow.mean) < 1e-14 * speed
    assert 0.8 * speed < flow.max_speed <= speed * (1 + 1e-12)


@pytest.mark.whole
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), peak=st.integers(1, 4))
@example(seed=1995, peak=1)  # on a grid, the highest of two peaks is not the higher one
def test_the_largest_speed_is_exactly_the_one_asked_for(seed, peak):
    """No point of a fine grid is faster, and around its fastest one there is a place as fast as was
    asked for."""
    flow = random_flow(seed, 12 * peak + 2, 5.0, peak)
    fine = flow.resampled(240 * peak)
    assert 4.98 < fine.max_speed <= 5 + 1e-12
    speeds = np.hypot(fine.u, fine.v)
    series = coefficients(np.stack([flow.u, flow.v]), 6 * peak)
    nearby = np.linspace(-1, 1, 401) * 2 * np.pi / len(speeds)
    found = []
    for i, j in np.argwhere(speeds > 4.98):
        found.append(
            np.hypot(
                *on_lattice(series, grid(len(speeds))[i] + nearby, grid(len(speeds))[j] + nearby)
            ).max()
        )
    assert 5 - 1e-6 < max(found) <= 5 + 1e-12


def test_a_seed_is_a_flow():
    np.testing.assert_array_equal(random_flow(5).u, random_flow(5).u)
    assert np.abs(random_flow(5).u - random_flow(6).u).max() > 1
    np.testing.assert_allclose(random_flow(5, speed=1.0).v, random_flow(5).v / 5, atol=1e-14)
    # drawn once: another generator, order or band would be another flow under the same seed
    np.testing.assert_allclose(
        random_flow(0).u[[0, 3, 64], [0, 17, 100]],
        [-1.05609052, -0.50218977, -0.58954015],
        atol=1e-8,
    )


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"seed": -1}, "seed"),
        ({"points": 36}, "points must be more than 36.*peak=3, got 36: write points=38"),
        ({"speed": 0}, "speed"),
        ({"peak": 0}, "peak"),
        ({"peak": 2.5}, "peak"),
    ],
)
def test_a_random_flow_that_cannot_be_is_refused(bad, words):
    with pytest.raises(InputError, match=words):
        random_flow(**bad)


# --- files ----------------------------------------------------------------------------------------


def save_npz(path, **arrays):
    np.savez(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


def save_mat(path, **arrays):
    scipy.io.savemat(path.with_suffix(".mat"), arrays)
    return path.with_suffix(".mat")


def save_netcdf(path, **arrays):
    """With the axes in the order of the file's choice: their names say which is which."""
    xarray = pytest.importorskip("xarray")
    found = {
        name: ((name,) if a.ndim == 1 else ("time", "x", "y")[-a.ndim :], a)
        for name, a in arrays.items()
    }
    found = {
        name: (dims[::-1], a.T) if name == "v" else (dims, a) for name, (dims, a) in found.items()
    }
    xarray.Dataset(found).to_netcdf(path.with_suffix(".nc"), engine="scipy")
    return path.with_suffix(".nc")


SAVERS = [save_npz, save_mat, save_netcdf]


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("save", SAVERS)
def test_a_flow_comes_back_from_its_file(tmp_path, save):
    x = grid(16)
    u, v, w = stirred(x[:, None], x)
    flow = load_flow(save(tmp_path / "both", u=u, v=v))
    np.testing.assert_array_equal(flow.u, u)
    np.testing.assert_array_equal(flow.v, v)
    flow = load_flow(str(save(tmp_path / "all", u=u, v=v, w=w, x=x, y=x, other=np.arange(3))))
    np.testing.assert_array_equal([flow.u, flow.v], [u, v])
    for name in ("w", "vorticity", "Omega"):
        flow = load_flow(save(tmp_path / name, **{name: w}))
        np.testing.assert_allclose([flow.u, flow.v], [u - 0.5, v + 0.2], atol=1e-13)


@pytest.mark.parametrize("save", SAVERS)
def test_of_several_instants_the_first_is_taken(tmp_path, save):
    x = grid(16)
    u, v, _ = stirred(x[:, None], x)
    later = np.full((16, 16), np.nan)
    with pytest.warns(UserWarning, match="holds 3 instants: the first is taken") as said:
        flow = load_flow(
            save(tmp_path / "flow", u=np.stack([u, later, later]), v=np.stack([v, later, later]))
        )
    assert len(said) == 1
    np.testing.assert_array_equal([flow.u, flow.v], [u, v])


def changed(**changes):
    """What a file holds that is not as it should be: u and v with changes, which are arrays or made
    of u, v and w."""
    x = grid(48)
    u, v, w = stirred(x[:, None], x)
    arrays = {"u": u, "v": v, "w": w}
    found = {
        name: change(arrays) if callable(change) else change for name, change in changes.items()
    }
    return {name: a for name, a in ({"u": u, "v": v} | found).items() if a is not None}


def closed(a):
    """With the first row and column again at the end."""
    return np.pad(a, (0, 1), mode="wrap")


def with_nan(arrays):
    u = arrays["u"].copy()
    u[2, 3] = np.nan
    u[5] = np.inf
    return u


TRANSPOSED = {"u": lambda a: a["u"].T, "v": lambda a: a["v"].T}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"u": None, "temperature": np.zeros(3)},
            r"it holds temperature, v: .* u and v, or .* w or vorticity or omega",
        ),
        ({"u": None, "v": None}, "it holds none"),
        ({"u": np.zeros(48)}, r"u must be an array \(n, n\).*\(48,\)"),
        ({"u": np.zeros((2, 3, 48, 48))}, r"\(2, 3, 48, 48\)"),
        ({"u": np.zeros((48, 48, 4))}, r"not \(instants, n, n\): save np\.moveaxis\(u, -1, 0\)"),
        ({"u": np.zeros((0, 48, 48))}, r"\(0, 48, 48\)"),
        ({"u": np.zeros((48, 20))}, "as many points along x as along y, got 48×20"),
        ({"u": np.zeros((20, 20))}, r"same grid, got u \(20, 20\) and v \(48, 48\)"),
        ({"u": np.zeros((3, 3)), "v": np.zeros((3, 3))}, "at least 4×4"),
        ({"u": with_nan}, "u is not a number or infinite at 49 of 2304 points"),
        ({"u": np.full((48, 48), "a")}, "u must hold real numbers"),
        ({"u": None, "v": None, "w": lambda a: a["w"] + 1}, "w has a mean of 1.*is zero"),
        (
            {"u": lambda a: a["u"] + grid(48)[:, None]},
            "u is not periodic along x: its second differences reach.*elsewhere",
        ),
        ({"v": lambda a: a["v"] + np.sin(grid(48) / 2)}, "v is not periodic along y"),
        (
            {"u": None, "v": None, "w": lambda a: a["w"] * np.cos(1.2 * grid(48))},
            "w is not periodic along y",
        ),
        (
            {"u": lambda a: a["u"] + np.sin(grid(48))[:, None]},
            r"divergence of \d.*e-01.*1e-03.*project=True \(--project\)",
        ),
        (TRANSPOSED, r"divergence.*axes exchanged: they are indexed \[y, x\]; save u\.T and v\.T"),
        ({"x": grid(48) / 6.28}, "x must be the 48 points 2πi/48"),
        ({"x": grid(49)}, "x must be the 48 points"),
        ({"y": grid(48) + 0.1}, "y must be the 48 points"),
        ({"y": np.full(48, np.nan)}, "y must be the 48 points"),
        ({"x": grid(48)[:, None] + grid(48)}, "x must be the 48 points"),
        ({"u": lambda a: closed(a["u"]), "v": lambda a: closed(a["v"])}, "first ones again"),
        ({"u": None, "v": None, "w": lambda a: closed(a["w"])}, "first ones again"),
    ],
)
def test_a_file_that_is_no_flow_is_refused_in_words(tmp_path, changes, words):
    path = save_npz(tmp_path / "flow", **changed(**changes))
    with pytest.raises(InputError, match=words) as error:
        load_flow(path)
    assert str(error.value).startswith(f"load_flow: {path}: ")


def test_what_has_divergence_is_projected_where_that_is_asked_for(tmp_path):
    x = grid(16)
    u, v, _ = stirred(x[:, None], x)
    push = 0.1 * np.cos(x)[:, None] * np.sin(x), 0.1 * np.sin(x)[:, None] * np.cos(x)  # a gradient
    path = save_npz(tmp_path / "flow", u=u + push[0], v=v + push[1])
    flow = load_flow(path, project=True)
    np.testing.assert_allclose([flow.u, flow.v], [u, v], atol=1e-14)
    with pytest.raises(
        InputError, match="exchanged"
    ):  # projecting would hide that it is another flow
        load_flow(save_npz(tmp_path / "turned", u=u.T, v=v.T), project=True)
    nearly = load_flow(save_npz(tmp_path / "nearly", u=u + 1e-3 * push[0], v=v))
    np.testing.assert_array_equal(nearly.u, u + 1e-3 * push[0])


@pytest.mark.usefixtures("silent")
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    peak=st.integers(1, 3),
    roll=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_a_periodic_flow_is_never_taken_for_another(tmp_path_factory, seed, peak, roll):
    flow = random_flow(seed, 12 * peak + 2, 1.0, peak)
    u, v, w = (np.roll(a, roll, (0, 1)) for a in (flow.u, flow.v, flow.vorticity))
    folder = tmp_path_factory.mktemp("flow")
    single = load_flow(save_npz(folder / "flow", u=u.astype(np.float32), v=v.astype(np.float32)))
    np.testing.assert_allclose([single.u, single.v], [u, v], atol=1e-6)
    np.testing.assert_allclose(load_flow(save_npz(folder / "w", w=w)).u, u, atol=1e-12)


def test_files_that_are_none_are_refused(tmp_path):
    path = save_npz(tmp_path / "flow", u=np.zeros((8, 8)), v=np.zeros((8, 8)))
    with pytest.raises(
        InputError, match=r"flaw\.npz: there is no such file.*\.npz, \.mat, \.nc.*'flow\.npz'"
    ):
        load_flow(tmp_path / "flaw.npz")
    with pytest.raises(InputError, match="no such file"):
        load_flow(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        load_flow(tmp_path / "nowhere" / "flow.npz")
    with pytest.raises(InputError, match="path must be the path of a file, got 3"):
        load_flow(3)  # pyright: ignore[reportArgumentType]
    np.save(tmp_path / "flow.npy", np.zeros((8, 8)))
    with pytest.raises(InputError, match=r"'\.npy' is not read.*np\.savez"):
        load_flow(tmp_path / "flow.npy")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read"):
        load_flow(path)
    np.savez(path, u=np.array([{}], dtype=object), v=np.zeros((8, 8)))
    with pytest.raises(InputError, match="cannot be read"):
        load_flow(path)
    (tmp_path / "flow.mat").write_bytes(b"not a file of MATLAB's" * 20)
    with pytest.raises(InputError, match="cannot be read"):
        load_flow(tmp_path / "flow.mat")
