"""Fields, problems and conditions: what a user writes, and what is found out about it."""

from .conditions import Condition, Data, Dirichlet, Initial, Neumann, Periodic, Robin
from .field import Field
from .formulas import Formula, formula_of
from .inputs import START, ExtraInputs, Inputs, TabulatedValues, values_name
from .polynomial import Polynomial
from .problem import Problem
from .terms import Term
from .text import equation, example
from .tracing import Tracer, is_linear, values_of
from .vector_calculus import curl, div, grad, laplacian
from .well_posedness import CLEARLY, disagreements, gauge_freedom, given_values, missing_starts

__all__ = [
    "CLEARLY",
    "START",
    "Condition",
    "Data",
    "Dirichlet",
    "ExtraInputs",
    "Field",
    "Formula",
    "Initial",
    "Inputs",
    "Neumann",
    "Periodic",
    "Polynomial",
    "Problem",
    "Robin",
    "TabulatedValues",
    "Term",
    "Tracer",
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
    "values_name",
    "values_of",
]
