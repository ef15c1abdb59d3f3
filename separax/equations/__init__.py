"""Fields, problems and conditions: what a user writes, and what is found out about it."""

from .boundary_interpolation import BoundaryData
from .conditions import (
    AbstractCondition,
    Condition,
    Data,
    Dirichlet,
    Initial,
    Neumann,
    Periodic,
    Robin,
)
from .digits import LOST, of_few_digits
from .field import Field
from .formulas import Formula, formula_of
from .hard_conditions import BuiltIn
from .polynomial import Polynomial
from .problem import Problem
from .tabulated import tabulated
from .terms import AbstractTerm, JumpTerm, Part, Term, ValueTerm
from .text import equation, example
from .tracing import (
    START,
    AtPlace,
    ExtraInputs,
    Inputs,
    TabulatedValues,
    Trace,
    Tracer,
    is_linear,
    values_name,
    values_of,
)
from .vector_calculus import curl, div, grad, laplacian
from .well_posedness import CLEARLY, disagreements, gauge_freedom, given_values, missing_starts

__all__ = [
    "CLEARLY",
    "LOST",
    "START",
    "AbstractCondition",
    "AbstractTerm",
    "AtPlace",
    "BoundaryData",
    "BuiltIn",
    "Condition",
    "Data",
    "Dirichlet",
    "ExtraInputs",
    "Field",
    "Formula",
    "Initial",
    "Inputs",
    "JumpTerm",
    "Neumann",
    "Part",
    "Periodic",
    "Polynomial",
    "Problem",
    "Robin",
    "TabulatedValues",
    "Term",
    "Trace",
    "Tracer",
    "ValueTerm",
    "curl",
    "disagreements",
    "div",
    "equation",
    "example",
    "formula_of",
    "gauge_freedom",
    "given_values",
    "grad",
    "is_linear",
    "laplacian",
    "missing_starts",
    "of_few_digits",
    "tabulated",
    "values_name",
    "values_of",
]
