"""Polynomials in elements that meet smoothly, Radau's points in time, and their linear systems.

On a slab of time, of length h, a field is in every element of the other axis

    u(t, x) = Σ_b u_b(t) P_b(ξ),   ξ in [-1, 1],

a polynomial of degree k + q - 1, with q - 1 continuous derivatives from one element to the next: q
is the order of the field's highest derivative along x. Equations hold at the k Gauss points of
every element and at s Radau points of the slab: as many equations as unknowns, but for q conditions
at the ends. The unknowns are a field's values at the Radau points; derivatives in time come from
the matrix that differentiates polynomials through these points and the start.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.polynomial import legendre


@dataclass(frozen=True)
class TimeRule:
    """Collocation at Radau's points of [0, 1], which include the end.

    Attributes:
        points: the points, (stages,).
        inner, start: d/dτ at these points of a polynomial, from its values there and at 0.
        modes: from values at 0 and at the points to coefficients of Legendre polynomials.
        output: from values at 0 and at the points and slopes at both ends to such coefficients.
    """

    points: np.ndarray
    inner: np.ndarray
    start: np.ndarray
    modes: np.ndarray
    output: np.ndarray

    @property
    def stages(self) -> int:
        return len(self.points)

    def derivative(self, values: np.ndarray, first: np.ndarray, h: float) -> np.ndarray:
        """d/dt at the points, of values (elements, stages, functions) that begin with `first`."""
        return (self.inner @ values + self.start[:, None] * first[:, None]) / h


@functools.cache
def time_rule(stages: int) -> TimeRule:
    """The rule with so many points; its values at the end of a slab are of order 2 s - 1."""
    inside = scipy.special.roots_jacobi(stages - 1, 1.0, 0.0)[0] if stages > 1 else np.zeros(0)
    points = np.r_[(1 + inside) / 2, 1.0]
    nodes = 2 * np.r_[0.0, points] - 1
    values = legendre.legvander(nodes, stages)
    modes = np.linalg.inv(values)
    slopes = 2 * derivatives_at(nodes, stages + 1, 1) @ modes
    wide = np.r_[
        legendre.legvander(nodes, stages + 2), 2 * derivatives_at(nodes[[0, -1]], stages + 3, 1)
    ]
    return TimeRule(points, slopes[1:, 1:], slopes[1:, 0], modes, np.linalg.inv(wide))


def derivatives_at(points: np.ndarray, number: int, order: int) -> np.ndarray:
    """The derivative of P_0 … P_{number-1} of this order at points of [-1, 1]: (points, number)."""
    each = legendre.legder(np.eye(number), order) if order else np.eye(number)
    return legendre.legvander(points, len(each) - 1) @ each


@functools.cache
def at_points(points: int, continuity: int, order: int) -> np.ndarray:
    """The derivative of this order of the polynomials of `space_rule`, at its points."""
    rule = space_rule(points, continuity)
    return derivatives_at(rule.points, rule.number, order)


@functools.cache
def at_ends(number: int, order: int) -> np.ndarray:
    """The derivative of this order of so many polynomials, at -1 and 1."""
    return derivatives_at(np.array([-1.0, 1.0]), number, order)


@dataclass(frozen=True)
class SpaceRule:
    """The functions of one field in an element: those that the nodes share, and those inside.

    Attributes:
        points: Gauss's points of [-1, 1]; of a problem without another axis, one point.
        continuity: q, the number of values (of the field and its derivatives) that a node has.
        functions: (2 q + inside, functions): by row a function as Legendre coefficients. The first
            q have the derivatives 0 … q - 1 at -1, the next q those at 1, the others none.
    """

    points: np.ndarray
    continuity: int
    functions: np.ndarray

    @property
    def number(self) -> int:
        return len(self.functions)


@functools.cache
def space_rule(points: int, continuity: int) -> SpaceRule:
    """The rule with so many points, for a field with so many derivatives along the axis."""
    q, number = continuity, points + continuity
    nodes = legendre.leggauss(points)[0]
    ends = np.array([-1.0, 1.0])
    found = []
    if q:
        # of the values and derivatives at -1, then at 1, of the first 2 q polynomials
        matrix = np.stack([derivatives_at(ends, 2 * q, k) for k in range(q)])
        matrix = np.moveaxis(matrix, 1, 0).reshape(2 * q, 2 * q)
        found += [np.pad(one, (0, number - 2 * q)) for one in np.linalg.inv(matrix).T]
    bubble = np.array([1.0])
    for _ in range(q):
        bubble = legendre.legmul(bubble, [2 / 3, 0, -2 / 3])  # 1 - ξ²
    for j in range(points - q):
        one = legendre.legmul(bubble, np.eye(points - q)[j])
        one = np.pad(one, (0, number - len(one)))
        found.append(one / np.linalg.norm(one / np.sqrt(2 * np.arange(number) + 1)))
    return SpaceRule(nodes, q, np.stack(found))


def restricted(
    old: np.ndarray, new: np.ndarray, coefficients: np.ndarray, rule: SpaceRule | None = None
) -> np.ndarray:
    """A function on other elements. It is the same where these lie inside of old ones.

    Arguments:
        old, new: the edges of the elements.
        coefficients: of Legendre polynomials by old element, (elements, …, functions).
        rule: of the functions, where new elements may be unions of old ones: there the function
            keeps its values and derivatives at the nodes, and is the nearest in L2 inside.

    Returns: by new element.
    """
    if np.array_equal(old, new):
        return coefficients
    number = coefficients.shape[-1]
    points, weights = legendre.leggauss(number + 2)
    middle = (old[1:] + old[:-1]) / 2
    lengths = np.diff(new)
    inside = (new[1:] + new[:-1])[:, None] / 2 + lengths[:, None] / 2 * points
    # a union of old elements is integrated piece by piece
    first = np.clip(np.searchsorted(old, new[:-1] + 1e-9 * lengths, side="right") - 1, 0, None)
    last = np.searchsorted(old, new[1:] - 1e-9 * lengths, side="left") - 1
    found = np.empty((len(lengths), *coefficients.shape[1:]))
    whole = first == last
    owner = first[whole]
    unit = 2 * (inside[whole] - middle[owner][:, None]) / np.diff(old)[owner][:, None]
    values = np.einsum(
        "epb,e...b->ep...", legendre.legvander(unit, number - 1), coefficients[owner]
    )
    project = (
        (np.arange(number) + 0.5)[:, None] * legendre.legvander(points, number - 1).T * weights
    )
    found[whole] = np.moveaxis(np.einsum("bp,ep...->eb...", project, values), 1, -1)
    for e in np.flatnonzero(~whole):
        total = 0.0
        for o in range(first[e], last[e] + 1):
            local = middle[o] + (old[o + 1] - old[o]) / 2 * points
            there = 2 * (local - (new[e] + new[e + 1]) / 2) / lengths[e]
            values = coefficients[o] @ legendre.legvander(points, number - 1).T
            share = weights * (old[o + 1] - old[o]) / lengths[e]
            basis = (np.arange(number) + 0.5) * legendre.legvander(there, number - 1)
            total = total + (values * share) @ basis
        found[e] = total
        if rule is not None and rule.continuity:
            found[e] += _end_correction(
                coefficients[first[e]],
                coefficients[last[e]],
                found[e],
                float(old[first[e] + 1] - old[first[e]]),
                float(old[last[e] + 1] - old[last[e]]),
                lengths[e],
                rule,
            )
    return found


def _end_correction(
    left: np.ndarray,
    right: np.ndarray,
    merged: np.ndarray,
    left_length: float,
    right_length: float,
    length: float,
    rule: SpaceRule,
) -> np.ndarray:
    """What gives a merged element the values and derivatives at its ends that there were."""
    total = 0.0
    for k in range(rule.continuity):
        ends = at_ends(rule.number, k)
        for side, (own, size) in enumerate(((left, left_length), (right, right_length))):
            missing = own @ ends[side] * (length / size) ** k - merged @ ends[side]
            total = total + missing[..., None] * rule.functions[side * rule.continuity + k]
    return np.asarray(total)


def joined(
    edges: np.ndarray, coefficients: np.ndarray, rule: SpaceRule, periodic: bool
) -> np.ndarray:
    """A function that jumps a little from element to element, with the mean of both sides instead.

    Arguments:
        edges: of the elements.
        coefficients: (elements, …, functions).
        rule: of the functions.
        periodic: whether the last element meets the first.
    """
    found, lengths = coefficients.copy(), np.diff(edges)
    left, right = np.arange(len(lengths)), np.roll(np.arange(len(lengths)), -1)
    if not periodic:
        left, right = left[:-1], right[:-1]
    for k in range(rule.continuity):
        ends = at_ends(rule.number, k)
        scale = (2 / lengths[:, None]) ** k
        before = _spread(scale[left], coefficients[left] @ ends[1])
        after = _spread(scale[right], coefficients[right] @ ends[0])
        gap = (after - before) / 2
        q = rule.continuity
        found[left] += _spread(1 / scale[left], gap)[..., None] * rule.functions[q + k]
        found[right] -= _spread(1 / scale[right], gap)[..., None] * rule.functions[k]
    return found


def _spread(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    return factor.reshape(-1, *(1,) * (values.ndim - 1)) * values


# --- linear systems --------------------------------------------------------------------------


@dataclass(frozen=True)
class Ends:
    """Conditions at the ends of the axis: first y_0 + last y_n = values; None for y_0 = y_n."""

    first: np.ndarray
    last: np.ndarray
    values: np.ndarray


def solve_elements(
    left: np.ndarray,
    right: np.ndarray,
    inside: np.ndarray,
    values: np.ndarray,
    ends: Ends | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Solves left_e y_e + right_e y_{e+1} + inside_e z_e = values_e for nodes y and insides z.

    The z of every element are eliminated, then the nodes between pairs of elements, pairs of pairs,
    and so on, with pivots among all the equations at hand: all of it in batches.

    Arguments:
        left, right: (elements, equations, unknowns of a node).
        inside: (elements, equations, unknowns inside).
        values: (elements, equations).
        ends: the conditions at both ends; None where the axis is periodic.

    Returns: the nodes (elements + 1, unknowns) and the insides (elements, unknowns).
    """
    own, node = inside.shape[-1], left.shape[-1]
    known = np.concatenate([left, right, values[..., None]], -1)
    upper, known = _reduced(inside, known, own)
    top, rest = known[:, :own], known[:, own:]
    nodes = _solve_nodes(rest[..., :node], rest[..., node:-1], rest[..., -1], ends)
    pair = np.concatenate([nodes[:-1], nodes[1:]], -1)
    free = top[..., -1] - (top[..., :-1] @ pair[..., None])[..., 0]
    return nodes, np.linalg.solve(upper, free[..., None])[..., 0]


