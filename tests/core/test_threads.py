"""Threads of decompositions."""

import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_info, threadpool_limits

from separax.core import threads_for


def threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.mark.parametrize(("columns", "inside"), [(10, {1}), (5_000, {2})])
def test_small_decompositions_have_one_thread_and_what_was_set_comes_back(columns, inside):
    with threadpool_limits(2, user_api="blas"):
        with threads_for(columns):
            assert threads() == inside
        assert threads() == {2}
