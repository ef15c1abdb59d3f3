"""Velocity fields to start a flow from, on the periodic square [0, 2π]².

    u(x, y) = Σ û(k, l) e^(i(kx + ly)),   v likewise,   u_x + v_y = 0.

A `Flow` is u and v on a regular grid; it comes from a seed (`random_flow`) or from a file (`load_flow`). Derivatives are
those of the Fourier series through the values. A wave of exactly two points has no phase on the grid and so no derivative:
it counts as nothing.
"""

from .files import load_flow
from .flow import Flow, random_flow

__all__ = ["Flow", "load_flow", "random_flow"]
