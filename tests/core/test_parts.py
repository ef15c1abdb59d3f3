"""Parts as data: made again they are the same in any process, or they are refused by name."""

import dataclasses
import functools
import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

import separax as sx
from separax.core import data_to_part, difference, part_to_data

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)
sizes, rates = st.integers(1, 50), st.floats(1e-6, 1.0)
networks = st.builds(
    sx.SPINN, rank=sizes, width=sizes, depth=st.integers(1, 5), steepness=st.none() | rates
) | st.builds(sx.PINN, width=sizes, activation=st.sampled_from(["tanh", "sin"]))
optimisers = st.builds(
    sx.Adam,
    rates,
    st.sampled_from(["constant", "cosine"]),
    st.integers(0, 9),
    rates,
    st.integers(10, 50),
) | st.builds(sx.SOAP, rates, steps=sizes)
samplers = (
    st.builds(sx.Uniform, sizes)
    | st.builds(sx.Grid, shifts=st.integers(0, 9))
    | st.builds(sx.GaussLegendre, breaks=st.dictionaries(st.sampled_from("xyz"), st.floats(-1, 1)))
)
recipes = st.builds(
    sx.Recipe,
    networks,
    sizes | st.dictionaries(st.sampled_from("xyz"), sizes),
    optimiser=optimisers | st.lists(optimisers, min_size=1, max_size=3),
    sampler=samplers,
    weights=st.dictionaries(st.text(), rates, max_size=2),
)


def written(data):
    """As it is read from a file."""
    return json.loads(json.dumps(data, allow_nan=False))


@given(plain | networks | optimisers | samplers | recipes)
@tried(max_examples=150, deadline=None)
def test_what_is_made_again_is_the_same(value):
    data = part_to_data(value)
    again = data_to_part(written(data))
    assert again == value
    assert (type(again), repr(again)) == (type(value), repr(value))
    assert part_to_data(again) == data


# --- parts of a user's own -----------------------------------------------------------------------


class Scaled(eqx.Module):
    """A part with an array, a function and fields that have defaults."""

    factors: jax.Array
    function: Callable = eqx.field(static=True, default=jax.nn.gelu)
    seen: list = eqx.field(static=True, default_factory=list)

    def __init__(self, *_):
        raise AssertionError("a part is made again without its __init__")


@dataclasses.dataclass(frozen=True)
class Named:
    one: object = None


@dataclasses.dataclass
class Loose:
    one: int = 1


def decayed(step, rate=1.0):
    return rate / (1 + step)


def test_a_part_is_made_again_from_its_fields():
    part = object.__new__(Scaled)
    for name, value in {
        "factors": jnp.array([1.0, jnp.inf], jnp.float32),
        "function": functools.partial(decayed, rate=2.0),
        "seen": (np.arange(6).reshape(2, 3),),
    }.items():
        object.__setattr__(part, name, value)
    data = written(part_to_data(part))
    again = data_to_part(data, Scaled)
    assert isinstance(again.factors, jax.Array)
    assert (again.factors.dtype, again.factors.tolist()) == (jnp.float32, [1.0, jnp.inf])
    assert again.function(1) == 1.0
    np.testing.assert_array_equal(again.seen[0], part.seen[0])
    assert written(part_to_data(again)) == data
    del data["fields"]["function"], data["fields"]["seen"]  # kept before there were these fields
    assert data_to_part(data).function is jax.nn.gelu
    assert data_to_part(data).seen == []
    with pytest.raises(sx.InputError, match="Scaled has a field 'factors' here that the run does"):
        data_to_part(data | {"fields": {}})
    with pytest.raises(sx.InputError, match="Scaled has no field 'more' here"):
        data_to_part(data | {"fields": data["fields"] | {"more": 1}})


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (jax.nn.gelu, "jax.nn.gelu"),
        (jax.nn.relu, "jax.nn.relu"),
        (jax.nn.silu, "jax.nn.silu"),
        (jnp.tanh, "jax.numpy.tanh"),
        (np.sin, "numpy.sin"),
        (optax.adamw, "optax.adamw"),
        (optax.contrib.muon, "optax.contrib.muon"),
        (optax.cosine_decay_schedule, "optax.cosine_decay_schedule"),
        (eqx.nn.MLP, "equinox.nn.MLP"),
        (sx.SPINN, "separax.SPINN"),
        (sx.laplacian, "separax.laplacian"),
        (jnp.float32, "jax.numpy.float32"),
    ],
)
def test_functions_and_classes_have_their_public_name(value, name):
    assert part_to_data(value) == {"function": name}
    assert data_to_part({"function": name}) is value


def inner():
    def rate(step):
        return step

    return rate


def local_part():
    class Own(eqx.Module):
        pass

    return Own()


def in_a_script():
    """A function of a file that is run, as `python FILE.py` and `separax solve FILE.py` have it."""
    module = types.ModuleType("script.py")
    sys.modules[module.__name__] = module
    exec("def rate(step): return step", module.__dict__)
    return module.rate


