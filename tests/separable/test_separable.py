"""The algebra of separable functions agrees with arithmetic on the lattice."""

import functools
import math
import operator
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from separax.core.errors import InputError
from separax.domain.box import Box
from separax.domain.samplers import quadrature
from separax.separable.gram import mean_square
from separax.separable.merging import (
    best_split,
    columns,
    khatri_rao,
    merge,
    merge_at_points,
)
from separax.separable.separable import Separable, leibniz

AXES = ("t", "x", "y", "z", "a", "b", "c")
# Unequal numbers of points: few shapes, so that programs of one test serve the next.
LENGTHS = {1: [(5,)], 2: [(3, 5), (6, 2)], 3: [(4, 1, 6), (2, 5, 3)], 4: [(2, 5, 1, 4)]}
LENGTHS |= {5: [(3, 1, 4, 2, 5)], 7: [(3, 2, 5, 1, 7, 4, 6)]}
RANKS = [(3, 2), (1, 4)]
some = settings(max_examples=6, deadline=None)


@pytest.fixture(autouse=True, scope="module")
def double():
    with jax.enable_x64(True):
        yield


# --- helpers --------------------------------------------------------------------------------------------------------


@st.composite
def cases(draw, least=2, most=7):
    """A dimension, unequal numbers of points along its axes, two ranks and a source of random numbers."""
    allowed = [each for d, some in LENGTHS.items() if least <= d <= most for each in some]
    lengths, ranks = draw(st.sampled_from(allowed)), draw(st.sampled_from(RANKS))
    return SimpleNamespace(
        dimension=len(lengths),
        axes=AXES[: len(lengths)],
        lengths=lengths,
        ranks=ranks,
        rng=np.random.default_rng(draw(st.integers(0, 10**6))),
    )


def random_separable(case, rank, order=0, weights=None):
    return Separable(
        case.axes,
        [jnp.asarray(case.rng.standard_normal((order + 1, n, rank))) for n in case.lengths],
        weights,
    )


def random_weights(case):
    return [jnp.asarray(case.rng.uniform(0.1, 1, n)) for n in case.lengths]


def lattice_sum(factors):
    """Σ_j Π_i f_ij by brute force, from arrays (points, rank)."""
    letters = "ijklmno"[: len(factors)]
    return np.einsum(
        ",".join(letter + "r" for letter in letters) + "->" + letters, *map(np.asarray, factors)
    )


def on_lattice(u, orders=None):
    return lattice_sum([jet[k] for jet, k in zip(u.jets, orders or (0,) * len(u.axes))])


def apply_on_lattice(parts):
    """A linear operator, term by term, on the lattice."""
    return sum(
        float(c) * on_lattice(u, orders) for u, terms in parts for orders, c in terms.items()
    )


def weighted_sum(values, weights):
    for w in reversed(weights):
        values = values @ np.asarray(w)
    return values


def assert_close(found, expected, relative=1e-12):
    """Relative to the largest value: single ones may cancel."""
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(
        found, expected, rtol=relative, atol=relative * np.max(np.abs(expected))
    )


def random_terms(case, most_order, most_terms):
    """A linear differential operator {orders: coefficient} with distinct multi-orders."""
    terms = {}
    for _ in range(case.rng.integers(1, most_terms + 1)):
        orders = tuple(int(k) for k in case.rng.integers(0, most_order + 1, case.dimension))
        terms[orders] = float(case.rng.choice([1.0, -1.0, case.rng.standard_normal()]))
    return terms


def polynomials(case, rank):
    return [
        [Polynomial(case.rng.standard_normal(case.rng.integers(1, 5))) for _ in range(rank)]
        for _ in case.lengths
    ]


def differentiate(p, k):
    return p.deriv(k) if k else p


def sample(case, polys, lattice, order):
    """The Separable of given polynomials, its jets from their analytic derivatives."""
    jets = []
    for each, x in zip(polys, lattice.coordinates):
        jets.append(
            np.array(
                [[differentiate(p, k)(np.asarray(x)) for p in each] for k in range(order + 1)]
            ).swapaxes(1, 2)
        )
    return Separable(case.axes, jets, lattice.weights)


