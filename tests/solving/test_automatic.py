"""Solving without a recipe: how far it goes, and whether its estimate is honest."""

import dataclasses
import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from jax.flatten_util import ravel_pytree

import separax as sx
from separax.equations.well_posedness import disagreements
from separax.paper.catalogue import find
from separax.recipe.weightings import EarlyFirst
from separax.residuals.loss import Loss
from separax.residuals.model import Model
from separax.solving.advice import of_start
from separax.solving.polynomials.levels import STEPS, begun, recipe_for, values
from separax.solving.polynomials.way import use_early_first


def travelling():
    """Burgers' equation with a front that moves: u = (1 - tanh((x - t/2) / 4ν)) / 2."""
    nu = 0.1

    def exact(t, x):
        return 0.5 - 0.5 * jnp.tanh((x - 0.5 * t) / (4 * nu))

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1)),
        lambda u: u.t + u * u.x - nu * u.xx,
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )


def oscillator():
    return sx.Problem(
        sx.Box(t=(0, 3)),
        lambda u: u.tt + 2 * u.t + 17 * u,
        [sx.Initial(1.0), sx.Initial(-1.0, of=lambda u: u.t)],
        reference=lambda t: jnp.exp(-t) * jnp.cos(4 * t),
    )


def waves():
    """Two fields on a periodic axis."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2)),
        lambda p, v: {"momentum": v.t + p.x, "continuity": p.t + v.x},
        [
            sx.Initial(lambda x: jnp.cos(jnp.pi * x), of="p"),
            sx.Initial(0, of="v"),
            sx.Periodic("x"),
        ],
        fields=("p", "v"),
        reference={
            "p": lambda t, x: jnp.cos(jnp.pi * x) * jnp.cos(jnp.pi * t),
            "v": lambda t, x: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * t),
        },
    )


def oblique():
    """A nonlinear wave across three axes, which is no sum of few products."""

    def exact(t, x, y):
        return 1 / (2 + jnp.sin(x + y - t))

    def source(t, x, y):
        return (
            along(exact, 0)(t, x, y)
            - along(along(exact, 1), 1)(t, x, y)
            - along(along(exact, 2), 2)(t, x, y)
            + exact(t, x, y) ** 3
        )

    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1), y=(0, 1)),
        lambda u, t, x, y: u.t - u.xx - u.yy + u**3 - source(t, x, y),
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )


def along(function, axis):
    """The derivative of a function of coordinates that broadcast."""
    return lambda *at: jax.jvp(
        lambda c: function(*at[:axis], c, *at[axis + 1 :]), (at[axis],), (jnp.ones_like(at[axis]),)
    )[1]


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        pytest.param(oblique, 1e-4, marks=pytest.mark.whole),
        (travelling, 1e-4),
        (oscillator, 1e-8),
        pytest.param(waves, 1e-6, marks=pytest.mark.whole),
    ],
)
def test_a_tolerance_is_met_and_the_estimate_is_honest(make, tolerance):
    found = sx.solve(make(), tolerance=tolerance, progress=False)
    assert found.estimate <= tolerance
    assert found.relative_l2() <= found.estimate
    assert not found.advice
    assert [level.estimate for level in found.levels][-1] == found.estimate


def ring():
    """Two fields on a box with a periodic axis; nothing is solved."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2), y=(-1, 1)),
        lambda u, v: {"first": u.t - v.x, "second": v.t - u.yy},
        [
            sx.Initial(0, of="u"),
            sx.Initial(1, of="v"),
            sx.Periodic("x"),
            sx.Dirichlet(0, on="y", of="u", hard=True),
        ],
        fields=("u", "v"),
    )


