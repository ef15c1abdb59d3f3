"""The report's page in a browser: it draws, it answers, and what it says is the solution."""

import itertools
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained, untrained_march

import separax as sx
from separax.equations.formulas import OPERATIONS
from separax.output.page import write_report
from separax.solution.record import make_record

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NO_BROWSER = "there is no browser: install chromium, e.g. apt-get install chromium"
pytestmark = [pytest.mark.whole, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)]

SMALL = sx.Recipe(sx.SPINN(rank=4, width=8, depth=1), points=6, steps=50)
CORE = sx.Recipe(
    sx.SPINN(rank={"t": 3, "x": 4, "y": 5, "z": 4}, width=8, depth=1, merge="tucker"),
    points=6,
    steps=50,
)
EVIL = "<script>window.evil = true</script>"


def system():
    """Two fields, a linear quantity of them, others that are not, in windows of time, with a name
    that wants to be a script."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(0, 2), z=(-2, 2)),
        lambda u, v: {"one": u.t - u.xx - v.y, "two": v.t - u.x},
        [sx.Initial(lambda x, y: jnp.sin(x + y), of="u"), sx.Initial(lambda x: jnp.cos(x), of="v")],
        fields=("u", "v"),
        derived={
            "w": lambda u, v: 0.5 + v.x - u.y,
            "speed": lambda u, v: np.sqrt(u**2 + v**2),
            "mixed": lambda u, v, t, y: (
                (1 + t) * jnp.where(y > 1, np.exp(u).value, (v.x * u).value)
            ),
            "rest": lambda u: u.value - jnp.mean(u.value),
        },
        name=EVIL,
    )


def disc():
    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        lambda u: u.xx + u.yy + 4,
        [sx.Dirichlet(0)],
        inside=lambda x, y: x**2 + y**2 - 1,
        reference=lambda x, y: 1 - x**2 - y**2,
    )


def spectral(*axes):
    """A stream function, the vorticity of its flow, and the speed."""
    return sx.Problem(
        sx.Box(**{a: {"t": (0.5, 2), "x": (0, 2 * np.pi), "y": (-1, 1)}[a] for a in axes}),
        lambda psi: psi.xx + psi.yy,
        [sx.Periodic("x"), sx.Dirichlet(0, on="y")],
        fields=("psi",),
        derived={
            "w": lambda psi: 0.3 - psi.xx - psi.yy,
            "speed": lambda psi: np.sqrt(psi.x**2 + psi.y**2),
        },
    )


def all_products(functions):
    network = sx.SPINN(
        rank=functions, depth=0, body="mlp", functions=functions, frequencies=4, merge="tucker"
    )
    return sx.Recipe(network, 6, precision="float64")


@pytest.fixture(scope="module")
def solutions():
    return {
        "system": untrained_march(system(), SMALL, windows=2),
        "system with cores": untrained_march(system(), CORE, windows=3),
        "two axes with a core": untrained(spectral("x", "y"), all_products({"x": 9, "y": 12})),
        "march with a core": untrained_march(
            spectral("t", "x", "y"), all_products({"t": 4, "x": 9, "y": 12}), windows=4
        ),
        "disc": sx.solve(disc(), SMALL, progress=False),
        "pointwise": untrained(disc(), sx.Recipe(sx.PINN(width=8, depth=1))),
    }


@pytest.fixture(scope="module")
def pages(solutions, tmp_path_factory):
    out = {}
    for name, solution in solutions.items():
        folder = tmp_path_factory.mktemp(name)
        out[name] = write_report(solution, folder, make_record(solution))
    return out


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        running.close()


@pytest.fixture
def opened(browser, pages):
    """A page of a run, with what went wrong on it and what it asked the network for."""
    contexts = []

    def open_page(name, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.trouble = []
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on(
            "console", lambda said: page.trouble.append(said.text) if said.type == "error" else None
        )
        page.on(
            "request",
            lambda asked: page.trouble.append(asked.url) if asked.url.startswith("http") else None,
        )
        page.goto(pages[name].as_uri())
        drawn(page)
        return page

    yield open_page
    for context in contexts:
        assert [p.trouble for p in context.pages] == [[]]
        context.close()


def drawn(page):
    """Waits until everything that was asked for is on the screen."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def picture(page):
    drawn(page)
    return page.evaluate("document.querySelector('#viewer canvas.main').toDataURL()")


