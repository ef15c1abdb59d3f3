"""Separable networks: a body per axis, u = Σ_j Π_i f_ij(x_i)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import InputError, add_up
from ..domain import Lattice, Place, Rows
from ..separable import (
    AbstractFormat,
    AbstractValues,
    BatchedMerge,
    FactorCache,
    Key,
    Separable,
    Varying,
    columns,
    merge,
    merge_at_points,
)
from .bodies import AbstractLayers
from .network import AbstractNetwork, Coordinates, highest
from .taylor import DirectionalTaylor, derivatives, multiply

Factors = tuple[Float[Array, "components orders points columns"], ...]  # by axis


def distinct(places: Sequence[Place], dtype: Any) -> tuple[Coordinates, list[list[slice]]]:
    """The distinct coordinates of each axis, whether the inside, a face or a data grid asks for
    them.

    Returns:
        The coordinates by axis; by place, where its own are among them.
    """
    seen = [Rows() for _ in places[0].axes]
    slices = [[r.add(c) for r, c in zip(seen, place.coordinates)] for place in places]
    return tuple(r.all(dtype) for r in seen), slices


def filled(coordinates: Coordinates) -> list[Array]:
    """Axes with fewer points filled up to the longest, so that one batched pass serves them all."""
    longest = max(len(c) for c in coordinates)
    return [jnp.pad(c, (0, longest - len(c)), mode="edge") for c in coordinates]


class SeparableNetwork(AbstractNetwork):
    """A `SPINN` with weights. Those of all axes are stacked, so that one batched pass serves them.

    Attributes:
        merge: how the columns of the axes meet.
        core: per component what `merge` joins them with, if anything.
    """

    merge: AbstractFormat = eqx.field(static=True)
    core: Float[Array, "components ..."] | None

    @property
    def is_separable(self) -> bool:
        return True

    @property
    def separable(self) -> SeparableNetwork:
        return self

    @property
    def outputs(self) -> int:
        return self.components * max(self.merge.ranks)

    @property
    def rank(self) -> int:
        """The number of products in the plain sum that it is."""
        return self.merge.rank + (0 if self.known_part is None else self.known_part.rank)

    def factors(self, coordinates: Coordinates, order: int) -> Factors:
        """The factors of the plain sum of products that it is, with derivatives up to an order.
        Those of the known part come last."""
        own = jax.vmap(self.merge.columns)(self.columns(coordinates, order), self.core)
        if self.known_part is None:
            return own
        known = self.known_part.factors(coordinates, order)
        return tuple(jnp.concatenate(both, -1) for both in zip(own, known))

    def columns(self, coordinates: Coordinates, order: int) -> Factors:
        """The columns that `merge` joins, with derivatives, from one pass over N·d coordinates.

        Axes may have different numbers of points: the shorter ones are filled up for the pass and
        cut afterwards.
        """
        full = filled(coordinates)
        outputs = self.body.taylor(self._encoded(full, order)).array  # (axes, orders, points, …)
        widest = max(self.merge.ranks)
        if any(faces for axis in self.axes for faces in axis.zero_faces):
            envelopes = jnp.stack([axis.envelope(x, order) for axis, x in zip(self.axes, full)])
            outputs = multiply(outputs, jnp.repeat(envelopes, widest, axis=-1))
        apart = derivatives(outputs).reshape(*outputs.shape[:-1], self.components, widest)
        each = zip(apart, coordinates, self.merge.ranks)
        return tuple(jnp.moveaxis(f[:, : len(c), :, :rank], -2, 0) for f, c, rank in each)

    def _encoded(self, coordinates: Sequence[Array], order: int) -> DirectionalTaylor:
        widest = max(axis.inputs for axis in self.axes)
        encoded = (axis.encode(x, order) for axis, x in zip(self.axes, coordinates))
        padded = [jnp.pad(e, ((0, 0), (0, 0), (0, widest - e.shape[-1]))) for e in encoded]
        return DirectionalTaylor.of(jnp.stack(padded))

    # --- the output layers -----------------------------------------------------------------------

    @property
    def layers(self) -> AbstractLayers:
        """The body, where it is one of layers; refused where it is not."""
        if isinstance(self.body, AbstractLayers):
            return self.body
        raise InputError(
            "body: this needs a linear output layer, and the body of this network has none: write"
            " body='modified' or body='mlp'"
        )

    def features(
        self, coordinates: Coordinates, order: int
    ) -> tuple[Float[Array, "components orders points features"], ...]:
        """Per axis the functions that the columns are linear combinations of, with derivatives.
        After hidden layers the last one belongs to the bias; polynomials have a constant already.
        Components differ where their zero faces do."""
        full = filled(coordinates)
        inner = self.layers.features(self._encoded(full, order)).array
        if neural := self.layers.has_hidden_layers:
            one = jnp.zeros((*inner.shape[:-1], 1), inner.dtype).at[:, 0].set(1.0)
            inner = jnp.concatenate([inner, one], -1)
        found = []
        for axis, x, taylor, c in zip(self.axes, full, inner, coordinates):
            envelope = axis.envelope(x, order)  # (orders, points, components)
            own = taylor if neural else taylor[..., : axis.inputs]
            each = (multiply(own, envelope[..., i : i + 1]) for i in range(self.components))
            found.append(jnp.stack([derivatives(f) for f in each])[:, :, : len(c)])
        return tuple(found)

    @property
    def coefficients(self) -> tuple[Float[Array, "components features columns"], ...]:
        """Of the features, per axis: the weights and the bias of the output layer."""
        out, found = self.layers.out, []
        for i, (axis, rank) in enumerate(zip(self.axes, self.merge.ranks)):
            own = out.weight[i, : axis.inputs]
            if self.layers.has_hidden_layers:
                own = jnp.concatenate([out.weight[i], out.bias[i][None]])
            found.append(jnp.moveaxis(own.reshape(len(own), self.components, -1)[..., :rank], 1, 0))
        return tuple(found)

    def with_coefficients(
        self,
        coefficients: Sequence[Float[Array, "components features columns"]],
        core: Array | None = None,
    ) -> SeparableNetwork:
        """The same with other output layers, and another core if one is given."""
        neural, out = self.layers.has_hidden_layers, self.layers.out
        most, widest = out.weight.shape[1], out.weight.shape[2] // self.components
        weights, biases = [], []
        for own, bias in zip(coefficients, out.bias):
            wide = jnp.pad(own, ((0, 0), (0, 0), (0, widest - own.shape[-1])))
            wide = jnp.moveaxis(wide, 0, 1).reshape(own.shape[1], -1)
            rows = len(wide) - neural
            weights.append(jnp.pad(wide[:rows], ((0, most - rows), (0, 0))))
            biases.append(wide[-1] if neural else jnp.zeros_like(bias))
        new = jnp.stack(weights), jnp.stack(biases)
        network = eqx.tree_at(lambda n: (n.body.out.weight, n.body.out.bias), self, new)
        return network if core is None else eqx.tree_at(lambda n: n.core, network, core)

    def with_first_functions(self) -> SeparableNetwork:
        """The same with the first functions of every axis, from slow to fast, as its columns: where
        a solve of the core can begin."""
        made = []
        for axis, own in zip(self.axes, self.coefficients):
            _, functions, rank = own.shape
            if rank > functions:
                raise InputError(
                    f"SPINN: rank {rank} of an axis with {functions} functions: give it at most as"
                    " many as it has functions"
                )
            order = np.argsort(axis.encoding.degrees, kind="stable")
            first = np.zeros((functions, rank))
            first[order[:rank], np.arange(rank)] = 1.0
            made.append(jnp.broadcast_to(jnp.asarray(first, own.dtype), own.shape))
        return self.with_coefficients(made)

    # --- values ----------------------------------------------------------------------------------

    def sources(
        self,
        places: Sequence[Place],
        needs: Sequence[Iterable[Key]],
        merges: Sequence[Iterable[frozenset[Key]]] | None = None,
        asked: Iterable[Mapping[Key, Any]] | None = None,
    ) -> list[AbstractValues]:
        coordinates, slices = distinct(places, self.dtype)
        factors = self.factors(coordinates, max(highest(wanted) for wanted in needs))
        cuts: dict[Any, Array] = {}  # faces share coordinates, and then factors, with the inside

        def cut(component: int, axis: int, rows: slice) -> Array:
            key = (component, axis, rows.start, rows.stop)
            if key not in cuts:
                cuts[key] = factors[axis][component][:, rows]
            return cuts[key]

        made: list[AbstractValues] = []
        cache, shared = FactorCache(), {}
        for number, (place, rows) in enumerate(zip(places, slices)):
            weights = place.weights if isinstance(place, Lattice) else None
            each = [
                Separable(place.axes, [cut(i, k, s) for k, s in enumerate(rows)], weights)
                for i in range(self.components)
            ]
            batched = None
            if merges is not None and isinstance(place, Lattice) and len(place.axes) > 1:
                # conditions on several quantities have their lattice in common
                key = tuple((s.start, s.stop) for s in rows)
                batched = shared.setdefault(key, BatchedMerge(each))
                batched.merges |= set(merges[number])
            made.append(SeparableSource(each, place, cache, batched))
        return made


class SeparableSource(AbstractValues):
    """Values merged from factors.

    Arguments:
        components: the fields.
        place: where they are sampled.
        cache: of factors that several merges need.
        batched: merges that are made in one product.
    """

    def __init__(
        self,
        components: Sequence[Separable],
        place: Place,
        cache: FactorCache,
        batched: BatchedMerge | None = None,
    ):
        self.separable, self.place, self._cache, self._batched = components, place, cache, batched
        self.axes, self.shape, self.dtype = place.axes, place.shape, components[0].jets[0].dtype
        self._made: dict[Any, Array] = {}

    def _parts(self, terms: Mapping[Key, Any]) -> list[tuple[Separable, dict[Any, Any]]]:
        """The terms by component."""
        return [
            (u, {o: c for (i, o), c in terms.items() if i == k})
            for k, u in enumerate(self.separable)
        ]

    def factors(self, terms: Mapping[Key, Any], varying: Varying = ()) -> list[Array]:
        others = [(c, self._parts(some)) for c, some in varying]
        return columns(self._parts(terms), self._cache, others)

    def _is_batched(self, keys: set[Key]) -> bool:
        return self._batched is not None and self._batched.pays and self._batched.keys >= keys

    def values(self, terms: Mapping[Key, Any]) -> Array:
        if self._batched is not None and self._is_batched(set(terms)):
            known = self._batched.values
            return add_up(jnp.asarray(c, self.dtype) * known[key] for key, c in terms.items())
        # coefficients that are traced are no key
        plain = all(isinstance(c, float) for c in terms.values())
        key = frozenset(terms.items()) if plain else None
        if key is not None and key in self._made:
            return self._made[key]
        parts, lattice = self._parts(terms), isinstance(self.place, Lattice)
        values = merge(parts, self._cache) if lattice else merge_at_points(parts)
        if key is not None:
            self._made[key] = values
        return values

    def accepts_coefficient(self, shape: tuple[int, ...]) -> bool:
        return isinstance(self.place, Lattice) and is_thin(shape, self.shape)

    def weighed(self, terms: Mapping[Key, Any], varying: Varying) -> Array:
        if self._is_batched({key for some in (terms, *(t for _, t in varying)) for key in some}):
            return super().weighed(terms, varying)
        others = [(c, self._parts(some)) for c, some in varying]
        return merge(self._parts(terms), self._cache, others)


def is_thin(coefficient: tuple[int, ...], lattice: tuple[int, ...]) -> bool:
    """Whether an array of one shape is a function of some of the coordinates of a lattice only: it
    may be multiplied before there is one."""
    within = len(coefficient) == len(lattice) > 1 and all(
        n in (1, whole) for n, whole in zip(coefficient, lattice)
    )
    return within and coefficient != lattice
