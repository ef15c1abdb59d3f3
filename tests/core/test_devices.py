"""What depends on the device: small solves are the processor's, and a GPU merges many derivatives
at once."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.core import devices
from separax.core.precision import rounded
from separax.domain.places import Rows
from separax.paper.catalogue import find
from separax.paper.reproduce.plan import Job
from separax.residuals.loss import Loss
from separax.separable.merging import BatchedMerge
from separax.separable.separable import Separable
from separax.training import session
from separax.training.trainer import Trainer

GPU = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")


def is_for_the_processor(name, **how):
    problem, recipe = find(name).make(**how)
    with jax.enable_x64(True):
        return session.is_for_the_processor(Trainer(Loss(problem, recipe)))


@pytest.mark.parametrize(
    "name", ["helmholtz", "klein-gordon", "klein-gordon-3d", "diffusion-5d", "poisson-lshape"]
)
def test_small_solves_are_done_on_the_processor(monkeypatch, name):
    monkeypatch.setattr("separax.training.session.default_device", lambda: GPU)
    assert is_for_the_processor(name)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("navier-stokes-3d", {}),
        ("flow-mixing", {}),
        ("diffusion", {}),
        ("helmholtz", {"recipe": "paper"}),
        ("helmholtz", {"network": "spinn"}),
    ],
)
def test_large_solves_and_all_training_are_a_gpus(monkeypatch, name, how):
    monkeypatch.setattr("separax.training.session.default_device", lambda: GPU)
    assert not is_for_the_processor(name, **how)


@pytest.mark.whole
def test_a_solution_says_on_which_device_it_was_found_also_where_it_is_loaded(
    monkeypatch, tmp_path
):
    processor = devices.device_name()
    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)), lambda u: u.xx + u.yy + 1, [sx.Dirichlet(0, hard=True)]
    )
    assert sx.solve(problem, out=tmp_path / "run", progress=False).device == processor
    monkeypatch.setattr("separax.core.devices.default_device", lambda: GPU)
    assert devices.device_name() == "NVIDIA H200"
    assert sx.load(tmp_path / "run").device == processor


def test_the_device_that_was_chosen_is_the_current_one():
    host = jax.local_devices(backend="cpu")[0]
    with devices.on_cpu() as chosen:
        assert devices.default_device() == chosen == host
    with jax.default_device("cpu"):
        assert devices.default_device() == host


def value_and_gradient(name, network, points, precision):
    problem, recipe = Job(name, network, points, (0,)).make()
    with jax.enable_x64(True):
        trainer = Trainer(Loss(problem, dataclasses.replace(recipe, precision=precision)))
        params = trainer.init(jax.random.key(0)).model
        places = trainer.loss.draw(jax.random.key(1), jnp.array(0))
        made = jax.make_jaxpr(jax.value_and_grad(trainer.objective(places)))(params)
        products = str(made).count("dot_general")
        value, gradient = jax.jit(jax.extend.core.jaxpr_as_fun(made))(params)
        return products, float(value), np.asarray(gradient)


@pytest.mark.parametrize(
    ("name", "network", "points"),
    [
        pytest.param("navier-stokes", "spinn-mod", 5, marks=pytest.mark.whole),
        pytest.param("navier-stokes-3d", "spinn", 4, marks=pytest.mark.whole),
        ("diffusion", "spinn", 6),
        pytest.param("klein-gordon-3d", "spinn", 4, marks=pytest.mark.whole),
    ],
)
def test_merging_at_once_gives_the_same_loss_and_gradient_in_fewer_products(
    monkeypatch, name, network, points
):
    many, value, gradient = value_and_gradient(name, network, points, "float64")
    monkeypatch.setattr("separax.separable.merging.default_device", lambda: GPU)
    few, value_at_once, gradient_at_once = value_and_gradient(name, network, points, "float64")
    assert few < many
    assert value_at_once == pytest.approx(value, rel=1e-13)
    assert np.linalg.norm(gradient_at_once - gradient) < 1e-12 * np.linalg.norm(gradient)


def pays(shape, rank, keys, merges, tf32=False):
    some = Separable("txy", [jax.ShapeDtypeStruct((4, n, rank), jnp.float32) for n in shape])
    together = BatchedMerge([some])
    together.merges = {
        frozenset((0, (0, i, j)) for i in range(keys // merges)) for j in range(merges)
    }
    with rounded("tf32" if tf32 else "float32"):
        return together.pays


def test_many_small_merges_are_done_at_once_and_few_large_ones_are_not(monkeypatch):
    assert not pays((64, 64, 64), 32, 4, 2)
    monkeypatch.setattr("separax.separable.merging.default_device", lambda: GPU)
    assert pays((64, 64, 64), 32, 4, 2)  # as measured on one NVIDIA H200
    assert pays((64, 64, 64), 128, 10, 5, tf32=True)
    assert not pays((64, 64, 64), 128, 10, 5)
    assert not pays((32, 256, 256), 128, 10, 5, tf32=True)
    assert not pays((128, 128, 128), 32, 5, 5)


def test_coordinates_that_are_the_same_are_one_set_of_rows():
    rows = Rows()
    first, again, other = rows.add(jnp.zeros(1)), rows.add(jnp.zeros(1)), rows.add(jnp.ones(1))
    assert first == again == slice(0, 1)
    assert other == slice(1, 2)
