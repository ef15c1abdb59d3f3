"""What a residual sees: fields whose partial derivatives read like subscripts, `u.tt - u.xx + u**2`.

A field is a formal linear combination of partial derivatives of the unknowns, plus combinations times functions of some coordinates, plus a
part that is already known by its values. Adding and scaling keep these formal, so a linear operator is merged onto the lattice once,
however many terms it has; anything nonlinear makes values. Products of two fields are also remembered as such
(`Polynomial`), so that whoever can do without their values may. Fields never see a network, only a `Source` of values:
the same text runs on a separable network over a lattice and on a pointwise one over scattered points.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import DerivativeError, listed, nearest
from ..networks import MAX_ORDER, Source
from ..separable import Key, Varying
from .polynomial import NOTHING, Polynomial


class Field:
    """Σ coefficient · ∂^orders of the unknowns + known values. Made by separax; see the module's text.

    `u.x`, `u.tt`, `u.xy` for one-letter axes, `u.d(theta=2)` for any; `u.value` is the array of values, for `jnp`
    functions. Arithmetic and NumPy's functions work on fields, and products can be differentiated too.
    """

    __slots__ = ("_derive", "_name", "_part", "_plain", "_source", "_terms", "_varying")

    def __init__(
        self,
        source: Source,
        terms: Mapping[Key, Any],
        known: Array | None = None,
        derive: Callable[[str], Field] | None = None,
        name: str = "field",
        part: Polynomial | None = NOTHING,
        varying: Varying = (),
    ):
        self._source, self._terms, self._plain, self._derive, self._name = (
            source,
            dict(terms),
            known,
            derive,
            name,
        )
        self._part = part  # `known` as a polynomial of the unknowns; None: it is something else
        self._varying = varying

    # --- values ------------------------------------------------------------------------------------------------

    @property
    def value(self) -> Array:
        """The values, on the lattice or at the points."""
        # from here on separax cannot tell whether an array depends on the unknowns; whoever traces wants to know
        getattr(self._source, "exposed", _nobody)()
        return self._values()

    def _values(self) -> Array:
        if not self._terms and not self._varying:
            return jnp.broadcast_to(
                jnp.asarray(0.0 if self._plain is None else self._plain, self._source.dtype),
                self._source.shape,
            )
        if self._varying:  # only of a source that takes it
            values = self._source.weighed(self._terms, self._varying)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            values = self._source.values(self._terms)
        return values if self._plain is None else values + self._plain

    @property
    def _formal(self) -> bool:
        """Whether there is nothing but the formal combination."""
        return self._plain is None and not self._varying

    @property
    def linear(self) -> bool:
        """Whether this is still a formal combination plus something that depends on the coordinates alone."""
        plain = self._part is not None and not self._part.terms and not self._part.pairs
        return plain and bool(self._terms) and not self._varying

    @property
    def _polynomial(self) -> Polynomial | None:
        return None if self._part is None or self._varying else Polynomial(self._terms) + self._part

    @property
    def shape(self) -> tuple[int, ...]:
        return self._source.shape

    def __repr__(self) -> str:
        def one(key: Key, coefficient: Any) -> str:
            orders = "".join(axis * n for axis, n in zip(self._source.axes, key[1]))
            return f"{coefficient}·∂{orders or '⁰'}[{key[0]}]"

        parts = [one(k, c) for k, c in self._terms.items()] + ["values"] * (not self._formal)
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
            if (
                not isinstance(order, numbers.Integral)
                or isinstance(order, bool)
                or not 0 <= order <= MAX_ORDER
            ):
                raise DerivativeError(
                    f"{self._name}.d({axis}={order!r}): an order is a whole number from 0 to {MAX_ORDER}"
                )
        shift = tuple(int(orders.get(axis, 0)) for axis in axes)
        moved = {
            (c, tuple(map(operator.add, o, shift))): coefficient
            for (c, o), coefficient in self._terms.items()
        }
        if too_high := [o for _, o in moved if max(o) > MAX_ORDER]:
            raise DerivativeError(
                f"{self._name}: order {max(too_high[0])} along one axis is not available: at most {MAX_ORDER}"
            )
        out = Field(self._source, moved, name=self._name)
        if self._formal:
            return out
        if self._derive is None:
            raise DerivativeError(
                f"a derivative of plain values along {listed(orders)} is not known: differentiate the fields before using .value"
            )
        known, part = None, None if self._varying else self._part
        for axis, order in orders.items():
            for _ in range(order):
                known = self._derive(axis) if known is None else known.d(**{axis: 1})
                part = None if part is None else part.moved(tuple(int(a == axis) for a in axes))
        if known is None:  # u.d(x=0) is u
            return self
        # the chain rule gives values alone; the product rule also the formula
        part = known._part if known._terms or known._varying else part
        return out + Field(
            self._source,
            known._terms,
            known._plain,
            known._derive,
            part=part,
            varying=known._varying,
        )

    # --- arithmetic --------------------------------------------------------------------------------------------

    def _plus(self, other: Any, sign: float) -> Any:
        if isinstance(other, Field):
            terms = dict(self._terms)
            for key, coefficient in other._terms.items():
                terms[key] = terms[key] + sign * coefficient if key in terms else sign * coefficient
            known, derive = _add_known(self, other, sign)
            part = (
                None
                if self._part is None or other._part is None
                else self._part + other._part.scaled(sign)
            )
            varying = self._varying + _scaled(other._varying, sign)
            return Field(self._source, terms, known, derive, self._name, part, varying)
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
            scale = (
                float(other)
                if isinstance(other, numbers.Real)
                else jnp.asarray(other, self._source.dtype)
            )
            inner = self._derive
            derive = None if inner is None else (lambda axis: inner(axis) * other)
            return Field(
                self._source,
                {k: c * scale for k, c in self._terms.items()},
                None if self._plain is None else self._plain * scale,
                derive,
                self._name,
                None if self._part is None else self._part.scaled(scale),
                _scaled(self._varying, scale),
            )
        return _product(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Field:
        return (
            self * (1.0 / other)
            if _is_scalar(other)
            else apply_to_values(operator.truediv, self, other)
        )

    def __rtruediv__(self, other: Any) -> Field:
        return apply_to_values(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Field:
        if isinstance(other, numbers.Real) and float(other).is_integer():
            # a whole power stays one: u**2.0 is then fine where u is negative
            power = int(other)  # pyright: ignore[reportArgumentType]
            return (
                self
                if power == 1
                else _product(self, self)
                if power == 2
                else apply_to_values(lambda v: v**power, self)
            )
        return apply_to_values(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Field:
        return apply_to_values(operator.pow, other, self)

    def __abs__(self) -> Field:
        return apply_to_values(jnp.abs, self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions: np.sin(u), np.exp(-u), array * u."""
        if method != "__call__" or options:
            return NotImplemented
        plain = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "true_divide": operator.truediv,
                 "divide": operator.truediv, "power": operator.pow, "negative": operator.neg}  # fmt: skip
        if ufunc.__name__ in plain:
            # arrays first become JAX arrays, so that Python asks the field again and not NumPy
            return plain[ufunc.__name__](
                *(i if isinstance(i, Field) else jnp.asarray(i) for i in inputs)
            )
        if not hasattr(jnp, ufunc.__name__):
            return NotImplemented
        return apply_to_values(getattr(jnp, ufunc.__name__), *inputs)


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
    known = known.astype(source.dtype) if jnp.issubdtype(known.dtype, jnp.floating) else known
    return Field(source, {}, known, derive, part=Polynomial(plain=known))


