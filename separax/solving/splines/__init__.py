"""Splines in cells for problems without time that are rough."""
