"""Deliveries in several frames: small ones are put together, large ones go in pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.core.large_bodies import PIECE_OCTETS
from penstock.core.large_content import body_of, head_of, is_large
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import OVERHEAD
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    condition,
    data_section,
    names,
    performative,
    sender,
)
from tests.support.large_messages import frames_of, serve
from tests.support.piece_store import PieceStore

BODY = bytes(range(256)) * 4096  # 1 MiB: four pieces.
ANNOTATIONS = encode_value(Described(ulong(spec.MESSAGE_ANNOTATIONS), {Symbol("x-a"): 1}))
DELIVERY_ANNOTATIONS = encode_value(Described(ulong(spec.DELIVERY_ANNOTATIONS), {Symbol("x-hop"): 1}))
FOOTER = encode_value(Described(ulong(spec.FOOTER), {Symbol("sum"): 7}))
HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"


def send(client: Amqp10Dialogue, message: bytes, delivery_id: int = 0) -> list[Heard]:
    heard: list[Heard] = []
    for frame in frames_of(message, delivery_id):
        heard += client.say(frame)
    return heard


def content_of(driver: BrokerDriver) -> bytes:
    """Return the content of the only message."""
    message = driver.broker.vhosts["/"].queues["q"].ready_queue.next()
    return message.content


def test_work_only_grows_when_a_delivery_becomes_large_with_frames_that_came_before(driver: BrokerDriver) -> None:
    client = sender(driver)
    done = [int(driver.broker.work.done)]
    for frame in frames_of(data_section(BODY * 2), 0):
        client.connection.receive(frame)
        done.append(int(driver.broker.work.done))
    assert all(before < after for before, after in pairwise(done))


def test_large_message_is_accepted_with_the_last_frame(driver: BrokerDriver) -> None:
    client = sender(driver)
    message = HEADER + ANNOTATIONS + data_section(BODY) + FOOTER
    heard = send(client, message)
    assert names(heard) == ["disposition"]
    content = content_of(driver)
    body = body_of(content)
    assert body is not None
    assert head_of(content) == HEADER + ANNOTATIONS + data_section(b"")
    assert body.octets == len(data_section(BODY) + FOOTER)
    assert driver.broker.formats.find(content).body(content) == BODY
    queue = driver.broker.vhosts["/"].queues["q"]
    assert queue.bytes == len(head_of(content)) + body.octets + OVERHEAD


def test_delivery_annotations_end_here(driver: BrokerDriver) -> None:
    client = sender(driver)
    send(client, HEADER + DELIVERY_ANNOTATIONS + data_section(BODY))
    assert head_of(content_of(driver)) == HEADER + data_section(b"")


def test_several_data_sections_are_joined_to_a_single_body(driver: BrokerDriver) -> None:
    client = sender(driver)
    send(client, data_section(BODY[:700_000]) + data_section(b"") + data_section(BODY[700_000:]) + FOOTER)
    content = content_of(driver)
    body = body_of(content)
    assert len(body.spans) == 3
    assert driver.broker.formats.find(content).body(content) == BODY


def test_large_text_is_stored_in_pieces(driver: BrokerDriver) -> None:
    client = sender(driver)
    text = b"\x00\x53\x77\xb1" + (1_500_000).to_bytes(4, "big") + "é".encode() * 750_000
    send(client, text + FOOTER)
    content = content_of(driver)
    assert is_large(content)
    assert driver.broker.formats.find(content).body(content) == text


def test_large_list_is_stored_in_a_single_piece(driver: BrokerDriver) -> None:
    client = sender(driver)
    message = encode_value(Described(ulong(spec.AMQP_VALUE), ["x" * 1000] * 1500))
    assert names(send(client, message)) == ["disposition"]
    assert content_of(driver) == message


def test_requests_to_the_control_exchange_are_put_together(driver: BrokerDriver) -> None:
    client = sender(driver, "/exchanges/penstock.control/status")
    PieceStore(driver.broker.large)
    send(client, data_section(BODY))
    assert driver.broker.large.is_idle()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (data_section(BODY)[:-1], "ends 1 bytes before its size"),
        (data_section(BODY) + b"\x00\x53\x77\x40\x40", "descriptor 0x77"),
        (data_section(BODY) + FOOTER + b"\x00", "footer: malformed"),
        (b"\x00\x53\x77\xb1" + (1_500_000).to_bytes(4, "big") + b"\xff" * 1_500_000, "not UTF-8"),
    ],
)
def test_malformed_large_body_is_rejected_and_the_link_stays(driver: BrokerDriver, message: bytes, reason: str) -> None:
    store = PieceStore(driver.broker.large)
    client = sender(driver)
    heard: list[Heard] = []
    for frame in frames_of(message, 0):
        heard += client.say(frame)
        store.write()
    assert names(heard) == ["disposition"]
    assert condition(heard[0]) == "amqp:decode-error"
    assert reason in str(heard[0].performative.inner("state"))
    assert client.depth("q") == 0
    store.write()
    assert store.pieces == {}
    assert client.connection.arriving == 0
    assert names(client.say(*frames_of(data_section(b"small"), 1))) == ["disposition"]
    assert client.depth("q") == 1


@pytest.mark.parametrize("how", ["aborted", "detached"])
def test_delivery_that_ends_unfinished_is_released_completely(driver: BrokerDriver, how: str) -> None:
    store = PieceStore(driver.broker.large)
    client = sender(driver)
    for frame in frames_of(data_section(BODY * 2), 0)[:20]:
        client.say(frame)
    if how == "aborted":
        client.say(performative(spec.TRANSFER, handle=0, aborted=True))
    else:
        client.detach(0)
        client.attach_sender("/queues/q")
    store.write()
    store.write()
    assert store.pieces == {}
    assert client.connection.arriving == 0
    assert names(send(client, data_section(BODY), 1)) == ["disposition"]


def test_partial_delivery_with_a_store_counts_only_the_incomplete_piece(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = sender(driver)
    for frame in frames_of(data_section(BODY * 4), 0)[:-1]:
        client.say(frame)
        store.write()
    assert 0 < client.connection.arriving <= PIECE_OCTETS


def test_input_of_a_large_message_waits_for_the_store(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = sender(driver)
    for frame in frames_of(data_section(BODY * 16), 0):
        driver.scheduler.receive(client.connection, frame)
        serve(driver)
    waits = 0
    while client.connection.busy:
        waits += 1
        store.write()
        serve(driver)
    assert waits == 4
    assert names(client.listen()) == ["disposition"]


def test_message_beyond_the_limit_detaches_the_link(driver: BrokerDriver) -> None:
    driver.connection_limits.change(message_bytes_max=2 * len(BODY))
    client = sender(driver)
    heard = send(client, data_section(BODY * 3))
    assert names(heard) == ["detach"]
    assert condition(heard[0]) == "amqp:link:message-size-exceeded"


def test_messages_of_two_links_may_be_interleaved(driver: BrokerDriver) -> None:
    client = sender(driver)
    client.attach_sender("/queues/q", 2)
    first, second = frames_of(data_section(BODY), 0), frames_of(data_section(BODY[::-1]), 1, 2)
    heard: list[Heard] = []
    for pair in zip(first, second, strict=True):
        heard += client.say(*pair)
    assert client.depth("q") == 2