@pytest.mark.parametrize(
    ("before", "after"), [("cp", "cp"), ("cp", "tucker"), ("tucker", "tucker")]
)
def test_what_a_level_begins_with_is_what_the_last_one_ended_with(before, after):
    problem = ring()
    with jax.enable_x64(True):
        small = Model.build(
            problem, recipe_for(problem, {"t": 4, "x": 5, "y": 3}, 3, before), jax.random.key(0)
        )
        recipe = recipe_for(problem, {"t": 6, "x": 9, "y": 5}, 5, after)
        flat = begun(problem, recipe, small, 1)
        arrays, static = eqx.partition(
            Model.build(problem, recipe, jax.random.key(2)), eqx.is_array
        )
        large = eqx.combine(ravel_pytree(arrays)[1](flat), static)
        places = tuple(jnp.linspace(*problem.box[a], 7) for a in problem.box.axes)
        old, new = (
            values(m.network, m.network.features(places, 0), m.network.coefficients)
            for m in (small, large)
        )
        # new products are small, and new columns of a core count nothing yet
        assert np.allclose(
            old, new, rtol=0, atol=(1e-2 if after == "cp" else 1e-12) * np.abs(old).max()
        )


def test_where_it_cannot_be_solved_for_a_network_is_trained():
    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)),
        lambda u, v: {"u": u.xx + u.yy - v, "v": v.xx + v.yy - 1},
        [sx.Dirichlet(0, on="y", of=name) for name in "uv"]
        + [sx.Periodic("x", hard=False, of=name) for name in "uv"],
        fields=("u", "v"),
    )
    with pytest.raises(sx.InputError, match="tolerance"):
        sx.solve(problem, tolerance=1e-3)


@pytest.mark.parametrize("tolerance", [0, -1e-3, float("nan"), "small"])
def test_bad_tolerances(tolerance):
    with pytest.raises(sx.InputError, match="tolerance"):
        sx.solve(oscillator(), tolerance=tolerance)


def test_a_recipe_and_a_tolerance():
    with pytest.raises(sx.InputError, match="leave one of the two out"):
        sx.solve(oscillator(), sx.Recipe(), tolerance=1e-3)


def test_a_missing_condition_is_noticed_and_said(capsys):
    """u'' + u = 0 with u(0) = 1 alone is met by cos t + c sin t for any c."""
    problem = sx.Problem(sx.Box(t=(0, 2)), lambda u: u.tt + u, [sx.Initial(1.0)], name="half posed")
    found = sx.solve(problem, progress=False)
    assert np.isinf(found.estimate)
    assert (
        "half posed: the conditions leave a family of solutions of 1 dimension at least"
        in capsys.readouterr().err
    )


@pytest.mark.whole
def test_what_is_missing_is_named(capsys):
    """u_tt = u_xx without u_t at the start: every sin(kπx) sin(kπt) may be added."""
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.tt - u.xx,
        [sx.Initial(lambda x: jnp.sin(jnp.pi * x)), sx.Dirichlet(0, hard=True)],
        name="string",
    )
    found = sx.solve(problem, progress=False)
    assert np.isinf(found.estimate)
    assert "an initial u_t would fix it, sx.Initial(…, of=lambda u: u.t)" in found.advice[0]
    assert f"string: {found.advice[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["klein-gordon", "klein-gordon-3d"])
def test_a_start_that_is_not_given_whole_is_named_even_if_few_functions_tell_nothing(name):
    """As in the paper, where the initial u_t is missing; over ten units of time its waves take more
    functions than a first level has."""
    assert "an initial u_t would fix it" in of_start(find(name).make("paper")[0])
    assert of_start(find(name).make("best")[0]) is None


@pytest.mark.whole
def test_a_recipe_is_told_of_a_start_that_is_not_given_whole(capsys):
    def string(*conditions):
        problem = sx.Problem(
            sx.Box(t=(0, 0.7), x=(0, 1)),
            lambda u: u.tt - u.xx,
            [*conditions, sx.Dirichlet(0, hard=True)],
            name="string",
        )
        network = sx.SPINN(rank=2, functions=6, depth=0)
        recipe = sx.Recipe(
            network, 9, optimiser=sx.Solve(3), sampler=sx.GaussLegendre(), precision="float64"
        )
        return sx.solve(problem, recipe, progress=False)

    start = sx.Initial(lambda x: x * (1 - x))
    assert "may leave a family of solutions" in string(start).advice[0]
    assert "string: the conditions may leave" in capsys.readouterr().err
    measured = sx.Data([[0.5, 0.5]], [0.1])
    for rest in (sx.Initial(0.0, of=lambda u: u.t), measured, sx.Condition(0.0, on="t+")):
        assert not any("family" in sentence for sentence in string(start, rest).advice)


