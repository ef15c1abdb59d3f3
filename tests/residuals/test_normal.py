"""Output layers solved for: the normal equations against the dense Jacobian, and what Gauss-Newton makes of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.polynomial import chebyshev

import separax as sx
from separax.core import tuning
from separax.equations.tracing import Inputs
from separax.networks.bases import Line, slow_to_fast
from separax.networks.bases import chebyshev as chebyshev_taylor
from separax.networks.taylor import derivatives
from separax.residuals.loss import Loss
from separax.residuals.model import Model
from separax.residuals.output_layers import layer_equations

pytestmark = pytest.mark.usefixtures("double")


def spectral(rank=2, functions=5, points=7, **options):
    return sx.Recipe(
        sx.SPINN(rank=rank, depth=0, functions=functions, body="mlp"),
        points,
        optimiser=sx.Solve(options.pop("steps", 20)),
        sampler=sx.GaussLegendre(),
        precision="float64",
        **options,
    )


def system():
    """Two fields, a nonlinear residual with a coefficient, an unknown, faces, data at points, and a wall."""
    box = sx.Box(t=(0, 1), x=(0, 2), y=(-1, 1))

    def residual(u, v, x, kappa):
        return {"first": u.t - kappa * u.xx + u * v.y, "second": v.t + jnp.sin(x) * u.xy - v**3}

    return sx.Problem(
        box,
        residual,
        [
            sx.Initial(lambda x, y: x * y, of="u"),
            sx.Neumann(0.5, on="x", of="v"),
            sx.Robin(1.0, 2.0, 0.3, on="y+", of="u"),
            sx.Dirichlet(0, on="y-", of="v", hard=True),
            sx.Data(np.array([[0.3, 0.4, 0.1], [0.5, 1.5, -0.3]]), np.array([0.2, 0.1]), of="u"),
        ],
        fields=("u", "v"),
        unknowns={"kappa": 0.3},
    )


def disc():
    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        lambda u: u.xx + u.yy + 1,
        [sx.Dirichlet(0)],
        inside=lambda x, y: x**2 + y**2 - 1,
    )


def dense(loss, model, places):
    """The same from all residuals at once, differentiated by JAX."""
    arrays, static = eqx.partition(model, eqx.is_array)
    flat, whole = ravel_pytree(arrays)

    def roots(params):
        found = eqx.combine(whole(params), static)
        inputs, sources = Inputs(found.unknowns, {}), found.network.sources(places, loss.needs)
        each = enumerate(zip(places, sources))
        parts = [part for i, at in each for part in loss.parts(i, loss.at(i, *at, inputs))]
        out = []
        for part in parts:
            weight = loss.weights[loss.names.index(part.name)] * part.factor
            counts = jax.grad(lambda v, place=part.place: place.mean(v))(jnp.ones(part.place.shape))
            out.append((part.values * jnp.sqrt(weight * counts)).ravel())
        return jnp.concatenate(out)

    return *jax.jit(lambda p: (roots(p), jax.jacfwd(roots)(p)))(flat), flat


@pytest.mark.parametrize(
    ("make", "network", "plain"),  # never, or always the plain way
    [
        (system, "polynomials", 1e12),
        (system, "tucker", 0.0),
        (system, "tucker", 1e12),
        (disc, "train", 0.0),
        (disc, "train", 1e12),
        (disc, "hidden layers", 0.0),
    ],
)
def test_the_normal_equations_are_those_of_the_dense_jacobian(make, network, plain, monkeypatch):
    for table in (tuning.JACOBIAN_WORK, tuning.JACOBIAN_NUMBERS):
        monkeypatch.setitem(table, jax.default_backend(), plain)
    recipe = spectral()
    problem = make()
    if network != "polynomials":
        ranks = {"t": 2, "x": 3, "y": 2} if make is system else {"x": 3, "y": 2}
        bonds = list(ranks.values())[1:]
        chosen = {
            "hidden layers": sx.SPINN(rank=2, width=4, depth=2),
            "tucker": sx.SPINN(rank=ranks, depth=0, functions=4, body="mlp", merge="tucker"),
            "train": sx.SPINN(rank=bonds, width=3, depth=1, merge="train"),
        }[network]
        recipe = sx.Recipe(
            chosen, 6, optimiser=sx.Solve(), sampler=sx.GaussLegendre(), precision="float64"
        )
    loss = Loss(problem, recipe)
    model = Model.build(loss.problem, recipe, jax.random.key(3))
    places = loss.draw(jax.random.key(1), jnp.array(0))
    basis = [
        jax.random.normal(jax.random.key(i), (*c.shape[:2], c.shape[1] - 1))
        for i, c in enumerate(model.network.coefficients)
    ]
    found = eqx.filter_jit(lambda m: layer_equations(loss, m, places, {}, basis))(model)
    left, jacobian, flat = dense(loss, model, places)
    assert found.value == pytest.approx(float(left @ left), rel=1e-12)
    total = eqx.filter_jit(lambda m: loss.total(loss(m, places)))(model)
    assert found.value == pytest.approx(float(total), rel=1e-12)

    sizes = [
        b.shape[0] * b.shape[2] * c.shape[2] for b, c in zip(basis, model.network.coefficients)
    ]
    core = 0 if model.network.core is None else model.network.core.size

    def columns(step):  # where the coefficients and unknowns stand among the flat parameters
        parts = jnp.split(step, np.cumsum([*sizes, core]))
        moved = [
            c + jnp.einsum("cfg,cgr->cfr", b, part.reshape(b.shape[0], b.shape[2], -1))
            for b, c, part in zip(basis, model.network.coefficients, parts)
        ]
        new = None if not core else model.network.core + parts[-2].reshape(model.network.core.shape)
        unknowns = {k: v + parts[-1][i] for i, (k, v) in enumerate(model.unknowns.items())}
        return (
            ravel_pytree(
                eqx.filter(
                    Model(model.network.with_coefficients(moved, new), unknowns), eqx.is_array
                )
            )[0]
            - flat
        )

    number = sum(sizes) + core + len(model.unknowns)
    own = jacobian @ jax.jit(jax.jacfwd(columns))(np.zeros(number))
    assert np.allclose(
        found.gradient, own.T @ left, rtol=1e-10, atol=1e-12 * np.abs(found.gradient).max()
    )
    assert np.allclose(
        found.matrix, own.T @ own, rtol=1e-10, atol=1e-12 * np.abs(found.matrix).max()
    )


@pytest.mark.parametrize(("number", "order"), [(1, 0), (1, 4), (2, 1), (5, 3), (12, 4)])
def test_polynomials_and_their_derivatives_are_chebyshevs(number, order):
    x = np.linspace(-1, 1, 9)
    with jax.enable_x64(True):
        jet = jax.jit(lambda x: derivatives(chebyshev_taylor(x, number, order)))(x)
    for n in range(number):
        for k in range(order + 1):
            true = chebyshev.chebval(x, chebyshev.chebder(np.eye(number)[n], k))
            assert np.allclose(jet[k, :, n], true, atol=1e-9 * max(1, np.abs(true).max()))


def test_features_times_coefficients_are_the_factors():
    problem = system()
    recipe = sx.Recipe(sx.SPINN(rank=3, width=4, depth=1), 5, precision="float64")
    network = Model.build(problem, recipe, jax.random.key(0)).network
    coordinates = tuple(
        jnp.linspace(*problem.box[a], n) for a, n in zip(problem.box.axes, (4, 5, 6))
    )
    both = jax.jit(lambda c: (network.features(c, 2), network.factors(c, 2)))(coordinates)
    for features, coefficients, factor in zip(both[0], network.coefficients, both[1], strict=True):
        assert np.allclose(jnp.einsum("conf,cfr->conr", features, coefficients), factor, atol=1e-12)
    again = network.with_coefficients(network.coefficients)
    assert all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(network))
    )


def test_a_linear_equation_is_solved_to_rounding():
    """-Δu = 2π² sin(πx) sin(πy) has the solution sin(πx) sin(πy), of rank one."""

    def exact(x, y):
        return jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)

    problem = sx.Problem(
        sx.Box(x=(0, 1), y=(0, 1)),
        lambda u, x, y: u.xx + u.yy + 2 * jnp.pi**2 * exact(x, y),
        [sx.Dirichlet(0)],
        reference=exact,
    )
    assert (
        sx.solve(problem, spectral(functions=18, points=24), progress=False).relative_l2() < 1e-11
    )


def test_a_nonlinear_equation_with_an_unknown_coefficient():
    """u_t = κ u_xx - u² + f with u = e^-t sin x + 1 and κ = 0.7, found from values at the end."""

    def exact(t, x):
        return jnp.exp(-t) * jnp.sin(x) + 1

    def residual(u, t, x, kappa):
        return u.t - kappa * u.xx + u**2 - (exact(t, x) ** 2 - 0.3 * (exact(t, x) - 1))

    points = np.stack(np.meshgrid([1.0], np.linspace(0.2, 2.8, 7), indexing="ij"), -1).reshape(
        -1, 2
    )
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 3)),
        residual,
        [
            sx.Initial(exact),
            sx.Dirichlet(exact),
            sx.Data(points, np.asarray(exact(points[:, 0], points[:, 1]))),
        ],
        reference=exact,
        unknowns={"kappa": 0.2},
    )
    found = sx.solve(problem, spectral(rank=3, functions=14, points=18, steps=40), progress=False)
    assert found.relative_l2() < 1e-9
    assert found.unknowns["kappa"] == pytest.approx(0.7, abs=1e-8)


CONTROL = pytest.mark.whole  # what it is compared with


@pytest.mark.parametrize(
    ("hard", "low", "high"), [("root", 0, 1e-10), pytest.param(True, 1e-3, 1, marks=CONTROL)]
)
def test_a_wall_that_the_solution_leaves_like_a_root(hard, low, high):
    """(1 - x²) u' = -x u with u(0) = 1 has the solution √(1 - x²), which no polynomial comes close to."""

    problem = sx.Problem(
        sx.Box(x=(-1, 1)),
        lambda u, x: (1 - x**2) * u.x + x * u,
        [sx.Dirichlet(0, hard=hard), sx.Data([[0.0]], [1.0])],
        reference=lambda x: jnp.sqrt(1 - x**2),
    )
    found = sx.solve(problem, spectral(rank=1, functions=12, points=20), progress=False)
    assert low < found.relative_l2() < high


