"""A series of groups: nothing of it is written before its end, and then all of it in one transaction."""

from __future__ import annotations

from collections import deque

from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import TAKEN_BYTES, Journal, Series
from penstock.protocols.common.callbacks import DurableCallback
from tests.support.restored_broker import journaled


def make_journal() -> Journal:
    journal = journaled().broker.journal
    assert journal is not None
    written(journal)
    return journal


def written(journal: Journal) -> list[int]:
    """Take what may be written, and report it as written; returns the numbers of the groups."""
    numbers = [int(group.number) for group in journal.take()]
    journal.written()
    return numbers


def close(journal: Journal, size: int = TAKEN_BYTES) -> int:
    """Record something that closes the open group in the next step; returns its number."""
    number = int(journal.open.number)
    journal.open.bytes += size
    journal.require_flush()
    journal.step()
    return number


def test_groups_of_a_series_are_written_in_one_transaction_however_large_and_earlier_ones_before() -> None:
    journal = make_journal()
    before = close(journal)
    assert journal.series.begin(journal.open)
    first, second = close(journal), close(journal)
    assert journal.has_urgent()
    assert written(journal) == [before]
    assert not journal.has_urgent()
    assert written(journal) == []
    third = int(journal.open.number)
    journal.open.listeners.append(DurableCallback(lambda: None))
    journal.series.end(journal.open)
    assert journal.has_urgent()
    assert written(journal) == [first, second, third]


def test_new_series_begins_in_a_group_that_the_last_one_has_left() -> None:
    journal = make_journal()
    assert journal.series.begin(journal.open)
    first = close(journal)
    journal.open.listeners.append(DurableCallback(lambda: None))
    journal.series.end(journal.open)
    last = int(journal.open.number)
    assert not journal.series.begin(journal.open)
    journal.step()
    assert journal.open.number > last
    assert journal.series.begin(journal.open)
    assert written(journal) == [first, last]


def test_series_may_end_in_an_empty_group() -> None:
    closed: deque[JournalGroup] = deque()
    series = Series(closed)
    assert series.begin(JournalGroup(1))
    group = JournalGroup(1)
    group.tied = True
    closed.append(group)
    series.end(JournalGroup(2))
    assert not group.tied
    assert not series.has_open_end()
