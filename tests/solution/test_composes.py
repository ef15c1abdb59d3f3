"""A solution inside programs of JAX: an argument, a result, differentiable, compiled once."""

import copy
import dataclasses
import pickle
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from untrained import untrained, untrained_march

import separax as sx
from separax.solution import evaluation

BOX = sx.Box(t=(0, 1), x=(-1, 1))


def heat(u, t, x):
    return u.t - u.xx


def system(u, v, t, x):
    return {"first": u.t - v.x, "second": v.t - u.x}


def disc(x, y):
    return x**2 + y**2 - 0.8


def poisson(u, x, y):
    return u.xx + u.yy - 1.0


HEAT = sx.Problem(BOX, heat, [sx.Initial(0.0)], reference=lambda t, x: jnp.exp(-t) * x)
SYSTEM = sx.Problem(BOX, system, [sx.Initial(0.0, of="u")], fields=("u", "v"))
SHAPE = sx.Problem(sx.Box(x=(-1, 1), y=(-1, 1)), poisson, [sx.Dirichlet(0.0)], inside=disc)
SMALL = sx.SPINN(rank=3, width=8, depth=2)
POINTWISE = sx.PINN(width=8, depth=2)
POLYNOMIALS = sx.SPINN(rank=3, depth=0, body="mlp", functions=6, merge="tucker")


def recipe(precision, network=SMALL):
    return sx.Recipe(network, points=8, steps=100, precision=precision)


MADE = {
    "plain": lambda how: untrained(HEAT, recipe(how)),
    "marched": lambda how: untrained_march(HEAT, recipe(how), 2),
    "system": lambda how: untrained(SYSTEM, recipe(how)),
    "shape": lambda how: untrained(SHAPE, recipe(how)),
    "pointwise": lambda how: untrained(HEAT, recipe(how, POINTWISE)),
    "polynomials": lambda how: untrained(HEAT, recipe(how, POLYNOMIALS)),
}
INSIDE = np.array([[0.3, 0.2], [0.1, -0.4], [0.6, 0.5], [0.45, 0.0]])


QUICK = {"plain": "float32", "marched": "float64", "system": "float32", "shape": "float64"}
QUICK |= {"pointwise": "float64", "polynomials": "float64"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((k, p), marks=() if QUICK[k] == p else pytest.mark.whole)
        for k in MADE
        for p in ("float32", "float64")
    ],
    ids=str,
)
def solution(request):
    kind, precision = request.param
    return MADE[kind](precision)


@pytest.fixture(params=[False, True], ids=["x64 off", "x64 on"])
def callers(request):
    """The caller's precision, with the tolerance of what is computed in it."""
    with jax.enable_x64(request.param):
        yield request.param


def fields(values):
    """One array of all fields."""
    return jnp.stack(list(values.values())) if isinstance(values, dict) else values


def near(found, expected, solution, wide, digits=1.0):
    exact = wide and solution.dtype == np.float64
    rtol = 1e-9 if exact else 2e-4
    size = float(np.nanmax(np.abs(expected))) or 1.0
    np.testing.assert_allclose(found, expected, rtol=rtol * digits, atol=rtol * digits * size)


def axes_of(solution):
    return {a: jnp.linspace(-0.5 if a != "t" else 0.1, 0.7, 5) for a in solution.problem.box.axes}


def test_a_jitted_evaluation_is_the_plain_one(solution, callers):
    lattice, points = axes_of(solution), jnp.asarray(INSIDE)
    near(
        jax.jit(lambda s, c: fields(s(**c)))(solution, lattice),
        fields(solution(**lattice)),
        solution,
        callers,
    )
    near(
        jax.jit(lambda p: fields(solution.at(p)))(points),
        fields(solution.at(points)),
        solution,
        callers,
    )
    each = jax.vmap(lambda p: fields(solution.point(p)))(points)
    near(
        each,
        fields(solution.at(points)).T if each.ndim > 1 else solution.at(points),
        solution,
        callers,
    )


