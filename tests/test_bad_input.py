"""Bad input is refused before anything is compiled, by a message that names the argument, what came
and what to write."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained

import separax as sx
from separax.core import shown
from separax.training.trainer import Trainer

BOX = sx.Box(t=(0, 1), x=(-1, 1))


def heat(u):
    return u.t - u.xx


def problem(residual=heat, *conditions, box=BOX, **options):
    return sx.Problem(box, residual, conditions, **options)


def small(**options):
    return sx.Recipe(
        **(
            {"network": sx.SPINN(rank=4, width=8, depth=2, body="mlp"), "points": 8, "steps": 10}
            | options
        )
    )


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    return sx.solve(problem(), small(), out=tmp_path_factory.mktemp("run"))


def refused(call, *words):
    """`call` raises an InputError whose message holds all the `words`, and compiles no training
    step before."""

    def compiled(*_):
        raise AssertionError("compiled before it was refused")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "compile", compiled)
        with pytest.raises(sx.InputError) as error:
            call()
    for word in words:
        assert word in str(error.value)


# --- one by one -----------------------------------------------------------------------------------

REFUSED = [
    # a box has axes
    (lambda: sx.Box(), "at least one axis | Box(t=(0, 1)"),
    # an axis that is not in the box
    (lambda: BOX["z"], "'z' | t=(0, 1), x=(-1, 1)"),
    (lambda: sx.solve(problem(), small(points={"t": 8, "x": 8, "z": 8})), "points | 'z'"),
    (
        lambda: sx.solve(problem(), small(points={"x": 8})),
        "points | for t | points=dict(t=32, x=32)",
    ),
    # an unknown field or coordinate
    (lambda: problem(lambda v: v.t), "residual | 'v' | fields: u | coordinates: t, x"),
    (lambda: problem(lambda u, z: u.t - z), "residual | 'z' | coordinates: t, x"),
    (
        lambda: problem(lambda u, kappa: u.t - kappa * u.xx, unknowns={"kapa": 1.0}),
        "'kappa' | Did you mean 'kapa'?",
    ),
    # a derivative along a missing axis
    (lambda: problem(lambda u: u.t - u.yy), "u.yy | no axis 'y' | axes are t, x | u.xx"),
    (lambda: problem(lambda u: u.d(theta=2)), "u.d(theta=2) | 'theta' | axes are t, x"),
    (lambda: problem(lambda u, v: {"a": v.q, "b": u.t}, fields=("u", "v")), "v.q | 'q'"),
    # an order that is not available
    (lambda: problem(lambda u: u.d(x=9)), "u.d(x=9) | 0 to 8"),
    (lambda: problem(lambda u: u.d(x=-1)), "u.d(x=-1) | 0 to 8"),
    (lambda: problem(lambda u: u.xxxx.xxxxx), "order 9 | at most 8"),
    # a residual that is empty or has no field
    (lambda: problem(lambda u: {}), "empty dict"),
    (lambda: problem(lambda u: ()), "residual"),
    (lambda: problem(lambda t, x: jnp.sin(t) * x), "depends on no field | expression of u"),
    # a complex residual
    (lambda: problem(lambda u: 1j * u.t + u.xx), "complex"),
    # jnp functions of fields
    (lambda: problem(lambda u: u.t + jnp.sin(u)), "residual | jnp.sin(u.value) | np.sin(u)"),
    (lambda: problem(lambda u: u.t + jnp.where(True, u, 0)), "residual | .value"),
    # numpy functions of coordinates
    (lambda: problem(lambda u, x: u.t - np.sin(x)), "residual | jnp.sin(x)"),
    (lambda: problem(heat, sx.Initial(lambda x: np.sin(x))), "initial | jnp.sin(x)"),
    (lambda: problem(heat, reference=lambda x: np.sin(x)), "reference | jnp.sin(x)"),
    (lambda: problem(lambda u, x: u.t - np.where(x > 0, 1, 0)), "residual | jnp."),
    # branches on coordinates
    (lambda: problem(lambda u, x: u.t if x > 0 else u.x), "residual | jnp.where"),
    (lambda: problem(heat, sx.Initial(lambda x: 1.0 if x > 0 else 0.0)), "initial | jnp.where"),
    (lambda: problem(lambda u, x: u.t - math.sin(x)), "residual | jnp."),
    (
        lambda: problem(lambda u, k: u.t if k > 0 else u.x, unknowns={"k": 1.0}),
        "residual | jnp.where",
    ),
    # branches on fields
    (lambda: problem(lambda u: u.t if u > 0 else u.x), "residual | .value"),
    (lambda: problem(lambda u: u.t if u else u.x), "residual"),
    # duplicate names
    (lambda: problem(fields=("u", "u")), "'u' | rename"),
    (lambda: problem(lambda x: x.t, fields=("x",)), "'x' | field | coordinate | rename"),
    (lambda: problem(unknowns={"x": 1.0}), "'x' | coordinate | rename"),
    (lambda: problem(unknowns={"u": 1.0}), "'u' | field | rename"),
    # fields are names
    (lambda: problem(fields=()), "fields is empty | fields=('u',)"),
    (lambda: problem(fields=("a b",)), "'a b'"),
    (lambda: problem(fields=(1,)), "1"),
    (lambda: problem(fields=3), "fields | 3"),
    # unknown coefficients are numbers by name
    (lambda: problem(unknowns={"k": "one"}), "unknowns['k'] | 'one'"),
    (lambda: problem(unknowns={"k": math.nan}), "unknowns['k'] | nan"),
    (lambda: problem(unknowns=["k"]), "unknowns | ['k']"),
    # an array belongs to one face
    (
        lambda: problem(heat, sx.Dirichlet(np.zeros(3))),
        "dirichlet: value | x-, x+ | one condition per face",
    ),
    # functions on a face name coordinates
    (lambda: problem(heat, sx.Initial(lambda z: z)), "initial: value | 'z' | coordinates: t, x"),
    (lambda: problem(heat, sx.Initial(lambda u: 0.0)), "initial: value | 'u' | coordinates: t, x"),
    # coefficients of a mixed condition
    (lambda: problem(heat, sx.Robin(0, math.nan, 1.0)), "robin | nan"),
    # what cannot be built in
    (
        lambda: problem(heat, sx.Dirichlet(0, of=lambda u: u.x, hard=True)),
        "dirichlet | hard=True | hard=False",
    ),
    (
        lambda: problem(heat, sx.Dirichlet(0, of=lambda u: u * u.x, hard=True)),
        "dirichlet | hard=False",
    ),
    (
        lambda: problem(heat, sx.Dirichlet(0, hard=True), sx.Periodic()),
        "x is both periodic and given | hard=False",
    ),
    # one number of points per axis
    (lambda: sx.solve(problem(), small(points=(8,))), "points | 1 numbers for 2 axes (t, x)"),
    # words of a network
    (lambda: sx.SPINN(body="transformer"), "body | modified, mlp | 'transformer'"),
    (lambda: sx.SPINN(activation="relu"), "activation | tanh, sin | 'relu'"),
    (lambda: sx.SPINN(steepness=-1.0), "steepness | positive | -1.0"),
    # weights are by name
    (lambda: sx.Recipe(weights=[1.0]), "weights | [1.0]"),
    # what solve takes
    (lambda: sx.solve(heat), "problem must be a Problem | sx.Problem(box, residual, conditions)"),
    (
        lambda: sx.solve(problem(), {"steps": 3}),
        "recipe must be a Recipe | {'steps': 3} | sx.Recipe(",
    ),
    (lambda: sx.solve(problem(), sx.Recipe), "recipe must be a Recipe | sx.Recipe("),
    # callbacks can be called
    (lambda: sx.solve(problem(), small(), callback=3), "callback | 3"),
    # resuming needs a folder
    (lambda: sx.solve(problem(), small(), resume=True), "resume | out"),
    # refusals show no addresses
    (lambda: problem(heat, sx.Dirichlet(0, of=Plain())), "of must be a function | got Plain:"),
    (lambda: problem(heat, [heat]), "conditions holds [heat]"),
    (lambda: problem(heat, sx.Dirichlet(0, where=np.ones(3))), "an array of shape (3,)"),
    (lambda: sx.solve(heat), "got the function heat"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_bad_input_is_named(call, words):
    refused(call, *words.split(" | "))


OF_A_SOLUTION = [
    # operators of a solution
    (lambda solution: solution.d(z=1), "'z' | axes are t, x"),
    (lambda solution: solution.d(x=9), "0 to 8"),
    (lambda solution: solution.of(lambda w: w), "'w' | fields: u"),
    (lambda solution: solution.of(lambda u: jnp.sin(u)), "jnp.sin(u.value)"),
    (lambda solution: solution.of(lambda u: jnp.sum(u.value)), "one value per point"),
    (lambda solution: solution.integral("z"), "integral | 'z'"),
    (lambda solution: solution.integral("x"), "t"),
    # a solution without a reference
    (lambda solution: solution.relative_l2(), "no reference | reference=exact"),
]


@pytest.mark.parametrize(("call", "words"), OF_A_SOLUTION)
def test_what_a_solution_cannot_be_asked_is_named(solution, call, words):
    refused(lambda: call(solution), *words.split(" | "))


# --- boxes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "points", "field", "reference"])
def test_an_axis_name_works_everywhere_or_nowhere(name):
    """A name that some method keeps for an argument of its own is refused, or works in that method
    too."""
    try:
        box = sx.Box(**{name: (0, 1)}, x=(0, 1))
    except sx.InputError:
        return
    solution = untrained(sx.Problem(box, lambda u: u.xx), small())
    at = {name: np.linspace(0, 1, 3), "x": np.linspace(0, 1, 4)}
    assert solution(**at).shape == (3, 4)
    assert solution.integral("x", **{name: at[name]}).shape == (3,)
    assert solution.relative_l2(solution(**at), **at) == 0


# --- residuals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("box", [{"x": (0, 1)}, (0, 1), None, sx.Box])
def test_the_box_is_a_box(box):
    refused(lambda: sx.Problem(box, heat), "box must be a Box", shown(box), "Box(t=(0, 1)")


@pytest.mark.parametrize("residual", [None, 3, "u.t - u.xx"])
def test_the_residual_is_a_function(residual):
    refused(lambda: problem(residual), "residual must be a function", repr(residual))
    refused(
        lambda: problem({"heat": lambda u: u.t - u.xx, "rest": residual}),
        "residual['rest'] must be a function",
        repr(residual),
    )


@pytest.mark.parametrize(
    "residual",
    [
        lambda u: 1.0,
        lambda u: jnp.sum(u.value),
        lambda u: u.value.reshape(-1),
        lambda u: u.value[0],
        lambda u: u.value[None],
        lambda u: {"a": u.t, "b": jnp.mean(u.value)},
    ],
    ids=["number", "sum", "flat", "slice", "extra axis", "in a dict"],
)
def test_a_residual_of_the_wrong_shape(residual):
    refused(
        lambda: problem(residual),
        "shape",
        "one value per point",
        "return an expression of the fields",
    )


# --- conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("conditions", [None, 5, [5], ["x-"], [sx.Initial], [None]])
def test_conditions_are_conditions(conditions):
    refused(lambda: sx.Problem(BOX, heat, conditions), "conditions", "Initial(")


def test_a_single_condition_needs_no_list():
    assert sx.Problem(BOX, heat, sx.Initial(0)).names == ("residual", "initial")


@pytest.mark.parametrize("on", ["z", "y-", "x*", "-", "", "x--", ["x", "w+"]])
def test_a_face_that_does_not_exist(on):
    refused(
        lambda: problem(heat, sx.Dirichlet(0, on=on)),
        "dirichlet: on",
        "no face",
        "t, t-, t+, x, x-, x+",
    )


@pytest.mark.parametrize("on", [3, [3], (), []])
def test_a_face_is_a_name(on):
    refused(lambda: problem(heat, sx.Dirichlet(0, on=on)), "dirichlet: on")


def test_faces_that_the_box_cannot_have():
    line, clock = sx.Box(x=(0, 1)), sx.Box(t=(0, 1))
    refused(
        lambda: problem(lambda u: u.xx, sx.Initial(0), box=line),
        "initial",
        "no time axis",
        "on='x-'",
    )
    refused(
        lambda: problem(lambda u: u.t, sx.Dirichlet(0), box=clock),
        "dirichlet",
        "no axis but t",
        "on='t-'",
    )


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        (np.zeros((3, 4)), {}, ["(3, 4)", "axes x", "one dimension per axis"]),
        (np.zeros(3), {"lattice": {"x": np.zeros(4)}}, ["(3,)", "(4,)"]),
        (np.zeros(3), {"lattice": {"y": np.zeros(3)}}, ["lattice", "y", "axes x"]),
        (np.zeros(3), {"lattice": {"x": np.array([0.0, 1.0, 7.0])}}, ["lattice", "7"]),
        (np.full(3, math.nan), {}, ["not finite"]),
        (math.nan, {}, ["not finite"]),
        ("zero", {}, ["'zero'", "a number, a function of coordinates or an array"]),
        (None, {}, ["None", "a number, a function of coordinates or an array"]),
        (1j, {}, ["1j", "a number, a function of coordinates or an array"]),
    ],
)
def test_values_on_a_face(value, options, words):
    refused(lambda: problem(heat, sx.Initial(value, **options)), "initial", *words)


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.zeros(7), lambda x: x.T @ x @ x.T, lambda x: None, lambda x: "zero"],
    ids=["seven", "column", "None", "string"],
)
def test_functions_on_a_face(function):
    refused(lambda: problem(heat, sx.Initial(function)), "initial: value")


def test_operators_of_a_condition():
    refused(
        lambda: problem(heat, sx.Initial(0, of="u.t")), "initial: of", "'u.t'", "of=lambda u: u.t"
    )
    refused(lambda: problem(heat, sx.Initial(0, of=lambda u: u.y)), "u.y", "'y'")
    refused(lambda: problem(heat, sx.Initial(0, of=lambda u: None)), "initial: of", "None")
    refused(lambda: problem(heat, sx.Initial(0, of=lambda w: w)), "initial: of", "'w'", "fields: u")
    refused(
        lambda: problem(heat, sx.Initial(0, of=lambda u: jnp.sum(u.value))),
        "initial: of",
        "one value per point",
    )
    refused(
        lambda: problem(heat, sx.Initial(0, of=lambda t, x: t * x)),
        "initial: of depends on no field",
    )
    two = {"fields": ("u", "v")}
    refused(
        lambda: problem(lambda u, v: {"a": u.t, "b": v.t}, sx.Initial(0), **two),
        "initial",
        "u, v",
        "of=lambda u: u",
    )


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf, "heavy", None])
def test_weights_of_a_condition(weight):
    refused(lambda: problem(heat, sx.Initial(0, weight=weight)), "initial: weight", repr(weight))


@pytest.mark.parametrize("hard", [True, False])
def test_periodicity_needs_both_faces(hard):
    refused(lambda: problem(heat, sx.Periodic(on="x-", hard=hard)), "periodic", "both", "on='x'")


@pytest.mark.parametrize(
    ("points", "values", "words"),
    [
        (np.zeros((5, 3)), np.zeros(5), ["points", "(n, 2)", "t, x", "(5, 3)"]),
        (np.zeros(5), np.zeros(5), ["points", "(n, 2)", "(5,)"]),
        (np.zeros((5, 2)), np.zeros(4), ["5 points", "(4,)"]),
        (np.zeros((5, 2)), np.zeros((5, 1)), ["5 points", "(5, 1)"]),
        (np.zeros((5, 2)), np.full(5, math.nan), ["values", "finite"]),
        (np.full((5, 2), math.nan), np.zeros(5), ["points"]),
        (np.full((5, 2), 3.0), np.zeros(5), ["points", "t", "3"]),
        (np.zeros((0, 2)), np.zeros(0), ["points"]),
        (np.zeros((2, 2)), ["a", "b"], ["values"]),
    ],
    ids=[
        "columns",
        "flat",
        "fewer",
        "column",
        "nan values",
        "nan points",
        "outside",
        "none",
        "words",
    ],
)
def test_data(points, values, words):
    refused(lambda: problem(heat, sx.Data(points, values)), "data", *words)


def test_references():
    refused(lambda: problem(reference=lambda z: z), "reference", "'z'", "coordinates: t, x")
    refused(lambda: problem(reference={"w": lambda x: x}), "reference", "'w'", "fields are u")
    refused(lambda: problem(reference=lambda x: jnp.zeros(7)), "reference", "(7,)")
    refused(lambda: problem(reference="exact"), "reference", "'exact'")
    refused(lambda: problem(reference=lambda x: None), "reference")
    system = {"fields": ("u", "v"), "reference": lambda x: x}
    refused(
        lambda: problem(lambda u, v: {"a": u.t, "b": v.t}, **system), "reference", "u, v", "a dict"
    )


# --- recipes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -3, 1.5, "8", None, True, math.nan, math.inf])
def test_whole_numbers(number):
    came = repr(number)
    for name in ("rank", "width", "depth", "frequencies"):
        refused(lambda name=name: sx.SPINN(**{name: number}), name, "whole number", came)
    refused(lambda: sx.PINN(width=number), "width", "whole number", came)
    refused(lambda: sx.Recipe(steps=number), "steps", "whole number", came)
    refused(lambda: sx.Uniform(every=number), "every", "whole number", came)
    if number is not None:  # None lets separax choose
        refused(lambda: sx.Recipe(points=number), "points", "whole number", came)
    refused(
        lambda: sx.solve(problem(), small(points=(8, number))),
        "points",
        "'x'",
        "whole number",
        came,
    )
    refused(
        lambda: sx.solve(problem(), small(points={"t": number, "x": 8})),
        "points",
        "'t'",
        "whole number",
        came,
    )


@pytest.mark.parametrize(
    "precision", ["float16", "double", 64, None, np.float32, np.dtype("float32")]
)
def test_precision(precision):
    refused(
        lambda: sx.Recipe(precision=precision),
        "precision",
        "float32, float64, tf32",
        shown(precision),
    )


@pytest.mark.parametrize("network", ["spinn", sx.SPINN, None, 3])
def test_the_network_is_a_network(network):
    refused(lambda: sx.Recipe(network=network), "network", shown(network), "network=sx.SPINN(")


@pytest.mark.parametrize(
    "optimiser",
    ["adam", sx.Adam, None, 1e-3],
    ids=["word", "class", "None", "number"],
)
def test_the_optimiser_is_an_optimiser(optimiser):
    refused(
        lambda: sx.solve(problem(), small(optimiser=optimiser)),
        "optimiser",
        "optimiser=sx.Adam(1e-3)",
    )


def test_numbers_of_an_optimiser():
    for rate in (0, -1e-3, math.nan, "fast", None):
        refused(lambda rate=rate: sx.Adam(rate), "Adam: rate", repr(rate))
    refused(
        lambda: sx.Adam(1e-3, "linear"), "schedule", "constant, cosine, exponential", "'linear'"
    )
    refused(
        lambda: sx.solve(problem(), small(optimiser=sx.Adam(warmup=100))), "warmup=100", "10 steps"
    )


@pytest.mark.parametrize("sampler", ["uniform", sx.Uniform, None, 3])
def test_the_sampler_is_a_sampler(sampler):
    refused(
        lambda: sx.Recipe(sampler=sampler),
        "sampler",
        "Uniform(), Grid() or GaussLegendre()",
        shown(sampler),
    )


def test_weights_name_loss_terms():
    given = problem(heat, sx.Initial(0))
    refused(
        lambda: sx.solve(given, small(weights={"intial": 2.0})),
        "weights",
        "'intial'",
        "residual, initial",
        "Did you mean 'initial'?",
    )


@pytest.mark.parametrize("weight", [-1.0, math.nan, "heavy", None])
def test_weights_are_numbers_from_zero(weight):
    refused(lambda: sx.Recipe(weights={"residual": weight}), "weights['residual']", repr(weight))


# --- solve ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 1.5, None, "one", [], [0, 0], [0, -1], [0.5]])
def test_seeds(seed):
    refused(lambda: sx.solve(problem(), small(), seed=seed), "seed")


def test_a_folder_that_holds_a_run(solution):
    folder = solution.run_dir
    refused(lambda: sx.solve(problem(), small(), out=folder), "out", str(folder), "resume=True")
    refused(
        lambda: sx.solve(problem(), small(steps=20), out=folder, resume=True),
        "resume",
        str(folder),
        "settings",
    )


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    refused(
        lambda: sx.solve(problem(), small(), out=tmp_path / "file" / "run"),
        "out",
        "choose another folder",
    )


# --- memory ---------------------------------------------------------------------------------------

CUBE = sx.Box(x=(0, 1), y=(0, 1), z=(0, 1))


@pytest.mark.parametrize(
    "network",
    [sx.SPINN(rank=4, width=8, depth=2), sx.PINN(width=8, depth=2)],
    ids=["separable", "pointwise"],
)
def test_a_lattice_that_would_not_fit(network):
    nonlinear = sx.Problem(CUBE, lambda u: u.xx + u.yy + u.zz + u**3)
    recipe = small(network=network, points=100_000)
    for seed in (0, [0, 1]):
        refused(
            lambda seed=seed: sx.solve(nonlinear, recipe, seed=seed),
            "100000 × 100000 × 100000",
            "fewer points",
        )
    with pytest.raises(MemoryError):
        sx.solve(nonlinear, recipe)


def test_a_linear_equation_needs_no_lattice():
    """8.6·10⁹ points, of which only 3 · 2048 coordinates are ever held."""

    def poisson(u, x, y, z):
        return u.xx + u.yy + u.zz + jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y) * jnp.sin(jnp.pi * z)

    given = sx.Problem(CUBE, poisson, [sx.Dirichlet(0, hard=True)])
    solution = sx.solve(given, small(points=2048, network=sx.SPINN(rank=8, width=16, depth=2)))
    assert math.isfinite(solution.best_loss)
    assert solution.memory_bytes < 2**30


# --- solutions ------------------------------------------------------------------------------------


def test_evaluating_a_lattice_that_would_not_fit(solution):
    many = np.linspace(0, 1, 10_000_000)
    refused(lambda: solution(t=many, x=many), "10000000 × 10000000", "fewer points")


def test_coordinates_of_a_solution(solution):
    xs = np.linspace(-1, 1, 5)
    refused(lambda: solution(x=xs), "no coordinates for t", "solution(t=ts, x=xs)")
    refused(lambda: solution(t=0.5, x=xs, y=0), "no axis 'y'")
    refused(lambda: solution(0.5, xs, xs), "3 arrays for 2 axes (t, x)")
    refused(
        lambda: solution(t=0.5, x=xs[:, None]),
        "x must be a number or a one-dimensional array",
        "(5, 1)",
        "solution.at(points)",
    )
    refused(lambda: solution(t=0.5, x=2 * xs), "x runs over (-1, 1)", "-2 to 2")
    refused(lambda: solution.at(np.zeros((3, 3))), "(n, 2)", "t, x", "(3, 3)")
    refused(lambda: solution.at(np.full((3, 2), 5.0)), "(0, 1)", "5")


def test_references_of_a_solution(solution):
    ts, xs = np.linspace(0, 1, 4), np.linspace(-1, 1, 5)
    refused(lambda: solution.relative_l2(np.zeros((4, 4)), t=ts, x=xs), "(4, 4)", "(4, 5)")
    refused(lambda: solution.relative_l2(np.zeros((5, 4)), t=ts, x=xs), "(5, 4)", "(4, 5)")
    refused(
        lambda: solution.relative_l2({"w": np.zeros((4, 5))}, t=ts, x=xs), "'w'", "fields are u"
    )
    refused(lambda: solution.relative_l2(lambda t, x: t * x, field="w"), "'w'", "fields are u")


# --- losses that stop being finite ----------------------------------------------------------------


def test_a_loss_that_stops_being_finite():
    """log of what begins near 5 and is driven below 0: finite at first, then not."""
    falling = sx.Problem(
        sx.Box(t=(0, 1)),
        lambda u: np.log(5 + u) + u.t,
        [sx.Initial(-9, weight=100.0, name="start")],
        name="falling",
    )
    with pytest.raises(sx.Diverged) as error:
        sx.solve(falling, small(steps=2000, optimiser=sx.Adam(1e-3)))
    message, found = str(error.value), error.value.solution
    assert "step" in message
    assert "term 'residual'" in message
    assert "rate" in message
    assert isinstance(found, sx.Solution)
    assert 0 < found.best_step < 2000
    assert math.isfinite(found.best_loss)
    assert np.all(np.isfinite(found(t=np.linspace(0, 1, 9))))
    assert found.history.total[found.best_step // 10] == np.float32(found.best_loss)


def test_an_enormous_rate(tmp_path):
    steep = sx.Problem(sx.Box(t=(0, 1)), lambda u: u.t + u**5, [sx.Initial(1.0)])
    with pytest.raises(sx.Diverged, match="the best parameters") as error:
        sx.solve(steep, small(steps=200, optimiser=sx.Adam(1e18)), out=tmp_path)
    assert np.all(np.isfinite(error.value.solution(t=np.linspace(0, 1, 5))))
    assert (tmp_path / "solution.npz").exists()
    assert "stopped being finite" in (tmp_path / "record.json").read_text()


def test_several_seeds_that_are_never_finite():
    wrong = sx.Problem(sx.Box(t=(0, 1)), lambda u: {"first": u.t, "second": np.log(-1 - u**2)})
    with pytest.raises(sx.Diverged, match=r"step 0 \(term 'second'\)") as error:
        sx.solve(wrong, small(), seed=[0, 1])
    assert len(error.value.solution) == 2


def test_nothing_is_left_behind():
    """A refusal inside float64 leaves the user's own precision as it was."""
    with pytest.raises(sx.InputError):
        sx.solve(problem(), small(precision="float64", weights={"nothing": 1.0}))
    assert jnp.zeros(1).dtype == jnp.float32
    assert not jax.config.jax_enable_x64


# --- what came is shown short ---------------------------------------------------------------------


class Plain:
    def method(self):
        pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda x: x, "a lambda"),
        (heat, "the function heat"),
        (Plain, "the class Plain"),
        (Plain(), "Plain"),
        (Plain().method, "the function method"),
        ([heat, lambda x: x, Plain(), 1.5], "[heat, a lambda, Plain, 1.5]"),
        (np.zeros((3, 4)), "an array of shape (3, 4) of float64"),
        (jnp.zeros(3, jnp.int32), "an array of shape (3,) of int32"),
        ("x" * 100, "'" + "x" * 58 + "…"),
        (-1, "-1"),
        (None, "None"),
        (BOX, "Box(t=(0, 1), x=(-1, 1))"),
    ],
)
def test_what_came_is_shown_short(value, text):
    assert shown(value) == text
