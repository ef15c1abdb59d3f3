"""Networks with a core, made small: the same functions, with their derivatives, to the tolerance that was asked for."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained, untrained_march

import separax as sx
from separax.output import viewer as page
from separax.paper.catalogue import navier_stokes
from separax.separable.tucker import Tucker, join, multiply_core, shorten
from separax.solution.factors import factors, has_core

AXES = {"t": (0, 1), "x": (-1, 1), "y": (0, 2), "z": (-2, 2)}


def tucker(axes, neural=False, hard=False):
    """Two fields and what is made of their derivatives, with a core of all axes."""
    names = list(AXES)[:axes]
    last = names[-1]
    conditions = (
        [sx.Dirichlet(lambda x: jnp.sin(x), of="u", on="t-", hard=True)]
        if hard
        else [sx.Dirichlet(0, of="u", on="t-")]
    )
    problem = sx.Problem(
        sx.Box(**{a: AXES[a] for a in names}),
        lambda u, v: {"one": u.t - v.xx, "two": v.t - u.xx},
        conditions,
        fields=("u", "v"),
        derived={
            "w": lambda u, v: 0.5 + v.d(**{last: 2}) - 3 * u.x,
            "speed": lambda u, v: np.sqrt(u**2 + v**2),
        },
    )
    ranks = dict(zip(names, (3, 5, 6, 4)))
    network = sx.SPINN(
        rank=ranks, depth=1 if neural else 0, width=8, functions=8, body="mlp", merge="tucker"
    )
    return problem, sx.Recipe(network, 6, precision="float64")


def values(each, orders):
    return multiply_core(
        each.core, {i: f[order] for i, (f, order) in enumerate(zip(each.factors, orders))}
    )


# --- the decomposition -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
@pytest.mark.parametrize("number", [1, 3])
def test_joined_parts_are_the_same_functions_with_their_derivatives(axes, number):
    rng = np.random.default_rng(axes)
    along = axes // 2
    sizes = (3, 4, 2, 5)[:axes]
    shared = [rng.normal(size=(2, 9, n)) for n in sizes]
    parts = []
    for _ in range(number):
        own = [f if i != along else rng.normal(size=f.shape) for i, f in enumerate(shared)]
        own[0] = own[0] @ rng.normal(size=(sizes[0], sizes[0]))  # other columns of the same span
        parts.append(Tucker(own, rng.normal(size=sizes)))
    made = join(parts, along)
    for part, ours in zip(parts, made):
        assert ours.core is made[0].core
        assert all(ours.factors[i] is made[0].factors[i] for i in range(axes) if i != along)
        for orders in itertools.product((0, 1), repeat=axes):
            np.testing.assert_allclose(values(ours, orders), values(part, orders), atol=1e-9)
    assert all(
        f.shape[-1] <= n for i, (f, n) in enumerate(zip(made[0].factors, sizes)) if i != along
    )
    for i, f in enumerate(made[0].factors):
        rows = np.concatenate([each.factors[i][0] for each in made]) if i == along else f[0]
        np.testing.assert_allclose(rows.T @ rows, np.eye(rows.shape[1]), atol=1e-9)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_what_is_left_out_is_as_small_as_asked_for(tolerance):
    x = np.linspace(0, 1, 40)
    smooth = 1 / (1 + x[:, None, None] + x[:, None] ** 2 + 2 * x)
    whole = join([Tucker([np.eye(40)[None]] * 3, smooth)], 0)
    (short,) = shorten(whole, tolerance)
    assert max(short.core.shape) < 9
    error = np.linalg.norm(values(short, (0, 0, 0)) - smooth) / np.linalg.norm(smooth)
    assert error < np.sqrt(3) * tolerance
    fewer = Tucker([f[..., :-1] for f in short.factors], short.core[:-1, :-1, :-1])
    assert np.linalg.norm(values(fewer, (0, 0, 0)) - smooth) > tolerance * np.linalg.norm(smooth)


# --- for a page ------------------------------------------------------------------------------------------------------


def shown(solution):
    outputs = page.linear_outputs(solution)
    scales = {k: max(map(abs, r)) for k, r in page.value_ranges(solution, list(outputs)).items()}
    return outputs, scales, page.kept(solution.windows, outputs, scales)


def error_of(solution, held, outputs, scales, points=200):
    """The largest difference to the solution itself, at random points of each window."""
    most, rng = 0.0, np.random.default_rng(1)
    for number, window in enumerate(solution.windows):
        box = window.problem.box
        at = rng.uniform(-1, 1, (points, box.dimension))
        ends = np.array([box[a] for a in box.axes])
        true = window.at(ends[:, 0] + (at + 1) * (ends[:, 1] - ends[:, 0]) / 2)
        for name, output in outputs.items():
            ours = output.constant + sum(
                c * held.derivative(number, key, list(at.T)) for key, c in output.terms.items()
            )
            most = max(most, float(np.max(np.abs(ours - np.asarray(true[name])))) / scales[name])
    return most


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize(
    "options", [{}, {"neural": True}, {"hard": True}], ids=["polynomials", "neural", "built in"]
)
def test_a_page_has_every_output(axes, options):
    solution = untrained(*tucker(axes, **options))
    assert has_core(solution.model.network)
    outputs, scales, held = shown(solution)
    assert list(outputs) == ["u", "v", "w"]
    assert set(held.cores) == {0, 1}
    assert error_of(solution, held, outputs, scales) < 2e-6


def test_windows_share_all_but_time():
    solution = untrained_march(*tucker(3), 3)
    outputs, scales, held = shown(solution)
    assert error_of(solution, held, outputs, scales) < 2e-6
    first, *others = held.windows
    for window in others:
        assert all((window[key] is first[key]) == (key[1] > 0) for key in first)
    found = page.payload(solution)
    assert found["error"] < 2e-6
    whole = sum(core.size for core in held.cores.values()) + sum(a.size for a in first.values())
    own = sum(a.size for window in others for key, a in window.items() if key[1] == 0)
    assert len(found["numbers"]) == 4 * -(-4 * (whole + own) // 3)


def test_what_does_not_fit_is_what_matters_least(monkeypatch):
    """A vorticity is shown nearly as well as the stream function that it is two derivatives of; the page says how well."""
    solution = untrained_march(
        navier_stokes.problem("best", end=0.1), navier_stokes.solved(6, 3, 20), 2
    )

    def core(piece):  # fast waves are small
        core = piece.model.network.core
        return core * np.einsum(
            "a,b,c->abc", *(np.exp(-0.8 * np.arange(n)) for n in core.shape[1:])
        )

    with jax.enable_x64(True):
        solution = eqx.tree_at(
            lambda s: [piece.model.network.core for piece in s.pieces],
            solution,
            [core(piece) for piece in solution.pieces],
        )
    said = []
    for most in (4_000, 1_500, 800):
        monkeypatch.setattr("separax.output.viewer.MOST_NUMBERS", most)
        outputs, scales, held = shown(solution)
        arrays = {id(a): a for each in (held.cores, *held.windows) for a in each.values()}
        assert sum(a.size for a in arrays.values()) <= most
        said.append(page.measured(solution.windows, held, outputs, {}, scales))
        by_output = {k: error_of(solution, held, {k: outputs[k]}, scales) for k in outputs}
        assert said[-1] == pytest.approx(max(by_output.values()), rel=0.5)
        assert by_output["w"] < 10 * by_output["psi"]
    assert said[0] < 1e-6 < said[1] < said[2] < 0.2


# --- kept with a run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [1, 3])
def test_kept_factors_and_cores_make_the_fields(windows, tmp_path):
    problem, recipe = tucker(3)
    solution = (
        untrained(problem, recipe) if windows == 1 else untrained_march(problem, recipe, windows)
    )
    solution.save(tmp_path / "run")
    with np.load(tmp_path / "run" / "factors.npz") as found:
        for number, window in enumerate(solution.windows):
            own = f"{number + 1}." if windows > 1 else ""
            at = {
                "t": found[f"{own}nodes.t"][::51],
                "x": found["nodes.x"][::15],
                "y": found["nodes.y"][::17],
            }
            true = window.values(sx.Lattice(weights=None, **at))
            for name in ("u", "v", "w"):
                columns = [
                    found[f"{own}{name}.t"][::51],
                    found[f"{name}.x"][::15],
                    found[f"{name}.y"][::17],
                ]
                ours = np.einsum("abc,ta,xb,yc->txy", found[f"{name}.core"], *columns)
                scale = float(np.max(np.abs(true[name])))
                np.testing.assert_allclose(ours, true[name], atol=5e-6 * scale)
        assert all(found[name].dtype == np.float32 for name in found if name != "about")
        assert "speed.core" not in found


def test_other_networks_have_no_cores():
    problem, _ = tucker(2)
    solution = untrained(problem, sx.Recipe(sx.SPINN(rank=3, width=8, depth=1), 6))
    assert not any(name.endswith("core") for name in factors(solution))
    assert page.payload(solution)["cores"] == []
