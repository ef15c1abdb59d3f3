"""The report's page, opened in a browser: it draws, it answers, and what it says is the solution."""

import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained, untrained_march

import separax as sx
from separax.report.page import write_report
from separax.report.record import record

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")

SMALL = sx.Recipe(sx.SPINN(rank=4, width=8, depth=1), points=6, steps=50)
EVIL = "<script>window.evil = true</script>"


def system():
    """Two fields, a linear and a nonlinear quantity of them, in windows of time, with a name that wants to be a script."""
    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(0, 2), z=(-2, 2)),
        lambda u, v: {"one": u.t - u.xx - v.y, "two": v.t - u.x},
        [sx.Initial(lambda x, y: jnp.sin(x + y), of="u"), sx.Initial(lambda x: jnp.cos(x), of="v")],
        fields=("u", "v"),
        derived={"w": lambda u, v: 0.5 + v.x - u.y, "speed": lambda u, v: u**2 + v**2},
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


@pytest.fixture(scope="module")
def solutions():
    return {
        "system": untrained_march(system(), SMALL, windows=2),
        "disc": sx.solve(disc(), SMALL, progress=False),
        "pointwise": untrained(disc(), sx.Recipe(sx.PINN(width=8, depth=1))),
    }


@pytest.fixture(scope="module")
def pages(solutions, tmp_path_factory):
    out = {}
    for name, solution in solutions.items():
        folder = tmp_path_factory.mktemp(name)
        out[name] = write_report(solution, folder, record(solution))
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
        page.on("console", lambda said: page.trouble.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: page.trouble.append(asked.url) if asked.url.startswith("http") else None)
        page.goto(pages[name].as_uri())
        drawn(page)
        return page

    yield open_page
    for context in contexts:
        assert [p.trouble for p in context.pages] == [[]]
        context.close()


def drawn(page):
    """Waits until everything that was asked for is on the screen."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(page):
    drawn(page)
    return page.evaluate("document.querySelector('#viewer canvas.main').toDataURL()")


def said(page):
    """The value and the place that the page tells."""
    drawn(page)
    value, where = page.locator("#viewer output.value").inner_text().replace("−", "-").split(" at ")
    return float(value.split("=")[1]), page.evaluate("separaxViewer.point"), where


def test_values_are_those_of_the_solution(opened, solutions):
    page, solution = opened("system"), solutions["system"]
    points = np.random.default_rng(0).uniform(0, 1, (40, 4)) * [1, 2, 2, 4] + [0, -1, 0, -2]
    points[0, 0] = solution.edges[1]  # where two windows meet, the first one counts
    true = solution.at(points)
    outputs = page.evaluate("separaxViewer.factors.outputs.map((o) => o.name)")
    assert outputs == ["u", "v", "w"]  # `speed` is no sum of products of the factors
    for i, name in enumerate(outputs):
        found = page.evaluate(
            "([i, points]) => points.map((p) => separaxViewer.factors.value(separaxViewer.factors.outputs[i], p))",
            [i, points.tolist()],
        )
        np.testing.assert_allclose(found, true[name], atol=1e-5 * float(np.max(np.abs(true[name]))))


@pytest.mark.parametrize(("across", "up"), [(1, 3), (3, 1), (0, 2), (2, 0)])
def test_slices_and_lines_agree_with_the_solution(opened, solutions, across, up):
    page, solution = opened("system"), solutions["system"]
    held = {"t": 0.7, "x": 0.3, "y": 1.1, "z": -0.4}
    names = list(held)
    slice_, line = page.evaluate(
        """([across, up, point]) => {
            const { factors } = separaxViewer;
            const out = factors.slice(factors.outputs[2], across, up, point, new Float32Array(GRID * GRID));
            return [Array.from(out), Array.from(factors.line(factors.outputs[2], across, point))];
        }""",
        [across, up, list(held.values())],
    )
    box = solution.problem.box
    shown = {names[i]: np.linspace(*box[names[i]], 256) for i in (across, up)}
    true = np.asarray(solution(**{**held, **shown})["w"])
    true = true if across < up else true.T
    scale = float(np.max(np.abs(true)))
    np.testing.assert_allclose(np.reshape(slice_, (256, 256)), true, atol=1e-5 * scale)
    along = np.asarray(solution(**{**held, names[across]: shown[names[across]]})["w"])
    np.testing.assert_allclose(line, along, atol=1e-5 * scale)


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
    ]:
        page.get_by_label(label, exact=True).select_option(label=choice)
        seen.add(picture(page))
    assert len(seen) == 7
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
    page.evaluate("() => new Promise((done) => setInterval(() => separaxViewer.point[0] > 0.02 && done(), 20))")
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
    page.mouse.move(box["x"] + inner["left"] + 0.25 * inner["width"], box["y"] + inner["top"] + 0.5 * inner["height"])
    value, point, _ = said(page)
    np.testing.assert_allclose(point, [-0.5, 0], atol=0.02)
    assert value == pytest.approx(float(solutions["disc"].at(np.array([point]))[0]), rel=1e-5, abs=1e-5)
    page.mouse.move(box["x"] + inner["left"] + 2, box["y"] + inner["top"] + 2)  # a corner of the box is not in the disc
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
        "[...document.querySelectorAll('#viewer select, #viewer input, #viewer button')].filter((c) => !c.labels?.length && !c.ariaLabel && !c.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