def test_derivatives_through_jax_are_those_of_d(solution, callers):
    axes = solution.problem.box.axes
    points = jnp.asarray(INSIDE)
    one = lambda p: fields(solution.point(p))  # noqa: E731
    ways = jax.jacfwd, jax.jacrev, jax.hessian
    forward, backward, second = jax.jit(lambda p: [jax.vmap(f(one))(p) for f in ways])(points)
    near(forward, backward, solution, callers, digits=10)
    for i, axis in enumerate(axes):
        near(
            forward[..., i].T,
            fields(solution.d(**{axis: 1}).at(points)),
            solution,
            callers,
            digits=10,
        )
    expected = fields(solution.d(**{axes[0]: 1, axes[1]: 1}).at(points))
    near(second[..., 0, 1].T, expected, solution, callers, digits=100)


@pytest.mark.parametrize("breaks", [{}, {"x": (-0.2, 0.5)}], ids=["whole", "in pieces"])
def test_derivatives_through_jax_are_those_of_d_at_the_ends_of_axes(breaks):
    """cos(n arccos x) has a slope there, and arccos has none."""
    network = dataclasses.replace(POLYNOMIALS, breaks=breaks)
    solution = untrained(HEAT, recipe("float64", network))
    with jax.enable_x64(True):
        points = jnp.array([[0.0, -1.0], [1.0, 1.0], [0.0, 0.5], [0.3, -0.2]])
        ways = jax.jacfwd, jax.jacrev, jax.hessian
        forward, backward, second = (jax.vmap(f(solution.point))(points) for f in ways)
        slopes = jnp.stack([solution.d(t=1).at(points), solution.d(x=1).at(points)], 1)
        np.testing.assert_allclose(forward, slopes, rtol=1e-9)
        np.testing.assert_allclose(backward, slopes, rtol=1e-9)
        np.testing.assert_allclose(second[:, 1, 1], solution.d(x=2).at(points), rtol=1e-9)


def test_a_solution_in_a_shard_map(solution):
    """Also on one device, JAX tells what varies over devices from what does not."""
    arrays, rest = eqx.partition(solution, eqx.is_array)
    mesh = jax.make_mesh((1,), ("points",), axis_types=(jax.sharding.AxisType.Auto,))
    over, same = jax.sharding.PartitionSpec("points"), jax.sharding.PartitionSpec()

    def values(arrays, points):
        return eqx.combine(arrays, rest).at(points)

    mapped = jax.shard_map(values, mesh=mesh, in_specs=(same, over), out_specs=over)
    points = jnp.asarray(INSIDE, jnp.float32)
    near(fields(jax.jit(mapped)(arrays, points)), fields(solution.at(points)), solution, False)


def everything(solution, points):
    """All that can be asked of a solution, as one vector."""
    first, *_, last = solution.problem.box.axes
    along = {a: points[:, i] for i, a in enumerate(solution.problem.box.axes)}
    product = (lambda u, v: u * v) if "v" in solution.problem.fields else lambda u: u * u
    found = [
        solution(**along),
        solution(**along | {first: points[0, 0]}),
        solution.at(points),
        solution.point(points[1]),
        solution.d(**{last: 1}).at(points),
        solution.of(product)(**along),
        solution.integral(),
        solution.integral(last, **{first: points[:, 0]}),
        solution.integral(first, **{last: points[0, 1]}),
        solution.norm(),
    ]
    if solution.problem.reference is not None:
        found.append(solution.relative_l2())
    if solution.is_separable and len(solution.models) == 1:
        factors = solution.separable(sx.Lattice(**along), order=1)
        found += [f.jets for f in (factors.values() if isinstance(factors, dict) else [factors])]
    values = jax.tree.map(jnp.nan_to_num, jax.tree.leaves(found))
    return jnp.concatenate([jnp.ravel(each) for each in values])


SLOW = {"pointwise"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(k, marks=pytest.mark.whole if k in SLOW else ()) for k in MADE],
)
def exact(request):
    return MADE[request.param]("float64")


