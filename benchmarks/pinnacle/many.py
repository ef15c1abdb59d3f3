"""Rows of the benchmark whose solutions are smooth but large: many waves, many axes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from row import Row, known

import separax as sx

PI = math.pi


def five_axes() -> sx.Problem:
    """Poisson's equation in five axes; a sum of a wave along each."""

    def exact(v, w, x, y, z):
        return sum(jnp.sin(PI * c / 2) for c in (v, w, x, y, z))

    def residual(u, v, w, x, y, z):
        return -(u.vv + u.ww + u.xx + u.yy + u.zz) - PI**2 / 4 * exact(v, w, x, y, z)

    box = sx.Box(**dict.fromkeys("vwxyz", (0, 1)))
    return sx.Problem(box, residual, [sx.Dirichlet(exact)], name="pnd")


def sum_of_waves(*each: np.ndarray) -> np.ndarray:
    return np.sum([np.sin(PI * c / 2) for c in each], axis=0)


def waves(number: int) -> Callable[[], sx.Problem]:
    """Δu + u = f on a square, with so many waves along both axes."""

    def problem() -> sx.Problem:
        def residual(u, x, y):
            own = jnp.sin(number * PI * x) * jnp.sin(number * PI * y)
            return u.xx + u.yy + u - (1 - 2 * (number * PI) ** 2) * own

        box = sx.Box(x=(-1, 1), y=(-1, 1))
        return sx.Problem(box, residual, [sx.Dirichlet(0)], name=f"{number} waves")

    return problem


def product(number: float) -> Callable[..., np.ndarray]:
    def values(*each: np.ndarray) -> np.ndarray:
        return np.prod([np.sin(number * PI * c) for c in each], axis=0)

    return values


def helmholtz(axes: str) -> Callable[[], sx.Problem]:
    """Δu + k²u = -(n - 1) k² Π sin kx with k = 24π and zero sides; along three axes there are
    waves that solve it with no source, too (24² = 16² + 16² + 8²)."""
    k = 24 * PI

    def two(u, x, y):
        return u.xx + u.yy + k**2 * (u + jnp.sin(k * x) * jnp.sin(k * y))

    def three(u, x, y, z):
        waves = jnp.sin(k * x) * jnp.sin(k * y) * jnp.sin(k * z)
        return u.xx + u.yy + u.zz + k**2 * (u + 2 * waves)

    def problem() -> sx.Problem:
        box = sx.Box(**dict.fromkeys(axes, (0, 1)))
        residual = two if len(axes) == 2 else three
        return sx.Problem(box, residual, [sx.Dirichlet(0)], name=f"helmholtz, {len(axes)} axes")

    return problem


def heat(axes: int) -> Callable[[], sx.Problem]:
    """Heat in so many axes of space, from a product of waves."""

    def problem() -> sx.Problem:
        names = "opqrsvwxyzabc"[:axes]

        def start(**each):
            return math.prod(jnp.sin(PI * c) for c in each.values())

        # a function is given what it names
        each = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names]
        start.__signature__ = inspect.Signature(each)  # pyright: ignore[reportFunctionMemberAccess]

        def residual(u):
            return u.t - sum(u.d(**{n: 2}) for n in names) / (axes * PI**2)

        box = sx.Box(t=(0, 1), **dict.fromkeys(names, (0, 1)))
        initial = sx.Initial(start)
        return sx.Problem(box, residual, [initial, sx.Dirichlet(0)], name=f"heat, {axes} axes")

    return problem


def decayed(t: np.ndarray, *each: np.ndarray) -> np.ndarray:
    return np.exp(-t) * product(1)(*each)


ROWS = {
    "pnd": Row(five_axes, known(five_axes, sum_of_waves), 1e-8, 1.31e-4),
    **{
        f"{n} waves": Row(waves(n), known(waves(n), product(n)), 1e-12, seconds=30.0)
        for n in (10, 24, 50, 100)
    },
    "helmholtz, 2 axes": Row(
        helmholtz("xy"), known(helmholtz("xy"), product(24)), 1e-12, 2.6e-12, 10.0
    ),
    "helmholtz, 3 axes": Row(
        helmholtz("xyz"), known(helmholtz("xyz"), product(24)), 1e-11, seconds=60.0
    ),
    **{
        f"heat, {n} axes": Row(heat(n), known(heat(n), decayed), 1e-10, seconds=60.0)
        for n in (5, 8, 12)
    },
}