@pytest.mark.parametrize(
    ("network", "low", "high"),
    [({"breaks": {"x": 0.3}}, 0, 1e-10), pytest.param({}, 1e-3, 1, marks=CONTROL)],
    ids=["with a break", "without"],
)
def test_a_kink_where_two_materials_meet(network, low, high):
    """(k u')' = -1 with k = 1 below 0.3 and 5 above: two parabolas, which polynomials with a break are."""

    def conductivity(x):
        return jnp.where(x < 0.3, 1.0, 5.0)

    def exact(x):  # k u' = c - x is continuous
        c = (0.045 + 0.091) / (0.3 + 0.14)
        return jnp.where(x < 0.3, c * x - x**2 / 2, (c * (x - 1) - (x**2 - 1) / 2) / 5)

    problem = sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u, p, x: {"flux": p - conductivity(x) * u.x, "balance": p.x + 1},
        [sx.Dirichlet(0, of="u")],
        fields=("u", "p"),
        reference={"u": exact},
    )

    recipe = sx.Recipe(
        sx.SPINN(rank=1, depth=0, functions=6, body="mlp", **network),
        16,
        optimiser=sx.Solve(6),
        sampler=sx.GaussLegendre(breaks={"x": 0.3}),
        precision="float64",
    )
    assert low < sx.solve(problem, recipe, progress=False).relative_l2() < high