def test_everything_can_be_asked_inside_a_transformation(exact):
    points = INSIDE
    with jax.enable_x64(True):
        plain = everything(exact, points)
        np.testing.assert_allclose(jax.jit(everything)(exact, points), plain, rtol=1e-9, atol=1e-9)
        of_points = lambda p: everything(exact, p)  # noqa: E731
        both = jax.jit(jax.vmap(of_points))(jnp.stack([points, 0.9 * points]))
        np.testing.assert_allclose(both[0], plain, rtol=1e-9, atol=1e-9)
        forward = jax.jit(jax.jacfwd(of_points))(points)
        weights = np.random.default_rng(0).standard_normal(len(plain))
        backward = jax.jit(jax.grad(lambda p: weights @ of_points(p)))(points)
        expected = np.tensordot(weights, forward, 1)
        size = np.max(np.abs(expected))
        np.testing.assert_allclose(backward, expected, rtol=1e-8, atol=1e-8 * size)


def test_gradients_with_respect_to_parameters_agree_with_differences(exact):
    """Of all that can be asked, along a random direction: d/dε s(θ + ε v) at ε = 0."""
    with jax.enable_x64(True):
        dynamic, static = eqx.partition(exact, eqx.is_inexact_array)
        keys = iter(jax.random.split(jax.random.key(1), 100))
        toward = jax.tree.map(lambda a: jax.random.normal(next(keys), a.shape), dynamic)
        value = jax.jit(lambda s: jnp.sum(everything(s, INSIDE) ** 2))
        gradient = jax.tree.leaves(eqx.filter_grad(value)(exact))
        slope = sum(jnp.vdot(g, v) for g, v in zip(gradient, jax.tree.leaves(toward)))

        def moved(step):
            there = jax.tree.map(lambda a, v: a + step * v, dynamic, toward)
            return value(eqx.combine(there, static))

        step = 1e-5
        difference = (moved(step) - moved(-step)) / (2 * step)
        assert float(slope) == pytest.approx(float(difference), rel=1e-5, abs=1e-8)


def test_solutions_of_several_seeds_are_asked_at_once(callers):
    """An array of solutions, which `vmap` runs over."""
    first, second = (untrained_march(HEAT, recipe("float32"), 2) for _ in range(2))
    second = eqx.tree_at(lambda s: s.models, second, jax.tree.map(lambda a: 2 * a, second.models))
    both = jax.tree.map(lambda *each: jnp.stack(each), first, second)
    found = jax.vmap(lambda s: s.at(INSIDE))(both)
    for values, one in zip(found, (first, second)):
        near(values, one.at(INSIDE), one, callers)


def test_integrals_and_factors_compose(solution, callers):
    found = jax.jit(lambda s: s.integral())(solution)
    near(fields(found), fields(solution.integral()), solution, callers)
    if not solution.is_separable or len(solution.models) > 1:
        return
    place = sx.Lattice(**axes_of(solution))
    factors = jax.jit(lambda s: s.separable(place, order=1))(solution)
    plain = solution.separable(place, order=1)
    for one, other in zip(jax.tree.leaves(factors), jax.tree.leaves(plain)):
        near(one, other, solution, callers)


def test_nothing_traced_is_left_behind(solution):
    """What is asked in a program does not change what is asked after it."""
    if solution.problem.reference is None:
        pytest.skip("there is nothing to measure against")
    inside = jax.jit(lambda s: s.relative_l2())(solution)
    assert solution.relative_l2() == pytest.approx(float(inside), rel=1e-4)
    assert isinstance(solution.norm(), float)


def test_a_solution_goes_through_a_program_and_can_be_copied(solution):
    lattice = axes_of(solution)
    expected = fields(solution(**lattice))
    for same in (
        jax.jit(lambda s: s)(solution),
        copy.copy(solution),
        copy.deepcopy(solution),
        pickle.loads(pickle.dumps(solution.pieces)) and solution,
    ):
        np.testing.assert_array_equal(fields(same(**lattice)), expected)


def test_a_solution_of_named_functions_is_pickled():
    problem = sx.Problem(BOX, heat, [sx.Initial(0.0)])
    solution = untrained(problem, recipe("float32"))
    again = pickle.loads(pickle.dumps(solution))
    assert again.seed == solution.seed
    np.testing.assert_array_equal(again.at(INSIDE), solution.at(INSIDE))


