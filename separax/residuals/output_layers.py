"""Normal equations of a loss, without the matrix of all residuals; and the loss as a function of
the output layers of a separable network, and of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from ..domain import Lattice, Place
from ..equations import ExtraInputs
from ..networks import SeparableNetwork
from ..separable import einsum
from .jacobian import jacobians
from .linearise import Basis, Linear, linearised, separable_residuals
from .loss import Loss
from .model import Model


class Jacobian(Protocol):
    """How what is left on one place changes with some coefficients."""

    def transposed(self, values: Array) -> Array:
        """Jᵀ times values at all points of the place."""
        ...

    def squared(self) -> Array:
        """Jᵀ J."""
        ...


class NormalEquations(eqx.Module):
    """½ |r + J δ|² = value / 2 + gradient · δ + ½ δ · matrix δ."""

    value: Float[Array, ""]
    gradient: Float[Array, " n"]
    matrix: Float[Array, "n n"]


def added_up(
    jacobians: Iterable[tuple[Jacobian, Linear]], own: int, extra: int, dtype: jnp.dtype
) -> NormalEquations:
    """The normal equations of all places together.

    Arguments:
        jacobians: of every place.
        own: the number of coefficients they are of.
        extra: the number of unknowns of the equation, which come last.
        dtype: of the numbers.
    """
    number, value = own + extra, jnp.zeros((), dtype)
    gradient, matrix = jnp.zeros(number, dtype), jnp.zeros((number, number), dtype)
    for jacobian, linear in jacobians:
        value = value + jnp.sum(linear.residual**2)
        gradient = gradient.at[:own].add(jacobian.transposed(linear.residual))
        matrix = matrix.at[:own, :own].add(jacobian.squared())
        for i, slope in enumerate(linear.by_unknown, own):
            column = jacobian.transposed(slope)
            gradient = gradient.at[i].add(jnp.sum(slope * linear.residual))
            matrix = matrix.at[:own, i].add(column).at[i, :own].add(column)
            for j, other in enumerate(linear.by_unknown, own):
                matrix = matrix.at[i, j].add(jnp.sum(slope * other))
    return NormalEquations(value, gradient, matrix)


def layer_equations(
    loss: Loss, model: Model, places: Sequence[Place], given: ExtraInputs, basis: Basis
) -> NormalEquations:
    """The normal equations in the output layers: δ are coefficients of one axis after the other,
    each (components, combinations of features, columns); then the core, if there is one; then the
    unknowns of the equation."""
    network = model.network.separable
    axes = (b.shape[0] * b.shape[2] * rank for b, rank in zip(basis, network.merge.ranks))
    own = sum(axes) + (0 if network.core is None else network.core.size)
    linears = linearised(loss, model, places, given, basis)
    return added_up(jacobians(linears), own, len(model.unknowns), network.dtype)


# --- output layers --------------------------------------------------------------------------------

SMALLEST = 1e-12  # of features that are told apart, as a part of the largest
APART = 1e-6  # the same of features that are taken one after the other
TINY = 1e-300


def block_sizes(loss: Loss) -> tuple[int, ...]:
    """How many coefficients there are to solve for: of each axis, of the core if there is one, and
    the unknowns."""
    network = Model.shapes(loss.problem, loss.recipe).network.separable
    shapes = [c.shape for c in jax.eval_shape(lambda n: n.coefficients, network)]
    core = [] if network.core is None else [network.core.size]
    # a step within what the factors of an axis span already is the core's to take
    own = [c * (max(f - r, 0) if core else f) * r for c, f, r in shapes]
    return (*own, *core, len(loss.problem.unknowns))


class OutputLayers:
    """A loss on fixed points as a function of the output layers of a separable network.

    A step is one vector of several blocks: one per axis, one for the core if there is one, and the
    unknowns of the equation.

    Attributes:
        sizes: of the blocks.
        phases: the blocks that may be solved for alone, one after the other.
        core: whether there is one.
    """

    def __init__(
        self,
        loss: Loss,
        model: Callable[[Array], Model],
        places: Sequence[Place],
        given: ExtraInputs,
    ):
        self.loss, self._model, self.places, self.given = loss, model, places, given
        self.sizes = block_sizes(loss)
        axes = len(loss.problem.box.axes)
        self.core = len(self.sizes) > axes + 1
        live = tuple((i,) for i in range(axes) if self.sizes[i])
        core = (axes,)
        self.phases = (*(b for one in live for b in (core, one)), core) if self.core else live

    def normal(self, params: Array, basis: Basis) -> NormalEquations:
        """The normal equations in a step."""
        return layer_equations(self.loss, self._model(params), self.places, self.given, basis)

    def vector(self, params: Array) -> Array:
        """All residuals, as one vector."""
        return separable_residuals(self.loss, self._model(params), self.places, self.given)

    def _features(self, network: SeparableNetwork) -> list[Array]:
        """Per axis the features' values at the inner points, each point counting what the rule
        says."""
        place = self.places[0]
        assert isinstance(place, Lattice)
        sampled, found = network.features(place.coordinates, 0), []
        for features, n, weights in zip(sampled, place.shape, place.weights):
            counts = jnp.full(n, 1 / n) if weights is None else weights / jnp.sum(weights)
            found.append(features[:, 0] * jnp.sqrt(counts)[:, None])
        return found

    def basis(self, params: Array) -> Basis:
        """Orthonormal combinations of features. Polynomials are taken one after the other, so that
        the first combinations are slow functions and what a condition asks of these is not lost
        beside the derivatives of fast ones. Features of a network may be nearly the same function:
        combinations that are not are found by a singular value decomposition, and those that
        rounding cannot tell from zero left out. Where there is a core, the combinations are those
        that are orthogonal to the factors as they are: within the factors' span the core can do it
        all."""
        network = self._model(params).network.separable
        features = self._features(network)
        made = [jnp.stack([_orthonormal(each) for each in f]) for f in features]
        if not self.core:
            return made

        def beside(features: Array, basis: Array, coefficients: Array) -> Array:
            within = basis.T @ (features.T @ (features @ coefficients))
            turned, _ = jnp.linalg.qr(within, mode="complete")
            return basis @ turned[:, coefficients.shape[1] :]

        return [jax.vmap(beside)(*each) for each in zip(features, made, network.coefficients)]

    def moved(self, params: Array, step: Array, basis: Basis) -> Array:
        """The parameters after a step."""
        model = self._model(params)
        network = model.network.separable
        parts = jnp.split(step, np.cumsum(self.sizes)[:-1])
        own = []
        for coefficients, b, part in zip(network.coefficients, basis, parts):
            inner = part.reshape(b.shape[0], b.shape[2], coefficients.shape[2])
            own.append(coefficients + einsum("cfg,cgr->cfr", b, inner))
        core = network.core
        if core is not None:
            core = core + parts[len(own)].reshape(core.shape)
        unknowns = {k: v + parts[-1][i] for i, (k, v) in enumerate(model.unknowns.items())}
        return flat(Model(network.with_coefficients(own, core), unknowns))

    def resized(self, params: Array, size: float) -> Array:
        """The parameters with all factors, or the core, times a number."""
        model = self._model(params)
        network = model.network.separable
        if network.core is None:
            network = network.with_coefficients([c * size for c in network.coefficients])
        else:
            network = network.with_coefficients(network.coefficients, size * network.core)
        return flat(Model(network, model.unknowns))

    def balanced(self, params: Array) -> Array:
        """The same function; its columns of one size on all axes, or orthonormal where a core can
        take what is left."""
        model = self._model(params)
        network = model.network.separable
        pairs = zip(self._features(network), network.coefficients)
        factors = [einsum("cnf,cfr->cnr", f, c) for f, c in pairs]
        if network.core is None:
            return flat(Model(network.with_coefficients(_even(network, factors)), model.unknowns))
        own, core = [], network.core
        for i, (coefficients, factor) in enumerate(zip(network.coefficients, factors), 1):
            upper = jnp.linalg.qr(factor, mode="r")
            # a column that is nearly a combination of others stays what it is
            least = jnp.min(jnp.abs(jnp.diagonal(upper, axis1=1, axis2=2)), 1)
            ill = least < 1e-8 * jnp.max(jnp.abs(upper), (1, 2))
            one = jnp.eye(upper.shape[-1], dtype=upper.dtype)
            upper = jnp.where(ill[:, None, None], one, upper)
            own.append(
                jax.vmap(lambda c, r: solve_triangular(r, c.T, trans=1).T)(coefficients, upper)
            )
            turned = jax.vmap(lambda r, g: jnp.tensordot(r, g, 1))(upper, jnp.moveaxis(core, i, 1))
            core = jnp.moveaxis(turned, 1, i)
        return flat(Model(network.with_coefficients(own, core), model.unknowns))


def _orthonormal(features: Array) -> Array:
    """Combinations of the features (points, features) of an axis that are orthonormal."""

    def mixed(features: Array, _: Array) -> Array:
        _, sizes, turned = jnp.linalg.svd(features, full_matrices=True)
        sizes = jnp.pad(sizes, (0, features.shape[1] - len(sizes)))
        kept = sizes > SMALLEST * sizes[0]
        return jnp.where(kept, turned.T / jnp.where(kept, sizes, 1.0), 0.0)

    def ordered(features: Array, upper: Array) -> Array:
        return solve_triangular(upper, jnp.eye(features.shape[1], dtype=features.dtype))

    if features.shape[0] < features.shape[1]:
        return mixed(features, features)
    upper = jnp.linalg.qr(features, mode="r")
    sizes = jnp.abs(jnp.diagonal(upper))
    apart = jnp.min(sizes) > APART * jnp.max(sizes)
    return lax.cond(apart, ordered, mixed, features, upper)


def _even(network: SeparableNetwork, factors: Sequence[Array]) -> list[Array]:
    """Coefficients whose columns, summed over by one index, are of one size on all the axes that
    carry it."""
    sizes = [
        jnp.maximum(jnp.linalg.norm(f, axis=1), TINY) for f in factors
    ]  # (components, columns)
    if network.merge.is_plain:
        wanted = jnp.exp(jnp.mean(jnp.log(jnp.stack(sizes)), 0))
    else:  # of a train: one number per axis
        norms = (jnp.linalg.norm(s, axis=1, keepdims=True) for s in sizes)
        sizes = [jnp.broadcast_to(norm, s.shape) for norm, s in zip(norms, sizes)]
        wanted = jnp.exp(jnp.mean(jnp.stack([jnp.log(s[:, :1]) for s in sizes]), 0))
    return [c * (wanted / s)[:, None] for c, s in zip(network.coefficients, sizes)]


def flat(model: Model) -> Array:
    """All numbers of a model as one vector."""
    return ravel_pytree(eqx.filter(model, eqx.is_array))[0]
