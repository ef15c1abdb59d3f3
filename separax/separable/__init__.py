"""Separable functions: sums of products of one-dimensional functions, as a type with an algebra."""

from .formats import KINDS, PLACES, Format, einsum, sum_of_products, train_format, tucker_format
from .gram import Square, blocks, mean_square, mean_squares, product_columns
from .merging import (
    BatchedMerge,
    FactorCache,
    Key,
    Pair,
    Varying,
    best_split,
    columns,
    merge,
    merge_at_points,
)
from .rank import RANKS, Row, needed, study
from .reading import Unreadable, read_jaxpr, separate
from .separable import Separable
from .tucker import (
    MOST_CORE,
    Tucker,
    dense_values,
    exact_products,
    join,
    multiply_core,
    shorten,
    sum_of_tuckers,
    tucker_by_svd,
    unfold,
)
from .values import AbstractValues

__all__ = [
    "KINDS",
    "MOST_CORE",
    "PLACES",
    "RANKS",
    "AbstractValues",
    "BatchedMerge",
    "FactorCache",
    "Format",
    "Key",
    "Pair",
    "Row",
    "Separable",
    "Square",
    "Tucker",
    "Unreadable",
    "Varying",
    "best_split",
    "blocks",
    "columns",
    "dense_values",
    "einsum",
    "exact_products",
    "join",
    "mean_square",
    "mean_squares",
    "merge",
    "merge_at_points",
    "multiply_core",
    "needed",
    "product_columns",
    "read_jaxpr",
    "separate",
    "shorten",
    "study",
    "sum_of_products",
    "sum_of_tuckers",
    "train_format",
    "tucker_by_svd",
    "tucker_format",
    "unfold",
]
