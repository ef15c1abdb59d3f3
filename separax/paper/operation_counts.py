"""How many operations u and its first and second derivatives along every axis cost: the paper's
table, and ours.

Three counts of the same thing, at the paper's setting (64³ points, a plain SPINN of width 64 and
rank 32, a plain PINN of width 128):

- `by_formula`: the paper's table by the conventions that reproduce its digits (below);
- `one_pass`: what separax's single pass of Taylor coefficients costs, operation by operation;
- `counted`: what XLA counts, in the program as written and in the program it compiled.

**How the published table comes out.** Write F for the multiplications of one forward pass and A for
its activations.

PINN: every digit of the six entries is reproduced, with F = 64³ (3·128 + 5·128² + 128) and
A = 64³ · 6·128:

    forward  adds F,       mults F
    first    adds 4F + A,  mults 2F + A
    second   adds 6F + 2A, mults 4F + 3A

- Five square matrices are *six* hidden layers; the text says five, and the released code has four.
- The first row of derivatives is one reverse sweep, its forward pass included, by the rules of
  Griewank and Walther for passive weights: an addition costs 1 + 2 additions, a product with a
  weight 1 + 1 multiplications and 1 addition, an activation 1 of each. One sweep gives the
  derivatives along all axes.
- The second is one tangent of that sweep. By the same rules it would have 8F additions, not 6F
  (those that collect the products with weights are missing); the term with the second derivative of
  the activation is left out; and one tangent gives the second derivative along *one* axis, so that
  three axes cost more than the table says.
- Each row counts the rows before it again, and the total adds all of them: 390,372, printed as
  390,370.

SPINN: only two digits are printed, so they cannot tell much. F = 192 (64 + 4·64² + 64) + 2·32·64³ =
19.9·10⁶, the formula of the PINN for 192 coordinates plus a merge of two multiplications per
product and point, gives 20, 2F gives 40 and 4F 80.

- So the merge is included, and is most of it (16.8 of 19.9); without it there would be 3.
- It is counted as if no product of two factors were shared by points that have two coordinates in
  common; shared, it is 8.5.
- With the true output layer (64·32) F is 20.3·10⁶, and the other two rows would print as 41 and 81.
- Additions are set equal to multiplications, but the merge has half as many additions.
- 2F and 4F are the rules for one tangent and a tangent of it, along *one* axis; the derivatives
  along three axes need six more merges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import on_cpu
from ..domain import Box, Lattice, Points
from ..networks import PINN, SPINN, AbstractNetwork
from ..separable import best_split
from .step_time import PaperNetwork, PaperSource

PAPER_SPINN = SPINN(rank=32, width=64, depth=4, body="mlp", scaled=False)
PAPER_PINN = PINN(width=128, depth=5, body="mlp", scaled=False)
ROWS = ("forward pass", "first derivatives", "second derivatives")


class Count(NamedTuple):
    """Additions and multiplications."""

    adds: int
    mults: int

    @property
    def flops(self) -> int:
        return self.adds + self.mults

    def plus(self, *others: Count) -> Count:
        """The sum with other counts."""
        every = (self, *others)
        return Count(sum(one.adds for one in every), sum(one.mults for one in every))

    def times(self, number: int) -> Count:
        """So many of these."""
        return Count(self.adds * number, self.mults * number)


NOTHING = Count(0, 0)
PUBLISHED = {  # rows and total, in millions
    "SPINN": ((Count(20, 20), Count(40, 40), Count(80, 80)), 280),
    "PINN": ((Count(21_609, 21_609), Count(86_638, 43_419), Count(130_057, 87_040)), 390_370),
}
# of tanh, on top of itself: at the value, and for the two further coefficients of a Taylor series
AT_VALUE, ALONG = Count(1, 1), Count(2, 5)


def by_formula(network: SPINN | PINN) -> list[Count]:
    """The paper's table by its own conventions, on 64³ points: a count for each of `ROWS`, each
    from scratch.

    Arguments:
        network: a plain MLP; the paper counts one hidden layer more than its depth says.
    """
    axes, points, width = 3, 64, network.width
    body = width + network.depth * width**2 + width
    if isinstance(network, SPINN):
        merge = (axes - 1) * network.rank * points**axes
        forward = Count(1, 1).times(points * axes * body + merge)
        return [forward, forward.times(2), forward.times(4)]
    f = points**axes * (body + (axes - 1) * width)
    a = points**axes * (network.depth + 1) * width
    return [Count(f, f), Count(4 * f + a, 2 * f + a), Count(6 * f + 2 * a, 4 * f + 3 * a)]


def one_pass(network: SPINN | PINN, axes: int = 3, points: int = 64) -> dict[str, Count]:
    """What separax does for u and its first and second derivatives along every axis.

    A SPINN sends a Taylor series of three coefficients of each of its `points · axes` coordinates
    through the axis' network, then merges 1 + 2 axes times; a PINN sends a value and two
    coefficients along each axis per point, and has nothing to merge. What its first layer makes of
    derivatives is the same at all points. Activations themselves are not counted.

    Arguments:
        network: a plain MLP of tanh.
        axes, points: how many, and per axis.

    Returns:
        The counts of the "network" and of the "merge".
    """
    if isinstance(network, PINN):
        wide = network.width
        first = Count((axes - 1) * wide, axes * wide).times(axes)  # of derivatives, once
        body = _body(network, axes, 1, axes).times(points**axes)
        return {"network": body.plus(first), "merge": NOTHING}
    return {
        "network": _body(network, 1, network.rank, 1).times(points * axes),
        "merge": _merge(network.rank, axes, points).times(1 + 2 * axes),
    }


def _body(network: SPINN | PINN, inputs: int, outputs: int, directions: int) -> Count:
    """A pass of a value and two coefficients along each of some directions."""
    rows, width = 1 + 2 * directions, network.width

    def dense(inputs: int, outputs: int, rows: int = rows) -> Count:
        """A layer; only the value has a bias."""
        return Count(rows * (inputs - 1) * outputs + outputs, rows * inputs * outputs)

    active = AT_VALUE.plus(ALONG.times(directions))
    hidden = dense(width, width).plus(active.times(width)).times(network.depth - 1)
    # the second Taylor coefficient is half the second derivative
    last = dense(width, outputs).plus(Count(0, directions * outputs))
    # second coefficients of a coordinate are zero; a PINN sees that, a batch of axes carries them
    if isinstance(network, SPINN):
        first = dense(inputs, width).plus(active.times(width))
    else:
        active = AT_VALUE.plus(Count(ALONG.adds - 1, ALONG.mults - 1).times(directions))
        first = dense(inputs, width, rows=1).plus(active.times(width))
    return first.plus(hidden, last)


def _merge(rank: int, axes: int, points: int) -> Count:
    """One lattice from its factors: the products of a left and of a right group of axes, then a
    matrix product."""
    if axes == 1:
        return Count(points * (rank - 1), 0)
    split = best_split((points,) * axes, [(rank, [(0,) * axes])])
    built = sum(points**k for side in (split, axes - split) for k in range(2, side + 1))
    return Count(points**axes * (rank - 1), rank * (built + points**axes))


# --- what XLA counts -----------------------------------------------------------------------------


class Counted(NamedTuple):
    """Operations that XLA counts in a program, without activations: as it was written, and as it
    was compiled, where what is computed twice is computed once. None where XLA does not tell."""

    written: float | None
    compiled: float | None


def counted(
    network: SPINN | PINN, axes: int = 3, points: int = 64, nested: bool = False
) -> Counted:
    """Counts the evaluation of u and its first and second derivatives along every axis.

    The program is compiled for the CPU and never run, so that the count is the same everywhere and
    needs no memory.

    Arguments:
        network: a PINN is evaluated at points^axes scattered points, too.
        axes, points: how many, and per axis.
        nested: a SPINN as the paper's code does it, each derivative by its own forward-mode passes
            through the whole network; else as separax does it, in one pass.
    """
    box = Box(**{f"x{i + 1}": (-1.0, 1.0) for i in range(axes)})
    none = (0,) * axes
    orders = [none, *((*none[:i], k, *none[i + 1 :]) for k in (1, 2) for i in range(axes))]
    # shapes only: weights and coordinates are never made
    shapes = eqx.filter_eval_shape(lambda: network.build(jax.random.key(0), box))
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    number = points if network.is_separable else points**axes
    coordinates = tuple(jax.ShapeDtypeStruct((number,), jnp.float32) for _ in range(axes))

    def evaluate(arrays: Any, coordinates: tuple[Array, ...]) -> list[Array]:
        built: AbstractNetwork = eqx.combine(arrays, static)
        place = Points(box.axes, coordinates)
        if built.is_separable:
            place = Lattice(weights=None, **dict(zip(box.axes, coordinates)))
        if nested and built.is_separable:
            source = PaperSource(PaperNetwork.split(built.separable), place)
        else:
            (source,) = built.sources([place], [{(0, o) for o in orders}])
        return [source.values({(0, o): 1.0}) for o in orders]

    with on_cpu():
        lowered = jax.jit(evaluate).lower(arrays, coordinates)
        analyses = lowered.cost_analysis(), lowered.compile().cost_analysis()
    written, compiled = ((found or {}).get("flops") for found in analyses)
    return Counted(written, compiled)


# --- the table -----------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of the table, in millions; None where there is no such figure."""

    what: str
    adds: float | None = None
    mults: float | None = None
    total: float | None = None
    published_adds: float | None = None
    published_mults: float | None = None
    published_total: float | None = None