def cold_start():
    """A hot bar whose ends are cold from the start on: one at t = 0, zero at x = 0 and x = 1."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.t - 0.1 * u.xx,
        [sx.Initial(1.0), sx.Dirichlet(0, name="ends")],
        name="bar",
    )


def two_values():
    """A rod held at two heights at once."""
    conditions = [sx.Dirichlet(0, on="x", name="held"), sx.Dirichlet(1, on="x-", name="lifted")]
    return sx.Problem(sx.Box(x=(0, 1)), lambda u: u.xx, conditions, name="rod")


def test_conditions_that_contradict_each_other_are_named(capsys):
    words = "'held' and 'lifted' differ by 1 at x = 0"
    found = sx.solve(two_values(), progress=False)
    assert found.estimate > 1e-2
    assert words in " ".join(found.advice)
    assert words in capsys.readouterr().err


@pytest.mark.whole
def test_a_jump_between_a_start_and_the_ends_is_named_and_solved_for(capsys):
    words = "'initial' and 'ends' differ by 1 at t = 0 and x = 0"
    found, x = sx.solve(cold_start(), progress=False), np.linspace(0, 1, 41)
    k = np.arange(1, 200, 2)
    series = (4 / (k * np.pi) * np.exp(-0.1 * (k * np.pi) ** 2 * 0.2)) @ np.sin(
        np.pi * np.outer(k, x)
    )
    np.testing.assert_allclose(found(t=0.2, x=x), series, atol=1e-6)
    assert words in " ".join(found.advice)
    assert words in capsys.readouterr().err


def test_values_that_are_built_in_contradict_nothing_they_agree_with():
    box = sx.Box(t=(0, 1), x=(0, 1))
    ends = sx.Dirichlet(lambda t, x: 1 + x, hard=True, name="ends")
    assert not disagreements(
        sx.Problem(box, lambda u: u.t - u.xx, [sx.Initial(lambda x: 1 + x), ends])
    )
    (other,) = disagreements(
        sx.Problem(box, lambda u: u.t - u.xx, [sx.Initial(lambda x: 1 + 2 * x), ends])
    )
    assert other.words == "'initial' and 'ends' differ by 1 at t = 0 and x = 1"


def many_waves():
    """Forty half waves: a function as large as u would change u'' ten thousand times as much as it
    does the wall."""
    exact = lambda x: jnp.sin(40 * jnp.pi * x)  # noqa: E731
    return sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, x: u.xx + (40 * jnp.pi) ** 2 * exact(x),
        [sx.Dirichlet(0)],
        reference=exact,
    )


def narrow():
    """A peak that few functions cannot follow: until they can, the conditions at the ends are
    missed."""
    peak = lambda x: jnp.exp(-(((x - 0.3) / 0.02) ** 2))  # noqa: E731
    source = lambda x: -2 * (x - 0.3) / 0.02**2 * peak(x)  # noqa: E731
    return sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, x: u.x - source(x),
        [sx.Dirichlet(peak, on="x-")],
        reference=peak,
    )


@pytest.mark.parametrize("make", [many_waves, pytest.param(narrow, marks=pytest.mark.whole)])
def test_what_a_first_level_cannot_follow_is_no_contradiction_and_no_family(make):
    found = sx.solve(make(), progress=False)
    assert len(found.levels) > 1
    assert found.relative_l2() <= found.estimate <= 1e-4
    assert not found.advice


@pytest.mark.parametrize("hard", [pytest.param(False, marks=pytest.mark.whole), True])
def test_a_solution_may_be_zero(hard):
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.t - u.xx,
        [sx.Initial(0.0), sx.Dirichlet(0, hard=hard)],
    )
    found = sx.solve(problem, progress=False)
    assert np.max(np.abs(found(t=[0.2, 0.9], x=[0.3, 0.6]))) < 1e-10
    assert found.estimate <= 1e-4
    assert not found.advice


def clamped():
    """A beam under its weight, clamped at both ends."""
    return sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u: u.xxxx - 24,
        [sx.Dirichlet(0), sx.Neumann(0)],
        reference=lambda x: x**2 * (1 - x) ** 2,
    )


def cantilever():
    """Held at one end, pulled at the other."""
    conditions = [
        sx.Dirichlet(0, on="x-"),
        sx.Neumann(0, on="x-"),
        sx.Condition(0, on="x+", of=lambda u: u.xx),
        sx.Condition(1, on="x+", of=lambda u: u.xxx),
    ]
    return sx.Problem(
        sx.Box(x=(0, 1)), lambda u: u.xxxx, conditions, reference=lambda x: x**3 / 6 - x**2 / 2
    )


def millimetre():
    exact = lambda x: jnp.sin(jnp.pi * x / 1e-3)  # noqa: E731
    return sx.Problem(
        sx.Box(x=(0, 1e-3)),
        lambda u, x: u.xx + (jnp.pi / 1e-3) ** 2 * exact(x),
        [sx.Dirichlet(0)],
        reference=exact,
    )


def draining():
    """Torricelli's tank: the root of a level that is never negative, if one does not begin
    there."""
    return sx.Problem(
        sx.Box(t=(0, 1)),
        lambda h: h.t + np.sqrt(h),
        [sx.Initial(4.0)],
        fields="h",
        reference=lambda t: (2 - t / 2) ** 2,
    )


def ringing():
    """Thirty oscillations: neither 48 nor 96 functions follow them at all."""
    return sx.Problem(
        sx.Box(t=(0, 2 * np.pi)),
        lambda u: u.tt + 900 * u,
        [sx.Initial(1.0), sx.Initial(0, of=lambda u: u.t)],
        reference=lambda t: jnp.cos(30 * t),
    )


@pytest.mark.parametrize(
    "make",
    [clamped, cantilever, millimetre, draining, pytest.param(ringing, marks=pytest.mark.whole)],
)
def test_what_textbooks_pose_is_solved(make):
    found = sx.solve(make(), progress=False)
    assert found.relative_l2() <= found.estimate <= 1e-4
    assert not found.advice


@pytest.mark.whole
def test_every_field_counts_by_its_own_size():
    """A trace of something in something large: its error is not small because it is."""
    trace = lambda x: 1e-4 * jnp.tanh(40 * (x - 0.4))  # noqa: E731
    slope = lambda x: 4e-3 / jnp.cosh(40 * (x - 0.4)) ** 2  # noqa: E731
    problem = sx.Problem(
        sx.Box(x=(0, 1)),
        lambda a, c, x: {"large": a.xx, "small": c.x - slope(x)},
        [sx.Dirichlet(300, of="a"), sx.Dirichlet(trace, of="c", on="x-")],
        fields=("a", "c"),
        reference={"a": lambda x: 300 + 0 * x, "c": trace},
    )
    found = sx.solve(problem, progress=False)
    assert len(found.levels) > 1
    assert max(found.relative_l2(field=name) for name in "ac") <= found.estimate <= 1e-4


@pytest.mark.whole
def test_measurements_with_noise_contradict_nothing():
    draw = np.random.default_rng(0)
    times = draw.uniform(0, 2, (20, 1))
    values = np.exp(-1.3 * times[:, 0]) + 0.03 * draw.normal(size=20)
    problem = sx.Problem(
        sx.Box(t=(0, 2)),
        lambda u, rate: u.t + rate * u,
        [sx.Initial(1.0), sx.Data(times, values)],
        unknowns={"rate": 0.5},
        reference=lambda t: jnp.exp(-1.3 * t),
    )
    found = sx.solve(problem, progress=False)
    assert np.isfinite(found.estimate)
    assert found.relative_l2() < 0.03
    assert found.unknowns["rate"] == pytest.approx(1.3, abs=0.15)
    assert "'data' is missed by" in found.advice[-1]
    assert not any("no solution" in sentence for sentence in found.advice)


def diffusing(start):
    data = sx.Data([[0.5, 0.5]], [0.5])
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u, kappa: u.t - kappa * u.xx,
        [sx.Initial(start), sx.Dirichlet(lambda x: x), data],
        unknowns={"kappa": 0.1},
    )


def stretched(**unknowns):
    """u'' + a b π² u = 0: only the product of a and b matters."""
    return sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, a, b: u.xx + a * b * jnp.pi**2 * u,
        [sx.Dirichlet(0), sx.Data([[0.5]], [1.0])],
        unknowns=unknowns,
    )


@pytest.mark.whole
def test_unknowns_that_nothing_fixes_are_named():
    (words,) = sx.solve(
        diffusing(lambda x: x), progress=False
    ).advice  # a straight line does not diffuse
    assert "kappa is fixed by nothing" in words
    (words,) = sx.solve(stretched(a=0.5, b=1.5), progress=False).advice
    assert "a, b are not all fixed" in words
    one = sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, a: u.xx + a * jnp.pi**2 * u,
        [sx.Dirichlet(0), sx.Data([[0.5]], [1.0])],
        unknowns={"a": 0.8},
    )
    found = sx.solve(one, progress=False)
    assert found.unknowns["a"] == pytest.approx(1.0, abs=1e-9)
    assert not found.advice


@pytest.mark.whole
def test_an_equation_whose_solutions_are_many_is_told_from_one_without_any():
    """u'' + π² u = 0 between two zeros: any multiple of sin πx."""
    problem = sx.Problem(sx.Box(x=(0, 1)), lambda u: u.xx + jnp.pi**2 * u, [sx.Dirichlet(0)])
    found = sx.solve(problem, progress=False)
    assert np.isinf(found.estimate)
    assert "a family of solutions of 1 dimension" in found.advice[0]


@pytest.mark.whole
def test_a_solve_that_has_gone_astray_asks_for_no_condition(monkeypatch):
    """u' = u (1 - u) over a long time, all of which counts alike: there is nothing missing, and
    what is found is no solution."""
    monkeypatch.setattr("separax.solving.polynomials.way.use_early_first", lambda problem: False)
    monkeypatch.setattr("separax.solving.automatic.WAYS", ())
    found = sx.solve(
        sx.Problem(sx.Box(t=(0, 10)), lambda u: u.t - u * (1 - u), [sx.Initial(0.1)]),
        progress=False,
    )
    assert np.isinf(found.estimate)
    assert "this may be no solution" in found.advice[0]
    assert "windows" in found.advice[0]


# --- early times first ----------------------------------------------------------------------------


def logistic():
    """From a hundredth, close to where it would stay."""
    return sx.Problem(
        sx.Box(t=(0, 10)),
        lambda u: u.t - u * (1 - u),
        [sx.Initial(0.01)],
        reference=lambda t: 1 / (1 + 99 * jnp.exp(-t)),
    )


def integrated(slopes, start, end):
    """By a Runge-Kutta method, as functions of t."""
    found = scipy.integrate.solve_ivp(
        lambda t, y: slopes(*y),
        (0, end),
        start,
        "DOP853",
        rtol=1e-11,
        atol=1e-12,
        dense_output=True,
    )
    return [
        lambda t, i=i: np.asarray(found.sol(np.ravel(t))[i]).reshape(np.shape(t))
        for i in range(len(start))
    ]


def epidemic():
    """Both equations as functions of their own."""
    s, i = integrated(lambda s, i: [-0.5 * s * i, 0.5 * s * i - 0.1 * i], [0.99, 0.01], 60)
    return sx.Problem(
        sx.Box(t=(0, 60)),
        {
            "healthy": lambda s, i: s.t + 0.5 * s * i,
            "ill": lambda s, i: i.t - 0.5 * s * i + 0.1 * i,
        },
        [sx.Initial(0.99, of="s"), sx.Initial(0.01, of="i")],
        fields=("s", "i"),
    ), {"s": s, "i": i}


def relaxation():
    """Van der Pol's oscillator, three times around."""
    (u, _) = integrated(lambda u, v: [v, (1 - u**2) * v - u], [2.0, 0.0], 20)
    conditions = [sx.Initial(2.0), sx.Initial(0.0, of=lambda u: u.t)]
    return sx.Problem(sx.Box(t=(0, 20)), lambda u: u.tt - (1 - u**2) * u.t + u, conditions), {
        "u": u
    }


