"""Series: samples of counters and levels of the last minutes, and on request of the last hour and day.

Theory of operation. A sampler visits each object every `SLOT_S` seconds and passes its counts on. A series stores their
increases, so that a counter needs four bytes a slot, and sums them up in longer slots. A column that never changed has
no memory, and neither have longer slots before the first ones are full. A pass in which nothing has changed costs one
comparison: the slots that were left out are filled at the next change, or while they are read.

Slots are those of the monotonic clock, so a wall clock that is set changes no rate.
"""

from __future__ import annotations

from array import array
from typing import Final

from mypy_extensions import i64

SLOT_S: Final = 5.0
"""Seconds of a slot."""
SLOTS: Final = 60
"""Slots of each of the first two tiers: five minutes by five seconds, an hour by minutes."""
MINUTE: Final = 12
PERIOD: Final = 60
"""Slots of a minute, and of the five minutes of the longest tier."""
PERIODS: Final = 288
"""Five minutes of a day."""
MOST: Final = 0xFFFF_FFFF
"""Largest stored increase or level of a slot; larger values are stored as this."""
FINE: Final = 0
MINUTES: Final = 1
PERIODS_OF_5: Final = 2
"""The tiers."""
TIERS: Final = ((1, SLOTS), (MINUTE, SLOTS), (PERIOD, PERIODS))
"""Slots of an entry, and entries, of each tier."""
NO_SLOTS: Final[array[int]] = array("I")


class SampleTimes:
    """The passes of the sampler, shared by all series."""

    def __init__(self, now: float) -> None:
        self.started = now
        """Start of the first slot: monotonic seconds."""
        self.slot: i64 = 0
        """Slot of the last pass; 0 before the first."""
        self.now = now
        self.before = now
        """Times of the last pass and of the pass before it."""
        self.stored: i64 = 0
        """Series that have slots."""

    def start(self, now: float) -> None:
        """Begin the first slot at this time (monotonic seconds), before the first pass."""
        self.started = now
        self.now = now
        self.before = now

    def slot_at(self, now: float) -> i64:
        """Return the number of the last slot that has ended at a time (monotonic seconds); the first slot is 1."""
        return int((now - self.started) / SLOT_S)

    def begin(self, now: float) -> None:
        """Begin a pass."""
        self.before = self.now
        self.now = now
        self.slot = self.slot_at(now)

    def interval_s(self) -> float:
        """Return the seconds between the last two passes; 0.0 before the first."""
        return self.now - self.before

    def end_of(self, slot: i64) -> float:
        """Return when a slot ended (monotonic seconds): at the last pass, for its slot."""
        return self.now if slot >= self.slot else self.started + SLOT_S * float(slot)


