"""How a benchmark keeps what it measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from separax.solution.record import environment


def keep(out: str, found: dict[str, Any]) -> None:
    """Writes what was found with command, versions and device to a file, or to standard output for
    "-"."""
    text = (
        json.dumps({"command": " ".join(["python", *sys.argv]), **found, **environment()}, indent=1)
        + "\n"
    )
    if out == "-":
        print(text)
    else:
        Path(out).write_text(text)


def put_into(page: str, head: str, table: str) -> None:
    """Replaces the table of a page whose first line begins with `head`."""
    path = Path(page)
    before, _, rest = path.read_text().partition(head)
    path.write_text(before + table + "\n\n" + rest.partition("\n\n")[2])
