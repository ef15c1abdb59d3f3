"""Values built into a network: random networks have them exactly, whatever they are, on every face and in every kind of network."""

import dataclasses
import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from untrained import untrained

import separax as sx
from separax.equations.boundary_interpolation import FADED, FUNCTIONS
from separax.equations.tracing import AtPlace, Inputs
from separax.networks.bases import Line
from separax.networks.encodings import Axis, Coordinate
from separax.output.viewer import payload
from separax.residuals.loss import Loss
from separax.residuals.model import Model, residual_factors
from separax.solution.factors import factors
from separax.solving.marching import check
from separax.training.trainer import Trainer

STRIP = sx.Box(t=(0, 2), x=(-1, 0.5))
BOX = sx.Box(t=(0.5, 2), x=(-1, 1), y=(0, 3))
FUNCTIONS_OF_SPACE = {
    "polynomial": lambda t, x, y: (1 + t) * x**3 - 2 * t**2 * y + 0.3,
    "waves": lambda t, x, y: jnp.sin(2 * x - 3 * t) * jnp.cos(y) + jnp.exp(t - y),
    "not a sum of products": lambda t, x, y: jnp.exp(-((x - 0.3 * y) ** 2)) / (6 + x * y + t),
    "of one axis": lambda t, x, y: jnp.tanh(y) + 0 * t * x,
    "a number": lambda t, x, y: 2.5 + 0 * t * x * y,
}
EVERY_FACE = tuple(axis + side for axis in BOX.axes for side in "-+")


def poisson(u):
    return u.xx + u.yy


def wave(u):
    return u.tt - u.xx


def recipe(network=None, **options):
    return sx.Recipe(
        network or sx.SPINN(rank=3, width=8, depth=2),
        points=6,
        steps=20,
        precision="float64",
        **options,
    )


def on_face(box, face, number=40):
    """Points on a face and its edges, not of the nodes that anything was sampled on."""
    part = np.clip(np.random.default_rng(1).uniform(-0.1, 1.1, (number, box.dimension)), 0, 1)
    points = np.stack(
        [box[a][0] + (box[a][1] - box[a][0]) * part[:, i] for i, a in enumerate(box.axes)], 1
    )
    points[:, box.index(face[:-1])] = box.ends(face[:-1], face[-1])[0]
    return points


def values(exact, box, points):
    with jax.enable_x64(True):
        return np.asarray(exact(**{a: jnp.asarray(points[:, i]) for i, a in enumerate(box.axes)}))


def has(solution, faces, exact, tolerance=1e-12):
    """Whether a solution, or a derivative of it, has the values of a function."""
    box = solution.problem.box
    points = np.concatenate([on_face(box, face) for face in faces])
    true = values(exact, box, points)
    np.testing.assert_allclose(
        solution.at(points), true, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(true)))
    )


def slope_of(exact, axis):
    """The derivative of a function of arrays along an axis."""

    def slope(**at):
        return jax.jvp(lambda c: exact(**{**at, axis: c}), (at[axis],), (jnp.ones_like(at[axis]),))[
            1
        ]

    return slope


def by_name(function):
    """With the coordinates of a box as parameters."""
    return lambda t, x, y: function(t=t, x=x, y=y)


# --- the faces ---------------------------------------------------------------------------------------------------------------


