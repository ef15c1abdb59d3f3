"""Solving without a recipe: how far it goes, and whether its estimate is honest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import separax as sx
from separax.automatic import _begun, _values, recipe_for
from separax.loss import Model


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
        [sx.Initial(lambda x: jnp.cos(jnp.pi * x), of="p"), sx.Initial(0, of="v"), sx.Periodic("x")],
        fields=("p", "v"),
        reference={
            "p": lambda t, x: jnp.cos(jnp.pi * x) * jnp.cos(jnp.pi * t),
            "v": lambda t, x: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * t),
        },
    )


@pytest.mark.parametrize(("make", "tolerance"), [(travelling, 1e-4), (oscillator, 1e-8), (waves, 1e-6)])
def test_a_tolerance_is_met_and_the_estimate_is_honest(make, tolerance):
    found = sx.solve(make(), tolerance=tolerance, progress=False)
    assert found.estimate <= tolerance
    assert found.relative_l2() <= 3 * found.estimate
    assert [level.estimate for level in found.levels][-1] == found.estimate


def ring():
    """Two fields on a box with a periodic axis; nothing is solved."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2), y=(-1, 1)),
        lambda u, v: {"first": u.t - v.x, "second": v.t - u.yy},
        [sx.Initial(0, of="u"), sx.Initial(1, of="v"), sx.Periodic("x"), sx.Dirichlet(0, on="y", of="u", hard=True)],
        fields=("u", "v"),
    )


@pytest.mark.parametrize(("before", "after"), [("cp", "cp"), ("cp", "tucker"), ("tucker", "tucker")])
def test_what_a_level_begins_with_is_what_the_last_one_ended_with(before, after):
    problem = ring()
    with jax.enable_x64(True):
        small = Model.build(problem, recipe_for(problem, {"t": 4, "x": 5, "y": 3}, 3, before), jax.random.key(0))
        recipe = recipe_for(problem, {"t": 6, "x": 9, "y": 5}, 5, after)
        flat = _begun(problem, recipe, small, 1)
        arrays, static = eqx.partition(Model.build(problem, recipe, jax.random.key(2)), eqx.is_array)
        large = eqx.combine(ravel_pytree(arrays)[1](flat), static)
        places = tuple(jnp.linspace(*problem.box[a], 7) for a in problem.box.axes)
        old, new = (_values(m.network, m.network.features(places, 0), m.network.coefficients) for m in (small, large))
        # new products are small, and new columns of a core count nothing yet
        assert np.allclose(old, new, rtol=0, atol=(1e-2 if after == "cp" else 1e-12) * np.abs(old).max())


def test_where_it_cannot_be_solved_for_a_network_is_trained():
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)), lambda u: u.t + u.x, [sx.Initial(lambda x: jnp.sin(2 * jnp.pi * x)), sx.Periodic(hard=False)]
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
    assert "half posed: the conditions leave a family of solutions of 1 dimension at least" in capsys.readouterr().err
