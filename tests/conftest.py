"""What several files of tests need."""

import os
import subprocess
import sys
import tempfile

# Nearly all the time goes into compiling, for a few steps each. Less optimisation and the older way of writing kernels take half as long;
# and a run that is resumed, or repeated in another process, is compiled once. What tests start inherits all of this.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="separax-compiled-")
    os.environ["JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1":
        older = {
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"
        }
        tried = subprocess.run(
            [sys.executable, "-c", "import jax; jax.devices()"],
            env=os.environ | older,
            capture_output=True,
        )
        if tried.returncode == 0:  # a flag that XLA no longer has ends the process
            os.environ |= older

import jax
import pytest

TOGETHER = ("test_marching.py", "test_reproduce_running.py", "test_shapes.py", "test_viewer.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Of several workers one makes what the tests of such a file share, and runs all of them; the other tests go where there is time."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

    return Scheduling(config, log)


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
