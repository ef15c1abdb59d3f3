"""What a residual sees: fields whose partial derivatives read like subscripts, `u.tt - u.xx + u**2`.

A field is a formal linear combination of partial derivatives of the unknowns, plus a part that is already known by
its values. Adding and scaling keep the combination formal, so a linear operator is merged onto the lattice once,
however many terms it has; anything nonlinear makes values. Fields never see a network, only a `Source` of values: the
same text runs on a separable network over a lattice and on a pointwise one over scattered points.
"""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .errors import DerivativeError, InputError, listed, nearest
from .jets import MAX_ORDER

Key = tuple[int, tuple[int, ...]]  # (component, orders)


class Source(Protocol):
    """Where the values of a formal combination come from."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any

    def values(self, terms: Mapping[Key, Any]) -> Array: ...


class Field:
    """Σ coefficient · ∂^orders of the unknowns + known values. Made by separax; see the module's text.

    `u.x`, `u.tt`, `u.xy` for one-letter axes, `u.d(theta=2)` for any; `u.value` is the array of values, for `jnp`
    functions. Arithmetic and NumPy's functions work on fields, and products can be differentiated too.
    """

    __slots__ = ("_derive", "_given", "_known", "_name", "_source", "_terms")

    def __init__(
        self,
        source: Source,
        terms: Mapping[Key, Any],
        known: Array | None = None,
        derive: Callable[[str], Field] | None = None,
        name: str = "field",
        given: bool = True,
    ):
        self._source, self._terms, self._known, self._derive, self._name = source, dict(terms), known, derive, name
        self._given = given  # the known part depends on coordinates alone: the expression is linear in the unknowns

    # --- values ------------------------------------------------------------------------------------------------

    @property
    def value(self) -> Array:
        """The values, on the lattice or at the points."""
        # from here on separax cannot tell whether an array depends on the unknowns; whoever traces wants to know
        getattr(self._source, "exposed", _nobody)()
        return self._values()

    def _values(self) -> Array:
        if not self._terms:
            return jnp.broadcast_to(
                jnp.asarray(0.0 if self._known is None else self._known, self._source.dtype), self._source.shape
            )
        values = self._source.values(self._terms)
        return values if self._known is None else values + self._known

    @property
    def linear(self) -> bool:
        """Whether this is still a formal combination plus something that depends on the coordinates alone."""
        return self._given and bool(self._terms)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._source.shape

    def __repr__(self) -> str:
        def one(key: Key, coefficient: Any) -> str:
            orders = "".join(axis * n for axis, n in zip(self._source.axes, key[1]))
            return f"{coefficient}·∂{orders or '⁰'}[{key[0]}]"

        parts = [one(k, c) for k, c in self._terms.items()] + ["values"] * (self._known is not None)
        return f"Field({' + '.join(parts) or '0'})"

    def _compared(self, other: Any) -> Any:
        raise TypeError(
            f"a field has no order and is neither true nor false: compare its values, jnp.where({self._name}.value > 0, a, b)"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return self._compared(None)

    # --- derivatives -------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Field:
        if name.startswith("_"):
            raise AttributeError(name)
        axes = self._source.axes
        if name in axes:
            return self.d(**{name: 1})
        missing = [letter for letter in dict.fromkeys(name) if letter not in axes]
        if missing:
            raise DerivativeError(
                f"{self._name}.{name}: there is no axis {missing[0]!r} to differentiate along; the axes are {listed(axes)}."
                f" Write {self._name}.{axes[-1] * 2} or {self._name}.d({axes[-1]}=2).{nearest(name, axes)}"
            )
        return self.d(**{letter: name.count(letter) for letter in name})

    def d(self, **orders: int) -> Field:
        """`u.d(theta=2, t=1)`: a partial derivative, by axis name."""
        axes = self._source.axes
        for axis, order in orders.items():
            if axis not in axes:
                raise DerivativeError(
                    f"{self._name}.d({axis}={order}): there is no axis {axis!r}; the axes are {listed(axes)}.{nearest(axis, axes)}"
                )
            if not isinstance(order, numbers.Integral) or isinstance(order, bool) or not 0 <= order <= MAX_ORDER:
                raise DerivativeError(f"{self._name}.d({axis}={order!r}): an order is a whole number from 0 to {MAX_ORDER}")
        shift = tuple(int(orders.get(axis, 0)) for axis in axes)
        moved = {(c, tuple(map(operator.add, o, shift))): coefficient for (c, o), coefficient in self._terms.items()}
        if too_high := [o for _, o in moved if max(o) > MAX_ORDER]:
            raise DerivativeError(f"{self._name}: order {max(too_high[0])} along one axis is not available: at most {MAX_ORDER}")
        out = Field(self._source, moved, name=self._name)
        if self._known is None:
            return out
        if self._derive is None:
            raise DerivativeError(
                f"a derivative of plain values along {listed(orders)} is not known: differentiate the fields before using .value"
            )
        known = None
        for axis, order in orders.items():
            for _ in range(order):
                known = self._derive(axis) if known is None else known.d(**{axis: 1})
        if known is None:  # u.d(x=0) is u
            return self
        return out + known

    # --- arithmetic --------------------------------------------------------------------------------------------

    def _plus(self, other: Any, sign: float) -> Any:
        if isinstance(other, Field):
            terms = dict(self._terms)
            for key, coefficient in other._terms.items():
                terms[key] = terms[key] + sign * coefficient if key in terms else sign * coefficient
            known, derive = _add_known(self, other, sign)
            return Field(self._source, terms, known, derive, self._name, self._given and other._given)
        if isinstance(other, numbers.Number) and other == 0:  # sum() starts from 0
            return self
        if _is_array(other):
            return self._plus(_coefficient(self._source, other), sign)
        return NotImplemented

    def __add__(self, other: Any) -> Field:
        return self._plus(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Field:
        return self._plus(other, -1.0)

    def __rsub__(self, other: Any) -> Field:
        return (-self)._plus(other, 1.0)

    def __neg__(self) -> Field:
        return self * -1.0

    def __pos__(self) -> Field:
        return self

    def __mul__(self, other: Any) -> Field:
        if _is_scalar(other):
            scale = float(other) if isinstance(other, numbers.Real) else jnp.asarray(other, self._source.dtype)
            inner = self._derive
            derive = None if inner is None else (lambda axis: inner(axis) * other)
            return Field(
                self._source,
                {k: c * scale for k, c in self._terms.items()},
                None if self._known is None else self._known * scale,
                derive,
                self._name,
                self._given,
            )
        return _apply(operator.mul, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Field:
        return self * (1.0 / other) if _is_scalar(other) else _apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Field:
        return _apply(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Field:
        if isinstance(other, numbers.Real) and float(other).is_integer():
            # a whole power stays one: u**2.0 is then fine where u is negative
            power = int(other)  # pyright: ignore[reportArgumentType]
            return self if power == 1 else _apply(lambda v: v**power, self)
        return _apply(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Field:
        return _apply(operator.pow, other, self)

    def __abs__(self) -> Field:
        return _apply(jnp.abs, self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions: np.sin(u), np.exp(-u), array * u."""
        if method != "__call__" or options:
            return NotImplemented
        plain = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "true_divide": operator.truediv,
                 "divide": operator.truediv, "power": operator.pow, "negative": operator.neg}  # fmt: skip
        if ufunc.__name__ in plain:
            # arrays first become JAX arrays, so that Python asks the field again and not NumPy
            return plain[ufunc.__name__](*(i if isinstance(i, Field) else jnp.asarray(i) for i in inputs))
        if not hasattr(jnp, ufunc.__name__):
            return NotImplemented
        return _apply(getattr(jnp, ufunc.__name__), *inputs)