@settings(
    max_examples=3, deadline=None, phases=[Phase.generate]
)  # an example takes a second: shrinking would take minutes
@given(
    st.sampled_from(sorted(FUNCTIONS_OF_SPACE)),
    st.sets(st.sampled_from(EVERY_FACE), min_size=1),
    st.sets(st.sampled_from(EVERY_FACE)),
)
def test_a_random_network_has_all_values_and_slopes(name, faces, slopes):
    exact = FUNCTIONS_OF_SPACE[name]
    slopes = sorted(faces & slopes)
    conditions = [sx.Dirichlet(exact, on=sorted(faces), hard=True)]
    for face in slopes:
        axis = face[:-1]
        conditions.append(
            sx.Condition(
                by_name(slope_of(exact, axis)),
                on=face,
                of=lambda u, axis=axis: u.d(**{axis: 1}),
                hard=True,
            )
        )
    problem = sx.Problem(BOX, lambda u: u.t - u.xx - u.yy, conditions)
    assert problem.names == ("residual",)
    solution = untrained(problem, recipe())
    # a series that is known to FADED is differentiated to that times its length, on every face whose slope is given; values meet these
    with_slopes = FADED * FUNCTIONS * len(slopes)
    has(solution, sorted(faces), exact, tolerance=max(1e-12, with_slopes))
    for face in slopes:
        has(solution.d(**{face[:-1]: 1}), [face], slope_of(exact, face[:-1]), tolerance=with_slopes)
    # and the network still says something between
    other = untrained(problem, recipe(), seed=1)
    inside = np.array([[0.4 * BOX[a][0] + 0.6 * BOX[a][1] for a in BOX.axes]])
    assert abs(float(solution.at(inside)[0]) - float(other.at(inside)[0])) > 1e-8


NETWORKS = {
    "cp": sx.SPINN(rank=3, width=8, depth=2),
    "tucker": sx.SPINN(rank={"t": 2, "x": 3, "y": 4}, width=8, depth=2, merge="tucker"),
    "train": sx.SPINN(rank=[2, 3], width=8, depth=1, merge="train"),
    "polynomials": sx.SPINN(rank=3, depth=0, functions=6),
    "pointwise": sx.PINN(width=8, depth=2),
}


def all_given(exact=FUNCTIONS_OF_SPACE["waves"]):
    return sx.Problem(
        BOX,
        lambda u: u.tt - u.xx - u.yy + u.xy + u**2,
        [
            sx.Initial(exact, hard=True),
            sx.Initial(by_name(slope_of(exact, "t")), of=lambda u: u.t, hard=True),
            sx.Dirichlet(exact, hard=True),
        ],
        reference=exact,
    )


@pytest.mark.parametrize("name", ["tucker", "polynomials", "pointwise"])
def test_every_kind_of_network_has_them(name):
    problem, exact = all_given(), FUNCTIONS_OF_SPACE["waves"]
    assert problem.walls == (("--",), ("-+",), ("-+",))
    solution = untrained(problem, recipe(NETWORKS[name]))
    has(solution, ["t-", "x-", "x+", "y-", "y+"], exact)
    has(solution.d(t=1), ["t-"], slope_of(exact, "t"), tolerance=1e-11)
    # lattice and points, values and derivatives; derivatives and differences
    at = {a: np.linspace(*BOX[a], 4)[1:3] for a in BOX.axes}
    points = np.stack([x.ravel() for x in np.meshgrid(*at.values(), indexing="ij")], 1)
    view = solution.of(lambda u: {"u": u, "curved": u.tt, "mixed": u.xy, "product": u.t * u.y})
    ours, theirs = view(**at), view.at(points)
    for key in ours:
        np.testing.assert_allclose(theirs[key], np.ravel(ours[key]), rtol=1e-10, atol=1e-11)
    h = 1e-3
    before, here, after = (
        np.asarray(solution.at(points + np.array([s * h, 0, 0]))) for s in (-1, 0, 1)
    )
    np.testing.assert_allclose(theirs["curved"], (before - 2 * here + after) / h**2, atol=1e-3)


def test_what_is_known_is_short_and_not_trained():
    """(x + y) cos 2t + xy sin 2t needs three products; interpolated in t, four. Parameters are those of the network alone."""
    box = sx.Box(t=(0, 10), x=(-1, 1), y=(-1, 1))

    def exact(t, x, y):
        return (x + y) * jnp.cos(2 * t) + x * y * jnp.sin(2 * t)

    conditions = [
        sx.Initial(exact, hard=True),
        sx.Initial(lambda x, y: 2 * x * y, of=lambda u: u.t, hard=True),
        sx.Dirichlet(exact, hard=True),
    ]
    problem = sx.Problem(box, lambda u: u.tt - u.xx - u.yy, conditions)
    assert problem.lift.rank <= 4
    assert [s.shape[1] for s in problem.lift.series][1:] == [2, 2]
    free = sx.Problem(box, lambda u: u.tt - u.xx - u.yy)
    sizes = [
        sum(p.size for p in jax.tree.leaves(untrained(p, recipe()).model)) for p in (problem, free)
    ]
    assert sizes[0] == sizes[1]


