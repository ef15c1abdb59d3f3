"""Where a problem is posed: boxes, shapes, lattices, points, samplers, quadrature."""

from .box import TIME, Box
from .places import Lattice, Place, Points, Rows, flatten, slabs
from .samplers import GaussLegendre, Grid, Sampler, Uniform, places_by_axis, quadrature
from .shapes import BOUNDARY, Shape

__all__ = [
    "BOUNDARY",
    "TIME",
    "Box",
    "GaussLegendre",
    "Grid",
    "Lattice",
    "Place",
    "Points",
    "Rows",
    "Sampler",
    "Shape",
    "Uniform",
    "flatten",
    "places_by_axis",
    "quadrature",
    "slabs",
]