def _reduced(columns: np.ndarray, known: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The triangular factor of columns, and what their elimination makes of the rest."""
    if number == 0:
        return columns[:, :0], known
    factors: Any = scipy.linalg.lu(columns, p_indices=True, check_finite=False)
    order, lower, upper = factors
    known = np.take_along_axis(known, np.argsort(order, -1)[..., None], 1)
    # smaller factors than those of an orthogonal transformation, which many threads would make slow
    top = np.linalg.solve(lower[:, :number], known[:, :number])
    return upper, np.concatenate([top, known[:, number:] - lower[:, number:] @ top], 1)


def _solve_nodes(
    left: np.ndarray, right: np.ndarray, values: np.ndarray, ends: Ends | None
) -> np.ndarray:
    count, node = values.shape
    if node == 0:
        return np.zeros((count + 1, 0))
    if count == 1:
        return _solve_ends(left[0], right[0], values[0], ends)
    pairs = count // 2
    nothing = np.zeros((pairs, node, node))
    first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    middle = np.concatenate([right[first], left[second]], 1)
    known = np.concatenate(
        [
            np.concatenate([left[first], nothing, values[first][..., None]], -1),
            np.concatenate([nothing, right[second], values[second][..., None]], -1),
        ],
        1,
    )
    upper, known = _reduced(middle, known, node)
    top, rest = known[:, :node], known[:, node:]
    # an odd one out waits for the next round
    coarse = _solve_nodes(
        np.concatenate([rest[..., :node], left[2 * pairs :]]),
        np.concatenate([rest[..., node:-1], right[2 * pairs :]]),
        np.concatenate([rest[..., -1], values[2 * pairs :]]),
        ends,
    )
    found = np.empty((count + 1, node))
    found[0 : 2 * pairs + 1 : 2] = coarse[: pairs + 1]
    found[2 * pairs :] = coarse[pairs:]
    pair = np.concatenate([coarse[:pairs], coarse[1 : pairs + 1]], -1)
    free = top[..., -1] - (top[..., :-1] @ pair[..., None])[..., 0]
    found[1 : 2 * pairs : 2] = np.linalg.solve(upper, free[..., None])[..., 0]
    return found


def _solve_ends(
    left: np.ndarray, right: np.ndarray, values: np.ndarray, ends: Ends | None
) -> np.ndarray:
    if ends is None:
        return np.stack([np.linalg.solve(left + right, values)] * 2)
    matrix = np.block([[left, right], [ends.first, ends.last]])
    return np.linalg.solve(matrix, np.r_[values, ends.values]).reshape(2, -1)
