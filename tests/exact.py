"""Functions with every derivative in closed form, standing in for a network: sums of products of one-dimensional functions."""

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from separax.networks import is_thin
from separax.residuals.loss import Loss
from separax.separable import AbstractValues

# One-dimensional functions f(x, n): the n-th derivative at x.


def wave(k, phase=0.0):
    """sin(kx + phase); a phase of π/2 makes it a cosine."""
    return lambda x, n: k**n * np.sin(k * x + phase + n * np.pi / 2)


def growth(a):
    """exp(ax)."""
    return lambda x, n: a**n * np.exp(a * x)


def power(p):
    """x to the p."""
    return lambda x, n: math.perm(p, n) * x ** (p - n) if n <= p else np.zeros_like(x)


one = power(0)


class Exact(AbstractValues):
    """A source of values: component i is the sum of `coefficient · f(x₁) · g(x₂) …` over its list in `components`."""

    def __init__(self, place, components):
        self.axes, self.shape, self.dtype = place.axes, place.shape, jnp.result_type(float)
        self.components = components
        self.coordinates = [np.asarray(place.arrays()[axis], np.float64) for axis in place.axes]
        self.calls = []

    def values(self, terms):
        self.calls.append(dict(terms))
        return jnp.asarray(sum(c * self.derivative(*key) for key, c in terms.items()))

    def derivative(self, component, orders):
        total = np.zeros(self.shape)
        for coefficient, *factors in self.components[component]:
            total = total + coefficient * math.prod(
                f(x, n) for f, x, n in zip(factors, self.coordinates, orders)
            )
        return total


class Weighing(Exact):
    """One that wants to know of coefficients before they are multiplied."""

    def accepts_coefficient(self, shape):
        return is_thin(shape, self.shape)

    def weighed(self, terms, varying):
        self.calls.append((dict(terms), [dict(some) for _, some in varying]))
        every = [(1.0, terms), *varying]
        return jnp.asarray(
            sum(
                array * c * self.derivative(*key)
                for array, some in every
                for key, c in some.items()
            )
        )


def exact_terms(problem, recipe, components, unknowns=None, loss=Loss):
    """The loss terms by name, and the points they were taken at, of known functions instead of a network."""

    class ExactLoss(loss):
        def sources(self, network, places):
            return [Exact(place, components) for place in places]

    found = ExactLoss(problem, recipe)
    places = found.draw(jax.random.key(3), jnp.array(0))
    terms = found(SimpleNamespace(network=None, unknowns=unknowns or {}), places)
    return dict(zip(found.names, np.asarray(terms).tolist())), places
