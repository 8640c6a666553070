"""Limits of this process, which the machine or an administrator sets: its memory, its cores and its open files."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/proc/self/cgroup")
"""File with the control groups of this process: a line HIERARCHY:CONTROLLERS:PATH for each."""
CGROUPS: Final = Path("/sys/fs/cgroup")
"""Folder with the files of all control groups."""


def memory_bytes() -> int:
    """Return the memory that this process may have; 0 if unknown.

    The result is the least of the machine's memory, the limits of its control groups, and the rest of its limits of
    address space and data (`ulimit -v`, `ulimit -d`): the program itself is mapped already.
    """
    try:
        least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
    for which, field in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit = resource.getrlimit(which)[0]
        if limit != resource.RLIM_INFINITY:
            least = min(least, max(1, limit - mapped_bytes(field)))
    return min(least, group_bytes(GROUPS, CGROUPS))


def mapped_bytes(field: int) -> int:
    """Return a field of /proc/self/statm in bytes; 0 if unknown.

    0: all mapped, 1: resident, 2: resident pages of files, 5: data and stacks.
    """
    try:
        return int(Path("/proc/self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def group_bytes(groups: Path, folder: Path) -> int:
    """Return the least memory limit of the control groups in a file and of their parents (version 2 or 1).

    A container may show its own group as the root of `folder`. The result is `sys.maxsize` without a limit.
    """
    least = sys.maxsize
    for path in _limit_files(groups, folder, "memory", ("memory.max", "memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):  # There is no limit, or it is "max".
            least = min(least, int(path.read_text()))
    return least


def _limit_files(groups: Path, folder: Path, controller: str, names: tuple[str, str]) -> Iterator[Path]:
    """Yield the files that may have the limit of a group or of one of its parents.

    `names` are those of the files in version 2 and 1 of control groups.
    """
    lines = ["0::/", f"0:{controller}:/"]
    with contextlib.suppress(OSError):
        lines += groups.read_text().splitlines()
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root = folder / controller if controllers else folder
        name = names[1] if controllers else names[0]
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield root.joinpath(*parts[:depth]) / name


def open_files() -> int:
    """Return the limit of open files and sockets of this process."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def cores() -> int:
    """Return the number of cores that this process may use: those of its affinity, within its share of time."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    return max(1, min(count, group_cores(GROUPS, CGROUPS)))


def group_cores(groups: Path, folder: Path) -> int:
    """Return the least share of time of the control groups in a file and of their parents (version 2 or 1), in cores.

    A part of a core counts as one. The result is `sys.maxsize` without a limit.
    """
    least = sys.maxsize
    for path in _limit_files(groups, folder, "cpu", ("cpu.max", "cpu.cfs_quota_us")):
        with contextlib.suppress(OSError, ValueError):  # There is no limit, or it is "max".
            quota, _, period = path.read_text().partition(" ")
            if not period:
                period = path.with_name("cpu.cfs_period_us").read_text()
            if int(quota) > 0:
                least = min(least, max(1, -(-int(quota) // int(period))))
    return least
