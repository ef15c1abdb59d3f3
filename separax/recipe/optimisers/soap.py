"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., 2024)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from ...core import PRECISION, InputError, finite
from .base import Layers, by_layer
from .gradient import AbstractScheduled

# Rows or columns beyond which a side keeps its own axes: its basis takes longer than the step.
LARGEST = 4_096
TINY = 1e-8  # beside the root of a mean square, as in Adam
# Turning a matrix leaves rounding in directions in which it has nothing: that many roundings of its
# whole size are not taken for a gradient.
ROUNDINGS = 100

Matrix = Float[Array, "*batch rows columns"]


class SOAP(AbstractScheduled):
    """Adam along other axes: those in which the gradients of a layer are least correlated.

        optimiser=[sx.SOAP(3e-3, "cosine", steps=3_000), sx.LBFGS(500)]

    A layer's gradient is a matrix G. Adam divides each of its entries by its usual size, which
    helps where a badly conditioned loss has its valleys along single weights. They mostly run
    across. SOAP follows the means of G Gᵀ and Gᵀ G, turns G into their eigenvectors, is Adam there,
    and turns the step back. That costs some small matrix products per layer and step, and a QR
    decomposition every few steps: nothing beside a large lattice. The networks of the axes are
    layers of their own. Biases and unknown coefficients, which are no matrices, get Adam's step.
    Where several seeds are trained at once, the decomposition is made at every step.

    Arguments:
        rate, schedule, warmup, final, steps: as for `Adam`.
        every: steps between two updates of the eigenvectors, each one step of orthogonal iteration;
            0: never, which is Adam.
        gradients: how much the mean of the gradients keeps of itself in a step (Adam: 0.9).
        squares: the same for the mean of their squares (Adam: 0.999), and for those of G Gᵀ and
            Gᵀ G.
    """

    rate: float = 3e-3
    every: int = 5
    gradients: float = 0.95
    squares: float = 0.99

    def __post_init__(self):
        super().__post_init__()
        self.check_whole(every=0)
        for name in ("gradients", "squares"):
            value = getattr(self, name)
            if not 0 <= finite(f"SOAP: {name}", value) < 1:
                raise InputError(
                    f"SOAP: {name} must be at least 0 and below 1, got {value!r}: write {name}=0.95"
                )

    def transformation(self, layers: Layers) -> optax.GradientTransformation:
        made: Any = self._begin, self._update
        turned = optax.GradientTransformation(*made)
        rate = optax.scale_by_learning_rate(self.rate_now())
        return by_layer(optax.chain(turned, rate), layers)

    def _begin(self, params: Any) -> SOAPState:
        leaves = jax.tree.leaves(params)
        zeros = [jnp.zeros_like(leaf) for leaf in leaves]
        sides = [self._sides(leaf) for leaf in leaves]
        return SOAPState(jnp.zeros((), jnp.int32), zeros, zeros, sides)

    def _sides(self, leaf: Array) -> Sides:
        """The sides of a matrix; None for one that keeps its own axes, as of length one."""
        if leaf.ndim < 2 or not self.every:
            return None, None
        *batch, rows, columns = leaf.shape

        def side(n: int) -> Side | None:
            zeros = jnp.zeros((*batch, n, n), leaf.dtype)
            return Side(zeros, zeros + jnp.eye(n, dtype=leaf.dtype)) if 1 < n <= LARGEST else None

        return side(rows), side(columns)

    def _update(self, gradient: Any, state: SOAPState, params: Any = None) -> tuple[Any, SOAPState]:
        leaves, structure = jax.tree.flatten(gradient)
        count = state.count + 1
        means = [self.gradients * m + (1 - self.gradients) * g for m, g in zip(state.means, leaves)]
        sides = [self._followed(g, *pair) for g, pair in zip(leaves, state.sides)]
        squares = state.squares
        if self.every:
            due, renewed = state.count % self.every == 0, lambda *at: _renewed(state.count, *at)
            squares, sides = lax.cond(due, renewed, lambda *at: at, squares, sides)
        squares = [
            self.squares * v + (1 - self.squares) * _into(g, *pair) ** 2
            for v, g, pair in zip(squares, leaves, sides)
        ]
        steps = []
        for m, v, pair in zip(means, squares, sides):
            # a mean that begins with zero is too small by what it keeps of that
            mean = m / (1 - self.gradients**count).astype(m.dtype)
            size = jnp.sqrt(v / (1 - self.squares**count).astype(v.dtype))
            steps.append(_out_of(_into(mean, *pair) / (size + TINY + _rounding(size)), *pair))
        return jax.tree.unflatten(structure, steps), SOAPState(count, means, squares, sides)

    def _followed(self, gradient: Matrix, left: Side | None, right: Side | None) -> Sides:
        """Both sides, their means with this gradient in them."""

        def followed(side: Side | None, a: Array, b: Array) -> Side | None:
            if side is None:
                return None
            mean = self.squares * side.mean + (1 - self.squares) * _times(a, b)
            return Side(mean, side.basis)

        turned = jnp.swapaxes(gradient, -1, -2) if gradient.ndim > 1 else gradient
        return followed(left, gradient, turned), followed(right, turned, gradient)


