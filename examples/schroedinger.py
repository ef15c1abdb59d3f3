"""A quantum particle in a bowl: real and imaginary parts as a system.

    i ψ_t = -½ ψ_xx + ½ x² ψ   in [-5, 5], t in [0, 1.5],   ψ = a + i b,

started as a Gaussian to the right of the middle: the coherent state, which swings through it without changing its width. It
is known exactly. The probability ∫ |ψ|² must stay one; nothing in the training says so.

    python examples/schroedinger.py

COST
"""

import jax.numpy as jnp
import separax as sx

START, END = 1.5, 1.5


def exact(t, x):
    place, speed = START * jnp.cos(t), -START * jnp.sin(t)
    size = jnp.pi**-0.25 * jnp.exp(-((x - place) ** 2) / 2)
    phase = speed * x - speed * place / 2 - t / 2
    return {"a": size * jnp.cos(phase), "b": size * jnp.sin(phase)}


def schroedinger(a, b, x):
    energy = lambda w: -w.xx / 2 + x**2 / 2 * w
    return {"real": a.t - energy(b), "imaginary": b.t + energy(a)}


problem = sx.Problem(
    sx.Box(t=(0, END), x=(-5, 5)),
    schroedinger,
    fields=("a", "b"),
    conditions=[
        sx.Initial(lambda x: exact(0.0, x)["a"], of="a", weight=100.0, name="first a"),
        sx.Initial(lambda x: exact(0.0, x)["b"], of="b", weight=100.0, name="first b"),
        sx.Dirichlet(0, of="a", hard=True, name="no a far away"),
        sx.Dirichlet(0, of="b", hard=True, name="no b far away"),
    ],
    reference=exact,
)
recipe = sx.Recipe(
    sx.SPINN(rank=12, width=24, depth=2),
    points={"t": 32, "x": 64},
    steps=2_000,
    optimiser=[sx.Adam(5e-3, "cosine"), sx.BFGS(800)],
    sampler=sx.GaussLegendre(),
    precision="float64",
)


def main(steps: int = 2_800) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    probability = solution.of(lambda a, b: a**2 + b**2).integral("x", t=END)
    return {"relative_l2": solution.relative_l2(), "probability_lost": abs(float(probability) - 1)}


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
