"""Output of a connection: its bounds, and what wakes at room in it."""

from __future__ import annotations

from librt.strings import BytesWriter

from penstock.protocols.common.connection_output import (
    OPEN_SOURCES,
    OUTPUT_FULL,
    OUTPUT_LEFT_UNREAD,
    SHARE_OCTETS,
    ConnectionOutput,
    OutputSource,
)


def test_connection_output_takes_no_deliveries_from_its_bound_until_the_peer_has_taken_it() -> None:
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


def test_connection_output_is_left_unread_beyond_its_second_bound() -> None:
    output = ConnectionOutput()
    output.buffer.write(bytes(OUTPUT_LEFT_UNREAD))
    assert not output.is_left_unread()
    output.buffer.write(b"x")
    assert output.is_left_unread()


def test_connection_output_waits_for_no_disk_before_its_connection_is_open() -> None:
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

    def write_some(self, out: BytesWriter) -> bool:
        out.write(self.mark * SHARE_OCTETS)
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
        output.open_source(Source(output, 3, mark))
    assert output.fill() == OUTPUT_FULL
    assert marks(output.take()) == "abab"
    assert output.fill() == 2 * SHARE_OCTETS
    assert marks(output.take()) == "ab"
    assert not output.sources


def test_only_some_sources_are_open_and_the_next_begins_when_one_is_closed() -> None:
    output = ConnectionOutput()
    sources = [Source(output, 2, bytes([ord("a") + number])) for number in range(OPEN_SOURCES + 2)]
    for source in sources:
        output.open_source(source)
    assert [source.is_open for source in sources] == [True] * OPEN_SOURCES + [False] * 2
    output.close_source(sources[-1])
    found = ""
    while output.fill():
        found += marks(output.take())
    assert found == "abcdabcdee"


def test_all_sources_end_with_the_connection() -> None:
    output = ConnectionOutput()
    sources = [Source(output, 2) for _ in range(OPEN_SOURCES + 2)]
    for source in sources:
        output.open_source(source)
    output.end()
    assert all(source.ended and not source.is_open for source in sources)
    assert not output.sources
