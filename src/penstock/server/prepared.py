"""Preparation of a process whose event loop runs a broker: its collector, its threads and its memory."""

from __future__ import annotations

import sys
from typing import Final

from penstock.server.collector import collect_little
from penstock.server.freed_memory import keep_freed_memory

SWITCH_S: Final = 0.0005
"""Seconds that the store's thread waits for the GIL while the loop is busy, at each disk call, instead of Python's
0.005: reading a page takes a few such calls.
"""


def prepare_process() -> None:
    """Prepare this process, before its broker starts."""
    collect_little()
    sys.setswitchinterval(SWITCH_S)
    keep_freed_memory()
