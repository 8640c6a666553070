"""Preparation of a process whose event loop runs a broker."""

from __future__ import annotations

import subprocess
import sys

SHOWN = (
    "import gc, sys; before = gc.get_threshold(); from penstock.server.prepared import prepare_process; "
    "prepare_process(); print(sys.getswitchinterval(), gc.get_threshold() != before)"
)


def test_process_of_a_broker_switches_threads_soon_and_collects_little() -> None:
    done = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.0005", "True"]
