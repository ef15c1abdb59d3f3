"""What a run says on the way, where there is no terminal."""

import time

import pytest

import separax as sx
from separax.core import doing
from separax.residuals import Loss
from separax.training import Progress, Trainer, display, progress


def far(step, place=""):
    return Progress(step, 40, {"total": 0.5}, None, 8.0, place)


def test_a_quiet_run_says_how_far_it_is(capsys, monkeypatch):
    """While a program is compiled, too: nothing is reported then."""
    monkeypatch.setattr(progress, "QUIET", 0.1)
    with display("heat", None) as (report, _):
        time.sleep(0.35)
        report(far(10))
        time.sleep(0.3)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "heat: after 0:00  compiling"
    assert "step 10 of 40  loss 5.00e-01" in said[-1]
    assert "0:04 left" in said[-1]
    time.sleep(0.2)
    assert not capsys.readouterr().err  # it is over


def test_a_line_of_its_own_is_said_at_once(capsys):
    with display("heat", None) as (report, tell):
        report(far(4))
        tell("level 1: 48 functions")
    assert capsys.readouterr().err == "heat: level 1: 48 functions\n"


@pytest.mark.parametrize(("wanted", "lines"), [(True, 11), (None, 0), (False, 0)])
def test_tenths_are_said_where_they_are_wanted(wanted, lines, capsys):
    with display("heat", wanted) as (report, _):
        for step in range(41):
            report(far(step))
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_what_is_compiled_is_said(capsys, monkeypatch):
    """Until the next report; on a terminal it stands where the speed does afterwards."""
    monkeypatch.setattr(progress, "QUIET", 0.1)
    problem = sx.Problem(sx.Box(x=(0, 1)), lambda u: u.x - u, [sx.Dirichlet(1, on="x-")])
    trainer = Trainer(Loss(problem, sx.Recipe(steps=10, points=4)))
    monkeypatch.setattr(Trainer, "compile", lambda *_: time.sleep(0.3))
    with display("growth", None):
        trainer.launch(None)
    assert "growth: after 0:00  compiling the steps of Adam" in capsys.readouterr().err
    doing("nothing")  # nobody is listening any more
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with display("growth", None):
        doing("compiling the steps of Solve")
        time.sleep(0.3)
    assert "compiling the steps of" in " ".join(capsys.readouterr().err.split())


def test_nothing_is_said_where_nothing_is_wanted(capsys):
    with display("heat", False) as (_, tell):
        tell("level 1: 48 functions")
    assert not capsys.readouterr().err


def test_a_part_says_where_it_is_in_the_whole():
    """A solve that does not know how many levels it will have says no number of steps."""
    now = far(3).within(40, 240, "level 2: 12 × 12 functions")
    assert now.step == 43
    assert now.words == "level 2: 12 × 12 functions, step 3 of 40"
    assert far(3).within(40, 240).words.startswith("step 43 of 240")
