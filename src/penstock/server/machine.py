"""What this machine has: the memory that a broker's messages are bounded by a share of."""

from __future__ import annotations

import os
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
