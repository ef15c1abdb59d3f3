"""Fields: what a residual is given; their derivatives read like subscripts.

    u.tt - u.xx + u**2

A field is formal until it is used. Adding and scaling keep it so, and a linear operator is merged
onto the lattice once, however many terms it has; anything nonlinear makes values. Products of two
fields are also remembered as a `Polynomial`, so that whoever can do without their values may.
Fields never see a network, only its `AbstractValues`: the same text runs on a separable network
over a lattice and on a pointwise one over scattered points.
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

from ..core import DerivativeError, InputError, listed, nearest, shown
from ..networks import MAX_ORDER
from ..separable import AbstractValues, Key, Varying
from .polynomial import NOTHING, Polynomial

SUMS = ("integral", "integrate", "mean", "sum", "int")  # what a field in a residual has not


class Field:
    """Σ c ∂ᵃu + Σ array · ∂ᵃu + known values.

    `u.x`, `u.tt`, `u.xy` for one-letter axes, `u.d(theta=2)` for any; `u.value` is the array of
    values, for `jnp` functions. Arithmetic and NumPy's functions work on fields, and products can
    be differentiated too. Separax makes the first ones; other fields are made from them.

    Attributes:
        source: where values of derivatives come from.
        terms: the coefficients c by derivative (component, orders).
        varying_terms: pairs of an array and of the terms that it multiplies.
        known_values: an array, None for nothing.
        known_polynomial: `known_values` as a polynomial of the unknowns; None: something else.
    """

    __slots__ = (
        "_derive",
        "_name",
        "known_polynomial",
        "known_values",
        "source",
        "terms",
        "varying_terms",
    )

    def __init__(
        self,
        source: AbstractValues,
        terms: Mapping[Key, Any],
        known: Array | None = None,
        derive: Callable[[str], Field] | None = None,
        name: str = "field",
        part: Polynomial | None = NOTHING,
        varying: Varying = (),
    ):
        self.source, self.terms, self.varying_terms = source, dict(terms), varying
        self.known_values, self.known_polynomial = known, part
        self._derive, self._name = derive, name

    # --- values ----------------------------------------------------------------------------------

    @property
    def value(self) -> Array:
        """The values, on the lattice or at the points."""
        self.source.note_plain_values()
        return self.evaluate()

    def evaluate(self) -> Array:
        """The values, for separax itself: the source is not told of them."""
        if not self.terms and not self.varying_terms:
            known = 0.0 if self.known_values is None else self.known_values
            return jnp.broadcast_to(jnp.asarray(known, self.source.dtype), self.source.shape)
        if self.varying_terms:
            values = self.source.weighed(self.terms, self.varying_terms)
        else:
            values = self.source.values(self.terms)
        return values if self.known_values is None else values + self.known_values

    @property
    def is_formal(self) -> bool:
        """Whether there is nothing but the formal combination."""
        return self.known_values is None and not self.varying_terms

    @property
    def linear(self) -> bool:
        """Whether this is still a formal combination plus something that depends on the coordinates
        alone."""
        part = self.known_polynomial
        is_known = part is not None and part.is_known
        return is_known and bool(self.terms) and not self.varying_terms

    @property
    def polynomial(self) -> Polynomial | None:
        """The whole field as a polynomial of the unknowns; None where it is something else."""
        if self.known_polynomial is None or self.varying_terms:
            return None
        return Polynomial(self.terms) + self.known_polynomial

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of values."""
        return self.source.shape

    def __repr__(self) -> str:
        def one(key: Key, coefficient: Any) -> str:
            orders = "".join(axis * n for axis, n in zip(self.source.axes, key[1]))
            return f"{coefficient}·∂{orders or '⁰'}[{key[0]}]"

        parts = [one(k, c) for k, c in self.terms.items()] + ["values"] * (not self.is_formal)
        return f"Field({' + '.join(parts) or '0'})"

    def _compared(self, other: Any) -> Any:
        raise TypeError(
            "a field has no order and is neither true nor false: compare its values,"
            f" jnp.where({self._name}.value > 0, a, b)"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return self._compared(None)

    def __call__(self, *place: Any, **coordinates: Any) -> Any:
        raise InputError(
            f"{self._name}(…): a field in a residual is its values at all points: write"
            f" {self._name}, or {self._name}.{self.source.axes[-1]}. What it is on a face is a"
            f" condition: sx.Condition(0.0, on='{self.source.axes[-1]}-')"
        )

    def __getitem__(self, item: Any) -> Any:
        raise InputError(
            f"{self._name}[{shown(item)}]: a field is one function. Several have names,"
            " fields=('u', 'v'), and the residual is a function of them, lambda u, v: …"
        )

    # --- derivatives -----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Field:
        if name.startswith("_"):
            raise AttributeError(name)
        axes = self.source.axes
        if name in axes:
            return self.d(**{name: 1})
        missing = [letter for letter in dict.fromkeys(name) if letter not in axes]
        if missing and name in SUMS:
            last = axes[-1]
            raise DerivativeError(
                f"{self._name}.{name}: a residual sees fields point by point, and no sums of them."
                f" An integral is a field with {self._name} as its derivative: write lambda"
                f" {self._name}, w: {{'equation': …, 'integral': w.{last} - {self._name}}}, with"
                f" fields=({self._name!r}, 'w') and sx.Condition(0.0, on='{last}-', of='w')"
            )
        if missing:
            raise DerivativeError(
                f"{self._name}.{name}: there is no axis {missing[0]!r} to differentiate along; the"
                f" axes are {listed(axes)}."
                f" Write {self._name}.{axes[-1] * 2} or"
                f" {self._name}.d({axes[-1]}=2).{nearest(name, axes)}"
            )
        return self.d(**{letter: name.count(letter) for letter in name})

    def d(self, **orders: int) -> Field:
        """A partial derivative, ∂³u/∂θ²∂t as `u.d(theta=2, t=1)`.

        Arguments:
            orders: how often to differentiate, by the name of the axis.
        """
        axes = self.source.axes
        for axis, order in orders.items():
            if axis not in axes:
                raise DerivativeError(
                    f"{self._name}.d({axis}={order}): there is no axis {axis!r}; the axes are"
                    f" {listed(axes)}.{nearest(axis, axes)}"
                )
            if (
                not isinstance(order, numbers.Integral)
                or isinstance(order, bool)
                or not 0 <= order <= MAX_ORDER
            ):
                raise DerivativeError(
                    f"{self._name}.d({axis}={order!r}): an order is a whole number from 0 to"
                    f" {MAX_ORDER}"
                )
        shift = tuple(int(orders.get(axis, 0)) for axis in axes)
        moved = {
            (c, tuple(map(operator.add, o, shift))): coefficient
            for (c, o), coefficient in self.terms.items()
        }
        if too_high := [o for _, o in moved if max(o) > MAX_ORDER]:
            raise DerivativeError(
                f"{self._name}: order {max(too_high[0])} along one axis is not available: at most"
                f" {MAX_ORDER}"
            )
        out = Field(self.source, moved, name=self._name)
        if self.is_formal:
            return out
        if self._derive is None:
            raise DerivativeError(
                f"a derivative of plain values along {listed(orders)} is not known: differentiate"
                " the fields before using .value"
            )
        known, part = None, None if self.varying_terms else self.known_polynomial
        for axis, order in orders.items():
            for _ in range(order):
                known = self._derive(axis) if known is None else known.d(**{axis: 1})
                part = None if part is None else part.moved(tuple(int(a == axis) for a in axes))
        if known is None:  # u.d(x=0) is u
            return self
        # the chain rule gives values alone; the product rule also the formula
        part = known.known_polynomial if known.terms or known.varying_terms else part
        return out + Field(
            self.source,
            known.terms,
            known.known_values,
            known._derive,
            part=part,
            varying=known.varying_terms,
        )

    # --- arithmetic ------------------------------------------------------------------------------

    def _plus(self, other: Any, sign: float) -> Any:
        if isinstance(other, Field):
            terms = dict(self.terms)
            for key, coefficient in other.terms.items():
                terms[key] = terms[key] + sign * coefficient if key in terms else sign * coefficient
            known, derive = _add_known(self, other, sign)
            part = (
                None
                if self.known_polynomial is None or other.known_polynomial is None
                else self.known_polynomial + other.known_polynomial.scaled(sign)
            )
            varying = self.varying_terms + _scaled(other.varying_terms, sign)
            return Field(self.source, terms, known, derive, self._name, part, varying)
        if isinstance(other, numbers.Number) and other == 0:  # sum() starts from 0
            return self
        if _is_array(other):
            return self._plus(_coefficient(self.source, other), sign)
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
                else jnp.asarray(other, self.source.dtype)
            )
            inner = self._derive
            derive = None if inner is None else (lambda axis: inner(axis) * other)
            return Field(
                self.source,
                {k: c * scale for k, c in self.terms.items()},
                None if self.known_values is None else self.known_values * scale,
                derive,
                self._name,
                None if self.known_polynomial is None else self.known_polynomial.scaled(scale),
                _scaled(self.varying_terms, scale),
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
        plain = {
            "add": operator.add,
            "subtract": operator.sub,
            "multiply": operator.mul,
            "true_divide": operator.truediv,
            "divide": operator.truediv,
            "power": operator.pow,
            "negative": operator.neg,
        }
        if ufunc.__name__ in plain:
            # arrays first become JAX arrays, so that Python asks the field again and not NumPy
            return plain[ufunc.__name__](
                *(i if isinstance(i, Field) else jnp.asarray(i) for i in inputs)
            )
        if not hasattr(jnp, ufunc.__name__):
            return NotImplemented
        return apply_to_values(getattr(jnp, ufunc.__name__), *inputs)


def _is_array(value: Any) -> bool:
    found = isinstance(value, (numbers.Number, np.ndarray, np.generic, jax.Array))
    kind: Any = value
    if found and np.iscomplexobj(kind):
        raise InputError(
            "a field is real, and was given a complex number: write two fields, the real and the"
            " imaginary part. i u_t + u_xx = 0 is lambda a, b: (a.t + b.xx, b.t - a.xx) with"
            " fields=('a', 'b')"
        )
    return found


def _is_scalar(value: Any) -> bool:
    return _is_array(value) and np.ndim(value) == 0


def _coefficient(source: AbstractValues, values: Any) -> Field:
    """Known values as a field; their derivative is zero along axes on which they do not vary, and
    unknown elsewhere."""

    def derive(axis: str) -> Field:
        shape = (1,) * (len(source.shape) - np.ndim(values)) + np.shape(values)
        if len(shape) == len(source.axes) and shape[source.axes.index(axis)] > 1:
            raise DerivativeError(
                f"a derivative along {axis} of a coefficient that varies along {axis}: separax sees"
                " its values, not its formula. Write the product rule out, e.g. (k *"
                f" u.{axis}).{axis} as k_{axis} *"
                f" u.{axis} + k * u.{axis * 2}"
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
    if b.is_formal:
        return a.known_values, ours
    known = (
        a.known_values
        if b.known_values is None
        else sign * b.known_values
        if a.known_values is None
        else a.known_values + sign * b.known_values
    )
    if a.is_formal:
        return known, None if theirs is None else (lambda axis: sign * theirs(axis))
    if ours is None or theirs is None:
        return known, None
    return known, lambda axis: ours(axis) + sign * theirs(axis)


def apply_to_values(function: Callable[..., Array], *operands: Any) -> Any:
    """A function of values, with its chain rule: (f(a, b)).x = ∂₁f(a, b) · a.x + ∂₂f(a, b) ·
    b.x."""
    source = next(o.source for o in operands if isinstance(o, Field))
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
            if along.terms or not along.is_formal:
                total = total + slope * along
        return total

    values = function(
        *(
            f.evaluate() if isinstance(o, Field) or np.ndim(o) else o
            for f, o in zip(fields, operands)
        )
    )
    values = values.astype(source.dtype)
    known = [f.polynomial for f in fields]
    # coordinates in, coordinates out
    plain = all(p is not None and p.is_known for p in known)
    return Field(source, {}, values, derive, part=Polynomial(plain=values) if plain else None)


def _product(a: Field, b: Any) -> Any:
    """Values and chain rule as of any function; and the formula, where it is still a polynomial. A
    function of some coordinates times derivatives of the unknowns stays what it is where a source
    can do something with that."""
    for one, other in ((a, b), (b, a)):
        if (scaled := _times(one, other)) is not None:
            return scaled
    out = apply_to_values(lambda v: v * v, a) if a is b else apply_to_values(operator.mul, a, b)
    if out is NotImplemented or out.known_polynomial is not None:
        return out
    first, second = (f.polynomial if isinstance(f, Field) else None for f in (a, b))
    part = None if first is None or second is None else first.times(second)
    return Field(out.source, {}, out.known_values, out._derive, part=part)


def _times(a: Any, b: Any) -> Field | None:
    """a·b for a field `a` of derivatives of the unknowns, and of an array, or a field of known
    values, `b`; None if it is no such product, or its source would rather have values."""
    if (
        not isinstance(a, Field)
        or not (a.terms or a.varying_terms)
        or not (isinstance(b, Field) or _is_array(b))
    ):
        return None
    field = b if isinstance(b, Field) else _coefficient(a.source, b)
    plain, part = field.known_values, field.known_polynomial
    if plain is None or part is None or field.terms or not part.is_known:
        return None
    shape = (1,) * (len(a.source.shape) - plain.ndim) + plain.shape
    if not a.source.accepts_coefficient(shape):
        return None
    array = plain.reshape(shape).astype(a.source.dtype)
    varying = ((array, a.terms),) if a.terms else ()
    varying += tuple((array * other, terms) for other, terms in a.varying_terms)

    def derive(axis: str) -> Field:
        along, moved = field.d(**{axis: 1}), a.d(**{axis: 1}) * field
        return moved if along.is_formal and not along.terms else moved + along * a

    known = None if a.known_values is None else a.known_values * array
    mine = (
        None
        if a.known_polynomial is None or not a.known_polynomial.is_known
        else a.known_polynomial.scaled(array)
    )
    return Field(a.source, {}, known, derive, part=mine, varying=varying)
