"""Heartbeats and idle time-outs by the clock: sent in time, and silent peers closed."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition
from tests.support.driven_connection import Dialogue, make_driver, publish


def beating(driver: BrokerDriver, interval_s: int) -> Dialogue:
    """A client that has agreed on an interval, at 100 s."""
    driver.begin(100.0)
    return Dialogue(driver, heartbeat=interval_s)


def beats(client: Dialogue, until: float, says: bool = True) -> list[float]:
    """Let the broker's timer run, as its event loop does; returns when heartbeats came (`says`: both ways)."""
    driver, came = client.driver, []
    while (due := driver.next_deadline()) is not None and due <= until:
        driver.begin(due)
        if says:
            client.connection.receive(spec.FRAME_HEARTBEAT.to_bytes(1, "big") + bytes(6) + b"\xce")
        frames = client.listen(due)
        assert {kind for kind, _, _ in frames} <= {spec.FRAME_HEARTBEAT}
        came += [due] * len(frames)
    return came


@pytest.mark.parametrize("interval_s", [1, 2, 5, 60])
def test_heartbeat_is_sent_every_half_interval(interval_s: int) -> None:
    client = beating(make_driver(), interval_s)
    assert beats(client, 100.0 + 4 * interval_s) == [100.0 + half * interval_s / 2 for half in range(1, 9)]


def test_heartbeat_is_sent_half_an_interval_after_other_output() -> None:
    client = beating(make_driver(), 10)
    client.driver.begin(104.0)
    client.declare("q")
    assert beats(client, 115.0) == [109.0, 114.0]


def test_heartbeats_of_many_connections_share_times(driver: BrokerDriver) -> None:
    clients = []
    for number in range(40):
        driver.begin(100.0 + number / 40)
        clients.append(Dialogue(driver, heartbeat=60))
    times: set[float] = set()
    while (due := driver.next_deadline()) is not None and due <= 131.0:
        driver.begin(due)
        for client in clients:
            if client.listen(due):
                times.add(due)
    assert times == {130.0}
    assert driver.next_deadline() == 160.0


def test_connection_without_a_heartbeat_interval_has_no_timer() -> None:
    assert beating(make_driver(), 0).driver.next_deadline() is None


@pytest.mark.parametrize("interval_s", [1, 60])
def test_silent_peer_is_given_up_after_two_intervals(interval_s: int) -> None:
    driver = make_driver()
    client = beating(driver, interval_s)
    beats(client, 100.0 + 2 * interval_s - 0.001, says=False)
    assert driver.take_silent() == []
    driver.begin(100.0 + 2 * interval_s)
    assert not driver.run_turn()
    assert driver.take_silent() == [client.connection]
    driver.disconnect(client.connection)
    assert driver.next_deadline() is None


def test_input_of_any_kind_is_a_sign_of_life(driver: BrokerDriver) -> None:
    client = beating(driver, 1)
    for step in range(1, 20):
        driver.begin(100.0 + step * 0.9)
        client.say(publish("nowhere", b"x"))
    assert driver.take_silent() == []


def test_closed_connection_leaves_no_heartbeat_timer(driver: BrokerDriver) -> None:
    client = beating(driver, 1)
    client.say(method_frame(0, spec.CONNECTION_CLOSE, reply_code=200))
    driver.disconnect(client.connection)
    assert driver.next_deadline() is None


def test_empty_frame_is_sent_after_half_of_the_peers_time_out() -> None:
    driver = make_driver(now=100.0)
    client = Amqp10Dialogue(driver, idle_time_out=10_000)
    assert client.listen_raw(104.9) == b""
    assert client.listen_raw(105.0) == bytes((0, 0, 0, 8, 2, 0, 0, 0))


def test_silent_peer_is_closed_after_twice_the_announced_time() -> None:
    driver = make_driver(now=100.0)
    client = Amqp10Dialogue(driver)
    assert client.listen(219.0) == []
    (closed,) = client.listen(220.0)
    assert condition(closed) == "amqp:resource-limit-exceeded"


def test_memory_of_a_large_output_is_given_back_at_the_next_beat(driver: BrokerDriver) -> None:
    client = beating(driver, 10)
    before = client.connection.output.buffer
    client.declare("q")
    client.say(publish("q", bytes(100_000)))
    driver.begin(104.0)
    assert any(len(payload) == 100_000 for _, _, payload in client.consume("q"))
    assert client.connection.output.buffer is before
    assert beats(client, 110.0) == [109.0]
    assert client.connection.output.buffer is not before
    assert any(payload == b"next" for _, _, payload in client.say(publish("q", b"next")))