def pendulum():
    (u, _) = integrated(lambda u, v: [v, -np.sin(u)], [2.5, 0.0], 20)
    conditions = [sx.Initial(2.5), sx.Initial(0.0, of=lambda u: u.t)]
    return sx.Problem(sx.Box(t=(0, 20)), lambda u: u.tt + np.sin(u), conditions), {"u": u}


def test_a_start_close_to_an_unstable_state_leaves_it():
    found = sx.solve(logistic(), progress=False)
    assert found.relative_l2() < 1e-9
    assert found.relative_l2() < found.estimate < 1e-9
    assert not found.advice


@pytest.mark.whole
@pytest.mark.parametrize(
    "make",
    [epidemic, relaxation, pendulum],
)
def test_long_times_of_nonlinear_equations(make):
    problem, exact = make()
    found, t = sx.solve(problem, progress=False), np.linspace(*problem.box["t"], 301)
    values = found(t=t)
    for name, function in exact.items():
        own = values if len(exact) == 1 else values[name]
        np.testing.assert_allclose(own, function(t), atol=1e-5 * np.max(np.abs(function(t))))
    assert found.estimate < 1e-4
    assert not found.advice


@pytest.mark.whole
def test_a_front_that_grows_into_an_unstable_state():
    """Fisher's equation and its wave, u = (1 + exp((x - ct) / √6))⁻²."""

    def exact(t, x):
        return (1 + jnp.exp((x - 5 / np.sqrt(6) * t) / np.sqrt(6))) ** -2

    conditions = [sx.Initial(exact), sx.Dirichlet(exact)]
    box = sx.Box(t=(0, 10), x=(-10, 40))
    found = sx.solve(
        sx.Problem(box, lambda u: u.t - u.xx - u * (1 - u), conditions, reference=exact),
        progress=False,
    )
    assert found.relative_l2() < found.estimate < 1e-4
    assert not found.advice


