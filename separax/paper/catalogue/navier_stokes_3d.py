"""Navier-Stokes equations in 3+1 axes: a decaying Taylor-Green vortex.

    ω_t + (u·∇)ω = (ω·∇)u + ν Δω + F,   ∇·u = 0,   ω = ∇×u   in [0, 2π]³, t in [0, 5],   ν = 0.05,

for the velocity (u, v, w): 33 derivatives, 21 of ω and 12 of u, 48 once ω is written out. The
forcing F is that of the manufactured solution u = e^(-9νt) (2 cos 2x sin 2y sin z, -sin 2x cos 2y
sin z, -2 sin 2x sin 2y cos z), every component of rank one.

Errors are of the vorticity (wx, wy, wz), as the paper's are.

`paper`: vorticity and velocity given at t = 0, the vorticity on the six faces (the released code
puts its boundary points inside the box, at ±1, and weighs one component of three differently;
neither is copied). The faces fix the velocity only up to a potential flow; `best` gives the
velocity there too.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...domain import Box, Uniform
from ...equations import Dirichlet, Initial, Problem
from ...networks import NETWORKS
from ...recipe import Adam, Recipe, Solve
from .entry import Entry, quasi_newton, small_pointwise, solved

EQUATION = "ω_t + (u·∇)ω = (ω·∇)u + νΔω + F"
VISCOSITY = 0.05
LENGTH = 2 * jnp.pi
VORTICITY = ("wx", "wy", "wz")  # its components


def velocity(t, x, y, z):
    decay = jnp.exp(-9 * VISCOSITY * t)
    return {
        "u": 2 * decay * jnp.cos(2 * x) * jnp.sin(2 * y) * jnp.sin(z),
        "v": -decay * jnp.sin(2 * x) * jnp.cos(2 * y) * jnp.sin(z),
        "w": -2 * decay * jnp.sin(2 * x) * jnp.sin(2 * y) * jnp.cos(z),
    }


def vorticity(t, x, y, z):
    decay = jnp.exp(-9 * VISCOSITY * t)
    return {
        "wx": -3 * decay * jnp.sin(2 * x) * jnp.cos(2 * y) * jnp.cos(z),
        "wy": 6 * decay * jnp.cos(2 * x) * jnp.sin(2 * y) * jnp.cos(z),
        "wz": -6 * decay * jnp.cos(2 * x) * jnp.cos(2 * y) * jnp.sin(z),
    }


def forcing(t, x, y, z):
    decay = 6 * jnp.exp(-18 * VISCOSITY * t)
    return {
        "wx": -decay * jnp.sin(4 * y) * jnp.sin(2 * z),
        "wy": -decay * jnp.sin(4 * x) * jnp.sin(2 * z),
        "wz": decay * jnp.sin(4 * x) * jnp.sin(4 * y),
    }


def curl(u, v, w):
    return {"wx": w.y - v.z, "wy": u.z - w.x, "wz": v.x - u.y}


def residual(u, v, w, t, x, y, z):
    omega, source = curl(u, v, w), forcing(t, x, y, z)
    along = {"wx": u, "wy": v, "wz": w}

    def transported(name):
        one, moved = omega[name], along[name]
        advection = u * one.x + v * one.y + w * one.z
        stretching = omega["wx"] * moved.x + omega["wy"] * moved.y + omega["wz"] * moved.z
        diffusion = VISCOSITY * (one.xx + one.yy + one.zz)
        return one.t + advection - stretching - diffusion - source[name]

    return {name: transported(name) for name in omega} | {"continuity": u.x + v.y + w.z}


def _given(kind, function, names, operator, name):
    """A condition for each component."""
    return [
        kind(lambda t, x, y, z, k=k: function(t, x, y, z)[k], of=operator(k), name=f"{name} {k}")
        for k in names
    ]


def problem(recipe: str = "best") -> Problem:
    box = Box(t=(0, 5), x=(0, LENGTH), y=(0, LENGTH), z=(0, LENGTH))

    def one(k):
        return lambda u, v, w: {"u": u, "v": v, "w": w}[k]

    def turned(k):
        return lambda u, v, w: curl(u, v, w)[k]

    conditions = [
        *_given(Initial, velocity, "uvw", one, "initial"),
        *_given(Initial, vorticity, VORTICITY, turned, "initial"),
    ]
    if recipe == "paper":
        conditions += _given(Dirichlet, vorticity, VORTICITY, turned, "boundary")
    else:
        conditions += _given(Dirichlet, velocity, "uvw", one, "boundary")
    return Problem(
        box,
        residual,
        conditions,
        fields=("u", "v", "w"),
        derived={k: turned(k) for k in VORTICITY},
        reference={k: lambda t, x, y, z, k=k: vorticity(t, x, y, z)[k] for k in VORTICITY},
        name="navier-stokes-3d",
        equation=EQUATION,
    )


def recipe(name: str = "best", network: str = "spinn-mod") -> Recipe:
    if name == "paper":
        size = {"rank": 128, "width": 64} if network.startswith("spinn") else {"width": 128}
        weights = {"continuity": 100.0} | {f"initial {k}": 10.0 for k in (*"uvw", *VORTICITY)}
        pointwise = network.startswith("pinn")
        if pointwise:  # the mean over all faces instead of the sum of six, as everywhere
            weights |= {f"boundary {k}": 1 / 6 for k in VORTICITY}
        return Recipe(
            NETWORKS[network](depth=5, scaled=False, **size),
            32,
            50_000,
            Adam(1e-3),
            Uniform(every=100),
            emphasis=1.0,
            weights=weights,
            precision="tf32" if pointwise else "float32",
        )
    if network.startswith("pinn"):
        return small_pointwise(network, points=10)
    return quasi_newton(
        NETWORKS[network](rank=2, width=16, depth=2),
        {"t": 8, "x": 20, "y": 20, "z": 20},
        1_000,
        1_500,
    )


NAVIER_STOKES_3D = Entry(
    "navier-stokes-3d",
    EQUATION,
    "3+1 axes, three components, Taylor-Green vortex",
    problem,
    recipe,
    solved=solved(
        2,
        {"t": 9, "x": 20, "y": 20, "z": 14},
        {"t": 11, "x": 24, "y": 24, "z": 17},
        Solve(40, sweeps=2),
    ),
)
