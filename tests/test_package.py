"""The package as others get it: a wheel, an sdist, an empty environment, the versions it works with."""

import inspect
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import typing
import venv
import zipfile
from pathlib import Path

import public_surface
import pytest

import separax as sx

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SDIST = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
SOLVE = """
import json, sys
import separax as sx
problem = sx.Problem(sx.Box(x=(0, 1)), lambda u: u.x - u, [sx.Dirichlet(1, on="x-")])
found = sx.solve(problem, progress=False)
found.save("run")
sx.load("run").export("line.csv", points=3)
print(json.dumps([sx.__file__, float(found(x=1.0)), sx.__version__]))
"""


def names(text):
    """The package in front of a requirement's versions."""
    return re.match(r"[\w-]+(\[\w+\])?", text)[0]


def test_the_lowest_versions_are_those_that_are_allowed():
    lines = (ROOT / "tests/lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if not line.startswith("#"))
    allowed = dict(line.split(">=") for line in PROJECT["project"]["dependencies"])
    assert list(lowest) == list(allowed)
    for name, version in allowed.items():
        assert f"{lowest[name]}.".startswith(f"{version}.")


def test_extras_are_explained():
    text = (ROOT / "docs/install.md").read_text()
    table = text[text.index("| extra |") :].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    extras = PROJECT["project"]["optional-dependencies"]
    assert {row[0].strip("`"): set(re.findall("`(.*?)`", row[1])) for row in rows} == {
        extra: set(map(names, packages)) for extra, packages in extras.items()
    }


# --- types ---------------------------------------------------------------------------------------------


def test_the_whole_public_surface_is_checked_strictly():
    """`make check` finds no fault in a program that uses all of it."""
    text = Path(public_surface.__file__).read_text()
    assert text.startswith("# pyright: strict")
    assert {f"sx.{name}" for name in sx.__all__} <= set(re.findall(r"sx\.\w+", text))
    assert "tests/public_surface.py" in PROJECT["tool"]["pyright"]["include"]
    assert public_surface.problems().names
    assert len(public_surface.recipes()) > 10
    for one in typing.get_overloads(inspect.unwrap(sx.solve)):
        assert list(inspect.signature(one).parameters) == list(
            inspect.signature(sx.solve).parameters
        )


def test_what_takes_long_to_import_waits_for_its_first_use():
    """`import scipy` loads its parts when they are asked for; matplotlib and rich are imported by
    the functions that draw. The commands and the paper are not imported with the package."""
    late = re.compile(
        r"^(?:import (?:scipy\.|matplotlib|rich)|from (?:scipy|matplotlib|rich)\b).*", re.M
    )
    for path in (ROOT / "separax").rglob("*.py"):
        if path.relative_to(ROOT / "separax").parts[0] not in ("cli", "paper"):
            assert not late.findall(path.read_text()), path


# --- built and installed -----------------------------------------------------------------------------


def run(*words, cwd):
    """A command without this process' paths; the test is skipped where no package can be fetched."""
    apart = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=apart, capture_output=True, text=True, check=False
    )
    if "Failed to establish a new connection" in done.stderr or "No matching" in done.stderr:
        pytest.skip("pip reaches no package index: connect to one, or set PIP_INDEX_URL")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder):
    """A fresh virtual environment: its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel of the repository, an sdist, and a wheel of that."""
    place = tmp_path_factory.mktemp("built")
    for folder in ("wheel", "sdist", "again"):
        (place / folder).mkdir()
    make = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir")
    run(*make, place / "wheel", ROOT, cwd=place)
    python = environment(place / "builder")
    run(python, "-m", "pip", "install", "--quiet", "hatchling", cwd=place)
    run(python, "-c", SDIST, place / "sdist", cwd=ROOT)
    (sdist,) = (place / "sdist").iterdir()
    run(*make, place / "again", sdist, cwd=place)
    (wheel,), (again,) = (place / "wheel").iterdir(), (place / "again").iterdir()
    return wheel, sdist, again


def contents(wheel):
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.whole
def test_an_sdist_makes_the_same_wheel(built):
    wheel, sdist, again = built
    assert contents(wheel) == contents(again)
    with tarfile.open(sdist) as file:
        assert any(name.endswith("/LICENSE") for name in file.getnames())


@pytest.mark.whole
def test_the_wheel_is_the_package_and_all_of_it(built):
    inside = {name for name in contents(built[0]) if ".dist-info/" not in name}
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "separax").rglob("*")}
    assert inside == {
        name for name in package if (ROOT / name).is_file() and "__pycache__" not in name
    }
    assert "separax/py.typed" in inside


@pytest.mark.whole
def test_the_wheel_alone_solves_in_an_empty_environment(built, tmp_path):
    python = environment(tmp_path / "empty")
    run(python, "-m", "pip", "install", "--quiet", built[0], cwd=tmp_path)
    file, value, version = json.loads(run(python, "-c", SOLVE, cwd=tmp_path))
    assert Path(file).is_relative_to(tmp_path / "empty")
    assert value == pytest.approx(2.718281828, rel=1e-4)
    assert len((tmp_path / "line.csv").read_text().splitlines()) == 4
    said = run(python.parent / "separax", "--version", cwd=tmp_path)
    assert version in said
    assert "helmholtz" in run(python, "-m", "separax", "list", cwd=tmp_path)
