"""Conditions of a user's own: they add terms to the loss like those that are there already."""

import copy
import pickle
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import exact_terms, growth, one, power, wave

import separax as sx

BOX = sx.Box(t=(0, 1), x=(0, 1))
NETWORKS = [sx.SPINN(rank=2, width=4, depth=1, body="mlp"), sx.PINN(width=4, depth=1, body="mlp")]


def heat(u):
    return u.t - u.xx


def of_network(network):
    return sx.Recipe(network=network, points=6, precision="float64", emphasis=1.0)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


class Total(sx.AbstractCondition):
    """∫ u dx = amount at every time."""

    amount: float
    name: str = "total"

    def terms(self, problem):
        lattice = sx.quadrature(problem.box, 16)
        times = sx.Lattice(t=lattice["t"])

        def residual(at):
            total = at.fields["u"].value @ lattice.weights[1]
            return sx.Part(self.name, times, total - self.amount)

        return [sx.Term(name=self.name, fixed=lattice, residual=residual)]


class Fading(sx.AbstractCondition):
    """u(t, 1) = e^(-rate t) u(t, 0)."""

    rate: float
    name: str = "fading"

    def terms(self, problem):
        def residual(at):
            lower, upper = at.on_faces(at.fields["u"], "x")
            t, _ = at.on_faces(at.coordinates["t"], "x")
            left = upper - jnp.exp(-self.rate * t) * lower
            return sx.Part(self.name, at.lower_face("x"), left)

        return [sx.Term(name=self.name, axis="x", sides="-+", residual=residual)]


class Radiation(sx.AbstractCondition):
    """u_x = -strength u⁴ on the upper face of x."""

    strength: float
    name: str = "radiation"
    weight: float = 3.0

    def terms(self, problem):
        def residual(at):
            u = at.fields["u"]
            return u.x + self.strength * u**4

        term = sx.Term(
            name=self.name,
            weight=self.weight,
            axis="x",
            sides="+",
            residual=residual,
            couples_points=False,
        )
        return [term]


@pytest.mark.parametrize("network", NETWORKS, ids=["separable", "pointwise"])
def test_an_integral_over_an_axis(network):
    """∫ 3x² e^t dx = e^t, so that what is left of 1 is e^t - 1."""
    problem = sx.Problem(BOX, heat, [Total(1.0)])
    terms, _ = exact_terms(problem, of_network(network), [[(3.0, growth(1.0), power(2))]])
    t = np.asarray(sx.quadrature(BOX, 16)["t"])
    assert terms["total"] == pytest.approx(np.mean((np.exp(t) - 1) ** 2), rel=1e-12)
    constant, _ = exact_terms(problem, of_network(network), [[(3.0, one, power(2))]])
    assert constant["total"] == pytest.approx(0.0, abs=1e-24)


