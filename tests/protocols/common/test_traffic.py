"""Octets of a connection, and their rates."""

from __future__ import annotations

from penstock.protocols.common.traffic import Traffic
from tests.support.driven_connection import Dialogue, make_driver, publish


def counts(traffic: Traffic) -> tuple[int, int, int, int]:
    return int(traffic.received), int(traffic.sent), int(traffic.reads), int(traffic.writes)


def test_traffic_counts_what_a_connection_reads_and_writes() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    client.declare("q")
    before = counts(client.connection.peer.traffic)
    assert min(before) > 0
    frames = publish("q", b"x" * 100)
    client.connection.receive(frames)
    client.connection.receive_later(frames)
    received, sent, reads, writes = counts(client.connection.peer.traffic)
    assert (received - before[0], reads - before[2]) == (2 * len(frames), 2)
    assert (sent, writes) == (before[1], before[3])
    client.connection.output.buffer.write(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    taken = client.connection.take_output()
    assert counts(client.connection.peer.traffic)[1::2] == (sent + len(taken), writes + 1)
    assert client.connection.take_output() == b""
    assert counts(client.connection.peer.traffic)[3] == writes + 1, "nothing to write is no write"


def test_traffic_has_rates_since_the_last_sample_and_first_since_the_connection_was_opened() -> None:
    traffic = Traffic()
    traffic.count_received(1000)
    traffic.count_sent(10)
    traffic.sample(14.0, 12.0)
    assert (traffic.received_rate, traffic.sent_rate) == (500.0, 5.0)
    traffic.count_sent(40)
    traffic.sample(18.0, 12.0)
    assert (traffic.received_rate, traffic.sent_rate) == (0.0, 10.0)
    traffic.count_sent(40)
    traffic.sample(18.0, 12.0)
    assert traffic.sent_rate == 10.0, "no time has passed"
    traffic.sample(20.0, 12.0)
    assert traffic.sent_rate == 20.0, "and nothing was lost"


def test_traffic_of_what_ends_is_added_up() -> None:
    one, other = Traffic(), Traffic()
    one.count_received(3)
    other.count_received(4)
    other.count_sent(5)
    one.add(other)
    assert counts(one) == (7, 5, 2, 1)
