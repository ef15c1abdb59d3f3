"""Numbers that tests look at."""

import numpy as np


def order(sizes, errors):
    """The rate p of errors ~ size^-p, fitted."""
    return -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
