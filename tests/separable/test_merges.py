"""How the factors of the axes meet: every merge is the sum of products it says it is, and serves wherever a sum of products does."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx
from separax.paper.catalogue import CATALOGUE
from separax.separable import formats as merges

pytestmark = pytest.mark.usefixtures("double")


def summed(merge, factors, core, at):
    """The value at one place of the lattice, index by index."""
    total = 0.0
    names = [name for name, _ in merge.sizes]
    for chosen in itertools.product(*(range(n) for _, n in merge.sizes)):
        where = dict(zip(names, chosen))
        product = 1.0 if core is None else core[tuple(where[k] for k in merge.core)]
        for own, factor, place in zip(merge.indices, factors, at):
            column = np.ravel_multi_index([where[k] for k in own], merge.size(own)) if own else 0
            product *= factor[place, column]
        total += product
    return total


@pytest.mark.parametrize("kind", merges.FORMATS)
@pytest.mark.parametrize("sizes", [(2,), (3, 2), (2, 1, 3), (2, 3, 1, 2)])
def test_every_way_of_computing_a_merge_gives_the_sum_it_stands_for(kind, sizes):
    axes, names = len(sizes), "txyz"[: len(sizes)]
    ranks = {"cp": sizes[0], "tucker": dict(zip(names, sizes)), "train": sizes[1:]}
    merge = merges.FORMATS[kind](names, ranks[kind])
    rng = np.random.default_rng(axes)
    factors = [rng.normal(size=(n, r)) for n, r in zip((2, 3, 2, 4), merge.ranks)]
    core = rng.normal(size=merge.core_shape) if merge.core else None
    at = tuple(rng.integers(len(f)) for f in factors)

    @jax.jit
    def computed(factors, core):
        plain = merge.columns(factors, core)
        rows = [f[jnp.array([k, 0])] for f, k in zip(factors, at)]
        sides, scattered = [], []
        for i, factor in enumerate(factors):
            own = factor.reshape([-1 if k == i else 1 for k in range(axes)] + [merge.ranks[i]])
            sides.append(jnp.sum(merge.environment(i, factors, core) * own, -1))
            scattered.append(jnp.sum(merge.environment_at_points(i, rows, core) * rows[i], -1))
        return (
            [merge.on_lattice(factors, core), *sides],
            plain,
            [merge.at_points(rows, core), *scattered],
        )

    (values, *sides), plain, scattered = computed(factors, core)
    assert values[at] == pytest.approx(summed(merge, factors, core, at))
    assert all(np.allclose(side, values) for side in sides)
    assert all(f.shape[-1] == merge.rank for f in plain)
    letters = "abcd"[:axes]
    summed_up = np.einsum(",".join(f"{k}r" for k in letters) + "->" + letters, *plain)
    assert np.allclose(summed_up, values)
    assert all(np.allclose(found, [values[at], values[(0,) * axes]]) for found in scattered)


def heat(**network):
    def exact(t, x, y):
        return jnp.exp(-t) * jnp.sin(x) * jnp.cos(y)

    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, math.pi), y=(0, math.pi)),
        lambda u: u.t - (u.xx + u.yy) / 2,
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )
    return problem, sx.Recipe(
        sx.SPINN(width=12, depth=2, **network), 10, 300, sx.Adam(1e-2, "cosine")
    )


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(
            {"merge": "tucker", "rank": {"t": 2, "x": 3, "y": 4}}, marks=pytest.mark.whole
        ),
        {"merge": "train", "rank": [2, 3]},
    ],
)
def test_any_merge_is_trained_kept_and_loaded(network, tmp_path):
    problem, recipe = heat(**network)
    found = sx.solve(problem, recipe, out=tmp_path / "run", progress=False)
    assert found.relative_l2() < 0.2
    again = sx.load(tmp_path / "run")
    at = {"t": np.array([0.2, 0.9]), "x": np.array([0.3, 1.0, 2.0]), "y": np.array([0.1, 3.0])}
    assert np.array_equal(again(**at), found(**at))
    assert again.recipe.network == recipe.network


def test_a_train_is_solved_for():
    problem, _ = heat()
    network = sx.SPINN(depth=0, body="mlp", merge="train", rank=2, functions=12)
    recipe = sx.Recipe(
        network, 16, optimiser=sx.Solve(25), sampler=sx.GaussLegendre(), precision="float64"
    )
    assert sx.solve(problem, recipe, progress=False).relative_l2() < 1e-7


@pytest.mark.parametrize("name", ["diffusion", "flow-mixing", "poisson-lshape"])
def test_fewer_points_leave_fewer_functions_and_columns(name):
    problem, recipe = CATALOGUE[name].make("best")
    network = recipe.with_points(12).network.build(
        jax.random.key(0), problem.box, len(problem.fields)
    )
    for axis, rank in zip(network.axes, network.merge.ranks):
        assert rank <= axis.inputs < 24
