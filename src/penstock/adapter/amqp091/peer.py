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
    """Who is at the other end, as the shell knows it, and what it says about itself."""

    def __init__(self, address: str, loopback: bool, local: str = "") -> None:
        self.address = address
        """Host and port, for people."""
        self.local = local
        """Host and port of our end; "" where nobody said."""
        self.loopback = loopback
        """Whether it is this very machine: only then may guest log in (as in RabbitMQ)."""
        self.properties: dict[str, object] = {}
        """What it says about itself, as far as that is kept (`handshake.KEPT`)."""
        self.mechanism: str = ""
        """How it logged in: PLAIN, AMQPLAIN."""
