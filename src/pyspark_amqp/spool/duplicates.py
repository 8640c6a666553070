"""Messages that come twice: again after a lost connection, or with an id that the spool has.

Theory of operation. When a connection ends, its broker delivers again what was not acknowledged, flagged as
redelivered. The spool has those messages already: they are its numbers without an acknowledgement. So a redelivered
message with the content of such a number *is* that message, or one that nobody can tell from it; as many are dropped as
the spool has, and the rest pass.

A message whose acknowledgement was sent may come again too, for the acknowledgement may be lost; but another one of the
same content may come as well. With a ``message_id`` both are one message, and it is dropped, also by a later process
(see `AcknowledgedFile`). Without one it passes: it may be read twice, and none is lost.

Some numbers never come again, because another consumer has got them. They count for some heartbeats after the new
connection: until then the broker has seen the end of the old one.
"""

from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from pyspark_amqp.spool.acknowledged import AcknowledgedFile
from pyspark_amqp.spool.rows import NO_DIGEST

IDS_MAX: Final = 200_000
"""Most message ids that are remembered, settled ones too; beyond that the oldest are forgotten."""


ACKNOWLEDGED_MAX: Final = 50_000
"""Most digests of acknowledged messages with an id that are remembered; beyond that the oldest are forgotten."""


class Duplicates:
    """Messages that the broker may deliver again, by digest, and the ids of the last messages.

    `redelivered` and `ids` say which of both are recognised.
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
        """Recall what earlier processes have acknowledged, and note from now on what this one does."""
        self._acknowledged = dict.fromkeys(file.recall()) | self._acknowledged
        self._file = file

    def add(self, number: int, digest: bytes, message_id: str | None) -> None:
        """Note a message that is in the spool, and not acknowledged."""
        if self._by_digest and digest != NO_DIGEST:
            self._unacknowledged[number] = digest
            if message_id is not None:
                self._identified.add(number)
        if self._by_id and message_id is not None:
            self._numbers[message_id] = number
            if len(self._numbers) > IDS_MAX:
                del self._numbers[next(iter(self._numbers))]

    def acknowledged(self, numbers: Iterable[int]) -> None:
        """Note that an acknowledgement of these numbers is sent."""
        numbers = list(numbers)
        self._note(numbers)
        self._forget(numbers)

    def _note(self, numbers: Iterable[int]) -> None:
        """Note that these messages are done with: if they come again and have an id, they are dropped."""
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
        """Forget messages up to a number, but for those that may come again; ids are remembered."""
        expected = {number for numbers in self._expected.values() for number in numbers}
        leading = list(takewhile(lambda number: number <= upto, self._unacknowledged))
        self._note(leading)
        self._forget([number for number in leading if number not in expected])

    def expect_all(self) -> None:
        """Expect every message without an acknowledgement again: their connection has ended."""
        self._expected.clear()
        for number, digest in self._unacknowledged.items():
            self._expected.setdefault(digest, deque()).append(number)

    def expire(self, settled: int) -> None:
        """Expect nothing any more; what was settled and has not come again never will."""
        gone = {number for numbers in self._expected.values() for number in numbers if number <= settled}
        self._expected.clear()
        self._forget(gone)

    @property
    def expecting(self) -> bool:
        """True while messages may come again."""
        return bool(self._expected)

    def recognise(self, digest: bytes) -> int | None:
        """Return the number of a redelivered message that the spool has; None if it is news."""
        numbers = self._expected.get(digest)
        if not numbers:
            return None
        number = numbers.popleft()
        if not numbers:
            del self._expected[digest]
        return number

    def was_acknowledged(self, digest: bytes) -> bool:
        """Tell whether a redelivered message with an id is one whose acknowledgement was sent."""
        return digest in self._acknowledged

    def has_id(self, message_id: str | None) -> bool:
        """Tell whether one of the last messages has this id, if ids count."""
        return message_id is not None and message_id in self._numbers

    def withdraw(self, number: int, message_id: str | None) -> None:
        """Forget a message that came and was not written."""
        self._forget((number,))
        if message_id is not None and self._numbers.get(message_id) == number:
            del self._numbers[message_id]