def test_fields_have_their_own():
    box = sx.Box(x=(0, 1), y=(0, 1))
    problem = sx.Problem(
        box,
        lambda u, v, w: {"a": u.x - v.y, "b": v.x + w.y},
        [
            sx.Dirichlet(lambda y: jnp.sin(y), on="x-", of="u", hard=True),
            sx.Dirichlet(lambda x: 1 + x, on="y+", of=lambda w: 2 * w, hard=True),
            sx.Dirichlet(0, on="x", of="v", hard=True),
        ],
        fields=("u", "v", "w"),
    )
    found = untrained(problem, recipe())
    s = np.linspace(0, 1, 5)
    np.testing.assert_allclose(found(x=0.0, y=s)["u"], np.sin(s), atol=1e-13)
    np.testing.assert_allclose(found(x=s, y=1.0)["w"], (1 + s) / 2, atol=1e-13)
    np.testing.assert_array_equal(found(x=np.array([0.0, 1.0]), y=s)["v"], 0.0)


def test_a_periodic_axis_has_waves():
    box = sx.Box(t=(0, 1), x=(0.3, 2.3))

    def start(x):
        return jnp.exp(jnp.sin(jnp.pi * x))

    def speed(x):
        return jnp.cos(2 * jnp.pi * x)

    conditions = [
        sx.Periodic("x"),
        sx.Initial(start, hard=True),
        sx.Initial(speed, of=lambda u: u.t, hard=True),
    ]
    for network in (sx.SPINN(rank=3, width=8, depth=1), sx.PINN(width=8, depth=1)):
        solution = untrained(sx.Problem(box, wave, conditions), recipe(network))
        xs = np.linspace(0.3, 4.3, 21)  # two periods
        np.testing.assert_allclose(solution(t=0.0, x=xs), np.exp(np.sin(np.pi * xs)), atol=1e-13)
        np.testing.assert_allclose(solution.d(t=1)(t=0.0, x=xs), np.cos(2 * np.pi * xs), atol=1e-12)
        slope = np.pi * np.cos(np.pi * xs) * np.exp(np.sin(np.pi * xs))
        np.testing.assert_allclose(solution.d(x=1)(t=0.0, x=xs), slope, atol=1e-11)


def test_zero_needs_nothing_known():
    """Zero values, a zero slope, and functions that are zero: the network alone has them."""
    problem = sx.Problem(
        STRIP,
        wave,
        [
            sx.Initial(0, hard=True),
            sx.Initial(0, of=lambda u: u.t, hard=True),
            sx.Dirichlet(lambda t: 0 * t, hard=True),
        ],
    )
    assert problem.lift is None
    assert problem.walls == (("--",), ("-+",))
    solution, xs = untrained(problem, recipe()), np.linspace(-1, 0.5, 5)
    np.testing.assert_array_equal(solution(t=0.0, x=xs), 0.0)
    np.testing.assert_array_equal(solution.d(t=1)(t=0.0, x=xs), 0.0)
    assert np.max(np.abs(solution.d(t=2)(t=0.0, x=xs))) > 1e-3


def test_a_root_beside_a_start():
    box = sx.Box(t=(0, 1), x=(-1, 1))
    problem = sx.Problem(
        box,
        lambda u: u.t - u.xx,
        [sx.Initial(lambda x: 1 - x**2, hard=True), sx.Dirichlet(0, hard="root")],
    )
    assert problem.walls == (("-",), ("-+√",))
    xs = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(untrained(problem, recipe())(t=0.0, x=xs), 1 - xs**2, atol=1e-14)


