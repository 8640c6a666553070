"""Limits of this process: its memory and open files, and the memory that it retains and returns."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
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
    for path in _limit_files(groups, folder):
        with contextlib.suppress(OSError, ValueError):  # There is no limit, or it is "max".
            least = min(least, int(path.read_text()))
    return least


def _limit_files(groups: Path, folder: Path) -> Iterator[Path]:
    """Yield the files that may have the limit of a group or of one of its parents."""
    lines = ["0::/", "0:memory:/"]
    with contextlib.suppress(OSError):
        lines += groups.read_text().splitlines()
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = folder / "memory" if controllers else folder
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield root.joinpath(*parts[:depth]) / name


def open_files() -> int:
    """Return the limit of open files and sockets of this process."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""Options of glibc's mallopt(3), from malloc.h."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Freed memory that the process may retain."""
MAPPED_BYTES: Final = 4 * 1024 * 1024
"""Size from which blocks are mapped, and returned to the system when freed."""


def keep_freed_memory() -> None:
    """Make glibc retain some freed memory.

    The output of a turn has some hundred kilobytes. By default glibc may map and unmap them in every turn, depending on
    earlier sizes; the new pages then cost more than the messages in them.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(M_TRIM_THRESHOLD, KEPT_BYTES)
        tune(M_MMAP_THRESHOLD, MAPPED_BYTES)


SMAPS: Final = Path("/proc/self/smaps")
"""Mappings of this process: a line BEGIN-END PERMISSIONS OFFSET DEVICE INODE PATH each, and lines NAME: VALUE."""


def unmap_start_pages() -> None:
    """Return memory that only the start needed.

    Two thirds of the code mapped by then ran once, while its module was imported. Unmodified pages of files are
    unmapped; the kernel maps them again from its cache when they are used. glibc returns free memory.
    """
    with contextlib.suppress(OSError, AttributeError):
        system = ctypes.CDLL(None)
        for begin, end in unchanged_mappings(SMAPS):
            system.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)
        system.malloc_trim(0)


def unchanged_mappings(smaps: Path) -> list[tuple[int, int]]:
    """Return begin and end of file mappings that this process may not write, and that contain no page of its own."""
    found = []
    mapping = ""
    with smaps.open() as lines:
        for line in lines:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                mapping = name if rest.startswith(("r-xp", "r--p")) and "/" in rest else ""
            elif mapping and name == "Anonymous:" and rest.split()[0] == "0":
                begin, end = mapping.split("-")
                found.append((int(begin, 16), int(end, 16)))
    return found
