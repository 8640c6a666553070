"""Held publishes whose session has ended in good order, and the loss of those that go in no more.

A publisher without confirms that closes its channel or its connection, or whose process ends, has done all that it
can: what it sent and is held stays in line (`Lingering`) until it has passed or its deadline has. In confirm mode it is
dropped: the publisher has not been told that it is safe, and publishes it again, so that letting it in would double it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.held import Held, HoldBudget

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer

LINGERING_BYTES: Final = 64 * 1024 * 1024
LINGERING_SESSIONS: Final = 4096
"""Most that is kept in line for sessions that have ended: bytes (charges), and sessions (about 10 KiB each besides)."""

ENDED: Final = "ended"
"""The broker closed the channel or the connection, or gave the peer up: its publisher is told, or can know."""
RESET: Final = "reset"
"""The peer reset the socket, which says that it wants nothing more of the connection."""
LINGER_BOUND: Final = "linger-bound"
"""No room is left in `Lingering`."""
UNCONFIRMED: Final = "unconfirmed"
"""The session ended in good order, in confirm mode."""
DEADLINE: Final = "deadline"
"""It has waited for its hold deadline."""


class Loss:
    """Publishes of one producer that were held when its session ended, and never went in."""

    __slots__ = ("messages", "bytes", "cause", "why")

    def __init__(self, cause: str) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.cause = cause
        """Why the first of them did not."""
        self.why: str = ""
        """The same in a sentence that names the gate, for those whose deadline passed; empty for others."""


class Lingering(HoldBudget):
    """The held publishes of all sessions that have ended in good order; counted apart from their connections."""

    __slots__ = ("producers", "sessions")

    def __init__(self) -> None:
        super().__init__(LINGERING_BYTES)
        self.sessions: i64 = LINGERING_SESSIONS
        """Most producers."""
        self.producers: dict[int, Producer] = {}
        """Their producers, by identity."""

    def adopt(self, producer: Producer) -> bool:
        """Keep what a producer holds, in order, as far as there is room; returns whether there was any."""
        kept: i64 = 0
        if len(self.producers) < self.sessions:
            for held in producer.outbox:
                if self.bytes + held.charge > self.bound:
                    break
                producer.hold_budget.release(held.charge, held.messages)
                self.take(held.charge, held.messages)
                kept += 1
        drop_held(producer, kept, LINGER_BOUND)
        if kept == 0:
            return False
        self.producers[id(producer)] = producer
        producer.hold_budget = self
        return True


def drop_held(producer: Producer, kept: i64, cause: str) -> None:
    """Drop what a producer holds but for the first `kept`, and count it as refused."""
    outbox = producer.outbox
    dropped: list[Held] = []
    while len(outbox) > kept:
        dropped.append(outbox.pop())
    for held in reversed(dropped):
        producer.hold_budget.release(held.charge, held.messages)
        count_lost(producer, held, cause)


def count_lost(producer: Producer, held: Held, cause: str, why: str = "") -> None:
    """Count a held publish as refused, and as lost unless its publisher is there and is told."""
    for queue in held.queues:
        queue.counters.count_refusal(False)
        producer.count_refused(queue.gate, cause, held.charge, why)
    if cause == DEADLINE and not producer.leaving:
        return
    if producer.loss is None:
        producer.loss = Loss(cause)
    producer.loss.messages += held.messages
    producer.loss.bytes += held.charge
