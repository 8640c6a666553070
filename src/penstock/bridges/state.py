"""State of a bridge: whether messages move, and if not, who holds them and since when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.client.engine.relay import Relay

MOVING: Final = "moving"
IDLE: Final = "idle"
HELD: Final = "held"
REFUSED: Final = "refused"
AWAY: Final = "away"
STARTING: Final = "starting"
ENDED: Final = "ended"
"""States of a bridge of a broker before its first connection, and after its last message."""


@dataclass
class State:
    """State of a bridge and its counts."""

    name: str = IDLE
    """One of the constants of this module."""
    since: float = 0.0
    """Time of the last change of the state, as of the clock of `change`."""
    reason: str = ""
    """Sentence about the end that holds, refuses or is away; empty for the states moving and idle."""
    carried: int = 0
    """Messages that the target has confirmed."""
    bytes: int = 0
    """Bytes of their bodies."""
    refused: int = 0
    """Messages that the target has refused: they stay at the source."""
    again: int = 0
    """Messages that the source has delivered before: some may be at the target twice."""
    last: float = 0.0
    """Time of the last confirmed message; 0 before the first."""
    reasons: list[str] = field(default_factory=list)
    """Different reasons of refusals, the first ones."""
    before: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Messages, bytes, messages delivered before and refusals, as they were at the last `begin`."""
    on_change: Callable[[], None] | None = None
    """Function that is called when the state or its reason is another one."""

    def change(self, name: str, reason: str, now: float) -> None:
        """Enter a state; the time of its begin stays while its name does."""
        if name != self.name:
            self.since = now
        is_other = (name, reason) != (self.name, self.reason)
        self.name, self.reason = name, reason
        if is_other and self.on_change is not None:
            self.on_change()

    def begin(self) -> None:
        """Keep the counts so far: another relay begins."""
        self.before = self.carried, self.bytes, self.again, self.refused

    def count(self, relay: Relay) -> None:
        """Add the counts of a relay to those before `begin`."""
        carried, octets, again, refused = self.before
        self.carried, self.bytes = carried + relay.confirmed, octets + relay.bytes
        self.again, self.refused = again + relay.again, refused + relay.refused_count
        self.reasons, self.last = relay.reasons, relay.confirmed_at or self.last

    def sentence(self, now: float) -> str:
        """Return the state in words, with its reason and its age."""
        if self.name in (MOVING, IDLE):
            return self.name
        return f"{self.name} for {now - self.since:.0f} s: {self.reason}"
