# pyright: strict, reportMissingTypeStubs=false
"""The whole public surface, used as a program would use it, for a strict type checker: `make check`
finds no fault in it. A test holds that no public name is missing."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PRNGKeyArray

import separax as sx


def exact(t: Array, x: Array, y: Array) -> Array:
    return (x + y) * jnp.cos(2 * t) + x * y * jnp.sin(2 * t)


def klein_gordon(u: sx.Field, t: Array, x: Array, y: Array) -> sx.Field:
    return u.tt - u.xx - u.yy + u**2 - (exact(t, x, y) ** 2 - 4 * exact(t, x, y))


def vectors(u: sx.Field, v: sx.Field) -> dict[str, Any]:
    return {
        "div": sx.div(sx.grad(u)) - sx.laplacian(u),
        "curl": sx.curl((u, v)),
        "d": u.d(x=1) + np.sin(v),
    }


def speed(x: Array, y: Array) -> Array:
    return 2 * x * y


def start(x: Array) -> Array:
    return sx.tabulated(np.zeros(4), x=np.linspace(-1, 1, 4))(x)


def slope(u: sx.Field) -> sx.Field:
    return u.t


def right(x: Array) -> Array:
    return x > 0


def problems() -> sx.Problem:
    box = sx.Box(t=(0, 10), x=(-1, 1), y=(-1, 1))
    conditions: list[sx.AbstractCondition] = [
        sx.Initial(exact),
        sx.Initial(speed, of=slope),
        sx.Initial(start),
        sx.Dirichlet(exact, on=["x", "y+"], weight=2.0, hard=False, name="walls"),
        sx.Neumann(0, on="y-", where=right),
        sx.Robin(1.0, 2.0, 3.0, on="y-"),
        sx.Condition(0.0, on="x-", of=slope),
        sx.Data(np.zeros((3, 3)), np.zeros(3)),
        sx.Periodic("x", hard=False),
    ]
    return sx.Problem(box, klein_gordon, conditions, reference=exact)


class Square(sx.AbstractBody):
    weight: jax.Array

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int):
        self.weight = jax.random.normal(key, (inputs, outputs))

    def __call__(self, x: Array) -> Array:
        return (x @ self.weight) ** 2


class Logarithm(sx.AbstractEncoding):
    small: float = 0.1

    def __call__(self, x: Array, lower: float, upper: float) -> Array:
        s = (x - lower) / (upper - lower)
        return jnp.stack([s, jnp.log(s + self.small)])


def mlp(key: PRNGKeyArray, inputs: int, outputs: int) -> eqx.nn.MLP:
    return eqx.nn.MLP(inputs, outputs, 64, 3, jax.nn.gelu, key=key)


def recipes() -> list[sx.Recipe]:
    networks: list[sx.SPINN | sx.PINN] = [
        sx.SPINN(rank=32, width=64, depth=3),
        sx.SPINN(rank=8, body=mlp, activation=jax.nn.silu, encodings={"x": Logarithm()}),
        sx.SPINN(rank={"t": 2, "x": 3, "y": 4}, merge="tucker", depth=0, functions=8),
        sx.PINN(body=Square),
    ]
    optimisers: list[sx.AbstractOptimiser] = [
        sx.Adam(1e-3, "cosine", steps=10), sx.BFGS(), sx.LBFGS(), sx.SOAP(), sx.Solve(5),
        sx.GaussNewton(8), sx.Optax(optax.adamw, 1e-3),
    ]  # fmt: skip
    made = [sx.Recipe(network, points=16, steps=100) for network in networks]
    made += [sx.Recipe(optimiser=optimiser, precision="float64") for optimiser in optimisers]
    samplers: list[sx.AbstractSampler] = [
        sx.Uniform(),
        sx.Grid(shifts=2),
        sx.GaussLegendre(),
        sx.Strata(),
    ]
    made += [sx.Recipe(sampler=sampler) for sampler in samplers]
    weightings: list[sx.AbstractWeighting] = [sx.Constant(), sx.Causal(), sx.EarlyFirst(1.0)]
    made += [sx.Recipe(weighting=weighting) for weighting in weightings]
    return [*made, sx.Recipe(optimiser=optax.adamw(1e-3)), made[0].with_steps(10)]


def asked(solution: sx.Solution) -> dict[str, Any]:
    ts, xs, ys = np.linspace(0, 10, 5), np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)
    points = np.zeros((2, 3))
    factors: sx.Separable = solution.separable(sx.Lattice(t=ts, x=xs, y=ys), order=1)
    return {
        "lattice": solution(t=ts, x=xs, y=ys),
        "points": solution.at(points),
        "derivative": solution.d(t=1)(t=ts, x=0.5, y=ys),
        "operator": solution.of(slope).at(points),
        "integral": solution.integral("x", "y", t=ts),
        "error": solution.relative_l2() + solution.rmse(),
        "norm": solution.norm(),
        "point": solution.point(points[0]),
        "factors": factors.integral(),
        "best": solution.best_loss,
        "history": solution.history.total,
        "advice": solution.advice,
    }


class Watch(sx.AbstractHook):
    def update(self, progress: Any) -> None:
        print(progress.step)


def solved(folder: str) -> None:
    problem = problems()
    try:
        one: sx.Solution = sx.solve(problem, tolerance=1e-3, out=folder, callback=Watch())
        several: sx.Ensemble = sx.solve(problem, sx.Recipe(), seed=[0, 1], progress=False)
    except (sx.InputError, sx.DerivativeError):
        raise
    except sx.Diverged as error:
        print(error.solution)
        return
    print(asked(one), [member.relative_l2() for member in several], several.relative_l2())
    again = sx.load(folder)
    print(again, sx.TensorBoard(folder), sx.quadrature(problem.box, 8).weights)
    one.save(folder)
    one.export("u.nc", points=16)


PARTS: tuple[type, ...] = (
    *(sx.AbstractActivation, sx.AbstractFormat, sx.AbstractGradientOptimiser, sx.AbstractMinimiser),
    *(sx.AbstractNetwork, sx.Part, sx.Term, sx.Points),
)
