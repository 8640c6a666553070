"""Host memory and file limits, and the allocator's settings of this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Final

LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with a container's memory limit (control groups, version 2 and 1)."""


def memory_bytes() -> int:
    """Return the memory of the machine, or the container's limit if lower; 0 if unknown."""
    try:
        least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
    for path in LIMITS:
        try:
            least = min(least, int(path.read_text()))
        except (OSError, ValueError):
            continue  # No limit, or "max".
    return least


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
    """Let glibc retain some freed memory.

    The output of a turn has some hundred kilobytes. By default glibc may map and unmap them in every turn, depending on
    earlier sizes; the new pages then cost more than the messages in them.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(M_TRIM_THRESHOLD, KEPT_BYTES)
        tune(M_MMAP_THRESHOLD, MAPPED_BYTES)
