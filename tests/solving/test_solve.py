"""From a problem to its solution: small runs, from the ten lines of the contract to interrupted and
resumed ones."""

import json
import math
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.runs.states import States
from separax.training.trainer import Trainer

TINY = sx.SPINN(rank=6, width=16, depth=2, body="mlp")


def recipe(**options):
    small = {
        "network": TINY,
        "points": 12,
        "steps": 200,
        "optimiser": sx.Adam(5e-3, "cosine"),
        "emphasis": 1.0,
    }
    return sx.Recipe(**(small | options))


def parameters(solution):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(solution.model) if hasattr(leaf, "shape")]


def same(one, other):
    for a, b in zip(parameters(one), parameters(other), strict=True):
        np.testing.assert_array_equal(a, b)


def decay(**options):
    """u' = -2u, u(0) = 1."""
    conditions = [sx.Initial(1.0, weight=10.0)]
    return sx.Problem(
        sx.Box(t=(0, 1)),
        lambda u: u.t + 2 * u,
        conditions,
        reference=lambda t: jnp.exp(-2 * t),
        name="decay",
        **options,
    )


def heat(*conditions, **options):
    """u_t = u_xx with u = e^(-t) sin x."""

    def exact(t, x):
        return jnp.exp(-t) * jnp.sin(x)

    given = conditions or (sx.Initial(exact), sx.Dirichlet(0))
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, math.pi)),
        lambda u: u.t - u.xx,
        given,
        reference=exact,
        name="heat",
        **options,
    )


# --- the contract ---------------------------------------------------------------------------------


def exact(t, x, y):
    return (x + y) * jnp.cos(2 * t) + x * y * jnp.sin(2 * t)


def klein_gordon(u, t, x, y):
    return u.tt - u.xx - u.yy + u**2 - (exact(t, x, y) ** 2 - 4 * exact(t, x, y))


BOX = sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1))
SEEN = []


@pytest.fixture(scope="module")
def solution():
    problem = sx.Problem(
        BOX,
        klein_gordon,
        conditions=[
            sx.Initial(exact),
            sx.Initial(lambda x, y: 2 * x * y, of=lambda u: u.t),
            sx.Dirichlet(exact, weight=10.0),
        ],
        reference=exact,
    )
    return sx.solve(problem, recipe(steps=600), callback=lambda **now: SEEN.append(now))


TS, XS, YS = np.linspace(0, 1, 5), np.linspace(-1, 1, 6), np.linspace(-0.5, 0.5, 7)


def test_a_solution_is_evaluated_on_a_lattice(solution):
    values = solution(t=TS, x=XS, y=YS)
    assert values.shape == (5, 6, 7)
    assert values.dtype == jnp.float32
    np.testing.assert_array_equal(values, solution(TS, XS, YS))
    np.testing.assert_array_equal(values, solution(sx.Lattice(t=TS, x=XS, y=YS)))
    np.testing.assert_array_equal(values, solution(y=YS, t=TS, x=XS))
    np.testing.assert_allclose(
        solution(t=TS, x=0.2, y=YS), solution(t=TS, x=[0.2], y=YS)[:, 0], rtol=1e-5, atol=1e-6
    )
    assert solution(t=0.5, x=0.2, y=0.1).shape == ()


