"""Large messages that arrive: what counts as memory, and when the input waits for the store."""

from __future__ import annotations

import pytest

from penstock.core.large_bodies import PIECE_OCTETS, UNWRITTEN_OF_A_CONNECTION
from penstock.describe.connection import CONNECTION
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from penstock.management.why import of_connection
from penstock.protocols.common.connection_limits import ConnectionLimits
from tests.support.driven_connection import Dialogue, make_driver, methods, publish, refused
from tests.support.piece_store import PieceStore

MIB = 1024 * 1024


@pytest.fixture
def driver() -> BrokerDriver:
    return make_driver(ConnectionLimits())


def send(client: Dialogue, data: bytes) -> None:
    """Send octets as a socket does, and let the broker handle what it reads."""
    driver = client.driver
    for start in range(0, len(data), 65536):
        driver.scheduler.receive(client.connection, data[start : start + 65536])
        serve(driver)


def serve(driver: BrokerDriver) -> None:
    """Let the broker handle input that waits."""
    while driver.scheduler.begin_turn():
        driver.scheduler.serve()


def test_without_a_store_all_that_came_counts_as_memory(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(2 * MIB))[: MIB + 500_000])
    partial = client.connection.services.partial_messages
    assert MIB < partial.bytes < 2 * MIB
    assert client.connection.arriving == partial.bytes
    driver.disconnect(client.connection)
    driver.run_turn()
    assert partial.bytes == 0


def test_with_a_store_only_the_incomplete_piece_counts_as_partial(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(2 * MIB))[:500_000])
    assert 0 < client.connection.arriving < PIECE_OCTETS
    assert client.connection.pausing.pieces.unwritten == PIECE_OCTETS
    assert store.write() == PIECE_OCTETS
    assert client.connection.pausing.pieces.unwritten == 0


def test_the_input_waits_for_the_store_and_goes_on(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    client.confirm()
    send(client, publish("q", bytes(8 * MIB)))
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


def test_a_connection_whose_input_waits_is_not_silent(driver: BrokerDriver) -> None:
    PieceStore(driver.broker.large)
    client = Dialogue(driver, heartbeat=1)
    client.declare("q")
    send(client, publish("q", bytes(3 * MIB)))
    for seconds in range(1, 10):
        client.listen(driver.broker.now + seconds)
    assert driver.take_silent() == []
    sentences = of_connection(client.connection, driver)["sentences"]
    assert "1,048,576 bytes of its large messages are not in the store yet" in str(sentences)


def test_another_connection_is_read_meanwhile(driver: BrokerDriver) -> None:
    PieceStore(driver.broker.large)
    client, other = Dialogue(driver), Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(3 * MIB)))
    assert client.connection.busy
    send(other, publish("q", b"small"))
    assert driver.broker.vhosts["/"].queues["q"].available() == 1


def test_a_connection_that_ends_leaves_nothing(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(3 * MIB)))
    driver.disconnect(client.connection)
    driver.run_turn()
    store.write()
    store.write()
    assert store.pieces == {}
    assert driver.broker.large.unwritten == 0
    assert client.connection.services.partial_messages.bytes == 0


def test_large_message_that_waits_past_the_hold_deadline_ends_its_connection(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(3 * MIB)))
    driver.broker.large.disk_short = True
    store.write()
    assert client.connection.busy
    found = methods(client.listen(driver.broker.now + driver.broker.defaults.hold_deadline_s + 1))
    assert [method.name for method in found] == ["connection.close"]
    assert found[0].args["reply_code"] == 506
    assert "the free space of the disk, is used up" in str(found[0].args["reply_text"])
    driver.disconnect(client.connection)
    driver.run_turn()
    store.write()
    store.write()
    assert store.pieces == {}


def test_client_is_told_when_the_disk_blocks_its_large_message_and_when_it_does_no_more(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    client.confirm()
    send(client, publish("q", bytes(3 * MIB)))
    assert client.connection.busy
    assert client.listen() == [], "that it waits for a transaction of the store is nothing to tell"
    disk = driver.broker.gates.disk
    disk.fails("the disk is broken", driver.broker.now)
    (blocked,) = methods(client.listen())
    assert blocked.name == "connection.blocked"
    assert blocked.args["reason"] == ("the disk (store): the disk is broken; a large message waits 30 s at most")
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


def test_large_message_that_comes_while_the_disk_is_short_is_told_at_once(driver: BrokerDriver) -> None:
    PieceStore(driver.broker.large)
    driver.broker.gates.disk.fails("the disk is broken", driver.broker.now)
    client = Dialogue(driver)
    client.declare("q")
    client.confirm()
    send(client, publish("q", bytes(3 * MIB)))
    assert [method.name for method in methods(client.listen())] == ["connection.blocked"]
    driver.disconnect(client.connection)
    driver.run_turn()
    driver.broker.gates.disk.works(driver.broker.now)
    driver.run_turn()


def test_deadline_begins_anew_when_the_store_writes(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(8 * MIB)))
    for _ in range(4):
        client.listen(driver.broker.now + driver.broker.defaults.hold_deadline_s - 1)
        assert client.connection.busy
        store.write()
        serve(driver)
    assert not client.connection.is_closing()


def test_a_body_in_one_frame_is_not_large(driver: BrokerDriver) -> None:
    driver.connection_limits.min_large_message = 1000
    PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    client.say(publish("q", bytes(100_000)))
    assert driver.broker.large.is_idle()


@pytest.mark.parametrize(("least", "large"), [(0, False), (MIB, True), (MIB + 1, False)])
def test_bodies_are_large_from_the_setting_on(driver: BrokerDriver, least: int, large: bool) -> None:
    driver.connection_limits.min_large_message = least
    PieceStore(driver.broker.large)
    client = Dialogue(driver)
    client.declare("q")
    send(client, publish("q", bytes(MIB)))
    assert driver.broker.large.is_idle() is not large


def test_control_requests_are_put_together(driver: BrokerDriver) -> None:
    driver.connection_limits.min_large_message = 1000
    PieceStore(driver.broker.large)
    client = Dialogue(driver)
    send(client, publish("status", bytes(200_000), exchange="penstock.control"))
    assert driver.broker.large.is_idle()


def test_a_body_that_is_too_long_is_refused_as_ever(driver: BrokerDriver) -> None:
    driver.connection_limits.message_bytes_max = MIB
    client = Dialogue(driver)
    client.declare("q")
    name, code, _ = refused(client, publish("q", bytes(MIB + 1))[:1000])
    assert (name, code) == ("channel.close", 406)
