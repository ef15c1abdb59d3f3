"""Expressions of the coordinates are recognised as sums of products exactly where they are such sums."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from separax.separable.reading import MOST, separate

SHAPE = (4, 3, 5)
T, X, Y = (
    np.linspace(0.3 + 0.1 * i, 1.4, n).reshape([-1 if i == j else 1 for j in range(3)])
    for i, n in enumerate(SHAPE)
)


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


def coordinates():
    return jnp.asarray(T), jnp.asarray(X), jnp.asarray(Y)


def multiplied_out(products):
    """Σ Π of one factor per dimension, on the lattice."""
    dimension = len(products[0])
    shaped = [
        [
            np.asarray(f).reshape([-1 if i == j else 1 for j in range(dimension)])
            for i, f in enumerate(p)
        ]
        for p in products
    ]
    return sum(functools.reduce(operator.mul, factors) for factors in shaped)


def assert_reconstructs(function, *arguments, dimension=3, shape=SHAPE, terms=None):
    products = separate(function, *arguments, dimension=dimension)
    assert products is not None
    for product in products:
        assert [len(f) in (1, n) for f, n in zip(product, shape)] == [True] * dimension
    expected = np.broadcast_to(function(*arguments), shape)
    found = np.broadcast_to(multiplied_out(products), shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.max(np.abs(expected)))
    if terms is not None:
        assert len(products) == terms


SEPARABLE = {
    "a coordinate": (lambda t, x, y: x, 1),
    "a constant": (lambda t, x, y: 3.0, 1),
    "a whole constant": (lambda t, x, y: 3, 1),
    "an array of ones": (lambda t, x, y: jnp.ones_like(x), 1),
    "a sum": (lambda t, x, y: t + x + y, 3),
    "a difference": (lambda t, x, y: t - x - 2.0, 3),
    "a negative": (lambda t, x, y: -(t - x * y), 2),
    "a product": (lambda t, x, y: t * x * y, 1),
    "a product of sums": (lambda t, x, y: (t + x) * (x - y), 4),
    "a quotient": (lambda t, x, y: (t + x) / (x * y), 2),
    "a quotient by a sum along one axis": (lambda t, x, y: t / (1 + x + x**2), 1),
    "a reciprocal": (lambda t, x, y: 1 / (2 * t * y), 1),
    "a square": (lambda t, x, y: (t + x) ** 2, 4),
    "jnp.square": (lambda t, x, y: jnp.square(t + x), 4),
    "a power of a sum": (lambda t, x, y: (t - x + y) ** 3, 27),
    "a power of a product": (lambda t, x, y: (t * x * y) ** 5, 1),
    "a negative power of a product": (lambda t, x, y: (t * x) ** -2, 1),
    "a negative power along one axis": (lambda t, x, y: y * (1 + x) ** -3, 1),
    "a power zero": (lambda t, x, y: t * (x + y) ** 0, None),
    "a real power of one axis": (lambda t, x, y: t**2.5 * jnp.sqrt(x), 1),
    "exp of a sum": (lambda t, x, y: jnp.exp(-t + x**2 - 3 * y + 0.5), 1),
    "exp of a product along one axis": (lambda t, x, y: y * jnp.exp(-2 * t * t), 1),
    "sin of one axis": (lambda t, x, y: jnp.sin(4 * jnp.pi * x) * jnp.cos(2 * t), 1),
    "sin of a sum": (lambda t, x, y: jnp.sin(2 * t + 3 * x - y), 4),
    "cos of a difference": (lambda t, x, y: jnp.cos(x - 2 * t), 2),
    "cos of a sum with a constant": (lambda t, x, y: jnp.cos(x + y + 0.3), 4),
    "functions of one axis": (
        lambda t, x, y: (
            jnp.tanh(t) * jnp.log(1 + x) * jnp.sinh(y) * jnp.arctan(t) * jnp.abs(x - 0.7)
        ),
        1,
    ),
    "where along one axis": (lambda t, x, y: jnp.where(x > 0.7, x, 0.0) * y, 1),
    "where not, along one axis": (lambda t, x, y: jnp.where(~(x > 0.7), x, 0.2) * y, 1),
    "logical_not as a number": (lambda t, x, y: jnp.logical_not(x > 0.7) * y, 1),
    "a maximum along one axis": (lambda t, x, y: jnp.maximum(x, 0.7) * jnp.clip(t, 0.4, 1.0), 1),
    "a step": (lambda t, x, y: (x > 0.7) * y, 1),
    "arctan2 along one axis": (lambda t, x, y: jnp.arctan2(x, 1 + x) * t, 1),
    "a remainder": (lambda t, x, y: (5 * x % 1) * t, 1),
    "a directional derivative": (
        lambda t, x, y: jax.jvp(lambda a: jnp.sin(a) * y, (x,), (jnp.ones_like(x),))[1],
        1,
    ),
    "a relu": (lambda t, x, y: jax.nn.relu(x - 0.7) * y, 1),
}


@pytest.mark.parametrize("name", SEPARABLE)
def test_separable_expressions_are_reconstructed(name):
    function, terms = SEPARABLE[name]
    assert_reconstructs(function, *coordinates(), terms=terms)


NOT_SEPARABLE = {
    "sqrt of a sum": lambda t, x, y: jnp.sqrt(x + y),
    "exp of a product": lambda t, x, y: jnp.exp(x * y),
    "sin of a product": lambda t, x, y: jnp.sin(x * y),
    "one over a sum": lambda t, x, y: 1 / (x + y),
    "a negative power of a sum": lambda t, x, y: (x + y) ** -2,
    "a real power of a sum": lambda t, x, y: (x + y) ** 2.5,
    "where on two axes": lambda t, x, y: jnp.where(x > 0.7, y, 0.0),
    "where on a comparison of two axes": lambda t, x, y: jnp.where(x > y, 1.0, 0.0),
    "a maximum of two axes": lambda t, x, y: jnp.maximum(x, y),
    "a radius": lambda t, x, y: jnp.hypot(x, y),
    "arctan2 of two axes": lambda t, x, y: jnp.arctan2(x, y),
    "log of a sum": lambda t, x, y: jnp.log(1 + x + y),
    "an array that varies along two axes": lambda t, x, y: (
        jnp.asarray(np.random.default_rng(0).random((3, 5))) * t
    ),
    "a hidden sum": lambda t, x, y: jax.jit(lambda a: jnp.tanh(a))(x + y),
    "too many terms": lambda t, x, y: (t + x + y + 1) ** 4,
    "truncation of a sum": lambda t, x, y: jnp.floor(x + y),
}


@pytest.mark.parametrize("name", NOT_SEPARABLE)
def test_expressions_that_are_not_separable_are_left_alone(name):
    assert separate(NOT_SEPARABLE[name], *coordinates(), dimension=3) is None


def test_as_many_terms_as_allowed():
    """2⁶ = 64 terms are kept, 2⁷ are not."""
    t, x, _ = coordinates()
    assert len(separate(lambda t, x: (t + x) ** 6, t, x, dimension=3)) == 64 == MOST
    assert separate(lambda t, x: (t + x) ** 7, t, x, dimension=3) is None


DOUBTFUL = {
    "a loop of additions": lambda t, x, y: (
        jax.lax.fori_loop(0, 3, lambda _, total: total + x, x) * y
    ),
    "a loop of multiplications": lambda t, x, y: (
        jax.lax.fori_loop(0, 3, lambda _, total: total * x, x) * y
    ),
    "a scan over coefficients": lambda t, x, y: (
        jax.lax.scan(lambda c, k: (c + k * x, None), x, jnp.arange(3.0))[0] * y
    ),
    "a polynomial by jnp.polyval": lambda t, x, y: jnp.polyval(jnp.array([1.0, -2.0, 3.0]), x) * y,
    "a branch": lambda t, x, y: jax.lax.cond(True, jnp.sin, jnp.cos, x) * y,
    "a while loop": lambda t, x, y: (
        jax.lax.while_loop(lambda a: jnp.sum(a) < 9, lambda a: 2 * a, x) * y
    ),
    "checkpointed": lambda t, x, y: jax.checkpoint(jnp.sin)(x) * y,
    "a vmap": lambda t, x, y: jax.vmap(jnp.sin)(x) * y,
    "a product cut to whole numbers": lambda t, x, y: (5 * x * y).astype(int),
    "a sum cut to whole numbers": lambda t, x, y: (x + y).astype(int) * 1.0,
    "division of whole numbers": lambda t, x, y: jnp.array([[[0], [3], [5]]]) // 2 * y,
    "truncated division of whole numbers": lambda t, x, y: (
        jax.lax.div(jnp.array([[[0], [3], [5]]]), jnp.array([[[2]]])) * y
    ),
    "a negative power of whole numbers": lambda t, x, y: jnp.array([[[1], [3], [5]]]) ** -1.0 * y,
    "both steps": lambda t, x, y: ((x > 0.7) & (y > 0.9)) * 1.0,
    "either step": lambda t, x, y: ((x > 0.7) | (y > 0.9)) * 1.0,
    "one step but not the other": lambda t, x, y: ((x > 0.7) ^ (y > 0.9)) * 1.0,
    "a product of steps": lambda t, x, y: (x > 0.7) * (y > 0.9),
    "an unequal pair": lambda t, x, y: (x != 0.7) * y,
    "a reversed axis": lambda t, x, y: x[:, ::-1] * y,
    "a running sum": lambda t, x, y: jnp.cumsum(x, axis=1) * y,
    "a total": lambda t, x, y: jnp.sum(x) * y,
    "interpolation": lambda t, x, y: jnp.interp(x, jnp.arange(3.0), jnp.arange(3.0) ** 2) * y,
    "swapped axes": lambda t, x, y: jnp.swapaxes(jnp.swapaxes(x, 0, 1), 0, 1) * y,
    "a flattened and reshaped axis": lambda t, x, y: jnp.reshape(jnp.ravel(x), (1, 3, 1)) * y,
    "a complex wave": lambda t, x, y: jnp.real(jnp.exp(1j * (x + y))),
    "a power of a power": lambda t, x, y: ((x * y) ** 2) ** 0.5,
    "small whole numbers that wrap": lambda t, x, y: (
        (jnp.uint8(1) - jnp.array([[[2], [1], [0]]], jnp.uint8)) * 1.0 * y
    ),
    "a boundary layer": lambda t, x, y: jnp.exp((x - 1.4) / 1e-3) * t,
    "a corner layer": lambda t, x, y: jnp.exp((x + y - 2.8) / 1e-3) * t,
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_step_is_either_given_up_on_or_right(name):
    """Whatever stands inside an expression, it must not come out as something else."""
    function = DOUBTFUL[name]
    products = separate(function, *coordinates(), dimension=3)
    if products is not None:
        expected = np.broadcast_to(function(*coordinates()), SHAPE)
        np.testing.assert_allclose(
            np.broadcast_to(multiplied_out(products), SHAPE), expected, rtol=1e-12, atol=1e-12
        )


# --- where the pieces come from -------------------------------------------------------------------------------------


def test_nested_jit_is_looked_into():
    wave = jax.jit(lambda a, b: jax.jit(jnp.sin)(a + jax.jit(lambda c: 2 * c)(b)))
    assert_reconstructs(lambda t, x, y: t * wave(x, y), *coordinates(), terms=2)


def test_unknown_coefficients_arrive_as_scalars_in_a_pytree():
    arrays = dict(zip("txy", coordinates()))
    unknowns = {"speed": jnp.asarray(1.7), "decay": jnp.asarray(0.3)}

    def source(c, k):
        return (
            jnp.sin(c["x"] - k["speed"] * c["t"]) * jnp.exp(-k["decay"] * c["y"]) + k["decay"] ** 2
        )

    assert_reconstructs(source, arrays, unknowns, terms=3)


def test_separation_can_be_differentiated_in_an_unknown_coefficient():
    t, x, y = coordinates()

    def by_factors(k):
        factors = separate(
            lambda t, x, y, k: jnp.exp(-k * t) * (x + k * y), t, x, y, k, dimension=3
        )
        return sum(
            functools.reduce(
                operator.mul, (jnp.sum(jnp.broadcast_to(f, n)) for f, n in zip(p, SHAPE))
            )
            for p in factors
        )

    slope = jax.jit(jax.grad(by_factors))(0.8)
    expected = jax.grad(lambda k: jnp.sum(jnp.exp(-k * t) * (x + k * y)))(0.8)
    assert slope == pytest.approx(float(expected), rel=1e-12)


def test_arrays_captured_as_constants():
    """Tabulated data along one axis: shape (1, n, 1), and shape (n,) along the last one."""
    table, last = jnp.asarray([[[2.0], [5.0], [7.0]]]), np.array([1.0, 4.0, 9.0, 16.0, 25.0])
    assert_reconstructs(lambda t, x, y: table * t + last * x, *coordinates(), terms=2)
    assert_reconstructs(lambda t, x, y: jnp.sin(table + last), *coordinates(), terms=2)


def test_seven_axes():
    """sin(x₁ + … + x₇) is 2⁶ products."""
    shape = (2, 3, 2, 1, 2, 3, 2)
    arrays = [
        jnp.linspace(0.1 * i, 1, n).reshape([-1 if i == j else 1 for j in range(7)])
        for i, n in enumerate(shape)
    ]
    assert_reconstructs(lambda *xs: jnp.sin(sum(xs[1:], xs[0])), *arrays, dimension=7, shape=shape)


@pytest.mark.parametrize("x64", [False, True])
def test_float32_coordinates_give_float32_factors(x64):
    t, x, y = (np.asarray(c, np.float32) for c in (T, X, Y))
    with jax.enable_x64(x64):
        function = lambda t, x, y: jnp.maximum(x, 0.5) * t**2.5 + jnp.where(y > 0.7, y, 0.3) / 3  # noqa: E731
        products = separate(function, *(jnp.asarray(c) for c in (t, x, y)), dimension=3)
        assert all(factor.dtype == jnp.float32 for product in products for factor in product)
        np.testing.assert_allclose(multiplied_out(products), function(t, x, y), rtol=1e-6)


# --- random expressions ---------------------------------------------------------------------------------------------

# all of them smooth and of moderate slope, so that rounding stays rounding
ALGEBRA = {
    "neg": operator.neg,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "exp": lambda a: jnp.exp(-a),
    "square": lambda a: a**2,
    "cube": lambda a: a**3,
}
CURVED = {
    "tanh": jnp.tanh,
    "sqrt": lambda a: jnp.sqrt(1 + jnp.abs(a)),
    "over": lambda a: 1 / (3 + jnp.sin(a)),
    "jit": jax.jit(jnp.arctan),
    "max": lambda a: jnp.maximum(a, 1.0),
}
PAIRS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
numbers = st.floats(-2, 2).map(lambda c: round(c, 2))


def expressions(leaves, most):
    """Nested tuples: ("sin", ("+", "x", 0.5))."""
    unary = st.sampled_from(sorted(ALGEBRA | CURVED))
    return st.recursive(
        leaves,
        lambda part: st.tuples(unary, part) | st.tuples(st.sampled_from("+-*"), part, part),
        max_leaves=most,
    )


def evaluate(tree, c):
    if isinstance(tree, tuple):
        return (ALGEBRA | CURVED | PAIRS)[tree[0]](*(evaluate(branch, c) for branch in tree[1:]))
    return c[tree] if isinstance(tree, str) else jnp.asarray(tree)


def largest(tree, c):
    """The largest value on the way: beyond some size the functions above amplify rounding."""
    parts = [largest(branch, c) for branch in tree[1:]] if isinstance(tree, tuple) else []
    return max([float(jnp.max(jnp.abs(evaluate(tree, c)))), *parts])


def assert_right(products, tree, c):
    """Relative to the size of what is added, not of what is left: terms may cancel."""
    size = max(
        np.max(multiplied_out([tuple(np.abs(f) for f in product) for product in products])), 1.0
    )
    assert np.max(np.abs(multiplied_out(products) - evaluate(tree, c))) <= 1e-9 * size


@settings(max_examples=40, deadline=None)
@given(expressions(st.sampled_from("txy") | numbers, most=6))
def test_random_expressions_are_given_up_on_or_right(tree):
    c = dict(zip("txy", coordinates()))
    assume(largest(tree, c) < 20)
    products = separate(lambda c: evaluate(tree, c), c, dimension=3)
    assume(products is not None)
    assert_right(products, tree, c)


@settings(max_examples=25, deadline=None)
@given(
    *(expressions(st.just(axis) | numbers, most=3) for axis in "txy"),
    st.sampled_from("+-*"),
    st.sampled_from("+-*"),
)
def test_functions_of_one_axis_each_stay_separable_when_combined(f, g, h, first, second):
    """(f(t) ∘ g(x)) ∘ h(y), sin(f + g + h) and exp(f - g - h) are separable, whatever f, g and h are."""
    c = dict(zip("txy", coordinates()))
    for tree in (
        (second, (first, f, g), h),
        ("sin", ("+", ("+", f, g), h)),
        ("exp", ("-", ("-", f, g), h)),
    ):
        assume(largest(tree, c) < 20)
        products = separate(lambda c, tree=tree: evaluate(tree, c), c, dimension=3)
        assert products is not None
        assert_right(products, tree, c)
