"""Derived quantities as lists of steps: the same values as the function, or none at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained

import separax as sx
from separax.equations.formulas import formula_of
from separax.output import viewer as factors
from separax.runs.loading import load

TINY = sx.Recipe(sx.SPINN(rank=3, width=6, depth=1), points=4, precision="float64")


def problem(**derived):
    return sx.Problem(
        sx.Box(x=(-1, 1), y=(0.5, 2)),
        lambda u, v: {"a": u.xx - v.y, "b": v.x},
        [],
        fields=("u", "v"),
        derived=derived,
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda u: u.value - jnp.mean(u.value),
        lambda u: u.value - jnp.roll(u.value, 1, 0),
        lambda u: u.value - u.value[:1],
        lambda u: jnp.gradient(u.value, axis=0),
        lambda u: jnp.round(u.value),
        lambda u: u.value.astype(int) * 1.0,
        lambda u, x: u * jnp.interp(x, jnp.linspace(-1, 1, 5), jnp.arange(5.0)),
        lambda u: u.value * jnp.inf,
    ],
)
def test_what_is_no_formula_is_not_taken_for_one(function):
    assert formula_of(problem(q=function), "q", {}) is None


def test_coefficients_that_were_found_are_numbers_in_it():
    one = sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, k: u.xx - k,
        [],
        unknowns={"k": 1.0},
        derived={"q": lambda u, k: k * u**2},
    )
    found = formula_of(one, "q", {"k": 7.0})
    assert float(found([3.0 if key != "x" else 0.0 for key in found.inputs])) == 63


def test_formulas_are_kept_with_a_run_and_give_what_the_functions_gave(tmp_path):
    one = problem(
        speed=lambda u, v: np.sqrt(u**2 + v**2),
        w=lambda u, v: v.x - u.y,
        ratio=lambda u, v: u * v.x - 3 / (2 + u.yy**2),
        angle=lambda u, v: np.arctan2(u, v) + np.exp(-(u**3)) * abs(v),
        rest=lambda u: u.value - jnp.mean(u.value),
        plain=lambda u, x: x * u.value,
        chosen=lambda u, v, y: jnp.where(u.value > 0, 1, jnp.tanh(v.value)) + y,
        clipped=lambda u, v: jnp.maximum(jax.nn.sigmoid(u.value), jnp.clip(v.value, -0.5, 0.5)),
    )
    solution = untrained(one, TINY)
    loaded = load(solution.save(tmp_path / "run"))
    names = [name for name in one.outputs if name != "rest"]
    assert list(loaded.problem.outputs) == names
    assert loaded.problem.left_out == ("rest",)
    xs, ys = np.linspace(-1, 1, 4), np.linspace(0.5, 2, 3)
    ours, theirs = loaded(x=xs, y=ys), solution(x=xs, y=ys)
    for name in names:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-12, atol=1e-14)
    page = factors.payload(loaded)
    assert [output["name"] for output in page["outputs"]] == names
    assert page["left_out"] == ["rest"]
    assert page["error"] < 1e-6
    slopes = loaded.d(x=1)(x=xs, y=ys)
    assert set(slopes) == {
        "u",
        "v",
        "speed",
        "w",
        "ratio",
        "angle",
    }  # as before it was kept: plain values have no derivative
    np.testing.assert_allclose(slopes["speed"], solution.d(x=1)(x=xs, y=ys)["speed"], rtol=1e-10)
