"""Time marching: windows solved one after the other, joined to one solution."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.core.errors import Diverged, InputError
from separax.equations.tracing import START, values_name
from separax.residuals.loss import Loss
from separax.solution import Piece, Solution
from separax.solving import marching
from separax.training.trainer import Trainer

BOX = sx.Box(t=(1, 2), x=(0, 2))
SMALL = sx.SPINN(rank=4, width=12, depth=2, frequencies=1)


def exact(t, x):
    return jnp.exp(-(t - 1)) * jnp.sin(jnp.pi * x) + 2.0


def heat(u, t, x):
    source = (1 / jnp.pi - 1.0) * jnp.exp(-(t - 1)) * jnp.sin(jnp.pi * x)
    return u.t - u.xx / jnp.pi**3 - source  # u_t = -(u - 2), u_xx = -π² (u - 2)


def problem(**options):
    options = {"reference": exact, "name": "heat"} | options
    return sx.Problem(BOX, heat, [sx.Initial(exact), sx.Periodic()], **options)


def recipe(**options):
    return sx.Recipe(**{"network": SMALL, "points": 16, "steps": 600} | options)


def accurate(adam=200, bfgs=200):
    stages = [sx.Adam(5e-3, "cosine", steps=adam), sx.BFGS(bfgs)]
    return sx.Recipe(SMALL, 24, adam + bfgs, stages, sx.GaussLegendre(), precision="float64")


@pytest.fixture(scope="module")
def marched():
    return sx.solve(problem(), accurate(), windows=3, progress=False)


# --- one solution ---------------------------------------------------------------------------------


def test_the_residual_of_the_problem_is_right():
    t, x = jnp.linspace(1, 2, 7)[:, None], jnp.linspace(0, 2, 9)
    slope = jax.vmap(jax.vmap(jax.grad(exact), (None, 0)), (0, None))(t[:, 0], x)
    np.testing.assert_allclose(slope, -(exact(t, x) - 2), atol=1e-6)


def test_windows_give_one_solution_that_is_right(marched):
    assert marched.relative_l2() < 1e-3
    assert len(marched.windows) == 3
    np.testing.assert_allclose(marched.edges, np.linspace(1, 2, 4))
    assert [w.problem.box["t"] for w in marched.windows] == [
        pytest.approx(pair) for pair in zip(marched.edges, marched.edges[1:])
    ]
    assert not marched.interrupted
    assert marched.timing.steps == 1200
    assert marched.history.steps[0] == 0
    assert marched.history.steps[-1] == 1190
    assert np.all(np.diff(marched.history.steps) > 0)
    assert np.all(np.diff(marched.history.error_steps) > 0)


def test_every_instant_is_asked_of_its_window(marched):
    x = np.linspace(0, 2, 11)
    t = np.array([1.9, 1.0, 1.2, 1.5, 2.0, 1.1, marched.edges[1], marched.edges[2]])  # in no order
    whole = np.asarray(marched(t=t, x=x))
    assert whole.shape == (8, 11)
    for i, (time, window) in enumerate(zip(t, [2, 0, 0, 1, 2, 0, 0, 1])):
        np.testing.assert_allclose(whole[i], marched.windows[window](t=time, x=x), atol=2e-6)
    points = np.stack([np.repeat(t, 11), np.tile(x, 8)], 1)
    np.testing.assert_allclose(np.asarray(marched.at(points)).reshape(8, 11), whole, atol=2e-6)
    assert marched(t=1.4, x=x).shape == (11,)


def test_windows_may_be_shorter_than_single_precision_tells_apart_near_one():
    problem = sx.Problem(sx.Box(t=(0, 3e-8)), lambda u: 1e-8 * u.t + u, [sx.Initial(1.0)])
    found = sx.solve(
        problem,
        sx.Recipe(sx.SPINN(rank=2, width=4, depth=1), points=4, steps=2),
        windows=3,
        progress=False,
    )
    times = np.array([0.5e-8, 1.5e-8, 2.5e-8])
    each = [float(window(t=time)) for window, time in zip(found.windows, times)]
    np.testing.assert_allclose(found(t=times), each, rtol=1e-6)


def test_derivatives_and_operators_are_those_of_the_windows(marched):
    x, t = np.linspace(0, 2, 9), np.array([1.1, 1.5, 1.9])
    slopes = np.asarray(marched.d(t=1)(t=t, x=x))
    small = 1e-2
    ahead, behind = (np.asarray(marched(t=t + s, x=x), np.float64) for s in (small, -small))
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * small), atol=1e-3)
    timed = np.asarray(marched.of(lambda u, t: t * u)(t=t, x=x))  # t as the problem counts it
    np.testing.assert_allclose(timed, t[:, None] * np.asarray(marched(t=t, x=x)), rtol=1e-5)
    np.testing.assert_allclose(marched.of(lambda u, t, x: heat(u, t, x))(t=t, x=x), 0, atol=0.02)


def test_integrals_add_up(marched):
    whole = float(marched.integral())
    assert whole == pytest.approx(4.0, abs=2e-3)  # the sine has no integral
    over_x = np.asarray(marched.integral("x", t=np.array([1.05, 1.95, 1.5])))
    np.testing.assert_allclose(over_x, 4.0, atol=5e-3)
    assert marched.integral("x", t=1.5) == pytest.approx(over_x[2])
    over_t = np.asarray(marched.integral("t", x=np.array([0.0, 0.5, 1.0])))
    expected = 2 + (1 - np.exp(-1)) * np.sin(np.pi * np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(over_t, expected, atol=2e-3)
    t, w = np.polynomial.legendre.leggauss(60)
    values = np.asarray(marched(t=1.5 + t / 2, x=1 + t), np.float64)
    assert marched.norm() == pytest.approx(
        np.sqrt(np.einsum("i,j,ij->", w / 2, w, values**2)), rel=1e-6
    )  # values come in single precision


def test_windows_meet(marched):
    jumps = marched.jumps()["u"]
    assert jumps.shape == (2,)
    assert np.all(jumps < 1e-3)
    x = np.linspace(0, 2, 64)
    one, other = (np.asarray(w(t=marched.edges[1], x=x)) for w in marched.windows[:2])
    assert jumps[0] == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(one), rel=1e-3)


def test_factors_are_those_of_a_window(marched):
    with pytest.raises(InputError, match=r"separable: .*solution.windows\[0\]"):
        marched.separable(sx.Lattice(t=np.array([1.0]), x=np.array([0.0])))
    t, x = np.array([1.4, 1.5]), np.linspace(0, 2, 5)
    factors = marched.windows[1].separable(sx.Lattice(t=t, x=x))
    np.testing.assert_allclose(factors.values(), marched(t=t, x=x), atol=2e-6)


@pytest.mark.whole
def test_several_seeds_march_side_by_side():
    how = recipe(precision="float64", steps=100)
    both = sx.solve(problem(), how, windows=2, seed=[0, 3], progress=False)
    alone = sx.solve(problem(), how, windows=2, seed=3, progress=False)
    x, t = np.linspace(0, 2, 9), np.linspace(1, 2, 5)
    assert len(both) == 2
    np.testing.assert_allclose(both[1](t=t, x=x), alone(t=t, x=x), atol=1e-7)
    assert not np.allclose(both[0](t=t, x=x), alone(t=t, x=x), atol=1e-3)


def test_all_windows_are_compiled_once(monkeypatch):
    compiled = []

    class Seen(Trainer):
        def compile(self, state, *stopped):
            compiled.append(self.stage.number)
            return super().compile(state, *stopped)

    monkeypatch.setattr("separax.solving.trained.Trainer", Seen)
    stages = [sx.Adam(5e-3, steps=40), sx.LBFGS(20)]
    sx.solve(problem(), recipe(optimiser=stages, steps=60), windows=3, progress=False)
    assert compiled == [0, 1]


def test_a_second_order_equation_hands_on_its_slope():
    def wave(t, x):
        return jnp.sin(jnp.pi * x) * jnp.cos(2 * t)

    def residual(u):
        return u.tt - (2 / jnp.pi) ** 2 * u.xx

    conditions = [
        sx.Initial(wave),
        sx.Initial(0, of=lambda u: u.t, name="slope"),
        sx.Dirichlet(0, hard=True),
    ]
    strip = sx.Box(t=(0, 2), x=(0, 1))
    found = sx.solve(
        sx.Problem(strip, residual, conditions, reference=wave),
        recipe(steps=1500, emphasis=100.0),
        windows=2,
        progress=False,
    )
    assert found.relative_l2() < 0.03
    assert found.windows[1].relative_l2() < 0.05


@pytest.mark.whole
def test_a_warm_start_begins_where_the_last_window_ended():
    cold, warm = (
        sx.solve(problem(), recipe(steps=100), windows=2, warm=w, progress=False)
        for w in (False, True)
    )
    np.testing.assert_array_equal(cold.windows[0].history.total, warm.windows[0].history.total)
    first = [s.windows[1].history.total[0] for s in (cold, warm)]
    assert first[1] < 0.2 * first[0]


@pytest.mark.whole
def test_pointwise_networks_march_too():
    found = sx.solve(
        problem(), recipe(network=sx.PINN(width=16, depth=2), steps=400), windows=2, progress=False
    )
    assert found.relative_l2() < 0.1


# --- what a window is given -----------------------------------------------------------------------


def test_the_state_at_the_end_is_handed_on_exactly(marched):
    """The table the second window begins with is the first one's solution at its end."""
    with jax.enable_x64(True):
        how = recipe()
        loss = Loss(marching.first_window(problem(), how, marched.edges), how)
        trainer = Trainer(loss)
        given = marching._begin(trainer)
        state = trainer.init(jax.random.key(0), given)
        found = marching._ends(trainer)(state.best, given)
        (term,) = [t for t in loss.problem.terms if t.axis == "t"]
        x = np.asarray(term.fixed["x"])
        assert len(x) == 32
        np.testing.assert_allclose(given[values_name(0)][0], exact(1.0, x), rtol=1e-6)
        view = Solution(problem(), [Piece.of(trainer.model(state.best))])
        np.testing.assert_allclose(
            found[values_name(0)][0], view(t=marched.edges[1], x=x), rtol=1e-5
        )
        assert float(given[START]) == 0.0


