"""How many operations the value and the first and second derivatives along every axis cost: the paper's table, and ours.

Three counts of the same thing, at the paper's setting (64³ points, a plain SPINN of width 64 and rank 32, a plain PINN of
width 128):

- `by_formula`: the paper's table by the conventions that reproduce its digits (below);
- `one_pass`: what separax's single pass of Taylor coefficients costs, operation by operation;
- `counted`: what XLA counts, in the program as written and in the program it compiled.

**How the published table comes out.** Write F for the multiplications of one forward pass and A for its activations.

PINN: every digit of the six entries is reproduced, with F = 64³ (3·128 + 5·128² + 128) and A = 64³ · 6·128:

    forward  adds F,       mults F
    first    adds 4F + A,  mults 2F + A
    second   adds 6F + 2A, mults 4F + 3A

- Five square matrices are *six* hidden layers; the text says five, and the released code has four.
- The first row of derivatives is one reverse sweep, its forward pass included, by the rules of Griewank and Walther for
  passive weights: an addition costs 1 + 2 additions, a product with a weight 1 + 1 multiplications and 1 addition, an
  activation 1 of each. One sweep gives the derivatives along all axes.
- The second is one tangent of that sweep. By the same rules it would have 8F additions, not 6F (those that collect the
  products with weights are missing); the term with the second derivative of the activation is left out; and one tangent
  gives the second derivative along *one* axis, so that three axes cost more than the table says.
- Each row counts the rows before it again, and the total adds all of them: 390,372, printed as 390,370.

SPINN: only two digits are printed, so they cannot tell much. F = 192 (64 + 4·64² + 64) + 2·32·64³ = 19.9·10⁶, the formula
of the PINN for 192 coordinates plus a merge of two multiplications per product and point, gives 20, 2F gives 40 and 4F 80.

- So the merge is included, and is most of it (16.8 of 19.9); without it there would be 3.
- It is counted as if no product of two factors were shared by points that have two coordinates in common; shared, it is 8.5.
- With the true output layer (64·32) F is 20.3·10⁶, and the other two rows would print as 41 and 81.
- Additions are set equal to multiplications, but the merge has half as many additions.
- 2F and 4F are the rules for one tangent and a tangent of it, along *one* axis; the derivatives along three axes need six
  more merges.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import InputError, one_of, shown, whole
from ..domain import Box, Lattice, Points
from ..networks import MLP, PINN, SPINN, AbstractNetwork, ModifiedMLP, Sin, Tanh
from ..separable import best_split
from .step_time import PaperNetwork, PaperSource

PAPER_SPINN = SPINN(rank=32, width=64, depth=4, body="mlp", scaled=False)
PAPER_PINN = PINN(width=128, depth=5, body="mlp", scaled=False)
ROWS: tuple[str, ...] = ("forward pass", "first derivatives", "second derivatives")

Way = Literal["one pass", "nested"]


@dataclasses.dataclass(frozen=True)
class Count:
    """Additions and multiplications."""

    adds: int
    mults: int

    @property
    def flops(self) -> int:
        return self.adds + self.mults

    def __add__(self, other: Count) -> Count:
        return Count(self.adds + other.adds, self.mults + other.mults)

    def __mul__(self, times: int) -> Count:
        return Count(self.adds * times, self.mults * times)

    __rmul__ = __mul__


PUBLISHED: dict[str, tuple[dict[str, Count], int]] = {  # millions
    "SPINN": (dict(zip(ROWS, (Count(20, 20), Count(40, 40), Count(80, 80)))), 280),
    "PINN": (
        dict(zip(ROWS, (Count(21_609, 21_609), Count(86_638, 43_419), Count(130_057, 87_040)))),
        390_370,
    ),
}

# of an activation, on top of itself: at the value, and for the two further coefficients of a ray (see jets.py)
ACTIVE = {Tanh: (Count(1, 1), Count(2, 5)), Sin: (Count(0, 0), Count(1, 5))}
PRODUCT = Count(0, 1), Count(3, 5)  # the same of a product


def by_formula(network: SPINN | PINN, axes: int = 3, points: int = 64) -> dict[str, Count]:
    """The paper's table by its own conventions (see the module's text): a Count for each of `ROWS`, each from scratch."""
    axes, points = _checked(network, axes, points)
    if network.body is not MLP:
        raise InputError(
            f"network: the paper's table counts the plain MLP, got body={network.settings['body']!r}: write body='mlp'"
        )
    width, squares = network.width, network.depth  # one hidden layer more than the depth says
    if isinstance(network, SPINN):
        forward = (
            points * axes * (width + squares * width**2 + width)
            + (axes - 1) * network.rank * points**axes
        )
        return dict(
            zip(
                ROWS,
                (
                    Count(forward, forward),
                    Count(2 * forward, 2 * forward),
                    Count(4 * forward, 4 * forward),
                ),
            )
        )
    forward = points**axes * (axes * width + squares * width**2 + width)
    active = points**axes * (squares + 1) * width
    first = Count(4 * forward + active, 2 * forward + active)
    return dict(
        zip(
            ROWS,
            (
                Count(forward, forward),
                first,
                Count(6 * forward + 2 * active, 4 * forward + 3 * active),
            ),
        )
    )


def one_pass(network: SPINN | PINN, axes: int = 3, points: int = 64) -> dict[str, Count]:
    """What separax does for u and its first and second derivatives along every axis, all of it: {"network", "merge"}.

    A SPINN sends a Taylor triple of each of its `points · axes` coordinates through the axis' network, then merges 1 + 2 axes
    times; a PINN sends a value and two coefficients along each axis per point, and has nothing to merge. What its first layer makes of
    derivatives is the same at all points. Activations themselves are not counted.
    """
    axes, points = _checked(network, axes, points)
    if isinstance(network, PINN):
        wide = network.width * (3 if network.body is ModifiedMLP else 1)
        slopes = axes * Count((axes - 1) * wide, axes * wide)  # of the first layer, once
        return {
            "network": points**axes * _body(network, axes, 1, axes) + slopes,
            "merge": Count(0, 0),
        }
    return {
        "network": points * axes * _body(network, 1, network.rank, 1),
        "merge": _merge(network.rank, axes, points) * (1 + 2 * axes),
    }


def _body(network: SPINN | PINN, inputs: int, outputs: int, rays: int) -> Count:
    """A pass of a value and two coefficients along each of some rays."""
    rows, width = 1 + 2 * rays, network.width

    def dense(inputs: int, outputs: int, rows: int = rows) -> Count:
        """A layer; only the value has a bias."""
        return Count(rows * (inputs - 1) * outputs + outputs, rows * inputs * outputs)

    def each(of: tuple[Count, Count]) -> Count:
        return of[0] + rays * of[1]

    active = each(ACTIVE[type(network.activation)])
    hidden = (dense(width, width) + width * active) * (network.depth - 1)
    scaling = Count(
        0, rays * outputs
    )  # the second Taylor coefficient is half the second derivative

    def first(outputs: int) -> Count:
        """With its activation. The second coefficients of a coordinate are zero; a PINN sees that, for a batch of axes they are carried."""
        if network.is_separable:
            return dense(inputs, outputs) + outputs * active
        value, ray = ACTIVE[type(network.activation)]
        return dense(inputs, outputs, rows=1) + outputs * (
            value + rays * Count(ray.adds - 1, ray.mults - 1)
        )

    if network.body is MLP:
        return first(width) + hidden + dense(width, outputs) + scaling
    mixing = (each(PRODUCT) + Count(rows, 0)) * width * (network.depth - 1)
    return (
        first(3 * width)
        + Count(rows * width, 0)
        + hidden
        + mixing
        + dense(width, outputs)
        + scaling
    )


def _merge(rank: int, axes: int, points: int) -> Count:
    """One lattice from its factors: the products of a left and of a right group of axes, then a matrix product."""
    if axes == 1:
        return Count(points * (rank - 1), 0)
    split = best_split((points,) * axes, [(rank, [(0,) * axes])])
    built = sum(points**k for side in (split, axes - split) for k in range(2, side + 1))
    return Count(points**axes * (rank - 1), rank * (built + points**axes))


def _checked(network: Any, axes: int, points: int) -> tuple[int, int]:
    if not isinstance(network, (SPINN, PINN)):
        raise InputError(
            f"network must be a SPINN or a PINN, got {shown(network)}: write sx.SPINN(rank=32, width=64, depth=4, body='mlp')"
        )
    return whole("axes", axes), whole("points", points)


# --- what XLA counts --------------------------------------------------------------------------------------------------


class Counted(NamedTuple):
    """Operations XLA counts in a program: as it was `written`, and as it was `compiled` (what is computed twice is computed
    once there). Activations are apart. None where this version of JAX does not tell."""

    written: float | None
    compiled: float | None
    activations: float | None


def counted(
    network: SPINN | PINN, axes: int = 3, points: int = 64, way: Way = "one pass"
) -> Counted:
    """Counts the evaluation of u and its first and second derivatives along every axis, at `points` per axis.

    `way`: "one pass" as separax does it (a PINN's jets at points^axes scattered points too), or "nested" as the paper's code
    does it for a SPINN, each derivative by its own forward-mode passes through the whole network. The program is compiled for
    the CPU and never run, so that the count is the same everywhere and needs no memory.
    """
    axes, points = _checked(network, axes, points)
    one_of("way", way, ("one pass", "nested"))
    if way == "nested" and not network.is_separable:
        raise InputError("way='nested' is the paper's SPINN: write way='one pass' for a PINN")
    box = Box(**{f"x{i + 1}": (-1.0, 1.0) for i in range(axes)})
    none = (0,) * axes
    orders = [none, *((*none[:i], k, *none[i + 1 :]) for k in (1, 2) for i in range(axes))]
    # shapes only: weights and coordinates are never made
    shapes = eqx.filter_eval_shape(lambda: network.build(jax.random.key(0), box))
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    number = points if network.is_separable else points**axes
    coordinates = tuple(jax.ShapeDtypeStruct((number,), jnp.float32) for _ in range(axes))

    def lattice(coordinates: tuple[Array, ...]) -> Lattice:
        return Lattice(weights=None, **dict(zip(box.axes, coordinates)))

    def evaluate(arrays: Any, coordinates: tuple[Array, ...]) -> list[Array]:
        built: AbstractNetwork = eqx.combine(arrays, static)
        if way == "nested":
            source = PaperSource(PaperNetwork.split(built.separable), lattice(coordinates))
        else:
            points = Points(box.axes, coordinates)
            place = lattice(coordinates) if built.is_separable else points
            (source,) = built.sources([place], [{(0, o) for o in orders}])
        return [source.values({(0, o): 1.0}) for o in orders]

    with _on_cpu():
        lowered = jax.jit(evaluate).lower(arrays, coordinates)
        compiled = lowered.compile()
    return Counted(
        _analysis(lowered.cost_analysis, "flops"),
        _analysis(compiled.cost_analysis, "flops"),
        _analysis(compiled.cost_analysis, "transcendentals"),
    )


def _on_cpu() -> contextlib.AbstractContextManager[Any]:
    try:
        return jax.default_device(jax.devices("cpu")[0])
    except RuntimeError:  # JAX was told to see accelerators only
        return contextlib.nullcontext()


def _analysis(ask: Callable[[], Any], what: str) -> float | None:
    """A figure of XLA's cost analysis, which is a dict, a list of dicts or missing, depending on JAX's version."""
    try:
        found = ask()
    except (NotImplementedError, AttributeError, RuntimeError):
        return None
    if isinstance(found, (list, tuple)):
        found = found[0] if found else None
    return None if not found or what not in found else float(found[what])


# --- the table --------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of the table, in millions; None where there is no such figure."""

    what: str
    adds: float | None = None
    mults: float | None = None
    total: float | None = None
    published_adds: float | None = None
    published_mults: float | None = None
    published_total: float | None = None


def table(counts: bool = True) -> list[Line]:
    """The paper's table beside its published figures, then separax's own count; with `counts`, what XLA counts too (a few
    seconds of compiling)."""
    lines: list[Line] = []
    for name, network in (("SPINN", PAPER_SPINN), ("PINN", PAPER_PINN)):
        published, total = PUBLISHED[name]
        rows = by_formula(network)
        for row, count in rows.items():
            lines.append(
                _line(f"{name}, {row}", count)._replace(
                    published_adds=published[row].adds, published_mults=published[row].mults
                )
            )
        lines.append(
            _line(f"{name}, the paper's total", _sum(rows))._replace(published_total=total)
        )
    for name, network in (("SPINN", PAPER_SPINN), ("PINN", PAPER_PINN)):
        lines.append(_line(f"{name}, separax in one pass", _sum(one_pass(network))))
    if counts:
        ways: list[tuple[str, SPINN | PINN, Way]] = [
            ("SPINN, separax in one pass", PAPER_SPINN, "one pass"),
            ("SPINN, nested as in the paper's code", PAPER_SPINN, "nested"),
            ("PINN, separax in one pass", PAPER_PINN, "one pass"),
        ]
        for what, network, way in ways:
            found = counted(network, way=way)
            lines.append(Line(f"{what}: XLA, as written", total=_millions(found.written)))
            lines.append(Line(f"{what}: XLA, compiled", total=_millions(found.compiled)))
    return lines


def _sum(counts: dict[str, Count]) -> Count:
    return sum(counts.values(), Count(0, 0))


def _line(what: str, count: Count) -> Line:
    return Line(what, count.adds / 1e6, count.mults / 1e6, count.flops / 1e6)


def _millions(value: float | None) -> float | None:
    return None if value is None else value / 1e6
