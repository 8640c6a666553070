"""Large messages: the part that counts as memory, and input that waits for the store."""

from __future__ import annotations

import pytest

from penstock.core.large_bodies import PIECE_OCTETS, UNWRITTEN_OF_A_CONNECTION
from penstock.describe.session import CONNECTION
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from penstock.management.why import of_connection
from tests.support.driven_connection import Dialogue, methods, publish, refused
from tests.support.large_messages import persistent, serve
from tests.support.piece_store import PieceStore

KIB = 1024
MIB = 1024 * KIB


def send(client: Dialogue, data: bytes) -> None:
    """Send bytes as a socket does, and let the broker handle what it reads."""
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


def test_partial_message_with_a_store_counts_only_the_incomplete_piece(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(2 * MIB))[:500_000])
    assert 0 < client.connection.arriving < PIECE_OCTETS
    assert client.connection.pausing.pieces.unwritten == PIECE_OCTETS
    assert store.write() == 0, "its body is incomplete, and nobody waits for room"
    send(client, persistent("q", bytes(2 * MIB))[500_000:])
    assert store.write() == 2 * MIB
    assert client.connection.pausing.pieces.unwritten == 0


@pytest.mark.once
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


def test_connection_end_releases_a_partial_message(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(12 * MIB)))
    leaves_nothing(client, store)
    assert driver.broker.large.unwritten == 0
    assert client.connection.services.partial_messages.pool.taken == 0


def test_large_message_that_waits_past_the_hold_deadline_ends_the_connection(driver: BrokerDriver) -> None:
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


def test_client_is_blocked_and_unblocked_with_the_large_message(driver: BrokerDriver) -> None:
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


@pytest.mark.once
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


def test_body_in_a_single_frame_is_not_large(driver: BrokerDriver) -> None:
    driver.connection_limits.change(min_large_message=1000)
    PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    client.say(publish("q", bytes(100_000)))
    assert driver.broker.large.is_idle()


@pytest.mark.parametrize(("least", "large"), [(0, False), (MIB, True), (MIB + 1, False)])
def test_bodies_are_large_from_the_setting_on(driver: BrokerDriver, least: int, large: bool) -> None:
    driver.connection_limits.change(min_large_message=least)
    PieceStore(driver.broker.large)
    client = Dialogue(driver).declare("q")
    send(client, persistent("q", bytes(MIB)))
    assert driver.broker.large.is_idle() is not large


def test_control_requests_are_put_together(driver: BrokerDriver) -> None:
    driver.connection_limits.change(min_large_message=1000)
    PieceStore(driver.broker.large)
    client = Dialogue(driver)
    send(client, publish("status", bytes(200_000), exchange="penstock.control"))
    assert driver.broker.large.is_idle()


def test_body_beyond_the_limit_is_refused_at_the_header(driver: BrokerDriver) -> None:
    driver.connection_limits.change(message_bytes_max=MIB)
    client = Dialogue(driver).declare("q")
    name, code, _ = refused(client, publish("q", bytes(MIB + 1))[:1000])
    assert (name, code) == ("channel.close", 406)