@pytest.mark.whole
def test_a_core_is_solved_for_where_products_alone_would_have_to_be_many():
    """A front that turns: six columns per axis and a core do what six products do not."""

    def exact(t, x, y):
        return jnp.tanh(jnp.cos(t) * x + jnp.sin(t) * y)

    problem = sx.Problem(
        sx.Box(t=(0, 1.5), x=(-1, 1), y=(-1, 1)),
        lambda u, x, y: u.t + x * u.y - y * u.x,
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )
    functions, points = {"t": 8, "x": 12, "y": 12}, {"t": 11, "x": 15, "y": 15}

    def error(**network):
        recipe = sx.Recipe(
            sx.SPINN(rank=6, depth=0, functions=functions, body="mlp", **network),
            points,
            optimiser=sx.Solve(16, sweeps=1),
            sampler=sx.GaussLegendre(),
            precision="float64",
        )
        return sx.solve(problem, recipe, progress=False).relative_l2()

    assert error(merge="tucker") < 0.1 * error()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: sx.SPINN(merge="tree"), "merge"),
        (lambda: sx.SPINN(rank={"x": 3}), "merge='cp' is one number"),
        (lambda: sx.SPINN(rank=[3, 4], merge="tucker"), "dict by axis"),
        (lambda: sx.SPINN(rank={"x": 3}, merge="train"), "from the first axis"),
        (lambda: sx.SPINN(rank={"x": 0}, merge="tucker"), "rank"),
        (
            lambda: sx.SPINN(rank={"x": 3}, merge="tucker").build(
                jax.random.key(0), sx.Box(x=(0, 1), y=(0, 1))
            ),
            "axis y",
        ),
        (
            lambda: sx.SPINN(rank={"z": 3}, merge="tucker").build(
                jax.random.key(0), sx.Box(x=(0, 1), y=(0, 1))
            ),
            "z",
        ),
        (
            lambda: sx.SPINN(rank=[3], merge="train").build(
                jax.random.key(0), sx.Box(t=(0, 1), x=(0, 1), y=(0, 1))
            ),
            "2",
        ),
        (
            lambda: sx.SPINN(rank=9, merge="tucker", depth=0, functions=4).build(
                jax.random.key(0), sx.Box(x=(0, 1))
            ),
            "at most",
        ),
        (lambda: sx.SPINN(breaks={"x": 0.5}), "give functions"),
        (lambda: sx.SPINN(functions=4, breaks=0.5), "breaks must be a dict"),
        (
            lambda: sx.SPINN(functions=4, breaks={"x": 2.0}).build(
                jax.random.key(0), sx.Box(x=(0, 1))
            ),
            "inside",
        ),
        (
            lambda: sx.SPINN(functions=4, breaks={"x": [0.5, 0.5]}).build(
                jax.random.key(0), sx.Box(x=(0, 1))
            ),
            "one after the other",
        ),
        (
            lambda: sx.SPINN(functions={"y": 4}, breaks={"x": 0.5}).build(
                jax.random.key(0), sx.Box(x=(0, 1), y=(0, 1))
            ),
            "give functions along x",
        ),
        (
            lambda: sx.SPINN(depth=0, functions={"y": 4}).build(
                jax.random.key(0), sx.Box(x=(0, 1), y=(0, 1))
            ),
            "x has none",
        ),
        (lambda: sx.Dirichlet(0, hard="square"), 'True, False or "root"'),
        (lambda: sx.Recipe(optimiser=sx.Solve()), "precision='float64'"),
        (
            lambda: sx.Recipe(sx.PINN(), optimiser=sx.Solve(), precision="float64"),
            "separable network",
        ),
        (lambda: sx.SPINN(depth=0), "depth"),
        (lambda: sx.SPINN(functions=0), "functions"),
        (lambda: sx.Solve(steps=0), "Solve: steps"),
        (lambda: sx.Solve(tries=0), "Solve: tries"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(sx.InputError, match=words):
        change()


def test_two_faces_that_are_to_be_joined_are_refused():
    problem = sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1)),
        lambda u: u.t + u.x,
        [sx.Initial(lambda x: x), sx.Periodic(hard=False)],
    )
    with pytest.raises(sx.InputError, match="Periodic"):
        sx.solve(problem, spectral(), progress=False)


