"""Every example runs, and its header says what it is, what it costs and what comes out."""

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[a-z]*.py"))
RECORDS = json.loads((ROOT / "results/cpu/examples.json").read_text())
STEPS = 4


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.whole
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs_at_a_small_size(path):
    """It gives the figures that are recorded of it, and after so few steps a larger error."""
    found = load(path).main(steps=STEPS)
    recorded = RECORDS[path.stem]["found"]
    assert list(found) == list(recorded)
    assert all(math.isfinite(value) for value in found.values())
    for name in found:
        if name.startswith("relative_l2"):
            assert found[name] > recorded[name]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_header_says_what_is_recorded(path):
    header = load(path).__doc__
    record = RECORDS[path.stem]
    assert f"    {record['command']}\n" in header
    assert record["command"] == f"python examples/{path.name}"
    said = re.search(
        r"About (\d+) s of CPU time, compiling included; relative L2 error about ([\de-]+)\.",
        header,
    )
    assert int(said[1]) == round(record["cpu_seconds"])
    worst = max(value for name, value in record["found"].items() if name.startswith("relative_l2"))
    assert float(said[2]) == float(f"{worst:.0e}")


def test_there_is_a_record_of_every_example():
    assert sorted(RECORDS) == [path.stem for path in EXAMPLES]
    assert len(EXAMPLES) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_reaches_its_error_at_full_size(path):
    found = load(path).main()
    for name, value in RECORDS[path.stem]["found"].items():
        if name.startswith("relative_l2"):
            assert found[name] < 2 * value
