"""Velocity fields to start a flow from: `random_flow` makes one from a seed, `load_flow` reads one
from a file."""

from .paper import Flow, load_flow, random_flow

__all__ = ["Flow", "load_flow", "random_flow"]
