"""What an equation cannot tell of a field by its very form is said, and is no lack of conditions."""

import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.equations.well_posedness import gauge_freedom
from separax.paper.catalogue import CATALOGUE

PLANE = sx.Box(x=(0, 1), y=(0, 1))
FLOW = sx.Box(t=(0, 1), x=(0, 1), y=(0, 1))
PI = jnp.pi


def stokes(u, v, p):
    return {"x": p.x - u.xx - u.yy, "y": p.y - v.xx - v.yy, "continuity": u.x + v.y}


def unsteady(u, v, p):
    return {"x": u.t + p.x - u.xx - u.yy, "y": v.t + p.y - v.xx - v.yy, "continuity": u.x + v.y}


WALLS = [sx.Dirichlet(0, of="u"), sx.Dirichlet(0, of="v")]


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (sx.Problem(PLANE, stokes, WALLS, fields=("u", "v", "p")), {"p": [()]}),
        (sx.Problem(FLOW, unsteady, WALLS, fields=("u", "v", "p")), {"p": [("t",)]}),
        (
            sx.Problem(
                PLANE,
                stokes,
                [*WALLS, sx.Data([[0.5, 0.5]], [0.0], of="p")],
                fields=("u", "v", "p"),
            ),
            {},
        ),
        (sx.Problem(PLANE, lambda u: u.xx + u.yy, [sx.Neumann(0)]), {"u": [()]}),
        (sx.Problem(PLANE, lambda u: u.xx + u.yy, [sx.Robin(1.0, a=1.0, b=1.0)]), {}),
        (sx.Problem(PLANE, lambda u: u.xx + u.yy, [sx.Dirichlet(0, hard=True)]), {}),
        (sx.Problem(PLANE, lambda u: u.xy - 1.0, []), {"u": [("x",), ("y",)]}),
    ],
    ids=["stokes", "unsteady", "pinned", "neumann", "robin", "built in", "two ways"],
)
def test_what_can_be_added(problem, expected):
    assert gauge_freedom(problem) == expected


def test_a_stream_function_is_known_up_to_a_function_of_time():
    assert gauge_freedom(CATALOGUE["navier-stokes"].make("best")[0]) == {"psi": [("t",)]}


def test_slopes_alone_do_not_need_a_value():
    (term,) = {
        t.axis: t for t in sx.Problem(PLANE, lambda u: u.xx + u.yy, [sx.Neumann(0, on="x+")]).terms
    }.values()
    assert term.derivatives == {(0, (1, 0))}


@pytest.mark.whole
def test_slopes_on_all_walls_are_enough():
    """-Δu = f, ∂u/∂n = 0: without a mean, u = cos(9πx) cos(2πy). One level of functions is too few, so it has to go on."""

    def exact(x, y):
        return jnp.cos(9 * PI * x) * jnp.cos(2 * PI * y)

    def residual(u, x, y):
        return u.xx + u.yy + 85 * PI**2 * exact(x, y)

    found = sx.solve(
        sx.Problem(PLANE, residual, [sx.Neumann(0)], name="insulated"),
        tolerance=1e-9,
        progress=False,
    )
    assert found.estimate <= 1e-9
    assert len(found.levels) > 1
    (sentence,) = found.advice
    assert sentence.startswith("u is found up to a constant: ")
    xs = np.linspace(0, 1, 41)
    error = np.asarray(found(x=xs, y=xs)) - np.cos(9 * np.pi * xs)[:, None] * np.cos(
        2 * np.pi * xs
    )  # exact() would be float32 here
    assert np.std(error) <= found.estimate


def test_a_missing_start_is_still_named():
    """u_t = u_xx between insulated ends, from nowhere: more than a constant is open."""
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)), lambda u: u.t - u.xx, [sx.Neumann(0)], name="from nowhere"
    )
    found = sx.solve(problem, progress=False)
    assert np.isinf(found.estimate)
    assert any("There is u_t, but no conditions along t" in sentence for sentence in found.advice)
