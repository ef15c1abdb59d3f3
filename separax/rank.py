"""How many products a function needs: `separax.rank.study`, `fit`, `needed`."""

from .separable.rank import Fit, Row, fit, fits_of, needed, study

__all__ = ["Fit", "Row", "fit", "fits_of", "needed", "study"]
