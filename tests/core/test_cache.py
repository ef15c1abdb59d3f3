"""The cache of compiled programs: where it is, that it is bounded, that it takes nothing from
anybody."""

import os
import subprocess
import sys

from separax.core import cache_folder, forget_oldest

PROGRAM = """
import jax, jax.numpy as jnp
from separax.core import keep_programs
keep_programs()
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("cache_hits")))
jax.jit(lambda x: jnp.sin(x) @ x.T + 3)(jnp.ones((5, 5)))
print(sum(hits), jax.config.jax_compilation_cache_dir)
"""


def run(**changed):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    environment.pop("JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment | {k: str(v) for k, v in changed.items()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Warning" not in done.stderr
    hits, folder = done.stdout.split()
    return int(hits), folder


def test_a_second_process_reads_what_the_first_compiled(tmp_path):
    assert run(SEPARAX_CACHE=tmp_path)[0] == 0
    hits, folder = run(SEPARAX_CACHE=tmp_path)
    assert hits > 0
    assert folder.startswith(str(tmp_path))


def test_without_a_folder_programs_are_compiled():
    assert run(SEPARAX_CACHE="/dev/null/nowhere") == (0, "None")


def test_a_folder_that_jax_was_given_stays(tmp_path):
    mine = tmp_path / "mine"
    folder = run(SEPARAX_CACHE=tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=mine)[1]
    assert folder == str(mine)
    assert not (tmp_path / "ours").exists()


def test_programs_used_longest_ago_go_first(tmp_path):
    for age, name in enumerate("abcde"):
        path = tmp_path / name
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, 25)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_the_folder_is_the_one_that_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("SEPARAX_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("SEPARAX_CACHE", "off")
    assert cache_folder() is None
