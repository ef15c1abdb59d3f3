"""Sums of products of piecewise polynomials: what is solved for in elements is kept as these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from ..core import as_varying
from ..domain import Box
from ..separable import AbstractFormat, sum_of_products, tucker_format
from .bodies import MLP, Layer
from .layers import ACTIVATIONS
from .network import KnownPart
from .separable_network import SeparableNetwork
from .taylor import Taylor, constant, stack_orders


class PiecewiseAxis(eqx.Module):
    """Functions of one coordinate, each a polynomial in every piece: f_j(x) = Σ_b c_ebj P_b(ξ).

    ξ is the coordinate of the piece e, from -1 to 1, and P_b are Legendre's polynomials. At an edge
    the piece that ends there counts only at the upper bound. How smoothly pieces meet is in the
    numbers.

    Attributes:
        edges: of the pieces.
        coefficients: by piece, polynomial and function.
        lower, upper: the bounds of the axis.
    """

    edges: Float[Array, " pieces+1"]
    coefficients: Float[Array, "pieces polynomials functions"]
    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)
    zero_faces: tuple[str, ...] = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        """The number of functions."""
        return self.coefficients.shape[-1]

    def encode(self, x: Float[Array, " points"], order: int) -> Taylor:
        """The functions at points, with derivatives."""
        last = self.coefficients.shape[0] - 1
        piece = jnp.clip(jnp.searchsorted(self.edges, x, side="right") - 1, 0, last)
        low, high = self.edges[piece], self.edges[piece + 1]
        slope = 2 / (high - low)
        found = _sum((x - low) * slope - 1, piece, self.coefficients, order)
        scale, scaled = jnp.ones_like(x), []
        for k, values in enumerate(found):
            scaled.append(scale[:, None] * values)
            scale = scale * slope / (k + 1)
        return stack_orders(scaled)

    def envelope(self, x: Float[Array, " points"], order: int) -> Taylor:
        """Nothing is built in: one, for every component."""
        return constant(jnp.ones((len(x), len(self.zero_faces)), x.dtype), order)


def _sum(
    unit: Float[Array, " points"], piece: Array, coefficients: Array, order: int
) -> Float[Array, "orders points functions"]:
    """Σ_b c_eb P_b(ξ) and its derivatives, polynomial by polynomial, which soon compiles."""
    numbers = jnp.arange(coefficients.shape[1])

    def add(carry: tuple[Array, Array, Array], one: tuple[Array, Array]) -> tuple[Any, None]:
        last, now, total = carry
        n, own = one
        total = total + now[..., None] * own[piece]
        value = ((2 * n + 1) * unit * now[0] - n * last[0]) / (n + 1)
        # (P_{n+1} - P_{n-1})' = (2 n + 1) P_n
        following = jnp.concatenate([value[None], last[1:] + (2 * n + 1) * now[:-1]])
        return (now, following, total), None

    nothing = jnp.zeros((order + 1, len(unit)), unit.dtype)
    total = jnp.zeros((*nothing.shape, coefficients.shape[2]), unit.dtype)
    first = as_varying((nothing, nothing.at[0].set(1.0), total), unit, piece, coefficients)
    return lax.scan(add, first, (numbers, jnp.moveaxis(coefficients, 1, 0)))[0][2]


def _hashable(given: Any) -> Any:
    """Numbers by axis as tuples, as they were before they were kept as JSON."""
    return given if isinstance(given, int) else tuple(tuple(each) for each in given)


class PiecewiseProducts(eqx.Module):
    """A sum of products of piecewise polynomials, described: how large its arrays are.

    Arguments:
        rank: the number of products of a field; or by axis the number of its functions, which a
            core joins, u = Σ_abc G_abc f_a(t) g_b(x) h_c(y).
        pieces: by axis, the number of pieces and of polynomials in each.
    """

    rank: int | tuple[tuple[str, int], ...] = eqx.field(static=True, converter=_hashable)
    pieces: tuple[tuple[str, int, int], ...] = eqx.field(static=True, converter=_hashable)

    depth: ClassVar[int] = 0  # nothing in it is neural
    is_separable: ClassVar[bool] = True

    def build(
        self,
        key: PRNGKeyArray,
        box: Box,
        components: int = 1,
        periodic: Collection[str] = (),
        zero_faces: Sequence[Sequence[str]] | None = None,
        dtype: Any = jnp.float64,
        known_part: KnownPart | None = None,
    ) -> SeparableNetwork:
        """The network with zeros; whatever a problem builds in is in its numbers."""
        merge = self._format(box.axes)
        functions, core = components * max(merge.ranks), None
        each = {
            axis: (jnp.zeros(pieces + 1, dtype), jnp.zeros((pieces, polynomials, functions), dtype))
            for axis, pieces, polynomials in self.pieces
        }
        if merge.core_shape is not None:
            core = jnp.zeros((components, *merge.core_shape), dtype)
        return self.filled(box, components, each, core)

    def filled(
        self,
        box: Box,
        components: int,
        arrays: Mapping[str, tuple[Any, Any]],
        core: Any = None,
    ) -> SeparableNetwork:
        """The network with these edges and coefficients.

        Arguments:
            box: the bounds of the axes.
            components: the number of fields; the functions of one stand together, as many as the
                axis with the most of them has.
            arrays: by axis.
            core: what joins the functions, (components, …), where there is one.
        """
        nothing = ("",) * components
        axes = tuple(PiecewiseAxis(*arrays[a], *box[a], nothing) for a in box.axes)
        merge = self._format(box.axes)
        same = jnp.eye(components * max(merge.ranks), dtype=axes[0].coefficients.dtype)
        out = Layer(jnp.stack([same] * len(axes)), jnp.zeros((len(axes), len(same)), same.dtype))
        network: Any = SeparableNetwork
        body = MLP((), out, ACTIVATIONS["tanh"])
        return network(body, axes, components, None, merge, core)

    def _format(self, names: Sequence[str]) -> AbstractFormat:
        if isinstance(self.rank, int):
            return sum_of_products(names, self.rank)
        return tucker_format(names, dict(self.rank))

    def for_points(self, points: int) -> PiecewiseProducts:
        """The same: it has the numbers that it was made with."""
        return self

    def check(self, *problem: Any) -> None:
        """Refuses nothing: it is made after a problem was solved."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments by name."""
        return {"rank": self.rank, "pieces": self.pieces}