def test_where_early_times_may_count_first():
    def applies(residual, conditions, **options):
        return use_early_first(
            sx.Problem(sx.Box(t=(0, 1), x=(0, 1)), residual, conditions, **options)
        )

    start = [sx.Initial(lambda x: x), sx.Dirichlet(0)]
    assert applies(lambda u: u.t - u.xx + u**2, start)
    assert applies(lambda u: u.t - u.xx + np.sin(u), start)
    assert applies(lambda u: u.t - u.xx + u.value * u.x, start)
    assert applies(lambda u, k: u.t - k * u.xx, start, unknowns={"k": 1.0})
    assert applies(lambda u: u.t - u.xx + u**3, [sx.Initial(lambda x: x, hard=True)])
    assert not applies(lambda u: u.t - u.xx + u, start)
    assert not applies(lambda u, x, t: u.t - jnp.sin(x * t) * u.xx + x * u - 1, start)
    assert not applies(
        lambda u: u.tt - u.xx + u**2, [sx.Dirichlet(0, on="t"), sx.Dirichlet(0)]
    )  # nothing to go on from
    assert not applies(lambda u: u.t - u.xx + u**2, [sx.Dirichlet(0)])
    elsewhere = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)), lambda u: u.xx + u.yy + u**2, [sx.Dirichlet(0)]
    )
    assert not use_early_first(elsewhere)