def said(page):
    """The value and the place that the page tells."""
    drawn(page)
    value, where = page.locator("#viewer output.value").inner_text().replace("−", "-").split(" at ")
    return float(value.split("=")[1]), page.evaluate("separaxViewer.point"), where


def test_every_output_is_there(opened):
    page = opened("system")
    assert page.evaluate("separaxViewer.factors.outputs.map((o) => o.name)") == [
        "u",
        "v",
        "w",
        "speed",
        "mixed",
    ]
    assert (
        "not computed point by point: rest."
        in page.locator("section.interactive p.note").first.inner_text()
    )


@pytest.mark.parametrize(
    "name", ["system", "system with cores", "two axes with a core", "march with a core"]
)
def test_values_are_those_of_the_solution(opened, solutions, name):
    page, solution = opened(name), solutions[name]
    ends = np.array([solution.problem.box[a] for a in solution.problem.box.axes])
    points = np.random.default_rng(0).uniform(*ends.T, (40, len(ends)))
    if len(solution.models) > 1:
        points[0, 0] = solution.edges[1]  # where two windows meet, the first one counts
    true = solution.at(points)
    for i, output in enumerate(page.evaluate("separaxViewer.factors.outputs.map((o) => o.name)")):
        found = page.evaluate(
            """([i, points]) => {
                const { factors } = separaxViewer;
                return points.map((p) => factors.value(factors.outputs[i], p));
            }""",
            [i, points.tolist()],
        )
        np.testing.assert_allclose(
            found, true[output], atol=1e-5 * float(np.max(np.abs(true[output])))
        )


HELD = {"t": 0.7, "x": 0.3, "y": 0.9, "z": -0.4}


@pytest.mark.parametrize(
    ("name", "across", "up"),
    [
        *itertools.product(["system", "system with cores"], "xt", "zy"),
        ("system", "z", "x"),
        ("system with cores", "y", "t"),
        ("two axes with a core", "x", "y"),
        ("two axes with a core", "y", "x"),
        ("march with a core", "x", "y"),
        ("march with a core", "t", "y"),
        ("march with a core", "x", "t"),
    ],
)
def test_slices_and_lines_agree_with_the_solution(opened, solutions, name, across, up):
    page, solution = opened(name), solutions[name]
    box = solution.problem.box
    held = {a: HELD[a] for a in box.axes}
    shown = {a: np.linspace(*box[a], 256) for a in (across, up)}
    planes, lines = solution(**{**held, **shown}), solution(**{**held, across: shown[across]})
    for output in ("w", "mixed" if "mixed" in planes else "speed"):
        slice_, line = page.evaluate(
            """([name, across, up, point]) => {
                const { factors } = separaxViewer;
                const output = factors.outputs.find((o) => o.name === name);
                const out = factors.slice(output, across, up, point, new Float32Array(GRID * GRID));
                const line = factors.line(output, across, point);
                return [Array.from(out.filter((_, i) => i % 7 === 0)), Array.from(line)];
            }""",
            [output, box.index(across), box.index(up), list(held.values())],
        )
        true = np.asarray(planes[output] if box.index(across) < box.index(up) else planes[output].T)
        scale = float(np.max(np.abs(true)))
        np.testing.assert_allclose(slice_, true.ravel()[::7], atol=1e-5 * scale)
        np.testing.assert_allclose(line, lines[output], atol=1e-5 * scale)


def test_operations_mean_the_same_here_and_there(opened):
    places = np.array([[0.3, 0.7, 0.9], [-0.4, 0.5, 0.8], [0.6, -0.2, 0.1], [0.0, 0.0, 1.0]])
    found = opened("disc").evaluate(
        """(places) => Object.fromEntries(Object.entries(OPERATIONS).map(([name, operation]) =>
            [name, [operation.length, places.map((p) => Number(operation(...p)))]]))""",
        places.tolist(),
    )
    assert set(found) == set(OPERATIONS)
    for name, (number, values) in found.items():
        np.testing.assert_allclose(
            values, OPERATIONS[name](*places.T[:number]), rtol=1e-5, err_msg=name
        )