# --- series -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("periodic", [False, True])
def test_series_are_differentiated_as_functions_are(periodic, double):
    line = Line(0.3, 2.3, periodic)
    nodes = line.nodes(33)
    series = line.fitted(np.stack([np.sin(np.pi * nodes), np.cos(3 * np.pi * nodes)], 1))
    x = np.linspace(0.3, 2.3, 9)
    found = line.factors(jnp.asarray(x), series, 2)
    np.testing.assert_allclose(found[0], line.values(x, 33) @ series, atol=1e-13)
    np.testing.assert_allclose(
        found[0], np.stack([np.sin(np.pi * x), np.cos(3 * np.pi * x)], 1), atol=1e-13
    )
    np.testing.assert_allclose(found[1][:, 0], np.pi * np.cos(np.pi * x), atol=1e-11)
    np.testing.assert_allclose(found[2][:, 1], -9 * np.pi**2 * np.cos(3 * np.pi * x), atol=1e-8)
    low = line.cut(series, 2)
    assert len(low) == (5 if periodic else 3)
    assert line.factors(jnp.asarray(x), series[:1], 3).shape == (4, 9, 2)


# --- solved for and trained ---------------------------------------------------------------------------------------------------


def heat():
    def exact(t, x):
        return 1 + x + jnp.exp(-(jnp.pi**2) * t / 4) * jnp.sin(jnp.pi * (x + 1) / 2) + t

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1)),
        lambda u: u.t - u.xx - 1,
        [sx.Initial(exact, hard=True), sx.Dirichlet(exact, hard=True)],
        reference=exact,
    )


def laplace(hard):
    """The data are no sum of products of functions that the inside is made of."""

    def exact(x, y):
        return jnp.exp(x) * jnp.sin(y) + x / (x**2 + (y + 2) ** 2)

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(0, 2)), poisson, [sx.Dirichlet(exact, hard=hard)], reference=exact
    )


@pytest.mark.whole
def test_at_least_as_good_as_a_penalty():
    how = sx.Recipe(
        sx.SPINN(rank=3, depth=0, functions=10),
        14,
        optimiser=sx.Solve(12),
        sampler=sx.GaussLegendre(),
        precision="float64",
    )
    built, penalised = (
        sx.solve(laplace(hard), how, progress=False).relative_l2() for hard in (True, False)
    )
    assert built < 1e-3 * penalised


@pytest.mark.whole
def test_without_a_recipe():
    solution = sx.solve(heat(), progress=False)
    assert solution.relative_l2() < solution.estimate < 1e-4
    has(solution, ["t-", "x-", "x+"], heat().reference)


def test_the_normal_equations_are_those_of_the_residuals(double):
    """What `GaussNewton` and `Solve` are told agrees with differentiating the loss."""
    conditions = [
        sx.Initial(lambda x: jnp.exp(x), hard=True),
        sx.Initial(lambda x: x, of=lambda u: u.t, hard=True),
    ]
    problem = sx.Problem(STRIP, lambda u: u.tt - u.xx + u**2, [*conditions, sx.Neumann(1)])
    trainer = Trainer(Loss(problem, recipe(sx.SPINN(rank=2, width=4, depth=1))))
    params = trainer.init(jax.random.key(3)).model
    places = trainer.loss.draw(jax.random.key(1), jnp.zeros((), jnp.int32))

    value = trainer.objective(places)

    def told(params):
        layers, weights = value.output_layers, value.residuals.normal(params)
        return (
            layers.normal(params, layers.basis(params)).value,
            weights.value,
            2 * weights.gradient,
        )

    of_layers, of_weights, gradient = jax.jit(told)(params)
    total, slope = jax.jit(jax.value_and_grad(value))(params)
    np.testing.assert_allclose([of_layers, of_weights], total, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-9)


def test_without_a_lattice_as_on_it(double):
    """In float32 a residual is squared from Gram matrices, which must have the columns of what is known, too."""
    problem, single = heat(), sx.Recipe(sx.SPINN(rank=3, width=8, depth=1), 24)
    loss, exactly = (
        Loss(problem, single),
        Loss(problem, dataclasses.replace(single, precision="float64")),
    )
    model = Model.build(problem, single, jax.random.key(0))
    places = loss.draw(jax.random.key(1), jnp.zeros((), jnp.int32))
    (source,) = loss.sources(model.network, places)
    at = AtPlace(problem, places[0], source, Inputs({}, {}))
    expressions = problem.expressions(source, at.coordinates, {})
    assert residual_factors(loss, "residual", expressions["residual"], at) is not None
    wide = jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_array(a) else a, (model, places))
    np.testing.assert_allclose(
        eqx.filter_jit(loss)(model, places), eqx.filter_jit(exactly)(*wide), rtol=1e-4
    )


