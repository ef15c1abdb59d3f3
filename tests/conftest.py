"""What several files of tests need."""

import os

# Nearly all the time goes into compiling, for a few steps each: less optimisation, here and in what tests start, is a quarter less of it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax
import pytest


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory):
    """Nothing touches the user's own cache. One folder for all tests of a file, so that a reference is computed once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPARAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield
