"""Held publishes of closed sessions: they stay in line, or are dropped and reported as lost.

A publisher without confirms that closes its channel or connection, or whose process ends, has done all it can. Its held
publishes stay in line (`Lingering`) until they pass or reach their deadline. In confirm mode they are dropped: the
publisher has no confirm and publishes again, so that keeping them would duplicate messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.held import Held, HoldBudget, end_hold
from penstock.core.publish.waiting_publisher import ProducerState
from penstock.flow.gate import DEADLINE

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer

LINGERING_BYTES: Final = 64 * 1024 * 1024
LINGERING_SESSIONS: Final = 4096
"""Limits of the publishes held for closed sessions: bytes (charges), and sessions (each takes about 10 KiB more)."""

ENDED: Final = "ended"
"""The broker closed the channel or the connection: its publisher is notified, or can know."""
RESET: Final = "reset"
"""The client reset the socket."""
LINGER_BOUND: Final = "linger-bound"
"""No room is left in `Lingering`."""
UNCONFIRMED: Final = "unconfirmed"
"""The session closed normally, in confirm mode."""


class Loss:
    """Publishes of one producer that were held when its session closed, and were dropped later."""

    __slots__ = ("messages", "bytes", "cause", "why")

    def __init__(self, cause: str) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.cause = cause
        """Cause of the first loss."""
        self.why: str = ""
        """The cause as a sentence that names the gate, for those whose deadline passed; otherwise empty."""


class Lingering(HoldBudget):
    """The held publishes of all sessions that closed normally; counted apart from their connections."""

    __slots__ = ("producers", "sessions")

    def __init__(self) -> None:
        super().__init__(LINGERING_BYTES)
        self.sessions: i64 = LINGERING_SESSIONS
        """Limit of producers."""
        self.producers: dict[int, Producer] = {}
        """Their producers, by identity."""

    def adopt(self, producer: Producer) -> bool:
        """Keep a producer's held publishes, in order, within the limits. Returns whether any was kept."""
        keep: i64 = 0
        if len(self.producers) < self.sessions:
            for held in producer.outbox:
                if self.bytes + held.charge > self.bound:
                    break
                producer.hold_budget.release(held.charge, held.messages)
                self.take(held.charge, held.messages)
                keep += 1
        drop_held(producer, keep, LINGER_BOUND)
        if keep == 0:
            return False
        self.producers[id(producer)] = producer
        producer.hold_budget = self
        return True


def drop_held(producer: Producer, keep: i64, cause: str) -> None:
    """Drop the held publishes of a producer except the first `keep`, and count them as refused."""
    outbox = producer.outbox
    dropped: list[Held] = []
    while len(outbox) > keep:
        dropped.append(outbox.pop())
    for held in reversed(dropped):
        producer.hold_budget.release(held.charge, held.messages)
        count_lost(producer, held, cause)


def drop_unconfirmed(producer: Producer) -> None:
    """Drop the held publishes that wait for a confirm, and count them as refused; the others stay in line."""
    outbox = producer.outbox
    remaining = deque([held for held in outbox if held.pending is None])
    if len(remaining) == len(outbox):
        return
    for held in outbox:
        if held.pending is not None:
            producer.hold_budget.release(held.charge, held.messages)
            count_lost(producer, held, UNCONFIRMED)
    producer.outbox = remaining
    if remaining and remaining[0] is not outbox[0]:
        producer.rejoin_line(producer.broker.now)


def count_lost(producer: Producer, held: Held, cause: str, why: str = "") -> None:
    """Count a held publish as refused, and as lost unless its publisher is connected and notified."""
    end_hold(producer, held, cause, why)
    for queue in held.queues:
        queue.counters.count_refusal()
        producer.count_refused(queue.gate, cause, held.charge, why)
    if cause == DEADLINE and producer.state is not ProducerState.LINGERING:
        return
    if producer.loss is None:
        producer.loss = Loss(cause)
    producer.loss.messages += held.messages
    producer.loss.bytes += held.charge