def box_of(case):
    return Box(**{axis: (-0.5 - 0.1 * i, 1.0 + 0.2 * i) for i, axis in enumerate(case.axes)})


def quadrature_of(case, least=1):
    return quadrature(box_of(case), {a: max(n, least) for a, n in zip(case.axes, case.lengths)})


# --- values and algebra ---------------------------------------------------------------------------------------------


@some
@given(cases(least=1))
def test_values_are_the_sum_of_products(case):
    u = random_separable(case, case.ranks[0])
    assert_close(jax.jit(Separable.values)(u), on_lattice(u))


@some
@given(cases())
def test_sums_differences_and_multiples_are_those_of_the_values(case):
    u, v = (random_separable(case, rank) for rank in case.ranks)
    found = jax.jit(lambda u, v: [w.values() for w in (u + v, u - v, -3 * u, -u / 4)])(u, v)
    a, b = on_lattice(u), on_lattice(v)
    for one, expected in zip(found, (a + b, a - b, -3 * a, -a / 4)):
        assert_close(one, expected)


@some
@given(cases())
def test_products_are_those_of_the_values(case):
    u, v = (random_separable(case, rank) for rank in case.ranks)
    product, values = jax.jit(lambda u, v: (u * v, (u * v).values()))(u, v)
    assert product.rank == u.rank * v.rank
    assert_close(values, on_lattice(u) * on_lattice(v))


@some
@given(cases())
def test_derivatives_of_polynomial_factors_are_analytic(case):
    lattice = quadrature_of(case)
    polys = polynomials(case, case.ranks[0])
    u = sample(case, polys, lattice, 3)
    orders = [int(k) for k in case.rng.integers(0, 4, case.dimension)]
    expected = sample(
        case, [[differentiate(p, k) for p in each] for each, k in zip(polys, orders)], lattice, 0
    )
    assert_close(
        jax.jit(lambda u: u.derivative(**dict(zip(case.axes, orders))).values())(u),
        on_lattice(expected),
    )


@some
@given(cases(most=4))
def test_derivatives_of_a_product_follow_the_product_rule(case):
    """∂^k (u v) of polynomials, from the polynomials of the product multiplied out."""
    lattice = quadrature_of(case)
    ours, theirs = (polynomials(case, rank) for rank in case.ranks)
    u, v = sample(case, ours, lattice, 3), sample(case, theirs, lattice, 3)
    multiplied = [[p * q for p in a for q in b] for a, b in zip(ours, theirs)]
    orders = [int(k) for k in case.rng.integers(0, 4, case.dimension)]
    expected = sample(
        case,
        [[differentiate(p, k) for p in each] for each, k in zip(multiplied, orders)],
        lattice,
        0,
    )
    assert_close(
        jax.jit(lambda u, v: (u * v).derivative(**dict(zip(case.axes, orders))).values())(u, v),
        on_lattice(expected),
    )


def test_leibniz_of_exponentials():
    """(e^{ax} e^{bx})⁽ᵏ⁾ = (a + b)ᵏ e^{(a+b)x}, for every pair of columns."""
    x = jnp.linspace(0, 1, 5)
    a, b = jnp.array([0.5, -1.0, 2.0]), jnp.array([1.5, 0.25])

    def jet(rates):
        return jnp.stack([rates**k * jnp.exp(x[:, None] * rates) for k in range(6)])

    found, expected = jax.jit(lambda: (leibniz(jet(a), jet(b)), jet((a[:, None] + b).ravel())))()
    assert_close(found, expected, 1e-13)


def test_khatri_rao_is_the_column_wise_kronecker_product():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((n, 3)) for n in (2, 4, 5))
    expected = np.stack([np.kron(np.kron(a[:, j], b[:, j]), c[:, j]) for j in range(3)], 1)
    assert_close(khatri_rao([jnp.asarray(f) for f in (a, b, c)]), expected, 1e-15)


