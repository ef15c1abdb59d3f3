"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., 2024)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from ...core import PRECISION, InputError, finite, whole
from .base import Layers, by_layer
from .gradient import AbstractScheduled

LARGEST = 4_096  # rows or columns beyond which a side keeps its own axes: its basis would take longer than the step
TINY = 1e-8  # beside the root of a mean square, as in Adam
# Turning a matrix leaves rounding in directions in which it has nothing: that many roundings of its whole size are not taken for a gradient.
ROUNDINGS = 100

Matrix = Float[Array, "*batch rows columns"]


class SOAP(AbstractScheduled):
    """Adam along other axes: those in which the gradients of a layer are least correlated.

        optimiser=[sx.SOAP(3e-3, "cosine", steps=3_000), sx.LBFGS(500)]

    A layer's gradient is a matrix G. Adam divides each of its entries by its usual size, which helps where a badly conditioned loss has its
    valleys along single weights. They mostly run across. SOAP follows the means of G Gᵀ and Gᵀ G, turns G into their eigenvectors, is
    Adam there, and turns the step back. That costs some small matrix products per layer and step, and a QR decomposition every few
    steps: nothing beside a large lattice. The networks of the axes are layers of their own. Biases and unknown coefficients, which are
    no matrices, get Adam's step. Where several seeds are trained at once, the decomposition is made at every step.

    The rate and its schedule are as for `Adam`.

    Arguments:
        every: steps between two looks for the eigenvectors, each one step of orthogonal iteration; 0: never, which is Adam.
        gradients: how much the mean of the gradients keeps of itself in a step (Adam: 0.9).
        squares: the same for the mean of their squares (Adam: 0.999), and for those of G Gᵀ and Gᵀ G.
    """

    rate: float = 3e-3
    every: int = 5
    gradients: float = 0.95
    squares: float = 0.99

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "every", whole("SOAP: every", self.every, 0))
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
        return SOAPState(
            jnp.zeros((), jnp.int32), zeros, zeros, [self._sides(leaf) for leaf in leaves]
        )

    def _sides(self, leaf: Array) -> tuple[Side | None, Side | None]:
        """The left and the right one of a matrix; None where it keeps its own axes, as one of length one does anyway."""
        if leaf.ndim < 2 or not self.every:
            return None, None
        left, right = (
            Side(
                jnp.zeros((*leaf.shape[:-2], n, n), leaf.dtype),
                jnp.broadcast_to(jnp.eye(n, dtype=leaf.dtype), (*leaf.shape[:-2], n, n)),
            )
            if 1 < n <= LARGEST
            else None
            for n in leaf.shape[-2:]
        )
        return left, right

    def _update(self, gradient: Any, state: SOAPState, params: Any = None) -> tuple[Any, SOAPState]:
        leaves, structure = jax.tree.flatten(gradient)
        count = state.count + 1
        means = [self.gradients * m + (1 - self.gradients) * g for m, g in zip(state.means, leaves)]
        sides = [self._seen(g, *pair) for g, pair in zip(leaves, state.sides)]
        if self.every:
            squares, sides = lax.cond(
                state.count % self.every == 0,
                lambda *at: _renewed(state.count, *at),
                lambda *at: at,
                state.squares,
                sides,
            )
        else:
            squares = state.squares
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

    def _seen(
        self, gradient: Matrix, left: Side | None, right: Side | None
    ) -> tuple[Side | None, Side | None]:
        """Both sides, told of a gradient."""

        def told(side: Side | None, a: Array, b: Array) -> Side | None:
            return (
                None
                if side is None
                else Side(self.squares * side.mean + (1 - self.squares) * _times(a, b), side.basis)
            )

        turned = jnp.swapaxes(gradient, -1, -2) if gradient.ndim > 1 else gradient
        return told(left, gradient, turned), told(right, turned, gradient)


class Side(NamedTuple):
    """The rows or the columns of a matrix."""

    mean: Float[Array, "*batch n n"]  # of G Gᵀ, or of Gᵀ G
    basis: Float[Array, "*batch n n"]  # its eigenvectors as columns, as far as they are known


class SOAPState(NamedTuple):
    count: Int[Array, ""]
    means: list[Array]  # of the gradients, along their own axes
    squares: list[Array]  # of the turned gradients
    sides: list[tuple[Side | None, Side | None]]


def _times(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=PRECISION)


def _rounding(size: Array) -> Array:
    """What rounding leaves of matrices of such entries, or nothing for a vector, which is not turned."""
    if size.ndim < 2:
        return jnp.zeros(())
    return (
        ROUNDINGS * jnp.finfo(size.dtype).eps * jnp.linalg.norm(size, axis=(-2, -1), keepdims=True)
    )


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
    """A step of orthogonal iteration, which orders eigenvectors by their eigenvalues: so they are put in that order first."""

    def first() -> tuple[Array, Array]:
        basis = jnp.linalg.eigh(side.mean)[1]
        return jnp.broadcast_to(jnp.arange(basis.shape[-1]), basis.shape[:-1]), basis

    def again() -> tuple[Array, Array]:
        image = _times(side.mean, side.basis)
        order = jnp.argsort(-jnp.sum(side.basis * image, -2), axis=-1)
        return order, jnp.linalg.qr(jnp.take_along_axis(image, order[..., None, :], -1))[0]

    order, basis = lax.cond(count == 0, first, again)
    return order, Side(side.mean, basis)
