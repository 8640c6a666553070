"""What this machine has, and how this process uses it: memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Final

LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's limit stands (control groups, version 2 and 1)."""


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container where that is less; 0 where it is not known."""
    try:
        least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
    for path in LIMITS:
        try:
            least = min(least, int(path.read_text()))
        except (OSError, ValueError):
            continue  # There is none, or it is "max".
    return least


def open_files() -> int:
    """Return how many files and sockets this process may have open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""Names of glibc's malloc.h, for mallopt(3)."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Freed memory that the process may keep."""
MAPPED_BYTES: Final = 4 * 1024 * 1024
"""Blocks from this size on are mapped, and go back to the system when they are freed."""


def keep_freed_memory() -> None:
    """Let the process keep some memory that it has freed, where the C library can be told to (glibc).

    A turn's output is some hundred kilobytes. By default they may be mapped and unmapped for every turn, or not, as
    earlier sizes would have it; new pages then cost more than the messages in them.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(M_TRIM_THRESHOLD, KEPT_BYTES)
        tune(M_MMAP_THRESHOLD, MAPPED_BYTES)
