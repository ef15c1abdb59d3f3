"""First guesses of unknown coefficients."""

import jax
import numpy as np
import pytest

import separax as sx
from separax.solving.advice import of_unknowns
from separax.solving.guesses import better_guess
from separax.training import Interrupt

VISCOSITY, POROSITY = 1e-3, 0.4


def porous(nue, permeability):
    """Flow in a porous channel, -(νₑ / ε) u'' + ν u / K = 1, with νₑ = K = 1e-3."""
    rate = np.sqrt(VISCOSITY * POROSITY) / 1e-3

    def exact(x):
        return 1 - np.cosh(rate * (x - 0.5)) / np.cosh(rate / 2)

    at = np.linspace(0.1, 0.9, 5)
    return sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, nue, k: -(nue / POROSITY) * u.xx + VISCOSITY * u / k - 1,
        [sx.Dirichlet(0), sx.Data(at[:, None], exact(at))],
        unknowns={"nue": nue, "k": permeability},
    )


@pytest.mark.parametrize("guess", [(10.0, 1e-4), (0.1, 0.1)])
def test_coefficients_are_found_from_guesses_that_are_far_off(guess):
    with jax.enable_x64(True):
        found = better_guess(porous(*guess), Interrupt())
    assert found == pytest.approx({"nue": 1e-3, "k": 1e-3}, rel=1e-6)


def cooling(rate):
    """u = exp(-0.3 π² t) sin πx, measured at scattered points."""
    points = np.random.default_rng(0).uniform(0, 1, (40, 2))
    values = np.exp(-0.3 * np.pi**2 * points[:, 0]) * np.sin(np.pi * points[:, 1])
    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u, k: u.t - k * u.xx,
        [sx.Data(points, values), sx.Dirichlet(0, hard=True)],
        unknowns={"k": rate},
    )


def test_a_coefficient_in_two_axes():
    with jax.enable_x64(True):
        found = better_guess(cooling(100.0), Interrupt())
    assert found == pytest.approx({"k": 0.3}, rel=1e-3)


def test_where_fields_are_not_linear_there_is_none():
    problem = sx.Problem(
        sx.Box(t=(0, 1)),
        lambda u, k: u.t + k * u**2,
        [sx.Initial(1.0), sx.Data([[1.0]], [0.5])],
        unknowns={"k": 0.1},
    )
    with jax.enable_x64(True):
        assert better_guess(problem, Interrupt()) is None


@pytest.mark.whole
@pytest.mark.parametrize("guess", [(1e-4, 1e-4), (1.0, 1.0), (10.0, 10.0), (1e-4, 10.0)])
def test_a_porous_channel_from_any_guess(guess):
    found = sx.solve(porous(*guess), progress=False)
    assert found.unknowns == pytest.approx({"nue": 1e-3, "k": 1e-3}, rel=1e-6)
    assert found.estimate < 1e-4
    assert not found.advice


def test_an_unknown_that_ran_away_is_called_that():
    (words,) = of_unknowns(["K"], {"K": 0.1, "nue": 0.1}, {"K": -5e3, "nue": 0.04})
    assert words.startswith("K from 0.1 to -5e+03 ran away")
    (words,) = of_unknowns(["K"], {"K": 0.1}, {"K": 0.2})
    assert "fixed by nothing" in words
    assert not of_unknowns([], {"K": 0.1}, {"K": 1e9})
