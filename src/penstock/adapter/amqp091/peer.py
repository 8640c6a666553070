"""Who is at the other end, and how far the conversation has come."""

from __future__ import annotations

from typing import Final

HEADER: Final = "header"
START: Final = "start"
TUNE: Final = "tune"
OPEN: Final = "open"
RUNNING: Final = "running"
CLOSING: Final = "closing"
CLOSED: Final = "closed"


class Peer:
    """Who is at the other end, as the shell knows it."""

    def __init__(self, address: str, loopback: bool) -> None:
        self.address = address
        """Host and port, for people."""
        self.loopback = loopback
        """Whether it is this very machine: only then may guest log in (as in RabbitMQ)."""
