"""Slabs of time for what evolves in t, or in t and one other axis."""
