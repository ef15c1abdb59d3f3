"""Solving without a recipe: is the estimate of the error honest, and what does a solution cost?

    python benchmarks/estimates.py --out results/cpu/estimates.json
    python benchmarks/estimates.py --only burgers soliton
    python benchmarks/estimates.py --out results/cpu/estimates.json --page docs/understand/measured.md

The catalogue's problems (but Navier-Stokes) and others, all with known solutions, each in a process' first solve of it: `seconds` are those of
`sx.solve(problem, tolerance=…)` from the call to the solution, compiling and all, `processor_seconds` what the processor's cores worked for it. `overstated` is the estimate over the true error:
honest where it is one or more. With `--page` nothing is measured: a page gets the table of what was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from recording import keep, put_into

import separax as sx
from separax.paper.catalogue import CATALOGUE
from separax.solving.automatic import TOLERANCE, is_solvable_directly


def along(function: Callable[..., Any], axis: int, times: int = 1) -> Callable[..., Any]:
    """A derivative of a function of coordinates that broadcast."""
    if times == 0:
        return function
    inner = along(function, axis, times - 1)

    def derivative(*at: Any) -> Any:
        def one(value: Any) -> Any:
            return inner(*at[:axis], value, *at[axis + 1 :])

        return jax.jvp(one, (at[axis],), (jnp.ones_like(at[axis]),))[1]

    return derivative


def laplacian(function: Callable[..., Any], axes: range) -> Callable[..., Any]:
    return lambda *at: sum(along(function, axis, 2)(*at) for axis in axes)


def logistic() -> sx.Problem:
    def exact(t):
        return 1 / (1 + 9 * jnp.exp(-4 * t))

    return sx.Problem(
        sx.Box(t=(0, 2)), lambda u: u.t - 4 * u * (1 - u), [sx.Initial(0.1)], reference=exact
    )


def growth() -> sx.Problem:
    """Over a long time, from close to where it would stay."""

    def exact(t):
        return 1 / (1 + 99 * jnp.exp(-t))

    return sx.Problem(
        sx.Box(t=(0, 10)), lambda u: u.t - u * (1 - u), [sx.Initial(0.01)], reference=exact
    )


def fisher() -> sx.Problem:
    """A front that grows into an unstable state."""

    def exact(t, x):
        return (1 + jnp.exp((x - 5 / math.sqrt(6) * t) / math.sqrt(6))) ** -2

    conditions = [sx.Initial(exact), sx.Dirichlet(exact)]
    return sx.Problem(
        sx.Box(t=(0, 10), x=(-10, 40)),
        lambda u: u.t - u.xx - u * (1 - u),
        conditions,
        reference=exact,
    )


def layer() -> sx.Problem:
    """-ε u'' + u' = 1 with a layer of width ε at x = 1."""
    width = 0.02

    def exact(x):
        return x - jnp.exp((x - 1) / width)  # and e^-50

    return sx.Problem(
        sx.Box(x=(0, 1)), lambda u: u.x - width * u.xx - 1, [sx.Dirichlet(0)], reference=exact
    )


def heat() -> sx.Problem:
    """A narrow hot spot that spreads."""
    nu, wide = 0.05, 0.1**2

    def exact(t, x):
        return jnp.sqrt(wide / (wide + 4 * nu * t)) * jnp.exp(-(x**2) / (wide + 4 * nu * t))

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1)),
        lambda u: u.t - nu * u.xx,
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )


def insulated() -> sx.Problem:
    """Heat in three axes of space, through walls on some sides."""

    def exact(t, x, y, z):
        return jnp.exp(-0.3 * t) * jnp.cos(x + y) * jnp.exp(-(z**2)) + x * y * jnp.sin(t + z)

    def flow(*at):
        return along(exact, 0)(*at) - 0.1 * laplacian(exact, range(1, 4))(*at)

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1), y=(-1, 1), z=(-1, 1)),
        lambda u, t, x, y, z: u.t - 0.1 * (u.xx + u.yy + u.zz) - flow(t, x, y, z),
        [
            sx.Initial(exact),
            sx.Dirichlet(exact, on=("x", "y")),
            sx.Neumann(lambda t, x, y, z: along(exact, 3)(t, x, y, z), on="z+"),
            sx.Dirichlet(exact, on="z-"),
        ],
        reference=exact,
    )


