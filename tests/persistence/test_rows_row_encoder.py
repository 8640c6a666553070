"""Names in rows: one octet of size and the name, written whole or not at all."""

from __future__ import annotations

import pytest

from penstock.core.message import BccEnvelope
from penstock.core.routing.route import Route
from penstock.persistence.rows import encode_row
from tests.persistence.test_recovery import House
from tests.support.memory_store import WALL, Shelf

LONGEST = "é" * 127 + "a"


def publish(house: House, keys: list[str]) -> None:
    """Publish a message with these BCC keys."""
    route = Route(BccEnvelope("", "plain", keys, persistent=True), False, keys)
    house.vhost.resolve(route, {})
    house.producer.publish(route, b"content", 300)


def test_row_has_the_longest_names_whole() -> None:
    shelf = Shelf()
    house = House(shelf)
    publish(house, [LONGEST, "", "b"])
    shelf.write(house.journal)
    message = House(shelf).queues["plain"].ready_queue.next()
    assert isinstance(message.envelope, BccEnvelope)
    assert message.envelope.bcc == [LONGEST, "", "b"]


def test_row_refuses_a_longer_name_rather_than_cutting_it() -> None:
    house = House(Shelf())
    publish(house, [LONGEST + "a"])
    (group,) = house.journal.take()
    with pytest.raises(ValueError, match="has 256 octets; a row has room for 255"):
        encode_row(group, WALL, [])


def test_row_keeps_the_form_that_earlier_versions_wrote() -> None:
    house = House(Shelf())
    publish(house, ["k"])
    (group,) = house.journal.take()
    row = encode_row(group, WALL, [])
    assert row[0] == 1
    assert b"\x00\x05plain\x00\x01\x01k" in row