@pytest.mark.whole
@pytest.mark.parametrize("merge", ["cp", "tucker"])
def test_conjugate_gradients_make_the_steps_that_a_matrix_makes(merge):
    """On the burgers-like system of this file, three steps of each; enough iterations to solve for a step exactly."""
    ranks = 2 if merge == "cp" else {"t": 2, "x": 3, "y": 2}
    network = sx.SPINN(rank=ranks, depth=0, functions=4, body="mlp", merge=merge)

    def solved(most):
        optimiser = sx.Solve(3, sweeps=1, largest_matrix=most, iterations=2_000)
        recipe = sx.Recipe(
            network, 6, optimiser=optimiser, sampler=sx.GaussLegendre(), precision="float64"
        )
        return sx.solve(system(), recipe, progress=False)

    by_matrix, by_gradients = solved(10_000), solved(0)
    assert by_matrix.history.total[-1] < 0.5 * by_matrix.history.total[0]
    np.testing.assert_allclose(by_gradients.history.total, by_matrix.history.total, rtol=1e-3)


@pytest.mark.parametrize("number", [1, 5, 9])
def test_functions_of_an_axis_from_slow_to_fast(number):
    """A sine stands before the cosine of its frequency: by the zeros that they have."""
    line = Line(0.0, 1.0, True)
    x = (np.arange(1000) + 0.5) / 1000
    values = line.values(x, number)[:, slow_to_fast(number, True)]
    signs = np.sum(np.diff(np.sign(values), axis=0) != 0, axis=0)
    waves = np.arange(1, 1 + number // 2)
    assert signs.tolist() == [0, *np.stack([2 * waves - 1, 2 * waves], 1).ravel()]
    assert slow_to_fast(number, False).tolist() == list(range(number))
