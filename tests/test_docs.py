"""Every block of Python in the README and the docs runs as printed; every table is what the records say."""

import re
from pathlib import Path

import pytest

from separax.reproduce.records import collect
from separax.reproduce.showing import documents, rows_of
from separax.reproduce.tables import stale

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {page: re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=lambda page: page.name)
def test_blocks_run_as_printed(page):
    exec(compile("\n".join(BLOCKS[page]), str(page), "exec"), {"__name__": "__docs__"})


def test_the_readme_and_the_guide_have_blocks():
    assert BLOCKS[ROOT / "README.md"]
    assert BLOCKS[ROOT / "docs" / "index.md"]


def test_tables_are_what_the_records_say():
    """Made anew by: separax reproduce --show --out results/h200/rows --into README.md --into docs/paper.md"""
    records, damaged = collect(ROOT / "results" / "h200" / "rows")
    assert not damaged
    tables = documents(rows_of((), records))
    for page in PAGES:
        assert stale(page, tables) == []
