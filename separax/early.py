"""Nonlinear equations over long times: where a solve goes astray, early times are made to count first.

Least squares ask for a small residual at all times alike, and what is wrong late costs as much as what is wrong early. So a solve of a nonlinear equation can
settle on something that is no continuation of its start: the logistic equation stays at its unstable zero, and turns up at the end. With weights that
fall with time like exp(-rate · t / T) that is never the cheapest: what is early is right first, and the rest follows from it. The rate is then taken back.
Causal weights do the same for networks that are trained (`separax.causal`); here the weights are given, so that every step is still a linear solve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .fields import Field
from .loss import EARLY
from .problem import Problem
from .recipe import TIME

RATES = (25.0, 8.0, 0.0)


def applies(problem: Problem) -> bool:
    """Whether there is something to go on from in time, and a nonlinear equation to follow: a linear one has one solution however it is weighed."""
    if TIME not in problem.box.axes:
        return False
    sides = {t.sides for t in problem.terms if t.axis == TIME} | {g.side for g in problem.given if g.axis == TIME}
    return sides == {"-"} and not _linear(problem)


def _linear(problem: Problem) -> bool:
    tracer, coordinates, unknowns = problem._example()
    tracer.waits = lambda *shapes: True
    parts: list[Any] = []

    def run(c: Mapping[str, Array], k: Mapping[str, Array]) -> int:
        found = problem.expressions(tracer, c, k).values()
        parts.extend(e._part if isinstance(e, Field) else None for e in found)
        return 0

    jax.eval_shape(run, coordinates, unknowns)
    # an array made from u.value may be anything
    return not problem.unknowns and not tracer.opened and all(p is not None and not p.terms and not p.pairs for p in parts)


def given(rates: Sequence[float], dtype: Any) -> list[dict[str, Array]]:
    """What the loss is told for each of the rates; for none of them, nothing."""
    return [{EARLY: jnp.asarray(rate, dtype)} for rate in rates] or [{}]