def test_what_residuals_count_falls_with_time():
    """∫ (u_t)² e^(-rate t / T) for u = t over T: (1 - e^-rate) / rate."""
    box, rate = sx.Box(t=(1, 4)), 3.0
    problem = sx.Problem(box, lambda u: u.t, [sx.Initial(0.0)])
    with jax.enable_x64(True):
        recipe = recipe_for(problem, {"t": 8}, 1)
        loss, model = Loss(problem, recipe), Model.build(problem, recipe, jax.random.key(0))
        (coefficients,) = model.network.coefficients
        line = jnp.zeros_like(coefficients).at[:, 1, 0].set(1.5)  # slope 1
        places = loss.draw(jax.random.key(0), jnp.zeros((), jnp.int32))
        recipe = dataclasses.replace(recipe, weighting=EarlyFirst(rate))
        loss = Loss(problem, recipe)
        terms = loss(Model(model.network.with_coefficients([line], None), {}), places)
    assert terms[0] == pytest.approx((1 - np.exp(-rate)) / rate, rel=1e-9)


def test_what_is_no_number_at_the_start_is_explained():
    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)), lambda u: u.x - np.log(u), [sx.Dirichlet(-2.0, on="x-")]
    )
    with pytest.raises(
        sx.Diverged, match="A root or a logarithm of a field that is negative at the start"
    ):
        sx.solve(problem, progress=False)


