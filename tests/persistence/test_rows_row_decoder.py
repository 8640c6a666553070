"""Rows as they are read back: messages as they were, and damage by the number of the row."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError
from tests.persistence.test_recovery import House
from tests.support.memory_store import Shelf


def written() -> Shelf:
    """Return a store with one row of five messages, of which two are equal but for their queue."""
    shelf = Shelf()
    house = House(shelf)
    for number in range(5):
        house.producer.publish(house.route("", "plain", 0, True), b"%d" % number, 300 + number)
    shelf.write(house.journal)
    return shelf


def test_row_is_read_back_with_order_content_charge_and_sequence() -> None:
    queue = House(written()).queues["plain"]
    found = [(message.content, int(message.charge), int(message.sequence)) for message in queue.ready_queue.messages()]
    assert found == [(b"%d" % number, 300 + number, number + 1) for number in range(5)]
    assert int(queue.bytes) == 5 * 300 + 10


def test_row_that_is_cut_short_or_of_another_format_is_refused_by_its_number() -> None:
    shelf = written()
    (row,) = shelf.rows.values()
    for data, said in (
        (row.data[:-1], f"row {row.number} of the store is cut short"),
        (b"\x4d" + row.data[1:], f"row {row.number} of the store has format 77"),
    ):
        shelf.rows[row.number] = row._replace(data=data)
        with pytest.raises(StoreError, match=said):
            House(shelf)
