"""Large deliveries: frames as the peer reads, other links between them, and early ends."""

from __future__ import annotations

from penstock.connections.connection_output import OPEN_SOURCES, SOURCES_FULL
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec as spec091
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    accepted,
    condition,
    data_section,
    names,
    performative,
)
from tests.support.driven_connection import Dialogue, publish
from tests.support.large_messages import filled, frames_received, payload, received, transfers
from tests.support.piece_store import PieceStore

BODY = bytes(range(256)) * 4096  # 1 MiB: four pieces.
SUM_FOOTER = b"\x00\x53\x78\xc1\x08\x02\xa3\x03sum\x54\x07"


def test_large_message_arrives_and_leaves_unchanged(driver: BrokerDriver) -> None:
    message = data_section(BODY) + SUM_FOOTER
    client = filled(driver, message)
    heard = client.attach_receiver("/queues/q", credit=1) + received(client)
    found = transfers(heard)
    assert payload(heard).endswith(message)
    assert [each.field("more") for each in found][-1] in (None, False)
    assert all(each.field("more") is True for each in found[:-1])
    assert found[0].field("delivery_id") == 0


def test_large_message_is_written_a_share_at_a_time(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY))
    heard = client.attach_receiver("/queues/q", credit=1)
    assert SOURCES_FULL <= len(payload(heard)) <= SOURCES_FULL + 66_000
    assert payload(heard + received(client)).endswith(BODY)


def test_frames_of_other_links_go_between_frames_of_a_large_message(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY * 4))
    client.declare("other")
    client.attach_sender("/queues/other", 2)
    heard = client.attach_receiver("/queues/q", credit=1)
    before = len(payload(heard))
    heard += client.attach_receiver("/queues/other", 3, credit=5)
    heard += client.say(client.transfer(data_section(b"small"), 2, delivery_id=1))
    assert payload(heard, 3).endswith(b"small")
    assert before < len(payload(heard)) < 4 * len(BODY)
    heard += received(client)
    assert payload(heard).endswith(BODY * 4)


def test_link_of_a_large_message_waits_for_the_end_and_continues(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY), data_section(b"small"), data_section(BODY))
    heard = client.attach_receiver("/queues/q", credit=3)
    consumer = next(iter(client.session().consumers.values()))
    assert consumer.obstacles(0.0) == ["a large message is being sent on its link"]
    heard += received(client)
    found = transfers(heard)
    firsts = [each for each in found if each.field("delivery_id") is not None]
    assert [each.field("delivery_id") for each in firsts] == [0, 1, 2]
    ends = [at for at, each in enumerate(found) if not each.field("more")]
    assert found[ends[1]].payload.endswith(b"small")
    assert len(ends) == 3


def test_small_bound_of_large_messages_in_a_single_batch(driver: BrokerDriver) -> None:
    driver.connection_limits.change(min_large_message=100_000)
    messages = [data_section(bytes([number]) * size) for number, size in enumerate((110_000, 10, 90_000, 120_000, 3))]
    client = filled(driver, *messages)
    heard = client.attach_receiver("/queues/q", credit=10) + received(client)
    found: list[bytes] = [b""]
    for each in transfers(heard):
        found[-1] += each.payload
        if not each.field("more"):
            found.append(b"")
    assert [each.endswith(message) for each, message in zip(found, messages, strict=False)] == [True] * 5
    assert found[5:] == [b""]


def test_frames_stop_at_the_window_of_the_session_and_go_on(driver: BrokerDriver) -> None:
    filled(driver, data_section(BODY))
    client = Amqp10Dialogue(driver, session=False, max_frame_size=20_000)
    client.begin(0, incoming_window=10)
    heard = client.attach_receiver("/queues/q", credit=1) + received(client)
    seen = 0
    while transfers(heard)[-1].field("more"):
        count = len(transfers(heard))
        assert count == seen + 10
        seen = count
        flow = {"incoming_window": 10, "next_outgoing_id": 0, "outgoing_window": 9}
        heard += client.say(performative(spec.FLOW, 0, next_incoming_id=seen, **flow)) + received(client)
    assert payload(heard).endswith(BODY)


def test_sessions_without_a_window_keep_no_piece_and_delay_no_other_session(driver: BrokerDriver) -> None:
    filled(driver, *[data_section(BODY)] * (OPEN_SOURCES + 1))
    store = PieceStore(driver.broker.large)
    client = Amqp10Dialogue(driver, session=False, max_frame_size=20_000)
    for channel in range(OPEN_SOURCES):
        client.begin(channel, incoming_window=2)
        client.attach_receiver("/queues/q", channel=channel, name=f"r{channel}")
        client.flow(1, 1, channel, incoming_window=2)
    assert len(client.connection.output.sources) == 0
    client.begin(OPEN_SOURCES)
    heard = client.attach_receiver("/queues/q", channel=OPEN_SOURCES, credit=1, name="r")
    heard += received(client, store.read)
    assert payload([each for each in heard if each.channel == OPEN_SOURCES]).endswith(BODY)
    assert not client.connection.output.sources


