"""The factors of a solution, in float64: what is kept and shown of them.

u = Σ_r f_r(t) g_r(x) h_r(y), or u = Σ_abc G_abc f_a(t) g_b(x) h_c(y) where the network has a core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import InputError, in_float64, shown
from ..domain import TIME, Lattice
from ..equations import Field, example
from ..networks import MAX_ORDER, SeparableNetwork
from ..separable import MOST_CORE, Key, Separable, Tucker, join, shorten, sum_of_tuckers
from .evaluation import Piece, by_piece
from .operators import check_not_applied

if TYPE_CHECKING:
    from .solution import Solution

NODES = 256  # per axis
TOLERANCE = 1e-7  # relative: what columns and cores leave out, as much as float32 does


class LinearOutput(NamedTuple):
    """A field or a derived quantity that is linear in derivatives: Σ c ∂ᵃu + constant."""

    terms: Mapping[Key, float]
    constant: float


def expressions(solution: Solution) -> dict[str, Any]:
    """The fields and derived quantities by name, on a few points: for their formulas alone."""
    problem = solution.problem
    tracer, coordinates = example(problem)
    with in_float64():
        unknowns = {k: jnp.asarray(v, jnp.float64) for k, v in solution.unknowns.items()}
        return problem.quantities(problem.field_map(tracer), coordinates, unknowns)


def linear_outputs(solution: Solution) -> dict[str, LinearOutput]:
    """The fields and derived quantities that are linear in derivatives, by name."""
    outputs = {}
    for name, expression in expressions(solution).items():
        if not isinstance(expression, Field) or not expression.linear:
            continue
        plain: Any = getattr(expression.known_polynomial, "plain", None)
        if np.ndim(plain) == 0:
            terms = {key: float(c) for key, c in expression.terms.items()}
            outputs[name] = LinearOutput(terms, 0.0 if plain is None else float(plain))
    return outputs


def has_core(network: Any) -> bool:
    """Whether a network is best written with its core. What is built in is a sum of products, whose
    columns join every axis."""
    if not network.is_separable or not network.separable.merge.has_core:
        return False
    more = 0 if network.known_part is None else network.known_part.rank
    return math.prod(rank + more for rank in network.merge.ranks) <= MOST_CORE


def factors_on(solution: Solution, lattice: Lattice, order: int) -> dict[str, Any]:
    """The factors of every field on a lattice, with derivatives up to an order.

    Arguments: as of `Solution.separable`.
    """
    if not solution.is_separable:
        raise InputError(
            "separable: the network of this solution is not separable; solve with"
            " network=sx.SPINN(…)"
        )
    if len(solution.models) > 1:
        raise InputError(
            "separable: every window has factors of its own: write"
            " solution.windows[0].separable(lattice)"
        )
    if not 0 <= order <= MAX_ORDER:
        raise InputError(f"separable: order must be from 0 to {MAX_ORDER}, got {shown(order)}")
    check_not_applied(
        solution.operator, "separable", "ask the solution, separable(lattice, order=1)"
    )
    axes, fields = solution.problem.box.axes, solution.problem.fields
    weights = dict(zip(lattice.axes, lattice.weights))
    ordered = Lattice(weights=weights, **{a: lattice[a] for a in axes})

    def compute(piece: Piece, place: Lattice) -> Any:
        network: Any = piece.model.network
        jets = network.factors(piece.own_time(place).coordinates, order)
        return {
            name: Separable(axes, [jet[i] for jet in jets], ordered.weights)
            for i, name in enumerate(fields)
        }

    return by_piece(solution.pieces, solution.edges, ordered, 0, compute)


def sum_columns(
    window: Solution, coordinates: Sequence[np.ndarray], order: int
) -> list[np.ndarray]:
    """The factors of the plain sum of products that any separable network is.

    Arguments:
        window: a solution of one piece.
        coordinates: by axis.
        order: of the highest derivative.

    Returns: per axis an array (components, orders, points, rank).
    """
    with in_float64():
        return [np.asarray(jet) for jet in _jets(*_in_double(window, coordinates), order)]


def tucker_columns(window: Solution, coordinates: Sequence[np.ndarray], order: int) -> list[Tucker]:
    """The columns of a network with a core and their derivatives.

    Arguments: as of `sum_columns`.

    Returns: by component. What is built in comes last.
    """
    with in_float64():
        network, own = _in_double(window, coordinates)
        found, known = jax.tree.map(np.asarray, _columns(network, own, order))
    cores = np.asarray(network.core, np.float64)
    if known is None:
        return [Tucker([f[i] for f in found], core) for i, core in enumerate(cores)]
    more = known[0].shape[-1]
    made = []
    for i, core in enumerate(cores):
        wide = np.pad(core, [(0, more)] * core.ndim)
        wide[tuple(np.arange(more) + n for n in core.shape)] = 1.0
        made.append(Tucker([np.concatenate([f[i], k[i]], -1) for f, k in zip(found, known)], wide))
    return made


def _in_double(window: Solution, coordinates: Sequence[np.ndarray]) -> tuple[Any, Any]:
    """The network of a window and the coordinates as it counts them, in float64 whatever the
    precision of the training was: what rounding adds to a column has no short series."""
    piece, axes = window.pieces[0].in_double(), window.problem.box.axes
    place = Lattice(weights=None, **dict(zip(axes, coordinates)))
    return piece.model.network, piece.own_time(place).coordinates


@eqx.filter_jit
def _jets(network: SeparableNetwork, coordinates: tuple[Any, ...], order: int) -> Any:
    return network.factors(coordinates, order)


@eqx.filter_jit
def _columns(network: SeparableNetwork, coordinates: tuple[Any, ...], order: int) -> Any:
    known = network.known_part
    own = network.columns(coordinates, order)
    return own, None if known is None else known.factors(coordinates, order)


# --- for any other tool -------------------------------------------------------------------------


def factors(solution: Solution) -> dict[str, np.ndarray] | None:
    """The factors of every field on a lattice of 256 nodes per axis, in float32:

        u = Σ_r u.x[:, r] u.y[:, r]
        u = Σ_ab u.core[a, b] u.x[:, a] u.y[:, b]        where the network has a core

    The windows of a march have factors of their own, whose names begin with the number of the
    window: `2.u.x`. Where there is a core they share it, and everything but the factors of time.

    Arguments:
        solution: of which quantities that are sums of derivatives have factors, too.

    Returns: arrays by name, with the nodes of each axis, `nodes.x`; None where the network is not
        separable.
    """
    windows, network = solution.windows, solution.model.network
    if not network.is_separable:
        return None
    sums = linear_outputs(solution)
    order = max(n for output in sums.values() for _, orders in output.terms for n in orders)
    axes = solution.problem.box.axes
    nodes = [[np.linspace(*window.problem.box[axis], NODES) for axis in axes] for window in windows]
    prefixes = [f"{number + 1}." if len(windows) > 1 else "" for number in range(len(windows))]
    found: dict[str, Any] = {}

    def add(name: str, each: Sequence[Sequence[np.ndarray]], shared: Sequence[str] = ()) -> None:
        """Arrays by window and axis; windows share those of some axes."""
        for prefix, arrays in zip(prefixes, each):
            for axis, array in zip(axes, arrays):
                found[f"{'' if axis in shared else prefix}{name}.{axis}"] = array

    if not has_core(network):
        add("nodes", nodes)
        jets = [sum_columns(window, places, order) for window, places in zip(windows, nodes)]
        for name, output in sums.items():
            add(name, [_columns_of(output, each) for each in jets])
    else:
        along = axes.index(TIME) if len(windows) > 1 else 0
        shared = [axis for i, axis in enumerate(axes) if i != along]
        add("nodes", nodes, shared)
        parts = [tucker_columns(window, places, order) for window, places in zip(windows, nodes)]
        for name, output in sums.items():
            short = shorten(join([_summed(output, each) for each in parts], along), TOLERANCE)
            add(name, [[factor[0] for factor in each.factors] for each in short], shared)
            found[f"{name}.core"] = short[0].core
    return {name: np.asarray(array, np.float32) for name, array in found.items()}


def _columns_of(output: LinearOutput, jets: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Per axis the columns of a sum of derivatives and a number, side by side."""
    found = []
    for i, jet in enumerate(jets):
        terms = output.terms.items()
        made = [jet[c, orders[i]] * (1.0 if i else factor) for (c, orders), factor in terms]
        if output.constant:
            made.append(np.full((NODES, 1), 1.0 if i else output.constant))
        found.append(np.concatenate(made, 1))
    return found


def _summed(output: LinearOutput, components: Sequence[Tucker]) -> Tucker:
    """A sum of derivatives and a number, with one core."""
    parts = []
    for (c, orders), factor in output.terms.items():
        columns = [f[order : order + 1] for f, order in zip(components[c].factors, orders)]
        parts.append(Tucker(columns, factor * components[c].core))
    if output.constant:
        ones = [np.ones((1, NODES, 1)) for _ in components[0].factors]
        parts.append(Tucker(ones, np.full((1,) * len(ones), output.constant)))
    return sum_of_tuckers(parts)
