"""Delivery-tags of the deliveries of an incoming link that wait for their outcome; no two are equal (section 2.6.12).

Theory of operation. Most senders count: each tag is a number of at most eight octets, one more than the one before.
Then the tags of all deliveries follow from their numbers, and the next one is new; nothing is stored for a delivery.
With the first tag that does not follow, those of all deliveries that wait are stored, until none of them waits.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from penstock.core.gates.metadata_memory import NodeMemory

TAGS_MAX: Final = 2048
"""Most stored tags of a link; the oldest is forgotten beyond: it could be used again, and would be sent again."""

OF_CONNECTION_MAX: Final = 65_536
"""Most stored tags of all links of a connection. Beyond, a link forgets its own oldest."""
STEP: Final = 256
"""Tags that each connection may store. It takes room for more from that of all connections, as many at a time."""
STEP_BYTES: Final = STEP * 288
"""Memory of a step: a tag of 32 octets with its outcome takes up to 280 octets."""
STORED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most memory of these steps of all connections."""
SHARE_OF_MEMORY: Final = 16
"""And this part (a sixteenth) of the node's memory limit: they alone never close its gate."""

NONE_TAKEN: Final = -1
"""Width of the tags of a link that has stored ones, or has taken none."""
_COUNTER_MAX: Final = 8
"""Most octets of a tag that is a number."""
_NOTHING: Final[set[bytes]] = set()
"""The tags of a link that stores none; never changed."""


