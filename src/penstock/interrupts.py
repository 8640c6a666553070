"""Ctrl-C, which goes to all processes of a terminal, also to those that a program has just started."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

INTERRUPTS: Final = frozenset((signal.SIGINT,))


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C for this thread, and for good in the processes that it starts meanwhile.

    A process that was still importing its modules would tell of it. One that Ctrl-C is to end calls `end_silently`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)


def end_silently() -> None:
    """Let Ctrl-C end this process at once and without a word, also one that has come before."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