@pytest.mark.parametrize(
    "sizes", [(3, 5), (32, 4), (96, 7), (37, 101), (6, 5, 40)]
)  # in one sum of slices, in two, in none
def test_the_gradient_of_a_khatri_rao_product_is_the_same_on_a_gpu(monkeypatch, sizes):
    rng = np.random.default_rng(0)
    factors = [jnp.asarray(rng.normal(size=(n, 4))) for n in sizes]
    back = jnp.asarray(rng.normal(size=(math.prod(sizes), 4)))

    def gradients():
        return jax.jit(jax.grad(lambda f: jnp.sum(back * khatri_rao(f))))(factors)

    here = gradients()
    monkeypatch.setattr(
        "separax.separable.merging.default_device", lambda: SimpleNamespace(platform="gpu")
    )
    reductions = str(jax.make_jaxpr(gradients)()).count("reduce_sum")
    for one, other in zip(gradients(), here):
        assert_close(one, other, 1e-12)
    assert (reductions == 1) == (
        101 not in sizes
    )  # that of the test alone, where nothing is a large prime


# --- integrals, inner products, norms -------------------------------------------------------------------------------


@some
@given(cases())
def test_integrals_of_polynomials_are_analytic_over_all_axes_and_over_some(case):
    lattice = quadrature_of(case, least=3)  # exact for degree 5
    polys = polynomials(case, case.ranks[0])
    u = sample(case, polys, lattice, 0)
    box = box_of(case)
    definite = [
        [p.integ()(box[axis][1]) - p.integ()(box[axis][0]) for p in each]
        for axis, each in zip(case.axes, polys)
    ]
    size = sum(math.prod(abs(d[j]) for d in definite) for j in range(u.rank))
    assert u.integral() == pytest.approx(
        sum(math.prod(d[j] for d in definite) for j in range(u.rank)), abs=1e-12 * size
    )
    gone = [axis for axis in case.axes if case.rng.random() < 0.5][: case.dimension - 1] or [
        case.axes[-1]
    ]
    left, values = jax.jit(lambda u: (u.integral(*gone), u.integral(*gone).values()))(u)
    assert left.axes == tuple(axis for axis in case.axes if axis not in gone)
    factors = [jet[0] for axis, jet in zip(case.axes, u.jets) if axis not in gone]
    factors[0] = factors[0] * np.prod(
        [d for axis, d in zip(case.axes, definite) if axis in gone], axis=0
    )
    assert_close(values, lattice_sum(factors))


