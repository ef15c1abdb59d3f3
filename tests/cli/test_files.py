"""Problems in files of users, as the command line reads them."""

import json
import subprocess
import sys
import textwrap

import pytest

import separax as sx
from separax.cli import problems as files
from separax.cli.problems import prepare

HEAD = """
    from __future__ import annotations
    import separax as sx

    box = sx.Box(x=(0, 1))
    exact = lambda x: x * (1 - x)
    heat = sx.Problem(box, lambda u: u.xx + 2, [sx.Dirichlet(0)], reference=exact, name="heat")
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a file of so many lines, and goes where it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(lines="", name="mine.py", head=HEAD):
        (tmp_path / name).write_text(textwrap.dedent(head) + textwrap.dedent(lines))
        return name

    yield write
    for module in ("mine.py", "neighbour"):
        sys.modules.pop(module, None)


# --- what a file asks for -------------------------------------------------------------------------


def test_what_a_script_solves_is_asked_for_and_the_rest_of_it_is_not_run(written, tmp_path):
    file = written("""
        how = sx.Recipe(points=7)
        found = sx.solve(heat, how, windows=1, warm=True)
        open("drawn", "w").write(str(found))
    """)
    found = files.asked(file)
    assert (found.problem.name, found.recipe) == ("heat", sx.Recipe(points=7))
    assert found.options == {"windows": 1, "warm": True}
    assert not (tmp_path / "drawn").exists()


def test_a_script_cannot_catch_the_end_of_its_reading(written):
    file = written("""
        try:
            sx.solve(heat)
        except Exception:
            other = sx.Problem(box, lambda u: u.xx, [sx.Dirichlet(0)])
            sx.solve(other)
    """)
    assert files.asked(file).problem.name == "heat"


@pytest.mark.whole
def test_solve_solves_again_when_a_file_was_read(written):
    found = files.asked(written("sx.solve(heat)"))
    assert isinstance(sx.solve(found.problem, progress=False), sx.Solution)


@pytest.mark.parametrize(
    ("lines", "name", "points"),
    [
        ("", "heat", None),
        ("recipe = sx.Recipe(points=9)", "heat", 9),
        ("recipe = 'flour and water'", "heat", None),
        ("same = heat", "heat", None),
        (
            "problem = sx.Problem(box, lambda u: u.xx, [sx.Dirichlet(0)], name='chosen')",
            "chosen",
            None,
        ),
        ("if __name__ == '__main__':\n            sx.solve(None)", "heat", None),
    ],
    ids=["one", "recipe", "no recipe", "one by two names", "called problem", "main"],
)
def test_a_file_that_solves_nothing_has_its_problem_solved(written, lines, name, points):
    found = files.asked(written(f"\n        {lines}\n"))
    assert found.problem.name == name
    assert (found.recipe and found.recipe.points) == points


def test_one_of_several_is_named(written):
    file = written("""
        wave = sx.Problem(box, lambda u: u.xx, [sx.Dirichlet(0)], name="wave")
        def made(): return wave
        recipe = sx.Recipe(points=9)
        sx.solve(heat)
    """)
    assert files.asked(f"{file}:wave").problem.name == "wave"
    assert files.asked(f"{file}:made").problem.name == "wave"
    assert files.asked(f"{file}:wave").recipe.points == 9


def test_a_file_imports_its_neighbours_and_makes_dataclasses(written):
    written("length = 3.0", "neighbour.py", head="")
    file = written("""
        import dataclasses
        from neighbour import length

        @dataclasses.dataclass
        class Rod:
            length: float

        problem = sx.Problem(sx.Box(x=(0, Rod(length).length)), lambda u: u.xx, [sx.Dirichlet(0)])
    """)
    assert files.asked(file).problem.box["x"] == (0.0, 3.0)


@pytest.mark.parametrize(
    ("lines", "asked", "words"),
    [
        ("wave = sx.Problem(box, lambda u: u.xx)", "mine.py", "write mine.py:heat or mine.py:wave"),
        ("del heat", "mine.py", "mine.py has no Problem"),
        ("", "mine.py:heet", "Did you mean 'heat'?"),
        ("", "mine.py:box", "mine.py:box is no Problem"),
        ("def made(n): return heat", "mine.py:made", "called without arguments"),
        ("", "yours.py", "yours.py: there is no such file"),
        ("x = (", "mine.py", "line 9: this is not Python: '(' was never closed"),
        ("x = '\\0'".replace("\\0", "\0"), "mine.py", "this is not Python"),
        ("sx.Problem(box, lambda u: u.yy)", "mine.py", "mine.py, line 9: u.yy: there is no axis"),
        ("import nowhere", "mine.py", "line 9: ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(): return 1 / 0\n        f()", "mine.py", "line 9: ZeroDivisionError"),
        ("raise SystemExit(3)", "mine.py", "line 9: it ends itself"),
        ("sx.solve(heat, 'well')", "mine.py", "mine.py, line 9: solve: recipe must be a Recipe"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_its_line(written, lines, asked, words):
    written(f"\n        {lines}\n")
    with pytest.raises(sx.InputError) as refusal:
        files.asked(asked)
    assert words in str(refusal.value)


# --- with the options of the command line ---------------------------------------------------------


def test_without_a_recipe_and_options_a_file_is_solved_to_a_tolerance(written):
    found = prepare(written("sx.solve(heat, tolerance=1e-6)"), None, None)
    assert (found.name, found.title, found.recipe, found.origin) == (
        "heat",
        "mine",
        None,
        "automatic",
    )
    assert found.options["tolerance"] == 1e-6


@pytest.mark.parametrize(
    "changes", [{"points": 9}, {"steps": 70}, {"precision": "float64"}, {"network": "pinn"}]
)
def test_an_option_asks_for_a_network_to_be_trained(written, changes):
    found = prepare(written("sx.solve(heat, tolerance=1e-6)"), None, **{"network": None, **changes})
    assert "tolerance" not in found.options
    assert found.origin == "default"
    for name, value in changes.items():
        expected = sx.PINN(body="mlp") if name == "network" else value
        assert getattr(found.recipe, name) == expected


def test_options_change_the_recipe_of_a_file(written):
    file = written("recipe = sx.Recipe(sx.SPINN(rank=5), points=9, steps=100)")
    found = prepare(file, None, None, steps=30)
    assert found.recipe == sx.Recipe(sx.SPINN(rank=5), points=9, steps=30)
    assert found.origin == "file"


def test_what_is_for_the_catalogue_is_refused_for_a_file(written, tmp_path):
    with pytest.raises(sx.InputError, match="--recipe: paper is for problems of the catalogue"):
        prepare(written(), "paper", None)
    with pytest.raises(sx.InputError, match="--initial is for navier-stokes"):
        prepare(written(), None, None, initial=tmp_path / "flow.npz")
    with pytest.raises(
        sx.InputError,
        match=r"or a file of yours, FILE.py; got 'helmholz'. Did you mean 'helmholtz'\?",
    ):
        prepare("helmholz", None, None)


@pytest.mark.whole
def test_the_command_line_solves_a_file(written, tmp_path):
    command = [
        sys.executable,
        "-m",
        "separax",
        "solve",
        written("sx.solve(heat)"),
        "--tolerance",
        "1e-9",
        "--json",
        "--out",
        "run",
    ]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert (result["problem"], result["recipe"]) == ("heat", "automatic")
    assert result["relative_l2"] < 1e-9
    assert "estimated error" in found.stderr
    assert sx.load(tmp_path / "run").relative_l2(lambda x: x * (1 - x)) < 1e-9
