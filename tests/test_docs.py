"""Every block of Python in the README and the docs runs as printed; every command is one; every table is what the records say.

Text stays as a user would type it. The tests of whole pages run it with few steps: `sx.solve` is replaced by one that cuts the recipe short
(`few_steps`), and XLA is asked to compile without optimising. What a comment says of shapes, "array (50, 40)", is checked
then; what it says of sizes, "about 1e-3", at full size, by the slow test.
"""

import ast
import json
import math
import re
import shlex
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import typer

import separax as sx
from separax.cli import problems as files
from separax.cli.app import app
from separax.paper.catalogue import CATALOGUE
from separax.paper.reproduce.records import collect
from separax.paper.reproduce.rows import compare
from separax.paper.reproduce.showing import filled
from separax.paper.reproduce.tables import documents

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = {page: FENCE.findall(page.read_text()) for page in PAGES}
WITH_PYTHON = [page for page in PAGES if any(language == "python" for language, _ in BLOCKS[page])]
STEPS = 20  # of a run that is cut short
USAGE = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError"
)  # the parser's word for a wrong command


def name_of(page):
    return str(page.relative_to(ROOT))


# --- Python ----------------------------------------------------------------------------------------------------------


class Noted(ast.NodeTransformer):
    """Turns the lines `expression  # comment` of a page into `_note(expression, comment)`."""

    def __init__(self, lines):
        self.lines = lines

    def visit_Expr(self, node):
        comment = re.search(r"#\s*(.*)$", self.lines[node.end_lineno - 1])
        if comment is None:
            return node
        call = ast.Call(ast.Name("_note", ast.Load()), [node.value, ast.Constant(comment[1])], [])
        return ast.copy_location(ast.Expr(call), node)


def run_page(page, note):
    """All blocks of a page in one namespace, with `note` told of every value that has a comment beside it."""
    text = page.read_text()
    lines = [""] * (text.count("\n") + 1)
    for found in FENCE.finditer(text):
        if found[1] == "python":  # at their own lines, so that errors name those
            start = text.count("\n", 0, found.start(2))
            lines[start : start + found[2].count("\n")] = found[2].splitlines()
    tree = ast.fix_missing_locations(Noted(lines).visit(ast.parse("\n".join(lines))))
    exec(compile(tree, str(page), "exec"), {"__name__": "__docs__", "_note": note})


@pytest.fixture
def somewhere(tmp_path, monkeypatch):
    """Pages may write files, and draw without a screen."""
    monkeypatch.chdir(tmp_path)
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    matplotlib.use(before)


@pytest.fixture
def few_steps(monkeypatch):
    whole = sx.solve

    def solve(problem, recipe=None, **options):
        if "tolerance" in options:  # knows itself when it is done, and that is soon
            return whole(problem, **options)
        recipe = recipe or sx.Recipe()
        return whole(problem, recipe.with_steps(min(recipe.total_steps, STEPS)), **options)

    monkeypatch.setattr(sx, "solve", solve)


@pytest.mark.whole
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_blocks_run_as_printed(page, somewhere, few_steps):
    def note(value, comment):
        if said := re.search(r"array (\([\d, ]*\))", comment):
            assert np.shape(value) == ast.literal_eval(said[1]), comment
        if "rounding" in comment or comment == "exactly 0":
            assert abs(value) < (1e-5 if "rounding" in comment else 1e-300), comment
        if re.fullmatch(
            r"(\d+|[(\[].*[)\]])(:.*)?", comment
        ):  # 3, (2, (20, 20)) or ['a', 'b']: the value itself
            said = ast.literal_eval(comment.partition(":")[0])
            assert (value if not isinstance(value, np.ndarray) else value.tolist()) == said, comment

    run_page(page, note)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in WITH_PYTHON if "# " in page.read_text()], ids=name_of
)
def test_figures_are_those_of_a_full_run(page, somewhere):
    """At most three times what is said, and no less than a tenth: other machines round otherwise, and so train otherwise."""
    wrong = []

    def note(value, comment):
        if said := re.search(r"about ([\d.e-]+)", comment):
            print(f"{name_of(page)}: {comment}: {float(value):.3g}")
            if not 0.1 * float(said[1]) <= float(value) <= 3 * float(said[1]):
                wrong.append(f"{comment}: {float(value):.3g}")

    run_page(page, note)
    assert not wrong


def test_pages_have_blocks_and_are_all_in_the_navigation():
    assert len(WITH_PYTHON) > 12
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2]
    listed = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES[1:])


# --- commands --------------------------------------------------------------------------------------------------------


def commands():
    for page in PAGES:
        for language, block in BLOCKS[page]:
            if language == "sh":
                for line in block.splitlines():
                    if words := shlex.split(line, comments=True):
                        yield pytest.param(words, id=f"{name_of(page)}: {' '.join(words)}")


@pytest.mark.parametrize("words", list(commands()))
def test_commands_are_understood(words):
    """Parsed as the command line would, without running: unknown options, missing arguments and wrong types are refused."""
    program, *rest = words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert rest[0] in targets
    elif program == "python" and rest[0].endswith(".py"):
        assert (ROOT / rest[0]).is_file()
    elif program == "python":
        assert rest[0] in ("-m", "-c")
    else:
        assert program == "separax"
        if not rest:  # says what to type
            return
        command = typer.main.get_command(app).commands[rest[0]]
        context = command.make_context(rest[0], rest[1:])
        for problem in [context.params.get("problem"), *(context.params.get("problems") or [])]:
            assert problem is None or problem in CATALOGUE or files.is_file(problem)


