"""True solutions to measure errors against, for equations that have no formula: classical solvers and series.

Each is a `Computed`: a function of the coordinates that costs nothing until it is first called.
"""

from __future__ import annotations

from .computed import Computed, Table

__all__ = ["Computed", "Table"]
