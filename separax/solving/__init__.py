"""`solve`: from a problem, with or without a recipe, to a solution."""

from .entry import solve

__all__ = ["solve"]