def test_link_that_detaches_during_a_large_message_aborts_the_delivery(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY))
    heard = client.attach_receiver("/queues/q", credit=1)
    heard += client.detach(1) + received(client)
    aborted = transfers(heard)[-1]
    assert aborted.field("aborted") is True
    assert names(heard)[-1] == "detach"
    assert client.depth("q") == 1
    heard = client.attach_receiver("/queues/q", 5, credit=1) + received(client)
    assert payload(heard, 5).endswith(BODY)


def test_deleted_queue_aborts_a_large_message_and_detaches_the_link(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY))
    heard = client.attach_receiver("/queues/q", credit=1)
    vhost = driver.broker.vhosts["/"]
    driver.broker.delete_queue(vhost.queues["q"])
    heard += received(client)
    assert transfers(heard)[-1].field("aborted") is True
    assert condition(heard[-1]) == "amqp:resource-deleted"


def test_unreadable_piece_detaches_the_link(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = filled(driver, data_section(BODY))
    store.write()
    store.fault = "disk I/O error"
    heard = client.attach_receiver("/queues/q", credit=1) + received(client, store.read)
    assert transfers(heard)[-1].field("aborted") is True
    assert condition(heard[-1]) == "amqp:internal-error"
    assert "disk I/O error" in str(heard[-1].performative.inner("error"))
    assert client.depth("q") == 1


def test_pieces_come_from_the_store_and_are_deleted_when_settled(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = filled(driver, data_section(BODY))
    store.write()
    heard = client.attach_receiver("/queues/q", credit=1) + received(client, store.read)
    assert payload(heard).endswith(BODY)
    client.settle(0, 0, accepted())
    store.write()
    assert store.pieces == {}


def test_drain_is_answered_behind_the_large_message_when_all_is_delivered(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY), data_section(b"small"))
    heard = client.attach_receiver("/queues/q")
    heard = client.flow(1, 10, drain=True) + received(client)
    assert names(heard)[-1] == "flow"
    assert names(heard).count("flow") == 1
    assert heard[-1].field("link_credit") == 0
    assert len([each for each in transfers(heard) if not each.field("more")]) == 2


def test_session_that_ends_during_a_large_message_stops_the_delivery(driver: BrokerDriver) -> None:
    client = filled(driver, data_section(BODY))
    client.attach_receiver("/queues/q", credit=1)
    heard = client.say(performative(spec.END)) + received(client)
    assert names(heard)[-1] == "end"
    assert client.depth("q") == 1
    assert not client.connection.output.sources


def test_connection_lost_during_a_large_message_releases_all_memory(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = filled(driver, data_section(BODY))
    store.write()
    client.attach_receiver("/queues/q", credit=1)
    driver.disconnect(client.connection)
    driver.run_turn()
    store.read()
    driver.run_turn()
    assert not client.connection.output.sources
    assert client.depth("q") == 1


# From and to AMQP 0-9-1


def test_large_message_of_amqp091_is_a_single_data_section(driver: BrokerDriver) -> None:
    other = Dialogue(driver).declare("q")
    other.say(publish("q", BODY, properties=Properties(message_id="7", headers={"color": "red"})))
    client = Amqp10Dialogue(driver)
    heard = client.attach_receiver("/queues/q", credit=1) + received(client)
    message = payload(heard)
    assert message.endswith(data_section(BODY))
    small = driver.broker.formats.encode(Properties(message_id="7", headers={"color": "red"}), b"")
    converted = driver.broker.formats.convert(small, driver.broker.formats.by_octet(0))
    assert converted[-30:-5] in message


def crossed(driver: BrokerDriver, message: bytes) -> tuple[bytes, bytes]:
    """Return header and body of a message of AMQP 1.0 as a client of AMQP 0-9-1 gets it."""
    filled(driver, message)
    other = Dialogue(driver)
    frames = other.say(method_frame(1, spec091.BASIC_CONSUME, queue="q", no_ack=True)) + frames_received(other)
    header = next(each for kind, _, each in frames if kind == spec091.FRAME_HEADER)
    return header, b"".join(each for kind, _, each in frames if kind == spec091.FRAME_BODY)


def test_data_sections_are_converted_to_a_single_body(driver: BrokerDriver) -> None:
    header, body = crossed(driver, data_section(BODY[:500_000]) + data_section(BODY[500_000:]) + SUM_FOOTER)
    assert body == BODY
    assert int.from_bytes(header[4:12], "big") == len(BODY)


def test_large_text_crosses_to_amqp091_in_amqp10_encoding(driver: BrokerDriver) -> None:
    text = b"\x00\x53\x77\xb1" + (1_200_000).to_bytes(4, "big") + b"x" * 1_200_000
    header, body = crossed(driver, text + SUM_FOOTER)
    assert body == text
    assert b"amqp-1.0" in header