def count_operations() -> list[Line]:
    """The paper's table beside its published figures, then separax's own count, then what XLA
    counts (a few seconds of compiling)."""
    networks = {"SPINN": PAPER_SPINN, "PINN": PAPER_PINN}
    lines: list[Line] = []
    for name, network in networks.items():
        found, (published, total) = by_formula(network), PUBLISHED[name]
        for row, count, theirs in zip(ROWS, found, published):
            lines.append(_line(f"{name}, {row}", count, *theirs))
        lines.append(_line(f"{name}, the paper's total", NOTHING.plus(*found), None, None, total))
    for name, network in networks.items():
        count = NOTHING.plus(*one_pass(network).values())
        lines.append(_line(f"{name}, separax in one pass", count))
    programs = {
        "SPINN, separax in one pass": counted(PAPER_SPINN),
        "SPINN, nested, the paper's way": counted(PAPER_SPINN, nested=True),
        "PINN, separax in one pass": counted(PAPER_PINN),
    }
    for what, found in programs.items():
        for kind, flops in (("as written", found.written), ("compiled", found.compiled)):
            lines.append(Line(f"{what}: XLA, {kind}", total=flops and flops / 1e6))
    return lines


def _line(what: str, count: Count, *published: float | None) -> Line:
    return Line(what, count.adds / 1e6, count.mults / 1e6, count.flops / 1e6, *published)