@some
@given(cases())
def test_integral_and_inner_product_and_norm_are_the_lattice_sums(case):
    weights = random_weights(case)
    u, v = (random_separable(case, rank, weights=weights) for rank in case.ranks)
    a, b = on_lattice(u), on_lattice(v)
    integral, inner, norm = jax.jit(lambda u, v: (u.integral(), u.inner(v), u.norm()))(u, v)
    sizes = weighted_sum(np.abs(a), weights), weighted_sum(np.abs(a * b), weights)
    assert integral == pytest.approx(weighted_sum(a, weights), abs=1e-12 * sizes[0])
    # the terms of a Gram sum are larger than the inner product by at most their number
    assert inner == pytest.approx(
        weighted_sum(a * b, weights), abs=1e-11 * max(sizes[1], weighted_sum(a * a, weights))
    )
    assert norm == pytest.approx(math.sqrt(weighted_sum(a * a, weights)), rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_norm_of_a_tiny_difference_survives_float32_where_the_root_of_the_inner_product_does_not(
    seed,
):
    """‖(u + 1e-6 w) - u‖ in float32: √∫(…)² rounds at √ε ≈ 3e-4 of ‖u‖, the orthogonalised norm at ε."""
    rng = np.random.default_rng(seed)
    lengths, rank = (24, 20, 28), 6
    u, w = ([rng.standard_normal((n, rank)) / np.sqrt(n) for n in lengths] for _ in range(2))
    scale = np.linalg.norm(lattice_sum(u)) / np.linalg.norm(lattice_sum(w))
    tiny = [w[0] * 1e-6 * scale, w[1], w[2]]
    stacked = [
        np.concatenate([a, b, sign * a], 1).astype(np.float32)
        for a, b, sign in zip(u, tiny, (-1, 1, 1))
    ]
    exact = np.linalg.norm(lattice_sum([f.astype(np.float64) for f in stacked]))
    assert exact == pytest.approx(1e-6 * np.linalg.norm(lattice_sum(u)), rel=1e-3)
    with jax.enable_x64(False):
        ones = [jnp.ones(n, jnp.float32) for n in lengths]
        difference = Separable("xyz", [jnp.asarray(f)[None] for f in stacked], ones)
        norm, squared = jax.jit(lambda u: (u.norm(), u.inner(u)))(difference)
    assert norm.dtype == jnp.float32
    assert norm == pytest.approx(exact, rel=0.3)
    assert math.sqrt(max(float(squared), 0.0)) != pytest.approx(exact, rel=0.9)


# --- merging linear operators ---------------------------------------------------------------------------------------


@some
@given(cases(least=1))
def test_merging_a_linear_operator_is_the_sum_of_its_terms(case):
    parts = [
        (random_separable(case, rank, order=2), random_terms(case, 2, 6)) for rank in case.ranks
    ]
    assert_close(
        jax.jit(lambda us: merge([(u, terms) for u, (_, terms) in zip(us, parts)]))(
            [u for u, _ in parts]
        ),
        apply_on_lattice(parts),
    )


def random_coefficient(case):
    """A function of some of the coordinates, of none or of all."""
    kept = case.rng.integers(0, 2, case.dimension)
    return jnp.asarray(
        case.rng.standard_normal([n if k else 1 for n, k in zip(case.lengths, kept)])
    )


@some
@given(cases(least=1, most=5))
def test_merging_with_coefficients_that_vary_is_multiplying_on_the_lattice(case):
    us = [random_separable(case, rank, order=2) for rank in case.ranks]
    plain = [(u, random_terms(case, 2, 3)) for u in us] if case.rng.integers(0, 3) else []
    varying = [
        (
            random_coefficient(case),
            [(u, random_terms(case, 2, 3)) for u in us[: case.rng.integers(1, 3)]],
        )
        for _ in range(3)
    ]
    expected = (apply_on_lattice(plain) if plain else 0.0) + sum(
        np.asarray(c) * apply_on_lattice(some) for c, some in varying
    )
    assert_close(jax.jit(lambda: merge(plain, varying=varying))(), expected)


def test_a_coefficient_of_all_axes_but_one_goes_into_a_side():
    """u_t + a(x, y) u_x + b(y) u_y, a product of two ranks: f′ (g h) + f (a g′ h + b g h′)."""
    lengths, rank = (9, 8, 7), 5
    case = SimpleNamespace(
        axes=("t", "x", "y"), lengths=lengths, dimension=3, rng=np.random.default_rng(0)
    )
    u, a, b = (
        random_separable(case, rank, 1),
        case.rng.standard_normal((1, 8, 7)),
        case.rng.standard_normal((1, 1, 7)),
    )

    def merged(u, a, b):
        return merge(
            [(u, {(1, 0, 0): 1.0})],
            varying=[(a, [(u, {(0, 1, 0): 1.0})]), (b, [(u, {(0, 0, 1): 1.0})])],
        )

    products = [
        e
        for e in equations(jax.make_jaxpr(merged)(u, a, b).jaxpr)
        if e.primitive.name == "dot_general"
    ]
    ((left, right),) = [[v.aval.shape for v in e.invars] for e in products]
    assert {left, right} == {(9, 2 * rank), (8 * 7, 2 * rank)}


def test_parts_without_terms_do_not_count():
    case = SimpleNamespace(axes=("x", "y"), lengths=(3, 4), rng=np.random.default_rng(0))
    u, v = random_separable(case, 2, order=2), random_separable(case, 3, order=2)
    terms = {(2, 0): 1.0, (0, 2): -0.5}
    assert_close(merge([(v, {}), (u, terms)]), apply_on_lattice([(u, terms)]))
    assert_close(lattice_sum(columns([(v, {}), (u, terms)])), apply_on_lattice([(u, terms)]))


def equations(jaxpr):
    """All equations of a jaxpr and of those inside it."""
    for equation in jaxpr.eqns:
        inner = equation.params.get("jaxpr")
        if inner is not None:
            yield from equations(getattr(inner, "jaxpr", inner))
        else:
            yield equation


def merge_products(parts):
    """The operand shapes of each matrix product of a merge, and the size of the largest array made on the way."""
    closed = jax.make_jaxpr(lambda us: merge([(u, terms) for u, (_, terms) in zip(us, parts)]))(
        [u for u, _ in parts]
    )
    found = list(equations(closed.jaxpr))
    products = [
        tuple(v.aval.shape for v in e.invars) for e in found if e.primitive.name == "dot_general"
    ]
    return products, max(v.aval.size for e in found for v in e.outvars)


def laplacian(dimension):
    return {tuple(2 * (i == j) for j in range(dimension)): 1.0 for i in range(dimension)}


@pytest.mark.parametrize("dimension", range(2, 8))
def test_merging_makes_one_product_of_operands_with_half_the_axes_each(dimension):
    """Two sides of at most N^⌈d/2⌉ rows, blocks × rank columns; nothing on the way is larger than they or the lattice."""
    n, rank = 3, 5
    case = SimpleNamespace(
        axes=AXES[:dimension],
        lengths=(n,) * dimension,
        dimension=dimension,
        rng=np.random.default_rng(0),
    )
    terms = laplacian(dimension) | {(0,) * dimension: 0.5} | {(1,) + (0,) * (dimension - 1): -2.0}
    products, largest = merge_products(
        [
            (random_separable(case, rank, 2), terms),
            (random_separable(case, rank, 2), laplacian(dimension)),
        ]
    )
    ((left, right),) = products
    inner = set(left) & set(right)
    rows = {max(left), max(right)} - inner
    assert max(inner) <= rank * 2 * (dimension // 2 + 2)
    assert max(rows, default=0) <= n ** math.ceil(dimension / 2)
    assert largest <= max(n**dimension, n ** math.ceil(dimension / 2) * max(inner))


@some
@given(cases())
def test_unequal_axes_are_cut_where_the_larger_side_stays_small(case):
    split = best_split(
        case.lengths, [(case.ranks[0], [tuple(o) for o in laplacian(case.dimension)])]
    )
    larger = {
        s: max(math.prod(case.lengths[:s]), math.prod(case.lengths[s:]))
        for s in range(1, case.dimension)
    }
    assert larger[split] <= 2 * min(larger.values())


@some
@given(cases())
def test_columns_reproduce_the_operator(case):
    parts = [
        (random_separable(case, rank, order=2), random_terms(case, 2, 6)) for rank in case.ranks
    ]
    found = jax.jit(lambda us: columns([(u, terms) for u, (_, terms) in zip(us, parts)]))(
        [u for u, _ in parts]
    )
    assert [len(c) for c in found] == list(case.lengths)
    assert found[0].shape[1] <= sum(u.rank * len(terms) for u, terms in parts)
    assert_close(lattice_sum(found), apply_on_lattice(parts))


def test_columns_of_terms_that_differ_along_one_axis_are_one_set():
    """f″g + fg″ + fg = (f″ + f) g + f g″: two ranks."""
    case = SimpleNamespace(axes=("x", "y"), lengths=(5, 6), rng=np.random.default_rng(0))
    u = random_separable(case, 3, order=2)
    assert [c.shape for c in columns([(u, {(2, 0): 1.0, (0, 2): 1.0, (0, 0): 1.0})])] == [
        (5, 6),
        (6, 6),
    ]


# --- at scattered points --------------------------------------------------------------------------------------------


@some
@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_at_points_is_the_sum_of_the_products_point_by_point(dimension, n, rank, seed):
    case = SimpleNamespace(
        axes=AXES[:dimension],
        lengths=(n,) * dimension,
        dimension=dimension,
        rng=np.random.default_rng(seed),
    )
    u, terms = random_separable(case, rank, order=2), random_terms(case, 2, 4)
    values, operated = jax.jit(lambda u: (u.at_points(), merge_at_points([(u, terms)])))(u)
    jets = np.stack([np.asarray(jet) for jet in u.jets])
    assert_close(values, jets[:, 0].prod(0).sum(1))
    assert_close(
        operated,
        sum(
            c * np.prod([jets[i, k] for i, k in enumerate(o)], axis=0).sum(1)
            for o, c in terms.items()
        ),
    )


# --- mean squares without a lattice ---------------------------------------------------------------------------------


def random_factors(case, dtype):
    return tuple(
        jnp.asarray(case.rng.standard_normal((n, case.ranks[0])), dtype) for n in case.lengths
    )


def quadrature_weights(case, dtype):
    """Positive weights that do not add up to one, None along some of the axes."""
    return [
        None if i % 3 == 1 else jnp.asarray(case.rng.uniform(0.1, 1, n), dtype)
        for i, n in enumerate(case.lengths)
    ]


def lattice_mean_square(factors, weights):
    """The mean square on the lattice and its gradient, in float64."""

    @jax.jit
    @jax.value_and_grad
    def both(factors):
        values = functools.reduce(lambda a, b: a[..., None, :] * b, factors).sum(-1) ** 2
        for w in reversed(weights):
            values = (
                values.mean(-1)
                if w is None
                else values @ (np.asarray(w, np.float64) / np.sum(np.asarray(w, np.float64)))
            )
        return values

    return both(tuple(np.asarray(f, np.float64) for f in factors))


@settings(max_examples=8, deadline=None)
@given(cases(most=5), st.sampled_from([jnp.float32, jnp.float64]))
def test_mean_square_and_its_gradient_are_those_of_the_lattice(case, dtype):
    factors = random_factors(case, dtype)
    weights = quadrature_weights(case, dtype) if dtype == jnp.float64 else [None] * case.dimension
    value, gradient = jax.jit(jax.value_and_grad(lambda f: mean_square(f, weights)))(factors)
    expected, slopes = lattice_mean_square(factors, weights)
    accuracy = (
        1e-6 if dtype == jnp.float32 else 1e-12
    )  # the result is rounded; what is inside is float64
    assert value.dtype == dtype
    assert_close(value, expected, accuracy)
    for ours, theirs in zip(gradient, slopes):
        assert ours.dtype == dtype
        assert_close(ours, theirs, accuracy)


def test_mean_square_and_its_gradient_under_vmap_and_jit():
    case = SimpleNamespace(lengths=(4, 6, 5), ranks=(3,), rng=np.random.default_rng(0))
    several = [random_factors(case, jnp.float32) for _ in range(3)]
    weights = quadrature_weights(case, jnp.float32)
    stacked = tuple(jnp.stack(each) for each in zip(*several))
    mean = functools.partial(mean_square, weights=weights)
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(mean)))(stacked)
    total = jax.jit(jax.grad(lambda factors: jnp.sum(jax.vmap(mean)(factors))))(stacked)
    for i, factors in enumerate(several):
        expected, slopes = lattice_mean_square(factors, weights)
        assert_close(value[i], expected, 2e-6)
        for ours, summed, theirs in zip(gradient, total, slopes):
            assert_close(ours[i], theirs, 2e-6)
            assert_close(summed[i], theirs, 2e-6)