@pytest.mark.parametrize(
    ("page", "name"), [("README.md", "klein_gordon"), ("docs/start.md", "heat")]
)
def test_the_lines_of_a_page_are_a_file_that_can_be_solved(tmp_path, page, name):
    """`separax solve mine.py` with what the page shows first."""
    (tmp_path / "mine.py").write_text(
        next(block for language, block in BLOCKS[ROOT / page] if language == "python")
    )
    found = files.asked(str(tmp_path / "mine.py"))
    assert found.problem.name == name
    assert files.asked(f"{tmp_path / 'mine.py'}:problem").problem.name == name
    assert (found.recipe is None) == (page == "README.md")


def test_a_wrong_command_is_not_understood():
    for words in (
        ["separax", "solve", "helmholtz", "--stepz", "3"],
        ["separax", "solve", "hemholtz"],
        ["separax", "rank"],
    ):
        with pytest.raises((AssertionError, USAGE)):
            test_commands_are_understood(words)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_tables_are_what_the_records_say():
    """Made anew by: separax reproduce --show --out results/h200/rows --into docs/paper.md"""
    records, damaged = collect(ROOT / "results" / "h200" / "rows")
    assert not damaged
    tables = documents({name: compare(name, records) for name in CATALOGUE}, records)
    for page in PAGES:
        assert filled(page, tables) == page.read_text()


def table_rows(page, *first):
    """The cells of the table whose first columns are headed `first`."""
    text = (ROOT / page).read_text()
    block = text[text.index(f"| {' | '.join(first)} |") :].partition("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]
    ]


def test_classical_solvers_are_as_recorded():
    classical = json.loads((ROOT / "results/cpu/classical.json").read_text())["rows"]
    shown = table_rows("docs/understand/when-not.md", "problem")
    assert [row[0] for row in shown] == list(classical)
    for problem, method, error, seconds, network, training in shown:
        ours = json.loads(
            (ROOT / f"results/cpu/solve_{problem.replace('-', '_')}.json").read_text()
        )
        row = classical[problem]
        assert [method, error, seconds] == [
            row["method"],
            f"{row['relative_l2']:.0e}",
            f"{row['seconds']:.2g} s",
        ]
        assert [network, training] == [
            f"{ours['relative_l2']:.1e}",
            f"{ours['compile_seconds'] + ours['train_seconds']:.0f} s",
        ]


def solved(problem, device):
    """The error and the seconds of a recorded `separax solve PROBLEM`; dashes where there is none."""
    record = ROOT / f"results/{device}/solve_{problem.replace('-', '_')}.json"
    if not record.exists():
        return ["–", "–"]
    found = json.loads(record.read_text())
    assert found["problem"] == problem
    seconds = found["compile_seconds"] + found["train_seconds"]
    return [f"{found['relative_l2']:.1e}".replace("e-0", "e-"), f"{seconds:.0f} s"]


def test_solves_are_as_recorded():
    rows = table_rows("docs/understand/measured.md", "problem", "paper's best")
    assert sorted(row[0] for row in rows) == sorted(CATALOGUE)
    for problem, _, *cells in rows:
        assert cells == [*solved(problem, "cpu"), *solved(problem, "h200")]


def test_the_readme_begins_with_a_picture_and_its_result():
    readme = (ROOT / "README.md").read_text()
    first = readme.partition("\n## ")[0]
    (picture,) = re.findall(r"!\[.+\]\((.+)\)", first)
    data = (ROOT / picture).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 200_000
    error, seconds = solved("flow-mixing", "cpu")
    assert f"error of {error}" in first
    assert f"{seconds.removesuffix(' s')} seconds on two CPU cores" in first
    assert len(readme.splitlines()) <= 120


def test_the_study_is_as_recorded():
    """Made anew by: python benchmarks/study.py --draw docs/pictures --page docs/understand/study.md"""
    methods = ("paper", "adam", "soap", "lbfgs", "gauss-newton", "solve")
    shown = table_rows("docs/understand/study.md", "problem", "the paper's recipe")
    records = {path.stem for path in (ROOT / "results/cpu/study").glob("*.json")}
    assert records == {f"{row[0]}-{method}" for row in shown for method in methods}
    for name, *cells in shown:
        for cell, method in zip(cells, methods, strict=True):
            record = json.loads((ROOT / "results/cpu/study" / f"{name}-{method}.json").read_text())
            assert cell == f"{record['relative_l2']:.0e}, {record['seconds']:.0f} s"
        assert (ROOT / f"docs/pictures/study-{name}.svg").exists()


def test_estimates_are_as_recorded_and_honest():
    """Made anew by: python benchmarks/estimates.py --out results/cpu/estimates.json --page docs/understand/measured.md"""
    rows = json.loads((ROOT / "results/cpu/estimates.json").read_text())["rows"]
    shown = table_rows("docs/understand/measured.md", "without a recipe")
    assert len(shown) == len(rows)
    for row, cells in zip(rows, shown):
        estimate = math.inf if row["estimate"] is None else row["estimate"]
        numbers = [row["tolerance"], row["relative_l2"], estimate]
        assert cells[0] == row["problem"]
        assert [float(cell) for cell in cells[1:4]] == [
            float(f"{number:.0e}") for number in numbers
        ]
        assert cells[4] == f"{row['seconds']:.0f} s"
        assert estimate >= row["relative_l2"]


def test_examples_are_as_recorded():
    records = json.loads((ROOT / "results/cpu/examples.json").read_text())
    shown = table_rows("docs/examples.md", "script")
    assert sorted(row[0].strip("`") for row in shown) == sorted(f"{name}.py" for name in records)
    for script, _, error, seconds in shown:
        record = records[script.strip("`").removesuffix(".py")]
        assert (
            error
            == f"{max(v for k, v in record['found'].items() if k.startswith('relative_l2')):.0e}"
        )
        assert seconds == f"{record['cpu_seconds']:.0f} s"
