"""A budget of seconds: what comes back when it is spent, and what is said."""

import math
import os
import signal
import time

import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.solving.polynomials.way import Polynomials
from separax.training import Interrupt


def decay(**options):
    return sx.Problem(
        sx.Box(t=(0, 1)), lambda u: u.t + 2 * u, [sx.Initial(1.0)], name="decay", **options
    )


def long_run(steps=10**7):
    return sx.Recipe(sx.SPINN(rank=2, width=4, depth=1), points=8, steps=steps)


def test_a_budget_is_an_interrupt():
    """`asked` is true after Ctrl-C, at the end of the budget, and where the next part is too long
    for what is left of it."""
    assert not Interrupt().asked
    assert Interrupt(0.0).asked
    assert Interrupt().left == math.inf
    soon = Interrupt(100.0)
    assert soon.allows(90.0)
    assert not soon.asked
    soon.kept = 20.0
    assert not soon.allows(90.0)
    assert soon.asked
    with Interrupt(100.0) as pressed:
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed.asked
        assert pressed.ctrl_c


@pytest.mark.parametrize("seconds", [-1, math.nan, "soon"])
def test_bad_budgets(seconds):
    with pytest.raises(sx.InputError, match="seconds"):
        sx.solve(decay(), seconds=seconds)


@pytest.mark.parametrize("more", [{}, {"windows": 2}, {"seed": [0, 1]}])
def test_without_a_second_the_start_comes_back_and_that_is_said(more, capsys):
    found = sx.solve(decay(), long_run(), seconds=0, **more)
    (one, *_) = found.solutions
    assert one.interrupted
    assert one.timing.steps == 0
    assert "this is the start" in one.advice[0]
    assert "decay: stopped after 0 s, as asked" in capsys.readouterr().err
    assert np.isfinite(one(t=0.1))


def test_a_trained_network_comes_back_in_time():
    began = time.perf_counter()
    found = sx.solve(decay(), long_run(), seconds=2, progress=False)
    took = time.perf_counter() - began
    assert took < 4
    assert found.interrupted
    assert found.timing.steps > 0
    assert "stopped after 2 s, as asked, at step" in found.advice[0]
    assert "All of it takes about" in found.advice[0]


def test_a_run_goes_on_where_its_budget_ended(tmp_path):
    """In launches of ten steps instead of a hundred, with the same result."""
    how = long_run(400)
    straight = sx.solve(decay(), how, progress=False)
    folder = tmp_path / "run"
    first = sx.solve(decay(), how, seconds=0, out=folder, progress=False)
    assert "resume=True goes on from there" not in first.advice[0]  # there is nothing yet
    last = sx.solve(decay(), how, seconds=60, out=folder, resume=True, progress=False)
    assert not last.interrupted
    t = jnp.linspace(0, 1, 7)
    np.testing.assert_array_equal(straight(t=t), last(t=t))


# --- without a recipe -----------------------------------------------------------------------------


def bent():
    """A layer that 48 polynomials cannot follow."""

    def exact(x):
        return jnp.tanh(8 * x)

    return sx.Problem(
        sx.Box(x=(-1, 1)),
        lambda u, x: u.xx + 128 * exact(x) * (1 - exact(x) ** 2),
        [sx.Dirichlet(exact)],
        name="bent",
        reference=exact,
    )


@pytest.fixture
def polynomials_alone(monkeypatch):
    monkeypatch.setattr("separax.solving.automatic.WAYS", ())


@pytest.mark.usefixtures("polynomials_alone")
def test_each_level_has_a_line(capsys):
    found = sx.solve(bent())
    said = [line for line in capsys.readouterr().err.splitlines() if "level" in line]
    assert len(said) == len(found.levels) > 1
    assert said[0].startswith("bent: level 1: 48 functions, estimated error ")
    assert said[0].endswith("going on")
    assert said[-1].endswith("done")


@pytest.mark.usefixtures("polynomials_alone")
def test_a_level_that_has_no_time_is_not_begun(monkeypatch):
    """The one before comes back, with its estimate."""
    found = sx.solve(bent(), progress=False)
    assert len(found.levels) > 1
    monkeypatch.setattr(Polynomials, "_has_time_for", lambda *_: False)
    found = sx.solve(bent(), progress=False)
    assert len(found.levels) == 1
    assert found.relative_l2() < found.estimate < math.inf


@pytest.mark.usefixtures("polynomials_alone")
@pytest.mark.parametrize("trouble", [MemoryError("no more"), sx.Diverged("NaN")])
def test_a_finer_level_that_fails_gives_the_one_before(trouble, monkeypatch):
    levels = Polynomials._next

    def fail_later(self):
        if self.levels:
            raise trouble
        return levels(self)

    monkeypatch.setattr(Polynomials, "_next", fail_later)
    found = sx.solve(bent(), progress=False)
    assert len(found.levels) == 1
    assert found.relative_l2() < found.estimate < math.inf
    assert "this is the one before" in found.advice[-1]


def test_without_a_second_there_is_no_estimate_either():
    for problem in (decay(), bent()):
        found = sx.solve(problem, seconds=0, progress=False)
        assert found.interrupted
        assert found.estimate == math.inf
        assert "this is the start" in found.advice[0]
        assert np.isfinite(found(**{found.problem.box.axes[0]: 0.5}))


@pytest.mark.usefixtures("polynomials_alone")
def test_a_network_that_nobody_asked_for_is_said(capsys):
    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)),
        lambda u: u.xx + u.yy - u + 1,
        [sx.Periodic("x", hard=False), sx.Dirichlet(0, on="y")],
        name="ring",
    )
    found = sx.solve(problem, seconds=0)
    assert "a network is trained: 'periodic' joins values" in found.advice[1]
    assert f"ring: {found.advice[1]}" in capsys.readouterr().err