class Column:
    """The slots of one counter, or of one level."""

    __slots__ = ("is_level", "first", "fine", "minutes", "periods")

    def __init__(self, is_level: bool, first: i64) -> None:
        self.is_level = is_level
        self.first: i64 = first
        """Number of the first stored slot."""
        self.fine: array[int] = array("I", bytes(4 * SLOTS))
        self.minutes: array[int] = NO_SLOTS
        self.periods: array[int] = NO_SLOTS

    def put(self, before: i64, slot: i64, value: int, last: int, is_long: bool) -> None:
        """Set the value of a slot. Slots after `before` are filled: with 0 for a counter, with `last` for a level."""
        fill = last if self.is_level else 0
        if is_long and slot - self.first >= SLOTS - 1 and len(self.minutes) == 0:
            self._lengthen(before, fill)
        _fill(self.fine, before, slot, fill)
        self.fine[slot % SLOTS] = value
        if len(self.minutes) > 0:
            self._put_long(before, slot, value, fill)

    def _put_long(self, before: i64, slot: i64, value: int, fill: int) -> None:
        _fill(self.minutes, before // MINUTE, slot // MINUTE, fill)
        _fill(self.periods, before // PERIOD, slot // PERIOD, fill)
        if self.is_level:
            _raise(self.minutes, slot // MINUTE, value)
            _raise(self.periods, slot // PERIOD, value)
        else:
            _increase(self.minutes, slot // MINUTE, value)
            _increase(self.periods, slot // PERIOD, value)

    def _lengthen(self, before: i64, fill: int) -> None:
        """Fill the longer tiers with the values of the first one."""
        self.minutes = array("I", bytes(4 * SLOTS))
        self.periods = array("I", bytes(4 * PERIODS))
        slot: i64 = self.first if self.first > before - SLOTS else before - SLOTS + 1
        while slot <= before:
            value = self.fine[slot % SLOTS]
            self._put_long(slot, slot, value, fill)
            slot += 1

    def tier(self, tier: int) -> array[int]:
        """Return the entries of a tier; empty if it has none yet."""
        return self.fine if tier == FINE else self.minutes if tier == MINUTES else self.periods


def _fill(entries: array[int], before: i64, slot: i64, value: int) -> None:
    """Set the entries after `before` up to `slot`."""
    size: i64 = len(entries)
    at: i64 = before + 1 if before >= slot - size else slot - size + 1
    while at <= slot:
        entries[at % size] = value
        at += 1


def _increase(entries: array[int], slot: i64, value: int) -> None:
    at = slot % len(entries)
    entries[at] = min(entries[at] + value, MOST)


def _raise(entries: array[int], slot: i64, value: int) -> None:
    at = slot % len(entries)
    if entries[at] < value:
        entries[at] = value


class Series:
    """The counters of one object, and behind them its levels, as the sampler has seen them.

    `stored`: with slots; otherwise with the rates of the last pass only. `is_long`: with the slots of a day.
    """

    __slots__ = ("times", "totals", "increases", "slot", "is_stored", "_is_long", "_levels_from", "_columns")

    def __init__(self, times: SampleTimes, counters: int, levels: int, stored: bool, is_long: bool) -> None:
        self.times = times
        self.totals: list[int] = [0] * (counters + levels)
        """Values at the last pass in which any has changed: counters, then levels."""
        self.increases: list[int] = []
        """Changes of the totals in that pass; changes of levels may be negative."""
        self.slot: i64 = times.slot - 1
        """Number of the slot of that pass."""
        self.is_stored = stored
        self._is_long = is_long
        self._levels_from = counters
        self._columns: list[Column | None] = [None] * (counters + levels) if stored else []

    def record(self, values: list[int]) -> bool:
        """Record the values of the present pass; returns whether any has changed."""
        if values == self.totals:
            return False
        slot, before = self.times.slot, self.slot
        totals = self.totals
        increases: list[int] = []
        for at in range(len(values)):
            value, last = values[at], totals[at]
            increases.append(value - last)
            if not self.is_stored:
                continue
            column = self._columns[at]
            is_level = at >= self._levels_from
            if column is None:
                if value == last:
                    continue
                column = Column(is_level, slot)
                self._columns[at] = column
            stored = value if is_level else value - last
            column.put(before, slot, 0 if stored < 0 else min(stored, MOST), last, self._is_long)
        self.totals = values
        self.increases = increases
        self.slot = slot
        return True

    def is_level(self, at: int) -> bool:
        """Return whether a column is a level."""
        return at >= self._levels_from

    def forget(self) -> None:
        """Drop all slots: no value has changed for longer than the slots reach back."""
        self._columns = [None] * len(self.totals)

    def rate(self, at: int) -> float:
        """Return the rate of a column between the last two passes, per second."""
        interval_s = self.times.interval_s()
        if self.slot != self.times.slot or interval_s <= 0.0 or not self.increases:
            return 0.0
        return self.increases[at] / interval_s

    def values(self, at: int, tier: int) -> list[int]:
        """Return the entries of a tier, the newest last: increases of a counter, or levels (the highest of the entry).

        As many as the broker has recorded since its start, at most the entries of the tier.
        """
        slots, entries = TIERS[tier]
        now = self.times.slot // slots
        count = min(int(now) + 1, entries)
        column = self._columns[at] if self.is_stored else None
        rest = self.totals[at] if at >= self._levels_from else 0
        if column is None:
            return [rest] * count
        stored = column.tier(tier)
        if len(stored) == 0:
            return self._short(column, slots, count, rest)
        values: list[int] = []
        slot = int(now) - count + 1
        last = int(self.slot) // slots
        while slot <= now:
            values.append(rest if slot > last else stored[slot % entries])
            slot += 1
        return values

    def _short(self, column: Column, slots: int, count: int, rest: int) -> list[int]:
        """Return the entries of a longer tier that are still in the first tier."""
        values = [0] * count
        base = int(self.times.slot) // slots - count + 1
        slot = max(int(column.first), int(self.times.slot) - SLOTS + 1, base * slots)
        while slot <= self.times.slot:
            at = slot // slots - base
            value = rest if slot > self.slot else column.fine[slot % SLOTS]
            values[at] = max(values[at], value) if column.is_level else values[at] + value
            slot += 1
        return values


TALLY_KEYS: Final = (
    "publish",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "redeliver",
)
"""RabbitMQ's keys, in the order of `Tally.values`."""


class Tally:
    """Counts of messages; they only grow."""

    __slots__ = TALLY_KEYS

    def __init__(self) -> None:
        self.publish: i64 = 0
        """Publishes that were handled: in queues, without a queue, or refused by an overflow policy."""
        self.confirm: i64 = 0
        """Publishes that were confirmed."""
        self.return_unroutable: i64 = 0
        self.drop_unroutable: i64 = 0
        """Publishes that reached no queue: mandatory publishes, and others."""
        self.deliver: i64 = 0
        """Deliveries to consumers that acknowledge."""
        self.deliver_no_ack: i64 = 0
        """Deliveries to consumers that do not acknowledge."""
        self.get: i64 = 0
        self.get_no_ack: i64 = 0
        self.get_empty: i64 = 0
        """Answers to basic.get: with a message to acknowledge, with a message without acknowledgement, and empty."""
        self.ack: i64 = 0
        """Deliveries that were acknowledged (accepted, in AMQP 1.0)."""
        self.redeliver: i64 = 0
        """Deliveries, included above, of messages that had been delivered before."""

    def values(self) -> list[int]:
        """Return the counts in the order of `TALLY_KEYS`."""
        return [
            int(self.publish),
            int(self.confirm),
            int(self.return_unroutable),
            int(self.drop_unroutable),
            int(self.deliver),
            int(self.deliver_no_ack),
            int(self.get),
            int(self.get_no_ack),
            int(self.get_empty),
            int(self.ack),
            int(self.redeliver),
        ]

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.publish += other.publish
        self.confirm += other.confirm
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.ack += other.ack
        self.redeliver += other.redeliver

    def less(self, other: Tally) -> Tally:
        """Return these counts minus the counts of another tally."""
        tally = Tally()
        tally.publish = self.publish - other.publish
        tally.confirm = self.confirm - other.confirm
        tally.return_unroutable = self.return_unroutable - other.return_unroutable
        tally.drop_unroutable = self.drop_unroutable - other.drop_unroutable
        tally.deliver = self.deliver - other.deliver
        tally.deliver_no_ack = self.deliver_no_ack - other.deliver_no_ack
        tally.get = self.get - other.get
        tally.get_no_ack = self.get_no_ack - other.get_no_ack
        tally.get_empty = self.get_empty - other.get_empty
        tally.ack = self.ack - other.ack
        tally.redeliver = self.redeliver - other.redeliver
        return tally
