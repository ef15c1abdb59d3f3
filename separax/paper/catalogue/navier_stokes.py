"""Navier-Stokes equations in 2+1 axes: a decaying chaotic flow.

    ω_t + u ω_x + v ω_y = ν Δω,   u_x + v_y = 0,   ω = v_x - u_y,   ν = 0.01
    in [0, 2π]², t in [0, 1],

periodic, from a random flow of maximum speed 5 (`separax.flows.random_flow`) or one of the user's
(`load_flow`). The reference is computed (`paper.references.navier_stokes`); errors are of the
vorticity ω, called w.

`paper`: the velocity (u, v) by two sums of 128 products, ten windows of time, a regular grid that
is shifted at random, initial values of u, v and ω on a grid of 128² points, which every later
window takes from the one before.

`best`: a stream function, u = ψ_y and v = -ψ_x, which has no
divergence to be trained away. Unless a network is named its factors are all waves up to 64 and five
powers of t, and a core is solved for in fifty windows: that is a spectral method, and nothing in it
is neural.
"""

from __future__ import annotations

from ...domain import Box, Grid
from ...equations import Initial, Periodic, Problem
from ...networks import NETWORKS
from ...recipe import Adam, Recipe
from ..flow import LENGTH, Flow, random_flow
from ..references.navier_stokes import VISCOSITY, reference
from .entry import Entry, all_products, small_pointwise

EQUATION = "ω_t + u·∇ω = νΔω"
GRID = {"paper": 128, "best": 192}  # points per axis of the initial values
END = 1.0
WINDOWS = 10
# ω_t is in the hundreds, u and v are of size one: without weights the initial values would count
# for nothing
WEIGHTS = {f"initial {k}": 1_000.0 for k in "uvw"}


def transport(u, v, w):
    return w.t + u * w.x + v * w.y - VISCOSITY * (w.xx + w.yy)


def velocity(u, v):
    return {"vorticity": transport(u, v, v.x - u.y), "continuity": u.x + v.y}


def stream_function(mean):
    """A periodic stream function has no mean flow, which is constant in time and known."""
    return {
        "u": lambda psi: mean[0] + psi.y,
        "v": lambda psi: mean[1] - psi.x,
        "w": lambda psi: -psi.xx - psi.yy,
    }


def problem(recipe: str = "best", flow: Flow | None = None, end: float = END) -> Problem:
    flow = random_flow(0) if flow is None else flow
    table = flow.resampled(GRID[recipe])
    box, lattice = Box(t=(0, end), x=(0, LENGTH), y=(0, LENGTH)), dict.fromkeys("xy", table.axis)
    if recipe == "paper":
        fields, residual = ("u", "v"), velocity
        quantities = {"u": lambda u, v: u, "v": lambda u, v: v, "w": lambda u, v: v.x - u.y}
        derived = {"w": quantities["w"]}
    else:
        derived = quantities = stream_function(table.mean)

        def one_equation(psi):
            return {"vorticity": transport(*(of(psi) for of in quantities.values()))}

        fields, residual = ("psi",), one_equation
    values = {"u": table.u, "v": table.v, "w": table.vorticity}
    conditions = [
        Initial(values[k], of=of, lattice=lattice, name=f"initial {k}")
        for k, of in quantities.items()
    ]
    return Problem(
        box,
        residual,
        [*conditions, Periodic()],
        fields=fields,
        derived=derived,
        reference={"w": reference(flow.u, flow.v, VISCOSITY, end)["w"]},
        name="navier-stokes",
        equation=EQUATION,
    )


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        size = {"rank": 128, "width": 128} if network.startswith("spinn") else {"width": 128}
        points = 64 if network.startswith("spinn") else 32
        weights = {"continuity": 5_000.0} | {f"initial {k}": 10_000.0 for k in "uvw"}
        shape = NETWORKS[network](depth=3, scaled=False, **size)
        sampler = Grid(shifts=8, every=100)
        # TF32 on a GPU, which is what JAX does there unless it is told otherwise
        return Recipe(
            shape,
            points,
            100_000,
            Adam(2e-3),
            sampler,
            emphasis=1.0,
            weights=weights,
            precision="tf32",
        )
    if network.startswith("pinn"):
        return small_pointwise(network, points=20)
    size = NETWORKS[network](rank=96, width=64, depth=2, frequencies=8)
    return Recipe(
        size,
        {"t": 8, "x": 48, "y": 48},
        4_000,
        Adam(5e-3, "cosine"),
        Grid(),
        emphasis=1.0,
        weights=WEIGHTS,
    )


def solved(highest: int, powers: int, points: int, steps: int = 3, iterations: int = 60) -> Recipe:
    """A core of all waves up to `highest` and powers of t, by Gauss-Newton with conjugate
    gradients. Products of two waves alias onto none of them with more than three times as many
    `points`."""
    waves = 2 * highest + 1
    return all_products(
        {"t": powers, "x": waves, "y": waves},
        {"t": powers + 2, "x": points, "y": points},
        steps,
        iterations,
        frequencies=highest,
        emphasis=1.0,
        weights=WEIGHTS,
    )


NAVIER_STOKES = Entry(
    "navier-stokes",
    EQUATION,
    "2+1 axes, chaotic, in windows of time, computed reference",
    problem,
    recipe,
    WINDOWS,
    solved_windows=50,
    solved=solved(64, 6, 194),
    takes_flow=True,
)
