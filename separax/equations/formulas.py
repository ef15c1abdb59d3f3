"""What is derived from fields point by point, as a list of steps that needs no code of the user's: sqrt(u² + v²), x·u_y, …

A formula is found by tracing the user's function at one point, and believed only if it gives what the function gives on a
lattice. It can be kept in a file, evaluated here, and evaluated by the viewer of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import call
from ..separable import Key
from .field import Field, apply_to_values
from .inputs import ValuesByDerivative
from .problem import Problem
from .tracing import Tracer, values_of

Step = tuple[
    str, *tuple[Any, ...]
]  # an operation and the places of its operands; ("constant", number)

# by JAX's names for them; the viewer has the same list. What is true or false may come as 1 or 0.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "neg": jnp.negative, "pow": jnp.power,
    "abs": jnp.abs, "sign": jnp.sign, "square": jnp.square, "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt, "cbrt": jnp.cbrt,
    "exp": jnp.exp, "exp2": jnp.exp2, "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "logistic": jax.nn.sigmoid,
    "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "asin": jnp.asin, "acos": jnp.acos, "atan": jnp.atan, "atan2": jnp.atan2,
    "sinh": jnp.sinh, "cosh": jnp.cosh, "tanh": jnp.tanh, "floor": jnp.floor, "ceil": jnp.ceil,
    "max": jnp.maximum, "min": jnp.minimum, "clamp": lambda low, v, high: jnp.clip(v, low, high),
    "lt": jnp.less, "le": jnp.less_equal, "gt": jnp.greater, "ge": jnp.greater_equal, "eq": jnp.equal, "ne": jnp.not_equal,
    "and": jnp.logical_and, "or": jnp.logical_or, "not": jnp.logical_not,
    "select_n": lambda which, no, yes: jnp.where(which != 0, yes, no),
}  # fmt: skip
SAME = (
    "broadcast_in_dim",
    "convert_element_type",
    "copy",
    "stop_gradient",
)  # at one point, what goes in comes out
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
}


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
    """A derived quantity as a formula; None where it is something else, such as a mean or a table."""
    try:
        with jax.enable_x64(True):
            return _traced(problem, name, {k: jnp.asarray(float(v)) for k, v in unknowns.items()})
    except Exception:  # a function may refuse a single point, as a difference along an axis does; then it is no formula
        return None


def _traced(problem: Problem, name: str, unknowns: Mapping[str, Array]) -> Formula | None:
    def run(source: Any, coordinates: Mapping[str, Array]) -> Array:
        given = {**problem.field_map(source), **coordinates, **unknowns}
        found = call(
            problem.derived[name], problem._derived_arguments[name], given, f"derived[{name!r}]"
        )
        return values_of(found, source.shape, f"derived[{name!r}]")

    axes = problem.box.axes
    one = (1,) * len(axes)
    point = {axis: jax.ShapeDtypeStruct(one, jnp.float64) for axis in axes}
    tracer = Tracer(axes, one)
    tracer.dtype = jnp.float64
    jax.eval_shape(lambda c: run(tracer, c), point)
    keys = sorted(tracer.needs)
    values = [jax.ShapeDtypeStruct(one, jnp.float64) for _ in keys]
    traced = jax.make_jaxpr(lambda v, c: run(ValuesByDerivative(axes, one, dict(zip(keys, v))), c))(
        values, point
    )
    inputs = (*keys, *sorted(point))  # as JAX orders what it traces
    steps: list[Step] = []
    result = _flattened(traced.jaxpr, traced.consts, list(range(len(inputs))), len(inputs), steps)
    if result is None:
        return None
    found = _pruned(Formula(inputs, tuple(steps), result[0]))
    return found if _agrees(found, problem, run) else None


def _flattened(
    jaxpr: Any, constants: Sequence[Any], inputs: Sequence[int], first: int, steps: list[Step]
) -> list[int] | None:
    """Adds the steps of a traced function; returns the places of its results, None if one of its steps has no name here."""
    places: dict[Any, int] = dict(zip(jaxpr.invars, inputs))

    def add(*step: Any) -> int:
        steps.append(step)
        return first + len(steps) - 1

    def constant(value: Any) -> int | None:
        plain = np.asarray(value)
        return (
            add("constant", float(plain.reshape(())))
            if plain.size == 1 and np.isfinite(plain).all()
            else None
        )

    for variable, value in zip(jaxpr.constvars, constants):
        if (at := constant(value)) is None:
            return None
        places[variable] = at

    def place(operand: Any) -> int | None:
        return constant(operand.val) if hasattr(operand, "val") else places.get(operand)

    for equation in jaxpr.eqns:
        name, options = equation.primitive.name, equation.params
        operands = [at for at in map(place, equation.invars) if at is not None]
        if len(operands) < len(equation.invars):
            return None
        if name in CALLS:
            inner = options[CALLS[name]]
            found = _flattened(inner.jaxpr, inner.consts, operands, first, steps)
        elif name in SAME:
            found = operands[:1]
        elif name == "integer_pow":
            found = [add("pow", operands[0], add("constant", float(options["y"])))]
        else:
            found = [add(name, *operands)] if name in OPERATIONS else None
        if found is None:
            return None
        places.update(zip(equation.outvars, found))
    found = [place(v) for v in jaxpr.outvars]
    return None if None in found else found  # pyright: ignore[reportReturnType]


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
    """Whether a formula gives what the function gives on a small lattice: at one point a mean, or a rounding to whole
    numbers, looks like nothing at all."""
    _, shapes, _ = problem._example()
    shape = tuple(range(2, 2 + len(shapes)))
    draw = np.random.default_rng(0)
    coordinates = {
        axis: jnp.asarray(draw.uniform(*problem.box[axis], like.shape))
        for axis, like in shapes.items()
    }
    each = {
        key: jnp.asarray(draw.normal(size=shape))
        for key in found.inputs
        if not isinstance(key, str)
    }
    true = run(ValuesByDerivative(problem.box.axes, shape, each), coordinates)
    ours = found([coordinates[key] if isinstance(key, str) else each[key] for key in found.inputs])
    return np.allclose(np.broadcast_to(ours, shape), true, rtol=1e-9, atol=1e-12, equal_nan=True)
