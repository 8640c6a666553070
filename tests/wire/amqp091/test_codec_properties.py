"""Content headers: body size and the fourteen properties."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, header

from penstock.wire.amqp091.codec import CodecError, Properties, decode_properties, encode_header
from penstock.wire.amqp091.spec import ReplyCode
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


def test_we_write_the_same_octets_as_pamqp() -> None:
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


def test_properties_show_what_is_present() -> None:
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
        ("003c 0000 0000000000000000 0000 00", ReplyCode.FRAME_ERROR, "1 octets too many"),
        ("003c 0000 0000000000000000 8000 05 61", ReplyCode.FRAME_ERROR, "short string needs 5 octets where 1"),
        ("003c 0000 0000000000000000 8000 01 ff", ReplyCode.FRAME_ERROR, "UTF-8"),
        ("003c 0000 0000000000000000 2000 00000005 0161", ReplyCode.FRAME_ERROR, "longer than the 2 octets left"),
    ],
)
def test_malformed_header_is_refused_with_the_reason(payload: str, code: ReplyCode, what: str) -> None:
    with pytest.raises(CodecError, match=what) as caught:
        decode_properties(bytes.fromhex(payload))
    assert caught.value.code is code
