"""What is derived from fields point by point, as a list of steps that needs no code of the user's:
sqrt(u² + v²), x·u_y, …

A formula is found by tracing the user's function at one point, and believed only if it gives what
the function gives on a lattice. It can be kept in a file, evaluated here, and evaluated by the
viewer of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import in_float64
from ..domain import Lattice
from ..separable import Key, Unreadable, read_jaxpr
from .field import Field, apply_to_values
from .problem import Problem
from .terms import example_lattice
from .tracing import Tracer, ValuesByDerivative, values_of

Step = tuple[
    str, *tuple[Any, ...]
]  # an operation and the places of its operands; ("constant", number)

# by JAX's names for them; the viewer has the same list. What is true or false may come as 1 or 0.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide,
    "neg": jnp.negative, "pow": jnp.power, "abs": jnp.abs, "sign": jnp.sign, "square": jnp.square,
    "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt, "cbrt": jnp.cbrt, "exp": jnp.exp, "exp2": jnp.exp2,
    "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "logistic": jax.nn.sigmoid,
    "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "asin": jnp.asin, "acos": jnp.acos,
    "atan": jnp.atan, "atan2": jnp.atan2, "sinh": jnp.sinh, "cosh": jnp.cosh, "tanh": jnp.tanh,
    "floor": jnp.floor, "ceil": jnp.ceil, "max": jnp.maximum, "min": jnp.minimum,
    "clamp": lambda low, v, high: jnp.clip(v, low, high), "lt": jnp.less, "le": jnp.less_equal,
    "gt": jnp.greater, "ge": jnp.greater_equal, "eq": jnp.equal, "ne": jnp.not_equal,
    "and": jnp.logical_and, "or": jnp.logical_or, "not": jnp.logical_not,
    "select_n": lambda which, no, yes: jnp.where(which != 0, yes, no),
}  # fmt: skip
# at one point, what goes in comes out
SAME = ("broadcast_in_dim", "convert_element_type", "copy", "stop_gradient")


@dataclass(frozen=True)
class Formula:
    """Steps from inputs (derivatives of the fields, and coordinates by name) to a value."""

    inputs: tuple[Key | str, ...]
    steps: tuple[Step, ...]
    result: int  # the place of the value among inputs and steps

    def __call__(self, given: Sequence[Any]) -> Any:
        """The value, from arrays or fields that stand for the inputs."""
        places = list(given)
        for name, *at in self.steps:
            if name == "constant":
                places.append(at[0])
                continue
            operands = [places[i] for i in at]
            of_fields = any(isinstance(o, Field) for o in operands)
            places.append(
                apply_to_values(OPERATIONS[name], *operands)
                if of_fields
                else OPERATIONS[name](*operands)
            )
        return places[self.result]

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        inputs = [
            each if isinstance(each, str) else [each[0], list(each[1])] for each in self.inputs
        ]
        return {
            "inputs": inputs,
            "steps": [list(step) for step in self.steps],
            "result": self.result,
        }

    @staticmethod
    def read(kept: Mapping[str, Any]) -> Formula:
        inputs = tuple(
            each if isinstance(each, str) else (each[0], tuple(each[1])) for each in kept["inputs"]
        )
        return Formula(
            inputs, tuple((str(name), *at) for name, *at in kept["steps"]), kept["result"]
        )


def formula_of(problem: Problem, name: str, unknowns: Mapping[str, Any]) -> Formula | None:
    """A derived quantity as a formula.

    Arguments:
        problem: whose quantity it is.
        name: of the quantity.
        unknowns: the values of the unknown coefficients, which become numbers in the formula.

    Returns:
        The formula; None where it is something else, such as a mean or a table.
    """
    try:
        with in_float64():
            return _traced(problem, name, {k: jnp.asarray(float(v)) for k, v in unknowns.items()})
    except Exception:  # a function may refuse a single point, as a difference along an axis does
        return None


def _traced(problem: Problem, name: str, unknowns: Mapping[str, Array]) -> Formula | None:
    def run(source: Any, coordinates: Mapping[str, Array]) -> Array:
        given = {**problem.field_map(source), **coordinates, **unknowns}
        found = problem.derived_quantity(name, given)
        return values_of(found, source.shape, f"derived[{name!r}]")

    axes = problem.box.axes
    one = (1,) * len(axes)
    point = {axis: jax.ShapeDtypeStruct(one, jnp.float64) for axis in axes}
    tracer = Tracer(axes, one, jnp.float64)
    jax.eval_shape(lambda c: run(tracer, c), point)
    keys = sorted(tracer.derivatives)
    values = [jax.ShapeDtypeStruct(one, jnp.float64) for _ in keys]
    traced = jax.make_jaxpr(lambda v, c: run(ValuesByDerivative(axes, one, dict(zip(keys, v))), c))(
        values, point
    )
    inputs = (*keys, *sorted(point))  # as JAX orders what it traces
    steps, result = _steps(traced, len(inputs))
    found = _pruned(Formula(inputs, tuple(steps), result))
    return found if _agrees(found, problem, run) else None


def _steps(closed: Any, first: int) -> tuple[list[Step], int]:
    """The steps of a traced function with so many inputs, and the place of its result."""
    steps: list[Step] = []

    def add(*step: Any) -> int:
        steps.append(step)
        return first + len(steps) - 1

    def constant(value: Any) -> int:
        plain = np.asarray(value)
        if plain.size != 1 or not np.isfinite(plain).all():
            raise Unreadable
        return add("constant", float(plain.reshape(())))

    def step(equation: Any, operands: list[int]) -> list[int]:
        name, options = equation.primitive.name, equation.params
        if name in SAME:
            return operands[:1]
        if name == "integer_pow":
            return [add("pow", operands[0], add("constant", float(options["y"])))]
        if name not in OPERATIONS:
            raise Unreadable
        return [add(name, *operands)]

    (result,) = read_jaxpr(closed.jaxpr, closed.consts, range(first), constant, step)
    return steps, result


def _pruned(found: Formula) -> Formula:
    """Without the inputs that no step asks for."""
    used = {found.result, *(i for name, *at in found.steps if name != "constant" for i in at)}
    kept = [
        i
        for i in range(len(found.inputs) + len(found.steps))
        if i >= len(found.inputs) or i in used
    ]
    new = {old: i for i, old in enumerate(kept)}
    steps = (
        step if step[0] == "constant" else (step[0], *(new[i] for i in step[1:]))
        for step in found.steps
    )
    return Formula(
        tuple(found.inputs[i] for i in kept if i < len(found.inputs)),
        tuple(steps),
        new[found.result],
    )


def _agrees(found: Formula, problem: Problem, run: Callable[..., Array]) -> bool:
    """Whether a formula gives what the function gives on a small lattice: at one point a mean, or a
    rounding to whole numbers, looks like nothing at all."""
    axes = problem.box.axes
    shape = example_lattice(axes).shape
    draw = np.random.default_rng(0)
    drawn = {axis: draw.uniform(*problem.box[axis], n) for axis, n in zip(axes, shape)}
    coordinates = Lattice(weights=None, **drawn).arrays()
    each = {
        key: jnp.asarray(draw.normal(size=shape))
        for key in found.inputs
        if not isinstance(key, str)
    }
    true = run(ValuesByDerivative(axes, shape, each), coordinates)
    ours = found([coordinates[key] if isinstance(key, str) else each[key] for key in found.inputs])
    return np.allclose(np.broadcast_to(ours, shape), true, rtol=1e-9, atol=1e-12, equal_nan=True)
