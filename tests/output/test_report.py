"""Equations, figures, animations and pages, without a browser."""

import json
import re
import xml.etree.ElementTree as ET

import jax.numpy as jnp
import numpy as np
import pytest
import typer.testing
from untrained import untrained

import separax as sx
from separax.cli.app import app
from separax.equations.text import equation
from separax.output import animation, figures
from separax.output import viewer as factors
from separax.output.html import mathml
from separax.output.page import read_kept, recipe_facts, render, slices_of, write_report
from separax.paper.catalogue import CATALOGUE
from separax.runs.keeping import check
from separax.solution.record import make_record

BOX = sx.Box(t=(0, 2), x=(-1, 1), y=(0, 3))
RECIPE = sx.Recipe(sx.SPINN(rank=4, width=8, depth=1), points=6)
START = [sx.Initial(0)]


def exact(t, x, y):
    return (x + y) * jnp.cos(t)


def klein_gordon(u, t, x, y):
    return u.tt - u.xx - u.yy + u**2 - exact(t, x, y) ** 2


@pytest.fixture(scope="module")
def solution():
    return untrained(sx.Problem(BOX, klein_gordon, START, reference=exact, name="a & <b>"), RECIPE)


# --- equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("residual", "unknowns", "formula"),
    [
        (klein_gordon, {}, "u_tt - Δu + u² = f(t, x, y)"),
        (lambda u: -u.xx - u.yy - 1, {}, "-Δu = 1"),
        (lambda u: u.t + u * u.x - 0.01 * u.xx, {}, "u_t - 0.01 u_xx + u u_x = 0"),
        (lambda u, x: u.t - jnp.sin(x), {}, "u_t = f(x)"),
    ],
)
def test_a_polynomial_of_derivatives_is_written_as_a_formula(residual, unknowns, formula):
    assert equation(sx.Problem(BOX, residual, START, unknowns=unknowns))["formulas"] == [formula]


@pytest.mark.parametrize(
    "residual",
    [
        lambda u, x: u.t - x * u.xx,
        lambda u: u.t - np.sin(u),
        lambda u: u.t - jnp.sin(u.value),
        lambda u: u.t - u**3,
    ],
)
def test_anything_else_is_shown_as_it_was_written(residual):
    found = equation(sx.Problem(BOX, residual, START))
    assert found["formulas"] == []
    assert "lambda u" in found["code"]


def test_an_equation_with_unknown_coefficients_is_shown_as_it_was_written():
    assert (
        equation(sx.Problem(BOX, lambda u, k: u.t - k * u.xx, START, unknowns={"k": 2.0}))[
            "formulas"
        ]
        == []
    )


@pytest.mark.parametrize(
    "text",
    [*(entry.equation for entry in CATALOGUE.values()), "<script>u & v</script>", "u<b>_x</b>^2"],
)
def test_every_formula_is_well_formed_and_says_the_same(text):
    tree = ET.fromstring(mathml(text))
    raised = str.maketrans("²", "2")
    assert "".join(tree.itertext()).replace("−", "-") == re.sub(
        r"[\s_^{}]", "", text.translate(raised)
    )


# --- figures --------------------------------------------------------------------------------------


def test_a_plot_shows_the_solutions_values(solution):
    figure = solution.plot(x="y", y="x", t=0.5, points=20)
    (image,) = figure.axes[0].get_images()
    true = solution(t=0.5, x=np.linspace(-1, 1, 20), y=np.linspace(0, 3, 20))
    np.testing.assert_array_equal(image.get_array(), true)  # rows are x, upwards
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("y", "x")
    assert image.get_extent() == [0, 3, -1, 1]


def test_several_values_make_several_pictures_with_one_scale(solution):
    images = [
        panel.get_images()[0]
        for panel in solution.plot(x="x", y="y", t=[0, 1, 2], points=8).axes
        if panel.get_images()
    ]
    assert len(images) == 3
    assert len({image.get_clim() for image in images}) == 1


@pytest.mark.parametrize(
    ("box", "shown", "share"),
    [
        (sx.Box(t=(0, 1), x=(0, 2), y=(0, 1)), ("x", "y"), 0.5),
        (sx.Box(t=(0, 1), x=(0, 1), y=(0, 2)), ("x", "y"), 2.0),
        (
            sx.Box(t=(0, 1), x=(0, 40), y=(0, 1)),
            ("x", "y"),
            None,
        ),  # to scale nothing could be seen of it
        (
            sx.Box(t=(0, 1), x=(0, 2), y=(0, 1)),
            ("t", "x"),
            None,
        ),  # seconds and metres have no common scale
    ],
)
def test_a_plane_of_space_is_drawn_to_scale(box, shown, share):
    figure = untrained(sx.Problem(box, klein_gordon, START), RECIPE).plot(*shown, points=8)
    figure.draw_without_rendering()
    panel = figure.axes[0].get_window_extent()
    if share is None:
        assert figure.axes[0].get_aspect() == "auto"
    else:
        assert panel.height / panel.width == pytest.approx(share, rel=1e-6)


