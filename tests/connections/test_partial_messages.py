"""Messages that arrive in pieces: charged as they come, bounded by connection and node, and released."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connections.client_session import SESSION_OPEN
from penstock.connections.partial_messages import PIECE_BYTES
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.protocols.amqp091.content_assembly import ContentState
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.profiles import examples
from tests.support.amqp091_frames import header
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.limited_connections import limits

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


def test_pieces_count_with_the_connection_and_the_nodes_memory_on_arrival() -> None:
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


def test_bound_of_partial_messages_closes_the_channel_that_exceeds_the_bound() -> None:
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


def test_largest_message_fits_with_the_smallest_pieces_and_bound() -> None:
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


def test_client_of_unfinished_messages_does_not_block_publishes_of_other_clients() -> None:
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
