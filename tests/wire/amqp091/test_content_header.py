"""Content headers: body size, properties, and the header checked in place against the codec."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pamqp import commands, header

from penstock.content.properties import Properties
from penstock.wire.amqp091.codec import CodecError, decode_table, encode_table
from penstock.wire.amqp091.content_header import (
    SIZES,
    UNFIT,
    decode_properties,
    encode_header,
    property_at,
    property_flags,
    skip_properties,
    table_fits,
)
from penstock.wire.amqp091.spec import ReplyCode
from tests.profiles import examples
from tests.support import amqp091_strategies

ALL = sorted(set(amqp091_strategies.PROPERTIES) - {"cluster_id"})
"""The properties that pamqp lets see: cluster-id it calls reserved."""

sizes = st.integers(0, 2**64 - 1)


@given(sizes, amqp091_strategies.properties)
def test_header_comes_back_as_it_went_out(size: int, given_properties: dict[str, object]) -> None:
    properties = Properties(**given_properties)  # type: ignore[arg-type]
    assert decode_properties(encode_header(size, properties)) == (size, properties)
    assert properties.as_dict() == given_properties


@given(sizes, amqp091_strategies.properties)
def test_pamqp_reads_the_same_from_our_headers(size: int, given_properties: dict[str, object]) -> None:
    given_properties["timestamp"] = 1_700_000_000  # pamqp guesses milliseconds from large ones
    given_properties.pop("cluster_id", None)
    theirs = header.ContentHeader()
    theirs.unmarshal(encode_header(size, Properties(**given_properties)))  # type: ignore[arg-type]
    assert theirs.body_size == size
    read = {name: getattr(theirs.properties, _pamqp_name(name)) for name in ALL}
    assert read.pop("timestamp") == datetime.fromtimestamp(1_700_000_000, UTC)
    assert read == {name: given_properties.get(name) for name in read}


def _pamqp_name(name: str) -> str:
    return "message_type" if name == "type" else name


def test_content_header_has_the_same_bytes_as_that_of_pamqp() -> None:
    theirs = commands.Basic.Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"shop": "north", "try": 3},
        delivery_mode=2,
        priority=5,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        message_type="order",
        user_id="guest",
        app_id="till",
    )
    ours = Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"shop": "north", "try": 3},
        delivery_mode=2,
        priority=5,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        type="order",
        user_id="guest",
        app_id="till",
    )
    expected = header.ContentHeader(0, 17, theirs).marshal()
    size, read = decode_properties(expected)
    assert (size, read) == (17, ours)
    # pamqp picks the smallest integer type for the header `try`, we write the I that every client reads.
    without_numbers = Properties(**(ours.as_dict() | {"headers": {"shop": "north"}}))  # type: ignore[arg-type]
    theirs.headers = {"shop": "north"}
    assert encode_header(17, without_numbers) == header.ContentHeader(0, 17, theirs).marshal()


def test_absent_properties_are_none_and_present_but_empty_ones_are_not() -> None:
    _, properties = decode_properties(encode_header(0, Properties(content_type="", priority=0, headers={})))
    assert (properties.content_type, properties.priority, properties.headers) == ("", 0, {})
    assert properties.message_id is None


def test_timestamp_in_milliseconds_passes_unchanged() -> None:
    properties = Properties(timestamp=1_700_000_000_000)
    assert decode_properties(encode_header(0, properties))[1].timestamp == 1_700_000_000_000


def test_properties_show_present_values_only() -> None:
    assert repr(Properties(priority=3, type="order")) == "Properties(priority=3, type='order')"


def test_properties_may_change_and_so_cannot_be_hashed() -> None:
    with pytest.raises(TypeError):
        hash(Properties())


@pytest.mark.parametrize(
    "properties",
    [
        Properties(priority=256),
        Properties(delivery_mode=-1),
        Properties(timestamp=2**64),
        Properties(message_id="m" * 256),
        Properties(headers={"x": 2**64}),
    ],
    ids=repr,
)
def test_property_that_does_not_fit_is_refused(properties: Properties) -> None:
    with pytest.raises(CodecError):
        encode_header(0, properties)


@pytest.mark.parametrize("size", [-1, 2**64])
def test_body_size_that_does_not_fit_is_refused(size: int) -> None:
    with pytest.raises(CodecError):
        encode_header(size, Properties())


@pytest.mark.parametrize(
    ("payload", "code", "what"),
    [
        ("0032 0000 0000000000000000 0000", ReplyCode.UNEXPECTED_FRAME, "class 50"),
        ("003c 0001 0000000000000000 0000", ReplyCode.FRAME_ERROR, "weight"),
        ("003c 0000 0000000000000000 0001", ReplyCode.FRAME_ERROR, "flags"),
        ("003c 0000 0000000000000000 0002", ReplyCode.FRAME_ERROR, "flags"),
        ("003c 0000 0000000000000000 0000 00", ReplyCode.FRAME_ERROR, "1 bytes too many"),
        ("003c 0000 0000000000000000 8000 05 61", ReplyCode.FRAME_ERROR, "short string needs 5 bytes where 1"),
        ("003c 0000 0000000000000000 8000 01 ff", ReplyCode.FRAME_ERROR, "UTF-8"),
        ("003c 0000 0000000000000000 2000 00000005 0161", ReplyCode.FRAME_ERROR, "longer than the 2 bytes left"),
    ],
)
def test_malformed_header_is_refused_with_the_reason(payload: str, code: ReplyCode, what: str) -> None:
    with pytest.raises(CodecError, match=what) as caught:
        decode_properties(bytes.fromhex(payload))
    assert caught.value.code is code


SHORT = st.text(max_size=20)
NAMES = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
)


@st.composite
def properties(draw: st.DrawFn) -> Properties:
    made = Properties()
    for name in draw(st.sets(st.sampled_from(NAMES))):
        setattr(made, name, draw(SHORT))
    if draw(st.booleans()):
        made.headers = dict(draw(st.dictionaries(st.text(max_size=5), st.integers(-100, 100), max_size=3)))
    if draw(st.booleans()):
        made.delivery_mode = draw(st.integers(0, 255))
    if draw(st.booleans()):
        made.priority = draw(st.integers(0, 255))
    return made


def fits(payload: bytes) -> bool:
    """Walk over the property list of a content header's payload, inside other octets."""
    framed = b"......." + payload + b"\xce"
    flags = property_flags(framed, 7 + 12, len(framed) - 1)
    assert flags == UNFIT or flags == int.from_bytes(payload[12:14], "big")
    return flags != UNFIT


