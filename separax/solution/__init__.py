"""Solutions: evaluation, operators, integrals, errors."""

from .errors import error_lattice, reference_on, squares
from .factors import has_core, in_double, tucker_columns
from .pieces import Marched
from .record import PACKAGES, environment, make_record, version
from .solution import Ensemble, History, Solution, Timing
from .view import SLAB, View

__all__ = [
    "PACKAGES",
    "SLAB",
    "Ensemble",
    "History",
    "Marched",
    "Solution",
    "Timing",
    "View",
    "environment",
    "error_lattice",
    "has_core",
    "in_double",
    "make_record",
    "reference_on",
    "squares",
    "tucker_columns",
    "version",
]