class StoredTags:
    """Room for the stored tags of all connections, which counts in the node's memory."""

    def __init__(self, node: NodeMemory) -> None:
        self._node = node
        self._bytes: i64 = 0

    def take(self) -> bool:
        """Take room for a step, and return True; return False if there is none."""
        memory = self._node.memory
        most: i64 = STORED_BYTES_MAX
        if memory is not None:
            most = min(most, memory.thresholds.capacity.bytes // SHARE_OF_MEMORY)
        if self._bytes + STEP_BYTES > most:
            return False
        self._bytes += STEP_BYTES
        self._node.count_other_memory(STEP_BYTES)
        return True

    def give_back(self) -> None:
        """Give back the room of a step."""
        self._bytes -= STEP_BYTES
        self._node.count_other_memory(-STEP_BYTES)


class TagCount:
    """Number of stored tags of all links of one connection, with those of outcomes that their senders settle."""

    __slots__ = ("count", "_of_all", "_room")

    def __init__(self, of_all: StoredTags) -> None:
        self.count: i64 = 0
        self._of_all = of_all
        self._room: i64 = STEP
        """Number that it may store with the steps that it has taken."""

    def has_room(self) -> bool:
        """Return whether another one may be stored; takes a step for it where one is needed."""
        if self.count < self._room:
            return True
        if self._room >= OF_CONNECTION_MAX or not self._of_all.take():
            return False
        self._room += STEP
        return True

    def remove(self, count: i64) -> None:
        """Count so many less; gives back steps that are not needed, but for half of one."""
        self.count -= count
        while self._room > STEP and self.count <= self._room - STEP - STEP // 2:
            self._room -= STEP
            self._of_all.give_back()


class DeliveryTags:
    """Tags of one link, by the numbers of its producer."""

    __slots__ = ("_total", "_width", "_shift", "_offset", "_first", "_last", "_stored", "_used")

    def __init__(self, total: TagCount) -> None:
        self._total = total
        self._width: i64 = NONE_TAKEN
        """Octets of each tag of a sender that counts."""
        self._shift: i64 = 0
        """Bits after such a tag in eight octets."""
        self._offset: i64 = 0
        """Such a tag, as a signed number, less the number of its delivery."""
        self._first: i64 = 0
        """The first number of which this is so."""
        self._last: i64 = 0
        """The last number of which this is so; its delivery may be one that was not published."""
        self._stored: dict[int, bytes] | None = None
        """Tags by number, in order; None while the sender counts."""
        self._used: set[bytes] = _NOTHING
        """The same tags."""

    def follows(self, data: bytes, start: i64, stop: i64, number: i64) -> bool:
        """Take the tag of a delivery that begins and return True if it follows from the number; see `take`."""
        if (
            stop - start == self._width
            and start + _COUNTER_MAX <= len(data)
            and (read_i64_be(data, start) >> self._shift) - number == self._offset
        ):
            self._last = number
            return True
        return False

    def take(self, data: bytes, start: i64, stop: i64, number: i64, told: i64) -> bool:
        """Take the tag of a delivery that begins, and return True; return False if another one has it.

        The delivery gets the number if it is published; otherwise the next one gets it. The outcomes of all numbers
        up to `told` were sent.
        """
        if self.follows(data, start, stop, number):
            return True
        width = stop - start
        if self._stored is None and 0 < width <= _COUNTER_MAX and start + _COUNTER_MAX <= len(data):
            waiting = self._last if self._last < number else number - 1
            if waiting <= told:
                self._width = width
                self._shift = 64 - 8 * width
                self._offset = (read_i64_be(data, start) >> self._shift) - number
                self._first = self._last = number
                return True
        return self._take_stored(data[start:stop], number, told)

    def _take_stored(self, tag: bytes, number: i64, told: i64) -> bool:
        self._store(number, told)
        stored = self._stored
        assert stored is not None
        unpublished = stored.pop(int(number), None)
        if unpublished is not None:
            self._used.discard(unpublished)
            self._total.remove(1)
        if tag in self._used:
            return False
        if len(stored) >= TAGS_MAX or (stored and not self._total.has_room()):
            self._forget_oldest()
        if self._total.has_room():
            stored[int(number)] = tag
            self._used.add(tag)
            self._total.count += 1
        return True

    def _store(self, number: i64, told: i64) -> None:
        """Store the tags of all deliveries before a number that wait, if they are not."""
        if self._stored is not None:
            return
        stored: dict[int, bytes] = {}
        for each in range(max(self._first, told + 1, number - TAGS_MAX), min(self._last + 1, number)):
            if not self._total.has_room():
                break
            stored[int(each)] = self._counted(each)
            self._total.count += 1
        self._stored = stored
        self._used = set(stored.values())
        self._last = 0
        self._width = NONE_TAKEN

    def _counted(self, number: i64) -> bytes:
        octets = int(number + self._offset).to_bytes(_COUNTER_MAX, "big", signed=True)
        return octets[_COUNTER_MAX - self._width :]

    def _forget_oldest(self) -> None:
        stored = self._stored
        assert stored is not None
        self._used.discard(stored.pop(next(iter(stored))))
        self._total.remove(1)

    def tag_of(self, number: i64) -> bytes | None:
        """Return the tag of a published delivery that waits; None if it was forgotten."""
        if self._stored is not None:
            return self._stored.get(int(number))
        return self._counted(number) if self._first <= number <= self._last else None

    def drop(self, number: i64, told: i64) -> None:
        """Forget one delivery: its outcome was sent before that of an earlier one."""
        if number > told:
            self._store(self._last + 1, told)
            stored = self._stored
            assert stored is not None
            tag = stored.pop(int(number), None)
            if tag is not None:
                self._used.discard(tag)
                self._total.remove(1)
            self._end_if_empty()

    def _end_if_empty(self) -> None:
        if not self._stored:
            self._stored = None
            self._used = _NOTHING

    def forget(self, told: i64) -> None:
        """Forget the deliveries up to a number: their outcomes were sent."""
        stored = self._stored
        if stored is None:
            return
        done = []
        for number in stored:
            if number > told:
                break
            done.append(number)
        for number in done:
            self._used.discard(stored.pop(number))
        self._total.remove(len(done))
        self._end_if_empty()

    def end(self) -> None:
        """Forget everything: the link has ended."""
        if self._stored is not None:
            self._total.remove(len(self._stored))
            self._stored = None
            self._used = _NOTHING
        self._last = 0
        self._width = NONE_TAKEN
