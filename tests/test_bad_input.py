"""Bad input is refused before anything is compiled, by a message that names the argument, what came
and what to write."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


# --- boxes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1, 0), ["x", "reversed", "(1, 0)", "x=(0, 1)"]),
        ((1, 1), ["x", "equal", "(1, 1)", "x=(1, 2)"]),
        ((0, math.inf), ["bound of x", "finite", "inf"]),
        ((math.nan, 1), ["bound of x", "finite", "nan"]),
        (("a", 1), ["bound of x", "number", "'a'"]),
        ((0, 1, 2), ["x must be a pair", "(0, 1, 2)", "x=(0, 1)"]),
        (1, ["x must be a pair", "got 1", "x=(0, 1)"]),
        ("01", ["x must be a pair", "'01'"]),
        (None, ["x must be a pair", "None"]),
    ],
)
def test_bounds(bounds, words):
    refused(lambda: sx.Box(x=bounds), *words)


def test_a_box_has_axes():
    refused(lambda: sx.Box(), "at least one axis", "Box(t=(0, 1)")


@pytest.mark.parametrize("name", ["lambda", "_x", "x y", "d", "value", "shape", "linear"])
def test_axis_names_that_functions_and_fields_cannot_use(name):
    refused(lambda: sx.Box(**{name: (0, 1)}), repr(name))


@pytest.mark.parametrize("name", ["weights", "points", "field", "reference"])
def test_an_axis_name_works_everywhere_or_nowhere(name):
    """A name that some method keeps for an argument of its own is refused, or works in that method
    too."""
    try:
        box = sx.Box(**{name: (0, 1)}, x=(0, 1))
    except sx.InputError:
        return
    solution = sx.solve(sx.Problem(box, lambda u: u.xx), small())
    at = {name: np.linspace(0, 1, 3), "x": np.linspace(0, 1, 4)}
    assert solution(**at).shape == (3, 4)
    assert solution.integral("x", **{name: at[name]}).shape == (3,)
    assert solution.relative_l2(solution(**at), **at) == 0


def test_an_axis_that_is_not_in_the_box():
    refused(lambda: BOX["z"], "'z'", "t=(0, 1), x=(-1, 1)")
    refused(lambda: sx.solve(problem(), small(points={"t": 8, "x": 8, "z": 8})), "points", "'z'")
    refused(
        lambda: sx.solve(problem(), small(points={"x": 8})),
        "points",
        "for t",
        "points=dict(t=32, x=32)",
    )


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


def test_an_unknown_field_or_coordinate():
    refused(lambda: problem(lambda v: v.t), "residual", "'v'", "fields: u", "coordinates: t, x")
    refused(lambda: problem(lambda u, z: u.t - z), "residual", "'z'", "coordinates: t, x")
    refused(
        lambda: problem(lambda u, kappa: u.t - kappa * u.xx, unknowns={"kapa": 1.0}),
        "'kappa'",
        "Did you mean 'kapa'?",
    )


def test_a_derivative_along_a_missing_axis():
    refused(lambda: problem(lambda u: u.t - u.yy), "u.yy", "no axis 'y'", "axes are t, x", "u.xx")
    refused(lambda: problem(lambda u: u.d(theta=2)), "u.d(theta=2)", "'theta'", "axes are t, x")
    refused(lambda: problem(lambda u, v: {"a": v.q, "b": u.t}, fields=("u", "v")), "v.q", "'q'")


def test_an_order_that_is_not_available():
    refused(lambda: problem(lambda u: u.d(x=9)), "u.d(x=9)", "0 to 8")
    refused(lambda: problem(lambda u: u.d(x=-1)), "u.d(x=-1)", "0 to 8")
    refused(lambda: problem(lambda u: u.xxxx.xxxxx), "order 9", "at most 8")


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


@pytest.mark.parametrize(
    "result", [None, "u", {"a": None}, object()], ids=["None", "string", "None in a dict", "object"]
)
def test_a_residual_that_is_no_expression(result):
    refused(lambda: problem(lambda u: result), "must return an expression of the fields")


def test_a_residual_that_is_empty_or_has_no_field():
    refused(lambda: problem(lambda u: {}), "empty dict")
    refused(lambda: problem(lambda u: ()), "residual")
    refused(lambda: problem(lambda t, x: jnp.sin(t) * x), "depends on no field", "expression of u")


def test_whole_numbers_that_arrays_cannot_hold():
    with pytest.raises(sx.InputError, match="residual: a whole number is too large"):
        sx.Problem(sx.Box(x=(0, 1)), lambda u, x: u.x - x / 3_000_000_000)


def test_a_complex_residual():
    refused(lambda: problem(lambda u: 1j * u.t + u.xx), "complex")


def test_jnp_functions_of_fields():
    refused(
        lambda: problem(lambda u: u.t + jnp.sin(u)), "residual", "jnp.sin(u.value)", "np.sin(u)"
    )
    refused(lambda: problem(lambda u: u.t + jnp.where(True, u, 0)), "residual", ".value")


def test_numpy_functions_of_coordinates():
    refused(lambda: problem(lambda u, x: u.t - np.sin(x)), "residual", "jnp.sin(x)")
    refused(lambda: problem(heat, sx.Initial(lambda x: np.sin(x))), "initial", "jnp.sin(x)")
    refused(lambda: problem(heat, reference=lambda x: np.sin(x)), "reference", "jnp.sin(x)")
    refused(lambda: problem(lambda u, x: u.t - np.where(x > 0, 1, 0)), "residual", "jnp.")


def test_branches_on_coordinates():
    refused(lambda: problem(lambda u, x: u.t if x > 0 else u.x), "residual", "jnp.where")
    refused(
        lambda: problem(heat, sx.Initial(lambda x: 1.0 if x > 0 else 0.0)), "initial", "jnp.where"
    )
    refused(lambda: problem(lambda u, x: u.t - math.sin(x)), "residual", "jnp.")
    refused(
        lambda: problem(lambda u, k: u.t if k > 0 else u.x, unknowns={"k": 1.0}),
        "residual",
        "jnp.where",
    )


def test_branches_on_fields():
    refused(lambda: problem(lambda u: u.t if u > 0 else u.x), "residual", ".value")
    refused(lambda: problem(lambda u: u.t if u else u.x), "residual")


def test_indexing_a_field_is_not_called_a_jnp_function():
    with pytest.raises(sx.InputError) as error:
        problem(lambda u: u[0])
    assert "jnp.sin" not in str(error.value)


# --- names ----------------------------------------------------------------------------------------


def test_duplicate_names():
    refused(lambda: problem(fields=("u", "u")), "'u'", "rename")
    refused(lambda: problem(lambda x: x.t, fields=("x",)), "'x'", "field", "coordinate", "rename")
    refused(lambda: problem(unknowns={"x": 1.0}), "'x'", "coordinate", "rename")
    refused(lambda: problem(unknowns={"u": 1.0}), "'u'", "field", "rename")


def test_fields_are_names():
    refused(lambda: problem(fields=()), "fields is empty", "fields=('u',)")
    refused(lambda: problem(fields=("a b",)), "'a b'")
    refused(lambda: problem(fields=(1,)), "1")
    refused(lambda: problem(fields=3), "fields", "3")


def test_unknown_coefficients_are_numbers_by_name():
    refused(lambda: problem(unknowns={"k": "one"}), "unknowns['k']", "'one'")
    refused(lambda: problem(unknowns={"k": math.nan}), "unknowns['k']", "nan")
    refused(lambda: problem(unknowns=["k"]), "unknowns", "['k']")


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


def test_an_array_belongs_to_one_face():
    refused(
        lambda: problem(heat, sx.Dirichlet(np.zeros(3))),
        "dirichlet: value",
        "x-, x+",
        "one condition per face",
    )


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.zeros(7), lambda x: x.T @ x @ x.T, lambda x: None, lambda x: "zero"],
    ids=["seven", "column", "None", "string"],
)
def test_functions_on_a_face(function):
    refused(lambda: problem(heat, sx.Initial(function)), "initial: value")


def test_functions_on_a_face_name_coordinates():
    refused(
        lambda: problem(heat, sx.Initial(lambda z: z)), "initial: value", "'z'", "coordinates: t, x"
    )
    refused(
        lambda: problem(heat, sx.Initial(lambda u: 0.0)),
        "initial: value",
        "'u'",
        "coordinates: t, x",
    )


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


def test_coefficients_of_a_mixed_condition():
    refused(lambda: problem(heat, sx.Robin(0, math.nan, 1.0)), "robin", "nan")


def test_what_cannot_be_built_in():
    """More in equations/test_built_in.py."""
    refused(
        lambda: problem(heat, sx.Dirichlet(0, of=lambda u: u.x, hard=True)),
        "dirichlet",
        "hard=True",
        "hard=False",
    )
    refused(
        lambda: problem(heat, sx.Dirichlet(0, of=lambda u: u * u.x, hard=True)),
        "dirichlet",
        "hard=False",
    )
    refused(
        lambda: problem(heat, sx.Dirichlet(0, hard=True), sx.Periodic()),
        "x is both periodic and given",
        "hard=False",
    )


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


def test_whole_numbers_may_be_written_as_floats():
    recipe = small(network=sx.SPINN(rank=4.0, width=8.0, depth=2.0), points=8.0, steps=1e1)
    assert sx.solve(problem(), recipe).timing.steps == 10


def test_one_number_of_points_per_axis():
    refused(
        lambda: sx.solve(problem(), small(points=(8,))), "points", "1 numbers for 2 axes (t, x)"
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


def test_words_of_a_network():
    refused(lambda: sx.SPINN(body="transformer"), "body", "modified, mlp", "'transformer'")
    refused(lambda: sx.SPINN(activation="relu"), "activation", "tanh, sin", "'relu'")
    refused(lambda: sx.SPINN(steepness=-1.0), "steepness", "positive", "-1.0")


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


def test_weights_are_by_name():
    refused(lambda: sx.Recipe(weights=[1.0]), "weights", "[1.0]")


# --- solve ----------------------------------------------------------------------------------------


def test_what_solve_takes():
    refused(
        lambda: sx.solve(heat), "problem must be a Problem", "sx.Problem(box, residual, conditions)"
    )
    refused(
        lambda: sx.solve(problem(), {"steps": 3}),
        "recipe must be a Recipe",
        "{'steps': 3}",
        "sx.Recipe(",
    )
    refused(lambda: sx.solve(problem(), sx.Recipe), "recipe must be a Recipe", "sx.Recipe(")


@pytest.mark.parametrize("seed", [-1, 1.5, None, "one", [], [0, 0], [0, -1], [0.5]])
def test_seeds(seed):
    refused(lambda: sx.solve(problem(), small(), seed=seed), "seed")


def test_callbacks_can_be_called():
    refused(lambda: sx.solve(problem(), small(), callback=3), "callback", "3")


def test_resuming_needs_a_folder():
    refused(lambda: sx.solve(problem(), small(), resume=True), "resume", "out")


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


def test_operators_of_a_solution(solution):
    refused(lambda: solution.d(z=1), "'z'", "axes are t, x")
    refused(lambda: solution.d(x=9), "0 to 8")
    refused(lambda: solution.of(lambda w: w), "'w'", "fields: u")
    refused(lambda: solution.of(lambda u: jnp.sin(u)), "jnp.sin(u.value)")
    refused(lambda: solution.of(lambda u: jnp.sum(u.value)), "one value per point")
    refused(lambda: solution.integral("z"), "integral", "'z'")
    refused(lambda: solution.integral("x"), "t")


def test_references_of_a_solution(solution):
    ts, xs = np.linspace(0, 1, 4), np.linspace(-1, 1, 5)
    refused(lambda: solution.relative_l2(np.zeros((4, 4)), t=ts, x=xs), "(4, 4)", "(4, 5)")
    refused(lambda: solution.relative_l2(np.zeros((5, 4)), t=ts, x=xs), "(5, 4)", "(4, 5)")
    refused(
        lambda: solution.relative_l2({"w": np.zeros((4, 5))}, t=ts, x=xs), "'w'", "fields are u"
    )
    refused(lambda: solution.relative_l2(lambda t, x: t * x, field="w"), "'w'", "fields are u")


def test_a_solution_without_a_reference(solution):
    refused(solution.relative_l2, "no reference", "reference=exact")


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


def test_refusals_show_no_addresses():
    refused(
        lambda: problem(heat, sx.Dirichlet(0, of=Plain())), "of must be a function", "got Plain:"
    )
    refused(lambda: problem(heat, [heat]), "conditions holds [heat]")
    refused(lambda: problem(heat, sx.Dirichlet(0, where=np.ones(3))), "an array of shape (3,)")
    refused(lambda: sx.solve(heat), "got the function heat")
