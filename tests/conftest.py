"""What several files of tests need."""

import os
import tempfile

# Nearly all the time goes into compiling, for a few steps each. Less optimisation is a quarter less of it; and a run that is resumed, or
# repeated in another process, is compiled once. What tests start inherits both.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="separax-compiled-")
    os.environ["JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

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