def test_mean_square_of_one_axis_has_a_gradient():
    """d/df mean (Σ_j f_j)² = 2 w Σ_j f_j."""
    factor, weights = (
        jnp.asarray([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]),
        jnp.asarray([0.5, 0.25, 0.25]),
    )
    both = jax.jit(jax.value_and_grad(mean_square, argnums=(0, 1)))
    value, ((slope,), _) = both((factor,), (weights,))
    assert value == pytest.approx(0.5 * 9 + 0.25 * 4 + 0.25)
    assert_close(slope, jnp.asarray([[3.0, 3.0], [1.0, 1.0], [0.5, 0.5]]))


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_square_of_a_small_difference_of_large_float32_terms(weighted):
    """a g - b g + (b - a) g + 1e-6 w: terms of size one that leave 1e-6, whose square is lost to sums in float32.

    The factors are float32 numbers and count as exact: nothing may round them again before they are multiplied."""
    case = SimpleNamespace(lengths=(12, 9, 10), ranks=(4,), rng=np.random.default_rng(0))
    f, g, h = (np.asarray(x) for x in random_factors(case, jnp.float32))
    other = case.rng.standard_normal(f.shape).astype(np.float32)
    rest = [np.asarray(x) for x in random_factors(case, jnp.float32)]
    factors = (
        np.concatenate([f, -other, other - f, 1e-6 * rest[0]], 1),
        *(np.concatenate([x, x, x, r], 1) for x, r in zip((g, h), rest[1:])),
    )
    factors = tuple(jnp.asarray(x, jnp.float32) for x in factors)
    weights = quadrature_weights(case, jnp.float32) if weighted else [None] * 3
    expected, slopes = lattice_mean_square(factors, weights)
    assert expected < 1e-10
    value, gradient = jax.jit(jax.value_and_grad(lambda x: mean_square(x, weights)))(factors)
    # ε of float64 over 1e-12, times the number of terms
    assert_close(value, expected, 1e-3)
    for ours, theirs in zip(gradient, slopes):
        assert_close(ours, theirs, 1e-3)


