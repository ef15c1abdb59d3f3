"""Polynomials on the whole box, level after level."""
