"""The Navier-Stokes entries of the catalogue: their equations, their conditions, and a small
chaotic case solved."""

import json

import numpy as np
import pytest
from exact import exact_terms, growth, wave
from typer.testing import CliRunner

import separax as sx
from separax.cli.app import app
from separax.paper.catalogue import find, navier_stokes_3d
from separax.paper.catalogue.navier_stokes import problem as make_problem
from separax.paper.catalogue.navier_stokes import recipe, solved
from separax.paper.flow import Flow, random_flow
from separax.paper.references.navier_stokes import VISCOSITY
from separax.residuals.loss import Loss

COSINE = np.pi / 2


pytestmark = pytest.mark.usefixtures("own_cache")


# --- 3+1 axes -------------------------------------------------------------------------------------


def taylor_green(viscosity=navier_stokes_3d.VISCOSITY, error=0.0):
    """The manufactured velocity as sums of products, by component; with an error of some size in
    the first one."""
    decay = growth(-9 * viscosity)
    return [
        [
            (2.0, decay, wave(2, COSINE), wave(2), wave(1)),
            (error, decay, wave(1), wave(1), wave(2)),
        ],
        [(-1.0, decay, wave(2), wave(2, COSINE), wave(1))],
        [(-2.0, decay, wave(2), wave(2), wave(1, COSINE))],
    ]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("recipe", ["paper", "best"])
def test_the_manufactured_flow_has_no_residual_and_meets_every_condition(recipe):
    problem = navier_stokes_3d.problem(recipe)
    how = sx.Recipe(
        sx.SPINN(rank=2, width=4, depth=1), points=6, sampler=sx.Uniform(), precision="float64"
    )
    terms, _ = exact_terms(problem, how, taylor_green())
    assert set(terms) == set(problem.names)
    assert terms == pytest.approx(
        dict.fromkeys(terms, 0.0), abs=(1e-11) ** 2
    )  # derivatives reach a hundred, and are squared
    wrong, _ = exact_terms(problem, how, taylor_green(error=1e-3))
    for name in ("wx", "wy", "wz", "continuity"):
        assert wrong[name] > 1e-9
    slower, _ = exact_terms(problem, how, taylor_green(viscosity=0.04))
    assert slower["wx"] > 1e-6


def test_the_vorticity_is_what_is_measured():
    problem = navier_stokes_3d.problem("paper")
    assert problem.outputs == ("u", "v", "w", "wx", "wy", "wz")
    t, x, y, z = (np.asarray(c) for c in (0.3, 0.7, 1.1, 2.0))
    step = 1e-3

    def speed(name, **moved):
        at = {"t": t, "x": x, "y": y, "z": z} | moved
        return float(navier_stokes_3d.velocity(**at)[name])

    def slope(name, axis, at):
        return (speed(name, **{axis: at + step}) - speed(name, **{axis: at - step})) / (2 * step)

    expected = navier_stokes_3d.vorticity(t, x, y, z)
    assert float(expected["wx"]) == pytest.approx(slope("w", "y", y) - slope("v", "z", z), abs=2e-3)
    assert float(expected["wy"]) == pytest.approx(slope("u", "z", z) - slope("w", "x", x), abs=2e-3)
    assert float(expected["wz"]) == pytest.approx(slope("v", "x", x) - slope("u", "y", y), abs=2e-3)


def test_the_papers_weights_in_three_dimensions():
    problem, recipe = find("navier-stokes-3d").make("paper")
    weights = dict(zip(problem.names, Loss(problem, recipe).weights))
    assert weights["continuity"] == 100
    assert {weights[f"initial {k}"] for k in ("u", "wx")} == {10}
    assert {weights[k] for k in ("wx", "wy", "wz", "boundary wx")} == {1}
    network = recipe.network
    assert (network.rank, network.width, network.depth, recipe.steps, recipe.optimiser.rate) == (
        128,
        64,
        5,
        50_000,
        1e-3,
    )


# --- 2+1 axes -------------------------------------------------------------------------------------


def vortex(fields, viscosity=VISCOSITY):
    """A Taylor-Green vortex in two dimensions, ψ = cos x cos y e^(-2νt), as (u, v) or as ψ."""
    decay = growth(-2 * viscosity)
    if fields == ("psi",):
        return [[(1.0, decay, wave(1, COSINE), wave(1, COSINE))]]
    return [[(-1.0, decay, wave(1, COSINE), wave(1))], [(1.0, decay, wave(1), wave(1, COSINE))]]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("recipe", ["paper", "best"])