def products(rank):
    """-Δu = f with a solution of three products, by a recipe of `rank`."""

    def exact(x, y):
        return sum(jnp.sin(k * jnp.pi * x) * jnp.sin((4 - k) * jnp.pi * y) for k in (1, 2, 3))

    def source(x, y):
        return sum(
            (k**2 + (4 - k) ** 2)
            * jnp.pi**2
            * jnp.sin(k * jnp.pi * x)
            * jnp.sin((4 - k) * jnp.pi * y)
            for k in (1, 2, 3)
        )

    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)),
        lambda u, x, y: u.xx + u.yy + source(x, y),
        [sx.Dirichlet(0, hard=True)],
        reference=exact,
    )
    how = sx.Recipe(
        sx.SPINN(rank=rank, depth=0, functions=20),
        28,
        optimiser=sx.Solve(20),
        sampler=sx.GaussLegendre(),
        precision="float64",
    )
    return sx.solve(problem, how, progress=False)


@pytest.mark.whole
def test_too_few_products_are_named():
    few, enough = products(1), products(3)
    assert few.relative_l2() > 0.3
    assert "the number of products is the limit" in few.advice[-1]
    assert "rank=2" in few.advice[-1]
    assert enough.relative_l2() < 1e-8
    assert not enough.advice


def bent():
    """|x| is no polynomial: the error of n of them goes like n^-3/2."""
    return sx.Problem(
        sx.Box(x=(-1, 1)),
        lambda u, x: u.x - jnp.sign(x),
        [sx.Dirichlet(1, on="x-")],
        reference=lambda x: jnp.abs(x),
    )


@pytest.mark.whole
def test_a_tolerance_that_cannot_be_met(monkeypatch):
    """By polynomials alone: other ways find the kink."""
    monkeypatch.setattr("separax.solving.automatic.WAYS", ())
    found = sx.solve(bent(), tolerance=1e-9, progress=False)
    assert 1e-9 < found.relative_l2() < found.estimate < 0.1
    assert "not below the tolerance of 1e-09" in found.advice[0]
    assert "the functions along x are the limit" in found.advice[1]


@pytest.mark.whole
def test_rounding_is_named():
    found = sx.solve(oscillator(), tolerance=1e-30, progress=False)
    assert found.relative_l2() < 1e-9
    assert "rounding is the limit" in found.advice[1]


@pytest.mark.whole
def test_a_run_that_was_stopped_goes_on_with_its_last_level(tmp_path, monkeypatch):
    """Stopped in its second level, it is not begun from the first again."""
    monkeypatch.setattr(
        "separax.training.session.LAUNCH_SECONDS", 0.0
    )  # launches as short as they get

    def ctrl_c(step, **_):
        if step == STEPS + 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("separax.solving.automatic.WAYS", ())  # others find the kink
    folder = tmp_path / "run"
    stopped = sx.solve(bent(), tolerance=1e-9, out=folder, callback=ctrl_c, progress=False)
    assert stopped.interrupted
    assert len(stopped.levels) == 2
    seen: list[int] = []
    found = sx.solve(
        bent(),
        tolerance=1e-9,
        out=folder,
        resume=True,
        progress=False,
        callback=lambda step, **_: seen.append(step),
    )
    assert not found.interrupted
    assert seen[0] > STEPS
    assert found.levels[0] == stopped.levels[0]
    assert len(found.levels) > 2
