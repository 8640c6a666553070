"""Retention under kills (Penstock only): a settled message is in the companion once, or still in its queue.

Publishers note what was confirmed. Workers acknowledge, and publish a barrier now and then to another queue: its
confirmation makes the acknowledgements before it sure. After a restart the companion and the queue are read, and
compared with both. Workers of the queue reject nothing, so no confirmed message may be missing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.crash.history import History
from bench.crash.parties import Party
from bench.crash.streams import Appender, Place, read_stream
from bench.crash.topology import RETAINED
from bench.crash.wire import Address, Link, Refused
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec

COMPANION = f"{RETAINED}.retained"
BARRIERS = "retained.barriers"
"""Queue of the barriers, whose messages nobody reads; its oldest ones are dropped."""
PERSISTENT = (2,)


class RetainedMessages:
    """What is known of the queue and its companion, over all rounds."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.settled: set[str] = set()
        """Messages whose acknowledgement is sure."""


class RetainedWorker(Party):
    """Acknowledges what it gets, one by one or several at once, with a barrier after some of them."""

    def __init__(
        self, name: str, address: Address, history: History, chance: random.Random, known: RetainedMessages
    ) -> None:
        super().__init__(name, address, history, chance)
        self.known = known
        self.step = chance.choice((1, 1, 7))
        self._behind: dict[int, list[str]] = {}
        """Acknowledged messages by the number of the barrier behind them."""

    def act(self) -> None:
        link = self.connect()
        link.on_confirm = self._told
        link.ask(spec.CONFIRM_SELECT)
        link.ask(spec.BASIC_QOS, prefetch_count=self.chance.choice((10, 50, 300)))
        link.ask(spec.BASIC_CONSUME, queue=RETAINED)
        held: list[str] = []
        acknowledged: list[str] = []
        while True:
            link.read()
            while link.deliveries:
                delivery = link.deliveries.popleft()
                held.append(str(delivery.properties.message_id))
                if len(held) < self.step:
                    continue
                link.say(spec.BASIC_ACK, delivery_tag=delivery.tag, multiple=True)
                acknowledged += held
                held = []
                if self.chance.random() < 0.1:
                    self._behind[link.publish("", BARRIERS, Properties(delivery_mode=2), b"")] = acknowledged
                    acknowledged = []
            link.flush()

    def _told(self, number: int, multiple: bool, positive: bool) -> None:
        for each in [one for one in self._behind if one == number or (multiple and one < number)]:
            names = self._behind.pop(each)
            if positive:
                self.known.settled.update(names)


def retaining(place: Place, chance: random.Random, known: RetainedMessages) -> Iterator[Party]:
    """Yield clients of the queue that retains."""
    if chance.random() < 0.7:
        for _ in range(chance.choice((1, 2))):
            yield Appender(*place(), RETAINED, known.confirmed, PERSISTENT)
        for _ in range(chance.choice((1, 1, 3))):
            yield RetainedWorker(*place(), known)


def check_retained(address: Address, history: History, known: RetainedMessages) -> int:
    """Read queue and companion after a restart; blame what is lost or doubled. Return the retained messages."""
    retained = [name for _, name in read_stream(address, COMPANION)]
    there = set(retained)
    ready = _ready(address)
    left = set(ready)
    if len(there) != len(retained):
        history.blame("doubled", f"{COMPANION} has {len(retained) - len(there)} messages twice")
    if len(left) != len(ready):
        history.blame("doubled", f"{RETAINED} has {len(ready) - len(left)} messages twice")
    both = there.intersection(left)
    if both:
        history.blame("doubled", f"{len(both)} messages are in {RETAINED} and in its companion, such as {min(both)}")
    lost = known.confirmed - there - left
    if lost:
        history.blame("lost", f"{len(lost)} confirmed messages are in neither of {RETAINED} and its companion, such as "
                              f"{min(lost)}")  # fmt: skip
    back = known.settled - there
    if back:
        history.blame("not retained", f"{len(back)} settled messages are not in {COMPANION}, such as {min(back)}")
    return len(retained)


def _ready(address: Address) -> list[str]:
    """Return the messages of the queue, which go back to it."""
    link = Link(address)
    found: list[str] = []
    try:
        answer = link.ask(spec.QUEUE_DECLARE, queue=RETAINED, passive=True)
        count = int(str(answer.args["message_count"]))
        if count:
            link.ask(spec.BASIC_CONSUME, queue=RETAINED)
        while len(found) < count:
            while link.deliveries:
                found.append(str(link.deliveries.popleft().properties.message_id))
            if len(found) < count:
                link.read()
        link.close()
    except Refused:
        return found  # A missing queue is a broken promise of its declaration.
    finally:
        link.abort()
    return found
