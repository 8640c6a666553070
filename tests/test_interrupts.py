"""Ctrl-C and processes that a program starts."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from penstock.interrupts import interrupts_blocked

BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
ENDING = "import os, signal; from penstock.interrupts import end_silently; os.kill(os.getpid(), signal.SIGINT); {}"


def test_process_that_is_started_meanwhile_has_interrupts_blocked() -> None:
    with interrupts_blocked():
        inside = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    after = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    assert [inside.stdout, after.stdout] == ["True\n", "False\n"]


@pytest.mark.parametrize(("last", "code"), [("print('on')", 0), ("end_silently()", -signal.SIGINT)])
def test_interrupt_that_has_come_before_ends_the_process_silently(last: str, code: int) -> None:
    with interrupts_blocked():
        done = subprocess.run([sys.executable, "-c", ENDING.format(last)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
