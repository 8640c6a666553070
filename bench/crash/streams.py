"""Streams under kills (Penstock only): what is confirmed is there at its offset, and no offset ever changes.

Publishers note what was confirmed, readers note which message they have seen at which offset. After a restart a witness
reads each stream from its first message, and compares.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bench.crash.history import History, body_of
from bench.crash.parties import Party, some_size
from bench.crash.wire import Address, Delivery, Link, Refused
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec

KEPT = "stream.kept"
"""The stream that keeps everything."""
MOST_APPENDED = 400
"""What one publisher appends in a round at most."""
MODES = (1, 2, 2)
"""Delivery modes: a stream stores transient messages too."""
HEADER = "x-stream-offset"


class Ledger:
    """What is known of one stream, over all rounds."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.at: dict[int, str] = {}
        """Messages that readers have seen, by offset."""

    def see(self, history: History, stream: str, offset: int, name: str) -> None:
        """Note a message at an offset; another one there is a broken promise."""
        known = self.at.setdefault(offset, name)
        if known != name:
            history.blame("offset changed", f"offset {offset} of {stream} was {known}, and is {name}")


Ledgers = dict[str, Ledger]
Place = Callable[[], tuple[str, Address, History, random.Random]]
"""Returns the first arguments of the next client."""


def offset_of(delivery: Delivery) -> int:
    """Return the offset of a delivery."""
    value = (delivery.properties.headers or {})[HEADER]
    assert isinstance(value, int)
    return value


class Appender(Party):
    """Publishes to a queue, with one of some delivery modes, and notes what is confirmed."""

    def __init__(
        self,
        name: str,
        address: Address,
        history: History,
        chance: random.Random,
        queue: str,
        confirmed: set[str],
        modes: tuple[int, ...],
    ) -> None:
        super().__init__(name, address, history, chance)
        self.queue = queue
        self.confirmed = confirmed
        self.modes = modes
        self.window = chance.choice((1, 10, 100))
        self._waiting: dict[int, str] = {}

    def act(self) -> None:
        link = self.connect()
        link.on_confirm = self._told
        link.ask(spec.CONFIRM_SELECT)
        while True:
            while len(self._waiting) < self.window and self.number < MOST_APPENDED:
                self.number += 1
                name = f"{self.name}.{self.number}"
                mode = self.chance.choice(self.modes)
                body = body_of(name, some_size(self.chance))
                number = link.publish("", self.queue, Properties(message_id=name, delivery_mode=mode), body)
                self._waiting[number] = name
            link.flush()
            link.read()

    def _told(self, number: int, multiple: bool, positive: bool) -> None:
        for each in [one for one in self._waiting if one == number or (multiple and one < number)]:
            name = self._waiting.pop(each)
            if positive:
                self.confirmed.add(name)
                self.history.answered("confirmed")


class StreamReader(Party):
    """Reads a stream from some offset, in order, and acknowledges in its own way."""

    def __init__(
        self, name: str, address: Address, history: History, chance: random.Random, stream: str, ledger: Ledger
    ) -> None:
        super().__init__(name, address, history, chance)
        self.stream = stream
        self.ledger = ledger

    def act(self) -> None:
        link = self.connect()
        newest = max(self.ledger.at, default=0)
        at = self.chance.choice(("first", "next", "last", "1h", self.chance.randint(0, newest + 5)))
        link.ask(spec.BASIC_QOS, prefetch_count=self.chance.choice((1, 7, 300)))
        link.ask(spec.BASIC_CONSUME, queue=self.stream, arguments={HEADER: at})
        before = -1
        while True:
            link.read()
            while link.deliveries:
                delivery = link.deliveries.popleft()
                offset = offset_of(delivery)
                self.ledger.see(self.history, self.stream, offset, str(delivery.properties.message_id))
                if offset != before + 1 and before >= 0 and (self.stream == KEPT or offset <= before):
                    self.history.blame("offset skipped", f"{self.stream} gave out offset {offset} after {before}")
                before = offset
                if self.chance.random() < 0.1:
                    link.say(spec.BASIC_REJECT, delivery_tag=delivery.tag, requeue=self.chance.random() < 0.5)
                else:
                    link.say(spec.BASIC_ACK, delivery_tag=delivery.tag)
            link.flush()


def appending(place: Place, chance: random.Random, ledgers: Ledgers) -> Iterator[Party]:
    """Yield clients of streams."""
    for stream, ledger in ledgers.items():
        if chance.random() < 0.6:
            for _ in range(chance.choice((1, 2))):
                yield Appender(*place(), stream, ledger.confirmed, MODES)
            for _ in range(chance.choice((0, 1, 3))):
                yield StreamReader(*place(), stream, ledger)


def check_streams(address: Address, history: History, ledgers: Ledgers) -> int:
    """Read all streams after a restart; blame what is lost, doubled or moved. Return the number of messages."""
    total = 0
    for stream, ledger in ledgers.items():
        found = read_stream(address, stream)
        total += len(found)
        first = found[0][0] if found else 0
        names = [name for _, name in found]
        for (offset, name), expected in zip(found, range(first, first + len(found)), strict=True):
            ledger.see(history, stream, offset, name)
            if offset != expected:
                history.blame("offset skipped", f"{stream} has offset {offset} where {expected} is expected")
        if len(set(names)) != len(names):
            history.blame("doubled", f"{stream} has messages twice")
        dropped = {name for offset, name in ledger.at.items() if offset < first}
        known = dropped.union(names)
        lost = ledger.confirmed - known
        if lost and (stream == KEPT or first == 0):
            history.blame("lost", f"{len(lost)} confirmed messages are not in {stream}, such as {min(lost)}")
        gone = {offset: name for offset, name in ledger.at.items() if offset >= first and name not in names}
        if gone:
            history.blame("lost", f"{stream} has not what readers have seen at offsets {sorted(gone)[:5]}")
        ledger.confirmed &= known
    return total


def read_stream(address: Address, stream: str) -> list[tuple[int, str]]:
    """Return offset and name of all messages of a stream; none if it is not there."""
    link = Link(address)
    try:
        answer = link.ask(spec.QUEUE_DECLARE, queue=stream, passive=True)
        count = int(str(answer.args["message_count"]))
        found: list[tuple[int, str]] = []
        link.ask(spec.BASIC_QOS, prefetch_count=1000)
        if count:
            link.ask(spec.BASIC_CONSUME, queue=stream, arguments={HEADER: "first"})
        while len(found) < count:
            while link.deliveries:
                delivery = link.deliveries.popleft()
                found.append((offset_of(delivery), str(delivery.properties.message_id)))
                link.say(spec.BASIC_ACK, delivery_tag=delivery.tag)
            link.flush()
            if len(found) < count:
                link.read()
        link.close()
    except Refused:
        return []  # A missing stream is a broken promise of its declaration.
    finally:
        link.abort()
    return found
