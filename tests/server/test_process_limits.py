"""Memory, cores and open files that the operating system permits to this process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.server import process_limits
from penstock.server.process_limits import cores, group_bytes, group_cores


def group(folder: Path, path: str, name: str, limit: str) -> None:
    """Write the limit of a control group."""
    place = folder / path
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(f"{limit}\n")


def test_least_limit_of_a_group_and_its_parents_counts(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("0::/system.slice/penstock.service\n")
    assert group_bytes(groups, tmp_path) == sys.maxsize
    group(tmp_path, "system.slice/penstock.service", "memory.max", "max")
    assert group_bytes(groups, tmp_path) == sys.maxsize
    group(tmp_path, "system.slice/penstock.service", "memory.max", "3000000")
    assert group_bytes(groups, tmp_path) == 3_000_000
    group(tmp_path, "system.slice", "memory.max", "2000000")
    assert group_bytes(groups, tmp_path) == 2_000_000
    group(tmp_path, "", "memory.max", "1000000")  # The root that a container sees is its own group.
    assert group_bytes(groups, tmp_path) == 1_000_000


def test_limits_of_version_1_count_those_of_other_controllers_do_not(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("5:cpu,cpuacct:/other\n4:memory:/docker/one\n")
    group(tmp_path, "memory/other", "memory.limit_in_bytes", "1")
    group(tmp_path, "memory/docker/one", "memory.limit_in_bytes", "5000000")
    group(tmp_path, "memory", "memory.limit_in_bytes", "9223372036854771712")
    assert group_bytes(groups, tmp_path) == 5_000_000


def test_missing_file_of_groups_leaves_the_root(tmp_path: Path) -> None:
    group(tmp_path, "", "memory.max", "7000000")
    assert group_bytes(tmp_path / "none", tmp_path) == 7_000_000


def test_share_of_time_is_rounded_up_to_whole_cores(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("0::/penstock\n")
    group(tmp_path, "penstock", "cpu.max", "max 100000")
    assert group_cores(groups, tmp_path) == sys.maxsize
    group(tmp_path, "penstock", "cpu.max", "250000 100000")
    assert group_cores(groups, tmp_path) == 3
    group(tmp_path, "", "cpu.max", "50000 100000")
    assert group_cores(groups, tmp_path) == 1


def test_share_of_time_of_version_1_counts_in_cores(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("5:cpu,cpuacct:/one\n")
    group(tmp_path, "cpu/one", "cpu.cfs_period_us", "50000")
    group(tmp_path, "cpu/one", "cpu.cfs_quota_us", "-1")
    assert group_cores(groups, tmp_path) == sys.maxsize
    group(tmp_path, "cpu/one", "cpu.cfs_quota_us", "100000")
    assert group_cores(groups, tmp_path) == 2


def test_cores_are_at_most_those_of_the_affinity() -> None:
    assert 1 <= cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("which", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_memory_is_bounded_by_the_limit_of_the_process(which: int) -> None:
    most = 512 * 1024 * 1024
    code = (
        "import resource; from penstock.server.process_limits import memory_bytes; print(memory_bytes());"
        f"resource.setrlimit({which}, ({most}, resource.getrlimit({which})[1])); print(memory_bytes())"
    )
    before, after = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert 0 < int(after) < most < int(before)


def test_host_memory_knows_the_limit_of_open_files() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert process_limits.open_files() == soft or soft == resource.RLIM_INFINITY
