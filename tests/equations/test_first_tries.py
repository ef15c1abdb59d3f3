"""What people try first: an answer that teaches, or what they meant."""

import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.equations import of_few_digits

BOX = sx.Box(t=(0, 1), x=(0, 1))
ENDS = [sx.Initial(0.0), sx.Dirichlet(0)]


def problem(residual, conditions=ENDS, **options):
    return sx.Problem(BOX, residual, conditions, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: problem(lambda u: u.t - u.integral("x")), r"w\.x - u"),
        (lambda: problem(lambda u: 1j * u.t - u.xx), r"fields=\('a', 'b'\)"),
        (lambda: problem(lambda u: u.t + 1j), "complex"),
        (lambda: problem(lambda u: jnp.asarray(1j) * u), "complex"),
        (lambda: problem(lambda u: u.t - u(x=0.0)), r"sx\.Condition\(0\.0, on='x-'\)"),
        (lambda: problem(lambda u, t, x: u.t - u(t, x)), "write u, or u.x"),
        (lambda: problem(lambda u: u.t - u[0]), r"fields=\('u', 'v'\)"),
        (lambda: problem(lambda u, x: u.t - np.interp(x, [0, 1], [1, 2])), r"sx\.tabulated\("),
        (lambda: problem(lambda u, k: u.t - k * u.xx), r"unknowns=\{'k': 1\.0\}"),
        (lambda: problem(lambda u, v: (u.t - v.x, v.t - u.x)), r"fields=\('u', 'v'\)"),
        (lambda: problem(lambda u: u.t, [sx.Dirichlet(0, on="x=0.5")]), "no end of x"),
        (lambda: problem(lambda u: u.t, unknowns={"k": 1.0}), "'k' is named by no residual"),
    ],
)
def test_an_answer_that_teaches(make, words):
    with pytest.raises(sx.InputError, match=words):
        make()


def test_the_integral_that_is_proposed_is_one():
    """w' = u = 3x² from w(0) = 0 is x³."""
    found = sx.solve(
        sx.Problem(
            sx.Box(x=(0, 1)),
            lambda u, w, x: {"equation": u - 3 * x**2, "integral": w.x - u},
            [sx.Condition(0.0, on="x-", of="w")],
            fields=("u", "w"),
        ),
        progress=False,
    )
    assert float(found(x=1.0)["w"]) == pytest.approx(1.0, abs=1e-9)


def test_a_face_by_where_it_is():
    assert BOX.faces("x=0") == BOX.faces("x-")
    assert BOX.faces(["x = 1.0", "t=0"]) == BOX.faces(["x+", "t-"])


def test_columns_with_names_come_in_any_order():
    class Frame(dict):
        """Like a DataFrame: it has columns, and keys() gives them."""

        columns = property(dict.keys)

    x, t = np.linspace(0.1, 0.5, 4), np.linspace(0.6, 0.9, 4)
    plain = sx.Points.of(BOX, np.stack([t, x], 1))
    for named in ({"x": x, "t": t}, Frame(x=x, t=t)):
        found = sx.Points.of(BOX, named)
        for ours, theirs in zip(found.coordinates, plain.coordinates):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({"x": [0.1]}, "no column 't'"),
        ({"x": [0.1], "t": [0.2], "y": [0.3]}, "'y' is no axis"),
        ({"x": [0.1, 0.2], "t": [0.2]}, "different lengths"),
    ],
)
def test_bad_columns(points, words):
    with pytest.raises(sx.InputError, match=words):
        problem(lambda u: u.t, [sx.Data(points, [1.0])])


# --- digits ---------------------------------------------------------------------------------------

THIRD = np.float32(1) / np.float32(3)
ROUNDED = jnp.asarray(THIRD)


@pytest.mark.parametrize(
    ("residual", "conditions", "names"),
    [
        (lambda u, x: u.t - 0.1 * jnp.sin(3 * x) * u.xx, ENDS, []),
        (lambda u: u.t - jnp.asarray(0.5) * u.xx, ENDS, []),
        (lambda u: u.t - ROUNDED * u.xx, ENDS, ["residual"]),
        (lambda u: u.t - u.xx, [sx.Initial(lambda x: x * ROUNDED)], ["initial"]),
        (lambda u: u.t - u.xx, [sx.Dirichlet(ROUNDED)], ["dirichlet"]),
        (lambda u: u.t - u.xx, [sx.Data([[0.5, 0.5]], np.array([THIRD]))], ["data"]),
    ],
)
def test_numbers_of_seven_digits_are_found(residual, conditions, names):
    assert of_few_digits(problem(residual, conditions)) == names


def test_numbers_of_seven_digits_are_said_and_in_the_estimate(capsys):
    """u' = u / 3 with a third that is 1e-8 off."""
    ours = sx.Problem(
        sx.Box(t=(0, 1)), lambda u: u.t - ROUNDED * u, [sx.Initial(1.0)], name="growth"
    )
    found = sx.solve(ours, progress=False)
    error = abs(float(found(t=1.0)) - np.exp(1 / 3)) / np.exp(1 / 3)
    assert 1e-9 < error < found.estimate < 1e-6
    assert "growth: numbers in 'residual' have seven digits" in capsys.readouterr().err
