"""Settlement records: which messages of a row are settled, and how often the others were delivered."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError
from penstock.persistence.settlements import RowSettlements, decode_settlement
from tests.persistence.test_recovery import House
from tests.support.memory_store import Shelf


def settled(*tags: int) -> tuple[Shelf, dict[int, RowSettlements]]:
    """Store ten messages in a row, take them, and settle some; return what the settlement records say of each row."""
    shelf = Shelf()
    house = House(shelf)
    route = house.route("", "plain", 0, True)
    for number in range(10):
        house.producer.publish(route, b"%d" % number, 300)
    shelf.write(house.journal)
    for _ in range(10):
        house.session.get(house.queues["plain"], False, 100.0)
    for tag in tags:
        house.session.unsettled.acknowledge(tag, False, 100.0)
    shelf.write(house.journal)
    found: dict[int, RowSettlements] = {}
    for number, data in shelf.notes.items():
        decode_settlement(number, data, found)
    return shelf, found


def test_settlement_has_neighbours_in_one_range_and_others_in_their_own() -> None:
    _, found = settled(2, 3, 4, 8)
    (row,) = found.values()
    ranges = zip(row.settled[::2], row.settled[1::2], strict=True)
    assert [at for first, count in ranges for at in range(first, first + count)] == [1, 2, 3, 7]
    assert len(row.settled) == 2 * 2


def test_settlement_of_all_messages_of_a_row_leaves_neither_row_nor_record() -> None:
    shelf, found = settled(*range(1, 11))
    assert found == {}
    assert not shelf.rows
    assert not shelf.notes


def test_settlement_that_is_cut_short_or_of_another_format_is_refused_by_its_number() -> None:
    shelf, _ = settled(2)
    (data,) = shelf.notes.values()
    for end in range(5, len(data)):
        with pytest.raises(StoreError, match="settlement record 9 of the store cannot be read: it is cut short"):
            decode_settlement(9, data[:end], {})
    with pytest.raises(StoreError, match="settlement record 9 of the store has format 77"):
        decode_settlement(9, b"\x4d" + data[1:], {})


def test_settlement_names_the_positions_by_their_first_and_their_count() -> None:
    _, found = settled(1, 10)
    (row,) = found.values()
    assert row.settled == [0, 1, 9, 1]