def _nobody() -> None:
    pass


def _is_array(value: Any) -> bool:
    return isinstance(value, (numbers.Number, np.ndarray, np.generic, jax.Array))


def _is_scalar(value: Any) -> bool:
    return _is_array(value) and np.ndim(value) == 0


def _coefficient(source: Source, values: Any) -> Field:
    """Known values as a field; their derivative is zero along axes on which they do not vary, and unknown elsewhere."""

    def derive(axis: str) -> Field:
        shape = (1,) * (len(source.shape) - np.ndim(values)) + np.shape(values)
        if len(shape) == len(source.axes) and shape[source.axes.index(axis)] > 1:
            raise DerivativeError(
                f"a derivative along {axis} of a coefficient that varies along {axis}: separax sees its values, not its"
                f" formula. Write the product rule out, e.g. (k * u.{axis}).{axis} as k_{axis} * u.{axis} + k * u.{axis * 2}"
            )
        return Field(source, {})

    # NumPy's scalars are float64: they must not carry a float32 run along
    known = jnp.asarray(values)
    return Field(source, {}, known.astype(source.dtype) if jnp.issubdtype(known.dtype, jnp.floating) else known, derive)


def _add_known(a: Field, b: Field, sign: float) -> tuple[Array | None, Callable[[str], Field] | None]:
    ours, theirs = a._derive, b._derive
    if b._known is None:
        return a._known, ours
    if a._known is None:
        return sign * b._known, None if theirs is None else (lambda axis: sign * theirs(axis))
    if ours is None or theirs is None:
        return a._known + sign * b._known, None
    return a._known + sign * b._known, lambda axis: ours(axis) + sign * theirs(axis)


