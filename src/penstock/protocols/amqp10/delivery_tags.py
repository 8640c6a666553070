"""Delivery-tags of an incoming link's deliveries that await their outcome; no two are equal (section 2.6.12).

Theory of operation. Most senders count: each tag is a number of at most eight bytes, larger than the tag before. A
larger tag is therefore new. Runs of tags that grow by one follow from the numbers of their deliveries; a sender with
several links begins a run with each change of the link. When a tag is not larger, the tags of all waiting deliveries
are stored, until no delivery waits.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from penstock.core.gates.metadata_memory import NodeMemory
from penstock.flow.pool import PoolHolder, Pools
from penstock.settings.pools import STORED_TAGS

TAGS_MAX: Final = 2048
"""Most stored tags of a link; beyond, the oldest tag is forgotten: it could be used again, and would be sent again."""

OF_CONNECTION_MAX: Final = 65_536
"""Most stored tags of all links of a connection. Beyond, a link forgets its own oldest tag."""
STEP: Final = 256
"""Tags that each connection may store.

For more tags a connection takes a step of room from the pool of all connections, each time.
"""
STEP_BYTES: Final = STEP * 288
"""Memory of a step: a tag of 32 bytes with its outcome takes up to 280 bytes."""
SHARE_OF_MEMORY: Final = 16
"""Part of the node's memory limit (a sixteenth) for the steps of all connections: stored tags alone never close its
gate."""

NONE_TAKEN: Final = -1
"""Width of the tags of a link that has stored tags, or has taken none."""
_COUNTER_MAX: Final = 8
"""Most bytes of a tag that is a number."""
_NOTHING: Final[set[bytes]] = set()
"""Tags of a link that stores none; never changed."""


class _Run:
    """Consecutive numbers whose tags are consecutive."""

    __slots__ = ("first", "offset")

    def __init__(self, first: i64, offset: i64) -> None:
        self.first: i64 = first
        self.offset: i64 = offset


_NO_RUNS: Final[list[_Run]] = []
"""Earlier runs of a link that has had only one run; never changed."""


class StoredTags:
    """Room for the stored tags of all connections, shared among users and counted in the node's memory."""

    def __init__(self, node: NodeMemory, pools: Pools) -> None:
        self._node = node
        self._pool = pools.of(STORED_TAGS)

    def take(self, holder: PoolHolder) -> bool:
        """Take room for a step and return True; return False if the user has no room left."""
        memory = self._node.memory
        most: i64 = STORED_TAGS.limit
        if memory is not None:
            most = min(most, memory.thresholds.capacity.bytes // SHARE_OF_MEMORY)
        self._pool.set_limit(most)
        if not self._pool.take(holder, STEP_BYTES):
            return False
        self._node.count_other_memory(STEP_BYTES)
        return True

    def give_back(self, holder: PoolHolder) -> None:
        """Give back the room of a step."""
        self._pool.give(holder, STEP_BYTES)
        self._node.count_other_memory(-STEP_BYTES)


class TagCount:
    """Number of stored tags of all links of one connection, including tags of outcomes that their senders settle."""

    __slots__ = ("count", "_holder", "_of_all", "_room")

    def __init__(self, of_all: StoredTags) -> None:
        self.count: i64 = 0
        self._holder = PoolHolder("", "")
        """User of the connection, once logged in."""
        self._of_all = of_all
        self._room: i64 = STEP
        """Tags that the connection may store with the steps it has taken."""

    def log_in(self, user: str) -> None:
        """Count for a user who has logged in."""
        self._holder = PoolHolder(user, "")

    def has_room(self) -> bool:
        """Return whether another tag may be stored; takes a step for it if needed."""
        if self.count < self._room:
            return True
        if self._room >= OF_CONNECTION_MAX or not self._of_all.take(self._holder):
            return False
        self._room += STEP
        return True

    def remove(self, count: i64) -> None:
        """Subtract removed tags; returns unneeded steps, except half a step."""
        self.count -= count
        while self._room > STEP and self.count <= self._room - STEP - STEP // 2:
            self._room -= STEP
            self._of_all.give_back(self._holder)


class DeliveryTags:
    """Tags of one link, by the numbers of its producer."""

    __slots__ = ("_total", "_width", "_shift", "_offset", "_first", "_last", "_runs", "_stored", "_used")

    def __init__(self, total: TagCount) -> None:
        self._total = total
        self._width: i64 = NONE_TAKEN
        """Bytes of each tag of a counting sender."""
        self._shift: i64 = 0
        """Bits after such a tag in eight bytes."""
        self._offset: i64 = 0
        """Such a tag, as a signed number, minus the number of its delivery."""
        self._first: i64 = 0
        """First number of the current run."""
        self._last: i64 = 0
        """Last number of the current run; its delivery may be unpublished."""
        self._runs: list[_Run] = _NO_RUNS
        """Earlier runs with waiting deliveries: at most `TAGS_MAX`."""
        self._stored: dict[int, bytes] | None = None
        """Tags by number, in order; None while the sender counts."""
        self._used: set[bytes] = _NOTHING
        """The stored tags as a set."""

    def follows(self, data: bytes, start: i64, stop: i64, number: i64) -> bool:
        """Take the tag of a beginning delivery and return True if the tag follows from the number; see `take`."""
        if (
            stop - start == self._width
            and start + _COUNTER_MAX <= len(data)
            and (read_i64_be(data, start) >> self._shift) - number == self._offset
        ):
            self._last = number
            return True
        return False

    def take(self, data: bytes, start: i64, stop: i64, number: i64, reported: i64) -> bool:
        """Reserve the tag of a new delivery. Return False if another delivery has the tag.

        A published delivery gets the number; otherwise the next delivery gets it. The outcomes of all numbers up to
        `reported` were sent.
        """
        if self.follows(data, start, stop, number):
            return True
        width = stop - start
        if self._stored is None and 0 < width <= _COUNTER_MAX and start + _COUNTER_MAX <= len(data):
            shift = 64 - 8 * width
            value = read_i64_be(data, start) >> shift
            waiting = self._last if self._last < number else number - 1
            if waiting <= reported:
                self._runs = _NO_RUNS
            elif width != self._width or value <= self._last + self._offset or not self._end_run(number, reported):
                return self._take_stored(data[start:stop], number, reported)
            self._width = width
            self._shift = shift
            self._offset = value - number
            self._first = self._last = number
            return True
        return self._take_stored(data[start:stop], number, reported)

    def _end_run(self, number: i64, reported: i64) -> bool:
        """Store the run before a number, if there is one; returns False at the bound of runs."""
        if self._first == number:
            return True  # The previous delivery was not published.
        if len(self._runs) >= TAGS_MAX:
            self._trim(reported)
            if len(self._runs) >= TAGS_MAX:
                return False
        if self._runs is _NO_RUNS:
            self._runs = []
        self._runs.append(_Run(self._first, self._offset))
        return True

    def _trim(self, reported: i64) -> None:
        """Drop the runs without waiting deliveries."""
        runs = self._runs
        count: i64 = len(runs)
        done: i64 = 0
        while done < count:
            following = self._first
            if done + 1 < count:
                following = runs[done + 1].first
            if following > reported + 1:
                break
            done += 1
        if done == count:
            self._runs = _NO_RUNS
        elif done > 0:
            del runs[:done]

    def _take_stored(self, tag: bytes, number: i64, reported: i64) -> bool:
        self._store(number, reported)
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

    def _store(self, number: i64, reported: i64) -> None:
        """Store the tags of all waiting deliveries before a number, unless they are stored already."""
        if self._stored is not None:
            return
        stored: dict[int, bytes] = {}
        for each in range(max(self._lowest(), reported + 1, number - TAGS_MAX), min(self._last + 1, number)):
            if not self._total.has_room():
                break
            stored[int(each)] = self._counted(each)
            self._total.count += 1
        self._stored = stored
        self._used = set(stored.values())
        self._runs = _NO_RUNS
        self._last = 0
        self._width = NONE_TAKEN

    def _lowest(self) -> i64:
        """Return the first number whose tag is known."""
        if self._runs:
            return self._runs[0].first
        return self._first

    def _counted(self, number: i64) -> bytes:
        """Return the tag of a number, by its run."""
        offset = self._offset
        if number < self._first:
            low, high = 0, len(self._runs)
            while high - low > 1:
                middle = (low + high) // 2
                if self._runs[middle].first <= number:
                    low = middle
                else:
                    high = middle
            offset = self._runs[low].offset
        octets = int(number + offset).to_bytes(_COUNTER_MAX, "big", signed=True)
        return octets[_COUNTER_MAX - self._width :]

    def _forget_oldest(self) -> None:
        stored = self._stored
        assert stored is not None
        self._used.discard(stored.pop(next(iter(stored))))
        self._total.remove(1)

    def tag_of(self, number: i64) -> bytes | None:
        """Return the tag of a published delivery that waits; None if the tag was forgotten."""
        if self._stored is not None:
            return self._stored.get(int(number))
        return self._counted(number) if self._lowest() <= number <= self._last else None

    def drop(self, number: i64, reported: i64) -> None:
        """Forget one delivery: its outcome was sent before the outcome of an earlier delivery."""
        if number > reported:
            self._store(self._last + 1, reported)
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

    def forget(self, reported: i64) -> None:
        """Forget the deliveries up to a number: their outcomes were sent."""
        stored = self._stored
        if stored is None:
            if self._runs:
                self._trim(reported)
            return
        done = []
        for number in stored:
            if number > reported:
                break
            done.append(number)
        for number in done:
            self._used.discard(stored.pop(number))
        self._total.remove(len(done))
        self._end_if_empty()

    def end(self) -> None:
        """Drop all tags: the link has ended."""
        if self._stored is not None:
            self._total.remove(len(self._stored))
            self._stored = None
            self._used = _NOTHING
        self._runs = _NO_RUNS
        self._last = 0
        self._width = NONE_TAKEN
