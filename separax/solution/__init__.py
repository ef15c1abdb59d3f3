"""Solutions: evaluation, operators, integrals, errors; and what a run was."""

from .errors import Errors, error_lattice, reference_on, squares
from .evaluation import Piece, evaluate
from .factors import (
    LinearOutput,
    expressions,
    factors,
    has_core,
    linear_outputs,
    sum_columns,
    tucker_columns,
)
from .operators import Derivatives, Outputs, Selected
from .outcome import History, Outcome, Timing
from .record import PACKAGES, environment, make_record, version
from .solution import Ensemble, Solution

__all__ = [
    "PACKAGES", "Derivatives", "Ensemble", "Errors", "History", "LinearOutput", "Outcome",
    "Outputs", "Piece", "Selected", "Solution", "Timing", "environment", "error_lattice",
    "evaluate", "expressions", "factors", "has_core", "linear_outputs", "make_record",
    "reference_on", "squares", "sum_columns", "tucker_columns", "version",
]  # fmt: skip
