"""Freed memory: the amount that the process retains, and the return of pages that only the start needed."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from pathlib import Path
from typing import Final

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