def _scaled(varying: Varying, scale: Any) -> Varying:
    return tuple((array, {key: c * scale for key, c in terms.items()}) for array, terms in varying)


def _add_known(
    a: Field, b: Field, sign: float
) -> tuple[Array | None, Callable[[str], Field] | None]:
    """The plain known part of a sum, and the derivatives of all that is not formal in it."""
    ours, theirs = a._derive, b._derive
    if b._formal:
        return a._plain, ours
    known = (
        a._plain
        if b._plain is None
        else sign * b._plain
        if a._plain is None
        else a._plain + sign * b._plain
    )
    if a._formal:
        return known, None if theirs is None else (lambda axis: sign * theirs(axis))
    if ours is None or theirs is None:
        return known, None
    return known, lambda axis: ours(axis) + sign * theirs(axis)


def apply_to_values(function: Callable[..., Array], *operands: Any) -> Any:
    """A function of values, with its chain rule: (f(a, b)).x = ∂₁f(a, b) · a.x + ∂₂f(a, b) · b.x."""
    source = next(o._source for o in operands if isinstance(o, Field))
    if not all(isinstance(o, Field) or _is_array(o) for o in operands):
        return NotImplemented
    fields = [o if isinstance(o, Field) else _coefficient(source, o) for o in operands]

    def partial(i: int) -> Callable[..., Array]:
        def slope(*values: Array) -> Array:
            at = jnp.broadcast_to(values[i], source.shape).astype(source.dtype)
            return jax.jvp(
                lambda v: function(*values[:i], v, *values[i + 1 :]), (at,), (jnp.ones_like(at),)
            )[1]

        return slope

    def derive(axis: str) -> Field:
        slopes = [
            (apply_to_values(partial(i), *fields), field.d(**{axis: 1}))
            for i, field in enumerate(fields)
        ]
        total = Field(source, {})
        for slope, along in slopes:
            if along._terms or not along._formal:
                total = total + slope * along
        return total

    values = function(
        *(
            f._values() if isinstance(o, Field) or np.ndim(o) else o
            for f, o in zip(fields, operands)
        )
    )
    values = values.astype(source.dtype)
    known = [f._polynomial for f in fields]
    plain = all(
        p is not None and not p.terms and not p.pairs for p in known
    )  # coordinates in, coordinates out
    return Field(source, {}, values, derive, part=Polynomial(plain=values) if plain else None)