def test_a_line_and_its_reference(solution):
    figure = solution.plot(x="x", t=[0, 1], y=0.5, reference=True, points=24)
    lines = figure.axes[0].get_lines()
    xs = np.linspace(-1, 1, 24)
    np.testing.assert_array_equal(lines[2].get_ydata(), solution(t=1.0, x=xs, y=0.5))
    np.testing.assert_allclose(lines[3].get_ydata(), exact(1.0, xs, 0.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"x": "X", "y": "y"}, ["no axis 'X'"]),
        ({"x": "x", "y": "x"}, ["shown twice"]),
        ({"y": "y"}, ["y='y'", "x="]),
        ({"x": "x", "y": "y", "t": 5}, ["t runs over (0, 2)"]),
        ({"x": "x", "y": "y", "t": "now"}, ["t must be a number", "'now'"]),
        ({"x": "x", "z": 0.5}, ["no axis 'z'"]),
        ({"field": "w"}, ["no field 'w'", "u"]),
        ({"x": 0, "y": 1, "t": 1}, ["every axis is held"]),
        ({"x": "x", "y": [0, 1], "t": [0, 1]}, ["several values of both"]),
        ({"x": "x", "t": np.linspace(0, 2, 50)}, ["50 values", "animate"]),
        ({"x": "t", "t": 1.0}, ["shown and held"]),
    ],
)
def test_plots_that_cannot_be_are_refused(solution, options, words):
    with pytest.raises(sx.InputError) as refused:
        solution.plot(**options)
    assert all(word in str(refused.value) for word in words)


@pytest.mark.parametrize(
    ("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_ending_says_what_a_figure_is(solution, tmp_path, ending, begins):
    path = figures.save_figure(figures.plot(solution, x="x", t=0), tmp_path / "new" / f"u.{ending}")
    assert path.read_bytes().startswith(begins)


def test_an_ending_that_is_not_known_is_refused(solution, tmp_path):
    with pytest.raises(sx.InputError, match=r"\.png, \.svg, \.pdf"):
        figures.save_figure(figures.plot(solution), tmp_path / "u.bmp")
    with pytest.raises(sx.InputError, match=r"\.gif"):
        solution.animate(tmp_path / "u.avi")
    assert list(tmp_path.iterdir()) == []


def test_a_film_has_its_frames_and_each_is_a_moment(solution, tmp_path):
    from PIL import Image

    with Image.open(solution.animate(tmp_path / "u.gif", x="x", frames=3, points=16, y=1)) as film:
        assert film.n_frames == 3
    at = {"x": np.array([0.0, 0.5]), "y": 1.0, "t": np.array([0.0, 2.0])}
    frames = animation.values_on(solution, "u", at, ("t", "x"))
    np.testing.assert_array_equal(
        frames, solution(t=np.array([0.0, 2.0]), x=np.array([0.0, 0.5]), y=1.0)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"t": 1}, "t moves and is held"),
        ({"x": "t", "y": "x", "over": "t"}, "t"),
        ({"over": "z"}, "no axis 'z'"),
        ({"frames": 1}, "frames"),
    ],
)
def test_films_that_cannot_be_are_refused(solution, tmp_path, options, words):
    with pytest.raises(sx.InputError, match=words):
        solution.animate(tmp_path / "u.gif", **options)


# --- factors --------------------------------------------------------------------------------------


def test_series_that_do_not_fit_are_shortened_and_say_by_how_much(solution, monkeypatch):
    exactly = factors.payload(solution)
    assert exactly["error"] < 1e-6
    size = len(exactly["numbers"])
    monkeypatch.setattr("separax.output.viewer.MOST_NUMBERS", 100)
    shorter = factors.payload(solution)
    assert len(shorter["numbers"]) < size
    assert len(shorter["numbers"]) <= 100 * 4 * 4 / 3 + 4
    assert shorter["error"] > exactly["error"]


# --- pages ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(solution, tmp_path_factory):
    return write_report(solution, tmp_path_factory.mktemp("run"), make_record(solution))


def test_a_page_is_one_small_file_that_asks_for_nothing(page):
    text = page.read_text()
    assert len(text) < 3_000_000
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert "<h1>a &amp; &lt;b&gt;</h1>" in text


