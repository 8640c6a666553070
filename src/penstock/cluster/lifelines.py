"""Lifeline: a process ends at once when the process that has forked it ends, even by kill -9.

Linux sends a signal (prctl, PR_SET_PDEATHSIG). It is bound to the *thread* that has forked, so the zygote forks in its
main thread. Elsewhere a thread of the child reads a pipe whose other end is open in the parent alone: the end of the
parent closes the pipe. That also works while the event loop of the child hangs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import Final

PR_SET_PDEATHSIG: Final = 1
HAS_SIGNAL: Final = sys.platform == "linux"
"""True if the system can send a signal at the end of a parent."""


class Lifeline:
    """Lifeline between a process and the children that it forks."""

    def __init__(self, by_signal: bool = HAS_SIGNAL) -> None:
        """Begin in the parent, in its main thread and before the fork."""
        self._parent = os.getpid()
        self._pipe: tuple[int, int] | None = None if by_signal else os.pipe()
        """Ends of the pipe for reading and writing; None with a signal."""

    def hold(self) -> None:
        """Hold in the child, right after the fork: the child is killed when its parent ends, or if it has ended."""
        if self._pipe is None:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "the system refuses a signal at the end of the parent")
        else:
            os.close(self._pipe[1])
            threading.Thread(target=_await_end, args=(self._pipe[0],), name="lifeline", daemon=True).start()
        if os.getppid() != self._parent:  # The parent has ended before the signal was set.
            os.kill(os.getpid(), signal.SIGKILL)


def _await_end(pipe: int) -> None:
    while True:
        try:
            if os.read(pipe, 1):
                continue
        except InterruptedError:
            continue
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