# --- iso-surfaces ---------------------------------------------------------------------------------


def solids(page):
    """Of every surface: its level, the number of its vertices, and forty of them as coordinates
    of all axes."""
    drawn(page)
    found = page.evaluate(
        """() => separaxViewer.solids.map(({ level, places }) => {
            const { axes, point, solidAxes } = separaxViewer;
            const vertices = Array.from({ length: 40 }, (_, n) => {
                const at = 3 * Math.floor((n * places.length) / 3 / 40);
                const vertex = [...point];
                solidAxes.forEach((axis, i) => {
                    const { low, high } = axes[axis];
                    vertex[axis] = low + places[at + i] * (high - low);
                });
                return vertex;
            });
            return [level, places.length / 3, vertices];
        })"""
    )
    return [(level, number, np.array(vertices)) for level, number, vertices in found]


def coloured(page):
    """How many pixels of the main canvas are neither empty nor grey, as lines and words are."""
    return page.evaluate(
        """() => {
            const canvas = document.querySelector("#viewer canvas.main");
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            let count = 0;
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] && Math.abs(data[i] - data[i + 1]) > 20) count += 1;
            }
            return count;
        }"""
    )


@pytest.mark.parametrize("kind", ["system", "system with cores"])
def test_an_iso_surface_lies_on_its_level(opened, solutions, kind):
    page = opened(kind)
    level = page.get_by_label("level", exact=True)
    assert not level.is_visible()
    page.get_by_role("slider", name="t", exact=True).fill("0.9")
    page.get_by_label("view", exact=True).select_option(label="iso-surface")
    for name in ("u", "speed"):
        page.get_by_label("field", exact=True).select_option(label=name)
        found = solids(page)
        scale = page.evaluate("Math.max(...separaxViewer.output.range.map(Math.abs))")
        assert len(found) == (
            2 if name == "u" else 1
        )  # a field with a sign has a surface on either side
        for value, number, vertices in found:
            assert number > 300
            assert set(vertices[:, 0]) == {0.9}
            true = np.asarray(solutions[kind].at(vertices)[name])
            assert np.abs(true - value).max() < 2e-3 * scale
    assert found[0][0] == pytest.approx(page.evaluate("separaxViewer.state.level"))


def test_the_level_and_the_keys_change_the_surface(opened):
    page = opened("system", color_scheme="dark")
    page.get_by_label("view", exact=True).select_option(label="iso-surface")
    first = picture(page)
    assert coloured(page) > 1000
    level = page.get_by_label("level", exact=True)
    level.focus()
    before = float(level.input_value())
    page.keyboard.press("PageDown")
    assert float(level.input_value()) < before
    second = picture(page)
    page.locator("#viewer canvas.main").focus()
    page.keyboard.press("ArrowLeft")
    third = picture(page)
    assert len({first, second, third}) == 3
    assert "± " in page.locator("#viewer canvas.main").get_attribute("aria-label")


def test_surfaces_are_whole_and_end_where_the_domain_does(opened):
    """A sphere has the area of a sphere, and half of one half of it: nothing is missing, nothing is
    there twice."""
    areas = opened("disc").evaluate(
        """() => [false, true].map((half) => {
            const n = 31;
            const values = Float32Array.from({ length: n ** 3 }, (_, i) => {
                const place = (along) => (Math.floor(i / along) % n) / (n - 1) - 0.5;
                const [x, y, z] = [n * n, n, 1].map(place);
                return half && x > 0 ? NaN : x * x + y * y + z * z;
            });
            const { places } = surfaceOf(values, n, 0.16);
            let area = 0;
            for (let at = 0; at < places.length; at += 9) {
                const [a, b, c] = [0, 3, 6].map((i) => [0, 1, 2].map((j) => places[at + i + j]));
                const [u, v] = [b, c].map((p) => p.map((x, i) => x - a[i]));
                const normal = [0, 1, 2].map((i) => {
                    const [j, k] = [(i + 1) % 3, (i + 2) % 3];
                    return u[j] * v[k] - u[k] * v[j];
                });
                area += Math.hypot(...normal) / 2;
            }
            return area;
        })"""
    )
    np.testing.assert_allclose(areas, [4 * np.pi * 0.16, 2 * np.pi * 0.16], rtol=0.01)