def test_a_decaying_vortex_solves_both_forms(recipe):
    x = 2 * np.pi * np.arange(16) / 16
    flow = Flow(-np.cos(x)[:, None] * np.sin(x), np.sin(x)[:, None] * np.cos(x))
    problem = make_problem(recipe, flow)
    how = sx.Recipe(
        sx.SPINN(rank=2, width=4, depth=1), points=7, sampler=sx.Uniform(), precision="float64"
    )
    terms, _ = exact_terms(problem, how, vortex(problem.fields))
    assert terms == pytest.approx(dict.fromkeys(terms, 0.0), abs=(1e-12) ** 2)
    wrong, _ = exact_terms(problem, how, vortex(problem.fields, viscosity=0.02))
    assert wrong["vorticity"] > 1e-8


def test_the_papers_settings_in_two_dimensions():
    problem, recipe = find("navier-stokes").make("paper")
    weights = dict(zip(problem.names, Loss(problem, recipe).weights))
    assert weights == {
        "vorticity": 1,
        "continuity": 5_000,
        "initial u": 1e4,
        "initial v": 1e4,
        "initial w": 1e4,
    }
    network = recipe.network
    assert (network.rank, network.width, network.depth, network.frequencies) == (128, 128, 3, 5)
    assert (recipe.steps, recipe.optimiser.rate, recipe.sampler.shifts, recipe.sampler.every) == (
        100_000,
        2e-3,
        8,
        100,
    )
    assert find("navier-stokes").windows == 10
    assert problem.periodic == ("x", "y")
    initial = [term for term in problem.terms if term.axis == "t"]
    assert {term.fixed.shape for term in initial} == {(1, 128, 128)}


@pytest.mark.whole
@pytest.mark.parametrize(
    "recipe",
    [solved(20, 6, 62, iterations=60), pytest.param(recipe("best"), marks=pytest.mark.whole)],
    ids=["solved", "trained"],
)
def test_a_small_chaotic_case_is_solved(recipe):
    """One window of 0.1 from the random flow: the vorticity within five percent."""
    problem = make_problem("best", end=0.1)
    found = sx.solve(problem, recipe, progress=False)
    assert found.relative_l2() < 0.05
    assert found.relative_l2(field="w") == found.relative_l2()
    x = np.linspace(0, 2 * np.pi, 9)
    speeds = found(t=0.0, x=x, y=x)
    assert set(speeds) == {"psi", "u", "v", "w"}
    flow = random_flow(0)
    assert (
        np.max(np.asarray(speeds["u"]) ** 2 + np.asarray(speeds["v"]) ** 2)
        < 1.1 * flow.max_speed**2
    )


@pytest.mark.whole
def test_windows_and_an_initial_flow_from_the_command_line(tmp_path):
    flow = random_flow(3, points=64)
    np.savez(tmp_path / "flow.npz", u=flow.u, v=flow.v)
    options = [
        "--initial",
        str(tmp_path / "flow.npz"),
        "--windows",
        "2",
        "--points",
        "8",
        "--steps",
        "2",
        "--json",
    ]
    done = CliRunner().invoke(
        app, ["solve", "navier-stokes", *options, "--out", str(tmp_path / "run")]
    )
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] == 4
    assert len(result["relative_l2_windows"]) == 2
    assert (tmp_path / "run" / "windows" / "002" / "solution.npz").exists()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["navier-stokes", "--windows", "0"], "windows"),
        (["helmholtz", "--windows", "2"], "no time axis 't'"),
        (["navier-stokes", "--project"], "write --initial FILE --project"),
        (["navier-stokes", "--initial", "nowhere.npz"], "there is no such file"),
        (["klein-gordon", "--initial", "FLOW"], "does not begin from a flow"),
        (["navier-stokes", "--initial", "DIVERGENT"], "divergence"),
    ],
)
def test_bad_options_are_explained(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flow = random_flow(3, points=64)
    np.savez("FLOW.npz", u=flow.u, v=flow.v)
    x = 2 * np.pi * np.arange(64) / 64
    np.savez("DIVERGENT.npz", u=np.sin(x)[:, None] + 0 * x, v=np.sin(x) + 0 * x[:, None])
    given = [f"{o}.npz" if o in ("FLOW", "DIVERGENT") else o for o in options]
    done = CliRunner().invoke(app, ["solve", *given, "--steps", "20", "--points", "8"])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
