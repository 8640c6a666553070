"""Output of a connection: its bounds, wake-ups, and replies that wait for the disk."""

from __future__ import annotations

from librt.strings import BytesWriter

from penstock.connections.connection_output import (
    OPEN_SOURCES,
    OUTPUT_FULL,
    OUTPUT_LEFT_UNREAD,
    SHARE_OCTETS,
    SOURCES_FULL,
    ConnectionOutput,
    OutputSource,
)
from penstock.core.large_bodies import Parts
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import drain, methods, publish
from tests.support.durable_queue import MANY, PURGE, SLICE, DurableQueue


def test_connection_output_takes_no_deliveries_until_the_peer_has_read() -> None:
    output = ConnectionOutput()
    output.buffer.write(bytes(OUTPUT_FULL - 1))
    output.bound()
    assert output.is_open()
    output.buffer.write(b"x")
    output.bound()
    assert not output.is_open()
    assert len(output.take()) == OUTPUT_FULL
    assert not output.is_open(), "taken is not yet read"
    output.drained()
    assert output.is_open()


def test_connection_output_is_left_unread_beyond_the_second_bound() -> None:
    output = ConnectionOutput()
    output.buffer.write(bytes(OUTPUT_LEFT_UNREAD))
    assert not output.is_left_unread()
    output.buffer.write(b"x")
    assert output.is_left_unread()


def test_connection_output_waits_for_no_disk_before_the_connection_is_open() -> None:
    output = ConnectionOutput()
    output.await_change(0)
    output.await_deliveries()
    assert not output.waits_for_disk()


class Source(OutputSource):
    """Writes shares of 64 KiB, so many of them."""

    def __init__(self, output: ConnectionOutput, shares: int, mark: bytes = b"x") -> None:
        self.output = output
        self.shares = shares
        self.mark = mark
        self.ended = False

    def write_some(self, out: BytesWriter, parts: Parts) -> bool:
        out.write(self.mark)
        parts += [out.getvalue(), self.mark * (SHARE_OCTETS - 1)]
        out.truncate(0)
        self.shares -= 1
        if self.shares == 0:
            self.output.close_source(self)
        return self.shares > 0

    def end(self) -> None:
        self.ended = True
        self.output.close_source(self)


def marks(data: bytes) -> str:
    """Return the first octet of each share."""
    return "".join(chr(data[at]) for at in range(0, len(data), SHARE_OCTETS))


def test_sources_take_turns_until_the_output_is_full() -> None:
    output = ConnectionOutput()
    for mark in (b"a", b"b"):
        output.open_source(Source(output, 5, mark))
    output.buffer.write(b"<")
    first: Parts = []
    assert output.fill(first) == SOURCES_FULL
    assert marks(b"".join(first)[1:]) == "abababab"
    second: Parts = []
    assert output.fill(second) == 2 * SHARE_OCTETS
    assert marks(b"".join(second)) == "ab"
    assert output.take() == b""
    assert not output.sources


def test_buffer_whose_bytes_became_parts_is_reused() -> None:
    output = ConnectionOutput()
    output.open_source(Source(output, 1))
    buffer = output.buffer
    buffer.write(bytes(OUTPUT_FULL - 1))
    output.fill([])
    assert output.renew() is not buffer
    assert output.renew() is output.buffer


def test_open_sources_are_bounded_and_the_next_begins_when_a_source_closes() -> None:
    output = ConnectionOutput()
    sources = [Source(output, 2, bytes([ord("a") + number])) for number in range(OPEN_SOURCES + 2)]
    for source in sources:
        output.open_source(source)
    assert [source.is_open for source in sources] == [True] * OPEN_SOURCES + [False] * 2
    output.close_source(sources[-1])
    found, parts = "", list[bytes | memoryview]()
    while output.fill(parts):
        found += marks(b"".join(parts))
        parts = []
    assert found == "abcdabcdee"


def test_output_sources_end_with_the_connection() -> None:
    output = ConnectionOutput()
    sources = [Source(output, 2) for _ in range(OPEN_SOURCES + 2)]
    for source in sources:
        output.open_source(source)
    output.end()
    assert all(source.ended and not source.is_open for source in sources)
    assert not output.sources


DECLARE = method_frame(1, spec.QUEUE_DECLARE, queue="durable", durable=True)


def test_purge_beyond_the_hold_deadline_is_answered_unless_the_disk_fails() -> None:
    kept = DurableQueue()
    hold_deadline_s = kept.broker.defaults.hold_deadline_s
    kept.ask(PURGE)
    for _ in range(MANY // SLICE):
        kept.driver.begin(kept.broker.now + hold_deadline_s + 1)
        kept.driver.run_turn()
        assert kept.client.connection.output.waits_for_disk()
    while kept.journal.removals.pending():
        kept.turn()
    kept.write()
    assert kept.replies() == ["queue.purge-ok"]
    kept.fill(0, MANY)
    kept.write()
    kept.ask(PURGE)
    while kept.journal.removals.pending():
        kept.turn()
    kept.driver.begin(kept.broker.now + 2 * hold_deadline_s + 1)
    kept.driver.run_turn()
    assert kept.replies() == ["connection.close"]


def test_purge_of_a_closed_connection_is_not_answered() -> None:
    kept = DurableQueue()
    kept.ask(PURGE)
    kept.client.connection.on_disconnect()
    while kept.journal.removals.pending():
        kept.turn()
    assert not kept.journal.open.listeners
    kept.write()
    assert kept.after_a_kill() == []


def blocked_by_a_transient_queue(octets: bytes) -> DurableQueue:
    """A client whose queue t takes one message; it sends that, and what else is given, in a turn of its own."""
    kept = DurableQueue(0)
    kept.client.declare("t", capacity_messages=1)
    for each in (octets, publish("t", b"1")) if octets else (publish("t", b"1"), DECLARE):
        kept.ask(each)
        kept.turn()
    assert kept.client.connection.output.waits_for_disk()
    return kept


def test_notices_pass_replies_that_wait_for_the_disk() -> None:
    kept = blocked_by_a_transient_queue(DECLARE)
    assert [method.name for method in methods(kept.client.listen())] == ["connection.blocked"]
    drain(kept.driver, "t")
    assert [method.name for method in methods(kept.client.listen())] == ["connection.unblocked"]
    kept.write()
    assert kept.replies() == ["queue.declare-ok"]


def test_notice_that_passes_is_not_lost_when_the_wait_ends_first() -> None:
    kept = blocked_by_a_transient_queue(DECLARE)
    kept.write()
    assert kept.replies() == ["connection.blocked", "queue.declare-ok"]


def test_notice_never_overtakes_an_earlier_notice() -> None:
    kept = blocked_by_a_transient_queue(b"")
    drain(kept.driver, "t")
    assert kept.client.listen() == []
    kept.write()
    assert kept.replies() == ["connection.blocked", "queue.declare-ok", "connection.unblocked"]