def test_sliders_keys_and_choices_change_the_picture(opened, solutions):
    page = opened("system")
    before, (value, _, _) = picture(page), said(page)
    page.get_by_role("slider", name="t", exact=True).fill("0.9")
    after = picture(page)
    assert after != before
    moved, point, where = said(page)
    assert moved != value
    assert "t = 0.9" in where
    true = solutions["system"].at(np.array([point]))["u"][0]
    assert moved == pytest.approx(float(true), rel=1e-4, abs=1e-5)
    page.locator("#viewer canvas.main").focus()
    page.keyboard.press("Shift+ArrowRight")
    assert said(page)[1][2] == pytest.approx(point[2] + 0.2)
    seen = {picture(page)}
    for label, choice in [
        ("field", "v"),
        ("colours", "coolwarm"),
        ("range", "this slice"),
        ("across", "t"),
        ("view", "surface"),
        ("view", "stacked slices"),
        ("view", "iso-surface"),
    ]:
        page.get_by_label(label, exact=True).select_option(label=choice)
        seen.add(picture(page))
    assert len(seen) == 8
    page.locator("#viewer canvas.main").focus()
    page.keyboard.press("ArrowLeft")
    assert picture(page) not in seen  # turned


def test_the_range_can_be_set_by_hand(opened):
    page = opened("system")
    before = picture(page)
    page.get_by_label("range").select_option("hand")
    page.get_by_label("high").fill("7.5")
    page.keyboard.press("Tab")
    assert picture(page) != before
    assert page.evaluate("separaxViewer.range().high") == 7.5


def test_time_plays_and_stops(opened):
    page = opened("system")
    page.get_by_role("button", name="play t").click()
    page.evaluate(
        """() => new Promise((done) => {
            setInterval(() => separaxViewer.point[0] > 0.02 && done(), 20);
        })"""
    )
    page.get_by_role("button", name="pause t").click()
    drawn(page)
    stopped = page.evaluate("separaxViewer.point[0]")
    drawn(page)
    assert page.evaluate("separaxViewer.point[0]") == stopped


def test_the_value_under_the_pointer(opened, solutions):
    page = opened("disc")
    canvas = page.locator("#viewer canvas.main")
    canvas.scroll_into_view_if_needed()
    box, inner = canvas.bounding_box(), page.evaluate("separaxViewer.box")
    page.mouse.move(
        box["x"] + inner["left"] + 0.25 * inner["width"],
        box["y"] + inner["top"] + 0.5 * inner["height"],
    )
    value, point, _ = said(page)
    np.testing.assert_allclose(point, [-0.5, 0], atol=0.02)
    assert value == pytest.approx(
        float(solutions["disc"].at(np.array([point]))[0]), rel=1e-5, abs=1e-5
    )
    page.mouse.move(
        box["x"] + inner["left"] + 2, box["y"] + inner["top"] + 2
    )  # a corner of the box is not in the disc
    drawn(page)
    assert "outside" in canvas.locator("xpath=..").locator("output").inner_text()


@pytest.mark.parametrize("name", ["system", "disc", "pointwise"])
def test_a_phone_shows_it_all(opened, name):
    page = opened(name, width=390, is_mobile=True, has_touch=True, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_name_is_a_name(opened):
    page = opened("system")
    assert page.evaluate("window.evil") is None
    assert page.locator("h1").inner_text() == EVIL
    assert page.title() == EVIL


def test_a_pointwise_network_has_its_slices(opened):
    page = opened("pointwise")
    assert page.locator("#viewer").count() == 0
    assert page.locator(".slices image").count() == 3  # solution, reference, difference


def test_every_control_has_a_name(opened):
    page = opened("system")
    unnamed = page.evaluate(
        """[...document.querySelectorAll("#viewer select, #viewer input, #viewer button")].filter(
            (c) => !c.labels?.length && !c.ariaLabel && !c.getAttribute("aria-label")
        ).length"""
    )
    assert unnamed == 0
