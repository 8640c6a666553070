"""Broker's process on this machine: memory and processor time, from the files of Linux's /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")


def resident_mib(pid: int) -> float | None:
    """Return the resident memory of a process in MiB; None if it is gone, or the system has no /proc."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def cpu_seconds(pid: int) -> float | None:
    """Return the processor time of a process, a user's and the kernel's; None as in `resident_mib`."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None
