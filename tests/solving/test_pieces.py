"""Piecewise polynomials on a lattice of pieces, as solutions."""

import jax
import numpy as np
import pytest
from numpy.polynomial import legendre

import separax as sx
from separax.solution import Timing
from separax.solving import pieces

BOXES = {
    1: {"x": (-1.0, 2.0)},
    2: {"t": (0.0, 1.0), "x": (-1.0, 2.0)},
    3: {"x": (-1.0, 2.0), "t": (0.0, 1.0), "y": (0.0, 3.0)},
}


def projected(f, edges, number):
    """Legendre coefficients of a function of all coordinates on a lattice of pieces."""
    points = legendre.leggauss(number)[0]
    inverse = np.linalg.inv(legendre.legvander(points, number - 1))
    each = [
        ((e[1:] + e[:-1])[:, None] / 2 + np.diff(e)[:, None] / 2 * points).ravel()
        for e in edges.values()
    ]
    values = f(*np.meshgrid(*each, indexing="ij"))
    values = values.reshape([n for e in edges.values() for n in (len(e) - 1, number)])
    for axis in range(len(edges)):
        values = np.moveaxis(np.tensordot(inverse, values, (1, 2 * axis + 1)), 0, 2 * axis + 1)
    return values


def problem(dimension):
    return sx.Problem(
        sx.Box(**BOXES[dimension]),
        lambda u, v: {"u": u.x - v, "v": v.x + u},
        [sx.Dirichlet(0, on="x-", of="u")],
        fields=("u", "v"),
    )


def functions(dimension):
    first = {
        1: lambda x: np.sin(2 * x),
        2: lambda t, x: np.sin(2 * x + t),
        3: lambda x, t, y: np.sin(2 * x + t - y),
    }[dimension]
    return first, lambda *each: first(*each) ** 2


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_solution_in_pieces_is_the_function_it_was_made_of(dimension, tmp_path):
    """After it was kept and loaded, too; in windows of time where there is time."""
    box = BOXES[dimension]
    cuts = [{"t": np.array([0, 0.3, 0.6])}, {"t": np.array([0.6, 0.8, 1.0])}]
    windows = []
    for cut in cuts if dimension > 1 else cuts[:1]:
        edges = {a: np.linspace(*box[a], 4) for a in reversed(box)} | {
            a: e for a, e in cut.items() if a in box
        }
        order = list(edges)

        def of(f, order=order):
            return lambda *each: f(*(dict(zip(order, each))[a] for a in box))

        fields = [projected(of(f), edges, 12) for f in functions(dimension)]
        windows.append(pieces.compressed(edges, fields, 1e-13))
    with jax.enable_x64(True):
        found = pieces.piecewise_solution(problem(dimension), windows, Timing(0, 0, 1), 1e-9)
        found = sx.load(found.save(tmp_path / "kept"))
        points = np.random.default_rng(0).uniform(
            *np.transpose(list(box.values())), (50, dimension)
        )
        for name, f in zip("uv", functions(dimension)):
            np.testing.assert_allclose(found.at(points)[name], f(*points.T), atol=1e-8)
        slope = found.d(x=1).at(points)["u"]
        np.testing.assert_allclose(slope**2, 4 - 4 * found.at(points)["v"], atol=1e-6)


def test_compressing_leaves_out_no_more_than_it_may():
    edges = {a: np.linspace(0, 1, 3) for a in "xyz"}
    full = projected(lambda x, y, z: 1 / (1 + x + y * z), edges, 6)
    for cut in (1e-2, 1e-5):
        made = pieces.compressed(edges, [full], cut)
        whole = np.einsum("abc,ipa,jqb,krc->ipjqkr", made.cores[0], *(f[0] for f in made.factors))
        weights = 1 / (2 * np.arange(6) + 1)
        scale = np.einsum("p,q,r->pqr", *[weights] * 3)[None, :, None, :, None, :]
        left = np.sqrt(np.sum((full - whole) ** 2 * scale) / np.sum(full**2 * scale))
        assert 0 < left <= cut
        assert made.cores[0].size < full.size / 8