@pytest.mark.whole
def test_a_table_of_the_users_is_kept():
    x = np.linspace(0, 2, 24, endpoint=False)
    table = sx.Initial(np.asarray(exact(1.0, x)), lattice={"x": x})
    found = sx.solve(
        sx.Problem(BOX, heat, [table, sx.Periodic()], reference=exact),
        accurate(),
        windows=2,
        progress=False,
    )
    assert found.relative_l2() < 1e-3
    first = marching.first_window(
        sx.Problem(BOX, heat, [table, sx.Periodic()]), recipe(), np.array([1.0, 1.5, 2.0])
    )
    np.testing.assert_allclose(first.terms[0].fixed["x"], x)


# --- interrupted, resumed, diverged ---------------------------------------------------------------


class Stop:
    """Asks to stop, as Ctrl-C does, once a march has come so far."""

    def __init__(self, step):
        self.step = step

    def __call__(self, step, **_):
        if step >= self.step:
            signal.raise_signal(signal.SIGINT)


def test_a_march_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("separax.training.session.LAUNCH_SECONDS", 0.0)
    whole = sx.solve(problem(), recipe(steps=300), windows=3, progress=False)
    part = sx.solve(
        problem(),
        recipe(steps=300),
        windows=3,
        out=tmp_path / "run",
        callback=Stop(400),
        progress=False,
    )
    assert part.interrupted
    assert len(part.windows) == 2
    assert part.windows[1].timing.steps < 300
    with pytest.raises(InputError, match="solution: t"):
        part(t=1.9, x=0.0)
    assert part(t=1.5, x=0.0).shape == ()
    again = sx.solve(
        problem(), recipe(steps=300), windows=3, out=tmp_path / "run", resume=True, progress=False
    )
    assert not again.interrupted
    x, t = np.linspace(0, 2, 9), np.linspace(1, 2, 7)
    np.testing.assert_array_equal(again(t=t, x=x), whole(t=t, x=x))
    np.testing.assert_array_equal(again.history.total, whole.history.total)
    done = sx.solve(
        problem(), recipe(steps=300), windows=3, out=tmp_path / "run", resume=True, progress=False
    )
    np.testing.assert_array_equal(done(t=t, x=x), whole(t=t, x=x))
    with pytest.raises(InputError, match="windows = 3, not 4"):
        sx.solve(
            problem(),
            recipe(steps=300),
            windows=4,
            out=tmp_path / "run",
            resume=True,
            progress=False,
        )


