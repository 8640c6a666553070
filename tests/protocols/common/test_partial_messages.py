"""Messages that arrive in pieces: charged as they come, bounded by connection and node, and released.

Large messages: the part that counts as memory, and input that waits for the store.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.large_bodies import PIECE_OCTETS, UNWRITTEN_OF_A_CONNECTION
from penstock.describe.session import CONNECTION
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.management.why import of_connection
from penstock.protocols.amqp091.content_assembly import ContentState
from penstock.protocols.common.client_session import SESSION_OPEN
from penstock.protocols.common.partial_messages import PIECE_BYTES
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.profiles import examples
from tests.support.amqp091_frames import header
from tests.support.driven_connection import Dialogue, make_driver, methods, publish, refused
from tests.support.large_messages import persistent, serve
from tests.support.limited_connections import limits
from tests.support.piece_store import PieceStore

KIB = 1024
MIB = 1024 * KIB


def small_hub(connection: int = 300 * KIB, memory: int = 0) -> BrokerDriver:
    """Return a driver whose messages have 128 KiB at most; of a connection so many bytes may arrive in pieces."""
    driver = make_driver(limits(frame_max=8 * KIB, message_bytes_max=128 * KIB, arriving_bytes_max=connection))
    if memory:
        level = Level(UNLIMITED, memory)
        driver.broker.gates.set_memory_capacity(Thresholds(level, Level(UNLIMITED, memory * 8 // 10), level), 0)
    return driver


def talk(driver: BrokerDriver, channels: int = 4) -> Dialogue:
    dialogue = Dialogue(driver, frame_max=8 * KIB)
    for number in range(2, channels + 1):
        assert dialogue.names(method_frame(number, spec.CHANNEL_OPEN)) == ["channel.open-ok"]
    return dialogue


def begin(dialogue: Dialogue, channel: int, announced: int = 128 * KIB, queue: str = "q") -> list[str]:
    """Announce a message; no octet of its body comes yet."""
    head = method_frame(channel, spec.BASIC_PUBLISH, routing_key=queue)
    return dialogue.names(head + header(announced, channel))


def go_on(dialogue: Dialogue, channel: int, size: int) -> list[tuple[int, str]]:
    """Send a part of its body in frames of 4 KiB; returns the channels that are closed, with the reason."""
    pieces = [frame(spec.FRAME_BODY, channel, bytes(min(4 * KIB, size - at))) for at in range(0, size, 4 * KIB)]
    return closes(dialogue, b"".join(pieces))


def closes(dialogue: Dialogue, data: bytes = b"") -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for kind, channel, payload in dialogue.say(data) if data else dialogue.listen():
        if kind == spec.FRAME_METHOD:
            method = decode_method(payload)
            if method.id == spec.CHANNEL_CLOSE:
                found.append((channel, f"{method.args['reply_code']} {method.args['reply_text']}"))
    return found


def test_pieces_count_with_their_connection_and_the_nodes_memory_as_they_come() -> None:
    driver = small_hub(memory=4 * MIB)
    dialogue = talk(driver)
    dialogue.declare("q")
    begin(dialogue, 1)
    announced = int(dialogue.connection.arriving)
    assert announced < KIB, "what is announced and has not come is no memory"
    go_on(dialogue, 1, 40 * KIB)
    assert int(dialogue.connection.arriving) == announced + 40 * KIB + 10 * PIECE_BYTES
    assert dialogue.connection.arriving == driver.services.partial_messages.pool.taken
    before = int(driver.broker.gates.other_memory.bytes)
    assert before >= 40 * KIB
    go_on(dialogue, 1, 88 * KIB)
    assert dialogue.connection.arriving == driver.services.partial_messages.pool.taken == 0
    assert int(driver.broker.gates.other_memory.bytes) == 0
    assert driver.broker.vhosts["/"].queues["q"].messages == 1


def test_bound_of_partial_messages_closes_the_channel_that_passes_it() -> None:
    driver = small_hub()
    dialogue, neighbour = talk(driver), talk(driver)
    dialogue.declare("q")
    closed: list[tuple[int, str]] = []
    for channel in range(1, 4):
        begin(dialogue, channel)
        closed += go_on(dialogue, channel, 100 * KIB)
    ((channel, reason),) = closed
    assert channel == 3
    assert reason.startswith("506 RESOURCE_ERROR - messages of this connection that have arrived in part hold")
    assert "of at most 307,200 (arriving-bytes-max)" in reason
    for channel in (1, 2):
        assert go_on(dialogue, channel, 28 * KIB) == []
    assert driver.broker.vhosts["/"].queues["q"].messages == 2
    assert begin(neighbour, 1) == []
    assert neighbour.names(method_frame(2, spec.BASIC_QOS)) == ["basic.qos-ok"]


def test_largest_message_fits_however_small_its_pieces_and_the_bound() -> None:
    driver = small_hub(connection=1, memory=256 * KIB)
    dialogue = talk(driver, 1)
    dialogue.declare("q")
    assert begin(dialogue, 1) == []
    pieces = b"".join(frame(spec.FRAME_BODY, 1, bytes(64)) for _ in range(2 * KIB))
    assert closes(dialogue, pieces) == []
    assert driver.services.partial_messages.pool.taken == 0


def test_large_content_headers_count_as_well() -> None:
    driver = small_hub(connection=160 * KIB)
    dialogue = talk(driver, 60)
    dialogue.declare("q")
    closed: list[tuple[int, str]] = []
    for channel in range(1, 61):
        header = encode_header(100, Properties(headers={"x": "h" * (7 * KIB)}))
        data = method_frame(channel, spec.BASIC_PUBLISH, routing_key="q") + frame(spec.FRAME_HEADER, channel, header)
        closed += closes(dialogue, data)
    assert len(closed) > 30
    assert dialogue.connection.arriving <= driver.services.partial_messages.connection_most()


def test_connection_with_most_partial_messages_gives_way_at_the_node_bound() -> None:
    driver = small_hub(connection=1, memory=256 * KIB)  # So the node has as much as one connection.
    hog, other = talk(driver), talk(driver)
    hog.declare("q")
    begin(hog, 2)
    go_on(hog, 2, 120 * KIB)
    begin(other, 1)
    assert go_on(other, 1, 60 * KIB) == []
    ((channel, reason),) = closes(hog)
    assert channel == 2
    assert "of all connections" in reason
    assert "this connection has the most of them" in reason
    assert go_on(other, 1, 68 * KIB) == []
    assert driver.broker.vhosts["/"].queues["q"].messages == 1
    assert driver.services.partial_messages.pool.taken == 0


def test_client_of_unfinished_messages_does_not_keep_others_from_publishing() -> None:
    driver = small_hub(connection=MIB, memory=2 * MIB)
    hogs = [talk(driver, 12) for _ in range(3)]
    hogs[0].declare("q")
    for hog in hogs:
        for channel in range(1, 13):
            begin(hog, channel)
            go_on(hog, channel, 100 * KIB)
    assert driver.services.partial_messages.pool.taken <= driver.services.partial_messages.node_most()
    other = talk(driver, 1)
    for _ in range(10):
        begin(other, 1)
        assert go_on(other, 1, 128 * KIB) == []
    assert driver.broker.vhosts["/"].queues["q"].messages == 10


ENDS = st.sampled_from(["begin", "go on", "end", "close channel", "disconnect"])


@settings(deadline=None, max_examples=examples(160))
@given(st.lists(st.tuples(ENDS, st.integers(0, 1), st.integers(1, 3), st.integers(1, 60 * KIB)), max_size=30))
def test_charge_of_partial_messages_is_released_exactly(steps: list[tuple[str, int, int, int]]) -> None:
    driver = small_hub(memory=MIB)
    dialogues = [talk(driver, 3), talk(driver, 3)]
    dialogues[0].declare("q")
    for what, who, number, size in steps:
        dialogue = dialogues[who]
        channel = dialogue.connection.engine.session(number)
        waiting = channel is not None and channel.state == SESSION_OPEN and channel.content.state != ContentState.METHOD
        if what == "disconnect":
            driver.disconnect(dialogue.connection)
            dialogues[who] = talk(driver, 3)
        elif channel is None or channel.state != SESSION_OPEN:
            continue
        elif what == "begin" and not waiting:
            begin(dialogue, number, size)
        elif what == "go on" and waiting and channel.content.octets_left > 1:
            go_on(dialogue, number, min(size, int(channel.content.octets_left) - 1))
        elif what == "end" and waiting:
            go_on(dialogue, number, int(channel.content.octets_left))
        elif what == "close channel" and not waiting:
            dialogue.say(method_frame(number, spec.CHANNEL_CLOSE))
        partial = driver.services.partial_messages
        arriving = [each for connections in partial._arriving.values() for each in connections.values()]
        there = [int(each.charge) for of_one in arriving for each in of_one.messages]
        assert sum(there) == partial.pool.taken == int(driver.broker.gates.other_memory.bytes)
        assert sum(int(one.connection.arriving) for one in dialogues) == driver.services.partial_messages.pool.taken
    for dialogue in dialogues:
        driver.disconnect(dialogue.connection)
    assert driver.services.partial_messages.pool.taken == int(driver.broker.gates.other_memory.bytes) == 0
    assert driver.services.partial_messages._arriving == {}


def send(client: Dialogue, data: bytes) -> None:
    """Send octets as a socket does, and let the broker handle what it reads."""
    driver = client.driver
    for start in range(0, len(data), 65536):
        driver.scheduler.receive(client.connection, data[start : start + 65536])
        serve(driver)


def leaves_nothing(client: Dialogue, store: PieceStore) -> None:
    """Let a client go, and the store delete what had come of its messages."""
    client.driver.disconnect(client.connection)
    client.driver.run_turn()
    store.write()
    store.write()
    assert store.pieces == {}
    assert client.driver.broker.large.unwritten == 0


def test_partial_message_without_a_store_counts_whole_as_memory(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(2 * MIB))[: MIB + 500_000])
    partial = client.connection.services.partial_messages
    assert MIB < partial.pool.taken < 2 * MIB
    assert client.connection.arriving == partial.pool.taken
    driver.disconnect(client.connection)
    driver.run_turn()
    assert partial.pool.taken == 0


def test_partial_message_with_a_store_counts_its_incomplete_piece_only(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(2 * MIB))[:500_000])
    assert 0 < client.connection.arriving < PIECE_OCTETS
    assert client.connection.pausing.pieces.unwritten == PIECE_OCTETS
    assert store.write() == 0, "its body is incomplete, and nobody waits for room"
    send(client, persistent("q", bytes(2 * MIB))[500_000:])
    assert store.write() == 2 * MIB
    assert client.connection.pausing.pieces.unwritten == 0


def test_input_waits_for_the_store_and_goes_on(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q").confirm()
    send(client, persistent("q", bytes(32 * MIB)))
    queue = driver.broker.vhosts["/"].queues["q"]
    for filled in range(8):
        assert queue.available() == (1 if filled == 7 else 0)
        assert client.connection.busy
        assert client.connection.pausing.pieces.unwritten == UNWRITTEN_OF_A_CONNECTION
        assert store.write() == UNWRITTEN_OF_A_CONNECTION
        serve(driver)
    assert not client.connection.busy
    assert queue.available() == 1
    assert [method.name for method in methods(client.listen())] == ["basic.ack"]


def test_connection_whose_input_waits_is_not_silent(driver: BrokerDriver) -> None:
    PieceStore(driver.broker.large)
    client = Dialogue(driver, heartbeat=1).declare("q")
    send(client, persistent("q", bytes(12 * MIB)))
    for seconds in range(1, 10):
        client.listen(driver.broker.now + seconds)
    assert driver.take_silent() == []
    sentences = of_connection(client.connection, driver)["sentences"]
    assert "4,194,304 bytes of its large messages are not in the store yet" in str(sentences)


def test_another_connection_is_read_meanwhile(driver: BrokerDriver) -> None:
    PieceStore(driver.broker.large)
    client, other = Dialogue(driver), Dialogue(driver)
    client.declare("q")
    send(client, persistent("q", bytes(12 * MIB)))
    assert client.connection.busy
    send(other, publish("q", b"small"))
    assert driver.broker.vhosts["/"].queues["q"].available() == 1


def test_connection_that_ends_leaves_nothing_of_a_partial_message(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(12 * MIB)))
    leaves_nothing(client, store)
    assert driver.broker.large.unwritten == 0
    assert client.connection.services.partial_messages.pool.taken == 0


def test_large_message_that_waits_past_the_hold_deadline_ends_its_connection(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(12 * MIB)))
    driver.broker.large.disk_short = True
    store.write()
    assert client.connection.busy
    found = methods(client.listen(driver.broker.now + driver.broker.defaults.hold_deadline_s + 1))
    assert [method.name for method in found] == ["connection.close"]
    assert found[0].args["reply_code"] == 506
    assert "the free space of the disk, is used up" in str(found[0].args["reply_text"])
    leaves_nothing(client, store)


def test_client_is_blocked_and_unblocked_with_its_large_message(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q").confirm()
    send(client, persistent("q", bytes(12 * MIB)))
    assert client.connection.busy
    assert client.listen() == [], "that it waits for a transaction of the store is nothing to tell"
    disk = driver.broker.gates.disk
    disk.fails("the disk is broken", driver.broker.now)
    (blocked,) = methods(client.listen())
    assert blocked.name == "connection.blocked"
    assert blocked.args["reason"] == ("the disk (store): the disk is broken; a large message waits 25 s at most")
    assert CONNECTION.row(client.connection, reading(driver))["state"] == "blocked"
    disk.works(driver.broker.now)
    assert [method.name for method in methods(client.listen())] == ["connection.unblocked"]
    assert CONNECTION.row(client.connection, reading(driver))["state"] == "running"
    disk.fails("the disk is broken", driver.broker.now)
    assert [method.name for method in methods(client.listen())] == ["connection.blocked"]
    while client.connection.busy:
        store.write()
        serve(driver)
    assert [method.name for method in methods(client.listen())] == ["connection.unblocked", "basic.ack"]


def test_large_message_while_the_disk_is_short_is_blocked_at_once(driver: BrokerDriver) -> None:
    PieceStore(driver.broker.large)
    driver.broker.gates.disk.fails("the disk is broken", driver.broker.now)
    client = Dialogue(driver).declare("q").confirm()
    send(client, persistent("q", bytes(12 * MIB)))
    assert [method.name for method in methods(client.listen())] == ["connection.blocked"]
    driver.disconnect(client.connection)
    driver.run_turn()
    driver.broker.gates.disk.works(driver.broker.now)
    driver.run_turn()


def test_hold_deadline_restarts_when_the_store_writes(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(32 * MIB)))
    for _ in range(4):
        client.listen(driver.broker.now + driver.broker.defaults.hold_deadline_s - 1)
        assert client.connection.busy
        store.write()
        serve(driver)
    assert not client.connection.is_closing()


def test_body_in_one_frame_is_not_large(driver: BrokerDriver) -> None:
    driver.connection_limits.min_large_message = 1000
    PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    client.say(publish("q", bytes(100_000)))
    assert driver.broker.large.is_idle()


@pytest.mark.parametrize(("least", "large"), [(0, False), (MIB, True), (MIB + 1, False)])
def test_bodies_are_large_from_the_setting_on(driver: BrokerDriver, least: int, large: bool) -> None:
    driver.connection_limits.min_large_message = least
    PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(MIB)))
    assert driver.broker.large.is_idle() is not large


def test_control_requests_are_put_together(driver: BrokerDriver) -> None:
    driver.connection_limits.min_large_message = 1000
    PieceStore(driver.broker.large)
    client = Dialogue(driver)
    send(client, publish("status", bytes(200_000), exchange="penstock.control"))
    assert driver.broker.large.is_idle()


def test_body_that_is_too_long_is_refused_at_its_header(driver: BrokerDriver) -> None:
    driver.connection_limits.message_bytes_max = MIB
    client = Dialogue(driver).declare("q")
    name, code, _ = refused(client, publish("q", bytes(MIB + 1))[:1000])
    assert (name, code) == ("channel.close", 406)