# --- kept and shown --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tucker", "pointwise"])
def test_kept_and_loaded_to_the_last_bit(name, tmp_path):
    solution = untrained(all_given(), recipe(NETWORKS[name]))
    solution.save(tmp_path / "run")
    loaded = sx.load(tmp_path / "run")
    at = {a: np.linspace(*BOX[a], 5) for a in BOX.axes}
    ours, theirs = (
        each.of(lambda u: {"u": u, "mixed": u.d(t=1, x=1)})(**at) for each in (solution, loaded)
    )
    for key in ours:
        np.testing.assert_array_equal(theirs[key], ours[key])
    assert loaded.problem.lift == solution.problem.lift


def test_factors_are_those_of_the_whole():
    solution = untrained(all_given(), recipe(NETWORKS["cp"]))
    found = factors(solution)
    u = np.einsum("tr,xr,yr->txy", *(found[f"u.{a}"][::51] for a in BOX.axes))
    at = {a: found[f"nodes.{a}"][::51] for a in BOX.axes}
    np.testing.assert_allclose(u, solution(**at), atol=2e-5)
    assert payload(solution)["error"] < 1e-5
    lattice = sx.quadrature(BOX, 12)
    assert float(solution.norm(12)) == pytest.approx(
        float(jnp.sqrt(jnp.sum(lattice_square(solution, lattice)))), rel=1e-6
    )


def lattice_square(solution, lattice):
    weights = functools.reduce(np.multiply.outer, [np.asarray(w) for w in lattice.weights])
    return weights * np.asarray(solution(lattice)) ** 2


def test_problems_that_differ_in_what_is_built_in_are_told_apart():
    marks = [
        sx.Problem(STRIP, wave, [sx.Dirichlet(value, on="x-", hard=True)]).fingerprint()
        for value in (0, 1, 2, lambda t: t, lambda t: 2 * t)
    ]
    assert len(set(marks)) == len(marks)
    assert (
        marks[3]
        == sx.Problem(STRIP, wave, [sx.Dirichlet(lambda t: t, on="x-", hard=True)]).fingerprint()
    )


# --- what cannot be built in -----------------------------------------------------------------------------------------------------


START = sx.Initial(lambda x: 1 + x, hard=True)  # 0 and 1.5 at the ends
ZERO = sx.Initial(0, hard=True)
MOVING = sx.Initial(lambda x: x, of=lambda u: u.t, hard=True, name="speed")
KNOWN_WITH_K = {"unknowns": {"k": 1.0}, "residual": lambda u, k: u.t - k * u.xx}
FOUR = {"box": sx.Box(t=(0, 1), x=(0, 1), y=(0, 1), z=(0, 1)), "residual": wave}
TUBE = [
    sx.Dirichlet(lambda y: y, on="x-", hard=True, name="one"),
    sx.Dirichlet(1, on="y+", hard=True, name="other"),
]


def starting(value, **options):
    return [sx.Initial(value, hard=True, **options)]