@pytest.mark.whole
def test_a_march_goes_on_after_a_window_that_ended_in_a_later_stage(tmp_path):
    stages = [sx.Adam(5e-3, steps=20), sx.LBFGS(20)]
    options = {"recipe": recipe(optimiser=stages, steps=40), "windows": 2, "progress": False}
    whole = sx.solve(problem(reference=None), **options)
    part = sx.solve(problem(reference=None), out=tmp_path / "run", callback=Stop(40), **options)
    assert part.interrupted
    assert len(part.windows) == 1
    again = sx.solve(problem(reference=None), out=tmp_path / "run", resume=True, **options)
    x, t = np.linspace(0, 2, 9), np.linspace(1, 2, 7)
    np.testing.assert_array_equal(again(t=t, x=x), whole(t=t, x=x))


def test_a_window_that_diverges_leaves_those_before(tmp_path):
    def explosive(u, t, x):
        return jnp.where(t > 1.5, jnp.inf, 1.0) * (heat(u, t, x).value + 0.0 * u.value)

    text = sx.Problem(BOX, explosive, [sx.Initial(exact), sx.Periodic()], reference=exact)
    with pytest.raises(Diverged, match="window 2: the loss stopped being finite") as error:
        sx.solve(text, recipe(steps=200), windows=2, out=tmp_path / "run", progress=False)
    assert f"the 1 before it are kept in {tmp_path / 'run' / 'windows'}" in str(error.value)
    kept = error.value.solution
    assert len(kept.windows) == 1
    assert kept.interrupted
    assert kept.relative_l2() < 0.5
    assert (tmp_path / "run" / "windows" / "001" / "solution.npz").exists()