@pytest.mark.parametrize("network", NETWORKS, ids=["separable", "pointwise"])
def test_what_holds_between_two_faces(network):
    """e^(-tx) has it for the rate 1; e^(-t) times anything periodic misses it by (1 - e^-t) e^-t."""
    condition = Fading(1.0)
    problem = sx.Problem(BOX, heat, [condition])
    terms, places = exact_terms(
        problem, of_network(network), [[(1.0, growth(-1.0), wave(2 * np.pi, np.pi / 2))]]
    )
    t = np.asarray(places[1].coordinates[0])
    t = t if places[1].shape == (len(t), 2) else t[: len(t) // 2]
    true = np.mean(((1 - np.exp(-t)) * np.exp(-t)) ** 2)
    assert terms["fading"] == pytest.approx(true, rel=1e-12)
    plain = sx.Problem(BOX, heat, [Fading(0.0)])
    terms, _ = exact_terms(plain, of_network(network), [[(1.0, growth(-1.0), one)]])
    assert terms["fading"] == pytest.approx(0.0, abs=1e-24)


@pytest.mark.parametrize("network", NETWORKS, ids=["separable", "pointwise"])
def test_an_expression_of_the_fields_on_a_face(network):
    """It is the same as a condition of that expression."""
    ours = sx.Problem(BOX, heat, [Radiation(2.0)])
    theirs = sx.Problem(BOX, heat, [sx.Condition(0, on="x+", of=lambda u: u.x + 2.0 * u**4)])
    u = [[(0.5, growth(0.3), power(2)), (0.2, one, one)]]
    terms, _ = exact_terms(ours, of_network(network), u)
    same, _ = exact_terms(theirs, of_network(network), u)
    assert terms["radiation"] == pytest.approx(same["condition"], rel=1e-12)
    assert ours.terms[0].derivatives == theirs.terms[0].derivatives == {(0, (0, 0)), (0, (0, 1))}


def test_problems_with_other_conditions_have_another_fingerprint():
    def of(*conditions):
        return sx.Problem(BOX, heat, conditions).fingerprint()

    assert of(Total(1.0)) == of(Total(1.0))
    assert len({of(Total(1.0)), of(Total(2.0)), of(Fading(1.0)), of(Radiation(1.0))}) == 4


def test_what_couples_points_is_trained_and_not_solved_for():
    assert sx.Problem(BOX, heat, [Total(1.0)]).terms[0].couples_points
    assert not sx.Problem(BOX, heat, [Radiation(1.0)]).terms[0].couples_points
    problem = sx.Problem(BOX, heat, [Total(1.0)])
    recipe = sx.Recipe(
        sx.SPINN(rank=2, depth=0, body="mlp", functions=6),
        points=8,
        optimiser=sx.Solve(1),
        sampler=sx.GaussLegendre(),
        precision="float64",
    )
    with pytest.raises(sx.InputError, match="yet"):
        recipe.check(problem)


def test_a_residual_of_the_wrong_shape_is_refused_before_anything_is_computed():
    class Wrong(sx.AbstractCondition):
        def terms(self, problem):
            def residual(at):
                return jnp.sum(at.fields["u"].value)

            return [sx.Term(name="wrong", axis="x", sides="+", residual=residual)]

    with pytest.raises(sx.InputError, match=r"wrong: residual returned an array of shape \(\)"):
        sx.Problem(BOX, heat, [Wrong()])


def test_a_problem_does_not_change():
    problem = sx.Problem(BOX, heat, [sx.Initial(0.0)])
    for name, value in {"name": "x", "box": BOX, "reference": None, "terms": ()}.items():
        with pytest.raises(AttributeError, match=f"Problem\\(…, {name}=…\\)"):
            setattr(problem, name, value)
    part = problem.during(0.0, 0.5)
    assert (part.box["t"], problem.box["t"], part.whole) == ((0.0, 0.5), (0, 1), problem)
    assert problem.with_terms([]).names == ("residual",)
    assert problem.names == ("residual", "initial")


def test_a_problem_is_pickled_where_its_functions_are():
    problem = sx.Problem(BOX, heat, [sx.Initial(0.0), sx.Periodic("x"), Radiation(1.0)], name="rod")
    for each in (problem, problem.during(0.0, 0.5)):
        again = pickle.loads(pickle.dumps(each))
        assert again is not each
        assert (again.name, again.box, again.fingerprint()) == ("rod", each.box, each.fingerprint())
    assert copy.deepcopy(problem) is problem  # nothing in it changes


def test_the_places_of_terms_are_drawn(monkeypatch):
    """A term without a place of its own is where the residual is."""

    class Everywhere(sx.AbstractCondition):
        def terms(self, problem):
            return [sx.Term(name="bound", residual=lambda at: jnp.minimum(at.fields["u"].value, 0))]

    problem = sx.Problem(BOX, heat, [Everywhere()])
    for network in NETWORKS:
        terms, places = exact_terms(problem, of_network(network), [[(-2.0, one, one)]])
        assert terms["bound"] == pytest.approx(4.0, rel=1e-12)
        assert places[1].shape == places[0].shape


def test_the_name_of_a_problem():
    def residual(u):
        return u.t

    named = SimpleNamespace(lambda_=lambda u: u.t)
    assert sx.Problem(BOX, heat).name == "heat"
    assert sx.Problem(BOX, heat, name="rod").name == "rod"
    for anonymous in (residual, named.lambda_, {"a": heat}):
        assert sx.Problem(BOX, anonymous).name == "test_open_conditions"
    made = {}
    exec(
        "import separax as sx\np = sx.Problem(sx.Box(t=(0, 1)), lambda u: u.t)",
        made,
    )
    assert made["p"].name == "problem"
