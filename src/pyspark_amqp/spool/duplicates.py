"""Messages that arrive twice: again after a lost connection, or with an id that the spool has.

Theory of operation. When a connection ends, its broker delivers unacknowledged messages again, flagged as redelivered.
The spool has those messages already: they are its numbers without an acknowledgement. So a redelivered message with the
content of such a number *is* that message, or indistinguishable from it. As many are dropped as the spool has, and the
rest pass.

A message whose acknowledgement was sent may come again too, because the acknowledgement may be lost; but another
message of the same content may come as well. With the same ``message_id`` both are one message, and the second is
dropped, also by a later process (see `AcknowledgedFile`). Without an id the second passes: a message may be read twice,
and none is lost.

Some numbers never come again, because another consumer has got them. Such numbers are expected for some heartbeats
after the new connection: by then the broker has noticed the end of the old connection.
"""

from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from pyspark_amqp.spool.acknowledged import AcknowledgedFile
from pyspark_amqp.spool.rows import NO_DIGEST

IDS_MAX: Final = 200_000
"""Most message ids that are remembered, ids of settled messages too; beyond, the oldest are dropped."""


ACKNOWLEDGED_MAX: Final = 50_000
"""Most digests of acknowledged messages with an id that are remembered; beyond, the oldest are dropped."""


class Duplicates:
    """Messages that the broker may deliver again, by digest, and the ids of the last messages.

    `redelivered` and `ids` select which kinds are recognised.
    """

    def __init__(self, redelivered: bool, ids: bool) -> None:
        self._by_digest, self._by_id = redelivered, ids
        self._unacknowledged: dict[int, bytes] = {}
        """Digests by number, in the order of numbers."""
        self._expected: dict[bytes, deque[int]] = {}
        """Numbers that the broker will deliver again, by digest."""
        self._identified: set[int] = set()
        """Numbers without an acknowledgement whose messages have an id."""
        self._acknowledged: dict[bytes, None] = {}
        """Digests of messages with an id that are acknowledged or settled, in that order."""
        self._file: AcknowledgedFile | None = None
        self._numbers: dict[str, int] = {}
        """Numbers of the last messages by id, in the order of numbers."""

    def keep(self, file: AcknowledgedFile) -> None:
        """Restore the acknowledgements of earlier processes, and record those of this process from now on."""
        self._acknowledged = dict.fromkeys(file.recall()) | self._acknowledged
        self._file = file

    def add(self, number: int, digest: bytes, message_id: str | None) -> None:
        """Record a message that is in the spool, and not acknowledged."""
        if self._by_digest and digest != NO_DIGEST:
            self._unacknowledged[number] = digest
            if message_id is not None:
                self._identified.add(number)
        if self._by_id and message_id is not None:
            self._numbers[message_id] = number
            if len(self._numbers) > IDS_MAX:
                del self._numbers[next(iter(self._numbers))]

    def acknowledged(self, numbers: Iterable[int]) -> None:
        """Record that an acknowledgement of these numbers is sent."""
        numbers = list(numbers)
        self._note(numbers)
        self._forget(numbers)

    def _note(self, numbers: Iterable[int]) -> None:
        """Record finished messages: a repetition with an id is dropped."""
        found = dict.fromkeys(self._unacknowledged[number] for number in numbers if number in self._identified)
        digests = [digest for digest in found if digest not in self._acknowledged]
        self._acknowledged.update(dict.fromkeys(digests))
        if self._file is not None and digests:
            self._file.append(digests)
        while len(self._acknowledged) > ACKNOWLEDGED_MAX:
            del self._acknowledged[next(iter(self._acknowledged))]

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._unacknowledged.pop(number, None)
            self._identified.discard(number)

    def settled(self, upto: int) -> None:
        """Drop messages up to a number, except those that may come again; ids are remembered."""
        expected = {number for numbers in self._expected.values() for number in numbers}
        leading = list(takewhile(lambda number: number <= upto, self._unacknowledged))
        self._note(leading)
        self._forget([number for number in leading if number not in expected])

    def expect_all(self) -> None:
        """Expect every unacknowledged message again: their connection has ended."""
        self._expected.clear()
        for number, digest in self._unacknowledged.items():
            self._expected.setdefault(digest, deque()).append(number)

    def expire(self, settled: int) -> None:
        """Stop expecting: settled messages that have not come again never will."""
        gone = {number for numbers in self._expected.values() for number in numbers if number <= settled}
        self._expected.clear()
        self._forget(gone)

    @property
    def expecting(self) -> bool:
        """True while messages may come again."""
        return bool(self._expected)

    def recognise(self, digest: bytes) -> int | None:
        """Return the number of a redelivered message that the spool has; None for a new message."""
        numbers = self._expected.get(digest)
        if not numbers:
            return None
        number = numbers.popleft()
        if not numbers:
            del self._expected[digest]
        return number

    def was_acknowledged(self, digest: bytes) -> bool:
        """Return whether the acknowledgement of a redelivered message with an id was sent."""
        return digest in self._acknowledged

    def has_id(self, message_id: str | None) -> bool:
        """Return whether a recent message has this id, if ids are recognised."""
        return message_id is not None and message_id in self._numbers

    def withdraw(self, number: int, message_id: str | None) -> None:
        """Drop a message that was not written."""
        self._forget((number,))
        if message_id is not None and self._numbers.get(message_id) == number:
            del self._numbers[message_id]