def hidden():
    other = types.FunctionType(decayed.__code__, {}, "decayed")
    other.__module__, other.__qualname__ = decayed.__module__, "decayed"
    return other


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            lambda step: step,
            "a lambda has no name.*define it with def at the top level of a module",
        ),
        (inner(), "rate is made inside inner, where no other process"),
        (in_a_script(), "rate is defined in the script itself"),
        (local_part(), "Own is made inside local_part.*: define it with class at the top level"),
        (hidden(), r"test_parts\.decayed is something else"),
        (
            optax.adamw(1e-3),
            r"a transformation that Optax has made.*sx\.Optax\(optax\.adamw, 1e-3\)",
        ),
        (np.zeros(5000), r"an array of shape \(5000,\) of float64 cannot be kept"),
        (Loose(), r"Loose can change while a run goes on: write @dataclass\(frozen=True\)"),
        (object(), "object cannot be kept with a run"),
        ({1: 2}, "1 is a key of a dict"),
        (Named((3, Named(lambda: 0))), None),
    ],
    ids=lambda value: None,
)
def test_what_cannot_be_found_again_is_refused_by_name(value, said):
    with pytest.raises(
        sx.InputError, match=f"^optimiser: {said}" if said else r"^one\[1\]\.one: a"
    ):
        part_to_data(value, "optimiser" if said else "")


def test_a_part_of_another_kind_is_refused():
    data = part_to_data(sx.Uniform())
    with pytest.raises(
        sx.InputError, match=r"Uniform.* is kept where there should be SPINN or PINN"
    ):
        data_to_part(data, (sx.SPINN, sx.PINN))
    with pytest.raises(sx.InputError, match=r"separax\.laplacian is no part"):
        data_to_part({"part": "separax.laplacian", "fields": {}})
    with pytest.raises(sx.InputError, match=r"nowhere\.Body .*cannot be imported.*PYTHONPATH"):
        data_to_part({"part": "nowhere.Body", "fields": {}})


def test_the_first_difference_is_named():
    def told(one, other):
        return difference(part_to_data(one), part_to_data(other))

    recipe = sx.Recipe(optimiser=[sx.Adam(1e-3, steps=9), sx.LBFGS(9)], weights={"a": 1.0})
    assert told(recipe, recipe) is None
    for change, found in (
        (
            {"optimiser": [sx.Adam(2e-3, steps=9), sx.LBFGS(9)]},
            ("optimiser[0].rate", "0.001", "0.002"),
        ),
        ({"weights": {"a": 2.0}}, ("weights['a']", "1.0", "2.0")),
        ({"sampler": sx.Uniform(7)}, ("sampler.every", "10", "7")),
        ({"points": 8}, ("points", "None", "8")),
        ({"weights": {"{}": 1.0}}, ("weights", "{'a': 1.0}", "{'{}': 1.0}")),
    ):
        assert told(recipe, dataclasses.replace(recipe, **change)) == found
    place, was, now = told(recipe, dataclasses.replace(recipe, sampler=sx.Grid()))
    assert (place, was[:8], now[:5]) == ("sampler", "Uniform(", "Grid(")


# --- runs with such parts ------------------------------------------------------------------------

OWN = """
def rate(step):
    return {rate}
"""
READ = """
import numpy as np, separax as sx
found = sx.load("run")
print(found.recipe.optimiser.schedule.__name__, found(t=np.linspace(0, 1, 5)).tolist())
"""


def decay(schedule, folder=None, **options):
    problem = sx.Problem(sx.Box(t=(0, 1)), lambda u: u.t + u, [sx.Initial(1.0)], name="decay")
    network = sx.SPINN(rank=2, width=4, depth=1)
    how = sx.Recipe(network, 6, steps=4, optimiser=sx.Adam(1e-3, schedule))
    return sx.solve(problem, how, out=folder, progress=False, **options)


def test_a_run_with_a_function_of_the_user_is_loaded_elsewhere_and_knows_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_rates.py").write_text(OWN.format(rate="1e-3"))
    own = importlib.import_module("own_rates")
    found = decay(own.rate, tmp_path / "run")
    beside = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", READ]
    read = subprocess.run(command, cwd=tmp_path, env=beside, capture_output=True, check=True)
    assert read.stdout.decode().split(" ", 1) == [
        "rate",
        f"{found(t=np.linspace(0, 1, 5)).tolist()}\n",
    ]
    (tmp_path / "own_rates.py").write_text("# words change nothing\n" + OWN.format(rate="1e-3"))
    decay(importlib.reload(own).rate, tmp_path / "run", resume=True)
    (tmp_path / "own_rates.py").write_text(OWN.format(rate="2.5e-3"))
    importlib.reload(own)
    with pytest.raises(
        sx.InputError,
        match=r"optimiser\.schedule = own_rates\.rate as it was, not own_rates\.rate as it is now",
    ):
        decay(own.rate, tmp_path / "run", resume=True)
    assert "own_rates" not in capsys.readouterr().err
    sx.load(tmp_path / "run")
    assert "own_rates.rate was changed after this run was made" in capsys.readouterr().err
    with pytest.raises(sx.InputError, match=r"optimiser\.schedule = own_rates\.rate, not 'cosine'"):
        decay("cosine", tmp_path / "run", resume=True)
    del sys.modules["own_rates"]
    (tmp_path / "own_rates.py").unlink()
    with pytest.raises(sx.InputError, match=r"own_rates\.rate .* cannot be imported here"):
        sx.load(tmp_path / "run")


def test_what_cannot_be_loaded_again_is_refused_before_anything_compiles(tmp_path, monkeypatch):
    found = decay(lambda step: 1e-3)
    with pytest.raises(sx.InputError, match=r"optimiser\.schedule: a lambda"):
        found.save(tmp_path / "saved")
    monkeypatch.setattr("separax.solving.trained.Trainer", None)
    monkeypatch.setattr("separax.solving.trained.Trainer", None)
    for options in ({}, {"windows": 2}):
        with pytest.raises(sx.InputError, match=r"optimiser\.schedule: a lambda"):
            decay(lambda step: 1e-3, tmp_path / "run", **options)
    assert list(Path(tmp_path).iterdir()) == []
