"""Points that follow the residual, one in each stratum of a density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import separax as sx

BOX = sx.Box(t=(0, 2), x=(-1, 1))
COUNTS = {"t": 24, "x": 48}


def learned(front: float, place: str) -> tuple[sx.Strata, dict]:
    """A sampler that has seen a residual with a front at x = `front`."""
    sampler = sx.Strata()
    state = sampler.init(BOX, COUNTS, float)
    key, number = jax.random.key(0), jnp.array(0)
    if place == "lattice":
        drawn = sampler.lattice(key, number, BOX, COUNTS, float, state)
    else:
        drawn = sampler.points(key, number, BOX, COUNTS, {}, float, state)

    def squares(place: sx.Lattice | sx.Points) -> dict:
        x = place.arrays()["x"]
        return {"equation": jnp.exp(-(((x - front) / 0.1) ** 2))}

    return sampler, sampler.learn(state, key, number, drawn, squares)


@pytest.mark.parametrize("place", ["lattice", "points"])
def test_points_go_where_the_residual_is_and_count_less_there(place):
    sampler, state = learned(0.3, place)
    drawn = sampler.lattice(jax.random.key(1), jnp.array(1), BOX, COUNTS, float, state)
    x = np.sort(drawn["x"])
    near = np.mean(np.abs(x - 0.3) < 0.25)
    assert near > 1.5 * 0.25  # of evenly spread points a quarter would lie there
    t_gaps = np.diff(np.sort(drawn["t"]))
    assert t_gaps.max() < 2.5 * 2 / 24  # along t the residual is the same everywhere
    for axis, weights in zip(drawn.axes, drawn.weights):
        low, high = BOX[axis]
        np.testing.assert_allclose(jnp.sum(weights), high - low, rtol=1e-6)


def test_means_are_those_over_the_box_wherever_the_points_are():
    """One point in each stratum: the mean of a smooth function is off by far less than 1/√n."""
    sampler, state = learned(-0.5, "lattice")
    means = []
    for number in range(40):
        drawn = sampler.lattice(jax.random.key(2), jnp.array(number), BOX, COUNTS, float, state)
        (wx,) = (w for a, w in zip(drawn.axes, drawn.weights) if a == "x")
        means.append(float(jnp.sum(wx * jnp.exp(drawn["x"])) / 2))
    true = np.sinh(1.0)
    assert abs(np.mean(means) - true) < 0.005
    assert np.std(means) < 0.3 * np.std(np.exp(np.linspace(-1, 1, 1000))) / np.sqrt(48)


def test_a_draw_is_a_function_of_key_number_and_state():
    sampler, state = learned(0.0, "lattice")
    one, two, other = (
        sampler.lattice(jax.random.key(3), jnp.array(n), BOX, COUNTS, float, state)["x"]
        for n in (4, 4, 5)
    )
    assert jnp.array_equal(one, two)
    assert not jnp.array_equal(one, other)


@pytest.mark.parametrize("follow", [-0.1, 1.0])
def test_a_share_that_leaves_something_out_is_refused(follow):
    with pytest.raises(sx.InputError, match=r"Strata: follow must be at least 0 and less than 1"):
        sx.Strata(follow=follow)
