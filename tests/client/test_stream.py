"""Frames out of a socket, however the octets are cut; octets into it, however slow the other side is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import ConnectionClosed
from penstock.client.stream import DIRECT_BYTES, RECEIVE_BYTES, Stream
from penstock.wire.amqp091.codec import CodecError, frame
from tests.support.brokers import PATIENCE


@pytest.fixture
def pair() -> Iterator[tuple[Stream, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(PATIENCE)
        yield Stream(ours, 1 << 24), theirs


def frames_of(stream: Stream) -> list[tuple[int, int, bytes]]:
    found = []
    while (one := stream.next_frame()) is not None:
        found.append((one[0], one[1], bytes(one[2])))
    return found


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 65535), st.binary(max_size=30)), max_size=8), st.data())
def test_frames_are_found_however_the_octets_are_cut(sent: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    octets = b"".join(frame(*one) for one in sent)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = Stream(ours, 4096)
        found = []
        while octets:
            cut = data.draw(st.integers(1, len(octets)))
            theirs.sendall(octets[:cut])
            octets = octets[cut:]
            assert stream.fill(PATIENCE)
            found += frames_of(stream)
    assert found == sent


def test_frames_are_found_across_the_end_of_the_buffer_and_when_they_are_larger_than_it(
    pair: tuple[Stream, socket.socket],
) -> None:
    stream, theirs = pair
    sizes = [100_000] * 7 + [RECEIVE_BYTES * 3, 0, 1, RECEIVE_BYTES - 8, RECEIVE_BYTES, 5]
    sent = [(3, number, bytes([number]) * size) for number, size in enumerate(sizes)]
    sender = threading.Thread(target=theirs.sendall, args=(b"".join(frame(*one) for one in sent),))
    sender.start()
    found: list[tuple[int, int, bytes]] = []
    while len(found) < len(sent):
        assert stream.fill(PATIENCE)
        found += frames_of(stream)
    sender.join()
    assert found == sent


def test_nothing_within_the_time_is_no_error(pair: tuple[Stream, socket.socket]) -> None:
    stream, _ = pair
    assert not stream.fill(0)
    assert not stream.fill(0.01)


def test_frame_larger_than_agreed_is_refused_before_it_is_here(pair: tuple[Stream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.sendall(bytes.fromhex("01 0000 7fffffff"))
    assert stream.fill(PATIENCE)
    with pytest.raises(CodecError, match="larger than 16777216"):
        stream.next_frame()


def test_frame_without_its_end_mark_is_refused(pair: tuple[Stream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.sendall(bytes.fromhex("08 0000 00000000 cf"))
    assert stream.fill(PATIENCE)
    with pytest.raises(CodecError, match="end mark"):
        stream.next_frame()


def test_end_without_a_word_is_told(pair: tuple[Stream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.close()
    with pytest.raises(ConnectionClosed, match="without giving a reason"):
        stream.fill(PATIENCE)
    stream.out += b"x"
    with pytest.raises(ConnectionClosed, match=r"[Bb]roken pipe"):
        stream.flush(5, lambda: None)


def test_what_does_not_go_in_time_goes_with_the_next_call(pair: tuple[Stream, socket.socket]) -> None:
    stream, theirs = pair
    data = bytes(range(256)) * (16 << 10)  # 4 MiB, more than a socket buffers
    stream.out += data
    assert not stream.flush(0.01, lambda: None)
    assert 0 < stream.unsent < len(data)
    received = bytearray()

    def receive_all() -> None:
        while len(received) < len(data):
            received.extend(theirs.recv(1 << 20))

    reader = threading.Thread(target=receive_all)
    reader.start()
    assert stream.flush(PATIENCE, lambda: None)
    reader.join()
    assert received == data
    assert stream.unsent == 0


def test_two_that_write_without_reading_first_do_not_wait_for_each_other_for_ever(
    pair: tuple[Stream, socket.socket],
) -> None:
    stream, theirs = pair
    data = bytes(4 << 20)
    read = 0

    def read_what_came() -> None:
        nonlocal read
        while stream.fill(0):
            read += sum(len(payload) for _, _, payload in frames_of(stream))

    def write_all_and_only_then_read() -> None:
        for start in range(0, len(data), 100_000):
            theirs.sendall(frame(3, 1, data[start : start + 100_000]))
        left = len(data)
        while left:
            left -= len(theirs.recv(1 << 20))

    other = threading.Thread(target=write_all_and_only_then_read)
    other.start()
    stream.out += data
    assert stream.flush(PATIENCE, read_what_came)
    other.join()
    while read < len(data):
        assert stream.fill(PATIENCE)
        read += sum(len(payload) for _, _, payload in frames_of(stream))
    assert read == len(data)


def test_payload_is_received_where_it_belongs(pair: tuple[Stream, socket.socket]) -> None:
    stream, theirs = pair
    octets = bytes(range(256)) * 4_000
    frames = [(3, 1, octets), (3, 1, b"small"), (3, 2, octets[::-1])]
    sender = threading.Thread(target=theirs.sendall, args=(b"".join(frame(*one) for one in frames),))
    sender.start()
    found: list[tuple[int, int, bytes]] = []
    directly = 0
    while len(found) < len(frames):
        assert stream.fill(PATIENCE)
        found += frames_of(stream)
        partial = stream.partial_frame()
        if partial is not None:
            assert partial[0] == 3
            target = bytearray(partial[2])
            stream.receive_into(memoryview(target))
            assert stream.partial_frame() is None
            directly += 1
    sender.join()
    assert found == frames
    assert directly >= 1


@given(st.integers(1, 60_000), st.lists(st.integers(1, 70_000), max_size=4))
def test_direct_payloads_are_whole_however_the_octets_are_cut(size: int, cuts: list[int]) -> None:
    octets = frame(3, 7, (b"0123456789" * 8_000)[: DIRECT_BYTES + size]) + frame(1, 0, b"method")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = Stream(ours, 1 << 20)
        found: list[tuple[int, int, bytes]] = []
        for cut in (*cuts, len(octets)):
            sent, octets = octets[:cut], octets[cut:]
            sender = threading.Thread(target=theirs.sendall, args=(sent,))
            sender.start()
            while stream.fill(0) or sender.is_alive():
                found += frames_of(stream)
                partial = stream.partial_frame()
                if partial is not None:
                    stream.receive_into(memoryview(bytearray(partial[2])))
            sender.join()
        while stream.fill(0):
            found += frames_of(stream)
    assert [(kind, number, len(payload)) for kind, number, payload in found] == [(3, 7, DIRECT_BYTES + size), (1, 0, 6)]
    assert found[0][2] == (b"0123456789" * 8_000)[: DIRECT_BYTES + size]


def test_direct_payload_without_its_end_mark_is_refused(pair: tuple[Stream, socket.socket]) -> None:
    stream, theirs = pair
    octets = frame(3, 1, bytes(DIRECT_BYTES * 2))
    theirs.sendall(octets[:20])
    assert stream.fill(PATIENCE)
    assert stream.next_frame() is None
    stream.receive_into(memoryview(bytearray(DIRECT_BYTES * 2)))
    theirs.sendall(octets[20:-1] + b"\0")

    def read() -> None:
        while stream.next_frame() is None:
            assert stream.fill(PATIENCE)

    with pytest.raises(CodecError, match="end mark"):
        read()
