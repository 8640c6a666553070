"""Resident memory of a process of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def resident_mib(pid: int) -> float | None:
    """Return the resident memory of a process in MiB; None if it is gone, or the system has no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