def test_solutions_of_equal_structure_compile_once():
    traces = 0

    @jax.jit
    def values(solution, points):
        nonlocal traces
        traces += 1
        return solution.at(points)

    first, second = (untrained(HEAT, recipe("float32"), seed=seed) for seed in (0, 1))
    differing = values(first, INSIDE), values(second.with_outcome(seed=7), INSIDE)
    assert traces == 1
    assert not np.allclose(*differing)
    # a derivative is asked of another operator, which is equal each time
    d = jax.jit(lambda s, p: s.at(p))
    d(first.d(x=1), INSIDE)
    d(second.d(x=1), INSIDE)
    assert d._cache_size() == 1


def test_evaluation_outside_of_programs_is_compiled_once_for_equal_structure(monkeypatch):
    problem = sx.Problem(BOX, heat, [sx.Initial(0.0)])
    calls, evaluate = [], evaluation.evaluate
    monkeypatch.setattr(evaluation, "evaluate", lambda *a: calls.append(1) or evaluate(*a))
    for seed in range(3):
        untrained(problem, recipe("float32"), seed=seed).at(INSIDE)
    untrained_march(problem, recipe("float32"), 2).at(INSIDE)
    assert len(calls) <= 3  # one program for all seeds, one for each number of points of a window


def test_what_a_run_was_is_none_of_its_leaves():
    solution = untrained(HEAT, recipe("float32"))
    assert all(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(solution))
    out = jax.jit(lambda s: s)(solution)
    with pytest.raises(sx.InputError, match="came out of a transformation"):
        _ = out.history
    assert dataclasses.is_dataclass(solution.outcome)


def test_a_solution_in_an_optimisation_loop():
    """Where along x is u(0.5, x) largest? Gradient ascent in one jitted loop."""
    solution = untrained(HEAT, recipe("float32"))

    @jax.jit
    def climb(s, x):
        slope = jax.grad(lambda x: s.point(jnp.array([0.5, x])))
        return jax.lax.fori_loop(0, 300, lambda _, x: jnp.clip(x + 0.05 * slope(x), -1, 1), x)

    xs = jnp.linspace(-1, 1, 401)
    values = solution(t=0.5, x=xs)
    top = solution.point(jnp.array([0.5, climb(solution, xs[jnp.argmax(values)])]))
    assert float(top) >= float(jnp.max(values)) - 1e-6


@pytest.mark.filterwarnings("error")
def test_a_solution_is_trained_by_optax_in_one_program():
    """Its leaves are its parameters and nothing else, so that a loop can carry it."""
    solution = untrained_march(HEAT, recipe("float32"), 2)
    optimiser = optax.adam(1e-2)

    def fit(s):
        return jnp.mean((s.at(INSIDE) - INSIDE[:, 1]) ** 2)

    @jax.jit
    def trained(s):
        def step(_, carry):
            s, state = carry
            updates, state = optimiser.update(jax.grad(fit)(s), state)
            return optax.apply_updates(s, updates), state

        return jax.lax.fori_loop(0, 100, step, (s, optimiser.init(s)))[0]

    found = trained(solution)
    assert jax.tree.structure(found) == jax.tree.structure(solution)
    assert fit(found) < 0.1 * fit(solution)


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["marched", "system", "shape", "pointwise"])
def test_an_exported_program_runs_without_separax(kind, tmp_path):
    """For any number of points, in a process where separax cannot be imported."""
    precision = "float64" if kind == "system" else "float32"
    solution = MADE[kind](precision)
    path = solution.export(tmp_path / "u.jax")
    np.save(tmp_path / "points.npy", INSIDE.astype(precision))
    script = f"""
import sys
sys.modules["separax"] = None
import jax, numpy as np
from jax import export
jax.config.update("jax_enable_x64", {precision == "float64"})
program = export.deserialize(open({str(path)!r}, "rb").read())
points = np.load({str(tmp_path / "points.npy")!r})
found = program.call(points)
for name, values in (found if isinstance(found, dict) else {{"u": found}}).items():
    np.save({str(tmp_path)!r} + f"/{{name}}.npy", values)
    assert np.array_equal(program.call(points[:2])[name] if isinstance(found, dict)
        else program.call(points[:2]), values[:2], equal_nan=True)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    expected = solution.at(INSIDE)
    for name, values in (expected if isinstance(expected, dict) else {"u": expected}).items():
        found = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-7)
