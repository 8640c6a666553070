"""Attempts that prove nothing when the machine stands still meanwhile, and are made again then.

For what must go by seconds, as heartbeats of a second do: who does not run for longer than that is silent himself.
Whatever can wait for a state, or be given a time of minutes, needs none of this.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

import pytest

from tests.support.raw_client import GoneError, Peer, Where, peer_of

T = TypeVar("T")

STALL_S = 0.4
"""Seconds without an answer to a question that takes a millisecond; a machine that has time is far below."""
TRIES = 20
"""Attempts that may be disturbed, one after the other, until the last one counts."""
PERIOD_S = 0.02


class StallWatch:
    """Notes for how long this process, or a broker, did not run."""

    def __init__(self, peer: Peer | None) -> None:
        self._peer = peer
        self._over = threading.Event()
        self._seen = time.monotonic()
        self._longest_s = 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        with suppress(GoneError, OSError, AssertionError):  # A broker that leaves is nothing that a stall explains.
            while not self._over.wait(PERIOD_S):
                if self._peer is not None:
                    self._peer.is_well()
                now = time.monotonic()
                self._longest_s = max(self._longest_s, now - self._seen)
                self._seen = now

    def longest_s(self) -> float:
        """Return the longest time without an answer, that of a stall which lasts still included."""
        lasts = time.monotonic() - self._seen if self._thread.is_alive() else 0.0
        return max(self._longest_s, lasts)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def watching(broker: Where | None) -> Iterator[StallWatch]:
    """Look for stalls of this process, and of a broker, while the context lasts."""
    with ExitStack() as stack:
        peer = None
        if broker is not None:
            peer = stack.enter_context(peer_of(broker)).open()
            peer.channel(1)
        watch = StallWatch(peer)
        stack.callback(watch.end)
        yield watch


def undisturbed(attempt: Callable[[], T], broker: Where | None = None, stall_s: float = STALL_S) -> T:
    """Return what an attempt returns; one that fails is made again if there was a stall meanwhile, else it counts."""
    for _ in range(TRIES - 1):
        with watching(broker) as watch:
            try:
                return attempt()
            except (Exception, pytest.fail.Exception):
                if watch.longest_s() < stall_s:
                    raise
    return attempt()