@settings(max_examples=examples(500), derandomize=True, database=None)
@given(properties())
def test_content_header_written_by_the_codec_fits(made: Properties) -> None:
    assert fits(encode_header(5, made))


EVERY_ONE = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)
"""Names in the order of the flags."""


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(properties())
def test_walk_finds_each_property_where_the_codec_wrote_it(made: Properties) -> None:
    content = b"......." + encode_header(5, made) + b"\xce"
    flags = int.from_bytes(content[19:21], "big")
    pos = 21
    for index, name in enumerate(EVERY_ONE):
        value = getattr(made, name)
        assert property_at(content, index) == (0 if value is None else pos)
        end = skip_properties(content, pos, flags, index, index + 1)
        if value is not None:
            alone = encode_header(5, Properties(**{name: value}))
            assert content[pos:end] == alone[14:]
        else:
            assert end == pos
        pos = end
    assert pos == skip_properties(content, 21, flags, 0, len(SIZES)) == len(content) - 1


@settings(max_examples=examples(500), derandomize=True, database=None)
@given(properties(), st.integers(1, 30), st.binary(min_size=1, max_size=10))
def test_list_that_is_cut_or_too_long_does_not_fit(made: Properties, less: int, more: bytes) -> None:
    payload = encode_header(5, made)
    assert not fits(payload[: max(len(payload) - less, 12)])
    assert not fits(payload + more)


@settings(max_examples=examples(3000), derandomize=True, database=None)
@given(st.binary(max_size=40))
def test_content_header_fits_exactly_if_the_codec_reads_it(octets: bytes) -> None:
    payload = b"\x00\x3c\x00\x00" + bytes(8) + octets
    try:
        decode_properties(payload)
    except CodecError:
        return  # The inside of a table or a text may be wrong although the lengths are right.
    assert fits(payload)


@settings(max_examples=examples(2000), derandomize=True, database=None)
@given(properties(), st.integers(0, 200), st.integers(0, 255))
def test_content_header_with_a_changed_byte_fits_if_the_codec_reads_it(made: Properties, at: int, octet: int) -> None:
    payload = bytearray(encode_header(5, made))
    at = 12 + at % (len(payload) - 12)
    payload[at] = octet
    try:
        decode_properties(bytes(payload))
    except CodecError:
        return
    assert fits(bytes(payload))


def test_flags_that_mean_nothing_in_class_basic_do_not_fit() -> None:
    head = b"\x00\x3c\x00\x00" + bytes(8)
    assert fits(head + b"\x00\x00")
    assert not fits(head + b"\x00\x01\x00\x00")
    assert not fits(head + b"\x00\x02")
    assert not fits(head + b"\x00")
    assert not fits(head)


@given(st.binary(max_size=40))
@example(b"\x01aZ\x00")
@example(b"\x01aF\x00\x00\x00\x02\x01a")
@example(b"\x01aA\x00\x00\x00\x01I")
@example(b"\x01aS\xff\xff\xff\xff")
def test_headers_table_fits_where_the_codec_can_read_it(entries: bytes) -> None:
    found = readable(entries)
    assume(found is not None)
    assert table_fits(entries, 0, len(entries), 1) == found


@given(amqp091_strategies.tables)
def test_headers_table_that_can_be_written_fits(table: dict[str, object]) -> None:
    octets = encode_table(table)
    assert table_fits(octets, 4, len(octets), 1)


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 2000])
def test_headers_table_fits_as_deep_as_the_codec_reads(depth: int) -> None:
    octets = b""
    for _ in range(depth - 1):
        octets = b"\x01tF" + len(octets).to_bytes(4, "big") + octets
    assert table_fits(octets, 0, len(octets), 1) == readable(octets) == (depth <= 32)


def readable(entries: bytes) -> bool | None:
    """Whether the codec reads these octets as a table; None if a name is no UTF-8, where it stops."""
    try:
        decode_table(len(entries).to_bytes(4, "big") + entries, 0)
    except CodecError as error:
        return None if "UTF-8" in error.reason else False
    return True