def wave() -> sx.Problem:
    """A standing wave and one that travels across."""

    def exact(t, x, y):
        standing = (
            jnp.sin(jnp.pi * x) * jnp.sin(2 * jnp.pi * y) * jnp.cos(math.sqrt(5) * jnp.pi * t)
        )
        return standing + jnp.sin(4 * (0.6 * x + 0.8 * y - t))

    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 1), y=(0, 1)),
        lambda u: u.tt - u.xx - u.yy,
        [
            sx.Initial(exact),
            sx.Initial(
                lambda t, x, y: along(exact, 0)(t, x, y), of=lambda u: u.t, name="initial u_t"
            ),
            sx.Dirichlet(exact),
        ],
        reference=exact,
    )


def pulse() -> sx.Problem:
    """A pulse that is carried along: a diagonal, the worst for sums of products."""

    def exact(t, x):
        return jnp.exp(-20 * (x - t - 0.5) ** 2)

    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2)),
        lambda u: u.t + u.x,
        [sx.Initial(exact), sx.Dirichlet(exact, on="x-")],
        reference=exact,
    )


def kink() -> sx.Problem:
    """The same with a kink, which polynomials meet slowly."""

    def exact(t, x):
        return jnp.abs(x - t - 0.3)

    return sx.Problem(
        sx.Box(t=(0, 1), x=(0, 2)),
        lambda u: u.t + u.x,
        [sx.Initial(exact), sx.Dirichlet(exact, on="x-")],
        reference=exact,
    )


def burgers() -> sx.Problem:
    nu = 0.05

    def exact(t, x):
        return 0.5 - 0.5 * jnp.tanh((x - 0.5 * t) / (4 * nu))

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-1, 1)),
        lambda u: u.t + u * u.x - nu * u.xx,
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )


def allen_cahn() -> sx.Problem:
    """u_t = u_xx + u - u³: a front of the stable state."""

    def exact(t, x):
        return 0.5 - 0.5 * jnp.tanh((x - 3 / math.sqrt(2) * t) / math.sqrt(8))

    return sx.Problem(
        sx.Box(t=(0, 2), x=(-5, 8)),
        lambda u: u.t - u.xx - u + u**3,
        [sx.Initial(exact), sx.Dirichlet(exact)],
        reference=exact,
    )


def poisson() -> sx.Problem:
    def exact(x, y):
        return jnp.exp(x * y) * jnp.sin(3 * x + y**2) / (1 + x**2 + 2 * y**2)

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        lambda u, x, y: u.xx + u.yy - laplacian(exact, range(2))(x, y),
        [sx.Dirichlet(exact)],
        reference=exact,
    )


def poisson_3d() -> sx.Problem:
    def exact(x, y, z):
        return jnp.cos(x + 2 * y) * jnp.exp(x * z) + jnp.exp(-((x - y) ** 2) - z**2)

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1)),
        lambda u, x, y, z: sx.laplacian(u) - laplacian(exact, range(3))(x, y, z),
        [sx.Dirichlet(exact)],
        reference=exact,
    )


def plane_wave() -> sx.Problem:
    """Δu + k² u = 0, four wavelengths across."""

    def exact(x, y):
        return jnp.cos(12 * (0.6 * x + 0.8 * y))

    return sx.Problem(
        sx.Box(x=(-1, 1), y=(-1, 1)),
        lambda u: u.xx + u.yy + 144 * u,
        [sx.Dirichlet(exact)],
        reference=exact,
    )


def soliton() -> sx.Problem:
    """i ψ_t + ½ ψ_xx + |ψ|² ψ = 0 with ψ = u + i v: a soliton on its way."""

    def u(t, x):
        return jnp.cos(x) / jnp.cosh(x - t)

    def v(t, x):
        return jnp.sin(x) / jnp.cosh(x - t)

    return sx.Problem(
        sx.Box(t=(0, 1), x=(-4, 5)),
        lambda u, v: {
            "real": u.t + v.xx / 2 + (u**2 + v**2) * v,
            "imaginary": v.t - u.xx / 2 - (u**2 + v**2) * u,
        },
        [
            sx.Initial(u, of="u", name="initial u"),
            sx.Initial(v, of="v", name="initial v"),
            sx.Dirichlet(u, of="u", name="dirichlet u"),
            sx.Dirichlet(v, of="v", name="dirichlet v"),
        ],
        fields=("u", "v"),
        reference={"u": u, "v": v},
    )


