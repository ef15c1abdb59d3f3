"""u' = f(u): the explicit Runge-Kutta method of Dormand and Prince, of order five, with steps chosen by its own estimate.

SciPy has it too, but combines the stages by BLAS, whose threads make it several times slower on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

STAGES = np.zeros((7, 7))  # row i: what stage i + 1 is evaluated at; the last row is the step itself
STAGES[1, :1] = 1 / 5
STAGES[2, :2] = 3 / 40, 9 / 40
STAGES[3, :3] = 44 / 45, -56 / 15, 32 / 9
STAGES[4, :4] = 19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729
STAGES[5, :5] = 9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656
STAGES[6, :6] = 35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84
# what the step differs by from the one of order four
ESTIMATE = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])


def integrate(
    rate: Callable[[np.ndarray], np.ndarray], u: np.ndarray, duration: float, step: float, relative: float, absolute: float
) -> tuple[np.ndarray, float]:
    """u after `duration`, and the step it would go on with.

    Arguments:
        rate: f, of an array like u.
        step: the first step to try.
        relative, absolute: the error allowed in a step is `absolute + relative |u|`, in the mean square.
    """
    passed, rates = 0.0, np.empty((7, *u.shape))
    rates[0] = rate(u)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of steps that are tried and taken back
        while (left := duration - passed) > 1e-14 * duration:
            taken, after = min(step, left), u
            for stage in range(1, 7):
                after = u + taken * np.einsum("s,s...->...", STAGES[stage, :stage], rates[:stage])
                rates[stage] = rate(after)
            error = taken * np.einsum("s,s...->...", ESTIMATE, rates)
            allowed = absolute + relative * np.maximum(np.abs(u), np.abs(after))
            size = np.nan_to_num(np.sqrt(np.mean((error / allowed) ** 2)), nan=np.inf)
            next_step = taken * float(np.clip(0.9 * size**-0.2, 0.2, 5))
            if size > 1:
                step = next_step
            else:
                u, passed, rates[0] = after, passed + taken, rates[6]
                step = next_step if taken == step else max(step, next_step)  # one cut short says little about the next
            if step < 1e-14 * duration:
                raise ArithmeticError(f"Runge-Kutta: no step is short enough, {passed} into {duration}")
    return u, step