class Side(NamedTuple):
    """The rows or the columns of a matrix."""

    mean: Float[Array, "*batch n n"]  # of G Gᵀ, or of Gᵀ G
    basis: Float[Array, "*batch n n"]  # its eigenvectors as columns, as far as they are known


class SOAPState(NamedTuple):
    count: Int[Array, ""]
    means: list[Array]  # of the gradients, along their own axes
    squares: list[Array]  # of the turned gradients
    sides: list[Sides]


Sides = tuple[Side | None, Side | None]  # left and right


def _times(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=PRECISION)


def _rounding(size: Array) -> Array:
    """What rounding leaves of turned matrices of such entries; a vector is not turned."""
    if size.ndim < 2:
        return jnp.zeros(())
    whole = jnp.linalg.norm(size, axis=(-2, -1), keepdims=True)
    return ROUNDINGS * jnp.finfo(size.dtype).eps * whole


def _into(matrix: Array, left: Side | None, right: Side | None) -> Array:
    matrix = matrix if left is None else _times(jnp.swapaxes(left.basis, -1, -2), matrix)
    return matrix if right is None else _times(matrix, right.basis)


def _out_of(matrix: Array, left: Side | None, right: Side | None) -> Array:
    matrix = matrix if left is None else _times(left.basis, matrix)
    return matrix if right is None else _times(matrix, jnp.swapaxes(right.basis, -1, -2))


def _renewed(count: Array, squares: list[Array], sides: list[Any]) -> tuple[list[Array], list[Any]]:
    """Better eigenvectors, and the squares in their order."""
    ordered, renewed = [], []
    for v, (left, right) in zip(squares, sides):
        if left is not None:
            order, left = _turned(count, left)
            v = jnp.take_along_axis(v, order[..., :, None], -2)
        if right is not None:
            order, right = _turned(count, right)
            v = jnp.take_along_axis(v, order[..., None, :], -1)
        ordered.append(v)
        renewed.append((left, right))
    return ordered, renewed


def _turned(count: Array, side: Side) -> tuple[Array, Side]:
    """A step of orthogonal iteration, which keeps eigenvectors in the order of eigenvalues: so they
    are put in that order first."""

    def first() -> tuple[Array, Array]:
        basis = jnp.linalg.eigh(side.mean)[1]
        return jnp.broadcast_to(jnp.arange(basis.shape[-1]), basis.shape[:-1]), basis

    def again() -> tuple[Array, Array]:
        image = _times(side.mean, side.basis)
        order = jnp.argsort(-jnp.sum(side.basis * image, -2), axis=-1)
        return order, jnp.linalg.qr(jnp.take_along_axis(image, order[..., None, :], -1))[0]

    order, basis = lax.cond(count == 0, first, again)
    return order, Side(side.mean, basis)