def diffusivity() -> sx.Problem:
    """How well does it conduct? From values at thirty places."""
    true = 0.07

    def exact(t, x):
        return jnp.exp(-true * jnp.pi**2 * t) * jnp.sin(jnp.pi * x) + 0.5 * jnp.exp(
            -4 * true * jnp.pi**2 * t
        ) * jnp.sin(2 * jnp.pi * x)

    at = np.random.default_rng(0).uniform([0, 0], [2, 1], (30, 2))
    return sx.Problem(
        sx.Box(t=(0, 2), x=(0, 1)),
        lambda u, kappa: u.t - kappa * u.xx,
        [
            sx.Initial(lambda x: exact(0.0, x)),
            sx.Dirichlet(0),
            sx.Data(at, np.asarray(exact(*at.T))),
        ],
        unknowns={"kappa": 0.5},
        reference=exact,
    )


OURS = {
    f.__name__.replace("_", "-"): f
    for f in (
        logistic, growth, fisher, layer, heat, insulated, wave, pulse, kink, burgers, allen_cahn, poisson, poisson_3d, plane_wave, soliton, diffusivity,
    )
}  # fmt: skip
CLOSER = {"logistic": 1e-8, "poisson": 1e-6, "wave": 1e-6}  # once more, with this tolerance


def problems() -> dict[str, Callable[[], sx.Problem]]:
    known = {
        name: entry.problem
        for name, entry in CATALOGUE.items()
        if not name.startswith("navier-stokes")
    }
    return {name: make for name, make in {**known, **OURS}.items() if is_solvable_directly(make())}


def finite(number: float) -> float | None:
    """JSON knows no infinity."""
    return number if math.isfinite(number) else None


def measured(
    name: str, make: Callable[[], sx.Problem], tolerance: float, seed: int
) -> dict[str, Any]:
    problem = make()
    started, worked = time.perf_counter(), time.process_time()
    found = sx.solve(problem, tolerance=tolerance, seed=seed, progress=False)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    assert isinstance(found, sx.Solution)
    assert found.estimate is not None
    error = found.relative_l2()
    return {
        "problem": name,
        "tolerance": tolerance,
        "relative_l2": error,
        "estimate": finite(found.estimate),
        "overstated": finite(found.estimate / max(error, 1e-16)),
        "levels": [
            {"functions": level.functions, "rank": level.rank, "estimate": finite(level.estimate)}
            for level in found.levels
        ],
        "seconds": seconds,
        "processor_seconds": processor,
        **({"advice": list(found.advice)} if found.advice else {}),
        **({"unknowns": found.unknowns} if found.unknowns else {}),
    }


HEAD = "| without a recipe | tolerance | error | estimate | |"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [HEAD, "|---|---|---|---|---|"]
    for row in rows:
        numbers = (
            row["tolerance"],
            row["relative_l2"],
            math.inf if row["estimate"] is None else row["estimate"],
        )
        cells = [
            row["problem"],
            *(f"{number:.0e}" for number in numbers),
            f"{row['seconds']:.0f} s",
        ]
        lines.append(f"| {' | '.join(cells).replace('e-0', 'e-').replace('e+00', '')} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the problems")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="-")
    parser.add_argument("--page", metavar="FILE", help="put the table of what --out holds there")
    options = parser.parse_args()
    if options.page:
        put_into(options.page, HEAD, table(json.loads(Path(options.out).read_text())["rows"]))
        return
    known = problems()
    if wrong := set(options.only or ()) - set(known):
        parser.error(
            f"--only: no such problem: {', '.join(sorted(wrong))}; there are {', '.join(known)}"
        )
    rows: list[dict[str, Any]] = []
    for name in options.only or known:
        for tolerance in (TOLERANCE, *([CLOSER[name]] if name in CLOSER else [])):
            row = measured(name, known[name], tolerance, options.seed)
            rows.append(row)
            shown = "inf" if row["estimate"] is None else f"{row['estimate']:.1e}"
            print(
                f"{name:16} tolerance {tolerance:.0e}   error {row['relative_l2']:.1e}   estimate {shown}"
                f"   {len(row['levels'])} levels   {row['seconds']:.0f} s, {row['processor_seconds']:.0f} of the processor",
                file=sys.stderr,
                flush=True,
            )
            if options.out != "-":  # what is measured is kept, whatever comes after it
                keep(options.out, {"seed": options.seed, "rows": rows})
    if options.out == "-":
        keep(options.out, {"seed": options.seed, "rows": rows})


if __name__ == "__main__":
    main()