def test_a_solution_is_evaluated_at_points(solution):
    grid = np.stack(np.meshgrid(TS, XS, YS, indexing="ij"), -1).reshape(-1, 3)
    found = solution.at(grid)
    assert found.shape == (5 * 6 * 7,)
    np.testing.assert_allclose(found, np.ravel(solution(t=TS, x=XS, y=YS)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found, solution.at(grid.tolist()))


def test_another_reference_is_measured_against(solution):
    """Errors are kept once they are measured: those against this reference, not against any."""
    before = solution.relative_l2()
    twice = solution.relative_l2(lambda t, x, y: 2 * exact(t, x, y))
    assert twice == pytest.approx(0.5, abs=before)
    assert solution.relative_l2() == before


def test_errors_against_the_reference(solution):
    true = np.asarray(exact(TS[:, None, None], XS[:, None], YS))
    ours = np.asarray(solution(t=TS, x=XS, y=YS))
    expected = np.linalg.norm(ours - true) / np.linalg.norm(true)
    assert solution.relative_l2(t=TS, x=XS, y=YS) == pytest.approx(expected, rel=1e-4)
    assert solution.relative_l2(true, t=TS, x=XS, y=YS) == pytest.approx(expected, rel=1e-4)
    assert solution.relative_l2(exact, t=TS, x=XS, y=YS) == pytest.approx(expected, rel=1e-4)
    assert solution.rmse(true, t=TS, x=XS, y=YS) == pytest.approx(
        np.sqrt(np.mean((ours - true) ** 2)), rel=1e-4
    )
    assert solution.relative_l2() < 0.05
    assert f"{solution.relative_l2():.2e}" in repr(solution)


def test_a_large_lattice_is_evaluated_in_slabs(solution, monkeypatch):
    whole = solution(t=TS, x=XS, y=YS)
    monkeypatch.setattr("separax.core.tuning.POINTS_AT_ONCE", {True: 90, False: 90})
    np.testing.assert_allclose(solution(t=TS, x=XS, y=YS), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        solution.at(np.zeros((200, 3))), float(solution(t=0, x=0, y=0)), rtol=1e-4, atol=1e-6
    )


def test_history(solution):
    history = solution.history
    np.testing.assert_array_equal(history.steps, np.arange(0, 600, 10))
    assert list(history.losses) == ["residual", "initial", "initial 2", "dirichlet"]
    terms = np.stack([*history.losses.values()])
    np.testing.assert_allclose(np.array([1, 1, 1, 10]) @ terms, history.total, rtol=1e-5)
    assert history.total[-1] < history.total[0] / 100
    if (
        solution.best_step < 600
    ):  # else it is the loss after the last step, which the history ends before
        assert solution.best_loss == history.total.min()
        assert solution.best_step == history.steps[history.total.argmin()]
    assert solution.best_loss <= history.total.min()
    assert history.error_steps[-1] == 600
    assert history.errors[-1] == pytest.approx(solution.relative_l2(), rel=0.1)


def test_timing(solution):
    timing = solution.timing
    assert timing.steps == 600
    assert timing.compile_seconds > 0
    assert timing.ms_per_step == pytest.approx(1e3 * timing.train_seconds / 600)
    assert solution.memory_bytes > 0
    assert not solution.interrupted


def test_callbacks_see_the_run(solution):
    assert [now["step"] for now in SEEN] == sorted({now["step"] for now in SEEN})
    assert SEEN[0]["step"] == 100
    assert SEEN[-1]["step"] == SEEN[-1]["steps"] == 600
    assert set(SEEN[0]) == {"step", "steps", "loss", "error", "rate"}
    assert SEEN[-1]["error"] == pytest.approx(solution.history.errors[-1])
    assert all(now["rate"] > 0 for now in SEEN)


def test_sections_of_integrals_over_all_orders_of_axes(solution):
    """∫dx ∫dt = ∫dt ∫dx = ∫dx dt, for arrays, numbers, and any choice of axes."""
    weights = {axis: sx.quadrature(BOX, 20) for axis in "txy"}
    rule = weights["x"]
    values = np.asarray(solution(rule), np.float64)
    wt, wx, wy = (np.asarray(w, np.float64) for w in rule.weights)
    total = np.einsum("txy,t,x,y", values, wt, wx, wy)
    assert float(solution.integral(points=20)) == pytest.approx(total, abs=1e-5)
    assert float(solution.integral("t", "x", "y", points=20)) == pytest.approx(total, abs=1e-5)
    over_x = np.einsum("txy,x->ty", values, wx)
    np.testing.assert_allclose(
        solution.integral("x", t=rule["t"], y=rule["y"], points=20), over_x, atol=1e-5
    )
    np.testing.assert_allclose(
        solution.integral("x", t=rule["t"][3], y=rule["y"], points=20), over_x[3], atol=1e-5
    )
    np.testing.assert_allclose(
        solution.integral("x", t=rule["t"], y=rule["y"][4], points=20), over_x[:, 4], atol=1e-5
    )
    over_ty = np.einsum("txy,t,y->x", values, wt, wy)
    np.testing.assert_allclose(
        solution.integral("y", "t", x=rule["x"], points=20), over_ty, atol=1e-5
    )
    energy = np.einsum("txy,t,x,y", values**2, wt, wx, wy)
    assert float(solution.of(lambda u: u**2).integral(points=20)) == pytest.approx(energy, rel=1e-5)
    assert float(
        solution.of(lambda u: u**2).integral("x", "t", "x", "y", points=20)
    ) == pytest.approx(energy, rel=1e-5)
    assert solution.norm(points=20) == pytest.approx(math.sqrt(energy), rel=1e-5)


def test_operators_of_a_solution_are_its_derivatives(solution):
    one = solution.d(x=2)(t=TS, x=XS, y=YS)
    np.testing.assert_array_equal(one, solution.of(lambda u: u.xx)(t=TS, x=XS, y=YS))
    residual = solution.of(klein_gordon)(t=TS, x=XS, y=YS)
    by_hand = (
        solution.of(lambda u: u.tt - u.xx - u.yy)(t=TS, x=XS, y=YS)
        + solution(t=TS, x=XS, y=YS) ** 2
    )
    true = np.asarray(exact(TS[:, None, None], XS[:, None], YS))
    np.testing.assert_allclose(residual, by_hand - true**2 + 4 * true, rtol=1e-4, atol=1e-4)
    both = solution.of(lambda u: {"slope": u.x, "square": u**2})(t=0.5, x=XS, y=0.0)
    np.testing.assert_allclose(
        both["square"], solution(t=0.5, x=XS, y=0.0) ** 2, rtol=1e-5, atol=1e-6
    )


def test_operators_of_derivatives_are_chained_or_refused(solution):
    """(u_x)², not u²."""
    try:
        found = solution.d(x=1).of(lambda u: u**2)(t=TS, x=XS, y=YS)
    except (sx.InputError, AttributeError):
        return
    np.testing.assert_allclose(found, solution.d(x=1)(t=TS, x=XS, y=YS) ** 2, rtol=1e-4, atol=1e-5)


# --- derivatives and integrals in double precision ------------------------------------------------


@pytest.fixture(scope="module")
def fine():
    """float64, asked for by the recipe alone."""
    assert not jax.config.jax_enable_x64
    found = sx.solve(heat(), recipe(steps=100, precision="float64"))
    assert not jax.config.jax_enable_x64
    return found


INSIDE = np.linspace(0.1, 0.9, 6)


def test_double_precision_is_the_solutions_own(fine):
    values = fine(t=INSIDE, x=INSIDE)
    assert values.dtype == np.float64
    assert fine.at(np.stack([INSIDE, INSIDE], 1)).dtype == np.float64
    assert fine.integral().dtype == np.float64
    assert all(p.dtype == np.float64 for p in parameters(fine))
    assert jnp.zeros(1).dtype == jnp.float32


def test_points_keep_double_precision(fine):
    """Points are not rounded to float32 on their way: the lattice and its points agree to the last
    digits."""
    grid = np.stack(np.meshgrid(INSIDE, INSIDE, indexing="ij"), -1).reshape(-1, 2)
    np.testing.assert_allclose(
        fine.at(grid), np.ravel(fine(t=INSIDE, x=INSIDE)), rtol=1e-12, atol=1e-13
    )


def test_derivatives_are_differences(fine):
    h = 1e-4
    x = INSIDE
    slope = (np.asarray(fine(t=x, x=x + h)) - np.asarray(fine(t=x, x=x - h))) / (2 * h)
    np.testing.assert_allclose(fine.d(x=1)(t=x, x=x), slope, atol=1e-6)
    curvature = (
        np.asarray(fine(t=x, x=x + h))
        - 2 * np.asarray(fine(t=x, x=x))
        + np.asarray(fine(t=x, x=x - h))
    ) / h**2
    np.testing.assert_allclose(fine.d(x=2)(t=x, x=x), curvature, atol=1e-5)
    mixed = (np.asarray(fine.d(x=1)(t=x + h, x=x)) - np.asarray(fine.d(x=1)(t=x - h, x=x))) / (
        2 * h
    )
    np.testing.assert_allclose(fine.d(t=1, x=1)(t=x, x=x), mixed, atol=1e-6)
    np.testing.assert_allclose(fine.d(t=1).d(x=1)(t=x, x=x), mixed, atol=1e-6)
    # (u u_x)_x by differences of u u_x
    flux = [np.asarray(fine.of(lambda u: u * u.x)(t=x, x=x + s * h)) for s in (1, -1)]
    np.testing.assert_allclose(
        fine.of(lambda u: (u * u.x).x)(t=x, x=x), (flux[0] - flux[1]) / (2 * h), atol=1e-6
    )


def test_the_integral_of_a_derivative_is_a_difference(fine):
    """∫ u_x dx = u(π) - u(0)."""
    ends = fine(t=INSIDE, x=np.array([0, math.pi]))
    np.testing.assert_allclose(
        fine.d(x=1).integral("x", t=INSIDE), ends[:, 1] - ends[:, 0], atol=1e-12
    )


def test_integrals_are_sums(fine):
    xs = np.linspace(0, math.pi, 4001)
    values = np.asarray(fine(t=INSIDE, x=xs))
    np.testing.assert_allclose(fine.integral("x", t=INSIDE), np.trapezoid(values, xs), atol=1e-6)
    np.testing.assert_allclose(
        fine.of(lambda u: u**2).integral("x", t=INSIDE), np.trapezoid(values**2, xs), atol=1e-6
    )


def test_factors_of_a_solution(fine):
    rule = sx.quadrature(fine.problem.box, 16)
    factors = fine.separable(rule, order=2)
    np.testing.assert_allclose(factors.values(), fine(rule), rtol=1e-12, atol=1e-13)
    assert factors.rank == 6
    assert factors.orders == (2, 2)


# --- one program ----------------------------------------------------------------------------------


@pytest.fixture
def trainers(monkeypatch):
    """The trainers of all runs, each with the rounds of its launches."""
    made = []

    class Seen(Trainer):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.launches = []
            made.append(self)

        def compile(self, state, *stopped):
            compiled = super().compile(state, *stopped)

            class Counted(type(compiled)):
                def __call__(this, state, rounds):
                    self.launches.append(rounds)
                    return super().__call__(state, rounds)

            return Counted(**vars(compiled))

    monkeypatch.setattr("separax.solving.trained.Trainer", Seen)
    return made


@pytest.mark.parametrize("steps", [330, 107])
def test_one_compilation_per_run(trainers, monkeypatch, steps):
    monkeypatch.setattr(
        "separax.training.session.LAUNCH_SECONDS", 0.0
    )  # launches as short as they get
    solution = sx.solve(decay(), recipe(steps=steps))
    (trainer,) = trainers
    assert trainer.traces == 1
    assert sum(trainer.launches) * trainer.block == steps
    assert len(trainer.launches) > 1
    assert solution.timing.steps == steps
    assert solution.history.steps[-1] == 10 * ((steps - 1) // 10)
    assert np.all(np.isfinite(solution.history.total))


def test_the_same_seed_gives_the_same_parameters(trainers, monkeypatch):
    """The same seed twice, in one long launch or in many short ones: the same run, bit for bit."""
    found = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr("separax.training.session.LAUNCH_SECONDS", seconds)
        found.append(sx.solve(decay(), recipe(steps=400)))
    assert len(trainers[0].launches) > len(trainers[1].launches)
    same(*found)
    np.testing.assert_array_equal(found[0].history.total, found[1].history.total)


# --- seeds ----------------------------------------------------------------------------------------


def test_seeds():
    """Several seeds at once are each of them alone, up to rounding."""
    one, other = (sx.solve(decay(), recipe(steps=50), seed=seed) for seed in (3, 4))
    assert one.best_loss != other.best_loss
    ensemble = sx.solve(decay(), recipe(steps=50), seed=[3, 4])
    assert isinstance(ensemble, sx.Ensemble)
    assert [s.seed for s in ensemble] == [3, 4]
    for together, alone in zip(ensemble, (one, other)):
        np.testing.assert_allclose(together.history.total, alone.history.total, rtol=1e-4)
        np.testing.assert_allclose(together(t=INSIDE), alone(t=INSIDE), atol=1e-4)
        assert together.history.errors.shape == alone.history.errors.shape
    np.testing.assert_allclose(ensemble.relative_l2(), [s.relative_l2() for s in ensemble])


# --- keeping, interrupting, resuming --------------------------------------------------------------


LEFT = {
    "settings.json",
    "environment.json",
    "state.a.npz",
    "solution.npz",
    "factors.npz",
    "history.csv",
    "record.json",
}


def what_a_run_leaves(solution, folder):
    assert solution.run_dir == folder
    assert {path.name for path in folder.iterdir()} == LEFT
    record = json.loads((folder / "record.json").read_text())
    assert record["relative_l2"] == pytest.approx(solution.relative_l2())
    assert (record["problem"], record["seed"], record["steps"], record["points"]) == (
        "decay",
        2,
        500,
        12,
    )
    lines = (folder / "history.csv").read_text().splitlines()
    assert lines[0] == "step,total,residual,initial,relative_l2"
    assert float(lines[1].split(",")[1]) == pytest.approx(solution.history.total[0], rel=1e-5)


class Stop(Exception):
    """What a callback may raise."""


def test_an_interrupted_run_resumes_bit_for_bit(tmp_path):
    how = recipe(steps=500)
    straight = sx.solve(decay(), how, out=tmp_path / "new" / "straight", seed=2)
    what_a_run_leaves(straight, tmp_path / "new" / "straight")

    def ctrl_c(step, **_):
        if step >= 100:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    first = sx.solve(decay(), how, out=tmp_path / "stopped", callback=ctrl_c, seed=2)
    assert first.interrupted
    assert 100 <= first.timing.steps < 500
    assert signal.getsignal(signal.SIGINT) is before
    resumed = sx.solve(decay(), how, out=tmp_path / "stopped", resume=True, seed=2)
    assert not resumed.interrupted
    same(straight, resumed)
    np.testing.assert_array_equal(straight.history.steps, resumed.history.steps)
    np.testing.assert_array_equal(straight.history.total, resumed.history.total)
    assert (straight.best_step, straight.best_loss) == (resumed.best_step, resumed.best_loss)
    assert resumed.timing.steps == 500
    (_, a), (_, b) = (
        States(folder, None).newest() for folder in (straight.run_dir, tmp_path / "stopped")
    )
    for name in (k for k in a if k.startswith("state.")):
        np.testing.assert_array_equal(a[name], b[name])


def test_a_run_that_failed_can_be_resumed(tmp_path):
    def fail(step, **_):
        raise Stop

    with pytest.raises(Stop):
        sx.solve(decay(), recipe(), out=tmp_path, callback=fail)
    assert sx.solve(decay(), recipe(), out=tmp_path, resume=True).timing.steps == 200


# --- accuracy -------------------------------------------------------------------------------------


@pytest.mark.whole
def test_an_ordinary_differential_equation():
    solution = sx.solve(
        decay(),
        recipe(
            steps=3000, points=24, sampler=sx.GaussLegendre(), optimiser=sx.Adam(2e-2, "cosine")
        ),
    )
    ts = np.linspace(0, 1, 50)
    assert solution(t=ts).shape == (50,)
    np.testing.assert_allclose(solution(t=ts), np.exp(-2 * ts), atol=3e-3)
    assert solution.relative_l2() < 2e-3
    assert float(solution.integral()) == pytest.approx((1 - math.exp(-2)) / 2, abs=2e-3)


@pytest.mark.whole
@pytest.mark.parametrize(
    "options",
    [
        {"sampler": sx.Grid(shifts=4, every=50), "points": {"x": 24, "t": 8}},
        {"network": sx.PINN(width=16, depth=2, body="mlp"), "points": (10, 14)},
    ],
    ids=["grid with unequal points", "pointwise"],
)
def test_heat(options):
    """With the start given as an array."""
    start = np.sin(np.linspace(0, math.pi, 33))
    solution = sx.solve(
        heat(sx.Initial(start), sx.Dirichlet(0)), recipe(**({"steps": 700} | options))
    )
    assert solution.relative_l2() < 0.05
    assert solution(t=INSIDE, x=INSIDE[:3]).shape == (6, 3)


@pytest.mark.whole
def test_built_in_conditions():
    """Periodic in x and zero at the start, exactly, whatever the training."""

    def exact(t, x):
        return t * jnp.sin(x)

    box = sx.Box(t=(0, 1), x=(0, 2 * math.pi))
    conditions = [sx.Periodic(), sx.Initial(0, hard=True)]
    problem = sx.Problem(
        box, lambda u, t, x: u.t - u.xx - (1 + t) * jnp.sin(x), conditions, reference=exact
    )
    network = sx.SPINN(rank=6, width=16, depth=2, body="mlp", frequencies=1)
    solution = sx.solve(
        problem, recipe(steps=1000, points=16, network=network, sampler=sx.GaussLegendre())
    )
    assert solution.history.losses.keys() == {"residual"}
    np.testing.assert_array_equal(solution(t=0.0, x=INSIDE), 0)
    ends = solution(t=INSIDE, x=np.array([0, 2 * math.pi]))
    np.testing.assert_allclose(ends[:, 0], ends[:, 1], atol=1e-5)
    assert solution.relative_l2() < 5e-3


@pytest.mark.whole
def test_a_system_with_an_unknown_coefficient():
    """u_t = c v_x, v_t = c u_x with c = 2: u = sin x cos 2t, v = cos x sin 2t, seen at some points
    only."""
    true = {
        "u": lambda t, x: jnp.sin(x) * jnp.cos(2 * t),
        "v": lambda t, x: jnp.cos(x) * jnp.sin(2 * t),
    }
    points = np.random.default_rng(0).uniform([0, 0], [1, 2 * math.pi], (60, 2))
    conditions = [
        sx.Periodic(),
        *(
            sx.Data(points, np.asarray(f(*points.T)), of=of, weight=10.0)
            for f, of in zip(true.values(), (lambda u: u, lambda v: v))
        ),
    ]

    def residual(u, v, c):
        return {"first": u.t - c * v.x, "second": v.t - c * u.x}

    box = sx.Box(t=(0, 1), x=(0, 2 * math.pi))
    problem = sx.Problem(
        box, residual, conditions, fields=("u", "v"), reference=true, unknowns={"c": 1.0}
    )
    network = sx.SPINN(rank=6, width=16, depth=2, body="mlp", frequencies=1)
    solution = sx.solve(
        problem, recipe(steps=2000, points=16, network=network, sampler=sx.GaussLegendre())
    )
    assert solution.unknowns["c"] == pytest.approx(2.0, rel=0.02)
    values = solution(t=INSIDE, x=INSIDE[:4])
    assert set(values) == {"u", "v"}
    assert values["v"].shape == (6, 4)
    assert solution.relative_l2() < 0.02
    each = [solution.relative_l2(field=f) for f in "uv"]
    assert min(each) <= solution.relative_l2() <= max(each)
    assert set(solution.history.losses) == {"first", "second", "data", "data 2"}
    assert set(solution.norm()) == {"u", "v"}


def test_a_run_is_not_resumed_with_another_equation(tmp_path):
    """The same name, the same terms, another coefficient."""

    def problem(k):
        def residual(u):
            return u.t - k * u.xx

        return sx.Problem(
            sx.Box(t=(0, 1), x=(0, 1)), residual, [sx.Initial(lambda x: x), sx.Dirichlet(0)]
        )

    small = sx.Recipe(network=sx.SPINN(rank=2, width=4, depth=1), points=4, steps=10)
    sx.solve(problem(0.1), small, out=tmp_path)
    assert problem(0.1).fingerprint() == problem(0.1).fingerprint()
    with pytest.raises(sx.InputError, match="equation"):
        sx.solve(problem(0.2), small, out=tmp_path, resume=True)


@pytest.mark.whole
def test_a_raising_callback_loses_nothing(tmp_path):
    def stop(**now):
        raise KeyError("mine")

    small = sx.Recipe(network=sx.SPINN(rank=2, width=4, depth=1), points=4, steps=3000)
    with pytest.raises(KeyError, match="mine"):
        sx.solve(heat(), small, out=tmp_path, callback=stop)
    resumed = sx.solve(heat(), small, out=tmp_path, resume=True)
    whole = sx.solve(heat(), small)
    assert resumed.best_loss == whole.best_loss
    assert resumed.best_step == whole.best_step