def test_mean_square_without_float64_is_refused():
    case = SimpleNamespace(lengths=(4, 6), ranks=(3,), rng=np.random.default_rng(0))
    factors = random_factors(case, jnp.float32)
    with (
        jax.enable_x64(False),
        pytest.raises(InputError, match=r"mean_square: .*float32.* jax.enable_x64\(True\)"),
    ):
        mean_square(factors, [None, None])


# --- what is refused ------------------------------------------------------------------------------------------------


def plain(lengths=(3, 4), rank=2, order=1, weights=None, axes=("x", "y")):
    return Separable(axes, [jnp.ones((order + 1, n, rank)) for n in lengths], weights)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Separable(("x", "y"), [jnp.ones((1, 3, 2))]),
            "2 axes | 1 factors | one of each per axis",
        ),
        (lambda: Separable((), []), "0 axes"),
        (
            lambda: Separable(("x", "y"), [jnp.ones((1, 3, 2)), jnp.ones((1, 3, 4))]),
            "y | (1, 3, 4) | (derivatives, points, rank)",
        ),
        (lambda: Separable(("x",), [jnp.ones((3, 2))]), "x | (3, 2) | (derivatives, points, rank)"),
        (lambda: plain() + plain((3, 5)), "sum | (3, 4) | (3, 5) | one lattice"),
        (lambda: plain() * plain(axes=("x", "z")), "product | x, y | x, z | one lattice"),
        (lambda: plain().inner(plain((3, 5))), "inner product | (3, 5)"),
        (lambda: plain().integral(), "integral | x | separax.quadrature(box, points)"),
        (lambda: plain().norm(), "weights | x | separax.quadrature(box, points)"),
        (lambda: plain(weights=[jnp.ones(3), None]).integral("y"), "integral | y"),
        (lambda: plain(weights=[jnp.ones(3), None]).integral("q"), "integral | 'q' | x, y"),
        (lambda: plain().derivative(q=1), "derivative | 'q' | x, y"),
        (lambda: plain().derivative(x=2), "derivative | order 2 along x | carry 1"),
        (lambda: plain().derivative(x=-1), "derivative: x | -1"),
        (lambda: plain().at_points(), "at_points | (3, 4)"),
    ],
)
def test_what_cannot_be_done_is_refused_by_a_message(make, words):
    with pytest.raises(InputError) as raised:
        make()
    for word in words.split(" | "):
        assert word in str(raised.value)


@pytest.mark.parametrize(
    "other", ["two", np.ones((3, 4)), jnp.ones((3, 4)), None], ids=["str", "numpy", "jax", "none"]
)
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_arithmetic_with_anything_else_is_a_type_error(operation, other):
    """In particular an array of values, which would otherwise become an array of separable functions."""
    with pytest.raises(TypeError):
        operation(plain(), other)
    with pytest.raises(TypeError):
        operation(other, plain())