def _apply(function: Callable[..., Array], *operands: Any) -> Any:
    """A function of values, with its chain rule: (f(a, b)).x = ∂₁f(a, b) · a.x + ∂₂f(a, b) · b.x."""
    source = next(o._source for o in operands if isinstance(o, Field))
    if not all(isinstance(o, Field) or _is_array(o) for o in operands):
        return NotImplemented
    fields = [o if isinstance(o, Field) else _coefficient(source, o) for o in operands]

    def partial(i: int) -> Callable[..., Array]:
        def slope(*values: Array) -> Array:
            at = jnp.broadcast_to(values[i], source.shape).astype(source.dtype)
            return jax.jvp(lambda v: function(*values[:i], v, *values[i + 1 :]), (at,), (jnp.ones_like(at),))[1]

        return slope

    def derive(axis: str) -> Field:
        slopes = [(_apply(partial(i), *fields), field.d(**{axis: 1})) for i, field in enumerate(fields)]
        total = Field(source, {})
        for slope, along in slopes:
            if along._terms or along._known is not None:
                total = total + slope * along
        return total

    values = function(*(f._values() if isinstance(o, Field) or np.ndim(o) else o for f, o in zip(fields, operands)))
    return Field(source, {}, values.astype(source.dtype), derive, given=all(f._given and not f._terms for f in fields))


# --- vector helpers -----------------------------------------------------------------------------------------------


def _space(field: Field, axes: Sequence[str] | None, what: str) -> tuple[str, ...]:
    chosen = tuple(axes) if axes is not None else tuple(axis for axis in field._source.axes if axis != "t")
    if not chosen:
        raise InputError(f"{what}: the box has no space axis; name the axes, {what}(u, axes=('t',))")
    return chosen


def _check_vector(fields: Any, what: str) -> None:
    if isinstance(fields, Field) or not all(isinstance(field, Field) for field in fields):
        raise InputError(f"{what} takes a vector, one field per axis, got {fields!r}: write {what}((u, v))")


def grad(field: Field, axes: Sequence[str] | None = None) -> tuple[Field, ...]:
    """The gradient over the space axes (every axis but t), or over `axes`."""
    return tuple(field.d(**{axis: 1}) for axis in _space(field, axes, "grad"))


def div(fields: Sequence[Field], axes: Sequence[str] | None = None) -> Field:
    """The divergence of a vector with one component per space axis, or per axis of `axes`."""
    _check_vector(fields, "div")
    along = _space(fields[0], axes, "div")
    if len(fields) != len(along):
        raise InputError(
            f"div: {len(fields)} components for the axes {listed(along)}: give one per axis, or name the axes, div(v, axes=(…))"
        )
    return functools.reduce(operator.add, (field.d(**{axis: 1}) for field, axis in zip(fields, along)))


def curl(fields: Sequence[Field], axes: Sequence[str] | None = None) -> Field | tuple[Field, Field, Field]:
    """The curl: one field in two space axes (v.x - u.y), three in three."""
    _check_vector(fields, "curl")
    along = _space(fields[0], axes, "curl")
    if len(fields) != len(along) or len(along) not in (2, 3):
        raise InputError(f"curl: {len(fields)} components for the axes {listed(along)}: give two or three, one per axis")
    if len(along) == 2:
        (u, v), (x, y) = fields, along
        return v.d(**{x: 1}) - u.d(**{y: 1})
    (u, v, w), (x, y, z) = fields, along
    return (w.d(**{y: 1}) - v.d(**{z: 1}), u.d(**{z: 1}) - w.d(**{x: 1}), v.d(**{x: 1}) - u.d(**{y: 1}))


def laplacian(field: Field | Sequence[Field], axes: Sequence[str] | None = None) -> Any:
    """The sum of second derivatives over the space axes; of a vector, component by component."""
    if not isinstance(field, Field):
        return tuple(laplacian(component, axes) for component in field)
    return sum(field.d(**{axis: 2}) for axis in _space(field, axes, "laplacian"))
