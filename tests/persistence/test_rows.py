"""Rows as they are read back: messages as they were, and damage by the number of the row.

Names in rows: one octet of size and the name, written whole or not at all.
"""

from __future__ import annotations

import pytest

from penstock.core.message import BccEnvelope, Envelope
from penstock.core.routing.route import Route
from penstock.errors import StoreError
from penstock.persistence.rows import OCTETS_A_STEP, RowEncoder
from tests.persistence.test_recovery import House
from tests.support.memory_store import WALL, Shelf


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
    with pytest.raises(ValueError, match="has 256 bytes; a row has room for 255"):
        RowEncoder(group, WALL).step()


def test_row_keeps_the_form_that_earlier_versions_wrote() -> None:
    house = House(Shelf())
    publish(house, ["k"])
    (group,) = house.journal.take()
    encoder = RowEncoder(group, WALL)
    encoder.step()
    row = encoder.row()
    assert encoder.complete
    assert row[0] == 1
    assert b"\x00\x05plain\x00\x01\x01k" in row


def test_row_that_is_encoded_in_steps_is_read_back_whole() -> None:
    shelf = Shelf()
    house = House(shelf)
    contents = [b"%d" % number + bytes(OCTETS_A_STEP // 4) for number in range(10)]
    for content in contents:
        house.producer.publish(house.route("", "plain", 0, True), content, 300)
    (group,) = house.journal.take()
    encoder = RowEncoder(group, WALL)
    steps = 0
    while not encoder.complete:
        assert encoder.step() > 0
        steps += 1
    assert steps == 3
    house = House(Shelf())
    for content in contents:
        house.producer.publish(house.route("", "plain", 0, True), content, 300)
    shelf.write(house.journal)
    assert next(iter(shelf.rows.values())).data == encoder.row()
    found = House(shelf).queues["plain"].ready_queue.messages()
    assert [message.content for message in found] == contents


@pytest.mark.parametrize("blind", [[], ["other"]])
@pytest.mark.parametrize("died", [False, True])
def test_row_keeps_whether_the_broker_wrote_the_death_headers(blind: list[str], died: bool) -> None:
    shelf = Shelf()
    house = House(shelf)
    envelope = Envelope("", "plain", persistent=True, died=died)
    if blind:
        envelope = BccEnvelope("", "plain", blind, persistent=True, died=died)
    route = Route(envelope, False, blind or None)
    house.vhost.resolve(route, {})
    house.producer.publish(route, b"content", 300)
    shelf.write(house.journal)
    found = House(shelf).queues["plain"].ready_queue.next().envelope
    assert (found.died, found.persistent, found.routing_key) == (died, True, "plain")