REFUSED = [  # contradictions where faces meet
    ([START, sx.Dirichlet(0, hard=True)], "initial and dirichlet | t- | x+ | 1.5 | hard=False", {}),
    (
        [START, sx.Dirichlet(lambda t, x: (1 + x) * (1 + 1e-5 + t), hard=True)],
        "initial and dirichlet | 1.5e-05",
        {},
    ),
    (
        [START, MOVING, sx.Dirichlet(lambda t, x: 1 + x, hard=True)],
        "speed and dirichlet | u_t | hard=False",
        {},
    ),
    (TUBE, "one and other | u differs by up to 2", {"box": BOX, "residual": poisson}),
    # slopes need their value
    (starting(1, of=lambda u: u.t), "initial | Initial(f, hard=True) | hard=False", {}),
    (starting(0, of=lambda u: u.t), "initial | Initial(f, hard=True)", {}),
    (
        [sx.Condition(1, on="x+", of=lambda u: u.x, hard=True)],
        "Dirichlet(f, on='x+', hard=True)",
        {},
    ),
    ([ZERO, *starting(0, of=lambda u: u.x)], "normal of a face | hard=False", {}),
    ([ZERO, *starting(0, of=lambda u: u.tt)], "normal of a face | hard=False", {}),
    # values that cannot be built in
    (starting(np.zeros(5)), "initial | array | function of coordinates | hard=False", {}),
    (starting(lambda x: jnp.abs(x)), "initial | smooth | in x | hard=False", {}),
    (
        [*starting(lambda x: x), sx.Periodic("x")],
        "initial | not periodic in x | hard=False",
        {},
    ),
    (starting(lambda x: jnp.log(x)), "initial | finite | hard=False", {}),
    (starting(jnp.nan), "initial | finite", {}),
    ([*starting(1), *starting(2, name="again")], "again | initial | t- | leave one", {}),
    ([sx.Dirichlet(1, hard="root")], "dirichlet | zero | hard=True", {}),
    (starting(lambda x, k: k * x), "initial | k | hard=False", KNOWN_WITH_K),
    (starting(1, of=lambda u, k: k * u), "initial | hard=False", KNOWN_WITH_K),
    (starting(lambda x, y, z: 1 / (1 + x + y * z)), "sum of products | hard=False", FOUR),
]


@pytest.mark.parametrize(("conditions", "words", "options"), REFUSED)
def test_what_cannot_be_built_in_is_refused(conditions, words, options):
    with pytest.raises(sx.InputError) as caught:
        sx.Problem(**({"box": STRIP, "residual": wave, "conditions": conditions} | options))
    for word in words.split(" | "):
        assert word in str(caught.value)


def test_what_agrees_where_faces_meet_is_built_in():
    agreeing = [
        sx.Dirichlet(lambda t, x: (1 + x) * (1 + 1e-8 * (1 - t)), hard=True),
        sx.Dirichlet(lambda t: 1 + t * 0, on="x-", of="u"),
    ]
    assert sx.Problem(STRIP, wave, [START, *agreeing]).lift is not None


def test_sums_of_products_of_three_coordinates():
    box = sx.Box(t=(0, 1), x=(0, 1), y=(0, 1), z=(0, 1))

    def exact(t, x, y, z):
        return jnp.exp(-t) * (jnp.sin(x + y + z) + (x - y * z) ** 2)

    problem = sx.Problem(
        box,
        lambda u: u.t - u.xx,
        [sx.Initial(exact, hard=True), sx.Dirichlet(exact, on=["x", "z-"], hard=True)],
    )
    has(untrained(problem, recipe()), ["t-", "x-", "x+", "z-"], exact)
    assert problem.lift.rank < 20


def held(value):
    start = sx.Initial(lambda x: 1 + 0 * x)
    return sx.Problem(STRIP, lambda u: u.t - u.xx, [start, sx.Dirichlet(value, hard=True)])


def test_what_changes_cannot_be_kept_by_a_march():
    check(held(1), 2)
    with pytest.raises(sx.InputError, match="change with t"):
        check(held(lambda t: 1 + t), 2)
    with pytest.raises(sx.InputError, match="leave out hard=True"):
        check(sx.Problem(STRIP, lambda u: u.t - u.xx, [sx.Initial(1, hard=True)]), 2)


@pytest.mark.parametrize("wall", ["--", "++", "--+", "-++", "--++"])
def test_envelopes_with_a_slope_of_zero(wall, double):
    axis = Axis(0.5, 3.0, Coordinate(), (wall,))
    ends = axis.envelope(jnp.array([0.5, 3.0]), 1)[..., 0]
    for side, end in itertools.product("-+", (0, 1)):
        if "-+"[end] == side:
            zeros = wall.count(side)
            assert np.all(np.asarray(ends[:zeros, end]) == 0)
            assert zeros == 2 or np.all(np.abs(np.asarray(ends[zeros:, end])) > 0.1) or zeros == 0
    inside = axis.envelope(jnp.linspace(0.5, 3.0, 2001), 0)
    assert float(jnp.max(inside)) == pytest.approx(1.0, abs=1e-5)