# --- by length ------------------------------------------------------------------------------------


def test_windows_by_their_length():
    assert [marching.windows_of_length(problem(), w) for w in (1, 0.5, 1 / 3, 0.1)] == [1, 2, 3, 10]
    still = sx.Problem(sx.Box(x=(0, 1)), lambda u: u.xx, [sx.Dirichlet(0)])
    for text, options, words in [
        (problem(), {"window": 0}, "window must be a positive.*got 0"),
        (problem(), {"window": -0.5}, "window must be a positive.*got -0.5"),
        (
            problem(),
            {"window": 1.5},
            r"window=1.5 is longer than t, which runs over \(1, 2\): write window=1 or less",
        ),
        (
            problem(),
            {"window": 0.3},
            r"does not divide the 1 .*window=0.25 for 4 windows, or window=0.333333 for 3",
        ),
        (
            problem(),
            {"window": 0.5, "windows": 2},
            "windows=2 and window=0.5 both.*leave one of the two out",
        ),
        (still, {"window": 0.5}, "no time axis 't'.*leave window out"),
    ]:
        with pytest.raises(InputError, match=words):
            sx.solve(text, recipe(), **options)


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: (problem(), 0), "windows.*at least 1, got 0"),
        (lambda: (problem(), 2.5), "windows"),
        (
            lambda: (
                sx.Problem(sx.Box(x=(0, 1), y=(0, 1)), lambda u: u.xx + u.yy, [sx.Dirichlet(0)]),
                2,
            ),
            "no time axis 't'",
        ),
        (lambda: (sx.Problem(BOX, heat, [sx.Periodic()]), 2), r"add sx.Initial"),
        (
            lambda: (sx.Problem(BOX, heat, [sx.Initial(0, hard=True), sx.Periodic()]), 2),
            "leave out hard=True",
        ),
        (
            lambda: (sx.Problem(BOX, heat, [sx.Initial(exact), sx.Dirichlet(0, on="t+")]), 2),
            "at the end of t",
        ),
        (
            lambda: (sx.Problem(BOX, heat, [sx.Initial(exact), sx.Data([[1.5, 0.5]], [1.0])]), 2),
            "all over the interval",
        ),
        (
            lambda: (
                sx.Problem(
                    BOX, lambda u, k: u.t - k * u.xx, [sx.Initial(exact)], unknowns={"k": 1.0}
                ),
                2,
            ),
            "k would be found anew",
        ),
    ],
    ids=["none", "fraction", "no time", "no state", "built in", "end", "data", "unknown"],
)
def test_what_cannot_be_marched_is_named(change, words):
    text, windows = change()
    with pytest.raises(InputError, match=words):
        sx.solve(text, recipe(), windows=windows, progress=False)