def test_a_page_says_how_a_solution_was_found_and_what_is_in_the_way(solution):
    said = make_record(solution) | {
        "network": "spinn-spectral",
        "steps": 1,
        "ms_per_step": 16_400.0,
        "estimate": 2e-3,
        "advice": ["a < b"],
    }
    text = render(solution, said, slices_of(solution, {}))
    for words in (
        "solving, 1 step<",
        "16.4 s<",
        "2.0e-03</b><span>estimated error",
        '<p class="note">a &lt; b</p>',
    ):
        assert words in text
    assert "<td>width</td>" in text  # a trained network has layers
    flat = sx.Recipe(sx.SPINN(rank=2, functions=4, depth=0))
    assert "width" not in recipe_facts(flat)


def test_a_page_of_a_run_that_was_read_back_is_as_good(solution, page):
    before = page.read_text()
    read = sx.load(solution.save(page.parent))
    assert read.problem.reference is None
    after = write_report(read, page.parent, read.record).read_text()
    for part in (
        "<math",
        "reference at t = 1",
        "difference at t = 1",
        "Error of the best",
        "Factors along y",
    ):
        assert part in before
        assert part in after


@pytest.fixture(scope="module")
def exact_run(tmp_path_factory):
    """A kept run in double precision whose reference is the solution itself."""
    recipe = sx.Recipe(sx.SPINN(rank=2, width=4, depth=1), points=4, precision="float64")
    twins = []

    def itself(x, y):
        return twins[0](x=np.ravel(x), y=np.ravel(y)) if twins else x + y

    problem = sx.Problem(sx.Box(x=(-1, 1), y=(0, 3)), lambda u: u.x, [], reference=itself)
    found = untrained(problem, recipe)
    twins.append(found.of(lambda u: u))
    folder = found.save(tmp_path_factory.mktemp("exact") / "run")
    return found, write_report(found, folder, json.loads((folder / "record.json").read_text()))


def test_differences_are_in_double_precision(exact_run):
    found, page = exact_run
    kept = read_kept(page.parent / "reference.npz")
    loaded = sx.load(page.parent)
    assert loaded.problem.reference is None
    for solution, known in ((found, {}), (loaded, kept)):
        ((picture,),) = slices_of(solution, known)
        assert picture.difference.shape == (128, 128)
        assert np.abs(picture.difference).max() < 1e-14


def test_what_a_page_leaves_in_a_run_is_sealed_too(exact_run):
    folder = exact_run[1].parent
    assert check(folder) == []
    kept = folder / "reference.npz"
    content = kept.read_bytes()
    kept.write_bytes(content[:-100])
    assert [damage.path for damage in check(folder)] == [kept]
    assert read_kept(kept) == {}  # the page is then written without
    kept.write_bytes(content)


def test_a_record_has_no_numbers_that_json_has_not():
    problem = sx.Problem(
        sx.Box(x=(0, 1)),
        lambda u: u.x,
        [sx.Dirichlet(1, on="x-")],
        reference=lambda x: jnp.log(x - 2),
    )
    found = sx.solve(
        problem,
        sx.Recipe(sx.SPINN(rank=2, width=4, depth=1), points=4, steps=2),
        seed=[0, 1],
        progress=False,
    )
    kept = make_record(found)
    assert kept["relative_l2"] is None
    assert kept["relative_l2_each"] == [None, None]
    json.dumps(kept, allow_nan=False)


def test_notebooks_show_boxes_problems_and_solutions(solution):
    assert "-1 … 1" in BOX._repr_html_()
    assert "<math" in solution.problem._repr_html_()
    shown = solution._repr_html_()
    assert "a &amp; &lt;b&gt;" in shown
    assert "data:image/png;base64," in shown


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def kept_run(solution, tmp_path):
    """The folder of a run."""
    return solution.save(tmp_path / "run")


def command(*arguments):
    return typer.testing.CliRunner().invoke(app, [str(a) for a in arguments])


def test_report_and_view(kept_run, tmp_path):
    done = command("view", kept_run, "--no-browser")
    assert done.exit_code == 0
    assert done.stdout.strip() == str(kept_run / "report.html")
    assert "<!doctype html>" in (kept_run / "report.html").read_text()
    assert command("report", kept_run).exit_code == 0


def test_what_is_no_run_is_named(kept_run, tmp_path):
    for arguments in (
        ["report", tmp_path / "nothing"],
        ["view", tmp_path / "nothing"],
    ):
        done = command(*arguments)
        assert done.exit_code == 2
        assert not isinstance(done.exception, sx.InputError)
