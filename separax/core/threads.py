"""Threads of the linear algebra under SciPy, which JAX calls for decompositions on a processor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import scipy.linalg  # noqa: F401  # loads the library whose threads are counted
from threadpoolctl import threadpool_limits

# Columns of a matrix from which on a decomposition is worth a second thread. The threads of
# OpenBLAS wait for each other by spinning: where other processes have the cores, two of them take
# ten times as long as one (n = 300: 3.0 instead of 0.5 ms; n = 1,000: 6 instead of 10 on two free
# cores).
WORTH_THREADS = 1_000


@contextlib.contextmanager
def threads_for(columns: int) -> Iterator[None]:
    """Decompositions in one thread where they are small, in as many as there are otherwise.

    Arguments:
        columns: of the largest matrix that is decomposed.
    """
    with threadpool_limits(1 if columns < WORTH_THREADS else None, user_api="blas"):
        yield
