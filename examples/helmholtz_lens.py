"""Sound around a lens: the Helmholtz equation where the speed of sound varies.

    u_xx + u_yy + k² (1 + 0.5 exp(-8 (x² + y²))) u = exp(-20 ((x + 0.5)² + y²))
    in [-1, 1]²,   k = 4,   u = 0 on the faces.

A source at the left, a soft lens in the middle. The frequency is not one at which the room
resonates, so there is one solution. The reference is a Chebyshev collocation of 48² points by
numpy, to ten digits and in half a second: in two axes that is how to do it.

    python examples/helmholtz_lens.py

About 30 s of CPU time, compiling included; relative L2 error about 1e-4.
"""

import jax.numpy as jnp
import numpy as np

import separax as sx
from separax.paper.references.diffusion import chebyshev

WAVENUMBER = 4.0


def lens(x, y):
    return WAVENUMBER**2 * (1 + 0.5 * jnp.exp(-8 * (x**2 + y**2)))


def source(x, y):
    return jnp.exp(-20 * ((x + 0.5) ** 2 + y**2))


def helmholtz(u, x, y):
    return sx.laplacian(u) + lens(x, y) * u - source(x, y)


def reference(number=48):
    """The solution on the Chebyshev points inside, by collocation."""
    xs, slope = chebyshev(number)
    inside, curved = xs[1:-1], (slope @ slope)[1:-1, 1:-1]
    one, (x, y) = np.eye(number - 1), np.meshgrid(inside, inside, indexing="ij")
    matrix = (
        np.kron(curved, one) + np.kron(one, curved) + np.diag(np.asarray(lens(x, y), float).ravel())
    )
    return inside, np.linalg.solve(matrix, np.asarray(source(x, y), float).ravel()).reshape(x.shape)


problem = sx.Problem(
    sx.Box(x=(-1, 1), y=(-1, 1)), helmholtz, conditions=[sx.Dirichlet(0, hard=True)]
)
recipe = sx.Recipe(
    sx.SPINN(rank=10, width=24, depth=2),
    points=48,
    steps=2_000,
    optimiser=[sx.Adam(5e-3, "cosine"), sx.BFGS(1_000)],
    sampler=sx.GaussLegendre(),
    precision="float64",
)


def main(steps: int = 3_000) -> dict[str, float]:
    solution = sx.solve(problem, recipe.with_steps(steps))
    xs, true = reference()
    return {"relative_l2": solution.relative_l2(true, x=xs, y=xs)}


if __name__ == "__main__":
    from _command import command

    command(main, __doc__)
