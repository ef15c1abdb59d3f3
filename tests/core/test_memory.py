"""How much memory there is: of the machine, and of the group that a container or a batch system
puts a process in."""

import pytest

from separax.core import devices

GB = 10**9


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.fixture
def system(tmp_path):
    """A machine's two folders, to be filled."""
    return tmp_path / "proc", tmp_path / "cgroup"


def test_the_machine_says_what_is_free(system):
    proc, _ = system
    assert devices._of_machine(proc) is None
    write(proc / "meminfo", "MemTotal:       20000 kB\nMemAvailable:    8000 kB")
    assert devices._of_machine(proc) == 8000 * 1024


def test_a_group_of_the_second_version(system):
    """The least of its own limit and of those above it; files that were read do not count as
    used."""
    proc, groups = system
    assert devices._of_group(proc, groups) is None
    write(proc / "self" / "cgroup", "0::/batch/job")
    assert devices._of_group(proc, groups) is None
    for folder, most, now, stale in [
        ("batch/job", "max", GB, 0),
        ("batch", 4 * GB, 3 * GB, GB // 2),
    ]:
        write(groups / folder / "memory.max", most)
        write(groups / folder / "memory.current", now)
        write(groups / folder / "memory.stat", f"anon 5\ninactive_file {stale}")
    assert devices._of_group(proc, groups) == 1.5 * GB
    write(groups / "batch/job/memory.max", 2 * GB)
    assert devices._of_group(proc, groups) == GB
    write(groups / "batch/job/memory.current", 3 * GB)
    assert devices._of_group(proc, groups) == 0


def test_a_group_of_the_first_version(system):
    proc, groups = system
    write(proc / "self" / "cgroup", "9:name=systemd:/other\n4:cpu,memory:/job")
    write(groups / "memory/job/memory.limit_in_bytes", 5 * GB)
    write(groups / "memory/job/memory.usage_in_bytes", 2 * GB)
    write(groups / "memory/job/memory.stat", f"total_inactive_file {GB}")
    assert devices._of_group(proc, groups) == 4 * GB
