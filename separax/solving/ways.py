"""Ways of solving a problem without a recipe, besides polynomials on the whole box."""

from __future__ import annotations

import abc
import enum

import equinox as eqx

from ..equations import Problem
from ..solution import Solution
from .trained import Context

ROUNDED = 1e-13  # relative error that float64 may leave in any solution that is evaluated


class Turn(enum.IntEnum):
    """When a way is tried.

    FIRST: before polynomials. SECOND: after their first level, where that is not good enough. LAST:
    where they have failed.
    """

    FIRST = 0
    SECOND = 1
    LAST = 2


class AbstractWay(eqx.Module):
    """A way of solving a problem without a recipe. The solution with the least estimate wins."""

    @abc.abstractmethod
    def suits(self, problem: Problem) -> bool:
        """Whether it can solve a problem at all; quick to say.

        Arguments:
            problem: to be solved.
        """

    @abc.abstractmethod
    def turn(self, problem: Problem) -> Turn:
        """When it is tried.

        Arguments:
            problem: that it suits.
        """

    @abc.abstractmethod
    def solve(self, problem: Problem, tolerance: float, context: Context) -> Solution | None:
        """Solves a problem.

        Arguments:
            problem: that it suits.
            tolerance: the relative L2 error that is good enough.
            context: the folder, who is told, and whether to stop: what is done until then is
                returned.

        Returns:
            The solution with its `estimate`, `levels`, `advice` and `timing`; None where it found
            none.
        """
