"""Memory and open files that the operating system permits to this process."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.server import process_limits
from penstock.server.process_limits import group_bytes, unchanged_mappings

SMAPS = """\
1000-3000 r-xp 00000000 08:01 11 /lib/a.so
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
3000-4000 r--p 00002000 08:01 11 /lib/a.so
Anonymous:             4 kB
4000-5000 rw-p 00003000 08:01 11 /lib/a.so
Anonymous:             0 kB
5000-6000 r--s 00000000 00:05 12 /dev/shm/shared
Anonymous:             0 kB
6000-7000 r-xp 00000000 00:00 0
Anonymous:             0 kB
7000-8000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
8000-a000 r--p 00000000 08:01 13 /with a space/b.so
Anonymous:             0 kB
"""


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


def test_file_of_groups_that_is_missing_leaves_the_root(tmp_path: Path) -> None:
    group(tmp_path, "", "memory.max", "7000000")
    assert group_bytes(tmp_path / "none", tmp_path) == 7_000_000


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


def test_file_mappings_that_are_never_written_are_found(tmp_path: Path) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(SMAPS)
    assert unchanged_mappings(smaps) == [(0x1000, 0x3000), (0x8000, 0xA000)]


@pytest.mark.skipif(not process_limits.SMAPS.exists(), reason="the mappings are read from /proc")
def test_pages_of_the_start_are_unmapped_and_come_back_when_they_are_used() -> None:
    code = (
        "import penstock.server.server; from penstock.server.process_limits import mapped_bytes, unmap_start_pages;"
        "print(mapped_bytes(2)); unmap_start_pages(); print(mapped_bytes(2)); import decimal; print(decimal.Decimal(1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after, one = map(int, done.stdout.split())
    assert 0 < after < before / 2
    assert one == 1


def test_system_without_a_list_of_mappings_unmaps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_limits, "SMAPS", tmp_path / "none")
    process_limits.unmap_start_pages()
