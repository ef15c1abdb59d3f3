"""The paper's equations, each with a `paper` recipe that follows the paper and a `best` one that is as good as we know."""

from __future__ import annotations

from ..errors import one_of
from .entry import RECIPES, Entry
from .helmholtz import HELMHOLTZ
from .klein_gordon import KLEIN_GORDON

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in (HELMHOLTZ, KLEIN_GORDON)}


def find(name: str) -> Entry:
    """An entry by name; the nearest name is suggested where there is none."""
    return CATALOGUE[one_of("problem", name, CATALOGUE)]


__all__ = ["CATALOGUE", "RECIPES", "Entry", "find"]
