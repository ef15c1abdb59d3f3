"""Fields: formal until used, differentiable afterwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import Exact, Weighing, growth, one, power, wave

import separax as sx

# u = sin(2x + 0.3) e^(y/2) + 3 > 0, v = cos(x) (y² + 1) on a lattice of different lengths
U = [(1.0, wave(2.0, 0.3), growth(0.5)), (3.0, one, one)]
V = [(1.0, wave(1.0, np.pi / 2), power(2)), (1.0, wave(1.0, np.pi / 2), one)]
XS, YS = np.linspace(-1, 2, 7), np.linspace(-1, 1, 5)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["lattice", "weighing", "points"])
def place(request):
    if request.param != "points":
        return sx.Lattice(x=XS, y=YS)
    return sx.Points(("x", "y"), (XS, np.linspace(-1, 1, 7)))


@pytest.fixture
def source(place, request):
    return (Weighing if "weighing" in request.node.callspec.id else Exact)(place, [U, V])


def fields(source):
    return tuple(sx.Field(source, {(i, (0, 0)): 1.0}, name=name) for i, name in enumerate("uv"))


def close(found, expected):
    np.testing.assert_allclose(
        found.value if isinstance(found, sx.Field) else found, expected, rtol=1e-12, atol=1e-12
    )


def parts(source, component):
    """f, f_x, f_y, f_xx, f_xy, f_yy by name, in closed form."""
    orders = {
        "": (0, 0),
        "x": (1, 0),
        "y": (0, 1),
        "xx": (2, 0),
        "xy": (1, 1),
        "yy": (0, 2),
        "xxx": (3, 0),
        "xxy": (2, 1),
    }
    return {name: source.derivative(component, o) for name, o in orders.items()}


# --- formal until used -------------------------------------------------------------------------------------------


def test_a_linear_operator_is_merged_once(source):
    u, _ = fields(source)
    operator = u.xx + u.yy + 2 * u - u.x / 4 - (-u.y)
    assert source.calls == []
    d = parts(source, 0)
    close(operator, d["xx"] + d["yy"] + 2 * d[""] - d["x"] / 4 + d["y"])
    assert len(source.calls) == 1


def test_only_the_nonlinear_part_makes_values(source):
    u, _ = fields(source)
    operator = u.xx + u.yy + u**2
    assert [set(call) for call in source.calls] == [{(0, (0, 0))}]
    d = parts(source, 0)
    close(operator, d["xx"] + d["yy"] + d[""] ** 2)
    assert len(source.calls) == 2


def test_equal_terms_are_gathered(source):
    u, _ = fields(source)
    close(u.x + u.x + 3 * u.x, 5 * source.derivative(0, (1, 0)))
    assert source.calls == [{(0, (1, 0)): 5.0}]


# --- derivatives by name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "y", "xx", "xy", "yy", "xxx", "xxy"])
def test_subscripts_are_partial_derivatives(source, name):
    u, _ = fields(source)
    close(getattr(u, name), parts(source, 0)[name])


def test_the_order_of_subscripts_does_not_matter(source):
    u, _ = fields(source)
    for mixed in (u.yx, u.x.y, u.y.x, u.d(x=1, y=1), u.d(y=1).d(x=1)):
        close(mixed, source.derivative(0, (1, 1)))


def test_long_axis_names():
    radius, angle = np.linspace(1, 2, 4), np.linspace(0, 3, 5)
    source = Exact(sx.Lattice(r=radius, theta=angle), [[(1.0, power(3), wave(2.0))]])
    u = sx.Field(source, {(0, (0, 0)): 1.0})
    close(u.d(theta=2), -4 * radius[:, None] ** 3 * np.sin(2 * angle))
    close(u.d(r=1, theta=1), 6 * radius[:, None] ** 2 * np.cos(2 * angle))
    close(u.theta, u.d(theta=1).value)
    close(u.r.theta, u.d(r=1, theta=1).value)
    # the Laplacian in polar coordinates of r³ sin 2θ is 5 r sin 2θ
    r = radius[:, None]
    close(u.rr + u.r / r + u.d(theta=2) / r**2, 5 * r * np.sin(2 * angle))


# --- the chain rule ----------------------------------------------------------------------------------------------


def test_product_rule(source):
    u, v = fields(source)
    f, g = parts(source, 0), parts(source, 1)
    close((u * v).x, f["x"] * g[""] + f[""] * g["x"])
    close((u * v).xx, f["xx"] * g[""] + 2 * f["x"] * g["x"] + f[""] * g["xx"])
    close((u * v).xy, f["xy"] * g[""] + f["x"] * g["y"] + f["y"] * g["x"] + f[""] * g["xy"])
    close((u.x * v.y).x, f["xx"] * g["y"] + f["x"] * g["xy"])


@pytest.mark.parametrize("power", [2, 3, 2.0, -1, 0.5, 0])
def test_powers(source, power):
    u, _ = fields(source)
    f = parts(source, 0)
    close(u**power, f[""] ** power)
    close((u**power).x, power * f[""] ** (power - 1) * f["x"])


def test_quotients(source):
    u, v = fields(source)
    f, g = parts(source, 0), parts(source, 1)
    close((1 / u).x, -f["x"] / f[""] ** 2)
    close((1 / u).xx, 2 * f["x"] ** 2 / f[""] ** 3 - f["xx"] / f[""] ** 2)
    close((v / u).y, g["y"] / f[""] - g[""] * f["y"] / f[""] ** 2)


def test_numpy_functions(source):
    u, v = fields(source)
    f, g = parts(source, 0), parts(source, 1)
    close(np.sin(u), np.sin(f[""]))
    close(np.sin(u).x, np.cos(f[""]) * f["x"])
    close(np.sin(u).xx, np.cos(f[""]) * f["xx"] - np.sin(f[""]) * f["x"] ** 2)
    close(np.exp(-u).xy, np.exp(-f[""]) * (f["x"] * f["y"] - f["xy"]))
    close(
        np.sqrt(u**2 + v**2).x, (f[""] * f["x"] + g[""] * g["x"]) / np.sqrt(f[""] ** 2 + g[""] ** 2)
    )
    close(np.tanh(u.x).y, f["xy"] / np.cosh(f["x"]) ** 2)
    close(np.maximum(u, v), np.maximum(f[""], g[""]))
    close(abs(v), np.abs(g[""]))
    close(np.arctan2(v, u), np.arctan2(g[""], f[""]))


def test_exponents_that_are_fields(source):
    u, v = fields(source)
    f, g = parts(source, 0), parts(source, 1)
    close((2**v).x, 2 ** g[""] * np.log(2) * g["x"])
    close((u**v).x, f[""] ** g[""] * (g["x"] * np.log(f[""]) + g[""] * f["x"] / f[""]))


def test_a_nonlinear_operator_in_divergence_form(source):
    """∇·(u² ∇u) = u² Δu + 2u |∇u|²."""
    u, _ = fields(source)
    f = parts(source, 0)
    expected = f[""] ** 2 * (f["xx"] + f["yy"]) + 2 * f[""] * (f["x"] ** 2 + f["y"] ** 2)
    close(sx.div([u**2 * u.x, u**2 * u.y]), expected)


# --- coefficients ------------------------------------------------------------------------------------------------


def test_coefficients_are_multiplied_in(place, source):
    u, _ = fields(source)
    x, y = place.arrays()["x"], place.arrays()["y"]
    f = parts(source, 0)
    close(x * u.x + y * u.y, np.asarray(x) * f["x"] + np.asarray(y) * f["y"])
    close(u.x * x, np.asarray(x) * f["x"])
    close(u - x, f[""] - np.asarray(x))
    close(x - u, np.asarray(x) - f[""])
    close(x / u, np.asarray(x) / f[""])
    close(u / (x + 3), f[""] / (np.asarray(x) + 3))


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_arrays_on_either_side(place, source, kind):
    u, _ = fields(source)
    f, a = parts(source, 0), kind(place.arrays()["x"])
    plain = np.asarray(a)
    for found, expected in [
        (a * u, plain * f[""]), (u * a, plain * f[""]), (a + u, plain + f[""]), (u + a, plain + f[""]),
        (a - u, plain - f[""]), (u - a, f[""] - plain), (a / u, plain / f[""]), (abs(a) ** u, abs(plain) ** f[""]),
    ]:  # fmt: skip
        assert isinstance(found, sx.Field)
        close(found, expected)


@pytest.mark.parametrize(
    "two", [2, 2.0, np.float64(2), np.float32(2), np.int64(2)], ids=lambda n: type(n).__name__
)
def test_numbers_on_either_side_stay_formal(source, two):
    u, _ = fields(source)
    for found in (two * u, u * two, u / (1 / two), two * u.x.d(x=0) - two * u.x + two * u):
        assert isinstance(found, sx.Field)
        assert source.calls == []
        assert found.linear
    close(two * u, 2 * source.derivative(0, (0, 0)))
    close(two - u, 2 - source.derivative(0, (0, 0)))
    close(two / u, 2 / source.derivative(0, (0, 0)))


def test_a_traced_number_stays_formal(source):
    u, _ = fields(source)

    def scaled(k):
        found = k * u.x + u / k
        assert found.linear
        return found.value

    f = parts(source, 0)
    close(jax.jit(scaled)(4.0), 4 * f["x"] + f[""] / 4)
    assert len(source.calls) == 1


def test_coefficients_wait_for_all_that_is_added():
    source = Weighing(sx.Lattice(x=XS, y=YS), [U, V])
    u, v = fields(source)
    x, y = XS[:, None], YS[None, :]
    found = 2 * (x * (u.x + y * v) - u / 4) - y * u.y + x
    assert source.calls == []
    assert not found.linear
    f, g = parts(source, 0), parts(source, 1)
    close(found, 2 * (x * (f["x"] + y * g[""]) - f[""] / 4) - y * f["y"] + x)
    assert source.calls[-1] == (
        {(0, (0, 0)): -0.5},
        [{(0, (1, 0)): 2.0}, {(1, (0, 0)): 2.0}, {(0, (0, 1)): -1.0}],
    )


def test_products_with_coefficients_obey_the_product_rule(place, source):
    u, v = fields(source)
    x, y = (np.asarray(place.arrays()[axis]) for axis in "xy")
    f, g = parts(source, 0), parts(source, 1)
    close((y * u + v).x, y * f["x"] + g["x"])
    close((y * (u + x)).d(y=0), y * (f[""] + x))
    close((y * (u * v)).x, y * (f["x"] * g[""] + f[""] * g["x"]))
    close(((y * u) * v).x, y * (f["x"] * g[""] + f[""] * g["x"]))
    close(((y * u) ** 2).xx, 2 * y**2 * (f["x"] ** 2 + f[""] * f["xx"]))
    close((x * (y * u.x)).d(), x * y * f["x"])
    close((3 * (y * u) / 2 - u).xx, 1.5 * y * f["xx"] - f["xx"])


@pytest.mark.parametrize("kind", [Exact, Weighing])
def test_the_derivative_of_a_coefficient_is_refused_with_advice(kind):
    source = kind(sx.Lattice(x=XS, y=YS), [U])
    u = sx.Field(source, {(0, (0, 0)): 1.0}, name="u")
    with pytest.raises(
        sx.DerivativeError, match=r"varies along x.*product rule.*k_x \* u\.x \+ k \* u\.xx"
    ):
        (XS[:, None] * u.x).x  # noqa: B018
    with pytest.raises(sx.DerivativeError, match=r"varies along y"):
        (u.x + YS).y  # noqa: B018
    with pytest.raises(sx.DerivativeError, match=r"varies along x"):
        np.sin(XS[:, None] * u).x  # noqa: B018


def test_the_derivative_of_values_is_refused():
    source = Exact(sx.Lattice(x=XS, y=YS), [U])
    u = sx.Field(source, {(0, (0, 0)): 1.0}, name="u")
    with pytest.raises(sx.DerivativeError):
        (u.x * u.value).x  # noqa: B018


def test_linear_means_linear_in_the_unknowns(source, place):
    u, v = fields(source)
    x = place.arrays()["x"]
    assert (u.xx + v.yy + jnp.sin(x)).linear
    assert (u.xx - 3).linear
    for other in (u * v, u**2, u.xx + u**2, x * u.x + u, np.sin(u) + u, u / v + u):
        assert not other.linear


# --- vector calculus ---------------------------------------------------------------------------------------------

BOX3 = sx.Lattice(
    t=np.linspace(0, 1, 2), x=np.linspace(-1, 1, 3), y=np.linspace(0, 2, 4), z=np.linspace(-2, 1, 5)
)
THREE = [
    [(1.0, growth(-1.0), wave(1.0), wave(2.0), power(2))],
    [(2.0, one, growth(0.5), wave(1.0, 1.0), wave(3.0))],
    [(-1.0, power(1), power(3), growth(1.0), wave(1.0)), (1.0, one, wave(1.0), one, power(1))],
]


def vector():
    source = Exact(BOX3, THREE)
    return tuple(
        sx.Field(source, {(i, (0, 0, 0, 0)): 1.0}, name=name) for i, name in enumerate("uvw")
    ), source


def test_gradient_divergence_and_laplacian_act_on_space():
    (u, v, w), source = vector()
    for found, orders in zip(sx.grad(u), [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]):
        close(found, source.derivative(0, orders))
    expected = (
        source.derivative(0, (0, 1, 0, 0))
        + source.derivative(1, (0, 0, 1, 0))
        + source.derivative(2, (0, 0, 0, 1))
    )
    close(sx.div((u, v, w)), expected)
    second = [(0, 2, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2)]
    close(sx.laplacian(u), sum(source.derivative(0, o) for o in second))
    for component, found in enumerate(sx.laplacian((u, v, w))):
        close(found, sum(source.derivative(component, o) for o in second))


def test_curl_in_two_axes(source):
    u, v = fields(source)
    close(sx.curl((u, v)), source.derivative(1, (1, 0)) - source.derivative(0, (0, 1)))


def test_div_curl_is_zero():
    close(sx.div(sx.curl(vector()[0])), 0.0)


def test_curl_grad_is_zero():
    for component in sx.curl(sx.grad(vector()[0][2])):
        close(component, 0.0)


def test_curl_curl_is_grad_div_minus_laplacian():
    velocity, _ = vector()
    twice = sx.curl(sx.curl(velocity))
    for found, along, smooth in zip(twice, sx.grad(sx.div(velocity)), sx.laplacian(velocity)):
        close(found, (along - smooth).value)


def test_vector_calculus_of_products():
    """∇·(f v) = f ∇·v + v·∇f."""
    (u, v, w), _ = vector()
    f = sx.grad(w)
    close(
        sx.div((w * u, w * v, w * w)),
        (w * sx.div((u, v, w)) + u * f[0] + v * f[1] + w * f[2]).value,
    )


def test_axes_can_be_named(source):
    u, _ = fields(source)
    close(sx.laplacian(u, axes=("y",)), source.derivative(0, (0, 2)))
    (found,) = sx.grad(u, axes=("y",))
    close(found, source.derivative(0, (0, 1)))


def test_vector_calculus_refuses_the_wrong_number_of_components(source):
    u, v = fields(source)
    with pytest.raises(sx.InputError, match="div: 3 components for the axes x, y"):
        sx.div((u, v, u))
    with pytest.raises(sx.InputError, match="curl: 1 components"):
        sx.curl((u,))
    with pytest.raises(sx.DerivativeError, match="there is no axis 'z'"):
        sx.grad(u, axes=("x", "z"))


# --- messages ----------------------------------------------------------------------------------------------------


def test_a_missing_axis_is_named(source):
    u, _ = fields(source)
    with pytest.raises(
        sx.DerivativeError, match=r"u\.zz.*no axis 'z'.*axes are x, y.*Write u\.yy or u\.d\(y=2\)"
    ):
        u.zz  # noqa: B018
    with pytest.raises(
        sx.DerivativeError, match=r"u\.d\(theta=2\).*no axis 'theta'.*axes are x, y"
    ):
        u.d(theta=2)


@pytest.mark.parametrize("order", [-1, 9, 1.5, "2", True, None])
def test_an_order_is_a_whole_number(source, order):
    u, _ = fields(source)
    with pytest.raises(sx.DerivativeError, match=r"u\.d\(x=.*whole number from 0 to 8"):
        u.d(x=order)


def test_orders_that_add_up_too_high_are_refused(source):
    u, _ = fields(source)
    with pytest.raises(sx.DerivativeError, match=r"order 10 along one axis.*at most 8"):
        u.d(x=5).d(x=5)
    assert u.d(x=4).d(x=4).linear


def test_a_field_is_no_truth_value(source):
    """`if u:` and `u == 0` would silently take one branch."""
    u, _ = fields(source)
    with pytest.raises(TypeError):
        bool(u)
    with pytest.raises(TypeError):
        bool(u == 0)


def test_what_is_no_number_is_refused(source):
    u, _ = fields(source)
    for other in ("a", [1.0], None, {}):
        with pytest.raises(TypeError):
            u * other
        with pytest.raises(TypeError):
            u + other
