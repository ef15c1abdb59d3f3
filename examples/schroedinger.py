"""A quantum particle in a box: real and imaginary parts as a system.

    i ψ_t = -½ ψ_xx   in [0, π], t in [0, 4],   ψ = a + i b,   ψ = 0 at both ends.

Started in a mixture of the two lowest states, which slosh to and fro with the difference of their
frequencies. It is known exactly. The probability ∫ |ψ|² must stay one; nothing in the training says
so.

    python examples/schroedinger.py

About 28 s of CPU time, compiling included; relative L2 error about 5e-5.
"""

import jax.numpy as jnp

import separax as sx

END = 4.0


def exact(t, x):
    first, second = jnp.sin(x) / jnp.sqrt(jnp.pi), jnp.sin(2 * x) / jnp.sqrt(jnp.pi)
    return {
        "a": first * jnp.cos(t / 2) + second * jnp.cos(2 * t),
        "b": -first * jnp.sin(t / 2) - second * jnp.sin(2 * t),
    }


def schroedinger(a, b):
    return {"real": a.t + b.xx / 2, "imaginary": b.t - a.xx / 2}


problem = sx.Problem(
    sx.Box(t=(0, END), x=(0, jnp.pi)),
    schroedinger,
    fields=("a", "b"),
    conditions=[
        sx.Initial(lambda x: exact(0.0, x)["a"], of="a", name="first a"),
        sx.Initial(lambda x: exact(0.0, x)["b"], of="b", name="first b"),
        sx.Dirichlet(0, of="a", hard=True, name="ends of a"),
        sx.Dirichlet(0, of="b", hard=True, name="ends of b"),
    ],
    reference=exact,
)
recipe = sx.Recipe(
    sx.SPINN(rank=4, width=24, depth=2),
    points=40,
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
