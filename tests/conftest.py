"""What several files of tests need."""

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


def _unoptimised():
    """Compiles in less time what then runs for a few steps only."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


unoptimised = pytest.fixture(_unoptimised)
unoptimised_file = pytest.fixture(_unoptimised, scope="module")  # for all tests of a file, and what they share
