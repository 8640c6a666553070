"""Frames: whole, in pieces, and malformed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.frames import (
    AMQP_HEADER,
    INCOMPLETE,
    SASL_HEADER,
    TLS_HEADER,
    frame,
    frame_body,
    frame_channel,
    frame_end,
    frame_kind,
    is_header,
    write_frame_start,
)
from penstock.wire.amqp10.values import FRAMING_ERROR, CodecError
from tests.profiles import examples
from tests.support.frame_splitter import FrameSplitter

FRAMES = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.integers(0, 65535), st.binary(max_size=30)), min_size=1, max_size=5
)


def test_protocol_headers_are_those_of_version_1_0_0() -> None:
    assert (AMQP_HEADER, TLS_HEADER, SASL_HEADER) == (b"AMQP\0\1\0\0", b"AMQP\2\1\0\0", b"AMQP\3\1\0\0")
    for header in (AMQP_HEADER, TLS_HEADER, SASL_HEADER):
        assert all(is_header(header[:size]) for size in range(9))
    assert not is_header(b"AMQP\0\0\x09\1")
    assert not is_header(b"GET / HT")


@settings(max_examples=examples(300))
@given(FRAMES, st.lists(st.integers(1, 20), min_size=1))
def test_frames_are_split_however_they_arrive(sent: list[tuple[int, int, bytes]], sizes: list[int]) -> None:
    data = b"".join(frame(channel, body, kind) for kind, channel, body in sent)
    splitter = FrameSplitter(512)
    found: list[tuple[int, int, bytes]] = []
    pos = 0
    while pos < len(data):
        size = sizes[pos % len(sizes)]
        found += [(each.kind, each.channel, each.body) for each in splitter.feed(data[pos : pos + size])]
        pos += size
        assert len(splitter.unparsed) < 512
    assert found == sent
    assert splitter.unparsed == b""


def test_header_comes_before_the_frames() -> None:
    splitter = FrameSplitter(512)
    assert splitter.take_header(b"AMQP\0") == b""
    assert splitter.take_header(b"\1\0\0" + frame(3, b"abc")) == AMQP_HEADER
    assert [(each.channel, each.body) for each in splitter.feed(b"")] == [(3, b"abc")]


def test_empty_frame_is_a_heartbeat() -> None:
    assert frame(0) == b"\0\0\0\x08\x02\0\0\0"
    assert [each.body for each in FrameSplitter(512).feed(frame(0))] == [b""]


def test_extended_header_is_skipped() -> None:
    data = b"\0\0\0\x0f\x03\0\0\x05extdabc"
    assert frame_end(data, 0, len(data), 512) == len(data)
    assert data[frame_body(data, 0) :] == b"abc"
    assert [(each.kind, each.channel, each.body) for each in FrameSplitter(512).feed(data)] == [(0, 5, b"abc")]


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("00000007 02 00 0000", "a frame of 7 bytes; at least 8"),
        ("00000000 02 00 0000", "a frame of 0 bytes"),
        ("00000201 02 00 0000", "a frame of 513 bytes; at least 8 and at most 512 are valid"),
        ("ffffffff 02 00 0000", "a frame of 4294967295 bytes"),
        ("00000010 01 00 0000", "a frame of 16 bytes whose body begins after 4 bytes"),
        ("00000010 00 00 0000", "whose body begins after 0 bytes"),
        ("00000010 05 00 0000", "whose body begins after 20 bytes"),
        ("00000010 02 02 0000", "a frame of the unknown type 2"),
    ],
)
def test_malformed_frame_is_refused_at_its_eighth_byte(start: str, reason: str) -> None:
    data = bytes.fromhex(start)
    assert frame_end(data, 0, 7, 512) == INCOMPLETE
    with pytest.raises(CodecError) as caught:
        frame_end(data, 0, 8, 512)
    assert reason in str(caught.value)
    assert caught.value.condition == FRAMING_ERROR


def test_parts_of_a_frame_in_place() -> None:
    data = b"...." + frame(65535, encode(spec.CLOSE), spec.FRAME_SASL)
    assert frame_end(data, 4, len(data), 512) == len(data)
    assert frame_end(data, 4, len(data) - 1, 512) == INCOMPLETE
    assert (frame_kind(data, 4), frame_channel(data, 4), frame_body(data, 4)) == (1, 65535, 12)
    out = BytesWriter()
    write_frame_start(out, 8, 65535)
    assert out.getvalue() == frame(65535)