def _product(a: Field, b: Any) -> Any:
    """Values and chain rule as of any function; and the formula, where it is still a polynomial. A function of some coordinates times
    derivatives of the unknowns stays what it is where a source can do something with that."""
    for one, other in ((a, b), (b, a)):
        if (scaled := _times(one, other)) is not None:
            return scaled
    out = apply_to_values(lambda v: v * v, a) if a is b else apply_to_values(operator.mul, a, b)
    if out is NotImplemented or out._part is not None:
        return out
    first, second = (f._polynomial if isinstance(f, Field) else None for f in (a, b))
    part = None if first is None or second is None else first.times(second)
    return Field(out._source, {}, out._plain, out._derive, part=part)


def _times(a: Any, b: Any) -> Field | None:
    """a·b for a field `a` of derivatives of the unknowns, and of an array, or a field of known values, `b`; None if it is no such product, or its
    source would rather have values."""
    if (
        not isinstance(a, Field)
        or not (a._terms or a._varying)
        or not (isinstance(b, Field) or _is_array(b))
    ):
        return None
    field = b if isinstance(b, Field) else _coefficient(a._source, b)
    plain, part, takes = field._plain, field._part, getattr(a._source, "takes", None)
    if takes is None or plain is None or part is None or field._terms or part.terms or part.pairs:
        return None
    array = plain.reshape((1,) * (len(a._source.shape) - plain.ndim) + plain.shape).astype(
        a._source.dtype
    )
    if not takes(array.shape):
        return None
    varying = ((array, a._terms),) if a._terms else ()
    varying += tuple((array * other, terms) for other, terms in a._varying)

    def derive(axis: str) -> Field:
        along, moved = field.d(**{axis: 1}), a.d(**{axis: 1}) * field
        return moved if along._formal and not along._terms else moved + along * a

    known = None if a._plain is None else a._plain * array
    mine = None if a._part is None or a._part.terms or a._part.pairs else a._part.scaled(array)
    return Field(a._source, {}, known, derive, part=mine, varying=varying)
