"""How programs are compiled: by how often they run, and how wide their networks are."""

from types import SimpleNamespace

import jax
import pytest

import separax as sx
from separax.core import compilation as compiling
from separax.core import tuning
from separax.residuals.loss import Loss
from separax.training.trainer import Trainer

GONE = {"xla_cpu_use_fusion_emitters": (0, 12)}  # options that JAX has no more from a version on
TRAINED = sx.Recipe(sx.SPINN(rank=8, width=4, depth=1), 6, steps=100)


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(
        "separax.core.compilation.default_device", lambda: SimpleNamespace(platform="gpu")
    )


def problem():
    return sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)), lambda u: u.xx + u.yy + 1, [sx.Dirichlet(0, hard=True)]
    )


def options(recipe):
    with jax.enable_x64(True):
        return Trainer(Loss(problem(), recipe))._options()


def solved():
    network = sx.SPINN(rank=2, functions=6, depth=0)
    return sx.Recipe(
        network, 8, optimiser=sx.Solve(3), sampler=sx.GaussLegendre(), precision="float64"
    )


@pytest.mark.usefixtures("on_a_gpu")
def test_kernels_are_tried_out_where_that_pays():
    wide = sx.Recipe(sx.SPINN(rank=tuning.WIDE_NETWORK + 1, width=4, depth=1), 6)
    assert options(TRAINED) is None
    assert options(wide) == compiling.FROM_LIBRARY
    assert (
        options(solved())
        == compiling.options_for_few_runs()
        == {**compiling.FROM_LIBRARY, "xla_gpu_autotune_level": "0"}
    )


def still_there(name):
    return jax.__version_info__[:2] < GONE.get(name, (1000, 0))


def test_on_a_cpu_what_is_solved_is_compiled_in_haste():
    assert options(TRAINED) is None
    here = {name: value for name, value in compiling.HASTY["cpu"].items() if still_there(name)}
    assert options(solved()) == compiling.options_for_few_runs() == here != {}


@pytest.mark.parametrize("device", compiling.HASTY)
def test_xla_knows_the_options(device):
    """On any device."""
    for name, value in compiling.HASTY[device].items():
        assert compiling._is_understood(name, value) == still_there(name), name


def test_what_xla_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setitem(
        compiling.HASTY, "cpu", {"xla_is_a_bird": True, "xla_backend_optimization_level": "1"}
    )
    assert compiling.options_for_few_runs() == {"xla_backend_optimization_level": "1"}
    assert sx.solve(problem(), solved(), progress=False)(x=0.5, y=0.0) == pytest.approx(0, abs=1e-6)
