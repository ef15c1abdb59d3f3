"""Where a problem is posed: boxes, shapes, lattices, points, samplers, quadrature."""

from .box import TIME, Box
from .places import Lattice, Place, Points, Rows, flatten, slabs
from .samplers import AbstractSampler, GaussLegendre, Grid, Uniform, places_by_axis, quadrature
from .shapes import BOUNDARY, Shape
from .strata import Strata

__all__ = [
    "BOUNDARY", "TIME", "AbstractSampler", "Box", "GaussLegendre", "Grid", "Lattice", "Place",
    "Points", "Rows", "Shape", "Strata", "Uniform", "flatten", "places_by_axis", "quadrature",
    "slabs",
]  # fmt: skip
